/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_launch.c - see cuda_launch.h. */
#include "cuda_launch.h"

#include "cuda_memory.h"

#include <stddef.h>
#include <string.h>

/* Written by bin2c from what nvcc made of the .cu files. */
extern const unsigned char cuda_fatbin_sum[], cuda_fatbin_step[], cuda_fatbin_pack[],
    cuda_fatbin_rows[];

static const char *const kernel_names[] = {
#define KERNEL_NAME(name, type) "kvs_" #name,
    CUDA_KERNEL_LIST(KERNEL_NAME)
#undef KERNEL_NAME
};

/* What every driver takes. */
#define KERNEL_FITS(name, type) _Static_assert(sizeof(type) <= 4096, "the argument of " #name);
CUDA_KERNEL_LIST(KERNEL_FITS)
#undef KERNEL_FITS

static CUkernel kernels[CUDA_N_KERNELS]; /* fixed once loaded */

static kvs_status_t load(const void *fatbin)
{
    CUlibrary library;
    CUresult result = cuda(cuLibraryLoadData)(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0);

    if (result != CUDA_SUCCESS) {
        return cuda_fail(result, "cuLibraryLoadData of the plugin's kernels");
    }
    for (int i = 0; i < CUDA_N_KERNELS; i++) {
        CUkernel kernel;

        if (cuda(cuLibraryGetKernel)(&kernel, library, kernel_names[i]) == CUDA_SUCCESS) {
            kernels[i] = kernel; /* others are in another library */
        }
    }
    return KVS_OK;
}

kvs_status_t cuda_launch_load(void)
{
    kvs_status_t status = load(cuda_fatbin_sum);

    status = status == KVS_OK ? load(cuda_fatbin_step) : status;
    status = status == KVS_OK ? load(cuda_fatbin_pack) : status;
    status = status == KVS_OK ? load(cuda_fatbin_rows) : status;
    for (int i = 0; i < CUDA_N_KERNELS && status == KVS_OK; i++) {
        if (kernels[i] == NULL) {
            status = kvs_fail(KVS_ERR_UNAVAILABLE, "the driver finds no kernel %s in the plugin",
                              kernel_names[i]);
        }
    }
    return status;
}

kvs_status_t cuda_launch(cuda_device_t *device, int kernel, int64_t n_blocks, void *args)
{
    void *params[] = {args};
    kvs_status_t status;

    if (n_blocks == 0) {
        return KVS_OK;
    }
    if (n_blocks > INT32_MAX) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "cuda: arrays of more than 2^42 elements");
    }
    status = cuda_enter(device);
    if (status == KVS_OK) {
        CUresult result =
            cuda(cuLaunchKernel)((CUfunction)kernels[kernel], (unsigned)n_blocks, 1, 1, CUDA_BLOCK,
                                 1, 1, 0, device->queue.stream, params, NULL);

        cuda_lane_touch(&device->queue);
        cuda_leave();
        status = cuda_check(device, result, kernel_names[kernel]);
    }
    return status;
}

/* ---- Sums ----------------------------------------------------------------------------------------- */

static int sum_kernel(int dtype, int64_t *ret_elem_bytes)
{
    static const struct {
        int kernel, elem_bytes;
    } table[KVS_N_DTYPES] = {
        [KVS_DTYPE_float32] = {KERNEL_sum_f32, 4}, [KVS_DTYPE_float64] = {KERNEL_sum_f64, 8},
        [KVS_DTYPE_float16] = {KERNEL_sum_f16, 2}, [KVS_DTYPE_bfloat16] = {KERNEL_sum_bf16, 2},
        [KVS_DTYPE_int8] = {KERNEL_sum_u8, 1},     [KVS_DTYPE_uint8] = {KERNEL_sum_u8, 1},
        [KVS_DTYPE_int32] = {KERNEL_sum_u32, 4},   [KVS_DTYPE_int64] = {KERNEL_sum_u64, 8},
    };

    *ret_elem_bytes = table[dtype].elem_bytes;
    return table[dtype].kernel;
}

static kvs_status_t too_many(size_t n, int max)
{
    return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "cuda: %zu arrays in one sum; %d are accepted", n,
                    max);
}

static void copy_pointers(void **to, const void *const *src, size_t n_src, void *const *dst,
                          size_t n_dst)
{
    memcpy(to, src, n_src * sizeof(*to));
    memcpy(to + n_src, dst, n_dst * sizeof(*to));
}

/* As many items as one launch takes; gives how many. */
static size_t fill_sums(cuda_sum_args_t *args, int64_t chunk, const kvs_sum_item_t *items,
                        size_t n_items, int64_t *ret_n_blocks)
{
    size_t n_arrays = 0, i = 0;
    int64_t n_blocks = 0;

    args->n_items = 0;
    for (; i < n_items && args->n_items < CUDA_MAX_ITEMS; i++) {
        const kvs_sum_item_t *item = &items[i];

        if (item->n == 0) {
            continue;
        }
        if (n_arrays + item->n_src + item->n_dst > CUDA_MAX_ARRAYS ||
            n_blocks + cuda_n_chunks(item->n, chunk) > INT32_MAX) {
            break;
        }
        args->items[args->n_items++] = (cuda_sum_item_t){.n = item->n,
                                                         .first_block = (uint32_t)n_blocks,
                                                         .first_array = (uint32_t)n_arrays,
                                                         .n_src = (uint32_t)item->n_src,
                                                         .n_dst = (uint32_t)item->n_dst};
        copy_pointers(args->arrays + n_arrays, item->src, item->n_src, item->dst, item->n_dst);
        n_arrays += item->n_src + item->n_dst;
        n_blocks += cuda_n_chunks(item->n, chunk);
    }
    *ret_n_blocks = n_blocks;
    return i;
}

kvs_status_t cuda_sums(kvs_queue_t *queue, int dtype, const kvs_sum_item_t *items, size_t n_items)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    kvs_status_t status = KVS_OK;
    int64_t elem_bytes, n_blocks;
    int kernel = sum_kernel(dtype, &elem_bytes);
    cuda_sum_args_t args = {0};

    for (size_t i = 0; i < n_items; i++) {
        if (items[i].n_src + items[i].n_dst > CUDA_MAX_ARRAYS) {
            return too_many(items[i].n_src + items[i].n_dst, CUDA_MAX_ARRAYS);
        }
    }
    while (n_items > 0 && status == KVS_OK) {
        size_t n = fill_sums(&args, CUDA_CHUNK_BYTES / elem_bytes, items, n_items, &n_blocks);

        status = cuda_launch(device, kernel, n_blocks, &args);
        items += n;
        n_items -= n;
    }
    return status;
}

/* ---- Conversions ------------------------------------------------------------------------------------ */

kvs_status_t cuda_convert(kvs_queue_t *queue, int64_t n, int src_dtype, const void *src,
                          int dst_dtype, void *dst)
{
    cuda_cast_args_t args = {
        .n = n, .src_dtype = src_dtype, .dst_dtype = dst_dtype, .src = src, .dst = dst};

    if (src_dtype == dst_dtype) {
        return cuda_sums(queue, src_dtype, &(kvs_sum_item_t){n, &src, 1, &dst, 1}, 1);
    }
    return cuda_launch(cuda_device_of_queue(queue), KERNEL_cast, cuda_n_chunks(n, CUDA_CHUNK),
                       &args);
}

kvs_status_t cuda_find_non_finite(kvs_queue_t *queue, int dtype, int64_t n, const void *src,
                                  const float *add, uint32_t *flag)
{
    cuda_finite_args_t args = {.n = n, .dtype = dtype, .src = src, .add = add, .flag = flag};

    return cuda_launch(cuda_device_of_queue(queue), KERNEL_finite, cuda_n_chunks(n, CUDA_CHUNK),
                       &args);
}

/* ---- Optimizers ------------------------------------------------------------------------------------- */

#define PREFIX "kvstore/"

/* The rule of an optimizer's arithmetic with these states, or -1. */
static int rule_of(const kvs_step_item_t *item)
{
    static const struct {
        const char *name;
        uint32_t states, mask;
    } rules[] = {
#define RULE_ROW(rule, name, states, mask) {name, states, mask},
        CUDA_RULE_LIST(RULE_ROW)
#undef RULE_ROW
    };
    const char *name = item->kind->arithmetic;
    uint32_t has = 0;

    if (name == NULL || strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < 3; i++) {
        has |= (item->states[i] != NULL) << i;
    }
    for (int i = 0; i < CUDA_N_RULES; i++) {
        if (strcmp(rules[i].name, name + strlen(PREFIX)) == 0 &&
            rules[i].states == (has & rules[i].mask)) {
            return i;
        }
    }
    return -1;
}

static int step_kernel(int dtype)
{
    switch (dtype) {
    case KVS_DTYPE_float64:
        return KERNEL_step_f64;
    case KVS_DTYPE_float16:
        return KERNEL_step_f16;
    case KVS_DTYPE_bfloat16:
        return KERNEL_step_bf16;
    default:
        return KERNEL_step_f32;
    }
}

static int rows_kernel(int dtype)
{
    switch (dtype) {
    case KVS_DTYPE_float64:
        return KERNEL_rows_f64;
    case KVS_DTYPE_float16:
        return KERNEL_rows_f16;
    case KVS_DTYPE_bfloat16:
        return KERNEL_rows_bf16;
    default:
        return KERNEL_rows_f32;
    }
}

static kvs_status_t check_step(const kvs_step_item_t *item)
{
    if (rule_of(item) < 0) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "cuda: no kernel for optimizer '%s'",
                        item->kind->name);
    }
    return item->n_src + item->n_dst > CUDA_MAX_STEP_ARRAYS
               ? too_many(item->n_src + item->n_dst, CUDA_MAX_STEP_ARRAYS)
               : KVS_OK;
}

static void fill_step(cuda_step_item_t *to, const kvs_step_item_t *item)
{
    *to = (cuda_step_item_t){.n = item->n,
                             .n_src = (uint32_t)item->n_src,
                             .n_dst = (uint32_t)item->n_dst,
                             .rule = rule_of(item),
                             .row_elems = item->row_elems,
                             .weight = item->weight,
                             .master = item->master};
    memcpy(to->states, item->states, sizeof(to->states));
    memcpy(to->scalars, item->scalars, sizeof(to->scalars));
}

kvs_status_t cuda_fill_step(const kvs_step_item_t *item, cuda_step_item_t *ret_item)
{
    kvs_status_t status = check_step(item);

    if (status == KVS_OK) {
        fill_step(ret_item, item);
    }
    return status;
}

static int64_t n_step_blocks(const kvs_step_item_t *item, int by_rows)
{
    return by_rows ? cuda_n_chunks(item->n / item->row_elems, CUDA_BLOCK)
                   : cuda_n_chunks(item->n, CUDA_CHUNK);
}

/* As many items as one launch takes; gives how many. */
static size_t fill_steps(cuda_step_args_t *args, int by_rows, const kvs_step_item_t *items,
                         size_t n_items, int64_t *ret_n_blocks)
{
    size_t n_arrays = 0, i = 0;
    int64_t n_blocks = 0;

    args->n_items = 0;
    for (; i < n_items && args->n_items < CUDA_MAX_STEPS; i++) {
        const kvs_step_item_t *item = &items[i];
        cuda_step_item_t *to = &args->items[args->n_items];

        if (item->n == 0) {
            continue;
        }
        if (args->n_items > 0 && (n_arrays + item->n_src + item->n_dst > CUDA_MAX_STEP_ARRAYS ||
                                  n_blocks + n_step_blocks(item, by_rows) > INT32_MAX)) {
            break;
        }
        fill_step(to, item);
        to->first_block = (uint32_t)n_blocks;
        to->first_array = (uint32_t)n_arrays;
        copy_pointers(args->arrays + n_arrays, item->src, item->n_src, item->dst, item->n_dst);
        args->n_items++;
        n_arrays += item->n_src + item->n_dst;
        n_blocks += n_step_blocks(item, by_rows);
    }
    *ret_n_blocks = n_blocks;
    return i;
}

static kvs_status_t launch_steps(kvs_queue_t *queue, const kvs_step_item_t *items, size_t n_items,
                                 int by_rows)
{
    int kernel = by_rows ? rows_kernel(items[0].dtype) : step_kernel(items[0].dtype);
    kvs_status_t status = KVS_OK;
    cuda_step_args_t args = {0};
    int64_t n_blocks;

    while (n_items > 0 && status == KVS_OK) {
        size_t n = fill_steps(&args, by_rows, items, n_items, &n_blocks);

        status = cuda_launch(cuda_device_of_queue(queue), kernel, n_blocks, &args);
        items += n;
        n_items -= n;
    }
    return status;
}

kvs_status_t cuda_steps(kvs_queue_t *queue, const kvs_step_item_t *items, size_t n_items)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_items && status == KVS_OK; i++) {
        status = check_step(&items[i]);
    }
    if (status == KVS_OK && n_items > 0 && items[0].row_elems > 0) {
        status = launch_steps(queue, items, n_items, 1);
    }
    return status == KVS_OK ? launch_steps(queue, items, n_items, 0) : status;
}

kvs_status_t cuda_step(kvs_queue_t *queue, const kvs_step_item_t *item)
{
    return cuda_steps(queue, item, 1);
}

static int norms_of(const kvs_optimizer_t *kind, uint32_t phase)
{
    static const struct {
        const char *name;
        uint32_t phase;
    } rules[] = {
#define NORMS_ROW(rule, name, phase) {name, phase},
        CUDA_NORMS_LIST(NORMS_ROW)
#undef NORMS_ROW
    };

    for (int i = 0; i < CUDA_N_NORMS && kind->arithmetic != NULL; i++) {
        if (strncmp(kind->arithmetic, PREFIX, strlen(PREFIX)) == 0 && rules[i].phase == phase &&
            strcmp(kind->arithmetic + strlen(PREFIX), rules[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

static int norms_kernel(int dtype)
{
    switch (dtype) {
    case KVS_DTYPE_float64:
        return KERNEL_norms_f64;
    case KVS_DTYPE_float16:
        return KERNEL_norms_f16;
    case KVS_DTYPE_bfloat16:
        return KERNEL_norms_bf16;
    default:
        return KERNEL_norms_f32;
    }
}

kvs_status_t cuda_norms(kvs_queue_t *queue, const kvs_step_item_t *item, uint32_t phase,
                        double *ret_sums)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    kvs_device_t where = {KVS_DEVICE_CUDA, device->id};
    int is_half = item->dtype == KVS_DTYPE_float16 || item->dtype == KVS_DTYPE_bfloat16;
    cuda_norms_args_t args = {.n = item->n,
                              .unit = is_half ? CUDA_HALF_UNIT : KVS_OPTIMIZER_SUM_BLOCK,
                              .rule = norms_of(item->kind, phase),
                              .weight = item->weight,
                              .master = item->master,
                              .states = {item->states[0], item->states[1]}};
    int64_t n_units = cuda_n_chunks(item->n, args.unit),
            units = KVS_OPTIMIZER_SUM_BLOCK / args.unit;
    size_t n_bytes = (size_t)n_units * CUDA_NORM_TERMS * CUDA_NORM_LANES * sizeof(double);

    if (args.rule < 0 || item->kind->n_sums != CUDA_NORM_TERMS) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "cuda: no kernel for the norms of '%s'",
                        item->kind->name);
    }
    if (item->n == 0) {
        return KVS_OK;
    }
    kvs_status_t status = cuda_alloc(where, n_bytes, (void **)&args.lanes);

    if (status != KVS_OK) {
        return status;
    }
    cuda_norms_add_args_t add = {
        .n_units = n_units, .units = units, .lanes = args.lanes, .sums = ret_sums};

    args.grad = item->src[0];
    memcpy(args.scalars, item->scalars, sizeof(args.scalars));
    status = cuda_launch(device, norms_kernel(item->dtype),
                         cuda_n_chunks(n_units * CUDA_NORM_LANES, CUDA_BLOCK), &args);
    if (status == KVS_OK) {
        status = cuda_launch(
            device, KERNEL_norms_add,
            cuda_n_chunks(cuda_n_chunks(n_units, units) * CUDA_NORM_TERMS, CUDA_BLOCK), &add);
    }
    cuda_free(where, args.lanes, n_bytes);
    return status;
}

/* ---- Compression ------------------------------------------------------------------------------------ */

/* 1 or 2; 0: no kernel. */
static int bits_of(const kvs_compressor_t *kind)
{
    return kind->arithmetic == NULL                        ? 0
           : strcmp(kind->arithmetic, "kvstore/1bit") == 0 ? 1
           : strcmp(kind->arithmetic, "kvstore/2bit") == 0 ? 2
                                                           : 0;
}

static kvs_status_t no_packing(const kvs_compressor_t *kind)
{
    return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "cuda: no kernel for compressor '%s'", kind->name);
}

static int64_t n_word_blocks(int bits, int64_t n)
{
    return cuda_n_chunks(cuda_n_chunks(n, 32 / bits), CUDA_BLOCK);
}

kvs_status_t cuda_pack(kvs_queue_t *queue, const kvs_pack_item_t *item)
{
    cuda_pack_args_t args = {.n = item->n,
                             .bits = bits_of(item->kind),
                             .grad = item->grad,
                             .residual = item->residual,
                             .next = item->ret_residual,
                             .packed = item->packed};

    if (item->size > offsetof(kvs_pack_item_t, unless)) {
        args.unless = item->unless;
    }
    if (args.bits == 0) {
        return no_packing(item->kind);
    }
    args.threshold = item->n > 0 ? item->params[0] : 0;
    return cuda_launch(cuda_device_of_queue(queue), KERNEL_pack, n_word_blocks(args.bits, item->n),
                       &args);
}

kvs_status_t cuda_unpack(kvs_queue_t *queue, const kvs_compressor_t *kind, const float *params,
                         int64_t n, const void *const *src, size_t n_src, float *dst)
{
    cuda_unpack_args_t args = {.n = n, .bits = bits_of(kind), .n_src = (uint32_t)n_src, .dst = dst};

    if (args.bits == 0) {
        return no_packing(kind);
    }
    if (n_src > CUDA_MAX_ARRAYS) {
        return too_many(n_src, CUDA_MAX_ARRAYS);
    }
    args.threshold = params[0];
    memcpy(args.packed, src, n_src * sizeof(*src));
    return cuda_launch(cuda_device_of_queue(queue), KERNEL_unpack, n_word_blocks(args.bits, n),
                       &args);
}
