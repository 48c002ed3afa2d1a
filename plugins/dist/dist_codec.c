/* SPDX-License-Identifier: Apache-2.0 */
/* dist_codec.c - gradient compression as a server knows it: the n-th set_gradient_compression of all
 * workers is one call. Earlier ones stay, for rounds that were begun with them. */
#include "dist_depot.h"

#include "dist_spec.h"

#include <stdlib.h>

void dist_codecs_free(dist_depot_t *depot)
{
    for (uint32_t i = 0; i < depot->n_codecs; i++) {
        free(depot->codecs[i].said.bytes);
        kvs_compression_free(depot->codecs[i].compression);
    }
    free(depot->codecs);
}

static kvs_status_t make(const kvs_net_message_t *message, dist_codec_t *ret_codec)
{
    dist_codec_t codec = {.compression = NULL};
    dist_spec_t spec;
    kvs_status_t status = dist_spec_decode(message->body, message->n_body_bytes, &spec);

    if (status != KVS_OK) {
        return status;
    }
    status = kvs_compression_new(spec.spec.params, spec.spec.n_params, &codec.compression);
    dist_spec_release(&spec);
    if (status == KVS_OK) {
        status = dist_said_keep(message, &codec.said);
    }
    if (status != KVS_OK) {
        kvs_compression_free(codec.compression);
        return status;
    }
    *ret_codec = codec;
    return KVS_OK;
}

static kvs_status_t add(dist_depot_t *depot, const kvs_net_message_t *message)
{
    dist_codec_t *grown = realloc(depot->codecs, (depot->n_codecs + 1) * sizeof(*grown));
    kvs_status_t status;

    if (grown == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for gradient compression");
    }
    depot->codecs = grown;
    status = make(message, &grown[depot->n_codecs]);
    depot->n_codecs += status == KVS_OK;
    return status;
}

void dist_codecs_take(dist_depot_t *depot, const dist_header_t *header,
                      const kvs_net_message_t *message)
{
    int64_t number = header->first;
    kvs_status_t status = KVS_OK;

    if (number == 0 || number > (int64_t)depot->n_codecs + 1 || number > DIST_MAX_CODECS) {
        status =
            kvs_fail(KVS_ERR_INTERNAL, "call %lld of set_gradient_compression is not the next one",
                     (long long)number);
    } else if (number > depot->n_codecs) {
        status = add(depot, message);
    } else if (!dist_said_is_same(depot, &depot->codecs[number - 1].said,
                                  "set_gradient_compression", (uint32_t)number, header, message)) {
        return;
    }
    dist_depot_send_done(depot, message->from->rank, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}
