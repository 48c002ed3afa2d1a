/* SPDX-License-Identifier: Apache-2.0 */
/* storebook.c - see storebook.h. A meeting that failed is remembered until every worker has come or
 * gone, so that whoever is late is told the same; one that succeeded is forgotten at once. */
#include "storebook.h"

#include "clock.h"

#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 8 /* ranks that are missing, before "and N more" */

typedef enum purpose { TO_OPEN = NET_STORE_OPEN, TO_PASS = NET_BARRIER } purpose_t;

typedef struct net_meeting {
    struct net_meeting *next;
    purpose_t purpose;
    uint32_t store, number;
    bool *came; /* by rank */
    size_t n_came;
    int64_t begun, deadline;
    kvs_status_t status; /* once it failed */
    char *text;
} meeting_t;

typedef struct net_stored {
    struct net_stored *next;
    uint32_t number;
    char *type;
    net_facts_t facts;          /* the first is {"type", …} */
    char opener[NET_LABEL_MAX]; /* the first to open it */
    bool *ready;                /* by server: told of it */
    bool announced, open;
    bool *closed;   /* by rank: closed, */
    int64_t *waits; /* and waits for the others until then; 0: does not */
    bool over;      /* all have closed it */
} stored_t;

/* ---- Finding --------------------------------------------------------------------------------- */

static size_t n_workers(const net_storebook_t *book)
{
    return (size_t)book->group->n_workers;
}

static net_member_t *worker(const net_storebook_t *book, size_t rank)
{
    return book->group->members[rank];
}

static net_member_t *server(const net_storebook_t *book, size_t rank)
{
    return book->group->members[n_workers(book) + rank];
}

static stored_t *find_store(net_storebook_t *book, uint32_t number)
{
    stored_t *store = book->stores;

    while (store != NULL && store->number != number) {
        store = store->next;
    }
    return store;
}

static void free_store(stored_t *store)
{
    free(store->type);
    free(store->ready);
    free(store->closed);
    free(store->waits);
    net_facts_release(&store->facts);
    free(store);
}

static void free_meeting(meeting_t *meeting)
{
    free(meeting->came);
    free(meeting->text);
    free(meeting);
}

static meeting_t *find_meeting(net_storebook_t *book, purpose_t purpose, uint32_t store,
                               uint32_t number)
{
    meeting_t *meeting = book->meetings;

    while (meeting != NULL &&
           (meeting->purpose != purpose || meeting->store != store || meeting->number != number)) {
        meeting = meeting->next;
    }
    return meeting;
}

static meeting_t *get_meeting(net_storebook_t *book, purpose_t purpose, uint32_t store,
                              uint32_t number)
{
    meeting_t *meeting = find_meeting(book, purpose, store, number);

    if (meeting != NULL) {
        return meeting;
    }
    meeting = calloc(1, sizeof(*meeting));
    if (meeting == NULL) {
        return NULL;
    }
    *meeting = (meeting_t){.next = book->meetings,
                           .purpose = purpose,
                           .store = store,
                           .number = number,
                           .came = calloc(n_workers(book), sizeof(bool)),
                           .begun = net_now(),
                           .deadline = NET_NEVER};
    if (meeting->came == NULL) {
        free(meeting);
        return NULL;
    }
    book->meetings = meeting;
    return meeting;
}

static void forget(net_storebook_t *book, meeting_t *meeting)
{
    meeting_t **at = &book->meetings;

    while (*at != meeting) {
        at = &(*at)->next;
    }
    *at = meeting->next;
    free_meeting(meeting);
}

/* ---- Ending a meeting ------------------------------------------------------------------------ */

static void answer(net_storebook_t *book, net_member_t *to, unsigned type, uint32_t number,
                   uint32_t store, kvs_status_t status, const char *text)
{
    net_wire_t wire = {
        .type = NET_ANSWER,
        .as.answer = {
            .type = type, .number = number, .store = store, .status = status, .text = text}};

    if (to->state == NET_PRESENT) {
        book->say(book->arg, to, &wire, NULL);
    }
}

static void answer_all(net_storebook_t *book, const meeting_t *meeting, kvs_status_t status,
                       const char *text)
{
    for (size_t rank = 0; rank < n_workers(book); rank++) {
        if (meeting->came[rank]) {
            answer(book, worker(book, rank), meeting->purpose, meeting->number, meeting->store,
                   status, text);
        }
    }
}

static void tell_servers_closed(net_storebook_t *book, const stored_t *store)
{
    net_wire_t wire = {.type = NET_STORE_CLOSED, .as.request = {.store = store->number}};

    for (int rank = 0; rank < book->group->n_servers && store->announced; rank++) {
        if (server(book, (size_t)rank)->state == NET_PRESENT) {
            book->say(book->arg, server(book, (size_t)rank), &wire, NULL);
        }
    }
}

/* Everyone has been told of a failed meeting, or will never ask. */
static bool is_settled(const net_storebook_t *book, const meeting_t *meeting)
{
    for (size_t rank = 0; rank < n_workers(book); rank++) {
        if (!meeting->came[rank] && worker(book, rank)->state == NET_PRESENT) {
            return false;
        }
    }
    return true;
}

/* A store that will not be opened: over before it began. */
static void abandon(net_storebook_t *book, uint32_t number)
{
    stored_t *store = find_store(book, number);

    if (store != NULL && !store->over) {
        store->over = true;
        tell_servers_closed(book, store);
    }
}

static void fail_meeting(net_storebook_t *book, meeting_t *meeting, kvs_status_t status,
                         const char *text)
{
    if (meeting->purpose == TO_OPEN) {
        abandon(book, meeting->store);
    }
    answer_all(book, meeting, status, text);
    meeting->status = status;
    meeting->text = strdup(text);
    meeting->deadline = NET_NEVER;
    if (is_settled(book, meeting)) {
        forget(book, meeting);
    }
}

static void succeed(net_storebook_t *book, meeting_t *meeting)
{
    answer_all(book, meeting, KVS_OK, "");
    forget(book, meeting);
}

static void append_missing(const net_storebook_t *book, const bool *came, kvs_net_text_t *text)
{
    size_t n = 0;

    for (size_t rank = 0; rank < n_workers(book); rank++) {
        if (!came[rank] && worker(book, rank)->state == NET_PRESENT && ++n <= NAMED_MAX) {
            kvs_net_text_add(text, "%s%s", n == 1 ? "" : ", ", worker(book, rank)->label);
        }
    }
    if (n > NAMED_MAX) {
        kvs_net_text_add(text, " and %zu more", n - NAMED_MAX);
    }
}

static void describe(net_storebook_t *book, const meeting_t *meeting, kvs_net_text_t *text)
{
    const stored_t *store = find_store(book, meeting->store);
    const char *type = store == NULL ? "" : store->type;

    if (meeting->purpose == TO_OPEN) {
        kvs_net_text_add(text, "store %u (%s) is not open", meeting->store, type);
    } else {
        kvs_net_text_add(text, "barrier %u of store %u (%s)", meeting->number, meeting->store,
                         type);
    }
}

static void fail_overdue(net_storebook_t *book, meeting_t *meeting)
{
    kvs_net_text_t text = {.n = 0};
    char seconds[32];

    describe(book, meeting, &text);
    kvs_net_text_add(&text, ": %zu of %zu workers came within %s", meeting->n_came, n_workers(book),
                     net_seconds(seconds, (meeting->deadline - meeting->begun) / NET_MS));
    if (meeting->n_came < n_workers(book)) {
        kvs_net_text_add(&text, "; missing: ");
        append_missing(book, meeting->came, &text);
    } else {
        kvs_net_text_add(&text, ", but not all servers have answered");
    }
    fail_meeting(book, meeting, KVS_ERR_TIMEOUT, text.bytes);
}

static void fail_because(net_storebook_t *book, meeting_t *meeting, const net_member_t *member,
                         const char *what)
{
    kvs_net_text_t text = {.n = 0};

    describe(book, meeting, &text);
    kvs_net_text_add(&text, ": %s %s", member->label, what);
    fail_meeting(book, meeting, KVS_ERR_PEER, text.bytes);
}

/* Arrive at a meeting that may already have failed. False: the worker has been answered. */
static bool arrive(net_storebook_t *book, meeting_t *meeting, const net_member_t *from,
                   int64_t timeout_ms)
{
    bool first = !meeting->came[from->rank];

    meeting->came[from->rank] = true;
    meeting->n_came += first;
    if (meeting->status != KVS_OK) {
        answer(book, worker(book, (size_t)from->rank), meeting->purpose, meeting->number,
               meeting->store, meeting->status,
               meeting->text == NULL ? "it failed before" : meeting->text);
        if (is_settled(book, meeting)) {
            forget(book, meeting);
        }
        return false;
    }
    meeting->deadline = net_earlier(meeting->deadline, net_deadline(timeout_ms));
    return true;
}

/* Somebody whose coming or help is needed and who can't come any more; NULL: nobody. */
static const net_member_t *find_gone(net_storebook_t *book, const meeting_t *meeting)
{
    for (size_t i = 0; i < book->group->n_members; i++) {
        const net_member_t *member = book->group->members[i];
        bool needed = meeting->purpose == TO_OPEN
                          ? !net_group_spares(book->group, member)
                          : member->role == KVS_NET_WORKER && !meeting->came[member->rank];

        if (needed && member->state != NET_PRESENT) {
            return member;
        }
    }
    return NULL;
}

static const net_member_t *find_closer(net_storebook_t *book, const meeting_t *meeting)
{
    const stored_t *store = find_store(book, meeting->store);

    for (size_t rank = 0; store != NULL && rank < n_workers(book); rank++) {
        if (store->closed[rank] && !meeting->came[rank]) {
            return worker(book, rank);
        }
    }
    return NULL;
}

/* Fail the meeting if it can't take place any more. */
static bool check_meeting(net_storebook_t *book, meeting_t *meeting)
{
    const net_member_t *gone = find_gone(book, meeting);
    const net_member_t *closer = gone != NULL ? NULL : find_closer(book, meeting);

    if (gone != NULL) {
        fail_because(book, meeting, gone,
                     gone->state == NET_GONE_LEFT ? "has left the job" : "died");
    } else if (closer != NULL) {
        fail_because(book, meeting, closer, "has closed the store");
    }
    return gone == NULL && closer == NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static stored_t *new_store(net_storebook_t *book, const net_member_t *from,
                           const net_wire_store_t *asked)
{
    stored_t *store = calloc(1, sizeof(*store));
    net_wire_list_t list = asked->facts;
    size_t n_servers = (size_t)book->group->n_servers;
    kvs_net_fact_t fact;
    bool good;

    if (store == NULL) {
        return NULL;
    }
    store->number = asked->ordinal;
    store->type = strdup(asked->type);
    store->ready = calloc(n_servers + 1, sizeof(bool));
    store->closed = calloc(n_workers(book), sizeof(bool));
    store->waits = calloc(n_workers(book), sizeof(int64_t));
    memcpy(store->opener, from->label, NET_LABEL_MAX);
    good = store->type != NULL && store->ready != NULL && store->closed != NULL &&
           store->waits != NULL && net_facts_add(&store->facts, "type", asked->type);
    while (good && net_wire_next_fact(&list, &fact)) {
        good = net_facts_add(&store->facts, fact.name, fact.value);
    }
    if (!good) {
        free_store(store);
        return NULL;
    }
    store->next = book->stores;
    book->stores = store;
    return store;
}

/* Does a worker mean the same store as the first did? If not, the text says what differs. */
static kvs_status_t compare(const stored_t *store, const net_member_t *from,
                            const net_wire_store_t *asked)
{
    net_wire_list_t list = asked->facts;
    kvs_net_fact_t fact;

    if (strcmp(store->type, asked->type) != 0) {
        return kvs_fail(KVS_ERR_PEER, "store %u: type differs: %s has '%s', %s has '%s'",
                        store->number, from->label, asked->type, store->opener, store->type);
    }
    while (net_wire_next_fact(&list, &fact)) {
        const char *value = net_facts_find(&store->facts, fact.name);

        if (value != NULL && strcmp(value, fact.value) != 0) {
            return kvs_fail(KVS_ERR_PEER, "store %u (%s): %s differs: %s has '%s', %s has '%s'",
                            store->number, store->type, fact.name, from->label, fact.value,
                            store->opener, value);
        }
    }
    return KVS_OK;
}

/* Those that are gone and needed have failed the meeting. */
static bool servers_are_ready(const net_storebook_t *book, const stored_t *store)
{
    for (int rank = 0; rank < book->group->n_servers; rank++) {
        if (!store->ready[rank] && server(book, (size_t)rank)->state == NET_PRESENT) {
            return false;
        }
    }
    return true;
}

static void open_if_ready(net_storebook_t *book, stored_t *store)
{
    meeting_t *meeting = find_meeting(book, TO_OPEN, store->number, store->number);

    if (meeting != NULL && meeting->status == KVS_OK && store->announced &&
        servers_are_ready(book, store)) {
        store->open = true;
        succeed(book, meeting);
    }
}

static void announce(net_storebook_t *book, stored_t *store)
{
    net_wire_t wire = {
        .type = NET_STORE_ANNOUNCE,
        .as.store = {.ordinal = store->number, .store = store->number, .type = store->type}};
    net_wire_lists_t lists = {.facts = store->facts.facts, .n_facts = store->facts.n};

    store->announced = true;
    for (int rank = 0; rank < book->group->n_servers; rank++) {
        if (server(book, (size_t)rank)->state == NET_PRESENT) {
            book->say(book->arg, server(book, (size_t)rank), &wire, &lists);
        }
    }
    open_if_ready(book, store);
}

static kvs_status_t take_open(net_storebook_t *book, net_member_t *from,
                              const net_wire_store_t *asked)
{
    stored_t *store = find_store(book, asked->ordinal);
    meeting_t *meeting;
    kvs_status_t status;

    if (from->role != KVS_NET_WORKER || asked->ordinal == 0) {
        return kvs_fail(KVS_ERR_FORMAT, "%s can't open store %u", from->label, asked->ordinal);
    }
    store = store == NULL ? new_store(book, from, asked) : store;
    meeting = store == NULL ? NULL : get_meeting(book, TO_OPEN, store->number, store->number);
    if (meeting == NULL) {
        answer(book, from, NET_STORE_OPEN, asked->ordinal, asked->ordinal, KVS_ERR_NO_MEMORY,
               "the scheduler has no memory for another store");
        return KVS_OK;
    }
    if (!arrive(book, meeting, from, asked->timeout_ms)) {
        return KVS_OK;
    }
    status = compare(store, from, asked);
    if (status != KVS_OK) {
        fail_meeting(book, meeting, status, net_last_error());
    } else if (check_meeting(book, meeting) && meeting->n_came == n_workers(book)) {
        announce(book, store);
    }
    return KVS_OK;
}

static kvs_status_t take_ready(net_storebook_t *book, const net_member_t *from,
                               const net_request_t *request)
{
    stored_t *store = find_store(book, request->store);

    if (from->role != KVS_NET_SERVER || (store != NULL && !store->announced)) {
        return kvs_fail(KVS_ERR_FORMAT, "%s is ready for store %u, which was not announced",
                        from->label, request->store);
    }
    if (store != NULL && !store->ready[from->rank]) { /* else it failed meanwhile */
        store->ready[from->rank] = true;
        open_if_ready(book, store);
    }
    return KVS_OK;
}

/* ---- Barriers -------------------------------------------------------------------------------- */

static kvs_status_t take_barrier(net_storebook_t *book, net_member_t *from,
                                 const net_request_t *request)
{
    stored_t *store = find_store(book, request->store);
    meeting_t *meeting;

    if (store == NULL || !store->open || from->role != KVS_NET_WORKER) {
        return kvs_fail(KVS_ERR_FORMAT, "%s is at a barrier of store %u, which is not open",
                        from->label, request->store);
    }
    meeting = get_meeting(book, TO_PASS, request->store, request->number);
    if (meeting == NULL) {
        answer(book, from, NET_BARRIER, request->number, request->store, KVS_ERR_NO_MEMORY,
               "the scheduler has no memory for another barrier");
        return KVS_OK;
    }
    if (arrive(book, meeting, from, request->timeout_ms) && check_meeting(book, meeting) &&
        meeting->n_came == n_workers(book)) {
        succeed(book, meeting);
    }
    return KVS_OK;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void check_meetings(net_storebook_t *book)
{
    meeting_t *next;

    for (meeting_t *meeting = book->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (meeting->status == KVS_OK) {
            (void)check_meeting(book, meeting);
        } else if (is_settled(book, meeting)) {
            forget(book, meeting);
        }
    }
}

static void answer_close(net_storebook_t *book, stored_t *store, size_t rank, kvs_status_t status,
                         const char *text)
{
    store->waits[rank] = 0;
    answer(book, worker(book, rank), NET_STORE_CLOSE, 0, store->number, status, text);
}

static void close_if_over(net_storebook_t *book, stored_t *store)
{
    for (size_t rank = 0; rank < n_workers(book); rank++) {
        if (!store->closed[rank] && worker(book, rank)->state == NET_PRESENT) {
            return;
        }
    }
    store->over = true;
    tell_servers_closed(book, store);
    for (size_t rank = 0; rank < n_workers(book); rank++) {
        if (store->waits[rank] != 0) {
            answer_close(book, store, rank, KVS_OK, "");
        }
    }
}

static void forget_stores(net_storebook_t *book)
{
    stored_t **at = &book->stores;

    while (*at != NULL) {
        stored_t *store = *at;

        if (store->over && find_meeting(book, TO_OPEN, store->number, store->number) == NULL) {
            *at = store->next;
            free_store(store);
        } else {
            at = &store->next;
        }
    }
}

static kvs_status_t take_close(net_storebook_t *book, net_member_t *from,
                               const net_request_t *request)
{
    stored_t *store = find_store(book, request->store);

    if (from->role != KVS_NET_WORKER) {
        return kvs_fail(KVS_ERR_FORMAT, "%s can't close store %u", from->label, request->store);
    }
    if (store == NULL) {
        answer(book, from, NET_STORE_CLOSE, 0, request->store, KVS_OK, "");
        return KVS_OK;
    }
    store->closed[from->rank] = true;
    store->waits[from->rank] = request->mask == 0 ? 0 : net_deadline(request->timeout_ms);
    check_meetings(book);
    if (!store->over) {
        close_if_over(book, store);
    }
    return KVS_OK;
}

/* ---- Together -------------------------------------------------------------------------------- */

static kvs_status_t take(net_storebook_t *book, net_member_t *from, const net_wire_t *wire)
{
    switch (wire->type) {
    case NET_STORE_OPEN:
        return take_open(book, from, &wire->as.store);
    case NET_STORE_READY:
        return take_ready(book, from, &wire->as.request);
    case NET_BARRIER:
        return take_barrier(book, from, &wire->as.request);
    case NET_STORE_CLOSE:
        return take_close(book, from, &wire->as.request);
    default:
        return kvs_fail(KVS_ERR_FORMAT, "%s sent a %s", from->label, net_wire_name(wire->type));
    }
}

kvs_status_t net_storebook_take(net_storebook_t *book, net_member_t *from, const net_wire_t *wire)
{
    kvs_status_t status = take(book, from, wire);

    forget_stores(book);
    return status;
}

void net_storebook_gone(net_storebook_t *book, const net_member_t *member)
{
    (void)member; /* its state says it */
    check_meetings(book);
    for (stored_t *store = book->stores; store != NULL; store = store->next) {
        if (!store->over) {
            open_if_ready(book, store);
            close_if_over(book, store);
        }
    }
    forget_stores(book);
}

static int64_t tick_close(net_storebook_t *book, stored_t *store, int64_t now)
{
    int64_t next = NET_NEVER;

    for (size_t rank = 0; rank < n_workers(book); rank++) {
        if (store->waits[rank] != 0 && store->waits[rank] <= now) {
            kvs_net_text_t text = {.n = 0};

            kvs_net_text_add(&text, "store %u (%s) is still open in: ", store->number, store->type);
            append_missing(book, store->closed, &text);
            answer_close(book, store, rank, KVS_ERR_TIMEOUT, text.bytes);
        } else if (store->waits[rank] != 0) {
            next = net_earlier(next, store->waits[rank]);
        }
    }
    return next;
}

int64_t net_storebook_tick(net_storebook_t *book)
{
    int64_t now = net_now(), at = NET_NEVER;
    meeting_t *next;

    for (meeting_t *meeting = book->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (meeting->deadline <= now) {
            fail_overdue(book, meeting);
        } else {
            at = net_earlier(at, meeting->deadline);
        }
    }
    for (stored_t *store = book->stores; store != NULL; store = store->next) {
        at = net_earlier(at, tick_close(book, store, now));
    }
    forget_stores(book);
    return at;
}

void net_storebook_release(net_storebook_t *book)
{
    while (book->meetings != NULL) {
        forget(book, book->meetings);
    }
    while (book->stores != NULL) {
        stored_t *store = book->stores;

        book->stores = store->next;
        free_store(store);
    }
}
