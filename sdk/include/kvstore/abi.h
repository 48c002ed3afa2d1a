/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h - everything that crosses between the core and a plugin, and nothing else.
 *
 * Rules: every struct begins with its size; members are only appended, under a comment naming the
 * ABI version that added them; types have fixed width; each side frees its own memory. The core
 * copies min(size) bytes into its own zeroed table and fills gaps with "not implemented", so older
 * plugins load into newer cores. Plugin authors include kvstore/plugin.h, which includes this. */
#ifndef KVSTORE_ABI_H
#define KVSTORE_ABI_H

#include <kvstore/kvstore.h>

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plugin loads if its major is the host's and its minor is not above the host's. */
#define KVS_ABI_MAJOR 1
#define KVS_ABI_MINOR 0

/* ---- Operations ------------------------------------------------------------------------------ */

enum { KVS_BLOCKING = 1, KVS_ASYNCHRONOUS = 2 };

typedef enum kvs_verb {
    KVS_VERB_INIT = 1,
    KVS_VERB_PUSH,
    KVS_VERB_PULL,
    KVS_VERB_PUSHPULL,
    KVS_VERB_BROADCAST,
    KVS_VERB_ROW_SPARSE_PULL
} kvs_verb_t;

/* One key of a store. The core owns it; it lives until the store is closed. Where weights are kept,
 * shape and dtype are those of init, set before the backend's init sees the key; elsewhere they are
 * unset (ndim -1). */
typedef struct kvs_key_entry {
    int64_t number;   /* the integer key; for a string its place in the order of init, from 0 */
    const char *name; /* the string key, or NULL */
    kvs_dtype_t dtype;
    int32_t ndim;
    const int64_t *shape;
    int64_t n_elems;
    uint32_t row_sparse; /* 1: initialised with a row-sparse value */
    uint32_t reserved;
    void *state; /* the backend's: `key_size` bytes, zeroed when the key is created */
} kvs_key_entry_t;

/* What one operation does to one key. Tensors are checked: known dtype, compact, aligned, their
 * data not NULL unless they have no elements; `data` already includes byte_offset, which is 0. So
 * are kinds (values all dense or all row-sparse, and what the key's kind allows) and row ids: those
 * of values, and row_ids in host memory. Not whether outs have room for their rows. */
typedef struct kvs_group {
    kvs_key_entry_t *key;
    const kvs_tensor_t *values; /* never changed */
    size_t n_values;
    const kvs_tensor_t *outs;
    size_t n_outs;
    const kvs_tensor_t *row_ids; /* row_sparse_pull: one, or n_outs */
    size_t n_row_ids;
    size_t list_index;       /* place of the group's first key in the call */
    const size_t *out_index; /* with KVS_OP_SHARED: each out's place among the outs of the call */
    void *state; /* the backend's: `group_size` bytes, zeroed when the operation begins */
} kvs_group_t;

enum {
    KVS_OP_KEEP_SPARSE = 1, /* KVS_CALL_KEEP_SPARSE of the call */
    /* Arrays of the call share memory. The op then holds every group of the call: read all values
     * before any out is written, and write outs in ascending out_index. (Outs and values of one
     * group that are the very same array don't set this: element-wise in-place work is fine.) */
    KVS_OP_SHARED = 2,
    /* The caller waits for the end: no event. An asynchronous backend may then spend the microseconds
     * of waking a thread on the calling one, if that is all the operation takes. */
    KVS_OP_WAITS = 4
};

/* One operation. Groups of push and pushpull ascend by key number: the order in which updaters and
 * optimizers go; those of other verbs are in list order. Valid until the verb returns (blocking)
 * or until complete() (asynchronous). */
typedef struct kvs_op {
    uint32_t size;
    uint32_t verb;  /* kvs_verb_t */
    uint32_t flags; /* KVS_OP_… */
    int32_t priority;
    kvs_group_t *groups;
    size_t n_groups;
    uint64_t sequence; /* numbers the operations of a store in order of issue, from 1 */
    void *core;        /* the core's */
    void *backend;   /* the backend's, NULL at first: asynchronous backends hang their state here */
    uint32_t reduce; /* pushpull: KVS_REDUCE_… of allreduce.h; not 0 only with KVS_CAN_REDUCE */
    uint32_t reserved;
} kvs_op_t;

/* ---- Optimizers ------------------------------------------------------------------------------ */

enum {
    KVS_PARAM_NULLABLE = 1,     /* KVS_PARAM_NULL is accepted; passed as NaN */
    KVS_PARAM_NON_NEGATIVE = 2, /* a negative value is an error */
    KVS_PARAM_UNIT = 4          /* must lie in [0, 1) */
};

/* A parameter, for checking and for `kvstore info`. Values that are not finite are always errors. */
typedef struct kvs_param_info {
    const char *name;
    uint32_t type;  /* KVS_PARAM_BOOL, _INT or _FLOAT */
    uint32_t rules; /* KVS_PARAM_NULLABLE | … */
    double preset;  /* the default; bool as 0 or 1; NaN: null */
    const char *doc;
} kvs_param_info_t;

enum {
    KVS_STATE_FROM_WEIGHT = 1, /* begins as a copy of the weight; else as zeros */
    KVS_STATE_PER_ROW = 2      /* one number for each row (first dimension): shape (rows, 1) */
};

/* A state: an array kept for each key, as large as the weight unless it is per row. */
typedef struct kvs_state_info {
    const char *name; /* as in state files */
    uint32_t flags;   /* KVS_STATE_… */
    uint32_t reserved;
} kvs_state_info_t;

#define KVS_OPTIMIZER_MAX_PARAMS  16 /* of its own */
#define KVS_OPTIMIZER_MAX_STATES  4
#define KVS_OPTIMIZER_MAX_SCALARS 16
#define KVS_OPTIMIZER_MAX_SUMS    4     /* of one phase */
#define KVS_OPTIMIZER_SUM_BLOCK   65536 /* elements */

/* The parameters in force: those that all optimizers have, and the optimizer's own. */
typedef struct kvs_hyper {
    uint32_t size;
    uint32_t multi_precision; /* 0 or 1 */
    double learning_rate;
    double wd;
    double rescale_grad;
    double clip_gradient; /* 0: off */
    const double *own;    /* in the order of `params` */
} kvs_hyper_t;

/* One update of one key, as counted when it was issued. */
typedef struct kvs_update {
    uint32_t size;
    uint32_t reserved;
    int64_t t;        /* begin_num_update + updates of this key so far, this one included */
    double lr;        /* after schedule and multiplier */
    double wd;        /* after multiplier */
    const char *name; /* the key's name: given with the optimizer, else the key as text */
    /* a number of the optimizer's own, kept between the updates of all keys and in state files; 1 at first */
    double *product;
} kvs_update_t;

enum {
    KVS_OPTIMIZER_ANY_RATE = 1, /* a negative learning rate is accepted */
    /* A row-sparse gradient changes only the rows that it lists; if there is a parameter
     * "lazy_update", only while that is true. Others are given the gradient's dense form. Not with
     * phases. */
    KVS_OPTIMIZER_LAZY = 2
};

/* An optimizer: its parameters and states as tables, and its arithmetic as plain C over arrays, which
 * allocates nothing, takes no lock and never fails. Counting, schedules, multipliers, parameter
 * checks, memory and half types are the caller's business, and so are the parameters that all have:
 * learning_rate, wd, rescale_grad, clip_gradient, multi_precision and begin_num_update.
 *
 * The way of one update: `scalars` when the push is issued; then, if `n_phases` is not 0, for each
 * phase `sums` over the whole array and `combine`; if a state is per row, `row` for each row; then
 * `step` for each block. Scalars stay doubles until they are rounded, once, to float32 for the _f32
 * functions; there are always KVS_OPTIMIZER_MAX_SCALARS of them, zero where not set. float16 and
 * bfloat16 arrays reach the _f32 functions converted. `states[i]` belongs to the i-th of `states`,
 * NULL where it is not in use; there are always KVS_OPTIMIZER_MAX_STATES. All arrays of a call begin
 * at the same element, except that a per-row state is the one number of the row that holds it. */
typedef struct kvs_optimizer {
    uint32_t size;
    uint32_t flags; /* KVS_OPTIMIZER_… */
    const char *name;
    const char *summary;
    double learning_rate; /* default */
    const kvs_param_info_t *params;
    size_t n_params;
    const kvs_state_info_t *states;
    size_t n_states;
    /* NULL, or: are these parameters, each legal by itself, legal together? With a text if not. */
    kvs_status_t (*check)(const kvs_hyper_t *hyper);
    /* Which states these parameters need, as a mask over `states`. NULL: all of them. */
    uint32_t (*states_used)(const kvs_hyper_t *hyper);
    /* The scalars of one update. Called in order of issue, one at a time. */
    void (*scalars)(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars);
    /* Sums over the whole array, such as norms: `n_sums` of them in each of `n_phases` phases. `sums`
     * adds a block of at most KVS_OPTIMIZER_SUM_BLOCK elements to `io_sums`, which begin at 0, in an
     * order of its own that depends on nothing but `n`; blocks are then added in order. `combine`
     * turns the totals into scalars that the next phase and the step see. */
    uint32_t n_phases;
    uint32_t n_sums;
    void (*sums_f32)(uint32_t phase, int64_t n, const float *grad, const float *weight,
                     float *const *states, const float *scalars, double *io_sums);
    void (*sums_f64)(uint32_t phase, int64_t n, const double *grad, const double *weight,
                     double *const *states, const double *scalars, double *io_sums);
    void (*combine)(uint32_t phase, const double *sums, double *io_scalars);
    /* With a per-row state: change it by `n` gradients of a row of `row_elems`. A long row comes in
     * several pieces, in order. */
    void (*row_f32)(int64_t n, int64_t row_elems, const float *grad, float *const *states,
                    const float *scalars);
    void (*row_f64)(int64_t n, int64_t row_elems, const double *grad, double *const *states,
                    const double *scalars);
    /* Update `n` elements. Results must not depend on how an array is cut into blocks. */
    void (*step_f32)(int64_t n, const float *grad, float *weight, float *const *states,
                     const float *scalars);
    void (*step_f64)(int64_t n, const double *grad, double *weight, double *const *states,
                     const double *scalars);
    /* NULL, or what the arithmetic of the steps is called where providers have it as a kernel; so
     * far those of kvstore's own optimizers, "kvstore/adam". */
    const char *arithmetic;
} kvs_optimizer_t;

/* ---- Compressors ----------------------------------------------------------------------------- */

#define KVS_COMPRESSOR_MAX_PARAMS 8
#define KVS_COMPRESSOR_BLOCK      65536 /* elements */

/* A way to make gradients small, of float32 elements, and what that loses: the residual, an array as
 * large as the gradient, which begins as zeros and is added to the next one. Plain C over arrays,
 * which allocates nothing, takes no lock, keeps no state and runs in the default floating-point
 * environment.
 *
 * Arrays are cut: every piece but the last has a multiple of `unit` elements and is packed by
 * itself, and the packed pieces stand one after the other without a gap, so that results depend on
 * no cut, and pieces are worked on by several threads. Callers cut at multiples of
 * KVS_COMPRESSOR_BLOCK, or of `unit` where they like smaller pieces. `params` are the values of the
 * parameters, in the order of the table, each rounded once to float32. */
typedef struct kvs_compressor {
    uint32_t size;
    uint32_t unit; /* elements; divides KVS_COMPRESSOR_BLOCK */
    const char *name;
    const char *summary;
    const kvs_param_info_t *params; /* of type KVS_PARAM_BOOL, _INT or _FLOAT; none may be null */
    size_t n_params;
    /* NULL, or: are these parameters, each legal by itself, legal together? With a text if not. */
    kvs_status_t (*check)(const float *params);
    /* Bytes of `n` packed elements; of a whole number of units, as many times those of one unit. */
    uint64_t (*packed_bytes)(const float *params, int64_t n);
    /* Pack residual + gradient and write what was lost to `ret_residual`, which may be `residual`.
     * Returns 1; or 0 if an element of that sum is not finite: what was written is then worthless,
     * and the caller, who has kept the old residual, goes back to it. Unused bits are 0. `stream`:
     * `ret_residual`, aligned to 64 bytes and not `residual`, should be written past the caches. */
    int (*encode)(const float *params, int64_t n, const float *grad, const float *residual,
                  float *ret_residual, void *packed, int stream);
    /* What the packed elements stand for: write it, or add it. Any bytes are legal. */
    void (*decode)(const float *params, int64_t n, const void *packed, float *dst);
    void (*decode_add)(const float *params, int64_t n, const void *packed, float *dst);
    const char *arithmetic; /* as of kvs_optimizer_t: "kvstore/2bit" */
} kvs_compressor_t;

/* Optimizers in use outside of stores: what kvs_optimizer_create and its like of kvstore.h hand on to.
 * The core has checked the arguments: arrays are dense, compact, aligned, in host memory, of one shape
 * and dtype, and don't overlap; it sees to it that one thread at a time uses an optimizer. The kit has
 * one such service, kvs_optimizer_service, and the plugin `optimizers` offers it. It works with the
 * optimizers of all plugins. */
typedef struct kvs_optimizer_service {
    uint32_t size;
    uint32_t n_params; /* the parameters that all optimizers have; learning_rate comes first, */
    const kvs_param_info_t *params; /* its default being each optimizer's own */
    kvs_status_t (*create)(const kvs_optimizer_spec_t *spec, void **ret_optimizer);
    void (*free)(void *optimizer);
    /* Change `weight` by one step; `grad` stays as it is. */
    kvs_status_t (*update)(void *optimizer, const kvs_key_t *key, const kvs_tensor_t *grad,
                           const kvs_tensor_t *weight);
    kvs_status_t (*set_attr)(void *optimizer, const kvs_param_t *attr);
    kvs_status_t (*save_states)(void *optimizer, const char *path, int dump_optimizer);
    kvs_status_t (*load_states)(void *optimizer, const char *path);
} kvs_optimizer_service_t;

/* ---- Device providers ------------------------------------------------------------------------ */

/* Work of one device, done in order, and what waits for it: a provider's. Lives as long as the
 * process. */
typedef struct kvs_queue kvs_queue_t;

/* A place in a queue or in a stream of the program: all that was put there before. A plain value; all
 * zeros is a place that has been reached. */
typedef struct kvs_mark {
    void *lane;
    uint64_t number;
} kvs_mark_t;

/* A sum, as of kvs_provider_t.sum. */
typedef struct kvs_sum_item {
    int64_t n;
    const void *const *src;
    size_t n_src;
    void *const *dst;
    size_t n_dst;
} kvs_sum_item_t;

/* A step of an optimizer: the sum of n_src gradients, rounded once to the dtype, changes `weight` and
 * states; then the weight is written to n_dst arrays too. Arrays begin at the same element. */
typedef struct kvs_step_item {
    uint32_t size;
    int32_t dtype;
    const kvs_optimizer_t *kind;
    const double *scalars; /* KVS_OPTIMIZER_MAX_SCALARS */
    int64_t n;
    const void *const *src;
    size_t n_src;
    void *const *dst;
    size_t n_dst;
    void *weight;
    float *master;       /* the float32 weight of a half type, or NULL; then states are float32 */
    void *const *states; /* KVS_OPTIMIZER_MAX_STATES; NULL: not in use */
    int64_t row_elems;   /* of a kind with states per row, which the step changes first; else 0 */
} kvs_step_item_t;

/* Rows of an array, by id, and what goes there: row i is the sum, in order and rounded once to the dtype,
 * of `sources` [first[i], first[i + 1]), the addresses of rows; without `first` it is the i-th of `packed`,
 * and without that it is zeros. All lies where the queue's device reaches it. Calls that are given a range of
 * the array, elements [begin, begin + n), touch what of the rows lies in it. */
typedef struct kvs_rows_item {
    uint32_t size;
    int32_t dtype;
    int64_t row_elems;
    int64_t n_rows;
    const int64_t *ids; /* ascending, each once */
    const int64_t *first;
    const void *const *sources;
    const void *packed;
    int64_t begin, n;
} kvs_rows_item_t;

/* Compression by `kind` of n float32. */
typedef struct kvs_pack_item {
    uint32_t size;
    uint32_t reserved;
    const kvs_compressor_t *kind;
    const float *params;
    int64_t n;
    const float *grad;
    const float *residual;
    float *ret_residual;
    void *packed;
    /* NULL, or on the device, as find_non_finite writes it: not 0, nothing is packed and the residual stays
     * as it is. */
    const uint32_t *unless;
} kvs_pack_item_t;

/* Memory and kernels for one DLPack device type. All functions: any thread; sizes in elements
 * unless they say bytes. */
typedef struct kvs_provider {
    uint32_t size;
    int32_t device_type;
    const char *name;
    /* `n_bytes` of zeroed memory on `device`, aligned to 64 bytes at least; n_bytes may be 0. */
    kvs_status_t (*alloc)(kvs_device_t device, size_t n_bytes, void **ret_data);
    void (*free)(kvs_device_t device, void *data, size_t n_bytes); /* NULL does nothing */
    /* Sum n_src arrays in order and write the result, rounded once, to each of n_dst arrays of
     * dtype `dtype`. A destination may be one of the sources; otherwise they don't overlap. */
    kvs_status_t (*sum)(int dtype, int64_t n, const void *const *src, size_t n_src,
                        void *const *dst, size_t n_dst);
    /* Convert between floating dtypes, or copy between equal ones. */
    kvs_status_t (*cast)(int64_t n, int src_dtype, const void *src, int dst_dtype, void *dst);

    /* From here on: devices that work by themselves, in queues. All members are there, or all are
     * NULL, as of the host, whose memory everybody reads; but kernels that a provider lacks return
     * ERR_NOT_IMPLEMENTED, and those that call them go another way. Functions that take a queue return
     * when the work is queued, not when it is done; errors of the work itself show later, at any call
     * that names the device. Nothing else waits on the host, unless it says so. `alloc` and `free`
     * above work in the order of the device's queue; `sum` and `cast` wait. */

    /* Can it work here? The reason why not is the error text. */
    kvs_status_t (*probe)(void);
    kvs_status_t (*n_devices)(int *ret_n);
    kvs_status_t (*info)(int id, kvs_device_info_t *ret_info);
    /* Whether kernels of one device touch memory of another: 0 they don't; else how well, 1 being least. */
    int (*reaches)(int from, int to);
    /* The queue of a device. ERR_ARGUMENT: there is no such device, and how many there are. ERR_…: the
     * device has failed. */
    kvs_status_t (*queue)(kvs_device_t device, kvs_queue_t **ret_queue);
    /* Where the queue is; what is put into it from now on comes after a mark. */
    kvs_status_t (*mark)(kvs_queue_t *queue, kvs_mark_t *ret_mark);
    kvs_status_t (*wait)(kvs_queue_t *queue, const kvs_mark_t *mark);
    /* The same of a stream of the program in DLPack's coding, above 0. ERR_STATE: it is being captured.
     * Stream 2 is that of the calling thread. */
    kvs_status_t (*stream_mark)(kvs_device_t device, int64_t stream, kvs_mark_t *ret_mark);
    kvs_status_t (*stream_wait)(kvs_device_t device, int64_t stream, const kvs_mark_t *mark);
    /* Wait on the host until the mark is reached; ERR_TIMEOUT. */
    kvs_status_t (*host_wait)(const kvs_mark_t *mark, int64_t timeout_ms);
    /* Copy to or from memory of the queue's device; the other side is host memory or any device's.
     * Host memory may be used again when this returns, except pinned memory, which is used in order:
     * from it and to it nothing waits, but to other host memory this waits until all is there. */
    kvs_status_t (*copy)(kvs_queue_t *queue, kvs_device_t dst_device, void *dst,
                         kvs_device_t src_device, const void *src, size_t n_bytes);
    /* Copy at once, having waited for the queue, and wait until all is there. */
    kvs_status_t (*copy_now)(kvs_queue_t *queue, void *dst, const void *src, size_t n_bytes);
    kvs_status_t (*zero)(kvs_queue_t *queue, void *data, size_t n_bytes);
    /* Kernels, on memory that the queue's device reaches. Few items may be one launch. */
    kvs_status_t (*sums)(kvs_queue_t *queue, int dtype, const kvs_sum_item_t *items,
                         size_t n_items);
    kvs_status_t (*convert)(kvs_queue_t *queue, int64_t n, int src_dtype, const void *src,
                            int dst_dtype, void *dst);
    /* Set *flag (a uint32_t on the device) to 1 if src, or with `add` (float32) src + add, holds NaN or
     * infinity. */
    kvs_status_t (*find_non_finite)(kvs_queue_t *queue, int dtype, int64_t n, const void *src,
                                    const float *add, uint32_t *flag);
    /* With `n` 0 only say whether there is such a kernel; then which states are not NULL counts. */
    kvs_status_t (*step)(kvs_queue_t *queue, const kvs_step_item_t *item);
    kvs_status_t (*pack)(kvs_queue_t *queue, const kvs_pack_item_t *item);
    /* The sum, in order, of what n_src packed arrays of n float32 stand for. */
    kvs_status_t (*unpack)(kvs_queue_t *queue, const kvs_compressor_t *kind, const float *params,
                           int64_t n, const void *const *src, size_t n_src, float *dst);
    /* For libraries that queue work themselves: make the queue's device this thread's current one, give
     * the queue's stream as the library knows it (CUstream), and, by `leave`, put the caller's back. */
    kvs_status_t (*enter)(kvs_queue_t *queue, void **ret_stream);
    void (*leave)(kvs_queue_t *queue);
    /* kvs_optimizer_t.sums of every block of an item with one gradient, which begins at a block: n_sums
     * numbers for each, on the device. With `n` 0 as `step`. */
    kvs_status_t (*norms)(kvs_queue_t *queue, const kvs_step_item_t *item, uint32_t phase,
                          double *ret_sums);
    /* Steps of different arrays of one dtype and kind. Few items may be one launch. */
    kvs_status_t (*steps)(kvs_queue_t *queue, const kvs_step_item_t *items, size_t n_items);

    /* Rows. All members are there or all are NULL: whoever calls them then goes through host memory. */

    /* Write the rows one after the other, each as a whole. */
    kvs_status_t (*rows_sum)(kvs_queue_t *queue, const kvs_rows_item_t *item, void *sums);
    /* Write them to their places in `range`, or, with `add`, add them to what is there, which is rounded once
     * more. */
    kvs_status_t (*rows_put)(kvs_queue_t *queue, const kvs_rows_item_t *item, int add, void *range);
    /* Copy from `range` to each of n_dst arrays of rows, one after the other, of another floating dtype or the
     * same: what goes there does not count. */
    kvs_status_t (*rows_gather)(kvs_queue_t *queue, const kvs_rows_item_t *item, const void *range,
                                int to_dtype, void *const *dst, size_t n_dst);
    /* The step of an optimizer that changes only these rows: `packed` are their gradients, the step's arrays
     * but sources and destinations the range. */
    kvs_status_t (*rows_step)(kvs_queue_t *queue, const kvs_rows_item_t *item,
                              const kvs_step_item_t *step);
    /* Set flags[id] to 1 for each id of an integer array, and *outside (an int64_t) for those outside
     * [0, n_rows). */
    kvs_status_t (*rows_mark)(kvs_queue_t *queue, int dtype, int64_t n, const void *ids,
                              int64_t n_rows, uint8_t *flags, int64_t *outside);
    /* Set flags[id] to 1 for each row of the array that has a byte other than zero in `range`; the item's
     * rows do not count. */
    kvs_status_t (*rows_find)(kvs_queue_t *queue, const kvs_rows_item_t *item, const void *range,
                              uint8_t *flags);
    /* Write the ids whose flags are 1, others being 0, ascending, and how many. `flags` are aligned to 64
     * bytes. */
    kvs_status_t (*rows_list)(kvs_queue_t *queue, int64_t n_rows, const uint8_t *flags,
                              int64_t *ret_ids, int64_t *ret_n);

    /* Queues beside the device's own, for copies between its memory and pinned memory: of those to the
     * host and of those from it. They take `mark`, `wait` and such copies; nothing else orders them
     * with the device's queue, in whose order memory is allocated and freed. */
    kvs_status_t (*copy_queue)(kvs_device_t device, int to_host, kvs_queue_t **ret_queue);
} kvs_provider_t;

/* ---- Backends -------------------------------------------------------------------------------- */

typedef struct kvs_config kvs_config_t; /* opaque: ask host->option */

typedef struct kvs_open_args {
    uint32_t size;
    uint32_t reserved;
    const char *type;           /* the name the store was created by, lower-cased */
    const kvs_config_t *config; /* until open returns, as is what follows */
    /* What the store is made of: plugin, version, ABI, backend, and the backend's options but those
     * with KVS_OPTION_LOCAL; as text of several lines, and its digest (FNV-1a, 64 bits). Equal in
     * all processes of a job that are set up alike: backends of several workers compare digests
     * when they meet, and show the texts if they differ. */
    const char *loaded;
    uint64_t digest;
} kvs_open_args_t;

/* Verbs return the operation's status with its text (kvs_fail). A blocking backend is given one
 * group at a time, on any thread, never two of one key at once, unless KVS_OP_SHARED,
 * KVS_BACKEND_WHOLE_CALLS or KVS_BACKEND_BATCHES gives all; it
 * may wait for work of this process only. An asynchronous one is given the whole call, on the
 * calling thread, in order of issue; it returns without waiting for a peer, and if it returned 0
 * ends the operation with host->consumed(op) and host->complete(op, status), each once. It keeps the
 * time-out of the store (host->option, "timeout") itself: the core waits some seconds longer, so that
 * the error which names whoever did not come is told.
 * Functions below `row_sparse_pull` that change the store run alone: the core has waited for the
 * operations issued before, in blocking mode. NULL members are not implemented. */
typedef struct kvs_backend_ops {
    uint32_t size;
    uint32_t mode; /* KVS_BLOCKING or KVS_ASYNCHRONOUS */
    /* Private state of a store, of each of its keys, and of each group of an operation: the core allocates and
     * zeroes them; groups' in blocking mode are valid from issue to the end of the operation. */
    size_t store_size;
    size_t key_size;
    size_t group_size;
    /* Can this backend work here? The reason why not is the error text. Called before open. */
    kvs_status_t (*probe)(const kvs_config_t *config);
    /* Required. On failure close is not called; the memory is the core's. */
    kvs_status_t (*open)(void *store, const kvs_open_args_t *args);
    /* Required. Called once, when no operation is running, and on no thread of the backend's. Keys
     * are released first. */
    kvs_status_t (*close)(void *store, int64_t timeout_ms);
    /* Release what `state` of a key holds. Also for keys whose init failed. */
    void (*key_release)(void *store, kvs_key_entry_t *key);
    /* On the calling thread, in order of issue, one at a time per store, before any verb of the
     * operation; never waits. For what must be counted in program order. An error ends the
     * operation, for all its keys, before anything is done. */
    kvs_status_t (*issue)(void *store, kvs_op_t *op);
    kvs_status_t (*init)(void *store, kvs_op_t *op);
    kvs_status_t (*push)(void *store, kvs_op_t *op);
    kvs_status_t (*pull)(void *store, kvs_op_t *op);
    kvs_status_t (*pushpull)(void *store, kvs_op_t *op);
    kvs_status_t (*broadcast)(void *store, kvs_op_t *op);
    kvs_status_t (*row_sparse_pull)(void *store, kvs_op_t *op);
    kvs_status_t (*set_updater)(void *store, kvs_updater_t fn, void *arg); /* NULL: remove it */
    kvs_status_t (*set_optimizer)(void *store, const kvs_optimizer_spec_t *spec);
    kvs_status_t (*set_optimizer_attr)(void *store, const kvs_param_t *attr);
    kvs_status_t (*set_gradient_compression)(void *store, const kvs_param_t *params,
                                             size_t n_params);
    kvs_status_t (*save_optimizer_states)(void *store, const char *path, int dump_optimizer);
    kvs_status_t (*load_optimizer_states)(void *store, const char *path);
    /* NULL members of this part: rank 0, 1 worker, local rank 0, barrier, join and commands do
     * nothing, no dead nodes, no recovery; run_server is not implemented. */
    kvs_status_t (*rank)(void *store, int *ret_rank);
    kvs_status_t (*num_workers)(void *store, int *ret_num_workers);
    kvs_status_t (*local_rank)(void *store, int *ret_local_rank);
    kvs_status_t (*barrier)(void *store);
    kvs_status_t (*join)(void *store);
    kvs_status_t (*send_command)(void *store, int head, const void *body, size_t n_bytes);
    kvs_status_t (*num_dead_nodes)(void *store, const char *role, int64_t timeout_ms,
                                   int *ret_dead);
    kvs_status_t (*is_recovery)(void *store, int *ret_recovery);
    kvs_status_t (*run_server)(void *store);
    /* What this store can do, KVS_CAN_…: not all of what its backend can (`of_backend`), by its options.
     * NULL: all of it. */
    uint32_t (*capabilities)(void *store, uint32_t of_backend);
    /* NULL: as join, and the last rank is given as 0. */
    kvs_status_t (*join_last)(void *store, int *ret_last_rank);
    kvs_status_t (*set_controller)(void *store, kvs_controller_t fn, void *arg); /* NULL: remove */
    /* The keys are to be forgotten: tell whoever else keeps them. Nothing of the store runs, whatever
     * its mode. key_release of each follows. NULL: nobody else does, in blocking mode. */
    kvs_status_t (*delete_keys)(void *store, kvs_key_entry_t *const *keys, size_t n_keys);
    /* Make every call that waits within the backend return ERR_CANCELLED soon, and complete with it
     * what an asynchronous one was handed: close waits 2 s for that, and where something is left then,
     * the backend is closed only when that has completed. Any thread, also in a signal handler. NULL:
     * there are none. */
    void (*cancel)(void *store);
    /* What kvs_store_extension gives for `name`: a constant table, or NULL. */
    const void *(*extension)(const char *name);
    /* The mode of this store, asked once when it has been opened: it may depend on options, such as how many
     * workers there are. NULL: `mode`. */
    uint32_t (*store_mode)(void *store);
} kvs_backend_ops_t;

/* Capabilities: bits of kvs_backend_t.capabilities; in manifests the names in lower case. */
enum {
    KVS_CAN_OPTIMIZER = 1,
    KVS_CAN_SPARSE = 2,
    KVS_CAN_COMPRESSION = 4, /* gradient_compression */
    KVS_CAN_ASYNC = 8,
    KVS_CAN_MULTI_WORKER = 16,
    KVS_KEEPS_WEIGHTS = 32,
    /* The two below are in no manifest. */
    KVS_CAN_REDUCE = 64, /* pushpull with kvs_op_t.reduce */
    KVS_CAN_ROWS = 128   /* row-sparse pushpull, without KVS_CAN_SPARSE and weights */
};

enum {
    KVS_OPTION_LOCAL = 1 /* may differ between the processes of a job, such as an address */
};

/* An option of create that a backend understands. */
typedef struct kvs_option_info {
    const char *name;
    const char *type;   /* "int", "size", "float", "bool", "text", "time" (seconds) */
    const char *preset; /* the default, as text */
    const char *doc;
    const char *variable; /* NULL, or a variable read behind KVSTORE_NAME, such as MXNet's */
    uint32_t flags;       /* KVS_OPTION_… */
    uint32_t reserved;
} kvs_option_info_t;

#define KVS_DTYPES_ALL ((1u << KVS_N_DTYPES) - 1)

enum {
    /* Blocking: given all groups of a call at once, which then succeed or fail together; but not where an
     * updater of the program runs. */
    KVS_BACKEND_WHOLE_CALLS = 1,
    /* Blocking: given several groups of push, pull and pushpull at once where all arrays are on devices;
     * it does what it can for each, and gives the failure of the first in the list. */
    KVS_BACKEND_BATCHES = 2
};

typedef struct kvs_backend {
    uint32_t size;
    uint32_t capabilities; /* KVS_CAN_… | KVS_KEEPS_WEIGHTS */
    const char *name;
    uint32_t dtypes; /* bits by number: 1u << KVS_DTYPE_float32 | …, or KVS_DTYPES_ALL */
    uint32_t n_device_types;
    const int32_t *device_types; /* KVS_DEVICE_… */
    const kvs_backend_ops_t *ops;
    const kvs_option_info_t *options;
    size_t n_options;
    uint32_t flags; /* KVS_BACKEND_… */
    uint32_t reserved;
} kvs_backend_t;

/* ---- The plugin and its host ------------------------------------------------------------------ */

/* What the entry of a plugin returns: const, alive until the process ends (plugins are never
 * unmapped). Name, version, ABI and what it provides must agree with the manifest. */
typedef struct kvs_plugin {
    uint32_t size;
    uint16_t abi_major, abi_minor;
    const char *name;
    const char *version;
    const kvs_backend_t *const *backends;
    size_t n_backends;
    const kvs_optimizer_t *const *optimizers;
    size_t n_optimizers;
    const kvs_provider_t *const *providers;
    size_t n_providers;
    const kvs_compressor_t *const *compressors;
    size_t n_compressors;
    /* NULL: none; looked for in plugin `optimizers` */
    const kvs_optimizer_service_t *optimizer_service;
    /* NULL, or what `kvstore info` shows of this machine: a call of `line` for each thing found, such as
     * the version and file of a library opened at run time, or why there is none. `config`: the settings
     * of the plugin's first backend without options of create; NULL if it has none. Waits for nobody. */
    void (*about)(const kvs_config_t *config,
                  void (*line)(void *arg, const char *label, const char *text), void *arg);
} kvs_plugin_t;

enum { KVS_LOG_ERROR = 1, KVS_LOG_WARN, KVS_LOG_INFO, KVS_LOG_DEBUG, KVS_LOG_TRACE };

/* The host's services. Lives until the process ends. All functions: any thread. */
typedef struct kvs_host {
    uint32_t size;
    uint16_t abi_major, abi_minor;
    uint64_t features;   /* 0 so far */
    const char *version; /* of the core */
    /* Store the text of a failure for this thread and return `status`. */
    kvs_status_t (*fail)(kvs_status_t status, const char *format, ...) KVS_PRINTF(2, 3);
    /* Put "context: " in front of this thread's text and return `status`. */
    kvs_status_t (*fail_context)(kvs_status_t status, const char *format, ...) KVS_PRINTF(2, 3);
    void (*log)(int level, const char *area, const char *format, ...) KVS_PRINTF(3, 4);
    /* Call fn(arg, begin, end) for pieces of [0, n) that cover it, of about `grain` or more, on
     * this thread and idle threads of the pool; returns when all have returned. */
    void (*parallel_for)(int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);
    /* Asynchronous backends: the op's values may be reused / the op has ended. With a status other
     * than 0 the text is this thread's. The op must not be touched after complete. */
    void (*consumed)(kvs_op_t *op);
    void (*complete)(kvs_op_t *op, kvs_status_t status);
    /* The value of an option of create, or its default; NULL if the backend has no such option. */
    const char *(*option)(const kvs_config_t *config, const char *name);
    /* Find by name among installed plugins, loading the plugin at first use. ERR_NOT_FOUND names
     * what exists. What is found lives until the process ends. */
    kvs_status_t (*find_optimizer)(const char *name, const kvs_optimizer_t **ret_optimizer);
    kvs_status_t (*find_provider)(int32_t device_type, const kvs_provider_t **ret_provider);
    /* A span in the trace file, if one is written: pass what begin gave. Names are copied. */
    int64_t (*trace_begin)(void);
    void (*trace_end)(int64_t begin, const char *name, const char *detail, uint64_t n_bytes);
    /* This thread's text: for plugins that pass a failure on to another thread or process. */
    const char *(*last_error)(void);
    kvs_status_t (*find_compressor)(const char *name, const kvs_compressor_t **ret_compressor);
} kvs_host_t;

#ifdef __cplusplus
}
#endif
#endif
