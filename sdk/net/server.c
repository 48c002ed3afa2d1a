/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - a plugin's server: its node, time while something is pending, and whoever waits for its
 * end; and the processes that are nothing but a server or the scheduler. */
#include "node.h"
#include "pulse.h"
#include "show.h"

#include <kvstore/process.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_MS 5000 /* of a service: for what is on its way */

struct kvs_net_server {
    kvs_net_server_args_t args; /* fixed after open, as `node` */
    kvs_net_node_t *node;
    net_show_t *show;  /* NULL: it can't be shown */
    net_pulse_t pulse; /* the I/O thread's */
    bool is_woken;     /* guarded by the node's lock, as what follows */
    bool has_ended;
    kvs_status_t status;
    char *text;
};

/* ---- On the I/O thread --------------------------------------------------------------------------- */

static bool beat(void *arg, int64_t now_ns)
{
    const kvs_net_server_t *server = arg;

    return server->args.tick(server->args.arg, now_ns) != 0;
}

void kvs_net_server_hurry(kvs_net_server_t *server)
{
    server->pulse.node = server->node;
    net_pulse_hurry(&server->pulse);
}

static void end(kvs_net_server_t *server, kvs_status_t status, const char *text)
{
    pthread_mutex_lock(&server->node->lock);
    if (!server->has_ended) {
        server->has_ended = true;
        server->status = status;
        server->text = strdup(text);
        pthread_cond_broadcast(&server->node->changed);
    }
    pthread_mutex_unlock(&server->node->lock);
}

static void on_message(void *arg, kvs_net_message_t *message)
{
    const kvs_net_server_t *server = arg;

    server->args.message(server->args.arg, message);
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    kvs_net_server_t *server = arg;

    server->args.event(server->args.arg, event);
    if (event->kind == KVS_NET_EVENT_ENDED) {
        end(server, event->status, event->text);
    }
}

/* ---- What it shows --------------------------------------------------------------------------------- */

static void answer(void *arg)
{
    net_show_answer(arg);
}

static void ring(void *arg, net_show_t *show)
{
    const kvs_net_server_t *server = arg;

    (void)kvs_net_node_call(server->node, answer, show); /* unheard, it counts as busy */
}

static void write_workers(kvs_net_node_t *node, FILE *out)
{
    for (int w = 0; w < kvs_net_node_count(node, KVS_NET_WORKER); w++) {
        const kvs_net_peer_t *peer = kvs_net_node_peer(node, KVS_NET_WORKER, w);
        bool is_there = kvs_net_node_check_peer(node, peer) == KVS_OK;

        fprintf(out, "  %s%s%s\n", peer->label, is_there ? "" : ": ",
                is_there ? "" : kvs_plugin_host->last_error());
    }
}

static void write_traffic(kvs_net_node_t *node, FILE *out)
{
    kvs_net_traffic_t traffic = KVS_NET_TRAFFIC_INIT;

    kvs_net_node_traffic(node, &traffic);
    for (int path = 0; path < KVS_NET_N_PATHS; path++) {
        fprintf(out,
                "  by %s: received %.1f MB in %" PRIu64 " messages, sent %.1f MB in %" PRIu64 "\n",
                kvs_net_path_name(path), (double)traffic.received[path].n_bytes / 1e6,
                traffic.received[path].n_messages, (double)traffic.sent[path].n_bytes / 1e6,
                traffic.sent[path].n_messages);
    }
}

static void write_down(void *arg, FILE *out)
{
    const kvs_net_server_t *server = arg;
    kvs_net_node_t *node = server->node;
    uint64_t n_most = 0;

    if (kvs_net_node_count(node, KVS_NET_WORKER) == 0) {
        fprintf(out, "job %s: a server (pid %ld) waits until everyone is there\n",
                node->job->settings.job_id, (long)getpid());
        return;
    }
    fprintf(out, "job %s: %s, epoch 1, of %d servers and %d workers\n", node->job->settings.job_id,
            kvs_net_node_self(node)->label, kvs_net_node_count(node, KVS_NET_SERVER),
            kvs_net_node_count(node, KVS_NET_WORKER));
    write_workers(node, out);
    if (server->args.show != NULL) {
        n_most = server->args.show(server->args.arg, out);
    }
    write_traffic(node, out);
    net_show_memory(out);
    if (n_most > 0) {
        fprintf(out, ", bound %.1f MB", (double)n_most / 1e6);
    }
    fprintf(out, "\n");
}

/* ---- The life of a server ------------------------------------------------------------------------ */

static void free_server(kvs_net_server_t *server)
{
    free(server->text);
    free(server);
}

kvs_status_t kvs_net_server_open(kvs_net_job_t *job, const kvs_net_plugin_t *plugin,
                                 const kvs_net_server_args_t *args, kvs_net_server_t **ret_server)
{
    kvs_net_server_t *server = calloc(1, sizeof(*server));
    kvs_net_node_args_t node = KVS_NET_NODE_ARGS_INIT;
    kvs_status_t status;

    if (server == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a server");
    }
    server->args = *args;
    server->pulse = (net_pulse_t){.fast_ms = args->tick_ms, .beat = beat, .arg = server};
    node.role = KVS_NET_SERVER;
    node.facts = plugin->facts;
    node.n_facts = plugin->n_facts;
    node.group = plugin->name;
    node.spares_servers = plugin->spares_servers;
    node.message = on_message;
    node.event = on_event;
    node.arg = server;
    *ret_server = server; /* its callbacks may want it */
    status = kvs_net_node_open(job, &node, &server->node);
    if (status != KVS_OK) {
        *ret_server = NULL;
        free_server(server);
        return status;
    }
    server->show =
        net_show_open(&(net_show_args_t){job->settings.job_id, "server", ring, write_down, server});
    return KVS_OK;
}

kvs_net_node_t *kvs_net_server_node(const kvs_net_server_t *server)
{
    return server->node;
}

void *kvs_net_server_arg(const kvs_net_server_t *server)
{
    return server->args.arg;
}

void kvs_net_server_wake(kvs_net_server_t *server)
{
    pthread_mutex_lock(&server->node->lock);
    server->is_woken = true;
    pthread_cond_broadcast(&server->node->changed);
    pthread_mutex_unlock(&server->node->lock);
}

void kvs_net_server_stop(kvs_net_server_t *server)
{
    end(server, KVS_OK, "");
}

int kvs_net_server_has_ended(kvs_net_server_t *server)
{
    bool has_ended;

    pthread_mutex_lock(&server->node->lock);
    has_ended = server->has_ended;
    pthread_mutex_unlock(&server->node->lock);
    return has_ended;
}

static void serve_locked(kvs_net_server_t *server)
{
    server->is_woken = false;
    pthread_mutex_unlock(&server->node->lock);
    server->args.serve(server->args.arg);
    pthread_mutex_lock(&server->node->lock);
}

static kvs_status_t result_locked(const kvs_net_server_t *server)
{
    if (!server->has_ended) {
        return server->node->cancelled ? kvs_fail(KVS_ERR_CANCELLED, "cancelled while serving")
                                       : kvs_fail(KVS_ERR_TIMEOUT, "the server goes on");
    }
    return server->status == KVS_OK
               ? KVS_OK
               : kvs_fail(server->status, "%s", server->text == NULL ? "no memory" : server->text);
}

kvs_status_t kvs_net_server_wait_end(kvs_net_server_t *server, int64_t timeout_ms)
{
    kvs_net_node_t *node = server->node;
    int64_t deadline = net_deadline(timeout_ms);
    kvs_status_t status = net_node_check_waiter(node);

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&node->lock);
    server->is_woken = true;
    while (!server->has_ended && !node->cancelled && net_now() < deadline) {
        if (server->is_woken && server->args.serve != NULL) {
            serve_locked(server);
        } else {
            net_cond_wait(&node->changed, &node->lock, deadline);
        }
    }
    status = result_locked(server);
    pthread_mutex_unlock(&node->lock);
    return status;
}

kvs_status_t kvs_net_server_close(kvs_net_server_t *server, int64_t timeout_ms)
{
    kvs_status_t status;

    if (server == NULL) {
        return KVS_OK;
    }
    net_show_close(server->show);
    status = kvs_net_node_close(server->node, timeout_ms);
    net_show_free(server->show);
    free_server(server);
    return status;
}

/* ---- Services ------------------------------------------------------------------------------------ */

struct kvs_net_service {
    const kvs_net_plugin_t *plugin;
    int role; /* KVS_NET_… */
    kvs_net_job_t *job;
    kvs_net_server_t *server; /* NULL: a scheduler */
};

/* Whoever reads it from a pipe gets all of it. */
static kvs_status_t announce_address(const char *path, const char *address)
{
    FILE *file = fopen(path, "w");
    int wrote = file != NULL && fprintf(file, "%s\n", address) > 0;

    if (file == NULL || (fclose(file) != 0) || !wrote) {
        return kvs_fail(KVS_ERR_IO, "announce: %s: %s", path, strerror(errno));
    }
    return KVS_OK;
}

kvs_status_t kvs_net_service_open(const kvs_net_plugin_t *plugin,
                                  const kvs_net_settings_t *settings, const char *announce,
                                  kvs_net_service_t **ret_service)
{
    kvs_net_service_t *service = calloc(1, sizeof(*service));
    kvs_status_t status;

    if (service == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to serve");
    }
    service->plugin = plugin;
    service->role = settings->role;
    status = kvs_net_job_open(settings, &service->job);
    if (status == KVS_OK && settings->role == KVS_NET_SERVER) {
        status = plugin->server_open(service->job, settings, 1, &service->server);
    } else if (status == KVS_OK && announce[0] != '\0') {
        status = announce_address(announce, kvs_net_job_scheduler(service->job));
    }
    if (status != KVS_OK) {
        (void)kvs_net_service_close(service, 0); /* the first error counts */
        return status;
    }
    *ret_service = service;
    return KVS_OK;
}

kvs_net_server_t *kvs_net_service_server(const kvs_net_service_t *service)
{
    return service->server;
}

kvs_status_t kvs_net_service_run(kvs_net_service_t *service)
{
    kvs_status_t status;

    if (service->server == NULL) {
        return kvs_net_job_wait_end(service->job, -1);
    }
    status = kvs_net_node_wait_ready(service->server->node, -1);
    return status == KVS_OK ? kvs_net_server_wait_end(service->server, -1) : status;
}

void kvs_net_service_cancel(kvs_net_service_t *service)
{
    if (service->server == NULL) {
        kvs_net_job_cancel(service->job);
    } else {
        kvs_net_node_cancel(service->server->node);
    }
}

kvs_status_t kvs_net_service_close(kvs_net_service_t *service, int64_t timeout_ms)
{
    int64_t most = timeout_ms < 0 || timeout_ms > CLOSE_MS ? CLOSE_MS : timeout_ms;
    kvs_status_t status =
        service->server == NULL ? KVS_OK : service->plugin->server_close(service->server, most);
    kvs_status_t closed = kvs_net_job_close(service->job, most);

    free(service);
    return status != KVS_OK ? status : closed;
}

kvs_status_t kvs_net_service_refuse(const kvs_net_service_t *service, const char *what)
{
    return kvs_fail(KVS_ERR_STATE, "%s: this process is a %s; it serves in run_server", what,
                    kvs_net_role_name(service->role));
}
