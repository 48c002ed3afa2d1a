/* SPDX-License-Identifier: Apache-2.0 */
/* dist_join.c - workers that take no part in rounds any more, because they have no more data. A join
 * comes behind all pushes of its worker, so it holds for every round that has none of them. When all
 * have joined, all are answered with who came last, and rounds need everybody again: from then on the
 * count of each worker's pushes of a key goes on from the round the key is at. */
#include "dist_depot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PING_NS    INT64_C(1000000000)
#define TEXT_BYTES 1024

static bool all_have_joined(const dist_depot_t *depot)
{
    int w = 0;

    while (w < depot->n_workers && depot->joins[w].request != 0) {
        w++;
    }
    return w == depot->n_workers;
}

static void go_on(dist_depot_t *depot)
{
    for (size_t i = 0; i < depot->entries.n_items; i++) {
        dist_entry_t *entry = depot->entries.items[i].value;

        if (entry != NULL) {
            dist_round_go_on(entry);
        }
    }
}

static void answer(dist_depot_t *depot, int worker, kvs_status_t status, const char *text, int last)
{
    dist_header_t header = {.kind = DIST_DONE,
                            .request = depot->joins[worker].request,
                            .first = last,
                            .status = status};

    depot->joins[worker].request = 0;
    dist_depot_answer(depot, worker, &header, text, status == KVS_OK ? 0 : strlen(text));
}

static void count_anew(dist_depot_t *depot)
{
    for (size_t i = 0; i < depot->entries.n_items; i++) {
        dist_entry_t *entry = depot->entries.items[i].value;

        for (int w = 0; entry != NULL && w < depot->n_workers; w++) {
            entry->counts[w].behind = entry->n_done - entry->counts[w].n_pushed;
        }
    }
}

static void end(dist_depot_t *depot, kvs_status_t status, const char *text, int last)
{
    if (status == KVS_OK) {
        count_anew(depot);
    }
    for (int w = 0; w < depot->n_workers; w++) {
        if (depot->joins[w].request != 0) {
            answer(depot, w, status, text, last);
        }
    }
    dist_wait_end(depot->server, &depot->join_wait);
}

/* Those that go on without having joined. */
static void say_missing(const dist_depot_t *depot, double seconds, char *text, size_t n_bytes)
{
    size_t n = 0;
    const char *comma = "";

    for (int w = 0; w < depot->n_workers && n < n_bytes; w++) {
        if (depot->joins[w].request == 0) {
            n += (size_t)snprintf(text + n, n_bytes - n, "%s%s", comma,
                                  dist_depot_worker_label(depot, w));
            comma = ", ";
        }
    }
    if (n < n_bytes) {
        kvs_net_print(text + n, n_bytes - n, ": neither pushed nor joined within %.3g s", seconds);
    }
}

/* As long as others push, those that wait are told that all is well. */
static void look_at_time(dist_wait_t *wait, int64_t now_ns)
{
    dist_depot_t *depot = (dist_depot_t *)((char *)wait - offsetof(dist_depot_t, join_wait));
    bool moves = depot->pushed_ns > depot->pinged_ns;
    char text[TEXT_BYTES];

    for (int w = 0; w < depot->n_workers; w++) {
        const dist_join_t *join = &depot->joins[w];
        int64_t since = depot->pushed_ns > join->begun_ns ? depot->pushed_ns : join->begun_ns;

        if (join->request != 0 && join->timeout_ms > 0 &&
            now_ns - since >= join->timeout_ms * 1000000) {
            say_missing(depot, (double)join->timeout_ms / 1000, text, sizeof(text));
            answer(depot, w, KVS_ERR_TIMEOUT, text, 0);
        } else if (join->request != 0 && moves && now_ns - depot->pinged_ns >= PING_NS) {
            dist_depot_send_patience(depot, w, join->request);
        }
    }
    if (moves && now_ns - depot->pinged_ns >= PING_NS) {
        depot->pinged_ns = now_ns;
    }
}

void dist_join_check_gone(dist_depot_t *depot)
{
    for (int w = 0; w < depot->n_workers; w++) {
        const char *why = dist_depot_why_gone(depot, w);

        if (why != NULL && depot->joins[w].request == 0) {
            end(depot, KVS_ERR_PEER, why, 0);
            return;
        }
    }
}

void dist_join_take(dist_depot_t *depot, const dist_header_t *header, int worker)
{
    depot->joins[worker] = (dist_join_t){
        .request = header->request, .begun_ns = dist_now_ns(), .timeout_ms = header->timeout_ms};
    depot->join_wait.look = look_at_time;
    dist_wait_begin(depot->server, &depot->join_wait);
    go_on(depot); /* rounds that waited for this worker alone */
    if (all_have_joined(depot)) {
        end(depot, KVS_OK, "", worker);
    } else {
        dist_join_check_gone(depot);
    }
}

int64_t dist_join_round(const dist_entry_t *entry, int worker, int64_t number)
{
    return number + entry->counts[worker].behind;
}
