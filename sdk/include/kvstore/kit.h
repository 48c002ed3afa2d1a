/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h - libkvstore-kit.a: numbers for backends. Linked statically into a plugin; its only state
 * is kvs_plugin_host, and which ways through host memory it has warned of.
 *
 * Six parts: sums and casts, row-sparse values, the CPU device provider that cuts sums over
 * threads, the host store, a whole store of one process, on which local and the servers of dist are
 * built, the device store, which adds arrays on devices to it, and copies of device arrays for backends
 * that work in host memory. `dtype` is a KVS_DTYPE_… number everywhere; sizes count elements unless
 * they say bytes. */
#ifndef KVSTORE_KIT_H
#define KVSTORE_KIT_H

#include <kvstore/compression.h>
#include <kvstore/optimizer.h>
#include <kvstore/plugin.h>

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Of the core's functions the kit has its own kvs_dtype, kvs_dtype_index, kvs_dtype_name,
 * kvs_status_name and kvs_status_text, so that a plugin may call them. */

/* Bytes of one element; 0 for a number that is no dtype. */
size_t kvs_dtype_bytes(int dtype);
int kvs_dtype_is_floating(int dtype);
int64_t kvs_tensor_n_elems(const kvs_tensor_t *tensor);

/* ---- Sums and casts, on the calling thread ---------------------------------------------------- */

/* Sum n_src >= 1 arrays, in order, and write the result to each of n_dst arrays. float16 and
 * bfloat16 are summed in float32 and rounded once, to nearest even; integers wrap; NaN stays NaN,
 * though which of several is unspecified. A single source is copied bit by bit. A destination may
 * be one of the sources or of the destinations; otherwise arrays don't overlap. Arrays are aligned
 * to their elements. With `stream`, destinations that are no source are written past the caches.
 * The bits depend on nothing but the sources: not on the processor, nor on how arrays are cut. */
void kvs_sum(int dtype, int64_t n, const void *const *src, size_t n_src, void *const *dst,
             size_t n_dst, int stream);

/* Convert between floating dtypes, rounding once, to nearest even; or copy between equal dtypes.
 * `dst` may be `src` if both have the same size of element; otherwise they don't overlap. */
void kvs_cast(int64_t n, int src_dtype, const void *src, int dst_dtype, void *dst);

/* Whether work that reads or writes `n_bytes` in all is too much for the caches, so that writing
 * past them pays. */
int kvs_exceeds_cache(uint64_t n_bytes);

/* ---- Row-sparse values ------------------------------------------------------------------------ */

/* A row is one step of the first dimension; its elements lie side by side. Everything here is in
 * host memory, big work is cut over the host's pool, and the bits of a sum depend on nothing but
 * its values. Functions without a status can't fail. */

/* Elements of a row of an array with at least one dimension. */
int64_t kvs_row_elems(const kvs_tensor_t *tensor);

/* The rows of several row-sparse values of one shape and dtype, by id. It points into the values,
 * which must stay as they are until it is released. */
typedef struct kvs_row_union {
    int dtype;
    int64_t row_elems;
    int64_t n_shape;    /* rows of the full shape */
    int64_t n_rows;     /* different ids */
    const int64_t *ids; /* ascending */
    /* Row i is the sum of sources [first[i], first[i + 1]), in this order: that of the list, and
     * within a value that of its rows. */
    const int64_t *first;
    const void *const *sources;
    const void *packed; /* with `first` NULL there is nothing to add up: row i is the i-th here */
    void *memory;
} kvs_row_union_t;

/* From n_values >= 1 values, whose ids may come in any order and repeat. ERR_RANGE: an id outside the
 * shape. ERR_NO_MEMORY. */
kvs_status_t kvs_row_union_make(const kvs_tensor_t *values, size_t n_values,
                                kvs_row_union_t *ret_rows);
void kvs_row_union_release(kvs_row_union_t *rows); /* empties it */
/* Write the sums one after the other, in order of `ids`; a single row is copied bit by bit, others are
 * added as kvs_sum does. `sums` overlaps no value. */
void kvs_row_union_sum(const kvs_row_union_t *rows, void *sums);
/* Write them to their rows of an array of the full shape; other rows stay. */
void kvs_row_union_put(const kvs_row_union_t *rows, void *dense);
/* The same, and zeros to the other rows. */
void kvs_row_union_to_dense(const kvs_row_union_t *rows, void *dense);

/* Copy rows `ids` of a dense array to `rows`, one after the other, converting between floating
 * dtypes. */
void kvs_rows_gather(int dtype, int64_t row_elems, const void *dense, int64_t n, const int64_t *ids,
                     int to_dtype, void *rows);
/* Add `rows` to the rows `ids`, which ascend, of a dense array. */
void kvs_rows_add(int dtype, int64_t row_elems, int64_t n, const int64_t *ids, const void *rows,
                  void *dense);
/* Write the ids of the rows that hold a byte other than zero, ascending, and return how many. */
int64_t kvs_rows_find(size_t row_bytes, int64_t n_rows, const void *dense, int64_t *ids);
int kvs_row_is_zero(const void *row, size_t n_bytes);

/* The ids in an integer array of any shape, ascending, each once; free() them. ERR_RANGE: one lies
 * outside [0, n_rows). ERR_DTYPE, ERR_NO_MEMORY. */
kvs_status_t kvs_row_ids_unique(const kvs_tensor_t *row_ids, int64_t n_rows, int64_t **ret_ids,
                                int64_t *ret_n);

/* ---- Providers ------------------------------------------------------------------------------- */

/* The CPU provider: part of the kit, always there. Serves KVS_DEVICE_CPU and pinned host memory.
 * Its sums and casts are those above, big ones cut over the host's pool and written past the
 * caches. Buffers from 4 MiB on lie on huge pages where the system has them. */
const kvs_provider_t *kvs_cpu_provider(void);
/* Options of create, in a backend's open. Of type "time", in milliseconds, at least 1 unless it is 0; of type
 * "float". With a decimal point, whatever the program's locale is; 0: there is no such option. */
int64_t kvs_option_ms(const kvs_config_t *config, const char *name);
double kvs_option_real(const kvs_config_t *config, const char *name);
/* The CPU provider for host memory; else the plugin that serves the type, through the host table. */
kvs_status_t kvs_provider_find(int32_t device_type, const kvs_provider_t **ret_provider);

/* ---- The host store -------------------------------------------------------------------------- */

/* A store of one process that keeps weights in host memory. Its functions are members of
 * kvs_backend_ops_t, its structs the private state of store, keys and groups: a backend names both
 * in its table, and may embed the structs as first members of its own and put functions of its own
 * in place of these. They belong to the host store; other files read them at most. */
typedef struct kvs_hoststore_key kvs_hoststore_key_t;

typedef struct kvs_hoststore {
    char *type; /* the name the store was created by */
    /* Changed only by operations that run alone. At most one of the two is set: */
    kvs_updater_t updater;
    void *updater_arg;
    kvs_opt_t *opt;
    kvs_compression_t *compression; /* NULL: values are summed as they come */
    pthread_mutex_t lock;
    kvs_hoststore_key_t *keys; /* guarded by lock: every key that has a value */
    uint64_t n_bytes;          /* of all values; written under lock, read as a relaxed atomic */
} kvs_hoststore_t;

struct kvs_hoststore_key {
    const kvs_key_entry_t *entry; /* from init on */
    void *weight;                 /* the stored value; NULL if it has no elements */
    void *merge;                  /* the sum, where something needs it whole; NULL until then */
    size_t n_bytes;
    kvs_opt_key_t opt;
    kvs_residuals_t residuals;        /* of compression, also of one that is no longer in force */
    kvs_hoststore_key_t *prev, *next; /* guarded by the store's lock */
    uint32_t has_value;               /* 1 from init on */
    /* Of a row-sparse key: one bit for each row that init or a push has given it. With rows_unsure
     * an update may have made others than these non-zero. */
    uint32_t rows_unsure;
    uint64_t *rows;
};

typedef struct kvs_hoststore_group {
    kvs_opt_update_t update; /* computed by issue, if an optimizer is set */
} kvs_hoststore_group_t;

kvs_status_t kvs_hoststore_open(void *store, const kvs_open_args_t *args);
kvs_status_t kvs_hoststore_close(void *store, int64_t timeout_ms);
void kvs_hoststore_key_release(void *store, kvs_key_entry_t *key);
kvs_status_t kvs_hoststore_issue(void *store, kvs_op_t *op);
kvs_status_t kvs_hoststore_init(void *store, kvs_op_t *op);
kvs_status_t kvs_hoststore_push(void *store, kvs_op_t *op);
kvs_status_t kvs_hoststore_pull(void *store, kvs_op_t *op);
kvs_status_t kvs_hoststore_pushpull(void *store, kvs_op_t *op);
kvs_status_t kvs_hoststore_row_sparse_pull(void *store, kvs_op_t *op);
kvs_status_t kvs_hoststore_set_updater(void *store, kvs_updater_t fn, void *arg);
kvs_status_t kvs_hoststore_set_optimizer(void *store, const kvs_optimizer_spec_t *spec);
kvs_status_t kvs_hoststore_set_optimizer_attr(void *store, const kvs_param_t *attr);
kvs_status_t kvs_hoststore_set_gradient_compression(void *store, const kvs_param_t *params,
                                                    size_t n_params);
kvs_status_t kvs_hoststore_save_optimizer_states(void *store, const char *path, int dump_optimizer);
kvs_status_t kvs_hoststore_load_optimizer_states(void *store, const char *path);

/* ---- The device store -------------------------------------------------------------------------- */

/* A host store whose arrays may lie on devices that have queues (kvs_provider_t.queue): sums, optimizers
 * and compression run where arrays lie, a key's weight lives there from its first push from a device on, cut
 * over the devices that push if it is big, and what a provider lacks goes through host memory, with one
 * log line. Outs and values of a stream are used in its order, and nothing waits for
 * the device then; without a stream an operation ends when it is done with the array. As of the host
 * store, functions are members of kvs_backend_ops_t. */
struct kvs_collective;

typedef struct kvs_devstore {
    kvs_hoststore_t host;                    /* first */
    const struct kvs_collective *collective; /* NULL, or who sums over devices instead */
    struct kvs_dev_marks *marks; /* of operations that are issued; guarded by host.lock */
    uint64_t n_bytes[64];        /* of weights on each device; relaxed atomics */
} kvs_devstore_t;

typedef struct kvs_devstore_key {
    kvs_hoststore_key_t host;   /* first; without a weight while the parts have it */
    struct kvs_dev_part *parts; /* NULL: the weight is on the host */
    size_t n_parts;
    size_t n_residuals; /* of each part: places that have been pushed */
} kvs_devstore_key_t;

typedef struct kvs_devstore_group {
    kvs_hoststore_group_t host; /* first */
    struct kvs_dev_marks
        *marks; /* where the program's streams were at issue; NULL: there are none */
} kvs_devstore_group_t;

/* One array on several devices, to be summed or handed round. */
typedef struct kvs_collective_item {
    const kvs_key_entry_t *key;
    int64_t n; /* elements of the key's dtype */
    size_t n_devices;
    const kvs_device_t *devices;
    kvs_queue_t *const *queues;
    const void *const *src; /* on each device, not changed; of a broadcast only root's counts */
    void *const *dst;       /* may be its src; of a sum for one root only that one's counts */
    int32_t root;           /* place in the list; -1, sums only: every device gets it */
    uint32_t is_broadcast;
} kvs_collective_item_t;

/* Who sums over devices, for a device store that is not to do it by itself: set store->collective before
 * the first operation. Arrays that share a device are summed before; optimizers run where the key's
 * weight is, on one device, which takes part in every exchange of the key. */
typedef struct kvs_collective {
    /* Queue all items, as one where that is possible, and return. Any thread, several at once. */
    kvs_status_t (*exchange)(kvs_devstore_t *store, const kvs_collective_item_t *items,
                             size_t n_items, uint64_t *ret_ticket);
    /* The host has waited for the queues: the failure of the exchange of that ticket, if it failed; 0:
     * of none. */
    kvs_status_t (*settle)(kvs_devstore_t *store, uint64_t ticket);
    size_t min_devices; /* exchanges of fewer are left to the store; 1 or 2 */
    int is_one_by_one;  /* there is nothing in several keys at once: each fails by itself */
} kvs_collective_t;

kvs_status_t kvs_devstore_close(void *store, int64_t timeout_ms);
void kvs_devstore_key_release(void *store, kvs_key_entry_t *key);
kvs_status_t kvs_devstore_issue(void *store, kvs_op_t *op);
kvs_status_t kvs_devstore_init(void *store, kvs_op_t *op);
kvs_status_t kvs_devstore_push(void *store, kvs_op_t *op);
kvs_status_t kvs_devstore_pull(void *store, kvs_op_t *op);
kvs_status_t kvs_devstore_pushpull(void *store, kvs_op_t *op);
kvs_status_t kvs_devstore_row_sparse_pull(void *store, kvs_op_t *op);
kvs_status_t kvs_devstore_set_updater(void *store, kvs_updater_t fn, void *arg);
kvs_status_t kvs_devstore_set_optimizer(void *store, const kvs_optimizer_spec_t *spec);
kvs_status_t kvs_devstore_set_gradient_compression(void *store, const kvs_param_t *params,
                                                   size_t n_params);
kvs_status_t kvs_devstore_save_optimizer_states(void *store, const char *path, int dump_optimizer);
kvs_status_t kvs_devstore_load_optimizer_states(void *store, const char *path);

/* Streams of the program, for who does part of an operation before or after the device store does. Groups have
 * a kvs_devstore_group_t for their state. */
static inline int kvs_dev_is(const kvs_tensor_t *tensor)
{
    return tensor->device.type == KVS_DEVICE_CUDA || tensor->device.type == KVS_DEVICE_CUDA_MANAGED;
}

/* Look at every device array of the group: the device is there, the stream is no trouble; and remember
 * where the streams are. On the thread that issues the operation; the device store's issue does it too,
 * and each verb of its drops them. */
kvs_status_t kvs_dev_marks_take(kvs_devstore_t *store, kvs_group_t *group);
void kvs_dev_marks_drop(kvs_devstore_t *store, kvs_group_t *group);
/* Let the queue wait for all streams of the group. */
kvs_status_t kvs_dev_marks_wait(const kvs_provider_t *provider, const kvs_group_t *group,
                                kvs_queue_t *queue);
/* Let all streams of the group wait for the mark. */
kvs_status_t kvs_dev_marks_release(const kvs_provider_t *provider, const kvs_group_t *group,
                                   const kvs_mark_t *mark);
/* Whether the operation must not end before the device is done with the array: it lies on the host, or
 * nobody says whose stream is to wait. The per-thread stream can be reached by its own thread only. */
int kvs_dev_is_awaited(const kvs_tensor_t *tensor);
/* The place of the device that has the key's whole weight among `devices`; where none of them has, the weight
 * goes to host memory, from where the next push takes it to its own device: 0. */
kvs_status_t kvs_devstore_settle(kvs_devstore_t *store, kvs_key_entry_t *key,
                                 const kvs_device_t *devices, size_t n_devices, size_t *ret_place);

/* ---- Device arrays for backends that work in host memory --------------------------------------------------- */

/* Lets an asynchronous backend take arrays on devices: `run`, which does all its verbs, is given operations
 * whose arrays are all in host memory, in order of issue, one at a time, on the calling thread or another.
 * Values of a key that are all on devices are summed there first. Streams of arrays are followed as by the
 * device store; the calling thread waits for devices only with init and broadcast. */
typedef struct kvs_devhost kvs_devhost_t;

/* The residual of a key whose pushes are packed where its values are; all-zero: the host has it. */
typedef struct kvs_devhost_residual {
    kvs_device_t device;
    float *data; /* NULL: the host has it */
    int64_t n_elems;
    uint64_t n_on_host; /* which operation was the last that packs in host memory */
} kvs_devhost_residual_t;

/* Gradient compression of a key's sum. */
typedef struct kvs_devhost_packing {
    const kvs_compression_t *compression;
    kvs_residuals_t *residuals; /* the host's, with one place; empty while the device has it */
    kvs_devhost_residual_t *residual;
} kvs_devhost_packing_t;

typedef struct kvs_devhost_args {
    void *store;
    kvs_status_t (*run)(void *store, kvs_op_t *op);
    /* NULL, or: whether what a push brings of this key, dense float32 arrays, is packed, and how. Such values
     * are packed where they are, if they are all on devices. On the calling thread. */
    int (*packing)(void *store, const kvs_group_t *group, kvs_devhost_packing_t *ret_packing);
    /* NULL, or: `run` is given pushes before their values are there, asks how much has arrived, and is told
     * that there is more, or that there never will be, by this, on any thread. */
    void (*arrived)(void *store);
    int64_t timeout_ms; /* that a device is waited for without progress; 0: 10 minutes */
} kvs_devhost_args_t;

kvs_status_t kvs_devhost_new(const kvs_devhost_args_t *args, kvs_devhost_t **ret_host);
/* As close: no operation is running. NULL does nothing. */
void kvs_devhost_free(kvs_devhost_t *host);
/* The backend's verbs. */
kvs_status_t kvs_devhost_run(kvs_devhost_t *host, kvs_op_t *op);
/* Wait until `run` has been given all operations: for the backend's other functions that follow them. NULL
 * does nothing. */
void kvs_devhost_drain(kvs_devhost_t *host);
/* The same for a call of one value and one out, named `what` in errors, that waits for its end: `call` is
 * given them in host memory, on this thread. */
kvs_status_t kvs_devhost_call(
    kvs_devhost_t *host, const char *what, const kvs_tensor_t *value, const kvs_tensor_t *out,
    kvs_status_t (*call)(void *arg, const kvs_tensor_t *value, const kvs_tensor_t *out), void *arg);
/* Of the backend's cancel: operations that wait for devices end soon, with ERR_CANCELLED. Safe in a signal
 * handler. NULL does nothing. */
void kvs_devhost_cancel(kvs_devhost_t *host);
/* What `run` calls in place of the host table's functions. */
void kvs_devhost_consumed(kvs_op_t *op);
void kvs_devhost_complete(kvs_op_t *op, kvs_status_t status);
/* Of a push or pushpull that `run` was given: how many bytes of the group's one value are there, from its
 * beginning; SIZE_MAX: whatever there is. With the failure of what is still to come. */
kvs_status_t kvs_devhost_arrived(const kvs_op_t *op, const kvs_group_t *group, size_t *ret_n_bytes);
/* Wait until all values are there: in `run`, if it wants them whole. */
kvs_status_t kvs_devhost_await(const kvs_op_t *op);
/* Of a group that `run` was given: NULL, or what its values were packed to on their device. ERR_NON_FINITE: they
 * can't be, and nothing was done; the text does not name the key. */
kvs_status_t kvs_devhost_packed(const kvs_op_t *op, const kvs_group_t *group,
                                const void **ret_packed);
/* Have the residual in host memory again; waits for the device. If that fails it is lost. */
kvs_status_t kvs_devhost_take_home(kvs_devhost_residual_t *residual, kvs_residuals_t *residuals);
void kvs_devhost_residual_release(kvs_devhost_residual_t *residual); /* all-zero again */
/* Elements [first, first + n) of all outs of the group are written: they may go to their devices. Each
 * element is told of once, or not at all; by one thread at a time. */
void kvs_devhost_wrote(kvs_op_t *op, const kvs_group_t *group, int64_t first, int64_t n);

/* ---- Libraries of the system ------------------------------------------------------------------------------- */

/* One that is opened at run time, so that the plugin loads, and says what is missing, without it: a static
 * of the plugin, {.preset = "libnccl.so.2", …}. */
typedef struct kvs_library {
    const char *preset;   /* the file's name, as dlopen takes it */
    const char *variable; /* of the environment: another name, not heeded in privileged programs */
    const char *missing;  /* "no NCCL": text of the error, before dlopen's own */
    const char *mend;     /* "install libnccl2": after it */
    /* Find what is wanted of it, and see that it will do. What fails leaves the library open: it may have
     * threads. */
    kvs_status_t (*find)(void *handle, const char *name);
    int is_open; /* the kit's */
} kvs_library_t;

/* 0 at once if it is open. ERR_UNAVAILABLE: it can't be opened; or as `find`. The next call tries again.
 * Any thread. */
kvs_status_t kvs_library_open(kvs_library_t *library);
#ifdef __cplusplus
}
#endif
#endif
