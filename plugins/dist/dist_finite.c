/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_finite.h"

#include <stdint.h>
#include <string.h>

kvs_status_t dist_nonfinite_of(const char *text, dist_nonfinite_t *ret_policy)
{
    static const char *const words[] = {"propagate", "skip", "error"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_policy = (dist_nonfinite_t)i;
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_ARGUMENT, "nonfinite is \"%.80s\"; accepted are propagate, skip, error",
                    text);
}

/* An exponent of ones. Without branches, so that the loops are done many elements at a time. */
#define DEFINE_CHECK(name, type, exponent)                                                         \
    static bool name(int64_t n, const type *bits)                                                  \
    {                                                                                              \
        type found = 0;                                                                            \
                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            found |= (type)((bits[i] & (exponent)) == (exponent));                                 \
        }                                                                                          \
        return found == 0;                                                                         \
    }

DEFINE_CHECK(is_finite_32, uint32_t, UINT32_C(0x7F800000))
DEFINE_CHECK(is_finite_64, uint64_t, UINT64_C(0x7FF0000000000000))
DEFINE_CHECK(is_finite_half, uint16_t, UINT16_C(0x7C00))
DEFINE_CHECK(is_finite_bfloat, uint16_t, UINT16_C(0x7F80))

bool dist_is_finite(int dtype, int64_t n, const void *data)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        return is_finite_32(n, data);
    case KVS_DTYPE_float64:
        return is_finite_64(n, data);
    case KVS_DTYPE_float16:
        return is_finite_half(n, data);
    case KVS_DTYPE_bfloat16:
        return is_finite_bfloat(n, data);
    default:
        return true;
    }
}
