/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - a worker's or server's side, shared by node*.c and lane.c.
 *
 * One I/O thread owns listener, control connection, channel, stores and the receiving half of every
 * lane. The sending half of a lane has a lock of its own: whoever sends takes it, so that a message
 * costs no change of threads, and different lanes don't wait for each other. `lock` guards what
 * waiters look at. Lock order: a lane's lock, then `lock`; no callback runs under either. */
#ifndef NET_NODE_H
#define NET_NODE_H

#include "address.h"
#include "channel.h"
#include "clock.h"
#include "idmap.h"
#include "job.h"
#include "liveness.h"
#include "ring.h"
#include "text.h"

typedef enum net_phase { NET_OPENING, NET_READY, NET_ENDED } net_phase_t;

/* One connection to a peer, and the state of the peer's to us with the same number. */
typedef struct net_lane {
    struct net_peer *peer;
    uint32_t index;
    uint64_t link; /* what we call our connection */

    pthread_mutex_t lock;
    pthread_cond_t room;
    net_socket_t *socket; /* guarded by lock, like all up to `in`; NULL: not used yet, or closed */
    net_outlink_t out;
    bool closed;          /* the peer is gone, or we close */
    bool wants_room;      /* somebody was refused: EVENT_ROOM is due */
    int n_waiters;        /* in kvs_net_send_wait */
    uint64_t mark;        /* n_acked when the clock last looked, */
    int64_t progress;     /* and when that last changed */
    net_writer_t *writer; /* set and cleared by the I/O thread; NULL: everything goes by socket */
    bool ring_is_open;    /* the reader has taken it */
    bool wants_ring;      /* to be offered by the I/O thread */
    net_record_t *queue, *last_queued; /* those for which the ring has no room yet */
    uint64_t n_queued_bytes;
    bool overflows; /* the ring is full of what is held, for long: others go by socket meanwhile */
    _Atomic int64_t
        held_up_until; /* that is decided then; 0: it is not so. Read without the lock */
    kvs_net_count_t by_ring, by_socket; /* sent */

    net_inlink_t in;     /* the I/O thread's, like all below */
    uint64_t their_link; /* what the peer calls its connection, once it said so; else 0 */
    net_route_t route;   /* by which its last frame came */
    bool shut;           /* it sent nonsense */
    bool ack_now;
    uint64_t n_unacked_bytes;
    uint32_t n_unacked;
    int64_t ack_due;
    bool is_queued; /* in node->acks */
    struct net_lane *next_ack;
    net_reader_t *reader; /* NULL: the peer sends by socket only */
    uint64_t stalled_at;  /* the next of the ring waits for one that comes by socket, after this */
    bool is_on_rings;     /* in node->rings */
    struct net_lane *next_ring;
} net_lane_t;

typedef struct net_peer {
    kvs_net_peer_t pub; /* first: what users hold */
    struct kvs_net_node *node;
    uint64_t incarnation;
    uint64_t host_id;
    bool by_name; /* same context: reached without TCP */
    char connect_host[NET_HOST_MAX];
    int connect_port;
    char host[NET_HOST_MAX], address[NET_HOST_MAX + 16], label[NET_LABEL_MAX];
    _Atomic bool gone; /* set after the next three, by the I/O thread */
    kvs_status_t gone_status;
    bool is_dead; /* rather than left */
    char *gone_text;
    net_lane_t *lanes;
} net_peer_t;

/* Something to be done on the I/O thread. */
typedef struct net_task {
    struct net_task *next;
    void (*run)(struct kvs_net_node *node, struct net_task *task); /* frees the task */
} net_task_t;

/* A request to the scheduler that somebody waits for; on the waiter's stack. */
typedef struct net_wait_entry {
    struct net_wait_entry *next;
    unsigned type;
    uint32_t number, store;
    const _Atomic bool *cancelled; /* NULL, or the store's */
    bool done;                     /* guarded by the node's lock, like what follows */
    kvs_status_t status;
    uint32_t value;
    char *text;
} net_wait_entry_t;

struct kvs_net_store {
    struct kvs_net_store *next;
    kvs_net_node_t *node;
    uint32_t number;
    void (*message)(void *arg, kvs_net_message_t *message);
    void *arg;
    char type[128];
    uint32_t n_barriers; /* guarded by the node's lock */
    _Atomic bool cancelled;
};

struct kvs_net_node {
    kvs_net_job_t *job; /* fixed after open, like all up to `thread` */
    kvs_net_node_args_t args;
    net_facts_t facts;
    char group[128];
    int rank_given;
    uint64_t incarnation;
    uint64_t host_id;
    int wake_fd;
    int door; /* -1: nothing is shared with other processes */
    pthread_t thread;

    net_address_t own; /* the I/O thread's, like all up to `peers` */
    char address[NET_HOST_MAX + 16];
    net_socket_t *control, *listener;
    net_channel_t channel;
    net_idmap_t inbound; /* their_link -> lane */
    net_lane_t *acks;    /* lanes that may owe an acknowledgement */
    net_lane_t *rings;   /* lanes with a reader or a writer */
    int64_t
        offer_again; /* when rings are offered that could not be handed over; 0: there is none */
    kvs_net_store_t *stores;
    int64_t next_beat, rendezvous_deadline;
    net_liveness_t liveness;
    bool control_used; /* sent on since it was last received from */
    bool heard;        /* of the scheduler */
    bool bye;          /* it has heard our goodbye, or says its own */
    bool is_orphan;    /* it is dead */
    uint64_t n_strangers;
    int64_t tick_ns, next_tick;
    void (*tick)(void *arg);
    void *tick_arg;

    net_peer_t *peers; /* fixed from NET_READY on, like the next six */
    uint32_t n_peers, self;
    int n_workers, n_servers;
    uint64_t token;
    bool is_crowded; /* more processes of the job than cores are on this host */

    _Atomic int phase;   /* net_phase_t: release after what it stands for, acquire before */
    _Atomic bool joined; /* it has been NET_READY: likewise */
    _Atomic bool cancelled;
    _Atomic bool wakes;               /* a store was cancelled: its waiters are to look */
    _Atomic(net_record_t *) finished; /* records whose last hold was ZeroMQ's: pushed by anyone */
    _Atomic int64_t n_records;        /* not ended yet: close waits for 0 */
    _Atomic bool is_rung;             /* a wake-up is on its way: no second one is needed */
    _Atomic bool is_awake;            /* the I/O thread: it looks at is_rung before it sleeps */
    _Atomic bool wants_rings;         /* a lane does */
    _Atomic uint64_t
        n_received[KVS_NET_N_PATHS]; /* messages; the I/O thread writes it, like the next */
    _Atomic uint64_t n_received_bytes[KVS_NET_N_PATHS];
    _Atomic int64_t heard_at; /* net_now() of the scheduler's last frame, for num_dead */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    net_task_t *tasks, *last_task; /* guarded by lock, like all below */
    net_wait_entry_t *waits;
    kvs_net_segment_t *segments; /* served to others */
    kvs_status_t end_status;
    char *end_text;
    char presence[2048]; /* who is there so far, as the scheduler says */
    char probe_text[512];
    uint32_t n_stores, n_queries; /* numbers given so far */
    bool is_closing;
    int64_t close_deadline;
    kvs_status_t close_status;
    char *close_text;
};

/* node.c */
static inline net_phase_t net_node_phase(const kvs_net_node_t *node)
{
    return (net_phase_t)atomic_load_explicit(&node->phase, memory_order_acquire);
}
bool net_node_is_io_thread(const kvs_net_node_t *node);
/* May the caller wait here? ERR_STATE in a forked child and on the I/O thread. */
kvs_status_t net_node_check_waiter(const kvs_net_node_t *node);
static inline bool net_node_has_joined(const kvs_net_node_t *node)
{
    return atomic_load_explicit(&node->joined, memory_order_acquire);
}
void net_node_ring(kvs_net_node_t *node);
void net_node_add_task(kvs_net_node_t *node, net_task_t *task);
/* Run `run` on the I/O thread and wait for it. */
void net_node_run_and_wait(kvs_net_node_t *node, void (*run)(kvs_net_node_t *node, void *arg),
                           void *arg);
/* The error of a node that has ended, with its text. */
kvs_status_t net_node_fail_ended(kvs_net_node_t *node);
net_peer_t *net_node_peer_at(kvs_net_node_t *node, uint32_t place); /* NULL: no such place */

/* node_thread.c: the I/O thread */
void *net_node_thread(void *node);
void net_node_end(kvs_net_node_t *node, kvs_status_t status, const char *text);
void net_node_emit(kvs_net_node_t *node, const kvs_net_event_t *event);
/* A peer is gone: its lanes close, what was sent to it ends with the error, waiters wake, and the
 * event of `kind` is told. Once for each peer. */
void net_node_lose(kvs_net_node_t *node, net_peer_t *peer, kvs_net_event_kind_t kind,
                   kvs_status_t status, const char *text, int linger_ms);
/* Also tell the scheduler, as it still hears the peer. `linger_ms` for what the peer is still told. */
void net_node_suspect(kvs_net_node_t *node, net_peer_t *peer, const char *text, int linger_ms);

/* node_ring.c: lanes through shared memory; on the I/O thread */
void net_rings_offer(kvs_net_node_t *node); /* to those that want one */
void net_rings_take_offer(kvs_net_node_t *node, const net_note_t *note, int fd);
void net_rings_take_refusal(kvs_net_node_t *node, const net_note_t *note);
/* Receive what is there, and learn what the others have received; true: there was something. */
bool net_rings_poll(kvs_net_node_t *node);
/* The same until nothing has come for a while. */
void net_rings_spin(kvs_net_node_t *node);
/* Do what is due; when the next thing will be. */
int64_t net_rings_look_at_clock(kvs_net_node_t *node);
/* From now on we want to be woken; false: don't sleep, something has come. And no more. */
bool net_rings_fall_asleep(kvs_net_node_t *node);
void net_rings_wake_up(kvs_net_node_t *node);
/* Receive from the lane's ring as long as its messages are the next, up to number `last`: whoever goes on
 * writing meanwhile does not keep us from the others. */
void net_rings_drain(kvs_net_node_t *node, net_lane_t *lane, uint64_t last);
void net_lane_close_rings(net_lane_t *lane);

/* node_receive.c: frames of the scheduler and of peers; on the I/O thread */
/* A message of the lane's ring, which is the next. */
void net_node_take_entry(kvs_net_node_t *node, net_lane_t *lane, const net_entry_t *entry,
                         const uint8_t *header, const uint8_t *body);
void net_node_shut_out(kvs_net_node_t *node, net_lane_t *lane);
net_peer_t *net_node_find_peer(kvs_net_node_t *node, uint64_t incarnation);
void net_node_receive_control(kvs_net_node_t *node);
bool net_node_receive_peers(kvs_net_node_t *node); /* true: there may be more */
/* Send the acknowledgements that are due, or, with `all`, that will be; gives when the next are. */
int64_t net_node_send_acks(kvs_net_node_t *node, bool all);

/* node_store.c: stores, and requests to the scheduler */
void net_node_take_answer(kvs_net_node_t *node, const net_answer_t *answer);
void net_node_wake_waits(kvs_net_node_t *node);
kvs_net_store_t *net_node_find_store(kvs_net_node_t *node, uint32_t number);

/* lane.c: the sending half. Any thread unless they say otherwise. */
kvs_status_t net_lane_init(net_lane_t *lane, net_peer_t *peer, uint32_t index);
void net_lane_release(net_lane_t *lane);
kvs_status_t net_lane_send(net_lane_t *lane, const kvs_net_send_t *send);
kvs_status_t net_lane_send_wait(net_lane_t *lane, const kvs_net_send_t *send, int64_t timeout_ms);
/* On the I/O thread: */
bool net_lane_acknowledged(net_lane_t *lane, uint64_t ack, bool resend); /* false: never sent */
void net_lane_post_ack(net_lane_t *lane, bool resend);
void net_lane_post_close(net_lane_t *lane, const char *text);
void net_lane_probe(net_lane_t *lane);
/* Ask for an acknowledgement if none came since the last look; true: none for `dead_after_ns`. `late_ns`
 * of that do not count. */
bool net_lane_look(net_lane_t *lane, int64_t now, int64_t late_ns, int64_t dead_after_ns);
bool net_lane_is_empty(net_lane_t *lane);
/* Does the peer hold up the ring for too long? Then there is the socket. */
void net_lane_look_at_hold(net_lane_t *lane, int64_t now);
/* The peer has received more from the ring; false: that can't be. `ret_busy`: look again, a sender has it. */
bool net_lane_look_at_ring(net_lane_t *lane, bool *ret_busy);
void net_lane_close(net_lane_t *lane, kvs_status_t status, const char *text, int linger_ms);
void net_lane_wake(net_lane_t *lane); /* whoever waits for room looks again */
void net_lane_count(net_lane_t *lane, kvs_net_traffic_t *io_traffic); /* any thread */
static inline int net_peer_path(const net_peer_t *peer)               /* of its sockets */
{
    return peer->by_name ? KVS_NET_PATH_INPROC : KVS_NET_PATH_TCP;
}
/* End what ZeroMQ has let go of. */
void net_lane_end_finished(kvs_net_node_t *node);

#endif
