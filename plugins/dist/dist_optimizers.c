/* SPDX-License-Identifier: Apache-2.0 */
/* dist_optimizers.c - the n-th set_optimizer of all workers is one call: the first to arrive is carried
 * out, the others must say the same. Earlier ones stay, for rounds that were begun with them. */
#include "dist_depot.h"

#include "dist_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dist_optimizers_free(dist_depot_t *depot)
{
    for (uint32_t i = 0; i < depot->n_optimizers; i++) {
        free(depot->optimizers[i].bytes);
        kvs_opt_free(depot->optimizers[i].opt);
    }
    free(depot->optimizers);
}

static kvs_status_t add(dist_depot_t *depot, const kvs_net_message_t *message)
{
    dist_optimizer_t *grown =
        realloc(depot->optimizers, (depot->n_optimizers + 1) * sizeof(*grown));
    dist_optimizer_t added = {.n_bytes = message->n_body_bytes, .worker = message->from->rank};
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
    added.bytes = malloc(message->n_body_bytes);
    status = added.bytes == NULL ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an optimizer")
                                 : kvs_opt_new(&spec.spec, &added.opt);
    dist_spec_release(&spec);
    if (status != KVS_OK) {
        free(added.bytes);
        return status;
    }
    memcpy(added.bytes, message->body, message->n_body_bytes);
    depot->optimizers[depot->n_optimizers++] = added;
    return KVS_OK;
}

/* An error there, and at the others' next operation. */
static void refuse_other(dist_depot_t *depot, const dist_header_t *header,
                         const kvs_net_message_t *message, const dist_optimizer_t *known)
{
    char ours[DIST_SPEC_TEXT_BYTES], theirs[DIST_SPEC_TEXT_BYTES];
    char text[2 * DIST_SPEC_TEXT_BYTES + 512];
    int worker = message->from->rank;

    snprintf(text, sizeof(text),
             "call %u of %s gives %s, but that of %s gave %s; all workers give the same",
             header->optimizer, dist_depot_worker_label(depot, worker),
             dist_spec_text(message->body, message->n_body_bytes, theirs),
             dist_depot_worker_label(depot, known->worker),
             dist_spec_text(known->bytes, known->n_bytes, ours));
    dist_depot_send_done(depot, worker, header->request, KVS_ERR_ARGUMENT, text);
    for (int w = 0; w < depot->n_workers && depot->rank == 0; w++) {
        if (w != worker) {
            char told[sizeof(text) + 32];

            snprintf(told, sizeof(told), "set_optimizer: %s", text);
            dist_depot_tell(depot, w, 0, KVS_ERR_ARGUMENT, told);
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
        const dist_optimizer_t *known = &depot->optimizers[number - 1];

        if (known->n_bytes != message->n_body_bytes ||
            memcmp(known->bytes, message->body, known->n_bytes) != 0) {
            refuse_other(depot, header, message, known);
            return;
        }
    } else {
        status = add(depot, message);
    }
    dist_depot_send_done(depot, worker, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}
