/* SPDX-License-Identifier: Apache-2.0 */
/* Stores on live nodes: opened and closed together, each with its own messages; barriers; errors told
 * to everyone; who is alive. */
#include "crowd.h"

#include <stdlib.h>

static kvs_net_send_t message_to(uint32_t store)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    send.store = store;
    send.body = "body";
    send.n_body_bytes = 4;
    return send;
}

static void stores_are_numbered_alike_and_servers_told_of_them(void)
{
    kvs_net_fact_t fact = {"bigarray_bound", "1000"};
    crowd_store_call_t first[CROWD_MAX] = {0}, second[CROWD_MAX] = {0};
    crowd_t crowd;

    crowd_init(&crowd, 2, 2);
    crowd_open(&crowd);
    first[0].args.facts = first[1].args.facts = &fact;
    first[0].args.n_facts = first[1].args.n_facts = 1;
    crowd_open_stores(&crowd, "dist_sync", first);
    crowd_open_stores(&crowd, "dist_async", second);
    for (int i = 0; i < 2; i++) {
        KT_OK(first[i].status);
        KT_OK(second[i].status);
        KT_INT(kvs_net_store_number(first[i].store), 1);
        KT_INT(kvs_net_store_number(second[i].store), 2);
        /* by the time the workers know, the servers do */
        KT_INT(crowd_count_events(&crowd.server[i], KVS_NET_EVENT_STORE_OPENED), 2);
        KT_STR(crowd_await_event(&crowd.server[i], KVS_NET_EVENT_STORE_OPENED)->facts,
               "type=dist_sync;bigarray_bound=1000;");
    }
    crowd_close_stores(&crowd, first);
    (void)crowd_await_event(&crowd.server[1], KVS_NET_EVENT_STORE_CLOSED);
    crowd_close_stores(&crowd, second);
    crowd_close(&crowd);
}

static void lines_of_what_is_loaded_are_facts(void)
{
    kvs_net_fact_t fact = {"slice", "7"};
    crowd_store_call_t calls[CROWD_MAX] = {0};
    char many[64 * 16] = "";
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    calls[0].args.facts = &fact;
    calls[0].args.n_facts = 1;
    calls[0].args.loaded = "abi 1.0\n\nplugin dist 0.1.0\noption bound = 10 = 5\nnothing\n";
    crowd_open_stores(&crowd, "dist_sync", calls);
    KT_OK(calls[0].status);
    KT_STR(crowd_await_event(&crowd.server[0], KVS_NET_EVENT_STORE_OPENED)->facts,
           "type=dist_sync;slice=7;abi=1.0;plugin=dist 0.1.0;option bound=10 = 5;");
    crowd_close_stores(&crowd, calls);
    for (int i = 0; i < 63; i++) { /* one more than there is room for */
        snprintf(many + strlen(many), sizeof(many) - strlen(many), "fact%d 1\n", i);
    }
    calls[0].args.loaded = many;
    crowd_open_stores(&crowd, "dist_sync", calls);
    KT_INT(calls[0].status, KVS_ERR_ARGUMENT);
    KT_HAS(calls[0].text, "at most 63 facts");
    calls[0].args.n_facts = 0;
    crowd_open_stores(&crowd, "dist_sync", calls);
    KT_OK(calls[0].status);
    crowd_close_stores(&crowd, calls);
    crowd_close(&crowd);
}

static void note_store(member_t *member, kvs_net_message_t *message)
{
    *(_Atomic uint32_t *)member->arg = message->store;
    kvs_net_message_release(message);
}

static void count(void *arg, kvs_net_message_t *message)
{
    (*(_Atomic int *)arg)++;
    kvs_net_message_release(message);
}

static bool is_one(void *arg)
{
    return *(_Atomic int *)arg == 1;
}

static void each_store_has_its_own_messages(void)
{
    _Atomic int n[2] = {0, 0};
    _Atomic uint32_t at_server = 0;
    crowd_store_call_t first[CROWD_MAX] = {0}, second[CROWD_MAX] = {0};
    kvs_net_send_t send;
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    first[0].args.message = second[0].args.message = count;
    first[0].args.arg = (void *)&n[0];
    second[0].args.arg = (void *)&n[1];
    crowd_open_stores(&crowd, "a", first);
    crowd_open_stores(&crowd, "b", second);
    send = message_to(2);
    KT_OK(
        kvs_net_send(crowd.server[0].node, crowd_peer(&crowd.server[0], KVS_NET_WORKER, 0), &send));
    kt_until(is_one, (void *)&n[1], "a message for the second store");
    KT_INT(n[0], 0);
    KT_INT(crowd.worker[0].n_messages, 0);
    crowd.server[0].arg = (void *)&at_server;
    crowd.server[0].message = note_store;
    KT_OK(
        kvs_net_send(crowd.worker[0].node, crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0), &send));
    crowd_await_messages(&crowd.server[0], 1);
    KT_INT(at_server, 2);
    /* of a store that was closed nothing is delivered, neither to it nor to the node */
    KT_OK(kvs_net_store_close(second[0].store, 5000));
    KT_OK(
        kvs_net_send(crowd.server[0].node, crowd_peer(&crowd.server[0], KVS_NET_WORKER, 0), &send));
    send.store = 1;
    KT_OK(
        kvs_net_send(crowd.server[0].node, crowd_peer(&crowd.server[0], KVS_NET_WORKER, 0), &send));
    kt_until(is_one, (void *)&n[0], "a message for the first store");
    KT_INT(n[1], 1);
    KT_INT(crowd.worker[0].n_messages, 0);
    KT_OK(kvs_net_store_close(first[0].store, 5000));
    crowd_close(&crowd);
}

static void a_difference_is_an_error_on_both_sides(void)
{
    crowd_store_call_t calls[CROWD_MAX] = {0};
    kvs_net_fact_t facts[2] = {{"bigarray_bound", "1000"}, {"bigarray_bound", "7"}};
    crowd_t crowd;

    crowd_init(&crowd, 2, 1);
    crowd_open(&crowd);
    for (int i = 0; i < 2; i++) {
        calls[i].args.facts = &facts[i];
        calls[i].args.n_facts = 1;
    }
    crowd_open_stores(&crowd, "dist_sync", calls);
    for (int i = 0; i < 2; i++) {
        KT_INT(calls[i].status, KVS_ERR_PEER);
        KT_HAS(calls[i].text, "bigarray_bound differs: worker ");
        KT_HAS(calls[i].text, "has '1000'");
        KT_HAS(calls[i].text, "has '7'");
    }
    calls[1].args.type = "dist_async";
    crowd_open_stores(&crowd, "dist_sync", calls);
    KT_INT(calls[0].status, KVS_ERR_PEER);
    KT_INT(calls[1].status, KVS_ERR_PEER);
    KT_HAS(calls[0].text, "type differs");
    memset(calls, 0, sizeof(calls));
    crowd_open_stores(&crowd, "dist_sync", calls); /* the job goes on */
    KT_OK(calls[0].status);
    KT_OK(calls[1].status);
    crowd_close_stores(&crowd, calls);
    crowd_close(&crowd);
}

static void a_worker_that_does_not_open_is_named(void)
{
    kvs_net_store_args_t args = KVS_NET_STORE_ARGS_INIT;
    kvs_net_store_t *store;
    crowd_t crowd;

    crowd_init(&crowd, 2, 0);
    crowd_open(&crowd);
    args.type = "dist_sync";
    KT_FAIL(kvs_net_store_open(crowd.worker[0].node, &args, 50, &store), KVS_ERR_TIMEOUT,
            "missing: worker 1 (host ");
    crowd_close(&crowd);
}

/* ---- Barriers -------------------------------------------------------------------------------- */

typedef struct passing {
    kvs_net_store_t *store;
    int64_t timeout_ms;
    kvs_status_t status;
    char text[512];
} passing_t;

static void pass(void *arg)
{
    passing_t *passing = arg;

    passing->status = kvs_net_store_barrier(passing->store, passing->timeout_ms);
    snprintf(passing->text, sizeof(passing->text), "%s",
             passing->status == KVS_OK ? "" : kvs_last_error());
}

static void barriers_let_all_pass_or_name_who_is_missing(void)
{
    crowd_store_call_t calls[CROWD_MAX] = {0};
    passing_t passing[3];
    kt_thread_t threads[3];
    crowd_t crowd;

    crowd_init(&crowd, 3, 1);
    crowd_open(&crowd);
    crowd_open_stores(&crowd, "dist_sync", calls);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 3; i++) {
            passing[i] = (passing_t){.store = calls[i].store, .timeout_ms = 10000};
            kt_thread_start(&threads[i], pass, &passing[i]);
        }
        for (int i = 0; i < 3; i++) {
            kt_thread_join(&threads[i]);
            KT_OK(passing[i].status);
        }
    }
    for (int i = 0; i < 2; i++) {
        passing[i].timeout_ms = i == 0 ? 50 : -1;
        kt_thread_start(&threads[i], pass, &passing[i]);
    }
    for (int i = 0; i < 2; i++) {
        kt_thread_join(&threads[i]);
        KT_INT(passing[i].status, KVS_ERR_TIMEOUT);
        KT_HAS(passing[i].text, "barrier 21 of store 1 (dist_sync)");
        KT_HAS(passing[i].text, "worker 2 (host ");
    }
    KT_FAIL(kvs_net_store_barrier(calls[2].store, -1), KVS_ERR_TIMEOUT, "worker 2 (host ");
    crowd_close_stores(&crowd, calls);
    crowd_close(&crowd);
}

static void cancelling_wakes_whoever_waits_at_a_barrier(void)
{
    crowd_store_call_t calls[CROWD_MAX] = {0};
    passing_t passing;
    kt_thread_t thread;
    crowd_t crowd;

    crowd_init(&crowd, 2, 0);
    crowd_open(&crowd);
    crowd_open_stores(&crowd, "dist_sync", calls);
    passing = (passing_t){.store = calls[0].store, .timeout_ms = -1};
    kt_thread_start(&thread, pass, &passing);
    kvs_net_node_cancel(crowd.worker[0].node);
    kt_thread_join(&thread);
    KT_INT(passing.status, KVS_ERR_CANCELLED);
    KT_HAS(passing.text, "barrier of dist_sync: cancelled");
    crowd_close_stores(&crowd, calls);
    crowd_close(&crowd);
}

/* ---- Errors and life ------------------------------------------------------------------------- */

static void an_error_that_is_told_reaches_everyone(void)
{
    crowd_t crowd;

    crowd_init(&crowd, 2, 1);
    crowd_open(&crowd);
    KT_OK(kvs_net_node_tell(crowd.worker[1].node, 3, KVS_ERR_SHAPE, "key 5: shapes differ"));
    for (int i = 0; i < 3; i++) {
        member_t *member = i < 2 ? &crowd.worker[i] : &crowd.server[0];
        const crowd_event_t *got = crowd_await_event(member, KVS_NET_EVENT_ERROR);

        KT_INT(got->event.status, KVS_ERR_SHAPE);
        KT_INT(got->event.store, 3);
        KT_STR(got->text, "key 5: shapes differ");
        KT_STR(got->peer, crowd_peer(member, KVS_NET_WORKER, 1)->label);
    }
    crowd_close(&crowd);
}

static void nobody_is_dead_in_a_living_job(void)
{
    crowd_t crowd;
    int dead = -1;

    crowd_init(&crowd, 2, 1);
    crowd_open(&crowd);
    KT_OK(kvs_net_node_num_dead(crowd.worker[0].node, 7, 60000, 5000, &dead));
    KT_INT(dead, 0);
    /* since a second from now nothing has been heard of anyone */
    KT_OK(kvs_net_node_num_dead(crowd.worker[0].node, KVS_NET_SERVER, -1000, 5000, &dead));
    KT_INT(dead, 1);
    KT_OK(kvs_net_node_close(crowd.worker[1].node, 5000)); /* who leaves is not dead */
    crowd.worker[1].node = NULL;
    (void)crowd_await_event(&crowd.worker[0], KVS_NET_EVENT_LEFT);
    KT_OK(kvs_net_node_num_dead(crowd.worker[0].node, 7, 60000, 5000, &dead));
    KT_INT(dead, 0);
    crowd_close(&crowd);
}

static void servers_hear_when_all_workers_have_left(void)
{
    crowd_t crowd;

    crowd_init(&crowd, 2, 2);
    crowd_open(&crowd);
    for (int i = 0; i < 2; i++) {
        KT_OK(kvs_net_node_close(crowd.worker[i].node, 5000));
        crowd.worker[i].node = NULL;
        if (i == 0) {
            (void)crowd_await_event(&crowd.server[0], KVS_NET_EVENT_LEFT);
            KT_INT(crowd_count_events(&crowd.server[0], KVS_NET_EVENT_ENDED), 0);
        }
    }
    KT_INT(crowd_await_event(&crowd.server[0], KVS_NET_EVENT_ENDED)->event.status, KVS_OK);
    KT_FAIL(kvs_net_job_wait_end(crowd.scheduler, 0), KVS_ERR_TIMEOUT, "goes on");
    for (int i = 0; i < 2; i++) {
        KT_OK(kvs_net_node_close(crowd.server[i].node, 5000));
        crowd.server[i].node = NULL;
    }
    KT_OK(kvs_net_job_wait_end(crowd.scheduler, 10000));
    crowd_close(&crowd);
}

static const kt_test_t tests[] = {
    KT_TEST(stores_are_numbered_alike_and_servers_told_of_them),
    KT_TEST(lines_of_what_is_loaded_are_facts),
    KT_TEST(each_store_has_its_own_messages),
    KT_TEST(a_difference_is_an_error_on_both_sides),
    KT_TEST(a_worker_that_does_not_open_is_named),
    KT_TEST(barriers_let_all_pass_or_name_who_is_missing),
    KT_TEST(cancelling_wakes_whoever_waits_at_a_barrier),
    KT_TEST(an_error_that_is_told_reaches_everyone),
    KT_TEST(nobody_is_dead_in_a_living_job),
    KT_TEST(servers_hear_when_all_workers_have_left),
};

KT_MAIN("stores", tests)
