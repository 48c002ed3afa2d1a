/* SPDX-License-Identifier: Apache-2.0 */
/* job_devices.c - jobs whose arrays lie on the pretend devices of tests/doubles: the bits are those of
 * `local` on the host, and streams are followed: one that is held back shows whether somebody waits for it.
 * The type of the stores is KVS_JOB_TYPE; each rank makes the values of all ranks. */
#include "job.h"
#include "pretend.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_VALUES 4

static const char *type_of_job(void)
{
    const char *type = getenv("KVS_JOB_TYPE");

    return type != NULL ? type : "dist_sync";
}

static job_t open_job(void)
{
    return job_open_as(type_of_job(), NULL, 0);
}

/* Whether the store keeps weights, so that init, push and pull are what it has. */
static int keeps_weights(void)
{
    return strncmp(type_of_job(), "dist", 4) == 0 || strcmp(type_of_job(), "nccl") == 0;
}

/* Whether it takes lists of keys and arrays, or one array of one key. */
static int takes_lists(void)
{
    return strcmp(type_of_job(), "byteps") != 0;
}

/* Numbers of one rank and place in its list; the same whoever asks. */
static void fill(int dtype, int64_t n, int rank, int place, char *to)
{
    uint64_t seed = (uint64_t)rank * 131 + (uint64_t)place * 17 + 7;

    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t random = (uint32_t)(seed >> 40);
        float value = ((float)(random % 20011) / 1009.0f - 9.5f) * 1.37f;
        double wide = (double)value * 1.00000013;
        uint32_t bits;
        uint16_t half;

        memcpy(&bits, &value, sizeof(bits));
        switch (dtype) {
        case KVS_DTYPE_float32:
            memcpy(to + i * 4, &value, 4);
            break;
        case KVS_DTYPE_float64:
            memcpy(to + i * 8, &wide, 8);
            break;
        case KVS_DTYPE_bfloat16:
            half = (uint16_t)(bits >> 16);
            memcpy(to + i * 2, &half, 2);
            break;
        case KVS_DTYPE_float16: /* finite */
            half = (uint16_t)(random % 0x4000);
            memcpy(to + i * 2, &half, 2);
            break;
        default:
            memcpy(to + (size_t)i * pretend_elem_bytes(dtype), &seed, pretend_elem_bytes(dtype));
        }
    }
}

static kvs_tensor_t make(int device, int dtype, const int64_t *n, int rank, int place)
{
    char *bytes = calloc((size_t)*n + 1, 8);

    fill(dtype, *n, rank, place, bytes);
    kvs_tensor_t tensor = pretend_array(device, dtype, n, bytes, 0);

    free(bytes);
    return tensor;
}

/* ---- The bits of local ------------------------------------------------------------------------------- */

/* What a job's exchange gives: each rank's values are added up, and then these sums in order of rank. */
static void expect(int n_ranks, int n_values, int dtype, const int64_t *n, void *ret_bytes)
{
    kvs_tensor_t sums[16], values[MAX_VALUES], out = make(-1, dtype, n, 0, 99);
    kvs_store_t *local = NULL;
    kvs_key_t key = kvs_key_int(0);
    kvs_arrays_t list, one = pretend_list(&out, 1);

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    KT_OK(kvs_store_init(local, &key, 1, &one, NULL));
    for (int r = 0; r <= n_ranks; r++) {
        for (int i = 0; r < n_ranks && i < n_values; i++) {
            values[i] = make(-1, dtype, n, r, i);
        }
        list = r < n_ranks ? pretend_list(values, (size_t)n_values)
                           : pretend_list(sums, (size_t)n_ranks);
        KT_OK(kvs_store_pushpull(local, &key, 1, &list, &one, NULL));
        for (int i = 0; r < n_ranks && i < n_values; i++) {
            pretend_free(&values[i], 0);
        }
        if (r < n_ranks) {
            sums[r] = pretend_array(-1, dtype, n, out.data, 0);
        }
    }
    memcpy(ret_bytes, out.data, (size_t)*n * pretend_elem_bytes(dtype));
    for (int r = 0; r < n_ranks; r++) {
        pretend_free(&sums[r], 0);
    }
    pretend_free(&out, 0);
    KT_OK(kvs_store_close(local));
}

/* How many of n arrays do not hold these bytes. */
static int n_different(const kvs_tensor_t *tensors, int n, const void *want)
{
    size_t n_bytes = (size_t)tensors[0].shape[0] * (size_t)(tensors[0].dtype.bits / 8);
    char *got = malloc(n_bytes + 1);
    int n_wrong = 0;

    for (int i = 0; i < n; i++) {
        pretend_get(&tensors[i], got);
        n_wrong += memcmp(got, want, n_bytes) != 0;
    }
    free(got);
    return n_wrong;
}

static void exchange(const job_t *job, kvs_key_t key, const kvs_tensor_t *values, int n_values,
                     const kvs_tensor_t *outs, int n_outs)
{
    kvs_arrays_t in = pretend_list(values, (size_t)n_values),
                 out = pretend_list(outs, (size_t)n_outs);

    KT_OK(kvs_store_pushpull(job->store, &key, 1, &in, &out, NULL));
}

/* Values at `places` (-1: the host), outs on every device and on the host. */
static void try_sums(const job_t *job, int number, int dtype, int64_t n, const int *places,
                     int n_values)
{
    kvs_key_t key = kvs_key_int(number);
    int n_devices = pretend_n_devices(), n_outs = takes_lists() ? n_devices + 1 : 1;
    kvs_tensor_t values[MAX_VALUES], outs[MAX_VALUES];
    kvs_arrays_t first = pretend_list(values, 1);
    char *want = calloc((size_t)n + 1, 8);

    for (int i = 0; i < n_values; i++) {
        int device = places[i] < 0 ? -1 : places[i] % n_devices;

        values[i] = make(device, dtype, &n, job->rank, i);
    }
    for (int i = 0; i < n_outs; i++) {
        outs[i] = make(n_devices - 1 - i, dtype, &n, job->rank, 50 + i);
    }
    if (keeps_weights()) {
        KT_OK(kvs_store_init(job->store, &key, 1, &first, NULL));
    }
    expect(job->n_workers, n_values, dtype, &n, want);
    for (int round = 0; round < 2; round++) {
        exchange(job, key, values, n_values, outs, n_outs);
        KT_INT(n_different(outs, n_outs, want), 0);
    }
    for (int i = 0; i < n_values; i++) {
        pretend_free(&values[i], 0);
    }
    for (int i = 0; i < n_outs; i++) {
        pretend_free(&outs[i], 0);
    }
    free(want);
}

static void sums_have_the_bits_of_the_host(void)
{
    static const int alone[] = {0}, devices[] = {0, 1, 0, 1}, mixed[] = {0, -1, 1, 0},
                     behind[] = {-1, 1};
    job_t job = open_job();
    int number = 1;

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        try_sums(&job, number++, dtype, 1001, alone, 1);
        for (int i = 0; takes_lists() && i < 2; i++) {
            try_sums(&job, number++, dtype, 1001, i == 0 ? devices : mixed, 4);
        }
    }
    try_sums(&job, number++, KVS_DTYPE_float32, 200003, devices, takes_lists() ? 3 : 1);
    try_sums(&job, number++, KVS_DTYPE_float32, 0, devices, takes_lists() ? 2 : 1);
    if (takes_lists()) {
        try_sums(&job, number++, KVS_DTYPE_float16, 200003, behind, 2);
    }
    job_close(&job);
}

/* More than one chunk of a copy, in which there are 4 MiB. */
static void big_arrays_have_the_bits_of_the_host(void)
{
    static const int alone[] = {1}, devices[] = {0, 1};
    job_t job = open_job();
    int number = 1;

    try_sums(&job, number++, KVS_DTYPE_float32, 1048577, alone, 1);
    try_sums(&job, number++, KVS_DTYPE_float64, 1, alone, 1);
    if (takes_lists()) {
        try_sums(&job, number++, KVS_DTYPE_float64, 524289, devices, 2);
    }
    job_close(&job);
}

/* Keys of different sizes in one call, on the devices and on the host. */
static void lists_of_keys_have_the_bits_of_the_host(void)
{
    enum { N = 5 };
    static const int64_t sizes[N] = {3, 1048577, 0, 70001, 1};
    job_t job = open_job();
    kvs_key_t keys[N];
    kvs_tensor_t values[N], outs[N];
    kvs_arrays_t in = pretend_list(values, N), out = pretend_list(outs, N);

    for (int i = 0; i < N; i++) {
        keys[i] = kvs_key_int(i + 1);
        values[i] = make(i == 3 ? -1 : i % 2, KVS_DTYPE_float32, &sizes[i], job.rank, 0);
        outs[i] = make((i + 1) % 2, KVS_DTYPE_float32, &sizes[i], job.rank, 9);
    }
    if (keeps_weights()) {
        KT_OK(kvs_store_init(job.store, keys, N, &in, NULL));
    }
    for (int round = 0; round < 2; round++) {
        KT_OK(kvs_store_pushpull(job.store, keys, N, &in, &out, NULL));
        for (int i = 0; i < N; i++) {
            char *want = calloc((size_t)sizes[i] + 1, sizeof(float));

            expect(job.n_workers, 1, KVS_DTYPE_float32, &sizes[i], want);
            KT_INT(n_different(&outs[i], 1, want), 0);
            free(want);
        }
    }
    for (int i = 0; i < N; i++) {
        pretend_free(&values[i], 0);
        pretend_free(&outs[i], 0);
    }
    job_close(&job);
}

static void pushes_and_pulls_take_devices(void)
{
    int64_t n = 5003;
    job_t job = open_job();
    kvs_key_t keys[] = {kvs_key_int(1), kvs_key_int(2), kvs_key_int(3)};
    kvs_tensor_t values[3], outs[3];
    char *want = calloc((size_t)n, sizeof(float));
    kvs_arrays_t in = pretend_list(values, 3), out = pretend_list(outs, 3);

    for (int i = 0; i < 3; i++) { /* the second key's arrays are on the host */
        values[i] = make(i == 1 ? -1 : 0, KVS_DTYPE_float32, &n, job.rank, 0);
        outs[i] = make(i == 1 ? -1 : pretend_n_devices() - 1, KVS_DTYPE_float32, &n, job.rank, 9);
    }
    KT_OK(kvs_store_init(job.store, keys, 3, &in, NULL));
    KT_OK(kvs_store_pull(job.store, keys, 3, &out, NULL));
    fill(KVS_DTYPE_float32, n, 0, 0, want);
    KT_INT(n_different(outs, 3, want), 0); /* rank 0's value */
    KT_OK(kvs_store_push(job.store, keys, 3, &in, NULL));
    KT_OK(kvs_store_pull(job.store, keys, 3, &out, NULL));
    expect(job.n_workers, 1, KVS_DTYPE_float32, &n, want);
    KT_INT(n_different(outs, 3, want), 0);
    for (int i = 0; i < 3; i++) {
        pretend_free(&values[i], 0);
        pretend_free(&outs[i], 0);
    }
    free(want);
    job_close(&job);
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

enum { N_STREAMED = 70001 };

typedef struct bench {
    job_t job;
    int n;
    CUstream streams[MAX_VALUES];
    kvs_tensor_t values[MAX_VALUES], outs[MAX_VALUES];
    float *numbers, *got;
} bench_t;

static const int64_t n_streamed = N_STREAMED;
static const size_t n_streamed_bytes = N_STREAMED * sizeof(float);

static void set_numbers(bench_t *bench, float value)
{
    for (int i = 0; i < N_STREAMED; i++) {
        bench->numbers[i] = value;
    }
}

/* A value and an out on each device, full of 1000, with a stream each. */
static void set_up(bench_t *bench)
{
    kvs_key_t key = kvs_key_int(5);

    *bench = (bench_t){.job = open_job(), .n = pretend_n_devices()};
    bench->numbers = calloc(N_STREAMED, sizeof(float));
    bench->got = calloc(N_STREAMED, sizeof(float));
    set_numbers(bench, 1000);
    for (int d = 0; d < bench->n; d++) {
        bench->streams[d] = pretend_stream(d);
        bench->values[d] = pretend_array(d, KVS_DTYPE_float32, &n_streamed, bench->numbers, 0);
        bench->outs[d] = pretend_array(d, KVS_DTYPE_float32, &n_streamed, bench->numbers, 0);
        bench->values[d].stream = bench->outs[d].stream = (int64_t)(intptr_t)bench->streams[d];
    }
    if (keeps_weights()) {
        kvs_arrays_t list = pretend_list(bench->values, 1);

        KT_OK(kvs_store_init(bench->job.store, &key, 1, &list, NULL));
    }
}

static void tear_down(bench_t *bench)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_sync(d, bench->streams[d]);
        pretend_free(&bench->values[d], 0);
        pretend_free(&bench->outs[d], 0);
    }
    job_close(&bench->job);
    free(bench->numbers);
    free(bench->got);
}

static void hold_all(const bench_t *bench, int on)
{
    for (int d = 0; d < bench->n; d++) {
        driver.hold(bench->streams[d], on);
    }
}

static void write_values(bench_t *bench)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_write(d, bench->streams[d], &bench->values[d], bench->numbers, n_streamed_bytes);
    }
}

static kvs_event_t *begin(const bench_t *bench)
{
    kvs_key_t key = kvs_key_int(5);
    kvs_arrays_t in = pretend_list(bench->values, (size_t)bench->n);
    kvs_arrays_t out = pretend_list(bench->outs, (size_t)bench->n);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(bench->job.store, &key, 1, &in, &out, &call));
    return event;
}

static void want_outs(bench_t *bench, float want)
{
    for (int d = 0; d < bench->n; d++) {
        int n_wrong = 0;

        pretend_read(d, bench->streams[d], &bench->outs[d], bench->got, n_streamed_bytes);
        pretend_sync(d, bench->streams[d]);
        for (int i = 0; i < N_STREAMED; i++) {
            n_wrong += bench->got[i] != want;
        }
        KT_INT(n_wrong, 0);
    }
}

static void streams_are_followed(void)
{
    bench_t bench;
    float *old = malloc(n_streamed_bytes);

    set_up(&bench);
    float n_all = (float)(bench.n * bench.job.n_workers);

    hold_all(&bench, 1);
    set_numbers(&bench, 3);
    write_values(&bench);
    pretend_read(0, bench.streams[0], &bench.outs[0], old, n_streamed_bytes);
    kvs_event_t *event = begin(&bench); /* returns, though nothing can have been read */

    (void)usleep(20000); /* time for whoever does not wait to read too early */
    hold_all(&bench, 0);
    KT_OK(job_finish(event));
    want_outs(&bench, 3 * n_all);
    KT_REAL(old[0], 1000);
    KT_REAL(old[N_STREAMED - 1], 1000);
    tear_down(&bench);
    free(old);
}

/* Nothing of a value that is still on its way is read. */
static void what_has_not_arrived_is_not_sent(void)
{
    int64_t n = 1048577;
    job_t job = open_job();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t value = make(0, KVS_DTYPE_float32, &n, job.rank, 0),
                 out = make(pretend_n_devices() - 1, KVS_DTYPE_float32, &n, job.rank, 9);
    kvs_arrays_t in = pretend_list(&value, 1), outs = pretend_list(&out, 1);
    char *want = calloc((size_t)n, sizeof(float));
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    if (keeps_weights()) {
        KT_OK(kvs_store_init(job.store, &key, 1, &outs, NULL)); /* other numbers, in that memory */
    }
    driver.downloads(0);
    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &in, &outs, &call));
    (void)usleep(20000);          /* time for whoever does not wait to read too early */
    for (int i = 0; i < 2; i++) { /* a chunk each */
        driver.downloads(1);
        (void)usleep(5000);
    }
    driver.downloads(-1);
    KT_OK(job_finish(event));
    expect(job.n_workers, 1, KVS_DTYPE_float32, &n, want);
    KT_INT(n_different(&out, 1, want), 0);
    free(want);
    pretend_free(&value, 0);
    pretend_free(&out, 0);
    job_close(&job);
}

/* Wait until so many bytes have gone to devices since the last reset; 0: they have not within 20 s. */
static int have_come_back(uint64_t n_bytes)
{
    cuda_double_counts_t counts = {.from_host_bytes = 0};

    for (int i = 0; i < 20000 && counts.from_host_bytes < n_bytes; i++) {
        (void)usleep(1000);
        driver.read_counts(&counts);
    }
    return counts.from_host_bytes >= n_bytes;
}

/* While the last chunk is held back the results of the others are on the device, and another key goes. */
static void what_has_arrived_goes_and_comes_back(void)
{
    enum { CHUNK = 4 << 20 };
    int64_t n = 2 * CHUNK / 4 + 3;
    job_t job = open_job();
    kvs_key_t key = kvs_key_int(1), other = kvs_key_int(2);
    kvs_tensor_t value = make(0, KVS_DTYPE_float32, &n, job.rank, 0),
                 out = make(pretend_n_devices() - 1, KVS_DTYPE_float32, &n, job.rank, 9);
    float on_host[] = {1};
    kvs_tensor_t small = KT_F32(on_host, 1);
    kvs_arrays_t in = pretend_list(&value, 1), outs = pretend_list(&out, 1),
                 list = pretend_list(&small, 1);
    char *want = calloc((size_t)n, sizeof(float));
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    if (keeps_weights()) {
        KT_OK(kvs_store_init(job.store, &key, 1, &outs, NULL));
        KT_OK(kvs_store_init(job.store, &other, 1, &list, NULL));
    }
    for (int round = 0; round < 2; round++) {
        driver.reset_counts();
        driver.downloads(2);
        call.ret_event = &event;
        KT_OK(kvs_store_pushpull(job.store, &key, 1, &in, round == 0 ? &outs : &in, &call));
        KT_TRUE(have_come_back(2 * CHUNK));
        on_host[0] = 1;
        KT_OK(kvs_store_pushpull(job.store, &other, 1, &list, &list, NULL));
        KT_REAL(on_host[0], job.n_workers);
        job_meet(&job); /* so that nobody had the last chunk */
        driver.downloads(-1);
        KT_OK(job_finish(event));
        expect(job.n_workers, 1, KVS_DTYPE_float32, &n, want);
        KT_INT(n_different(round == 0 ? &out : &value, 1, want), 0);
    }
    free(want);
    pretend_free(&value, 0);
    pretend_free(&out, 0);
    job_close(&job);
}

static void values_may_be_written_behind_the_call(void)
{
    bench_t bench;
    float *later = malloc(n_streamed_bytes);

    set_up(&bench);
    float n_all = (float)(bench.n * bench.job.n_workers);

    for (int i = 0; i < N_STREAMED; i++) {
        later[i] = -7;
    }
    kvs_event_t *event = begin(&bench);

    for (int d = 0; d < bench.n; d++) {
        pretend_write(d, bench.streams[d], &bench.values[d], later, n_streamed_bytes);
    }
    KT_OK(job_finish(event));
    want_outs(&bench, 1000 * n_all);
    KT_OK(job_finish(begin(&bench)));
    want_outs(&bench, -7 * n_all);
    tear_down(&bench);
    free(later);
}

/* The stream waits until the value is read; the call needs not. */
static void a_push_returns_before_its_stream_has_come(void)
{
    kvs_key_t key = kvs_key_int(5);
    bench_t bench;
    float *later = calloc(N_STREAMED, sizeof(float));

    set_up(&bench);
    kvs_arrays_t in = pretend_list(bench.values, (size_t)bench.n);
    kvs_arrays_t out = pretend_list(bench.outs, (size_t)bench.n);

    hold_all(&bench, 1);
    set_numbers(&bench, 3);
    write_values(&bench);
    KT_OK(kvs_store_push(bench.job.store, &key, 1, &in, NULL));
    for (int d = 0; d < bench.n; d++) {
        pretend_write(d, bench.streams[d], &bench.values[d], later, n_streamed_bytes);
    }
    hold_all(&bench, 0);
    KT_OK(kvs_store_pull(bench.job.store, &key, 1, &out, NULL));
    want_outs(&bench, 3.0f * (float)(bench.n * bench.job.n_workers));
    tear_down(&bench);
    free(later);
}

static void calls_behind_one_that_waits_keep_their_order(void)
{
    bench_t bench;
    float on_host[] = {1};
    kvs_tensor_t small = KT_F32(on_host, 1);
    kvs_arrays_t list = pretend_list(&small, 1);
    kvs_key_t other = kvs_key_int(6);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *behind = NULL;

    set_up(&bench);
    float n_all = (float)(bench.n * bench.job.n_workers);

    if (keeps_weights()) {
        KT_OK(kvs_store_init(bench.job.store, &other, 1, &list, NULL));
    }
    hold_all(&bench, 1);
    kvs_event_t *first = begin(&bench), *second = begin(&bench);

    call.ret_event = &behind;
    KT_OK(kvs_store_pushpull(bench.job.store, &other, 1, &list, NULL, &call));
    hold_all(&bench, 0);
    KT_OK(job_finish(behind));
    KT_OK(job_finish(second));
    KT_OK(job_finish(first));
    want_outs(&bench, 1000 * n_all);
    KT_REAL(on_host[0], bench.job.n_workers);
    tear_down(&bench);
}

static void without_a_stream_the_call_ends_when_all_is_done(void)
{
    const int64_t streams[] = {0, -1, 2};
    bench_t bench;

    set_up(&bench);
    float n_all = (float)(bench.n * bench.job.n_workers);

    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < bench.n; d++) {
            bench.values[d].stream = bench.outs[d].stream = streams[i];
        }
        KT_OK(job_finish(begin(&bench)));
        want_outs(&bench, 1000 * n_all);
    }
    tear_down(&bench);
}

/* Pinned memory is the host's and managed memory the device's; both have streams. */
static void pinned_and_managed_arrays_are_taken(void)
{
    kvs_key_t key = kvs_key_int(5);
    bench_t bench;
    kvs_tensor_t tensors[2]; /* value and out */

    set_up(&bench);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 2; j++) {
            int is_pinned = (i >> j & 1) == 0;

            tensors[j] = bench.values[0];
            tensors[j].device.type = is_pinned ? KVS_DEVICE_CUDA_HOST : KVS_DEVICE_CUDA_MANAGED;
            tensors[j].data = NULL;
            KT_OK(kvs_device_alloc(tensors[j].device, n_streamed_bytes, &tensors[j].data));
        }
        kvs_arrays_t in = pretend_list(&tensors[0], 1), out = pretend_list(&tensors[1], 1);
        kvs_call_t call = KVS_CALL_INIT;
        kvs_event_t *event = NULL;

        set_numbers(&bench, (float)(i + 2));
        hold_all(&bench, 1);
        pretend_write(0, bench.streams[0], &tensors[0], bench.numbers, n_streamed_bytes);
        call.ret_event = &event;
        KT_OK(kvs_store_pushpull(bench.job.store, &key, 1, &in, &out, &call));
        (void)usleep(5000); /* as above */
        hold_all(&bench, 0);
        KT_OK(job_finish(event));
        pretend_sync(0, bench.streams[0]);
        KT_REAL(((float *)tensors[1].data)[0], (i + 2) * bench.job.n_workers);
        KT_REAL(((float *)tensors[1].data)[N_STREAMED - 1], (i + 2) * bench.job.n_workers);
        pretend_free(&tensors[0], 0);
        pretend_free(&tensors[1], 0);
    }
    tear_down(&bench);
}

/* ---- Compression --------------------------------------------------------------------------------------- */

enum { N_PACKED = 70003 };

static const int64_t n_packed = N_PACKED;

static void compress_by(const job_t *job, const char *type)
{
    kvs_param_t params[] = {{.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = type}},
                            {.name = "threshold", .type = KVS_PARAM_FLOAT, .value = {.real = 4}}};

    KT_OK(kvs_store_set_gradient_compression(job->store, params, 2));
}

static void init_at_zero(const job_t *job, int number)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_tensor_t zeros = pretend_array(-1, KVS_DTYPE_float32, &n_packed, NULL, 0);
    kvs_arrays_t list = pretend_list(&zeros, 1);

    memset(zeros.data, 0, N_PACKED * sizeof(float));
    KT_OK(kvs_store_init(job->store, &key, 1, &list, NULL));
    pretend_free(&zeros, 0);
}

/* Push a round's values, which lie at these places, and give what the key is then. */
static kvs_status_t push_packed(const job_t *job, int number, int round, const int *places,
                                int n_values, int is_finite, float *ret_numbers)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_tensor_t values[MAX_VALUES], out = make(places[0], KVS_DTYPE_float32, &n_packed, 0, 9);
    kvs_arrays_t in = pretend_list(values, (size_t)n_values), outs = pretend_list(&out, 1);
    float *bytes = calloc(N_PACKED, sizeof(float));
    kvs_status_t status;

    for (int i = 0; i < n_values; i++) {
        fill(KVS_DTYPE_float32, n_packed, job->rank, 10 * round + i, (char *)bytes);
        bytes[N_PACKED - 2] = is_finite ? 1 : INFINITY;
        values[i] = pretend_array(places[i], KVS_DTYPE_float32, &n_packed, bytes, 0);
    }
    status = kvs_store_pushpull(job->store, &key, 1, &in, &outs, NULL);
    pretend_get(&out, ret_numbers);
    for (int i = 0; i < n_values; i++) {
        pretend_free(&values[i], 0);
    }
    pretend_free(&out, 0);
    free(bytes);
    return status;
}

/* The same values from devices and from the host, round after round, are the same codes; also where the values
 * of a key come from here and from there. */
static void try_packing(const job_t *job, const char *type, int number)
{
    enum { N_ROUNDS = 6 };
    static const int host[] = {-1, -1};
    static const int places[N_ROUNDS][2] = {{0, 1}, {0, 1}, {-1, -1}, {1, 0}, {1, -1}, {0, 0}};
    static const int n_values[N_ROUNDS] = {2, 1, 2, 2, 2, 1};
    float *got = calloc(2 * N_PACKED, sizeof(float)), *want = got + N_PACKED;
    size_t bits = strcmp(type, "1bit") == 0 ? 1 : 2;
    size_t n_codes = (N_PACKED * bits + 7) / 8, n_bytes = 64 + (n_codes + 3) / 4 * 4;
    cuda_double_counts_t counts;

    compress_by(job, type);
    init_at_zero(job, number);
    init_at_zero(job, number + 1);
    for (int round = 0; round < N_ROUNDS; round++) {
        driver.reset_counts();
        KT_OK(push_packed(job, number, round, places[round], n_values[round], 1, got));
        driver.read_counts(&counts);
        if (round < 2) { /* of one value or of several */
            KT_INT(counts.to_host, 1);
            KT_INT(counts.to_host_bytes, n_bytes);
        }
        KT_OK(push_packed(job, number + 1, round, host, n_values[round], 1, want));
        KT_INT(memcmp(got, want, N_PACKED * sizeof(float)), 0);
        if (round == 3) { /* which leaves everything as it is */
            KT_FAIL(push_packed(job, number, round, places[0], 2, 0, got), KVS_ERR_NON_FINITE,
                    "can't be compressed");
            KT_FAIL(push_packed(job, number + 1, round, host, 2, 0, want), KVS_ERR_NON_FINITE,
                    "can't be compressed");
        }
    }
    free(got);
}

static void codes_of_devices_are_those_of_the_host(void)
{
    job_t job = open_job();

    try_packing(&job, "2bit", 1);
    try_packing(&job, "1bit", 3);
    job_close(&job);
}

static void residuals_of_devices_are_saved_and_loaded(void)
{
    static const int device[] = {0}, host[] = {-1};
    job_t job = open_job();
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    float *got = calloc(2 * N_PACKED, sizeof(float)), *want = got + N_PACKED;
    char path[512];

    const char *folder = getenv("TMPDIR");

    snprintf(path, sizeof(path), "%s/residuals-%d", folder != NULL ? folder : "/tmp",
             (int)getpid());
    spec.name = "sgd";
    KT_OK(kvs_store_set_optimizer(job.store, &spec));
    compress_by(&job, "2bit");
    init_at_zero(&job, 1);
    init_at_zero(&job, 2);
    for (int round = 0; round < 6; round++) {
        if (round == 2) {
            KT_OK(kvs_store_save_optimizer_states(job.store, path, 0));
        }
        if (round == 4) {
            KT_OK(kvs_store_load_optimizer_states(job.store, path));
        }
        KT_OK(push_packed(&job, 1, round, device, 1, 1, got));
        KT_OK(push_packed(&job, 2, round, host, 1, 1, want));
        KT_INT(memcmp(got, want, N_PACKED * sizeof(float)), 0);
    }
    (void)remove(path);
    free(got);
    job_close(&job);
}

/* ---- Wrong use ------------------------------------------------------------------------------------------ */

static void a_device_that_is_not_there_is_named(void)
{
    bench_t bench;
    kvs_key_t key = kvs_key_int(5);

    set_up(&bench);
    kvs_tensor_t wrong = bench.values[0];
    kvs_arrays_t in = pretend_list(&wrong, 1), out = pretend_list(bench.outs, 1);

    wrong.device.id = 7;
    KT_FAIL(kvs_store_pushpull(bench.job.store, &key, 1, &in, &out, NULL), KVS_ERR_ARGUMENT,
            "value 0: ");
    KT_HAS(kvs_last_error(), "cuda(7)");
    driver.capturing(1);
    in = pretend_list(bench.values, 1);
    KT_FAIL(kvs_store_pushpull(bench.job.store, &key, 1, &in, &out, NULL), KVS_ERR_STATE, "captur");
    driver.capturing(0);
    KT_OK(job_finish(begin(&bench)));
    want_outs(&bench, 1000.0f * (float)(bench.n * bench.job.n_workers));
    tear_down(&bench);
}

static void a_lost_device_fails_its_calls_and_no_others(void)
{
    kvs_key_t key = kvs_key_int(5);
    bench_t bench;

    set_up(&bench);
    kvs_arrays_t in = pretend_list(&bench.values[1], 1), out = pretend_list(&bench.outs[1], 1);

    driver.break_device(1);
    KT_FAIL(kvs_store_pushpull(bench.job.store, &key, 1, &in, &out, NULL), KVS_ERR_UNAVAILABLE,
            "device cuda(1) is lost until the process ends");
    in = pretend_list(bench.values, 1);
    out = pretend_list(bench.outs, 1);
    KT_OK(kvs_store_pushpull(bench.job.store, &key, 1, &in, &out, NULL));
    bench.n = 1;
    want_outs(&bench, 1000.0f * (float)bench.job.n_workers);
    tear_down(&bench);
}

/* After its first chunk: what is sent already can't be taken back, so the round fails for all. */
static void a_device_that_is_lost_on_the_way_fails_the_round(void)
{
    int64_t n = 1048577;
    job_t job = open_job();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t values[2], out = make(0, KVS_DTYPE_float32, &n, job.rank, 9);
    kvs_arrays_t list = pretend_list(&values[0], 1), outs = pretend_list(&out, 1);
    kvs_arrays_t lost = pretend_list(&values[job.rank == 1], 1);
    char *want = calloc((size_t)n, sizeof(float));
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    for (int d = 0; d < 2; d++) {
        values[d] = make(d, KVS_DTYPE_float32, &n, job.rank, 0);
    }
    if (keeps_weights()) {
        KT_OK(kvs_store_init(job.store, &key, 1, &list, NULL));
    }
    if (job.rank == 1) {
        driver.downloads(1);
    }
    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &lost, &outs, &call));
    if (job.rank == 1) {
        driver.break_device(1);
        driver.downloads(-1);
    }
    KT_FAIL(job_finish(event), KVS_ERR_UNAVAILABLE, "device cuda(1) is lost");
    KT_HAS(kvs_last_error(), "key 1");
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &list, &outs, NULL));
    expect(job.n_workers, 1, KVS_DTYPE_float32, &n, want);
    KT_INT(n_different(&out, 1, want), 0);
    free(want);
    pretend_free(&values[0], 0);
    pretend_free(&out, 0);
    job_close(&job);
}

/* Half of its value is sent, and the device does not bring the rest: the other only hears that the worker has left. */
static void a_cancelled_worker_waits_for_no_device(void)
{
    enum { CHUNK = 4 << 20 };
    int64_t n = 2 * CHUNK / 4;
    job_t room = open_job(), job = open_job();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t value = make(0, KVS_DTYPE_float32, &n, job.rank, 0),
                 out = make(0, KVS_DTYPE_float32, &n, job.rank, 9);
    kvs_arrays_t in = pretend_list(&value, 1), outs = pretend_list(&out, 1);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;
    kvs_status_t status = KVS_OK;

    driver.reset_counts();
    driver.downloads(job.rank == 0 ? 1 : -1);
    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &in, &outs, &call));
    KT_TRUE(have_come_back(CHUNK));
    job_meet(&room);
    if (job.rank == 0) {
        kvs_store_cancel(job.store);
        KT_INT(job_finish(event), KVS_ERR_CANCELLED);
        driver.downloads(-1);
        status = kvs_store_close(job.store);
        KT_TRUE(status == KVS_OK || status == KVS_ERR_CANCELLED);
    } else {
        status = job_finish(event); /* the rest may come before the other has left */
        KT_TRUE(status == KVS_OK ||
                (status == KVS_ERR_PEER && strstr(kvs_last_error(), "worker 0 (") != NULL));
        job_close(&job);
    }
    pretend_free(&value, 0);
    pretend_free(&out, 0);
    job_close(&room);
}

static void without_the_provider_its_package_is_named(void)
{
    kvs_key_t key = kvs_key_int(1);
    job_t job = open_job();
    float number[] = {4};
    kvs_tensor_t tensor = KT_F32(number, 1);
    kvs_arrays_t list = pretend_list(&tensor, 1);

    if (keeps_weights()) {
        KT_OK(kvs_store_init(job.store, &key, 1, &list, NULL));
    }
    tensor.device.type = KVS_DEVICE_CUDA;
    KT_FAIL(kvs_store_pushpull(job.store, &key, 1, &list, NULL, NULL), KVS_ERR_UNAVAILABLE,
            "kvstore-backend-cuda");
    tensor.device.type = KVS_DEVICE_CPU;
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &list, NULL, NULL));
    KT_REAL(number[0], 4);
    job_close(&job);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(sums_have_the_bits_of_the_host),
        KT_TEST(big_arrays_have_the_bits_of_the_host),
        KT_TEST(lists_of_keys_have_the_bits_of_the_host),
        KT_TEST(pushes_and_pulls_take_devices),
        KT_TEST(streams_are_followed),
        KT_TEST(what_has_not_arrived_is_not_sent),
        KT_TEST(what_has_arrived_goes_and_comes_back),
        KT_TEST(values_may_be_written_behind_the_call),
        KT_TEST(a_push_returns_before_its_stream_has_come),
        KT_TEST(calls_behind_one_that_waits_keep_their_order),
        KT_TEST(without_a_stream_the_call_ends_when_all_is_done),
        KT_TEST(pinned_and_managed_arrays_are_taken),
        KT_TEST(codes_of_devices_are_those_of_the_host),
        KT_TEST(residuals_of_devices_are_saved_and_loaded),
        KT_TEST(a_device_that_is_not_there_is_named),
        KT_TEST(a_lost_device_fails_its_calls_and_no_others),
        KT_TEST(a_device_that_is_lost_on_the_way_fails_the_round),
        KT_TEST(a_cancelled_worker_waits_for_no_device),
        KT_TEST(without_the_provider_its_package_is_named),
    };

    pretend_open();
    return kt_run("job_devices", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
