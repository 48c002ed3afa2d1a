/* SPDX-License-Identifier: Apache-2.0 */
/* kvstore.h - what a host framework calls: stores that keep parameters and gradients in step.
 *
 * Every function returns a status, 0 or a negative code, and on failure leaves a text for the calling thread
 * (kvs_last_error) that names what failed, where, and what mends it. No call aborts the process, and none blocks
 * without a bound. Unless a comment says otherwise a function may be called from any thread, writes its `ret_`
 * parameters only on success, and keeps no pointer to its arguments after the operation has completed.
 * Semantics follow the KVStore of Apache MXNet; where they differ, the comment says so. */
#ifndef KVSTORE_KVSTORE_H
#define KVSTORE_KVSTORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVS_VERSION_MAJOR 0
#define KVS_VERSION_MINOR 1
#define KVS_VERSION_PATCH 0

#if defined(__GNUC__)
#define KVS_API __attribute__((visibility("default")))
#define KVS_PRINTF(format_index, first_index)                                                      \
    __attribute__((format(printf, format_index, first_index)))
#else
#define KVS_API
#define KVS_PRINTF(format_index, first_index)
#endif

/* "0.1.0": the version of the library that is loaded, which may be newer than this header. */
KVS_API const char *kvs_version(void);

/* ---- Status ------------------------------------------------------------------------------------------------ */

/* X(name, code, short text). In every case of failure nothing was done, unless the line says otherwise. */
/* clang-format off */
#define KVS_STATUS_LIST(X)                                                                                     \
    X(OK, 0, "success")                                                                                        \
    X(ERR_ARGUMENT, -1, "invalid argument") /* a value no caller may pass: NULL, unequal lengths, bad text */   \
    X(ERR_NO_MEMORY, -2, "out of memory")                                                                      \
    X(ERR_NOT_FOUND, -3, "not found")         /* a key never initialised; no such backend, optimizer, file */  \
    X(ERR_EXISTS, -4, "already exists")       /* second init of a key */                                       \
    X(ERR_SHAPE, -5, "shape mismatch")        /* the text gives both shapes */                                 \
    X(ERR_DTYPE, -6, "dtype mismatch")        /* the text gives both dtypes */                                 \
    X(ERR_KEY_TYPE, -7, "key type mismatch")  /* integer and string keys in one store */                       \
    X(ERR_STORAGE, -8, "storage mismatch")    /* dense where row-sparse is needed, or the reverse */           \
    X(ERR_RANGE, -9, "out of range")          /* a row index outside the shape */                              \
    X(ERR_NOT_IMPLEMENTED, -10, "not implemented") /* this backend does not offer the operation */             \
    X(ERR_STATE, -11, "wrong state")          /* e.g. used in a callback, in a forked child, after close */    \
    X(ERR_UNAVAILABLE, -12, "unavailable")    /* known but not installed, disabled, or lacking something */    \
    X(ERR_PLUGIN, -13, "plugin error")        /* a shared object that can't be loaded or breaks the contract */ \
    X(ERR_FORMAT, -14, "malformed data")      /* manifest, state file, configuration; the text gives the place */ \
    X(ERR_IO, -15, "input/output error")      /* the text gives the path and the system's cause */             \
    X(ERR_TIMEOUT, -16, "timed out")          /* the operation goes on, or was abandoned: the text says which */ \
    X(ERR_CANCELLED, -17, "cancelled")        /* kvs_store_cancel was called */                                \
    X(ERR_PEER, -18, "peer failed")           /* another process failed; the text names rank and host */       \
    X(ERR_CALLBACK, -19, "callback failed")   /* an updater failed; the stored value is what it left */        \
    X(ERR_NON_FINITE, -20, "non-finite value") /* NaN or infinity where it can't be represented */             \
    X(ERR_INTERNAL, -21, "internal error")    /* a mistake of this library: please report it */
/* clang-format on */

typedef int32_t kvs_status_t;
enum {
#define KVS_STATUS_ENUM(name, code, text) KVS_##name = (code),
    KVS_STATUS_LIST(KVS_STATUS_ENUM)
#undef KVS_STATUS_ENUM
};

/* "KVS_ERR_SHAPE" and "shape mismatch"; "unknown status" for a number that is none. Never NULL; static text. */
KVS_API const char *kvs_status_name(kvs_status_t status);
KVS_API const char *kvs_status_text(kvs_status_t status);

/* The text of this thread's last failed call; "" before the first. Valid until this thread's next failing call. One line
 * of UTF-8: control characters and other bytes of keys, names and paths stand in it as \n, \t, \r or \xNN. */
KVS_API const char *kvs_last_error(void);

/* Store a text for this thread and return `status`: for updaters, so that the caller of push reads their words. */
KVS_API kvs_status_t kvs_fail(kvs_status_t status, const char *format, ...) KVS_PRINTF(2, 3);

/* ---- Arrays ------------------------------------------------------------------------------------------------ */

/* Device types and dtype codes are DLPack's numbers. */
enum {
    KVS_DEVICE_CPU = 1,
    KVS_DEVICE_CUDA = 2,
    KVS_DEVICE_CUDA_HOST = 3, /* pinned host memory */
    KVS_DEVICE_CUDA_MANAGED = 13
};

typedef struct kvs_device {
    int32_t type; /* KVS_DEVICE_… */
    int32_t id;   /* several CPU ids are legal and mean several values on one host */
} kvs_device_t;

enum { KVS_CODE_INT = 0, KVS_CODE_UINT = 1, KVS_CODE_FLOAT = 2, KVS_CODE_BFLOAT = 4 };

typedef struct kvs_dtype {
    uint8_t code;   /* KVS_CODE_… */
    uint8_t bits;   /* of one element */
    uint16_t lanes; /* 1 */
} kvs_dtype_t;

/* The eight dtypes, in the order of the numbers that kvs_dtype_index gives: X(name, code, bits). */
#define KVS_DTYPE_LIST(X)                                                                          \
    X(float32, KVS_CODE_FLOAT, 32)                                                                 \
    X(float64, KVS_CODE_FLOAT, 64)                                                                 \
    X(float16, KVS_CODE_FLOAT, 16)                                                                 \
    X(bfloat16, KVS_CODE_BFLOAT, 16)                                                               \
    X(int8, KVS_CODE_INT, 8)                                                                       \
    X(uint8, KVS_CODE_UINT, 8)                                                                     \
    X(int32, KVS_CODE_INT, 32)                                                                     \
    X(int64, KVS_CODE_INT, 64)

enum {
#define KVS_DTYPE_ENUM(name, code, bits) KVS_DTYPE_##name,
    KVS_DTYPE_LIST(KVS_DTYPE_ENUM) KVS_N_DTYPES
#undef KVS_DTYPE_ENUM
};

/* The dtype of a number above; of any other number, one that no store accepts. */
KVS_API kvs_dtype_t kvs_dtype(int index);
/* The number of a dtype, or -1 if it is none of the eight. */
KVS_API int kvs_dtype_index(kvs_dtype_t dtype);
/* "float32"; "unknown dtype" for others. Static text. */
KVS_API const char *kvs_dtype_name(kvs_dtype_t dtype);

/* The rows of a row-sparse value. Ids count rows of the full shape, from 0. In a value `n_rows` says how many ids and
 * rows are given, in any order, repeats add. In an out `capacity` says for how many there is room and the operation
 * writes `n_rows`, sorted and unique. `ids` lies on the host. Like data this lives until completion. */
typedef struct kvs_rows {
    int64_t *ids;
    int64_t n_rows;
    int64_t capacity;
} kvs_rows_t;

typedef struct kvs_dlpack kvs_dlpack_t;

/* An array. The members up to byte_offset have the layout of DLPack's DLTensor, so that one can be copied in with
 * memcpy; the others may be zero. Shape and strides are copied by each call; data lives until completion.
 * Zero elements and more than 2^31 elements are legal. Strides, in elements, must be those of a compact row-major
 * array, or NULL; others are refused (KVS_ERR_ARGUMENT), as is data not aligned to its element. */
typedef struct kvs_tensor {
    void *data;
    kvs_device_t device;
    int32_t ndim; /* 0: a scalar, one element */
    kvs_dtype_t dtype;
    const int64_t *shape;
    const int64_t *strides;
    uint64_t byte_offset;
    /* below: not DLPack's */
    /* In DLPack's coding: 0 none given. Inputs are read after it, it is made to wait for outputs. */
    int64_t stream;
    /* NULL: dense. Else row-sparse: `shape` is the full shape, `data` holds the rows, in order of ids. */
    kvs_rows_t *rows;
    /* NULL, or what kvs_dlpack_take gave: kept alive by every operation on this array. */
    kvs_dlpack_t *owner;
} kvs_tensor_t;

/* Take over `managed`, a DLManagedTensor (versioned 0) or DLManagedTensorVersioned (versioned 1) of DLPack: its
 * deleter runs exactly once, after kvs_dlpack_release and after every operation that was given the tensor has completed.
 * `ret_tensor` views its memory; what is flagged read-only is refused as an out. ERR_ARGUMENT: NULL, or a major version
 * other than 1; the deleter has not run. */
KVS_API kvs_status_t kvs_dlpack_take(void *managed, int versioned, kvs_tensor_t *ret_tensor);
/* Give up one's own hold on a taken tensor's memory; `tensor` is emptied. NULL and empty tensors do nothing. */
KVS_API void kvs_dlpack_release(kvs_tensor_t *tensor);
/* Give a dense array as a managed tensor of DLPack: whoever takes it calls its deleter once, and that calls
 * `release(arg)` if not NULL. Shape and strides are copied, data is not. Flags of a versioned one: 0 (writable). */
KVS_API kvs_status_t kvs_dlpack_give(const kvs_tensor_t *tensor, int versioned,
                                     void (*release)(void *arg), void *arg, void **ret_managed);

/* Memory of devices, for programs that have no framework of their own: through the plugin that serves the
 * device type; host memory always works. Any thread. */

typedef struct kvs_device_info {
    uint32_t size;
    uint32_t reserved;
    char name[128];   /* "NVIDIA H200" */
    char driver[64];  /* "CUDA driver 13.0" */
    char detail[128]; /* "compute capability 9.0" */
    uint64_t total_bytes, free_bytes;
} kvs_device_info_t;

/* How many devices of a type there are: 1 for the host. ERR_NOT_FOUND, ERR_UNAVAILABLE: no plugin, or no driver. */
KVS_API kvs_status_t kvs_device_count(int32_t device_type, int *ret_n);
/* `ret_info->size` says how large the struct is. */
KVS_API kvs_status_t kvs_device_info(kvs_device_t device, kvs_device_info_t *ret_info);
/* Whether kernels of one device touch memory of another: 0 they don't; else how well, 1 being least. */
KVS_API kvs_status_t kvs_device_reaches(int32_t device_type, int from, int to, int *ret_how_well);
/* Zeroed memory, of which 0 bytes is NULL; and give it back (NULL does nothing). */
KVS_API kvs_status_t kvs_device_alloc(kvs_device_t device, size_t n_bytes, void **ret_data);
KVS_API void kvs_device_free(kvs_device_t device, void *data, size_t n_bytes);
/* Copy between host and device or within a device, and wait until it is done. */
KVS_API kvs_status_t kvs_device_copy(kvs_device_t dst_device, void *dst, kvs_device_t src_device,
                                     const void *src, size_t n_bytes);

/* ---- Keys and lists ---------------------------------------------------------------------------------------- */

/* An integer, or, if `str` is not NULL, UTF-8 text of at most KVS_KEY_MAX_BYTES bytes ("" is a key). "3" and 3 differ.
 * A store takes its key type from the first init or exchange that succeeds; ERR_KEY_TYPE for the other type after. */
typedef struct kvs_key {
    const char *str;
    int64_t num;
} kvs_key_t;

#define KVS_KEY_MAX_BYTES 1024

static inline kvs_key_t kvs_key_int(int64_t num)
{
    kvs_key_t key = {NULL, num};
    return key;
}

static inline kvs_key_t kvs_key_str(const char *str)
{
    kvs_key_t key = {str, 0};
    return key;
}

/* The arrays of a call. With `per_key` it has `n_per_key` numbers, one for each key of the call, whose sum is `n`: how
 * many arrays, in order, belong to each key. Without it there is one array for each key, or, in a call with one key,
 * all arrays are that key's. A key that stands several times gets the arrays of all its places. */
typedef struct kvs_arrays {
    const kvs_tensor_t *tensors;
    size_t n;
    const size_t *per_key;
    size_t n_per_key;
} kvs_arrays_t;

static inline kvs_arrays_t kvs_arrays(const kvs_tensor_t *tensors, size_t n)
{
    kvs_arrays_t arrays = {tensors, n, NULL, 0};
    return arrays;
}

/* ---- Events and options of a call -------------------------------------------------------------------------- */

typedef struct kvs_store kvs_store_t;
typedef struct kvs_event kvs_event_t;

enum {
    /* pull: a row-sparse out of a row-sparse key gets its rows (MXNet: ignore_sparse=False) */
    KVS_CALL_KEEP_SPARSE = 1
};

/* Options of one operation; NULL stands for the defaults. Begin with KVS_CALL_INIT. */
typedef struct kvs_call {
    uint32_t size;
    /* Larger means sooner, among operations that wait for a thread; equal ones in order of issue. */
    int32_t priority;
    uint32_t flags; /* KVS_CALL_… */
    /* pushpull: KVS_REDUCE_… of kvstore/allreduce.h, where the backend has it; 0: the sum. */
    uint32_t reduce;
    /* Not NULL: the call returns at once and gives an event, to be freed by kvs_event_free. */
    kvs_event_t **ret_event;
} kvs_call_t;

#define KVS_CALL_INIT                                                                              \
    {                                                                                              \
        (uint32_t)sizeof(kvs_call_t), 0, 0, 0, NULL                                                \
    }

/* Without an event an operation returns when its arrays may be touched again: push when its values have been consumed
 * (stores of one process: also applied), the others when it has completed. With an event, at once: the event then
 * carries the operation's status and text. A list is one event, whose status is the first error in list order. */

/* Wait at most `timeout_ms` (0: only look; negative: for ever) and return the operation's status, with its text.
 * ERR_TIMEOUT: it has not completed, and goes on. ERR_CANCELLED: the store was cancelled. May be called again. */
KVS_API kvs_status_t kvs_event_wait(kvs_event_t *event, int64_t timeout_ms);
/* Wait as a call without an event would, but at most `timeout_ms` (negative: no less), for callers that look up from time
 * to time. Gives 1 once the operation's arrays may be touched again, and 0 if they may not yet. The status is the
 * operation's if it has completed. ERR_TIMEOUT: past the store's deadline; ERR_CANCELLED: either way it goes on. */
KVS_API kvs_status_t kvs_event_wait_arrays(kvs_event_t *event, int64_t timeout_ms, int *ret_free);
/* Whether the operation has completed, as 1 or 0. Its status is not touched: ask kvs_event_wait for that. */
KVS_API kvs_status_t kvs_event_test(kvs_event_t *event, int *ret_done);
/* Call `fn` once, when the operation completes, on the thread that completes it; at once if it has. It may not use any
 * store (ERR_STATE). One callback an event: ERR_STATE for a second. */
typedef void (*kvs_event_callback_t)(kvs_status_t status, const char *text, void *arg);
KVS_API kvs_status_t kvs_event_on_complete(kvs_event_t *event, kvs_event_callback_t fn, void *arg);
/* Free the handle, also before completion; the operation goes on. An error nobody has been told by then is delivered by
 * the next operation on that key, or by wait_all or close; where nobody asks any more, it is logged. NULL does nothing. */
KVS_API void kvs_event_free(kvs_event_t *event);
/* The same for a callback that passed the error on to nobody, as a binding's whose future was dropped: the error counts
 * as one that nobody has been told. After the callback has been called. */
KVS_API void kvs_event_drop(kvs_event_t *event);

/* ---- Creating a store -------------------------------------------------------------------------------------- */

/* The library's own threads block every signal, so that handlers run on the program's threads only. A process of which
 * no other thread is left, as when main ended by pthread_exit, gets no signal but SIGKILL and SIGSTOP. */

typedef struct kvs_option {
    const char *name;
    const char *value;
} kvs_option_t;

/* Create a store by name: "local", "device", "dist_sync", … NULL: "local". The name is lower-cased; backends registered
 * by the program come first, then names, aliases and words of the installed plugins.
 * ERR_NOT_FOUND: no such backend; the text names near ones and lists what exists. ERR_UNAVAILABLE: known, but not
 * installed, disabled, or lacking something: the text says which and what mends it. ERR_PLUGIN: it can't be loaded.
 * ERR_ARGUMENT: an empty name, an unknown option, one given twice, a malformed value. The store is freed by
 * kvs_store_close.
 * A store can't be used in a forked child (ERR_STATE). */
KVS_API kvs_status_t kvs_store_create(const char *name, const kvs_option_t *options,
                                      size_t n_options, kvs_store_t **ret_store);

/* Wait for the store's work, or past its deadline abandon it with an error, and free the store in either case. Returns
 * the first error that was not delivered yet; further ones are logged. Past the deadline, or after a cancel, what is
 * pending is given up: ERR_TIMEOUT, ERR_CANCELLED. NULL does nothing. Not while another thread uses the store. */
KVS_API kvs_status_t kvs_store_close(kvs_store_t *store);

/* ---- Operations -------------------------------------------------------------------------------------------- */

/* Argument errors of a list leave everything as it was. An empty list of keys does nothing and succeeds. Errors that all
 * operations share: ERR_ARGUMENT (NULL, unequal lengths, an empty group of values, bad strides or data), ERR_KEY_TYPE,
 * ERR_NOT_FOUND (a key never initialised, in stores that keep weights), ERR_SHAPE and ERR_DTYPE (values and outs must
 * have the shape and dtype of init, or of each other where no weights are kept; an out may have another floating dtype
 * and is converted to), ERR_NOT_IMPLEMENTED, ERR_STATE. Operations on one key take effect in the order issued. */

/* Create each key with a copy of its value: one value a key. ERR_EXISTS: a key exists already, or stands twice in the
 * list. With several workers, rank 0's value counts. Semantics: init() of MXNet's KVStore. */
KVS_API kvs_status_t kvs_store_init(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                    const kvs_arrays_t *values, const kvs_call_t *call);

/* Sum the values given for each key, element by element in list order (half types in float32, rounded once; integers
 * wrap). The sum replaces the stored value, or goes to the updater or optimizer if one is set. Pushed arrays are never
 * changed. Of row-sparse values the sum has the rows of all; those it lacks become zero where it replaces. They may go to
 * a dense key; ERR_STORAGE: a dense value for a row-sparse key, or both kinds for one key. ERR_RANGE: a row id outside the
 * shape. ERR_CALLBACK: the updater failed. Semantics: push() of MXNet's KVStore, except that it never adds. */
KVS_API kvs_status_t kvs_store_push(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                    const kvs_arrays_t *values, const kvs_call_t *call);

/* Write the stored value into every out. Sees every push to that key issued before it by this worker; in synchronous
 * modes also those of all workers of that round. A dense out of a row-sparse key gets its dense form. ERR_STORAGE: a
 * row-sparse out; use kvs_store_row_sparse_pull, or KVS_CALL_KEEP_SPARSE for all rows that a row-sparse key has: those of
 * init and pushes, and those that updates made other than zero. ERR_ARGUMENT: the out has too little room. */
KVS_API kvs_status_t kvs_store_pull(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                    const kvs_arrays_t *outs, const kvs_call_t *call);

/* Push, then pull, as one operation: all values of the list are read before any out is written. `outs` NULL: the result
 * is written back into the values. In stores that keep no weights it is an allreduce (sum) and needs no init. With
 * KVS_CALL_KEEP_SPARSE, an out without room for the rows that must come is found before the push; only where an update
 * makes rows beyond those does the push stand although the pull fails. */
KVS_API kvs_status_t kvs_store_pushpull(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                        const kvs_arrays_t *values, const kvs_arrays_t *outs,
                                        const kvs_call_t *call);

/* Rank 0's value to every out on every rank. Where weights are kept it is init, then pull (ERR_EXISTS the second time);
 * elsewhere it may be repeated. One value a key. */
KVS_API kvs_status_t kvs_store_broadcast(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                         const kvs_arrays_t *values, const kvs_arrays_t *outs,
                                         const kvs_call_t *call);

/* Write the rows named by `row_ids` (any shape, any integer dtype, any order, repeats allowed) of a row-sparse key into
 * row-sparse outs: sorted, unique, absent rows zero. One row_ids for each out, or one for all outs of a key.
 * ERR_RANGE: an id outside [0, rows). ERR_STORAGE: the key or an out is dense. ERR_DTYPE: ids that are no integers.
 * ERR_ARGUMENT: too little room for the different ids. Semantics: row_sparse_pull() of MXNet's KVStore. */
KVS_API kvs_status_t kvs_store_row_sparse_pull(kvs_store_t *store, const kvs_key_t *keys,
                                               size_t n_keys, const kvs_arrays_t *outs,
                                               const kvs_arrays_t *row_ids, const kvs_call_t *call);

/* Forget the keys, once all that was issued on the store has been carried out: they are as if never initialised. With
 * several workers each deletes them, at the same point between its pushes; none waits for another. ERR_NOT_FOUND: a key
 * that is not initialised; nothing was done. */
KVS_API kvs_status_t kvs_store_delete(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys);
/* Delete, then init by a value of the same shape and dtype: the key begins afresh, without states of the optimizer. Not
 * while another thread uses these keys. ERR_SHAPE, ERR_DTYPE: nothing was done. Other errors are those of both. */
KVS_API kvs_status_t kvs_store_reset(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                     const kvs_arrays_t *values, const kvs_call_t *call);

/* Wait for everything issued on the store, at most `timeout_ms` (negative: the store's own deadline); returns the first
 * error that was not delivered yet. */
KVS_API kvs_status_t kvs_store_wait_all(kvs_store_t *store, int64_t timeout_ms);

/* Wake every waiter of the store with ERR_CANCELLED, close included; operations issued later fail with it too. Safe in a
 * signal handler and while other threads wait. The store can then only be closed. What runs already goes on, on other
 * threads and also past close: its arrays and the updater must stay until its event is done (kvs_event_test, which may
 * be asked after close as well). */
KVS_API void kvs_store_cancel(kvs_store_t *store);

/* ---- Updaters, optimizers, compression --------------------------------------------------------------------- */

/* Change `stored` (writable) by `value` (read-only): the sum of one push to `key`. Both are views that live for the
 * call. Row-sparse pushes give it a row-sparse `value`, ids ascending, each once; `stored` is dense, also of a row-sparse
 * key. Runs on one thread at a time per store; within one push keys ascend (integers) or follow the order of init
 * (strings). It may ask any store for type, rank, num_workers and is_capable, nothing else (ERR_STATE). A status other
 * than 0 becomes ERR_CALLBACK of that push, with the callback's kvs_fail text; the stored value is what it left. */
typedef kvs_status_t (*kvs_updater_t)(const kvs_key_t *key, const kvs_tensor_t *value,
                                      const kvs_tensor_t *stored, void *arg);
/* For the pushes issued after it; NULL: pushes replace again. Takes the place of an optimizer. */
KVS_API kvs_status_t kvs_store_set_updater(kvs_store_t *store, kvs_updater_t fn, void *arg);

enum {
    KVS_PARAM_NULL,
    KVS_PARAM_BOOL,
    KVS_PARAM_INT,
    KVS_PARAM_FLOAT,
    KVS_PARAM_TEXT,
    KVS_PARAM_INTS
};

/* A named, typed parameter. An integer is accepted where a float is asked for. */
typedef struct kvs_param {
    const char *name;
    uint32_t type; /* KVS_PARAM_… */
    uint32_t reserved;
    union {
        int64_t integer;         /* INT; BOOL: 0 or 1 */
        double real;             /* FLOAT */
        const char *text;        /* TEXT */
        const int64_t *integers; /* INTS: `n_integers` of them */
    } value;
    size_t n_integers;
} kvs_param_t;

/* A multiplier of learning rate or weight decay for a key, or, where `key` is the text of a name, for that parameter. */
typedef struct kvs_multiplier {
    kvs_key_t key;
    double value;
} kvs_multiplier_t;

typedef struct kvs_param_name {
    kvs_key_t key;
    const char *name;
} kvs_param_name_t;

/* An optimizer and its parameters, as data. Begin with KVS_OPTIMIZER_INIT. `kvstore info optimizers` lists the names,
 * `kvstore info adam` parameters, defaults and states. Multipliers are looked up by key, else by the key's name in `names`; default 1. */
typedef struct kvs_optimizer_spec {
    uint32_t size;
    uint32_t reserved;
    const char *name; /* "sgd", … */
    const kvs_param_t *params;
    size_t n_params;
    const kvs_multiplier_t *lr_mult;
    size_t n_lr_mult;
    const kvs_multiplier_t *wd_mult;
    size_t n_wd_mult;
    const kvs_param_name_t *names; /* MXNet: param_idx2name */
    size_t n_names;
    const char *schedule; /* NULL: none; "factor", "multifactor", "poly", "cosine" */
    const kvs_param_t *schedule_params;
    size_t n_schedule_params;
} kvs_optimizer_spec_t;

#define KVS_OPTIMIZER_INIT                                                                         \
    {                                                                                              \
        (uint32_t)sizeof(kvs_optimizer_spec_t), 0, NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, \
            NULL, 0                                                                                \
    }

/* Update in the store with this optimizer, with empty states, for the pushes issued after it. ERR_NOT_FOUND: no such
 * optimizer; ERR_ARGUMENT: an unknown parameter, a wrong type or value: the text names it and what is accepted. */
KVS_API kvs_status_t kvs_store_set_optimizer(kvs_store_t *store, const kvs_optimizer_spec_t *spec);
/* Change learning_rate, wd, rescale_grad, … for the pushes issued after it. ERR_STATE: no optimizer, or learning_rate
 * while a schedule is set. */
KVS_API kvs_status_t kvs_store_set_optimizer_attr(kvs_store_t *store, const kvs_param_t *attr);

/* {type, threshold}: "1bit" or "2bit"; threshold 0.5 by default. For pushes issued after it. */
KVS_API kvs_status_t kvs_store_set_gradient_compression(kvs_store_t *store,
                                                        const kvs_param_t *params, size_t n_params);

/* Write or read every optimizer state, in a file that any safetensors reader opens; with `dump_optimizer` also the
 * optimizer: hyper-parameters, multipliers, counts, schedule and its position, which a load puts in force. Without it a
 * load leaves these as they are. A load replaces all states: a key not in the file has none. Weights are not part of
 * it. The file at `path` is replaced once the new one is whole and on the disk. On failure the store is unchanged.
 * ERR_STATE: no optimizer; ERR_IO: the text gives path and cause; ERR_NOT_FOUND: no such file, or a key of it was not
 * initialised; ERR_FORMAT: foreign, damaged, truncated, from a later version, or of another optimizer; ERR_SHAPE,
 * ERR_DTYPE, ERR_KEY_TYPE: not that of a key here. */
KVS_API kvs_status_t kvs_store_save_optimizer_states(kvs_store_t *store, const char *path,
                                                     int dump_optimizer);
KVS_API kvs_status_t kvs_store_load_optimizer_states(kvs_store_t *store, const char *path);

/* ---- Optimizers in the worker ------------------------------------------------------------------------------- */

/* The optimizers of a store, for weights of the program's own: with backends that keep none, or in an updater. For the
 * same gradients they give the same bits as in a store. Any thread; one call at a time runs, others wait. A forked child
 * has a copy of its own; ERR_STATE if another thread was using it then. */
typedef struct kvs_worker_optimizer kvs_worker_optimizer_t;

/* Errors as kvs_store_set_optimizer; ERR_UNAVAILABLE, ERR_NOT_FOUND: the plugin `optimizers` can't be had. */
KVS_API kvs_status_t kvs_optimizer_create(const kvs_optimizer_spec_t *spec,
                                          kvs_worker_optimizer_t **ret_optimizer);
/* NULL does nothing. Not while another call uses it. */
KVS_API void kvs_optimizer_free(kvs_worker_optimizer_t *optimizer);
/* Change `weight` by `grad`, which stays as it is; both are dense CPU arrays of one shape and floating dtype, which
 * don't overlap. The key's states come to life at its first update, and keep its shape and dtype: ERR_SHAPE, ERR_DTYPE.
 * ERR_KEY_TYPE: integer and string keys in one optimizer. */
KVS_API kvs_status_t kvs_optimizer_update(kvs_worker_optimizer_t *optimizer, kvs_key_t key,
                                          const kvs_tensor_t *grad, const kvs_tensor_t *weight);
/* As kvs_store_set_optimizer_attr, for the updates after it. */
KVS_API kvs_status_t kvs_optimizer_set_attr(kvs_worker_optimizer_t *optimizer,
                                            const kvs_param_t *attr);
/* As kvs_store_save_optimizer_states and kvs_store_load_optimizer_states; a store and a worker read each other's files.
 * Here a load makes the keys of the file known. */
KVS_API kvs_status_t kvs_optimizer_save_states(kvs_worker_optimizer_t *optimizer, const char *path,
                                               int dump_optimizer);
KVS_API kvs_status_t kvs_optimizer_load_states(kvs_worker_optimizer_t *optimizer, const char *path);

/* ---- What a store is ---------------------------------------------------------------------------------------- */

/* The name the store was created by, lower-cased. Lives as long as the store; "" for NULL. */
KVS_API const char *kvs_store_type(const kvs_store_t *store);
KVS_API kvs_status_t kvs_store_rank(kvs_store_t *store, int *ret_rank);
KVS_API kvs_status_t kvs_store_num_workers(kvs_store_t *store, int *ret_num_workers);
/* Rank among the processes of this host. */
KVS_API kvs_status_t kvs_store_local_rank(kvs_store_t *store, int *ret_local_rank);
/* `capability`: "optimizer", "sparse", "gradient_compression" or "async"; any other is ERR_ARGUMENT. Gives 0 or 1. */
KVS_API kvs_status_t kvs_store_is_capable(kvs_store_t *store, const char *capability,
                                          int *ret_capable);
/* Whether arrays of this dtype on this device are taken, as 1 or 0. */
KVS_API kvs_status_t kvs_store_supports(kvs_store_t *store, kvs_dtype_t dtype, kvs_device_t device,
                                        int *ret_supported);

typedef struct kvs_stats {
    uint32_t size; /* set by the caller: sizeof(kvs_stats_t) */
    uint32_t reserved;
    /* Keys, not calls; a broadcast counts as an init and a pull. */
    uint64_t n_inits, n_pushes, n_pulls, n_pushpulls;
    /* Of all arrays read and written, init's not counted; of row-sparse ones the rows that came or went, and their ids. */
    uint64_t bytes_pushed, bytes_pulled;
} kvs_stats_t;
/* Counts since creation of what succeeded. */
KVS_API kvs_status_t kvs_store_stats(kvs_store_t *store, kvs_stats_t *ret_stats);

/* ---- Several processes -------------------------------------------------------------------------------------- */

/* Return when all workers have called it. ERR_TIMEOUT: past the deadline, naming the ranks missing. Stores of one process: nothing. */
KVS_API kvs_status_t kvs_store_barrier(kvs_store_t *store);
/* Take no further part in rounds that the others are still in, and wait for them (Horovod: join). Rounds to come need
 * all workers again. */
KVS_API kvs_status_t kvs_store_join(kvs_store_t *store);
/* The same, and gives the rank that joined last. ERR_NOT_IMPLEMENTED: a backend of several workers without join. */
KVS_API kvs_status_t kvs_store_join_last(kvs_store_t *store, int *ret_last_rank);
/* Has run on every server when it returns. Heads: 0 controller, 1 multi-precision, 2 stop, 3 sync mode, 4 compression,
 * 5 profiler; others go to the servers' controller. Stores of one process: nothing. */
KVS_API kvs_status_t kvs_store_send_command_to_servers(kvs_store_t *store, int head,
                                                       const void *body, size_t n_bytes);
/* How many processes of `role` ("worker", "server", "scheduler") have not been heard of for `timeout_ms`. */
KVS_API kvs_status_t kvs_store_num_dead_nodes(kvs_store_t *store, const char *role,
                                              int64_t timeout_ms, int *ret_dead);
/* Whether this process rejoined a running job. */
KVS_API kvs_status_t kvs_store_is_recovery(kvs_store_t *store, int *ret_recovery);
/* In a process whose role is server: `fn` gets the commands that are not the backend's own, those with head 0 included,
 * from run_server on and on its thread, one at a time; the status and text it fails with are those of the call that sent
 * the command. NULL: none, and unknown commands are logged. `body` lives for the call, which may use no store. */
typedef kvs_status_t (*kvs_controller_t)(int head, const void *body, size_t n_bytes, void *arg);
KVS_API kvs_status_t kvs_store_set_controller(kvs_store_t *store, kvs_controller_t fn, void *arg);
/* In a process whose role is server or scheduler: serve until told to stop. */
KVS_API kvs_status_t kvs_store_run_server(kvs_store_t *store);

/* What a backend has beyond this header, by name: a table of functions, whose layout is that extension's own header's, and
 * the store that they take. Both live until the store is closed. ERR_NOT_IMPLEMENTED: the backend has no such extension.
 * For wrappers such as those of kvstore/allreduce.h. */
KVS_API kvs_status_t kvs_store_extension(kvs_store_t *store, const char *name,
                                         const void **ret_table, void **ret_state);

/* ---- Backends within the program ----------------------------------------------------------------------------- */

struct kvs_backend; /* kvstore/abi.h */
struct kvs_plugin;
struct kvs_host;

/* Add a backend under its lower-cased name; it beats every installed one. A second registration of a name replaces the
 * first and warns; stores that exist keep theirs. `backend` must live until the process ends. */
KVS_API kvs_status_t kvs_register_backend(const char *name, const struct kvs_backend *backend);

/* Add a plugin that is linked statically (built with -DKVS_PLUGIN_STATIC): its entry, and its manifest as text, in which
 * "library" may be missing. It comes before all directories. */
typedef const struct kvs_plugin *(*kvs_plugin_entry_t)(const struct kvs_host *host,
                                                       const char **ret_refusal);
KVS_API kvs_status_t kvs_plugin_register(kvs_plugin_entry_t entry, const char *manifest_text);

/* Search `path`, a directory of manifests or one manifest file, before all other places (after earlier such paths). */
KVS_API kvs_status_t kvs_plugin_path_add(const char *path);

#ifdef __cplusplus
}
#endif
#endif
