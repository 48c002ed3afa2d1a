/* SPDX-License-Identifier: Apache-2.0 */
/* dist_said.c - calls that every worker makes alike: the n-th calls of all workers are one call. The first
 * to arrive is carried out, the others must say the same. */
#include "dist_depot.h"

#include "dist_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kvs_status_t dist_said_keep(const kvs_net_message_t *message, dist_said_t *ret_said)
{
    uint8_t *bytes = malloc(message->n_body_bytes + 1);

    if (bytes == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a specification of %zu bytes",
                        message->n_body_bytes);
    }
    memcpy(bytes, message->body, message->n_body_bytes);
    *ret_said = (dist_said_t){bytes, message->n_body_bytes, message->from->rank};
    return KVS_OK;
}

/* An error there, and at the others' next operation. */
static void refuse_other(dist_depot_t *depot, const dist_said_t *said, const char *call,
                         uint32_t number, const dist_header_t *header,
                         const kvs_net_message_t *message)
{
    char ours[DIST_SPEC_TEXT_BYTES], theirs[DIST_SPEC_TEXT_BYTES];
    char text[2 * DIST_SPEC_TEXT_BYTES + 512];
    int worker = message->from->rank;

    snprintf(text, sizeof(text),
             "call %u of %s gives %s, but that of %s gave %s; all workers give the same", number,
             dist_depot_worker_label(depot, worker),
             dist_spec_text(message->body, message->n_body_bytes, theirs),
             dist_depot_worker_label(depot, said->worker),
             dist_spec_text(said->bytes, said->n_bytes, ours));
    for (int w = 0; w < depot->n_workers && depot->rank == 0; w++) {
        if (w != worker) { /* before it can tell them by other ways */
            char told[sizeof(text) + 32];

            snprintf(told, sizeof(told), "%s: %s", call, text);
            dist_depot_tell(depot, w, 0, KVS_ERR_ARGUMENT, told);
        }
    }
    dist_depot_send_done(depot, worker, header->request, KVS_ERR_ARGUMENT, text);
}

bool dist_said_is_same(dist_depot_t *depot, const dist_said_t *said, const char *call,
                       uint32_t number, const dist_header_t *header,
                       const kvs_net_message_t *message)
{
    if (said->n_bytes == message->n_body_bytes &&
        memcmp(said->bytes, message->body, said->n_bytes) == 0) {
        return true;
    }
    refuse_other(depot, said, call, number, header, message);
    return false;
}
