/* SPDX-License-Identifier: Apache-2.0 */
/* bench_machine.c - what this machine's memory allows, hand-written and measured in the same run:
 * memcpy and triad (a = b + 3c), on one thread and on as many as stores work with; stored through the
 * caches and past them, on ordinary and on huge pages. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define SECONDS       0.15
#define HUGE_PAGE     ((size_t)2 << 20)
#define MAX_THREADS   64
#define THREADED_FROM ((size_t)256 << 10) /* bytes; below, telling the threads takes longer */
#define STREAMED_FROM ((size_t)4 << 20) /* bytes; smaller arrays stay in caches and on few pages */
#define UNIT          16                /* floats that a kernel takes at a time */

/* ---- Kernels: elements [begin, end), both multiples of UNIT --------------------------------------- */

typedef float unit_t __attribute__((vector_size(UNIT * sizeof(float)), aligned(64)));

typedef struct streams {
    float *to;
    const float *a, *b;
} streams_t;

typedef void (*kernel_t)(const streams_t *streams, size_t begin, size_t end);

static void copy(const streams_t *streams, size_t begin, size_t end)
{
    memcpy(streams->to + begin, streams->a + begin, (end - begin) * sizeof(float));
}

static void triad(const streams_t *streams, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i += UNIT) {
        *(unit_t *)(streams->to + i) =
            *(const unit_t *)(streams->a + i) + 3.0f * *(const unit_t *)(streams->b + i);
    }
}

#if defined(__SSE__)
static void copy_nt(const streams_t *streams, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i += 4) {
        _mm_stream_ps(streams->to + i, _mm_load_ps(streams->a + i));
    }
    _mm_sfence();
}

static void triad_nt(const streams_t *streams, size_t begin, size_t end)
{
    const __m128 three = _mm_set1_ps(3.0f);

    for (size_t i = begin; i < end; i += 4) {
        __m128 product = _mm_mul_ps(_mm_load_ps(streams->b + i), three);

        _mm_stream_ps(streams->to + i, _mm_add_ps(_mm_load_ps(streams->a + i), product));
    }
    _mm_sfence();
}
#endif

typedef struct kind {
    const char *name;
    kernel_t kernel;
    int n_streams;
    int is_triad, past_caches;
} kind_t;

static const kind_t kinds[] = {
    {"memcpy", copy, 2, 0, 0},
    {"triad", triad, 3, 1, 0},
#if defined(__SSE__)
    {"copy_nt", copy_nt, 2, 0, 1},
    {"triad_nt", triad_nt, 3, 1, 1},
#endif
};

/* ---- Threads that work at the same time ------------------------------------------------------------ */

/* They spin for work, each on a processor of its own, so that no wake-up is measured. */
typedef struct crew {
    pthread_t threads[MAX_THREADS]; /* from 1 on; the caller is 0 */
    int n_threads;
    cpu_set_t allowed;
    atomic_uint go;           /* release: the job is set; raised for each job */
    atomic_uint n_done;       /* release: a share is done */
    const streams_t *streams; /* the job; NULL: end */
    kernel_t kernel;
    size_t n_elems;
} crew_t;

typedef struct member {
    crew_t *crew;
    int index;
} member_t;

static void run_share(const crew_t *crew, int index)
{
    size_t n_units = crew->n_elems / UNIT, n = (size_t)crew->n_threads, i = (size_t)index;

    crew->kernel(crew->streams, n_units * i / n * UNIT, n_units * (i + 1) / n * UNIT);
}

static void spin(unsigned *n_spins)
{
    if (++*n_spins % 1024 == 0) {
        sched_yield();
    }
#if defined(__SSE__)
    _mm_pause();
#endif
}

/* Keep the calling thread on the index-th of the allowed processors, as far as there are so many. */
static void stay_on(const crew_t *crew, int index)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &crew->allowed) && seen++ == index) {
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof(one), &one); /* else it measures a little less */
        }
    }
}

static void *work(void *arg)
{
    member_t member = *(member_t *)arg;
    crew_t *crew = member.crew;

    free(arg);
    stay_on(crew, member.index);
    for (unsigned job = 1;; job++) {
        unsigned n_spins = 0;

        while (atomic_load_explicit(&crew->go, memory_order_acquire) != job) {
            spin(&n_spins);
        }
        if (crew->streams == NULL) {
            return NULL;
        }
        run_share(crew, member.index);
        atomic_fetch_add_explicit(&crew->n_done, 1, memory_order_release);
    }
}

/* The crew has as many threads as could be started. */
static void crew_start(crew_t *crew, int n_threads)
{
    atomic_init(&crew->go, 0);
    atomic_init(&crew->n_done, 0);
    crew->n_threads = 1;
    (void)sched_getaffinity(0, sizeof(crew->allowed), &crew->allowed);
    while (crew->n_threads < n_threads && crew->n_threads < MAX_THREADS) {
        member_t *member = malloc(sizeof(*member));

        if (member == NULL) {
            break;
        }
        *member = (member_t){crew, crew->n_threads};
        if (pthread_create(&crew->threads[crew->n_threads], NULL, work, member) != 0) {
            free(member);
            break;
        }
        crew->n_threads++;
    }
    if (crew->n_threads > 1) {
        stay_on(crew, 0);
    }
}

static void crew_stop(crew_t *crew)
{
    crew->streams = NULL;
    atomic_fetch_add_explicit(&crew->go, 1, memory_order_release);
    for (int i = 1; i < crew->n_threads; i++) {
        pthread_join(crew->threads[i], NULL);
    }
    (void)sched_setaffinity(0, sizeof(crew->allowed), &crew->allowed);
}

static kvs_status_t run_job(void *arg)
{
    crew_t *crew = arg;
    unsigned n_spins = 0;

    atomic_store_explicit(&crew->n_done, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->go, 1, memory_order_release);
    run_share(crew, 0);
    while (atomic_load_explicit(&crew->n_done, memory_order_acquire) + 1 !=
           (unsigned)crew->n_threads) {
        spin(&n_spins);
    }
    return KVS_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------ */

#define N_ARRAYS 3

static float *take_array(size_t n_bytes, int huge)
{
    size_t align = huge ? HUGE_PAGE : 4096;
    float *data = aligned_alloc(align, (n_bytes + align - 1) / align * align);

    if (data != NULL && huge) {
        (void)madvise(data, n_bytes, MADV_HUGEPAGE); /* without, its rows equal the others */
    }
    for (size_t i = 0; data != NULL && i < n_bytes / sizeof(float); i++) {
        data[i] = 1;
    }
    return data;
}

static void drop_arrays(float *arrays[N_ARRAYS])
{
    for (int i = 0; i < N_ARRAYS; i++) {
        free(arrays[i]);
    }
}

static kvs_status_t take_arrays(size_t n_bytes, int huge, float *ret_arrays[N_ARRAYS])
{
    for (int i = 0; i < N_ARRAYS; i++) {
        ret_arrays[i] = take_array(n_bytes, huge);
    }
    if (ret_arrays[0] == NULL || ret_arrays[1] == NULL || ret_arrays[2] == NULL) {
        drop_arrays(ret_arrays);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for three arrays of %zu bytes", n_bytes);
    }
    return KVS_OK;
}

/* ---- Rows -------------------------------------------------------------------------------------- */

static kvs_status_t measure(bench_t *bench, crew_t *crew, const kind_t *kind, int size_index,
                            int huge)
{
    char workload[32];
    size_t size_bytes = bench_size_bytes(size_index);
    double n_moved = (double)size_bytes * kind->n_streams;
    bench_row_t row = {
        .peer = "machine",
        .workload = workload,
        .size_bytes = size_bytes,
        .n_keys = 1,
        .n_threads = crew->n_threads,
        .n_bytes = n_moved,
    };
    bench_times_t times;
    kvs_status_t status;

    snprintf(workload, sizeof(workload), "%s%s", kind->name, huge ? "_huge" : "");
    crew->kernel = kind->kernel;
    crew->n_elems = size_bytes / sizeof(float);
    status = bench_measure(bench, SECONDS, run_job, crew, &times);
    if (status == KVS_OK && kind->is_triad && n_moved / times.median > bench->triad[size_index]) {
        bench->triad[size_index] = n_moved / times.median;
    }
    if (status == KVS_OK) {
        bench_print_row(bench, &row, &times);
    }
    return status;
}

static kvs_status_t measure_size(bench_t *bench, crew_t *crew, int size_index, int huge)
{
    size_t size_bytes = bench_size_bytes(size_index);
    float *arrays[N_ARRAYS];
    kvs_status_t status = take_arrays(size_bytes, huge, arrays);
    streams_t streams;

    if (status != KVS_OK) {
        return status;
    }
    streams = (streams_t){arrays[0], arrays[1], arrays[2]};
    crew->streams = &streams;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && status == KVS_OK; i++) {
        if (!kinds[i].past_caches || size_bytes >= STREAMED_FROM) {
            status = measure(bench, crew, &kinds[i], size_index, huge);
        }
    }
    drop_arrays(arrays);
    return status;
}

static kvs_status_t measure_with(bench_t *bench, int n_threads)
{
    kvs_status_t status = KVS_OK;
    crew_t crew;

    crew_start(&crew, n_threads);
    for (int i = 0; i < bench_n_sizes(bench) && status == KVS_OK; i++) {
        if (crew.n_threads > 1 && bench_size_bytes(i) < THREADED_FROM) {
            continue;
        }
        status = measure_size(bench, &crew, i, 0);
        if (status == KVS_OK && bench_size_bytes(i) >= STREAMED_FROM) {
            status = measure_size(bench, &crew, i, 1);
        }
    }
    crew_stop(&crew);
    return status;
}

kvs_status_t bench_machine(bench_t *bench)
{
    kvs_status_t status = measure_with(bench, 1);

    return status != KVS_OK || bench->n_threads == 1 ? status
                                                     : measure_with(bench, bench->n_threads);
}
