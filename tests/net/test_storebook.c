/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's book of stores: openings, barriers and closings of two workers and a server, with
 * every way in which they fail. No sockets: what would be sent is written down. */
#include "clock.h"
#include "kt.h"
#include "storebook.h"

#include <stdlib.h>

/* What a member was told last, and how often it was told something. */
typedef struct said {
    net_wire_t wire;
    char text[1024];
    int n;
} said_t;

typedef struct book {
    net_group_t *group;
    net_storebook_t book;
    said_t said[3]; /* worker 0, worker 1, server 0 */
} book_t;

static void say(void *arg, net_member_t *to, const net_wire_t *wire, const net_wire_lists_t *lists)
{
    book_t *b = arg;
    said_t *said = &b->said[to->place];

    (void)lists;
    said->wire = *wire;
    said->n++;
    said->text[0] = '\0';
    if (wire->type == NET_ANSWER) {
        snprintf(said->text, sizeof(said->text), "%s", wire->as.answer.text);
    }
}

static void set_up(book_t *b)
{
    *b = (book_t){.group = net_group_new("dist", 2, 1, "")};
    for (int i = 0; i < 3; i++) {
        net_hello_t hello = {.job_id = "j",
                             .host = "h",
                             .role = i < 2 ? KVS_NET_WORKER : KVS_NET_SERVER,
                             .rank = i % 2,
                             .pid = 10 + i,
                             .group = "dist",
                             .address = "127.0.0.1:1",
                             .n_workers = 2,
                             .n_servers = 1};
        net_member_t *member;
        bool fails_all;

        KT_OK(net_group_admit(b->group, &hello, 1 + (uint64_t)i, &member, &fails_all));
    }
    KT_OK(net_group_settle(b->group));
    b->book = (net_storebook_t){.group = b->group, .say = say, .arg = b};
}

static void tear_down(book_t *b)
{
    net_storebook_release(&b->book);
    net_group_free(b->group);
}

static kvs_status_t take(book_t *b, int place, net_wire_t wire)
{
    return net_storebook_take(&b->book, b->group->members[place], &wire);
}

/* An opening as it comes off the wire, with a fact if `value` is not NULL. */
static kvs_status_t open_with(book_t *b, int place, uint32_t ordinal, const char *type,
                              const char *value, int64_t timeout_ms)
{
    const kvs_net_fact_t fact = {"bigarray_bound", value};
    const net_wire_lists_t lists = {.facts = &fact, .n_facts = value == NULL ? 0 : 1};
    net_wire_t wire = {.type = NET_STORE_OPEN,
                       .as.store = {.ordinal = ordinal, .timeout_ms = timeout_ms, .type = type}};
    uint8_t frame[512];
    size_t n = net_wire_size(&wire, &lists);

    net_wire_encode(&wire, &lists, frame);
    KT_OK(net_wire_decode(frame, n, &wire));
    return take(b, place, wire);
}

static net_wire_t request(unsigned type, uint32_t store, uint32_t number, uint32_t mask,
                          int64_t timeout_ms)
{
    return (net_wire_t){
        .type = (uint16_t)type,
        .as.request = {.store = store, .number = number, .mask = mask, .timeout_ms = timeout_ms}};
}

static void check_answer(const book_t *b, int place, unsigned type, kvs_status_t status,
                         const char *part)
{
    const said_t *said = &b->said[place];

    KT_INT(said->wire.type, NET_ANSWER);
    KT_INT(said->wire.as.answer.type, type);
    KT_INT(said->wire.as.answer.status, status);
    KT_HAS(said->text, part);
}

static void open_store(book_t *b)
{
    KT_OK(open_with(b, 0, 1, "dist_sync", NULL, -1));
    KT_OK(open_with(b, 1, 1, "dist_sync", NULL, -1));
    KT_OK(take(b, 2, request(NET_STORE_READY, 1, 0, 0, 0)));
    check_answer(b, 0, NET_STORE_OPEN, KVS_OK, "");
    check_answer(b, 1, NET_STORE_OPEN, KVS_OK, "");
    b->said[0].n = b->said[1].n = b->said[2].n = 0;
}

static void lose(book_t *b, int place, net_state_t state)
{
    b->group->members[place]->state = state;
    net_storebook_gone(&b->book, b->group->members[place]);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void a_store_is_open_when_all_workers_came_and_servers_know(void)
{
    book_t b;

    set_up(&b);
    KT_OK(open_with(&b, 1, 1, "dist_sync", "7", -1));
    KT_INT(b.said[2].n, 0);
    KT_OK(open_with(&b, 0, 1, "dist_sync", "7", -1));
    KT_INT(b.said[2].wire.type, NET_STORE_ANNOUNCE);
    KT_INT(b.said[2].wire.as.store.store, 1);
    KT_INT(b.said[0].n + b.said[1].n, 0);
    KT_OK(take(&b, 2, request(NET_STORE_READY, 1, 0, 0, 0)));
    check_answer(&b, 0, NET_STORE_OPEN, KVS_OK, "");
    check_answer(&b, 1, NET_STORE_OPEN, KVS_OK, "");
    tear_down(&b);
}

static void types_and_facts_that_differ_are_told_to_both(void)
{
    book_t b;

    set_up(&b);
    KT_OK(open_with(&b, 0, 1, "dist_sync", NULL, -1));
    KT_OK(open_with(&b, 1, 1, "dist_async", NULL, -1));
    for (int i = 0; i < 2; i++) {
        check_answer(&b, i, NET_STORE_OPEN, KVS_ERR_PEER,
                     "store 1: type differs: worker 1 (host h, pid 11) has 'dist_async', worker 0 "
                     "(host h, pid 10) has 'dist_sync'");
    }
    KT_OK(open_with(&b, 1, 2, "dist_sync", "7", -1));
    KT_OK(open_with(&b, 0, 2, "dist_sync", "8", -1));
    for (int i = 0; i < 2; i++) {
        check_answer(
            &b, i, NET_STORE_OPEN, KVS_ERR_PEER,
            "store 2 (dist_sync): bigarray_bound differs: worker 0 (host h, pid 10) has '8'");
    }
    KT_INT(b.said[2].n, 0);
    tear_down(&b);
}

static void an_opening_past_its_deadline_names_who_is_missing(void)
{
    book_t b;

    set_up(&b);
    KT_OK(open_with(&b, 0, 1, "dist_sync", NULL, 0));
    KT_TRUE(net_storebook_tick(&b.book) == NET_NEVER);
    check_answer(&b, 0, NET_STORE_OPEN, KVS_ERR_TIMEOUT,
                 "1 of 2 workers came within 0 s; missing: worker 1 (host h, pid 11)");
    KT_OK(open_with(&b, 1, 1, "dist_sync", NULL, -1)); /* late: told the same, at once */
    check_answer(&b, 1, NET_STORE_OPEN, KVS_ERR_TIMEOUT, "missing: worker 1");
    KT_TRUE(b.book.meetings == NULL && b.book.stores == NULL);
    KT_OK(open_with(&b, 0, 2, "dist_sync", NULL, -1)); /* and the next may be tried */
    KT_OK(open_with(&b, 1, 2, "dist_sync", NULL, -1));
    KT_INT(b.said[2].wire.type, NET_STORE_ANNOUNCE);
    tear_down(&b);
}

static void servers_that_do_not_answer_are_blamed(void)
{
    book_t b;

    set_up(&b);
    KT_OK(open_with(&b, 0, 1, "dist_sync", NULL, 0));
    KT_OK(open_with(&b, 1, 1, "dist_sync", NULL, -1));
    (void)net_storebook_tick(&b.book);
    check_answer(&b, 1, NET_STORE_OPEN, KVS_ERR_TIMEOUT, "not all servers have answered");
    KT_INT(b.said[2].wire.type, NET_STORE_CLOSED);
    KT_OK(take(&b, 2, request(NET_STORE_READY, 1, 0, 0, 0))); /* too late, and no harm */
    tear_down(&b);
}

static void nothing_opens_without_everyone(void)
{
    book_t b;

    set_up(&b);
    KT_OK(open_with(&b, 0, 1, "dist_sync", NULL, -1));
    lose(&b, 2, NET_GONE_DEAD);
    check_answer(&b, 0, NET_STORE_OPEN, KVS_ERR_PEER, "server 0 (host h, pid 12) died");
    KT_OK(open_with(&b, 1, 2, "dist_sync", NULL, -1));
    check_answer(&b, 1, NET_STORE_OPEN, KVS_ERR_PEER, "server 0 (host h, pid 12) died");
    tear_down(&b);
}

/* ---- Barriers -------------------------------------------------------------------------------- */

static void a_barrier_opens_when_the_last_worker_comes(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    for (uint32_t number = 1; number <= 3; number++) {
        int first = (int)number % 2;

        KT_OK(take(&b, first, request(NET_BARRIER, 1, number, 0, -1)));
        KT_INT(b.said[first].n, (int)number - 1);
        KT_OK(take(&b, 1 - first, request(NET_BARRIER, 1, number, 0, -1)));
        KT_INT(b.said[0].n, number);
        KT_INT(b.said[1].n, number);
        check_answer(&b, 0, NET_BARRIER, KVS_OK, "");
    }
    KT_TRUE(b.book.meetings == NULL);
    tear_down(&b);
}

static void barriers_of_several_threads_are_told_apart(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 0, request(NET_BARRIER, 1, 1, 0, -1)));
    KT_OK(take(&b, 0, request(NET_BARRIER, 1, 2, 0, -1)));
    KT_OK(take(&b, 1, request(NET_BARRIER, 1, 2, 0, -1)));
    KT_INT(b.said[0].n, 1);
    KT_INT(b.said[0].wire.as.answer.number, 2);
    tear_down(&b);
}

static void a_barrier_past_its_deadline_fails_for_all(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 1, request(NET_BARRIER, 1, 1, 0, 0)));
    (void)net_storebook_tick(&b.book);
    check_answer(
        &b, 1, NET_BARRIER, KVS_ERR_TIMEOUT,
        "barrier 1 of store 1 (dist_sync): 1 of 2 workers came within 0 s; missing: worker "
        "0 (host h, pid 10)");
    KT_OK(take(&b, 0, request(NET_BARRIER, 1, 1, 0, -1)));
    check_answer(&b, 0, NET_BARRIER, KVS_ERR_TIMEOUT, "missing: worker 0");
    KT_TRUE(b.book.meetings == NULL);
    tear_down(&b);
}

static void a_barrier_fails_when_somebody_can_no_longer_come(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 0, request(NET_BARRIER, 1, 1, 0, -1)));
    lose(&b, 1, NET_GONE_LEFT);
    check_answer(&b, 0, NET_BARRIER, KVS_ERR_PEER, "worker 1 (host h, pid 11) has left the job");
    KT_OK(take(&b, 0, request(NET_BARRIER, 1, 2, 0, -1)));
    check_answer(&b, 0, NET_BARRIER, KVS_ERR_PEER, "has left the job");
    KT_TRUE(b.book.meetings == NULL);
    tear_down(&b);
    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 0, request(NET_BARRIER, 1, 1, 0, -1)));
    KT_OK(take(&b, 1, request(NET_STORE_CLOSE, 1, 0, 0, 0)));
    check_answer(&b, 0, NET_BARRIER, KVS_ERR_PEER,
                 "worker 1 (host h, pid 11) has closed the store");
    tear_down(&b);
}

static void a_barrier_of_a_store_that_is_not_open_is_nonsense(void)
{
    book_t b;

    set_up(&b);
    KT_FAIL(take(&b, 0, request(NET_BARRIER, 1, 1, 0, -1)), KVS_ERR_FORMAT, "store 1");
    KT_FAIL(open_with(&b, 2, 1, "dist_sync", NULL, -1), KVS_ERR_FORMAT, "server 0");
    KT_FAIL(take(&b, 0, request(NET_STORE_READY, 1, 0, 0, 0)), KVS_ERR_FORMAT, "worker 0");
    KT_FAIL(take(&b, 0, (net_wire_t){.type = NET_WELCOME}), KVS_ERR_FORMAT, "WELCOME");
    tear_down(&b);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void a_store_is_closed_when_the_last_worker_closes(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 0, request(NET_STORE_CLOSE, 1, 0, 1, -1)));
    KT_INT(b.said[0].n + b.said[2].n, 0);
    KT_OK(take(&b, 1, request(NET_STORE_CLOSE, 1, 0, 0, 0)));
    check_answer(&b, 0, NET_STORE_CLOSE, KVS_OK, "");
    KT_INT(b.said[1].n, 0); /* does not wait */
    KT_INT(b.said[2].wire.type, NET_STORE_CLOSED);
    KT_TRUE(b.book.stores == NULL);
    tear_down(&b);
}

static void closing_past_its_deadline_names_who_has_not(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 0, request(NET_STORE_CLOSE, 1, 0, 1, 0)));
    (void)net_storebook_tick(&b.book);
    check_answer(&b, 0, NET_STORE_CLOSE, KVS_ERR_TIMEOUT,
                 "store 1 (dist_sync) is still open in: worker 1 (host h, pid 11)");
    KT_OK(take(&b, 1, request(NET_STORE_CLOSE, 1, 0, 1, -1)));
    check_answer(&b, 1, NET_STORE_CLOSE, KVS_OK, "");
    KT_INT(b.said[0].n, 1);
    tear_down(&b);
}

static void whoever_dies_has_closed(void)
{
    book_t b;

    set_up(&b);
    open_store(&b);
    KT_OK(take(&b, 0, request(NET_STORE_CLOSE, 1, 0, 1, -1)));
    lose(&b, 1, NET_GONE_DEAD);
    check_answer(&b, 0, NET_STORE_CLOSE, KVS_OK, "");
    KT_INT(b.said[2].wire.type, NET_STORE_CLOSED);
    tear_down(&b);
}

static const kt_test_t tests[] = {
    KT_TEST(a_store_is_open_when_all_workers_came_and_servers_know),
    KT_TEST(types_and_facts_that_differ_are_told_to_both),
    KT_TEST(an_opening_past_its_deadline_names_who_is_missing),
    KT_TEST(servers_that_do_not_answer_are_blamed),
    KT_TEST(nothing_opens_without_everyone),
    KT_TEST(a_barrier_opens_when_the_last_worker_comes),
    KT_TEST(barriers_of_several_threads_are_told_apart),
    KT_TEST(a_barrier_past_its_deadline_fails_for_all),
    KT_TEST(a_barrier_fails_when_somebody_can_no_longer_come),
    KT_TEST(a_barrier_of_a_store_that_is_not_open_is_nonsense),
    KT_TEST(a_store_is_closed_when_the_last_worker_closes),
    KT_TEST(closing_past_its_deadline_names_who_has_not),
    KT_TEST(whoever_dies_has_closed),
};

KT_MAIN("storebook", tests)
