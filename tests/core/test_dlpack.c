/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack's managed tensors: taken and given, and held by the operations that use them. */
#include "calls.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* As DLPack 1.0 documents them. */
typedef struct managed {
    _Alignas(8) unsigned char dl_tensor[offsetof(kvs_tensor_t, stream)];
    void *context;
    void (*deleter)(struct managed *self);
} managed_t;

typedef struct versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct versioned *self);
    uint64_t flags;
    unsigned char dl_tensor[offsetof(kvs_tensor_t, stream)];
} versioned_t;

#define READ_ONLY ((uint64_t)1)

static atomic_int n_deleted;
static float values[BIG];
static const int64_t shape_big[] = {BIG};
static const int64_t shape_2_3[] = {2, 3};

static void delete_managed(managed_t *self)
{
    atomic_fetch_add(&n_deleted, 1);
    free(self);
}

static void delete_versioned(versioned_t *self)
{
    atomic_fetch_add(&n_deleted, 1);
    free(self);
}

static managed_t *new_managed(const kvs_tensor_t *tensor)
{
    managed_t *managed = calloc(1, sizeof(*managed));

    memcpy(managed->dl_tensor, tensor, sizeof(managed->dl_tensor));
    managed->deleter = delete_managed;
    atomic_store(&n_deleted, 0);
    return managed;
}

static versioned_t *new_versioned(const kvs_tensor_t *tensor, uint64_t flags)
{
    versioned_t *versioned = calloc(1, sizeof(*versioned));

    memcpy(versioned->dl_tensor, tensor, sizeof(versioned->dl_tensor));
    versioned->major = 1;
    versioned->minor = 3;
    versioned->flags = flags;
    versioned->deleter = delete_versioned;
    atomic_store(&n_deleted, 0);
    return versioned;
}

static kvs_tensor_t big(void)
{
    return kt_tensor(values, KVS_DTYPE_float32, shape_big, 1);
}

static kvs_tensor_t take_big(void)
{
    kvs_tensor_t source = big(), taken = {0};

    KT_OK(kvs_dlpack_take(new_managed(&source), 0, &taken));
    return taken;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static void check_view(const kvs_tensor_t *taken, const kvs_tensor_t *source)
{
    KT_TRUE(taken->data == source->data);
    KT_INT(taken->device.type, KVS_DEVICE_CPU);
    KT_INT(taken->device.id, 5);
    KT_INT(taken->ndim, 2);
    KT_INT(kvs_dtype_index(taken->dtype), KVS_DTYPE_int64);
    KT_TRUE(taken->shape == shape_2_3);
    KT_TRUE(taken->strides == source->strides);
    KT_INT(taken->byte_offset, 8);
    KT_INT(taken->stream, 0);
    KT_TRUE(taken->rows == NULL);
    KT_TRUE(taken->owner != NULL);
}

static void a_taken_tensor_views_the_same_memory(void)
{
    kvs_tensor_t source = kt_tensor(values, KVS_DTYPE_int64, shape_2_3, 2), taken;

    source.device.id = 5;
    source.strides = (const int64_t[]){3, 1};
    source.byte_offset = 8;
    memset(&taken, 0x55, sizeof(taken));
    KT_OK(kvs_dlpack_take(new_managed(&source), 0, &taken));
    check_view(&taken, &source);
    kvs_dlpack_release(&taken);
    KT_INT(n_deleted, 1);

    memset(&taken, 0x55, sizeof(taken));
    KT_OK(kvs_dlpack_take(new_versioned(&source, 0), 1, &taken));
    check_view(&taken, &source);
    kvs_dlpack_release(&taken);
    KT_INT(n_deleted, 1);
}

static void releasing_twice_deletes_once(void)
{
    kvs_tensor_t taken = take_big();

    kvs_dlpack_release(&taken);
    KT_TRUE(taken.data == NULL);
    KT_TRUE(taken.owner == NULL);
    kvs_dlpack_release(&taken);
    kvs_dlpack_release(NULL);
    KT_INT(n_deleted, 1);
}

static void a_tensor_without_a_deleter_can_be_released(void)
{
    kvs_tensor_t source = big(), taken;
    managed_t *managed = new_managed(&source);

    managed->deleter = NULL;
    KT_OK(kvs_dlpack_take(managed, 0, &taken));
    kvs_dlpack_release(&taken);
    free(managed);
}

static void another_major_version_is_refused_undeleted(void)
{
    kvs_tensor_t source = big(), taken;
    versioned_t *versioned = new_versioned(&source, 0);

    versioned->major = 2;
    KT_FAIL(kvs_dlpack_take(versioned, 1, &taken), KVS_ERR_ARGUMENT,
            "DLPack version 2.3; this library takes 1");
    KT_INT(n_deleted, 0);
    free(versioned);
}

static void null_is_refused(void)
{
    kvs_tensor_t source = big(), taken;
    managed_t *managed = new_managed(&source);

    KT_FAIL(kvs_dlpack_take(NULL, 0, &taken), KVS_ERR_ARGUMENT, "the managed tensor is NULL");
    KT_FAIL(kvs_dlpack_take(managed, 0, NULL), KVS_ERR_ARGUMENT, "ret_tensor is NULL");
    KT_INT(n_deleted, 0);
    free(managed);
}

/* ---- Giving ---------------------------------------------------------------------------------- */

static void count_release(void *arg)
{
    ++*(int *)arg;
}

static void a_given_tensor_can_be_taken_back(void)
{
    for (int is_versioned = 0; is_versioned < 2; is_versioned++) {
        int64_t shape[] = {2, 3};
        kvs_tensor_t source = kt_tensor(values, KVS_DTYPE_float16, shape, 2), taken;
        int n_released = 0;
        void *managed = NULL;

        source.byte_offset = 4;
        KT_OK(kvs_dlpack_give(&source, is_versioned, count_release, &n_released, &managed));
        shape[0] = 77; /* was copied */
        KT_OK(kvs_dlpack_take(managed, is_versioned, &taken));
        KT_TRUE(taken.data == values);
        KT_INT(taken.byte_offset, 4);
        KT_INT(kvs_dtype_index(taken.dtype), KVS_DTYPE_float16);
        KT_INT(taken.shape[0], 2);
        KT_INT(taken.shape[1], 3);
        KT_INT(taken.strides[0], 3);
        KT_INT(taken.strides[1], 1);
        KT_INT(n_released, 0);
        kvs_dlpack_release(&taken);
        KT_INT(n_released, 1);
    }
}

static void a_scalar_and_an_empty_array_can_be_given(void)
{
    static const int64_t empty[] = {0, 3};
    kvs_tensor_t scalar = kt_tensor(values, KVS_DTYPE_float32, NULL, 0), taken;
    kvs_tensor_t none = kt_tensor(NULL, KVS_DTYPE_float32, empty, 2);
    void *managed = NULL;

    KT_OK(kvs_dlpack_give(&scalar, 0, NULL, NULL, &managed));
    KT_OK(kvs_dlpack_take(managed, 0, &taken));
    KT_INT(taken.ndim, 0);
    kvs_dlpack_release(&taken);
    KT_OK(kvs_dlpack_give(&none, 1, NULL, NULL, &managed));
    KT_OK(kvs_dlpack_take(managed, 1, &taken));
    KT_INT(taken.shape[0], 0);
    KT_INT(taken.shape[1], 3);
    kvs_dlpack_release(&taken);
}

static void a_given_versioned_tensor_is_writable_and_of_version_1(void)
{
    kvs_tensor_t source = big();
    void *managed = NULL;

    KT_OK(kvs_dlpack_give(&source, 1, NULL, NULL, &managed));
    KT_INT(((versioned_t *)managed)->major, 1);
    KT_INT(((versioned_t *)managed)->flags, 0);
    ((versioned_t *)managed)->deleter(managed);
}

static void what_dlpack_cannot_say_is_not_given(void)
{
    kvs_tensor_t source = big();
    kvs_rows_t rows = {0};
    void *managed = &rows;

    KT_FAIL(kvs_dlpack_give(NULL, 0, NULL, NULL, &managed), KVS_ERR_ARGUMENT, "the tensor is NULL");
    KT_FAIL(kvs_dlpack_give(&source, 0, NULL, NULL, NULL), KVS_ERR_ARGUMENT, "ret_managed is NULL");
    source.ndim = -1;
    KT_FAIL(kvs_dlpack_give(&source, 0, NULL, NULL, &managed), KVS_ERR_ARGUMENT, "ndim -1");
    KT_HAS(kvs_last_error(), "dlpack_give");
    source = big();
    source.rows = &rows;
    KT_FAIL(kvs_dlpack_give(&source, 0, NULL, NULL, &managed), KVS_ERR_STORAGE,
            "DLPack has no row-sparse arrays");
    KT_TRUE(managed == &rows);
}

/* ---- Held by operations ---------------------------------------------------------------------- */

static kvs_event_t *start(kvs_store_t *store, kvs_verb_t verb, const kvs_tensor_t *tensor)
{
    kvs_key_t key = kvs_key_int(1);
    kvs_arrays_t arrays = kvs_arrays(tensor, 1);
    kvs_event_t *event = NULL;
    kvs_call_t options = KVS_CALL_INIT;

    options.ret_event = &event;
    KT_OK(verb == KVS_VERB_PUSH   ? kvs_store_push(store, &key, 1, &arrays, &options)
          : verb == KVS_VERB_PULL ? kvs_store_pull(store, &key, 1, &arrays, &options)
                                  : kvs_store_pushpull(store, &key, 1, &arrays, NULL, &options));
    return event;
}

static kvs_store_t *open_with_big_key(const char *type)
{
    kvs_store_t *store;

    fake_begin();
    store = fake_open(type);
    fake_complete_inside(true);
    init_big(store, 1);
    fake_complete_inside(false);
    return store;
}

static void an_operation_with_an_event_holds_a_tensor_released_early(void)
{
    kvs_store_t *store = open_with_big_key(FAKE);
    kvs_tensor_t taken = take_big();
    kvs_event_t *event;

    fake_hold("push 1");
    event = start(store, KVS_VERB_PUSH, &taken);
    fake_wait_held("push 1");
    kvs_dlpack_release(&taken);
    KT_INT(n_deleted, 0);
    fake_release("push 1");
    KT_OK(finish(event));
    KT_OK(kvs_store_wait_all(store, -1));
    KT_INT(n_deleted, 1);
    KT_OK(kvs_store_close(store));
    KT_INT(n_deleted, 1);
}

static void the_hold_ends_with_the_operation_not_with_its_event(void)
{
    kvs_store_t *store = open_with_big_key(FAKE);
    kvs_tensor_t taken = take_big();
    kvs_event_t *event = start(store, KVS_VERB_PUSHPULL, &taken);

    kvs_dlpack_release(&taken);
    KT_OK(kvs_event_wait(event, KT_PATIENCE_MS));
    KT_OK(kvs_store_wait_all(store, -1));
    KT_INT(n_deleted, 1);
    kvs_event_free(event);
    KT_INT(n_deleted, 1);
    KT_OK(kvs_store_close(store));
}

static void the_hold_ends_when_the_operation_fails(void)
{
    kvs_store_t *store = open_with_big_key(FAKE);
    kvs_tensor_t taken = take_big();
    kvs_event_t *event;

    fake_fail("push 1", KVS_ERR_IO, "no");
    event = start(store, KVS_VERB_PUSH, &taken);
    kvs_dlpack_release(&taken);
    KT_FAIL(kvs_event_wait(event, KT_PATIENCE_MS), KVS_ERR_IO, "no");
    KT_OK(kvs_store_wait_all(store, -1));
    KT_INT(n_deleted, 1);
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void a_tensor_outlives_the_operation_while_its_taker_holds_it(void)
{
    kvs_store_t *store = open_with_big_key(FAKE);
    kvs_tensor_t taken = take_big();

    KT_OK(finish(start(store, KVS_VERB_PULL, &taken)));
    KT_OK(kvs_store_close(store));
    KT_INT(n_deleted, 0);
    kvs_dlpack_release(&taken);
    KT_INT(n_deleted, 1);
}

static void an_asynchronous_backend_holds_it_until_complete(void)
{
    kvs_store_t *store = open_with_big_key(FAKE_ASYNC);
    kvs_tensor_t taken = take_big();
    kvs_event_t *event = start(store, KVS_VERB_PUSH, &taken);

    kvs_dlpack_release(&taken);
    fake_consume("push 1");
    KT_INT(n_deleted, 0);
    fake_complete("push 1");
    KT_INT(n_deleted, 1);
    KT_OK(finish(event));
    KT_OK(kvs_store_close(store));
    KT_INT(n_deleted, 1);
}

static void a_refused_call_holds_nothing(void)
{
    kvs_store_t *store = open_with_big_key(FAKE);
    kvs_tensor_t taken = take_big();
    kvs_arrays_t arrays = kvs_arrays(&taken, 1);
    kvs_key_t unknown = kvs_key_int(99);
    kvs_event_t *event = NULL;
    kvs_call_t options = KVS_CALL_INIT;

    options.ret_event = &event;
    KT_FAIL(kvs_store_push(store, &unknown, 1, &arrays, &options), KVS_ERR_NOT_FOUND, "key 99");
    KT_TRUE(event == NULL);
    kvs_dlpack_release(&taken);
    KT_INT(n_deleted, 1);
    KT_OK(kvs_store_close(store));
}

static void a_read_only_tensor_is_no_out(void)
{
    kvs_store_t *store = open_with_big_key(FAKE);
    kvs_tensor_t source = big(), taken;
    kvs_arrays_t arrays;
    kvs_key_t key = kvs_key_int(1);

    KT_OK(kvs_dlpack_take(new_versioned(&source, READ_ONLY), 1, &taken));
    arrays = kvs_arrays(&taken, 1);
    KT_OK(kvs_store_push(store, &key, 1, &arrays, NULL));
    KT_FAIL(kvs_store_pull(store, &key, 1, &arrays, NULL), KVS_ERR_ARGUMENT,
            "key 1: out 0 is read-only");
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &arrays, NULL, NULL), KVS_ERR_ARGUMENT,
            "key 1: out 0 is read-only");
    KT_STR(fake_calls(), "init 1, push 1");
    kvs_dlpack_release(&taken);
    KT_INT(n_deleted, 1);
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(a_taken_tensor_views_the_same_memory),
    KT_TEST(releasing_twice_deletes_once),
    KT_TEST(a_tensor_without_a_deleter_can_be_released),
    KT_TEST(another_major_version_is_refused_undeleted),
    KT_TEST(null_is_refused),
    KT_TEST(a_given_tensor_can_be_taken_back),
    KT_TEST(a_scalar_and_an_empty_array_can_be_given),
    KT_TEST(a_given_versioned_tensor_is_writable_and_of_version_1),
    KT_TEST(what_dlpack_cannot_say_is_not_given),
    KT_TEST(an_operation_with_an_event_holds_a_tensor_released_early),
    KT_TEST(the_hold_ends_with_the_operation_not_with_its_event),
    KT_TEST(the_hold_ends_when_the_operation_fails),
    KT_TEST(a_tensor_outlives_the_operation_while_its_taker_holds_it),
    KT_TEST(an_asynchronous_backend_holds_it_until_complete),
    KT_TEST(a_refused_call_holds_nothing),
    KT_TEST(a_read_only_tensor_is_no_out),
};
KT_MAIN("dlpack", tests)
