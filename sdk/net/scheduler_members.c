/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_members.c - keeps the groups' lists by the frames that come, and tells the members.
 *
 * Whoever is refused is answered on the connection it came by, since its own address may be wrong. A member
 * is alive while anything comes from it. */
#include "scheduler_members.h"

#include "clock.h"
#include "storebook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Talking --------------------------------------------------------------------------------- */

static void transmit_to(net_scheduler_t *s, const net_route_t *route, const void *bytes, size_t n)
{
    net_frame_t frame;

    if (net_frame_copy(&frame, bytes, n)) {
        (void)net_socket_send(s->socket, route, &frame, 1); /* lost ones are sent again */
    }
}

static void transmit(void *arg, const void *bytes, size_t n)
{
    net_member_t *member = arg;

    transmit_to(member->group->owner, &member->route, bytes, n);
}

static void send_to(void *arg, net_member_t *to, const net_wire_t *wire,
                    const net_wire_lists_t *lists)
{
    (void)arg;
    if (net_channel_send(&to->channel, wire, lists) != KVS_OK) {
        kvs_log(KVS_LOG_ERROR, "net", "%s is not told: %s", to->label, net_last_error());
    }
}

static net_wire_t notice(unsigned type, uint32_t place, kvs_status_t status, const char *text)
{
    return (net_wire_t){.type = (uint16_t)type,
                        .as.notice = {.member = place, .status = status, .text = text}};
}

static void broadcast(net_group_t *group, const net_wire_t *wire, const net_member_t *except)
{
    for (size_t i = 0; i < group->n_members; i++) {
        net_member_t *member = group->members[i];

        if (member->state == NET_PRESENT && member != except) {
            send_to(NULL, member, wire, NULL);
        }
    }
}

/* Answer somebody who is no member. */
static void answer_stranger(net_scheduler_t *s, const net_route_t *route, const net_wire_t *wire)
{
    size_t n = net_wire_size(wire, NULL);
    void *bytes = malloc(n);

    if (bytes != NULL) {
        net_wire_encode(wire, NULL, bytes);
        transmit_to(s, route, bytes, n);
        free(bytes);
    }
}

static void refuse(net_scheduler_t *s, const net_route_t *route, kvs_status_t status,
                   const char *text)
{
    net_wire_t wire = notice(NET_REFUSED, 0, status, text);

    answer_stranger(s, route, &wire);
}

static void post_status(net_member_t *member)
{
    kvs_net_text_t text = {.n = 0};
    net_wire_t wire;

    net_group_missing(member->group, &text);
    wire = notice(NET_STATUS, 0, KVS_OK, text.bytes);
    net_channel_post(&member->channel, &wire, NULL);
}

/* ---- The end of a group ---------------------------------------------------------------------- */

/* Whoever is left needs not say goodbye: nobody may be there to hear it. */
static void dismiss(net_group_t *group)
{
    broadcast(group, &(net_wire_t){.type = NET_BYE}, NULL);
}

static void end_group(net_scheduler_t *s, net_group_t *group)
{
    net_wire_t wire =
        notice(NET_END, 0, group->failure, group->failure_text == NULL ? "" : group->failure_text);

    group->ended = true;
    group->deadline = net_deadline(s->settings.dead_after_ms);
    broadcast(group, &wire, NULL);
    if (!group->settled) { /* whoever is missing is told when it comes, if it may still */
        dismiss(group);
        group->n_told += group->n_members;
        group->deadline = group->failure == KVS_ERR_TIMEOUT ? 0 : group->deadline;
    }
}

static void fail_group(net_scheduler_t *s, net_group_t *group, kvs_status_t status,
                       const char *text)
{
    kvs_log(KVS_LOG_WARN, "net", "group '%s' of job '%s' fails: %s", group->name,
            s->settings.job_id, text);
    net_group_fail(group, status, text);
    end_group(s, group);
}

static void end_if_over(net_scheduler_t *s, net_group_t *group)
{
    if (group->settled && !group->ended &&
        net_group_count(group, KVS_NET_WORKER, NET_PRESENT) == 0) {
        end_group(s, group);
    }
}

/* ---- The end of the job ---------------------------------------------------------------------- */

static bool is_done(const net_group_t *group, int64_t now)
{
    if (!group->ended || now >= group->deadline) {
        return group->ended;
    }
    return group->settled ? net_group_count(group, KVS_NET_WORKER, NET_PRESENT) == 0 &&
                                net_group_count(group, KVS_NET_SERVER, NET_PRESENT) == 0
                          : group->n_servers >= 0 &&
                                group->n_told >= (size_t)(group->n_workers + group->n_servers);
}

/* Write down whether the job is over, and how it ended. */
static void set_over(net_scheduler_t *s, bool over, bool running, kvs_status_t result,
                     const char *text)
{
    pthread_mutex_lock(&s->lock);
    s->over = over;
    s->running = running;
    if (over && s->result == KVS_OK && result != KVS_OK) {
        s->result = result;
        s->result_text = strdup(text == NULL ? "the job failed" : text);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void nobody_came(net_scheduler_t *s)
{
    net_group_t *none = net_group_new("", s->settings.n_workers, s->settings.n_servers, "");
    kvs_net_text_t text = {.n = 0};
    char seconds[32];

    kvs_net_text_add(&text, "after %s only ", net_seconds(seconds, s->settings.rendezvous_ms));
    if (none != NULL) {
        net_group_missing(none, &text);
    }
    net_group_free(none);
    set_over(s, true, false, KVS_ERR_TIMEOUT, text.bytes);
}

static void check_over(net_scheduler_t *s, int64_t now)
{
    bool over = s->groups != NULL, running = false;
    kvs_status_t result = KVS_OK;
    const char *text = NULL;

    for (net_group_t *group = s->groups; group != NULL; group = group->next) {
        over = over && is_done(group, now);
        running = running || (group->settled && !is_done(group, now));
        if (group->failure != KVS_OK) {
            result = group->failure;
            text = group->failure_text;
        }
    }
    if (s->groups == NULL && now >= s->deadline) {
        nobody_came(s);
    } else if (over != s->over || running != s->running) { /* only this thread writes them */
        set_over(s, over, running, result, text);
    }
}

/* ---- Coming ---------------------------------------------------------------------------------- */

static net_group_t *find_group(net_scheduler_t *s, const char *name)
{
    net_group_t *group = s->groups;

    while (group != NULL && strcmp(group->name, name) != 0) {
        group = group->next;
    }
    return group;
}

/* The scheduler's own counts where it was given any; a group may do without servers. */
static net_group_t *new_group(net_scheduler_t *s, const net_hello_t *hello, const char *label)
{
    bool mine = s->settings.role == KVS_NET_SCHEDULER;
    bool embedded = (s->settings.embed & KVS_NET_EMBED_SERVERS) != 0;
    int n_servers = !mine || hello->n_servers == 0 ? hello->n_servers
                    : embedded                     ? -1
                                                   : s->settings.n_servers;
    net_group_t *group =
        net_group_new(hello->group, mine ? s->settings.n_workers : hello->n_workers, n_servers,
                      mine ? s->label : label);
    net_storebook_t *book = calloc(1, sizeof(*book));

    if (group == NULL || book == NULL) {
        net_group_free(group);
        free(book);
        return NULL;
    }
    *book = (net_storebook_t){.group = group, .say = send_to};
    group->book = book;
    group->owner = s;
    group->deadline = net_deadline(s->settings.rendezvous_ms);
    group->next = s->groups;
    s->groups = group;
    return group;
}

static void free_group(net_group_t *group)
{
    net_storebook_release(group->book);
    free(group->book);
    net_group_free(group);
}

static void welcome_all(net_scheduler_t *s, net_group_t *group)
{
    net_wire_member_t *list = calloc(group->n_members, sizeof(*list));
    net_wire_lists_t lists = {.members = list, .n_members = group->n_members};

    for (size_t i = 0; list != NULL && i < group->n_members; i++) {
        const net_member_t *member = group->members[i];

        list[i] = (net_wire_member_t){.role = member->role,
                                      .rank = member->rank,
                                      .local_rank = member->local_rank,
                                      .pid = member->pid,
                                      .incarnation = member->incarnation,
                                      .host_id = member->host_id,
                                      .process_id = member->process_id,
                                      .host = member->host,
                                      .address = member->address};
    }
    for (size_t i = 0; list != NULL && i < group->n_members; i++) {
        net_wire_t wire = {.type = NET_WELCOME,
                           .as.welcome = {.epoch = 1, .token = s->token, .self = (uint32_t)i}};

        send_to(NULL, group->members[i], &wire, &lists);
    }
    if (list == NULL) {
        fail_group(s, group, KVS_ERR_NO_MEMORY, "the scheduler has no memory for the list");
    }
    free(list);
}

static void settle_if_complete(net_scheduler_t *s, net_group_t *group)
{
    if (!net_group_is_complete(group)) {
        return;
    }
    if (net_group_settle(group) != KVS_OK) {
        fail_group(s, group, KVS_ERR_PEER, net_last_error());
        return;
    }
    check_over(s, net_now());
    kvs_log(KVS_LOG_INFO, "net", "group '%s' of job '%s' is complete: %d workers, %d servers",
            group->name, s->settings.job_id, group->n_workers, group->n_servers);
    welcome_all(s, group);
}

static void let_in(net_scheduler_t *s, net_member_t *member)
{
    if (net_idmap_put(&s->members, member->link, member) != KVS_OK) {
        refuse(s, &member->route, KVS_ERR_NO_MEMORY, net_last_error());
        net_group_remove(member->group, member);
        return;
    }
    member->channel.transmit = transmit;
    member->channel.arg = member;
    member->channel.heard = net_now();
    kvs_log(KVS_LOG_DEBUG, "net", "%s of group '%s' is there, at %s", member->label,
            member->group->name, member->address);
    post_status(member);
    settle_if_complete(s, member->group);
}

static kvs_status_t check_door(const net_scheduler_t *s, const net_hello_t *hello,
                               const char *label)
{
    if (strcmp(hello->job_id, s->settings.job_id) != 0) {
        return kvs_fail(KVS_ERR_PEER,
                        "%s belongs to job '%s', but the scheduler at %s to job '%s': give each "
                        "job an address and an id of its own",
                        label, hello->job_id, s->address, s->settings.job_id);
    }
    if ((hello->role != KVS_NET_WORKER && hello->role != KVS_NET_SERVER) ||
        hello->rank >= NET_WIRE_MAX_MEMBERS || hello->n_workers < 1) {
        return kvs_fail(KVS_ERR_PEER, "%s has no role, rank or number of workers that can be",
                        label);
    }
    return KVS_OK;
}

static void take_hello(net_scheduler_t *s, const net_route_t *route, uint64_t link,
                       const net_hello_t *hello)
{
    char label[NET_LABEL_MAX];
    net_group_t *group;
    net_member_t *member;
    bool fails_all = false;
    kvs_status_t status;

    net_label(label, hello->role, hello->rank, hello->host, hello->pid);
    status = check_door(s, hello, label);
    if (status != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "net", "refused: %s", net_last_error());
        refuse(s, route, status, net_last_error());
        return;
    }
    group = find_group(s, hello->group);
    group = group == NULL ? new_group(s, hello, label) : group;
    if (group == NULL) {
        refuse(s, route, KVS_ERR_NO_MEMORY, "the scheduler has no memory for another group");
        return;
    }
    status = net_group_admit(group, hello, link, &member, &fails_all);
    if (status != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "net", "refused: %s", net_last_error());
        refuse(s, route, status, net_last_error());
        group->n_told += fails_all || group->ended;
        if (fails_all) {
            fail_group(s, group, status, net_last_error());
        }
        return;
    }
    member->route = *route;
    let_in(s, member);
}

/* A hello of another version: its door is read, so both sides hear who it was. */
static void take_foreign(net_scheduler_t *s, const net_route_t *route, const net_wire_t *wire)
{
    const net_hello_t *hello = &wire->as.hello;
    char label[NET_LABEL_MAX];
    kvs_net_text_t text = {.n = 0};

    if (wire->type != NET_HELLO) {
        return;
    }
    net_label(label, hello->role, hello->rank, hello->host, hello->pid);
    kvs_net_text_add(&text, "protocol version differs: %s speaks %u, %s %d", label,
                     (unsigned)wire->version, s->label, NET_WIRE_VERSION);
    kvs_log(KVS_LOG_WARN, "net", "refused: %s", text.bytes);
    refuse(s, route, KVS_ERR_PEER, text.bytes);
    for (net_group_t *group = s->groups; group != NULL; group = group->next) {
        if (!group->settled && !group->ended && strcmp(hello->job_id, s->settings.job_id) == 0) {
            fail_group(s, group, KVS_ERR_PEER, text.bytes);
        }
    }
}

/* ---- Going ----------------------------------------------------------------------------------- */

static void drop_unsettled(net_scheduler_t *s, net_member_t *member)
{
    net_idmap_remove(&s->members, member->link);
    net_group_remove(member->group, member);
}

static void gone(net_scheduler_t *s, net_member_t *member, net_state_t state, kvs_status_t status,
                 const char *text)
{
    net_group_t *group = member->group;
    net_wire_t wire =
        notice(state == NET_GONE_LEFT ? NET_LEFT : NET_DEAD, member->place, status, text);

    member->state = state;
    if (state == NET_GONE_DEAD && !net_group_spares(group, member)) {
        net_group_fail(group, KVS_ERR_PEER, text);
    }
    broadcast(group, &wire, member);
    net_storebook_gone(group->book, member);
    end_if_over(s, group);
}

static void take_leave(net_scheduler_t *s, net_member_t *member)
{
    net_wire_t wire = {.type = NET_BYE};
    kvs_net_text_t text = {.n = 0};

    kvs_log(KVS_LOG_DEBUG, "net", "%s leaves", member->label);
    net_channel_post(&member->channel, &wire, NULL);
    if (!member->group->settled) {
        drop_unsettled(s, member);
        return;
    }
    kvs_net_text_add(&text, "%s has left the job", member->label);
    gone(s, member, NET_GONE_LEFT, KVS_ERR_PEER, text.bytes);
}

static void bury(net_scheduler_t *s, net_member_t *member, const char *text)
{
    net_wire_t wire = notice(NET_END, 0, KVS_ERR_PEER, text);

    kvs_log(KVS_LOG_WARN, "net", "job '%s': %s", s->settings.job_id, text);
    net_channel_post(&member->channel, &wire, NULL); /* it may hear it yet */
    if (!member->group->settled) {
        drop_unsettled(s, member);
        return;
    }
    gone(s, member, NET_GONE_DEAD, KVS_ERR_PEER, text);
}

/* ---- Frames of members ----------------------------------------------------------------------- */

static void take_tell(net_member_t *member, const net_wire_t *wire)
{
    net_wire_t error =
        notice(NET_ERROR, member->place, wire->as.notice.status, wire->as.notice.text);

    error.as.notice.store = wire->as.notice.store;
    broadcast(member->group, &error, NULL);
}

static void take_suspect(net_scheduler_t *s, net_member_t *member, const net_wire_t *wire)
{
    net_wire_t error = notice(NET_ERROR, member->place, KVS_ERR_PEER, wire->as.notice.text);

    kvs_log(KVS_LOG_WARN, "net", "job '%s': %s", s->settings.job_id, wire->as.notice.text);
    broadcast(member->group, &error, NULL);
}

static void take_query(net_member_t *member, const net_request_t *request)
{
    int64_t since = net_now() - request->timeout_ms * NET_MS;
    net_wire_t wire = {.type = NET_ANSWER,
                       .as.answer = {.type = NET_QUERY, .number = request->number, .text = ""}};

    for (size_t i = 0; i < member->group->n_members; i++) {
        const net_member_t *other = member->group->members[i];

        if (((uint32_t)other->role & request->mask) != 0 &&
            (other->state == NET_GONE_DEAD ||
             (other->state == NET_PRESENT && other->channel.heard < since))) {
            wire.as.answer.value++;
        }
    }
    send_to(NULL, member, &wire, NULL);
}

static void take_beat(net_member_t *member)
{
    net_channel_beat(&member->channel);
    if (!member->group->settled) {
        post_status(member);
    }
}

static kvs_status_t take_settled(net_scheduler_t *s, net_member_t *member, const net_wire_t *wire)
{
    switch (wire->type) {
    case NET_TELL:
        take_tell(member, wire);
        return KVS_OK;
    case NET_SUSPECT:
        take_suspect(s, member, wire);
        return KVS_OK;
    case NET_QUERY:
        take_query(member, &wire->as.request);
        return KVS_OK;
    default:
        return net_storebook_take(member->group->book, member, wire);
    }
}

static kvs_status_t take_from(net_scheduler_t *s, net_member_t *member, const net_wire_t *wire)
{
    switch (wire->type) {
    case NET_HELLO:
        post_status(member); /* said again, as our answer was slow or lost */
        return KVS_OK;
    case NET_BEAT:
        take_beat(member);
        return KVS_OK;
    case NET_LEAVE:
        take_leave(s, member);
        return KVS_OK;
    default:
        return member->group->settled
                   ? take_settled(s, member, wire)
                   : kvs_fail(KVS_ERR_FORMAT, "%s sent a %s before the job is complete",
                              member->label, net_wire_name(wire->type));
    }
}

/* A frame that can't be: its sender is closed, and nobody else is harmed. */
static void malformed(net_scheduler_t *s, const net_route_t *route, net_member_t *member)
{
    kvs_net_text_t text = {.n = 0};

    if (member == NULL) {
        kvs_log(KVS_LOG_WARN, "net", "a stranger at %s is passed over: %s", s->address,
                net_last_error());
        refuse(s, route, KVS_ERR_FORMAT, net_last_error());
        return;
    }
    kvs_net_text_add(&text, "%s is shut out, as it sent nonsense: %s", member->label,
                     net_last_error());
    bury(s, member, text.bytes);
}

static void take_known(net_scheduler_t *s, net_member_t *member, const net_wire_t *wire)
{
    net_wire_t end = notice(NET_END, 0, KVS_ERR_PEER, "this node is no longer in the job");
    bool deliver;

    if (member->state == NET_GONE_DEAD && wire->type == NET_LEAVE) {
        net_channel_post(&member->channel, &(net_wire_t){.type = NET_BYE}, NULL);
    } else if (member->state == NET_GONE_DEAD) {
        net_channel_post(&member->channel, &end, NULL);
    } else if (net_channel_receive(&member->channel, wire, &deliver) != KVS_OK ||
               (deliver && take_from(s, member, wire) != KVS_OK)) {
        malformed(s, &member->route, member);
    }
}

/* Of what is too broken to say whose it is, the connection does. */
static net_member_t *find_by_route(const net_scheduler_t *s, const net_route_t *route)
{
    for (net_group_t *group = s->groups; group != NULL; group = group->next) {
        for (size_t i = 0; i < group->n_members; i++) {
            if (memcmp(&group->members[i]->route, route, sizeof(*route)) == 0) {
                return group->members[i];
            }
        }
    }
    return NULL;
}

static void take_unread(net_scheduler_t *s, const net_route_t *route, const net_wire_t *wire,
                        kvs_status_t status)
{
    net_member_t *member = net_idmap_find(&s->members, wire->link);

    member = member == NULL ? find_by_route(s, route) : member;
    if (status == KVS_ERR_NOT_IMPLEMENTED && member == NULL) {
        take_foreign(s, route, wire);
    } else if (member == NULL || member->state == NET_PRESENT) {
        malformed(s, route, member);
    }
}

void net_members_take(net_scheduler_t *s, const net_route_t *route, const void *bytes, size_t n)
{
    net_member_t *member;
    net_wire_t wire;
    kvs_status_t status = net_wire_decode(bytes, n, &wire);

    if (status != KVS_OK) {
        take_unread(s, route, &wire, status);
        return;
    }
    member = net_idmap_find(&s->members, wire.link);
    if (member != NULL) {
        member->route = *route;
        take_known(s, member, &wire);
    } else if (wire.type == NET_HELLO) {
        take_hello(s, route, wire.link, &wire.as.hello);
    } else if (wire.type == NET_LEAVE) {
        answer_stranger(s, route, &(net_wire_t){.type = NET_BYE});
    } else {
        refuse(s, route, KVS_ERR_PEER, "the scheduler does not know this node, or no longer");
    }
}

/* ---- The clock ------------------------------------------------------------------------------- */

static void look_for_silent(net_scheduler_t *s, net_group_t *group, int64_t now, int64_t late)
{
    for (size_t i = group->n_members; i-- > 0;) { /* backwards: burying may remove */
        net_member_t *member = group->members[i];

        member->channel.heard += late;
        if (member->state == NET_PRESENT &&
            net_is_silent(member->channel.heard, now, s->settings.dead_after_ms * NET_MS)) {
            kvs_net_text_t text = {.n = 0};
            char seconds[32];

            kvs_net_text_add(&text, "%s died, or cannot be reached: nothing was heard of it for %s",
                             member->label, net_seconds(seconds, s->settings.dead_after_ms));
            bury(s, member, text.bytes);
        }
    }
}

static void fail_late(net_scheduler_t *s, net_group_t *group)
{
    kvs_net_text_t text = {.n = 0};
    char seconds[32];

    kvs_net_text_add(&text, "after %s only ", net_seconds(seconds, s->settings.rendezvous_ms));
    net_group_missing(group, &text);
    fail_group(s, group, KVS_ERR_TIMEOUT, text.bytes);
}

int64_t net_members_tick(net_scheduler_t *s)
{
    int64_t now = net_now(), beat = s->settings.heartbeat_ms * NET_MS;
    int64_t next = now + beat / 2, late = 0;
    bool looks = now - s->liveness.looked >= beat / 2;

    if (looks) {
        late = net_liveness_look(&s->liveness, now, beat);
    }
    for (net_group_t *group = s->groups; group != NULL; group = group->next) {
        if (looks) {
            look_for_silent(s, group, now, late);
        }
        if (!group->settled && !group->ended && now >= group->deadline) {
            fail_late(s, group);
        }
        if (group->settled) {
            next = net_earlier(next, net_storebook_tick(group->book));
        }
        next = group->deadline > now ? net_earlier(next, group->deadline) : next;
    }
    check_over(s, now);
    return net_earlier(next, s->groups == NULL && s->deadline > now ? s->deadline : NET_NEVER);
}

/* ---- The end of all ------------------------------------------------------------------------------- */

void net_members_dissolve(net_scheduler_t *s)
{
    kvs_net_text_t text = {.n = 0};
    net_wire_t wire;

    kvs_net_text_add(&text, "%s has ended", s->label);
    wire = notice(NET_END, 0, KVS_ERR_PEER, text.bytes);
    for (net_group_t *group = s->groups; group != NULL; group = group->next) {
        if (!group->ended) {
            broadcast(group, &wire, NULL);
        }
        dismiss(group);
    }
}

void net_members_release(net_scheduler_t *s)
{
    while (s->groups != NULL) {
        net_group_t *group = s->groups;

        s->groups = group->next;
        free_group(group);
    }
    net_idmap_release(&s->members);
}
