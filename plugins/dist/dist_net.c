/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_net.h"

#include "dist_server.h"
#include "dist_worker.h"

#define TICK_MS 500

static void on_event(void *store, const kvs_net_event_t *event)
{
    dist_worker_t *worker = store;

    switch ((kvs_net_event_kind_t)event->kind) {
    case KVS_NET_EVENT_LEFT:
        if (event->peer != NULL) {
            dist_worker_lose(worker, event->peer, event->text);
        }
        break;
    case KVS_NET_EVENT_DEAD:
        dist_worker_fail(worker, event->status, event->text);
        break;
    case KVS_NET_EVENT_ROOM:
        if (event->peer->role == KVS_NET_SERVER) {
            dist_requests_send(worker, event->peer->rank);
        }
        break;
    case KVS_NET_EVENT_ERROR:
        if (event->store == 0 || event->store == worker->number) {
            dist_worker_tell(worker, 0, event->status, event->text);
        }
        break;
    case KVS_NET_EVENT_ENDED:
        if (event->status != KVS_OK) {
            dist_worker_fail(worker, event->status, event->text);
        }
        break;
    default:
        break;
    }
}

static int tick(void *store, int64_t now_ns)
{
    (void)now_ns;
    dist_worker_tick(store);
    return 0;
}

static const kvs_net_fact_t facts[] = {
    {"plugin", "dist " DIST_VERSION},
    {"messages", DIST_MESSAGES_VERSION},
};

const kvs_net_plugin_t dist_plugin = {
    .size = sizeof(dist_plugin),
    .name = "dist",
    .facts = facts,
    .n_facts = sizeof(facts) / sizeof(facts[0]),
    .event = on_event,
    .tick = tick,
    .tick_ms = TICK_MS,
    .server_open = dist_server_open,
    .server_close = dist_server_close,
};
