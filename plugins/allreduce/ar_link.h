/* SPDX-License-Identifier: Apache-2.0 */
/* ar_link.h - this process's part in its job, as a worker: opened by the plugin's first store, kept for
 * later ones, and left in good order when the process ends. Where roles are embedded it also hosts the
 * scheduler and, for a plugin that has servers, a server. One a plugin and process. Any thread. */
#ifndef AR_LINK_H
#define AR_LINK_H

#include <kvstore/net.h>

typedef struct ar_link ar_link_t;

/* What the plugin is to the others, and what happens to its stores. */
typedef struct ar_plugin {
    const char *group; /* as in kvs_net_node_args_t */
    const kvs_net_fact_t *facts;
    uint32_t n_facts;
    uint32_t spares_servers; /* as in kvs_net_node_args_t */
    /* Both for each store that was added, on the node's I/O thread. They must not add or remove one. */
    void (*event)(void *store, const kvs_net_event_t *event);
    void (*tick)(void *store); /* every half second */
    /* A server in this process. NULL: the plugin has none. */
    kvs_status_t (*server_open)(kvs_net_job_t *job, void **ret_server);
    kvs_status_t (*server_wait_end)(void *server, int64_t timeout_ms);
    kvs_status_t (*server_close)(void *server, int64_t timeout_ms); /* NULL does nothing */
} ar_plugin_t;

/* Join the job of `settings`, or use the link that is there. Waits until everyone is there.
 * ERR_STATE: this process belongs to another job, or is another worker, already. */
kvs_status_t ar_link_get(const ar_plugin_t *plugin, const kvs_net_settings_t *settings,
                         ar_link_t **ret_link);
kvs_net_node_t *ar_link_node(const ar_link_t *link);

/* Not on the I/O thread. */
void ar_link_add(ar_link_t *link, void *store);
void ar_link_remove(ar_link_t *link, void *store);

#endif
