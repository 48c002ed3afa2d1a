/* SPDX-License-Identifier: Apache-2.0 */
/* pack.cu - 1bit and 2bit: a thread packs or unpacks one 32-bit word. The first element of a byte is in
 * its highest bits, bytes in order: definitions and CPU kernels are in sdk/compressors. */
#include "device_code.h"

/* What is sent of a value: its bits, and what they stand for. */
DEVICE uint32_t code_of(int bits, float threshold, float value, float *ret_sent)
{
    if (bits == 1) {
        *ret_sent = value > threshold ? 1.0f : -1.0f;
        return value > threshold;
    }
    *ret_sent = value >= threshold ? threshold : value <= -threshold ? -threshold : 0.0f;
    return value >= threshold ? 3 : value <= -threshold ? 2 : 0;
}

DEVICE float value_of(int bits, float threshold, uint32_t code)
{
    if (bits == 1) {
        return code != 0 ? 1.0f : -1.0f;
    }
    return code == 3 ? threshold : code == 2 ? -threshold : 0.0f;
}

/* Where the bits of element `i` of a word are. */
DEVICE uint32_t shift_of(int bits, uint32_t i)
{
    uint32_t in_byte = 8 / (uint32_t)bits;

    return i / in_byte * 8 + 8 - (uint32_t)bits * (i % in_byte + 1);
}

KERNEL(pack, cuda_pack_args_t)
{
    int64_t word = (int64_t)block_index() * CUDA_BLOCK + thread_index();
    uint32_t in_word = 32 / (uint32_t)args->bits;
    int64_t begin = word * in_word;
    uint32_t packed = 0;

    if (begin >= args->n) {
        return;
    }
    if (args->unless != 0 && *args->unless != 0) {
        for (uint32_t i = 0; i < in_word && begin + i < args->n; i++) {
            args->next[begin + i] = args->residual[begin + i];
        }
        args->packed[word] = 0;
        return;
    }
    for (uint32_t i = 0; i < in_word && begin + i < args->n; i++) {
        float sum = args->residual[begin + i] + args->grad[begin + i];
        float sent;

        packed |= code_of(args->bits, args->threshold, sum, &sent) << shift_of(args->bits, i);
        args->next[begin + i] = sum - sent;
    }
    args->packed[word] = packed;
}

KERNEL(unpack, cuda_unpack_args_t)
{
    int64_t word = (int64_t)block_index() * CUDA_BLOCK + thread_index();
    uint32_t in_word = 32 / (uint32_t)args->bits;
    uint32_t mask = (1u << args->bits) - 1;
    int64_t begin = word * in_word;

    for (uint32_t i = 0; i < in_word && begin + i < args->n; i++) {
        uint32_t shift = shift_of(args->bits, i);
        float sum = value_of(args->bits, args->threshold, args->packed[0][word] >> shift & mask);

        for (uint32_t j = 1; j < args->n_src; j++) {
            sum += value_of(args->bits, args->threshold, args->packed[j][word] >> shift & mask);
        }
        args->dst[begin + i] = sum;
    }
}
