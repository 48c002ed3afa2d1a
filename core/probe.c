/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - see probe.h. */
#include "probe.h"

#include "config.h"
#include "status.h"

kvs_status_t kvsi_probe(const kvs_backend_t *backend, const kvs_config_t *config)
{
    if (backend->ops->probe == NULL) {
        return KVS_OK;
    }
    kvsi_status_clear(); /* the reason must be its own */
    if (backend->ops->probe(config) == KVS_OK) {
        return KVS_OK;
    }
    if (kvs_last_error()[0] == '\0') {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "backend '%s' is unavailable and gives no reason",
                        backend->name);
    }
    return kvsi_fail_context(KVS_ERR_UNAVAILABLE, "backend '%s' is unavailable", backend->name);
}

kvs_status_t kvsi_probe_preset(const kvs_backend_t *backend)
{
    kvs_config_t *config;
    kvs_status_t status;

    if (backend->ops->probe == NULL) {
        return KVS_OK;
    }
    status = kvsi_config_new(backend, NULL, 0, &config);
    if (status == KVS_OK) {
        status = kvsi_probe(backend, config);
        kvsi_config_free(config);
    }
    return status;
}
