/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h - libkvstore-kit.a: numbers for backends. Linked statically into a plugin; its only state
 * is kvs_plugin_host.
 *
 * Two parts: sums, casts and the CPU device provider; and the host store, a whole store of one
 * process, on which local, device, nccl and the servers of dist are built. */
#ifndef KVSTORE_KIT_H
#define KVSTORE_KIT_H

#include <kvstore/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Bytes of one element; `dtype` is a KVS_DTYPE_… number. */
size_t kvs_dtype_bytes(int dtype);
int kvs_dtype_is_floating(int dtype);
int64_t kvs_tensor_n_elems(const kvs_tensor_t *tensor);

/* ---- Providers ------------------------------------------------------------------------------- */

/* The CPU provider: part of the kit, always there. Serves KVS_DEVICE_CPU and pinned host memory.
 * Sums: float16 and bfloat16 accumulate in float32 and are rounded once (nearest even); integers
 * wrap; element order is list order, so the bits don't depend on threads or blocks. Large arrays
 * are cut over the host's pool. */
const kvs_provider_t *kvs_cpu_provider(void);
/* The CPU provider for host memory; else the plugin that serves the type, through the host table. */
kvs_status_t kvs_provider_find(int32_t device_type, const kvs_provider_t **ret_provider);

/* ---- The host store -------------------------------------------------------------------------- */

/* A store of one process that keeps weights: the whole of semantics for `local`. Its functions are
 * members of kvs_backend_ops_t; a backend names them in its table and may put its own in their
 * place. KVS_HOSTSTORE_SIZES gives the table's three sizes. */
typedef struct kvs_hoststore kvs_hoststore_t;

extern const size_t kvs_hoststore_size, kvs_hoststore_key_size, kvs_hoststore_group_size;
#define KVS_HOSTSTORE_SIZE 512
#define KVS_HOSTSTORE_KEY_SIZE 128
#define KVS_HOSTSTORE_GROUP_SIZE 192

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

#ifdef __cplusplus
}
#endif
#endif
