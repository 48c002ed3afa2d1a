/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <stdio.h>

int kvs_same_shape(const int64_t *a, int32_t a_ndim, const int64_t *b, int32_t b_ndim)
{
    if (a_ndim != b_ndim) {
        return 0;
    }
    for (int32_t i = 0; i < a_ndim; i++) {
        if (a[i] != b[i]) {
            return 0;
        }
    }
    return 1;
}

void kvs_shape_text(const int64_t *shape, int32_t ndim, char ret_text[KVS_SHAPE_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(ret_text, KVS_SHAPE_TEXT_BYTES, "(");

    for (int32_t i = 0; i < ndim; i++) {
        if (used + 32 > KVS_SHAPE_TEXT_BYTES) {
            used += (size_t)snprintf(ret_text + used, KVS_SHAPE_TEXT_BYTES - used, "...");
            break;
        }
        used += (size_t)snprintf(ret_text + used, KVS_SHAPE_TEXT_BYTES - used, "%lld%s",
                                 (long long)shape[i], i + 1 < ndim ? ", " : (ndim == 1 ? "," : ""));
    }
    snprintf(ret_text + used, KVS_SHAPE_TEXT_BYTES - used, ")");
}
