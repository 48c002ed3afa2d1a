/* SPDX-License-Identifier: Apache-2.0 */
/* Every failure is told exactly once, whoever asks: calls, events, callbacks, later operations and
 * wait_all of several threads, while a backend fails one operation after the other on its own thread. */
#include "host.h"
#include "kt.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_FAILURES = 4096, N_THREADS = 3, N_CALLS = 1000 };

static atomic_int n_told[MAX_FAILURES]; /* by the number in a failure's text */

/* ---- A backend of which every push fails ----------------------------------------------------- */

typedef struct failing {
    pthread_mutex_t lock;
    pthread_cond_t news;
    kvs_op_t *ops[64]; /* guarded by lock, as what follows */
    size_t n_ops;
    int n_failures;
    bool ends;
    kt_thread_t thread;
} failing_t;

static failing_t failing; /* of the one store there is at a time */

static void fail_one(kvs_op_t *op, int number)
{
    if (number % 4 != 0) {
        kvsi_host()->consumed(op);
        for (atomic_int i = 0; i < number * 37 % 3000; i++) { /* the call may be on its way out */
        }
    }
    kvsi_host()->complete(op, kvs_fail(KVS_ERR_IO, "failure <%d>", number));
}

static void fail_all(void *arg)
{
    bool ends = false;

    (void)arg;
    while (!ends) {
        kvs_op_t *op = NULL;
        int number = 0;

        pthread_mutex_lock(&failing.lock);
        while (failing.n_ops == 0 && !failing.ends) {
            kt_cond_wait(&failing.news, &failing.lock, kt_deadline(), "a push");
        }
        ends = failing.n_ops == 0;
        if (!ends) {
            op = failing.ops[0];
            failing.n_ops--;
            memmove(failing.ops, failing.ops + 1, failing.n_ops * sizeof(failing.ops[0]));
            number = failing.n_failures++;
            pthread_cond_broadcast(&failing.news);
        }
        pthread_mutex_unlock(&failing.lock);
        if (op != NULL) {
            fail_one(op, number);
        }
    }
}

static kvs_status_t failing_open(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    pthread_mutex_init(&failing.lock, NULL);
    kt_cond_init(&failing.news);
    failing.ends = false;
    failing.n_failures = 0;
    kt_thread_start(&failing.thread, fail_all, NULL);
    return KVS_OK;
}

static kvs_status_t failing_close(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    pthread_mutex_lock(&failing.lock);
    failing.ends = true;
    pthread_cond_broadcast(&failing.news);
    pthread_mutex_unlock(&failing.lock);
    kt_thread_join(&failing.thread);
    return KVS_OK;
}

/* init and pull: they succeed. */
static kvs_status_t complete_at_once(void *store, kvs_op_t *op)
{
    (void)store;
    kvsi_host()->complete(op, KVS_OK);
    return KVS_OK;
}

static kvs_status_t failing_push(void *store, kvs_op_t *op)
{
    (void)store;
    pthread_mutex_lock(&failing.lock);
    while (failing.n_ops == sizeof(failing.ops) / sizeof(failing.ops[0])) {
        kt_cond_wait(&failing.news, &failing.lock, kt_deadline(), "room for a push");
    }
    failing.ops[failing.n_ops++] = op;
    pthread_cond_broadcast(&failing.news);
    pthread_mutex_unlock(&failing.lock);
    return KVS_OK;
}

static void register_failing(void)
{
    static const int32_t cpu[] = {KVS_DEVICE_CPU};
    static const kvs_backend_ops_t ops = {.size = (uint32_t)sizeof(ops),
                                          .mode = KVS_ASYNCHRONOUS,
                                          .open = failing_open,
                                          .close = failing_close,
                                          .init = complete_at_once,
                                          .push = failing_push,
                                          .pull = complete_at_once};
    static const kvs_backend_t backend = {.size = (uint32_t)sizeof(backend),
                                          .capabilities = KVS_KEEPS_WEIGHTS,
                                          .name = "failing",
                                          .dtypes = KVS_DTYPES_ALL,
                                          .n_device_types = 1,
                                          .device_types = cpu,
                                          .ops = &ops};

    KT_OK(kvs_register_backend("failing", &backend));
}

/* ---- Who is told ------------------------------------------------------------------------------ */

/* Note the failure that the text of an error names. */
static void note(kvs_status_t status, const char *text)
{
    const char *number = strstr(text, "failure <");

    if (status != KVS_OK && number != NULL) {
        atomic_fetch_add(&n_told[atoi(number + strlen("failure <")) % MAX_FAILURES], 1);
    }
}

static void note_in_callback(kvs_status_t status, const char *text, void *arg)
{
    (void)arg;
    note(status, text);
}

static kvs_status_t push(kvs_store_t *store, int64_t number, float *value, kvs_event_t **ret_event)
{
    const kvs_key_t key = kvs_key_int(number);
    const kvs_tensor_t tensor = KT_F32(value, 1);
    const kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = ret_event;
    return kvs_store_push(store, &key, 1, &values, &call);
}

typedef struct issuer {
    kt_thread_t thread;
    kvs_store_t *store;
    int number;
} issuer_t;

/* One push, and one of the ways to learn how it ended, or to leave that to others. */
static void push_somehow(const issuer_t *issuer, int round, float *value)
{
    int64_t key = (issuer->number + round) % 2; /* keys are shared */
    kvs_event_t *event = NULL;
    kvs_status_t status = push(issuer->store, key, value, round % 6 < 2 ? NULL : &event);

    if (status != KVS_OK) {
        note(status, kvs_last_error());
        return;
    }
    switch (round % 6) {
    case 4:
        status = kvs_event_wait(event, KT_PATIENCE_MS);
        note(status, kvs_last_error());
        break;
    case 2:
        KT_OK(kvs_event_on_complete(event, note_in_callback, NULL));
        break;
    case 3:
        status = kvs_store_wait_all(issuer->store, KT_PATIENCE_MS);
        note(status, kvs_last_error());
        break;
    default: /* left to others */
        break;
    }
    kvs_event_free(event);
}

static void issue(void *arg)
{
    const issuer_t *issuer = arg;
    static float values[N_THREADS];

    for (int i = 0; i < N_CALLS; i++) {
        push_somehow(issuer, i, &values[issuer->number]);
    }
}

static void every_failure_is_told_once_whoever_asks(void)
{
    issuer_t issuers[N_THREADS];
    kvs_store_t *store = NULL;
    float value = 0;
    int n_wrong = 0;
    kvs_status_t status;

    register_failing();
    KT_OK(kvs_store_create("failing", NULL, 0, &store));
    for (int64_t number = 0; number < 2; number++) {
        const kvs_key_t key = kvs_key_int(number);
        const kvs_tensor_t tensor = KT_F32(&value, 1);
        const kvs_arrays_t values = kvs_arrays(&tensor, 1);

        KT_OK(kvs_store_init(store, &key, 1, &values, NULL));
    }
    for (int i = 0; i < N_THREADS; i++) {
        issuers[i] = (issuer_t){.store = store, .number = i};
        kt_thread_start(&issuers[i].thread, issue, &issuers[i]);
    }
    for (int i = 0; i < N_THREADS; i++) {
        kt_thread_join(&issuers[i].thread);
    }
    while ((status = kvs_store_wait_all(store, KT_PATIENCE_MS)) == KVS_ERR_IO) {
        note(status, kvs_last_error());
    }
    KT_OK(status);
    KT_OK(kvs_store_close(store));
    KT_TRUE(failing.n_failures > N_CALLS && failing.n_failures <= MAX_FAILURES);
    for (int i = 0; i < failing.n_failures && n_wrong < 5; i++) {
        if (atomic_load(&n_told[i]) != 1) {
            KT_INT(atomic_load(&n_told[i]), 1);
            n_wrong++;
        }
    }
}

static const kt_test_t tests[] = {
    KT_TEST(every_failure_is_told_once_whoever_asks),
};
KT_MAIN("told", tests)
