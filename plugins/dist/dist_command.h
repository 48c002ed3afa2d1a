/* SPDX-License-Identifier: Apache-2.0 */
/* dist_command.h - commands to a server: its own, and those that wait for the program's controller, which
 * runs on the thread that serves. The caller locks. */
#ifndef DIST_COMMAND_H
#define DIST_COMMAND_H

#include "dist_message.h"

#include <kvstore/net.h>

#include <stdbool.h>

typedef struct dist_command dist_command_t;

typedef struct dist_commands {
    kvs_controller_t controller; /* NULL: none */
    void *arg;
    bool held;             /* nobody serves yet: a controller may still be set */
    dist_command_t *first; /* of those that wait */
} dist_commands_t;

/* Keep a command for the controller. ERR_NOT_FOUND: there is none, nor will be; ERR_NO_MEMORY. No texts. */
kvs_status_t dist_commands_put(dist_commands_t *commands, const dist_header_t *header,
                               const kvs_net_message_t *message);
/* The oldest; NULL: none waits. */
dist_command_t *dist_commands_take(dist_commands_t *commands);
void dist_commands_release(dist_commands_t *commands);

/* Without a lock: run the command, answer it, and free it. */
void dist_command_run(dist_command_t *command, kvs_net_node_t *node, kvs_controller_t controller,
                      void *arg);

#endif
