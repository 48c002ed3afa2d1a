/* SPDX-License-Identifier: Apache-2.0 */
/* dist_net.h - what the plugin is to its nodes: facts, and where events, time and servers go. */
#ifndef DIST_NET_H
#define DIST_NET_H

#include <kvstore/process.h>

extern const kvs_net_plugin_t dist_plugin;

#endif
