/* SPDX-License-Identifier: Apache-2.0 */
/* Worker 0's account of who has submitted what, without a job: workers ask, and what is sent to whom, in
 * which order, is read from the sink. */
#include "../kit/fake_host.h"

#include <kt.h>

#include "hvd_table.h"

enum { MAX_SENT = 64 };

/* What was sent to a worker, read as a worker reads it. */
typedef struct sent {
    int rank, kind;
    uint32_t number;     /* GO: of the exchange; JOINED: the last to come */
    uint64_t ticket;     /* NO, JOINED */
    kvs_status_t status; /* NO */
    char text[400];      /* NO */
    char members[64];    /* GO: "0 2" */
    char tickets[64];    /* GO: of the receiver's */
    char extras[64];     /* GO: of all members, item by item */
} sent_t;

typedef struct rig {
    hvd_table_t *table;
    sent_t sent[MAX_SENT];
    int n_sent, n_warnings;
    char warning[400];
} rig_t;

static void add(char text[64], long long number)
{
    size_t n = strlen(text);

    snprintf(text + n, 64 - n, "%s%lld", n > 0 ? " " : "", number);
}

static void read_go(hvd_view_t *view, sent_t *sent)
{
    hvd_go_t go;

    KT_OK(hvd_get_go(view, &go));
    sent->number = go.number;
    for (uint32_t m = 0; m < go.n_members; m++) {
        add(sent->members, go.members[m]);
    }
    for (uint32_t i = 0; i < go.n_items; i++) {
        add(sent->tickets, (long long)go.items[i].ticket);
        for (uint32_t m = 0; m < go.n_members; m++) {
            add(sent->extras, go.items[i].extra[m]);
        }
    }
    hvd_go_release(&go);
}

static void send_to_rig(void *arg, int rank, uint8_t kind, const hvd_bytes_t *bytes)
{
    rig_t *rig = arg;
    sent_t *sent = &rig->sent[rig->n_sent++ % MAX_SENT];
    hvd_view_t view = {bytes->data, bytes->n, false};
    hvd_no_t no;

    *sent = (sent_t){.rank = rank, .kind = kind};
    if (kind == HVD_GO) {
        read_go(&view, sent);
    } else if (kind == HVD_NO) {
        KT_OK(hvd_get_no(&view, &no));
        sent->ticket = no.ticket;
        sent->status = no.status;
        snprintf(sent->text, sizeof(sent->text), "%s", no.text);
        hvd_no_release(&no);
    } else {
        sent->ticket = (uint64_t)hvd_get_i64(&view);
        sent->number = hvd_get_u32(&view);
    }
    KT_TRUE(!view.failed && view.n_left == 0);
}

static void warn_rig(void *arg, const char *text)
{
    rig_t *rig = arg;

    rig->n_warnings++;
    snprintf(rig->warning, sizeof(rig->warning), "%s", text);
}

static const char *label(void *arg, int rank)
{
    static const char *const names[] = {"anna", "bert", "carl", "dora"};

    (void)arg;
    return names[rank];
}

static void set_up(rig_t *rig, int n_workers, uint64_t fusion_bytes)
{
    const hvd_table_args_t args = {.n_workers = n_workers,
                                   .fusion_bytes = fusion_bytes,
                                   .sink = {send_to_rig, warn_rig, label, rig}};

    *rig = (rig_t){0};
    KT_OK(hvd_table_new(&args, &rig->table));
}

static void tear_down(rig_t *rig)
{
    hvd_table_free(rig->table);
    rig->table = NULL;
}

/* Five float32 of key `number`, submitted for the first time. */
static hvd_ask_t ask_of(int64_t number, uint64_t ticket)
{
    return (hvd_ask_t){.ticket = ticket,
                       .store = 1,
                       .what = HVD_REDUCE,
                       .dtype = KVS_DTYPE_float32,
                       .ndim = 1,
                       .shape = {5},
                       .number = number};
}

static void ask(rig_t *rig, int rank, int64_t number, uint64_t ticket)
{
    hvd_ask_t it = ask_of(number, ticket);

    hvd_table_ask(rig->table, rank, &it, 0);
}

/* What has been sent since the last look, forgotten afterwards. */
static void want_sent(rig_t *rig, int n)
{
    KT_INT(rig->n_sent, n);
    rig->n_sent = 0;
}

static void want_go(const rig_t *rig, int i, int rank, const char *members, const char *tickets)
{
    KT_INT(rig->sent[i].kind, HVD_GO);
    KT_INT(rig->sent[i].rank, rank);
    KT_STR(rig->sent[i].members, members);
    KT_STR(rig->sent[i].tickets, tickets);
}

static void want_no(const rig_t *rig, int i, int rank, uint64_t ticket, kvs_status_t status,
                    const char *part)
{
    KT_INT(rig->sent[i].kind, HVD_NO);
    KT_INT(rig->sent[i].rank, rank);
    KT_INT(rig->sent[i].ticket, ticket);
    KT_INT(rig->sent[i].status, status);
    KT_HAS(rig->sent[i].text, part);
}

/* ---- Beginning -------------------------------------------------------------------------------------- */

static void an_exchange_begins_when_all_have_asked_for_it(void)
{
    rig_t rig;

    set_up(&rig, 3, 0);
    ask(&rig, 1, 7, 11);
    ask(&rig, 0, 7, 22);
    want_sent(&rig, 0);
    ask(&rig, 2, 7, 33);
    want_go(&rig, 0, 0, "0 1 2", "22");
    want_go(&rig, 1, 1, "0 1 2", "11");
    want_go(&rig, 2, 2, "0 1 2", "33");
    want_sent(&rig, 3);
    tear_down(&rig);
}

static void keys_come_in_any_order_and_go_in_one(void)
{
    rig_t rig;

    set_up(&rig, 2, 0);
    ask(&rig, 0, 1, 10);
    ask(&rig, 0, 2, 20);
    ask(&rig, 1, 2, 21);
    ask(&rig, 1, 1, 11);
    want_go(&rig, 0, 0, "0 1", "20");
    want_go(&rig, 1, 1, "0 1", "21");
    want_go(&rig, 2, 0, "0 1", "10");
    want_go(&rig, 3, 1, "0 1", "11");
    KT_INT(rig.sent[0].number, 0);
    KT_INT(rig.sent[1].number, 0);
    KT_INT(rig.sent[2].number, 1); /* no steps are told: one each */
    want_sent(&rig, 4);
    tear_down(&rig);
}

/* Stores, texts and numbers, and the same key once more are exchanges of their own. */
static void what_is_not_the_same_does_not_meet(void)
{
    hvd_ask_t number = ask_of(5, 1), text = ask_of(5, 2), store = ask_of(5, 3),
              again = ask_of(5, 4);
    rig_t rig;

    text.is_text = true;
    text.text = "5";
    text.n_text = 1;
    store.store = 2;
    again.count = 1;
    set_up(&rig, 2, 0);
    hvd_table_ask(rig.table, 0, &number, 0);
    hvd_table_ask(rig.table, 1, &text, 0);
    hvd_table_ask(rig.table, 1, &store, 0);
    hvd_table_ask(rig.table, 1, &again, 0);
    want_sent(&rig, 0);
    ask(&rig, 1, 5, 9);
    want_go(&rig, 0, 0, "0 1", "1");
    want_go(&rig, 1, 1, "0 1", "9");
    want_sent(&rig, 2);
    tear_down(&rig);
}

static void ask_all(rig_t *rig, int64_t number, int32_t priority)
{
    for (int rank = 0; rank < 2; rank++) {
        hvd_ask_t it = ask_of(number, (uint64_t)number);

        it.priority = priority;
        hvd_table_ask(rig->table, rank, &it, 0);
    }
}

static void two_are_under_way_and_the_others_wait_by_priority(void)
{
    rig_t rig;

    set_up(&rig, 2, 0);
    ask_all(&rig, 1, 0);
    ask_all(&rig, 2, 0);
    want_sent(&rig, 4);
    ask_all(&rig, 3, -5);
    ask_all(&rig, 4, 0);
    ask_all(&rig, 5, 0);
    ask_all(&rig, 6, 9);
    want_sent(&rig, 0);
    for (int i = 0; i < 4; i++) {
        static const char *const order[] = {"6", "4", "5", "3"};

        hvd_table_done(rig.table);
        want_go(&rig, 0, 0, "0 1", order[i]);
        want_go(&rig, 1, 1, "0 1", order[i]);
        want_sent(&rig, 2);
    }
    tear_down(&rig);
}

/* ---- Together --------------------------------------------------------------------------------------- */

static void small_ones_that_wait_go_together_as_far_as_they_fit(void)
{
    rig_t rig;

    set_up(&rig, 2, 60); /* three of twenty bytes */
    ask_all(&rig, 1, 0);
    ask_all(&rig, 2, 0);
    want_sent(&rig, 4);
    for (int64_t number = 3; number <= 6; number++) {
        ask_all(&rig, number, 0);
    }
    hvd_table_done(rig.table);
    want_go(&rig, 0, 0, "0 1", "3 4 5");
    want_go(&rig, 1, 1, "0 1", "3 4 5");
    want_sent(&rig, 2);
    hvd_table_done(rig.table);
    want_go(&rig, 0, 0, "0 1", "6");
    want_sent(&rig, 2);
    tear_down(&rig);
}

static void other_dtypes_verbs_and_big_ones_go_by_themselves(void)
{
    rig_t rig;
    hvd_ask_t asks[] = {ask_of(3, 3), ask_of(4, 4), ask_of(5, 5), ask_of(6, 6), ask_of(7, 7)};

    asks[1].dtype = KVS_DTYPE_int32;
    asks[2].what = HVD_BROADCAST;
    asks[3].shape[0] = 1 << 20; /* 4 MiB */
    set_up(&rig, 2, UINT64_C(1) << 30);
    ask_all(&rig, 1, 0);
    ask_all(&rig, 2, 0);
    want_sent(&rig, 4);
    for (int i = 0; i < 5; i++) {
        hvd_table_ask(rig.table, 0, &asks[i], 0);
        hvd_table_ask(rig.table, 1, &asks[i], 0);
    }
    static const char *const order[] = {"3 7", "4", "5", "6"};

    for (int i = 0; i < 4; i++) {
        hvd_table_done(rig.table);
        want_go(&rig, 0, 0, "0 1", order[i]);
        want_sent(&rig, 2);
    }
    tear_down(&rig);
}

static void what_may_differ_is_told_to_all(void)
{
    rig_t rig;
    hvd_ask_t mine = ask_of(1, 1), theirs = ask_of(1, 2);

    mine.what = theirs.what = HVD_GATHER;
    mine.extra = 5;
    theirs.shape[0] = theirs.extra = 8;
    set_up(&rig, 2, 0);
    hvd_table_ask(rig.table, 0, &mine, 0);
    hvd_table_ask(rig.table, 1, &theirs, 0);
    want_go(&rig, 0, 0, "0 1", "1");
    KT_STR(rig.sent[0].extras, "5 8");
    KT_STR(rig.sent[1].extras, "5 8");
    want_sent(&rig, 2);
    tear_down(&rig);
}

/* ---- Disagreeing ------------------------------------------------------------------------------------ */

/* Two workers differ; the third, who comes later, is told the same, and all are in step again. */
static void try_difference(const hvd_ask_t *first, const hvd_ask_t *second, kvs_status_t status,
                           const char *part)
{
    rig_t rig;

    set_up(&rig, 3, 0);
    hvd_table_ask(rig.table, 0, first, 0);
    hvd_table_ask(rig.table, 2, second, 0);
    want_no(&rig, 0, 0, first->ticket, status, part);
    want_no(&rig, 1, 2, second->ticket, status, part);
    want_sent(&rig, 2);
    hvd_table_ask(rig.table, 1, first, 0);
    want_no(&rig, 0, 1, first->ticket, status, part);
    want_sent(&rig, 1);
    for (int rank = 0; rank < 3; rank++) { /* it is forgotten */
        hvd_table_ask(rig.table, rank, first, 0);
    }
    want_go(&rig, 0, 0, "0 1 2", "1");
    want_sent(&rig, 3);
    tear_down(&rig);
}

static void who_disagrees_is_named_to_everybody(void)
{
    hvd_ask_t first = ask_of(4, 1), second;

    second = ask_of(4, 2);
    second.shape[0] = 6;
    try_difference(&first, &second, KVS_ERR_SHAPE,
                   "anna submitted float32 (5,), but carl float32 (6,)");
    second = ask_of(4, 2);
    second.dtype = KVS_DTYPE_int8;
    try_difference(&first, &second, KVS_ERR_DTYPE, "float32 (5,), but carl int8 (5,)");
    second = ask_of(4, 2);
    second.what = HVD_BROADCAST;
    try_difference(&first, &second, KVS_ERR_ARGUMENT, "anna submitted a ");
    first.what = HVD_BROADCAST;
    second.root = 1;
    try_difference(&first, &second, KVS_ERR_ARGUMENT,
                   "anna asked for the value of worker 0, but carl for that of worker 1");
}

static void asking_twice_for_the_same_is_refused_and_the_first_goes_on(void)
{
    rig_t rig;

    set_up(&rig, 2, 0);
    ask(&rig, 0, 1, 10);
    ask(&rig, 0, 1, 11);
    want_no(&rig, 0, 0, 11, KVS_ERR_INTERNAL, "asked for twice");
    want_sent(&rig, 1);
    ask(&rig, 1, 1, 12);
    want_go(&rig, 0, 0, "0 1", "10");
    want_sent(&rig, 2);
    tear_down(&rig);
}

/* ---- Joining ---------------------------------------------------------------------------------------- */

static void join(rig_t *rig, int rank, uint64_t ticket, int64_t now_ms)
{
    hvd_ask_t it = {.ticket = ticket, .store = 1, .what = HVD_JOIN, .timeout_ms = 1000};

    hvd_table_ask(rig->table, rank, &it, now_ms);
}

static void sums_go_on_without_those_who_have_joined(void)
{
    rig_t rig;

    set_up(&rig, 3, 0);
    ask(&rig, 0, 1, 10);
    ask(&rig, 2, 1, 12);
    join(&rig, 1, 50, 0); /* who was waited for */
    want_go(&rig, 0, 0, "0 2", "10");
    want_go(&rig, 1, 2, "0 2", "12");
    want_sent(&rig, 2);
    ask(&rig, 2, 2, 13);
    ask(&rig, 0, 2, 14);
    want_go(&rig, 0, 0, "0 2", "14");
    want_sent(&rig, 2);
    join(&rig, 0, 51, 0);
    want_sent(&rig, 0);
    join(&rig, 2, 52, 0);
    for (int rank = 0; rank < 3; rank++) {
        KT_INT(rig.sent[rank].kind, HVD_JOINED);
        KT_INT(rig.sent[rank].rank, rank);
        KT_INT(rig.sent[rank].ticket, rank == 0 ? 51 : rank == 1 ? 50 : 52);
        KT_INT(rig.sent[rank].number, 2); /* came last */
    }
    want_sent(&rig, 3);
    ask(&rig, 0, 3, 20); /* all take part again */
    ask(&rig, 2, 3, 22);
    want_sent(&rig, 0);
    tear_down(&rig);
}

static void a_broadcast_needs_all(void)
{
    hvd_ask_t broadcast = ask_of(1, 10);
    rig_t rig;

    broadcast.what = HVD_BROADCAST;
    set_up(&rig, 2, 0);
    join(&rig, 1, 50, 0);
    hvd_table_ask(rig.table, 0, &broadcast, 0);
    want_no(&rig, 0, 0, 10, KVS_ERR_STATE, "bert has joined: only pushpull goes on without it");
    want_sent(&rig, 1);
    join(&rig, 1, 51, 0);
    want_no(&rig, 0, 1, 51, KVS_ERR_STATE, "called already");
    want_sent(&rig, 1);
    tear_down(&rig);
}

/* ---- Leaving ---------------------------------------------------------------------------------------- */

static void who_waits_for_a_lost_worker_is_told(void)
{
    rig_t rig;

    set_up(&rig, 3, 0);
    ask(&rig, 0, 1, 10);
    join(&rig, 1, 50, 0);
    hvd_table_lose(rig.table, 2, "carl has died");
    want_no(&rig, 0, 1, 50, KVS_ERR_PEER, "carl has died");
    want_no(&rig, 1, 0, 10, KVS_ERR_PEER, "carl has died");
    want_sent(&rig, 2);
    ask(&rig, 1, 1, 11); /* the same, later; then it is forgotten */
    want_no(&rig, 0, 1, 11, KVS_ERR_PEER, "carl has died");
    want_sent(&rig, 1);
    ask(&rig, 0, 2, 12);
    want_no(&rig, 0, 0, 12, KVS_ERR_PEER, "carl has died");
    want_sent(&rig, 1);
    tear_down(&rig);
}

static void a_closed_store_fails_what_needs_it_and_no_other(void)
{
    hvd_ask_t other = ask_of(1, 30);
    rig_t rig;

    other.store = 2;
    set_up(&rig, 2, 0);
    ask(&rig, 0, 1, 10);
    hvd_table_ask(rig.table, 0, &other, 0);
    hvd_table_close(rig.table, 1, 1);
    want_no(&rig, 0, 0, 10, KVS_ERR_PEER, "bert has closed the store");
    hvd_table_close(rig.table, 1, 1); /* twice is once */
    want_sent(&rig, 1);
    other.ticket = 31;
    hvd_table_ask(rig.table, 1, &other, 0);
    want_go(&rig, 0, 0, "0 1", "30");
    want_sent(&rig, 2);
    hvd_table_close(rig.table, 0, 1);
    ask_all(&rig, 1, 0); /* closed by all: its number is free */
    want_go(&rig, 0, 0, "0 1", "1");
    want_sent(&rig, 2);
    tear_down(&rig);
}

/* It was cancelled, and does not wait for what it has asked for. It is not to blame where another is missing. */
static void who_has_asked_and_closed_is_named_when_all_have_come(void)
{
    rig_t rig;

    set_up(&rig, 2, 0);
    ask(&rig, 0, 1, 10);
    hvd_table_close(rig.table, 0, 1);
    want_sent(&rig, 0);
    ask(&rig, 1, 1, 20);
    want_no(&rig, 0, 0, 10, KVS_ERR_PEER, "anna has closed the store");
    want_no(&rig, 1, 1, 20, KVS_ERR_PEER, "anna has closed the store");
    want_sent(&rig, 2);
    ask(&rig, 1, 2, 21);
    want_no(&rig, 0, 1, 21, KVS_ERR_PEER, "anna has closed the store");
    want_sent(&rig, 1);
    tear_down(&rig);
}

/* ---- The clock -------------------------------------------------------------------------------------- */

static void what_is_late_is_warned_of_once_and_fails_at_its_deadline(void)
{
    hvd_ask_t it = ask_of(3, 10);
    rig_t rig;

    it.warning_ms = 100;
    it.timeout_ms = 1000;
    set_up(&rig, 3, 0);
    hvd_table_ask(rig.table, 1, &it, 5000);
    hvd_table_tick(rig.table, 5099);
    KT_INT(rig.n_warnings, 0);
    hvd_table_tick(rig.table, 5100);
    hvd_table_tick(rig.table, 5900);
    KT_INT(rig.n_warnings, 1);
    KT_HAS(rig.warning, "key 3: not submitted for 100 ms by anna, carl; it was by bert");
    want_sent(&rig, 0);
    hvd_table_tick(rig.table, 6000);
    want_no(&rig, 0, 1, 10, KVS_ERR_TIMEOUT,
            "not submitted for 1000 ms by anna, carl; it was by bert");
    want_sent(&rig, 1);
    hvd_table_tick(rig.table, 9000); /* told already */
    want_sent(&rig, 0);
    it.ticket = 11;
    hvd_table_ask(rig.table, 0, &it, 9000);
    want_no(&rig, 0, 0, 11, KVS_ERR_TIMEOUT, "by anna, carl");
    want_sent(&rig, 1);
    tear_down(&rig);
}

static void what_waits_for_its_turn_is_not_late(void)
{
    hvd_ask_t it = ask_of(3, 10);
    rig_t rig;

    it.timeout_ms = 1000;
    set_up(&rig, 2, 0);
    ask_all(&rig, 1, 0);
    ask_all(&rig, 2, 0);
    want_sent(&rig, 4);
    hvd_table_ask(rig.table, 0, &it, 0);
    hvd_table_ask(rig.table, 1, &it, 0);
    hvd_table_tick(rig.table, 99000);
    want_sent(&rig, 0);
    hvd_table_done(rig.table);
    want_go(&rig, 0, 0, "0 1", "10");
    want_sent(&rig, 2);
    tear_down(&rig);
}

static void who_waits_in_join_waits_while_others_are_heard_of(void)
{
    rig_t rig;

    set_up(&rig, 3, 0);
    join(&rig, 0, 50, 0);
    hvd_table_tick(rig.table, 999);
    want_sent(&rig, 0);
    join(&rig, 2, 52, 1500);
    hvd_table_tick(rig.table, 2499);
    want_sent(&rig, 0);
    hvd_table_tick(rig.table, 2500);
    want_no(&rig, 0, 0, 50, KVS_ERR_TIMEOUT, "nothing heard for 1000 ms of bert");
    want_no(&rig, 1, 2, 52, KVS_ERR_TIMEOUT, "nothing heard for 1000 ms of bert");
    want_sent(&rig, 2);
    tear_down(&rig);
}

static const kt_test_t tests[] = {
    KT_TEST(an_exchange_begins_when_all_have_asked_for_it),
    KT_TEST(keys_come_in_any_order_and_go_in_one),
    KT_TEST(what_is_not_the_same_does_not_meet),
    KT_TEST(two_are_under_way_and_the_others_wait_by_priority),
    KT_TEST(small_ones_that_wait_go_together_as_far_as_they_fit),
    KT_TEST(other_dtypes_verbs_and_big_ones_go_by_themselves),
    KT_TEST(what_may_differ_is_told_to_all),
    KT_TEST(who_disagrees_is_named_to_everybody),
    KT_TEST(asking_twice_for_the_same_is_refused_and_the_first_goes_on),
    KT_TEST(sums_go_on_without_those_who_have_joined),
    KT_TEST(a_broadcast_needs_all),
    KT_TEST(who_waits_for_a_lost_worker_is_told),
    KT_TEST(a_closed_store_fails_what_needs_it_and_no_other),
    KT_TEST(who_has_asked_and_closed_is_named_when_all_have_come),
    KT_TEST(what_is_late_is_warned_of_once_and_fails_at_its_deadline),
    KT_TEST(what_waits_for_its_turn_is_not_late),
    KT_TEST(who_waits_in_join_waits_while_others_are_heard_of),
};

KT_MAIN("table", tests)
