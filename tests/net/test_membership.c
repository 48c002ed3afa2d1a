/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's list: who is let in, who is refused and why, which ranks are given. */
#include "kt.h"
#include "membership.h"

#include <stdlib.h>

/* A hello as it comes off the wire: encoded, so that its facts are a list in a frame. */
typedef struct visitor {
    uint8_t frame[2048];
    net_wire_t wire;
} visitor_t;

static net_hello_t plain_hello(int role, int rank, const char *host, int64_t pid)
{
    return (net_hello_t){.job_id = "j",
                         .host = host,
                         .role = role,
                         .rank = rank,
                         .pid = pid,
                         .group = "dist",
                         .address = "127.0.0.1:40000",
                         .incarnation = (uint64_t)pid,
                         .host_id = 1,
                         .n_workers = 2,
                         .n_servers = 1};
}

static visitor_t visitor(net_hello_t hello, const kvs_net_fact_t *facts, size_t n_facts)
{
    net_wire_t wire = {.type = NET_HELLO, .as.hello = hello};
    net_wire_lists_t lists = {.facts = facts, .n_facts = n_facts};
    visitor_t v;

    net_wire_encode(&wire, &lists, v.frame);
    return v;
}

static kvs_status_t let_in(net_group_t *group, net_hello_t hello, const char *value,
                           bool *ret_fails_all)
{
    const kvs_net_fact_t fact = {"bigarray_bound", value};
    visitor_t v = visitor(hello, &fact, value == NULL ? 0 : 1);
    const net_wire_t measured = {.type = NET_HELLO, .as.hello = hello};
    const net_wire_lists_t lists = {.facts = &fact, .n_facts = value == NULL ? 0 : 1};
    net_member_t *member;

    KT_OK(net_wire_decode(v.frame, net_wire_size(&measured, &lists), &v.wire));
    return net_group_admit(group, &v.wire.as.hello, (uint64_t)hello.pid, &member, ret_fails_all);
}

static kvs_status_t come(net_group_t *group, int role, int rank, const char *host, int64_t pid)
{
    bool fails_all;

    return let_in(group, plain_hello(role, rank, host, pid), NULL, &fails_all);
}

static net_group_t *group_of(int n_workers, int n_servers)
{
    net_group_t *group = net_group_new("dist", n_workers, n_servers, "worker 0 (host a, pid 1)");

    if (group == NULL) {
        abort();
    }
    return group;
}

static void check_missing(const net_group_t *group, const char *want)
{
    kvs_net_text_t text = {.n = 0};

    net_group_missing(group, &text);
    KT_STR(text.bytes, want);
}

static void given_ranks_are_the_ranks(void)
{
    net_group_t *group = group_of(2, 1);

    KT_OK(come(group, KVS_NET_SERVER, -1, "c", 30));
    KT_OK(come(group, KVS_NET_WORKER, 1, "b", 20));
    KT_TRUE(!net_group_is_complete(group));
    KT_OK(come(group, KVS_NET_WORKER, 0, "a", 10));
    KT_TRUE(net_group_is_complete(group));
    KT_OK(net_group_settle(group));
    KT_STR(group->members[0]->label, "worker 0 (host a, pid 10)");
    KT_STR(group->members[1]->label, "worker 1 (host b, pid 20)");
    KT_STR(group->members[2]->label, "server 0 (host c, pid 30)");
    KT_INT(group->members[2]->place, 2);
    net_group_free(group);
}

static void others_are_numbered_as_they_come_around_given_ranks(void)
{
    net_group_t *group = group_of(2, 1);

    group->n_workers = 4;
    for (int i = 0; i < 4; i++) {
        bool fails_all;
        net_hello_t hello = plain_hello(KVS_NET_WORKER, i == 2 ? 1 : -1, "a", 10 + i);

        hello.n_workers = 4;
        KT_OK(let_in(group, hello, NULL, &fails_all));
    }
    KT_OK(net_group_settle(group));
    KT_INT(group->members[0]->pid, 10);
    KT_INT(group->members[1]->pid, 12); /* asked for 1 */
    KT_INT(group->members[2]->pid, 11);
    KT_INT(group->members[3]->pid, 13);
    net_group_free(group);
}

static void local_ranks_count_the_role_on_a_host(void)
{
    net_group_t *group = group_of(2, 1);
    bool fails_all;

    group->n_workers = 4;
    group->n_servers = 0;
    for (int i = 0; i < 4; i++) {
        net_hello_t hello = plain_hello(KVS_NET_WORKER, 3 - i, "a", 10 + i);

        hello.n_workers = 4;
        hello.n_servers = 0;
        hello.host_id = 1 + (uint64_t)(hello.rank % 2);
        hello.address = "10.0.0.1:4";
        KT_OK(let_in(group, hello, NULL, &fails_all));
    }
    KT_OK(net_group_settle(group));
    for (int rank = 0; rank < 4; rank++) {
        KT_INT(group->members[rank]->local_rank, rank / 2);
    }
    net_group_free(group);
}

static void who_is_missing_is_named(void)
{
    net_group_t *group = group_of(2, 1);

    check_missing(group, "0 of 2 workers, 0 of 1 server present; missing: worker 0, worker 1, "
                         "server 0");
    KT_OK(come(group, KVS_NET_WORKER, 0, "a", 10));
    check_missing(group, "1 of 2 workers, 0 of 1 server present; missing: worker 1, server 0");
    KT_OK(come(group, KVS_NET_SERVER, -1, "a", 11));
    check_missing(group, "1 of 2 workers, 1 of 1 server present; missing: worker 1");
    net_group_free(group);
    group = group_of(2, 0);
    {
        net_hello_t hello = plain_hello(KVS_NET_WORKER, -1, "a", 10);
        bool fails_all;

        hello.n_servers = 0;
        KT_OK(let_in(group, hello, NULL, &fails_all));
    }
    check_missing(group, "1 of 2 workers present; missing: 1 worker");
    net_group_free(group);
}

static void many_missing_ones_are_counted(void)
{
    net_group_t *group = group_of(100, 0);
    kvs_net_text_t text = {.n = 0};

    net_group_missing(group, &text);
    KT_HAS(text.bytes, "worker 15, and 84 more");
    net_group_free(group);
}

static void a_rank_that_is_taken_is_refused_and_both_are_named(void)
{
    net_group_t *group = group_of(2, 1);
    bool fails_all = true;

    KT_OK(come(group, KVS_NET_WORKER, 1, "a", 10));
    KT_FAIL(
        let_in(group, plain_hello(KVS_NET_WORKER, 1, "b", 20), NULL, &fails_all), KVS_ERR_PEER,
        "worker 1 (host b, pid 20) is one too many: worker 1 (host a, pid 10) is there already");
    KT_TRUE(!fails_all);
    KT_INT(group->n_members, 1);
    net_group_free(group);
}

static void a_rank_that_cannot_be_is_refused(void)
{
    net_group_t *group = group_of(2, 1);

    KT_FAIL(come(group, KVS_NET_WORKER, 2, "b", 20), KVS_ERR_PEER,
            "worker 2 (host b, pid 20) has a rank outside the job's 2 workers");
    KT_FAIL(come(group, KVS_NET_SERVER, 1, "b", 21), KVS_ERR_PEER, "outside the job's 1 servers");
    net_group_free(group);
}

static void one_too_many_is_refused(void)
{
    net_group_t *group = group_of(2, 1);

    KT_OK(come(group, KVS_NET_SERVER, -1, "a", 10));
    KT_FAIL(come(group, KVS_NET_SERVER, -1, "b", 20), KVS_ERR_PEER,
            "server (host b, pid 20) is one too many: the job has its 1 server: server (host a");
    KT_OK(come(group, KVS_NET_WORKER, 0, "a", 11));
    KT_OK(come(group, KVS_NET_WORKER, 1, "a", 12));
    KT_OK(net_group_settle(group));
    KT_FAIL(come(group, KVS_NET_WORKER, 2, "b", 21), KVS_ERR_PEER,
            "worker 2 (host b, pid 21) comes too late: the job runs with its 2 workers");
    net_group_free(group);
}

static void counts_that_differ_fail_everyone(void)
{
    net_group_t *group = group_of(2, 1);
    net_hello_t hello = plain_hello(KVS_NET_WORKER, 1, "b", 20);
    bool fails_all = false;

    hello.n_workers = 3;
    KT_FAIL(let_in(group, hello, NULL, &fails_all), KVS_ERR_PEER,
            "the number of workers differs: worker 1 (host b, pid 20) has 3, worker 0 (host a, pid "
            "1) has 2");
    KT_TRUE(fails_all);
    hello.n_workers = 2;
    hello.n_servers = 4;
    KT_FAIL(let_in(group, hello, NULL, &fails_all), KVS_ERR_PEER, "the number of servers differs");
    net_group_free(group);
}

static void facts_that_differ_fail_everyone(void)
{
    net_group_t *group = group_of(2, 1);
    bool fails_all = false;

    KT_OK(let_in(group, plain_hello(KVS_NET_SERVER, 0, "s", 5), NULL, &fails_all));
    KT_OK(let_in(group, plain_hello(KVS_NET_WORKER, 0, "a", 10), "1000", &fails_all));
    KT_FAIL(let_in(group, plain_hello(KVS_NET_WORKER, 1, "b", 20), "7", &fails_all), KVS_ERR_PEER,
            "bigarray_bound differs: worker 1 (host b, pid 20) has '7', worker 0 (host a, pid 10) "
            "has '1000'");
    KT_TRUE(fails_all);
    net_group_fail(group, KVS_ERR_PEER, "as was said");
    KT_FAIL(let_in(group, plain_hello(KVS_NET_WORKER, 1, "b", 21), "1000", &fails_all),
            KVS_ERR_PEER, "as was said");
    net_group_free(group);
}

static void whoever_leaves_early_frees_the_place(void)
{
    net_group_t *group = group_of(2, 1);

    KT_OK(come(group, KVS_NET_WORKER, 0, "a", 10));
    net_group_remove(group, group->members[0]);
    KT_OK(come(group, KVS_NET_WORKER, 0, "b", 20));
    KT_INT(group->n_members, 1);
    net_group_free(group);
}

static void embedded_servers_are_as_many_as_hosts_say(void)
{
    net_group_t *group = group_of(2, -1);
    net_hello_t hello = plain_hello(KVS_NET_WORKER, 0, "a", 10);
    bool fails_all;

    hello.n_servers = -1;
    hello.hosts_server = 1;
    KT_OK(let_in(group, hello, NULL, &fails_all));
    check_missing(group, "1 of 2 workers, 0 of 1 server present; missing: worker 1, server 0");
    hello = plain_hello(KVS_NET_WORKER, 1, "a", 11);
    hello.n_servers = -1;
    KT_OK(let_in(group, hello, NULL, &fails_all));
    KT_TRUE(!net_group_is_complete(group));
    hello = plain_hello(KVS_NET_SERVER, -1, "a", 10);
    hello.n_servers = -1;
    KT_OK(let_in(group, hello, NULL, &fails_all));
    KT_TRUE(net_group_is_complete(group));
    KT_OK(net_group_settle(group));
    KT_INT(group->n_servers, 1);
    net_group_free(group);
}

static void loopback_is_not_announced_to_another_host(void)
{
    net_group_t *group = group_of(2, 0);
    net_hello_t hello = plain_hello(KVS_NET_WORKER, 0, "a", 10);
    bool fails_all;

    hello.n_servers = 0;
    KT_OK(let_in(group, hello, NULL, &fails_all));
    hello = plain_hello(KVS_NET_WORKER, 1, "b", 20);
    hello.n_servers = 0;
    hello.host_id = 2;
    hello.address = "10.0.0.2:5";
    KT_OK(let_in(group, hello, NULL, &fails_all));
    KT_FAIL(
        net_group_settle(group), KVS_ERR_PEER,
        "worker 0 (host a, pid 10) listens on 127.0.0.1:40000, where worker 1 (host b, pid 20)");
    net_group_free(group);
}

static const kt_test_t tests[] = {
    KT_TEST(given_ranks_are_the_ranks),
    KT_TEST(others_are_numbered_as_they_come_around_given_ranks),
    KT_TEST(local_ranks_count_the_role_on_a_host),
    KT_TEST(who_is_missing_is_named),
    KT_TEST(many_missing_ones_are_counted),
    KT_TEST(a_rank_that_is_taken_is_refused_and_both_are_named),
    KT_TEST(a_rank_that_cannot_be_is_refused),
    KT_TEST(one_too_many_is_refused),
    KT_TEST(counts_that_differ_fail_everyone),
    KT_TEST(facts_that_differ_fail_everyone),
    KT_TEST(whoever_leaves_early_frees_the_place),
    KT_TEST(embedded_servers_are_as_many_as_hosts_say),
    KT_TEST(loopback_is_not_announced_to_another_host),
};

KT_MAIN("membership", tests)
