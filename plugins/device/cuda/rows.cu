/* SPDX-License-Identifier: Apache-2.0 */
/* rows.cu - rows of arrays by their ids: sums of what several row-sparse values say of a row, written side
 * by side or to their places, rows copied from their places, and lists of ids in order.
 *
 * The sources of a row are added in the order of the list, half types in float32 with one rounding, so that
 * the bits are the host's. Flags are set by whoever gets there, all to the same. */
#include "convert_code.h"
#include "row_code.h"

/* ---- Unions ----------------------------------------------------------------------------------------- */

#define SAME(x) (x)

/* Elements [i, i + count) of a row, `vector` being as many. */
#define DEFINE_UNION_AT(name, vector, count, elem, total_type, widen, narrow)                      \
    DEVICE void name(const void *const *sources, int64_t n, uint32_t add, elem *dst, int64_t i)    \
    {                                                                                              \
        vector *to = (vector *)(void *)(dst + i);                                                  \
        vector v = {{0}};                                                                          \
                                                                                                   \
        if (n > 0) {                                                                               \
            v = *(const vector *)(const void *)((const elem *)sources[0] + i);                     \
        }                                                                                          \
        if (n > 1) {                                                                               \
            total_type total[count];                                                               \
                                                                                                   \
            UNROLL for (uint32_t k = 0; k < (count); k++)                                          \
            {                                                                                      \
                total[k] = widen(v.e[k]);                                                          \
            }                                                                                      \
            for (int64_t j = 1; j < n; j++) {                                                      \
                vector term = *(const vector *)(const void *)((const elem *)sources[j] + i);       \
                                                                                                   \
                UNROLL for (uint32_t k = 0; k < (count); k++)                                      \
                {                                                                                  \
                    total[k] = (total_type)(total[k] + widen(term.e[k]));                          \
                }                                                                                  \
            }                                                                                      \
            UNROLL for (uint32_t k = 0; k < (count); k++)                                          \
            {                                                                                      \
                v.e[k] = (elem)narrow(total[k]);                                                   \
            }                                                                                      \
        }                                                                                          \
        if (add) {                                                                                 \
            vector old = *to;                                                                      \
                                                                                                   \
            UNROLL for (uint32_t k = 0; k < (count); k++)                                          \
            {                                                                                      \
                v.e[k] = (elem)narrow((total_type)(widen(old.e[k]) + widen(v.e[k])));              \
            }                                                                                      \
        }                                                                                          \
        *to = v;                                                                                   \
    }

#define DEFINE_UNION(name, elem, total_type, widen, narrow)                                        \
    DEFINE_VECTOR(name, elem);                                                                     \
    typedef struct name##_scalar {                                                                 \
        elem e[1];                                                                                 \
    } name##_scalar;                                                                               \
    DEFINE_UNION_AT(name##_one, name##_scalar, 1, elem, total_type, widen, narrow)                 \
    DEFINE_UNION_AT(name##_few, name##_vector, VECTOR_BYTES / sizeof(elem), elem, total_type,      \
                    widen, narrow)                                                                 \
    KERNEL(name, cuda_rows_args_t)                                                                 \
    {                                                                                              \
        const int64_t few = (int64_t)(VECTOR_BYTES / sizeof(elem));                                \
        const void *const *sources = args->sources;                                                \
        const void *single;                                                                        \
        row_span_t span;                                                                           \
        int64_t n = args->packed != 0;                                                             \
                                                                                                   \
        if (!span_of_thread(&args->map, args->sums == 0, &span)) {                                 \
            return;                                                                                \
        }                                                                                          \
        if (args->first != 0) {                                                                    \
            sources += args->first[span.row];                                                      \
            n = args->first[span.row + 1] - args->first[span.row];                                 \
        } else {                                                                                   \
            single = shifted(args->packed, span.row * args->map.row_elems, sizeof(elem));          \
            sources = &single;                                                                     \
        }                                                                                          \
        elem *dst = args->sums != 0 ? (elem *)args->sums + span.row * args->map.row_elems          \
                                    : (elem *)shifted(args->range, span.at, sizeof(elem));         \
        uintptr_t bits = (uintptr_t)dst;                                                           \
        int64_t whole = span.from;                                                                 \
                                                                                                   \
        for (int64_t j = 0; j < n; j++) {                                                          \
            bits |= (uintptr_t)sources[j];                                                         \
        }                                                                                          \
        if ((bits | (uintptr_t)span.from * sizeof(elem)) % VECTOR_BYTES == 0) {                    \
            whole += span.to > span.from ? (span.to - span.from) / few * few : 0;                  \
            for (int64_t i = span.from + span.lane * few; i < whole; i += args->map.lanes * few) { \
                name##_few(sources, n, args->add, dst, i);                                         \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = whole + span.lane; i < span.to; i += args->map.lanes) {                   \
            name##_one(sources, n, args->add, dst, i);                                             \
        }                                                                                          \
    }

DEFINE_UNION(union_u8, uint8_t, uint8_t, SAME, SAME)
DEFINE_UNION(union_u32, uint32_t, uint32_t, SAME, SAME)
DEFINE_UNION(union_u64, uint64_t, uint64_t, SAME, SAME)
DEFINE_UNION(union_f16, uint16_t, float, widen_f16, narrow_f16)
DEFINE_UNION(union_bf16, uint16_t, float, kvs_bf16_to_f32, kvs_f32_to_bf16)
DEFINE_UNION(union_f32, float, float, SAME, SAME)
DEFINE_UNION(union_f64, double, double, SAME, SAME)

/* ---- Rows from their places --------------------------------------------------------------------------- */

DEVICE void *gathered_row(const cuda_gather_args_t *args, const row_span_t *span, uint32_t j,
                          uint32_t elem_bytes)
{
    return shifted(args->dst[j], span->row * args->map.row_elems, elem_bytes);
}

/* The span in units of `type`. */
#define DEFINE_GATHER(name, type)                                                                  \
    DEVICE void name(const cuda_gather_args_t *args, const row_span_t *span, const void *src)      \
    {                                                                                              \
        int64_t from = span->from * args->elem_bytes / (int64_t)sizeof(type);                      \
        int64_t to = span->to * args->elem_bytes / (int64_t)sizeof(type);                          \
                                                                                                   \
        for (int64_t i = from + span->lane; i < to; i += args->map.lanes) {                        \
            type value = ((const type *)src)[i];                                                   \
                                                                                                   \
            for (uint32_t j = 0; j < args->n_dst; j++) {                                           \
                ((type *)gathered_row(args, span, j, args->elem_bytes))[i] = value;                \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_VECTOR(gather, uint64_t);
DEFINE_GATHER(gather_8, uint8_t)
DEFINE_GATHER(gather_16, uint16_t)
DEFINE_GATHER(gather_32, uint32_t)
DEFINE_GATHER(gather_64, uint64_t)
DEFINE_GATHER(gather_128, gather_vector)

/* The largest unit that source and destinations are made of. */
DEVICE uint32_t gather_unit(const cuda_gather_args_t *args, const row_span_t *span, const void *src)
{
    uintptr_t bits = (uintptr_t)src;

    for (uint32_t j = 0; j < args->n_dst; j++) {
        bits |= (uintptr_t)gathered_row(args, span, j, args->elem_bytes);
    }
    bits |= (uintptr_t)span->from * args->elem_bytes | (uintptr_t)span->to * args->elem_bytes;
    return bits % VECTOR_BYTES == 0 ? VECTOR_BYTES : args->elem_bytes;
}

DEVICE void gather_converted(const cuda_gather_args_t *args, const row_span_t *span,
                             const void *src)
{
    uint32_t elem_bytes = args->dst_dtype == KVS_DTYPE_float64   ? 8
                          : args->dst_dtype == KVS_DTYPE_float32 ? 4
                                                                 : 2;

    for (int64_t i = span->from + span->lane; i < span->to; i += args->map.lanes) {
        for (uint32_t j = 0; j < args->n_dst; j++) {
            convert_one(args->src_dtype, src, args->dst_dtype,
                        gathered_row(args, span, j, elem_bytes), i);
        }
    }
}

KERNEL(gather, cuda_gather_args_t)
{
    row_span_t span;

    if (!span_of_thread(&args->map, 1, &span) || span.from >= span.to) {
        return;
    }
    const void *src = shifted(args->range, span.at, args->elem_bytes);

    if (args->src_dtype != args->dst_dtype) {
        gather_converted(args, &span, src);
        return;
    }
    switch (gather_unit(args, &span, src)) {
    case 1:
        gather_8(args, &span, src);
        break;
    case 2:
        gather_16(args, &span, src);
        break;
    case 4:
        gather_32(args, &span, src);
        break;
    case 8:
        gather_64(args, &span, src);
        break;
    default:
        gather_128(args, &span, src);
    }
}

/* ---- Ids ---------------------------------------------------------------------------------------------- */

DEVICE int64_t load_id(int dtype, const void *ids, int64_t i)
{
    switch (dtype) {
    case KVS_DTYPE_int8:
        return ((const int8_t *)ids)[i];
    case KVS_DTYPE_uint8:
        return ((const uint8_t *)ids)[i];
    case KVS_DTYPE_int32:
        return ((const int32_t *)ids)[i];
    default:
        return ((const int64_t *)ids)[i];
    }
}

KERNEL(mark, cuda_mark_args_t)
{
    int64_t begin = (int64_t)block_index() * CUDA_CHUNK;
    int64_t end = chunk_end(begin, CUDA_CHUNK, args->n);

    for (int64_t i = begin + thread_index(); i < end; i += CUDA_BLOCK) {
        int64_t id = load_id(args->dtype, args->ids, i);

        if (id < 0 || id >= args->n_rows) {
            *args->outside = 1;
        } else {
            args->flags[id] = 1;
        }
    }
}

DEVICE int is_zero(uint32_t elem_bytes, const void *array, int64_t i)
{
    switch (elem_bytes) {
    case 1:
        return ((const uint8_t *)array)[i] == 0;
    case 2:
        return ((const uint16_t *)array)[i] == 0;
    case 4:
        return ((const uint32_t *)array)[i] == 0;
    default:
        return ((const uint64_t *)array)[i] == 0;
    }
}

KERNEL(find, cuda_find_args_t)
{
    int64_t begin = (int64_t)block_index() * CUDA_CHUNK;
    int64_t end = chunk_end(begin, CUDA_CHUNK, args->n);

    for (int64_t i = begin + thread_index(); i < end; i += CUDA_BLOCK) {
        if (!is_zero(args->elem_bytes, args->range, i)) {
            args->flags[(args->begin + i) / args->row_elems] = 1;
        }
    }
}

DEFINE_VECTOR(flags, uint8_t);

/* A thread counts one group. */
KERNEL(count, cuda_count_args_t)
{
    int64_t group = (int64_t)block_index() * CUDA_BLOCK + thread_index();
    int64_t begin = group * CUDA_GROUP, end = chunk_end(begin, CUDA_GROUP, args->n);
    int64_t sum = 0;

    if (begin >= args->n) {
        return;
    }
    if (args->flags == 0) {
        for (int64_t i = begin; i < end; i++) {
            sum += args->counts[i];
        }
    } else if (end - begin < CUDA_GROUP) {
        for (int64_t i = begin; i < end; i++) {
            sum += args->flags[i];
        }
    } else {
        for (uint32_t i = 0; i < CUDA_GROUP / VECTOR_BYTES; i++) {
            flags_vector few = ((const flags_vector *)(const void *)(args->flags + begin))[i];

            UNROLL for (uint32_t k = 0; k < VECTOR_BYTES; k++)
            {
                sum += few.e[k];
            }
        }
    }
    args->sums[group] = sum;
}

/* A thread lists one group, behind all groups before it. */
KERNEL(list, cuda_list_args_t)
{
    int64_t group = (int64_t)block_index() * CUDA_BLOCK + thread_index();
    int64_t begin = group * CUDA_GROUP, end = chunk_end(begin, CUDA_GROUP, args->n_rows);
    int64_t before = 0, place = group;

    if (begin >= args->n_rows) {
        return;
    }
    if (group == 0) {
        *args->n = args->levels[args->n_levels - 1][0];
    }
    if (args->levels[0][group] == 0) {
        return;
    }
    for (uint32_t level = 0; level < args->n_levels; level++) {
        for (int64_t i = place - place % CUDA_GROUP; i < place; i++) {
            before += args->levels[level][i];
        }
        place /= CUDA_GROUP;
    }
    for (int64_t row = begin; row < end; row++) {
        if (args->flags[row] != 0) {
            args->ids[before++] = row;
        }
    }
}
