/* SPDX-License-Identifier: Apache-2.0 */
/* Forks and exits: a child can use nothing of its parent's stores, may have stores of its own, and
 * neither leaving a process with stores open nor with work running hangs it. */
#include "calls.h"

#include "op.h"
#include "store.h"

#include <kvstore/plugins.h>

#include <stdlib.h>
#include <unistd.h>

static int is_child;

static bool is_ours_alone(void *event)
{
    return atomic_load(&kvsi_op_of(event)->refs) == 1;
}

/* A store with the big keys 1 and 2, and threads of the pool that have run: they give back no memory any
 * more, as AddressSanitizer's locks would stay with the child. */
static kvs_store_t *begin(void)
{
    kvs_store_t *store;
    kvs_event_t *event;

    fake_begin();
    store = fake_open(FAKE);
    init_big(store, 1);
    init_big(store, 2);
    event = start_big(store, KVS_VERB_PUSH, 1);
    kt_until(is_ours_alone, event, "the pool to let go of an operation");
    KT_OK(finish(event));
    fake_begin();
    return store;
}

/* The leak sanitizer asks this at exit. It would take for lost what only threads hold that are not
 * in the child. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

/* Run `run` in a child, which exits with what it gives; one that hangs is killed. */
static int in_child(int (*run)(void *arg), void *arg)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        is_child = 1;
        alarm(KT_PATIENCE_MS / 2000);
        _exit(run(arg));
    }
    return kt_wait_child(child);
}

static int is_refused(kvs_status_t status)
{
    return status == KVS_ERR_STATE &&
           strstr(kvs_last_error(), "created before this process was forked") != NULL;
}

/* The number of the first check that fails, from 1; 0 if none does. */
static int first_failed(const int *checks, int n)
{
    for (int i = 0; i < n; i++) {
        if (!checks[i]) {
            return i + 1;
        }
    }
    return 0;
}

/* ---- A parent's store ------------------------------------------------------------------------ */

static int use_store(void *arg)
{
    kvs_store_t *store = arg;
    kvs_stats_t stats = {.size = sizeof(stats)};
    kvs_event_t *event = NULL;
    float value = 1;
    int number;
    const int checks[] = {
        is_refused(call(store, KVS_VERB_INIT, 9, &value, 1)),
        is_refused(call(store, KVS_VERB_PUSH, 1, big_array(), BIG)),
        is_refused(call(store, KVS_VERB_PULL, 1, big_array(), BIG)),
        is_refused(call(store, KVS_VERB_PUSHPULL, 1, big_array(), BIG)),
        is_refused(call(store, KVS_VERB_BROADCAST, 9, &value, 1)),
        is_refused(call_key(store, KVS_VERB_PUSH, kvs_key_int(1), big_array(), BIG, &event)),
        event == NULL,
        is_refused(kvs_store_set_updater(store, NULL, NULL)),
        is_refused(kvs_store_wait_all(store, -1)),
        is_refused(kvs_store_barrier(store)),
        is_refused(kvs_store_rank(store, &number)),
        is_refused(kvs_store_stats(store, &stats)),
        strcmp(kvs_store_type(store), FAKE) == 0,
        is_refused(kvs_store_close(store)),
    };

    kvs_store_cancel(store);
    return first_failed(checks, sizeof(checks) / sizeof(checks[0]));
}

static void a_child_cannot_use_its_parents_store_and_the_parent_goes_on(void)
{
    kvs_store_t *store = begin();

    KT_INT(in_child(use_store, store), 0);
    KT_OK(finish(start_big(store, KVS_VERB_PUSH, 1)));
    KT_OK(kvs_store_wait_all(store, -1));
    KT_OK(kvs_store_close(store));
}

static void ignore_completion(kvs_status_t status, const char *text, void *arg)
{
    (void)status;
    (void)text;
    (void)arg;
}

static int use_event(void *arg)
{
    kvs_event_t *event = arg;
    int done = -1;
    const int checks[] = {
        is_refused(kvs_event_wait(event, -1)),
        is_refused(kvs_event_wait(event, 0)),
        is_refused(kvs_event_on_complete(event, ignore_completion, NULL)),
        is_refused(kvs_event_test(event, &done)),
    };

    kvs_event_free(event);
    return first_failed(checks, sizeof(checks) / sizeof(checks[0]));
}

static void a_child_cannot_use_its_parents_events_whoever_held_the_locks(void)
{
    kvs_store_t *store = begin();
    kvs_event_t *event;

    fake_hold("push 1");
    event = start_big(store, KVS_VERB_PUSH, 1);
    fake_wait_held("push 1");
    pthread_mutex_lock(&store->lock); /* as another thread may, just as this one forks */
    KT_INT(in_child(use_event, event), 0);
    pthread_mutex_unlock(&store->lock);
    fake_release("push 1");
    KT_OK(finish(event));
    KT_OK(kvs_store_close(store));
}

static int leave_by_exit(void *arg)
{
    exit(use_store(arg) == 0 ? 3 : 4);
}

static void a_child_that_leaves_by_exit_leaves_its_parents_store_alone(void)
{
    kvs_store_t *store = begin();

    KT_INT(in_child(leave_by_exit, store), 3);
    KT_INT(fake_count("close"), 0);
    KT_OK(finish(start_big(store, KVS_VERB_PUSH, 1)));
    KT_OK(kvs_store_close(store));
}

/* ---- A store of the child's own -------------------------------------------------------------- */

static int use_own_store(void *arg)
{
    kvs_store_t *store = NULL;
    kvs_event_t *event = NULL;
    float *array = big_array();
    int checks[6] = {0};

    (void)arg;
    array[0] = 7;
    checks[0] = kvs_store_create(FAKE, NULL, 0, &store) == KVS_OK;
    checks[1] = checks[0] && call(store, KVS_VERB_INIT, 1, array, BIG) == KVS_OK;
    checks[2] = checks[1] && call_key(store, KVS_VERB_PUSH, kvs_key_int(1), array, BIG, &event) ==
                                 KVS_OK; /* on the child's pool */
    checks[3] = checks[2] && kvs_event_wait(event, KT_PATIENCE_MS) == KVS_OK;
    checks[4] = checks[3] && call(store, KVS_VERB_PULL, 1, array, BIG) == KVS_OK && array[0] == 7;
    kvs_event_free(event);
    checks[5] = kvs_store_close(store) == KVS_OK;
    return first_failed(checks, 6);
}

static void a_child_may_have_a_store_and_threads_of_its_own(void)
{
    kvs_store_t *store = begin();

    KT_INT(in_child(use_own_store, NULL), 0);
    KT_OK(finish(start_big(store, KVS_VERB_PUSH, 1)));
    KT_OK(kvs_store_close(store));
}

/* ---- Leaving without closing ----------------------------------------------------------------- */

static kvs_store_t *left_open;
static kvs_event_t *left_pending[3];

/* Exit with 7 while operations run, wait in queues, and wait for a backend. */
static int leave_with_work(void *arg)
{
    float value = 1;

    left_open = fake_open(arg);
    fake_complete_inside(true);
    init_big(left_open, 1);
    fake_complete_inside(false);
    if (strcmp(arg, FAKE) == 0) {
        fake_hold("push 1");
    }
    for (int i = 0; i < 3; i++) {
        left_pending[i] = start_big(left_open, KVS_VERB_PUSH, 1);
    }
    if (strcmp(arg, FAKE) == 0) {
        fake_wait_held("push 1");
    } else {
        fake_complete_inside(true);
        (void)call(left_open, KVS_VERB_INIT, 2, &value, 1);
    }
    exit(7);
}

static void a_process_may_exit_while_its_operations_run(void)
{
    char type[] = FAKE;

    fake_begin();
    KT_INT(in_child(leave_with_work, type), 7);
}

static void a_process_may_exit_while_a_backend_has_its_operations(void)
{
    char type[] = FAKE_ASYNC;

    fake_begin();
    KT_INT(in_child(leave_with_work, type), 7);
}

static void use_store_at_exit(void)
{
    (void)call(left_open, KVS_VERB_PULL, 1, big_array(), BIG);
    (void)kvs_store_close(left_open);
}

static int close_at_exit(void *arg)
{
    (void)arg;
    left_open = fake_open(FAKE);
    init_big(left_open, 1);
    kvs_event_free(start_big(left_open, KVS_VERB_PUSH, 1));
    atexit(use_store_at_exit);
    exit(8);
}

static void a_store_may_be_closed_by_an_exit_handler(void)
{
    fake_begin();
    KT_INT(in_child(close_at_exit, NULL), 8);
}

/* ---- Locks of the process ----------------------------------------------------------------------- */

static void list_without_end(void *arg)
{
    kvs_plugin_list_t *list;

    while (!atomic_load((atomic_bool *)arg)) {
        if (kvs_plugin_list(&list) == KVS_OK) {
            kvs_plugin_list_free(list);
        }
    }
}

/* It gets the list, or is told that it can't have one: it does not wait for a thread that isn't there. */
static int list_or_be_told(void *arg)
{
    kvs_plugin_list_t *list;
    kvs_status_t status = kvs_plugin_list(&list);

    (void)arg;
    return status == KVS_OK || (status == KVS_ERR_STATE &&
                                strstr(kvs_last_error(), "forked while another thread") != NULL)
               ? 0
               : 1;
}

static void a_child_never_waits_for_plugins_that_another_thread_looked_for(void)
{
    atomic_bool stop = false;
    kt_thread_t thread;
    int n_failed = 0;

    kt_thread_start(&thread, list_without_end, &stop);
    for (int i = 0; i < 20 && n_failed == 0 && kt_child_may_allocate(); i++) {
        n_failed += in_child(list_or_be_told, NULL) != 0;
    }
    atomic_store(&stop, true);
    kt_thread_join(&thread);
    KT_INT(n_failed, 0);
}

/* Those whose children leave with threads of their own come first, while this process has none. */
static const kt_test_t tests[] = {
    KT_TEST(a_process_may_exit_while_its_operations_run),
    KT_TEST(a_process_may_exit_while_a_backend_has_its_operations),
    KT_TEST(a_store_may_be_closed_by_an_exit_handler),
    KT_TEST(a_child_cannot_use_its_parents_store_and_the_parent_goes_on),
    KT_TEST(a_child_cannot_use_its_parents_events_whoever_held_the_locks),
    KT_TEST(a_child_that_leaves_by_exit_leaves_its_parents_store_alone),
    KT_TEST(a_child_may_have_a_store_and_threads_of_its_own),
    KT_TEST(a_child_never_waits_for_plugins_that_another_thread_looked_for),
};
KT_MAIN("fork", tests)
