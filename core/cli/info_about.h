/* SPDX-License-Identifier: Apache-2.0 */
/* info_about.h - the part of `kvstore info NAME` that is about this machine: whether the plugin can work
 * here, and what it found, such as versions of libraries. It is loaded for that, in a child process. */
#ifndef KVS_CLI_INFO_ABOUT_H
#define KVS_CLI_INFO_ABOUT_H

#include "columns.h"
#include "json.h"

#include <kvstore/plugins.h>

/* Nothing, if the plugin can't be loaded for a reason that is told already. */
void cli_about_text(columns_t *columns, kvs_plugin_list_t *list, const kvs_plugin_info_t *plugin);
/* The member "machine": {state, reason, found: [{label, text}]}; null as above. */
void cli_about_json(json_t *json, kvs_plugin_list_t *list, const kvs_plugin_info_t *plugin);

#endif
