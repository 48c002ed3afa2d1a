/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - libkvstore-net.a: what backends of several processes share: who is in the job, messages
 * between its members, and who of them is still alive. Linked statically into a plugin; its only
 * state is kvs_plugin_host, and the process's part in a job (process.h). */
#ifndef KVSTORE_NET_H
#define KVSTORE_NET_H

#include <kvstore/plugin.h>

/* A *job* is W workers, S servers and a scheduler, which holds membership and never touches values.
 * A process opens its job, then a *node* for each role it plays, then *stores* on its worker node:
 *
 *     kvs_net_settings_read -> kvs_net_job_open -> kvs_net_node_open -> kvs_net_node_wait_ready
 *         -> kvs_net_store_open -> kvs_net_send … kvs_net_barrier … -> kvs_net_store_close
 *
 * A plugin keeps job and node from its first store until the process ends: stores come and go.
 * process.h does that, and has what servers and schedulers are around it.
 *
 * Threads. Each node has one I/O thread, and every callback runs on it, one at a time. A callback
 * may send, release messages and tell errors; it must not block, and functions that wait are
 * refused there (ERR_STATE). Other functions: any thread. After fork() the child must not use any
 * of this: every function returns ERR_STATE there.
 * Errors. Whatever waits takes a time-out in milliseconds (negative: for ever) and is woken by
 * kvs_net_node_cancel with ERR_CANCELLED. ERR_PEER: another process failed, left or refused us; the
 * text names its role, rank, host and process. ERR_IO: the text gives address, port and errno. */

#ifdef __cplusplus
extern "C" {
#endif

enum { KVS_NET_WORKER = 1, KVS_NET_SERVER = 2, KVS_NET_SCHEDULER = 4 }; /* roles; also a mask */

/* "worker", "server", "scheduler". */
const char *kvs_net_role_name(int role);

/* A text that is appended to and cut, with "…", when it is full. For what names several processes. */
typedef struct kvs_net_text {
    char bytes[2048];
    size_t n;
} kvs_net_text_t;

void kvs_net_text_add(kvs_net_text_t *text, const char *format, ...) KVS_PRINTF(2, 3);
/* snprintf with a decimal point whatever the program's locale is, which kvs_net_text_add has as well. */
int kvs_net_print(char *text, size_t n_bytes, const char *format, ...) KVS_PRINTF(3, 4);

/* ---- Settings: who am I ---------------------------------------------------------------------- */

enum {
    KVS_NET_EMBED_SCHEDULER = 1, /* rank 0's process hosts the scheduler */
    KVS_NET_EMBED_SERVERS = 2    /* the first process of each host hosts one server */
};

/* What this process is told about itself. Filled by kvs_net_settings_read; a test or a program may
 * fill it by hand: begin with KVS_NET_SETTINGS_INIT. Zero or "" means the default in brackets. */
typedef struct kvs_net_settings {
    uint32_t size;
    int32_t role; /* KVS_NET_… [worker] */
    int32_t rank; /* -1: by order of arrival */
    int32_t n_workers;
    int32_t n_servers;     /* 0 with KVS_NET_EMBED_SERVERS: as many as there are hosts */
    uint32_t embed;        /* KVS_NET_EMBED_… */
    int32_t local_rank;    /* as the launcher says; -1 unknown */
    int32_t insecure;      /* 1: addresses other than loopback are allowed without keys */
    char scheduler[264];   /* host:port or [v6]:port; the scheduler binds it, port 0: any. "": it is
                            * embedded, and found by the job's name on this host */
    char job_id[128];      /* ["default"]; jobs with different ids never meet */
    char node_host[256];   /* the address to announce ["": the one that routes to the scheduler] */
    char interface[64];    /* the interface whose address to announce [""] */
    char rule[64];         /* which rule won, for people: "KVSTORE_*", "torchrun", "none", … */
    int64_t heartbeat_ms;  /* [2000] */
    int64_t dead_after_ms; /* [15000] */
    int64_t rendezvous_ms; /* [300000]; negative: for ever */
    uint64_t max_message_bytes; /* of one header or body [64 MiB]; all nodes must agree */
    uint64_t window_bytes;      /* sent to one peer and not yet received by it [16 MiB] */
    int32_t n_lanes;            /* connections to each peer that `lane` can choose from [1] */
    int32_t n_io_threads;       /* of ZeroMQ [1] */
    uint32_t shm;               /* KVS_NET_SHM_… [between processes of one host] */
} kvs_net_settings_t;

enum {
    KVS_NET_SHM_AUTO,
    KVS_NET_SHM_OFF,
    KVS_NET_SHM_ALWAYS /* between nodes of one process too: for tests */
};

#define KVS_NET_SETTINGS_INIT                                                                      \
    {                                                                                              \
        .size = (uint32_t)sizeof(kvs_net_settings_t), .role = KVS_NET_WORKER, .rank = -1,          \
        .n_workers = 1, .local_rank = -1                                                           \
    }

/* Gives the text of a variable, such as "KVSTORE_RANK", or NULL. */
typedef const char *(*kvs_net_lookup_t)(void *arg, const char *variable);

/* Read the environment through `lookup` (NULL: the process's own), so that a plugin can put its
 * options in front: for the names below with KVSTORE_, its option in lower case comes first.
 *
 *   KVSTORE_ROLE         DMLC_ROLE                  worker | server | scheduler
 *   KVSTORE_RANK         DMLC_WORKER_ID, DMLC_SERVER_ID (of the role)
 *   KVSTORE_NUM_WORKERS  DMLC_NUM_WORKER
 *   KVSTORE_NUM_SERVERS  DMLC_NUM_SERVER            0: one embedded on each host
 *   KVSTORE_SCHEDULER    DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT    host:port
 *   KVSTORE_JOB_ID       any text up to 127 bytes; else the launcher's number of the job
 *   KVSTORE_NODE_HOST    DMLC_NODE_HOST             own address to announce
 *   KVSTORE_INTERFACE    DMLC_INTERFACE
 *   KVSTORE_INSECURE     1: addresses other than loopback, without keys
 *   KVSTORE_HEARTBEAT, KVSTORE_DEAD_AFTER, KVSTORE_RENDEZVOUS      seconds, fractions allowed
 *   KVSTORE_SHM          0: nothing travels through shared memory
 *
 * What the first five leave open comes from the first launcher whose variables are there: torchrun
 * (WORLD_SIZE, RANK, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), Open MPI
 * (OMPI_COMM_WORLD_*), Slurm's srun (SLURM_STEP_NUM_TASKS, SLURM_PROCID, …), PMI (PMI_SIZE,
 * PMI_RANK, MPI_LOCALRANKID, MPI_LOCALNRANKS). Under a launcher, without role and servers,
 * scheduler and servers are embedded; rank 0's process binds KVSTORE_SCHEDULER, else MASTER_ADDR
 * with the port after MASTER_PORT (torch's own store uses MASTER_PORT), else a port of the first
 * node of Slurm's job that follows from its number. Where all processes are on one host and no
 * address is given with KVSTORE_ or DMLC_ names, they find each other by the job's name.
 * Nothing set: one worker, with scheduler and server embedded in its process, rule "none". A role,
 * W, S or scheduler given without the others and malformed values: ERR_ARGUMENT, one text naming
 * every variable that is missing or malformed. Logs nothing. */
kvs_status_t kvs_net_settings_read(kvs_net_lookup_t lookup, void *arg,
                                   kvs_net_settings_t *ret_settings);

/* A kvs_net_lookup_t whose `arg` is a kvs_config_t: the backend's options before the environment;
 * KVSTORE_NUM_WORKERS is num_workers. The core has looked behind them already, for KVSTORE_ names. */
const char *kvs_net_look_up_option(void *config, const char *variable);

/* For kvs_plugin_t.about: ZeroMQ's version and file, and whether other hosts are let in. */
void kvs_net_about(const kvs_config_t *config,
                   void (*line)(void *arg, const char *label, const char *text), void *arg);

/* ---- The job: this process's part in it ------------------------------------------------------ */

typedef struct kvs_net_job kvs_net_job_t;

/* Join the job of `settings`, which are copied; which rule won is logged once. With role scheduler,
 * and in rank 0's process if it is embedded, the scheduler begins to run, on a thread of its own.
 * Embedded nodes without an address wait here, up to the rendezvous deadline, until rank 0's
 * process has named the scheduler's: ERR_TIMEOUT says which name was looked for and which variable
 * to set. ERR_ARGUMENT: settings that make no sense, an address other than loopback without
 * `insecure`. ERR_IO: the scheduler can't bind. Closed by kvs_net_job_close. */
kvs_status_t kvs_net_job_open(const kvs_net_settings_t *settings, kvs_net_job_t **ret_job);

/* Whether this process has to open a server node too (embedded servers): 1 or 0. */
int kvs_net_job_hosts_server(const kvs_net_job_t *job);
/* Where the scheduler is, "host:port" with the real port. Lives as long as the job. */
const char *kvs_net_job_scheduler(const kvs_net_job_t *job);

/* Where the scheduler runs in this process: wait until the job has ended, that is all workers of
 * every group have left or died, and return 0, or the first error of the job: ERR_PEER naming who
 * died, ERR_TIMEOUT for a rendezvous that did not complete, with its text. ERR_TIMEOUT: past
 * `timeout_ms` it goes on. ERR_STATE: no scheduler here. */
kvs_status_t kvs_net_job_wait_end(kvs_net_job_t *job, int64_t timeout_ms);
/* Wake kvs_net_job_wait_end with ERR_CANCELLED. Safe in a signal handler. */
void kvs_net_job_cancel(kvs_net_job_t *job);

/* Close what this process still has open. A scheduler here first waits until the job has ended, at
 * most `timeout_ms`; past it, or with 0, whoever is left is told that it ends, and why. Nodes must
 * have been closed. NULL does nothing; after fork it only frees. */
kvs_status_t kvs_net_job_close(kvs_net_job_t *job, int64_t timeout_ms);

/* ---- Nodes and peers ------------------------------------------------------------------------- */

typedef struct kvs_net_node kvs_net_node_t;
typedef struct kvs_net_store kvs_net_store_t;

/* A member of the job, as told by the scheduler. Fixed from ready on; lives as long as the node. */
typedef struct kvs_net_peer {
    int32_t role;
    int32_t rank;
    int32_t local_rank; /* among the nodes of this role on its host */
    uint32_t same_host; /* 1: same boot and network namespace as this node */
    uint32_t same_process;
    uint32_t is_self;
    uint32_t
        host_number; /* the same for all nodes of a host, as same_host has it: in the order of the
                           * workers' ranks, from 0; hosts that only have servers come last */
    int64_t pid;
    const char *host;    /* its name, for people */
    const char *address; /* "10.0.0.5:40123": where it listens */
    const char *label;   /* "worker 3 (host a, pid 71)", for texts */
} kvs_net_peer_t;

/* Something that must be the same in all processes: compared by name, where both sides have it. */
typedef struct kvs_net_fact {
    const char *name;
    const char *value;
} kvs_net_fact_t;

/* A received message. Its memory stays valid until kvs_net_message_release, from any thread: values
 * may be summed straight from it. `body` is aligned to 8 bytes at least. A body of more than 4096 bytes
 * may lie in memory shared with its sender, which has no business there any more. */
typedef struct kvs_net_message {
    const kvs_net_peer_t *from;
    uint32_t store; /* the number given to kvs_net_send */
    uint32_t lane;
    const void *header;
    size_t n_header_bytes;
    const void *body;
    size_t n_body_bytes;
} kvs_net_message_t;

void kvs_net_message_release(kvs_net_message_t *message); /* NULL does nothing */

typedef enum kvs_net_event_kind {
    KVS_NET_EVENT_LEFT = 1, /* `peer` has left in good order */
    KVS_NET_EVENT_DEAD,     /* `peer` died or can't be reached: ERR_PEER, `text` names it */
    KVS_NET_EVENT_ROOM,     /* `peer` has received enough that sends to it are taken again */
    KVS_NET_EVENT_ERROR,    /* `peer` told everyone an error: its `status` and `text`, `store` */
    KVS_NET_EVENT_STORE_OPENED, /* servers: before any of its messages; `store`, `facts` */
    KVS_NET_EVENT_STORE_CLOSED, /* servers: all workers have closed it; no message follows */
    KVS_NET_EVENT_ENDED         /* the job is over for this node, once and last: all workers have
                                 * left (0), the scheduler is gone, or we were refused or declared
                                 * dead (ERR_PEER, `text`): what was sent, and was not received yet,
                                 * then ends with that. Servers then close. */
} kvs_net_event_kind_t;

typedef struct kvs_net_event {
    uint32_t kind;
    kvs_status_t status;
    const kvs_net_peer_t *peer; /* NULL where none is meant, and for the scheduler */
    const char *text;           /* "" where there is none */
    uint32_t store;
    uint32_t n_facts;
    const kvs_net_fact_t *facts; /* [0] is {"type", …} */
} kvs_net_event_t;

typedef struct kvs_net_node_args {
    uint32_t size;
    int32_t role; /* KVS_NET_WORKER or _SERVER */
    int32_t rank; /* -1: the settings' rank, if the role is theirs, else by order of arrival */
    uint32_t n_facts;
    const kvs_net_fact_t *facts; /* e.g. {"plugin", "dist 0.1.0, abi 1.0"}; copied */
    /* Nodes of one group meet, those of different groups don't: the plugin's name, so that two
     * plugins of a program have a job each under one scheduler. */
    const char *group;
    uint32_t no_servers; /* 1: this group has none, whatever the settings say */
    /* 1, on all its nodes: the job goes on without servers that are lost, as long as one is left. */
    uint32_t spares_servers;
    /* Both run on the I/O thread and may be called before wait_ready returns. The receiver of a
     * message owns it. Messages of a store opened here go to the store's own `message`. */
    void (*message)(void *arg, kvs_net_message_t *message);
    void (*event)(void *arg, const kvs_net_event_t *event);
    void *arg;
} kvs_net_node_args_t;

#define KVS_NET_NODE_ARGS_INIT                                                                     \
    {                                                                                              \
        .size = (uint32_t)sizeof(kvs_net_node_args_t), .rank = -1                                  \
    }

/* Begin to take part as a worker or server: find the scheduler, listen, call at its door. Returns at
 * once, whatever comes of it: wait_ready says. `ret_node` is set before the first callback runs, and
 * NULL after a failure. */
kvs_status_t kvs_net_node_open(kvs_net_job_t *job, const kvs_net_node_args_t *args,
                               kvs_net_node_t **ret_node);

/* Wait until everyone is there. ERR_TIMEOUT past the rendezvous deadline (or `timeout_ms`, if that
 * is shorter and not negative): *2 of 4 workers, 1 of 2 servers present; missing: worker 3 …*, or
 * that the scheduler can't be reached, with errno. ERR_PEER: refused (a number that is taken, a job
 * that is full, another job, version, W, S or fact: both sides are named), or somebody else was.
 * After a failure the node can only be closed. */
kvs_status_t kvs_net_node_wait_ready(kvs_net_node_t *node, int64_t timeout_ms);

/* Once it is ready. */
int kvs_net_node_rank(const kvs_net_node_t *node);
int kvs_net_node_local_rank(const kvs_net_node_t *node);
int kvs_net_node_count(const kvs_net_node_t *node, int role);
const kvs_net_peer_t *kvs_net_node_self(const kvs_net_node_t *node);
/* NULL: none of that role and rank. */
const kvs_net_peer_t *kvs_net_node_peer(const kvs_net_node_t *node, int role, int rank);
/* 0, or why nothing can be sent to this peer any more, with the text of its death or leaving. */
kvs_status_t kvs_net_node_check_peer(kvs_net_node_t *node, const kvs_net_peer_t *peer);

/* How many nodes of the roles in `mask` have died or, of the living, not been heard of by the
 * scheduler for `silent_ms`; the scheduler itself is counted by this node. Waits for its answer. */
kvs_status_t kvs_net_node_num_dead(kvs_net_node_t *node, int mask, int64_t silent_ms,
                                   int64_t timeout_ms, int *ret_dead);

/* Tell every node of the group (this one too) an error of `store` (0: of the job): EVENT_ERROR.
 * Nothing else happens: what it means is the plugin's to say. Never waits. */
kvs_status_t kvs_net_node_tell(kvs_net_node_t *node, uint32_t store, kvs_status_t status,
                               const char *text);

/* Wake every waiter of the node with ERR_CANCELLED, also later ones. Safe in a signal handler. */
void kvs_net_node_cancel(kvs_net_node_t *node);

/* Leave in good order: waits, at most `timeout_ms`, until what was sent has been received, says
 * goodbye, ends the I/O thread, and frees the node. Sends that are left get `done` with
 * ERR_CANCELLED, before it returns; callbacks of nodes never run after. Its stores are closed, if
 * they are not yet, without waiting. Not on the I/O thread. NULL does nothing; after fork it only
 * frees. */
kvs_status_t kvs_net_node_close(kvs_net_node_t *node, int64_t timeout_ms);

/* ---- Showing what goes on -------------------------------------------------------------------- */

/* Whoever of the same user asks on this host (`kvstore status`) gets the text that `look(arg)` gives, to
 * be freed, on a thread of the window's own; NULL: nothing. ERR_IO. */
typedef struct kvs_net_window kvs_net_window_t;
kvs_status_t kvs_net_window_open(char *(*look)(void *arg), void *arg,
                                 kvs_net_window_t **ret_window);
/* `look` runs no more when it returns. NULL does nothing. */
void kvs_net_window_close(kvs_net_window_t *window);

/* ---- Messages -------------------------------------------------------------------------------- */

#define KVS_NET_MAX_HEADER 16384 /* bytes */

enum {
    KVS_NET_AGAIN = 1 /* kvs_net_send took nothing: the peer has to receive first. No error text. */
};

enum {
    KVS_NET_ACK_NOW = 1, /* `done` is waited for: acknowledge receipt at once, not within 20 ms */
    KVS_NET_URGENT = 2   /* taken beyond the window too: for answers that free memory elsewhere */
};

typedef struct kvs_net_send {
    uint32_t size;
    uint32_t flags;     /* KVS_NET_ACK_NOW | … */
    uint32_t store;     /* handed to the receiver, which has opened it; 0: the node itself */
    uint32_t lane;      /* modulo the number of lanes: order is kept within one */
    const void *header; /* copied; at most KVS_NET_MAX_HEADER bytes */
    size_t n_header_bytes;
    const void *body; /* without `done` copied; with it read until `done`; 256 KiB fare best */
    size_t n_body_bytes;
    /* NULL, or called once, on the I/O thread, if the send was taken: the peer's node has received
     * the message (0), or never will (ERR_PEER: it died or left; ERR_CANCELLED: this node closes).
     * Until then `body` is ours: also of a peer that died it may still be being read. */
    void (*done)(void *arg, kvs_status_t status, const char *text);
    void *arg;
} kvs_net_send_t;

#define KVS_NET_SEND_INIT                                                                          \
    {                                                                                              \
        .size = (uint32_t)sizeof(kvs_net_send_t)                                                   \
    }

/* Send to a peer, which may be this node itself. Messages of one node to one peer on one lane
 * arrive in order, once. Any thread; different peers and lanes don't wait for each other. Never
 * blocks: KVS_NET_AGAIN when more than window_bytes are on the way (EVENT_ROOM follows); a message
 * that is the only one is always taken. ERR_RANGE: larger than allowed. ERR_PEER: the peer died or left.
 * ERR_STATE: not ready. */
kvs_status_t kvs_net_send(kvs_net_node_t *node, const kvs_net_peer_t *to,
                          const kvs_net_send_t *send);
/* The same, but waits for room. ERR_TIMEOUT: nothing was sent; the text names the peer. */
kvs_status_t kvs_net_send_wait(kvs_net_node_t *node, const kvs_net_peer_t *to,
                               const kvs_net_send_t *send, int64_t timeout_ms);

/* How messages went: to and from nodes of this host through shared memory, unless that is switched off,
 * cannot be had, or is no use (messages of more than a megabyte); within a process without copies. */
enum { KVS_NET_PATH_SHM, KVS_NET_PATH_TCP, KVS_NET_PATH_INPROC, KVS_NET_N_PATHS };

typedef struct kvs_net_count {
    uint64_t n_messages;
    uint64_t n_bytes; /* of headers and bodies */
} kvs_net_count_t;

typedef struct kvs_net_traffic {
    uint32_t size;
    kvs_net_count_t sent[KVS_NET_N_PATHS], received[KVS_NET_N_PATHS];
} kvs_net_traffic_t;

#define KVS_NET_TRAFFIC_INIT                                                                       \
    {                                                                                              \
        .size = (uint32_t)sizeof(kvs_net_traffic_t)                                                \
    }

/* "shm", "tcp", "inproc". */
const char *kvs_net_path_name(int path);
/* What this node has sent and received so far. Any thread; zeros before it is ready. */
void kvs_net_node_traffic(kvs_net_node_t *node, kvs_net_traffic_t *ret_traffic);

/* Call fn(arg) on the I/O thread, soon; never at once. */
kvs_status_t kvs_net_node_call(kvs_net_node_t *node, void (*fn)(void *arg), void *arg);
/* The same, or with fn NULL nothing, and wait until it has returned; so have callbacks that began before. */
kvs_status_t kvs_net_node_call_wait(kvs_net_node_t *node, void (*fn)(void *arg), void *arg);
/* Call fn(arg) on the I/O thread every `period_ms`, instead of what was set before; NULL: no more.
 * On the I/O thread (see kvs_net_node_call), else ERR_STATE. For deadlines of rounds. */
kvs_status_t kvs_net_node_set_tick(kvs_net_node_t *node, int64_t period_ms, void (*fn)(void *arg),
                                   void *arg);

/* ---- Stores ---------------------------------------------------------------------------------- */

typedef struct kvs_net_store_args {
    uint32_t size;
    uint32_t n_facts;
    const char *type;            /* "dist_sync" */
    const kvs_net_fact_t *facts; /* options that must agree; servers are told them */
    void (*message)(void *arg, kvs_net_message_t *message); /* on the I/O thread; owns it */
    void *arg;
    /* NULL, or more facts, a line each, "option bigarray_bound = 1000000" or "abi 1.0": what kvs_open_args_t
     * has under this name. */
    const char *loaded;
} kvs_net_store_args_t;

#define KVS_NET_STORE_ARGS_INIT                                                                    \
    {                                                                                              \
        .size = (uint32_t)sizeof(kvs_net_store_args_t)                                             \
    }

/* Open a store together with all workers: the n-th of each worker are one store. Waits until all
 * have opened it and all servers have been told. ERR_PEER at once, on every worker: type or a fact
 * differ, both ranks and values named. ERR_TIMEOUT names the ranks missing. Workers only. */
kvs_status_t kvs_net_store_open(kvs_net_node_t *node, const kvs_net_store_args_t *args,
                                int64_t timeout_ms, kvs_net_store_t **ret_store);
/* Its number, the same on every node, from 1; never used again. */
uint32_t kvs_net_store_number(const kvs_net_store_t *store);

/* Return when every worker has called it for this store as often. ERR_TIMEOUT names the ranks
 * missing; the others' barrier then fails too, with that text. ERR_PEER: a worker died, left or
 * closed the store; or the scheduler is gone. */
kvs_status_t kvs_net_store_barrier(kvs_net_store_t *store, int64_t timeout_ms);

/* Wake who waits in a barrier of the store with ERR_CANCELLED, also later ones. Safe in a signal handler. */
void kvs_net_store_cancel(kvs_net_store_t *store);

/* Close it: no message of it is delivered from the return on, and callbacks that began before have
 * returned. With embedded roles it waits, unless it was cancelled, at most
 * `timeout_ms`, until all workers have closed it or are gone: ERR_TIMEOUT names those who have not.
 * Frees the store in any case. NULL does nothing. */
kvs_status_t kvs_net_store_close(kvs_net_store_t *store, int64_t timeout_ms);

/* ---- Memory shared by processes of a host ------------------------------------------------------ */

/* A piece of memory that a node creates and that nodes of its host map. It has a name, which is its
 * owner's to choose, and no file: it ends with the last process that maps it, whatever ends that. Its
 * size is fixed, and all of it is there from the beginning: touching it never fails. */
typedef struct kvs_net_segment kvs_net_segment_t;

#define KVS_NET_SEGMENT_NAME_MAX 64 /* bytes, with the zero */

/* 1: this node can map segments of the peer: same host, and not switched off by KVSTORE_SHM=0 or by
 * what the system allows (the log says so). Once it is ready. */
int kvs_net_node_shares_memory(const kvs_net_node_t *node, const kvs_net_peer_t *peer);

/* Create a segment, all zero, and hand it from now on to peers that ask for it by name. ERR_EXISTS: the
 * node has one of that name. ERR_UNAVAILABLE: switched off. ERR_NO_MEMORY, ERR_IO: with the system's cause
 * or limit; go on without. Any thread. */
kvs_status_t kvs_net_segment_new(kvs_net_node_t *node, const char *name, size_t n_bytes,
                                 kvs_net_segment_t **ret_segment);
/* Map the segment `name` of `owner`, which may be this node, and wait until there is one. ERR_TIMEOUT
 * names owner and segment; ERR_PEER: the owner has died or left, or its segment does not have
 * `n_bytes` (0: any size will do); both sizes are named. ERR_UNAVAILABLE: not of this host, or switched off. */
kvs_status_t kvs_net_segment_open(kvs_net_node_t *node, const kvs_net_peer_t *owner,
                                  const char *name, size_t n_bytes, int64_t timeout_ms,
                                  kvs_net_segment_t **ret_segment);
void *kvs_net_segment_data(const kvs_net_segment_t *segment); /* aligned to a page */
size_t kvs_net_segment_size(const kvs_net_segment_t *segment);
/* Unmap it. One that was created here is not handed out any more; who has mapped it keeps it. Before
 * its node is closed. NULL does nothing. */
void kvs_net_segment_close(kvs_net_segment_t *segment);

/* A number in a segment that only rises (modulo 2^32) and that others wait for. Zero to begin with. Gates
 * that different processes raise fare best in cache lines of their own. */
typedef struct kvs_net_gate {
    uint32_t value;
    uint32_t n_sleepers;
} kvs_net_gate_t;

void kvs_net_gate_wake(kvs_net_gate_t *gate); /* of raise and add */

/* Everything written before is seen by whoever sees the value. */
static inline void kvs_net_gate_raise(kvs_net_gate_t *gate, uint32_t value)
{
    __atomic_store_n(&gate->value, value, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&gate->n_sleepers, __ATOMIC_SEQ_CST) != 0) {
        kvs_net_gate_wake(gate);
    }
}

/* The same for gates that several raise; gives the new value. */
static inline uint32_t kvs_net_gate_add(kvs_net_gate_t *gate, uint32_t n)
{
    uint32_t value = __atomic_add_fetch(&gate->value, n, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&gate->n_sleepers, __ATOMIC_SEQ_CST) != 0) {
        kvs_net_gate_wake(gate);
    }
    return value;
}

static inline uint32_t kvs_net_gate_value(const kvs_net_gate_t *gate)
{
    return __atomic_load_n(&gate->value, __ATOMIC_ACQUIRE);
}

static inline int kvs_net_gate_reached(const kvs_net_gate_t *gate, uint32_t value)
{
    return (int32_t)(kvs_net_gate_value(gate) - value) >= 0;
}

/* Wait until the gate has reached `value`: spinning briefly, giving the core away where more processes
 * of the job than cores are on this host, then asleep. ERR_PEER: `peer` has died or left; without a
 * peer (NULL) any member has died. ERR_TIMEOUT, ERR_CANCELLED, ERR_STATE: the job has ended, with
 * its text. What was noticed otherwise than by the gate itself is noticed within 50 ms. */
kvs_status_t kvs_net_gate_wait(kvs_net_node_t *node, kvs_net_gate_t *gate, uint32_t value,
                               const kvs_net_peer_t *peer, int64_t timeout_ms);

/* A loop that polls memory of its own:
 *     kvs_net_spin_t spin = KVS_NET_SPIN_INIT;
 *     while (!is_there(...) && kvs_net_node_spin(node, &spin)) {}
 * Each step spins or gives the core away, as gate_wait does. 0: it has lasted long enough, about 50 us:
 * sleep now. */
typedef struct kvs_net_spin {
    uint32_t n_steps;
    int64_t until;
} kvs_net_spin_t;

#define KVS_NET_SPIN_INIT                                                                          \
    {                                                                                              \
        0, 0                                                                                       \
    }

int kvs_net_node_spin(const kvs_net_node_t *node, kvs_net_spin_t *spin);

#ifdef __cplusplus
}
#endif
#endif
