/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h - libkvstore-kit.a: numbers for backends. Linked statically into a plugin; its only state
 * is kvs_plugin_host.
 *
 * Three parts: sums and casts, the CPU device provider that cuts them over threads, and the host
 * store, a whole store of one process, on which local, device, nccl and the servers of dist are
 * built. `dtype` is a KVS_DTYPE_… number everywhere; sizes count elements unless they say bytes. */
#ifndef KVSTORE_KIT_H
#define KVSTORE_KIT_H

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

/* ---- Providers ------------------------------------------------------------------------------- */

/* The CPU provider: part of the kit, always there. Serves KVS_DEVICE_CPU and pinned host memory.
 * Its sums and casts are those above, big ones cut over the host's pool and written past the
 * caches. Buffers from 4 MiB on lie on huge pages where the system has them. */
const kvs_provider_t *kvs_cpu_provider(void);
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
    pthread_mutex_t lock;
    kvs_hoststore_key_t *keys; /* guarded by lock: every key that has a value */
    uint64_t n_bytes;          /* of all values; written under lock, read as a relaxed atomic */
} kvs_hoststore_t;

struct kvs_hoststore_key {
    const kvs_key_entry_t *entry; /* from init on */
    void *weight; /* the stored value; NULL if it has no elements */
    void *merge;  /* the sum, where something needs it whole; NULL until then */
    size_t n_bytes;
    kvs_opt_key_t opt;
    kvs_hoststore_key_t *prev, *next; /* guarded by the store's lock */
    uint32_t has_value;               /* 1 from init on */
    uint32_t reserved;
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
kvs_status_t kvs_hoststore_set_updater(void *store, kvs_updater_t fn, void *arg);
kvs_status_t kvs_hoststore_set_optimizer(void *store, const kvs_optimizer_spec_t *spec);
kvs_status_t kvs_hoststore_set_optimizer_attr(void *store, const kvs_param_t *attr);
kvs_status_t kvs_hoststore_save_optimizer_states(void *store, const char *path, int dump_optimizer);
kvs_status_t kvs_hoststore_load_optimizer_states(void *store, const char *path);

#ifdef __cplusplus
}
#endif
#endif
