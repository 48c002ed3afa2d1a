/* SPDX-License-Identifier: Apache-2.0 */
/* fail_alloc.c - counts down over all threads; what fails, fails once. */
#include "fail_alloc.h"

#include "kt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *data, size_t n_bytes);
void *__real_aligned_alloc(size_t alignment, size_t n_bytes);
void *__real_mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *data, size_t n_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes);
void *__wrap_mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset);
char *__wrap_strdup(const char *text);

static atomic_long n_left = -1; /* allocations until one fails; negative: none does */

static int fails_now(void)
{
    return atomic_load(&n_left) >= 0 && atomic_fetch_sub(&n_left, 1) == 0;
}

void *__wrap_malloc(size_t n_bytes)
{
    return fails_now() ? NULL : __real_malloc(n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes)
{
    return fails_now() ? NULL : __real_calloc(n, n_bytes);
}

void *__wrap_realloc(void *data, size_t n_bytes)
{
    return fails_now() ? NULL : __real_realloc(data, n_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment, n_bytes);
}

void *__wrap_mmap(void *address, size_t n_bytes, int protection, int flags, int fd, off_t offset)
{
    return fails_now() ? MAP_FAILED : __real_mmap(address, n_bytes, protection, flags, fd, offset);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

void kt_fail_alloc(long n)
{
    atomic_store(&n_left, n);
}

long kt_fail_each_alloc(kvs_status_t (*attempt)(void *arg), void (*check)(void *arg), void *arg)
{
    for (long n = 0; n < 100000; n++) {
        kvs_status_t status;
        int met_failure;

        kt_fail_alloc(n);
        status = attempt(arg);
        met_failure = atomic_load(&n_left) < 0;
        kt_fail_alloc(-1);
        if (!met_failure) {
            KT_OK(status);
            return n;
        }
        if (status != KVS_OK && status != KVS_ERR_NO_MEMORY) {
            KT_OK(status); /* shows it */
            return n;
        }
        if (check != NULL) {
            check(arg);
        }
    }
    return -1;
}
