/* SPDX-License-Identifier: Apache-2.0 */
/* Lists whose lengths disagree, empty groups, NULL lists, and wrong options of a call. */
#include "misuse.h"

#include <stdlib.h>

#define N_KEYS 2

/* Keys 3 (of misuse_open) and 10, and arrays that fit them. */
typedef struct lists {
    kvs_store_t *store;
    kvs_key_t keys[N_KEYS];
    float data[4][MISUSE_N];
    kvs_tensor_t arrays[4];
} lists_t;

static void setup(lists_t *l)
{
    l->store = misuse_open();
    l->keys[0] = kvs_key_int(MISUSE_KEY);
    l->keys[1] = kvs_key_int(10);
    memset(l->data, 0, sizeof(l->data));
    for (int i = 0; i < 4; i++) {
        l->arrays[i] = kt_tensor(l->data[i], KVS_DTYPE_float32, misuse_shape, 2);
    }
}

/* push, pull, pushpull, init and broadcast of the keys with these arrays are argument errors. */
static void check_refused(lists_t *l, size_t n_keys, const kvs_arrays_t *arrays, const char *part)
{
    kvs_arrays_t fitting = kvs_arrays(l->arrays, n_keys);

    KT_FAIL(kvs_store_push(l->store, l->keys, n_keys, arrays, NULL), KVS_ERR_ARGUMENT, part);
    KT_FAIL(kvs_store_pull(l->store, l->keys, n_keys, arrays, NULL), KVS_ERR_ARGUMENT, part);
    KT_FAIL(kvs_store_pushpull(l->store, l->keys, n_keys, arrays, &fitting, NULL), KVS_ERR_ARGUMENT,
            part);
    KT_FAIL(kvs_store_pushpull(l->store, l->keys, n_keys, &fitting, arrays, NULL), KVS_ERR_ARGUMENT,
            part);
    KT_FAIL(kvs_store_init(l->store, l->keys + 1, n_keys, arrays, NULL), KVS_ERR_ARGUMENT, part);
    KT_FAIL(kvs_store_broadcast(l->store, l->keys + 1, n_keys, arrays, &fitting, NULL),
            KVS_ERR_ARGUMENT, part);
}

static void fewer_or_more_arrays_than_keys_are_an_error_giving_both_numbers(void)
{
    lists_t l;

    setup(&l);
    for (size_t n = 0; n < 5; n++) {
        kvs_arrays_t arrays = kvs_arrays(l.arrays, n);
        char number[8];

        if (n == N_KEYS) {
            continue;
        }
        snprintf(number, sizeof(number), "%zu", n);
        KT_FAIL(kvs_store_push(l.store, l.keys, N_KEYS, &arrays, NULL), KVS_ERR_ARGUMENT, number);
        KT_HAS(kvs_last_error(), "2");
        KT_FAIL(kvs_store_pull(l.store, l.keys, N_KEYS, &arrays, NULL), KVS_ERR_ARGUMENT, number);
        KT_FAIL(kvs_store_init(l.store, l.keys, N_KEYS, &arrays, NULL), KVS_ERR_ARGUMENT, number);
    }
    misuse_close_untouched(l.store);
}

static void per_key_numbers_must_be_one_for_each_key(void)
{
    size_t per_key[3] = {1, 1, 0};
    lists_t l;

    setup(&l);
    for (size_t n = 0; n < 4; n++) {
        kvs_arrays_t arrays = {l.arrays, 2, per_key, n};

        if (n != N_KEYS) {
            KT_FAIL(kvs_store_push(l.store, l.keys, N_KEYS, &arrays, NULL), KVS_ERR_ARGUMENT, "2");
        }
    }
    misuse_close_untouched(l.store);
}

static void per_key_numbers_must_add_up(void)
{
    size_t too_few[N_KEYS] = {1, 1};
    size_t too_many[N_KEYS] = {2, 2};
    size_t overflow[N_KEYS] = {SIZE_MAX, 4};
    lists_t l;

    setup(&l);
    KT_FAIL(kvs_store_push(l.store, l.keys, 2, &(kvs_arrays_t){l.arrays, 3, too_few, 2}, NULL),
            KVS_ERR_ARGUMENT, "3");
    KT_FAIL(kvs_store_push(l.store, l.keys, 2, &(kvs_arrays_t){l.arrays, 3, too_many, 2}, NULL),
            KVS_ERR_ARGUMENT, "3");
    KT_FAIL(kvs_store_push(l.store, l.keys, 2, &(kvs_arrays_t){l.arrays, 3, overflow, 2}, NULL),
            KVS_ERR_ARGUMENT, "3");
    misuse_close_untouched(l.store);
}

static void an_empty_group_of_values_is_an_error(void)
{
    size_t per_key[N_KEYS] = {1, 0};
    kvs_arrays_t none = kvs_arrays(NULL, 0);
    lists_t l;

    setup(&l);
    KT_OK(misuse_init(l.store, l.keys[1], l.arrays[1]));
    KT_FAIL(kvs_store_push(l.store, l.keys, 2, &(kvs_arrays_t){l.arrays, 1, per_key, 2}, NULL),
            KVS_ERR_ARGUMENT, "10");
    KT_FAIL(kvs_store_push(l.store, l.keys, 1, &none, NULL), KVS_ERR_ARGUMENT, "3");
    KT_FAIL(kvs_store_pushpull(l.store, l.keys, 1, &none, NULL, NULL), KVS_ERR_ARGUMENT, "3");
    misuse_close_working(l.store, kvs_key_int(11));
}

static void lists_must_not_be_null(void)
{
    kvs_arrays_t null_tensors = kvs_arrays(NULL, N_KEYS);
    lists_t l;

    setup(&l);
    check_refused(&l, 1, &(kvs_arrays_t){NULL, 1, NULL, 0}, "NULL");
    KT_FAIL(kvs_store_push(l.store, l.keys, N_KEYS, &null_tensors, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_push(l.store, l.keys, 1, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_pull(l.store, l.keys, 1, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_init(l.store, l.keys, 1, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_pushpull(l.store, l.keys, 1, NULL, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_broadcast(l.store, l.keys + 1, 1, NULL, NULL, NULL), KVS_ERR_ARGUMENT,
            "NULL");
    KT_FAIL(kvs_store_broadcast(l.store, l.keys + 1, 1, &(kvs_arrays_t){l.arrays, 1, NULL, 0}, NULL,
                                NULL),
            KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(l.store);
}

static void one_bad_array_leaves_every_key_of_the_list_alone(void)
{
    lists_t l;
    kvs_arrays_t arrays;

    setup(&l);
    l.arrays[1].data = NULL;
    arrays = kvs_arrays(l.arrays, 2);
    KT_OK(misuse_init(l.store, l.keys[1], l.arrays[2]));
    KT_FAIL(kvs_store_push(l.store, l.keys, 2, &arrays, NULL), KVS_ERR_ARGUMENT, "10");
    KT_FAIL(kvs_store_pull(l.store, l.keys, 2, &arrays, NULL), KVS_ERR_ARGUMENT, "10");
    KT_REAL(l.data[0][0], 0);
    misuse_close_working(l.store, kvs_key_int(11));
}

static void an_init_with_one_bad_array_creates_nothing(void)
{
    kvs_key_t keys[2] = {kvs_key_int(20), kvs_key_int(21)};
    lists_t l;
    kvs_arrays_t arrays;

    setup(&l);
    l.arrays[1].ndim = -1;
    arrays = kvs_arrays(l.arrays, 2);
    KT_FAIL(kvs_store_init(l.store, keys, 2, &arrays, NULL), KVS_ERR_ARGUMENT, "21");
    KT_FAIL(misuse_push(l.store, keys[0], l.arrays[0]), KVS_ERR_NOT_FOUND, "20");
    misuse_close_untouched(l.store);
}

/* ---- options of a call ---- */

static void the_size_of_the_options_must_be_set(void)
{
    lists_t l;
    kvs_arrays_t arrays;

    setup(&l);
    arrays = kvs_arrays(l.arrays, 1);
    for (uint32_t size = 0; size < sizeof(kvs_call_t); size += 4) {
        kvs_call_t call = KVS_CALL_INIT;

        call.size = size;
        KT_FAIL(kvs_store_push(l.store, l.keys, 1, &arrays, &call), KVS_ERR_ARGUMENT, "size");
    }
    misuse_close_untouched(l.store);
}

static void unknown_flags_are_an_error(void)
{
    lists_t l;
    kvs_arrays_t arrays;
    kvs_call_t call = KVS_CALL_INIT;

    setup(&l);
    arrays = kvs_arrays(l.arrays, 1);
    call.flags = 0x80000000u;
    KT_FAIL(kvs_store_push(l.store, l.keys, 1, &arrays, &call), KVS_ERR_ARGUMENT, "flag");
    KT_FAIL(kvs_store_pull(l.store, l.keys, 1, &arrays, &call), KVS_ERR_ARGUMENT, "flag");
    misuse_close_untouched(l.store);
}

static void any_priority_is_accepted(void)
{
    static const int32_t priorities[] = {INT32_MIN, -1, 0, 1, INT32_MAX};
    lists_t l;
    kvs_arrays_t arrays;

    setup(&l);
    arrays = kvs_arrays(l.arrays, 1);
    for (size_t i = 0; i < sizeof(priorities) / sizeof(priorities[0]); i++) {
        kvs_call_t call = KVS_CALL_INIT;

        call.priority = priorities[i];
        KT_OK(kvs_store_push(l.store, l.keys, 1, &arrays, &call));
    }
    misuse_close_working(l.store, kvs_key_int(11));
}

static void a_store_is_required(void)
{
    lists_t l;
    kvs_arrays_t arrays;

    setup(&l);
    arrays = kvs_arrays(l.arrays, 1);
    KT_FAIL(kvs_store_init(NULL, l.keys, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_push(NULL, l.keys, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_pull(NULL, l.keys, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_pushpull(NULL, l.keys, 1, &arrays, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_broadcast(NULL, l.keys, 1, &arrays, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_row_sparse_pull(NULL, l.keys, 1, &arrays, &arrays, NULL), KVS_ERR_ARGUMENT,
            "NULL");
    KT_FAIL(kvs_store_push(NULL, NULL, 0, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(l.store);
}

/* The same key twice: its arrays are one group, whatever stands between them. */
static void a_key_may_stand_several_times_in_a_push(void)
{
    kvs_key_t keys[3] = {kvs_key_int(10), kvs_key_int(MISUSE_KEY), kvs_key_int(10)};
    const float sum[MISUSE_N] = {101, 101, 101, 101, 101, 101};
    float out[MISUSE_N];
    lists_t l;
    kvs_arrays_t arrays;

    setup(&l);
    arrays = kvs_arrays(l.arrays, 3);
    KT_OK(misuse_init(l.store, keys[0], l.arrays[0]));
    for (int i = 0; i < MISUSE_N; i++) {
        l.data[0][i] = 1;
        l.data[1][i] = 10;
        l.data[2][i] = 100;
    }
    KT_OK(kvs_store_push(l.store, keys, 3, &arrays, NULL));
    KT_OK(misuse_pull(l.store, keys[0], kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)));
    KT_TRUE(memcmp(out, sum, sizeof(out)) == 0);
    misuse_close_working(l.store, kvs_key_int(11));
}

static const kt_test_t tests[] = {
    KT_TEST(fewer_or_more_arrays_than_keys_are_an_error_giving_both_numbers),
    KT_TEST(per_key_numbers_must_be_one_for_each_key),
    KT_TEST(per_key_numbers_must_add_up),
    KT_TEST(an_empty_group_of_values_is_an_error),
    KT_TEST(lists_must_not_be_null),
    KT_TEST(one_bad_array_leaves_every_key_of_the_list_alone),
    KT_TEST(an_init_with_one_bad_array_creates_nothing),
    KT_TEST(the_size_of_the_options_must_be_set),
    KT_TEST(unknown_flags_are_an_error),
    KT_TEST(any_priority_is_accepted),
    KT_TEST(a_store_is_required),
    KT_TEST(a_key_may_stand_several_times_in_a_push),
};
KT_MAIN("misuse.lists", tests)
