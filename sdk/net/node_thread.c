/* SPDX-License-Identifier: Apache-2.0 */
/* node_thread.c - the I/O thread of a node: finds the scheduler, learns its own address on the way,
 * listens, says hello; then waits for frames, tasks and the clock; and at last takes leave. */
#include "node.h"

#include "segment.h"
#include "wake.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_MS    20    /* between attempts to reach the scheduler */
#define PROBE_MS    3000  /* for one of them */
#define PATIENCE_MS 10000 /* before a line in the log says that we wait */
#define VERDICT_MS  2000  /* more than the rendezvous, for the scheduler to say who is missing */
#define LINGER_MS   200   /* for acknowledgements and the goodbye */
#define GOODBYE_MS  200   /* at least, to be heard leaving */
#define LET_GO_MS   10000 /* for ZeroMQ to give back what it was lent */

/* ---- What others hear ------------------------------------------------------------------------ */

void net_node_emit(kvs_net_node_t *node, const kvs_net_event_t *event)
{
    if (node->args.event != NULL) {
        node->args.event(node->args.arg, event);
    }
}

static void wake_everyone(kvs_net_node_t *node)
{
    net_node_wake_waits(node);
    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            net_lane_wake(&node->peers[i].lanes[lane]);
        }
    }
}

/* Nothing reaches the peer any more; what was sent to it ends with the error. */
static void give_up(kvs_net_node_t *node, net_peer_t *peer, kvs_status_t status, const char *text,
                    int linger_ms)
{
    peer->gone_status = status;
    peer->gone_text = strdup(text);
    atomic_store_explicit(&peer->gone, true, memory_order_release);
    for (int i = 0; i < node->job->settings.n_lanes; i++) {
        net_lane_close(&peer->lanes[i], status, peer->gone_text == NULL ? "" : peer->gone_text,
                       linger_ms);
    }
}

static bool is_given_up(const net_peer_t *peer)
{
    return atomic_load_explicit(&peer->gone, memory_order_relaxed) || peer->pub.is_self;
}

void net_node_end(kvs_net_node_t *node, kvs_status_t status, const char *text)
{
    if (net_node_phase(node) == NET_ENDED) {
        return;
    }
    kvs_log(status == KVS_OK ? KVS_LOG_DEBUG : KVS_LOG_INFO, "net", "%s of job '%s' ends: %s",
            kvs_net_role_name(node->args.role), node->job->settings.job_id,
            status == KVS_OK ? "all workers have left" : text);
    pthread_mutex_lock(&node->lock);
    node->end_status = status;
    node->end_text = strdup(text);
    atomic_store_explicit(&node->phase, NET_ENDED, memory_order_release);
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
    net_node_emit(node,
                  &(kvs_net_event_t){.kind = KVS_NET_EVENT_ENDED, .status = status, .text = text});
    for (uint32_t i = 0; status != KVS_OK && i < node->n_peers; i++) {
        if (!is_given_up(&node->peers[i])) {
            give_up(node, &node->peers[i], status, text, LINGER_MS);
        }
    }
}

void net_node_lose(kvs_net_node_t *node, net_peer_t *peer, kvs_net_event_kind_t kind,
                   kvs_status_t status, const char *text, int linger_ms)
{
    if (is_given_up(peer)) {
        return;
    }
    peer->is_dead = kind == KVS_NET_EVENT_DEAD;
    give_up(node, peer, status, text, linger_ms);
    net_node_emit(
        node, &(kvs_net_event_t){.kind = kind, .status = status, .peer = &peer->pub, .text = text});
}

void net_node_suspect(kvs_net_node_t *node, net_peer_t *peer, const char *text, int linger_ms)
{
    net_wire_t wire = {.type = NET_SUSPECT,
                       .as.notice = {.member = (uint32_t)(peer - node->peers),
                                     .status = KVS_ERR_PEER,
                                     .text = text}};

    kvs_log(KVS_LOG_WARN, "net", "%s", text);
    if (net_channel_send(&node->channel, &wire, NULL) != KVS_OK) {
        kvs_log(KVS_LOG_ERROR, "net", "the scheduler is not told: %s", net_last_error());
    }
    net_node_lose(node, peer, KVS_NET_EVENT_DEAD, KVS_ERR_PEER, text, linger_ms);
}

/* ---- Reaching the scheduler ------------------------------------------------------------------ */

static bool is_closing(kvs_net_node_t *node)
{
    bool closing;

    pthread_mutex_lock(&node->lock);
    closing = node->is_closing || node->cancelled;
    pthread_mutex_unlock(&node->lock);
    return closing;
}

static void run_tasks(kvs_net_node_t *node)
{
    net_task_t *task;

    pthread_mutex_lock(&node->lock);
    task = node->tasks;
    node->tasks = node->last_task = NULL;
    pthread_mutex_unlock(&node->lock);
    while (task != NULL) {
        net_task_t *next = task->next;

        task->run(node, task);
        task = next;
    }
}

/* The wake-up has been heard: what was announced by it is looked at after this. */
static void answer_wake(kvs_net_node_t *node)
{
    net_wake_clear(node->wake_fd);
    (void)atomic_exchange_explicit(&node->is_rung, false, memory_order_seq_cst);
    run_tasks(node);
    net_lane_end_finished(node);
    if (atomic_exchange_explicit(&node->wants_rings, false, memory_order_acq_rel)) {
        net_rings_offer(node);
    }
    if (node->cancelled || atomic_exchange(&node->wakes, false)) {
        wake_everyone(node);
    }
}

/* Try each address of the scheduler once. */
static kvs_status_t try_scheduler(kvs_net_node_t *node, net_address_t *ret_scheduler)
{
    const kvs_net_settings_t *settings = &node->job->settings;
    net_address_t found[16];
    char host[NET_HOST_MAX];
    int port;
    size_t n = 0;
    kvs_status_t status = net_address_split(node->job->scheduler_address, host, &port);

    status = status == KVS_OK ? net_address_resolve(host, port, found, 16, &n) : status;
    for (size_t i = 0; i < n; i++) {
        status = net_address_check_allowed(&found[i], settings->insecure != 0);
        if (status != KVS_OK) {
            return status;
        }
        status = net_address_probe(&found[i],
                                   net_earlier(node->rendezvous_deadline, net_deadline(PROBE_MS)),
                                   node->wake_fd, &node->own);
        if (status == KVS_OK) {
            *ret_scheduler = found[i];
            return KVS_OK;
        }
    }
    return status;
}

static void note_probe(kvs_net_node_t *node, int64_t *io_next_line)
{
    pthread_mutex_lock(&node->lock);
    snprintf(node->probe_text, sizeof(node->probe_text), "%s", net_last_error());
    snprintf(node->presence, sizeof(node->presence), "the scheduler cannot be reached: %s",
             node->probe_text);
    pthread_mutex_unlock(&node->lock);
    if (net_now() >= *io_next_line) {
        kvs_log(KVS_LOG_WARN, "net", "%s of job '%s' waits for the scheduler: %s",
                kvs_net_role_name(node->args.role), node->job->settings.job_id, net_last_error());
        *io_next_line = net_now() + PATIENCE_MS * NET_MS;
    }
}

/* Until it answers, the deadline passes or we are closed. */
static kvs_status_t reach_scheduler(kvs_net_node_t *node, net_address_t *ret_scheduler)
{
    int64_t next_line = net_now() + PATIENCE_MS * NET_MS;
    char seconds[32];

    for (;;) {
        kvs_status_t status = try_scheduler(node, ret_scheduler);

        if (status == KVS_OK || status == KVS_ERR_ARGUMENT) {
            return status;
        }
        note_probe(node, &next_line);
        if (net_now() >= node->rendezvous_deadline) {
            return kvs_fail(KVS_ERR_TIMEOUT, "job '%s': for %s the scheduler was not there: %s",
                            node->job->settings.job_id,
                            net_seconds(seconds, node->job->settings.rendezvous_ms),
                            node->probe_text);
        }
        if (is_closing(node)) {
            return kvs_fail(KVS_ERR_CANCELLED, "job '%s': closed while looking for the scheduler",
                            node->job->settings.job_id);
        }
        if ((net_wait(NULL, 0, &node->wake_fd, 1, RETRY_MS) & 1) != 0) {
            answer_wake(node);
        }
    }
}

/* ---- Listening ------------------------------------------------------------------------------- */

/* The address to announce: told, of an interface, or the one that routes to the scheduler. */
static kvs_status_t choose_own(kvs_net_node_t *node, const net_address_t *scheduler)
{
    const kvs_net_settings_t *settings = &node->job->settings;
    kvs_status_t status = KVS_OK;
    size_t n;

    if (settings->node_host[0] != '\0') {
        status = net_address_resolve(settings->node_host, 0, &node->own, 1, &n);
    } else if (settings->interface[0] != '\0') {
        status =
            net_address_of_interface(settings->interface, scheduler->storage.ss_family, &node->own);
    }
    status =
        status == KVS_OK ? net_address_check_allowed(&node->own, settings->insecure != 0) : status;
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "the address to announce");
}

static net_socket_options_t options_of(const kvs_net_node_t *node)
{
    const kvs_net_settings_t *settings = &node->job->settings;
    uint64_t max = settings->max_message_bytes;

    return (net_socket_options_t){.max_frame_bytes =
                                      max > NET_WIRE_MAX_CONTROL ? max : NET_WIRE_MAX_CONTROL,
                                  .heartbeat_ms = settings->heartbeat_ms,
                                  .dead_after_ms = settings->dead_after_ms};
}

static kvs_status_t listen_there(kvs_net_node_t *node, int *ret_port)
{
    net_socket_options_t options = options_of(node);
    char host[NET_ADDRESS_MAX];
    int cause = 0;
    kvs_status_t status;

    net_address_host(&node->own, host);
    status =
        net_listener_open(node->job->context, host, 0, &options, &node->listener, ret_port, &cause);
    if (status != KVS_OK && cause == EADDRNOTAVAIL) { /* behind an address translation */
        status = net_listener_open(node->job->context,
                                   node->own.storage.ss_family == AF_INET6 ? "::" : "0.0.0.0", 0,
                                   &options, &node->listener, ret_port, &cause);
    }
    return status;
}

static void name_of(uint64_t incarnation, char name[40])
{
    snprintf(name, 40, "kvstore-%016llx", (unsigned long long)incarnation);
}

static kvs_status_t open_sockets(kvs_net_node_t *node, const net_address_t *scheduler)
{
    net_socket_options_t options = options_of(node);
    char host[NET_ADDRESS_MAX], name[40];
    int port;
    kvs_status_t status = choose_own(node, scheduler);

    status = status == KVS_OK ? listen_there(node, &port) : status;
    if (status == KVS_OK) {
        net_address_set_port(&node->own, port);
        net_address_text(&node->own, node->address);
        name_of(node->incarnation, name);
        status = net_listener_name(node->listener, name);
    }
    net_address_host(scheduler, host);
    return status == KVS_OK
               ? net_connector_open(node->job->context, host, net_address_port(scheduler), &options,
                                    &node->control)
               : status;
}

static void transmit(void *arg, const void *bytes, size_t n)
{
    kvs_net_node_t *node = arg;
    net_frame_t frame;

    if (net_frame_copy(&frame, bytes, n)) {
        (void)net_socket_send(node->control, NULL, &frame, 1); /* lost ones are sent again */
        node->control_used = true;
    }
}

static void say_hello(kvs_net_node_t *node)
{
    const kvs_net_settings_t *settings = &node->job->settings;
    bool dynamic = settings->n_servers == 0 && (settings->embed & KVS_NET_EMBED_SERVERS) != 0;
    bool worker = node->args.role == KVS_NET_WORKER;
    char host[NET_HOST_MAX];
    net_wire_lists_t lists = {.facts = node->facts.facts, .n_facts = node->facts.n};
    net_wire_t wire = {
        .type = NET_HELLO,
        .as.hello = {.job_id = settings->job_id,
                     .host = host,
                     .role = node->args.role,
                     .rank = node->rank_given,
                     .pid = getpid(),
                     .group = node->group,
                     .address = node->address,
                     .incarnation = node->incarnation,
                     .host_id = node->host_id,
                     .process_id = node->job->process_id,
                     .n_workers = settings->n_workers,
                     .n_servers = node->args.no_servers ? 0
                                  : dynamic             ? -1
                                                        : settings->n_servers,
                     .hosts_server = worker && !node->args.no_servers && node->job->hosts_server}};

    net_host_name(host);
    net_channel_post(&node->channel, &wire, &lists);
}

static kvs_status_t join(kvs_net_node_t *node)
{
    net_address_t scheduler = {.size = 0};
    kvs_status_t status = reach_scheduler(node, &scheduler);

    status = status == KVS_OK ? open_sockets(node, &scheduler) : status;
    if (status != KVS_OK) {
        return status;
    }
    node->channel.transmit = transmit;
    node->channel.arg = node;
    node->channel.heard = node->liveness.looked = net_now();
    node->next_beat = net_now() + node->job->settings.heartbeat_ms * NET_MS;
    atomic_store_explicit(&node->heard_at, node->channel.heard, memory_order_relaxed);
    say_hello(node);
    return KVS_OK;
}

/* ---- The clock ------------------------------------------------------------------------------- */

/* Once the scheduler is there, its word on who is missing is waited for. */
static int64_t rendezvous_end(const kvs_net_node_t *node)
{
    return node->heard && node->rendezvous_deadline != NET_NEVER
               ? node->rendezvous_deadline + VERDICT_MS * NET_MS
               : node->rendezvous_deadline;
}

static void check_rendezvous(kvs_net_node_t *node, int64_t now)
{
    kvs_net_text_t text = {.n = 0};
    char seconds[32];

    if (now < rendezvous_end(node)) {
        return;
    }
    net_seconds(seconds, node->job->settings.rendezvous_ms);
    if (node->heard) {
        kvs_net_text_add(&text, "job '%s': after %s only %s", node->job->settings.job_id, seconds,
                         node->presence);
    } else {
        kvs_net_text_add(&text,
                         "job '%s': what listens at %s accepts connections, but for %s has not "
                         "answered as a scheduler does",
                         node->job->settings.job_id, node->job->scheduler_address, seconds);
    }
    net_node_end(node, KVS_ERR_TIMEOUT, text.bytes);
}

static void check_scheduler(kvs_net_node_t *node, int64_t now)
{
    int64_t dead_after = node->job->settings.dead_after_ms;
    kvs_net_text_t text = {.n = 0};
    char seconds[32];

    if (!node->heard || !net_is_silent(node->channel.heard, now, dead_after * NET_MS)) {
        return;
    }
    kvs_net_text_add(
        &text, "the scheduler at %s died, or cannot be reached: nothing was heard of it for %s",
        node->job->scheduler_address, net_seconds(seconds, dead_after));
    node->is_orphan = true;
    net_node_end(node, KVS_ERR_PEER, text.bytes);
}

static void check_lanes(kvs_net_node_t *node, int64_t now, int64_t late)
{
    int64_t dead_after = node->job->settings.dead_after_ms;

    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            net_peer_t *peer = &node->peers[i];
            kvs_net_text_t text = {.n = 0};
            char seconds[32];

            net_inlink_forget(&peer->lanes[lane].in); /* a request to resend may be lost */
            if (!net_lane_look(&peer->lanes[lane], now, late, dead_after * NET_MS) || peer->gone) {
                continue;
            }
            kvs_net_text_add(
                &text,
                "%s has received nothing from %s for %s, though the scheduler still hears "
                "it: is the way from %s to %s open?",
                peer->label, node->peers[node->self].label, net_seconds(seconds, dead_after),
                node->address, peer->address);
            net_node_suspect(node, peer, text.bytes, 0);
        }
    }
}

static void beat(kvs_net_node_t *node, int64_t now)
{
    net_phase_t phase = net_node_phase(node);
    int64_t period = node->job->settings.heartbeat_ms * NET_MS;
    int64_t late = net_liveness_look(&node->liveness, now, period);

    node->next_beat = now + period;
    node->channel.heard += late;
    if (phase == NET_ENDED) {
        return;
    }
    if (!node->heard) {
        say_hello(node);
    }
    net_channel_beat(&node->channel);
    check_scheduler(node, now);
    if (phase == NET_READY) {
        check_lanes(node, now, late);
    }
}

/* Do what is due; gives when the next thing will be. */
static int64_t look_at_clock(kvs_net_node_t *node)
{
    int64_t now = net_now();
    int64_t next = net_earlier(net_node_send_acks(node, false), net_rings_look_at_clock(node));

    if (now >= node->next_beat) {
        beat(node, now);
    }
    if (net_node_phase(node) == NET_OPENING) {
        check_rendezvous(node, now);
        next = net_earlier(next, rendezvous_end(node));
    }
    if (node->tick != NULL && now >= node->next_tick) {
        node->next_tick = now + node->tick_ns;
        node->tick(node->tick_arg);
    }
    next = node->tick != NULL ? net_earlier(next, node->next_tick) : next;
    return net_earlier(next, node->next_beat);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

typedef struct leaving {
    bool begun, said;
    int64_t deadline; /* of the stage */
} leaving_t;

static size_t count_unreceived(kvs_net_node_t *node, const net_peer_t **ret_peer)
{
    size_t n = 0;

    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            if (!net_lane_is_empty(&node->peers[i].lanes[lane])) {
                *ret_peer = &node->peers[i];
                n++;
            }
        }
    }
    return n;
}

static void begin_leaving(kvs_net_node_t *node, leaving_t *leaving)
{
    leaving->begun = true;
    pthread_mutex_lock(&node->lock);
    leaving->deadline = node->close_deadline;
    pthread_mutex_unlock(&node->lock);
    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            net_lane_probe(&node->peers[i].lanes[lane]); /* not to wait for a lazy answer */
        }
    }
}

static void note_unreceived(kvs_net_node_t *node, const net_peer_t *peer)
{
    kvs_net_text_t text = {.n = 0};

    kvs_net_text_add(&text, "closed before %s had received everything", peer->label);
    node->close_status = KVS_ERR_TIMEOUT;
    node->close_text = strdup(text.bytes);
}

static void say_goodbye(kvs_net_node_t *node, leaving_t *leaving)
{
    net_wire_t wire = {.type = NET_LEAVE};
    int64_t patience = node->heard ? node->job->settings.dead_after_ms : 0;

    leaving->said = true;
    (void)net_node_send_acks(node, true); /* while others still listen to us */
    leaving->deadline = net_earlier(leaving->deadline, net_deadline(patience));
    if (leaving->deadline < net_deadline(GOODBYE_MS)) {
        leaving->deadline = net_deadline(GOODBYE_MS);
    }
    if (net_channel_send(&node->channel, &wire, NULL) != KVS_OK) {
        leaving->deadline = 0;
    }
}

/* One step further; true: nothing more is waited for. */
static bool leave(kvs_net_node_t *node, leaving_t *leaving)
{
    const net_peer_t *peer = NULL;
    size_t n;

    if (!leaving->begun) {
        begin_leaving(node, leaving);
    }
    if (!leaving->said) {
        n = count_unreceived(node, &peer);
        if (n > 0 && net_now() < leaving->deadline) {
            return false;
        }
        if (n > 0) {
            note_unreceived(node, peer);
        }
        say_goodbye(node, leaving);
    }
    return node->bye || node->is_orphan || net_now() >= leaving->deadline;
}

/* Give up what is left, and wait for ZeroMQ to give back what it was lent. */
static void close_everything(kvs_net_node_t *node)
{
    int64_t deadline = net_deadline(LET_GO_MS);

    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            net_lane_close(&node->peers[i].lanes[lane], KVS_ERR_CANCELLED,
                           "the node has been closed", LINGER_MS);
        }
    }
    net_socket_close(node->control, LINGER_MS);
    net_socket_close(node->listener, 0);
    node->control = node->listener = NULL;
    answer_wake(node);
    while (atomic_load_explicit(&node->n_records, memory_order_acquire) > 0 &&
           net_now() < deadline) {
        (void)net_wait(NULL, 0, &node->wake_fd, 1, net_poll_ms(deadline));
        answer_wake(node);
    }
    if (node->n_records > 0) {
        kvs_log(KVS_LOG_ERROR, "net", "ZeroMQ still reads %lld messages of a closed node",
                (long long)node->n_records);
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

static bool should_leave(kvs_net_node_t *node)
{
    bool closing;

    pthread_mutex_lock(&node->lock);
    closing = node->is_closing;
    pthread_mutex_unlock(&node->lock);
    return closing;
}

enum { WAKE, CONTROL, DOOR, LISTENER };

static void answer_door(kvs_net_node_t *node)
{
    net_door_address_t from;
    net_note_t note;
    int fd;

    while (net_door_receive(node->door, &note, &from, &fd)) {
        if (note.to == node->incarnation && note.kind == NET_NOTE_ASK) {
            net_segment_answer(node, &note, &from);
        } else if (note.to == node->incarnation && note.kind == NET_NOTE_RING) {
            net_rings_take_offer(node, &note, fd);
        } else if (note.to == node->incarnation && note.kind == NET_NOTE_REFUSE) {
            net_rings_take_refusal(node, &note);
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* Sleep until something is to be done, and do it. Peers' frames wait until we know who they are. ZeroMQ is
 * asked only where a descriptor says so, or where sending may have swallowed what it would have said. */
static void wait_and_receive(kvs_net_node_t *node, struct pollfd *items, bool *io_more,
                             int64_t next)
{
    bool knows_peers = node->peers != NULL;
    int timeout_ms = *io_more || node->control_used ? 0 : net_poll_ms(next);

    atomic_store_explicit(&node->is_awake, false, memory_order_seq_cst);
    if (!net_rings_fall_asleep(node) || node->is_rung) {
        timeout_ms = 0;
    }
    (void)poll(items, knows_peers ? 4 : 2, timeout_ms); /* an error is as if nothing had happened */
    net_rings_wake_up(node);
    atomic_store_explicit(&node->is_awake, true, memory_order_seq_cst);
    if (knows_peers && (*io_more || items[LISTENER].revents != 0)) {
        *io_more = net_node_receive_peers(node);
    }
    if (items[WAKE].revents != 0 || node->is_rung) {
        answer_wake(node);
    }
    if (knows_peers && items[DOOR].revents != 0) {
        answer_door(node);
    }
    if (node->control_used || items[CONTROL].revents != 0) {
        (void)net_rings_poll(node); /* what a peer said before it told the scheduler */
        net_node_receive_control(node);
    }
    if (!knows_peers && node->peers != NULL) {
        *io_more = true; /* some may have come before the list */
    }
}

static void serve(kvs_net_node_t *node)
{
    struct pollfd items[4] = {
        [WAKE] = {.fd = node->wake_fd, .events = POLLIN},
        [CONTROL] = {.fd = net_socket_fd(node->control), .events = POLLIN},
        [DOOR] = {.fd = node->door, .events = POLLIN}, /* -1: passed over */
        [LISTENER] = {.fd = net_socket_fd(node->listener), .events = POLLIN},
    };
    leaving_t leaving = {.begun = false};
    bool more = false;

    node->control_used = true;
    for (;;) {
        int64_t next;

        net_rings_spin(node);
        next = look_at_clock(node);
        if (should_leave(node)) {
            if (leave(node, &leaving)) {
                node->is_awake = false;
                return;
            }
            next = net_earlier(next, leaving.deadline);
        }
        wait_and_receive(node, items, &more, next);
    }
}

/* It never came to a connection: nothing to do but to be closed. */
static void serve_unconnected(kvs_net_node_t *node)
{
    while (!should_leave(node)) {
        (void)net_wait(NULL, 0, &node->wake_fd, 1, -1);
        answer_wake(node);
    }
}

void *net_node_thread(void *arg)
{
    kvs_net_node_t *node = arg;
    kvs_status_t status = join(node);

    if (status == KVS_OK) {
        serve(node);
    } else {
        net_node_end(node, status, net_last_error());
        serve_unconnected(node);
    }
    close_everything(node);
    return NULL;
}
