/* SPDX-License-Identifier: Apache-2.0 */
/* Events: waiting, testing, callbacks; and who is told an error when its event was given up. */
#include "calls.h"

#include <stdlib.h>

/* A store with the big keys 1 and 2; then the record begins. */
static kvs_store_t *begin(void)
{
    kvs_store_t *store;

    fake_begin();
    store = fake_open(FAKE);
    init_big(store, 1);
    init_big(store, 2);
    fake_begin();
    return store;
}

static kvs_status_t push_big(kvs_store_t *store, int64_t key)
{
    return call(store, KVS_VERB_PUSH, key, big_array(), BIG);
}

/* A push of key 1 with an event, held in the backend. */
static kvs_event_t *start_held(kvs_store_t *store)
{
    kvs_event_t *event;

    fake_hold("push 1");
    event = start_big(store, KVS_VERB_PUSH, 1);
    fake_wait_held("push 1");
    return event;
}

static bool has_ended(void *event)
{
    return is_done(event);
}

/* Wait without being told the status. */
static void wait_untold(kvs_event_t *event)
{
    kt_until(has_ended, event, "the end of an operation");
}

/* A push of `key` that fails and that nobody is told of; it has ended. */
static void owe(kvs_store_t *store, int64_t key, const char *call_name, const char *text)
{
    kvs_event_t *event;

    fake_fail(call_name, KVS_ERR_IO, text);
    event = start_big(store, KVS_VERB_PUSH, key);
    wait_untold(event);
    kvs_event_free(event);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void waiting_for_no_time_only_looks(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = start_held(store);

    KT_INT(is_done(event), 0);
    KT_FAIL(kvs_event_wait(event, 0), KVS_ERR_TIMEOUT,
            "event_wait: not completed within 0 ms; the push goes on");
    fake_release("push 1");
    KT_OK(kvs_event_wait(event, KT_PATIENCE_MS));
    KT_INT(is_done(event), 1);
    KT_OK(kvs_event_wait(event, 0));
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void waiting_ends_at_the_deadline_and_the_operation_goes_on(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = start_held(store);

    KT_FAIL(kvs_event_wait(event, 20), KVS_ERR_TIMEOUT, "not completed within 20 ms");
    fake_release("push 1");
    KT_OK(finish(event));
    KT_STR(fake_calls(), "push 1");
    KT_OK(kvs_store_close(store));
}

typedef struct waiter {
    kt_thread_t thread;
    kvs_event_t *event;
    kvs_status_t status;
    char text[128];
} waiter_t;

static void wait_for_ever(void *arg)
{
    waiter_t *waiter = arg;

    waiter->status = kvs_event_wait(waiter->event, -1);
    snprintf(waiter->text, sizeof(waiter->text), "%s", kvs_last_error());
}

static void several_threads_may_wait_for_ever_and_learn_the_same(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;
    waiter_t waiters[3];

    fake_fail("push 1", KVS_ERR_RANGE, "out of reach");
    event = start_held(store);
    for (int i = 0; i < 3; i++) {
        waiters[i].event = event;
        kt_thread_start(&waiters[i].thread, wait_for_ever, &waiters[i]);
    }
    wait_for_sleepers(store, 3);
    fake_release("push 1");
    for (int i = 0; i < 3; i++) {
        kt_thread_join(&waiters[i].thread);
        KT_INT(waiters[i].status, KVS_ERR_RANGE);
        KT_STR(waiters[i].text, "out of reach");
    }
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void a_small_operation_may_be_done_at_once(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = NULL;
    float value = 3;

    KT_OK(call_key(store, KVS_VERB_INIT, kvs_key_int(7), &value, 1, &event));
    KT_OK(finish(event));
    KT_OK(call_key(store, KVS_VERB_PULL, kvs_key_int(7), &value, 1, &event));
    KT_OK(finish(event));
    KT_REAL(value, 3);
    KT_OK(kvs_store_close(store));
}

static void an_event_outlives_its_store(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *good, *bad;

    good = start_big(store, KVS_VERB_PUSH, 2);
    fake_fail("push 1", KVS_ERR_IO, "disk full");
    bad = start_big(store, KVS_VERB_PUSH, 1);
    KT_OK(kvs_store_close(store)); /* its holder will be told, not the closer */
    KT_INT(is_done(good), 1);
    KT_OK(kvs_event_wait(good, -1));
    KT_FAIL(kvs_event_wait(bad, 0), KVS_ERR_IO, "disk full");
    kvs_event_free(good);
    kvs_event_free(bad);
}

static void null_is_refused(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = start_big(store, KVS_VERB_PUSH, 1);
    int done;

    KT_FAIL(kvs_event_wait(NULL, 0), KVS_ERR_ARGUMENT, "the event is NULL");
    KT_FAIL(kvs_event_test(NULL, &done), KVS_ERR_ARGUMENT, "the event is NULL");
    KT_FAIL(kvs_event_test(event, NULL), KVS_ERR_ARGUMENT, "ret_done is NULL");
    KT_FAIL(kvs_event_on_complete(NULL, NULL, NULL), KVS_ERR_ARGUMENT, "the event is NULL");
    KT_FAIL(kvs_event_on_complete(event, NULL, NULL), KVS_ERR_ARGUMENT, "the callback is NULL");
    kvs_event_free(NULL);
    KT_OK(finish(event));
    KT_OK(kvs_store_close(store));
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

typedef struct told {
    kvs_store_t *store;
    kvs_event_t *event;
    int n;
    kvs_status_t status, push, wait, nested;
    char text[128], push_text[128];
    pthread_t thread;
} told_t;

static void note_told(kvs_status_t status, const char *text, void *arg)
{
    told_t *told = arg;

    told->n++;
    told->status = status;
    told->thread = pthread_self();
    snprintf(told->text, sizeof(told->text), "%s", text);
}

static void a_callback_is_called_once_when_the_operation_completes(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = start_held(store);
    told_t told = {.status = KVS_ERR_INTERNAL};

    KT_OK(kvs_event_on_complete(event, note_told, &told));
    KT_INT(told.n, 0);
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS)); /* for callbacks too */
    KT_INT(told.n, 1);
    KT_OK(told.status);
    KT_STR(told.text, "");
    KT_TRUE(!pthread_equal(told.thread, pthread_self()));
    KT_OK(finish(event));
    KT_INT(told.n, 1);
    KT_OK(kvs_store_close(store));
}

static void a_callback_set_after_completion_is_called_at_once(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;
    told_t told = {.n = 0};

    fake_fail("push 1", KVS_ERR_RANGE, "out of reach");
    event = start_big(store, KVS_VERB_PUSH, 1);
    (void)kvs_event_wait(event, KT_PATIENCE_MS);
    KT_OK(kvs_event_on_complete(event, note_told, &told));
    KT_INT(told.n, 1);
    KT_INT(told.status, KVS_ERR_RANGE);
    KT_STR(told.text, "out of reach");
    KT_TRUE(pthread_equal(told.thread, pthread_self()));
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void a_second_callback_is_refused(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = start_held(store);
    told_t first = {.n = 0}, second = {.n = 0};

    KT_OK(kvs_event_on_complete(event, note_told, &first));
    KT_FAIL(kvs_event_on_complete(event, note_told, &second), KVS_ERR_STATE,
            "the event has a callback already");
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_FAIL(kvs_event_on_complete(event, note_told, &second), KVS_ERR_STATE, "has a callback");
    KT_INT(first.n, 1);
    KT_INT(second.n, 0);
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void use_store(kvs_status_t status, const char *text, void *arg)
{
    told_t *told = arg;
    kvs_store_t *store = NULL;

    note_told(status, text, arg);
    told->push = push_big(told->store, 2);
    snprintf(told->push_text, sizeof(told->push_text), "%s", kvs_last_error());
    told->wait = kvs_event_wait(told->event, 0);
    told->nested = kvs_store_create(FAKE, NULL, 0, &store);
}

static void check_refused_in_callback(const told_t *told)
{
    KT_INT(told->n, 1);
    KT_INT(told->push, KVS_ERR_STATE);
    KT_HAS(told->push_text, "push: not allowed in a callback");
    KT_INT(told->wait, KVS_ERR_STATE);
    KT_INT(told->nested, KVS_ERR_STATE);
}

static void a_callback_may_use_no_store(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = start_held(store);
    told_t later = {.store = store, .event = event}, at_once = later;

    KT_OK(kvs_event_on_complete(event, use_store, &later));
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    check_refused_in_callback(&later);
    kvs_event_free(event);

    event = at_once.event = start_big(store, KVS_VERB_PUSH, 2);
    KT_OK(kvs_event_wait(event, KT_PATIENCE_MS));
    KT_OK(kvs_event_on_complete(event, use_store, &at_once));
    check_refused_in_callback(&at_once);
    KT_OK(push_big(store, 2)); /* this thread's callback is over */
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void free_own_event(kvs_status_t status, const char *text, void *arg)
{
    told_t *told = arg;

    kvs_event_free(told->event);
    note_told(status, text, arg);
}

static void a_callback_may_free_its_event(void)
{
    kvs_store_t *store = begin();
    told_t told = {.event = start_held(store)};

    KT_OK(kvs_event_on_complete(told.event, free_own_event, &told));
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_INT(told.n, 1);
    KT_OK(kvs_store_close(store));
}

static void a_callback_is_called_although_its_event_was_freed(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;
    told_t told = {.n = 0};

    fake_fail("push 1", KVS_ERR_RANGE, "out of reach");
    event = start_held(store);
    KT_OK(kvs_event_on_complete(event, note_told, &told));
    kvs_event_free(event);
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS)); /* the callback was told */
    KT_INT(told.status, KVS_ERR_RANGE);
    KT_OK(kvs_store_close(store));
}

/* ---- Errors nobody was told ------------------------------------------------------------------ */

static void an_operation_goes_on_when_its_event_is_freed(void)
{
    kvs_store_t *store = begin();

    kvs_event_free(start_held(store));
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_STR(fake_calls(), "push 1");
    KT_OK(kvs_store_close(store));
}

static void an_owed_error_is_told_once_by_the_next_operation_on_the_key(void)
{
    kvs_store_t *store = begin();

    owe(store, 1, "push 1", "disk full");
    KT_OK(push_big(store, 2)); /* another key */
    KT_FAIL(push_big(store, 1), KVS_ERR_IO, "push: an earlier push failed: disk full");
    KT_STR(fake_calls(), "push 1, push 2"); /* and was not carried out */
    KT_OK(push_big(store, 1));
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_OK(kvs_store_close(store));
}

static void an_error_is_owed_also_when_the_event_was_freed_first(void)
{
    kvs_store_t *store = begin();

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    kvs_event_free(start_held(store));
    fake_release("push 1");
    KT_FAIL(call(store, KVS_VERB_PULL, 1, big_array(), BIG), KVS_ERR_IO,
            "pull: an earlier push failed: disk full");
    KT_OK(kvs_store_close(store));
}

static void an_operation_queued_behind_the_failed_one_tells_its_error(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *queued;

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    kvs_event_free(start_held(store));
    queued = start_big(store, KVS_VERB_PULL, 1);
    fake_release("push 1");
    KT_FAIL(kvs_event_wait(queued, KT_PATIENCE_MS), KVS_ERR_IO,
            "an earlier push failed: disk full");
    kvs_event_free(queued);
    KT_STR(fake_calls(), "push 1");
    KT_OK(push_big(store, 1));
    KT_OK(kvs_store_close(store));
}

static void an_owed_error_is_told_by_a_call_with_an_event_itself(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = NULL;

    owe(store, 1, "push 1", "disk full");
    KT_FAIL(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), big_array(), BIG, &event), KVS_ERR_IO,
            "disk full");
    KT_TRUE(event == NULL);
    KT_OK(kvs_store_close(store));
}

static void an_owed_error_is_told_by_a_list_that_has_the_key(void)
{
    kvs_store_t *store = begin();
    float *const data[] = {big_array(), big_array()};

    owe(store, 1, "push 1", "disk full");
    KT_FAIL(call_list(store, KVS_VERB_PUSH, (const int64_t[]){2, 1}, 2, data, BIG, NULL),
            KVS_ERR_IO, "disk full");
    KT_STR(fake_calls(), "push 1"); /* nor was the other key pushed */
    KT_OK(kvs_store_close(store));
}

static void owed_errors_are_told_one_by_one_oldest_first(void)
{
    kvs_store_t *store = begin();

    owe(store, 2, "push 2", "first");
    fake_fail("push 1", KVS_ERR_IO, "second");
    kvs_event_free(start_held(store));
    fake_release("push 1");
    KT_FAIL(kvs_store_wait_all(store, KT_PATIENCE_MS), KVS_ERR_IO,
            "wait_all: an earlier push failed: first");
    KT_FAIL(kvs_store_wait_all(store, KT_PATIENCE_MS), KVS_ERR_IO,
            "wait_all: an earlier push failed: second");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_OK(kvs_store_close(store));
}

static void an_owed_error_is_told_by_close_at_last(void)
{
    kvs_store_t *store = begin();

    owe(store, 1, "push 1", "disk full");
    KT_FAIL(kvs_store_close(store), KVS_ERR_IO, "close: an earlier push failed: disk full");
    KT_INT(fake_count("close"), 1);
}

static void an_error_that_close_tells_hides_one_of_the_backends_close(void)
{
    kvs_store_t *store = begin();

    owe(store, 1, "push 1", "disk full");
    fake_fail("close", KVS_ERR_PEER, "no farewell");
    KT_FAIL(kvs_store_close(store), KVS_ERR_IO, "disk full");
    store = begin();
    fake_fail("close", KVS_ERR_PEER, "no farewell");
    KT_FAIL(kvs_store_close(store), KVS_ERR_PEER, "no farewell");
}

static void an_error_somebody_was_told_is_not_owed(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    event = start_big(store, KVS_VERB_PUSH, 1);
    KT_FAIL(finish(event), KVS_ERR_IO, "disk full");
    KT_OK(push_big(store, 1));
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_OK(kvs_store_close(store));
}

static void an_error_whose_event_is_still_held_is_not_owed_yet(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    event = start_big(store, KVS_VERB_PUSH, 1);
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_OK(push_big(store, 1));
    kvs_event_free(event);
    KT_FAIL(push_big(store, 1), KVS_ERR_IO, "disk full");
    KT_OK(kvs_store_close(store));
}

static void a_call_that_times_out_waiting_has_not_told_the_error(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    event = start_held(store);
    KT_FAIL(kvs_event_wait(event, 1), KVS_ERR_TIMEOUT, "1 ms");
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    kvs_event_free(event);
    KT_FAIL(kvs_store_close(store), KVS_ERR_IO, "disk full");
}

static void the_error_of_an_init_is_told_by_the_next_use_of_the_key(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;

    fake_fail("init 7", KVS_ERR_NO_MEMORY, "no room");
    event = start_big(store, KVS_VERB_INIT, 7);
    wait_untold(event);
    kvs_event_free(event);
    KT_FAIL(push_big(store, 7), KVS_ERR_NO_MEMORY, "push: an earlier init failed: no room");
    KT_FAIL(push_big(store, 7), KVS_ERR_NOT_FOUND, "key 7 was never initialised");
    KT_OK(kvs_store_close(store));
}

/* ---- Errors nobody asks for ------------------------------------------------------------------ */

static void errors_that_nobody_will_ask_for_are_logged_once(void)
{
    kvs_store_t *store = begin();
    const char *logged;

    owe(store, 1, "push 1", "disk full");
    owe(store, 2, "push 2", "disk slow");
    kt_stderr_begin();
    KT_FAIL(kvs_store_close(store), KVS_ERR_IO, "close: an earlier push failed: disk full");
    logged = kt_stderr_end();
    KT_STR(logged, "kvstore warn store: push of key 2 failed, which nobody was told: disk slow\n");
}

static void many_errors_that_nobody_will_ask_for_are_one_line(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *events[3];

    for (int i = 0; i < 3; i++) {
        fake_fail("push 2", KVS_ERR_IO, i == 0 ? "disk full" : "disk slow");
        events[i] = start_big(store, KVS_VERB_PUSH, 2);
        wait_untold(events[i]);
    }
    owe(store, 1, "push 1", "first");
    for (int i = 0; i < 3; i++) {
        kvs_event_free(events[i]);
    }
    kt_stderr_begin();
    KT_FAIL(kvs_store_close(store), KVS_ERR_IO, "close: an earlier push failed: first");
    KT_STR(kt_stderr_end(),
           "kvstore warn store: push of key 2 and 2 operations after it failed, which "
           "nobody was told: disk full\n");
}

static void an_event_freed_after_its_store_leaves_its_error_in_the_log(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *told, *untold;

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    told = start_big(store, KVS_VERB_PUSH, 1);
    fake_fail("push 2", KVS_ERR_IO, "disk slow");
    untold = start_big(store, KVS_VERB_PUSH, 2);
    KT_OK(kvs_store_close(store));
    KT_FAIL(kvs_event_wait(told, 0), KVS_ERR_IO, "disk full");
    kt_stderr_begin();
    kvs_event_free(told);
    KT_STR(kt_stderr_end(), "");
    kt_stderr_begin();
    kvs_event_free(untold);
    KT_STR(kt_stderr_end(),
           "kvstore warn store: push of key 2 failed, which nobody was told: disk slow\n");
}

static void of_several_events_freed_after_their_store_the_first_is_logged(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *events[2];

    for (int i = 0; i < 2; i++) {
        fake_fail("push 1", KVS_ERR_IO, i == 0 ? "disk full" : "disk slow");
        events[i] = start_big(store, KVS_VERB_PUSH, 1);
    }
    KT_OK(kvs_store_close(store));
    kt_stderr_begin();
    kvs_event_free(events[0]);
    kvs_event_free(events[1]);
    KT_STR(kt_stderr_end(),
           "kvstore warn store: push of key 1 failed, which nobody was told: disk full\n");
}

static void a_callback_that_told_nobody_leaves_the_error_owed(void)
{
    kvs_store_t *store = begin();
    told_t told = {.n = 0};
    kvs_event_t *event;

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    event = start_held(store);
    KT_OK(kvs_event_on_complete(event, note_told, &told));
    fake_release("push 1");
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS)); /* the callback was told */
    KT_INT(told.n, 1);
    kvs_event_drop(event);
    KT_FAIL(push_big(store, 1), KVS_ERR_IO, "push: an earlier push failed: disk full");
    KT_OK(push_big(store, 1));
    event = start_big(store, KVS_VERB_PUSH, 1);
    KT_OK(kvs_event_on_complete(event, note_told, &told));
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    kvs_event_drop(event); /* no error, nothing owed */
    kvs_event_drop(NULL);
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(waiting_for_no_time_only_looks),
    KT_TEST(waiting_ends_at_the_deadline_and_the_operation_goes_on),
    KT_TEST(several_threads_may_wait_for_ever_and_learn_the_same),
    KT_TEST(a_small_operation_may_be_done_at_once),
    KT_TEST(an_event_outlives_its_store),
    KT_TEST(null_is_refused),
    KT_TEST(a_callback_is_called_once_when_the_operation_completes),
    KT_TEST(a_callback_set_after_completion_is_called_at_once),
    KT_TEST(a_second_callback_is_refused),
    KT_TEST(a_callback_may_use_no_store),
    KT_TEST(a_callback_may_free_its_event),
    KT_TEST(a_callback_is_called_although_its_event_was_freed),
    KT_TEST(an_operation_goes_on_when_its_event_is_freed),
    KT_TEST(an_owed_error_is_told_once_by_the_next_operation_on_the_key),
    KT_TEST(an_error_is_owed_also_when_the_event_was_freed_first),
    KT_TEST(an_operation_queued_behind_the_failed_one_tells_its_error),
    KT_TEST(an_owed_error_is_told_by_a_call_with_an_event_itself),
    KT_TEST(an_owed_error_is_told_by_a_list_that_has_the_key),
    KT_TEST(owed_errors_are_told_one_by_one_oldest_first),
    KT_TEST(an_owed_error_is_told_by_close_at_last),
    KT_TEST(an_error_that_close_tells_hides_one_of_the_backends_close),
    KT_TEST(an_error_somebody_was_told_is_not_owed),
    KT_TEST(an_error_whose_event_is_still_held_is_not_owed_yet),
    KT_TEST(a_call_that_times_out_waiting_has_not_told_the_error),
    KT_TEST(the_error_of_an_init_is_told_by_the_next_use_of_the_key),
    KT_TEST(errors_that_nobody_will_ask_for_are_logged_once),
    KT_TEST(many_errors_that_nobody_will_ask_for_are_one_line),
    KT_TEST(an_event_freed_after_its_store_leaves_its_error_in_the_log),
    KT_TEST(of_several_events_freed_after_their_store_the_first_is_logged),
    KT_TEST(a_callback_that_told_nobody_leaves_the_error_owed),
};
KT_MAIN("event", tests)
