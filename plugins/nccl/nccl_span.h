/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_span.h - the arrays of one key in an exchange of several processes: each device adds up what it has,
 * NCCL exchanges over the devices of all, each device copies the result to its outs. Streams of the program
 * are followed by the marks of the group. */
#ifndef NCCL_SPAN_H
#define NCCL_SPAN_H

#include "devscratch.h"
#include "nccl_exchange.h"

#define NCCL_MAX_ID 62 /* of devices, in a job */

/* A device's part. */
typedef struct nccl_side {
    kvs_device_t device;
    kvs_queue_t *queue;
    const void *give;
    void *got;                   /* NULL: not yet */
    const kvs_tensor_t *got_out; /* the out that `got` is, if it is one */
    kvs_mark_t mark;             /* where the queue was when the span's work had been queued */
} nccl_side_t;

typedef struct nccl_span {
    const kvs_provider_t *provider; /* NULL: not open */
    const kvs_group_t *group;
    int dtype;
    int64_t n_elems;
    kvs_key_entry_t key; /* for texts and NCCL: name and dtype */
    nccl_side_t *sides;  /* ascending */
    size_t n_sides;
    kvs_dev_scratch_t *scratch;
    uint64_t ticket;
    int64_t timeout_ms;
    int into_outs; /* results are written to outs, where a side has one of the dtype */
} nccl_span_t;

/* List the devices of the group's values, and queue their sums behind the program's streams. `keeps`: the
 * values are not looked at again, sums are copies of them. Never waits. Released also after a failure. */
kvs_status_t nccl_span_open(nccl_span_t *span, const kvs_group_t *group, int keeps);
/* A bit for each device. */
int64_t nccl_span_devices(const nccl_span_t *span);
/* Let the program's streams wait until the values have been read; says where the queues are. */
kvs_status_t nccl_span_guard_values(nccl_span_t *span);

/* What an exchange of spans is about: the same in all processes. */
typedef struct nccl_span_call {
    int is_broadcast, reduce;
    int root; /* of a broadcast: its member */
} nccl_span_call_t;

/* Exchange: every side has `got` then. worlds[i] is that of spans[i]. An array without elements needs none. */
kvs_status_t nccl_span_exchange(nccl_span_t *const *spans, const nccl_world_t *worlds, size_t n,
                                const nccl_span_call_t *call);
/* After an exchange: outs that are left on the sides' devices get their copies, those elsewhere
 * theirs from the first side, and streams wait. */
kvs_status_t nccl_span_write_outs(nccl_span_t *span);
/* Wait for the sides' marks, and ask how the exchange went. */
kvs_status_t nccl_span_wait(const nccl_span_t *span);
/* The result on a side, as an array that nobody else has. */
kvs_tensor_t nccl_span_result(const nccl_span_t *span, size_t side);
/* Memory goes when the queues are done with it. */
void nccl_span_release(nccl_span_t *span);

#endif
