/* SPDX-License-Identifier: Apache-2.0 */
/* node_receive.c - what comes in: the scheduler's frames on the control connection, peers' on the
 * listener. A peer that sends nonsense is shut out, and nobody else is harmed. */
#include "node.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH           64   /* messages between acknowledgements */
#define LAZY_ACK_MS     20   /* for those nobody waits for */
#define CLOSE_LINGER_MS 2000 /* for a peer that is shut out to hear why */
#define MANY_UNACKED    1024 /* messages */
#define STRANGERS_NAMED 8    /* in the log, before only now and then */

/* ---- The list of members --------------------------------------------------------------------- */

static bool parse_connect(net_peer_t *peer)
{
    net_address_t parsed;

    return net_address_split(peer->address, peer->connect_host, &peer->connect_port) == KVS_OK &&
           net_address_parse(peer->connect_host, peer->connect_port, &parsed);
}

/* A node of this process is reached by name, without TCP. */
static void set_same_process(kvs_net_node_t *node, net_peer_t *peer, uint64_t process_id)
{
    peer->pub.same_process = process_id == node->job->process_id;
    peer->by_name = peer->pub.same_process != 0;
    if (peer->by_name) {
        snprintf(peer->connect_host, sizeof(peer->connect_host), "kvstore-%016llx",
                 (unsigned long long)peer->incarnation);
        peer->connect_port = -1;
    }
}

/* Hosts are numbered as they come in the list. */
static uint32_t number_host(const kvs_net_node_t *node, uint32_t place, uint64_t host_id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < place; i++) {
        if (node->peers[i].host_id == host_id) {
            return node->peers[i].pub.host_number;
        }
        n = node->peers[i].pub.host_number >= n ? node->peers[i].pub.host_number + 1 : n;
    }
    return n;
}

static kvs_status_t fill_peer(kvs_net_node_t *node, uint32_t place, const net_wire_member_t *member)
{
    net_peer_t *peer = &node->peers[place];

    peer->node = node;
    peer->incarnation = member->incarnation;
    peer->host_id = member->host_id;
    snprintf(peer->host, sizeof(peer->host), "%s", member->host);
    snprintf(peer->address, sizeof(peer->address), "%s", member->address);
    net_label(peer->label, member->role, member->rank, peer->host, member->pid);
    peer->pub = (kvs_net_peer_t){.role = member->role,
                                 .rank = member->rank,
                                 .local_rank = member->local_rank,
                                 .same_host = member->host_id == node->host_id,
                                 .is_self = place == node->self,
                                 .host_number = number_host(node, place, member->host_id),
                                 .pid = member->pid,
                                 .host = peer->host,
                                 .address = peer->address,
                                 .label = peer->label};
    if (!parse_connect(peer)) {
        return kvs_fail(KVS_ERR_FORMAT, "%s listens on '%s', which is no address in numbers",
                        peer->label, peer->address);
    }
    set_same_process(node, peer, member->process_id);
    peer->lanes = calloc((size_t)node->job->settings.n_lanes, sizeof(*peer->lanes));
    if (peer->lanes == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for connections to %s", peer->label);
    }
    for (int i = 0; i < node->job->settings.n_lanes; i++) {
        net_lane_init(&peer->lanes[i], peer, (uint32_t)i);
    }
    node->n_workers += member->role == KVS_NET_WORKER;
    node->n_servers += member->role == KVS_NET_SERVER;
    return KVS_OK;
}

/* Workers by rank, then servers by rank: peers are found by counting on that. */
static kvs_status_t check_order(const kvs_net_node_t *node)
{
    for (uint32_t i = 0; i < node->n_peers; i++) {
        const kvs_net_peer_t *peer = &node->peers[i].pub;
        bool worker = i < (uint32_t)node->n_workers;
        int rank = (int)i - (worker ? 0 : node->n_workers);

        if (peer->role != (worker ? KVS_NET_WORKER : KVS_NET_SERVER) || peer->rank != rank) {
            return kvs_fail(KVS_ERR_FORMAT, "the scheduler's list has %s at place %u", peer->label,
                            i);
        }
    }
    return KVS_OK;
}

static bool is_first_of_process(const kvs_net_node_t *node, uint32_t place)
{
    for (uint32_t i = 0; i < place; i++) {
        if (node->peers[i].pub.same_host && node->peers[i].pub.pid == node->peers[place].pub.pid) {
            return false;
        }
    }
    return true;
}

static size_t count_processes_here(const kvs_net_node_t *node)
{
    size_t n = 0;

    for (uint32_t i = 0; i < node->n_peers; i++) {
        n += node->peers[i].pub.same_host && is_first_of_process(node, i);
    }
    return n;
}

static void count_cores(kvs_net_node_t *node)
{
    cpu_set_t cores;

    node->is_crowded = sched_getaffinity(0, sizeof(cores), &cores) == 0 &&
                       count_processes_here(node) > (size_t)CPU_COUNT(&cores);
}

static kvs_status_t learn_peers(kvs_net_node_t *node, const net_welcome_t *welcome)
{
    net_wire_list_t list = welcome->members;
    net_wire_member_t member;
    kvs_status_t status = KVS_OK;

    node->token = welcome->token;
    node->self = welcome->self;
    node->peers = calloc(list.n, sizeof(*node->peers));
    if (node->peers == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %u members", list.n);
    }
    while (status == KVS_OK && net_wire_next_member(&list, &member)) {
        status = fill_peer(node, node->n_peers++, &member);
    }
    count_cores(node);
    return status == KVS_OK ? check_order(node) : status;
}

static void forget_peers(kvs_net_node_t *node)
{
    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; node->peers[i].lanes != NULL && lane < node->job->settings.n_lanes;
             lane++) {
            net_lane_release(&node->peers[i].lanes[lane]);
        }
        free(node->peers[i].lanes);
    }
    free(node->peers);
    node->peers = NULL;
    node->n_peers = 0;
}

static void take_welcome(kvs_net_node_t *node, const net_welcome_t *welcome)
{
    if (net_node_phase(node) != NET_OPENING) {
        return;
    }
    if (learn_peers(node, welcome) != KVS_OK) {
        forget_peers(node);
        net_node_end(node, KVS_ERR_FORMAT, net_last_error());
        return;
    }
    kvs_log(KVS_LOG_INFO, "net", "%s at %s joined job '%s' of %d workers and %d servers",
            node->peers[node->self].label, node->address, node->job->settings.job_id,
            node->n_workers, node->n_servers);
    pthread_mutex_lock(&node->lock);
    atomic_store_explicit(&node->joined, true, memory_order_release);
    atomic_store_explicit(&node->phase, NET_READY, memory_order_release);
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

/* ---- The scheduler --------------------------------------------------------------------------- */

static void take_status(kvs_net_node_t *node, const char *text)
{
    pthread_mutex_lock(&node->lock);
    snprintf(node->presence, sizeof(node->presence), "%s", text);
    pthread_mutex_unlock(&node->lock);
}

static void take_gone(kvs_net_node_t *node, const net_wire_t *wire)
{
    net_peer_t *peer = net_node_peer_at(node, wire->as.notice.member);
    bool left = wire->type == NET_LEFT;

    if (peer != NULL) {
        net_node_lose(node, peer, left ? KVS_NET_EVENT_LEFT : KVS_NET_EVENT_DEAD, KVS_ERR_PEER,
                      wire->as.notice.text, 0);
    }
}

static void take_error(kvs_net_node_t *node, const net_notice_t *notice)
{
    net_peer_t *peer = net_node_peer_at(node, notice->member);

    net_node_emit(node, &(kvs_net_event_t){.kind = KVS_NET_EVENT_ERROR,
                                           .status = notice->status,
                                           .peer = peer == NULL ? NULL : &peer->pub,
                                           .text = notice->text,
                                           .store = notice->store});
}

static void take_announce(kvs_net_node_t *node, const net_wire_store_t *store)
{
    kvs_net_fact_t facts[NET_WIRE_MAX_FACTS];
    net_wire_list_t list = store->facts;
    net_wire_t wire = {.type = NET_STORE_READY, .as.request = {.store = store->store}};
    uint32_t n = 0;

    while (n < NET_WIRE_MAX_FACTS && net_wire_next_fact(&list, &facts[n])) {
        n++;
    }
    net_node_emit(node, &(kvs_net_event_t){.kind = KVS_NET_EVENT_STORE_OPENED,
                                           .text = "",
                                           .store = store->store,
                                           .facts = facts,
                                           .n_facts = n});
    if (net_channel_send(&node->channel, &wire, NULL) != KVS_OK) {
        kvs_log(KVS_LOG_ERROR, "net", "store %u: %s", store->store, net_last_error());
    }
}

static void take_from_scheduler(kvs_net_node_t *node, const net_wire_t *wire)
{
    switch (wire->type) {
    case NET_WELCOME:
        take_welcome(node, &wire->as.welcome);
        break;
    case NET_STATUS:
        take_status(node, wire->as.notice.text);
        break;
    case NET_REFUSED:
    case NET_END:
        net_node_end(node, wire->as.notice.status, wire->as.notice.text);
        break;
    case NET_BYE:
        node->bye = true;
        break;
    case NET_LEFT:
    case NET_DEAD:
        take_gone(node, wire);
        break;
    case NET_ERROR:
        take_error(node, &wire->as.notice);
        break;
    case NET_STORE_ANNOUNCE:
        take_announce(node, &wire->as.store);
        break;
    case NET_STORE_CLOSED:
        net_node_emit(node, &(kvs_net_event_t){.kind = KVS_NET_EVENT_STORE_CLOSED,
                                               .text = "",
                                               .store = wire->as.request.store});
        break;
    case NET_ANSWER:
        net_node_take_answer(node, &wire->as.answer);
        break;
    default: /* beats; a scheduler of this version says nothing else */
        break;
    }
}

static void take_control(kvs_net_node_t *node, const void *bytes, size_t n)
{
    kvs_net_text_t text = {.n = 0};
    net_wire_t wire;
    bool deliver = false;
    kvs_status_t status = net_wire_decode(bytes, n, &wire);

    if (status == KVS_OK) {
        status = net_channel_receive(&node->channel, &wire, &deliver);
    }
    if (status != KVS_OK) {
        kvs_net_text_add(&text, "what listens at %s is no scheduler of ours: %s",
                         node->job->scheduler_address, net_last_error());
        net_node_end(node, KVS_ERR_PEER, text.bytes);
        return;
    }
    node->heard = true;
    atomic_store_explicit(&node->heard_at, node->channel.heard, memory_order_relaxed);
    if (deliver) {
        take_from_scheduler(node, &wire);
    }
}

void net_node_receive_control(kvs_net_node_t *node)
{
    net_frame_t frame;

    node->control_used = false;
    while (net_socket_receive(node->control, NULL, &frame, 1) == 1) {
        take_control(node, net_frame_data(&frame), net_frame_size(&frame));
        net_frame_release(&frame);
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

#define COPIED_MAX 4096 /* bytes of a body that is not worth being left in the ring */

/* What a user holds. Header, and a small body, are copied behind it; a large body stays in the frame, or
 * the ring, in which it came. */
typedef struct message {
    kvs_net_message_t pub; /* first */
    bool has_frame;
    net_frame_t frame;
    net_reader_t *reader; /* NULL: not in a ring */
    net_held_t held;
    _Alignas(16) unsigned char bytes[];
} message_t;

/* Memory of holds is that of their messages. */
static void release_held(message_t *message)
{
    net_reader_t *reader = message->reader;
    net_held_t *held = net_reader_release(reader, &message->held);

    while (held != NULL) {
        net_held_t *next = held->next;

        free((char *)held - offsetof(message_t, held));
        held = next;
    }
    net_reader_unref(reader);
}

void kvs_net_message_release(kvs_net_message_t *message)
{
    message_t *m = (message_t *)message;

    if (m != NULL && m->reader != NULL) {
        release_held(m);
        return;
    }
    if (m != NULL && m->has_frame) {
        net_frame_release(&m->frame);
    }
    free(m);
}

static size_t padded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* With a copy of header and, if `copied`, body. */
static message_t *new_message(net_lane_t *lane, const net_data_t *data, bool copied)
{
    size_t n_header = padded(data->n_header);
    message_t *m = malloc(sizeof(*m) + n_header + (copied ? data->n_body : 0));

    if (m == NULL) {
        return NULL;
    }
    m->has_frame = false;
    m->reader = NULL;
    m->pub = (kvs_net_message_t){.from = &lane->peer->pub,
                                 .store = data->store,
                                 .lane = lane->index,
                                 .header = m->bytes,
                                 .n_header_bytes = data->n_header,
                                 .body = copied ? m->bytes + n_header : data->body,
                                 .n_body_bytes = data->n_body};
    memcpy(m->bytes, data->header, data->n_header);
    if (copied && data->n_body > 0) {
        memcpy(m->bytes + n_header, data->body, data->n_body);
    }
    return m;
}

static message_t *message_of_frames(net_lane_t *lane, const net_data_t *data, net_frame_t *frames)
{
    bool has_frame = data->n_inline == 0 && data->n_body > 0;
    message_t *m = new_message(lane, data, !has_frame);

    if (m != NULL && has_frame) {
        m->has_frame = true;
        net_frame_move(&m->frame, &frames[1]);
        m->pub.body = net_frame_data(&m->frame);
    }
    return m;
}

/* Takes it from the ring too, whatever comes of it. */
static message_t *message_of_entry(net_lane_t *lane, const net_data_t *data,
                                   const net_entry_t *entry)
{
    bool stays = data->n_body > COPIED_MAX && net_reader_may_hold(lane->reader, entry);
    message_t *m = new_message(lane, data, !stays);

    if (m != NULL && stays) {
        m->reader = net_reader_ref(lane->reader);
    }
    net_reader_take(lane->reader, entry, m != NULL && stays ? &m->held : NULL);
    return m;
}

static void count(kvs_net_node_t *node, int path, const net_data_t *data)
{
    uint64_t n = atomic_load_explicit(&node->n_received[path], memory_order_relaxed);
    uint64_t n_bytes = atomic_load_explicit(&node->n_received_bytes[path], memory_order_relaxed);

    atomic_store_explicit(&node->n_received[path], n + 1, memory_order_relaxed);
    atomic_store_explicit(&node->n_received_bytes[path], n_bytes + data->n_header + data->n_body,
                          memory_order_relaxed);
}

/* Of a store that was closed nobody wants anything. */
static bool is_wanted(kvs_net_node_t *node, uint32_t number, kvs_net_store_t **ret_store)
{
    *ret_store = number == 0 ? NULL : net_node_find_store(node, number);
    return *ret_store != NULL || number == 0 || node->args.role == KVS_NET_SERVER;
}

static void deliver(kvs_net_node_t *node, net_lane_t *lane, kvs_net_store_t *store, message_t *m)
{
    if (m == NULL) {
        kvs_log(KVS_LOG_ERROR, "net", "no memory for a message from %s", lane->peer->label);
    } else if (store != NULL) {
        store->message(store->arg, &m->pub);
    } else if (node->args.message != NULL) {
        node->args.message(node->args.arg, &m->pub);
    } else {
        kvs_net_message_release(&m->pub);
    }
}

/* ---- Acknowledgements ------------------------------------------------------------------------ */

static void owe(kvs_net_node_t *node, net_lane_t *lane, bool now)
{
    if (!lane->is_queued) {
        lane->is_queued = true;
        lane->ack_due = net_now() + LAZY_ACK_MS * NET_MS;
        lane->next_ack = node->acks;
        node->acks = lane;
    }
    lane->ack_now |= now;
}

static void owe_for(kvs_net_node_t *node, net_lane_t *lane, bool now, size_t n_bytes)
{
    const kvs_net_settings_t *settings = &node->job->settings;

    lane->n_unacked_bytes += n_bytes;
    lane->n_unacked++;
    owe(node, lane,
        now || lane->n_unacked >= MANY_UNACKED ||
            lane->n_unacked_bytes >= settings->window_bytes / (uint64_t)settings->n_lanes / 4);
}

static void settle_ack(net_lane_t *lane)
{
    lane->is_queued = lane->ack_now = false;
    lane->n_unacked_bytes = lane->n_unacked = 0;
}

/* A sender whose messages come by memory sees what has been received; it may have to be woken. */
static void acknowledge(net_lane_t *lane)
{
    if (lane->reader != NULL) {
        net_reader_tell(lane->reader, net_inlink_tell(&lane->in));
        net_reader_wake_writer(lane->reader, true);
    } else {
        net_lane_post_ack(lane, false);
    }
}

int64_t net_node_send_acks(kvs_net_node_t *node, bool all)
{
    net_lane_t **at = &node->acks;
    int64_t now = *at == NULL ? 0 : net_now(), next = NET_NEVER;

    while (*at != NULL) {
        net_lane_t *lane = *at;
        bool owes = net_inlink_owes(&lane->in); /* else an answer has carried it along */

        if (owes && !all && !lane->ack_now && now < lane->ack_due) {
            next = net_earlier(next, lane->ack_due);
            at = &lane->next_ack;
            continue;
        }
        *at = lane->next_ack;
        settle_ack(lane);
        if (owes) {
            acknowledge(lane);
        }
    }
    return next;
}

/* ---- Peers ----------------------------------------------------------------------------------- */

void net_node_shut_out(kvs_net_node_t *node, net_lane_t *lane)
{
    kvs_net_text_t text = {.n = 0};

    kvs_net_text_add(&text, "%s has shut out %s, as it sent nonsense: %s",
                     node->peers[node->self].label, lane->peer->label, net_last_error());
    lane->shut = true;
    net_lane_post_close(lane, text.bytes);
    net_node_suspect(node, lane->peer, text.bytes, CLOSE_LINGER_MS);
}

/* Whoever has not said, or can't say, whose connection it is. */
static void pass_over(kvs_net_node_t *node, const char *why)
{
    node->n_strangers++;
    if (node->n_strangers <= STRANGERS_NAMED || node->n_strangers % 65536 == 0) {
        kvs_log(KVS_LOG_WARN, "net", "%s at %s passes over a stranger: %s",
                node->peers[node->self].label, node->address, why);
    }
}

net_peer_t *net_node_find_peer(kvs_net_node_t *node, uint64_t incarnation)
{
    for (uint32_t i = 0; i < node->n_peers; i++) {
        if (node->peers[i].incarnation == incarnation) {
            return &node->peers[i];
        }
    }
    return NULL;
}

/* Does the hello of a lane fit this job and node? */
static net_lane_t *find_lane(kvs_net_node_t *node, const net_lane_hello_t *hello)
{
    net_peer_t *peer = net_node_find_peer(node, hello->from);

    if (hello->token != node->token || hello->to != node->incarnation || peer == NULL ||
        hello->lane >= (uint32_t)node->job->settings.n_lanes) {
        return NULL;
    }
    return &peer->lanes[hello->lane];
}

static void take_lane(kvs_net_node_t *node, const net_wire_t *wire)
{
    net_lane_t *lane = find_lane(node, &wire->as.lane);

    if (lane == NULL) {
        pass_over(node, "it belongs to another job, or to one that is over");
        return;
    }
    if (wire->link == 0 || (lane->their_link != 0 && lane->their_link != wire->link)) {
        pass_over(node, "it claims a connection that another one has");
        return;
    }
    if (lane->their_link == 0 && net_idmap_put(&node->inbound, wire->link, lane) != KVS_OK) {
        pass_over(node, net_last_error());
        return;
    }
    lane->their_link = wire->link;
    (void)net_lane_acknowledged(lane, wire->ack, false);
    net_rings_drain(node, lane, wire->as.lane.last);
    if (wire->as.lane.last > net_inlink_received(&lane->in) && net_inlink_ask(&lane->in)) {
        net_lane_post_ack(lane, true);
    } else if ((wire->flags & NET_ACK_NOW) != 0) {
        net_lane_post_ack(lane, false);
    }
}

static kvs_status_t check_frames(const net_data_t *data, net_frame_t *frames, size_t n)
{
    size_t want = data->n_inline == 0 && data->n_body > 0 ? 2 : 1;

    if (n != want || (n == 2 && net_frame_size(&frames[1]) != data->n_body)) {
        return kvs_fail(KVS_ERR_FORMAT,
                        "a DATA with a body of %llu bytes came in %zu frames, the "
                        "second of %zu bytes",
                        (unsigned long long)data->n_body, n,
                        n < 2 ? 0 : net_frame_size(&frames[1]));
    }
    return KVS_OK;
}

static kvs_status_t take_data(kvs_net_node_t *node, net_lane_t *lane, const net_wire_t *wire,
                              net_frame_t *frames, size_t n)
{
    const net_data_t *data = &wire->as.data;
    kvs_status_t status = check_frames(data, frames, n);
    kvs_net_store_t *store;

    if (status != KVS_OK) {
        return status;
    }
    net_rings_drain(node, lane, wire->seq - 1); /* what was sent before it may lie there */
    switch (net_inlink_judge(&lane->in, wire->seq)) {
    case NET_TAKE:
        owe_for(node, lane, (wire->flags & NET_ACK_NOW) != 0,
                NET_WIRE_DATA_BYTES + data->n_header + data->n_body);
        count(node, net_peer_path(lane->peer), data);
        if (is_wanted(node, data->store, &store)) {
            deliver(node, lane, store, message_of_frames(lane, data, frames));
        }
        return KVS_OK;
    case NET_GAP:
        if (net_inlink_ask(&lane->in)) {
            net_lane_post_ack(lane, true);
        }
        return KVS_OK;
    case NET_DROP:
        owe(node, lane, true);
        return KVS_OK;
    default:
        return kvs_fail(KVS_ERR_FORMAT, "a DATA with number %llu came a second time",
                        (unsigned long long)wire->seq);
    }
}

/* Copied before it is delivered, but for a large body. */
void net_node_take_entry(kvs_net_node_t *node, net_lane_t *lane, const net_entry_t *entry,
                         const uint8_t *header, const uint8_t *body)
{
    net_data_t data = {.store = entry->store,
                       .n_header = entry->n_header,
                       .n_body = entry->n_body,
                       .header = header,
                       .body = body};
    kvs_net_store_t *store;

    (void)net_inlink_judge(&lane->in, entry->seq);
    net_reader_tell(lane->reader, entry->seq);
    if ((entry->flags & NET_ENTRY_WANTS_ACK) != 0) {
        owe_for(node, lane, (entry->flags & NET_ACK_NOW) != 0, entry->n_total);
    }
    count(node, KVS_NET_PATH_SHM, &data);
    if (is_wanted(node, entry->store, &store)) {
        deliver(node, lane, store, message_of_entry(lane, &data, entry));
    } else {
        net_reader_take(lane->reader, entry, NULL);
    }
}

static kvs_status_t take_ack(net_lane_t *lane, const net_wire_t *wire)
{
    const kvs_net_node_t *node = lane->peer->node;

    if (wire->as.ack.lane >= (uint32_t)node->job->settings.n_lanes ||
        !net_lane_acknowledged(&lane->peer->lanes[wire->as.ack.lane], wire->ack,
                               (wire->flags & NET_RESEND) != 0)) {
        return kvs_fail(KVS_ERR_FORMAT, "an acknowledgement of number %llu, which was never sent",
                        (unsigned long long)wire->ack);
    }
    return KVS_OK;
}

static kvs_status_t take_from_lane(kvs_net_node_t *node, net_lane_t *lane, const net_wire_t *wire,
                                   net_frame_t *frames, size_t n)
{
    switch (wire->type) {
    case NET_DATA:
        if (!net_lane_acknowledged(lane, wire->ack, false)) {
            return kvs_fail(KVS_ERR_FORMAT, "a DATA acknowledges number %llu, which was never sent",
                            (unsigned long long)wire->ack);
        }
        return take_data(node, lane, wire, frames, n);
    case NET_ACK:
        return take_ack(lane, wire);
    case NET_CLOSE:
        net_node_lose(node, lane->peer, KVS_NET_EVENT_DEAD, KVS_ERR_PEER, wire->as.notice.text, 0);
        return KVS_OK;
    default:
        return kvs_fail(KVS_ERR_FORMAT, "a %s between nodes", net_wire_name(wire->type));
    }
}

/* Of what is too broken to say whose it is, the connection does. */
static net_lane_t *find_by_route(kvs_net_node_t *node, const net_route_t *route)
{
    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            if (memcmp(&node->peers[i].lanes[lane].route, route, sizeof(*route)) == 0) {
                return &node->peers[i].lanes[lane];
            }
        }
    }
    return NULL;
}

static void take_unread(kvs_net_node_t *node, const net_route_t *route, const net_wire_t *wire)
{
    net_lane_t *lane = net_idmap_find(&node->inbound, wire->link);

    lane = lane == NULL ? find_by_route(node, route) : lane;
    if (lane == NULL) {
        pass_over(node, net_last_error());
    } else if (!lane->shut && !lane->peer->gone) {
        net_node_shut_out(node, lane);
    }
}

static void take_message(kvs_net_node_t *node, const net_route_t *route, net_frame_t *frames,
                         size_t n)
{
    net_lane_t *lane;
    net_wire_t wire;

    if (net_wire_decode(net_frame_data(&frames[0]), net_frame_size(&frames[0]), &wire) != KVS_OK) {
        take_unread(node, route, &wire);
        return;
    }
    if (wire.type == NET_LANE) {
        take_lane(node, &wire);
    }
    lane = net_idmap_find(&node->inbound, wire.link);
    if (lane == NULL) {
        if (wire.type != NET_LANE) {
            pass_over(node, "it has not said who it is");
        }
        return;
    }
    lane->route = *route;
    if (wire.type != NET_LANE && !lane->shut && !lane->peer->gone &&
        take_from_lane(node, lane, &wire, frames, n) != KVS_OK) {
        net_node_shut_out(node, lane);
    }
}

bool net_node_receive_peers(kvs_net_node_t *node)
{
    net_frame_t frames[2];
    net_route_t route;

    for (int i = 0; i < BATCH; i++) {
        size_t n = net_socket_receive(node->listener, &route, frames, 2);

        if (n == 0) {
            return false;
        }
        take_message(node, &route, frames, n);
        while (n > 0) {
            net_frame_release(&frames[--n]);
        }
    }
    return true;
}
