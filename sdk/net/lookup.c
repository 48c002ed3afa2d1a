/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - a variable as an option of create. */
#include <kvstore/net.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *kvs_net_look_up_option(void *arg, const char *variable)
{
    const kvs_config_t *config = arg;
    char name[64];
    const char *value;
    size_t n = 0;

    if (strncmp(variable, "KVSTORE_", 8) != 0) {
        return getenv(variable);
    }
    for (const char *c = variable + 8; *c != '\0' && n < sizeof(name) - 1; c++) {
        name[n++] = (char)tolower((unsigned char)*c);
    }
    name[n] = '\0';
    value = kvs_plugin_host->option(config, name);
    return value == NULL ? getenv(variable) : value[0] == '\0' ? NULL : value;
}
