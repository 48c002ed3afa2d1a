/* SPDX-License-Identifier: Apache-2.0 */
/* dist_delete.c - keys that go: each worker says so, behind its last push; when all who are there have,
 * the shard goes. A key of the same name that is initialised meanwhile has another id. */
#include "dist_depot.h"

static bool all_have(const dist_entry_t *entry)
{
    int w = 0;

    while (w < entry->depot->n_workers &&
           (entry->counts[w].deleted || dist_depot_why_gone(entry->depot, w) != NULL)) {
        w++;
    }
    return w == entry->depot->n_workers;
}

static bool any_has(const dist_entry_t *entry)
{
    int w = 0;

    while (w < entry->depot->n_workers && !entry->counts[w].deleted) {
        w++;
    }
    return w < entry->depot->n_workers;
}

void dist_delete_look(dist_entry_t *entry)
{
    if (entry->is_deleted || !any_has(entry) || !all_have(entry)) {
        return;
    }
    entry->is_deleted = true;
    dist_map_remove(&entry->depot->entries, entry->record.id);
    if (entry->n_readers == 0) { /* else the last of them frees it */
        dist_entry_free(entry);
    }
}

void dist_delete_take(dist_entry_t *entry, const dist_header_t *header, int worker)
{
    entry->counts[worker].deleted = true;
    dist_depot_send_done(entry->depot, worker, header->request, KVS_OK, "");
    dist_delete_look(entry);
}

void dist_delete_undo(dist_entry_t *entry)
{
    for (int w = 0; w < entry->depot->n_workers; w++) {
        entry->counts[w].deleted = true;
    }
    dist_delete_look(entry);
}
