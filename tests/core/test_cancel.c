/* SPDX-License-Identifier: Apache-2.0 */
/* Cancelling: every kind of wait ends, also from a signal handler; nothing is begun after it; and
 * the store can be closed. */
#include "calls.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A store with the big keys 1 and 2. */
static kvs_store_t *begin(const char *type)
{
    kvs_store_t *store;

    fake_begin();
    store = fake_open(type);
    fake_complete_inside(true);
    init_big(store, 1);
    init_big(store, 2);
    fake_begin();
    return store;
}

/* A push of key 1 with an event, held in the backend on a thread of the pool. */
static kvs_event_t *start_held(kvs_store_t *store)
{
    kvs_event_t *event;

    fake_hold("push 1");
    event = start_big(store, KVS_VERB_PUSH, 1);
    fake_wait_held("push 1");
    return event;
}

/* Close a store whose push is still held; then let the push end, and the store with it. */
static void check_left(kvs_store_t *store)
{
    KT_FAIL(kvs_store_close(store), KVS_ERR_CANCELLED,
            "the store was abandoned: close: the store was cancelled");
    KT_INT(fake_count("close"), 0);
    fake_release("push 1");
    fake_wait_count("close", 1);
}

/* What a thread waits in. */
typedef struct waiter {
    kt_thread_t thread;
    kvs_store_t *store;
    kvs_event_t *event;
    kvs_verb_t verb;
    kvs_status_t (*wait)(struct waiter *waiter);
    kvs_status_t status;
    char text[256];
} waiter_t;

static kvs_status_t in_event_wait(waiter_t *waiter)
{
    return kvs_event_wait(waiter->event, -1);
}

static kvs_status_t in_event_wait_with_deadline(waiter_t *waiter)
{
    return kvs_event_wait(waiter->event, KT_PATIENCE_MS);
}

static kvs_status_t in_wait_all(waiter_t *waiter)
{
    return kvs_store_wait_all(waiter->store, -1);
}

static kvs_status_t in_set_updater(waiter_t *waiter)
{
    return kvs_store_set_updater(waiter->store, add_updater, NULL);
}

static kvs_status_t in_close(waiter_t *waiter)
{
    return kvs_store_close(waiter->store);
}

static kvs_status_t in_call(waiter_t *waiter)
{
    return call(waiter->store, waiter->verb, 1, big_array(), BIG);
}

static void run_waiter(void *arg)
{
    waiter_t *waiter = arg;

    waiter->status = waiter->wait(waiter);
    snprintf(waiter->text, sizeof(waiter->text), "%s", kvs_last_error());
}

static void start_waiter(waiter_t *waiter)
{
    kt_thread_start(&waiter->thread, run_waiter, waiter);
    wait_for_sleepers(waiter->store, 1);
}

static void check_woken(waiter_t *waiter, const char *part)
{
    kt_thread_join(&waiter->thread);
    KT_INT(waiter->status, KVS_ERR_CANCELLED);
    KT_HAS(waiter->text, part);
}

/* With a push of key 1 held, what `wait` waits for is not to come. */
static void check_blocking_wait(kvs_status_t (*wait)(waiter_t *), kvs_verb_t verb, const char *part)
{
    kvs_store_t *store = begin(FAKE);
    waiter_t waiter = {.store = store, .event = start_held(store), .verb = verb, .wait = wait};

    start_waiter(&waiter);
    kvs_store_cancel(store);
    check_woken(&waiter, part);
    kvs_event_free(waiter.event);
    check_left(store);
}

static void event_wait_ends(void)
{
    check_blocking_wait(in_event_wait, 0, "event_wait: the store was cancelled");
    check_blocking_wait(in_event_wait_with_deadline, 0, "event_wait: the store was cancelled");
}

static void wait_all_ends(void)
{
    check_blocking_wait(in_wait_all, 0, "wait_all: the store was cancelled");
}

static void a_call_that_waits_for_its_key_ends(void)
{
    check_blocking_wait(in_call, KVS_VERB_PUSH, "push: the store was cancelled");
    check_blocking_wait(in_call, KVS_VERB_PULL, "pull: the store was cancelled");
}

static void a_call_that_waits_to_change_the_store_ends(void)
{
    check_blocking_wait(in_set_updater, 0, "set_updater: the store was cancelled");
    KT_INT(fake_count("set_updater"), 0);
}

static void close_ends(void)
{
    kvs_store_t *store = begin(FAKE);
    waiter_t waiter = {.store = store, .event = start_held(store), .wait = in_close};

    start_waiter(&waiter);
    kvs_store_cancel(store);
    check_woken(&waiter, "the store was abandoned: close: the store was cancelled");
    KT_INT(fake_count("close"), 0);
    fake_release("push 1");
    kvs_event_free(waiter.event);
    fake_wait_count("close", 1);
}

static void check_asynchronous_wait(kvs_verb_t verb, const char *name, const char *part)
{
    kvs_store_t *store = begin(FAKE_ASYNC);
    waiter_t waiter = {.store = store, .verb = verb, .wait = in_call};

    start_waiter(&waiter);
    kvs_store_cancel(store);
    check_woken(&waiter, part);
    KT_FAIL(kvs_store_close(store), KVS_ERR_CANCELLED, "the store was abandoned");
    fake_complete(name);
    fake_wait_count("close", 1);
}

static void a_call_that_waits_for_an_asynchronous_backend_ends(void)
{
    check_asynchronous_wait(KVS_VERB_PUSH, "push 1", "push: the store was cancelled");
    check_asynchronous_wait(KVS_VERB_PULL, "pull 1", "pull: the store was cancelled");
}

/* ---- Closing in good order ------------------------------------------------------------------- */

typedef struct ender {
    kt_thread_t thread;
    size_t n_cancels; /* after so many */
} ender_t;

/* As a backend's own thread: what is pending ends some time after the cancel. */
static void end_after_cancels(void *arg)
{
    ender_t *ender = arg;

    fake_wait_count("cancel", ender->n_cancels);
    fake_complete_failed("push 1", KVS_ERR_CANCELLED, "push: the store was cancelled");
}

static kvs_store_t *begin_cancelling(const char *timeout)
{
    const kvs_option_t option = {"timeout", timeout};
    kvs_store_t *store = NULL;

    fake_begin();
    KT_OK(kvs_store_create(FAKE_ASYNC_CANCELS, &option, 1, &store));
    fake_complete_inside(true);
    init_one(store, 1, 0);
    fake_begin();
    return store;
}

static void close_waits_a_moment_for_what_an_asynchronous_backend_ends(void)
{
    kvs_store_t *store = begin_cancelling("60");
    ender_t ender = {.n_cancels = 2}; /* that of close, too */
    kvs_event_t *event = NULL;
    float value = 1;

    KT_OK(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), &value, 1, &event));
    kt_thread_start(&ender.thread, end_after_cancels, &ender);
    kvs_store_cancel(store);
    KT_FAIL(kvs_store_close(store), KVS_ERR_CANCELLED, "close: the store was cancelled");
    KT_TRUE(strstr(kvs_last_error(), "abandoned") == NULL);
    KT_INT(fake_count("close"), 1); /* when it returned */
    KT_INT(fake_count("release 1"), 1);
    kt_thread_join(&ender.thread);
    KT_FAIL(finish(event), KVS_ERR_CANCELLED, "push: the store was cancelled");
}

static void close_past_its_deadline_cancels_and_closes_in_good_order(void)
{
    kvs_store_t *store = begin_cancelling("0.05");
    ender_t ender = {.n_cancels = 1};
    float value = 1;
    kvs_event_t *event = NULL;

    KT_OK(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), &value, 1, &event));
    kt_thread_start(&ender.thread, end_after_cancels, &ender);
    KT_FAIL(kvs_store_close(store), KVS_ERR_TIMEOUT,
            "close: 1 operations have not completed; the oldest is push of key 1");
    KT_TRUE(strstr(kvs_last_error(), "abandoned") == NULL);
    KT_INT(fake_count("close"), 1);
    kt_thread_join(&ender.thread);
    KT_FAIL(finish(event), KVS_ERR_CANCELLED, "push: the store was cancelled");
}

static void what_does_not_end_then_is_left(void)
{
    kvs_store_t *store = begin_cancelling("60");
    kvs_event_t *event = NULL;
    float value = 1;

    KT_OK(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), &value, 1, &event));
    kvs_store_cancel(store);
    KT_FAIL(kvs_store_close(store), KVS_ERR_CANCELLED, "the store was abandoned");
    KT_INT(fake_count("close"), 0);
    kvs_event_free(event);
    fake_complete("push 1");
    fake_wait_count("close", 1);
}

static void several_waiters_all_end(void)
{
    kvs_store_t *store = begin(FAKE);
    kvs_event_t *event = start_held(store);
    waiter_t waiters[] = {
        {.store = store, .event = event, .wait = in_event_wait},
        {.store = store, .event = event, .wait = in_event_wait},
        {.store = store, .wait = in_wait_all},
        {.store = store, .verb = KVS_VERB_PULL, .wait = in_call},
    };

    for (size_t i = 0; i < 4; i++) {
        kt_thread_start(&waiters[i].thread, run_waiter, &waiters[i]);
    }
    wait_for_sleepers(store, 4);
    kvs_store_cancel(store);
    for (size_t i = 0; i < 4; i++) {
        check_woken(&waiters[i], "the store was cancelled");
    }
    kvs_event_free(event);
    check_left(store);
}

static bool has_ended(void *event)
{
    return is_done(event);
}

static void wait_until_done(kvs_event_t *event)
{
    kt_until(has_ended, event, "the end of an operation");
}

/* ---- What is left undone --------------------------------------------------------------------- */

static void queued_operations_are_not_begun(void)
{
    kvs_store_t *store = begin(FAKE);
    kvs_event_t *held = start_held(store), *queued = start_big(store, KVS_VERB_PULL, 1);

    kvs_store_cancel(store);
    fake_release("push 1");
    wait_until_done(held);
    KT_OK(finish(held)); /* it had begun */
    wait_until_done(queued);
    KT_FAIL(finish(queued), KVS_ERR_CANCELLED, "pull: the store was cancelled");
    (void)kvs_store_close(store); /* in time or not, it ends the store */
    fake_wait_count("close", 1);
    KT_STR(fake_calls(), "push 1");
}

static kvs_status_t in_list(waiter_t *waiter)
{
    float *const data[] = {big_array(), big_array()};

    return call_list(waiter->store, KVS_VERB_PULL, (const int64_t[]){1, 2}, 2, data, BIG, NULL);
}

static void a_list_that_waits_for_all_its_keys_leaves_every_queue(void)
{
    kvs_store_t *store = begin(FAKE);
    waiter_t waiter = {.store = store, .event = start_held(store), .wait = in_list};

    start_waiter(&waiter); /* its arrays are one: it owns key 2 and waits for key 1 */
    kvs_store_cancel(store);
    check_woken(&waiter, "pull: the store was cancelled");
    kvs_event_free(waiter.event);
    check_left(store);
    KT_STR(fake_calls(), "push 1");
}

static void later_calls_are_refused(void)
{
    kvs_store_t *store = begin(FAKE);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_event_t *event = NULL;
    int number = -1;

    kvs_store_cancel(NULL);
    kvs_store_cancel(store);
    kvs_store_cancel(store);
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_CANCELLED, "push: the store was cancelled");
    KT_FAIL(call(store, KVS_VERB_INIT, 9, big_array(), 1), KVS_ERR_CANCELLED, "init");
    KT_FAIL(call(store, KVS_VERB_PULL, 1, big_array(), BIG), KVS_ERR_CANCELLED, "pull");
    KT_FAIL(call(store, KVS_VERB_PUSHPULL, 1, big_array(), BIG), KVS_ERR_CANCELLED, "pushpull");
    KT_FAIL(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), big_array(), BIG, &event),
            KVS_ERR_CANCELLED, "push");
    KT_TRUE(event == NULL);
    KT_FAIL(kvs_store_set_updater(store, NULL, NULL), KVS_ERR_CANCELLED, "set_updater");
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_CANCELLED, "set_optimizer");
    KT_FAIL(kvs_store_wait_all(store, 0), KVS_ERR_CANCELLED, "wait_all");
    KT_FAIL(kvs_store_barrier(store), KVS_ERR_CANCELLED, "barrier");
    KT_STR(fake_calls(), "");
    KT_OK(kvs_store_rank(store, &number));
    KT_INT(number, 0);
    KT_STR(kvs_store_type(store), FAKE);
    KT_OK(kvs_store_close(store));
    KT_INT(fake_count("close"), 1);
}

static void an_operation_that_ended_before_keeps_its_status(void)
{
    kvs_store_t *store = begin(FAKE);
    kvs_event_t *good = start_big(store, KVS_VERB_PUSH, 1), *bad;

    fake_fail("push 2", KVS_ERR_IO, "disk full");
    bad = start_big(store, KVS_VERB_PUSH, 2);
    KT_OK(kvs_store_wait_all(store, -1));
    kvs_store_cancel(store);
    KT_OK(finish(good));
    KT_FAIL(finish(bad), KVS_ERR_IO, "disk full");
    KT_OK(kvs_store_close(store));
}

/* ---- In a signal handler --------------------------------------------------------------------- */

static kvs_store_t *store_of_handler;
static atomic_int n_rounds; /* that the thread which is to be interrupted has begun */

static void cancel_in_handler(int number)
{
    (void)number;
    kvs_store_cancel(store_of_handler);
}

static void set_handler(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

static void a_signal_handler_may_cancel_while_its_own_thread_waits(void)
{
    kvs_store_t *store = begin(FAKE);
    waiter_t waiter = {.store = store, .event = start_held(store), .wait = in_event_wait};

    store_of_handler = store;
    set_handler(cancel_in_handler);
    start_waiter(&waiter);
    KT_INT(pthread_kill(waiter.thread.id, SIGUSR1), 0);
    check_woken(&waiter, "event_wait: the store was cancelled");
    set_handler(SIG_DFL);
    kvs_event_free(waiter.event);
    check_left(store);
}

static void a_signal_handler_may_cancel_while_another_thread_waits(void)
{
    kvs_store_t *store = begin(FAKE);
    waiter_t waiter = {.store = store, .event = start_held(store), .wait = in_wait_all};

    store_of_handler = store;
    set_handler(cancel_in_handler);
    start_waiter(&waiter);
    KT_INT(raise(SIGUSR1), 0); /* handled here before it returns */
    check_woken(&waiter, "wait_all: the store was cancelled");
    set_handler(SIG_DFL);
    kvs_event_free(waiter.event);
    check_left(store);
}

/* A thread that works until it hears of the cancel. */
static void work_until_cancelled(void *arg)
{
    waiter_t *waiter = arg;
    kvs_store_t *store = waiter->store;
    kvs_status_t status = KVS_OK;

    for (int i = 0; status == KVS_OK; i++) {
        kvs_event_t *event = NULL;

        atomic_store(&n_rounds, i);
        status = push_one(store, 7, 1);
        if (status == KVS_OK) {
            status = call_key(store, KVS_VERB_PULL, kvs_key_int(1), big_array(), BIG, &event);
        }
        if (status == KVS_OK && i % 3 == 0) {
            status = kvs_event_wait(event, -1);
        }
        kvs_event_free(event);
        if (status == KVS_OK && i % 5 == 0) {
            status = kvs_store_wait_all(store, -1);
        }
    }
    waiter->status = status;
}

static bool has_worked(void *arg)
{
    return atomic_load(&n_rounds) >= *(const int *)arg;
}

static void check_cancel_amid_work(const char *type)
{
    set_handler(cancel_in_handler);
    for (int rounds = 0; rounds < 12; rounds++) {
        kvs_store_t *store = begin(type);
        waiter_t waiter = {.store = store};
        kvs_status_t status;

        fake_complete_inside(true);
        init_one(store, 7, 0);
        store_of_handler = store;
        atomic_store(&n_rounds, 0);
        kt_thread_start(&waiter.thread, work_until_cancelled, &waiter);
        kt_until(has_worked, &rounds, "some rounds of work");
        KT_INT(pthread_kill(waiter.thread.id, SIGUSR1), 0);
        kt_thread_join(&waiter.thread);
        KT_INT(waiter.status, KVS_ERR_CANCELLED);
        fake_begin(); /* the record may be full: of the work, where this thread was late */
        status = kvs_store_close(store); /* what the pool was running may still be */
        KT_TRUE(status == KVS_OK || status == KVS_ERR_CANCELLED);
        fake_wait_count("close", 1);
    }
    set_handler(SIG_DFL);
}

static void a_signal_handler_may_cancel_whatever_its_thread_is_doing(void)
{
    check_cancel_amid_work(FAKE);
    check_cancel_amid_work(FAKE_ASYNC);
}

static void do_nothing(int number)
{
    (void)number;
}

static void a_signal_alone_wakes_nobody(void)
{
    kvs_store_t *store = begin(FAKE);
    waiter_t waiter = {.store = store, .event = start_held(store), .wait = in_event_wait};

    set_handler(do_nothing);
    start_waiter(&waiter);
    KT_INT(pthread_kill(waiter.thread.id, SIGUSR1), 0);
    fake_release("push 1");
    kt_thread_join(&waiter.thread);
    KT_OK(waiter.status);
    set_handler(SIG_DFL);
    kvs_event_free(waiter.event);
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(event_wait_ends),
    KT_TEST(wait_all_ends),
    KT_TEST(a_call_that_waits_for_its_key_ends),
    KT_TEST(a_call_that_waits_to_change_the_store_ends),
    KT_TEST(close_ends),
    KT_TEST(a_call_that_waits_for_an_asynchronous_backend_ends),
    KT_TEST(close_waits_a_moment_for_what_an_asynchronous_backend_ends),
    KT_TEST(close_past_its_deadline_cancels_and_closes_in_good_order),
    KT_TEST(what_does_not_end_then_is_left),
    KT_TEST(several_waiters_all_end),
    KT_TEST(queued_operations_are_not_begun),
    KT_TEST(a_list_that_waits_for_all_its_keys_leaves_every_queue),
    KT_TEST(later_calls_are_refused),
    KT_TEST(an_operation_that_ended_before_keeps_its_status),
    KT_TEST(a_signal_handler_may_cancel_while_its_own_thread_waits),
    KT_TEST(a_signal_handler_may_cancel_while_another_thread_waits),
    KT_TEST(a_signal_handler_may_cancel_whatever_its_thread_is_doing),
    KT_TEST(a_signal_alone_wakes_nobody),
};
KT_MAIN("cancel", tests)
