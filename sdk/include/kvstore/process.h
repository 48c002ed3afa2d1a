/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - libkvstore-net.a: a process's part in one job, as plugins of several processes have it. A
 * *worker* process joins with its first store, keeps its node for later ones, and says goodbye when it
 * ends; where roles are embedded it also hosts the scheduler and a server. A *service* is a process
 * that is a server or the scheduler. On top of net.h, whose rules of threads and errors hold here.
 *
 * A forked child has no part in its parent's job: what it has of the parent's answers ERR_STATE, and
 * its own first store joins anew. */
#ifndef KVSTORE_PROCESS_H
#define KVSTORE_PROCESS_H

#include <kvstore/net.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvs_net_server kvs_net_server_t;

/* What a plugin is to its nodes: a constant of it. */
typedef struct kvs_net_plugin {
    uint32_t size;
    uint32_t n_facts;
    const char *name;            /* the group of its nodes, and the area of its log lines: "dist" */
    const kvs_net_fact_t *facts; /* what its nodes must have in common */
    uint32_t no_servers;         /* as in kvs_net_node_args_t */
    uint32_t spares_servers;

    /* Stores of workers: something has happened to the job; time has passed. Both on the I/O thread, under
     * the lock that kvs_net_process_remove takes. `tick` comes every tick_ms; after kvs_net_process_hurry every
     * hurry_ms, until it gives 0 for all stores: nothing is pending. */
    void (*event)(void *store, const kvs_net_event_t *event);
    int (*tick)(void *store, int64_t now_ns);
    int64_t tick_ms, hurry_ms;

    /* NULL: this plugin has none. Open a server of the job with kvs_net_server_open; a service is a
     * process that does nothing else. Close it with kvs_net_server_close, and free what is around it. */
    kvs_status_t (*server_open)(kvs_net_job_t *job, const kvs_net_settings_t *settings,
                                int is_service, kvs_net_server_t **ret_server);
    kvs_status_t (*server_close)(kvs_net_server_t *server, int64_t timeout_ms);
} kvs_net_plugin_t;

/* ---- Workers ------------------------------------------------------------------------------------- */

typedef struct kvs_net_process kvs_net_process_t;

/* Join the job of `settings` as a worker, or give the part that this process has in it already. Waits
 * until everyone is there. ERR_STATE: it has a part in another job, or is another worker, already.
 * After a failure, with the text of its cause, nothing is left of it: a later call may try anew. What
 * is joined is left when the process exits, if no store is left then. */
kvs_status_t kvs_net_process_join(const kvs_net_plugin_t *plugin,
                                  const kvs_net_settings_t *settings,
                                  kvs_net_process_t **ret_process);
kvs_net_node_t *kvs_net_process_node(const kvs_net_process_t *process);

/* Events and ticks come to the store from now on. ERR_NO_MEMORY. */
kvs_status_t kvs_net_process_add(kvs_net_process_t *process, void *store);
/* None comes to it any more when it returns. Not on the I/O thread. */
void kvs_net_process_remove(kvs_net_process_t *process, void *store);
/* Something is pending: see hurry_ms. On the I/O thread. */
void kvs_net_process_hurry(kvs_net_process_t *process);

/* ---- Servers ------------------------------------------------------------------------------------- */

typedef struct kvs_net_server_args {
    uint32_t size;
    void (*message)(void *arg, kvs_net_message_t *message); /* of all stores; owns it */
    void (*event)(void *arg, const kvs_net_event_t *event);
    /* Every tick_ms after kvs_net_server_hurry, until it gives 0: nothing is pending. */
    int (*tick)(void *arg, int64_t now_ns);
    int64_t tick_ms;
    /* NULL, or what there is to do for the thread that waits in kvs_net_server_wait_end: called there as
     * it begins to wait, and after each kvs_net_server_wake. May block. */
    void (*serve)(void *arg);
    void *arg;
    /* NULL, or write lines about its stores for `kvstore status`, indented by two spaces, on the I/O
     * thread and in the locale "C"; not before the job is complete. Gives how many bytes of memory the
     * plugin is to need at most; 0: it does not say. */
    uint64_t (*show)(void *arg, FILE *out);
} kvs_net_server_args_t;

#define KVS_NET_SERVER_ARGS_INIT                                                                   \
    {                                                                                              \
        .size = (uint32_t)sizeof(kvs_net_server_args_t)                                            \
    }

/* Begin to serve on the node's own thread, shown by `kvstore status`; the job may not be complete yet.
 * `ret_server` is set before the first callback runs, and NULL after a failure. */
kvs_status_t kvs_net_server_open(kvs_net_job_t *job, const kvs_net_plugin_t *plugin,
                                 const kvs_net_server_args_t *args, kvs_net_server_t **ret_server);
kvs_net_node_t *kvs_net_server_node(const kvs_net_server_t *server);
void *kvs_net_server_arg(const kvs_net_server_t *server);

void kvs_net_server_hurry(kvs_net_server_t *server); /* on the I/O thread */
void kvs_net_server_wake(kvs_net_server_t *server);
/* Serve no longer: wait_end gives 0. It ends by itself when the job is over. */
void kvs_net_server_stop(kvs_net_server_t *server);
/* 1: it was stopped, or the job is over. */
int kvs_net_server_has_ended(kvs_net_server_t *server);
/* Wait until it has: 0 if it was stopped or all workers have left in good order, else why. ERR_TIMEOUT:
 * past `timeout_ms` (negative: never) it goes on. ERR_CANCELLED: by kvs_net_node_cancel. */
kvs_status_t kvs_net_server_wait_end(kvs_net_server_t *server, int64_t timeout_ms);
/* Leave: as kvs_net_node_close, and frees it. NULL does nothing. */
kvs_status_t kvs_net_server_close(kvs_net_server_t *server, int64_t timeout_ms);

/* ---- Services: processes that are a server or the scheduler --------------------------------------- */

typedef struct kvs_net_service kvs_net_service_t;

/* Take the part of `settings`, whose role is server or scheduler. `announce`: "", or a file that gets the
 * scheduler's address and a newline in one write, for those who have to be told. */
kvs_status_t kvs_net_service_open(const kvs_net_plugin_t *plugin,
                                  const kvs_net_settings_t *settings, const char *announce,
                                  kvs_net_service_t **ret_service);
/* NULL: this is the scheduler. */
kvs_net_server_t *kvs_net_service_server(const kvs_net_service_t *service);
/* Until the job is over, or the server is stopped: 0 if everyone left in good order. */
kvs_status_t kvs_net_service_run(kvs_net_service_t *service);
/* Wake run with ERR_CANCELLED. Safe in a signal handler. */
void kvs_net_service_cancel(kvs_net_service_t *service);
/* Waits at most 5 s, or `timeout_ms` if that is shorter and not negative, for what is on its way. */
kvs_status_t kvs_net_service_close(kvs_net_service_t *service, int64_t timeout_ms);
/* ERR_STATE, for what services don't do: "push: this process is a server; it serves in run_server". */
kvs_status_t kvs_net_service_refuse(const kvs_net_service_t *service, const char *what);

#ifdef __cplusplus
}
#endif
#endif
