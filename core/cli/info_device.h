/* SPDX-License-Identifier: Apache-2.0 */
/* info_device.h - the part of `kvstore info NAME` that is about devices, of a plugin that provides some:
 * the driver, each device, and which reach which. The plugin is loaded for that. */
#ifndef KVS_CLI_INFO_DEVICE_H
#define KVS_CLI_INFO_DEVICE_H

#include "columns.h"
#include "json.h"

#include <kvstore/plugins.h>

/* Nothing, if the plugin provides no devices; the reason, if they can't be used. */
void cli_device_text(columns_t *columns, const kvs_plugin_info_t *plugin);
/* The member "hardware": {reason, devices}. */
void cli_device_json(json_t *json, const kvs_plugin_info_t *plugin);

#endif
