/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_command.h"

#include "dist_depot.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAD_CONTROLLER,
    HEAD_MULTI_PRECISION,
    HEAD_STOP,
    HEAD_SYNC,
    HEAD_COMPRESSION,
    HEAD_PROFILER
};

struct dist_command {
    dist_command_t *next;
    const kvs_net_peer_t *from;
    uint32_t store;
    uint64_t request;
    int head;
    size_t n_bytes;
    char bytes[];
};

/* ---- For the controller -------------------------------------------------------------------------------- */

kvs_status_t dist_commands_put(dist_commands_t *commands, const dist_header_t *header,
                               const kvs_net_message_t *message)
{
    dist_command_t **link = &commands->first;
    dist_command_t *command;

    if (commands->controller == NULL && !commands->held) {
        return KVS_ERR_NOT_FOUND;
    }
    command = malloc(sizeof(*command) + message->n_body_bytes + 1);
    if (command == NULL) {
        return KVS_ERR_NO_MEMORY;
    }
    *command = (dist_command_t){.from = message->from,
                                .store = message->store,
                                .request = header->request,
                                .head = (int)header->first,
                                .n_bytes = message->n_body_bytes};
    if (message->n_body_bytes > 0) {
        memcpy(command->bytes, message->body, message->n_body_bytes);
    }
    command->bytes[message->n_body_bytes] = '\0'; /* for those who take it for text */
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = command;
    return KVS_OK;
}

dist_command_t *dist_commands_take(dist_commands_t *commands)
{
    dist_command_t *command = commands->first;

    if (command != NULL) {
        commands->first = command->next;
    }
    return command;
}

void dist_commands_release(dist_commands_t *commands)
{
    dist_command_t *command;

    while ((command = dist_commands_take(commands)) != NULL) {
        free(command);
    }
}

static void warn_unknown(int rank, int64_t head, size_t n_bytes, const kvs_net_peer_t *from)
{
    bool is_controllers = head == HEAD_CONTROLLER;

    kvs_log(KVS_LOG_WARN, "dist",
            "server %d: %scommand %lld with %zu bytes from %s is passed over%s", rank,
            is_controllers ? "" : "unknown ", (long long)head, n_bytes, from->label,
            is_controllers ? ": optimizers come by set_optimizer, as names and parameters"
                           : "; a controller (kvs_store_set_controller) would get it");
}

void dist_command_run(dist_command_t *command, kvs_net_node_t *node, kvs_controller_t controller,
                      void *arg)
{
    dist_header_t header = {.kind = DIST_DONE, .request = command->request};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    if (controller == NULL) {
        warn_unknown(kvs_net_node_rank(node), command->head, command->n_bytes, command->from);
    } else {
        header.status = controller(command->head, command->bytes, command->n_bytes, arg);
    }
    header.status = header.status > 0 ? KVS_ERR_CALLBACK : header.status;
    if (header.status != KVS_OK && kvs_plugin_host->last_error()[0] == '\0') {
        (void)kvs_fail(header.status, "the controller of server %d has refused command %d",
                       kvs_net_node_rank(node), command->head);
    }
    net.flags = KVS_NET_URGENT;
    net.store = command->store;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    net.body = header.status == KVS_OK ? "" : kvs_plugin_host->last_error();
    net.n_body_bytes = strlen(net.body);
    /* Whoever can't be reached is seen to die or leave. */
    (void)kvs_net_send(node, command->from, &net);
    free(command);
}

/* ---- Of all kinds -------------------------------------------------------------------------------------- */

static kvs_status_t give_to_controller(dist_depot_t *depot, const dist_header_t *header,
                                       const kvs_net_message_t *message)
{
    kvs_status_t status =
        dist_commands_put(dist_server_lock_commands(depot->server), header, message);

    dist_server_unlock_commands(depot->server);
    return status;
}

void dist_command_take(dist_depot_t *depot, const dist_header_t *header,
                       const kvs_net_message_t *message)
{
    int worker = message->from->rank;
    kvs_status_t status = KVS_OK;
    const char *text = "";
    bool is_own = header->first > HEAD_CONTROLLER && header->first <= HEAD_PROFILER;
    kvs_status_t given = is_own ? KVS_ERR_NOT_FOUND : give_to_controller(depot, header, message);

    if (given == KVS_OK) {
        return;
    }
    if (given == KVS_ERR_NO_MEMORY) {
        dist_depot_send_done(depot, worker, header->request, given,
                             "no memory on the server for a command");
        return;
    }
    switch (header->first) {
    case HEAD_MULTI_PRECISION: /* a parameter of the optimizer */
    case HEAD_SYNC:            /* the store's name says it */
        break;
    case HEAD_STOP:
        kvs_log(KVS_LOG_INFO, "dist", "server %d is stopped by %s", depot->rank,
                message->from->label);
        break;
    case HEAD_COMPRESSION:
        status = KVS_ERR_NOT_IMPLEMENTED;
        text =
            "not implemented: compression by command, of which workers would know nothing; every "
            "worker calls set_gradient_compression";
        break;
    case HEAD_PROFILER:
        status = dist_profile_command(dist_server_profile(depot->server), depot->rank,
                                      message->body, message->n_body_bytes);
        text = status == KVS_OK ? "" : kvs_plugin_host->last_error();
        break;
    default:
        warn_unknown(depot->rank, header->first, message->n_body_bytes, message->from);
        break;
    }
    dist_depot_send_done(depot, worker, header->request, status, text);
    if (header->first == HEAD_STOP) {
        dist_server_stop(depot->server);
    }
}
