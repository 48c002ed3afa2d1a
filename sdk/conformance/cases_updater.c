/* SPDX-License-Identifier: Apache-2.0 */
/* cases_updater.c - a callback of the program that changes the stored value. */
#include "themes.h"

#include <stdio.h>
#include <string.h>

enum { N = 4, MAX_CALLS = 64 };

/* What an updater of these cases has seen. Updaters run one at a time, and a case looks at it when
 * its pushes have returned. */
typedef struct record {
    int n_calls;
    struct {
        char name[64]; /* of a string key */
        int64_t number;
        kvs_dtype_t dtype;
        int32_t ndim;
        int64_t n_elems; /* of the first dimension */
        float value, stored;
    } calls[MAX_CALLS];
    int64_t fail_on;          /* the number of the key, … */
    const char *fail_on_name; /* … or its text, for which it fails after its work */
    float fails_with;         /* what it leaves then */
} record_t;

static void note(record_t *record, const kvs_key_t *key, const kvs_tensor_t *value,
                 const kvs_tensor_t *stored)
{
    int i = record->n_calls;

    if (i >= MAX_CALLS) {
        return;
    }
    record->n_calls++;
    snprintf(record->calls[i].name, sizeof(record->calls[i].name), "%s", key->str ? key->str : "");
    record->calls[i].number = key->num;
    record->calls[i].dtype = value->dtype;
    record->calls[i].ndim = value->ndim;
    record->calls[i].n_elems = value->ndim == 1 ? value->shape[0] : -1;
    record->calls[i].value = *(const float *)value->data;
    record->calls[i].stored = *(const float *)stored->data;
}

/* stored += 2 * value. The views of host stores lie on the host. */
static kvs_status_t add_double(const kvs_key_t *key, const kvs_tensor_t *value,
                               const kvs_tensor_t *stored, void *arg)
{
    record_t *record = arg;
    const float *from = value->data;
    float *to = stored->data;
    bool fails = key->str ? record->fail_on_name && strcmp(key->str, record->fail_on_name) == 0
                          : record->fail_on && key->num == record->fail_on;

    note(record, key, value, stored);
    for (int64_t i = 0; i < value->shape[0]; i++) {
        to[i] = fails ? record->fails_with : to[i] + 2 * from[i];
    }
    return fails ? kvs_fail(KVS_ERR_RANGE, "the loss exploded at %d", 42) : KVS_OK;
}

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

static void sees_sum(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    record_t *record = cf_alloc(t, sizeof(*record));
    cf_array_t *out = f32(t, 0);
    int n = t->n_workers;

    cf_init(t, key, f32(t, 10));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    cf_push(t, key, CF_LIST(t, f32(t, 1), f32(t, 2), f32(t, 4)));
    cf_push(t, key, CF_LIST(t, f32(t, 3)));
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_number(t, "calls for two pushes", record->n_calls, 2);
    cf_want_number(t, "key", record->calls[0].number, key.num);
    cf_want_text(t, "dtype of the value", kvs_dtype_name(record->calls[0].dtype), "float32");
    cf_want_number(t, "dimensions of the value", record->calls[0].ndim, 1);
    cf_want_number(t, "elements of the value", record->calls[0].n_elems, N);
    cf_want_number(t, "value of the first call", (int64_t)record->calls[0].value, 7 * n);
    cf_want_number(t, "stored at the first call", (int64_t)record->calls[0].stored, 10);
    cf_want_number(t, "value of the second call", (int64_t)record->calls[1].value, 3 * n);
    cf_want_number(t, "stored at the second call", (int64_t)record->calls[1].stored, 10 + 14 * n);
    cf_pull(t, key, out);
    cf_want_all(t, "10 + 2 * 7 + 2 * 3 of each worker", out, 10 + 20 * n);
}

static void pushpull(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    record_t *record = cf_alloc(t, sizeof(*record));
    cf_array_t *value = f32(t, 1), *out = f32(t, 0);

    cf_init(t, key, f32(t, 10));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    cf_pushpull(t, key, CF_LIST(t, value, value), CF_LIST(t, out));
    cf_want_all(t, "10 + 2 * (1 + 1) of each worker, in the out", out, 10 + 4 * t->n_workers);
    cf_want_all(t, "the value", value, 1);
    cf_pushpull(t, key, CF_LIST(t, value), NULL);
    cf_want_all(t, "and 2 * 1 more, in place", value, 10 + 6 * t->n_workers);
    cf_want_number(t, "calls for two pushpulls", record->n_calls, 2);
}

static void integer_order(cf_t *t)
{
    static const int64_t numbers[] = {30, -5, 20, INT64_C(5000000000), 0, -1};
    static const int64_t sorted[] = {-5, -1, 0, 20, 30, INT64_C(5000000000)};
    enum { N_KEYS = 6, N_ROUNDS = 8 };
    record_t *record = cf_alloc(t, sizeof(*record));
    cf_array_t *values[N_KEYS];
    kvs_key_t keys[N_KEYS];

    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = kvs_key_int(numbers[i]);
        values[i] = f32(t, 1);
    }
    CF_OK(t, kvs_store_init(t->store, keys, N_KEYS, cf_list(t, N_KEYS, values), NULL));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    for (int i = 0; i < N_ROUNDS; i++) {
        CF_OK(t, kvs_store_push(t->store, keys, N_KEYS, cf_list(t, N_KEYS, values), NULL));
    }
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_number(t, "calls", record->n_calls, N_KEYS * N_ROUNDS);
    for (int i = 0; i < N_KEYS * N_ROUNDS; i++) {
        cf_want_number(t, "key of an updater call", record->calls[i].number, sorted[i % N_KEYS]);
    }
}

static void string_order(cf_t *t)
{
    static const char *const order_of_init[] = {"pear", "apple", "fig", "date"};
    enum { N_KEYS = 4 };
    record_t *record = cf_alloc(t, sizeof(*record));
    kvs_key_t pushed[N_KEYS] = {kvs_key_str("date"), kvs_key_str("apple"), kvs_key_str("pear"),
                                kvs_key_str("fig")};
    cf_array_t *values[N_KEYS];

    for (int i = 0; i < N_KEYS; i++) {
        values[i] = f32(t, 1);
        cf_init(t, kvs_key_str(order_of_init[i]), values[i]);
    }
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    for (int i = 0; i < 3; i++) {
        CF_OK(t, kvs_store_push(t->store, pushed, N_KEYS, cf_list(t, N_KEYS, values), NULL));
    }
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_number(t, "calls", record->n_calls, 3 * N_KEYS);
    for (int i = 0; i < 3 * N_KEYS; i++) {
        cf_want_text(t, "key of an updater call", record->calls[i].name, order_of_init[i % N_KEYS]);
    }
}

static void repeated_key(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 2), cf_key(t, 1), cf_key(t, 2)};
    record_t *record = cf_alloc(t, sizeof(*record));

    CF_OK(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, f32(t, 0), f32(t, 0)), NULL));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    CF_OK(t, kvs_store_push(t->store, keys, 3, CF_LIST(t, f32(t, 1), f32(t, 2), f32(t, 4)), NULL));
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_number(t, "calls", record->n_calls, 2);
    cf_want_number(t, "value of the key that stands once", (int64_t)record->calls[0].value,
                   2 * t->n_workers);
    cf_want_number(t, "value of the key that stands twice", (int64_t)record->calls[1].value,
                   5 * t->n_workers);
}

static void error(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    record_t *record = cf_alloc(t, sizeof(*record));
    cf_array_t *out = f32(t, 9);

    cf_init(t, key, f32(t, 10));
    record->fail_on = key.num;
    record->fails_with = -3;
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 1)), NULL), KVS_ERR_CALLBACK,
            "the loss exploded at 42");
    cf_want_part(t, "text of the failed push", kvs_last_error(), cf_key_text(t, key));
    record->fail_on = 0;
    cf_pull(t, key, out);
    cf_want_all(t, "stored is what the failing updater left", out, -3);
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    cf_pull(t, key, out);
    cf_want_all(t, "the next push goes on from there", out, -3 + 2 * t->n_workers);
}

static void error_string_key(cf_t *t)
{
    kvs_key_t key = cf_name(t, 1);
    record_t *record = cf_alloc(t, sizeof(*record));

    cf_init(t, key, f32(t, 10));
    record->fail_on_name = key.str;
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, f32(t, 1)), NULL, NULL),
            KVS_ERR_CALLBACK, key.str);
}

/* Fails for every key, and says for which. */
static kvs_status_t fail_always(const kvs_key_t *key, const kvs_tensor_t *value,
                                const kvs_tensor_t *stored, void *arg)
{
    (void)value;
    (void)stored;
    (void)arg;
    return kvs_fail(KVS_ERR_ARGUMENT, "refused <%lld>", (long long)key->num);
}

static void error_in_list(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 2), cf_key(t, 3), cf_key(t, 1)};
    const kvs_arrays_t *values = CF_LIST(t, f32(t, 1), f32(t, 1), f32(t, 1));
    char want[64];

    CF_OK(t, kvs_store_init(t->store, keys, 3, values, NULL));
    CF_OK(t, kvs_store_set_updater(t->store, fail_always, NULL));
    snprintf(want, sizeof(want), "refused <%lld>", (long long)keys[0].num);
    CF_FAIL(t, kvs_store_push(t->store, keys, 3, values, NULL), KVS_ERR_CALLBACK, want);
}

/* What calls of the same store from an updater gave. */
typedef struct from_inside {
    cf_t *t;
    kvs_key_t other;
    const kvs_arrays_t *list;
    int n_calls;
    struct {
        const char *call;
        kvs_status_t status;
    } calls[16];
    int rank, n_workers, capable;
    char type[64];
} from_inside_t;

static void note_status(from_inside_t *inside, const char *call, kvs_status_t status)
{
    inside->calls[inside->n_calls].call = call;
    inside->calls[inside->n_calls].status = status;
    inside->n_calls++;
}

static kvs_status_t call_forbidden(const kvs_key_t *key, const kvs_tensor_t *value,
                                   const kvs_tensor_t *stored, void *arg)
{
    from_inside_t *in = arg;
    kvs_store_t *store = in->t->store;
    kvs_param_t rate = {"learning_rate", KVS_PARAM_FLOAT, 0, {.real = 1}, 0};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    (void)value;
    (void)stored;
    spec.name = "sgd";
    in->n_calls = 0;
    note_status(in, "init", kvs_store_init(store, &in->other, 1, in->list, NULL));
    note_status(in, "push", kvs_store_push(store, key, 1, in->list, NULL));
    note_status(in, "pull", kvs_store_pull(store, key, 1, in->list, NULL));
    note_status(in, "pushpull", kvs_store_pushpull(store, key, 1, in->list, NULL, NULL));
    note_status(in, "broadcast",
                kvs_store_broadcast(store, &in->other, 1, in->list, in->list, NULL));
    note_status(in, "wait_all", kvs_store_wait_all(store, -1));
    note_status(in, "barrier", kvs_store_barrier(store));
    note_status(in, "set_updater", kvs_store_set_updater(store, NULL, NULL));
    note_status(in, "set_optimizer", kvs_store_set_optimizer(store, &spec));
    note_status(in, "set_optimizer_attr", kvs_store_set_optimizer_attr(store, &rate));
    note_status(in, "send_command", kvs_store_send_command_to_servers(store, 0, "", 0));
    return KVS_OK;
}

static kvs_status_t call_allowed(const kvs_key_t *key, const kvs_tensor_t *value,
                                 const kvs_tensor_t *stored, void *arg)
{
    from_inside_t *in = arg;
    kvs_store_t *store = in->t->store;

    (void)key;
    (void)value;
    (void)stored;
    in->n_calls = 0;
    note_status(in, "rank", kvs_store_rank(store, &in->rank));
    note_status(in, "num_workers", kvs_store_num_workers(store, &in->n_workers));
    note_status(in, "is_capable", kvs_store_is_capable(store, "optimizer", &in->capable));
    snprintf(in->type, sizeof(in->type), "%s", kvs_store_type(store));
    return KVS_OK;
}

static from_inside_t *push_calling(cf_t *t, kvs_updater_t updater)
{
    from_inside_t *in = cf_alloc(t, sizeof(*in));
    kvs_key_t key = cf_key(t, 1);

    in->t = t;
    in->other = cf_key(t, 2);
    in->list = CF_LIST(t, f32(t, 5));
    in->rank = in->n_workers = in->capable = -1;
    cf_init(t, key, f32(t, 1));
    CF_OK(t, kvs_store_set_updater(t->store, updater, in));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    return in;
}

static void forbidden(cf_t *t)
{
    from_inside_t *in = push_calling(t, call_forbidden);
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 9);

    cf_want_number(t, "calls made by the updater", in->n_calls, 11);
    for (int i = 0; i < in->n_calls; i++) {
        if (in->calls[i].status != KVS_ERR_STATE) {
            cf_fail(t, "%s from inside an updater: got %s, want KVS_ERR_STATE", in->calls[i].call,
                    kvs_status_name(in->calls[i].status));
        }
    }
    CF_FAIL(t, kvs_store_pull(t->store, &in->other, 1, in->list, NULL), KVS_ERR_NOT_FOUND, "");
    cf_pull(t, key, out);
    cf_want_all(t, "stored", out, 1);
}

static void allowed(cf_t *t)
{
    from_inside_t *in = push_calling(t, call_allowed);
    int capable = -1;

    for (int i = 0; i < in->n_calls; i++) {
        cf_want_text(t, in->calls[i].call, kvs_status_name(in->calls[i].status), "KVS_OK");
    }
    CF_OK(t, kvs_store_is_capable(t->store, "optimizer", &capable));
    cf_want_number(t, "rank from inside", in->rank, t->rank);
    cf_want_number(t, "num_workers from inside", in->n_workers, t->n_workers);
    cf_want_number(t, "is_capable from inside", in->capable, capable);
    cf_want_text(t, "type from inside", in->type, kvs_store_type(t->store));
}

static void removal(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    record_t *record = cf_alloc(t, sizeof(*record));
    cf_array_t *out = f32(t, 0);

    cf_init(t, key, f32(t, 10));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    CF_OK(t, kvs_store_set_updater(t->store, NULL, NULL));
    cf_push(t, key, CF_LIST(t, f32(t, 5)));
    cf_pull(t, key, out);
    cf_want_all(t, "pulled after a push without updater", out, 5 * t->n_workers);
    cf_want_number(t, "calls", record->n_calls, 1);
}

static void second(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    record_t *first = cf_alloc(t, sizeof(*first)), *last = cf_alloc(t, sizeof(*last));

    cf_init(t, key, f32(t, 10));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, first));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, last));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    cf_want_number(t, "calls of the first updater", first->n_calls, 1);
    cf_want_number(t, "calls of the second updater", last->n_calls, 2);
}

/* The updater of a gradient that is pushed as it came: were the value the caller's own memory and
 * the store to write into it, the caller would see it. */
static void values_unchanged(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    record_t *record = cf_alloc(t, sizeof(*record));
    cf_array_t *a = f32(t, 1), *b = f32(t, 2);

    cf_init(t, key, f32(t, 10));
    CF_OK(t, kvs_store_set_updater(t->store, add_double, record));
    cf_push(t, key, CF_LIST(t, a));
    cf_push(t, key, CF_LIST(t, a, b));
    cf_want_all(t, "the first pushed array", a, 1);
    cf_want_all(t, "the second pushed array", b, 2);
}

static const cf_case_t cases[] = {
    {"updater.sees_sum",
     "The updater runs once for each key of a push, with the sum and the stored value.", CF_UPDATER,
     sees_sum},
    {"updater.pushpull", "With an updater pushpull gives the updated value.", CF_UPDATER, pushpull},
    {"updater.integer_order", "Within one push the updater takes integer keys in ascending order.",
     CF_UPDATER, integer_order},
    {"updater.string_order", "Within one push the updater takes string keys in order of init.",
     CF_UPDATER, string_order},
    {"updater.repeated_key", "A key that stands twice in a push is updated once.", CF_UPDATER,
     repeated_key},
    {"updater.error",
     "An updater's error is the status of its push, with its words and the key; what it left "
     "stays.",
     CF_UPDATER, error},
    {"updater.error_string_key", "The error of an updater names a string key by its text.",
     CF_UPDATER, error_string_key},
    {"updater.error_in_list", "The status of a list is the first error in list order.", CF_UPDATER,
     error_in_list},
    {"updater.forbidden", "From inside an updater operations on the store are state errors.",
     CF_UPDATER, forbidden},
    {"updater.allowed", "An updater may ask for type, rank, num_workers and is_capable.",
     CF_UPDATER, allowed},
    {"updater.removal", "Without an updater again, pushes replace again.", CF_UPDATER, removal},
    {"updater.second", "A second updater takes the place of the first for the pushes after it.",
     CF_UPDATER, second},
    {"updater.values_unchanged", "With an updater, too, pushed arrays are not changed.", CF_UPDATER,
     values_unchanged},
};

const cf_theme_t cf_theme_updater = CF_THEME(cases);
