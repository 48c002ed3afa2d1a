/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - see probe.h. */
#include "probe.h"

#include "config.h"
#include "registry.h"
#include "status.h"

#include <string.h>

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

kvs_status_t kvsi_probe_name(const char *name)
{
    const kvs_backend_t *backend;
    kvs_status_t status;

    if (name[0] == '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "the name of a store is empty");
    }
    status = kvsi_registry_find_backend(name, &backend);
    return status == KVS_OK ? kvsi_probe_preset(backend) : status;
}

kvs_status_t kvsi_probe_list(kvsi_arena_t *arena, const char *list)
{
    kvs_status_t status = KVS_OK;

    while (status == KVS_OK && *list != '\0') {
        size_t len = strcspn(list, ", ");

        if (len > 0) {
            status = kvsi_probe_name(kvsi_arena_copy(arena, list, len));
        }
        list += len + (list[len] != '\0');
    }
    return status;
}
