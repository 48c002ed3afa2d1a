/* SPDX-License-Identifier: Apache-2.0 */
/* about.c - what `kvstore info` shows of what plugins share here. */
#include "socket.h"

#include <string.h>

void kvs_net_about(const kvs_config_t *config,
                   void (*line)(void *arg, const char *label, const char *text), void *arg)
{
    const char *insecure = kvs_plugin_host->option(config, "insecure");
    char text[NET_LIBRARY_BYTES];

    line(arg, "ZeroMQ", net_library_text(text));
    line(
        arg, "security",
        insecure != NULL && strcmp(insecure, "1") == 0
            ? "off: other hosts may connect, without keys and in clear text (insecure is 1)"
            : "connections within this host only; those of other hosts, which have no keys and are "
              "not encrypted, need insecure=1");
}
