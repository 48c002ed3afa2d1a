/* SPDX-License-Identifier: Apache-2.0 */
/* The control connection when it loses, repeats and invents frames: what is sent arrives once and in
 * order, and what cannot be is refused. Two channels back to back, without sockets. */
#include "channel.h"
#include "clock.h"
#include "kt.h"

#include <stdlib.h>

#define MAX_FRAMES 4096

typedef struct end {
    net_channel_t channel;
    struct end *other;
    uint8_t *frames[MAX_FRAMES]; /* on the way to this end */
    size_t sizes[MAX_FRAMES];
    size_t first, n;
    uint32_t lose;            /* of 100 frames sent by this end */
    uint32_t got[MAX_FRAMES]; /* numbers delivered */
    size_t n_got;
    kvs_status_t status;
} end_t;

static uint32_t seed = 12345;

static uint32_t next_random(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static void transmit(void *arg, const void *frame, size_t n)
{
    end_t *from = arg, *to = from->other;

    if (next_random() % 100 < from->lose || to->n == MAX_FRAMES) {
        return;
    }
    to->frames[to->n] = malloc(n);
    memcpy(to->frames[to->n], frame, n);
    to->sizes[to->n++] = n;
}

static void set_up(end_t *a, end_t *b)
{
    *a = (end_t){.other = b, .channel = {.transmit = transmit, .arg = a}};
    *b = (end_t){.other = a, .channel = {.transmit = transmit, .arg = b}};
}

static void take_next(end_t *end)
{
    net_wire_t wire;
    bool deliver;

    KT_OK(net_wire_decode(end->frames[end->first], end->sizes[end->first], &wire));
    end->status = net_channel_receive(&end->channel, &wire, &deliver);
    if (end->status == KVS_OK && deliver && wire.type == NET_BARRIER) {
        end->got[end->n_got++] = wire.as.request.number;
    }
    free(end->frames[end->first++]);
}

static void take_all(end_t *a, end_t *b)
{
    while (a->first < a->n || b->first < b->n) {
        if (a->first < a->n) {
            take_next(a);
        }
        if (b->first < b->n) {
            take_next(b);
        }
    }
    a->first = a->n = b->first = b->n = 0;
}

static void send_number(end_t *end, uint32_t number)
{
    net_wire_t wire = {.type = NET_BARRIER, .as.request.number = number};

    KT_OK(net_channel_send(&end->channel, &wire, NULL));
}

static void release(end_t *a, end_t *b)
{
    take_all(a, b);
    net_channel_release(&a->channel);
    net_channel_release(&b->channel);
}

static void frames_arrive_in_order(void)
{
    static end_t a, b;

    set_up(&a, &b);
    for (uint32_t i = 1; i <= 5; i++) {
        send_number(&a, i);
    }
    take_all(&a, &b);
    KT_INT(b.n_got, 5);
    for (uint32_t i = 0; i < 5; i++) {
        KT_INT(b.got[i], i + 1);
    }
    net_channel_beat(&b.channel); /* acknowledges */
    take_all(&a, &b);
    KT_TRUE(a.channel.out.first == NULL);
    release(&a, &b);
}

static void lost_frames_are_sent_again(void)
{
    static end_t a, b;

    set_up(&a, &b);
    a.lose = b.lose = 30;
    for (uint32_t i = 1; i <= 200; i++) {
        send_number(&a, i);
        send_number(&b, 1000 + i);
        take_all(&a, &b);
    }
    for (int i = 0; i < 200 && (a.n_got < 200 || b.n_got < 200); i++) {
        net_channel_beat(&a.channel);
        net_channel_beat(&b.channel);
        take_all(&a, &b);
    }
    KT_INT(b.n_got, 200);
    KT_INT(a.n_got, 200);
    for (uint32_t i = 0; i < 200 && i < b.n_got && i < a.n_got; i++) {
        KT_INT(b.got[i], i + 1);
        KT_INT(a.got[i], 1001 + i);
    }
    KT_OK(a.status);
    KT_OK(b.status);
    release(&a, &b);
}

static void a_last_frame_that_is_lost_comes_with_the_next_beat(void)
{
    static end_t a, b;

    set_up(&a, &b);
    a.lose = 100;
    send_number(&a, 1);
    a.lose = 0;
    take_all(&a, &b);
    KT_INT(b.n_got, 0);
    net_channel_beat(&a.channel);
    take_all(&a, &b);
    KT_INT(b.n_got, 1);
    release(&a, &b);
}

static void a_replayed_frame_is_refused(void)
{
    static end_t a, b;

    set_up(&a, &b);
    send_number(&a, 1);
    b.frames[b.n] = malloc(b.sizes[0]);
    memcpy(b.frames[b.n], b.frames[0], b.sizes[0]);
    b.sizes[b.n++] = b.sizes[0];
    take_next(&b);
    take_next(&b);
    KT_FAIL(b.status, KVS_ERR_FORMAT, "BARRIER with number 1 came a second time");
    KT_INT(b.n_got, 1);
    release(&a, &b);
}

static void an_acknowledgement_of_what_was_never_sent_is_refused(void)
{
    static end_t a, b;
    net_wire_t wire = {.type = NET_BEAT, .ack = 7};
    bool deliver;

    set_up(&a, &b);
    KT_FAIL(net_channel_receive(&a.channel, &wire, &deliver), KVS_ERR_FORMAT,
            "acknowledges frame 7 of 0");
    release(&a, &b);
}

static const kt_test_t tests[] = {
    KT_TEST(frames_arrive_in_order),
    KT_TEST(lost_frames_are_sent_again),
    KT_TEST(a_last_frame_that_is_lost_comes_with_the_next_beat),
    KT_TEST(a_replayed_frame_is_refused),
    KT_TEST(an_acknowledgement_of_what_was_never_sent_is_refused),
};

KT_MAIN("channel", tests)
