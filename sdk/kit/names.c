/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the functions of kvstore.h that a plugin needs but can't take from the core, which may be
 * loaded where its symbols are not seen. Weak: a program that links the core too gets the core's. */
#include <kvstore/kit.h>

#define WEAK __attribute__((weak))

WEAK kvs_dtype_t kvs_dtype(int index)
{
    switch (index) {
#define DTYPE_OF(name, dtype_code, dtype_bits)                                                     \
    case KVS_DTYPE_##name:                                                                         \
        return (kvs_dtype_t){.code = (dtype_code), .bits = (dtype_bits), .lanes = 1};
        KVS_DTYPE_LIST(DTYPE_OF)
#undef DTYPE_OF
    default:
        return (kvs_dtype_t){0};
    }
}

WEAK int kvs_dtype_index(kvs_dtype_t dtype)
{
#define INDEX_OF(name, dtype_code, dtype_bits)                                                     \
    if (dtype.code == (dtype_code) && dtype.bits == (dtype_bits) && dtype.lanes == 1) {            \
        return KVS_DTYPE_##name;                                                                   \
    }
    KVS_DTYPE_LIST(INDEX_OF)
#undef INDEX_OF
    return -1;
}

WEAK const char *kvs_dtype_name(kvs_dtype_t dtype)
{
    switch (kvs_dtype_index(dtype)) {
#define NAME_OF(name, dtype_code, dtype_bits)                                                      \
    case KVS_DTYPE_##name:                                                                         \
        return #name;
        KVS_DTYPE_LIST(NAME_OF)
#undef NAME_OF
    default:
        return "unknown dtype";
    }
}

WEAK const char *kvs_status_name(kvs_status_t status)
{
    switch (status) {
#define NAME_OF(name, code, text)                                                                  \
    case code:                                                                                     \
        return "KVS_" #name;
        KVS_STATUS_LIST(NAME_OF)
#undef NAME_OF
    default:
        return "unknown status";
    }
}

WEAK const char *kvs_status_text(kvs_status_t status)
{
    switch (status) {
#define TEXT_OF(name, code, text)                                                                  \
    case code:                                                                                     \
        return text;
        KVS_STATUS_LIST(TEXT_OF)
#undef TEXT_OF
    default:
        return "unknown status";
    }
}
