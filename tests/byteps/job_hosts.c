/* SPDX-License-Identifier: Apache-2.0 */
/* job_hosts.c - jobs of several hosts, some with several workers, as hosts.sh makes them; KVS_TEST_HOSTS says
 * how many each has. What is on one host is summed there, in order of rank; then the hosts' sums are. */
#include "sums.h"
#include "threads.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_HOSTS 8

static const kvs_option_t four_seconds = {"timeout", "4"};

typedef struct hosts {
    int n, n_workers[MAX_HOSTS];
} hosts_t;

static hosts_t read_hosts(void)
{
    const char *text = getenv("KVS_TEST_HOSTS");
    hosts_t hosts = {.n = 0};
    char *end;

    for (long n; text != NULL && hosts.n < MAX_HOSTS && (n = strtol(text, &end, 10)) > 0;
         text = end) {
        hosts.n_workers[hosts.n++] = (int)n;
    }
    return hosts;
}

static void want_works(const job_t *job, kvs_key_t key)
{
    vec_t out = VEC(0, 0);

    KT_OK(job_pushpull(job, key, VEC(1, (float)job->rank), &out));
    KT_REAL(out.at[0], job->n_workers);
    KT_REAL(out.at[1], job->n_workers * (job->n_workers - 1) / 2);
}

/* ---- Sums --------------------------------------------------------------------------------------------- */

/* By `local`, over the hosts' sums by `local`. */
static void *sum_by_hosts(kvs_store_t *local, int dtype, int64_t n, int seed)
{
    hosts_t hosts = read_hosts();
    void *sums[MAX_HOSTS] = {NULL}, *result;
    int first = 0;

    for (int h = 0; h < hosts.n; h++) {
        sums[h] = sums_by_local(local, dtype, n, first, hosts.n_workers[h], seed);
        first += hosts.n_workers[h];
    }
    result = sums_add(local, dtype, n, sums, hosts.n);
    for (int h = 0; h < hosts.n; h++) {
        free(sums[h]);
    }
    return result;
}

static void compare_sum(const job_t *job, kvs_store_t *local, int dtype, int64_t n, int seed)
{
    void *want = sum_by_hosts(local, dtype, n, seed);
    void *value = malloc(sums_bytes(dtype, n) + 1);
    kvs_tensor_t tensor = kt_tensor(value, dtype, &n, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(seed);

    for (int round = 0; round < 2; round++) {
        sums_fill(value, dtype, n, job->rank, seed);
        KT_OK(kvs_store_pushpull(job->store, &key, 1, &values, NULL, NULL));
        KT_INT(memcmp(value, want, sums_bytes(dtype, n)), 0);
    }
    free(value);
    free(want);
}

static void sums_of_hosts_are_summed_in_order(void)
{
    static const int64_t sizes[] = {0, 1, 65537, 300001};
    job_t job = job_open_as("byteps", NULL, 0);
    kvs_store_t *local = NULL;
    int seed = 0;

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            compare_sum(&job, local, dtype, sizes[i], ++seed);
        }
    }
    KT_OK(kvs_store_close(local));
    job_close(&job);
}

/* Bytes that this host has sent so far. */
static double sent_bytes(void)
{
    FILE *file = fopen("/sys/class/net/cable/statistics/tx_bytes", "r");
    double n = 0;

    KT_TRUE(file != NULL && fscanf(file, "%lf", &n) == 1);
    if (file != NULL) {
        fclose(file);
    }
    return n;
}

/* The only server is on the last host, and the first has several workers. */
static void a_host_sends_an_array_once(void)
{
    enum { N = 4000000 };
    job_t job = job_open_as("byteps", NULL, 0);
    float *value = calloc(N, sizeof(float));
    kvs_tensor_t tensor = KT_F32(value, N);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);
    double before, sent;

    job_meet(&job);
    before = sent_bytes();
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &values, NULL, NULL));
    sent = sent_bytes() - before;
    if (job.rank == 0) {
        KT_TRUE(sent > 0.95 * sizeof(float) * N);
        KT_TRUE(sent < 1.5 * sizeof(float) * N);
    }
    job_meet(&job);
    free(value);
    job_close(&job);
}

/* ---- Errors. Two hosts with two workers each ------------------------------------------------------------ */

static kvs_status_t pushpull_n(const job_t *job, kvs_key_t key, int64_t n)
{
    float value[8] = {1};
    kvs_tensor_t tensor = kt_tensor(value, KVS_DTYPE_float32, &n, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);

    return kvs_store_pushpull(job->store, &key, 1, &values, NULL, NULL);
}

static void want_mismatch(const job_t *job, kvs_key_t key, int64_t n, const char *one,
                          const char *other)
{
    KT_FAIL(pushpull_n(job, key, n), KVS_ERR_SHAPE, "pushpull: key 'weight': worker ");
    KT_HAS(kvs_last_error(), one);
    KT_HAS(kvs_last_error(), other);
    want_works(job, key);
}

static void arrays_that_differ_within_a_host_are_told_to_all(void)
{
    job_t job = job_open_as("byteps", NULL, 0);

    want_mismatch(&job, kvs_key_str("weight"), job.rank == 1 ? 3 : 2, "(2,)", "(3,)");
    want_mismatch(&job, kvs_key_str("weight"), job.rank == 2 ? 5 : 4, "worker 2 (host ", "(5,)");
    job_close(&job);
}

static void arrays_that_differ_between_hosts_are_told_to_all(void)
{
    job_t job = job_open_as("byteps", NULL, 0);

    want_mismatch(&job, kvs_key_str("weight"), job.rank < 2 ? 2 : 3, "(2,)", "(3,)");
    want_mismatch(&job, kvs_key_str("weight"), job.rank < 2 ? 5 : 4, "(4,)", "(5,)");
    job_close(&job);
}

/* Worker 3 does not come, though its host-mate does. */
static void who_is_missing_of_a_host_is_named(void)
{
    job_t job = job_open_as("byteps", &four_seconds, 1), meeting = job_open_as("byteps", NULL, 0);
    kvs_key_t key = kvs_key_str("extra");

    if (job.rank == 3) {
        job_meet(&meeting);
    }
    KT_FAIL(pushpull_n(&job, key, 2), KVS_ERR_TIMEOUT, "pushpull: key 'extra': worker 3 (host ");
    KT_HAS(kvs_last_error(), ") has not come within 4 s, unlike worker ");
    if (job.rank != 3) {
        job_meet(&meeting);
    }
    job_meet(&meeting);
    want_works(&job, key);
    job_close(&meeting);
    job_close(&job);
}

/* The first host's patience is the shorter one, so it is the server that says who is missing of the other. */
static void a_server_knows_who_has_come_of_a_host(void)
{
    job_t meeting = job_open_as("byteps", NULL, 0);
    job_t job = job_open_as("byteps", &four_seconds, meeting.rank < 2);
    kvs_key_t key = kvs_key_str("extra");

    if (job.rank != 3) {
        KT_FAIL(pushpull_n(&job, key, 2), KVS_ERR_TIMEOUT, "key 'extra': worker 3 (host ");
        KT_HAS(kvs_last_error(), ") has not come within 4 s, unlike worker 0 (host ");
        KT_HAS(kvs_last_error(), ", worker 1 (host ");
        KT_HAS(kvs_last_error(), ", worker 2 (host ");
    }
    job_meet(&meeting);
    job_close(&job);
    job_close(&meeting);
}

/* Nobody of the second host comes in time: one of its workers, and later the other, is told the same. */
static void a_host_that_is_missing_is_named(void)
{
    job_t job = job_open_as("byteps", &four_seconds, 1), meeting = job_open_as("byteps", NULL, 0);
    kvs_key_t key = kvs_key_str("extra");

    for (int turn = 0; turn < 3; turn++) {
        if (turn == (job.rank < 2 ? 0 : job.rank - 1)) {
            KT_FAIL(pushpull_n(&job, key, 2), KVS_ERR_TIMEOUT,
                    "pushpull: key 'extra': worker 2 (host ");
            KT_HAS(kvs_last_error(), ", worker 3 (host ");
            KT_HAS(kvs_last_error(), ") have not come within 4 s, unlike worker 0 (host ");
        }
        job_meet(&meeting);
    }
    want_works(&job, key);
    job_close(&meeting);
    job_close(&job);
}

static void a_worker_that_closes_is_named_on_all_hosts(void)
{
    job_t job = job_open_as("byteps", NULL, 0), meeting = job_open_as("byteps", NULL, 0);

    want_works(&job, kvs_key_int(1));
    if (job.rank != 3) {
        KT_FAIL(pushpull_n(&job, kvs_key_int(1), 2), KVS_ERR_PEER,
                "pushpull: key 1: worker 3 (host ");
    } else {
        job_close(&job);
    }
    job_meet(&meeting);
    if (job.rank != 3) {
        job_close(&job);
    }
    job_close(&meeting);
}

static void path_of(int rank, char *path, size_t n)
{
    snprintf(path, n, "%s/survivor %d", getenv("KVS_TEST_SCRATCH"), rank);
}

static bool are_all_there(void *arg)
{
    int n = *(const int *)arg;
    char path[256];

    for (int rank = 0; rank < n; rank++) {
        path_of(rank, path, sizeof(path));
        if (access(path, F_OK) != 0) {
            return false;
        }
    }
    return true;
}

/* Ranks 0 to n - 1 have come here: by files, as nothing of the job works any more. */
static void wait_for_survivors(const job_t *job, int n)
{
    char path[256];
    FILE *file;

    path_of(job->rank, path, sizeof(path));
    file = fopen(path, "w");
    KT_TRUE(file != NULL);
    if (file != NULL) {
        fclose(file);
    }
    kt_until(are_all_there, &n, "the other survivors");
}

static void a_killed_worker_is_named_on_all_hosts(void)
{
    job_t job = job_open_as("byteps", NULL, 0);

    want_works(&job, kvs_key_int(1));
    job_meet(&job); /* whom it summed for have what it sent */
    if (job.rank == 3) {
        (void)raise(SIGKILL);
    }
    KT_FAIL(pushpull_n(&job, kvs_key_int(1), 2), KVS_ERR_PEER, "worker 3 (host ");
    KT_FAIL(pushpull_n(&job, kvs_key_int(2), 2), KVS_ERR_PEER, "worker 3 (host ");
    wait_for_survivors(&job, 3); /* who leaves first would be named to those who hear of it later */
    (void)kvs_store_close(job.store); /* what it says was told */
}

static const kt_test_t tests[] = {
    KT_TEST(sums_of_hosts_are_summed_in_order),
    KT_TEST(a_host_sends_an_array_once),
    KT_TEST(arrays_that_differ_within_a_host_are_told_to_all),
    KT_TEST(arrays_that_differ_between_hosts_are_told_to_all),
    KT_TEST(who_is_missing_of_a_host_is_named),
    KT_TEST(a_server_knows_who_has_come_of_a_host),
    KT_TEST(a_host_that_is_missing_is_named),
    KT_TEST(a_worker_that_closes_is_named_on_all_hosts),
    KT_TEST(a_killed_worker_is_named_on_all_hosts),
};

KT_MAIN("job_hosts", tests)
