/* SPDX-License-Identifier: Apache-2.0 */
/* job_horovod_devices.c - the engine nccl, on the stand-ins for NCCL and the driver: arrays that are all on
 * devices go through NCCL, others through the host; each worker works out what all make of small integers. */
#include "crew.h"
#include "nccl_double_api.h"
#include "pretend.h"

#include <dlfcn.h>
#include <kvstore/allreduce.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 1003, MAX_ARRAYS = 4 };

static int64_t n_elems = N;

static void *nccl_double(const char *name)
{
    void *library = dlopen(getenv("KVSTORE_NCCL_LIBRARY"), RTLD_NOW);

    return library != NULL ? dlsym(library, name) : NULL;
}

static uint64_t n_collectives(void)
{
    nccl_double_counts_t now;
    nccl_double_read_t read;

    *(void **)&read = nccl_double("nccl_double_read");
    read(&now);
    return now.collectives;
}

static crew_t begin(void)
{
    pretend_open();
    return crew_open(NULL, 0);
}

static int number(int rank, int place, int i)
{
    return (i * 7 + rank * 3 + place * 5) % 4 - 1;
}

static kvs_tensor_t make(int device, int dtype, int rank, int place)
{
    int32_t integers[N];
    float reals[N];

    for (int i = 0; i < N; i++) {
        integers[i] = number(rank, place, i);
        reals[i] = (float)integers[i];
    }
    return pretend_array(device, dtype, &n_elems,
                         dtype == KVS_DTYPE_int32 ? (void *)integers : (void *)reals, 0);
}

static double element(const kvs_tensor_t *tensor, int i)
{
    float reals[N];
    int32_t integers[N];

    if (kvs_dtype_index(tensor->dtype) == KVS_DTYPE_int32) {
        pretend_get(tensor, integers);
        return integers[i];
    }
    pretend_get(tensor, reals);
    return reals[i];
}

static kvs_status_t exchange(const crew_t *crew, int64_t number_of_key, uint32_t reduce,
                             const kvs_tensor_t *values, size_t n_values, const kvs_tensor_t *outs,
                             size_t n_outs)
{
    kvs_key_t key = kvs_key_int(number_of_key);
    kvs_arrays_t in = pretend_list(values, n_values), out = pretend_list(outs, n_outs);
    kvs_call_t call = KVS_CALL_INIT;

    call.reduce = reduce;
    return kvs_store_pushpull(crew->store, &key, 1, &in, &out, &call);
}

/* The sum of all workers' first n arrays, at element i. */
static double sum_of(const crew_t *crew, int n, int i)
{
    double sum = 0;

    for (int r = 0; r < crew->n; r++) {
        for (int place = 0; place < n; place++) {
            sum += number(r, place, i);
        }
    }
    return sum;
}

static void sums_are_over_all_devices(void)
{
    crew_t crew = begin();
    int n = pretend_n_devices();
    kvs_tensor_t values[MAX_ARRAYS], outs[MAX_ARRAYS];
    uint64_t before = n_collectives();

    for (int i = 0; i < n + 1; i++) {
        values[i] = make(i % n, KVS_DTYPE_float32, crew.rank, i);
        outs[i] = make((i + 1) % n, KVS_DTYPE_float32, 0, 3);
    }
    for (int n_values = 1; n_values <= n + 1;
         n_values++) { /* outs on devices that bring nothing too */
        KT_OK(exchange(&crew, n_values, 0, values, (size_t)n_values, outs, (size_t)n + 1));
        for (int o = 0; o < n + 1; o++) {
            for (int i = 0; i < N; i += 167) {
                KT_REAL(element(&outs[o], i), sum_of(&crew, n_values, i));
            }
        }
    }
    KT_OK(exchange(&crew, 9, 0, values, 1, values, 1)); /* in place */
    KT_REAL(element(&values[0], 5), sum_of(&crew, 1, 5));
    KT_INT(n_collectives() - before, n + 2);
    for (int i = 0; i < n + 1; i++) {
        pretend_free(&values[i], 0);
        pretend_free(&outs[i], 0);
    }
    crew_close(&crew);
}

static void other_reductions_and_broadcasts(void)
{
    crew_t crew = begin();
    kvs_key_t key = kvs_key_int(2);
    kvs_tensor_t whole = make(0, KVS_DTYPE_int32, crew.rank, 0),
                 least = make(0, KVS_DTYPE_int32, 0, 3);
    kvs_tensor_t real = make(0, KVS_DTYPE_float32, crew.rank, 0),
                 out = make(0, KVS_DTYPE_float32, 0, 3);
    kvs_arrays_t in = pretend_list(&real, 1), to = pretend_list(&out, 1);
    uint64_t before = n_collectives();

    KT_OK(exchange(&crew, 1, KVS_REDUCE_MIN, &whole, 1, &least, 1));
    KT_OK(kvs_store_broadcast(crew.store, &key, 1, &in, &to, NULL));
    KT_INT(n_collectives() - before, 2);
    for (int i = 0; i < N; i += 101) {
        int want = number(0, 0, i);

        KT_REAL(element(&out, i), want);
        for (int r = 1; r < crew.n; r++) {
            want = number(r, 0, i) < want ? number(r, 0, i) : want;
        }
        KT_REAL(element(&least, i), want);
    }
    KT_OK(exchange(&crew, 3, KVS_REDUCE_AVERAGE, &real, 1, &out, 1)); /* through the host */
    KT_INT(n_collectives() - before, 2);
    for (int i = 0; i < N; i += 101) {
        KT_REAL(element(&out, i), (float)sum_of(&crew, 1, i) / (float)crew.n);
    }
    pretend_free(&whole, 0);
    pretend_free(&least, 0);
    pretend_free(&real, 0);
    pretend_free(&out, 0);
    crew_close(&crew);
}

/* Keys on devices and on the host, in orders of their own. */
static void keys_may_be_submitted_in_any_order(void)
{
    enum { N_KEYS = 10 };
    crew_t crew = begin();
    kvs_tensor_t values[N_KEYS];
    kvs_event_t *events[N_KEYS];
    kvs_call_t call = KVS_CALL_INIT;

    for (int i = 0; i < N_KEYS; i++) {
        values[i] =
            make(i % 3 == 2 ? -1 : i % pretend_n_devices(), KVS_DTYPE_float32, crew.rank, 0);
    }
    for (int i = 0; i < N_KEYS; i++) {
        int k = (i * 3 + crew.rank * 7) % N_KEYS;
        kvs_key_t key = kvs_key_int(k);
        kvs_arrays_t in = pretend_list(&values[k], 1);

        call.ret_event = &events[i];
        KT_OK(kvs_store_pushpull(crew.store, &key, 1, &in, NULL, &call));
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(crew_finish(events[i]));
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_REAL(element(&values[i], 3), sum_of(&crew, 1, 3));
        pretend_free(&values[i], 0);
    }
    crew_close(&crew);
}

static void arrays_on_devices_and_on_the_host_do_not_meet(void)
{
    crew_t crew = begin();
    kvs_tensor_t value = make(crew.rank == 1 ? -1 : 0, KVS_DTYPE_float32, crew.rank, 0);

    KT_FAIL(exchange(&crew, 7, 0, &value, 1, &value, 1), KVS_ERR_ARGUMENT,
            "pushpull: key 7: the arrays of worker ");
    KT_HAS(kvs_last_error(), "but those of worker 1 (host ");
    KT_HAS(kvs_last_error(), "set engine to shm or mpi");
    crew_works(&crew, kvs_key_int(8));
    pretend_free(&value, 0);
    crew_close(&crew);
}

static void a_killed_worker_is_named(void)
{
    crew_t crew = begin();
    kvs_tensor_t value = make(0, KVS_DTYPE_float32, crew.rank, 0);
    kvs_key_t key = kvs_key_int(1);
    kvs_arrays_t in = pretend_list(&value, 1);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;
    CUstream stream = pretend_stream(0);
    char who[32];

    snprintf(who, sizeof(who), "worker %d (host ", crew.n - 1);
    KT_OK(exchange(&crew, 1, 0, &value, 1, &value, 1));
    if (crew.rank == crew.n - 1) {
        value.stream = (int64_t)(intptr_t)stream;
        driver.hold(stream, 1);
    }
    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(crew.store, &key, 1, &in, NULL, &call));
    crew_meet(&crew);
    if (crew.rank == crew.n - 1) {
        kill(getpid(), SIGKILL);
    }
    KT_FAIL(crew_finish(event), KVS_ERR_PEER, who);
    KT_FAIL(exchange(&crew, 1, 0, &value, 1, &value, 1), KVS_ERR_PEER, who);
    pretend_free(&value, 0);
    (void)kvs_store_close(crew.store);
}

static void an_engine_that_is_not_there_says_what_is_missing(void)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("horovod", NULL, 0, &store), KVS_ERR_UNAVAILABLE,
            "engine nccl: no NCCL: ");
    KT_HAS(kvs_last_error(), "install libnccl2");
}

static const kt_test_t tests[] = {
    KT_TEST(sums_are_over_all_devices),
    KT_TEST(other_reductions_and_broadcasts),
    KT_TEST(keys_may_be_submitted_in_any_order),
    KT_TEST(arrays_on_devices_and_on_the_host_do_not_meet),
    KT_TEST(a_killed_worker_is_named),
    KT_TEST(an_engine_that_is_not_there_says_what_is_missing),
};

KT_MAIN("job_horovod_devices", tests)
