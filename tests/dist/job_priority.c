/* SPDX-License-Identifier: Apache-2.0 */
/* job_priority.c - what is urgent goes first, to the servers and back, and never before what came earlier
 * on its key; and stores with P3. A wire is filled by holding up the other side: a server by SIGSTOP, this
 * process's I/O thread in the callback of an event. */
#include "job.h"

#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* More than may be on the way to one peer, several times over. */
enum { N_BIG = 12, BIG = 1 << 20 };

/* Counts completions, on the I/O thread. */
static int n_completed;

typedef struct exchange {
    float *at;
    int64_t n;
    kvs_event_t *event;
    int place; /* among the completions */
} exchange_t;

static void note(kvs_status_t status, const char *text, void *arg)
{
    exchange_t *exchange = arg;

    (void)text;
    exchange->place = status == KVS_OK ? ++n_completed : -1;
}

static kvs_tensor_t tensor_of(exchange_t *exchange)
{
    return kt_tensor(exchange->at, KVS_DTYPE_float32, &exchange->n, 1);
}

static void begin_with(const job_t *job, int64_t number, exchange_t *exchange, int32_t priority,
                       bool pushes, bool pulls, kvs_event_callback_t callback, void *arg)
{
    kvs_tensor_t tensor = tensor_of(exchange);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(number);
    kvs_call_t call = KVS_CALL_INIT;

    call.priority = priority;
    call.ret_event = &exchange->event;
    if (pushes && pulls) {
        KT_OK(kvs_store_pushpull(job->store, &key, 1, &arrays, NULL, &call));
    } else if (pushes) {
        KT_OK(kvs_store_push(job->store, &key, 1, &arrays, &call));
    } else {
        KT_OK(kvs_store_pull(job->store, &key, 1, &arrays, &call));
    }
    KT_OK(kvs_event_on_complete(exchange->event, callback, arg));
}

static void begin(const job_t *job, int64_t number, exchange_t *exchange, int32_t priority,
                  bool pushes, bool pulls)
{
    begin_with(job, number, exchange, priority, pushes, pulls, note, exchange);
}

static exchange_t new_exchange(int64_t n, float value)
{
    exchange_t exchange = {.at = malloc((size_t)n * sizeof(float)), .n = n};

    if (exchange.at == NULL) {
        exit(2);
    }
    for (int64_t i = 0; i < n; i++) {
        exchange.at[i] = value;
    }
    return exchange;
}

static void init(const job_t *job, int64_t number, exchange_t *exchange)
{
    kvs_tensor_t tensor = tensor_of(exchange);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(number);

    KT_OK(kvs_store_init(job->store, &key, 1, &arrays, NULL));
}

static void init_big(const job_t *job, exchange_t *big)
{
    for (int i = 0; i < N_BIG; i++) {
        big[i] = new_exchange(BIG, 1);
        init(job, 100 + i, &big[i]);
    }
}

static void finish(exchange_t *exchange)
{
    KT_OK(job_finish(exchange->event));
    free(exchange->at);
}

static void finish_big(exchange_t *big)
{
    for (int i = 0; i < N_BIG; i++) {
        finish(&big[i]);
    }
}

static void an_urgent_push_overtakes_others(void)
{
    job_t job = job_open(NULL, 0);
    exchange_t big[N_BIG], urgent = new_exchange(4, 2);
    int server = job_pid_of("server", 0);

    init_big(&job, big);
    init(&job, 1, &urgent);
    job_stop_process(server);
    for (int i = 0; i < N_BIG; i++) {
        begin(&job, 100 + i, &big[i], 0, true, true);
    }
    begin(&job, 1, &urgent, 1, true, true);
    KT_INT(kill(server, SIGCONT), 0);
    KT_OK(kvs_store_wait_all(job.store, 20000));
    KT_TRUE(urgent.place < big[N_BIG - 1].place);
    for (int i = 1; i < N_BIG; i++) { /* equal ones keep their order */
        KT_TRUE(big[i - 1].place < big[i].place);
    }
    finish(&urgent);
    finish_big(big);
    job_close(&job);
}

/* The pull has to see the value before the push, however urgent that is. */
static void nothing_overtakes_on_its_own_key(void)
{
    job_t job = job_open(NULL, 0);
    exchange_t big[N_BIG], pulled = new_exchange(4, 2), pushed = new_exchange(4, 3);
    int server = job_pid_of("server", 0);

    init_big(&job, big);
    init(&job, 1, &pulled);
    pulled.at[3] = 0;
    job_stop_process(server);
    for (int i = 0; i < N_BIG; i++) {
        begin(&job, 100 + i, &big[i], 0, true, true);
    }
    begin(&job, 1, &pulled, -9, false, true);
    begin(&job, 1, &pushed, 9, true, false);
    KT_INT(kill(server, SIGCONT), 0);
    KT_OK(kvs_store_wait_all(job.store, 20000));
    KT_REAL(pulled.at[3], 2);
    KT_TRUE(pushed.place < big[N_BIG - 1].place);
    KT_TRUE(pulled.place < big[N_BIG - 1].place); /* which is as urgent as what waits for it */
    finish(&pulled);
    finish(&pushed);
    finish_big(big);
    job_close(&job);
}

static void wait_for_go(kvs_status_t status, const char *text, void *arg)
{
    (void)status;
    (void)text;
    while (sem_wait(arg) != 0) {
    }
}

/* Rank 0's I/O thread is held up until the server has everything that rank 0 asks for: rank 1 knows that,
 * by a push of rank 0 that comes behind it. */
static void hold_up(const job_t *job, exchange_t *big, exchange_t *urgent)
{
    exchange_t small = new_exchange(1, 0), sign = new_exchange(1, 1);
    sigset_t set;
    sem_t go;
    int signal_number;

    sem_init(&go, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    begin_with(job, 2, &small, 0, true, false, wait_for_go, &go); /* rank 1 ends the round */
    job_meet(job);
    KT_INT(sigwait(&set, &signal_number), 0); /* the callback has begun */
    for (int i = 0; i < N_BIG; i++) {
        begin(job, 100 + i, &big[i], 0, false, true);
    }
    begin(job, 1, urgent, 1, false, true);
    begin(job, 3, &sign, -1, true, false);
    KT_INT(sigwait(&set, &signal_number), 0);
    sem_post(&go);
    KT_OK(kvs_store_wait_all(job->store, 20000));
    finish(&small);
    finish(&sign);
}

static void an_urgent_answer_overtakes_others(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL); /* also in the threads to come */

    job_t job = job_open(NULL, 0);
    exchange_t big[N_BIG], urgent = new_exchange(4, 2), small = new_exchange(1, 1);

    init_big(&job, big);
    init(&job, 1, &urgent);
    init(&job, 2, &small);
    init(&job, 3, &small);
    job_meet(&job);
    if (job.rank == 0) {
        hold_up(&job, big, &urgent);
        KT_TRUE(urgent.place < big[N_BIG - 1].place);
        finish(&urgent);
        finish_big(big);
    } else {
        int other = job_pid_of("worker", 0);
        vec_t one = VEC(1);

        job_meet(&job);
        KT_OK(job_pushpull(&job, kvs_key_int(2), one, &one));
        KT_INT(kill(other, SIGUSR1), 0);
        KT_OK(job_pushpull(&job, kvs_key_int(3), one, &one));
        KT_INT(kill(other, SIGUSR1), 0);
        for (int i = 0; i < N_BIG; i++) {
            free(big[i].at);
        }
        free(urgent.at);
    }
    free(small.at);
    job_close(&job);
}

/* ---- A server that stops reading --------------------------------------------------------------------------- */

static long resident_bytes(void)
{
    long n_pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*d %ld", &n_pages) != 1) {
        exit(2);
    }
    fclose(file);
    return n_pages * sysconf(_SC_PAGESIZE);
}

/* Calls that give their arrays back at once wait when much is waiting, and end at the deadline. */
static void a_server_that_stops_reading_is_named_and_costs_no_memory(void)
{
    enum { N_KEYS = 200, N = 1 << 18 };
    job_t job = JOB_OPEN({"timeout", "2"});
    exchange_t one = new_exchange(N, 1), two = new_exchange(N, 1);
    kvs_tensor_t tensors[2] = {tensor_of(&one), tensor_of(&two)};
    kvs_arrays_t first = kvs_arrays(tensors, 1), both = kvs_arrays(tensors, 2);
    int server = job_pid_of("server", 0);
    kvs_status_t status = KVS_OK;
    long before;

    for (int i = 0; i < N_KEYS; i++) {
        kvs_key_t key = kvs_key_int(i);

        KT_OK(kvs_store_init(job.store, &key, 1, &first, NULL));
    }
    before = resident_bytes();
    KT_TRUE(server > 0 && kill(server, SIGSTOP) == 0);
    for (int i = 0; i < N_KEYS && status == KVS_OK; i++) { /* 200 MiB of sums, if nobody stops it */
        kvs_key_t key = kvs_key_int(i);

        status = kvs_store_push(job.store, &key, 1, &both, NULL);
    }
    KT_FAIL(status, KVS_ERR_TIMEOUT, "server 0 (host ");
    KT_HAS(kvs_last_error(), "push: key ");
    KT_TRUE(resident_bytes() - before < 150 << 20);
    KT_INT(kill(server, SIGCONT), 0);
    (void)kvs_store_wait_all(job.store, 20000); /* the other pushes have failed too */
    job_meet(&job);
    free(one.at);
    free(two.at);
    (void)kvs_store_close(job.store);
}

/* ---- P3 ------------------------------------------------------------------------------------------------- */

static void with_p3_the_workers_update(void)
{
    job_t job = JOB_OPEN({"p3", "1"}, {"slice_threshold", "100"});
    kvs_param_t rate = JOB_REAL("learning_rate", 0.5);
    int capable = -1;
    vec_t out = VEC(0);

    KT_OK(kvs_store_is_capable(job.store, "optimizer", &capable));
    KT_INT(capable, 0);
    KT_OK(kvs_store_is_capable(job.store, "sparse", &capable));
    KT_INT(capable, 1);
    KT_FAIL(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)),
            KVS_ERR_NOT_IMPLEMENTED, "set_optimizer by");
    KT_HAS(kvs_last_error(), "P3");
    KT_FAIL(kvs_store_set_optimizer_attr(job.store, &rate), KVS_ERR_NOT_IMPLEMENTED, "P3");
    KT_FAIL(kvs_store_save_optimizer_states(job.store, "/nowhere", 1), KVS_ERR_NOT_IMPLEMENTED,
            "P3");
    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    KT_OK(job_pushpull(&job, kvs_key_int(1), VEC(2), &out));
    KT_REAL(out.at[0], 2 * job.n_workers);
    job_close(&job);
}

static void an_unknown_transport_is_refused(void)
{
    kvs_option_t option = {"p3", "perhaps"};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("dist_sync", &option, 1, &store), KVS_ERR_ARGUMENT,
            "option p3 (DMLC_PS_VAN_TYPE) is 'perhaps'");
    job_t job = job_open(NULL, 0); /* the servers wait for somebody */
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(an_urgent_push_overtakes_others),
    KT_TEST(nothing_overtakes_on_its_own_key),
    KT_TEST(an_urgent_answer_overtakes_others),
    KT_TEST(a_server_that_stops_reading_is_named_and_costs_no_memory),
    KT_TEST(with_p3_the_workers_update),
    KT_TEST(an_unknown_transport_is_refused),
};

KT_MAIN("job_priority", tests)
