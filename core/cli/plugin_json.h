/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_json.h - a plugin as JSON, for `list`, `info` and `doctor`: its manifest's members under
 * the manifest's names, and state, reason, fix, notes, the manifest's path, and found for each
 * library required. */
#ifndef KVS_CLI_PLUGIN_JSON_H
#define KVS_CLI_PLUGIN_JSON_H

#include "json.h"

#include <kvstore/plugins.h>

/* `name` of the member that it becomes, or NULL. */
void cli_plugin_json(json_t *json, const char *name, const kvs_plugin_info_t *plugin);
/* The same, but the object stays open: more members may follow, then json_close. */
void cli_plugin_json_open(json_t *json, const char *name, const kvs_plugin_info_t *plugin);

#endif
