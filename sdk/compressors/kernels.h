/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the loops of the compressors, once for each instruction set.
 *
 * One source (kernels_impl.h), compiled with several sets of flags; all give the same bits. The
 * functions are those of kvs_compressor_t, whose first parameter is the threshold. */
#ifndef KVS_COMPRESSORS_KERNELS_H
#define KVS_COMPRESSORS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef int compressors_encode_t(const float *params, int64_t n, const float *grad,
                                 const float *residual, float *ret_residual, void *packed,
                                 int stream);
typedef void compressors_decode_t(const float *params, int64_t n, const void *packed, float *dst);

typedef struct compressors_kernels {
    const char *isa;
    compressors_encode_t *encode_1bit, *encode_2bit;
    compressors_decode_t *decode_1bit, *decode_2bit;
    compressors_decode_t *decode_add_1bit, *decode_add_2bit;
} compressors_kernels_t;

extern const compressors_kernels_t compressors_kernels_default, compressors_kernels_avx2,
    compressors_kernels_avx512;

/* The best that this processor can run. */
const compressors_kernels_t *compressors_kernels(void);
/* All that it can run, the best first; NULL past the last. For tests. */
const compressors_kernels_t *compressors_kernels_at(size_t index);

#endif
