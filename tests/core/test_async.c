/* SPDX-License-Identifier: Apache-2.0 */
/* The engine with asynchronous backends: what a call waits for, who is told what failed, deadlines,
 * and operations that complete in the call, on another thread, or after the store was left. */
#include "calls.h"

#include <stdlib.h>

/* A store with the keys 1 to 3 of one element; then it keeps what it is handed. */
static kvs_store_t *begin_with(const char *type, const char *timeout)
{
    const kvs_option_t option = {"timeout", timeout};
    kvs_store_t *store = NULL;

    fake_begin();
    KT_OK(kvs_store_create(type, &option, 1, &store));
    fake_complete_inside(true);
    for (int64_t key = 1; key <= 3; key++) {
        init_one(store, key, 0);
    }
    fake_begin();
    return store;
}

static kvs_store_t *begin(void)
{
    return begin_with(FAKE_ASYNC, "60");
}

static kvs_event_t *start(kvs_store_t *store, kvs_verb_t verb, int64_t key, float *value)
{
    kvs_event_t *event = NULL;

    KT_OK(call_key(store, verb, kvs_key_int(key), value, 1, &event));
    return event;
}

static kvs_status_t push_at_once(kvs_store_t *store, int64_t key, float value)
{
    kvs_status_t status;

    fake_complete_inside(true);
    status = push_one(store, key, value);
    fake_complete_inside(false);
    return status;
}

/* ---- What a call waits for ------------------------------------------------------------------- */

static void a_push_returns_when_its_values_are_consumed(void)
{
    kvs_store_t *store = begin();
    caller_t push;
    float value = 5;

    caller_start(&push, store, KVS_VERB_PUSH, 1, &value, 1);
    fake_wait_handed("push 1");
    wait_for_sleepers(store, 1);
    fake_consume("push 1");
    KT_OK(caller_join(&push));
    KT_FAIL(kvs_store_wait_all(store, 0), KVS_ERR_TIMEOUT,
            "wait_all: 1 operations have not completed");
    fake_complete("push 1");
    KT_OK(kvs_store_wait_all(store, -1));
    KT_OK(kvs_store_close(store));
}

static void check_waits_for_completion(kvs_verb_t verb, const char *name)
{
    kvs_store_t *store = begin();
    caller_t caller;
    float value = 5;

    caller_start(&caller, store, verb, verb == KVS_VERB_INIT || verb == KVS_VERB_BROADCAST ? 9 : 1,
                 &value, 1);
    fake_wait_handed(name);
    fake_consume(name);
    wait_for_sleepers(store, 1);
    fake_complete(name);
    KT_OK(caller_join(&caller));
    KT_OK(kvs_store_wait_all(store, 0));
    KT_OK(kvs_store_close(store));
}

static void other_calls_return_when_they_are_complete(void)
{
    check_waits_for_completion(KVS_VERB_PULL, "pull 1");
    check_waits_for_completion(KVS_VERB_PUSHPULL, "pushpull 1");
    check_waits_for_completion(KVS_VERB_INIT, "init 9");
    check_waits_for_completion(KVS_VERB_BROADCAST, "broadcast 9");
}

static void a_push_that_completes_unconsumed_returns_too(void)
{
    kvs_store_t *store = begin();
    caller_t push;
    float value = 5;

    caller_start(&push, store, KVS_VERB_PUSH, 1, &value, 1);
    fake_complete("push 1");
    KT_OK(caller_join(&push));
    KT_OK(kvs_store_close(store));
}

static void operations_may_complete_within_the_verb(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;
    float value = 7;

    fake_complete_inside(true);
    KT_OK(push_one(store, 1, 4));
    KT_REAL(pull_one(store, 1), 4);
    event = start(store, KVS_VERB_PUSHPULL, 1, &value);
    KT_INT(is_done(event), 1);
    KT_OK(finish(event));
    KT_REAL(value, 7);
    KT_OK(kvs_store_close(store));
}

static void with_an_event_a_call_returns_at_once(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *push, *pull;
    float pushed = 5, pulled = -1;

    push = start(store, KVS_VERB_PUSH, 1, &pushed);
    pull = start(store, KVS_VERB_PULL, 1, &pulled);
    fake_consume("push 1");
    KT_INT(is_done(push), 0);
    KT_FAIL(kvs_event_wait(pull, 0), KVS_ERR_TIMEOUT, "the pull goes on");
    fake_complete("push 1");
    KT_INT(is_done(push), 1);
    KT_INT(is_done(pull), 0);
    fake_complete("pull 1");
    KT_OK(finish(pull));
    KT_OK(finish(push));
    KT_REAL(pulled, 5);
    KT_OK(kvs_store_close(store));
}

static void arrays_are_waited_for_in_slices(void)
{
    kvs_store_t *store = begin();
    float pushed = 5, pulled = -1;
    kvs_event_t *push = start(store, KVS_VERB_PUSH, 1, &pushed);
    kvs_event_t *pull = start(store, KVS_VERB_PULL, 1, &pulled);
    int is_free = -1;

    KT_OK(kvs_event_wait_arrays(push, 0, &is_free));
    KT_INT(is_free, 0);
    KT_OK(kvs_event_wait_arrays(push, 5, &is_free));
    KT_INT(is_free, 0);
    fake_consume("push 1");
    KT_OK(kvs_event_wait_arrays(push, -1, &is_free));
    KT_INT(is_free, 1);
    KT_INT(is_done(push), 0);
    fake_complete_failed("push 1", KVS_ERR_PEER, "rank 3 is gone");
    KT_FAIL(kvs_event_wait_arrays(push, -1, &is_free), KVS_ERR_PEER, "rank 3 is gone");
    kvs_event_free(push);
    KT_OK(kvs_event_wait_arrays(pull, 0, &is_free));
    KT_INT(is_free, 0);
    fake_complete("pull 1");
    KT_OK(kvs_event_wait_arrays(pull, -1, &is_free));
    KT_INT(is_free, 1);
    kvs_event_free(pull);
    KT_FAIL(kvs_event_wait_arrays(NULL, 0, &is_free), KVS_ERR_ARGUMENT, "the event is NULL");
    KT_OK(kvs_store_wait_all(store, 0)); /* the push's error has been told */
    KT_OK(kvs_store_close(store));
}

typedef struct completer {
    kt_thread_t thread;
    const char *call;
    int n;
} completer_t;

static void complete_in_turn(void *arg)
{
    completer_t *completer = arg;

    for (int i = 0; i < completer->n; i++) {
        fake_consume(completer->call);
        fake_complete(completer->call);
    }
}

static void operations_complete_on_another_thread_while_more_are_issued(void)
{
    enum { N = 500 };
    kvs_store_t *store = begin();
    completer_t completer = {.call = "push 1", .n = 2 * N};
    kvs_stats_t stats = {.size = sizeof(stats)};
    float value = 1;

    kt_thread_start(&completer.thread, complete_in_turn, &completer);
    for (int i = 0; i < N; i++) {
        kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

        if (i % 2 == 0) {
            KT_OK(kvs_event_wait(event, KT_PATIENCE_MS));
        }
        kvs_event_free(event);
        KT_OK(push_one(store, 1, (float)i));
    }
    kt_thread_join(&completer.thread);
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.n_pushes, 2 * N);
    KT_OK(kvs_store_close(store));
}

static void a_timeout_of_0_waits_for_ever(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0");
    caller_t pull;
    float value;

    caller_start(&pull, store, KVS_VERB_PULL, 1, &value, 1);
    wait_for_sleepers(store, 1);
    fake_complete("pull 1");
    KT_OK(caller_join(&pull));
    KT_OK(kvs_store_close(store));
}

/* ---- What the backend is given --------------------------------------------------------------- */

static void the_whole_call_is_one_operation(void)
{
    kvs_store_t *store = begin();
    float values[3] = {3, 1, 2};
    float *const data[] = {&values[0], &values[1], &values[2]};
    kvs_event_t *event = NULL;

    KT_OK(call_list(store, KVS_VERB_PUSH, (const int64_t[]){3, 1, 2}, 3, data, 1, &event));
    fake_complete("push 1");
    KT_OK(finish(event));
    KT_STR(fake_calls(), "push 1+2+3");
    KT_INT(fake_call(0)->groups[2].list_index, 0);
    KT_TRUE(fake_call(0)->groups[0].was_zeroed);
    KT_INT(fake_call(0)->flags, 0);
    KT_OK(kvs_store_close(store));
}

static void shared_memory_is_told_to_the_backend(void)
{
    kvs_store_t *store = begin();
    float value = -1;
    float *const data[] = {&value, &value};
    kvs_event_t *event = NULL;

    fake_complete_inside(true);
    KT_OK(push_one(store, 1, 10));
    KT_OK(push_one(store, 2, 20));
    KT_OK(call_list(store, KVS_VERB_PULL, (const int64_t[]){2, 1}, 2, data, 1, &event));
    KT_OK(finish(event));
    KT_INT(fake_call(2)->flags, KVS_OP_SHARED);
    KT_INT(fake_call(2)->groups[1].out_index[0], 1);
    KT_REAL(value, 10);
    KT_OK(kvs_store_close(store));
}

enum { ISSUERS = 4, ISSUES = 50 };

typedef struct issuer {
    kt_thread_t thread;
    kvs_store_t *store;
    int64_t key;
    int n_failed;
} issuer_t;

static void issue_often(void *arg)
{
    issuer_t *issuer = arg;

    for (int i = 0; i < ISSUES; i++) {
        issuer->n_failed += push_one(issuer->store, issuer->key, 1) != KVS_OK;
    }
}

static void operations_are_handed_over_in_order_of_issue(void)
{
    kvs_store_t *store = begin();
    issuer_t issuers[ISSUERS];
    int n_wrong = 0;

    fake_complete_inside(true);
    for (int i = 0; i < ISSUERS; i++) {
        issuers[i] = (issuer_t){.store = store, .key = 1 + i % 3};
        kt_thread_start(&issuers[i].thread, issue_often, &issuers[i]);
    }
    for (int i = 0; i < ISSUERS; i++) {
        kt_thread_join(&issuers[i].thread);
        KT_INT(issuers[i].n_failed, 0);
    }
    for (size_t i = 1; i < ISSUERS * ISSUES; i++) {
        n_wrong += fake_call(i)->sequence <= fake_call(i - 1)->sequence;
    }
    KT_INT(n_wrong, 0);
    KT_OK(kvs_store_close(store));
}

static void many_operations_of_one_key_are_in_flight_and_end_in_any_order(void)
{
    enum { N = 300 };
    static kvs_event_t *events[3 * N];
    kvs_store_t *store = begin();
    float value = 1;

    for (int i = 0; i < 3 * N; i++) {
        events[i] = start(store, KVS_VERB_PUSH, 1 + i / N, &value);
    }
    for (int i = 0; i < N; i++) {
        fake_complete("push 3");
        fake_complete("push 1");
        fake_complete("push 2");
    }
    for (int i = 0; i < 3 * N; i++) {
        KT_INT(is_done(events[i]), 1);
        KT_OK(finish(events[i]));
    }
    KT_OK(kvs_store_close(store));
}

static void what_a_backend_does_not_have_is_not_made_up(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC_BARE, "60");
    float value = 1;

    KT_FAIL(call(store, KVS_VERB_PUSHPULL, 1, &value, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: pushpull by fake_async_bare");
    KT_FAIL(call(store, KVS_VERB_BROADCAST, 9, &value, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: broadcast by fake_async_bare");
    KT_STR(fake_calls(), "");
    KT_OK(kvs_store_close(store));
}

static void a_store_may_be_asynchronous_where_its_backend_is_not(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC_STORES, "60");
    float value = 1;
    kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

    KT_INT(is_done(event), 0); /* handed over, and not yet ended */
    fake_complete("push 1");
    KT_OK(finish(event));
    KT_FAIL(call(store, KVS_VERB_PUSHPULL, 1, &value, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: pushpull by fake_async_stores");
    KT_OK(kvs_store_close(store));
}

static void setting_an_updater_does_not_wait_for_operations(void)
{
    kvs_store_t *store = begin();
    float value = 1;
    kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

    KT_OK(kvs_store_set_updater(store, add_updater, NULL));
    KT_INT(is_done(event), 0);
    fake_complete("push 1");
    KT_OK(finish(event));
    KT_OK(kvs_store_close(store));
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void an_operation_the_backend_refuses_has_not_begun(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event = NULL;
    float value = 1;

    fake_fail("push 1", KVS_ERR_STATE, "this process is a server");
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_STATE, "this process is a server");
    fake_fail("push 1", KVS_ERR_STATE, "still a server");
    KT_FAIL(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), &value, 1, &event), KVS_ERR_STATE,
            "still a server");
    KT_TRUE(event == NULL);
    KT_OK(kvs_store_wait_all(store, 0));
    KT_OK(push_at_once(store, 1, 1));
    KT_OK(kvs_store_close(store));
}

static void a_refused_init_leaves_no_key(void)
{
    kvs_store_t *store;
    float value = 1;

    fake_begin();
    store = fake_open(FAKE_ASYNC);
    fake_complete_inside(true);
    fake_fail("init 1", KVS_ERR_STATE, "no");
    KT_FAIL(call(store, KVS_VERB_INIT, 1, &value, 1), KVS_ERR_STATE, "no");
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_NOT_FOUND, "key 1");
    KT_OK(call_key(store, KVS_VERB_INIT, kvs_key_str("w"), &value, 1, NULL));
    KT_OK(kvs_store_close(store));
}

static void the_call_that_waits_is_told_the_error(void)
{
    kvs_store_t *store = begin();
    caller_t pull;
    float value;

    caller_start(&pull, store, KVS_VERB_PULL, 1, &value, 1);
    fake_complete_failed("pull 1", KVS_ERR_PEER, "rank 3 on host b is gone");
    KT_FAIL(caller_join(&pull), KVS_ERR_PEER, "rank 3 on host b is gone");
    KT_OK(push_at_once(store, 1, 1)); /* it is not told twice */
    KT_OK(kvs_store_close(store));
}

static void the_event_is_told_the_error(void)
{
    kvs_store_t *store = begin();
    float value = 1;
    kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

    fake_consume("push 1");
    fake_complete_failed("push 1", KVS_ERR_PEER, "rank 3 is gone");
    KT_FAIL(finish(event), KVS_ERR_PEER, "rank 3 is gone");
    KT_OK(push_at_once(store, 1, 1));
    KT_OK(kvs_store_close(store));
}

/* A push of key 1 that fails when its call has returned. */
static void push_that_fails_later(kvs_store_t *store)
{
    caller_t push;
    float value = 5;

    caller_start(&push, store, KVS_VERB_PUSH, 1, &value, 1);
    fake_consume("push 1");
    KT_OK(caller_join(&push));
    fake_complete_failed("push 1", KVS_ERR_PEER, "rank 3 is gone");
}

static void an_error_after_the_call_is_told_once_by_the_next_operation_on_the_key(void)
{
    kvs_store_t *store = begin();

    push_that_fails_later(store);
    KT_OK(push_at_once(store, 2, 1));
    KT_FAIL(push_at_once(store, 1, 7), KVS_ERR_PEER,
            "push: an earlier push failed: rank 3 is gone");
    KT_STR(fake_calls(), "push 1, push 2");
    KT_OK(push_at_once(store, 1, 8));
    KT_OK(kvs_store_wait_all(store, 0));
    KT_OK(kvs_store_close(store));
}

static void an_error_after_the_call_is_told_by_wait_all_or_close(void)
{
    kvs_store_t *store = begin();

    push_that_fails_later(store);
    KT_FAIL(kvs_store_wait_all(store, -1), KVS_ERR_PEER, "rank 3 is gone");
    KT_OK(kvs_store_wait_all(store, -1));
    push_that_fails_later(store);
    KT_FAIL(kvs_store_close(store), KVS_ERR_PEER, "close: an earlier push failed: rank 3 is gone");
}

static void fail_in_turn(void *arg)
{
    completer_t *completer = arg;

    for (int i = 0; i < completer->n; i++) {
        fake_consume(completer->call);
        fake_complete_failed(completer->call, KVS_ERR_PEER, "rank 3 is gone");
    }
}

/* The failure may come before the call has returned or after: by the call, or by the next one. */
static void every_failure_is_told_exactly_once_whenever_it_comes(void)
{
    enum { N = 2000 };
    kvs_store_t *store = begin();
    completer_t completer = {.call = "push 1", .n = N};
    int n_told = 0, n_pushed = 0;
    kvs_status_t status;

    kt_thread_start(&completer.thread, fail_in_turn, &completer);
    while (n_pushed < N) {
        status = push_one(store, 1, 1);
        n_told += status != KVS_OK;
        if (status == KVS_OK || strstr(kvs_last_error(), "an earlier") == NULL) {
            n_pushed++; /* else it told of another, and was not carried out */
        }
    }
    kt_thread_join(&completer.thread);
    while ((status = kvs_store_wait_all(store, KT_PATIENCE_MS)) == KVS_ERR_PEER) {
        n_told++;
    }
    KT_OK(status);
    KT_INT(n_told, N);
    KT_OK(kvs_store_close(store));
}

static void what_fails_in_a_store_that_was_left_is_logged(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.05");
    float value = 1;

    kvs_event_free(start(store, KVS_VERB_PUSH, 1, &value));
    KT_FAIL(kvs_store_close(store), KVS_ERR_TIMEOUT, "abandoned");
    kt_stderr_begin();
    fake_complete_failed("push 1", KVS_ERR_PEER, "rank 3 is gone");
    KT_STR(kt_stderr_end(),
           "kvstore warn store: push of key 1 failed, which nobody was told: rank 3 is gone\n");
    fake_wait_count("close", 1);
}

static void a_key_whose_init_failed_is_free_again(void)
{
    kvs_store_t *store;
    caller_t init;
    float value = 1, other[2] = {1, 2};

    fake_begin();
    store = fake_open(FAKE_ASYNC);
    caller_start(&init, store, KVS_VERB_INIT, 1, &value, 1);
    fake_complete_failed("init 1", KVS_ERR_PEER, "rank 0 is gone");
    KT_FAIL(caller_join(&init), KVS_ERR_PEER, "rank 0 is gone");
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_NOT_FOUND, "key 1 was never initialised");
    fake_complete_inside(true);
    KT_OK(call(store, KVS_VERB_INIT, 1, other, 2));
    KT_OK(call(store, KVS_VERB_PUSH, 1, other, 2));
    KT_OK(kvs_store_close(store));
}

static void what_is_in_flight_keeps_the_key_whose_init_failed(void)
{
    kvs_store_t *store;
    kvs_event_t *init, *push;
    float value = 1, other[3] = {1, 2, 3};
    const kvs_key_entry_t *old, *new;

    fake_begin();
    store = fake_open(FAKE_ASYNC);
    init = start(store, KVS_VERB_INIT, 1, &value);
    push = start(store, KVS_VERB_PUSH, 1, &value);
    fake_complete_failed("init 1", KVS_ERR_PEER, "rank 0 is gone");
    KT_FAIL(finish(init), KVS_ERR_PEER, "rank 0");
    fake_complete_inside(true);
    KT_OK(call(store, KVS_VERB_INIT, 1, other, 3));
    old = fake_call(1)->groups[0].entry;
    new = fake_call(2)->groups[0].entry;
    KT_TRUE(old != new); /* and so its state was zeroed */
    KT_INT(old->shape[0], 1);
    KT_INT(new->shape[0], 3);
    fake_complete_failed("push 1", KVS_ERR_NOT_FOUND, "no such key here");
    KT_FAIL(finish(push), KVS_ERR_NOT_FOUND, "no such key here");
    KT_OK(call(store, KVS_VERB_PULL, 1, other, 3));
    KT_REAL(other[2], 3);
    KT_OK(kvs_store_close(store));
    KT_INT(fake_count("release 1"), 2);
}

static void the_only_init_that_fails_leaves_the_key_type_open(void)
{
    kvs_store_t *store;
    kvs_event_t *event;
    float value = 1;

    fake_begin();
    store = fake_open(FAKE_ASYNC);
    event = start(store, KVS_VERB_INIT, 1, &value);
    KT_FAIL(call_key(store, KVS_VERB_INIT, kvs_key_str("w"), &value, 1, NULL), KVS_ERR_KEY_TYPE,
            "integer keys");
    fake_complete_failed("init 1", KVS_ERR_PEER, "rank 0 is gone");
    KT_FAIL(finish(event), KVS_ERR_PEER, "rank 0");
    fake_complete_inside(true);
    KT_OK(call_key(store, KVS_VERB_INIT, kvs_key_str("w"), &value, 1, NULL));
    KT_OK(kvs_store_close(store));
}

static void an_exchange_that_fails_does_not_undo_a_later_one(void)
{
    kvs_store_t *store;
    kvs_event_t *first, *second;
    float one = 1, two = 2;

    fake_begin();
    store = fake_open(FAKE_ASYNC_PLAIN);
    first = start(store, KVS_VERB_PUSHPULL, 1, &one);
    second = start(store, KVS_VERB_PUSHPULL, 1, &two);
    fake_complete_failed("pushpull 1", KVS_ERR_PEER, "rank 1 is gone");
    KT_FAIL(finish(first), KVS_ERR_PEER, "rank 1");
    fake_complete("pushpull 1");
    KT_OK(finish(second));
    KT_FAIL(call_key(store, KVS_VERB_PUSHPULL, kvs_key_str("w"), &one, 1, NULL), KVS_ERR_KEY_TYPE,
            "integer keys");
    KT_OK(kvs_store_close(store));
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void a_call_past_its_deadline_fails_and_its_operation_goes_on(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.2");
    float pulled = -1;

    KT_FAIL(call(store, KVS_VERB_PULL, 1, &pulled, 1), KVS_ERR_TIMEOUT,
            "pull: not completed within 600 ms; it goes on" /* the backend has 200 */);
    KT_REAL(pulled, -1);
    fake_complete("pull 1");
    KT_OK(kvs_store_wait_all(store, 0));
    KT_REAL(pulled, 0);
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_TIMEOUT, "push: not completed within 600 ms");
    fake_consume("push 1");
    fake_complete("push 1");
    KT_OK(kvs_store_close(store));
}

static void waiting_for_arrays_ends_at_the_deadline_of_the_call(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.05");
    float pulled = -1;
    kvs_event_t *pull = start(store, KVS_VERB_PULL, 1, &pulled);
    int is_free = -1;

    KT_FAIL(kvs_event_wait_arrays(pull, -1, &is_free), KVS_ERR_TIMEOUT,
            "pull: not completed within 150 ms; it goes on");
    kvs_store_cancel(store);
    KT_FAIL(kvs_event_wait_arrays(pull, -1, &is_free), KVS_ERR_CANCELLED, "cancelled");
    fake_complete("pull 1");
    KT_OK(kvs_event_wait_arrays(pull, -1, &is_free));
    KT_INT(is_free, 1);
    kvs_event_free(pull);
    KT_OK(kvs_store_close(store));
}

static void an_error_after_the_deadline_is_owed(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.05");
    float pulled;

    KT_FAIL(call(store, KVS_VERB_PULL, 1, &pulled, 1), KVS_ERR_TIMEOUT, "150 ms");
    fake_complete_failed("pull 1", KVS_ERR_PEER, "rank 3 is gone");
    KT_FAIL(push_at_once(store, 1, 1), KVS_ERR_PEER, "an earlier pull failed: rank 3 is gone");
    KT_OK(push_at_once(store, 1, 1));
    KT_OK(kvs_store_close(store));
}

static void wait_all_ends_at_its_deadline(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.05");
    float value = 1;
    kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

    KT_FAIL(kvs_store_wait_all(store, 1), KVS_ERR_TIMEOUT, "1 operations have not completed");
    KT_FAIL(kvs_store_wait_all(store, -1), KVS_ERR_TIMEOUT, "wait_all"); /* the store's own */
    fake_complete("push 1");
    KT_OK(kvs_store_wait_all(store, -1));
    KT_OK(finish(event));
    KT_OK(kvs_store_close(store));
}

typedef struct closer {
    kt_thread_t thread;
    kvs_store_t *store;
    kvs_status_t status;
} closer_t;

static void close_it(void *arg)
{
    closer_t *closer = arg;

    closer->status = kvs_store_close(closer->store);
}

static void close_waits_for_what_is_pending(void)
{
    kvs_store_t *store = begin();
    closer_t closer = {.store = store};
    float value = 1;

    kvs_event_free(start(store, KVS_VERB_PUSH, 1, &value));
    kt_thread_start(&closer.thread, close_it, &closer);
    wait_for_sleepers(store, 1);
    KT_INT(fake_count("close"), 0);
    fake_complete("push 1");
    kt_thread_join(&closer.thread);
    KT_OK(closer.status);
    KT_INT(fake_count("close"), 1);
}

static void join_thread(void *arg)
{
    kt_thread_join(arg);
}

static void a_store_left_past_its_deadline_is_closed_when_its_work_has_ended(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.05");
    completer_t completer = {.call = "push 1", .n = 1};
    float value = 1;
    kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

    KT_FAIL(kvs_store_close(store), KVS_ERR_TIMEOUT, "the store was abandoned");
    KT_HAS(kvs_last_error(), "1 operations have not completed");
    KT_INT(fake_count("close"), 0);
    KT_INT(is_done(event), 0);
    kvs_event_free(event);
    /* A backend ends its own threads in close, so that is called on none of them. */
    fake_on_close(join_thread, &completer.thread);
    kt_thread_start(&completer.thread, complete_in_turn, &completer);
    fake_wait_count("close", 1);
    KT_INT(fake_count("release 1"), 1);
}

static void an_event_of_a_store_that_was_left_still_tells_its_end(void)
{
    kvs_store_t *store = begin_with(FAKE_ASYNC, "0.05");
    float value = 1;
    kvs_event_t *event = start(store, KVS_VERB_PUSH, 1, &value);

    KT_FAIL(kvs_store_close(store), KVS_ERR_TIMEOUT, "abandoned");
    KT_FAIL(kvs_event_wait(event, 0), KVS_ERR_CANCELLED, "");
    fake_complete_failed("push 1", KVS_ERR_PEER, "rank 3 is gone");
    KT_INT(is_done(event), 1);
    KT_FAIL(kvs_event_wait(event, -1), KVS_ERR_PEER, "rank 3 is gone");
    kvs_event_free(event);
    fake_wait_count("close", 1);
}

static const kt_test_t tests[] = {
    KT_TEST(a_push_returns_when_its_values_are_consumed),
    KT_TEST(other_calls_return_when_they_are_complete),
    KT_TEST(a_push_that_completes_unconsumed_returns_too),
    KT_TEST(operations_may_complete_within_the_verb),
    KT_TEST(with_an_event_a_call_returns_at_once),
    KT_TEST(arrays_are_waited_for_in_slices),
    KT_TEST(operations_complete_on_another_thread_while_more_are_issued),
    KT_TEST(a_timeout_of_0_waits_for_ever),
    KT_TEST(the_whole_call_is_one_operation),
    KT_TEST(shared_memory_is_told_to_the_backend),
    KT_TEST(operations_are_handed_over_in_order_of_issue),
    KT_TEST(many_operations_of_one_key_are_in_flight_and_end_in_any_order),
    KT_TEST(what_a_backend_does_not_have_is_not_made_up),
    KT_TEST(setting_an_updater_does_not_wait_for_operations),
    KT_TEST(an_operation_the_backend_refuses_has_not_begun),
    KT_TEST(a_refused_init_leaves_no_key),
    KT_TEST(the_call_that_waits_is_told_the_error),
    KT_TEST(the_event_is_told_the_error),
    KT_TEST(an_error_after_the_call_is_told_once_by_the_next_operation_on_the_key),
    KT_TEST(an_error_after_the_call_is_told_by_wait_all_or_close),
    KT_TEST(every_failure_is_told_exactly_once_whenever_it_comes),
    KT_TEST(what_fails_in_a_store_that_was_left_is_logged),
    KT_TEST(a_key_whose_init_failed_is_free_again),
    KT_TEST(what_is_in_flight_keeps_the_key_whose_init_failed),
    KT_TEST(the_only_init_that_fails_leaves_the_key_type_open),
    KT_TEST(an_exchange_that_fails_does_not_undo_a_later_one),
    KT_TEST(a_call_past_its_deadline_fails_and_its_operation_goes_on),
    KT_TEST(waiting_for_arrays_ends_at_the_deadline_of_the_call),
    KT_TEST(an_error_after_the_deadline_is_owed),
    KT_TEST(wait_all_ends_at_its_deadline),
    KT_TEST(a_store_may_be_asynchronous_where_its_backend_is_not),
    KT_TEST(close_waits_for_what_is_pending),
    KT_TEST(a_store_left_past_its_deadline_is_closed_when_its_work_has_ended),
    KT_TEST(an_event_of_a_store_that_was_left_still_tells_its_end),
};
KT_MAIN("async", tests)
