/* SPDX-License-Identifier: Apache-2.0 */
/* dist_verdict.c - is what a round adds up finite? Asked before anything is changed, where the store's
 * policy wants it; of an array that is cut, all its servers come to one answer, by messages that are
 * those of norms. */
#include "dist_depot.h"

#include <stdio.h>

#define TEXT_BYTES 1024

/* Numbers that servers tell each other: 0, or 1 + the rank at fault, or, for a sum, one more than all ranks. */
static double verdict_on_sum(const dist_entry_t *entry)
{
    for (int64_t part = 0; part < entry->n_parts; part++) {
        int64_t n = dist_entry_part_elems(entry, part);

        if (n > 0) {
            dist_round_sum_part(entry, part, entry->depot->scratch);
            if (!dist_is_finite(entry->record.dtype, n, entry->depot->scratch)) {
                return entry->depot->n_workers + 1;
            }
        }
    }
    return 0;
}

static bool push_is_finite(const dist_entry_t *entry, const dist_push_t *push)
{
    if (push->is_rows) {
        return dist_rows_are_finite(entry, push);
    }
    for (int64_t part = 0; part < push->n_parts && push->codec == 0; part++) {
        if (!dist_is_finite(entry->record.dtype, dist_entry_part_elems(entry, part),
                            push->parts[part]->body)) {
            return false;
        }
    }
    return true;
}

static double verdict_on(const dist_entry_t *entry)
{
    const dist_round_t *round = entry->rounds[0];
    bool rows = false;

    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (round->pushes[w].n_parts > 0 && !push_is_finite(entry, &round->pushes[w])) {
            return w + 1;
        }
        rows |= round->pushes[w].is_rows;
    }
    return rows ? 0 : verdict_on_sum(entry);
}

static void describe(const dist_entry_t *entry, int verdict, char *text, size_t n_bytes)
{
    const dist_depot_t *depot = entry->depot;
    bool skips = depot->nonfinite == DIST_NONFINITE_SKIP;

    if (verdict > depot->n_workers) {
        snprintf(text, n_bytes, "the sum of all gradients is not finite%s",
                 skips ? ": the update is skipped" : "");
    } else {
        snprintf(text, n_bytes, "the gradient of %s holds NaN or infinity%s",
                 dist_depot_worker_label(depot, verdict - 1),
                 skips ? ": the update is skipped" : "");
    }
}

/* The round changes nothing; its workers are told, by one server of the array. */
static void skip(dist_entry_t *entry, const char *text)
{
    dist_depot_t *depot = entry->depot;
    char told[TEXT_BYTES + 160];

    dist_round_text(entry, text, told, sizeof(told));
    for (int w = 0; w < depot->n_workers && entry->shard == &entry->record.shards[0]; w++) {
        if (entry->rounds[0]->pushes[w].n_parts > 0) {
            dist_depot_tell(depot, w, entry->record.id, KVS_OK, told);
        }
    }
    dist_round_end_unchanged(entry);
}

bool dist_verdict_passes(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];
    char text[TEXT_BYTES], told[TEXT_BYTES + 160];
    double verdict;

    if (entry->depot->nonfinite == DIST_NONFINITE_PROPAGATE || round->is_checked) {
        return true;
    }
    if (!dist_round_has_come(entry) || entry->n_readers > 0) {
        return false;
    }
    if (!round->verdict_sent) {
        round->verdict = verdict_on(entry);
    }
    if (entry->record.n_shards > 1 && !dist_norms_agree(entry, round->verdict, &verdict)) {
        return false;
    }
    verdict = entry->record.n_shards > 1 ? verdict : round->verdict;
    round->is_checked = true;
    if (verdict == 0) {
        return true;
    }
    describe(entry, (int)verdict, text, sizeof(text));
    if (entry->depot->nonfinite == DIST_NONFINITE_SKIP) {
        skip(entry, text);
    } else {
        dist_round_text(entry, text, told, sizeof(told));
        dist_round_fail(entry, KVS_ERR_NON_FINITE, told);
    }
    return false;
}
