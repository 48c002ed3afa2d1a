/* SPDX-License-Identifier: Apache-2.0 */
/* cast.h - kvs_cast by kernels of the caller's choice. For tests. */
#ifndef KVS_KIT_CAST_H
#define KVS_KIT_CAST_H

#include "kernels.h"

void kvs_cast_by(const kvs_kernels_t *kernels, int64_t n, int src_dtype, const void *src,
                 int dst_dtype, void *dst);

#endif
