/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - see channel.h. */
#include "channel.h"

#include "clock.h"

#include <stdlib.h>

static void transmit(net_channel_t *channel, net_record_t *record)
{
    net_wire_stamp(record->frame, channel->link, record->seq, net_inlink_tell(&channel->in));
    channel->transmit(channel->arg, record->frame, record->n_frame);
}

net_record_t *net_channel_encode(const net_wire_t *wire, const net_wire_lists_t *lists)
{
    net_record_t *record = net_record_new(net_wire_size(wire, lists));

    if (record != NULL) {
        net_wire_encode(wire, lists, record->frame);
    }
    return record;
}

void net_channel_send_record(net_channel_t *channel, net_record_t *record)
{
    net_outlink_add(&channel->out, record);
    transmit(channel, record);
}

kvs_status_t net_channel_send(net_channel_t *channel, const net_wire_t *wire,
                              const net_wire_lists_t *lists)
{
    net_record_t *record = net_channel_encode(wire, lists);

    if (record == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a message to or from the scheduler");
    }
    net_channel_send_record(channel, record);
    return KVS_OK;
}

void net_channel_post(net_channel_t *channel, const net_wire_t *wire, const net_wire_lists_t *lists)
{
    net_record_t *record = net_channel_encode(wire, lists);

    if (record != NULL) { /* else it is as if it were lost */
        transmit(channel, record);
        free(record);
    }
}

static void post_beat(net_channel_t *channel, uint32_t flags)
{
    net_channel_post(
        channel,
        &(net_wire_t){.type = NET_BEAT, .flags = flags, .as.beat.last = channel->out.n_sent}, NULL);
}

void net_channel_beat(net_channel_t *channel)
{
    net_inlink_forget(&channel->in); /* a request to resend may have been lost */
    post_beat(channel, 0);
}

static void free_records(net_record_t *record)
{
    while (record != NULL) {
        net_record_t *next = record->next;

        free(record);
        record = next;
    }
}

static void resend(net_channel_t *channel)
{
    for (net_record_t *record = channel->out.first; record != NULL; record = record->next) {
        transmit(channel, record);
    }
}

static void ask_to_resend(net_channel_t *channel)
{
    if (net_inlink_ask(&channel->in)) {
        post_beat(channel, NET_RESEND);
    }
}

kvs_status_t net_channel_receive(net_channel_t *channel, const net_wire_t *wire, bool *ret_deliver)
{
    bool valid;

    *ret_deliver = false;
    free_records(net_outlink_acknowledge(&channel->out, wire->ack, &valid));
    if (!valid) {
        return kvs_fail(KVS_ERR_FORMAT, "a %s acknowledges frame %llu of %llu",
                        net_wire_name(wire->type), (unsigned long long)wire->ack,
                        (unsigned long long)channel->out.n_sent);
    }
    channel->heard = net_now();
    if ((wire->flags & NET_RESEND) != 0) {
        resend(channel);
    }
    if (wire->seq == 0) {
        if (wire->type == NET_BEAT && wire->as.beat.last > net_inlink_received(&channel->in)) {
            ask_to_resend(channel);
        }
        *ret_deliver = true;
        return KVS_OK;
    }
    switch (net_inlink_judge(&channel->in, wire->seq)) {
    case NET_TAKE:
        *ret_deliver = true;
        return KVS_OK;
    case NET_GAP:
        ask_to_resend(channel);
        return KVS_OK;
    case NET_DROP:
        return KVS_OK;
    default:
        return kvs_fail(KVS_ERR_FORMAT, "a %s with number %llu came a second time",
                        net_wire_name(wire->type), (unsigned long long)wire->seq);
    }
}

void net_channel_release(net_channel_t *channel)
{
    free_records(net_outlink_empty(&channel->out));
}
