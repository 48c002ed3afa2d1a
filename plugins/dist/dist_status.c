/* SPDX-License-Identifier: Apache-2.0 */
/* dist_status.c - what a server shows to `kvstore status`: its stores, what they hold and wait for. */
#include "dist_depot.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_LATE     20
#define SPARE_BYTES  (UINT64_C(64) << 20) /* beside what it keeps */
#define BYTES_PER_MB 1e6

/* ---- Counting ------------------------------------------------------------------------------------------ */

typedef struct sums {
    uint64_t n_keys, n_values, n_states, n_waiting, n_rounds; /* bytes, but keys and rounds */
} sums_t;

static uint64_t bytes_of_states(const dist_entry_t *entry)
{
    uint64_t n = 0;

    for (size_t i = 0; i < kvs_opt_n_states(&entry->opt); i++) {
        kvs_opt_state_t state = kvs_opt_state_at(&entry->opt, i);

        n += (uint64_t)state.n_elems * kvs_dtype_bytes(state.dtype);
    }
    return n;
}

static uint64_t bytes_of_push(const dist_push_t *push)
{
    kvs_net_message_t *const *parts = push->is_rows ? push->row_parts : push->parts;
    uint64_t n = 0;

    for (int64_t p = 0; parts != NULL && p < push->n_parts; p++) {
        n += parts[p] == NULL ? 0 : parts[p]->n_body_bytes;
    }
    return n;
}

static uint64_t bytes_of_round(const dist_entry_t *entry, const dist_round_t *round)
{
    uint64_t n = 0;

    for (int w = 0; round != NULL && w < entry->depot->n_workers; w++) {
        n += round->only < 0 || round->only == w ? bytes_of_push(&round->pushes[w]) : 0;
    }
    return n;
}

static uint64_t bytes_that_wait(const dist_entry_t *entry)
{
    uint64_t n = bytes_of_round(entry, entry->rounds[0]) + bytes_of_round(entry, entry->rounds[1]);

    for (const dist_round_t *round = entry->async == NULL ? NULL : entry->async->ready;
         round != NULL; round = round->next) {
        n += bytes_of_round(entry, round);
    }
    for (int w = 0; entry->async != NULL && w < entry->depot->n_workers; w++) {
        n += bytes_of_round(entry, entry->async->workers[w].coming[0]) +
             bytes_of_round(entry, entry->async->workers[w].coming[1]);
    }
    return n;
}

static sums_t count(const dist_depot_t *depot)
{
    sums_t sums = {.n_keys = 0};

    for (size_t i = 0; i < depot->entries.n_items; i++) {
        const dist_entry_t *entry = depot->entries.items[i].value;

        if (entry != NULL) {
            sums.n_keys++;
            sums.n_values += entry->n_bytes;
            sums.n_states += bytes_of_states(entry);
            sums.n_waiting += bytes_that_wait(entry);
            sums.n_rounds += (uint64_t)entry->n_done;
        }
    }
    return sums;
}

/* ---- Writing down -------------------------------------------------------------------------------------- */

static void write_late(FILE *out, const dist_entry_t *entry, int64_t now)
{
    const char *comma = "";

    fprintf(out, "    %s", DIST_KEY_TEXT(&entry->record));
    if (entry->async == NULL) {
        fprintf(out, ", round %" PRId64, entry->n_done + 1);
    }
    fprintf(out, ": waits %.1f s for ", (double)(now - entry->rounds[0]->begun_ns) / 1e9);
    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (dist_round_lacks(entry, w)) {
            fprintf(out, "%s%s", comma, dist_depot_worker_label(entry->depot, w));
            comma = ", ";
        }
    }
    fprintf(out, "%s\n", *comma == '\0' ? "other servers" : "");
}

static void write_store(FILE *out, const dist_depot_t *depot, sums_t *all)
{
    sums_t sums = count(depot);
    int64_t now = dist_now_ns();
    size_t n_late = 0;

    fprintf(out,
            "  store %u, %s: keys %" PRIu64 ", values %.1f MB, states %.1f MB, waiting %.1f MB, "
            "rounds %" PRIu64 ", of them %.1f a second since the store was opened\n",
            depot->number, depot->is_async ? "asynchronous" : "synchronous", sums.n_keys,
            (double)sums.n_values / BYTES_PER_MB, (double)sums.n_states / BYTES_PER_MB,
            (double)sums.n_waiting / BYTES_PER_MB, sums.n_rounds,
            (double)sums.n_rounds * 1e9 / (double)(now - depot->opened_ns + 1));
    for (size_t i = 0; i < depot->entries.n_items; i++) {
        const dist_entry_t *entry = depot->entries.items[i].value;

        if (entry != NULL && entry->rounds[0] != NULL && ++n_late <= MAX_LATE) {
            write_late(out, entry, now);
        }
    }
    if (n_late > MAX_LATE) {
        fprintf(out, "    and %zu keys more\n", n_late - MAX_LATE);
    }
    all->n_values += sums.n_values;
    all->n_states += sums.n_states;
    /* two rounds of pushes of each worker, as large as the values */
    all->n_waiting += 2 * (uint64_t)depot->n_workers * sums.n_values;
}

/* What it holds, and the largest amount of memory that it is to need for that. */
uint64_t dist_status_show(void *arg, FILE *out)
{
    sums_t all = {.n_keys = 0};

    for (const dist_depot_t *depot = dist_server_depots(arg); depot != NULL; depot = depot->next) {
        if (!depot->is_closed) {
            write_store(out, depot, &all);
        }
    }
    return all.n_values + all.n_states + all.n_waiting + SPARE_BYTES;
}
