/* SPDX-License-Identifier: Apache-2.0 */
/* ar_group.c - the segment: for each member three gates in cache lines of their own, then N_BLOCKS
 * blocks. A gate's value is the number of the last step of its kind that is done: steps of all exchanges
 * are numbered through, so nothing is ever reset. Member m's slice of a block in m's own memory is where
 * its sums go: nobody else's values are needed there by then. */
#include "ar_group.h"

#include "ar_reduce.h"

#include <stdlib.h>
#include <string.h>

#define LINE        64
#define BLOCK_BYTES ((size_t)256 << 10)
#define N_BLOCKS    4
#define SLICE_UNIT  64 /* elements that slices are a multiple of: no cache line has two owners */

/* One gate a line. */
typedef struct line {
    _Alignas(LINE) kvs_net_gate_t gate;
} line_t;

typedef struct member {
    line_t laid;   /* values of this block lie in its memory */
    line_t summed; /* its slice of this block is summed */
    line_t taken;  /* it needs nothing of this block any more */
    char pad[LINE];
} member_t;

struct ar_group {
    kvs_net_node_t *node;
    kvs_net_segment_t *segment;
    int n, index;
    const kvs_net_peer_t **peers;
    member_t *members;
    char *blocks;
    void *extra;
    /* the exchange before, whose blocks may still be in use */
    uint32_t last_end;
    int n_last;
    int *last;
    const void **sources; /* of a sum: one a member */
};

/* ---- Opening ----------------------------------------------------------------------------------- */

static size_t up(size_t n_bytes, size_t unit)
{
    return (n_bytes + unit - 1) / unit * unit;
}

static kvs_status_t find_members(ar_group_t *group)
{
    int n_workers = kvs_net_node_count(group->node, KVS_NET_WORKER);

    group->peers = calloc((size_t)n_workers, sizeof(*group->peers));
    group->last = calloc((size_t)n_workers, sizeof(*group->last));
    group->sources = calloc((size_t)n_workers, sizeof(*group->sources));
    if (group->peers == NULL || group->last == NULL || group->sources == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a group of %d workers", n_workers);
    }
    for (int rank = 0; rank < n_workers; rank++) {
        const kvs_net_peer_t *peer = kvs_net_node_peer(group->node, KVS_NET_WORKER, rank);

        if (peer->is_self || peer->same_host) {
            group->index = peer->is_self ? group->n : group->index;
            group->peers[group->n++] = peer;
        }
    }
    return KVS_OK;
}

static kvs_status_t map(ar_group_t *group, const char *name, size_t n_extra, int64_t timeout_ms)
{
    size_t n_gates = up((size_t)group->n * sizeof(member_t), 4096);
    size_t n_blocks = (size_t)group->n * N_BLOCKS * BLOCK_BYTES;
    size_t n_bytes = n_gates + up(n_extra, 4096) + n_blocks;
    kvs_status_t status = group->index == 0
                              ? kvs_net_segment_new(group->node, name, n_bytes, &group->segment)
                              : kvs_net_segment_open(group->node, group->peers[0], name, n_bytes,
                                                     timeout_ms, &group->segment);

    if (status == KVS_OK) {
        char *data = kvs_net_segment_data(group->segment);

        group->members = (member_t *)(void *)data;
        group->extra = data + n_gates;
        group->blocks = data + n_gates + up(n_extra, 4096);
    }
    return status;
}

kvs_status_t ar_group_open(kvs_net_node_t *node, const char *name, size_t n_extra,
                           int64_t timeout_ms, ar_group_t **ret_group)
{
    ar_group_t *group = calloc(1, sizeof(*group));
    kvs_status_t status;

    if (group == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a group of processes");
    }
    group->node = node;
    status = find_members(group);
    if (status == KVS_OK) {
        status = map(group, name, n_extra, timeout_ms);
    }
    if (status != KVS_OK) {
        ar_group_close(group);
        return status;
    }
    *ret_group = group;
    return KVS_OK;
}

void ar_group_close(ar_group_t *group)
{
    if (group != NULL) {
        kvs_net_segment_close(group->segment);
        free(group->peers);
        free(group->last);
        free(group->sources);
        free(group);
    }
}

int ar_group_count(const ar_group_t *group)
{
    return group->n;
}

int ar_group_index(const ar_group_t *group)
{
    return group->index;
}

int ar_group_index_of(const ar_group_t *group, int rank)
{
    for (int i = 0; i < group->n; i++) {
        if (group->peers[i]->rank == rank) {
            return i;
        }
    }
    return -1;
}

const kvs_net_peer_t *ar_group_peer(const ar_group_t *group, int index)
{
    return group->peers[index];
}

void *ar_group_extra(const ar_group_t *group)
{
    return group->extra;
}

uint32_t ar_group_steps(uint64_t n_bytes)
{
    return (uint32_t)(n_bytes / BLOCK_BYTES) + 2;
}

/* ---- Blocks and waits -------------------------------------------------------------------------- */

/* One exchange: block `b` of it is step `party->number + b`, and its gates show one more. */
typedef struct run {
    ar_group_t *group;
    const ar_party_t *party;
    const ar_data_t *data;
    int reduce;
    int self; /* this process's place among the members of the party */
    size_t size;
    int64_t block; /* elements */
    int64_t n_blocks;
} run_t;

static void *block_of(const run_t *run, int member, int64_t b)
{
    size_t slot = (run->party->number + (uint32_t)b) % N_BLOCKS;

    return run->group->blocks + ((size_t)member * N_BLOCKS + slot) * BLOCK_BYTES;
}

static int64_t begin_of(const run_t *run, int64_t b)
{
    return b * run->block;
}

static int64_t end_of(const run_t *run, int64_t b)
{
    int64_t end = (b + 1) * run->block;

    return end < run->data->n_elems ? end : run->data->n_elems;
}

/* The slice of block `b` that the party's `place`-th member sums, in elements of the block. */
static void slice_of(const run_t *run, int64_t b, int place, int64_t *ret_begin, int64_t *ret_end)
{
    int64_t n = end_of(run, b) - begin_of(run, b), parts = run->party->n_members;
    int64_t each = ((n + parts - 1) / parts + SLICE_UNIT - 1) / SLICE_UNIT * SLICE_UNIT;

    *ret_begin = place * each < n ? place * each : n;
    *ret_end = *ret_begin + each < n ? *ret_begin + each : n;
}

static kvs_status_t wait_for(const ar_group_t *group, line_t *line, int member, uint32_t value,
                             int64_t timeout_ms)
{
    kvs_status_t status;

    if (kvs_net_gate_reached(&line->gate, value)) {
        return KVS_OK;
    }
    status = kvs_net_gate_wait(group->node, &line->gate, value, group->peers[member],
                               timeout_ms == 0 ? -1 : timeout_ms);
    return status == KVS_ERR_TIMEOUT
               ? kvs_fail(status,
                          "stuck in the exchange: %s has submitted it, but has not passed on its "
                          "part within %lld ms",
                          group->peers[member]->label, (long long)timeout_ms)
               : status;
}

/* Before this process's memory is used anew: the exchange before may not have been taken by all. */
static kvs_status_t wait_for_last(ar_group_t *group, int64_t timeout_ms)
{
    kvs_status_t status = KVS_OK;

    for (int i = 0; i < group->n_last && status == KVS_OK; i++) {
        status = wait_for(group, &group->members[group->last[i]].taken, group->last[i],
                          group->last_end, timeout_ms);
    }
    return status;
}

static run_t begin(ar_group_t *group, const ar_party_t *party, const ar_data_t *data, int reduce)
{
    run_t run = {.group = group, .party = party, .data = data, .reduce = reduce};

    run.size = kvs_dtype_bytes(data->dtype);
    run.block = (int64_t)(BLOCK_BYTES / run.size);
    run.n_blocks = (data->n_elems + run.block - 1) / run.block;
    for (int i = 0; i < party->n_members; i++) {
        run.self = party->members[i] == group->index ? i : run.self;
    }
    return run;
}

static void end(const run_t *run)
{
    ar_group_t *group = run->group;

    if (run->n_blocks > 0) {
        group->last_end = run->party->number + (uint32_t)run->n_blocks;
        group->n_last = run->party->n_members;
        memcpy(group->last, run->party->members,
               (size_t)run->party->n_members * sizeof(*group->last));
    }
}

/* The block that lies in the memory of block `b` has been taken by all. */
static kvs_status_t wait_for_memory(const run_t *run, int64_t b)
{
    kvs_status_t status = KVS_OK;

    for (int i = 0; b >= N_BLOCKS && i < run->party->n_members && status == KVS_OK; i++) {
        int member = run->party->members[i];

        status =
            wait_for(run->group, &run->group->members[member].taken, member,
                     run->party->number + (uint32_t)(b - N_BLOCKS) + 1, run->party->timeout_ms);
    }
    return status;
}

static void raise_gate(const run_t *run, line_t *line, int64_t b)
{
    kvs_net_gate_raise(&line->gate, run->party->number + (uint32_t)b + 1);
}

/* ---- Reductions -------------------------------------------------------------------------------- */

/* Lay this process's values down; those of its own slice only where they are no single array. */
static kvs_status_t lay(const run_t *run, int64_t b)
{
    kvs_status_t status = wait_for_memory(run, b);
    int64_t begin_elem = begin_of(run, b), n = end_of(run, b) - begin_elem, own, own_end;
    char *memory = block_of(run, run->group->index, b);

    if (status != KVS_OK) {
        return status;
    }
    slice_of(run, b, run->self, &own, &own_end);
    if (ar_data_value(run->data, begin_elem + own, begin_elem + own_end) == NULL) {
        own = own_end = n;
    }
    ar_data_read(run->data, begin_elem, begin_elem + own, memory);
    ar_data_read(run->data, begin_elem + own_end, begin_elem + n,
                 memory + (size_t)own_end * run->size);
    raise_gate(run, &run->group->members[run->group->index].laid, b);
    return KVS_OK;
}

static kvs_status_t sum(const run_t *run, int64_t b)
{
    const ar_group_t *group = run->group;
    const void **sources = group->sources;
    int64_t first, last, at = begin_of(run, b);
    int n = run->party->n_members;
    char *to = block_of(run, group->index, b);
    const void *own;
    kvs_status_t status = KVS_OK;

    slice_of(run, b, run->self, &first, &last);
    own = ar_data_value(run->data, at + first, at + last);
    for (int i = 0; i < n && status == KVS_OK; i++) {
        int member = run->party->members[i];

        status = wait_for(group, &group->members[member].laid, member,
                          run->party->number + (uint32_t)b + 1, run->party->timeout_ms);
        sources[i] = i == run->self && own != NULL
                         ? own
                         : (char *)block_of(run, member, b) + (size_t)first * run->size;
    }
    if (status != KVS_OK) {
        return status;
    }
    to += (size_t)first * run->size;
    if (first < last) {
        void *out = ar_data_out(run->data, at + first, at + last);
        void *both[2] = {to, out};

        if (run->reduce == KVS_REDUCE_SUM && out != NULL) {
            kvs_sum(run->data->dtype, last - first, sources, (size_t)n, both, 2, 0);
        } else {
            ar_reduce(run->reduce, run->data->dtype, last - first, sources, (size_t)n, to);
            ar_data_write(run->data, at + first, at + last, to);
        }
    }
    raise_gate(run, &run->group->members[group->index].summed, b);
    return KVS_OK;
}

static kvs_status_t take(const run_t *run, int64_t b)
{
    const ar_group_t *group = run->group;
    kvs_status_t status = KVS_OK;
    int64_t at = begin_of(run, b);

    for (int i = 0; i < run->party->n_members && status == KVS_OK; i++) {
        int member = run->party->members[i];
        int64_t first, last;

        slice_of(run, b, i, &first, &last);
        if (i == run->self || first == last) {
            continue;
        }
        status = wait_for(group, &group->members[member].summed, member,
                          run->party->number + (uint32_t)b + 1, run->party->timeout_ms);
        if (status == KVS_OK) {
            ar_data_write(run->data, at + first, at + last,
                          (char *)block_of(run, member, b) + (size_t)first * run->size);
        }
    }
    if (status == KVS_OK) {
        raise_gate(run, &run->group->members[group->index].taken, b);
    }
    return status;
}

kvs_status_t ar_group_reduce(ar_group_t *group, const ar_party_t *party, int reduce,
                             const ar_data_t *data)
{
    run_t run = begin(group, party, data, reduce);
    kvs_status_t status = wait_for_last(group, party->timeout_ms);

    for (int64_t b = 0; b < run.n_blocks + 2 && status == KVS_OK; b++) {
        if (b < run.n_blocks) {
            status = lay(&run, b);
        }
        if (status == KVS_OK && b >= 1 && b - 1 < run.n_blocks) {
            status = sum(&run, b - 1);
        }
        if (status == KVS_OK && b >= 2) {
            status = take(&run, b - 2);
        }
    }
    end(&run);
    return status;
}

/* ---- Broadcasts -------------------------------------------------------------------------------- */

static kvs_status_t give(const run_t *run, int64_t b)
{
    kvs_status_t status = wait_for_memory(run, b);
    void *memory = block_of(run, run->group->index, b);

    if (status == KVS_OK) {
        member_t *self = &run->group->members[run->group->index];

        ar_data_read(run->data, begin_of(run, b), end_of(run, b), memory);
        raise_gate(run, &self->laid, b);
        ar_data_write(run->data, begin_of(run, b), end_of(run, b), memory);
        raise_gate(run, &self->taken, b);
    }
    return status;
}

static kvs_status_t receive(const run_t *run, int root, int64_t b)
{
    const ar_group_t *group = run->group;
    kvs_status_t status = wait_for(group, &group->members[root].laid, root,
                                   run->party->number + (uint32_t)b + 1, run->party->timeout_ms);

    if (status == KVS_OK) {
        ar_data_write(run->data, begin_of(run, b), end_of(run, b), block_of(run, root, b));
        raise_gate(run, &run->group->members[group->index].taken, b);
    }
    return status;
}

kvs_status_t ar_group_broadcast(ar_group_t *group, const ar_party_t *party, int root,
                                const ar_data_t *data)
{
    run_t run = begin(group, party, data, KVS_REDUCE_SUM);
    kvs_status_t status = wait_for_last(group, party->timeout_ms);

    for (int64_t b = 0; b < run.n_blocks && status == KVS_OK; b++) {
        status = root == group->index ? give(&run, b) : receive(&run, root, b);
    }
    end(&run);
    return status;
}
