/* SPDX-License-Identifier: Apache-2.0 */
/* Events waited for twice, freed early, given to nobody, with callbacks that misbehave; and errors
 * that nobody asked for, which must reach somebody exactly once. */
#include "misuse.h"

#include <sched.h>
#include <stdlib.h>

static float buffer[MISUSE_N];

static kvs_tensor_t array(void)
{
    return kt_tensor(buffer, KVS_DTYPE_float32, misuse_shape, 2);
}

/* A push of zeros with an event. */
static kvs_status_t push_with_event(kvs_store_t *store, kvs_event_t **ret_event)
{
    kvs_call_t call = KVS_CALL_INIT;
    kvs_tensor_t value = array();
    kvs_arrays_t values = kvs_arrays(&value, 1);
    kvs_key_t key = kvs_key_int(MISUSE_KEY);

    call.ret_event = ret_event;
    return kvs_store_push(store, &key, 1, &values, &call);
}

static kvs_status_t fail(const kvs_key_t *key, const kvs_tensor_t *value,
                         const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    return kvs_fail(KVS_ERR_IO, "%s", (const char *)arg);
}

/* Look until it has completed, without being told its status. */
static void until_done(kvs_event_t *event)
{
    int done = 0;

    while (!done && KT_OK(kvs_event_test(event, &done))) {
        sched_yield();
    }
}

static void waiting_twice_gives_the_same_answer(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;
    int done = 0;

    KT_OK(push_with_event(store, &event));
    KT_OK(kvs_event_wait(event, -1));
    KT_OK(kvs_event_wait(event, -1));
    KT_OK(kvs_event_wait(event, 0));
    KT_OK(kvs_event_test(event, &done));
    KT_INT(done, 1);
    kvs_event_free(event);
    misuse_close_working(store, kvs_key_int(9));
}

static void an_event_carries_its_operations_error_and_text(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;

    KT_OK(kvs_store_set_updater(store, fail, "for the event"));
    KT_OK(push_with_event(store, &event));
    KT_FAIL(kvs_event_wait(event, -1), KVS_ERR_CALLBACK, "for the event");
    kvs_fail(KVS_ERR_IO, "another text");
    KT_FAIL(kvs_event_wait(event, -1), KVS_ERR_CALLBACK, "for the event");
    kvs_event_free(event);
    KT_OK(kvs_store_wait_all(store, -1)); /* it has been told */
    misuse_close_working(store, kvs_key_int(9));
}

/* "An error nobody has been told by then is delivered by the next operation on that key …" */
static void an_error_whose_event_was_freed_is_told_by_the_next_operation_on_the_key(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;
    float out[MISUSE_N] = {-1};

    KT_OK(kvs_store_set_updater(store, fail, "lost and found"));
    KT_OK(push_with_event(store, &event));
    until_done(event);
    kvs_event_free(event);
    KT_FAIL(misuse_pull(store, kvs_key_int(MISUSE_KEY),
                        kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)),
            KVS_ERR_CALLBACK, "lost and found");
    KT_REAL(out[0], -1); /* that operation was not carried out */
    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY),
                      kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)));
    KT_REAL(out[0], 1);
    misuse_close_working(store, kvs_key_int(9));
}

static void an_error_whose_event_was_freed_is_told_by_wait_all(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;

    KT_OK(kvs_store_set_updater(store, fail, "in the end"));
    KT_OK(push_with_event(store, &event));
    kvs_event_free(event);
    KT_FAIL(kvs_store_wait_all(store, -1), KVS_ERR_CALLBACK, "in the end");
    KT_OK(kvs_store_wait_all(store, -1));
    misuse_close_working(store, kvs_key_int(9));
}

static void an_error_whose_event_was_freed_is_told_by_close(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;

    KT_OK(kvs_store_set_updater(store, fail, "last call"));
    KT_OK(push_with_event(store, &event));
    kvs_event_free(event);
    KT_FAIL(kvs_store_close(store), KVS_ERR_CALLBACK, "last call");
}

static void an_event_may_outlive_its_store(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;

    KT_OK(push_with_event(store, &event));
    KT_OK(kvs_store_close(store));
    KT_OK(kvs_event_wait(event, -1));
    kvs_event_free(event);
}

static void an_event_freed_before_completion_does_no_harm(void)
{
    kvs_store_t *store = misuse_open();

    for (int i = 0; i < 100; i++) {
        kvs_event_t *event = NULL;

        KT_OK(push_with_event(store, &event));
        kvs_event_free(event);
    }
    kvs_event_free(NULL);
    misuse_close_working(store, kvs_key_int(9));
}

static void events_must_not_be_null(void)
{
    int done = 5;

    KT_FAIL(kvs_event_wait(NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_event_test(NULL, &done), KVS_ERR_ARGUMENT, "NULL");
    KT_INT(done, 5);
}

static void wrong_arguments_are_told_by_the_call_and_give_no_event(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *const untouched = (kvs_event_t *)&store;
    kvs_event_t *event = untouched;
    kvs_call_t call = KVS_CALL_INIT;
    kvs_tensor_t value = array();
    kvs_arrays_t values = kvs_arrays(&value, 1);
    kvs_key_t keys[2] = {kvs_key_int(MISUSE_KEY), kvs_key_int(4)};

    call.ret_event = &event;
    KT_FAIL(kvs_store_push(store, keys, 2, &values, &call), KVS_ERR_ARGUMENT, "2");
    KT_TRUE(event == untouched);
    KT_FAIL(kvs_store_push(store, keys + 1, 1, &values, &call), KVS_ERR_NOT_FOUND, "4");
    KT_TRUE(event == untouched);
    misuse_close_untouched(store);
}

static void an_empty_list_gives_an_event_that_has_completed(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;
    kvs_call_t call = KVS_CALL_INIT;
    kvs_arrays_t none = kvs_arrays(NULL, 0);

    call.ret_event = &event;
    KT_OK(kvs_store_push(store, NULL, 0, &none, &call));
    KT_TRUE(event != NULL);
    KT_OK(kvs_event_wait(event, -1));
    kvs_event_free(event);
    misuse_close_untouched(store);
}

/* ---- callbacks ---- */

typedef struct seen {
    kvs_store_t *store;
    int n_calls;
    kvs_status_t status;
    char text[128];
} seen_t;

static void note(kvs_status_t status, const char *text, void *arg)
{
    seen_t *seen = arg;

    seen->n_calls++;
    seen->status = status;
    snprintf(seen->text, sizeof(seen->text), "%s", text);
}

static void a_callback_runs_once_with_status_and_text(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;
    seen_t seen = {0};

    KT_OK(kvs_store_set_updater(store, fail, "to the callback"));
    KT_OK(push_with_event(store, &event));
    KT_OK(kvs_event_on_complete(event, note, &seen));
    KT_FAIL(kvs_event_on_complete(event, note, &seen), KVS_ERR_STATE, "callback");
    KT_TRUE(kvs_event_wait(event, -1) == KVS_ERR_CALLBACK);
    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    kvs_event_free(event);
    KT_TRUE(kvs_store_wait_all(store, -1) == KVS_OK);
    KT_OK(kvs_store_close(store));
    KT_INT(seen.n_calls, 1);
    KT_INT(seen.status, KVS_ERR_CALLBACK);
    KT_HAS(seen.text, "to the callback");
}

static void a_callback_must_be_given(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;

    KT_OK(push_with_event(store, &event));
    KT_FAIL(kvs_event_on_complete(event, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_event_on_complete(NULL, note, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_event_test(event, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_OK(kvs_event_wait(event, -1));
    kvs_event_free(event);
    misuse_close_working(store, kvs_key_int(9));
}

static void use_the_store(kvs_status_t status, const char *text, void *arg)
{
    seen_t *seen = arg;
    float data[MISUSE_N] = {0};

    (void)status;
    (void)text;
    seen->n_calls++;
    seen->status = misuse_push(seen->store, kvs_key_int(MISUSE_KEY),
                               kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2));
}

static void a_callback_that_uses_the_store_gets_a_state_error(void)
{
    kvs_store_t *store = misuse_open();
    kvs_event_t *event = NULL;
    seen_t seen = {.store = store};

    KT_OK(push_with_event(store, &event));
    KT_OK(kvs_event_wait(event, -1));
    KT_OK(kvs_event_on_complete(event, use_the_store, &seen));
    KT_INT(seen.n_calls, 1);
    KT_INT(seen.status, KVS_ERR_STATE);
    kvs_event_free(event);
    misuse_close_working(store, kvs_key_int(9));
}

/* ---- wait_all and cancel ---- */

static void wait_all_takes_any_timeout(void)
{
    kvs_store_t *store = misuse_open();

    KT_OK(kvs_store_wait_all(store, 0));
    KT_OK(kvs_store_wait_all(store, INT64_MAX));
    KT_OK(kvs_store_wait_all(store, INT64_MIN));
    KT_FAIL(kvs_store_wait_all(NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static void after_cancel_every_operation_fails_and_close_works(void)
{
    kvs_store_t *store = misuse_open();

    kvs_store_cancel(store);
    kvs_store_cancel(store);
    KT_FAIL(misuse_push(store, kvs_key_int(MISUSE_KEY), array()), KVS_ERR_CANCELLED, "cancel");
    KT_FAIL(misuse_pull(store, kvs_key_int(MISUSE_KEY), array()), KVS_ERR_CANCELLED, "cancel");
    (void)kvs_store_close(store); /* its status is not promised */
}

static const kt_test_t tests[] = {
    KT_TEST(waiting_twice_gives_the_same_answer),
    KT_TEST(an_event_carries_its_operations_error_and_text),
    KT_TEST(an_error_whose_event_was_freed_is_told_by_the_next_operation_on_the_key),
    KT_TEST(an_error_whose_event_was_freed_is_told_by_wait_all),
    KT_TEST(an_error_whose_event_was_freed_is_told_by_close),
    KT_TEST(an_event_may_outlive_its_store),
    KT_TEST(an_event_freed_before_completion_does_no_harm),
    KT_TEST(events_must_not_be_null),
    KT_TEST(wrong_arguments_are_told_by_the_call_and_give_no_event),
    KT_TEST(an_empty_list_gives_an_event_that_has_completed),
    KT_TEST(a_callback_runs_once_with_status_and_text),
    KT_TEST(a_callback_must_be_given),
    KT_TEST(a_callback_that_uses_the_store_gets_a_state_error),
    KT_TEST(wait_all_takes_any_timeout),
    KT_TEST(after_cancel_every_operation_fails_and_close_works),
};
KT_MAIN("misuse.events", tests)
