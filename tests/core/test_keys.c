/* SPDX-License-Identifier: Apache-2.0 */
/* The key table: found again after growth, live or not, of one kind, and only UTF-8 text. */
#include "keys.h"
#include "kt.h"

#include <stdint.h>
#include <stdlib.h>

static kvsi_key_t *add(kvsi_keys_t *keys, kvs_key_t key)
{
    kvsi_key_t *made = NULL;

    KT_OK(kvsi_keys_add(keys, &key, &made));
    return made;
}

static kvsi_key_t *find(const kvsi_keys_t *keys, kvs_key_t key)
{
    return kvsi_keys_find(keys, &key);
}

static void nothing_is_found_in_an_empty_table(void)
{
    kvsi_keys_t keys = {0};

    KT_TRUE(find(&keys, kvs_key_int(0)) == NULL);
    KT_TRUE(find(&keys, kvs_key_str("")) == NULL);
    kvsi_keys_release(&keys);
}

static void a_new_key_is_not_live_and_its_state_is_zeroed(void)
{
    kvsi_keys_t keys = {.state_bytes = 40};
    kvsi_key_t *key = add(&keys, kvs_key_int(-5));
    const char zeros[40] = {0};

    KT_TRUE(!key->live);
    KT_INT(key->entry.number, -5);
    KT_TRUE(key->entry.name == NULL);
    KT_INT(key->entry.ndim, -1);
    KT_TRUE(memcmp(key->entry.state, zeros, sizeof(zeros)) == 0);
    KT_TRUE(add(&keys, kvs_key_int(-5)) == key);
    KT_INT(keys.n_used, 1);
    kvsi_keys_release(&keys);
}

static void thousands_of_integer_keys_are_found_again(void)
{
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1};
    enum { N = 5000 };
    static kvsi_key_t *made[N];
    kvsi_keys_t keys = {0};

    for (int64_t i = 0; i < N; i++) {
        made[i] = add(&keys, kvs_key_int((i - N / 2) * 64)); /* equal in their low bits */
    }
    for (size_t i = 0; i < 3; i++) {
        KT_INT(add(&keys, kvs_key_int(extremes[i]))->entry.number, extremes[i]);
    }
    KT_INT(keys.n_used, N + 3);
    for (int64_t i = 0; i < N; i++) {
        KT_TRUE(find(&keys, kvs_key_int((i - N / 2) * 64)) == made[i]);
        KT_TRUE(find(&keys, kvs_key_int((i - N / 2) * 64 + 1)) == NULL);
    }
    KT_TRUE(find(&keys, kvs_key_int(INT64_MAX - 1)) == NULL);
    kvsi_keys_release(&keys);
}

static void thousands_of_string_keys_are_found_again(void)
{
    enum { N = 5000 };
    static kvsi_key_t *made[N];
    kvsi_keys_t keys = {0};
    char name[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "layer%d_weight", i);
        made[i] = add(&keys, kvs_key_str(name));
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "layer%d_weight", i);
        KT_TRUE(find(&keys, kvs_key_str(name)) == made[i]);
        KT_STR(made[i]->entry.name, name);
        name[0] = 'L';
        KT_TRUE(find(&keys, kvs_key_str(name)) == NULL);
    }
    kvsi_keys_release(&keys);
}

static void a_number_and_its_text_are_different_keys(void)
{
    kvsi_keys_t keys = {0};
    kvsi_key_t *number = add(&keys, kvs_key_int(3)), *text = add(&keys, kvs_key_str("3"));

    KT_TRUE(number != text);
    KT_TRUE(find(&keys, kvs_key_int(3)) == number);
    KT_TRUE(find(&keys, kvs_key_str("3")) == text);
    kvsi_keys_release(&keys);
}

static void the_empty_text_is_a_key(void)
{
    kvsi_keys_t keys = {0};
    kvsi_key_t *empty = add(&keys, kvs_key_str(""));

    KT_TRUE(find(&keys, kvs_key_str("")) == empty);
    KT_STR(empty->entry.name, "");
    kvsi_keys_release(&keys);
}

static void strings_are_numbered_as_they_come_to_life(void)
{
    kvsi_keys_t keys = {0};
    kvsi_key_t *a = add(&keys, kvs_key_str("a")), *b = add(&keys, kvs_key_str("b"));

    kvsi_keys_set_live(&keys, b, true);
    kvsi_keys_set_live(&keys, a, true);
    KT_INT(b->entry.number, 0);
    KT_INT(a->entry.number, 1);
    kvsi_keys_set_live(&keys, a, true); /* it is already */
    KT_INT(a->entry.number, 1);
    kvsi_keys_release(&keys);
}

static void a_number_given_back_at_once_is_given_again(void)
{
    kvsi_keys_t keys = {0};
    kvsi_key_t *a = add(&keys, kvs_key_str("a")), *b = add(&keys, kvs_key_str("b"));

    kvsi_keys_set_live(&keys, a, true);
    kvsi_keys_set_live(&keys, a, false);
    kvsi_keys_set_live(&keys, b, true);
    KT_INT(b->entry.number, 0);
    kvsi_keys_set_live(&keys, a, true);
    KT_INT(a->entry.number, 1);
    kvsi_keys_release(&keys);
}

static void the_first_live_key_decides_the_kind(void)
{
    kvsi_keys_t keys = {0};
    const kvs_key_t number = kvs_key_int(1), text = kvs_key_str("w");
    kvsi_key_t *key = add(&keys, number);

    KT_OK(kvsi_keys_check_kind(&keys, &text));
    kvsi_keys_set_live(&keys, key, true);
    KT_OK(kvsi_keys_check_kind(&keys, &number));
    KT_FAIL(kvsi_keys_check_kind(&keys, &text), KVS_ERR_KEY_TYPE,
            "key 'w': mixed key types are not allowed: this store has integer keys");
    kvsi_keys_release(&keys);
}

static void the_last_live_key_frees_the_kind(void)
{
    kvsi_keys_t keys = {0};
    const kvs_key_t number = kvs_key_int(1);
    kvsi_key_t *a = add(&keys, kvs_key_str("a")), *b = add(&keys, kvs_key_str("b"));

    kvsi_keys_set_live(&keys, a, true);
    kvsi_keys_set_live(&keys, b, true);
    kvsi_keys_set_live(&keys, a, false);
    kvsi_keys_set_live(&keys, a, false);
    KT_FAIL(kvsi_keys_check_kind(&keys, &number), KVS_ERR_KEY_TYPE, "string keys");
    kvsi_keys_set_live(&keys, b, false);
    KT_INT(keys.n_live, 0);
    KT_OK(kvsi_keys_check_kind(&keys, &number));
    kvsi_keys_release(&keys);
}

static void a_dropped_key_is_replaced_and_stays_readable(void)
{
    kvsi_keys_t keys = {.state_bytes = 8};
    const int64_t shape[] = {2};
    kvs_tensor_t tensor = kt_tensor(NULL, KVS_DTYPE_float32, shape, 1);
    kvsi_key_t *old = add(&keys, kvs_key_int(1)), *new, *each;
    size_t n = 0;

    KT_OK(kvsi_key_set_layout(old, &tensor, 2));
    kvsi_keys_set_live(&keys, old, true);
    memset(old->entry.state, 7, 8);
    kvsi_keys_drop(&keys, old);
    KT_TRUE(!old->live);
    KT_INT(keys.n_live, 0);
    KT_TRUE(find(&keys, kvs_key_int(1)) == old);
    new = add(&keys, kvs_key_int(1));
    KT_TRUE(new != old);
    KT_TRUE(find(&keys, kvs_key_int(1)) == new);
    KT_TRUE(add(&keys, kvs_key_int(1)) == new);
    KT_INT(((char *)new->entry.state)[7], 0);
    KT_INT(new->entry.ndim, -1);
    KT_INT(old->entry.shape[0], 2);
    KT_INT(keys.n_used, 1);
    for (each = keys.all; each != NULL; each = each->next) {
        n += each == old || each == new;
    }
    KT_INT(n, 2);
    kvsi_keys_release(&keys);
}

static void a_layout_is_copied_and_can_be_replaced(void)
{
    kvsi_keys_t keys = {0};
    kvsi_key_t *key = add(&keys, kvs_key_int(1));
    int64_t shape[] = {2, 3};
    kvs_rows_t rows = {0};
    kvs_tensor_t tensor = kt_tensor(NULL, KVS_DTYPE_int8, shape, 2);

    KT_OK(kvsi_key_set_layout(key, &tensor, 6));
    shape[0] = 77;
    KT_INT(key->entry.ndim, 2);
    KT_INT(key->entry.shape[0], 2);
    KT_INT(key->entry.shape[1], 3);
    KT_INT(key->entry.n_elems, 6);
    KT_INT(kvs_dtype_index(key->entry.dtype), KVS_DTYPE_int8);
    KT_INT(key->entry.row_sparse, 0);

    tensor = kt_tensor(NULL, KVS_DTYPE_float32, NULL, 0);
    tensor.rows = &rows;
    KT_OK(kvsi_key_set_layout(key, &tensor, 1));
    KT_INT(key->entry.ndim, 0);
    KT_INT(key->entry.row_sparse, 1);
    kvsi_keys_release(&keys);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static void check_taken(const char *text)
{
    kvsi_keys_t keys = {0};

    KT_STR(add(&keys, kvs_key_str(text))->entry.name, text);
    kvsi_keys_release(&keys);
}

static void check_refused(const char *text, const char *part)
{
    kvsi_keys_t keys = {0};
    kvs_key_t key = kvs_key_str(text);
    kvsi_key_t *made = NULL;

    KT_FAIL(kvsi_keys_add(&keys, &key, &made), KVS_ERR_ARGUMENT, part);
    KT_TRUE(made == NULL);
    KT_INT(keys.n_used, 0);
    kvsi_keys_release(&keys);
}

static void any_utf8_text_is_taken(void)
{
    check_taken("\x01\x7F");
    check_taken("\xC2\x80 \xDF\xBF");
    check_taken("\xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF"); /* around the surrogates */
    check_taken("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF");                   /* U+10000, U+10FFFF */
}

static void text_that_is_not_utf8_is_refused_with_the_place(void)
{
    check_refused("ab\x80", "not UTF-8 text (byte 2 is 0x80)"); /* no first byte */
    check_refused("\xBF", "byte 0 is 0xBF");
    check_refused("\xC3", "byte 0 is 0xC3"); /* ends early */
    check_refused("\xE2\x82", "byte 0 is 0xE2");
    check_refused("\xF0\x9F\x98", "byte 0 is 0xF0");
    check_refused("\xC3(", "byte 0 is 0xC3"); /* no following byte */
    check_refused("\xE2(\xAC", "byte 0 is 0xE2");
    check_refused("\xE2\x82(", "byte 0 is 0xE2");
    check_refused("\xF0\x9F\x98(", "byte 0 is 0xF0");
}

static void overlong_forms_surrogates_and_what_lies_beyond_unicode_are_refused(void)
{
    check_refused("\xC0\x80", "byte 0 is 0xC0");
    check_refused("\xC1\xBF", "byte 0 is 0xC1");
    check_refused("\xE0\x9F\xBF", "byte 0 is 0xE0");
    check_refused("\xF0\x8F\xBF\xBF", "byte 0 is 0xF0");
    check_refused("\xED\xA0\x80", "byte 0 is 0xED");     /* U+D800 */
    check_refused("\xED\xBF\xBF", "byte 0 is 0xED");     /* U+DFFF */
    check_refused("\xF4\x90\x80\x80", "byte 0 is 0xF4"); /* U+110000 */
    check_refused("\xF5\x80\x80\x80", "byte 0 is 0xF5");
    check_refused("\xF8\x88\x80\x80\x80", "byte 0 is 0xF8"); /* five bytes */
    check_refused("\xFC\x84\x80\x80\x80\x80", "byte 0 is 0xFC");
    check_refused("\xFE", "byte 0 is 0xFE");
    check_refused("\xFF", "byte 0 is 0xFF");
}

static void keys_of_up_to_1024_bytes_are_taken(void)
{
    char text[KVS_KEY_MAX_BYTES + 2];

    memset(text, 'k', sizeof(text));
    text[KVS_KEY_MAX_BYTES] = '\0';
    check_taken(text);
    text[KVS_KEY_MAX_BYTES] = 'k';
    text[KVS_KEY_MAX_BYTES + 1] = '\0';
    check_refused(text, "is longer than 1024 bytes");
    KT_HAS(kvs_last_error(), "key 'kkkk");
}

static const kt_test_t tests[] = {
    KT_TEST(nothing_is_found_in_an_empty_table),
    KT_TEST(a_new_key_is_not_live_and_its_state_is_zeroed),
    KT_TEST(thousands_of_integer_keys_are_found_again),
    KT_TEST(thousands_of_string_keys_are_found_again),
    KT_TEST(a_number_and_its_text_are_different_keys),
    KT_TEST(the_empty_text_is_a_key),
    KT_TEST(strings_are_numbered_as_they_come_to_life),
    KT_TEST(a_number_given_back_at_once_is_given_again),
    KT_TEST(the_first_live_key_decides_the_kind),
    KT_TEST(the_last_live_key_frees_the_kind),
    KT_TEST(a_dropped_key_is_replaced_and_stays_readable),
    KT_TEST(a_layout_is_copied_and_can_be_replaced),
    KT_TEST(any_utf8_text_is_taken),
    KT_TEST(text_that_is_not_utf8_is_refused_with_the_place),
    KT_TEST(overlong_forms_surrogates_and_what_lies_beyond_unicode_are_refused),
    KT_TEST(keys_of_up_to_1024_bytes_are_taken),
};
KT_MAIN("keys", tests)
