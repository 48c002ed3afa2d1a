/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_enable.c - `kvstore enable` and `kvstore disable`: a plugin on or off, for all users or for this
 * one. They print what the plugin's state is then. */
#include "commands.h"

#include <kvstore/plugins.h>

#include <stdio.h>

/* Of a plugin that is not installed there is nothing to say. */
static int print_state(const char *command, const char *name)
{
    const kvs_plugin_info_t *plugin;
    kvs_plugin_list_t *list;

    if (kvs_plugin_list(&list) != KVS_OK) {
        return cli_failed(command);
    }
    if (kvs_plugin_list_find(list, name, &plugin) == KVS_OK) {
        printf("%s: %s%s%s\n", plugin->name, kvs_plugin_state_text(plugin->state),
               plugin->reason[0] != '\0' ? ", " : "", plugin->reason);
    }
    kvs_plugin_list_free(list);
    return 0;
}

static int change(int argc, char **argv, kvs_status_t (*make)(const char *name, int for_user))
{
    const char *name;
    int for_user, status = cli_parse_flag(argc, argv, "--user", 1, &name, &for_user);

    if (status != 0) {
        return status;
    }
    return make(name, for_user) == KVS_OK ? print_state(argv[0], name) : cli_failed(argv[0]);
}

int cmd_enable(int argc, char **argv)
{
    return change(argc, argv, kvs_plugin_enable);
}

int cmd_disable(int argc, char **argv)
{
    return change(argc, argv, kvs_plugin_disable);
}
