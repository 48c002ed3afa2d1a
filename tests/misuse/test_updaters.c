/* SPDX-License-Identifier: Apache-2.0 */
/* Updaters that fail, and callbacks that use the store they are called from. */
#include "misuse.h"

#include <stdlib.h>

typedef struct probe {
    kvs_store_t *store;
    kvs_status_t fail_with;
    const char *text; /* NULL: fail without one */
    int n_calls;
} probe_t;

static const float ones[MISUSE_N] = {1, 1, 1, 1, 1, 1};

static kvs_status_t push_ones(kvs_store_t *store)
{
    float data[MISUSE_N];

    memcpy(data, ones, sizeof(data));
    return misuse_push(store, kvs_key_int(MISUSE_KEY),
                       kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2));
}

static double first_value(kvs_store_t *store)
{
    float out[MISUSE_N] = {-1};

    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY),
                      kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)));
    return out[0];
}

static kvs_status_t add_then_fail(const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *stored, void *arg)
{
    probe_t *probe = arg;

    (void)key;
    probe->n_calls++;
    ((float *)stored->data)[0] += ((const float *)value->data)[0];
    if (probe->fail_with == KVS_OK) {
        return KVS_OK;
    }
    return probe->text != NULL ? kvs_fail(probe->fail_with, "%s", probe->text) : probe->fail_with;
}

static void an_updaters_failure_is_the_status_of_the_push_with_its_words(void)
{
    kvs_store_t *store = misuse_open();
    probe_t probe = {.fail_with = KVS_ERR_IO, .text = "no room left on the moon"};

    KT_OK(kvs_store_set_updater(store, add_then_fail, &probe));
    KT_FAIL(push_ones(store), KVS_ERR_CALLBACK, "no room left on the moon");
    KT_HAS(kvs_last_error(), "3");
    KT_INT(probe.n_calls, 1);
    KT_REAL(first_value(store), 2); /* what the callback left */
    misuse_close_working(store, kvs_key_int(6));
}

static void any_other_status_is_a_failure_also_without_words(void)
{
    static const kvs_status_t statuses[] = {1, 77, INT32_MAX, INT32_MIN, KVS_ERR_CALLBACK};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        kvs_store_t *store = misuse_open();
        probe_t probe = {.fail_with = statuses[i]};

        KT_OK(kvs_store_set_updater(store, add_then_fail, &probe));
        KT_FAIL(push_ones(store), KVS_ERR_CALLBACK, "3");
        misuse_close_working(store, kvs_key_int(6));
    }
}

static void an_updaters_failure_is_told_once(void)
{
    kvs_store_t *store = misuse_open();
    probe_t probe = {.fail_with = KVS_ERR_IO, .text = "once"};

    KT_OK(kvs_store_set_updater(store, add_then_fail, &probe));
    KT_FAIL(push_ones(store), KVS_ERR_CALLBACK, "once");
    probe.fail_with = KVS_OK;
    KT_OK(push_ones(store));
    KT_OK(kvs_store_wait_all(store, -1));
    misuse_close_working(store, kvs_key_int(6));
}

static void pushpull_reports_an_updaters_failure(void)
{
    kvs_store_t *store = misuse_open();
    probe_t probe = {.fail_with = KVS_ERR_IO, .text = "broken"};
    float data[MISUSE_N] = {1, 1, 1, 1, 1, 1}, out[MISUSE_N] = {0};
    kvs_tensor_t v = kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2);
    kvs_tensor_t o = kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2);
    kvs_arrays_t values = kvs_arrays(&v, 1), outs = kvs_arrays(&o, 1);
    kvs_key_t key = kvs_key_int(MISUSE_KEY);

    KT_OK(kvs_store_set_updater(store, add_then_fail, &probe));
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &values, &outs, NULL), KVS_ERR_CALLBACK, "broken");
    KT_REAL(first_value(store), 2);
    misuse_close_working(store, kvs_key_int(6));
}

/* Calls everything it may not call; each must be a state error that changes nothing. */
static kvs_status_t use_the_store(const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *stored, void *arg)
{
    probe_t *probe = arg;
    kvs_store_t *store = probe->store;
    kvs_stats_t stats = {.size = sizeof(stats)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    float data[MISUSE_N] = {0};
    int number = 0;
    kvs_tensor_t array = kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);

    (void)value;
    (void)stored;
    probe->n_calls++;
    spec.name = "sgd";
    KT_FAIL(misuse_push(store, *key, array), KVS_ERR_STATE, "callback");
    KT_FAIL(misuse_pull(store, *key, array), KVS_ERR_STATE, "callback");
    KT_FAIL(misuse_init(store, kvs_key_int(88), array), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_pushpull(store, key, 1, &arrays, NULL, NULL), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_broadcast(store, key, 1, &arrays, &arrays, NULL), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_set_updater(store, NULL, NULL), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_wait_all(store, 0), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_barrier(store), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_stats(store, &stats), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_local_rank(store, &number), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_is_recovery(store, &number), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_close(store), KVS_ERR_STATE, "callback");
    return KVS_OK;
}

static void a_callback_that_uses_its_store_gets_state_errors(void)
{
    kvs_store_t *store = misuse_open();
    probe_t probe = {.store = store};

    KT_OK(kvs_store_set_updater(store, use_the_store, &probe));
    KT_OK(push_ones(store));
    KT_INT(probe.n_calls, 1);
    KT_REAL(first_value(store), 1);
    misuse_close_working(store, kvs_key_int(6));
}

static void a_callback_that_uses_another_store_gets_state_errors(void)
{
    kvs_store_t *store = misuse_open();
    kvs_store_t *other = misuse_open();
    probe_t probe = {.store = other};

    KT_OK(kvs_store_set_updater(store, use_the_store, &probe));
    KT_OK(push_ones(store));
    KT_INT(probe.n_calls, 1);
    misuse_close_working(store, kvs_key_int(6));
    misuse_close_untouched(other);
}

static kvs_status_t ask_the_store(const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *stored, void *arg)
{
    probe_t *probe = arg;
    int number = -1;

    (void)key;
    (void)value;
    (void)stored;
    probe->n_calls++;
    KT_STR(kvs_store_type(probe->store), "local");
    KT_OK(kvs_store_rank(probe->store, &number));
    KT_INT(number, 0);
    KT_OK(kvs_store_num_workers(probe->store, &number));
    KT_INT(number, 1);
    KT_OK(kvs_store_is_capable(probe->store, "optimizer", &number));
    KT_INT(number, 1);
    return KVS_OK;
}

static void a_callback_may_ask_what_the_store_is(void)
{
    kvs_store_t *store = misuse_open();
    probe_t probe = {.store = store};

    KT_OK(kvs_store_set_updater(store, ask_the_store, &probe));
    KT_OK(push_ones(store));
    KT_INT(probe.n_calls, 1);
    misuse_close_working(store, kvs_key_int(6));
}

static void removing_an_updater_that_was_never_set_is_fine(void)
{
    kvs_store_t *store = misuse_open();

    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    KT_FAIL(kvs_store_set_updater(NULL, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(an_updaters_failure_is_the_status_of_the_push_with_its_words),
    KT_TEST(any_other_status_is_a_failure_also_without_words),
    KT_TEST(an_updaters_failure_is_told_once),
    KT_TEST(pushpull_reports_an_updaters_failure),
    KT_TEST(a_callback_that_uses_its_store_gets_state_errors),
    KT_TEST(a_callback_that_uses_another_store_gets_state_errors),
    KT_TEST(a_callback_may_ask_what_the_store_is),
    KT_TEST(removing_an_updater_that_was_never_set_is_fine),
};
KT_MAIN("misuse.updaters", tests)
