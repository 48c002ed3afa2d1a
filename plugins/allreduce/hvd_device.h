/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_device.h - the engine nccl: exchanges of arrays that are all on devices go through NCCL, by the parts
 * that the backend nccl is made of too. Built without them it is not there, and such arrays go through the
 * host. */
#ifndef HVD_DEVICE_H
#define HVD_DEVICE_H

#include "hvd_job.h"

#include <kvstore/kit.h>

typedef struct hvd_device hvd_device_t; /* one key of an operation */
typedef struct hvd_nccl hvd_nccl_t;     /* NCCL in this process's job */

/* ERR_UNAVAILABLE: what is missing is in the text. */
kvs_status_t hvd_nccl_check(void);
/* "NCCL 2.28.9, libnccl.so.2", or why not. */
const char *hvd_nccl_text(char *text, size_t n_bytes);

kvs_status_t hvd_nccl_open(hvd_job_t *job, hvd_nccl_t **ret_nccl);
void hvd_nccl_close(hvd_nccl_t *nccl, bool is_over); /* NULL does nothing */
void hvd_nccl_message(hvd_nccl_t *nccl, hvd_view_t view);
/* Carry out what pending->device of `n` items is about. */
kvs_status_t hvd_nccl_run(hvd_pending_t *const *pending, size_t n, const hvd_go_t *go);

/* Whether all arrays are on devices, and NCCL has what is to be done with them. */
bool hvd_device_takes(const kvs_op_t *op);
/* Begin with a group: values are read behind their streams. Never waits. `streams` lends its list of marks. */
kvs_status_t hvd_device_open(hvd_nccl_t *nccl, kvs_devstore_t *streams, const kvs_group_t *group,
                             int64_t timeout_ms, hvd_device_t **ret_device);
int64_t hvd_device_mask(const hvd_device_t *device);
/* The exchange has been issued: call end(arg, …) when the arrays may be used: at once and false, or, true,
 * later on a thread that waits. */
bool hvd_device_end_later(hvd_device_t *device,
                          void (*end)(void *arg, kvs_status_t status, const char *text), void *arg);
void hvd_device_close(hvd_device_t *device); /* NULL does nothing */

#endif
