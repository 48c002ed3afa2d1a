/* SPDX-License-Identifier: Apache-2.0 */
/* cases_keys.c - what is a key, and what is refused. */
#include "themes.h"

#include <stdio.h>
#include <string.h>

/* Use each key with a value of its own, then look whether each has kept its own. */
static void use_distinct(cf_t *t, const kvs_key_t *keys, int n_keys)
{
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, 2);

    for (int i = 0; i < n_keys; i++) {
        cf_use(t, keys[i], cf_const(t, KVS_DTYPE_float32, 2, i + 1));
    }
    for (int i = 0; i < n_keys && !t->failed; i++) {
        char what[64];

        snprintf(what, sizeof(what), "value of key %d of the list", i);
        if (cf_keeps_weights(t)) {
            cf_pull(t, keys[i], out);
            cf_want_all(t, what, out, i + 1);
        } else {
            cf_pushpull(t, keys[i], CF_LIST(t, cf_const(t, KVS_DTYPE_float32, 2, i + 1)),
                        CF_LIST(t, out));
            cf_want_all(t, what, out, (i + 1) * t->n_workers);
        }
    }
}

static void integers(cf_t *t)
{
    const kvs_key_t keys[] = {
        kvs_key_int(0),
        kvs_key_int(7),
        kvs_key_int(-7),
        kvs_key_int((int64_t)INT32_MAX + 8),
        kvs_key_int(((int64_t)1 << 32) + 7), /* 7 in its low 32 bits */
        kvs_key_int(INT64_MAX),
        kvs_key_int(INT64_MIN),
    };

    use_distinct(t, keys, sizeof(keys) / sizeof(keys[0]));
}

static void strings(cf_t *t)
{
    const kvs_key_t keys[] = {
        kvs_key_str(""),
        kvs_key_str("3"),
        kvs_key_str("03"),
        kvs_key_str("weight"),
        kvs_key_str("Weight"),
        kvs_key_str("layer one/\"gamma\" %s"),
        kvs_key_str("poids \xc3\xa9t\xc3\xa9"),
        kvs_key_str("\xe9\x87\x8d\xe3\x81\xbf \xf0\x9f\x8f\x8b"),
    };

    use_distinct(t, keys, sizeof(keys) / sizeof(keys[0]));
}

static void limit(cf_t *t)
{
    char *longest = cf_alloc(t, KVS_KEY_MAX_BYTES + 1);
    char *other = cf_alloc(t, KVS_KEY_MAX_BYTES + 1);
    char *too_long = cf_alloc(t, KVS_KEY_MAX_BYTES + 2);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, 2, 1);
    kvs_key_t keys[2];

    memset(longest, 'k', KVS_KEY_MAX_BYTES);
    memset(other, 'k', KVS_KEY_MAX_BYTES - 1);
    other[KVS_KEY_MAX_BYTES - 1] = 'l';
    memset(too_long, 'k', KVS_KEY_MAX_BYTES + 1);
    keys[0] = kvs_key_str(longest);
    keys[1] = kvs_key_str(other);
    use_distinct(t, keys, 2);
    keys[0] = kvs_key_str(too_long);
    CF_FAIL(t, kvs_store_broadcast(t->store, keys, 1, CF_LIST(t, value), CF_LIST(t, value), NULL),
            KVS_ERR_ARGUMENT, "1024");
}

static void invalid_utf8(cf_t *t)
{
    static const char *const texts[] = {
        "\xff",             /* no such byte */
        "key\x80",          /* a continuation of nothing */
        "\xe2\x82",         /* cut short */
        "\xc0\xaf",         /* '/' in two bytes */
        "\xe0\x80\xaf",     /* and in three */
        "\xed\xa0\x80",     /* half a surrogate pair */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
    };
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, 2, 1);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        kvs_key_t key = kvs_key_str(texts[i]);

        CF_FAIL(t,
                kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, value), NULL),
                KVS_ERR_ARGUMENT, "UTF-8");
    }
}

static void mixed_calls(cf_t *t)
{
    static const char text[] = "mixed key types are not allowed";
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, 2, 1);
    const kvs_arrays_t *list = CF_LIST(t, value);
    kvs_key_t string = kvs_key_str("3");
    kvs_key_t integer = kvs_key_int(3);

    cf_use(t, string, value);
    CF_FAIL(t, kvs_store_broadcast(t->store, &integer, 1, list, list, NULL), KVS_ERR_KEY_TYPE,
            text);
    CF_FAIL(t, kvs_store_pushpull(t->store, &integer, 1, list, NULL, NULL), KVS_ERR_KEY_TYPE, text);
    if (cf_keeps_weights(t)) {
        CF_FAIL(t, kvs_store_init(t->store, &integer, 1, list, NULL), KVS_ERR_KEY_TYPE, text);
        CF_FAIL(t, kvs_store_push(t->store, &integer, 1, list, NULL), KVS_ERR_KEY_TYPE, text);
        CF_FAIL(t, kvs_store_pull(t->store, &integer, 1, list, NULL), KVS_ERR_KEY_TYPE, text);
    }
    cf_use(t, cf_name(t, 1), value);
}

static void mixed_list(cf_t *t)
{
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, 2, 1);
    cf_array_t *b = cf_const(t, KVS_DTYPE_float32, 2, 2);
    kvs_key_t keys[2] = {cf_key(t, 1), kvs_key_str("two")};

    CF_FAIL(t, kvs_store_broadcast(t->store, keys, 2, CF_LIST(t, a, b), CF_LIST(t, b, a), NULL),
            KVS_ERR_KEY_TYPE, "mixed key types are not allowed");
    cf_want_all(t, "an out of the refused call", a, 1);
    cf_want_all(t, "an out of the refused call", b, 2);
    cf_use(t, keys[1], a); /* neither key type had been taken, and no key was made */
}

static void type_by_success(cf_t *t)
{
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, 2, 1);
    kvs_key_t integer = cf_key(t, 1);

    CF_FAIL(
        t, kvs_store_broadcast(t->store, &integer, 1, CF_LIST(t, value), cf_list(t, 0, NULL), NULL),
        KVS_ERR_ARGUMENT, "");
    cf_use(t, cf_name(t, 1), value);
}

static const cf_case_t cases[] = {
    {"keys.integers", "Integer keys are int64: negative and large ones are keys of their own.", 0,
     integers},
    {"keys.strings", "String keys are any UTF-8 text, also \"\", compared byte by byte.", 0,
     strings},
    {"keys.limit", "A string key has at most 1024 bytes; a longer one is refused.", 0, limit},
    {"keys.invalid_utf8", "A string key that is not UTF-8 is refused.", 0, invalid_utf8},
    {"keys.mixed_calls",
     "A store takes its key type from the first success; the other is refused then, also 3 for "
     "\"3\".",
     0, mixed_calls},
    {"keys.mixed_list", "Integer and string keys in one list are refused, and nothing is done.", 0,
     mixed_list},
    {"keys.type_by_success", "A call that fails does not settle the key type.", 0, type_by_success},
};

const cf_theme_t cf_theme_keys = CF_THEME(cases);
