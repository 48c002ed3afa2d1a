/* SPDX-License-Identifier: Apache-2.0 */
/* info_optimizer.h - the part of `kvstore info NAME` that is about an optimizer of that name: its
 * parameters and states. Nothing, if NAME is no optimizer of the plugin. */
#ifndef KVS_CLI_INFO_OPTIMIZER_H
#define KVS_CLI_INFO_OPTIMIZER_H

#include "columns.h"
#include "json.h"

#include <kvstore/plugins.h>

void cli_optimizer_text(columns_t *columns, const kvs_plugin_info_t *plugin, const char *name);
/* The member "optimizer", null if it can't be loaded. */
void cli_optimizer_json(json_t *json, const kvs_plugin_info_t *plugin, const char *name);

#endif
