/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c - see membership.h. */
#include "membership.h"

#include "address.h"

#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 16 /* missing ones, before "and N more" */

net_group_t *net_group_new(const char *name, int n_workers, int n_servers, const char *first)
{
    net_group_t *group = calloc(1, sizeof(*group));
    char *copy = strdup(name);

    if (group == NULL || copy == NULL) {
        free(group);
        free(copy);
        return NULL;
    }
    group->name = copy;
    group->n_workers = n_workers;
    group->n_servers = n_servers;
    strncpy(group->first, first, sizeof(group->first) - 1);
    return group;
}

static void free_member(net_member_t *member)
{
    if (member != NULL) {
        net_channel_release(&member->channel);
        free(member->host);
        free(member->address);
        free(member);
    }
}

void net_group_free(net_group_t *group)
{
    if (group == NULL) {
        return;
    }
    for (size_t i = 0; i < group->n_members; i++) {
        free_member(group->members[i]);
    }
    net_facts_release(&group->facts);
    net_facts_release(&group->fact_owners);
    free(group->members);
    free(group->failure_text);
    free(group->name);
    free(group);
}

bool net_group_spares(const net_group_t *group, const net_member_t *server)
{
    return server->role == KVS_NET_SERVER && net_facts_find(&group->facts, NET_SPARED) != NULL &&
           net_group_count(group, KVS_NET_SERVER, NET_GONE_DEAD) < (size_t)group->n_servers;
}

void net_group_fail(net_group_t *group, kvs_status_t status, const char *text)
{
    if (group->failure == KVS_OK) {
        group->failure = status;
        group->failure_text = strdup(text); /* without memory the status has to do */
    }
}

size_t net_group_count(const net_group_t *group, int role, net_state_t state)
{
    size_t n = 0;

    for (size_t i = 0; i < group->n_members; i++) {
        n += group->members[i]->role == role && group->members[i]->state == state;
    }
    return n;
}

/* ---- The door -------------------------------------------------------------------------------- */

static const net_member_t *find(const net_group_t *group, int role, int rank)
{
    for (size_t i = 0; i < group->n_members; i++) {
        if (group->members[i]->role == role && group->members[i]->rank == rank) {
            return group->members[i];
        }
    }
    return NULL;
}

static size_t n_wanted(const net_group_t *group, int role)
{
    size_t n = 0;

    if (role == KVS_NET_WORKER) {
        return (size_t)group->n_workers;
    }
    if (group->n_servers >= 0) {
        return (size_t)group->n_servers;
    }
    for (size_t i = 0; i < group->n_members; i++) {
        n += group->members[i]->hosts_server;
    }
    return n;
}

static kvs_status_t check_counts(const net_group_t *group, const net_hello_t *hello,
                                 const char *label)
{
    const char *what = hello->n_workers != group->n_workers ? "workers" : "servers";
    int theirs = hello->n_workers != group->n_workers ? hello->n_workers : hello->n_servers;
    int ours = hello->n_workers != group->n_workers ? group->n_workers : group->n_servers;

    if (theirs == ours) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_PEER, "the number of %s differs: %s has %d%s, %s has %d%s", what, label,
                    theirs, theirs < 0 ? " (embedded)" : "", group->first, ours,
                    ours < 0 ? " (embedded)" : "");
}

static kvs_status_t check_facts(const net_group_t *group, net_wire_list_t facts, const char *label)
{
    kvs_net_fact_t fact;

    while (net_wire_next_fact(&facts, &fact)) {
        const char *value = net_facts_find(&group->facts, fact.name);

        if (value != NULL && strcmp(value, fact.value) != 0) {
            return kvs_fail(KVS_ERR_PEER, "%s differs: %s has '%s', %s has '%s'", fact.name, label,
                            fact.value, net_facts_find(&group->fact_owners, fact.name), value);
        }
    }
    return KVS_OK;
}

static void append_labels(const net_group_t *group, int role, kvs_net_text_t *text)
{
    size_t n = 0;

    for (size_t i = 0; i < group->n_members; i++) {
        if (group->members[i]->role != role) {
            continue;
        }
        if (++n <= NAMED_MAX) {
            kvs_net_text_add(text, "%s%s", n > 1 ? ", " : "", group->members[i]->label);
        }
    }
    if (n > NAMED_MAX) {
        kvs_net_text_add(text, " and %zu more", n - NAMED_MAX);
    }
}

/* Is there a place for one more of this role, with this rank? */
static kvs_status_t check_place(const net_group_t *group, const net_hello_t *hello,
                                const char *label)
{
    const net_member_t *other = hello->rank < 0 ? NULL : find(group, hello->role, hello->rank);
    const char *role = kvs_net_role_name(hello->role);
    size_t wanted = n_wanted(group, hello->role);
    kvs_net_text_t there = {.n = 0};

    if (hello->rank >= 0 && (group->n_servers >= 0 || hello->role == KVS_NET_WORKER) &&
        (size_t)hello->rank >= wanted) {
        return kvs_fail(KVS_ERR_PEER, "%s has a rank outside the job's %zu %ss", label, wanted,
                        role);
    }
    if (other != NULL) {
        return kvs_fail(KVS_ERR_PEER,
                        "%s is one too many: %s is there already; give each %s a rank of its own "
                        "(KVSTORE_RANK)",
                        label, other->label, role);
    }
    if ((group->n_servers >= 0 || hello->role == KVS_NET_WORKER) &&
        net_group_count(group, hello->role, NET_PRESENT) >= wanted) {
        append_labels(group, hello->role, &there);
        return kvs_fail(KVS_ERR_PEER, "%s is one too many: the job has its %zu %s%s: %s", label,
                        wanted, role, wanted == 1 ? "" : "s", there.bytes);
    }
    return KVS_OK;
}

static kvs_status_t check_open(const net_group_t *group, const net_hello_t *hello,
                               const char *label)
{
    kvs_net_text_t there = {.n = 0};

    if (group->failure != KVS_OK && !group->settled) {
        return kvs_fail(group->failure, "%s",
                        group->failure_text == NULL ? "the job failed" : group->failure_text);
    }
    if (group->settled) {
        append_labels(group, hello->role, &there);
        return kvs_fail(KVS_ERR_PEER,
                        "%s comes too late: the job runs with its %d workers and %d "
                        "servers, of them %s",
                        label, group->n_workers, group->n_servers,
                        there.n == 0 ? "none of this role" : there.bytes);
    }
    return KVS_OK;
}

static bool learn_facts(net_group_t *group, net_wire_list_t facts, const char *label)
{
    kvs_net_fact_t fact;

    while (net_wire_next_fact(&facts, &fact)) {
        if (net_facts_find(&group->facts, fact.name) == NULL &&
            !(net_facts_add(&group->fact_owners, fact.name, label) &&
              net_facts_add(&group->facts, fact.name, fact.value))) {
            return false;
        }
    }
    return true;
}

static net_member_t *new_member(net_group_t *group, const net_hello_t *hello, uint64_t link,
                                const char *label)
{
    net_member_t *member = calloc(1, sizeof(*member));

    if (member == NULL) {
        return NULL;
    }
    *member = (net_member_t){.group = group,
                             .role = hello->role,
                             .rank = hello->rank,
                             .hosts_server = hello->hosts_server != 0,
                             .pid = hello->pid,
                             .incarnation = hello->incarnation,
                             .host_id = hello->host_id,
                             .process_id = hello->process_id,
                             .host = strdup(hello->host),
                             .address = strdup(hello->address),
                             .link = link};
    memcpy(member->label, label, NET_LABEL_MAX);
    if (member->host == NULL || member->address == NULL) {
        free_member(member);
        return NULL;
    }
    return member;
}

static kvs_status_t add(net_group_t *group, const net_hello_t *hello, uint64_t link,
                        const char *label, net_member_t **ret_member)
{
    net_member_t **grown = realloc(group->members, (group->n_members + 1) * sizeof(*grown));
    net_member_t *member = grown == NULL ? NULL : new_member(group, hello, link, label);

    if (grown != NULL) {
        group->members = grown;
    }
    if (member == NULL || !learn_facts(group, hello->facts, label)) {
        free_member(member);
        return kvs_fail(KVS_ERR_NO_MEMORY, "the scheduler has no memory for %s", label);
    }
    group->members[group->n_members++] = member;
    *ret_member = member;
    return KVS_OK;
}

kvs_status_t net_group_admit(net_group_t *group, const net_hello_t *hello, uint64_t link,
                             net_member_t **ret_member, bool *ret_fails_all)
{
    char label[NET_LABEL_MAX];
    kvs_status_t status;

    net_label(label, hello->role, hello->rank, hello->host, hello->pid);
    *ret_fails_all = false;
    status = check_open(group, hello, label);
    if (status != KVS_OK) {
        return status;
    }
    status = check_counts(group, hello, label);
    status = status == KVS_OK ? check_facts(group, hello->facts, label) : status;
    if (status != KVS_OK) {
        *ret_fails_all = true;
        return status;
    }
    status = check_place(group, hello, label);
    return status == KVS_OK ? add(group, hello, link, label, ret_member) : status;
}

void net_group_remove(net_group_t *group, net_member_t *member)
{
    for (size_t i = 0; i < group->n_members; i++) {
        if (group->members[i] == member) {
            memmove(&group->members[i], &group->members[i + 1],
                    (group->n_members - i - 1) * sizeof(member));
            group->n_members--;
            free_member(member);
            return;
        }
    }
}

/* ---- Who is missing -------------------------------------------------------------------------- */

bool net_group_is_complete(const net_group_t *group)
{
    return net_group_count(group, KVS_NET_WORKER, NET_PRESENT) == (size_t)group->n_workers &&
           net_group_count(group, KVS_NET_SERVER, NET_PRESENT) == n_wanted(group, KVS_NET_SERVER);
}

static bool all_ranks_given(const net_group_t *group, int role)
{
    for (size_t i = 0; i < group->n_members; i++) {
        if (group->members[i]->role == role && group->members[i]->rank < 0) {
            return false;
        }
    }
    return true;
}

static void append_missing(const net_group_t *group, int role, size_t n_missing,
                           kvs_net_text_t *text)
{
    const char *name = kvs_net_role_name(role);
    size_t n = 0;

    if (n_missing == 0) {
        return;
    }
    if (!all_ranks_given(group, role)) {
        kvs_net_text_add(text, ", %zu %s%s", n_missing, name, n_missing == 1 ? "" : "s");
        return;
    }
    for (int rank = 0; n < n_missing; rank++) {
        if (find(group, role, rank) == NULL && ++n <= NAMED_MAX) {
            kvs_net_text_add(text, ", %s %d", name, rank);
        }
    }
    if (n > NAMED_MAX) {
        kvs_net_text_add(text, ", and %zu more", n - NAMED_MAX);
    }
}

void net_group_missing(const net_group_t *group, kvs_net_text_t *text)
{
    size_t workers = net_group_count(group, KVS_NET_WORKER, NET_PRESENT);
    size_t servers = net_group_count(group, KVS_NET_SERVER, NET_PRESENT);
    size_t want_workers = n_wanted(group, KVS_NET_WORKER);
    size_t want_servers = n_wanted(group, KVS_NET_SERVER);
    size_t no_workers = want_workers - (workers < want_workers ? workers : want_workers);
    size_t no_servers = want_servers - (servers < want_servers ? servers : want_servers);
    kvs_net_text_t names = {.n = 0};

    append_missing(group, KVS_NET_WORKER, no_workers, &names);
    append_missing(group, KVS_NET_SERVER, no_servers, &names);
    kvs_net_text_add(text, "%zu of %zu worker%s", workers, want_workers,
                     want_workers == 1 ? "" : "s");
    if (want_servers > 0) {
        kvs_net_text_add(text, ", %zu of %zu server%s", servers, want_servers,
                         want_servers == 1 ? "" : "s");
    }
    kvs_net_text_add(text, " present; missing: %s", names.n < 2 ? "nobody" : names.bytes + 2);
}

/* ---- Settling -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const net_member_t *x = *(net_member_t *const *)a, *y = *(net_member_t *const *)b;

    return x->role != y->role ? x->role - y->role : x->rank - y->rank;
}

/* Whoever has no rank gets the lowest that is free, in order of arrival. */
static void give_ranks(net_group_t *group)
{
    int next[3] = {0, 0, 0}; /* by role: worker 1, server 2 */

    for (size_t i = 0; i < group->n_members; i++) {
        net_member_t *member = group->members[i];

        if (member->rank >= 0) {
            continue;
        }
        while (find(group, member->role, next[member->role]) != NULL) {
            next[member->role]++;
        }
        member->rank = next[member->role];
        net_label(member->label, member->role, member->rank, member->host, member->pid);
    }
}

static void give_local_ranks(net_group_t *group)
{
    for (size_t i = 0; i < group->n_members; i++) {
        net_member_t *member = group->members[i];

        member->place = (uint32_t)i;
        member->local_rank = 0;
        for (size_t j = 0; j < i; j++) {
            member->local_rank += group->members[j]->role == member->role &&
                                  group->members[j]->host_id == member->host_id;
        }
    }
}

static bool is_loopback(const char *address)
{
    char host[NET_HOST_MAX];
    net_address_t parsed;
    int port;

    return net_address_split(address, host, &port) == KVS_OK &&
           net_address_parse(host, port, &parsed) && net_address_is_loopback(&parsed);
}

static kvs_status_t check_reachable(const net_group_t *group)
{
    const net_member_t *lonely = NULL, *other = NULL;

    for (size_t i = 0; i < group->n_members && lonely == NULL; i++) {
        lonely = is_loopback(group->members[i]->address) ? group->members[i] : NULL;
    }
    for (size_t i = 0; lonely != NULL && i < group->n_members && other == NULL; i++) {
        other = group->members[i]->host_id != lonely->host_id ? group->members[i] : NULL;
    }
    if (other == NULL) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_PEER,
                    "%s listens on %s, where %s on another host can't reach it: set "
                    "KVSTORE_NODE_HOST or KVSTORE_INTERFACE there, or name the scheduler by an "
                    "address of the network",
                    lonely->label, lonely->address, other->label);
}

kvs_status_t net_group_settle(net_group_t *group)
{
    kvs_status_t status = check_reachable(group);

    if (status != KVS_OK) {
        return status;
    }
    give_ranks(group);
    qsort(group->members, group->n_members, sizeof(*group->members), compare);
    give_local_ranks(group);
    group->n_servers = (int)net_group_count(group, KVS_NET_SERVER, NET_PRESENT);
    group->settled = true;
    return KVS_OK;
}
