/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.c - DLPack's managed tensors in and out. Their layouts (DLPack 1.0, include/dlpack/dlpack.h)
 * are declared here: Debian's header has the unversioned one only. A taken tensor is counted: the
 * caller's hold and each operation's; the last one runs the deleter. */
#include "dlpack.h"
#include "tensor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct dl_tensor {
    void *data;
    kvs_device_t device;
    int32_t ndim;
    kvs_dtype_t dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor_t;

typedef struct dl_managed {
    dl_tensor_t tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed_t;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags; /* DL_READ_ONLY and others */
    dl_tensor_t tensor;
} dl_versioned_t;

#define DL_MAJOR     1
#define DL_READ_ONLY ((uint64_t)1)

struct kvs_dlpack {
    atomic_size_t refs; /* acquire-release: the last holder must see the others' use of the data */
    dl_managed_t *managed;
    dl_versioned_t *versioned;
};

kvs_status_t kvs_dlpack_take(void *managed, int versioned, kvs_tensor_t *ret_tensor)
{
    kvs_dlpack_t *taken;

    if (managed == NULL || ret_tensor == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "dlpack_take: %s is NULL",
                        managed == NULL ? "the managed tensor" : "ret_tensor");
    }
    if (versioned && ((dl_versioned_t *)managed)->major != DL_MAJOR) {
        return kvs_fail(
            KVS_ERR_ARGUMENT, "dlpack_take: DLPack version %u.%u; this library takes %d",
            ((dl_versioned_t *)managed)->major, ((dl_versioned_t *)managed)->minor, DL_MAJOR);
    }
    taken = malloc(sizeof(*taken));
    if (taken == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "dlpack_take: no memory");
    }
    atomic_init(&taken->refs, 1);
    taken->managed = versioned ? NULL : managed;
    taken->versioned = versioned ? managed : NULL;

    memset(ret_tensor, 0, sizeof(*ret_tensor));
    memcpy(ret_tensor, versioned ? &taken->versioned->tensor : &taken->managed->tensor,
           sizeof(dl_tensor_t));
    ret_tensor->owner = taken;
    return KVS_OK;
}

void kvsi_dlpack_ref(kvs_dlpack_t *taken)
{
    if (taken != NULL) {
        atomic_fetch_add_explicit(&taken->refs, 1, memory_order_relaxed);
    }
}

void kvsi_dlpack_unref(kvs_dlpack_t *taken)
{
    if (taken == NULL || atomic_fetch_sub_explicit(&taken->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (taken->managed != NULL && taken->managed->deleter != NULL) {
        taken->managed->deleter(taken->managed);
    }
    if (taken->versioned != NULL && taken->versioned->deleter != NULL) {
        taken->versioned->deleter(taken->versioned);
    }
    free(taken);
}

bool kvsi_dlpack_is_read_only(const kvs_dlpack_t *taken)
{
    return taken != NULL && taken->versioned != NULL &&
           (taken->versioned->flags & DL_READ_ONLY) != 0;
}

void kvs_dlpack_release(kvs_tensor_t *tensor)
{
    if (tensor != NULL) {
        kvsi_dlpack_unref(tensor->owner);
        memset(tensor, 0, sizeof(*tensor));
    }
}

/* A tensor given away, with its shape and strides behind it. */
typedef struct given {
    union {
        dl_managed_t managed;
        dl_versioned_t versioned;
    } dl;
    void (*release)(void *arg);
    void *arg;
    int64_t dims[];
} given_t;

static void free_given(given_t *given)
{
    if (given->release != NULL) {
        given->release(given->arg);
    }
    free(given);
}

static void delete_managed(dl_managed_t *self)
{
    free_given(self->context);
}

static void delete_versioned(dl_versioned_t *self)
{
    free_given(self->context);
}

/* Strides are always written: DLPack 1.0 wants them where there is a dimension. */
static void copy_dims(given_t *given, dl_tensor_t *dl, const kvs_tensor_t *tensor)
{
    int64_t stride = 1;

    memcpy(dl, tensor, sizeof(*dl));
    dl->shape = given->dims;
    dl->strides = given->dims + tensor->ndim;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        dl->shape[i] = tensor->shape[i];
        dl->strides[i] = tensor->strides != NULL ? tensor->strides[i] : stride;
        stride *= tensor->shape[i];
    }
}

kvs_status_t kvs_dlpack_give(const kvs_tensor_t *tensor, int versioned, void (*release)(void *arg),
                             void *arg, void **ret_managed)
{
    const kvs_key_t no_key = {"dlpack_give", 0};
    kvsi_size_t size;
    given_t *given;
    kvs_status_t status;

    if (tensor == NULL || ret_managed == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "dlpack_give: %s is NULL",
                        tensor == NULL ? "the tensor" : "ret_managed");
    }
    if (tensor->rows != NULL) {
        return kvs_fail(KVS_ERR_STORAGE, "dlpack_give: DLPack has no row-sparse arrays");
    }
    status = kvsi_tensor_check(tensor, "array", 0, &no_key, false, &size);
    if (status != KVS_OK) {
        return status;
    }
    given = calloc(1, sizeof(*given) + 2 * (size_t)tensor->ndim * sizeof(int64_t));
    if (given == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "dlpack_give: no memory");
    }
    given->release = release;
    given->arg = arg;
    if (versioned) {
        given->dl.versioned =
            (dl_versioned_t){.major = DL_MAJOR, .context = given, .deleter = delete_versioned};
        copy_dims(given, &given->dl.versioned.tensor, tensor);
    } else {
        given->dl.managed = (dl_managed_t){.context = given, .deleter = delete_managed};
        copy_dims(given, &given->dl.managed.tensor, tensor);
    }
    *ret_managed = &given->dl;
    return KVS_OK;
}
