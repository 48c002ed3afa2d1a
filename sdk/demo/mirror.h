/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h - copies on GPUs of arrays of the host, for a program without a framework that has its own. */
#ifndef DEMO_MIRROR_H
#define DEMO_MIRROR_H

#include <kvstore/kvstore.h>

/* Memory on GPUs for `n` float32 arrays: those of cpu(d) on the GPU `first` + d, beginning again with GPU 0 where
 * there are no more. Errors are the library's. Freed by mirror_free, which takes NULL. */
kvs_status_t mirror_new(const kvs_tensor_t *arrays, size_t n, size_t first,
                        kvs_tensor_t **ret_mirror);
void mirror_free(kvs_tensor_t *mirror, size_t n);
/* Copy `n` arrays, from or to a mirror; they have come when it returns. */
kvs_status_t mirror_copy(const kvs_tensor_t *to, const kvs_tensor_t *from, size_t n);

#endif
