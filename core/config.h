/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the settings of one store: options of create, behind them the environment. */
#ifndef KVSI_CONFIG_H
#define KVSI_CONFIG_H

#include <kvstore/abi.h>

/* Gather the core's settings and those of `backend`. ERR_ARGUMENT: an option neither knows, with
 * near names; a malformed value, naming the option or variable it came from. */
kvs_status_t kvsi_config_new(const kvs_backend_t *backend, const kvs_option_t *options,
                             size_t n_options, kvs_config_t **ret_config);
void kvsi_config_free(kvs_config_t *config);

/* The text of a setting, or NULL if there is none of that name. Lives as long as the config. */
const char *kvsi_config_text(const kvs_config_t *config, const char *name);
/* A setting of type time, in milliseconds. The value was checked when the config was made. */
int64_t kvsi_config_time_ms(const kvs_config_t *config, const char *name);

#endif
