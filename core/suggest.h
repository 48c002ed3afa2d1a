/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.h - the error for a name that nothing installed answers to: what is near, what is
 * installed, what is known and which package brings it, and where was searched. */
#ifndef KVSI_SUGGEST_H
#define KVSI_SUGGEST_H

#include "discovery.h"

/* KVS_ERR_UNAVAILABLE if the catalogue knows the name, else KVS_ERR_NOT_FOUND. `kind` NULL stands
 * for all kinds and for names of plugins. */
kvs_status_t kvsi_suggest_fail(const kvs_plugin_list_t *list, const char *kind, const char *name);
/* "device, local": the installed backends that take arrays of a device by that name; "none" of these. */
#define KVSI_TAKERS_BYTES 256
const char *kvsi_suggest_takers(const char *device, char text[KVSI_TAKERS_BYTES]);
/* Whether `provide` is of that kind; NULL stands for all. */
int kvsi_is_kind(const kvs_provide_t *provide, const char *kind);

#endif
