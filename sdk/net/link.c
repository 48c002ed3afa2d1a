/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - see link.h. */
#include "link.h"

#include <stdlib.h>

net_record_t *net_record_new(size_t n_frame)
{
    net_record_t *record =
        n_frame > SIZE_MAX - sizeof(*record) ? NULL : malloc(sizeof(*record) + n_frame);

    if (record != NULL) {
        *record = (net_record_t){.frame = (uint8_t *)(record + 1), .n_frame = n_frame};
        atomic_init(&record->holds, 1);
    }
    return record;
}

size_t net_record_bytes(const net_record_t *record)
{
    return record->n_frame + record->n_body;
}

bool net_record_drop(net_record_t *record)
{
    return atomic_fetch_sub_explicit(&record->holds, 1, memory_order_acq_rel) == 1;
}

void net_outlink_add(net_outlink_t *link, net_record_t *record)
{
    record->seq = ++link->n_sent;
    record->next = NULL;
    if (link->last == NULL) {
        link->first = record;
    } else {
        link->last->next = record;
    }
    link->last = record;
    link->n_bytes += net_record_bytes(record);
}

net_record_t *net_outlink_acknowledge(net_outlink_t *link, uint64_t ack, bool *ret_valid)
{
    net_record_t *first = link->first, *end = NULL;

    *ret_valid = ack <= link->n_sent;
    if (!*ret_valid || ack <= link->n_acked) {
        return NULL;
    }
    link->n_acked = ack;
    while (link->first != NULL && link->first->seq <= ack) {
        end = link->first;
        link->n_bytes -= net_record_bytes(end);
        link->first = end->next;
    }
    if (link->first == NULL) {
        link->last = NULL;
    }
    if (end == NULL) {
        return NULL;
    }
    end->next = NULL;
    return first;
}

net_record_t *net_outlink_empty(net_outlink_t *link)
{
    net_record_t *first = link->first;

    link->first = link->last = NULL;
    link->n_bytes = 0;
    return first;
}

net_verdict_t net_inlink_judge(net_inlink_t *link, uint64_t seq)
{
    uint64_t received = net_inlink_received(link);

    if (seq == received + 1) {
        atomic_store_explicit(&link->n_received, seq, memory_order_relaxed);
        link->resend_asked = false;
        return NET_TAKE;
    }
    if (seq > received) {
        return NET_GAP;
    }
    return link->resent_before ? NET_DROP : NET_REPLAY;
}

bool net_inlink_ask(net_inlink_t *link)
{
    if (link->resend_asked) {
        return false;
    }
    link->resend_asked = link->resent_before = true;
    return true;
}

void net_inlink_forget(net_inlink_t *link)
{
    link->resend_asked = false;
}
