/* SPDX-License-Identifier: Apache-2.0 */
/* dist_optimizers.c - the n-th set_optimizer of all workers is one call. Earlier ones stay, for rounds
 * that were begun with them. */
#include "dist_depot.h"

#include "dist_spec.h"

#include <stdlib.h>

void dist_optimizers_free(dist_depot_t *depot)
{
    for (uint32_t i = 0; i < depot->n_optimizers; i++) {
        free(depot->optimizers[i].said.bytes);
        kvs_opt_free(depot->optimizers[i].opt);
    }
    free(depot->optimizers);
}

static kvs_status_t add(dist_depot_t *depot, const kvs_net_message_t *message)
{
    dist_optimizer_t *grown =
        realloc(depot->optimizers, (depot->n_optimizers + 1) * sizeof(*grown));
    dist_optimizer_t added = {.opt = NULL};
    dist_spec_t spec;
    kvs_status_t status;

    if (grown == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an optimizer");
    }
    depot->optimizers = grown;
    status = dist_spec_decode(message->body, message->n_body_bytes, &spec);
    if (status != KVS_OK) {
        return status;
    }
    status = kvs_opt_new(&spec.spec, &added.opt);
    dist_spec_release(&spec);
    if (status == KVS_OK) {
        status = dist_said_keep(message, &added.said);
    }
    if (status != KVS_OK) {
        kvs_opt_free(added.opt);
        return status;
    }
    depot->optimizers[depot->n_optimizers++] = added;
    return KVS_OK;
}

/* Pushes of an asynchronous store may have waited for the optimizer. */
static void go_on(dist_depot_t *depot)
{
    for (size_t i = 0; i < depot->entries.n_items && depot->is_async; i++) {
        dist_entry_t *entry = depot->entries.items[i].value;

        if (entry != NULL) {
            dist_round_go_on(entry);
        }
    }
}

void dist_optimizers_take(dist_depot_t *depot, const dist_header_t *header,
                          const kvs_net_message_t *message)
{
    int worker = message->from->rank;
    uint32_t number = header->optimizer;
    kvs_status_t status = KVS_OK;

    if (number == 0 || number > depot->n_optimizers + 1) {
        status = kvs_fail(KVS_ERR_INTERNAL, "call %u of set_optimizer comes before call %u", number,
                          depot->n_optimizers + 1);
    } else if (number <= depot->n_optimizers) {
        if (!dist_said_is_same(depot, &depot->optimizers[number - 1].said, "set_optimizer", number,
                               header, message)) {
            return;
        }
    } else {
        status = add(depot, message);
        go_on(depot);
    }
    dist_depot_send_done(depot, worker, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}

static kvs_status_t set_attr(dist_depot_t *depot, const dist_header_t *header,
                             const kvs_net_message_t *message)
{
    dist_spec_t spec;
    kvs_status_t status = dist_spec_decode(message->body, message->n_body_bytes, &spec);

    if (status != KVS_OK) {
        return status;
    }
    if (header->optimizer == 0 || header->optimizer > depot->n_optimizers ||
        spec.spec.n_params != 1) {
        status = kvs_fail(KVS_ERR_FORMAT, "an attribute of optimizer %u, of %u, does not fit",
                          header->optimizer, depot->n_optimizers);
    } else {
        status = kvs_opt_set_attr(depot->optimizers[header->optimizer - 1].opt, spec.spec.params);
    }
    dist_spec_release(&spec);
    return status;
}

void dist_optimizers_take_attr(dist_depot_t *depot, const dist_header_t *header,
                               const kvs_net_message_t *message)
{
    kvs_status_t status = set_attr(depot, header, message);

    dist_depot_send_done(depot, message->from->rank, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}
