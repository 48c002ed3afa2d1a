/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - see lookup.h. */
#include "lookup.h"

#include "names.h"
#include "suggest.h"

#include <string.h>

typedef struct candidate {
    kvsi_found_t found;
    kvsi_match_t match;
} candidate_t;

/* Earlier ones in the list win among equals, so `a` must be better, not as good. */
static int is_better(const candidate_t *a, const candidate_t *b)
{
    int a_ok = a->found.plugin->state == KVS_PLUGIN_OK;
    int b_ok = b->found.plugin != NULL && b->found.plugin->state == KVS_PLUGIN_OK;

    if (a->match != b->match) {
        return a->match < b->match;
    }
    if (a_ok != b_ok) {
        return a_ok;
    }
    return a->match != KVSI_NO_MATCH && a->found.provide->priority > b->found.provide->priority;
}

/* The best that answers to `name`; `kind` NULL stands for all. */
static candidate_t choose(const kvs_plugin_list_t *list, const char *kind, const char *name)
{
    candidate_t best = {.match = KVSI_NO_MATCH};

    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *plugin = &list->plugins[i];

        if (plugin->state == KVS_PLUGIN_SHADOWED) {
            continue;
        }
        for (size_t j = 0; j < plugin->n_provides; j++) {
            const kvs_provide_t *provide = &plugin->provides[j];
            candidate_t candidate = {{plugin, provide}, KVSI_NO_MATCH};

            if (kvsi_is_kind(provide, kind)) {
                candidate.match = kvsi_name_match(name, provide);
            }
            if (candidate.match != KVSI_NO_MATCH && is_better(&candidate, &best)) {
                best = candidate;
            }
        }
    }
    return best;
}

static const kvs_plugin_info_t *plugin_named(const kvs_plugin_list_t *list, const char *name)
{
    const kvs_plugin_info_t *best = NULL;

    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *plugin = &list->plugins[i];

        if (strcmp(plugin->name, name) == 0 && plugin->state != KVS_PLUGIN_SHADOWED &&
            (best == NULL || (best->state != KVS_PLUGIN_OK && plugin->state == KVS_PLUGIN_OK))) {
            best = plugin;
        }
    }
    return best;
}

kvs_status_t kvsi_lookup(const kvs_plugin_list_t *list, const char *kind, const char *name,
                         kvsi_found_t *ret_found)
{
    candidate_t best = choose(list, kind, name);

    if (best.match == KVSI_NO_MATCH) {
        /* Of a manifest that can't be read nothing is known but its name. */
        best.found.plugin = plugin_named(list, name);
        if (best.found.plugin == NULL || best.found.plugin->n_provides > 0) {
            return kvsi_suggest_fail(list, kind, name);
        }
    }
    *ret_found = best.found;
    return KVS_OK;
}

kvs_status_t kvsi_lookup_any(const kvs_plugin_list_t *list, const char *name,
                             kvsi_found_t *ret_found)
{
    const kvs_plugin_info_t *plugin = plugin_named(list, name);
    candidate_t best = choose(list, NULL, name);

    if (plugin == NULL && best.match == KVSI_NO_MATCH) {
        return kvsi_suggest_fail(list, NULL, name);
    }
    int has_better = plugin != NULL && plugin->state != KVS_PLUGIN_OK &&
                     best.match != KVSI_NO_MATCH && best.found.plugin->state == KVS_PLUGIN_OK;
    if (plugin == NULL || has_better) {
        *ret_found = best.found;
    } else {
        *ret_found = (kvsi_found_t){plugin, NULL};
    }
    return KVS_OK;
}
