/* SPDX-License-Identifier: Apache-2.0 */
/* case.h - what the cases of the conformance suite are written with.
 *
 * A case is straight-line code over one run, cf_t: it calls the store, and helpers compare. Only the
 * first failure of a run is kept and nothing returns early, so that the ranks of a job stay in step.
 * Arrays, lists and texts belong to the run and are freed after it. Elements are reached through
 * cf_set and cf_get only: an array may lie on a device. Helpers: the thread that runs the case. */
#ifndef CF_CASE_H
#define CF_CASE_H

#include <kvstore/kvstore.h>

#include <setjmp.h>
#include <stdbool.h>

/* What a backend must offer, or lack, for a case to apply. */
enum {
    CF_WEIGHTS = 1u << 0,
    CF_NO_WEIGHTS = 1u << 1,
    CF_UPDATER = 1u << 2,
    CF_OPTIMIZER = 1u << 3,
    CF_NO_OPTIMIZER = 1u << 4,
    CF_NO_SPARSE = 1u << 5,
    CF_NO_COMPRESSION = 1u << 6,
    CF_ONE_WORKER = 1u << 7, /* the case creates a store of its own, or speaks of one process */
    CF_SPARSE = 1u << 8,
    CF_COMPRESSION = 1u << 9,
    CF_COMPRESSES_EACH = 1u << 10, /* each value of a push, not the sum of this worker's values */
    CF_STATES = 1u << 11,          /* files of optimizer states */
    CF_REPLACES =
        1u << 12,          /* a push needs neither updater nor optimizer; or there are no weights */
    CF_IN_STEP = 1u << 13, /* updates are of all workers together: a job of one, or synchronous */
    CF_ASYNC = 1u << 14,   /* each push updates by itself */
    CF_PULLS_SPARSE = 1u << 15, /* pull, pushpull and broadcast take row-sparse keys */
    CF_NO_SPARSE_PULL = 1u << 16,
    CF_LISTS = 1u << 17, /* several keys a call, several arrays a key */
    CF_NO_LISTS = 1u << 18,
    CF_NOT_ALLOWED = 1u << 19 /* arrays of this device have to be allowed, and are not */
};

typedef struct cf cf_t;

typedef struct cf_case {
    const char *id;
    const char *text;
    unsigned needs; /* CF_… */
    void (*run)(cf_t *t);
} cf_case_t;

typedef struct cf_theme {
    const cf_case_t *cases;
    size_t n_cases;
} cf_theme_t;

#define CF_THEME(cases)                                                                            \
    {                                                                                              \
        (cases), sizeof(cases) / sizeof((cases)[0])                                                \
    }

/* Memory of one kind of device. */
typedef struct cf_memory {
    const char *name;
    int32_t device_type;
    void *(*alloc)(size_t n_bytes);
    void (*free)(void *data);
    void (*write)(void *data, const void *from, size_t n_bytes);
    void (*read)(const void *data, void *to, size_t n_bytes);
} cf_memory_t;

#define CF_MAX_DIMS 16

/* Zeroed when made, with a margin on both sides that is looked at when the run ends. */
typedef struct cf_array {
    kvs_tensor_t tensor;
    int64_t shape[CF_MAX_DIMS];
    int64_t n_elems;
    int dtype; /* KVS_DTYPE_… */
    size_t n_bytes;
    char *memory; /* the margin before `tensor.data` begins here */
    struct cf_array *next;
} cf_array_t;

/* The first members are set by the runner. */
struct cf {
    kvs_store_t *store;
    const char *backend; /* the name that stores are created by */
    const kvs_option_t *options;
    size_t n_options;
    const cf_memory_t *memory;
    unsigned traits; /* CF_… that hold for the backend */
    int rank, n_workers;
    size_t number; /* of the case: keys are named by it */
    bool failed, skipped;
    char text[2048];
    struct cf_block *blocks; /* the run's memory */
    cf_array_t *arrays;
    jmp_buf out_of_memory; /* where cf_alloc goes without memory */
};

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* What was got and wanted; only the first counts. */
void cf_fail(cf_t *t, const char *format, ...) KVS_PRINTF(2, 3);
/* The rule says nothing about this backend, because … */
void cf_skip(cf_t *t, const char *format, ...) KVS_PRINTF(2, 3);

#define CF_OK(t, expr) cf_check_ok((t), (expr), #expr)
/* The call gives `want`, and the text holds `part`. */
#define CF_FAIL(t, expr, want, part) cf_check_fail((t), (expr), (want), (part), #expr)
/* Some error, whose text holds `part`. */
#define CF_REFUSED(t, expr, part) cf_check_refused((t), (expr), (part), #expr)

void cf_check_ok(cf_t *t, kvs_status_t status, const char *expr);
void cf_check_fail(cf_t *t, kvs_status_t status, kvs_status_t want, const char *part,
                   const char *expr);
void cf_check_refused(cf_t *t, kvs_status_t status, const char *part, const char *expr);

void cf_want_true(cf_t *t, bool holds, const char *what);
void cf_want_number(cf_t *t, const char *what, int64_t got, int64_t want);
void cf_want_text(cf_t *t, const char *what, const char *got, const char *want);
void cf_want_part(cf_t *t, const char *what, const char *text, const char *part);
/* An element; NaN equals NaN. `want` is exact in the array's dtype. */
void cf_want_at(cf_t *t, const char *what, const cf_array_t *array, int64_t i, double want);
void cf_want_all(cf_t *t, const char *what, const cf_array_t *array, double want);
/* The same bytes. */
void cf_want_same(cf_t *t, const char *what, const cf_array_t *got, const cf_array_t *want);
/* Every element is cf_sum(t, n_places, i). */
void cf_want_sum(cf_t *t, const char *what, const cf_array_t *array, int n_places);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Keys of this case alone, an integer and a string; `n` is below 1000. */
kvs_key_t cf_key(const cf_t *t, int n);
kvs_key_t cf_name(cf_t *t, int n);
/* The key as texts of errors show it. Lives as long as the run. */
const char *cf_key_text(cf_t *t, kvs_key_t key);
/* Memory of the run, zeroed. Never NULL: without memory the run fails at once, by longjmp. */
void *cf_alloc(cf_t *t, size_t n_bytes);

/* ---- Arrays and numbers ---------------------------------------------------------------------- */

cf_array_t *cf_new(cf_t *t, int dtype, int32_t ndim, const int64_t *shape);
cf_array_t *cf_vector(cf_t *t, int dtype, int64_t n_elems);
cf_array_t *cf_const(cf_t *t, int dtype, int64_t n_elems, double value);
/* The elements as given: CF_VALUES(t, KVS_DTYPE_float32, 1, 2, 3). */
cf_array_t *cf_values(cf_t *t, int dtype, int64_t n_elems, const double *values);
#define CF_VALUES(t, dtype, ...)                                                                   \
    cf_values((t), (dtype), (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),           \
              (const double[]){__VA_ARGS__})
/* cf_value of this rank. */
cf_array_t *cf_ranked(cf_t *t, int dtype, int64_t n_elems, int place);
void cf_fill_ranked(const cf_t *t, cf_array_t *array, int place);

/* What `rank` puts at element `i` of the array at `place` of its list: a small whole number, exact
 * in every dtype, as are the sums of a few. */
double cf_value(int rank, int place, int64_t i);
/* Its sum over all ranks and the places below `n_places`. */
double cf_sum(const cf_t *t, int n_places, int64_t i);

void cf_set(const cf_t *t, cf_array_t *array, int64_t i, double value);
double cf_get(const cf_t *t, const cf_array_t *array, int64_t i);
void cf_set_int(const cf_t *t, cf_array_t *array, int64_t i, int64_t value);
int64_t cf_get_int(const cf_t *t, const cf_array_t *array, int64_t i);
void cf_set_all(const cf_t *t, cf_array_t *array, double value);

/* Many elements at a time, with few copies from and to devices. */
typedef double (*cf_number_t)(void *arg, int64_t i);
/* Element i is number(arg, i), which is asked in order. */
void cf_set_each(const cf_t *t, cf_array_t *array, cf_number_t number, void *arg);

#define CF_BLOCK 1024
/* Begins as {.array = array}; sees elements as they were when it came to them. */
typedef struct cf_window {
    const cf_array_t *array;
    int64_t first, n;
    char bytes[CF_BLOCK * 8];
} cf_window_t;
double cf_peek(const cf_t *t, cf_window_t *window, int64_t i);
/* The value nearest to `value` in that dtype, to even if two are. */
double cf_round(int dtype, double value);
/* Whether the store takes arrays of it on the device of this run. */
bool cf_has_dtype(cf_t *t, int dtype);

/* ---- Calls ----------------------------------------------------------------------------------- */

/* The arrays of a call; CF_LIST(t, a, b). */
const kvs_arrays_t *cf_list(cf_t *t, size_t n, cf_array_t *const *arrays);
#define CF_LIST(t, ...)                                                                            \
    cf_list((t), sizeof((cf_array_t *[]){__VA_ARGS__}) / sizeof(cf_array_t *),                     \
            (cf_array_t *[]){__VA_ARGS__})
/* The same with so many for each key: CF_SPLIT(t, list, 2, 1). */
const kvs_arrays_t *cf_split(cf_t *t, const kvs_arrays_t *list, size_t n, const size_t *per_key);
#define CF_SPLIT(t, list, ...)                                                                     \
    cf_split((t), (list), sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t),                        \
             (const size_t[]){__VA_ARGS__})

/* One key; success is wanted. */
void cf_init(cf_t *t, kvs_key_t key, cf_array_t *value);
void cf_push(cf_t *t, kvs_key_t key, const kvs_arrays_t *values);
void cf_pull(cf_t *t, kvs_key_t key, cf_array_t *out);
/* `outs` NULL: in place. */
void cf_pushpull(cf_t *t, kvs_key_t key, const kvs_arrays_t *values, const kvs_arrays_t *outs);
/* The sum of `values` over all workers into `out`, by the way the backend has: init with zeros, push
 * and pull, or pushpull. The key is new. */
void cf_reduce(cf_t *t, kvs_key_t key, const kvs_arrays_t *values, cf_array_t *out);
/* Make the key known: init with `value`, or exchange it. */
void cf_use(cf_t *t, kvs_key_t key, cf_array_t *value);
bool cf_keeps_weights(const cf_t *t);
/* A store of the same backend, by `name` (NULL: as the run's own), that the case closes. */
kvs_status_t cf_create(const cf_t *t, const char *name, kvs_store_t **ret_store);

/* Options of a call that give an event. */
kvs_call_t cf_call(kvs_event_t **ret_event);
/* Wait at most 20 s, want success, free. */
void cf_finish(cf_t *t, kvs_event_t *event);

/* ---- For the runner -------------------------------------------------------------------------- */

/* Look at the margins of all arrays: something written beside one is a failure. */
void cf_check_margins(cf_t *t);
void cf_release(cf_t *t);

#endif
