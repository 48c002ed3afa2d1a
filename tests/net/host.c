/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - net in a test has the core's own host table, set before main. */
#include "host.h"

#include <kvstore/plugin.h>

const kvs_host_t *kvs_plugin_host;

__attribute__((constructor)) static void set_host(void)
{
    kvs_plugin_host = kvsi_host();
}
