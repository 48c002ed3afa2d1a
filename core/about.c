/* SPDX-License-Identifier: Apache-2.0 */
/* about.c - what a plugin tells of the machine it is on, for `kvstore info`. Also one that can't work here is
 * asked, as long as it can be loaded: what it lacks is the most interesting then. */
#include "config.h"
#include "discovery.h"
#include "manifest.h"
#include "registry.h"
#include "verdict.h"

#include <string.h>

typedef void (*line_t)(void *arg, const char *label, const char *text);

static kvs_status_t ask(const kvs_plugin_t *plugin, line_t line, void *arg)
{
    kvs_config_t *config = NULL;
    kvs_status_t status =
        plugin->n_backends > 0 ? kvsi_config_new(plugin->backends[0], NULL, 0, &config) : KVS_OK;

    if (status == KVS_OK) {
        plugin->about(config, line, arg);
    }
    kvsi_config_free(config);
    return status;
}

kvs_status_t kvs_plugin_about(kvs_plugin_list_t *list, size_t index, line_t line, void *arg)
{
    const kvs_plugin_t *plugin = NULL;

    if (line == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_about: line is NULL");
    }
    if (index >= kvs_plugin_list_count(list)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_about: there is no item %zu in a list of %zu",
                        index, kvs_plugin_list_count(list));
    }
    kvs_plugin_info_t info = list->plugins[index]; /* its own verdict stays */

    if (strcmp(info.manifest, KVSI_MANIFEST_PROGRAM) == 0) {
        return KVS_OK; /* no plugin */
    }
    if (info.state == KVS_PLUGIN_UNAVAILABLE) {
        info.state = KVS_PLUGIN_OK;
    }
    kvs_status_t status = kvsi_registry_load(list, &info, &plugin);

    if (status == KVS_OK && plugin == NULL) {
        status = kvsi_verdict_fail(&info);
    }
    return status == KVS_OK && plugin->about != NULL ? ask(plugin, line, arg) : status;
}
