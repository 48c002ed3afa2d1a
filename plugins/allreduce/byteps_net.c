/* SPDX-License-Identifier: Apache-2.0 */
#include "byteps_net.h"

#include "byteps_server.h"
#include "byteps_worker.h"

#define TICK_MS  500
#define HURRY_MS 20 /* while a depot has something pending */

static void on_event(void *store, const kvs_net_event_t *event)
{
    byteps_worker_event(store, event);
}

static int tick(void *store, int64_t now_ns)
{
    return byteps_worker_tick(store, now_ns);
}

static void hurry(void *arg)
{
    kvs_net_process_hurry(arg);
}

static void free_depot(void *arg, byteps_depot_t *depot)
{
    (void)arg;
    byteps_depot_free(depot);
}

byteps_owner_t byteps_net_owner(kvs_net_process_t *process)
{
    return (byteps_owner_t){process, hurry, free_depot};
}

static const kvs_net_fact_t facts[] = {
    {"plugin", "byteps " BYTEPS_VERSION},
    {"messages", BYTEPS_MESSAGES_VERSION},
};

const kvs_net_plugin_t byteps_plugin = {
    .size = sizeof(byteps_plugin),
    .name = "byteps",
    .facts = facts,
    .n_facts = sizeof(facts) / sizeof(facts[0]),
    .spares_servers = 1,
    .event = on_event,
    .tick = tick,
    .tick_ms = TICK_MS,
    .hurry_ms = HURRY_MS,
    .server_open = byteps_server_open,
    .server_close = byteps_server_close,
};
