/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - one constant table for all plugins: it only names functions of the core. */
#include "host.h"

#include "config.h"
#include "engine.h"
#include "log.h"
#include "pool.h"
#include "registry.h"
#include "status.h"
#include "trace.h"

const kvs_host_t *kvsi_host(void)
{
    static const kvs_host_t host = {
        .size = (uint32_t)sizeof(host),
        .abi_major = KVS_ABI_MAJOR,
        .abi_minor = KVS_ABI_MINOR,
        .version = KVS_VERSION_TEXT,
        .fail = kvs_fail,
        .fail_context = kvsi_fail_context,
        .log = kvsi_log,
        .parallel_for = kvsi_pool_parallel_for,
        .consumed = kvsi_engine_consumed,
        .complete = kvsi_engine_complete,
        .option = kvsi_config_text,
        .find_optimizer = kvsi_registry_find_optimizer,
        .find_provider = kvsi_registry_find_provider,
        .trace_begin = kvsi_trace_begin,
        .trace_end = kvsi_trace_end,
        .last_error = kvs_last_error,
        .find_compressor = kvsi_registry_find_compressor,
    };

    return &host;
}
