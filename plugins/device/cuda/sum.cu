/* SPDX-License-Identifier: Apache-2.0 */
/* sum.cu - n-way sums, written to one array or to several: the sum, the copy, the broadcast and, over
 * peer pointers, the reduce-scatter and all-gather of a direct exchange. Also conversions between
 * floating dtypes, and the search for values that are not finite.
 *
 * Sources are added in list order, half types in float32 with one rounding, so that the bits are the
 * CPU's. A destination may be a source: a thread reads all of an element before it writes it. */
#include "convert_code.h"

/* The item that a block works on: items are few, and all threads of a block take the same way. */
DEVICE const cuda_sum_item_t *item_of_block(const cuda_sum_args_t *args)
{
    uint32_t i = 0;

    while (i + 1 < args->n_items && args->items[i + 1].first_block <= block_index()) {
        i++;
    }
    return &args->items[i];
}

DEVICE int are_aligned(void *const *arrays, uint32_t n)
{
    uintptr_t bits = 0;

    for (uint32_t i = 0; i < n; i++) {
        bits |= (uintptr_t)arrays[i];
    }
    return bits % VECTOR_BYTES == 0;
}

#define SAME(x) (x)

/* A single source is copied bit by bit. */
#define DEFINE_SUM(name, elem, total_type, widen, narrow)                                          \
    DEFINE_VECTOR(name, elem);                                                                     \
    DEVICE void name##_at(const cuda_sum_item_t *item, void *const *arrays, int64_t i)             \
    {                                                                                              \
        elem value = ((const elem *)arrays[0])[i];                                                 \
                                                                                                   \
        if (item->n_src > 1) {                                                                     \
            total_type total = widen(value);                                                       \
                                                                                                   \
            for (uint32_t j = 1; j < item->n_src; j++) {                                           \
                total = (total_type)(total + widen(((const elem *)arrays[j])[i]));                 \
            }                                                                                      \
            value = (elem)narrow(total);                                                           \
        }                                                                                          \
        for (uint32_t j = 0; j < item->n_dst; j++) {                                               \
            ((elem *)arrays[item->n_src + j])[i] = value;                                          \
        }                                                                                          \
    }                                                                                              \
    DEVICE void name##_add(const cuda_sum_item_t *item, void *const *arrays, int64_t i,            \
                           name##_vector *io_v)                                                    \
    {                                                                                              \
        total_type total[VECTOR_BYTES / sizeof(elem)];                                             \
                                                                                                   \
        UNROLL for (uint32_t k = 0; k < VECTOR_BYTES / sizeof(elem); k++)                          \
        {                                                                                          \
            total[k] = widen(io_v->e[k]);                                                          \
        }                                                                                          \
        for (uint32_t j = 1; j < item->n_src; j++) {                                               \
            name##_vector v = ((const name##_vector *)arrays[j])[i];                               \
                                                                                                   \
            UNROLL for (uint32_t k = 0; k < VECTOR_BYTES / sizeof(elem); k++)                      \
            {                                                                                      \
                total[k] = (total_type)(total[k] + widen(v.e[k]));                                 \
            }                                                                                      \
        }                                                                                          \
        UNROLL for (uint32_t k = 0; k < VECTOR_BYTES / sizeof(elem); k++)                          \
        {                                                                                          \
            io_v->e[k] = (elem)narrow(total[k]);                                                   \
        }                                                                                          \
    }                                                                                              \
    DEVICE void name##_vector_at(const cuda_sum_item_t *item, void *const *arrays, int64_t i)      \
    {                                                                                              \
        name##_vector v = ((const name##_vector *)arrays[0])[i];                                   \
                                                                                                   \
        if (item->n_src > 1) {                                                                     \
            name##_add(item, arrays, i, &v);                                                       \
        }                                                                                          \
        for (uint32_t j = 0; j < item->n_dst; j++) {                                               \
            ((name##_vector *)arrays[item->n_src + j])[i] = v;                                     \
        }                                                                                          \
    }                                                                                              \
    KERNEL(name, cuda_sum_args_t)                                                                  \
    {                                                                                              \
        const int64_t lanes = (int64_t)(VECTOR_BYTES / sizeof(elem));                              \
        const int64_t chunk = (int64_t)(CUDA_CHUNK_BYTES / sizeof(elem));                          \
        const cuda_sum_item_t *item = item_of_block(args);                                         \
        void *const *arrays = args->arrays + item->first_array;                                    \
        int64_t begin = (int64_t)(block_index() - item->first_block) * chunk;                      \
        int64_t end = chunk_end(begin, chunk, item->n);                                            \
        int64_t whole = begin;                                                                     \
                                                                                                   \
        if (are_aligned(arrays, item->n_src + item->n_dst)) {                                      \
            whole = end - (end - begin) % lanes;                                                   \
            for (int64_t i = begin / lanes + thread_index(); i < whole / lanes; i += CUDA_BLOCK) { \
                name##_vector_at(item, arrays, i);                                                 \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = whole + thread_index(); i < end; i += CUDA_BLOCK) {                       \
            name##_at(item, arrays, i);                                                            \
        }                                                                                          \
    }

DEFINE_SUM(sum_u8, uint8_t, uint8_t, SAME, SAME)
DEFINE_SUM(sum_u32, uint32_t, uint32_t, SAME, SAME)
DEFINE_SUM(sum_u64, uint64_t, uint64_t, SAME, SAME)
DEFINE_SUM(sum_f16, uint16_t, float, widen_f16, narrow_f16)
DEFINE_SUM(sum_bf16, uint16_t, float, kvs_bf16_to_f32, kvs_f32_to_bf16)
DEFINE_SUM(sum_f32, float, float, SAME, SAME)
DEFINE_SUM(sum_f64, double, double, SAME, SAME)

/* ---- Conversions -------------------------------------------------------------------------------- */

KERNEL(cast, cuda_cast_args_t)
{
    int64_t begin = (int64_t)block_index() * CUDA_CHUNK;
    int64_t end = chunk_end(begin, CUDA_CHUNK, args->n);

    for (int64_t i = begin + thread_index(); i < end; i += CUDA_BLOCK) {
        convert_one(args->src_dtype, args->src, args->dst_dtype, args->dst, i);
    }
}

/* ---- Values that are not finite ----------------------------------------------------------------- */

KERNEL(finite, cuda_finite_args_t)
{
    int64_t begin = (int64_t)block_index() * CUDA_CHUNK;
    int64_t end = chunk_end(begin, CUDA_CHUNK, args->n);

    for (int64_t i = begin + thread_index(); i < end; i += CUDA_BLOCK) {
        int bad;

        if (args->dtype == KVS_DTYPE_float64) {
            double value = ((const double *)args->src)[i];

            bad = !(value - value == 0);
        } else {
            float value = load_f32(args->dtype, args->src, i);

            value = args->add != 0 ? args->add[i] + value : value;
            bad = !(value - value == 0);
        }
        if (bad) {
            *args->flag = 1; /* whoever else writes, writes the same */
        }
    }
}
