/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h - load a plugin in a child process, with a time limit: its code may crash or hang, and only
 * the child suffers. */
#ifndef KVS_CLI_TRIAL_H
#define KVS_CLI_TRIAL_H

#include <kvstore/plugins.h>

/* How it went, as the members of kvs_plugin_info_t. */
typedef struct trial {
    kvs_plugin_state_t state; /* also KVS_PLUGIN_CRASHED and KVS_PLUGIN_TIMEOUT */
    char reason[1200];
    char fix[1200];
    char about[4096]; /* what it told of this machine: labels and texts, each ended by a newline */
} trial_t;

/* kvs_plugin_try at `index` in a child; the list itself is not changed. A plugin that is not ok is not
 * opened: its own verdict is copied. 0, or -1 if there could be no child, with this thread's last
 * error. */
int cli_trial(kvs_plugin_list_t *list, size_t index, int timeout_s, trial_t *ret_trial);
/* The same, and let the plugin tell what it found on this machine; also one that is unavailable. */
int cli_trial_about(kvs_plugin_list_t *list, size_t index, int timeout_s, trial_t *ret_trial);
/* The plugin with the trial's verdict in place of its own; the trial must live as long. */
kvs_plugin_info_t cli_tried(const kvs_plugin_info_t *plugin, const trial_t *trial);

#endif
