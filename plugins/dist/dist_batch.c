/* SPDX-License-Identifier: Apache-2.0 */
/* dist_batch.c - a batch's body is a row of messages: length of header (4 bytes), of body (4), header, body,
 * and zeros up to a multiple of 8. */
#include "dist_batch.h"

#include "dist_message.h"

#include <stdlib.h>
#include <string.h>

#define LENGTHS    8
#define OF_A_BATCH UINT32_MAX /* as the lane of a message that came in one */

static size_t padding(size_t n)
{
    return (8 - n % 8) % 8;
}

/* ---- Writing ------------------------------------------------------------------------------------- */

bool dist_batch_add(dist_batch_t *batch, const kvs_net_send_t *net)
{
    static const uint8_t zeros[8];
    dist_bytes_t *bytes = &batch->bytes;
    size_t before = bytes->n;

    dist_put_u32(bytes, (uint32_t)net->n_header_bytes);
    dist_put_u32(bytes, (uint32_t)net->n_body_bytes);
    dist_put_bytes(bytes, net->header, net->n_header_bytes);
    dist_put_bytes(bytes, net->body, net->n_body_bytes);
    dist_put_bytes(bytes, zeros, padding(net->n_header_bytes + net->n_body_bytes));
    if (bytes->failed) {
        bytes->failed = 0;
        bytes->n = before;
        return false;
    }
    batch->n++;
    return true;
}

/* A single message goes as it is. */
static void set_single(const dist_batch_t *batch, kvs_net_send_t *net)
{
    dist_view_t view = dist_view(batch->bytes.data, batch->bytes.n);

    net->n_header_bytes = dist_get_u32(&view);
    net->n_body_bytes = dist_get_u32(&view);
    net->header = dist_get_bytes(&view, net->n_header_bytes);
    net->body = dist_get_bytes(&view, net->n_body_bytes);
}

kvs_status_t dist_batch_send(dist_batch_t *batch, kvs_net_node_t *node, const kvs_net_peer_t *to,
                             kvs_net_send_t net)
{
    dist_header_t header = {.kind = DIST_BATCH, .n = batch->n};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_status_t status;

    if (batch->n == 0) {
        return KVS_OK;
    }
    if (batch->n == 1) {
        set_single(batch, &net);
    } else {
        net.header = bytes;
        net.n_header_bytes = dist_header_encode(&header, bytes);
        net.body = batch->bytes.data;
        net.n_body_bytes = batch->bytes.n;
    }
    status = kvs_net_send(node, to, &net);
    if (status == KVS_OK) {
        batch->n = 0;
        batch->bytes.n = 0;
    }
    return status;
}

void dist_batch_release(dist_batch_t *batch)
{
    dist_bytes_release(&batch->bytes);
    batch->n = 0;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

typedef struct whole whole_t;

typedef struct part {
    kvs_net_message_t message; /* first */
    whole_t *whole;
} part_t;

struct whole {
    kvs_net_message_t *message;
    size_t n_held; /* parts that are not released yet */
    part_t parts[];
};

static bool read_part(dist_view_t *view, const kvs_net_message_t *message, kvs_net_message_t *part)
{
    size_t n_header = dist_get_u32(view), n_body = dist_get_u32(view);

    *part = *message;
    part->lane = OF_A_BATCH;
    part->n_header_bytes = n_header;
    part->n_body_bytes = n_body;
    part->header = dist_get_bytes(view, n_header);
    part->body = dist_get_bytes(view, n_body);
    (void)dist_get_bytes(view, padding(n_header + n_body));
    return !view->failed;
}

static bool read_parts(const kvs_net_message_t *message, size_t n, whole_t *whole,
                       dist_unpacked_t *unpacked)
{
    dist_view_t view = dist_view(message->body, message->n_body_bytes);

    for (size_t i = 0; i < n; i++) {
        if (!read_part(&view, message, &whole->parts[i].message)) {
            return false;
        }
        whole->parts[i].whole = whole;
        unpacked->messages[i] = &whole->parts[i].message;
    }
    return view.n_left == 0;
}

kvs_status_t dist_batch_open(kvs_net_message_t *message, int64_t n, dist_unpacked_t **ret_unpacked)
{
    bool possible = n > 0 && (uint64_t)n <= message->n_body_bytes / LENGTHS;
    size_t n_parts = possible ? (size_t)n : 0;
    whole_t *whole = malloc(sizeof(*whole) + n_parts * sizeof(part_t));
    dist_unpacked_t *unpacked = malloc(sizeof(*unpacked) + n_parts * sizeof(kvs_net_message_t *));
    kvs_status_t status = KVS_OK;

    if (whole == NULL || unpacked == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a batch of %zu messages", n_parts);
    } else if (!possible || !read_parts(message, n_parts, whole, unpacked)) {
        status =
            kvs_fail(KVS_ERR_FORMAT, "a batch of %zu bytes is malformed", message->n_body_bytes);
    }
    if (status != KVS_OK) {
        free(whole);
        free(unpacked);
        kvs_net_message_release(message);
        return status;
    }
    whole->message = message;
    whole->n_held = n_parts;
    unpacked->n = n_parts;
    *ret_unpacked = unpacked;
    return KVS_OK;
}

void dist_message_release(kvs_net_message_t *message)
{
    whole_t *whole;

    if (message == NULL || message->lane != OF_A_BATCH) {
        kvs_net_message_release(message);
        return;
    }
    whole = ((part_t *)message)->whole;
    if (--whole->n_held == 0) {
        kvs_net_message_release(whole->message);
        free(whole);
    }
}
