/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - from a name to a loaded backend, optimizer, compressor or provider.
 *
 * Looks through what the program registered, then what the manifests on the search path provide
 * (read again at each create, so that an installed package is seen at once), and loads the plugin
 * at first use. One lock inside; no plugin code but its constructors and its entry runs under it:
 * from within those every function here fails with KVS_ERR_STATE. */
#ifndef KVSI_REGISTRY_H
#define KVSI_REGISTRY_H

#include <kvstore/abi.h>
#include <kvstore/plugins.h>

/* `name` as the user gave it, not empty; it is lower-cased here. Errors as kvs_store_create. */
kvs_status_t kvsi_registry_find_backend(const char *name, const kvs_backend_t **ret_backend);
kvs_status_t kvsi_registry_find_optimizer(const char *name, const kvs_optimizer_t **ret_optimizer);
kvs_status_t kvsi_registry_find_compressor(const char *name,
                                           const kvs_compressor_t **ret_compressor);
kvs_status_t kvsi_registry_find_provider(int32_t device_type, const kvs_provider_t **ret_provider);
/* The service behind kvs_optimizer_create, of the plugin `optimizers`, which comes with the library. */
kvs_status_t kvsi_registry_find_optimizer_service(const kvs_optimizer_service_t **ret_service);
/* The plugin that a backend found here came with; NULL if the program registered it. */
const kvs_plugin_t *kvsi_registry_plugin_of(const kvs_backend_t *backend);
/* Everything there is, without opening anything. */
kvs_status_t kvsi_registry_scan(kvs_plugin_list_t **ret_list);
/* Load a plugin of a scan, or a copy of its item. NULL with KVS_OK: it can't be, and its verdict says why. */
kvs_status_t kvsi_registry_load(kvs_plugin_list_t *list, kvs_plugin_info_t *info,
                                const kvs_plugin_t **ret_plugin);

#endif
