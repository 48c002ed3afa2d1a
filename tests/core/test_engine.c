/* SPDX-License-Identifier: Apache-2.0 */
/* The engine with blocking backends: order on each key, keys side by side, updaters, failures, and
 * much at once. */
#include "calls.h"

#include <stdatomic.h>
#include <stdlib.h>

static kvs_store_t *begin(const char *type)
{
    fake_begin();
    return fake_open(type);
}

/* Integer keys 1 to n, of one element with the value 0; then the record begins. */
static kvs_store_t *begin_with_keys(int64_t n)
{
    kvs_store_t *store = begin(FAKE);

    for (int64_t key = 1; key <= n; key++) {
        init_one(store, key, 0);
    }
    fake_begin();
    return store;
}

static kvs_event_t *start_one(kvs_store_t *store, kvs_verb_t verb, int64_t key, float *value)
{
    kvs_event_t *event = NULL;

    KT_OK(call_key(store, verb, kvs_key_int(key), value, 1, &event));
    return event;
}

static kvs_event_t *start_list(kvs_store_t *store, kvs_verb_t verb, const int64_t *keys, size_t n,
                               float *const *data, int64_t n_elems)
{
    kvs_event_t *event = NULL;

    KT_OK(call_list(store, verb, keys, n, data, n_elems, &event));
    return event;
}

/* A call on a thread that is held within the backend. */
static void hold(caller_t *caller, kvs_store_t *store, const char *call, kvs_verb_t verb,
                 int64_t key, float *value)
{
    fake_hold(call);
    caller_start(caller, store, verb, key, value, 1);
    fake_wait_held(call);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void operations_on_one_key_take_effect_in_the_order_issued(void)
{
    enum { N = 100 };
    static float values[N];
    kvs_event_t *events[N];
    kvs_store_t *store = begin_with_keys(1);
    caller_t first;
    float zero = 0;

    hold(&first, store, "push 1", KVS_VERB_PUSH, 1, &zero);
    for (int i = 0; i < N; i++) {
        values[i] = (float)i;
        events[i] = start_one(store, KVS_VERB_PUSH, 1, &values[i]);
    }
    fake_release("push 1");
    for (int i = N; i-- > 0;) {
        KT_OK(finish(events[i]));
    }
    KT_OK(caller_join(&first));
    for (int i = 0; i < N; i++) {
        KT_TRUE(fake_call((size_t)i + 1)->groups[0].values[0] == &values[i]);
    }
    KT_REAL(pull_one(store, 1), N - 1);
    KT_OK(kvs_store_close(store));
}

static void a_pull_sees_every_push_issued_before_it(void)
{
    enum { N = 50 };
    static float pushed[N], pulled[N];
    kvs_event_t *events[2 * N];
    kvs_store_t *store = begin_with_keys(1);
    caller_t first;
    float zero = 0;

    hold(&first, store, "push 1", KVS_VERB_PUSH, 1, &zero);
    for (int i = 0; i < N; i++) {
        pushed[i] = (float)(i + 1);
        events[2 * i] = start_one(store, KVS_VERB_PUSH, 1, &pushed[i]);
        events[2 * i + 1] = start_one(store, KVS_VERB_PULL, 1, &pulled[i]);
    }
    fake_release("push 1");
    for (int i = 0; i < 2 * N; i++) {
        KT_OK(finish(events[i]));
    }
    KT_OK(caller_join(&first));
    for (int i = 0; i < N; i++) {
        KT_REAL(pulled[i], i + 1);
    }
    KT_OK(kvs_store_close(store));
}

static void a_call_without_an_event_waits_for_earlier_ones_on_its_key(void)
{
    kvs_store_t *store = begin_with_keys(1);
    caller_t push, pull;
    float pushed = 5, pulled = -1;

    hold(&push, store, "push 1", KVS_VERB_PUSH, 1, &pushed);
    caller_start(&pull, store, KVS_VERB_PULL, 1, &pulled, 1);
    wait_for_sleepers(store, 1);
    KT_STR(fake_calls(), "push 1");
    fake_release("push 1");
    KT_OK(caller_join(&pull));
    KT_REAL(pulled, 5);
    KT_OK(caller_join(&push));
    KT_OK(kvs_store_close(store));
}

static void operations_on_other_keys_overtake(void)
{
    kvs_store_t *store = begin_with_keys(3);
    caller_t held;
    kvs_event_t *event;
    float value = 5, other = 6;

    hold(&held, store, "push 1", KVS_VERB_PUSH, 1, &value);
    KT_OK(push_one(store, 2, 7));
    KT_REAL(pull_one(store, 2), 7);
    event = start_one(store, KVS_VERB_PUSH, 3, &other);
    KT_OK(finish(event));
    KT_STR(fake_calls(), "push 1, push 2, pull 2, push 3");
    fake_release("push 1");
    KT_OK(caller_join(&held));
    KT_OK(kvs_store_close(store));
}

static void other_stores_are_not_held_up(void)
{
    kvs_store_t *store = begin_with_keys(1), *other = fake_open(FAKE);
    caller_t held;
    float value = 5;

    init_one(other, 2, 0);
    hold(&held, store, "push 1", KVS_VERB_PUSH, 1, &value);
    KT_OK(push_one(other, 2, 7));
    KT_OK(kvs_store_wait_all(other, KT_PATIENCE_MS));
    KT_OK(kvs_store_close(other));
    fake_release("push 1");
    KT_OK(caller_join(&held));
    KT_OK(kvs_store_close(store));
}

static void the_keys_of_a_list_that_are_free_do_not_wait_for_the_others(void)
{
    kvs_store_t *store = begin_with_keys(3);
    caller_t held;
    kvs_event_t *event;
    float values[] = {1, 2, 3}, value = 9;

    hold(&held, store, "pull 2", KVS_VERB_PULL, 2, &value);
    event = start_list(store, KVS_VERB_PUSH, (const int64_t[]){1, 2, 3}, 3,
                       (float *const[]){&values[0], &values[1], &values[2]}, 1);
    fake_wait_count("push 1", 1);
    fake_wait_count("push 3", 1);
    KT_INT(fake_count("push 2"), 0);
    KT_INT(is_done(event), 0);
    fake_release("pull 2");
    KT_OK(finish(event));
    KT_INT(fake_count("push 2"), 1);
    KT_OK(caller_join(&held));
    KT_OK(kvs_store_close(store));
}

typedef struct list_caller {
    kt_thread_t thread;
    kvs_store_t *store;
    kvs_status_t status;
    float values[3];
} list_caller_t;

static void push_list_123(void *arg)
{
    list_caller_t *caller = arg;

    caller->status = call_list(
        caller->store, KVS_VERB_PUSH, (const int64_t[]){1, 2, 3}, 3,
        (float *const[]){&caller->values[0], &caller->values[1], &caller->values[2]}, 1, NULL);
}

static void a_list_without_an_event_runs_as_its_keys_become_free(void)
{
    kvs_store_t *store = begin_with_keys(3);
    list_caller_t list = {.store = store, .values = {1, 2, 3}};
    caller_t held;
    float value;

    hold(&held, store, "pull 2", KVS_VERB_PULL, 2, &value);
    kt_thread_start(&list.thread, push_list_123, &list);
    fake_wait_count("push 1", 1);
    fake_wait_count("push 3", 1);
    wait_for_sleepers(store, 1);
    fake_release("pull 2");
    kt_thread_join(&list.thread);
    KT_OK(list.status);
    KT_OK(caller_join(&held));
    KT_REAL(pull_one(store, 2), 2);
    KT_OK(kvs_store_close(store));
}

static void a_list_whose_arrays_share_memory_waits_for_all_its_keys(void)
{
    kvs_store_t *store = begin_with_keys(2);
    caller_t held;
    kvs_event_t *event;
    float shared = -1, value;

    KT_OK(push_one(store, 1, 10));
    KT_OK(push_one(store, 2, 20));
    hold(&held, store, "pull 2", KVS_VERB_PULL, 2, &value);
    event = start_list(store, KVS_VERB_PULL, (const int64_t[]){2, 1}, 2,
                       (float *const[]){&shared, &shared}, 1);
    KT_INT(fake_count("pull 1"), 0);
    KT_INT(is_done(event), 0);
    fake_release("pull 2");
    KT_OK(finish(event));
    KT_REAL(shared, 10);
    KT_OK(caller_join(&held));
    KT_OK(kvs_store_close(store));
}

static void large_lists_run_side_by_side_and_whole(void)
{
    enum { KEYS = 64, N = 8192 };
    static float data[KEYS][N], out[KEYS][N];
    static float *values[KEYS], *outs[KEYS];
    static int64_t keys[KEYS];
    kvs_store_t *store = begin(FAKE);
    int n_wrong = 0;

    for (int k = 0; k < KEYS; k++) {
        keys[k] = KEYS - k;
        values[k] = data[k];
        outs[k] = out[k];
    }
    KT_OK(call_list(store, KVS_VERB_INIT, keys, KEYS, values, N, NULL));
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < KEYS * N; i++) {
            data[i / N][i % N] = (float)(i % 1000 + round);
        }
        KT_OK(call_list(store, KVS_VERB_PUSH, keys, KEYS, values, N, NULL));
        KT_OK(finish(start_list(store, KVS_VERB_PULL, keys, KEYS, outs, N)));
        n_wrong += memcmp(data, out, sizeof(data)) != 0;
    }
    KT_INT(n_wrong, 0);
    KT_OK(kvs_store_close(store));
}

/* ---- Updaters -------------------------------------------------------------------------------- */

static void a_blocked_updater_holds_up_pushes_but_neither_pulls_nor_other_stores(void)
{
    kvs_store_t *store = begin_with_keys(2), *other = fake_open(FAKE);
    caller_t first, second;
    float one = 1;

    init_one(other, 5, 0);
    KT_OK(kvs_store_set_updater(store, fake_updater, NULL));
    fake_hold("updater 1");
    caller_start(&first, store, KVS_VERB_PUSH, 1, &one, 1);
    fake_wait_held("updater 1");
    KT_REAL(pull_one(store, 2), 0);
    KT_OK(push_one(other, 5, 3));
    KT_REAL(pull_one(other, 5), 3);
    caller_start(&second, store, KVS_VERB_PUSH, 2, &one, 1);
    wait_for_sleepers(store, 1);
    KT_INT(fake_count("updater 2"), 0);
    fake_release("updater 1");
    KT_OK(caller_join(&first));
    KT_OK(caller_join(&second));
    KT_REAL(pull_one(store, 1), 1);
    KT_REAL(pull_one(store, 2), 1);
    KT_OK(kvs_store_close(store));
    KT_OK(kvs_store_close(other));
}

static void operations_that_wait_for_the_updater_hold_no_thread_of_the_pool(void)
{
    enum { N = 64 };
    kvs_store_t *store = begin_with_keys(N), *other = fake_open(FAKE);
    kvs_event_t *events[N];
    static float ones[N];

    init_big(other, 1000);
    KT_OK(kvs_store_set_updater(store, fake_updater, NULL));
    fake_hold("updater 1");
    for (int64_t i = 0; i < N; i++) {
        ones[i] = 1;
        events[i] = start_one(store, KVS_VERB_PUSH, i + 1, &ones[i]);
    }
    fake_wait_held("updater 1");
    KT_OK(finish(start_big(other, KVS_VERB_PUSH, 1000))); /* on the pool */
    fake_release("updater 1");
    for (int i = 0; i < N; i++) {
        KT_OK(finish(events[i]));
    }
    KT_OK(kvs_store_close(store));
    KT_OK(kvs_store_close(other));
}

typedef struct turns {
    atomic_int n_inside, n_too_many;
    int64_t keys[16];
    size_t n;
} turns_t;

static kvs_status_t count_turns(const kvs_key_t *key, const kvs_tensor_t *value,
                                const kvs_tensor_t *stored, void *arg)
{
    turns_t *turns = arg;

    if (atomic_fetch_add(&turns->n_inside, 1) != 0) {
        atomic_fetch_add(&turns->n_too_many, 1);
    }
    if (turns->n < 16) {
        turns->keys[turns->n++] = key->num; /* unguarded on purpose: one thread at a time */
    }
    add_updater(key, value, stored, NULL);
    atomic_fetch_sub(&turns->n_inside, 1);
    return KVS_OK;
}

typedef struct pusher {
    kt_thread_t thread;
    kvs_store_t *store;
    int64_t first_key;
    int n_failed;
} pusher_t;

static void push_often(void *arg)
{
    pusher_t *pusher = arg;

    for (int i = 0; i < 200; i++) {
        pusher->n_failed += push_one(pusher->store, pusher->first_key + i % 3, 1) != KVS_OK;
    }
}

static void the_updater_runs_on_one_thread_at_a_time(void)
{
    kvs_store_t *store = begin_with_keys(12);
    turns_t turns = {.n = 0};
    pusher_t pushers[4];

    KT_OK(kvs_store_set_updater(store, count_turns, &turns));
    for (int i = 0; i < 4; i++) {
        pushers[i] = (pusher_t){.store = store, .first_key = 1 + 3 * i};
        kt_thread_start(&pushers[i].thread, push_often, &pushers[i]);
    }
    for (int i = 0; i < 4; i++) {
        kt_thread_join(&pushers[i].thread);
        KT_INT(pushers[i].n_failed, 0);
    }
    KT_INT(turns.n_too_many, 0);
    KT_REAL(pull_one(store, 1), 67);
    KT_OK(kvs_store_close(store));
}

static void within_a_call_the_updater_goes_by_ascending_keys(void)
{
    kvs_store_t *store = begin_with_keys(5);
    turns_t turns = {.n = 0};
    float one = 1;

    KT_OK(kvs_store_set_updater(store, count_turns, &turns));
    KT_OK(finish(start_list(store, KVS_VERB_PUSH, (const int64_t[]){4, 1, 5, 2, 3}, 5,
                            (float *const[]){&one, &one, &one, &one, &one}, 1)));
    KT_INT(turns.n, 5);
    for (int i = 0; i < 5; i++) {
        KT_INT(turns.keys[i], i + 1);
    }
    KT_OK(kvs_store_close(store));
}

static kvs_status_t fail_with_words(const kvs_key_t *key, const kvs_tensor_t *value,
                                    const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    *(float *)stored->data = 99;
    return arg != NULL ? kvs_fail(KVS_ERR_RANGE, "%s", (const char *)arg) : KVS_ERR_RANGE;
}

static void a_failing_updater_is_the_status_of_its_push(void)
{
    kvs_store_t *store = begin_with_keys(1);
    kvs_event_t *event;
    float one = 1;

    KT_OK(kvs_store_set_updater(store, fail_with_words, (void *)(uintptr_t) "too steep"));
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_CALLBACK, "too steep");
    KT_REAL(pull_one(store, 1), 99); /* what it left */
    event = start_one(store, KVS_VERB_PUSH, 1, &one);
    KT_FAIL(kvs_event_wait(event, KT_PATIENCE_MS), KVS_ERR_CALLBACK, "too steep");
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void a_failing_updater_without_words_gets_nobody_elses(void)
{
    kvs_store_t *store = begin_with_keys(1);

    kvs_fail(KVS_ERR_IO, "stale words");
    KT_OK(kvs_store_set_updater(store, fail_with_words, NULL));
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_CALLBACK, "updater");
    KT_TRUE(strstr(kvs_last_error(), "stale") == NULL);
    KT_OK(kvs_store_close(store));
}

typedef struct asker {
    kvs_store_t *store;
    kvs_status_t push, rank, workers, capable, type_is_so;
    char text[256];
} asker_t;

static kvs_status_t ask_store(const kvs_key_t *key, const kvs_tensor_t *value,
                              const kvs_tensor_t *stored, void *arg)
{
    asker_t *asker = arg;
    int number;

    (void)key;
    (void)value;
    (void)stored;
    asker->rank = kvs_store_rank(asker->store, &number);
    asker->workers = kvs_store_num_workers(asker->store, &number);
    asker->capable = kvs_store_is_capable(asker->store, "optimizer", &number);
    asker->type_is_so = strcmp(kvs_store_type(asker->store), FAKE) == 0;
    asker->push = push_one(asker->store, 2, 1);
    snprintf(asker->text, sizeof(asker->text), "%s", kvs_last_error());
    return KVS_OK;
}

static void an_updater_may_ask_what_the_store_is_and_nothing_else(void)
{
    kvs_store_t *store = begin_with_keys(2);
    asker_t asker = {.store = store};

    KT_OK(kvs_store_set_updater(store, ask_store, &asker));
    KT_OK(push_one(store, 1, 1));
    KT_OK(asker.rank);
    KT_OK(asker.workers);
    KT_OK(asker.capable);
    KT_TRUE(asker.type_is_so);
    KT_INT(asker.push, KVS_ERR_STATE);
    KT_HAS(asker.text, "push: not allowed in a callback");
    KT_OK(kvs_store_close(store));
}

typedef struct setter {
    kt_thread_t thread;
    kvs_store_t *store;
    bool optimizer;
    kvs_status_t status;
} setter_t;

static void set_one(void *arg)
{
    setter_t *setter = arg;
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    setter->status = setter->optimizer ? kvs_store_set_optimizer(setter->store, &spec)
                                       : kvs_store_set_updater(setter->store, add_updater, NULL);
}

static void check_setting_waits(bool optimizer, const char *call)
{
    kvs_store_t *store = begin_with_keys(1);
    setter_t setter = {.store = store, .optimizer = optimizer};
    caller_t held;
    float value = 5;

    hold(&held, store, "push 1", KVS_VERB_PUSH, 1, &value);
    kt_thread_start(&setter.thread, set_one, &setter);
    wait_for_sleepers(store, 1);
    KT_INT(fake_count(call), 0);
    fake_release("push 1");
    kt_thread_join(&setter.thread);
    KT_OK(setter.status);
    KT_INT(fake_count(call), 1);
    KT_OK(caller_join(&held));
    KT_OK(kvs_store_close(store));
}

static void setting_an_updater_or_optimizer_waits_for_what_was_issued_before(void)
{
    check_setting_waits(false, "set_updater");
    check_setting_waits(true, "set_optimizer");
}

static void setting_an_updater_does_not_wait_beyond_the_deadline(void)
{
    const kvs_option_t option = {"timeout", "0.05"};
    kvs_store_t *store = NULL;
    caller_t held;
    float value = 5;

    fake_begin();
    KT_OK(kvs_store_create(FAKE, &option, 1, &store));
    init_one(store, 1, 0);
    hold(&held, store, "push 1", KVS_VERB_PUSH, 1, &value);
    KT_FAIL(kvs_store_set_updater(store, add_updater, NULL), KVS_ERR_TIMEOUT,
            "set_updater: 1 operations have not completed");
    KT_INT(fake_count("set_updater"), 0);
    fake_release("push 1");
    KT_OK(caller_join(&held));
    KT_OK(kvs_store_set_updater(store, add_updater, NULL));
    KT_OK(push_one(store, 1, 2));
    KT_REAL(pull_one(store, 1), 7);
    KT_OK(kvs_store_close(store));
}

typedef struct drainer {
    kt_thread_t thread;
    kvs_store_t *store;
    kvs_status_t status;
} drainer_t;

static void drain(void *arg)
{
    drainer_t *drainer = arg;

    drainer->status = kvs_store_wait_all(drainer->store, KT_PATIENCE_MS);
}

static void wait_all_does_not_wait_for_what_is_issued_after_it(void)
{
    kvs_store_t *store = begin_with_keys(2);
    drainer_t drainer = {.store = store};
    caller_t before, after;
    float value = 5;

    hold(&before, store, "push 1", KVS_VERB_PUSH, 1, &value);
    kt_thread_start(&drainer.thread, drain, &drainer);
    wait_for_sleepers(store, 1);
    hold(&after, store, "push 2", KVS_VERB_PUSH, 2, &value);
    fake_release("push 1");
    kt_thread_join(&drainer.thread);
    KT_OK(drainer.status);
    KT_FAIL(kvs_store_wait_all(store, 1), KVS_ERR_TIMEOUT,
            "wait_all: 1 operations have not completed; the oldest is push of key 2");
    fake_release("push 2");
    KT_OK(caller_join(&before));
    KT_OK(caller_join(&after));
    KT_OK(kvs_store_close(store));
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void a_failed_operation_leaves_the_key_usable(void)
{
    kvs_store_t *store = begin_with_keys(1);

    fake_fail("push 1", KVS_ERR_IO, "disk full");
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_IO, "disk full");
    KT_OK(push_one(store, 1, 2));
    KT_REAL(pull_one(store, 1), 2);
    KT_OK(kvs_store_close(store));
}

static void the_error_of_a_list_is_the_first_in_list_order(void)
{
    kvs_store_t *store = begin(FAKE);
    float *const data[] = {big_array(), big_array(), big_array()};
    const int64_t keys[] = {3, 1, 2};
    kvs_event_t *event;

    for (int64_t key = 1; key <= 3; key++) {
        init_big(store, key);
    }
    fake_fail("push 1", KVS_ERR_RANGE, "of key 1");
    fake_fail("push 2", KVS_ERR_SHAPE, "of key 2");
    fake_fail("push 3", KVS_ERR_IO, "of key 3");
    fake_hold("push 3");
    event = start_list(store, KVS_VERB_PUSH, keys, 3, data, BIG);
    fake_wait_held("push 3");
    fake_wait_count("push 1", 1);
    fake_wait_count("push 2", 1);
    fake_release("push 3"); /* last in time, first in the list */
    KT_FAIL(kvs_event_wait(event, KT_PATIENCE_MS), KVS_ERR_IO, "of key 3");
    KT_STR(kvs_last_error(), "of key 3");
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

static void the_other_keys_of_a_list_with_a_failure_are_carried_out(void)
{
    kvs_store_t *store = begin_with_keys(3);
    float values[] = {1, 2, 3};

    fake_fail("push 2", KVS_ERR_IO, "of key 2");
    KT_FAIL(call_list(store, KVS_VERB_PUSH, (const int64_t[]){1, 2, 3}, 3,
                      (float *const[]){&values[0], &values[1], &values[2]}, 1, NULL),
            KVS_ERR_IO, "of key 2");
    KT_REAL(pull_one(store, 1), 1);
    KT_REAL(pull_one(store, 2), 0);
    KT_REAL(pull_one(store, 3), 3);
    KT_OK(kvs_store_close(store));
}

static void a_key_whose_init_failed_can_be_initialised_again(void)
{
    kvs_store_t *store = begin(FAKE);
    float value = 1;

    fake_fail("init 1", KVS_ERR_NO_MEMORY, "no room");
    KT_FAIL(call(store, KVS_VERB_INIT, 1, &value, 1), KVS_ERR_NO_MEMORY, "no room");
    KT_INT(fake_count("release 1"), 1);
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_NOT_FOUND, "key 1 was never initialised");
    init_one(store, 1, 3);
    KT_REAL(pull_one(store, 1), 3);
    KT_OK(kvs_store_close(store));
    KT_INT(fake_count("release 1"), 2);
}

static void a_key_whose_init_failed_can_get_another_shape(void)
{
    kvs_store_t *store = begin(FAKE);
    float values[3] = {1, 2, 3};

    fake_fail("init 1", KVS_ERR_NO_MEMORY, "no room");
    KT_FAIL(call(store, KVS_VERB_INIT, 1, values, 1), KVS_ERR_NO_MEMORY, "no room");
    KT_OK(call(store, KVS_VERB_INIT, 1, values, 3));
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_SHAPE, "the key's shape is (3,)");
    KT_OK(kvs_store_close(store));
}

static void a_failed_broadcast_leaves_no_key(void)
{
    kvs_store_t *store = begin(FAKE);
    float value = 1;

    fake_fail("pull 1", KVS_ERR_IO, "no way"); /* its second half */
    KT_FAIL(call(store, KVS_VERB_BROADCAST, 1, &value, 1), KVS_ERR_IO, "no way");
    KT_INT(fake_count("release 1"), 1);
    KT_OK(call(store, KVS_VERB_BROADCAST, 1, &value, 1));
    KT_OK(kvs_store_close(store));
}

static void the_failure_of_the_only_init_leaves_the_key_type_open(void)
{
    kvs_store_t *store = begin(FAKE);
    float value = 1;

    fake_fail("init 1", KVS_ERR_IO, "no");
    KT_FAIL(call(store, KVS_VERB_INIT, 1, &value, 1), KVS_ERR_IO, "no");
    KT_OK(call_key(store, KVS_VERB_INIT, kvs_key_str("w"), &value, 1, NULL));
    KT_FAIL(push_one(store, 1, 1), KVS_ERR_KEY_TYPE, "string keys");
    KT_OK(kvs_store_close(store));
}

static void pushes_behind_an_init_that_fails_are_not_carried_out(void)
{
    kvs_store_t *store = begin(FAKE);
    caller_t init;
    kvs_event_t *event;
    float value = 1;

    fake_fail("init 1", KVS_ERR_IO, "no");
    hold(&init, store, "init 1", KVS_VERB_INIT, 1, &value);
    event = start_one(store, KVS_VERB_PUSH, 1, &value);
    KT_FAIL(call(store, KVS_VERB_INIT, 1, &value, 1), KVS_ERR_EXISTS, "duplicate init of key 1");
    fake_release("init 1");
    KT_FAIL(caller_join(&init), KVS_ERR_IO, "no");
    KT_FAIL(kvs_event_wait(event, KT_PATIENCE_MS), KVS_ERR_NOT_FOUND,
            "push: key 1 was never initialised: its init failed");
    kvs_event_free(event);
    KT_INT(fake_count("push 1"), 0);
    init_one(store, 1, 2);
    KT_REAL(pull_one(store, 1), 2);
    KT_OK(kvs_store_close(store));
}

static void a_push_issued_before_a_second_init_does_not_belong_to_it(void)
{
    kvs_store_t *store = begin(FAKE);
    caller_t first, held;
    kvs_event_t *event;
    float value = 1, shared = 2, other[3] = {7, 8, 9};

    init_one(store, 2, 0);
    fake_fail("init 1", KVS_ERR_IO, "no");
    hold(&first, store, "init 1", KVS_VERB_INIT, 1, &value);
    hold(&held, store, "pull 2", KVS_VERB_PULL, 2, &value);
    /* Shared arrays: it waits for both keys, so that the second init is issued before it runs. */
    event = start_list(store, KVS_VERB_PUSHPULL, (const int64_t[]){1, 2}, 2,
                       (float *const[]){&shared, &shared}, 1);
    fake_release("init 1");
    KT_FAIL(caller_join(&first), KVS_ERR_IO, "no");
    KT_OK(call(store, KVS_VERB_INIT, 1, other, 3));
    fake_release("pull 2");
    KT_FAIL(kvs_event_wait(event, KT_PATIENCE_MS), KVS_ERR_NOT_FOUND, "its init failed");
    kvs_event_free(event);
    KT_INT(fake_count("push 1"), 0);
    KT_OK(caller_join(&held));
    KT_OK(call(store, KVS_VERB_PUSH, 1, other, 3));
    KT_OK(kvs_store_close(store));
}

static void a_push_issued_while_the_init_fails_is_not_carried_out(void)
{
    kvs_store_t *store = begin(FAKE);
    caller_t init, push;
    float value = 1;

    fake_fail("init 1", KVS_ERR_IO, "no");
    hold(&init, store, "init 1", KVS_VERB_INIT, 1, &value);
    hold(&push, store, "issue 1", KVS_VERB_PUSH, 1, &value); /* it has found its key */
    fake_release("init 1");
    KT_FAIL(caller_join(&init), KVS_ERR_IO, "no");
    fake_release("issue 1"); /* it finds nothing before it in the queue */
    KT_FAIL(caller_join(&push), KVS_ERR_NOT_FOUND, "its init failed");
    KT_INT(fake_count("push 1"), 0);
    KT_OK(kvs_store_close(store));
}

static void an_exchange_behind_one_that_fails_is_carried_out(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);
    caller_t first;
    kvs_event_t *event;
    float one = 1, two = 2;

    fake_fail("pushpull 1", KVS_ERR_IO, "no");
    hold(&first, store, "pushpull 1", KVS_VERB_PUSHPULL, 1, &one);
    event = start_one(store, KVS_VERB_PUSHPULL, 1, &two);
    fake_release("pushpull 1");
    KT_FAIL(caller_join(&first), KVS_ERR_IO, "no");
    KT_OK(finish(event));
    /* one succeeded: the store has its key type */
    KT_FAIL(call_key(store, KVS_VERB_PUSHPULL, kvs_key_str("w"), &one, 1, NULL), KVS_ERR_KEY_TYPE,
            "integer keys");
    KT_OK(kvs_store_close(store));
    KT_INT(fake_count("release 1"), 2);
}

static void exchanges_that_all_fail_leave_the_key_type_open(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);
    caller_t first;
    kvs_event_t *event;
    float one = 1, two = 2;

    fake_fail("pushpull 1", KVS_ERR_IO, "no");
    fake_fail("pushpull 1", KVS_ERR_IO, "no more");
    hold(&first, store, "pushpull 1", KVS_VERB_PUSHPULL, 1, &one);
    event = start_one(store, KVS_VERB_PUSHPULL, 1, &two);
    fake_release("pushpull 1");
    KT_FAIL(caller_join(&first), KVS_ERR_IO, "no");
    KT_FAIL(kvs_event_wait(event, KT_PATIENCE_MS), KVS_ERR_IO, "no more");
    kvs_event_free(event);
    KT_OK(call_key(store, KVS_VERB_PUSHPULL, kvs_key_str("w"), &one, 1, NULL));
    KT_OK(kvs_store_close(store));
}

static void an_error_of_issue_ends_the_operation_before_it_begins(void)
{
    kvs_store_t *store = begin(FAKE);
    kvs_event_t *event = NULL;
    float value = 1;

    fake_fail("issue 1", KVS_ERR_STATE, "not now");
    KT_FAIL(call(store, KVS_VERB_INIT, 1, &value, 1), KVS_ERR_STATE, "not now");
    fake_fail("issue 1", KVS_ERR_STATE, "nor now");
    KT_FAIL(call_key(store, KVS_VERB_INIT, kvs_key_int(1), &value, 1, &event), KVS_ERR_STATE,
            "nor now");
    KT_TRUE(event == NULL);
    KT_STR(fake_calls(), "");
    KT_OK(call_key(store, KVS_VERB_INIT, kvs_key_str("w"), &value, 1, NULL));
    KT_OK(kvs_store_close(store));
}

/* ---- Much at once ---------------------------------------------------------------------------- */

static void ten_thousand_events_are_in_flight_at_once(void)
{
    enum { N = 10000 };
    static kvs_event_t *events[N];
    kvs_store_t *store = begin_with_keys(10);
    caller_t held;
    float one = 1;
    int n_failed = 0;

    KT_OK(kvs_store_set_updater(store, fake_updater, NULL));
    fake_hold("updater 1");
    caller_start(&held, store, KVS_VERB_PUSH, 1, &one, 1);
    fake_wait_held("updater 1");
    for (int i = 0; i < N; i++) {
        n_failed +=
            call_key(store, KVS_VERB_PUSH, kvs_key_int(1 + i % 10), &one, 1, &events[i]) != KVS_OK;
    }
    KT_INT(n_failed, 0);
    KT_INT(is_done(events[0]), 0);
    KT_INT(is_done(events[N - 1]), 0);
    fake_release("updater 1");
    for (int i = 0; i < N; i++) {
        n_failed += finish(events[i]) != KVS_OK;
    }
    KT_INT(n_failed, 0);
    KT_OK(caller_join(&held));
    KT_REAL(pull_one(store, 1), N / 10 + 1);
    for (int64_t key = 2; key <= 10; key++) {
        KT_REAL(pull_one(store, key), N / 10);
    }
    KT_OK(kvs_store_close(store));
}

enum { HAMMER_THREADS = 8, HAMMER_KEYS = 1000, HAMMER_ROUNDS = 400, HAMMER_LIST = 5 };

typedef struct hammer {
    kt_thread_t thread;
    kvs_store_t *store;
    int place;
    int n_failed;
} hammer_t;

/* The j-th key of a thread's i-th list: spread out, and in no order. */
static int64_t hammer_key(int place, int i, int j)
{
    return 1 + ((int64_t)i * 37 + place * 131 + j * 397) % HAMMER_KEYS;
}

static void run_hammer(void *arg)
{
    hammer_t *hammer = arg;
    float one = 1;
    float *const ones[HAMMER_LIST] = {&one, &one, &one, &one, &one};

    for (int i = 0; i < HAMMER_ROUNDS; i++) {
        kvs_event_t *event = NULL;
        int64_t keys[HAMMER_LIST];

        for (int j = 0; j < HAMMER_LIST; j++) {
            keys[j] = hammer_key(hammer->place, i, j);
        }
        if (i % 3 == 0) {
            hammer->n_failed +=
                call_list(hammer->store, KVS_VERB_PUSH, keys, HAMMER_LIST, ones, 1, NULL) != KVS_OK;
            continue;
        }
        hammer->n_failed +=
            call_list(hammer->store, KVS_VERB_PUSH, keys, HAMMER_LIST, ones, 1, &event) != KVS_OK;
        hammer->n_failed += i % 3 == 1 && kvs_event_wait(event, KT_PATIENCE_MS) != KVS_OK;
        kvs_event_free(event);
    }
}

static void eight_threads_lose_no_push_to_a_thousand_keys(void)
{
    static int expected[HAMMER_KEYS + 1];
    kvs_store_t *store = begin_with_keys(HAMMER_KEYS);
    hammer_t hammers[HAMMER_THREADS];
    int n_wrong = 0;

    KT_OK(kvs_store_set_updater(store, add_updater, NULL));
    for (int t = 0; t < HAMMER_THREADS; t++) {
        hammers[t] = (hammer_t){.store = store, .place = t};
        kt_thread_start(&hammers[t].thread, run_hammer, &hammers[t]);
        for (int i = 0; i < HAMMER_ROUNDS * HAMMER_LIST; i++) {
            expected[hammer_key(t, i / HAMMER_LIST, i % HAMMER_LIST)]++;
        }
    }
    for (int t = 0; t < HAMMER_THREADS; t++) {
        kt_thread_join(&hammers[t].thread);
        KT_INT(hammers[t].n_failed, 0);
    }
    KT_OK(kvs_store_wait_all(store, KT_PATIENCE_MS));
    for (int64_t key = 1; key <= HAMMER_KEYS; key++) {
        n_wrong += pull_one(store, key) != (float)expected[key];
    }
    KT_INT(n_wrong, 0);
    KT_OK(kvs_store_close(store));
}

/* Without an updater: each thread has a key of its own for its value, and all share the others. */
static void run_exchanges(void *arg)
{
    hammer_t *hammer = arg;
    float mine, pulled = -1, shared;

    for (int i = 1; i <= HAMMER_ROUNDS; i++) {
        kvs_event_t *event = NULL;
        int64_t key = 100 + hammer->place, common = 1 + i % 3;

        mine = (float)i;
        shared = (float)hammer->place;
        hammer->n_failed += call(hammer->store, KVS_VERB_PUSH, common, &shared, 1) != KVS_OK;
        hammer->n_failed +=
            call_key(hammer->store, KVS_VERB_PUSH, kvs_key_int(key), &mine, 1, &event) != KVS_OK;
        hammer->n_failed += call(hammer->store, KVS_VERB_PULL, key, &pulled, 1) != KVS_OK;
        hammer->n_failed += pulled != (float)i;
        hammer->n_failed += finish(event) != KVS_OK;
        hammer->n_failed += call(hammer->store, KVS_VERB_PULL, common, &shared, 1) != KVS_OK;
        hammer->n_failed += shared < 0 || shared >= HAMMER_THREADS;
    }
}

static void threads_that_share_some_keys_see_their_own_pushes(void)
{
    kvs_store_t *store = begin_with_keys(3);
    hammer_t hammers[HAMMER_THREADS];

    for (int t = 0; t < HAMMER_THREADS; t++) {
        init_one(store, 100 + t, 0);
    }
    for (int t = 0; t < HAMMER_THREADS; t++) {
        hammers[t] = (hammer_t){.store = store, .place = t};
        kt_thread_start(&hammers[t].thread, run_exchanges, &hammers[t]);
    }
    for (int t = 0; t < HAMMER_THREADS; t++) {
        kt_thread_join(&hammers[t].thread);
        KT_INT(hammers[t].n_failed, 0);
    }
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(operations_on_one_key_take_effect_in_the_order_issued),
    KT_TEST(a_pull_sees_every_push_issued_before_it),
    KT_TEST(a_call_without_an_event_waits_for_earlier_ones_on_its_key),
    KT_TEST(operations_on_other_keys_overtake),
    KT_TEST(other_stores_are_not_held_up),
    KT_TEST(the_keys_of_a_list_that_are_free_do_not_wait_for_the_others),
    KT_TEST(a_list_without_an_event_runs_as_its_keys_become_free),
    KT_TEST(a_list_whose_arrays_share_memory_waits_for_all_its_keys),
    KT_TEST(large_lists_run_side_by_side_and_whole),
    KT_TEST(a_blocked_updater_holds_up_pushes_but_neither_pulls_nor_other_stores),
    KT_TEST(operations_that_wait_for_the_updater_hold_no_thread_of_the_pool),
    KT_TEST(the_updater_runs_on_one_thread_at_a_time),
    KT_TEST(within_a_call_the_updater_goes_by_ascending_keys),
    KT_TEST(a_failing_updater_is_the_status_of_its_push),
    KT_TEST(a_failing_updater_without_words_gets_nobody_elses),
    KT_TEST(an_updater_may_ask_what_the_store_is_and_nothing_else),
    KT_TEST(setting_an_updater_or_optimizer_waits_for_what_was_issued_before),
    KT_TEST(setting_an_updater_does_not_wait_beyond_the_deadline),
    KT_TEST(wait_all_does_not_wait_for_what_is_issued_after_it),
    KT_TEST(a_failed_operation_leaves_the_key_usable),
    KT_TEST(the_error_of_a_list_is_the_first_in_list_order),
    KT_TEST(the_other_keys_of_a_list_with_a_failure_are_carried_out),
    KT_TEST(a_key_whose_init_failed_can_be_initialised_again),
    KT_TEST(a_key_whose_init_failed_can_get_another_shape),
    KT_TEST(a_failed_broadcast_leaves_no_key),
    KT_TEST(the_failure_of_the_only_init_leaves_the_key_type_open),
    KT_TEST(pushes_behind_an_init_that_fails_are_not_carried_out),
    KT_TEST(a_push_issued_before_a_second_init_does_not_belong_to_it),
    KT_TEST(a_push_issued_while_the_init_fails_is_not_carried_out),
    KT_TEST(an_exchange_behind_one_that_fails_is_carried_out),
    KT_TEST(exchanges_that_all_fail_leave_the_key_type_open),
    KT_TEST(an_error_of_issue_ends_the_operation_before_it_begins),
    KT_TEST(ten_thousand_events_are_in_flight_at_once),
    KT_TEST(eight_threads_lose_no_push_to_a_thousand_keys),
    KT_TEST(threads_that_share_some_keys_see_their_own_pushes),
};

int main(int argc, char **argv)
{
    setenv("KVSTORE_THREADS", "4", 1);
    return kt_run("engine", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
