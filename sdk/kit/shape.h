/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h - shapes compared, and as texts for errors. */
#ifndef KVS_KIT_SHAPE_H
#define KVS_KIT_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#define KVS_SHAPE_TEXT_BYTES 128

int kvs_same_shape(const int64_t *a, int32_t a_ndim, const int64_t *b, int32_t b_ndim);
/* "(2, 3)", "(4,)", "()"; cut with "..." where it does not fit. */
void kvs_shape_text(const int64_t *shape, int32_t ndim, char ret_text[KVS_SHAPE_TEXT_BYTES]);

#endif
