/* SPDX-License-Identifier: Apache-2.0 */
/* job_states.c - files of optimizer states of a job: the bytes are those that `local` writes for the same
 * numbers, however arrays are cut, and each reads what the other has written. */
#include "job.h"

#include <stdlib.h>
#include <unistd.h>

enum { N_KEYS = 4, N_ELEMS = 300 * 512 };

static const int64_t shapes[N_KEYS][2] = {{7, 1}, {300, 512}, {140001, 1}, {0, 3}};

/* A path that the ranks have in common. */
static const char *path_of(char *path, const char *name)
{
    const char *dir = getenv("TMPDIR"), *id = getenv("KVSTORE_JOB_ID");

    snprintf(path, 512, "%.300s/job-states-%.80s-%s", dir == NULL ? "/tmp" : dir,
             id == NULL ? "alone" : id, name);
    return path;
}

#define PATH(name) path_of((char[512]){0}, (name))

static int same_files(const char *a, const char *b)
{
    FILE *one = fopen(a, "rb"), *other = fopen(b, "rb");
    int x = 0, y = 0;

    while (one != NULL && other != NULL && x == y && x != EOF) {
        x = getc(one);
        y = getc(other);
    }
    if (one != NULL) {
        fclose(one);
    }
    if (other != NULL) {
        fclose(other);
    }
    return one != NULL && other != NULL && x == EOF && y == EOF;
}

/* ---- The same pushes to a job and to a local store --------------------------------------------------------- */

static float number_of(int key, int rank, int push, int64_t i)
{
    return (float)((key * 31 + rank * 17 + push * 7 + i * 3) % 61 - 30) / 32;
}

static void fill(float *data, int key, int rank, int push)
{
    for (int64_t i = 0; i < shapes[key][0] * shapes[key][1]; i++) {
        data[i] = number_of(key, rank, push, i);
    }
}

static kvs_key_t key_of(int key)
{
    static const char *const names[] = {"conv.weight", "fc", "bias", "none"};

    return kvs_key_str(names[key]);
}

static void init_all(kvs_store_t *store)
{
    float *data = malloc(N_ELEMS * sizeof(float));

    for (int k = 0; k < N_KEYS; k++) {
        kvs_tensor_t tensor = kt_tensor(data, KVS_DTYPE_float32, shapes[k], 2);
        kvs_arrays_t values = kvs_arrays(&tensor, 1);
        kvs_key_t key = key_of(k);

        fill(data, k, 0, 99);
        KT_OK(kvs_store_init(store, &key, 1, &values, NULL));
    }
    free(data);
}

/* The job gets this rank's gradients, the local store those of all. */
static void push_all(const job_t *job, kvs_store_t *local, int push)
{
    float *data[8] = {NULL};
    kvs_tensor_t tensors[8];

    for (int w = 0; w < job->n_workers; w++) {
        data[w] = malloc(N_ELEMS * sizeof(float));
    }
    for (int k = 0; k < N_KEYS; k++) {
        kvs_arrays_t own, all = kvs_arrays(tensors, (size_t)job->n_workers);
        kvs_key_t key = key_of(k);

        for (int w = 0; w < job->n_workers; w++) {
            fill(data[w], k, w, push);
            tensors[w] = kt_tensor(data[w], KVS_DTYPE_float32, shapes[k], 2);
        }
        own = kvs_arrays(&tensors[job->rank], 1);
        KT_OK(kvs_store_push(job->store, &key, 1, &own, NULL));
        KT_OK(kvs_store_push(local, &key, 1, &all, NULL));
    }
    for (int w = 0; w < job->n_workers; w++) {
        free(data[w]);
    }
}

static void want_same_weights(const job_t *job, kvs_store_t *local)
{
    float *got = malloc(N_ELEMS * sizeof(float)), *want = malloc(N_ELEMS * sizeof(float));

    for (int k = 0; k < N_KEYS; k++) {
        kvs_tensor_t tensors[] = {kt_tensor(got, KVS_DTYPE_float32, shapes[k], 2),
                                  kt_tensor(want, KVS_DTYPE_float32, shapes[k], 2)};
        kvs_arrays_t gots = kvs_arrays(&tensors[0], 1), wants = kvs_arrays(&tensors[1], 1);
        kvs_key_t key = key_of(k);

        KT_OK(kvs_store_pull(job->store, &key, 1, &gots, NULL));
        KT_OK(kvs_store_pull(local, &key, 1, &wants, NULL));
        KT_TRUE(memcmp(got, want, (size_t)(shapes[k][0] * shapes[k][1]) * sizeof(float)) == 0);
    }
    free(got);
    free(want);
}

static kvs_status_t set_optimizer(kvs_store_t *store, const char *name)
{
    return JOB_OPTIMIZER(store, name, JOB_REAL("learning_rate", 0.125),
                         JOB_REAL("rescale_grad", 0.5));
}

typedef struct pair {
    job_t job;
    kvs_store_t *local;
} pair_t;

static pair_t open_pair(const char *optimizer)
{
    const kvs_option_t options[] = {{"bigarray_bound", "1000"}};
    pair_t pair = {job_open(options, 1), NULL};

    KT_OK(kvs_store_create("local", NULL, 0, &pair.local));
    KT_OK(set_optimizer(pair.job.store, optimizer));
    KT_OK(set_optimizer(pair.local, optimizer));
    init_all(pair.job.store);
    init_all(pair.local);
    return pair;
}

static void close_pair(pair_t *pair)
{
    job_meet(&pair->job);
    KT_OK(kvs_store_close(pair->local));
    job_close(&pair->job);
}

/* ---- Scenarios ---------------------------------------------------------------------------------------------- */

static void a_file_of_a_job_is_that_of_local(void)
{
    static const char *const names[] = {"adam", "lamb", "groupadagrad", "nadam"};

    for (int o = 0; o < 4; o++) {
        pair_t pair = open_pair(names[o]);

        push_all(&pair.job, pair.local, 1);
        push_all(&pair.job, pair.local, 2);
        if (pair.job.rank == 0) {
            for (int dump = 0; dump < 2; dump++) {
                KT_OK(kvs_store_save_optimizer_states(pair.job.store, PATH("job"), dump));
                KT_OK(kvs_store_save_optimizer_states(pair.local, PATH("local"), dump));
                KT_TRUE(same_files(PATH("job"), PATH("local")));
            }
            unlink(PATH("job"));
            unlink(PATH("local"));
        }
        close_pair(&pair);
    }
}

static void a_job_goes_on_from_a_file_of_local(void)
{
    static const char *const names[] = {"adam", "lamb", "groupadagrad"};

    for (int o = 0; o < 3; o++) {
        pair_t pair = open_pair(names[o]);

        push_all(&pair.job, pair.local, 1);
        if (pair.job.rank == 0) {
            KT_OK(kvs_store_save_optimizer_states(pair.local, PATH("then"), 1));
        }
        push_all(&pair.job, pair.local, 2);
        job_meet(&pair.job);
        /* both go back, the job on all ranks at once */
        KT_OK(kvs_store_load_optimizer_states(pair.job.store, PATH("then")));
        KT_OK(kvs_store_load_optimizer_states(pair.local, PATH("then")));
        push_all(&pair.job, pair.local, 3);
        push_all(&pair.job, pair.local, 4);
        want_same_weights(&pair.job, pair.local);
        job_meet(&pair.job);
        unlink(PATH("then"));
        close_pair(&pair);
    }
}

/* Of another kind: sgd is in force when adam comes back. */
static void a_load_brings_its_optimizer_to_the_servers(void)
{
    pair_t pair = open_pair("adam");

    push_all(&pair.job, pair.local, 1);
    KT_OK(kvs_store_wait_all(pair.job.store, -1));
    if (pair.job.rank == 0) {
        KT_OK(kvs_store_save_optimizer_states(pair.job.store, PATH("adam"), 1));
    }
    job_meet(&pair.job);
    KT_OK(set_optimizer(pair.job.store, "sgd"));
    KT_OK(set_optimizer(pair.local, "sgd"));
    push_all(&pair.job, pair.local, 2);
    KT_OK(kvs_store_load_optimizer_states(pair.job.store, PATH("adam")));
    KT_OK(kvs_store_load_optimizer_states(pair.local, PATH("adam")));
    push_all(&pair.job, pair.local, 3);
    want_same_weights(&pair.job, pair.local);
    close_pair(&pair);
    unlink(PATH("adam"));
}

static void what_is_wrong_with_a_file_changes_nothing(void)
{
    pair_t pair = open_pair("adam");
    FILE *file;

    push_all(&pair.job, pair.local, 1);
    KT_OK(kvs_store_wait_all(pair.job.store, -1));
    job_meet(&pair.job);
    if (pair.job.rank == 0) {
        KT_FAIL(kvs_store_load_optimizer_states(pair.job.store, PATH("missing")), KVS_ERR_NOT_FOUND,
                "load_optimizer_states: ");
        file = fopen(PATH("foreign"), "wb");
        fputs("this is no file of states", file);
        fclose(file);
        KT_FAIL(kvs_store_load_optimizer_states(pair.job.store, PATH("foreign")), KVS_ERR_FORMAT,
                "foreign");
        KT_FAIL(kvs_store_save_optimizer_states(pair.job.store, "/nonexistent/states", 0),
                KVS_ERR_IO, "save_optimizer_states: ");
        unlink(PATH("foreign"));
    }
    push_all(&pair.job, pair.local, 2);
    want_same_weights(&pair.job, pair.local);
    close_pair(&pair);
}

static void without_an_optimizer_there_is_nothing_to_save(void)
{
    job_t job = job_open(NULL, 0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    KT_FAIL(kvs_store_save_optimizer_states(job.store, PATH("none"), 0), KVS_ERR_STATE,
            "call set_optimizer");
    KT_FAIL(kvs_store_load_optimizer_states(job.store, PATH("none")), KVS_ERR_STATE,
            "call set_optimizer");
    job_close(&job);
}

static void a_load_without_rank_0_ends_at_the_deadline(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN({"timeout", "4"});

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    if (job.rank == 1) {
        KT_OK(kvs_store_save_optimizer_states(job.store, PATH("alone"), 0));
        KT_FAIL(kvs_store_load_optimizer_states(job.store, PATH("alone")), KVS_ERR_TIMEOUT,
                "load_optimizer_states: worker 0 (");
    }
    job_meet(&room);
    KT_OK(kvs_store_load_optimizer_states(job.store, PATH("alone"))); /* together */
    KT_OK(job_push(&job, kvs_key_int(1), VEC(1)));
    job_want(&job, kvs_key_int(1), 1, 0);
    job_meet(&room);
    unlink(PATH("alone"));
    job_close(&job);
    job_close(&room);
}

/* Counts are the servers': three updates before the save, whoever's they were. */
static void an_asynchronous_job_goes_on_with_the_counts_of_the_servers(void)
{
    job_t job = job_open_as("dist_async", NULL, 0);
    kvs_store_t *local = NULL;
    vec_t value = VEC(1, 2), out = VEC(0, 0), want = VEC(0, 0);
    kvs_tensor_t tensors[] = {kt_tensor(value.at, KVS_DTYPE_float32, &value.n, 1),
                              kt_tensor(want.at, KVS_DTYPE_float32, &want.n, 1)};
    kvs_arrays_t values = kvs_arrays(&tensors[0], 1), wants = kvs_arrays(&tensors[1], 1);
    kvs_key_t key = kvs_key_int(1);

    KT_OK(job_init(&job, key, value));
    KT_OK(JOB_OPTIMIZER(job.store, "adam", JOB_REAL("learning_rate", 0.125)));
    KT_OK(job_push(&job, key, value));
    if (job.rank == 1) {
        KT_OK(job_push(&job, key, value));
    }
    KT_OK(kvs_store_wait_all(job.store, -1));
    job_meet(&job);
    if (job.rank == 0) {
        KT_OK(kvs_store_save_optimizer_states(job.store, PATH("async"), 1));
        KT_OK(kvs_store_load_optimizer_states(job.store, PATH("async")));
        KT_OK(job_push(&job, key, value));
        KT_OK(job_pull(&job, key, &out));
        KT_OK(kvs_store_create("local", NULL, 0, &local));
        KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
        KT_OK(JOB_OPTIMIZER(local, "adam", JOB_REAL("learning_rate", 0.125)));
        for (int i = 0; i < 3; i++) {
            KT_OK(kvs_store_push(local, &key, 1, &values, NULL));
        }
        KT_OK(kvs_store_save_optimizer_states(local, PATH("want"), 1));
        KT_TRUE(same_files(PATH("async"), PATH("want")));
        KT_OK(kvs_store_push(local, &key, 1, &values, NULL));
        KT_OK(kvs_store_pull(local, &key, 1, &wants, NULL));
        KT_TRUE(memcmp(out.at, want.at, 2 * sizeof(float)) == 0);
        KT_OK(kvs_store_close(local));
        unlink(PATH("async"));
        unlink(PATH("want"));
    }
    job_meet(&job);
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(a_file_of_a_job_is_that_of_local),
    KT_TEST(a_job_goes_on_from_a_file_of_local),
    KT_TEST(a_load_brings_its_optimizer_to_the_servers),
    KT_TEST(what_is_wrong_with_a_file_changes_nothing),
    KT_TEST(without_an_optimizer_there_is_nothing_to_save),
    KT_TEST(a_load_without_rank_0_ends_at_the_deadline),
    KT_TEST(an_asynchronous_job_goes_on_with_the_counts_of_the_servers),
};

KT_MAIN("job_states", tests)
