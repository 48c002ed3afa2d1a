/* SPDX-License-Identifier: Apache-2.0 */
/* test_request.c - a worker's requests while two threads are at them: one that receives, and one that sends
 * and finds that it can't. Net, groups and outs are stand-ins. */
#include "../kit/fake_host.h"
#include "dist_worker.h"

#include <kt.h>

enum { N_ELEMS = 4 };

static dist_worker_t worker = {.n_servers = 2, .first_free = UINT32_MAX, .timeout_ms = 1000};
static kvs_net_peer_t servers[2] = {{.role = KVS_NET_SERVER, .rank = 0, .label = "server 0"},
                                    {.role = KVS_NET_SERVER, .rank = 1, .label = "server 1"}};
static dist_wire_t wires[2];
static dist_header_t sent[2]; /* the last, to each */
static int n_sent;
static void (*called)(void *arg); /* what the I/O thread is to do */
static int n_ended, n_ended_while_writing;
static void (*while_writing)(void);
static char failure[64];

/* ---- Stand-ins --------------------------------------------------------------------------------------- */

kvs_status_t kvs_net_send(kvs_net_node_t *node, const kvs_net_peer_t *to,
                          const kvs_net_send_t *send)
{
    (void)node;
    n_sent++;
    return dist_header_decode(send->header, send->n_header_bytes, send->n_body_bytes,
                              &sent[to->rank]);
}

const kvs_net_peer_t *kvs_net_node_peer(const kvs_net_node_t *node, int role, int rank)
{
    (void)node;
    (void)role;
    return &servers[rank];
}

kvs_status_t kvs_net_node_call(kvs_net_node_t *node, void (*fn)(void *arg), void *arg)
{
    (void)node;
    if (arg == &worker) { /* not at once: the caller has the lock */
        called = fn;
    } else {
        fn(arg);
    }
    return KVS_OK;
}

void kvs_net_message_release(kvs_net_message_t *message)
{
    (void)message;
}

int64_t dist_now_ns(void)
{
    return 1;
}

size_t dist_pack_bytes(const dist_group_t *group, int64_t n)
{
    (void)group;
    return (size_t)n * sizeof(float);
}

int64_t dist_sparse_part(const dist_request_t *request)
{
    return request->n;
}

kvs_status_t dist_sparse_make_body(dist_request_t *request)
{
    (void)request;
    return KVS_OK;
}

void dist_sparse_write(const dist_group_t *group, int64_t first, int64_t n, const void *data)
{
    dist_group_write(group, first, n, data);
}

void dist_group_has_read(dist_group_t *group)
{
    (void)group;
}

void dist_group_fail(dist_group_t *group, kvs_status_t status, const char *text)
{
    (void)status;
    snprintf(failure, sizeof(failure), "%s", text);
    group->failed = true;
}

void dist_group_ended(dist_group_t *group)
{
    (void)group;
    n_ended++;
}

void dist_call_ended(dist_call_t *call, kvs_status_t status, const char *text)
{
    (void)call;
    (void)status;
    (void)text;
}

void dist_worker_settle(dist_worker_t *w)
{
    pthread_mutex_unlock(&w->lock);
}

void dist_worker_tell(dist_worker_t *w, uint64_t key, kvs_status_t status, const char *text)
{
    (void)w;
    (void)key;
    (void)status;
    (void)text;
}

void dist_group_write(const dist_group_t *group, int64_t first, int64_t n, const void *data)
{
    if (while_writing != NULL) {
        while_writing();
    }
    n_ended_while_writing = n_ended;
    memcpy((char *)group->pub->outs[0].data + (size_t)first * sizeof(float), data,
           (size_t)n * sizeof(float));
}

/* ---- A pull of an array that two servers hold ---------------------------------------------------------- */

typedef struct pull {
    dist_shard_t shards[2];
    dist_key_t key;
    kvs_key_entry_t entry;
    float out[N_ELEMS];
    kvs_tensor_t outs[1];
    kvs_group_t pub;
    kvs_op_t pub_op;
    dist_op_t op;
    dist_group_t group;
    dist_request_t requests[2];
} pull_t;

static void begin(pull_t *pull)
{
    *pull = (pull_t){.shards = {{0, 0, 0, 2}, {1, 0, 2, 2}},
                     .entry = {.n_elems = N_ELEMS, .dtype = kvs_dtype(KVS_DTYPE_float32)},
                     .op = {.worker = &worker, .pub = &pull->pub_op},
                     .group = {.op = &pull->op, .pub = &pull->pub, .verb = KVS_VERB_PULL}};
    pull->key.record = (dist_record_t){.id = 1,
                                       .n_elems = N_ELEMS,
                                       .dtype = KVS_DTYPE_float32,
                                       .n_shards = 2,
                                       .shards = pull->shards};
    pull->entry.state = &pull->key;
    pull->outs[0] = (kvs_tensor_t){.data = pull->out};
    pull->pub = (kvs_group_t){.key = &pull->entry, .outs = pull->outs, .n_outs = 1};
    pull->group.requests = pull->requests;
    pull->group.n_requests = pull->group.n_left = 2;
    n_ended = 0;
    failure[0] = '\0';
    pthread_mutex_lock(&worker.lock);
    for (uint32_t i = 0; i < 2; i++) {
        pull->requests[i] = (dist_request_t){.group = &pull->group,
                                             .worker = &worker,
                                             .kind = DIST_PULL,
                                             .server = i,
                                             .first = pull->shards[i].first,
                                             .n = pull->shards[i].n};
        dist_request_start(&pull->requests[i]);
    }
    pthread_mutex_unlock(&worker.lock);
}

static void answer(int server, float a, float b)
{
    float values[2] = {a, b};
    dist_header_t header = {.kind = DIST_PART,
                            .key = 1,
                            .request = sent[server].request,
                            .dtype = KVS_DTYPE_float32,
                            .n = 2};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_message_t message = {.from = &servers[server],
                                 .header = bytes,
                                 .n_header_bytes = dist_header_encode(&header, bytes),
                                 .body = values,
                                 .n_body_bytes = sizeof(values)};

    dist_worker_message(&worker, &message);
}

static void parts_of_both_servers_end_a_pull(void)
{
    pull_t pull;

    begin(&pull);
    answer(1, 3, 4);
    KT_INT(n_ended, 0);
    answer(0, 1, 2);
    KT_INT(n_ended, 1);
    for (int i = 0; i < N_ELEMS; i++) {
        KT_REAL(pull.out[i], i + 1);
    }
    answer(0, 7, 7); /* nobody waits for that */
    KT_REAL(pull.out[0], 1);
    KT_INT(n_ended, 1);
    KT_STR(failure, "");
}

static void *find_servers_gone(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&worker.lock);
    dist_requests_fail(&worker, -1, KVS_ERR_PEER, "the servers are gone");
    pthread_mutex_unlock(&worker.lock);
    return NULL;
}

static void fail_on_another_thread(void)
{
    pthread_t thread;

    KT_INT(pthread_create(&thread, NULL, find_servers_gone, NULL), 0);
    pthread_join(thread, NULL);
}

/* Whoever is told of the end may free the outs. */
static void a_pull_that_fails_does_not_end_while_an_answer_is_written(void)
{
    pull_t pull;

    begin(&pull);
    while_writing = fail_on_another_thread;
    answer(0, 1, 2);
    while_writing = NULL;
    KT_INT(n_ended_while_writing, 0);
    KT_INT(n_ended, 1);
    KT_STR(failure, "the servers are gone");
    answer(1, 3, 4); /* too late */
    KT_INT(n_ended, 1);
    KT_REAL(pull.out[2], 0);
}

/* Calls in a row, for whose end nobody waits; of each a message to each server. */
static void call_in_a_row(pull_t *pulls, int n)
{
    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&worker.lock);
        dist_requests_hold(&worker);
        pthread_mutex_unlock(&worker.lock);
        begin(&pulls[i]);
        pthread_mutex_lock(&worker.lock);
        dist_requests_let_go_soon(&worker);
        pthread_mutex_unlock(&worker.lock);
    }
}

static void by_socket_small_messages_of_calls_in_a_row_go_together(void)
{
    static pull_t pulls[4];

    wires[1].by_socket = true;
    called = NULL;
    n_sent = 0;
    call_in_a_row(pulls, 1);
    KT_INT(n_sent, 2); /* the first at once */
    KT_TRUE(called != NULL);
    call_in_a_row(pulls + 1, 3);
    KT_INT(n_sent, 2 + 3); /* and those by memory */
    called(&worker);
    KT_INT(n_sent, 2 + 3 + 1);
    KT_INT(sent[1].kind, DIST_BATCH);
    KT_INT(sent[1].n, 3);
    wires[1].by_socket = false;
    find_servers_gone(NULL);
}

static const kt_test_t tests[] = {
    KT_TEST(parts_of_both_servers_end_a_pull),
    KT_TEST(a_pull_that_fails_does_not_end_while_an_answer_is_written),
    KT_TEST(by_socket_small_messages_of_calls_in_a_row_go_together),
};

int main(int argc, char **argv)
{
    int failed;

    worker.wires = wires;
    pthread_mutex_init(&worker.lock, NULL);
    failed = kt_run("request", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    free(worker.slots);
    for (int s = 0; s < 2; s++) {
        dist_queue_release(&wires[s].queue);
        dist_batch_release(&wires[s].batch);
    }
    return failed;
}
