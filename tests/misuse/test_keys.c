/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that were never initialised, twice initialised, of the wrong type, odd. */
#include "misuse.h"

#include <stdlib.h>

static kvs_status_t keep(const kvs_key_t *key, const kvs_tensor_t *value,
                         const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    (void)arg;
    return KVS_OK;
}

/* push, pull and pushpull of `key` say that it was never initialised, naming it as `text`. */
static void check_not_initialised(kvs_store_t *store, kvs_key_t key, const char *text)
{
    float data[2] = {7, 8};
    kvs_tensor_t array = KT_F32(data, 2);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);

    KT_FAIL(misuse_push(store, key, array), KVS_ERR_NOT_FOUND, text);
    KT_FAIL(misuse_pull(store, key, array), KVS_ERR_NOT_FOUND, text);
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &arrays, &arrays, NULL), KVS_ERR_NOT_FOUND, text);
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &arrays, NULL, NULL), KVS_ERR_NOT_FOUND, text);
    KT_REAL(data[0], 7);
}

static void an_uninitialised_integer_key_is_an_error_naming_it(void)
{
    kvs_store_t *store = misuse_open();

    check_not_initialised(store, kvs_key_int(-41), "-41");
    misuse_close_untouched(store);
}

static void an_uninitialised_string_key_is_an_error_naming_it(void)
{
    kvs_store_t *store = misuse_open_str();

    check_not_initialised(store, kvs_key_str("fc1_weight"), "fc1_weight");
    misuse_close_untouched(store);
}

static void an_uninitialised_key_in_a_new_store_is_an_error(void)
{
    kvs_store_t *store = misuse_create("local");

    check_not_initialised(store, kvs_key_int(5), "5");
    check_not_initialised(store, kvs_key_str("five"), "five");
    misuse_close_working(store, kvs_key_str("five"));
}

static void pushing_two_arrays_to_an_uninitialised_key_is_an_error(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t key = kvs_key_int(4);
    float a[2] = {1, 2};
    kvs_tensor_t list[2] = {KT_F32(a, 2), KT_F32(a, 2)};
    kvs_arrays_t values = kvs_arrays(list, 2);

    KT_FAIL(kvs_store_push(store, &key, 1, &values, NULL), KVS_ERR_NOT_FOUND, "4");
    misuse_close_untouched(store);
}

static void an_updater_does_not_make_up_a_key(void)
{
    kvs_store_t *store = misuse_open();
    float a[2] = {1, 2};

    KT_OK(kvs_store_set_updater(store, keep, NULL));
    KT_FAIL(misuse_push(store, kvs_key_int(4), KT_F32(a, 2)), KVS_ERR_NOT_FOUND, "4");
    misuse_close_untouched(store);
}

static void one_uninitialised_key_in_a_list_leaves_the_others_alone(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t keys[2] = {kvs_key_int(MISUSE_KEY), kvs_key_int(99)};
    float data[MISUSE_N] = {0};
    kvs_tensor_t list[2] = {kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2), KT_F32(data, 6)};
    kvs_arrays_t arrays = kvs_arrays(list, 2);

    KT_FAIL(kvs_store_push(store, keys, 2, &arrays, NULL), KVS_ERR_NOT_FOUND, "99");
    KT_FAIL(kvs_store_pull(store, keys, 2, &arrays, NULL), KVS_ERR_NOT_FOUND, "99");
    KT_REAL(data[0], 0);
    misuse_close_untouched(store);
}

static void a_second_init_is_an_error_and_the_old_value_stays(void)
{
    kvs_store_t *ints = misuse_open();
    kvs_store_t *strings = misuse_open_str();
    float other[MISUSE_N] = {9, 9, 9, 9, 9, 9};
    kvs_tensor_t value = kt_tensor(other, KVS_DTYPE_float32, misuse_shape, 2);

    KT_FAIL(misuse_init(ints, kvs_key_int(3), value), KVS_ERR_EXISTS, "duplicate init of key 3");
    KT_FAIL(misuse_init(strings, kvs_key_str("w"), value), KVS_ERR_EXISTS, "duplicate init of key");
    KT_HAS(kvs_last_error(), "w");
    misuse_close_untouched(ints);
    misuse_close_untouched(strings);
}

static void a_list_with_one_key_that_exists_creates_none(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t keys[3] = {kvs_key_int(8), kvs_key_int(MISUSE_KEY), kvs_key_int(9)};
    float data[MISUSE_N] = {0};
    kvs_tensor_t list[3] = {KT_F32(data, 2), KT_F32(data, 2), KT_F32(data, 2)};
    kvs_arrays_t values = kvs_arrays(list, 3);

    KT_FAIL(kvs_store_init(store, keys, 3, &values, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 3");
    KT_FAIL(misuse_push(store, kvs_key_int(8), list[0]), KVS_ERR_NOT_FOUND, "8");
    KT_FAIL(misuse_push(store, kvs_key_int(9), list[0]), KVS_ERR_NOT_FOUND, "9");
    misuse_close_untouched(store);
}

static void a_key_twice_in_one_init_is_an_error_wherever_it_stands(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t beside[2] = {kvs_key_int(7), kvs_key_int(7)};
    kvs_key_t apart[4] = {kvs_key_int(7), kvs_key_int(1), kvs_key_int(2), kvs_key_int(7)};
    float data[2] = {1, 2};
    kvs_tensor_t list[4] = {KT_F32(data, 2), KT_F32(data, 2), KT_F32(data, 2), KT_F32(data, 2)};
    kvs_arrays_t two = kvs_arrays(list, 2);
    kvs_arrays_t four = kvs_arrays(list, 4);

    KT_FAIL(kvs_store_init(store, beside, 2, &two, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 7");
    KT_FAIL(kvs_store_init(store, apart, 4, &four, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 7");
    KT_FAIL(kvs_store_broadcast(store, apart, 4, &four, &four, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 7");
    KT_FAIL(misuse_push(store, kvs_key_int(1), list[0]), KVS_ERR_NOT_FOUND, "1");
    misuse_close_untouched(store);
}

static void a_string_key_twice_in_one_init_is_an_error(void)
{
    kvs_store_t *store = misuse_open_str();
    char copy[] = "fresh key"; /* equal text at another address */
    kvs_key_t keys[2] = {kvs_key_str("fresh key"), kvs_key_str(copy)};
    float data[2] = {1, 2};
    kvs_tensor_t list[2] = {KT_F32(data, 2), KT_F32(data, 2)};
    kvs_arrays_t values = kvs_arrays(list, 2);

    KT_FAIL(kvs_store_init(store, keys, 2, &values, NULL), KVS_ERR_EXISTS, "fresh key");
    misuse_close_untouched(store);
}

static void more_than_one_value_for_a_key_of_init_is_a_duplicate_init(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t keys[2] = {kvs_key_int(5), kvs_key_int(6)};
    float data[2] = {1, 2};
    kvs_tensor_t list[3] = {KT_F32(data, 2), KT_F32(data, 2), KT_F32(data, 2)};
    size_t per_key[2] = {1, 2};
    kvs_arrays_t bare = kvs_arrays(list, 2);
    kvs_arrays_t grouped = {list, 3, per_key, 2};

    KT_FAIL(kvs_store_init(store, keys, 1, &bare, NULL), KVS_ERR_EXISTS, "duplicate init of key 5");
    KT_FAIL(kvs_store_init(store, keys, 2, &grouped, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 6");
    KT_FAIL(misuse_push(store, kvs_key_int(5), list[0]), KVS_ERR_NOT_FOUND, "5");
    misuse_close_untouched(store);
}

static void a_value_for_each_key_may_be_a_list_of_one(void)
{
    kvs_store_t *store = misuse_create("local");
    kvs_key_t keys[2] = {kvs_key_int(5), kvs_key_int(6)};
    float data[2] = {1, 2};
    kvs_tensor_t list[2] = {KT_F32(data, 2), KT_F32(data, 2)};
    size_t per_key[2] = {1, 1};
    kvs_arrays_t grouped = {list, 2, per_key, 2};

    KT_OK(kvs_store_init(store, keys, 2, &grouped, NULL));
    misuse_check(store, keys[1], data, 2);
    misuse_close_working(store, kvs_key_int(1));
}

static void a_second_broadcast_is_an_error_and_the_outs_stay(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t key = kvs_key_int(MISUSE_KEY);
    float value[MISUSE_N] = {0};
    float out[MISUSE_N] = {-1, -1, -1, -1, -1, -1};
    kvs_tensor_t v = kt_tensor(value, KVS_DTYPE_float32, misuse_shape, 2);
    kvs_tensor_t o = kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2);
    kvs_arrays_t values = kvs_arrays(&v, 1);
    kvs_arrays_t outs = kvs_arrays(&o, 1);

    KT_FAIL(kvs_store_broadcast(store, &key, 1, &values, &outs, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 3");
    KT_REAL(out[0], -1);
    misuse_close_untouched(store);
}

static void mixed_key_types_across_calls_are_an_error(void)
{
    kvs_store_t *ints = misuse_open();
    kvs_store_t *strings = misuse_open_str();
    float data[2] = {1, 2};
    const char *text = "mixed key types are not allowed";

    KT_FAIL(misuse_init(ints, kvs_key_str("x"), KT_F32(data, 2)), KVS_ERR_KEY_TYPE, text);
    KT_FAIL(misuse_push(ints, kvs_key_str("x"), KT_F32(data, 2)), KVS_ERR_KEY_TYPE, text);
    KT_FAIL(misuse_pull(ints, kvs_key_str("3"), KT_F32(data, 2)), KVS_ERR_KEY_TYPE, text);
    KT_FAIL(misuse_init(strings, kvs_key_int(1), KT_F32(data, 2)), KVS_ERR_KEY_TYPE, text);
    KT_FAIL(misuse_push(strings, kvs_key_int(0), KT_F32(data, 2)), KVS_ERR_KEY_TYPE, text);
    misuse_close_untouched(ints);
    misuse_close_untouched(strings);
}

static void mixed_key_types_in_one_list_are_an_error(void)
{
    kvs_store_t *store = misuse_create("local");
    kvs_key_t keys[2] = {kvs_key_int(1), kvs_key_str("b")};
    float data[2] = {1, 2};
    kvs_tensor_t list[2] = {KT_F32(data, 2), KT_F32(data, 2)};
    kvs_arrays_t values = kvs_arrays(list, 2);

    KT_FAIL(kvs_store_init(store, keys, 2, &values, NULL), KVS_ERR_KEY_TYPE,
            "mixed key types are not allowed");
    KT_TRUE(misuse_push(store, kvs_key_int(1), list[0]) != KVS_OK);
    misuse_close_working(store, kvs_key_str("b"));
}

/* "A store takes its key type from the first init or exchange that succeeds." */
static void a_failed_init_does_not_decide_the_key_type(void)
{
    kvs_store_t *store = misuse_create("local");
    kvs_key_t twice[2] = {kvs_key_int(1), kvs_key_int(1)};
    float data[2] = {1, 2};
    kvs_tensor_t list[2] = {KT_F32(data, 2), KT_F32(data, 2)};
    kvs_arrays_t values = kvs_arrays(list, 2);

    KT_FAIL(kvs_store_init(store, twice, 2, &values, NULL), KVS_ERR_EXISTS, "1");
    KT_OK(misuse_init(store, kvs_key_str("one"), list[0]));
    misuse_close_working(store, kvs_key_str("two"));
}

static void all_int64_keys_work(void)
{
    static const int64_t numbers[] = {0,         -1,        INT32_MAX, (int64_t)INT32_MAX + 1,
                                      1LL << 53, INT64_MIN, INT64_MAX};
    kvs_store_t *store = misuse_create("local");

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        float value[1] = {(float)i};

        KT_OK(misuse_init(store, kvs_key_int(numbers[i]), KT_F32(value, 1)));
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        float value[1] = {(float)i};

        misuse_check(store, kvs_key_int(numbers[i]), value, 1);
    }
    misuse_close_working(store, kvs_key_int(17));
}

static void an_empty_string_is_a_key(void)
{
    kvs_store_t *store = misuse_create("local");
    float value[2] = {1, 2};

    KT_OK(misuse_init(store, kvs_key_str(""), KT_F32(value, 2)));
    misuse_check(store, kvs_key_str(""), value, 2);
    KT_FAIL(misuse_init(store, kvs_key_str(""), KT_F32(value, 2)), KVS_ERR_EXISTS,
            "duplicate init");
    misuse_close_working(store, kvs_key_str(" "));
}

static void a_string_key_holds_at_most_1024_bytes(void)
{
    kvs_store_t *store = misuse_create("local");
    char text[KVS_KEY_MAX_BYTES + 2];
    float value[2] = {1, 2};

    memset(text, 'k', sizeof(text));
    text[KVS_KEY_MAX_BYTES + 1] = '\0';
    KT_FAIL(misuse_init(store, kvs_key_str(text), KT_F32(value, 2)), KVS_ERR_ARGUMENT, "1024");
    text[KVS_KEY_MAX_BYTES] = '\0';
    KT_OK(misuse_init(store, kvs_key_str(text), KT_F32(value, 2)));
    misuse_check(store, kvs_key_str(text), value, 2);
    misuse_close_working(store, kvs_key_str("k"));
}

static void a_string_key_is_utf8(void)
{
    static const char *const broken[] = {"\xC3",         "a\xFFz",       "\xC0\xAF",
                                         "\xED\xA0\x80", "\xE2\x82",     "\xF5\x80\x80\x80",
                                         "\x80",         "\xE0\x80\x80", "\xF0\x80\x80\x80"};
    kvs_store_t *store = misuse_create("local");
    float value[2] = {1, 2};

    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        KT_FAIL(misuse_init(store, kvs_key_str(broken[i]), KT_F32(value, 2)), KVS_ERR_ARGUMENT,
                "UTF-8");
    }
    KT_OK(misuse_init(store, kvs_key_str("\xE2\x82\xAC \xF0\x9F\x98\x80 \xC3\xA4"),
                      KT_F32(value, 2)));
    misuse_close_working(store, kvs_key_str("a"));
}

static void a_long_key_of_wide_characters_gives_a_text_cut_between_them(void)
{
    kvs_store_t *store = misuse_open_str();
    char text[1024] = "";
    float value[2] = {1, 2};

    for (int i = 0; i < 300; i++) {
        memcpy(text + 3 * i, "\xE2\x82\xAC", 4);
    }
    KT_FAIL(misuse_push(store, kvs_key_str(text), KT_F32(value, 2)), KVS_ERR_NOT_FOUND,
            "\xE2\x82\xAC");
    misuse_close_untouched(store);
}

static void keys_must_not_be_null(void)
{
    kvs_store_t *store = misuse_open();
    float data[2] = {1, 2};
    kvs_tensor_t array = KT_F32(data, 2);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);

    KT_FAIL(kvs_store_init(store, NULL, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_push(store, NULL, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_pull(store, NULL, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_pushpull(store, NULL, 1, &arrays, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_broadcast(store, NULL, 1, &arrays, &arrays, NULL), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static void an_empty_list_of_keys_does_nothing(void)
{
    kvs_store_t *store = misuse_open();
    kvs_arrays_t none = kvs_arrays(NULL, 0);

    KT_OK(kvs_store_init(store, NULL, 0, &none, NULL));
    KT_OK(kvs_store_push(store, NULL, 0, &none, NULL));
    KT_OK(kvs_store_pull(store, NULL, 0, &none, NULL));
    KT_OK(kvs_store_pushpull(store, NULL, 0, &none, &none, NULL));
    KT_OK(kvs_store_broadcast(store, NULL, 0, &none, &none, NULL));
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(an_uninitialised_integer_key_is_an_error_naming_it),
    KT_TEST(an_uninitialised_string_key_is_an_error_naming_it),
    KT_TEST(an_uninitialised_key_in_a_new_store_is_an_error),
    KT_TEST(pushing_two_arrays_to_an_uninitialised_key_is_an_error),
    KT_TEST(an_updater_does_not_make_up_a_key),
    KT_TEST(one_uninitialised_key_in_a_list_leaves_the_others_alone),
    KT_TEST(a_second_init_is_an_error_and_the_old_value_stays),
    KT_TEST(a_list_with_one_key_that_exists_creates_none),
    KT_TEST(a_key_twice_in_one_init_is_an_error_wherever_it_stands),
    KT_TEST(a_string_key_twice_in_one_init_is_an_error),
    KT_TEST(more_than_one_value_for_a_key_of_init_is_a_duplicate_init),
    KT_TEST(a_value_for_each_key_may_be_a_list_of_one),
    KT_TEST(a_second_broadcast_is_an_error_and_the_outs_stay),
    KT_TEST(mixed_key_types_across_calls_are_an_error),
    KT_TEST(mixed_key_types_in_one_list_are_an_error),
    KT_TEST(a_failed_init_does_not_decide_the_key_type),
    KT_TEST(all_int64_keys_work),
    KT_TEST(an_empty_string_is_a_key),
    KT_TEST(a_string_key_holds_at_most_1024_bytes),
    KT_TEST(a_string_key_is_utf8),
    KT_TEST(a_long_key_of_wide_characters_gives_a_text_cut_between_them),
    KT_TEST(keys_must_not_be_null),
    KT_TEST(an_empty_list_of_keys_does_nothing),
};
KT_MAIN("misuse.keys", tests)
