/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_device_none.c - in place of hvd_device.c where NCCL's headers were missing at build time. */
#include "hvd_device.h"

#include <stdio.h>

kvs_status_t hvd_nccl_check(void)
{
    return kvs_fail(KVS_ERR_UNAVAILABLE, "this horovod was built without NCCL's headers");
}

const char *hvd_nccl_text(char *text, size_t n_bytes)
{
    snprintf(text, n_bytes, "this horovod was built without its headers");
    return text;
}

kvs_status_t hvd_nccl_open(hvd_job_t *job, hvd_nccl_t **ret_nccl)
{
    (void)job;
    (void)ret_nccl;
    return hvd_nccl_check();
}

void hvd_nccl_close(hvd_nccl_t *nccl, bool is_over)
{
    (void)nccl;
    (void)is_over;
}

void hvd_nccl_message(hvd_nccl_t *nccl, hvd_view_t view)
{
    (void)nccl;
    (void)view;
}

kvs_status_t hvd_nccl_run(hvd_pending_t *const *pending, size_t n, const hvd_go_t *go)
{
    (void)pending;
    (void)n;
    (void)go;
    return hvd_nccl_check();
}

bool hvd_device_takes(const kvs_op_t *op)
{
    (void)op;
    return false;
}

kvs_status_t hvd_device_open(hvd_nccl_t *nccl, kvs_devstore_t *streams, const kvs_group_t *group,
                             int64_t timeout_ms, hvd_device_t **ret_device)
{
    (void)nccl;
    (void)streams;
    (void)group;
    (void)timeout_ms;
    (void)ret_device;
    return hvd_nccl_check();
}

int64_t hvd_device_mask(const hvd_device_t *device)
{
    (void)device;
    return 0;
}

bool hvd_device_end_later(hvd_device_t *device,
                          void (*end)(void *arg, kvs_status_t status, const char *text), void *arg)
{
    (void)device;
    (void)end;
    (void)arg;
    return false;
}

void hvd_device_close(hvd_device_t *device)
{
    (void)device;
}
