/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - every setting there is, its value, and where it came from: for `kvstore config`.
 *
 * The core's own settings, then the options of every usable plugin. Values are those a store created
 * now without options would get. Strings are never NULL and live until kvs_setting_list_free. */
#ifndef KVSTORE_SETTINGS_H
#define KVSTORE_SETTINGS_H

#include <kvstore/kvstore.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvs_setting {
    const char *owner; /* "core", or the plugin's name */
    const char *name;
    const char
        *type; /* "int", "size", "float", "bool", "text", "time" (seconds), "level", "threads" */
    const char *value;
    const char *origin; /* "default", "variable KVSTORE_TIMEOUT", "/etc/kvstore/kvstore.conf:3" */
    const char *preset; /* the default */
    const char *doc;
    const char *error; /* why create would refuse the value; "" if it would not */
} kvs_setting_t;

typedef struct kvs_setting_list kvs_setting_list_t;

/* ERR_FORMAT, ERR_IO: a configuration file is malformed or can't be read. */
KVS_API kvs_status_t kvs_setting_list(kvs_setting_list_t **ret_list);
KVS_API void kvs_setting_list_free(kvs_setting_list_t *list); /* NULL does nothing */
KVS_API size_t kvs_setting_list_count(const kvs_setting_list_t *list);
/* NULL if `index` is not below the count. */
KVS_API const kvs_setting_t *kvs_setting_list_at(const kvs_setting_list_t *list, size_t index);
/* Whether create would take the value of `default`, `required` or `trace`, which is only known by trying:
 * plugins that they name are loaded into this process; no file is made. Of other settings, ERR_ARGUMENT
 * with the text of `error` if there is one. Errors are those of kvs_store_create, with the origin. */
KVS_API kvs_status_t kvs_setting_try(const kvs_setting_t *setting);
/* What is set and nobody reads: keys of the configuration files and variables KVSTORE_…, with near
 * names. They may be those of a plugin that is not installed; most are slips. */
KVS_API size_t kvs_setting_list_n_notes(const kvs_setting_list_t *list);
KVS_API const char *kvs_setting_list_note(const kvs_setting_list_t *list, size_t index);

#ifdef __cplusplus
}
#endif
#endif
