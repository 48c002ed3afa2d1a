/* SPDX-License-Identifier: Apache-2.0 */
/* mean.h - a compressor whose unit is a whole block: of each block it sends the mean. Include in one
 * file of a test. */
#ifndef MEAN_H
#define MEAN_H

#include <kvstore/abi.h>

#include <math.h>
#include <string.h>

static uint64_t mean_packed_bytes(const float *params, int64_t n)
{
    (void)params;
    return (uint64_t)((n + KVS_COMPRESSOR_BLOCK - 1) / KVS_COMPRESSOR_BLOCK) * sizeof(float);
}

static int64_t mean_end(int64_t begin, int64_t n)
{
    return n - begin < KVS_COMPRESSOR_BLOCK ? n : begin + KVS_COMPRESSOR_BLOCK;
}

static int mean_encode(const float *params, int64_t n, const float *grad, const float *residual,
                       float *ret_residual, void *packed, int stream)
{
    (void)params;
    (void)stream;
    for (int64_t begin = 0; begin < n; begin += KVS_COMPRESSOR_BLOCK) {
        double total = 0;
        float mean;

        for (int64_t i = begin; i < mean_end(begin, n); i++) {
            total += residual[i] + grad[i];
        }
        mean = (float)(total / (double)(mean_end(begin, n) - begin));
        for (int64_t i = begin; i < mean_end(begin, n); i++) {
            ret_residual[i] = residual[i] + grad[i] - mean;
        }
        memcpy((char *)packed + mean_packed_bytes(params, begin), &mean, sizeof(mean));
        if (!isfinite(total)) {
            return 0;
        }
    }
    return 1;
}

static void mean_put(int64_t n, const void *packed, float *dst, int adds)
{
    float mean = 0;

    for (int64_t i = 0; i < n; i++) {
        if (i % KVS_COMPRESSOR_BLOCK == 0) {
            memcpy(&mean, (const char *)packed + mean_packed_bytes(NULL, i), sizeof(mean));
        }
        dst[i] = adds ? dst[i] + mean : mean;
    }
}

static void mean_decode(const float *params, int64_t n, const void *packed, float *dst)
{
    (void)params;
    mean_put(n, packed, dst, 0);
}

static void mean_decode_add(const float *params, int64_t n, const void *packed, float *dst)
{
    (void)params;
    mean_put(n, packed, dst, 1);
}

static const kvs_compressor_t mean_compressor = {
    .size = (uint32_t)sizeof(mean_compressor),
    .unit = KVS_COMPRESSOR_BLOCK,
    .name = "mean",
    .summary = "the mean of each block",
    .packed_bytes = mean_packed_bytes,
    .encode = mean_encode,
    .decode = mean_decode,
    .decode_add = mean_decode_add,
};

#endif
