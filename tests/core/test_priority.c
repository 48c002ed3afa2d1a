/* SPDX-License-Identifier: Apache-2.0 */
/* With one thread in the pool, the order of what waits for it is to be seen: by priority, and among
 * equals as issued. */
#include "calls.h"

#include "pool.h"

#include <stdlib.h>

typedef struct job {
    kvsi_work_t work; /* first */
    int place;        /* in the order in which jobs ran; guarded by lock */
} job_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static int n_run;      /* guarded by lock */
static bool is_open;   /* guarded by lock */
static bool has_begun; /* guarded by lock */

static void run_job(kvsi_work_t *work)
{
    pthread_mutex_lock(&lock);
    ((job_t *)work)->place = n_run++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Keeps the only thread until `is_open`. */
static void keep_thread(kvsi_work_t *work)
{
    int64_t deadline = kt_deadline();

    (void)work;
    pthread_mutex_lock(&lock);
    has_begun = true;
    pthread_cond_broadcast(&changed);
    while (!is_open) {
        kt_cond_wait(&changed, &lock, deadline, "the gate");
    }
    pthread_mutex_unlock(&lock);
}

/* Run the jobs behind a work that keeps the thread until all are queued. */
static void run_all(job_t *jobs, int n)
{
    static kvsi_work_t keeper;
    int64_t deadline = kt_deadline();

    keeper = (kvsi_work_t){.run = keep_thread};
    n_run = 0;
    is_open = has_begun = false;
    KT_OK(kvsi_pool_start());
    kvsi_pool_submit(&keeper);
    pthread_mutex_lock(&lock);
    while (!has_begun) {
        kt_cond_wait(&changed, &lock, deadline, "the first work");
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++) {
        jobs[i].work.run = run_job;
        kvsi_pool_submit(&jobs[i].work);
    }
    pthread_mutex_lock(&lock);
    is_open = true;
    pthread_cond_broadcast(&changed);
    while (n_run < n) {
        kt_cond_wait(&changed, &lock, deadline, "all works");
    }
    pthread_mutex_unlock(&lock);
}

static void works_run_by_priority_and_equal_ones_by_sequence(void)
{
    job_t jobs[] = {
        {.work = {.priority = 0, .sequence = 5}},  {.work = {.priority = 7, .sequence = 6}},
        {.work = {.priority = -1, .sequence = 1}}, {.work = {.priority = 7, .sequence = 2}},
        {.work = {.priority = 0, .sequence = 4}},  {.work = {.priority = INT32_MAX, .sequence = 9}},
        {.work = {.priority = INT32_MIN}},
    };
    static const int want[] = {4, 2, 5, 1, 3, 0, 6};

    run_all(jobs, 7);
    for (int i = 0; i < 7; i++) {
        KT_INT(jobs[i].place, want[i]);
    }
}

static int by_order(const void *a, const void *b)
{
    const kvsi_work_t *left = &(*(job_t *const *)a)->work;
    const kvsi_work_t *right = &(*(job_t *const *)b)->work;

    if (left->priority != right->priority) {
        return left->priority > right->priority ? -1 : 1;
    }
    return left->sequence < right->sequence ? -1 : 1;
}

static void thousands_of_works_run_in_order(void)
{
    enum { N = 3000 };
    static job_t jobs[N];
    static job_t *sorted[N];
    uint32_t random = 12345;
    int n_wrong = 0;

    for (int i = 0; i < N; i++) {
        random = random * 1664525 + 1013904223;
        jobs[i] = (job_t){
            .work = {.priority = (int32_t)(random >> 16) % 10 - 5, .sequence = (uint64_t)i}};
        sorted[i] = &jobs[i];
    }
    run_all(jobs, N);
    qsort(sorted, N, sizeof(sorted[0]), by_order);
    for (int i = 0; i < N; i++) {
        n_wrong += sorted[i]->place != i;
    }
    KT_INT(n_wrong, 0);
}

static kvs_event_t *push_with_priority(kvs_store_t *store, int64_t number, int32_t priority)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_tensor_t tensor = KT_F32(big_array(), BIG);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_event_t *event = NULL;
    kvs_call_t options = KVS_CALL_INIT;

    options.priority = priority;
    options.ret_event = &event;
    KT_OK(kvs_store_push(store, &key, 1, &arrays, &options));
    return event;
}

static void operations_that_wait_for_a_thread_go_by_priority(void)
{
    static const int32_t priorities[] = {0, 0, -3, 5, 0, 5};
    kvs_store_t *store;
    kvs_event_t *events[6];

    fake_begin();
    store = fake_open(FAKE);
    for (int64_t key = 0; key < 6; key++) {
        init_big(store, key);
    }
    fake_begin();
    fake_hold("push 0");
    for (int i = 0; i < 6; i++) {
        events[i] = push_with_priority(store, i, priorities[i]);
        if (i == 0) {
            fake_wait_held("push 0"); /* it has the thread */
        }
    }
    fake_release("push 0");
    for (int i = 0; i < 6; i++) {
        KT_OK(finish(events[i]));
    }
    KT_STR(fake_calls(), "push 0, push 3, push 5, push 1, push 4, push 2");
    KT_OK(kvs_store_close(store));
}

static void priority_does_not_change_the_order_on_a_key(void)
{
    kvs_store_t *store;
    kvs_event_t *events[3];

    fake_begin();
    store = fake_open(FAKE);
    init_big(store, 1);
    fake_begin();
    fake_hold("push 1");
    for (int i = 0; i < 3; i++) {
        events[i] = push_with_priority(store, 1, i * 100);
    }
    fake_release("push 1");
    for (int i = 0; i < 3; i++) {
        KT_OK(finish(events[i]));
        KT_INT(fake_call((size_t)i)->priority, i * 100);
    }
    KT_OK(kvs_store_close(store));
}

static void a_call_without_an_event_needs_no_thread(void)
{
    kvs_store_t *store;
    kvs_event_t *event;

    fake_begin();
    store = fake_open(FAKE);
    init_big(store, 0);
    init_big(store, 1);
    fake_hold("push 0");
    event = push_with_priority(store, 0, 0);
    fake_wait_held("push 0");
    KT_OK(call(store, KVS_VERB_PUSH, 1, big_array(), BIG));
    KT_OK(call(store, KVS_VERB_PULL, 1, big_array(), BIG));
    fake_release("push 0");
    KT_OK(finish(event));
    KT_OK(kvs_store_close(store));
}

static void note_piece(void *arg, int64_t begin, int64_t end)
{
    int64_t *piece = arg;

    piece[0]++;
    piece[1] = end - begin;
}

static void a_loop_is_one_piece_on_the_callers_thread(void)
{
    int64_t piece[2] = {0, 0};

    kvsi_pool_parallel_for(1000, 1, note_piece, piece);
    KT_INT(piece[0], 1);
    KT_INT(piece[1], 1000);
}

static const kt_test_t tests[] = {
    KT_TEST(works_run_by_priority_and_equal_ones_by_sequence),
    KT_TEST(thousands_of_works_run_in_order),
    KT_TEST(operations_that_wait_for_a_thread_go_by_priority),
    KT_TEST(priority_does_not_change_the_order_on_a_key),
    KT_TEST(a_call_without_an_event_needs_no_thread),
    KT_TEST(a_loop_is_one_piece_on_the_callers_thread),
};

int main(int argc, char **argv)
{
    setenv("KVSTORE_THREADS", "1", 1);
    kvsi_pool_set_threads(1);
    kt_cond_init(&changed);
    return kt_run("priority", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
