/* SPDX-License-Identifier: Apache-2.0 */
/* cases_events.c - operations that go on after their call has returned. */
#include "gate.h"
#include "themes.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { N = 6, WAIT_MS = 20000 };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

/* Make the key known where weights are kept. */
static void make(cf_t *t, kvs_key_t key)
{
    if (cf_keeps_weights(t)) {
        cf_init(t, key, f32(t, 0));
    }
}

/* A pushpull of `value` into `out` that gives an event. */
static kvs_event_t *start(cf_t *t, kvs_key_t key, cf_array_t *value, cf_array_t *out)
{
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);

    CF_OK(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, out), &call));
    return event;
}

static void wait_twice(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);
    kvs_event_t *event;
    int done = -1;

    make(t, key);
    event = start(t, key, f32(t, 3), out);
    CF_OK(t, kvs_event_wait(event, WAIT_MS));
    cf_want_all(t, "out after the event", out, 3 * t->n_workers);
    CF_OK(t, kvs_event_test(event, &done));
    cf_want_number(t, "done, after the wait", done, 1);
    CF_OK(t, kvs_event_wait(event, 0));
    CF_OK(t, kvs_event_wait(event, -1));
    kvs_event_free(event);
    kvs_event_free(NULL);
}

static void every_operation(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *value = f32(t, 2), *out = f32(t, 0), *spread = f32(t, 0);
    const kvs_arrays_t *values = CF_LIST(t, value, value);
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);

    CF_OK(t, kvs_store_broadcast(t->store, keys, 2, values, CF_LIST(t, spread, out), &call));
    cf_finish(t, event);
    cf_want_all(t, "out of a broadcast", spread, 2);
    if (!cf_keeps_weights(t)) {
        return;
    }
    CF_OK(t, kvs_store_push(t->store, keys, 2, values, &call));
    cf_finish(t, event);
    CF_OK(t, kvs_store_pull(t->store, keys, 1, CF_LIST(t, out), &call));
    cf_finish(t, event);
    cf_want_all(t, "out of a pull", out, 2 * t->n_workers);
    keys[0] = cf_key(t, 3);
    CF_OK(t, kvs_store_init(t->store, keys, 1, CF_LIST(t, value), &call));
    cf_finish(t, event);
    cf_pull(t, keys[0], out);
    cf_want_all(t, "out of a pull after an init", out, 2);
}

static void list_is_one(cf_t *t)
{
    enum { N_KEYS = 20 };
    kvs_key_t keys[N_KEYS];
    cf_array_t *values[N_KEYS], *outs[N_KEYS];
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);

    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = cf_key(t, i);
        values[i] = f32(t, i);
        outs[i] = f32(t, 99);
        make(t, keys[i]);
    }
    CF_OK(t, kvs_store_pushpull(t->store, keys, N_KEYS, cf_list(t, N_KEYS, values),
                                cf_list(t, N_KEYS, outs), &call));
    cf_finish(t, event);
    for (int i = 0; i < N_KEYS; i++) {
        cf_want_all(t, "out of a list, after its event", outs[i], i * t->n_workers);
    }
}

static void empty_list(cf_t *t)
{
    const kvs_arrays_t *none = cf_list(t, 0, NULL);
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);

    CF_OK(t, kvs_store_pushpull(t->store, NULL, 0, none, none, &call));
    cf_finish(t, event);
}

/* What a callback was told, and that it was. */
typedef struct told {
    cf_t *t;
    const kvs_arrays_t *list;
    sem_t called;
    int n_calls;
    kvs_status_t status, inside;
    char text[256];
} told_t;

static void note(kvs_status_t status, const char *text, void *arg)
{
    told_t *told = arg;
    kvs_key_t key = kvs_key_int(0);

    told->n_calls++;
    told->status = status;
    snprintf(told->text, sizeof(told->text), "%s", text ? text : "(null)");
    told->inside = kvs_store_pushpull(told->t->store, &key, 1, told->list, NULL, NULL);
    sem_post(&told->called);
}

static told_t *new_told(cf_t *t)
{
    told_t *told = cf_alloc(t, sizeof(*told));

    told->t = t;
    told->list = CF_LIST(t, f32(t, 1));
    sem_init(&told->called, 0, 0);
    return told;
}

static void await(cf_t *t, told_t *told)
{
    if (!cf_await(&told->called, WAIT_MS)) {
        cf_fail(t, "the callback of an event: not called");
    }
}

static void callback(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    told_t *told = new_told(t);
    kvs_event_t *event;

    make(t, key);
    event = start(t, key, f32(t, 1), f32(t, 0));
    CF_OK(t, kvs_event_on_complete(event, note, told));
    CF_FAIL(t, kvs_event_on_complete(event, note, told), KVS_ERR_STATE, "");
    await(t, told);
    cf_want_text(t, "status told to the callback", kvs_status_name(told->status), "KVS_OK");
    cf_want_text(t, "a pushpull inside the callback", kvs_status_name(told->inside),
                 "KVS_ERR_STATE");
    CF_OK(t, kvs_event_wait(event, WAIT_MS));
    kvs_event_free(event);
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_number(t, "calls of the callback", told->n_calls, 1);
    sem_destroy(&told->called);
}

static void callback_late(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    told_t *told = new_told(t);
    kvs_event_t *event;

    make(t, key);
    event = start(t, key, f32(t, 1), f32(t, 0));
    CF_OK(t, kvs_event_wait(event, WAIT_MS));
    CF_OK(t, kvs_event_on_complete(event, note, told));
    cf_want_number(t, "calls of a callback set after completion", told->n_calls, 1);
    kvs_event_free(event);
    sem_destroy(&told->called);
}

static void free_early(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);
    told_t *told = new_told(t);
    kvs_event_t *event;

    make(t, key);
    kvs_event_free(start(t, key, f32(t, 4), out));
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_all(t, "out of an operation whose event was freed", out, 4 * t->n_workers);
    event = start(t, key, f32(t, 5), out);
    CF_OK(t, kvs_event_on_complete(event, note, told));
    kvs_event_free(event);
    await(t, told);
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_all(t, "out of an operation whose event was freed", out, 5 * t->n_workers);
    sem_destroy(&told->called);
}

static void argument_error(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = f32(t, 1);
    kvs_event_t *event = (kvs_event_t *)value; /* anything that is not NULL: it stays */
    kvs_call_t call = cf_call(&event);

    CF_FAIL(t,
            kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value),
                                CF_LIST(t, cf_vector(t, KVS_DTYPE_float32, N + 7)), &call),
            KVS_ERR_SHAPE, "13");
    cf_want_true(t, event == (kvs_event_t *)value, "a refused call gives no event");
}

static void at_once(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);
    cf_gate_t *gate;
    int done = -1;

    make(t, key);
    gate = cf_gate_set(t);
    CF_OK(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 7)), &call));
    CF_OK(t, kvs_event_test(event, &done));
    cf_want_number(t, "done, while the updater waits", done, 0);
    CF_FAIL(t, kvs_event_wait(event, 0), KVS_ERR_TIMEOUT, "");
    CF_FAIL(t, kvs_event_wait(event, 5), KVS_ERR_TIMEOUT, "");
    CF_FAIL(t, kvs_store_wait_all(t->store, 5), KVS_ERR_TIMEOUT, "");
    cf_gate_open(gate, 1);
    CF_OK(t, kvs_event_wait(event, WAIT_MS));
    CF_OK(t, kvs_event_test(event, &done));
    cf_want_number(t, "done, after the wait", done, 1);
    kvs_event_free(event);
    cf_gate_release(t, gate);
    cf_pull(t, key, out);
    cf_want_all(t, "stored", out, 7 * t->n_workers);
}

/* Pushes and a pull queue up behind a closed gate; the caller's arrays are all still its own. */
static void order(cf_t *t)
{
    enum { N_PUSHES = 5 };
    kvs_key_t key = cf_key(t, 1);
    kvs_event_t *events[N_PUSHES + 1] = {NULL};
    cf_array_t *early = f32(t, 0), *last = f32(t, 0);
    cf_gate_t *gate;

    make(t, key);
    gate = cf_gate_set(t);
    for (int i = 0; i < N_PUSHES; i++) {
        kvs_call_t call = cf_call(&events[i]);

        call.priority = i % 3; /* no priority changes the order on one key */
        CF_OK(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 1 << i)), &call));
        if (i == 1) {
            call = cf_call(&events[N_PUSHES]);
            call.priority = 9;
            CF_OK(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, early), &call));
        }
    }
    cf_gate_open(gate, N_PUSHES);
    cf_pull(t, key, last);
    cf_want_all(t, "pulled after five pushes", last, 31 * t->n_workers);
    for (int i = 0; i <= N_PUSHES; i++) {
        cf_finish(t, events[i]);
    }
    cf_want_all(t, "pulled after two pushes", early, 3 * t->n_workers);
    cf_gate_release(t, gate);
}

static void sequence(cf_t *t)
{
    enum { N_ROUNDS = 50 };
    kvs_key_t key = cf_key(t, 1);
    kvs_event_t *events[N_ROUNDS] = {NULL};
    cf_array_t *outs[N_ROUNDS];

    make(t, key);
    for (int i = 0; i < N_ROUNDS; i++) {
        outs[i] = f32(t, -1);
        events[i] = start(t, key, f32(t, i), outs[i]);
    }
    for (int i = N_ROUNDS - 1; i >= 0; i--) {
        cf_finish(t, events[i]);
        cf_want_all(t, "out of its own round", outs[i], i * t->n_workers);
    }
}

static void error(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);
    told_t *told = new_told(t);
    cf_gate_t *gate;

    make(t, key);
    gate = cf_gate_set(t);
    gate->fails = true;
    CF_OK(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 1)), &call));
    CF_OK(t, kvs_event_on_complete(event, note, told));
    cf_gate_open(gate, 1);
    await(t, told);
    cf_want_text(t, "status told to the callback", kvs_status_name(told->status),
                 "KVS_ERR_CALLBACK");
    cf_want_part(t, "text told to the callback", told->text, "the gate fell shut");
    for (int i = 0; i < 2; i++) {
        CF_FAIL(t, kvs_event_wait(event, WAIT_MS), KVS_ERR_CALLBACK, "the gate fell shut");
        cf_want_part(t, "text of the event", kvs_last_error(), cf_key_text(t, key));
    }
    kvs_event_free(event);
    CF_OK(t, kvs_store_wait_all(t->store, -1)); /* the error was told */
    cf_gate_release(t, gate);
    sem_destroy(&told->called);
}

/* A push that fails, and whose event is given up before anybody asked. */
static void fail_untold(cf_t *t, kvs_key_t key, cf_gate_t *gate)
{
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);

    cf_gate_open(gate, 1);
    CF_OK(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 1)), &call));
    kvs_event_free(event);
}

/* The first pull may have been issued before the push had failed; then the second one is told. */
static void untold_error(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *out = f32(t, 0);
    cf_gate_t *gate;
    int n_told = 0;

    make(t, keys[0]);
    make(t, keys[1]);
    gate = cf_gate_set(t);
    gate->fails = true;
    fail_untold(t, keys[0], gate);
    CF_FAIL(t, kvs_store_wait_all(t->store, -1), KVS_ERR_CALLBACK, "the gate fell shut");
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    fail_untold(t, keys[0], gate);
    cf_pull(t, keys[1], out); /* another key's operation is not told */
    for (int i = 0; i < 2; i++) {
        kvs_status_t status;

        cf_set_all(t, out, 9);
        status = kvs_store_pull(t->store, keys, 1, CF_LIST(t, out), NULL);
        if (status != KVS_OK) {
            n_told++;
            CF_FAIL(t, status, KVS_ERR_CALLBACK, "the gate fell shut");
        }
        if (status == KVS_OK || t->n_workers == 1) { /* in a job a pull may be told at its end */
            cf_want_all(t, "out of a pull, or of one that was told instead", out, status ? 9 : 0);
        }
    }
    cf_want_number(t, "operations told of the error", n_told, 1);
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_gate_release(t, gate);
}

static const cf_case_t cases[] = {
    {"event.wait", "After its event the operation's outs are written; it may be asked again.",
     CF_REPLACES, wait_twice},
    {"event.every_operation", "Every operation can give an event.", CF_REPLACES | CF_LISTS,
     every_operation},
    {"event.list_is_one", "A list is one event.", CF_REPLACES | CF_LISTS, list_is_one},
    {"event.empty_list", "An empty list gives an event that is done.", 0, empty_list},
    {"event.callback", "A callback is called once, with the status, and may use no store.",
     CF_REPLACES, callback},
    {"event.callback_late", "A callback set after completion is called at once.", CF_REPLACES,
     callback_late},
    {"event.free_early", "A freed event does not end its operation, nor its callback.", CF_REPLACES,
     free_early},
    {"event.argument_error", "An argument error is the call's own status, and gives no event.", 0,
     argument_error},
    {"event.at_once", "With an event a call returns at once; waiting has a time-out.", CF_UPDATER,
     at_once},
    {"event.order",
     "Operations on one key take effect in the order issued, whatever their priority.", CF_UPDATER,
     order},
    {"event.sequence", "Many operations on one key in flight each give their own result.",
     CF_REPLACES, sequence},
    {"event.error", "An operation's error is its event's status, with the text.", CF_UPDATER,
     error},
    {"event.untold_error",
     "An error nobody was told is brought once, by the next operation on that key or by wait_all.",
     CF_UPDATER, untold_error},
};

const cf_theme_t cf_theme_events = CF_THEME(cases);
