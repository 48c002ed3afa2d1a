/* SPDX-License-Identifier: Apache-2.0 */
/* worker_optimizer.c - optimizers without a store: checks arguments, then hands on to the service that
 * a plugin offers, one call at a time. The core does no arithmetic. */
#include "dlpack.h"
#include "forks.h"
#include "futex.h"
#include "keys.h"
#include "optimizer_spec.h"
#include "registry.h"
#include "tensor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct kvs_worker_optimizer {
    const kvs_optimizer_service_t *service; /* fixed after create */
    void *state;                            /* the service's */
    pthread_mutex_t lock;                   /* held while the service works */
    _Atomic uint32_t n_forks; /* kvsi_forks_count when it was last known to be whole */
};

static kvs_status_t fail_null(const char *call, const char *argument)
{
    return kvs_fail(KVS_ERR_ARGUMENT, "%s: %s is NULL", call, argument);
}

/* ---- Life ------------------------------------------------------------------------------------- */

kvs_status_t kvs_optimizer_create(const kvs_optimizer_spec_t *spec,
                                  kvs_worker_optimizer_t **ret_optimizer)
{
    kvs_worker_optimizer_t *optimizer;
    kvs_status_t status;

    if (spec == NULL || ret_optimizer == NULL) {
        return fail_null("optimizer_create", spec == NULL ? "the optimizer" : "ret_optimizer");
    }
    status = kvsi_optimizer_spec_check(spec, "optimizer_create");
    if (status != KVS_OK) {
        return status;
    }
    optimizer = calloc(1, sizeof(*optimizer));
    if (optimizer == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "optimizer_create: no memory");
    }
    status = kvsi_registry_find_optimizer_service(&optimizer->service);
    if (status == KVS_OK) {
        status = optimizer->service->create(spec, &optimizer->state);
    }
    if (status != KVS_OK) {
        free(optimizer);
        return status;
    }
    pthread_mutex_init(&optimizer->lock, NULL);
    kvsi_forks_watch();
    atomic_init(&optimizer->n_forks, kvsi_forks_count());
    *ret_optimizer = optimizer;
    return KVS_OK;
}

void kvs_optimizer_free(kvs_worker_optimizer_t *optimizer)
{
    if (optimizer != NULL) {
        optimizer->service->free(optimizer->state);
        pthread_mutex_destroy(&optimizer->lock);
        free(optimizer);
    }
}

#define FORKED_PATIENCE_NS INT64_C(1000000000)

/* Lock it. A forked child has a copy of its own, unless a thread of the parent was changing it then:
 * that thread, and so the end of its change, is not in the child. */
static kvs_status_t take(kvs_worker_optimizer_t *optimizer, const char *call)
{
    int64_t until;

    if (atomic_load(&optimizer->n_forks) == kvsi_forks_count()) {
        pthread_mutex_lock(&optimizer->lock);
        return KVS_OK;
    }
    until = kvsi_now_ns() + FORKED_PATIENCE_NS; /* for other threads of this process */
    while (pthread_mutex_trylock(&optimizer->lock) != 0) {
        if (kvsi_now_ns() >= until) {
            return kvs_fail(KVS_ERR_STATE,
                            "%s: this process was forked while another thread used the optimizer; "
                            "create one here",
                            call);
        }
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    atomic_store(&optimizer->n_forks, kvsi_forks_count());
    return KVS_OK;
}

/* ---- Updating --------------------------------------------------------------------------------- */

/* In host memory, dense, and readable; `ret_array` has its byte_offset in `data`. */
static kvs_status_t check_array(const kvs_tensor_t *array, const char *what, const kvs_key_t *key,
                                kvs_tensor_t *ret_array, int64_t *ret_n_bytes)
{
    kvsi_size_t size;
    kvs_status_t status;

    if (array == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "optimizer_update: key %s: the %s is NULL",
                        KVSI_KEY_TEXT(key), what);
    }
    if (array->rows != NULL) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "optimizer_update: key %s: row-sparse arrays are not implemented",
                        KVSI_KEY_TEXT(key));
    }
    if (array->device.type != KVS_DEVICE_CPU && array->device.type != KVS_DEVICE_CUDA_HOST) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "optimizer_update: key %s: the %s is on device type %d; only host memory "
                        "is implemented",
                        KVSI_KEY_TEXT(key), what, (int)array->device.type);
    }
    status = kvsi_tensor_check(array, what, 0, key, false, &size);
    if (status == KVS_OK) {
        *ret_array = *array;
        ret_array->data = array->data == NULL ? NULL : (char *)array->data + array->byte_offset;
        ret_array->byte_offset = 0;
        *ret_n_bytes = size.n_bytes;
    }
    return status;
}

static kvs_status_t check_together(const kvs_tensor_t *grad, const kvs_tensor_t *weight,
                                   int64_t n_bytes, const kvs_key_t *key)
{
    uintptr_t a = (uintptr_t)grad->data, b = (uintptr_t)weight->data;

    if (!kvsi_shape_equal(grad->shape, grad->ndim, weight->shape, weight->ndim)) {
        return kvs_fail(KVS_ERR_SHAPE,
                        "optimizer_update: key %s: the gradient has shape %s, the "
                        "weight %s",
                        KVSI_KEY_TEXT(key), KVSI_SHAPE_TEXT(grad->shape, grad->ndim),
                        KVSI_SHAPE_TEXT(weight->shape, weight->ndim));
    }
    if (!kvsi_dtype_equal(grad->dtype, weight->dtype)) {
        return kvs_fail(
            KVS_ERR_DTYPE, "optimizer_update: key %s: the gradient has dtype %s, the weight %s",
            KVSI_KEY_TEXT(key), kvs_dtype_name(grad->dtype), kvs_dtype_name(weight->dtype));
    }
    if (kvsi_dlpack_is_read_only(weight->owner)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "optimizer_update: key %s: the weight is read-only, says its DLPack "
                        "tensor; pass one that may be written",
                        KVSI_KEY_TEXT(key));
    }
    if (n_bytes > 0 && a < b + (uintptr_t)n_bytes && b < a + (uintptr_t)n_bytes) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "optimizer_update: key %s: gradient and weight share memory",
                        KVSI_KEY_TEXT(key));
    }
    return KVS_OK;
}

static kvs_status_t update(kvs_worker_optimizer_t *optimizer, const kvs_key_t *key,
                           const kvs_tensor_t *grad, const kvs_tensor_t *weight)
{
    kvs_status_t status = take(optimizer, "optimizer_update");

    if (status == KVS_OK) {
        status = optimizer->service->update(optimizer->state, key, grad, weight);
        pthread_mutex_unlock(&optimizer->lock);
    }
    return status;
}

kvs_status_t kvs_optimizer_update(kvs_worker_optimizer_t *optimizer, kvs_key_t key,
                                  const kvs_tensor_t *grad, const kvs_tensor_t *weight)
{
    kvs_tensor_t from, to;
    int64_t n_bytes;
    kvs_status_t status =
        optimizer != NULL ? kvsi_key_check(&key) : fail_null("optimizer_update", "the optimizer");

    if (status == KVS_OK) {
        status = check_array(weight, "weight", &key, &to, &n_bytes);
    }
    if (status == KVS_OK) {
        status = check_array(grad, "gradient", &key, &from, &n_bytes);
    }
    if (status == KVS_OK) {
        status = check_together(&from, &to, n_bytes, &key);
    }
    return status == KVS_OK ? update(optimizer, &key, &from, &to) : status;
}

kvs_status_t kvs_optimizer_set_attr(kvs_worker_optimizer_t *optimizer, const kvs_param_t *attr)
{
    kvs_status_t status;

    if (optimizer == NULL || attr == NULL) {
        return fail_null("optimizer_set_attr", attr == NULL ? "the attribute" : "the optimizer");
    }
    status = take(optimizer, "optimizer_set_attr");
    if (status == KVS_OK) {
        status = optimizer->service->set_attr(optimizer->state, attr);
        pthread_mutex_unlock(&optimizer->lock);
    }
    return status;
}

/* ---- States ----------------------------------------------------------------------------------- */

kvs_status_t kvs_optimizer_save_states(kvs_worker_optimizer_t *optimizer, const char *path,
                                       int dump_optimizer)
{
    kvs_status_t status;

    if (optimizer == NULL || path == NULL) {
        return fail_null("optimizer_save_states", path == NULL ? "the path" : "the optimizer");
    }
    status = take(optimizer, "optimizer_save_states");
    if (status == KVS_OK) {
        status = optimizer->service->save_states(optimizer->state, path, dump_optimizer);
        pthread_mutex_unlock(&optimizer->lock);
    }
    return status;
}

kvs_status_t kvs_optimizer_load_states(kvs_worker_optimizer_t *optimizer, const char *path)
{
    kvs_status_t status;

    if (optimizer == NULL || path == NULL) {
        return fail_null("optimizer_load_states", path == NULL ? "the path" : "the optimizer");
    }
    status = take(optimizer, "optimizer_load_states");
    if (status == KVS_OK) {
        status = optimizer->service->load_states(optimizer->state, path);
        pthread_mutex_unlock(&optimizer->lock);
    }
    return status;
}
