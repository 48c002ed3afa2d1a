/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors of a wrong version, twice released, and the deleter counted through it all. */
#include "misuse.h"

#include <stddef.h>
#include <stdlib.h>

/* As DLPack 1.0 documents them (dlpack.h: DLTensor, DLManagedTensor, DLManagedTensorVersioned). */
typedef struct dl_tensor {
    void *data;
    struct {
        int32_t device_type, device_id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor_t;

typedef struct managed {
    dl_tensor_t tensor;
    void *context;
    void (*deleter)(struct managed *self);
} managed_t;

typedef struct versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct versioned *self);
    uint64_t flags;
    dl_tensor_t tensor;
} versioned_t;

static int n_deleted;
static float numbers[MISUSE_N];
static int64_t shape[2] = {2, 3};

static void delete_managed(managed_t *self)
{
    (void)self;
    n_deleted++;
}

static void delete_versioned(versioned_t *self)
{
    (void)self;
    n_deleted++;
}

static dl_tensor_t some_tensor(void)
{
    dl_tensor_t tensor = {
        .data = numbers, .device = {1, 0}, .ndim = 2, .dtype = {2, 32, 1}, .shape = shape};

    return tensor;
}

static managed_t new_managed(void)
{
    managed_t managed = {.tensor = some_tensor(), .deleter = delete_managed};

    n_deleted = 0;
    return managed;
}

static void nothing_to_take_is_an_error(void)
{
    managed_t managed = new_managed();
    kvs_tensor_t tensor;

    KT_FAIL(kvs_dlpack_take(NULL, 0, &tensor), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_dlpack_take(&managed, 0, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_INT(n_deleted, 0);
}

static void another_major_version_is_refused_and_not_deleted(void)
{
    versioned_t versioned = {
        .major = 2, .minor = 7, .deleter = delete_versioned, .tensor = some_tensor()};
    kvs_tensor_t tensor;

    n_deleted = 0;
    KT_FAIL(kvs_dlpack_take(&versioned, 1, &tensor), KVS_ERR_ARGUMENT, "2.7");
    versioned.major = 0;
    KT_FAIL(kvs_dlpack_take(&versioned, 1, &tensor), KVS_ERR_ARGUMENT, "version");
    KT_INT(n_deleted, 0);
    versioned.major = 1;
    KT_OK(kvs_dlpack_take(&versioned, 1, &tensor));
    kvs_dlpack_release(&tensor);
    KT_INT(n_deleted, 1);
}

static void the_deleter_runs_once_however_often_one_releases(void)
{
    managed_t managed = new_managed();
    kvs_tensor_t tensor, empty = {0};

    KT_OK(kvs_dlpack_take(&managed, 0, &tensor));
    KT_TRUE(tensor.data == numbers);
    KT_INT(n_deleted, 0);
    kvs_dlpack_release(&tensor);
    KT_INT(n_deleted, 1);
    KT_TRUE(tensor.data == NULL && tensor.owner == NULL);
    kvs_dlpack_release(&tensor);
    kvs_dlpack_release(&empty);
    kvs_dlpack_release(NULL);
    KT_INT(n_deleted, 1);
}

static void a_taken_tensor_without_a_deleter_is_fine(void)
{
    managed_t managed = new_managed();
    kvs_tensor_t tensor;

    managed.deleter = NULL;
    KT_OK(kvs_dlpack_take(&managed, 0, &tensor));
    kvs_dlpack_release(&tensor);
}

static void a_refused_operation_keeps_no_hold_on_a_taken_tensor(void)
{
    kvs_store_t *store = misuse_open();
    managed_t managed = new_managed();
    kvs_tensor_t tensor;

    KT_OK(kvs_dlpack_take(&managed, 0, &tensor));
    KT_FAIL(misuse_push(store, kvs_key_int(99), tensor), KVS_ERR_NOT_FOUND, "99");
    KT_INT(n_deleted, 0);
    kvs_dlpack_release(&tensor);
    KT_INT(n_deleted, 1);
    misuse_close_untouched(store);
}

static void a_taken_tensor_outlives_its_release_until_the_operation_has_completed(void)
{
    kvs_store_t *store = misuse_open();
    managed_t managed = new_managed();
    kvs_event_t *event = NULL;
    kvs_call_t call = KVS_CALL_INIT;
    kvs_key_t key = kvs_key_int(MISUSE_KEY);
    kvs_tensor_t tensor;
    kvs_arrays_t values;

    call.ret_event = &event;
    KT_OK(kvs_dlpack_take(&managed, 0, &tensor));
    values = kvs_arrays(&tensor, 1);
    KT_OK(kvs_store_push(store, &key, 1, &values, &call));
    kvs_dlpack_release(&tensor);
    KT_OK(kvs_event_wait(event, -1));
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
    KT_INT(n_deleted, 1);
}

static void count_release(void *arg)
{
    (*(int *)arg)++;
}

static void what_cannot_be_given_is_an_error(void)
{
    kvs_tensor_t tensor = kt_tensor(numbers, KVS_DTYPE_float32, shape, 2);
    kvs_tensor_t sparse = tensor, negative = tensor;
    kvs_rows_t rows = {0};
    int n_released = 0;
    void *given = NULL;

    sparse.rows = &rows;
    negative.ndim = -1;
    KT_FAIL(kvs_dlpack_give(NULL, 0, count_release, &n_released, &given), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_dlpack_give(&tensor, 0, count_release, &n_released, NULL), KVS_ERR_ARGUMENT,
            "NULL");
    KT_FAIL(kvs_dlpack_give(&sparse, 0, count_release, &n_released, &given), KVS_ERR_STORAGE,
            "row-sparse");
    KT_FAIL(kvs_dlpack_give(&negative, 1, count_release, &n_released, &given), KVS_ERR_ARGUMENT,
            "ndim");
    KT_INT(n_released, 0);
    KT_TRUE(given == NULL);
}

static void a_given_tensor_owns_its_shape_and_is_released_once(void)
{
    int64_t local_shape[2] = {2, 3};
    kvs_tensor_t tensor = kt_tensor(numbers, KVS_DTYPE_float32, local_shape, 2);
    int n_released = 0;
    void *given = NULL;
    managed_t *managed;

    KT_OK(kvs_dlpack_give(&tensor, 0, count_release, &n_released, &given));
    local_shape[0] = 99;
    managed = given;
    KT_INT(managed->tensor.ndim, 2);
    KT_INT(managed->tensor.shape[0], 2);
    KT_INT(managed->tensor.strides[0], 3);
    KT_INT(managed->tensor.strides[1], 1);
    KT_TRUE(managed->tensor.data == numbers);
    managed->deleter(managed);
    KT_INT(n_released, 1);
}

static void a_versioned_tensor_is_version_1_and_writable(void)
{
    kvs_tensor_t tensor = kt_tensor(numbers, KVS_DTYPE_float32, shape, 2);
    void *given = NULL;
    versioned_t *versioned;

    KT_OK(kvs_dlpack_give(&tensor, 1, NULL, NULL, &given));
    versioned = given;
    KT_INT(versioned->major, 1);
    KT_INT(versioned->flags, 0);
    KT_INT(versioned->tensor.dtype.bits, 32);
    versioned->deleter(versioned);
}

static const kt_test_t tests[] = {
    KT_TEST(nothing_to_take_is_an_error),
    KT_TEST(another_major_version_is_refused_and_not_deleted),
    KT_TEST(the_deleter_runs_once_however_often_one_releases),
    KT_TEST(a_taken_tensor_without_a_deleter_is_fine),
    KT_TEST(a_refused_operation_keeps_no_hold_on_a_taken_tensor),
    KT_TEST(a_taken_tensor_outlives_its_release_until_the_operation_has_completed),
    KT_TEST(what_cannot_be_given_is_an_error),
    KT_TEST(a_given_tensor_owns_its_shape_and_is_released_once),
    KT_TEST(a_versioned_tensor_is_version_1_and_writable),
};
KT_MAIN("misuse.dlpack", tests)
