/* SPDX-License-Identifier: Apache-2.0 */
/* dist_status.c - what a server shows to `kvstore status`: its job and stores, what they hold and wait
 * for. Asked on the window's thread, written down on the node's, which alone knows. */
#include "dist_depot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_S     2
#define MAX_LATE     20
#define SPARE_BYTES  (UINT64_C(64) << 20) /* beside what it keeps */
#define BYTES_PER_MB 1e6

typedef struct asked {
    dist_server_t *server;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, abandoned; /* guarded by lock, as the text */
    FILE *out;
    char *text;
    size_t n_text;
} asked_t;

static void free_asked(asked_t *asked)
{
    if (asked->out != NULL) {
        fclose(asked->out);
    }
    free(asked->text);
    pthread_cond_destroy(&asked->changed);
    pthread_mutex_destroy(&asked->lock);
    free(asked);
}

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

static void write_workers(FILE *out, const dist_server_t *server, kvs_net_node_t *node)
{
    for (int w = 0; w < kvs_net_node_count(node, KVS_NET_WORKER); w++) {
        const char *why = dist_server_why_gone(server, w);

        fprintf(out, "  %s%s%s\n", kvs_net_node_peer(node, KVS_NET_WORKER, w)->label,
                why == NULL ? "" : ": ", why == NULL ? "" : why);
    }
}

static void write_traffic(FILE *out, kvs_net_node_t *node)
{
    kvs_net_traffic_t traffic = KVS_NET_TRAFFIC_INIT;

    kvs_net_node_traffic(node, &traffic);
    for (int path = 0; path < KVS_NET_N_PATHS; path++) {
        fprintf(out,
                "  by %s: received %.1f MB in %" PRIu64 " messages, sent %.1f MB in %" PRIu64 "\n",
                kvs_net_path_name(path), (double)traffic.received[path].n_bytes / BYTES_PER_MB,
                traffic.received[path].n_messages,
                (double)traffic.sent[path].n_bytes / BYTES_PER_MB, traffic.sent[path].n_messages);
    }
}

static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long n_pages = 0;

    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &n_pages) != 1) {
            n_pages = 0;
        }
        fclose(file);
    }
    return (double)n_pages * (double)sysconf(_SC_PAGESIZE) / BYTES_PER_MB;
}

static void write_down(FILE *out, const dist_server_t *server)
{
    kvs_net_node_t *node = dist_server_node(server);
    sums_t all = {.n_keys = 0};

    if (kvs_net_node_count(node, KVS_NET_WORKER) == 0) {
        fprintf(out, "job %s: a server waits until everyone is there\n", dist_server_job(server));
        return;
    }
    fprintf(out, "job %s: %s, epoch 1, of %d servers and %d workers\n", dist_server_job(server),
            kvs_net_node_self(node)->label, kvs_net_node_count(node, KVS_NET_SERVER),
            kvs_net_node_count(node, KVS_NET_WORKER));
    write_workers(out, server, node);
    for (const dist_depot_t *depot = dist_server_depots(server); depot != NULL;
         depot = depot->next) {
        if (!depot->is_closed) {
            write_store(out, depot, &all);
        }
    }
    write_traffic(out, node);
    fprintf(out, "  memory: %.1f MB resident, bound %.1f MB\n", resident_mb(),
            (double)(all.n_values + all.n_states + all.n_waiting + SPARE_BYTES) / BYTES_PER_MB);
}

/* ---- Asking -------------------------------------------------------------------------------------------- */

static void on_node_thread(void *arg)
{
    asked_t *asked = arg;
    bool abandoned;

    pthread_mutex_lock(&asked->lock);
    abandoned = asked->abandoned;
    if (!abandoned) {
        write_down(asked->out, asked->server);
        asked->done = true;
        pthread_cond_signal(&asked->changed);
    }
    pthread_mutex_unlock(&asked->lock);
    if (abandoned) {
        free_asked(asked);
    }
}

char *dist_status_look(void *arg)
{
    asked_t *asked = calloc(1, sizeof(*asked));
    struct timespec deadline;
    char *text = NULL;
    int waited = 0;

    if (asked == NULL) {
        return NULL;
    }
    asked->server = arg;
    pthread_mutex_init(&asked->lock, NULL);
    pthread_cond_init(&asked->changed, NULL);
    asked->out = open_memstream(&asked->text, &asked->n_text);
    if (asked->out == NULL ||
        kvs_net_node_call(dist_server_node(asked->server), on_node_thread, asked) != KVS_OK) {
        free_asked(asked);
        return NULL;
    }
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += ANSWER_S;
    pthread_mutex_lock(&asked->lock);
    while (!asked->done && waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&asked->changed, &asked->lock, &deadline);
    }
    if (!asked->done) { /* busy: the other thread frees it */
        asked->abandoned = true;
        pthread_mutex_unlock(&asked->lock);
        return strdup("a server is busy: it has not answered within 2 s\n");
    }
    pthread_mutex_unlock(&asked->lock);
    fclose(asked->out);
    asked->out = NULL;
    text = asked->text;
    asked->text = NULL;
    free_asked(asked);
    return text;
}
