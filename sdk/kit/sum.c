/* SPDX-License-Identifier: Apache-2.0 */
/* sum.c - chooses the way for a sum: as bytes if nothing is added, past the caches or not, and in
 * which order the destinations stand for the kernel. */
#include "sum.h"
#include "fpenv.h"

#include <kvstore/kit.h>

#include <string.h>
#include <unistd.h>

#define MAX_DST          16   /* destinations written in one pass */
#define STREAM_MIN_BYTES 4096 /* below, aligning costs more than streaming gains */
#define COPY_BLOCK_BYTES 8192 /* copied to every destination while it is in the first cache */
#define CACHE_MIN_BYTES  (16L << 20)
#define CACHE_MAX_BYTES  (32L << 20)

/* The last cache as the system tells its size, within what is usual: processors share it, and virtual
 * ones may tell nothing, or that of the whole machine. Asked once; asking twice gives the same. */
static uint64_t cache_bytes(void)
{
    static _Atomic uint64_t known;
    uint64_t bytes = known;

    if (bytes == 0) {
        long told = sysconf(_SC_LEVEL3_CACHE_SIZE);

        bytes = (uint64_t)(told < CACHE_MIN_BYTES   ? CACHE_MIN_BYTES
                           : told > CACHE_MAX_BYTES ? CACHE_MAX_BYTES
                                                    : told);
        known = bytes;
    }
    return bytes;
}

int kvs_exceeds_cache(uint64_t n_bytes)
{
    return n_bytes > cache_bytes();
}

/* Streamed stores are weakly ordered: make them visible before anything that follows. */
static void fence_streamed(void)
{
#if defined(__SSE__)
    _mm_sfence();
#endif
}

static int is_source(const void *data, const void *const *src, size_t n_src)
{
    for (size_t i = 0; i < n_src; i++) {
        if (src[i] == data) {
            return 1;
        }
    }
    return 0;
}

/* Copy `dst` to `ret_dst`, in front those that can be streamed: no sources, and all of the same
 * alignment. Returns their number. */
static size_t streamed_first(const void *const *src, size_t n_src, void *const *dst, size_t n_dst,
                             void **ret_dst)
{
    size_t n_stream = 0, n_plain = 0;

    for (size_t i = 0; i < n_dst; i++) {
        int fits =
            !is_source(dst[i], src, n_src) &&
            (n_stream == 0 || ((uintptr_t)dst[i] - (uintptr_t)ret_dst[0]) % KVS_STREAM_ALIGN == 0);

        if (fits) {
            ret_dst[n_stream++] = dst[i];
        } else {
            ret_dst[n_dst - ++n_plain] = dst[i];
        }
    }
    return n_stream;
}

static void sum_streamed(kvs_sum_kernel_t *kernel, size_t elem_bytes, int64_t begin, int64_t end,
                         const void *const *src, size_t n_src, void *const *dst, size_t n_dst)
{
    void *ordered[MAX_DST];
    size_t n_stream = streamed_first(src, n_src, dst, n_dst, ordered);
    int64_t aligned = begin;

    if (n_stream > 0) {
        uintptr_t address = (uintptr_t)ordered[0] + (uintptr_t)begin * elem_bytes;

        aligned += (int64_t)(-address % KVS_STREAM_ALIGN / elem_bytes);
        kernel(begin, aligned, src, n_src, begin, ordered, n_dst, 0);
    }
    kernel(aligned, end, src, n_src, aligned, ordered, n_dst, n_stream);
    fence_streamed();
}

static void copy_bytes(int64_t begin, int64_t end, const char *src, void *const *dst, size_t n_dst)
{
    int64_t block = n_dst == 1 ? end - begin : COPY_BLOCK_BYTES;

    for (int64_t at = begin; at < end; at += block) {
        int64_t n = end - at < block ? end - at : block;

        for (size_t i = 0; i < n_dst; i++) {
            if (dst[i] != src) {
                memcpy((char *)dst[i] + at, src + at, (size_t)n);
            }
        }
    }
}

void kvs_sum_range_by(const kvs_kernels_t *kernels, int dtype, int64_t begin, int64_t end,
                      const void *const *src, size_t n_src, void *const *dst, size_t n_dst,
                      int stream)
{
    int64_t elem_bytes = (int64_t)kvs_dtype_bytes(dtype);
    size_t n_now = n_dst < MAX_DST ? n_dst : MAX_DST;
    int streaming = stream && (end - begin) * elem_bytes >= STREAM_MIN_BYTES;

    if (begin >= end || n_dst == 0) {
        return;
    }
    if (n_src == 1) {
        dtype = KVS_DTYPE_uint8;
        begin *= elem_bytes;
        end *= elem_bytes;
        elem_bytes = 1;
    }
    if (streaming) {
        sum_streamed(kernels->sum[dtype], (size_t)elem_bytes, begin, end, src, n_src, dst, n_now);
    } else if (n_src == 1) {
        copy_bytes(begin, end, src[0], dst, n_now);
    } else {
        kernels->sum[dtype](begin, end, src, n_src, begin, dst, n_now, 0);
    }
    if (n_dst > n_now) {
        kvs_sum_range_by(kernels, dtype, begin, end, (const void *const *)dst, 1, dst + n_now,
                         n_dst - n_now, stream);
    }
}

void kvs_sum_range(int dtype, int64_t begin, int64_t end, const void *const *src, size_t n_src,
                   void *const *dst, size_t n_dst, int stream)
{
    unsigned saved = kvs_fpenv_enter();

    kvs_sum_range_by(kvs_kernels(), dtype, begin, end, src, n_src, dst, n_dst, stream);
    kvs_fpenv_leave(saved);
}

void kvs_sum_block(int dtype, int64_t begin, int64_t end, const void *const *src, size_t n_src,
                   void *block)
{
    unsigned saved = kvs_fpenv_enter();

    kvs_kernels()->sum[dtype](begin, end, src, n_src, 0, &block, 1, 0);
    kvs_fpenv_leave(saved);
}

void kvs_sum(int dtype, int64_t n, const void *const *src, size_t n_src, void *const *dst,
             size_t n_dst, int stream)
{
    kvs_sum_range(dtype, 0, n, src, n_src, dst, n_dst, stream);
}
