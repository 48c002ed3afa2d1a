/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the settings of one store, and of the process: each comes from an option of create,
 * else a variable KVSTORE_NAME, else another variable that means the same, else the configuration
 * files, else its default. Its type is checked wherever it comes from. */
#ifndef KVSI_CONFIG_H
#define KVSI_CONFIG_H

#include "conffile.h"

#include <kvstore/abi.h>

#include <stdbool.h>

/* The core's own settings: the first is "default". NULL past the last. */
const kvs_option_info_t *kvsi_config_core_option(size_t index);

/* Gather the core's settings and those of `backend`. ERR_ARGUMENT: an option neither knows, with
 * near names; a malformed value, naming the option, variable or file:line it came from. ERR_FORMAT:
 * a malformed configuration file. */
kvs_status_t kvsi_config_new(const kvs_backend_t *backend, const kvs_option_t *options,
                             size_t n_options, kvs_config_t **ret_config);
void kvsi_config_free(kvs_config_t *config);

/* The text of a setting, or NULL if there is none of that name. Lives as long as the config. */
const char *kvsi_config_text(const kvs_config_t *config, const char *name);
/* Whether somebody set it, so that its value is not merely the default. */
bool kvsi_config_is_given(const kvs_config_t *config, const char *name);
/* A setting of type time, in milliseconds; 0 only if it is 0, which may mean for ever. The value
 * was checked when the config was made. */
int64_t kvsi_config_time_ms(const kvs_config_t *config, const char *name);

/* One setting of the process, outside a store: "default", "required". The text lives in `arena`. */
kvs_status_t kvsi_config_lookup(kvsi_arena_t *arena, const char *name, const char **ret_text);

/* Where a setting's value comes from when no option gives it. `ret_origin`: "default",
 * "variable KVSTORE_TIMEOUT", "/etc/kvstore/kvstore.conf:3". */
void kvsi_config_source(kvsi_arena_t *arena, const kvsi_conf_t *conf, const kvs_option_info_t *info,
                        const char **ret_text, const char **ret_origin);
/* ERR_ARGUMENT names `origin` and what is accepted. */
kvs_status_t kvsi_config_check(const kvs_option_info_t *info, const char *text, const char *origin);

#endif
