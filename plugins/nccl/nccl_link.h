/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_link.h - NCCL in a job: ids of communicators travel over the job's messages, failures end the job,
 * and a thread waits for devices, so that the job's own thread never has to. */
#ifndef NCCL_LINK_H
#define NCCL_LINK_H

#include "hvd_job.h"
#include "nccl_span.h"

typedef struct nccl_link nccl_link_t;

/* Work for the thread that waits; embedded by its owner. */
typedef struct nccl_wait {
    struct nccl_wait *next;
    void (*run)(struct nccl_wait *wait);
} nccl_wait_t;

kvs_status_t nccl_link_open(hvd_job_t *job, nccl_link_t **ret_link);
/* As hvd_engine_t.close; NULL does nothing. */
void nccl_link_close(nccl_link_t *link, bool is_over);
/* As hvd_engine_t.message. */
void nccl_link_message(nccl_link_t *link, hvd_view_t view);
/* Have `wait->run` called on the thread that waits, after what was given to it before. */
void nccl_link_wait(nccl_link_t *link, nccl_wait_t *wait);

/* Exchange the spans of `n` items of a go: theirs are the members and devices. */
kvs_status_t nccl_link_exchange(nccl_link_t *link, nccl_span_t *const *spans, size_t n,
                                const hvd_go_t *go, const nccl_span_call_t *call);

#endif
