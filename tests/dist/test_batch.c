/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch.c - small messages that travel as one. The net is a stand-in, which keeps what was sent and
 * counts what is released. */
#include "../kit/fake_host.h"
#include "dist_batch.h"

#include "dist_message.h"

#include <kt.h>
#include <stdlib.h>

static struct {
    kvs_status_t status; /* of the next send */
    uint8_t header[DIST_MAX_HEADER_BYTES];
    size_t n_header;
    uint8_t *body; /* exactly as long as it is, so that reading past it is found */
    size_t n_body;
    int n_released;
} net;

kvs_status_t kvs_net_send(kvs_net_node_t *node, const kvs_net_peer_t *to,
                          const kvs_net_send_t *send)
{
    (void)node;
    (void)to;
    if (net.status != KVS_OK) {
        return net.status;
    }
    memcpy(net.header, send->header, send->n_header_bytes);
    net.n_header = send->n_header_bytes;
    free(net.body);
    net.body = malloc(send->n_body_bytes + 1);
    memcpy(net.body, send->body, send->n_body_bytes);
    net.n_body = send->n_body_bytes;
    return KVS_OK;
}

void kvs_net_message_release(kvs_net_message_t *message)
{
    net.n_released += message != NULL;
}

/* Messages of 0, 1, 2, … bytes. */
static void fill(dist_batch_t *batch, int n)
{
    for (int i = 0; i < n; i++) {
        dist_header_t header = {.kind = DIST_PULL, .key = 1 + (uint64_t)i, .request = 7};
        uint8_t bytes[DIST_MAX_HEADER_BYTES], body[64];
        kvs_net_send_t send = KVS_NET_SEND_INIT;

        memset(body, i, sizeof(body));
        send.header = bytes;
        send.n_header_bytes = dist_header_encode(&header, bytes);
        send.body = body;
        send.n_body_bytes = (size_t)i;
        KT_TRUE(dist_batch_add(batch, &send));
    }
}

static kvs_status_t send(dist_batch_t *batch)
{
    return dist_batch_send(batch, NULL, NULL, (kvs_net_send_t)KVS_NET_SEND_INIT);
}

static kvs_net_message_t received(void)
{
    return (kvs_net_message_t){.store = 3,
                               .lane = 1,
                               .header = net.header,
                               .n_header_bytes = net.n_header,
                               .body = net.body,
                               .n_body_bytes = net.n_body};
}

static void a_batch_is_read_as_it_was_written(void)
{
    enum { N = 20 };
    dist_batch_t batch = {.n = 0};
    kvs_net_message_t whole;
    dist_unpacked_t *unpacked = NULL;
    dist_header_t header;

    fill(&batch, N);
    KT_OK(send(&batch));
    KT_INT(batch.n, 0);
    KT_OK(dist_header_decode(net.header, net.n_header, net.n_body, &header));
    KT_INT(header.kind, DIST_BATCH);
    KT_INT(header.n, N);
    whole = received();
    net.n_released = 0;
    KT_OK(dist_batch_open(&whole, header.n, &unpacked));
    KT_INT(unpacked->n, N);
    for (size_t i = 0; i < N; i++) {
        kvs_net_message_t *message = unpacked->messages[i];
        dist_header_t part = {.kind = 0};

        KT_INT(message->store, 3);
        KT_INT(message->n_body_bytes, i);
        KT_INT((uintptr_t)message->body % 8, 0);
        for (size_t k = 0; k < i; k++) {
            KT_INT(((const uint8_t *)message->body)[k], i);
        }
        (void)dist_header_decode(message->header, message->n_header_bytes, 0, &part);
        KT_TRUE(part.key == 1 + i);
    }
    for (size_t i = 0; i < N; i++) { /* in any order; the whole goes with the last one */
        KT_INT(net.n_released, 0);
        dist_message_release(unpacked->messages[(i + 7) % N]);
    }
    KT_INT(net.n_released, 1);
    free(unpacked);
    dist_batch_release(&batch);
}

static void a_single_message_goes_by_itself(void)
{
    dist_batch_t batch = {.n = 0};
    kvs_net_message_t alone;
    dist_header_t header;

    KT_OK(send(&batch)); /* nothing */
    fill(&batch, 1);
    KT_OK(send(&batch));
    KT_OK(dist_header_decode(net.header, net.n_header, net.n_body, &header));
    KT_INT(header.kind, DIST_PULL);
    KT_INT(net.n_body, 0);
    alone = received();
    net.n_released = 0;
    dist_message_release(&alone);
    dist_message_release(NULL);
    KT_INT(net.n_released, 1);
    dist_batch_release(&batch);
}

static void what_finds_no_room_stays(void)
{
    dist_batch_t batch = {.n = 0};

    fill(&batch, 3);
    net.status = KVS_NET_AGAIN;
    KT_INT(send(&batch), KVS_NET_AGAIN);
    KT_INT(batch.n, 3);
    net.status = KVS_ERR_PEER;
    KT_INT(send(&batch), KVS_ERR_PEER);
    KT_INT(batch.n, 3);
    net.status = KVS_OK;
    KT_OK(send(&batch));
    KT_INT(batch.n, 0);
    dist_batch_release(&batch);
}

static void a_batch_of_another_length_or_number_is_refused(void)
{
    dist_batch_t batch = {.n = 0};
    dist_unpacked_t *unpacked = NULL;
    size_t n_body;

    fill(&batch, 4);
    KT_OK(send(&batch));
    n_body = net.n_body;
    net.n_released = 0;
    for (size_t i = 0; i < n_body; i++) {
        kvs_net_message_t whole = received();
        uint8_t *cut = malloc(i + 1);

        memcpy(cut, net.body, i);
        whole.body = cut;
        whole.n_body_bytes = i;
        KT_FAIL(dist_batch_open(&whole, 4, &unpacked), KVS_ERR_FORMAT, "is malformed");
        free(cut);
    }
    KT_INT(net.n_released, n_body);
    for (int64_t n = -1; n < 7; n++) {
        kvs_net_message_t whole = received();

        if (n != 4) {
            KT_FAIL(dist_batch_open(&whole, n, &unpacked), KVS_ERR_FORMAT, "is malformed");
        }
    }
    kvs_net_message_t whole = received();

    KT_FAIL(dist_batch_open(&whole, INT64_MAX, &unpacked), KVS_ERR_FORMAT, "is malformed");
    free(net.body);
    net.body = NULL;
    dist_batch_release(&batch);
}

static const kt_test_t tests[] = {
    KT_TEST(a_batch_is_read_as_it_was_written),
    KT_TEST(a_single_message_goes_by_itself),
    KT_TEST(what_finds_no_room_stays),
    KT_TEST(a_batch_of_another_length_or_number_is_refused),
};

KT_MAIN("batch", tests)
