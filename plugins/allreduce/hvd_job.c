/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_job.c - one job a process. Whatever comes, from other processes or from the table in this one,
 * becomes a letter in one box, which the job's thread empties in order. A forked child has no job of its
 * own until it creates a store. */
#include "hvd_job.h"

#include "hvd_table.h"
#include "hvd_timeline.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_MS    250
#define GOODBYE_MS 2000 /* at the end of the process: for what is on its way */
#define GRACE_MS   1500 /* by which worker 0's word about a deadline may be late */

enum { LETTER_FAIL = 100, LETTER_STOP };

typedef struct letter {
    struct letter *next;
    int64_t arrived_us; /* of the timeline */
    uint8_t kind;       /* HVD_GO, HVD_NO, HVD_JOINED, or LETTER_… */
    size_t n;
    unsigned char body[];
} letter_t;

/* A ticket is the place of its pending in a table, and how often the place was used before. */
typedef struct seat {
    hvd_pending_t *pending; /* NULL: free */
    uint32_t n_used;
    uint32_t next_free;
} seat_t;

struct hvd_job {
    /* fixed once it is open */
    kvs_net_settings_t settings;
    kvs_net_job_t *net;
    kvs_net_node_t *node;
    int rank, n_workers;
    const hvd_engine_t *engine;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t table_lock;
    hvd_table_t *table; /* guarded by table_lock; NULL: this is not worker 0, or not open yet */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t arrived;
    void *engine_state; /* set before any exchange; NULL again before it is closed */
    letter_t *first, **end;
    int64_t idle_since_ms; /* the job's thread; INT64_MAX: it is at work */
    seat_t *seats;
    uint32_t n_seats, first_free;
    kvs_status_t failure;
    char *failure_text;
    atomic_bool has_failed; /* set after these two */
    int n_users;
};

static pthread_mutex_t job_lock = PTHREAD_MUTEX_INITIALIZER;
static hvd_job_t *the_job; /* guarded by job_lock */

int64_t hvd_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Letters ----------------------------------------------------------------------------------- */

static void post(hvd_job_t *job, uint8_t kind, const void *body, size_t n)
{
    letter_t *letter = malloc(sizeof(*letter) + n);

    if (letter == NULL) {
        kvs_log(KVS_LOG_ERROR, job->engine->name,
                "no memory for a message: an exchange will time out");
        return;
    }
    letter->next = NULL;
    letter->kind = kind;
    letter->arrived_us = hvd_timeline_now();
    letter->n = n;
    if (n > 0) {
        memcpy(letter->body, body, n);
    }
    pthread_mutex_lock(&job->lock);
    *job->end = letter;
    job->end = &letter->next;
    pthread_cond_signal(&job->arrived);
    pthread_mutex_unlock(&job->lock);
}

static letter_t *next_letter(hvd_job_t *job)
{
    letter_t *letter;

    pthread_mutex_lock(&job->lock);
    job->idle_since_ms = hvd_now_ms();
    while (job->first == NULL) {
        pthread_cond_wait(&job->arrived, &job->lock);
    }
    letter = job->first;
    job->first = letter->next;
    if (job->first == NULL) {
        job->end = &job->first;
    }
    job->idle_since_ms = INT64_MAX;
    pthread_mutex_unlock(&job->lock);
    return letter;
}

static void send_to(hvd_job_t *job, int rank, uint8_t kind, const hvd_bytes_t *bytes)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    if (bytes->failed) {
        kvs_log(KVS_LOG_ERROR, job->engine->name,
                "no memory for a message: an exchange will time out");
        return;
    }
    if (rank == job->rank) {
        post(job, kind, bytes->data, bytes->n);
        return;
    }
    send.flags = KVS_NET_URGENT;
    send.header = &kind;
    send.n_header_bytes = 1;
    send.body = bytes->data;
    send.n_body_bytes = bytes->n;
    /* Who can't be reached is dead or has left, which is told as an event. */
    (void)kvs_net_send(job->node, kvs_net_node_peer(job->node, KVS_NET_WORKER, rank), &send);
}

/* ---- Failure ----------------------------------------------------------------------------------- */

/* The job is over: the first reason counts. */
static void fail_job(hvd_job_t *job, kvs_status_t status, const char *text)
{
    bool first;

    pthread_mutex_lock(&job->lock);
    first = job->failure == KVS_OK;
    if (first) {
        job->failure_text = strdup(text);
        job->failure = status;
        atomic_store_explicit(&job->has_failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&job->lock);
    if (first) {
        post(job, LETTER_FAIL, NULL, 0);
    }
}

void hvd_job_fail(hvd_job_t *job, kvs_status_t status, const char *text)
{
    char *copy = strdup(text); /* may be this thread's last error */

    (void)kvs_net_node_tell(job->node, 0, status, copy == NULL ? "" : copy);
    fail_job(job, status, copy == NULL ? "" : copy);
    free(copy);
}

kvs_status_t hvd_job_check(hvd_job_t *job)
{
    /* acquire: the two below are fixed once it is set */
    return !atomic_load_explicit(&job->has_failed, memory_order_acquire)
               ? KVS_OK
               : kvs_fail(job->failure, "%s", job->failure_text == NULL ? "" : job->failure_text);
}

bool hvd_job_has_failed(const hvd_job_t *job)
{
    return atomic_load_explicit(&job->has_failed, memory_order_acquire);
}

/* ---- Tickets ----------------------------------------------------------------------------------- */

/* From then on the job's thread may end it. */
static kvs_status_t take_seat(hvd_job_t *job, hvd_pending_t *pending, uint64_t *ret_ticket)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&job->lock);
    if (job->first_free == UINT32_MAX) {
        uint32_t n = job->n_seats == 0 ? 256 : 2 * job->n_seats;
        seat_t *grown = realloc(job->seats, n * sizeof(*grown));

        for (uint32_t i = job->n_seats; grown != NULL && i < n; i++) {
            grown[i] = (seat_t){NULL, 0, i + 1 < n ? i + 1 : UINT32_MAX};
        }
        if (grown != NULL) {
            job->first_free = job->n_seats;
            job->seats = grown;
            job->n_seats = n;
        }
    }
    if (job->failure != KVS_OK) {
        status = job->failure;
    } else if (job->first_free == UINT32_MAX) {
        status = KVS_ERR_NO_MEMORY;
    } else {
        uint32_t i = job->first_free;

        job->first_free = job->seats[i].next_free;
        job->seats[i].pending = pending;
        pending->ticket = *ret_ticket = (uint64_t)job->seats[i].n_used << 32 | i;
        pending->asked_ms = hvd_now_ms();
        pending->asked_us = hvd_timeline_now();
    }
    pthread_mutex_unlock(&job->lock);
    return status == KVS_ERR_NO_MEMORY ? kvs_fail(status, "no memory to wait for an exchange")
           : status != KVS_OK          ? hvd_job_check(job)
                                       : KVS_OK;
}

static hvd_pending_t *leave_seat_locked(hvd_job_t *job, uint32_t i)
{
    hvd_pending_t *pending = job->seats[i].pending;

    job->seats[i].pending = NULL;
    job->seats[i].n_used++;
    job->seats[i].next_free = job->first_free;
    job->first_free = i;
    return pending;
}

/* Who waits with that ticket, and now no longer does; NULL: nobody any more. */
static hvd_pending_t *redeem(hvd_job_t *job, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket;
    hvd_pending_t *pending = NULL;

    pthread_mutex_lock(&job->lock);
    if (i < job->n_seats && job->seats[i].pending != NULL &&
        job->seats[i].n_used == (uint32_t)(ticket >> 32)) {
        pending = leave_seat_locked(job, i);
    }
    pthread_mutex_unlock(&job->lock);
    return pending;
}

/* ---- The table, in worker 0's process ------------------------------------------------------------ */

static void table_send(void *arg, int rank, uint8_t kind, const hvd_bytes_t *bytes)
{
    send_to(arg, rank, kind, bytes);
}

static void table_warn(void *arg, const char *text)
{
    const hvd_job_t *job = arg;

    kvs_log(KVS_LOG_WARN, job->engine->name, "%s", text);
}

static const char *table_label(void *arg, int rank)
{
    const hvd_job_t *job = arg;

    return kvs_net_node_peer(job->node, KVS_NET_WORKER, rank)->label;
}

static void take_asks(hvd_job_t *job, int rank, hvd_view_t view)
{
    hvd_ask_t ask;

    pthread_mutex_lock(&job->table_lock);
    while (job->table != NULL && hvd_get_ask(&view, &ask)) {
        hvd_table_ask(job->table, rank, &ask, hvd_now_ms());
    }
    pthread_mutex_unlock(&job->table_lock);
    if (view.failed) {
        kvs_log(KVS_LOG_WARN, job->engine->name, "a message from %s is malformed: dropped",
                table_label(job, rank));
    }
}

static void take_close(hvd_job_t *job, int rank, uint32_t store)
{
    pthread_mutex_lock(&job->table_lock);
    if (job->table != NULL) {
        hvd_table_close(job->table, rank, store);
    }
    pthread_mutex_unlock(&job->table_lock);
}

/* ---- What comes from others ---------------------------------------------------------------------- */

static void on_message(void *arg, kvs_net_message_t *message)
{
    hvd_job_t *job = arg;
    uint8_t kind = message->n_header_bytes == 1 ? *(const uint8_t *)message->header : 0;
    hvd_view_t view = {message->body, message->n_body_bytes, false};

    if (message->from->rank == 0 && (kind == HVD_GO || kind == HVD_NO || kind == HVD_JOINED)) {
        post(job, kind, message->body, message->n_body_bytes);
    } else if (kind == HVD_ASK) {
        take_asks(job, message->from->rank, view);
    } else if (kind == HVD_CLOSE) {
        take_close(job, message->from->rank, hvd_get_u32(&view));
    } else if (kind == HVD_ENGINE && job->engine->message != NULL) {
        void *state = hvd_job_engine(job);

        if (state != NULL) { /* else it has been closed */
            job->engine->message(state, view);
        }
    } else {
        kvs_log(KVS_LOG_WARN, job->engine->name, "a message from %s is not understood: dropped",
                message->from->label);
    }
    kvs_net_message_release(message);
}

static void on_left(hvd_job_t *job, const kvs_net_event_t *event)
{
    pthread_mutex_lock(&job->table_lock);
    if (job->table != NULL) {
        hvd_table_lose(job->table, event->peer->rank, event->text);
    }
    pthread_mutex_unlock(&job->table_lock);
    if (event->peer->rank == 0) {
        fail_job(job, KVS_ERR_PEER, event->text);
    }
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    hvd_job_t *job = arg;

    switch ((kvs_net_event_kind_t)event->kind) {
    case KVS_NET_EVENT_LEFT:
        if (event->peer != NULL && event->peer->role == KVS_NET_WORKER) {
            on_left(job, event);
        }
        break;
    case KVS_NET_EVENT_DEAD:
        fail_job(job, event->status, event->text);
        break;
    case KVS_NET_EVENT_ERROR:
        if (event->store == 0) {
            fail_job(job, event->status, event->text);
        }
        break;
    case KVS_NET_EVENT_ENDED:
        if (event->status != KVS_OK) {
            fail_job(job, event->status, event->text);
        }
        break;
    default:
        break;
    }
}

/* Worker 0 says when a deadline has passed. Where even that does not come, this process does: but as long
 * as exchanges go on, others may wait for their turn. */
static bool is_overdue(const hvd_pending_t *pending, int64_t idle_ms)
{
    return pending->what != HVD_JOIN && pending->timeout_ms > 0 &&
           hvd_now_ms() - pending->asked_ms > pending->timeout_ms + GRACE_MS &&
           idle_ms > pending->timeout_ms + GRACE_MS;
}

static bool is_cancelled(const hvd_pending_t *pending)
{
    /* relaxed: nothing else is told by it */
    return pending->cancelled != NULL &&
           atomic_load_explicit(pending->cancelled, memory_order_relaxed);
}

/* As if worker 0 had said so. */
static void say_no(hvd_job_t *job, uint64_t ticket, kvs_status_t status, const char *text)
{
    hvd_bytes_t bytes = {0};

    hvd_put_i64(&bytes, (int64_t)ticket);
    hvd_put_u32(&bytes, (uint32_t)status);
    hvd_put_text(&bytes, text);
    send_to(job, job->rank, HVD_NO, &bytes);
    hvd_bytes_release(&bytes);
}

static void find_overdue_and_cancelled(hvd_job_t *job)
{
    int64_t idle_ms;
    uint64_t tickets[64]; /* the rest at the next tick */
    bool cancelled[64];
    size_t n = 0;

    pthread_mutex_lock(&job->lock);
    idle_ms = hvd_now_ms() - job->idle_since_ms;
    for (uint32_t i = 0; i < job->n_seats && n < sizeof(tickets) / sizeof(tickets[0]); i++) {
        const hvd_pending_t *pending = job->seats[i].pending;

        if (pending != NULL && (is_cancelled(pending) || is_overdue(pending, idle_ms))) {
            cancelled[n] = is_cancelled(pending);
            tickets[n++] = pending->ticket;
        }
    }
    pthread_mutex_unlock(&job->lock);
    for (size_t i = 0; i < n; i++) {
        if (cancelled[i]) {
            say_no(job, tickets[i], KVS_ERR_CANCELLED, "the store was cancelled");
        } else {
            say_no(job, tickets[i], KVS_ERR_TIMEOUT,
                   "no word about it from worker 0, which arranges the exchanges");
        }
    }
}

static void tick(void *arg)
{
    hvd_job_t *job = arg;

    pthread_mutex_lock(&job->table_lock);
    if (job->table != NULL) {
        hvd_table_tick(job->table, hvd_now_ms());
    }
    pthread_mutex_unlock(&job->table_lock);
    find_overdue_and_cancelled(job);
}

static void start_ticking(void *arg)
{
    hvd_job_t *job = arg;

    (void)kvs_net_node_set_tick(job->node, TICK_MS, tick, job); /* on this thread it can't fail */
}

/* ---- Asking ------------------------------------------------------------------------------------- */

kvs_status_t hvd_job_ask(hvd_job_t *job, hvd_pending_t *pending, hvd_ask_t *ask)
{
    hvd_bytes_t bytes = {0};
    kvs_status_t status = is_cancelled(pending)
                              ? kvs_fail(KVS_ERR_CANCELLED, "the store was cancelled")
                              : take_seat(job, pending, &ask->ticket);

    if (status != KVS_OK) {
        return status;
    }
    if (job->rank == 0) {
        pthread_mutex_lock(&job->table_lock);
        hvd_table_ask(job->table, 0, ask, hvd_now_ms());
        pthread_mutex_unlock(&job->table_lock);
        return KVS_OK;
    }
    hvd_put_ask(&bytes, ask);
    if (bytes.failed) {
        hvd_bytes_release(&bytes);
        return redeem(job, ask->ticket) == NULL
                   ? KVS_OK /* something else has ended it */
                   : kvs_fail(KVS_ERR_NO_MEMORY, "no memory to ask for an exchange");
    }
    send_to(job, 0, HVD_ASK, &bytes);
    hvd_bytes_release(&bytes);
    return KVS_OK;
}

bool hvd_job_give_up(hvd_job_t *job, const hvd_pending_t *pending)
{
    return redeem(job, pending->ticket) != NULL;
}

void hvd_job_say_closed(hvd_job_t *job, uint32_t store)
{
    hvd_bytes_t bytes = {0};

    if (job->rank == 0) {
        take_close(job, 0, store);
        return;
    }
    hvd_put_u32(&bytes, store);
    send_to(job, 0, HVD_CLOSE, &bytes);
    hvd_bytes_release(&bytes);
}

/* ---- The job's thread ---------------------------------------------------------------------------- */

static kvs_status_t run_exchange(hvd_job_t *job, hvd_pending_t **pending, size_t n,
                                 const hvd_go_t *go)
{
    kvs_status_t status = hvd_job_check(job);

    if (status != KVS_OK) {
        return status;
    }
    status = job->engine->run(job->engine_state, pending, n, go);
    if (status != KVS_OK) {
        /* Members are not where the others think they are: this can't be mended. */
        hvd_job_fail(job, status, kvs_plugin_host->last_error());
    }
    return status;
}

static void tell_timeline(hvd_pending_t *const *pending, size_t n, int64_t arrived, int64_t begun)
{
    for (size_t i = 0; i < n; i++) {
        hvd_timeline_wait("negotiate", pending[i]->key, pending[i]->asked_us, arrived);
        hvd_timeline_wait("queue", pending[i]->key, arrived, begun);
    }
    if (n > 0) {
        hvd_timeline_exchange(pending[0]->key, n, begun, hvd_timeline_now());
    }
}

static void go(hvd_job_t *job, hvd_go_t *message, int64_t arrived)
{
    int64_t begun = hvd_timeline_now();
    hvd_pending_t **pending = calloc(message->n_items, sizeof(hvd_pending_t *));
    kvs_status_t status = pending == NULL ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory") : KVS_OK;
    size_t n = 0;
    char *text = NULL;

    for (uint32_t i = 0; pending != NULL && i < message->n_items; i++) {
        pending[n] = redeem(job, message->items[i].ticket);
        n += pending[n] != NULL;
    }
    if (n < message->n_items) {
        /* the others are going to wait for what was given up here */
        status = kvs_fail(KVS_ERR_TIMEOUT, "an exchange began after it was given up by %s",
                          kvs_net_node_self(job->node)->label);
        hvd_job_fail(job, status, kvs_plugin_host->last_error());
    } else {
        status = run_exchange(job, pending, n, message);
    }
    if (status != KVS_OK || (n > 0 && pending[0]->own != KVS_OK)) {
        text = strdup(kvs_plugin_host->last_error());
    }
    if (job->rank == 0) {
        pthread_mutex_lock(&job->table_lock);
        hvd_table_done(job->table);
        pthread_mutex_unlock(&job->table_lock);
    }
    tell_timeline(pending, n, arrived, begun);
    for (size_t i = 0; i < n; i++) {
        pending[i]->end(pending[i], status != KVS_OK ? status : pending[i]->own,
                        text == NULL ? "" : text, 0);
    }
    free(text);
    free(pending);
}

static void no(hvd_job_t *job, hvd_view_t *view)
{
    hvd_no_t message;
    hvd_pending_t *pending;

    if (hvd_get_no(view, &message) != KVS_OK) {
        kvs_log(KVS_LOG_ERROR, job->engine->name, "%s", kvs_plugin_host->last_error());
        return;
    }
    pending = redeem(job, message.ticket);
    if (pending != NULL) {
        pending->end(pending, message.status, message.text, 0);
    }
    hvd_no_release(&message);
}

static void joined(hvd_job_t *job, hvd_view_t *view)
{
    uint64_t ticket = (uint64_t)hvd_get_i64(view);
    int last = (int)hvd_get_u32(view);
    hvd_pending_t *pending = view->failed ? NULL : redeem(job, ticket);

    if (pending != NULL) {
        pending->end(pending, KVS_OK, "", last);
    }
}

/* Nothing that is pending will come about. */
static void fail_all(hvd_job_t *job)
{
    for (;;) {
        hvd_pending_t *pending = NULL;

        pthread_mutex_lock(&job->lock);
        for (uint32_t i = 0; i < job->n_seats && pending == NULL; i++) {
            pending = job->seats[i].pending == NULL ? NULL : leave_seat_locked(job, i);
        }
        pthread_mutex_unlock(&job->lock);
        if (pending == NULL) {
            return;
        }
        pending->end(pending, job->failure, job->failure_text == NULL ? "" : job->failure_text, 0);
    }
}

static bool has_part(const hvd_job_t *job, const hvd_go_t *message)
{
    bool is_in = false;

    for (uint32_t m = 0; m < message->n_members; m++) { /* ascending */
        is_in |= message->members[m] == job->rank;
    }
    return is_in && message->members[message->n_members - 1] < job->n_workers;
}

static void open_letter(hvd_job_t *job, const letter_t *letter)
{
    hvd_view_t view = {letter->body, letter->n, false};
    hvd_go_t message;

    switch (letter->kind) {
    case HVD_GO:
        if (hvd_get_go(&view, &message) != KVS_OK) {
            fail_job(job, KVS_ERR_PEER, kvs_plugin_host->last_error());
            return;
        }
        if (has_part(job, &message)) {
            go(job, &message, letter->arrived_us);
        } else {
            fail_job(job, KVS_ERR_PEER, "worker 0 arranged an exchange of other workers");
        }
        hvd_go_release(&message);
        return;
    case HVD_NO:
        no(job, &view);
        return;
    case HVD_JOINED:
        joined(job, &view);
        return;
    default:
        fail_all(job);
    }
}

static void *work(void *arg)
{
    hvd_job_t *job = arg;
    bool stops = false;

    while (!stops) {
        letter_t *letter = next_letter(job);

        stops = letter->kind == LETTER_STOP;
        if (!stops) {
            open_letter(job, letter);
        }
        free(letter);
    }
    return NULL;
}

static kvs_status_t start_thread(hvd_job_t *job)
{
    sigset_t all, before;
    int error;

    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&job->thread, NULL, work, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    job->has_thread = error == 0;
    return error == 0 ? KVS_OK
                      : kvs_fail(KVS_ERR_IO, "no thread for the exchanges: %s", strerror(error));
}

static void stop_thread(hvd_job_t *job)
{
    if (job->has_thread) {
        post(job, LETTER_STOP, NULL, 0);
        (void)pthread_join(job->thread, NULL);
        job->has_thread = false;
    }
}

/* ---- Joining and leaving ------------------------------------------------------------------------- */

static void free_job(hvd_job_t *job)
{
    for (letter_t *letter = job->first, *next; letter != NULL; letter = next) {
        next = letter->next;
        free(letter);
    }
    hvd_table_free(job->table);
    free(job->seats);
    free(job->failure_text);
    pthread_cond_destroy(&job->arrived);
    pthread_mutex_destroy(&job->lock);
    pthread_mutex_destroy(&job->table_lock);
    free(job);
}

static void *take_engine(hvd_job_t *job)
{
    void *state;

    pthread_mutex_lock(&job->lock);
    state = job->engine_state;
    job->engine_state = NULL;
    pthread_mutex_unlock(&job->lock);
    return state;
}

/* Others may still be sending: no message is in the engine when it is closed. */
static void close_engine(hvd_job_t *job, bool is_over)
{
    void *state = take_engine(job);

    if (state != NULL) {
        (void)kvs_net_node_call_wait(job->node, NULL, NULL); /* this is not the node's thread */
        job->engine->close(state, is_over);
    }
}

/* At the end of the process. Stores that are still open may be in use by other threads: then nothing
 * is taken from under them, and the others see this process go. */
static void leave_locked(void)
{
    hvd_job_t *job = the_job;
    bool in_use, is_over;

    if (job == NULL) {
        return;
    }
    pthread_mutex_lock(&job->lock);
    in_use = job->n_users > 0;
    is_over = job->failure != KVS_OK;
    pthread_mutex_unlock(&job->lock);
    if (in_use) {
        return;
    }
    the_job = NULL;
    stop_thread(job);
    hvd_timeline_close();
    close_engine(job, is_over);
    /* Nobody is left to be told of a failure, here as below. */
    (void)kvs_net_node_close(job->node, is_over ? 0 : GOODBYE_MS);
    (void)kvs_net_job_close(job->net, is_over ? 0 : GOODBYE_MS);
    free_job(job);
}

static void leave(void)
{
    if (pthread_mutex_trylock(&job_lock) == 0) { /* else another thread is just joining */
        leave_locked();
        pthread_mutex_unlock(&job_lock);
    }
}

/* In a forked child: the job is its parent's, and not to be touched. Whoever held the lock is not here. */
static void forget(void)
{
    the_job = NULL;
    job_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static bool is_watched; /* fixed after the first call */

static void watch_forks_and_exit(void)
{
    is_watched = pthread_atfork(NULL, NULL, forget) == 0;
    if (atexit(leave) != 0) {
        kvs_log(KVS_LOG_DEBUG, "job", "no memory to say goodbye at exit");
    }
}

/* Before any store is opened, and so before anybody asks. */
static kvs_status_t open_table(hvd_job_t *job, const hvd_job_options_t *options)
{
    hvd_table_args_t args = {.n_workers = job->n_workers,
                             .fusion_bytes = options->fusion_bytes,
                             .n_steps = options->engine->n_steps,
                             .sink = {table_send, table_warn, table_label, job}};
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&job->table_lock);
    if (job->rank == 0) {
        status = hvd_table_new(&args, &job->table);
    }
    pthread_mutex_unlock(&job->table_lock);
    return status;
}

static kvs_status_t open_node(hvd_job_t *job)
{
    const kvs_net_fact_t facts[] = {
        {"plugin", job->engine->version},
        {"messages", HVD_MESSAGES_VERSION},
    };
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;
    kvs_status_t status;

    args.role = KVS_NET_WORKER;
    args.facts = facts;
    args.n_facts = sizeof(facts) / sizeof(facts[0]);
    args.group = job->engine->name;
    args.no_servers = 1;
    args.message = on_message;
    args.event = on_event;
    args.arg = job;
    status = kvs_net_node_open(job->net, &args, &job->node);
    if (status == KVS_OK) {
        status = kvs_net_node_call(job->node, start_ticking, job);
    }
    return status == KVS_OK ? kvs_net_node_wait_ready(job->node, -1) : status;
}

static kvs_status_t open_engine(hvd_job_t *job, const hvd_job_options_t *options)
{
    void *state = NULL;
    kvs_status_t status = job->engine->open(job, options->engine_options, &state);

    pthread_mutex_lock(&job->lock);
    job->engine_state = state;
    pthread_mutex_unlock(&job->lock);
    return status;
}

static kvs_status_t open_job(hvd_job_t *job, const hvd_job_options_t *options)
{
    kvs_status_t status = kvs_net_job_open(&job->settings, &job->net);

    if (status == KVS_OK) {
        status = open_node(job);
    }
    if (status == KVS_OK) {
        job->rank = kvs_net_node_rank(job->node);
        job->n_workers = kvs_net_node_count(job->node, KVS_NET_WORKER);
        status = open_table(job, options);
    }
    if (status == KVS_OK) {
        status = hvd_timeline_open(options->timeline, job->rank);
    }
    if (status == KVS_OK) {
        status = open_engine(job, options);
    }
    return status == KVS_OK ? start_thread(job) : status;
}

/* What failed is closed again, so that a later create may try anew. Keeps the text. */
static void undo(hvd_job_t *job, kvs_status_t status)
{
    char *text = strdup(kvs_plugin_host->last_error());

    hvd_timeline_close();
    close_engine(job, true);
    (void)kvs_net_node_close(job->node, 0);
    (void)kvs_net_job_close(job->net, 0);
    free_job(job);
    (void)kvs_fail(status, "%s", text == NULL ? "no memory" : text);
    free(text);
}

static kvs_status_t join(const kvs_net_settings_t *settings, const hvd_job_options_t *options,
                         hvd_job_t **ret_job)
{
    hvd_job_t *job = is_watched ? calloc(1, sizeof(*job)) : NULL;
    kvs_status_t status;

    if (job == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to join a job");
    }
    job->settings = *settings;
    job->engine = options->engine;
    job->end = &job->first;
    job->first_free = UINT32_MAX;
    pthread_mutex_init(&job->lock, NULL);
    pthread_mutex_init(&job->table_lock, NULL);
    pthread_cond_init(&job->arrived, NULL);
    status = open_job(job, options);
    if (status != KVS_OK) {
        undo(job, status);
        return status;
    }
    *ret_job = job;
    return KVS_OK;
}

static bool is_same_job(const kvs_net_settings_t *a, const kvs_net_settings_t *b)
{
    return a->rank == b->rank && a->n_workers == b->n_workers &&
           strcmp(a->scheduler, b->scheduler) == 0 && strcmp(a->job_id, b->job_id) == 0;
}

kvs_status_t hvd_job_get(const kvs_net_settings_t *settings, const hvd_job_options_t *options,
                         hvd_job_t **ret_job)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    kvs_status_t status = KVS_OK;

    pthread_once(&once, watch_forks_and_exit);
    pthread_mutex_lock(&job_lock);
    if (the_job == NULL) {
        status = join(settings, options, &the_job);
    } else if (!is_same_job(&the_job->settings, settings)) {
        status = kvs_fail(KVS_ERR_STATE,
                          "this process is worker %d of job '%s' already; a process has one part "
                          "in one job",
                          the_job->rank, the_job->settings.job_id);
    }
    if (status == KVS_OK) {
        *ret_job = the_job;
    }
    pthread_mutex_unlock(&job_lock);
    return status;
}

void hvd_job_use(hvd_job_t *job)
{
    pthread_mutex_lock(&job->lock);
    job->n_users++;
    pthread_mutex_unlock(&job->lock);
}

void hvd_job_unuse(hvd_job_t *job)
{
    pthread_mutex_lock(&job->lock);
    job->n_users--;
    pthread_mutex_unlock(&job->lock);
}

kvs_net_node_t *hvd_job_node(const hvd_job_t *job)
{
    return job->node;
}

const kvs_net_settings_t *hvd_job_settings(const hvd_job_t *job)
{
    return &job->settings;
}

void *hvd_job_engine(const hvd_job_t *job)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&job->lock;
    void *state;

    pthread_mutex_lock(lock);
    state = job->engine_state;
    pthread_mutex_unlock(lock);
    return state;
}

kvs_status_t hvd_job_open_store(hvd_job_t *job, const kvs_open_args_t *open, int64_t timeout_ms,
                                kvs_net_store_t **ret_store)
{
    kvs_net_store_args_t args = KVS_NET_STORE_ARGS_INIT;

    args.type = open->type;
    args.loaded = open->loaded;
    return kvs_net_store_open(job->node, &args, timeout_ms == 0 ? -1 : timeout_ms, ret_store);
}

void hvd_job_send(hvd_job_t *job, int rank, const hvd_bytes_t *bytes)
{
    send_to(job, rank, HVD_ENGINE, bytes);
}
