/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_net.h - what the plugin is to its nodes: facts, and where events, time and servers go. */
#ifndef BYTEPS_NET_H
#define BYTEPS_NET_H

#include "byteps_depot.h"

#include <kvstore/process.h>

extern const kvs_net_plugin_t byteps_plugin;

/* Of depots of workers. */
byteps_owner_t byteps_net_owner(kvs_net_process_t *process);

#endif
