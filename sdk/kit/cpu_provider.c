/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_provider.c - host memory as a device: zeroed buffers, and sums and casts cut over the pool. */
#include "pieces.h"
#include "sum.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN_BYTES      64
#define MAPPED_MIN_BYTES ((size_t)4 << 20) /* from here on a mapping of its own, on huge pages */
#define HUGE_PAGE_BYTES  ((size_t)2 << 20)

static size_t round_up(size_t n_bytes, size_t unit)
{
    return (n_bytes + unit - 1) / unit * unit;
}

/* The kernel promises no alignment beyond a page: map more and give back both ends. */
static void *map_huge(size_t n_bytes)
{
    size_t n_mapped = n_bytes + HUGE_PAGE_BYTES;
    char *mapped = mmap(NULL, n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapped == MAP_FAILED) {
        return NULL;
    }
    size_t n_before = -(uintptr_t)mapped % HUGE_PAGE_BYTES;
    char *data = mapped + n_before;

    /* Failures cost memory or speed, no more. */
    if (n_before > 0) {
        (void)munmap(mapped, n_before);
    }
    if (n_before < HUGE_PAGE_BYTES) {
        (void)munmap(data + n_bytes, HUGE_PAGE_BYTES - n_before);
    }
    (void)madvise(data, n_bytes, MADV_HUGEPAGE);
    return data;
}

static kvs_status_t cpu_alloc(kvs_device_t device, size_t n_bytes, void **ret_data)
{
    void *data = NULL;

    (void)device; /* all ids are the same memory */
    if (n_bytes == 0) {
        *ret_data = NULL;
        return KVS_OK;
    }
    if (n_bytes > PTRDIFF_MAX - HUGE_PAGE_BYTES) {
        data = NULL;
    } else if (n_bytes >= MAPPED_MIN_BYTES) {
        data = map_huge(round_up(n_bytes, 4096));
    } else {
        data = aligned_alloc(ALIGN_BYTES, round_up(n_bytes, ALIGN_BYTES));
        if (data != NULL) {
            memset(data, 0, n_bytes);
        }
    }
    if (data == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no host memory for %zu bytes", n_bytes);
    }
    *ret_data = data;
    return KVS_OK;
}

static void cpu_free(kvs_device_t device, void *data, size_t n_bytes)
{
    (void)device;
    if (data != NULL && n_bytes >= MAPPED_MIN_BYTES) {
        (void)munmap(data, round_up(n_bytes, 4096));
    } else {
        free(data);
    }
}

typedef struct sum_job {
    int dtype, stream;
    const void *const *src;
    size_t n_src;
    void *const *dst;
    size_t n_dst;
} sum_job_t;

static void sum_piece(void *arg, int64_t begin, int64_t end)
{
    const sum_job_t *job = arg;

    kvs_sum_range(job->dtype, begin, end, job->src, job->n_src, job->dst, job->n_dst, job->stream);
}

static kvs_status_t cpu_sum(int dtype, int64_t n, const void *const *src, size_t n_src,
                            void *const *dst, size_t n_dst)
{
    uint64_t n_bytes = (uint64_t)n * kvs_dtype_bytes(dtype) * (n_src + n_dst);
    sum_job_t job = {dtype, kvs_exceeds_cache(n_bytes), src, n_src, dst, n_dst};

    if (n > 0) {
        kvs_for_pieces(n, n_bytes, sum_piece, &job);
    }
    return KVS_OK;
}

typedef struct cast_job {
    int src_dtype, dst_dtype;
    const char *src;
    char *dst;
} cast_job_t;

static void cast_piece(void *arg, int64_t begin, int64_t end)
{
    const cast_job_t *job = arg;

    kvs_cast(end - begin, job->src_dtype,
             job->src + (size_t)begin * kvs_dtype_bytes(job->src_dtype), job->dst_dtype,
             job->dst + (size_t)begin * kvs_dtype_bytes(job->dst_dtype));
}

static kvs_status_t cpu_cast(int64_t n, int src_dtype, const void *src, int dst_dtype, void *dst)
{
    size_t elem_bytes = kvs_dtype_bytes(src_dtype) + kvs_dtype_bytes(dst_dtype);
    cast_job_t job = {src_dtype, dst_dtype, src, dst};

    if (n > 0) {
        kvs_for_pieces(n, (uint64_t)n * elem_bytes, cast_piece, &job);
    }
    return KVS_OK;
}

const kvs_provider_t *kvs_cpu_provider(void)
{
    static const kvs_provider_t provider = {
        .size = sizeof(provider),
        .device_type = KVS_DEVICE_CPU,
        .name = "cpu",
        .alloc = cpu_alloc,
        .free = cpu_free,
        .sum = cpu_sum,
        .cast = cpu_cast,
    };

    return &provider;
}

kvs_status_t kvs_provider_find(int32_t device_type, const kvs_provider_t **ret_provider)
{
    if (device_type == KVS_DEVICE_CPU || device_type == KVS_DEVICE_CUDA_HOST) {
        *ret_provider = kvs_cpu_provider();
        return KVS_OK;
    }
    return kvs_plugin_host->find_provider(device_type, ret_provider);
}
