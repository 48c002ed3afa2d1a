/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - from a name to a loaded backend, optimizer or provider.
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
kvs_status_t kvsi_registry_find_provider(int32_t device_type, const kvs_provider_t **ret_provider);
/* Everything there is, without opening anything. */
kvs_status_t kvsi_registry_scan(kvs_plugin_list_t **ret_list);

#endif
