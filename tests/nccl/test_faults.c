/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong with NCCL: each test is a ctest of its own, with the stand-ins set up for it. The store's
 * time-out is 3 s where it is to pass. */
#include "nccl_double_api.h"
#include "pretend.h"

#include <dlfcn.h>
#include <stdlib.h>

#define N 100

static int64_t n_elems = N;

static void *nccl_double(const char *name)
{
    void *library = dlopen(getenv("KVSTORE_NCCL_LIBRARY"), RTLD_NOW);

    return library != NULL ? dlsym(library, name) : NULL;
}

static void set_fault(const char *faults)
{
    nccl_double_fault_t fault;

    *(void **)&fault = nccl_double("nccl_double_fault");
    fault(faults);
}

static nccl_double_counts_t counts(void)
{
    nccl_double_counts_t now;
    nccl_double_read_t read;

    *(void **)&read = nccl_double("nccl_double_read");
    read(&now);
    return now;
}

/* A key on devices [first, first + 2), initialised with zeros; pushes are of ones. */
typedef struct job {
    kvs_store_t *store;
    kvs_key_t key;
    kvs_tensor_t ones[2], outs[2];
    kvs_arrays_t values, results;
} job_t;

static void open_key(job_t *job, kvs_store_t *store, int number, int first)
{
    float zeros[N] = {0}, ones[N];
    kvs_tensor_t zero = pretend_array(first, KVS_DTYPE_float32, &n_elems, zeros, 0);
    kvs_arrays_t weight = pretend_list(&zero, 1);

    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    job->store = store;
    job->key = kvs_key_int(number);
    for (int i = 0; i < 2; i++) {
        job->ones[i] = pretend_array(first + i, KVS_DTYPE_float32, &n_elems, ones, 0);
        job->outs[i] = pretend_array(first + i, KVS_DTYPE_float32, &n_elems, zeros, 0);
    }
    job->values = pretend_list(job->ones, 2);
    job->results = pretend_list(job->outs, 2);
    KT_OK(kvs_store_init(store, &job->key, 1, &weight, NULL));
    pretend_free(&zero, 0);
}

static kvs_store_t *open_store(void)
{
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create("nccl", NULL, 0, &store));
    return store;
}

static kvs_status_t pushpull(job_t *job)
{
    return kvs_store_pushpull(job->store, &job->key, 1, &job->values, &job->results, NULL);
}

static void check_result(const job_t *job, float want)
{
    float got[N];

    for (int i = 0; i < 2; i++) {
        pretend_get(&job->outs[i], got);
        KT_REAL(got[0], want);
        KT_REAL(got[N - 1], want);
    }
}

static void close_key(job_t *job)
{
    for (int i = 0; i < 2; i++) {
        pretend_free(&job->ones[i], 0);
        pretend_free(&job->outs[i], 0);
    }
}

/* ---- Not there ----------------------------------------------------------------------------------- */

static void without_nccl_the_package_is_named(void)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("nccl", NULL, 0, &store), KVS_ERR_UNAVAILABLE, "libnccl.so.2");
    KT_FAIL(kvs_store_create("nccl", NULL, 0, &store), KVS_ERR_UNAVAILABLE, "install libnccl2");
}

static void an_nccl_that_does_not_fit_is_refused_with_both_versions(void)
{
    kvs_store_t *store = NULL;
    int is_old = strstr(getenv("KVSTORE_DOUBLE_NCCL_FAULT"), "21703") != NULL;

    KT_FAIL(kvs_store_create("nccl", NULL, 0, &store), KVS_ERR_UNAVAILABLE,
            is_old ? "is NCCL 2.17.3" : "is NCCL 3.0.0");
    KT_HAS(kvs_last_error(), "needs 2.18.0 or a later one of version 2");
}

static void without_a_driver_the_reason_is_told(void)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("nccl", NULL, 0, &store), KVS_ERR_UNAVAILABLE, "no CUDA driver");
}

/* ---- Not taken ----------------------------------------------------------------------------------- */

static void what_it_does_not_take_is_refused_by_name(void)
{
    kvs_store_t *store = open_store();
    float host[N] = {0};
    int64_t ids[1] = {0};
    kvs_tensor_t on_host = KT_F32(host, N);
    kvs_arrays_t hosts = pretend_list(&on_host, 1);
    kvs_key_t other = kvs_key_int(9);
    kvs_param_t type = {.name = "type", .type = KVS_PARAM_TEXT, .value.text = "2bit"};
    kvs_tensor_t row_ids = kt_tensor(ids, KVS_DTYPE_int64, (const int64_t[]){1}, 1);
    kvs_arrays_t rows = pretend_list(&row_ids, 1);
    job_t job;

    open_key(&job, store, 1, 0);
    KT_FAIL(kvs_store_init(store, &other, 1, &hosts, NULL), KVS_ERR_NOT_IMPLEMENTED,
            "key 9: arrays on cpu(0)");
    KT_HAS(kvs_last_error(), "not taken by nccl; installed backends that take them: ");
    KT_HAS(kvs_last_error(), "device,");
    KT_HAS(kvs_last_error(), "local");
    KT_FAIL(kvs_store_push(store, &job.key, 1, &hosts, NULL), KVS_ERR_NOT_IMPLEMENTED,
            "not taken by nccl");
    KT_FAIL(kvs_store_set_gradient_compression(store, &type, 1), KVS_ERR_NOT_IMPLEMENTED, "nccl");
    KT_FAIL(kvs_store_row_sparse_pull(store, &job.key, 1, &job.results, &rows, NULL),
            KVS_ERR_NOT_IMPLEMENTED, "nccl");
    KT_OK(pushpull(&job));
    check_result(&job, 2);
    close_key(&job);
    KT_OK(kvs_store_close(store));
}

/* ---- Going wrong --------------------------------------------------------------------------------- */

static void check_recovery(job_t *job)
{
    KT_OK(pushpull(job));
    check_result(job, 2);
    close_key(job);
    KT_OK(kvs_store_close(job->store));
}

static void a_collective_that_hangs_ends_at_the_deadline(void)
{
    job_t job;

    open_key(&job, open_store(), 1, 0);
    KT_OK(pushpull(&job));
    set_fault("hang=1");
    KT_FAIL(pushpull(&job), KVS_ERR_TIMEOUT, "NCCL over cuda(0), cuda(1): the exchange of key 1");
    KT_HAS(kvs_last_error(), "not done after 3000 ms");
    KT_INT(counts().aborts, 2);
    set_fault("");
    check_recovery(&job);
    KT_INT(counts().inits, 4);
}

static void a_failure_that_nobody_waited_for_is_told_to_the_next_exchange(void)
{
    CUstream streams[2] = {pretend_stream(0), pretend_stream(1)};
    job_t job;

    open_key(&job, open_store(), 1, 0);
    for (int i = 0; i < 2; i++) {
        job.ones[i].stream = (int64_t)(intptr_t)streams[i];
        job.outs[i].stream = (int64_t)(intptr_t)streams[i];
    }
    set_fault("hang=1");
    KT_OK(pushpull(&job));       /* in the order of the streams: returns before it is done */
    pretend_sync(0, streams[0]); /* until the watch has let it go */
    pretend_sync(1, streams[1]);
    set_fault("");
    KT_FAIL(pushpull(&job), KVS_ERR_PLUGIN, "the exchange of key 1 failed");
    KT_OK(pushpull(&job)); /* told once */
    pretend_sync(0, streams[0]);
    pretend_sync(1, streams[1]);
    check_recovery(&job);
}

/* Both hang on their streams; each key is named once, in one error. */
static void all_failures_that_nobody_waited_for_are_told_together(void)
{
    CUstream streams[2] = {pretend_stream(0), pretend_stream(1)};
    job_t first, second;

    open_key(&first, open_store(), 1, 0);
    open_key(&second, first.store, 2, 0);
    for (int i = 0; i < 2; i++) {
        first.ones[i].stream = first.outs[i].stream = (int64_t)(intptr_t)streams[i];
        second.ones[i].stream = second.outs[i].stream = (int64_t)(intptr_t)streams[i];
    }
    set_fault("hang=1");
    KT_OK(pushpull(&first));
    KT_OK(pushpull(&second)); /* behind the one that hangs */
    for (int i = 0; i < 2; i++) {
        pretend_sync(i, streams[i]);
    }
    set_fault("");
    KT_FAIL(pushpull(&first), KVS_ERR_PLUGIN, "exchange of key ");
    KT_HAS(kvs_last_error(), "so did those of key ");
    KT_HAS(kvs_last_error(), "key 1");
    KT_HAS(kvs_last_error(), "key 2");
    KT_OK(pushpull(&first)); /* told once */
    for (int i = 0; i < 2; i++) {
        pretend_sync(i, streams[i]);
    }
    close_key(&second);
    check_recovery(&first);
}

static void an_abort_that_hangs_holds_up_nobody_else(void)
{
    job_t first, second;

    open_key(&first, open_store(), 1, 0);
    open_key(&second, first.store, 2, 2);
    KT_OK(pushpull(&first));
    KT_OK(pushpull(&second));
    set_fault("async=1 stuck_abort");
    KT_FAIL(pushpull(&first), KVS_ERR_PLUGIN, "a link went down");
    KT_OK(pushpull(&second)); /* other devices */
    check_result(&second, 2);
    KT_FAIL(pushpull(&first), KVS_ERR_TIMEOUT, "earlier communicators are still being aborted");
    KT_INT(counts().aborts, 0);
    set_fault("");
    close_key(&second);
    check_recovery(&first);
    KT_INT(counts().aborts, 2);
}

static void an_error_that_shows_later_is_told_with_the_devices(void)
{
    job_t job;

    open_key(&job, open_store(), 1, 0);
    set_fault("async=1");
    KT_FAIL(pushpull(&job), KVS_ERR_PLUGIN, "NCCL over cuda(0), cuda(1)");
    KT_HAS(kvs_last_error(), "a link went down");
    set_fault("");
    check_recovery(&job);
}

static void what_stays_in_progress_ends_at_the_deadline(void)
{
    job_t job;

    open_key(&job, open_store(), 1, 0);
    set_fault("progress=1");
    KT_FAIL(pushpull(&job), KVS_ERR_TIMEOUT, "still in progress after 3000 ms");
    KT_HAS(kvs_last_error(), "key 1");
    set_fault("");
    check_recovery(&job);
}

static void communicators_that_cannot_be_made_are_told(void)
{
    job_t job;

    open_key(&job, open_store(), 1, 0);
    set_fault("init");
    KT_FAIL(pushpull(&job), KVS_ERR_TIMEOUT, "making communicators");
    KT_HAS(kvs_last_error(), "cuda(0), cuda(1)");
    set_fault("");
    check_recovery(&job);
}

static void a_call_that_nccl_refuses_is_told(void)
{
    job_t job;

    open_key(&job, open_store(), 1, 0);
    set_fault("usage=1");
    KT_FAIL(pushpull(&job), KVS_ERR_PLUGIN, "refused, says the double");
    set_fault("");
    check_recovery(&job);
}

/* Key 1 goes over devices 0 and 1, and then key 2 from 0 to 2, which fails: key 1 is still on its way. */
static void what_is_on_its_way_ends_before_what_the_program_does_next(void)
{
    CUstream in[2] = {pretend_stream(0), pretend_stream(1)};
    CUstream out[2] = {pretend_stream(0), pretend_stream(1)};
    float fives[N], got[N];
    kvs_tensor_t values[3], outs[3];
    kvs_key_t keys[2];
    job_t first, second;

    open_key(&first, open_store(), 1, 0);
    open_key(&second, first.store, 2, 0);
    pretend_free(&second.outs[1], 0);
    second.outs[1] = pretend_array(2, KVS_DTYPE_float32, &n_elems, (float[N]){0}, 0);
    for (int i = 0; i < N; i++) {
        fives[i] = 5;
    }
    for (int i = 0; i < 2; i++) {
        values[i] = first.ones[i];
        outs[i] = first.outs[i];
        values[i].stream = (int64_t)(intptr_t)in[i];
        outs[i].stream = (int64_t)(intptr_t)out[i];
        pretend_hold(i, in[i], 1);
    }
    values[2] = second.ones[0];
    outs[2] = second.outs[1];
    values[2].stream = outs[2].stream = 1;
    keys[0] = first.key;
    keys[1] = second.key;
    kvs_arrays_t of_keys = {.tensors = values, .n = 3, .per_key = (size_t[]){2, 1}, .n_per_key = 2};
    kvs_arrays_t results = {.tensors = outs, .n = 3, .per_key = (size_t[]){2, 1}, .n_per_key = 2};

    set_fault("usage=2");
    KT_FAIL(kvs_store_pushpull(first.store, keys, 2, &of_keys, &results, NULL), KVS_ERR_PLUGIN,
            "refused, says the double");
    set_fault("");
    for (int i = 0; i < 2; i++) {
        pretend_write(i, out[i], &outs[i], fives, sizeof(fives));
    }
    pretend_hold(0, in[0], 0);
    pretend_hold(1, in[1], 0);
    for (int i = 0; i < 2; i++) { /* which is a sum of both */
        pretend_sync(i, out[i]);
    }
    KT_OK(kvs_store_push(first.store, &first.key, 1, &first.values, NULL)); /* waits for both */
    for (int i = 0; i < 2; i++) {
        pretend_get(&outs[i], got);
        KT_REAL(got[0], 5);
    }
    close_key(&second);
    check_recovery(&first);
}

static void an_error_on_some_devices_spares_the_others(void)
{
    job_t first, second;

    open_key(&first, open_store(), 1, 0);
    open_key(&second, first.store, 2, 2);
    KT_OK(pushpull(&first));
    KT_OK(pushpull(&second));
    set_fault("async=1");
    KT_FAIL(pushpull(&first), KVS_ERR_PLUGIN, "cuda(0), cuda(1)");
    KT_OK(pushpull(&second));
    check_result(&second, 2);
    KT_INT(counts().aborts, 2);
    set_fault("");
    close_key(&second);
    check_recovery(&first);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(without_nccl_the_package_is_named),
        KT_TEST(an_nccl_that_does_not_fit_is_refused_with_both_versions),
        KT_TEST(without_a_driver_the_reason_is_told),
        KT_TEST(what_it_does_not_take_is_refused_by_name),
        KT_TEST(a_collective_that_hangs_ends_at_the_deadline),
        KT_TEST(a_failure_that_nobody_waited_for_is_told_to_the_next_exchange),
        KT_TEST(all_failures_that_nobody_waited_for_are_told_together),
        KT_TEST(an_abort_that_hangs_holds_up_nobody_else),
        KT_TEST(an_error_that_shows_later_is_told_with_the_devices),
        KT_TEST(what_stays_in_progress_ends_at_the_deadline),
        KT_TEST(communicators_that_cannot_be_made_are_told),
        KT_TEST(a_call_that_nccl_refuses_is_told),
        KT_TEST(an_error_on_some_devices_spares_the_others),
        KT_TEST(what_is_on_its_way_ends_before_what_the_program_does_next),
    };

    if (argc > 1 && strcmp(argv[1], "without_a_driver_the_reason_is_told") != 0) {
        pretend_open();
    }
    return kt_run("nccl.faults", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
