/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays on devices for backends that work in host memory: what such a backend is given and when, how often
 * and how much is copied, and what becomes of the memory. The backend is the test's own: it keeps the
 * operations that it is given until the test ends them. Devices and streams are those of tests/doubles. */
#include "host.h"
#include "pretend.h"

#include <kvstore/kit.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define CHUNK      ((size_t)4 << 20)
#define MAX_OPS    32
#define PATIENCE_S 30

const kvs_host_t *kvs_plugin_host;

/* ---- The backend --------------------------------------------------------------------------------------- */

typedef struct keeper {
    kvs_devhost_t *devices;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kvs_op_t *ops[MAX_OPS]; /* guarded by lock, as what follows */
    int n_ops, n_arrivals;
} keeper_t;

static keeper_t *keeper; /* of the store that was opened last */

static kvs_status_t keep(void *store, kvs_op_t *op)
{
    keeper_t *k = store;

    pthread_mutex_lock(&k->lock);
    k->ops[k->n_ops++] = op;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return KVS_OK;
}

static void arrived(void *store)
{
    keeper_t *k = store;

    pthread_mutex_lock(&k->lock);
    k->n_arrivals++;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* Type `early` takes what has arrived; `whole` and `patient` want all, and `whole` waits 3 s for a device. */
static kvs_status_t keeper_open(void *store, const kvs_open_args_t *args)
{
    int is_early = strcmp(args->type, "early") == 0;

    keeper = store;
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_cond_init(&keeper->changed, NULL);
    return kvs_devhost_new(
        &(kvs_devhost_args_t){.store = keeper,
                              .run = keep,
                              .arrived = is_early ? arrived : NULL,
                              .timeout_ms = strcmp(args->type, "whole") == 0 ? 3000 : 0},
        &keeper->devices);
}

static kvs_status_t keeper_close(void *store, int64_t timeout_ms)
{
    (void)timeout_ms;
    kvs_devhost_free(((keeper_t *)store)->devices);
    return KVS_OK;
}

static kvs_status_t keeper_run(void *store, kvs_op_t *op)
{
    return kvs_devhost_run(((keeper_t *)store)->devices, op);
}

static void keeper_cancel(void *store)
{
    kvs_devhost_cancel(((keeper_t *)store)->devices);
}

static const kvs_backend_ops_t ops = {
    .size = sizeof(ops),
    .mode = KVS_ASYNCHRONOUS,
    .store_size = sizeof(keeper_t),
    .open = keeper_open,
    .close = keeper_close,
    .pull = keeper_run,
    .pushpull = keeper_run,
    .cancel = keeper_cancel,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA};

static const kvs_backend_t backend = {
    .size = sizeof(backend),
    .name = "keeper",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 2,
    .device_types = device_types,
    .ops = &ops,
};

static kvs_store_t *open_store(const char *type)
{
    kvs_store_t *store = NULL;

    kvs_plugin_host = kvsi_host();
    KT_OK(kvs_register_backend(type, &backend));
    KT_OK(kvs_store_create(type, NULL, 0, &store));
    return store;
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

static int wait_locked(keeper_t *k, const struct timespec *deadline)
{
    return pthread_cond_clockwait(&k->changed, &k->lock, CLOCK_MONOTONIC, deadline) != ETIMEDOUT;
}

static struct timespec deadline_of_all(void)
{
    struct timespec deadline;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += PATIENCE_S;
    return deadline;
}

/* The n-th operation that the backend was given; NULL: it never was. */
static kvs_op_t *op_at(int n)
{
    struct timespec deadline = deadline_of_all();
    kvs_op_t *op;

    pthread_mutex_lock(&keeper->lock);
    while (keeper->n_ops <= n && wait_locked(keeper, &deadline)) {
    }
    op = keeper->n_ops > n ? keeper->ops[n] : NULL;
    pthread_mutex_unlock(&keeper->lock);
    KT_TRUE(op != NULL);
    return op;
}

/* Wait until so much of the first group's value is there, or none will be; gives how that ended. */
static kvs_status_t wait_for(const kvs_op_t *op, size_t n_bytes, size_t *ret_n_bytes)
{
    struct timespec deadline = deadline_of_all();
    kvs_status_t status;
    int goes_on = 1;

    pthread_mutex_lock(&keeper->lock);
    do {
        status = kvs_devhost_arrived(op, &op->groups[0], ret_n_bytes);
    } while (status == KVS_OK && *ret_n_bytes < n_bytes && goes_on &&
             (goes_on = wait_locked(keeper, &deadline)));
    pthread_mutex_unlock(&keeper->lock);
    return status;
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

static kvs_event_t *begin(kvs_store_t *store, int number, const kvs_tensor_t *values,
                          size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t in = pretend_list(values, n_values), out = pretend_list(outs, n_outs);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(store, &key, 1, &in, &out, &call));
    return event;
}

static kvs_status_t finish(kvs_event_t *event)
{
    kvs_status_t status = kvs_event_wait(event, PATIENCE_S * 1000);

    kvs_event_free(event);
    return status;
}

/* The exchange of the test's backend: the value, which it doubles. */
static void answer(kvs_op_t *op)
{
    const kvs_group_t *group = &op->groups[0];
    const float *value = group->values[0].data;

    KT_OK(kvs_devhost_await(op));
    for (size_t i = 0; i < group->n_outs; i++) {
        float *out = group->outs[i].data;

        for (int64_t j = 0; j < kvs_tensor_n_elems(&group->outs[i]); j++) {
            out[j] = 2 * value[j];
        }
    }
    kvs_devhost_consumed(op);
    kvs_devhost_complete(op, KVS_OK);
}

static kvs_tensor_t array_of(int device, const int64_t *n, float value)
{
    float *numbers = malloc((size_t)*n * sizeof(float) + 1);

    for (int64_t i = 0; i < *n; i++) {
        numbers[i] = value;
    }
    kvs_tensor_t tensor = pretend_array(device, KVS_DTYPE_float32, n, numbers, 0);

    free(numbers);
    return tensor;
}

static int n_others(const kvs_tensor_t *tensor, float value)
{
    int64_t n = tensor->shape[0];
    float *numbers = malloc((size_t)n * sizeof(float) + 1);
    int n_wrong = 0;

    pretend_get(tensor, numbers);
    for (int64_t i = 0; i < n; i++) {
        n_wrong += numbers[i] != value;
    }
    free(numbers);
    return n_wrong;
}

/* The store still does its work, with arrays of this device. */
static void want_usable(kvs_store_t *store, int device, int n_given)
{
    int64_t n = 1001;
    kvs_tensor_t value = array_of(device, &n, 3), out = array_of(device, &n, 0);
    kvs_event_t *event = begin(store, 99, &value, 1, &out, 1);

    answer(op_at(n_given));
    KT_OK(finish(event));
    KT_INT(n_others(&out, 6), 0);
    pretend_free(&value, 0);
    pretend_free(&out, 0);
}

/* ---- Chunks -------------------------------------------------------------------------------------------- */

static const int64_t n_big = 2 * CHUNK / sizeof(float) + 77; /* two chunks and a little */

static void what_has_arrived_of_a_value_can_be_used(void)
{
    kvs_store_t *store = open_store("early");
    kvs_tensor_t value = array_of(0, &n_big, 5), out = array_of(1, &n_big, 0);
    size_t n_bytes = 0;

    driver.downloads(0);
    kvs_event_t *event = begin(store, 1, &value, 1, &out, 1);
    kvs_op_t *op = op_at(0); /* given to the backend, though nothing is there */
    const float *numbers = op->groups[0].values[0].data;

    KT_OK(kvs_devhost_arrived(op, &op->groups[0], &n_bytes));
    KT_INT(n_bytes, 0);
    driver.downloads(1);
    KT_OK(wait_for(op, CHUNK, &n_bytes));
    KT_INT(n_bytes, CHUNK);
    KT_REAL(numbers[0], 5);
    KT_REAL(numbers[CHUNK / sizeof(float) - 1], 5);
    driver.downloads(1);
    KT_OK(wait_for(op, 2 * CHUNK, &n_bytes));
    KT_INT(n_bytes, 2 * CHUNK);
    driver.downloads(-1);
    KT_OK(wait_for(op, (size_t)n_big * sizeof(float), &n_bytes));
    KT_REAL(numbers[n_big - 1], 5);
    answer(op);
    KT_OK(finish(event));
    KT_INT(n_others(&out, 10), 0);
    want_usable(store, 0, 1);
    pretend_free(&value, 0);
    pretend_free(&out, 0);
    KT_OK(kvs_store_close(store));
}

static void several_keys_are_on_their_way_at_once(void)
{
    enum { N = 3 };
    kvs_store_t *store = open_store("early");
    int64_t n = 70001;
    kvs_tensor_t values[N], outs[N];
    kvs_event_t *events[N];

    driver.downloads(0);
    for (int i = 0; i < N; i++) {
        values[i] = array_of(i % 2, &n, (float)i + 1);
        outs[i] = array_of((i + 1) % 2, &n, 0);
        events[i] = begin(store, i, &values[i], 1, &outs[i], 1);
    }
    (void)op_at(N - 1);
    driver.downloads(-1);
    for (int i = N - 1; i >= 0; i--) {
        answer(op_at(i));
        KT_OK(finish(events[i]));
        KT_INT(n_others(&outs[i], 2 * ((float)i + 1)), 0);
    }
    for (int i = 0; i < N; i++) {
        pretend_free(&values[i], 0);
        pretend_free(&outs[i], 0);
    }
    KT_OK(kvs_store_close(store));
}

static void outs_are_sent_as_they_are_written(void)
{
    kvs_store_t *store = open_store("early");
    kvs_tensor_t value = array_of(0, &n_big, 5), outs[2];
    int64_t n_chunk = CHUNK / sizeof(float);
    cuda_double_counts_t counts;

    outs[0] = array_of(0, &n_big, 0);
    outs[1] = array_of(1, &n_big, 0);
    kvs_event_t *event = begin(store, 1, &value, 1, outs, 2);
    kvs_op_t *op = op_at(0);

    KT_OK(kvs_devhost_await(op));
    KT_INT(op->groups[0].n_outs, 1); /* both share a copy */
    float *result = op->groups[0].outs[0].data;

    for (int64_t i = 0; i < n_big; i++) {
        result[i] = 7;
    }
    driver.reset_counts();
    kvs_devhost_wrote(op, &op->groups[0], n_chunk + 5, 10); /* not a whole chunk yet */
    driver.read_counts(&counts);
    KT_INT(counts.from_host, 0);
    kvs_devhost_wrote(op, &op->groups[0], 0, n_chunk + 5);
    driver.read_counts(&counts);
    KT_INT(counts.from_host, 2); /* the first chunk, to each device */
    kvs_devhost_wrote(op, &op->groups[0], n_chunk + 15, n_chunk - 15);
    driver.read_counts(&counts);
    KT_INT(counts.from_host, 4);
    kvs_devhost_complete(op, KVS_OK); /* the rest nobody told of */
    KT_OK(finish(event));
    driver.read_counts(&counts);
    KT_INT(counts.from_host, 6);
    KT_INT(counts.from_host_bytes, 2 * (size_t)n_big * sizeof(float));
    KT_INT(counts.from_host_most, CHUNK);
    KT_INT(n_others(&outs[0], 7), 0);
    KT_INT(n_others(&outs[1], 7), 0);
    pretend_free(&value, 0);
    pretend_free(&outs[0], 0);
    pretend_free(&outs[1], 0);
    KT_OK(kvs_store_close(store));
}

/* ---- How much is copied -------------------------------------------------------------------------------- */

static void values_of_a_key_are_one_copy_to_the_host(void)
{
    kvs_store_t *store = open_store("early");
    int64_t n = 70001;
    size_t n_bytes = (size_t)n * sizeof(float);
    CUstream streams[2] = {pretend_stream(0), pretend_stream(1)};
    kvs_tensor_t values[4], outs[2];
    cuda_double_counts_t counts;

    for (int i = 0; i < 4; i++) {
        values[i] = array_of(i % 2, &n, (float)i + 1);
        values[i].stream = (int64_t)(intptr_t)streams[i % 2];
    }
    for (int i = 0; i < 2; i++) {
        outs[i] = array_of(i, &n, 0);
        outs[i].stream = (int64_t)(intptr_t)streams[i];
    }
    for (int round = 0; round < 2; round++) {
        driver.reset_counts();
        kvs_event_t *event = begin(store, 1, values, 4, outs, 2);

        answer(op_at(round));
        KT_OK(finish(event));
        driver.read_counts(&counts);
        KT_INT(counts.to_host, 1);
        KT_INT(counts.to_host_bytes, n_bytes);
        KT_INT(counts.from_host, 2);
        KT_INT(counts.from_host_bytes, 2 * n_bytes);
        KT_INT(counts.host_syncs, 0);
        for (int i = 0; i < 2; i++) {
            pretend_sync(i, streams[i]);
            KT_INT(n_others(&outs[i], 20), 0);
        }
    }
    for (int i = 0; i < 4; i++) {
        pretend_free(&values[i], 0);
    }
    for (int i = 0; i < 2; i++) {
        pretend_free(&outs[i], 0);
    }
    KT_OK(kvs_store_close(store));
}

static void small_arrays_of_a_list_and_none_at_all(void)
{
    kvs_store_t *store = open_store("early");
    const int64_t sizes[] = {0, 1, 3, 257};

    for (int i = 0; i < 4; i++) {
        kvs_tensor_t value = array_of(0, &sizes[i], 4), out = array_of(1, &sizes[i], 0);
        kvs_event_t *event = begin(store, i, &value, 1, &out, 1);

        answer(op_at(i));
        KT_OK(finish(event));
        KT_INT(n_others(&out, 8), 0);
        pretend_free(&value, 0);
        pretend_free(&out, 0);
    }
    KT_OK(kvs_store_close(store));
}

/* ---- Faults -------------------------------------------------------------------------------------------- */

/* The copies of a call that was given up are made at last: into memory that nobody else has by then. */
static void memory_that_a_late_copy_may_write_is_not_used_again(void)
{
    kvs_store_t *store = open_store("whole");
    int64_t n = 10007;
    CUstream held = pretend_stream(0);
    kvs_tensor_t late = array_of(0, &n, -1), value = array_of(1, &n, 5), out = array_of(1, &n, 0);
    kvs_tensor_t late_out = array_of(0, &n, 0);
    char text[256] = "";

    late.stream = late_out.stream = (int64_t)(intptr_t)held;
    driver.hold(held, 1);
    kvs_event_t *event = begin(store, 1, &late, 1, &late_out, 1);

    KT_INT(kvs_event_wait(event, PATIENCE_S * 1000), KVS_ERR_TIMEOUT);
    snprintf(text, sizeof(text), "%s", kvs_last_error());
    KT_HAS(text, "device cuda(0) did not get done within 3000 ms; its work goes on");
    kvs_event_free(event);
    event = begin(store, 2, &value, 1, &out, 1);
    kvs_op_t *op = op_at(0);
    const float *numbers = op->groups[0].values[0].data;
    int n_wrong = 0;

    driver.hold(held, 0);
    pretend_sync(0, held); /* it waits for the late copy */
    for (int64_t i = 0; i < n; i++) {
        n_wrong += numbers[i] != 5;
    }
    KT_INT(n_wrong, 0);
    answer(op);
    KT_OK(finish(event));
    KT_INT(n_others(&out, 10), 0);
    want_usable(store, 0, 1);
    pretend_free(&late, 0);
    pretend_free(&late_out, 0);
    pretend_free(&value, 0);
    pretend_free(&out, 0);
    KT_OK(kvs_store_close(store));
}

/* One device is stuck: what another one has to do is done. */
static void a_device_that_is_stuck_holds_up_no_other(void)
{
    kvs_store_t *store = open_store("early");
    int64_t n = 1001;
    CUstream held = pretend_stream(0);
    kvs_tensor_t stuck = array_of(0, &n, 2), out = array_of(0, &n, 0);

    stuck.stream = out.stream = (int64_t)(intptr_t)held;
    driver.hold(held, 1);
    kvs_event_t *event = begin(store, 1, &stuck, 1, &out, 1);

    (void)op_at(0);
    want_usable(store, 1, 1);
    driver.hold(held, 0);
    answer(op_at(0));
    KT_OK(finish(event));
    pretend_sync(0, held);
    KT_INT(n_others(&out, 4), 0);
    pretend_free(&stuck, 0);
    pretend_free(&out, 0);
    KT_OK(kvs_store_close(store));
}

static void note_end(kvs_status_t status, const char *text, void *arg)
{
    (void)text;
    KT_INT(status, KVS_ERR_CANCELLED);
    arrived(arg);
}

static void a_cancel_ends_what_waits_for_a_device(void)
{
    kvs_store_t *store = open_store("patient");
    struct timespec deadline = deadline_of_all();
    int64_t n = 1001;
    CUstream held = pretend_stream(0);
    kvs_tensor_t value = array_of(0, &n, 2);

    value.stream = (int64_t)(intptr_t)held;
    driver.hold(held, 1);
    kvs_event_t *event = begin(store, 1, &value, 1, &value, 1);

    KT_OK(kvs_event_on_complete(event, note_end, keeper));
    kvs_store_cancel(store);
    pthread_mutex_lock(&keeper->lock);
    while (keeper->n_arrivals == 0 && wait_locked(keeper, &deadline)) {
    }
    KT_INT(keeper->n_arrivals, 1); /* though the device is not done */
    pthread_mutex_unlock(&keeper->lock);
    kvs_event_free(event);
    driver.hold(held, 0);
    pretend_sync(0, held);
    (void)kvs_store_close(store); /* says that it was cancelled */
    pretend_free(&value, 0);
}

static void a_device_that_is_lost_on_the_way_fails_the_call_and_no_other(void)
{
    kvs_store_t *store = open_store("early");
    int64_t n = CHUNK / sizeof(float) + 77;
    kvs_tensor_t value = array_of(0, &n, 5), out = array_of(1, &n, 0);
    size_t n_bytes = 0;
    char text[256] = "";

    driver.downloads(1);
    kvs_event_t *event = begin(store, 1, &value, 1, &out, 1);
    kvs_op_t *op = op_at(0);

    KT_OK(wait_for(op, CHUNK, &n_bytes));
    driver.break_device(0);
    KT_INT(wait_for(op, CHUNK + 1, &n_bytes), KVS_ERR_UNAVAILABLE);
    snprintf(text, sizeof(text), "%s", kvs_plugin_host->last_error());
    KT_HAS(text, "device cuda(0) is lost until the process ends");
    driver.downloads(-1);
    KT_INT(kvs_devhost_await(op), KVS_ERR_UNAVAILABLE);
    kvs_devhost_complete(op, KVS_ERR_UNAVAILABLE);
    KT_FAIL(finish(event), KVS_ERR_UNAVAILABLE, "device cuda(0) is lost");
    want_usable(store, 1, 1);
    pretend_free(&out, 0);
    KT_OK(kvs_store_close(store));
}

/* With 3 MB of it, as KVSTORE_DOUBLE_PINNED says. */
static void without_pinned_memory_the_call_fails_and_others_work(void)
{
    int64_t n_much = 1000003, n_half = 150001, n_whole = 300001;
    kvs_store_t *store;

    if (getenv("KVSTORE_DOUBLE_PINNED") == NULL) {
        return;
    }
    store = open_store("early");
    kvs_tensor_t much = array_of(0, &n_much, 1), half = array_of(0, &n_half, 1),
                 whole = array_of(0, &n_whole, 1);
    kvs_key_t key = kvs_key_int(1);
    kvs_arrays_t list = pretend_list(&much, 1);

    KT_FAIL(kvs_store_pushpull(store, &key, 1, &list, &list, NULL), KVS_ERR_NO_MEMORY,
            "no 4000012 bytes of pinned host memory");
    KT_HAS(kvs_last_error(), "key 1");
    want_usable(store, 0, 0);
    kvs_event_t *event = begin(store, 2, &half, 1, &half, 1);

    answer(op_at(1));
    KT_OK(finish(event));
    event = begin(store, 3, &whole, 1, &whole, 1); /* what is kept of that makes room */
    answer(op_at(2));
    KT_OK(finish(event));
    KT_INT(n_others(&whole, 2), 0);
    want_usable(store, 0, 3);
    pretend_free(&much, 0);
    pretend_free(&half, 0);
    pretend_free(&whole, 0);
    KT_OK(kvs_store_close(store));
}

/* Once there was no memory for somebody, let the stream go on that some is kept for. */
static void *let_go(void *stream)
{
    cuda_double_counts_t counts = {0};
    struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < PATIENCE_S * 1000 && counts.pinned_refused == 0; i++) {
        nanosleep(&ms, NULL);
        driver.read_counts(&counts);
    }
    driver.hold(stream, 0);
    return NULL;
}

/* Memory that waits for this stream is all that a call lacks: it waits, too. */
static void want_wait_for(kvs_store_t *store, CUstream held, int n_given)
{
    int64_t n = 240001;
    kvs_tensor_t value = array_of(1, &n, 7);
    pthread_t thread;

    driver.reset_counts();
    pthread_create(&thread, NULL, let_go, held);
    kvs_event_t *event = begin(store, 2, &value, 1, &value, 1);

    pthread_join(thread, NULL);
    answer(op_at(n_given));
    KT_OK(finish(event));
    KT_INT(n_others(&value, 14), 0);
    pretend_free(&value, 0);
}

/* An out of a pull that has ended waits in host memory for its stream. */
static void memory_of_calls_that_have_ended_is_waited_for(void)
{
    int64_t n = 500001;
    kvs_key_t key = kvs_key_int(1);
    kvs_event_t *event = NULL;
    kvs_call_t call = KVS_CALL_INIT;

    if (getenv("KVSTORE_DOUBLE_PINNED") == NULL) {
        return;
    }
    kvs_store_t *store = open_store("early");
    CUstream held = pretend_stream(0);
    kvs_tensor_t pulled = array_of(0, &n, 0);
    kvs_arrays_t out = pretend_list(&pulled, 1);

    pulled.stream = (int64_t)(intptr_t)held;
    driver.hold(held, 1);
    call.ret_event = &event;
    KT_OK(kvs_store_pull(store, &key, 1, &out, &call));
    kvs_op_t *op = op_at(0);

    for (int64_t i = 0; i < n; i++) {
        ((float *)op->groups[0].outs[0].data)[i] = 9;
    }
    kvs_devhost_complete(op, KVS_OK);
    KT_OK(finish(event));
    want_wait_for(store, held, 1);
    pretend_sync(0, held);
    KT_INT(n_others(&pulled, 9), 0);
    pretend_free(&pulled, 0);
    KT_OK(kvs_store_close(store));
}

/* There was memory for a value, whose copy waits for its stream, but none for the out. */
static void memory_of_calls_that_have_failed_is_waited_for(void)
{
    int64_t n = 500001;
    kvs_key_t key = kvs_key_int(1);

    if (getenv("KVSTORE_DOUBLE_PINNED") == NULL) {
        return;
    }
    kvs_store_t *store = open_store("early");
    CUstream held = pretend_stream(0);
    kvs_tensor_t value = array_of(0, &n, 1);
    kvs_arrays_t list = pretend_list(&value, 1);

    value.stream = (int64_t)(intptr_t)held;
    driver.hold(held, 1);
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &list, &list, NULL), KVS_ERR_NO_MEMORY,
            "no 2000004 bytes of pinned host memory");
    want_wait_for(store, held, 0);
    pretend_sync(0, held);
    pretend_free(&value, 0);
    KT_OK(kvs_store_close(store));
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(what_has_arrived_of_a_value_can_be_used),
        KT_TEST(several_keys_are_on_their_way_at_once),
        KT_TEST(outs_are_sent_as_they_are_written),
        KT_TEST(values_of_a_key_are_one_copy_to_the_host),
        KT_TEST(small_arrays_of_a_list_and_none_at_all),
        KT_TEST(memory_that_a_late_copy_may_write_is_not_used_again),
        KT_TEST(a_device_that_is_stuck_holds_up_no_other),
        KT_TEST(a_cancel_ends_what_waits_for_a_device),
        KT_TEST(without_pinned_memory_the_call_fails_and_others_work),
        KT_TEST(memory_of_calls_that_have_ended_is_waited_for),
        KT_TEST(memory_of_calls_that_have_failed_is_waited_for),
        KT_TEST(a_device_that_is_lost_on_the_way_fails_the_call_and_no_other), /* for good */
    };

    pretend_open();
    return kt_run("cuda_devhost", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
