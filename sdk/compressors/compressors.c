/* SPDX-License-Identifier: Apache-2.0 */
/* compressors.c - the built-in compressors as a plugin like anyone's. Semantics and layout of the
 * bits: MXNet's gradient compression. */
#include "compressors.h"

#include "kernels.h"

/* ---- 1bit --------------------------------------------------------------------------------------- */

static const kvs_param_info_t params_1bit[] = {
    {"threshold", KVS_PARAM_FLOAT, 0, 0.5, "above it +1 is sent, else -1"},
};

static uint64_t packed_bytes_1bit(const float *params, int64_t n)
{
    (void)params;
    return ((uint64_t)n + 31) / 32 * 4;
}

static int encode_1bit(const float *params, int64_t n, const float *grad, const float *residual,
                       float *ret_residual, void *packed, int stream)
{
    return compressors_kernels()->encode_1bit(params, n, grad, residual, ret_residual, packed,
                                              stream);
}

static void decode_1bit(const float *params, int64_t n, const void *packed, float *dst)
{
    compressors_kernels()->decode_1bit(params, n, packed, dst);
}

static void decode_add_1bit(const float *params, int64_t n, const void *packed, float *dst)
{
    compressors_kernels()->decode_add_1bit(params, n, packed, dst);
}

const kvs_compressor_t compressors_1bit = {
    .size = (uint32_t)sizeof(kvs_compressor_t),
    .unit = 32,
    .name = "1bit",
    .arithmetic = "kvstore/1bit",
    .summary = "+1 above the threshold, else -1; 32 values in 4 bytes",
    .params = params_1bit,
    .n_params = 1,
    .packed_bytes = packed_bytes_1bit,
    .encode = encode_1bit,
    .decode = decode_1bit,
    .decode_add = decode_add_1bit,
};

/* ---- 2bit --------------------------------------------------------------------------------------- */

static const kvs_param_info_t params_2bit[] = {
    {"threshold", KVS_PARAM_FLOAT, 0, 0.5, "what is sent of a value that reaches it; above 0"},
};

static kvs_status_t check_2bit(const float *params)
{
    if (!(params[0] > 0)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "compressor '2bit': parameter 'threshold' is %.9g as float32, must be "
                        "above 0",
                        (double)params[0]);
    }
    return KVS_OK;
}

static uint64_t packed_bytes_2bit(const float *params, int64_t n)
{
    (void)params;
    return ((uint64_t)n + 15) / 16 * 4;
}

static int encode_2bit(const float *params, int64_t n, const float *grad, const float *residual,
                       float *ret_residual, void *packed, int stream)
{
    return compressors_kernels()->encode_2bit(params, n, grad, residual, ret_residual, packed,
                                              stream);
}

static void decode_2bit(const float *params, int64_t n, const void *packed, float *dst)
{
    compressors_kernels()->decode_2bit(params, n, packed, dst);
}

static void decode_add_2bit(const float *params, int64_t n, const void *packed, float *dst)
{
    compressors_kernels()->decode_add_2bit(params, n, packed, dst);
}

const kvs_compressor_t compressors_2bit = {
    .size = (uint32_t)sizeof(kvs_compressor_t),
    .unit = 16,
    .name = "2bit",
    .arithmetic = "kvstore/2bit",
    .summary = "+threshold, 0 or -threshold; 16 values in 4 bytes",
    .params = params_2bit,
    .n_params = 1,
    .check = check_2bit,
    .packed_bytes = packed_bytes_2bit,
    .encode = encode_2bit,
    .decode = decode_2bit,
    .decode_add = decode_add_2bit,
};

/* ---- The plugin ---------------------------------------------------------------------------------- */

static const kvs_compressor_t *const table[] = {&compressors_1bit, &compressors_2bit};

KVS_PLUGIN(compressors, KVS_COMPRESSORS_VERSION, .compressors = table, .n_compressors = 2)
