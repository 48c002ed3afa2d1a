/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_quick.c - two slots a worker, used in turn by gates 0, 1, 2, …. The word of a slot says for which
 * gate it was last settled, and how: its owner came, or somebody shut the gate for it. Both are a
 * compare-and-swap on that one word, so each is settled once, and all workers read the same words: no
 * two decide differently. A slot is used for gate s only when everybody has left gate s - 2, which is so
 * if gate s - 1 let all pass, and is else looked up. */
#include "hvd_quick.h"

#include "ar_reduce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINE      64
#define SHORT_MAX 48                    /* bytes that fit beside the word */
#define TOTAL_MAX ((uint64_t)512 << 10) /* of all workers' values: each sums them all */

/* A word: the gate's number plus one, times two, plus one if it was shut. */
typedef struct slot {
    _Alignas(LINE) _Atomic uint64_t word;
    uint64_t digest;
    unsigned char values[SHORT_MAX];
} slot_t;

typedef struct member {
    slot_t slots[2];
    _Alignas(LINE) _Atomic uint64_t n_left; /* gates that it has left */
} member_t;

struct hvd_quick {
    kvs_net_node_t *node;
    pthread_mutex_t lock;
    int n, index;
    member_t *members; /* shared */
    char *long_values; /* shared: two for each member */
    uint64_t gate;     /* guarded by lock, as what follows: the next one's number */
    bool all_passed;   /* the last one let all pass */
    const void **sources;
    void *sum; /* where there is no one array for it: the others still read what is shared */
};

static uint64_t word_of(uint64_t gate, bool is_shut)
{
    return (gate + 1) * 2 + is_shut;
}

size_t hvd_quick_bytes(int n)
{
    return (size_t)n * (sizeof(member_t) + 2 * HVD_QUICK_MAX_BYTES);
}

kvs_status_t hvd_quick_open(kvs_net_node_t *node, ar_group_t *group, hvd_quick_t **ret_quick)
{
    hvd_quick_t *quick = calloc(1, sizeof(*quick));
    char *shared = ar_group_extra(group);

    if (quick != NULL) {
        quick->n = ar_group_count(group);
        quick->sources = calloc((size_t)quick->n, sizeof(*quick->sources));
        quick->sum = aligned_alloc(LINE, HVD_QUICK_MAX_BYTES);
        pthread_mutex_init(&quick->lock, NULL);
    }
    if (quick == NULL || quick->sources == NULL || quick->sum == NULL) {
        hvd_quick_close(quick);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the way of small arrays");
    }
    quick->node = node;
    quick->index = ar_group_index(group);
    quick->long_values = shared;
    quick->members = (member_t *)(void *)(shared + (size_t)quick->n * 2 * HVD_QUICK_MAX_BYTES);
    *ret_quick = quick;
    return KVS_OK;
}

void hvd_quick_close(hvd_quick_t *quick)
{
    if (quick != NULL) {
        pthread_mutex_destroy(&quick->lock);
        free(quick->sources);
        free(quick->sum);
        free(quick);
    }
}

bool hvd_quick_takes(const hvd_quick_t *quick, uint64_t n_bytes)
{
    return n_bytes <= HVD_QUICK_MAX_BYTES && n_bytes * (uint64_t)quick->n <= TOTAL_MAX;
}

static slot_t *slot_of(const hvd_quick_t *quick, int member)
{
    return &quick->members[member].slots[quick->gate & 1];
}

static void *values_of(const hvd_quick_t *quick, int member, size_t n_bytes)
{
    return n_bytes <= SHORT_MAX ? (void *)slot_of(quick, member)->values
                                : quick->long_values + ((size_t)member * 2 + (quick->gate & 1)) *
                                                           HVD_QUICK_MAX_BYTES;
}

/* Everybody has left the gate before the last. */
static bool is_free(const hvd_quick_t *quick)
{
    for (int i = 0; !quick->all_passed && quick->gate >= 2 && i < quick->n; i++) {
        if (atomic_load_explicit(&quick->members[i].n_left, memory_order_acquire) <
            quick->gate - 1) {
            return false;
        }
    }
    return true;
}

/* This process comes. False: the gate was shut for it. */
static bool come(hvd_quick_t *quick, const hvd_quick_call_t *call, size_t n_bytes)
{
    slot_t *slot = slot_of(quick, quick->index);
    uint64_t before = atomic_load_explicit(&slot->word, memory_order_relaxed);

    if (before >= word_of(quick->gate, false)) {
        return false;
    }
    slot->digest = call->digest;
    if (call->root == HVD_QUICK_ALL || call->root == quick->index) {
        ar_data_read(call->data, 0, call->data->n_elems, values_of(quick, quick->index, n_bytes));
    }
    return atomic_compare_exchange_strong_explicit(&slot->word, &before,
                                                   word_of(quick->gate, false),
                                                   memory_order_release, memory_order_relaxed);
}

/* Wait for a member, or shut the gate for it. True: it came to do the same. */
static bool meet(hvd_quick_t *quick, int member, uint64_t digest, kvs_net_spin_t *spin)
{
    slot_t *slot = slot_of(quick, member);
    uint64_t came = word_of(quick->gate, false), word;

    while ((word = atomic_load_explicit(&slot->word, memory_order_acquire)) < came &&
           kvs_net_node_spin(quick->node, spin)) {
    }
    if (word < came &&
        atomic_compare_exchange_strong_explicit(&slot->word, &word, word_of(quick->gate, true),
                                                memory_order_acquire, memory_order_acquire)) {
        return false;
    }
    return word == came && slot->digest == digest;
}

static bool meet_all(hvd_quick_t *quick, uint64_t digest)
{
    kvs_net_spin_t spin = KVS_NET_SPIN_INIT;
    bool all = true;

    for (int i = 0; i < quick->n && all; i++) {
        all = i == quick->index || meet(quick, i, digest, &spin);
    }
    return all;
}

/* All have come. */
static void finish(hvd_quick_t *quick, const hvd_quick_call_t *call, size_t n_bytes)
{
    const ar_data_t *data = call->data;
    void *out = ar_data_out(data, 0, data->n_elems);
    void *sum = out != NULL ? out : quick->sum;

    if (call->root != HVD_QUICK_ALL) {
        ar_data_write(data, 0, data->n_elems, values_of(quick, call->root, n_bytes));
        return;
    }
    for (int i = 0; i < quick->n; i++) {
        quick->sources[i] = values_of(quick, i, n_bytes);
    }
    ar_reduce(call->reduce, data->dtype, data->n_elems, quick->sources, (size_t)quick->n, sum);
    if (out == NULL) {
        ar_data_write(data, 0, data->n_elems, sum);
    }
}

bool hvd_quick_try(hvd_quick_t *quick, const hvd_quick_call_t *call)
{
    size_t n_bytes = (size_t)call->data->n_elems * kvs_dtype_bytes(call->data->dtype);
    bool done = false;

    if (pthread_mutex_trylock(&quick->lock) != 0) {
        return false;
    }
    if (is_free(quick)) {
        done = come(quick, call, n_bytes) && meet_all(quick, call->digest);
        if (done) {
            finish(quick, call, n_bytes);
        }
        quick->all_passed = done;
        quick->gate++;
        atomic_store_explicit(&quick->members[quick->index].n_left, quick->gate,
                              memory_order_release);
    }
    pthread_mutex_unlock(&quick->lock);
    return done;
}
