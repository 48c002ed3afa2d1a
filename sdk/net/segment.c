/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - memory that processes of a host share. The owner keeps the descriptor and its I/O thread
 * answers who asks; the asking thread has a socket of its own, and asks again until there is one. */
#include "segment.h"

#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define ASK_AGAIN_MS  2 /* at first, then twice as long each time, up to */
#define ASK_SLOWLY_MS 50
#define HUGE_BYTES    (UINT64_C(2) << 20) /* from this size on large pages are worth asking for */
#define SEALS         (F_SEAL_SHRINK | F_SEAL_GROW)

struct kvs_net_segment {
    struct kvs_net_segment *next;
    kvs_net_node_t *node; /* of an owned one that is served; else NULL */
    net_memory_t memory;
    int fd; /* -1: not ours */
    char name[KVS_NET_SEGMENT_NAME_MAX];
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t mapped_bytes(size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (n_bytes + page - 1) / page * page;
}

/* Have every page there now: want of memory is an error here, and a signal later. */
static int populate(int fd, void *data, size_t n_bytes)
{
    int result;

    do {
        result = madvise(data, n_bytes, MADV_POPULATE_WRITE);
    } while (result != 0 && (errno == EINTR || errno == EAGAIN));
    if (result == 0 || errno != EINVAL) {
        return result == 0 ? 0 : errno == EFAULT ? ENOMEM : errno;
    }
    do { /* an older kernel */
        result = posix_fallocate(fd, 0, (off_t)n_bytes);
    } while (result == EINTR);
    return result;
}

static kvs_status_t fail_memory(size_t n_bytes, const char *step, int cause)
{
    return kvs_fail(cause == ENOMEM || cause == ENOSPC || cause == EFBIG ? KVS_ERR_NO_MEMORY
                                                                         : KVS_ERR_IO,
                    "shared memory of %zu bytes: %s: %s", n_bytes, step, strerror(cause));
}

static kvs_status_t map(int fd, size_t n_bytes, net_memory_t *ret_memory)
{
    size_t mapped = mapped_bytes(n_bytes);
    void *data = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int cause;

    if (data == MAP_FAILED) {
        return fail_memory(n_bytes, "mmap", errno);
    }
    if (mapped >= HUGE_BYTES) {
        (void)madvise(data, mapped, MADV_HUGEPAGE); /* only advice */
    }
    (void)madvise(data, mapped, MADV_DONTFORK); /* children have no use for it */
    cause = populate(fd, data, mapped);
    if (cause != 0) {
        munmap(data, mapped);
        return fail_memory(n_bytes, "its pages", cause);
    }
    *ret_memory = (net_memory_t){data, n_bytes};
    return KVS_OK;
}

/* Beyond the limit of file sizes ftruncate would send a signal. */
static bool is_beyond_limit(size_t n_bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           n_bytes > limit.rlim_cur;
}

kvs_status_t net_memory_new(size_t n_bytes, net_memory_t *ret_memory, int *ret_fd)
{
    kvs_status_t status;
    int fd;

    if (n_bytes > SIZE_MAX / 2 || is_beyond_limit(mapped_bytes(n_bytes))) {
        return fail_memory(n_bytes, "the limit of file sizes (ulimit -f)", EFBIG);
    }
    fd = memfd_create("kvstore", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return fail_memory(n_bytes, "memfd_create", errno);
    }
    if (ftruncate(fd, (off_t)mapped_bytes(n_bytes)) != 0) {
        status = fail_memory(n_bytes, "ftruncate", errno);
    } else if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) {
        status = fail_memory(n_bytes, "sealing", errno);
    } else {
        status = map(fd, n_bytes, ret_memory);
    }
    if (status != KVS_OK) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return KVS_OK;
}

kvs_status_t net_memory_map(int fd, size_t n_bytes, net_memory_t *ret_memory)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &file) != 0) {
        return kvs_fail(KVS_ERR_PEER, "what was handed over is no memory of a fixed size");
    }
    if (n_bytes == 0 || n_bytes > SIZE_MAX / 2 || (size_t)file.st_size < mapped_bytes(n_bytes)) {
        return kvs_fail(KVS_ERR_PEER, "%zu bytes are announced, and %lld are there", n_bytes,
                        (long long)file.st_size);
    }
    return map(fd, n_bytes, ret_memory);
}

void net_memory_unmap(net_memory_t *memory)
{
    if (memory->data != NULL) {
        munmap(memory->data, mapped_bytes(memory->n_bytes));
        memory->data = NULL;
    }
}

/* ---- Who may share --------------------------------------------------------------------------- */

int kvs_net_node_shares_memory(const kvs_net_node_t *node, const kvs_net_peer_t *peer)
{
    return node->door >= 0 && peer->same_host != 0;
}

static kvs_status_t check_on(const kvs_net_node_t *node)
{
    if (!net_job_is_ours(node->job)) {
        return KVS_ERR_STATE;
    }
    if (node->job->settings.shm == KVS_NET_SHM_OFF) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "shared memory is switched off (KVSTORE_SHM=0)");
    }
    if (node->door < 0) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "this process cannot share memory: see the log, or wait until the node is "
                        "ready");
    }
    return KVS_OK;
}

static kvs_status_t check_name(const char *name)
{
    if (name == NULL || name[0] == '\0' || strlen(name) >= KVS_NET_SEGMENT_NAME_MAX) {
        return kvs_fail(KVS_ERR_ARGUMENT, "a segment has a name of 1 to %d bytes",
                        KVS_NET_SEGMENT_NAME_MAX - 1);
    }
    return KVS_OK;
}

/* ---- The owner ------------------------------------------------------------------------------- */

static kvs_net_segment_t *find_locked(const kvs_net_node_t *node, const char *name)
{
    kvs_net_segment_t *at = node->segments;

    while (at != NULL && strcmp(at->name, name) != 0) {
        at = at->next;
    }
    return at;
}

/* False: there is one of that name. */
static bool serve(kvs_net_node_t *node, kvs_net_segment_t *segment)
{
    bool is_free;

    pthread_mutex_lock(&node->lock);
    is_free = find_locked(node, segment->name) == NULL;
    if (is_free) {
        segment->node = node;
        segment->next = node->segments;
        node->segments = segment;
    }
    pthread_mutex_unlock(&node->lock);
    return is_free;
}

static void serve_no_more(kvs_net_segment_t *segment)
{
    kvs_net_node_t *node = segment->node;
    kvs_net_segment_t **at;

    if (node == NULL) {
        return;
    }
    pthread_mutex_lock(&node->lock);
    for (at = &node->segments; *at != segment; at = &(*at)->next) {
    }
    *at = segment->next;
    pthread_mutex_unlock(&node->lock);
}

void net_segment_forget_all(kvs_net_node_t *node)
{
    while (node->segments != NULL) {
        kvs_net_segment_t *segment = node->segments;

        node->segments = segment->next;
        segment->node = NULL;
    }
}

/* Answered with the lock held, as the descriptor is closed by whoever takes the segment out. */
void net_segment_answer(kvs_net_node_t *node, const net_note_t *note,
                        const net_door_address_t *from)
{
    net_note_t answer = {.kind = NET_NOTE_NONE, .from = node->incarnation, .to = note->from};
    const kvs_net_segment_t *segment;

    pthread_mutex_lock(&node->lock);
    segment = find_locked(node, note->name);
    if (segment != NULL) {
        answer.kind = NET_NOTE_GIVE;
        answer.n_bytes = segment->memory.n_bytes;
    }
    memcpy(answer.name, note->name, sizeof(answer.name));
    /* who does not hear it asks again */
    (void)net_door_send(node->door, from, &answer, segment == NULL ? -1 : segment->fd);
    pthread_mutex_unlock(&node->lock);
}

static kvs_net_segment_t *new_segment(const char *name)
{
    kvs_net_segment_t *segment = calloc(1, sizeof(*segment));

    if (segment != NULL) {
        segment->fd = -1;
        strcpy(segment->name, name); /* its length has been checked */
    }
    return segment;
}

kvs_status_t kvs_net_segment_new(kvs_net_node_t *node, const char *name, size_t n_bytes,
                                 kvs_net_segment_t **ret_segment)
{
    kvs_status_t status = check_on(node);
    kvs_net_segment_t *segment;

    status = status == KVS_OK ? check_name(name) : status;
    if (status == KVS_OK && n_bytes == 0) {
        status = kvs_fail(KVS_ERR_ARGUMENT, "segment '%s' has no bytes", name);
    }
    if (status != KVS_OK) {
        return status;
    }
    segment = new_segment(name);
    if (segment == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for segment '%s'", name);
    }
    status = net_memory_new(n_bytes, &segment->memory, &segment->fd);
    if (status == KVS_OK && !serve(node, segment)) {
        status = kvs_fail(KVS_ERR_EXISTS, "this node has a segment '%s' already", name);
    }
    if (status != KVS_OK) {
        kvs_net_segment_close(segment);
        return status;
    }
    *ret_segment = segment;
    return KVS_OK;
}

/* ---- Whoever asks ---------------------------------------------------------------------------- */

typedef struct asking {
    kvs_net_node_t *node;
    const net_peer_t *owner;
    const char *name;
    size_t n_bytes; /* 0: any */
    int64_t deadline, timeout_ms;
    int fd;    /* our socket */
    int cause; /* errno of the last question; 0: it was sent */
} asking_t;

static kvs_status_t fail_late(const asking_t *asking)
{
    char seconds[32];

    if (asking->cause == ECONNREFUSED) {
        return kvs_fail(KVS_ERR_TIMEOUT,
                        "%s has not made a segment '%s': it shares no memory (KVSTORE_SHM=0?)",
                        asking->owner->label, asking->name);
    }
    return kvs_fail(KVS_ERR_TIMEOUT, "%s has not made a segment '%s' within %s",
                    asking->owner->label, asking->name, net_seconds(seconds, asking->timeout_ms));
}

static kvs_status_t check_patience(const asking_t *asking)
{
    kvs_status_t status = kvs_net_node_check_peer(asking->node, &asking->owner->pub);

    if (status != KVS_OK) {
        return status;
    }
    if (asking->node->cancelled) {
        return kvs_fail(KVS_ERR_CANCELLED, "cancelled while waiting for segment '%s' of %s",
                        asking->name, asking->owner->label);
    }
    if (net_node_phase(asking->node) == NET_ENDED) {
        return net_node_fail_ended(asking->node);
    }
    return net_now() < asking->deadline ? KVS_OK : fail_late(asking);
}

/* An answer to our question; false: none within `wait_ms`. */
static bool await_answer(const asking_t *asking, int wait_ms, net_note_t *ret_note, int *ret_fd)
{
    int64_t until = net_earlier(asking->deadline, net_deadline(wait_ms));
    struct pollfd item = {.fd = asking->fd, .events = POLLIN};
    net_door_address_t from;

    do {
        (void)poll(&item, 1, net_poll_ms(until)); /* receive says what came of it */
        while (net_door_receive(asking->fd, ret_note, &from, ret_fd)) {
            if (ret_note->from == asking->owner->incarnation &&
                ret_note->to == asking->node->incarnation &&
                strcmp(ret_note->name, asking->name) == 0) {
                return true;
            }
            if (*ret_fd >= 0) {
                close(*ret_fd);
            }
        }
    } while (net_now() < until);
    return false;
}

static kvs_status_t map_given(const asking_t *asking, const net_note_t *note, int fd,
                              net_memory_t *ret_memory)
{
    kvs_status_t status;

    if (fd < 0) {
        return kvs_fail(KVS_ERR_IO,
                        "segment '%s' of %s came without its descriptor: too many open files?",
                        asking->name, asking->owner->label);
    }
    if (asking->n_bytes != 0 && asking->n_bytes != note->n_bytes) {
        status = kvs_fail(KVS_ERR_PEER, "segment '%s' of %s has %llu bytes, and %zu are expected",
                          asking->name, asking->owner->label, (unsigned long long)note->n_bytes,
                          asking->n_bytes);
    } else {
        status = net_memory_map(fd, note->n_bytes, ret_memory);
        status = status == KVS_OK ? KVS_OK
                                  : kvs_fail_context(status, "segment '%s' of %s", asking->name,
                                                     asking->owner->label);
    }
    close(fd);
    return status;
}

/* Ask until it is there. */
static kvs_status_t ask(asking_t *asking, net_memory_t *ret_memory)
{
    net_door_address_t to = net_door_address(asking->owner->incarnation);
    net_note_t note = {
        .kind = NET_NOTE_ASK, .from = asking->node->incarnation, .to = asking->owner->incarnation};
    int wait_ms = ASK_AGAIN_MS;

    strcpy(note.name, asking->name); /* its length has been checked */
    for (;;) {
        net_note_t answer = {.kind = NET_NOTE_NONE};
        kvs_status_t status;
        int fd = -1;

        asking->cause = net_door_send(asking->fd, &to, &note, -1);
        if (asking->cause == 0 && await_answer(asking, ASK_SLOWLY_MS, &answer, &fd) &&
            answer.kind == NET_NOTE_GIVE) {
            return map_given(asking, &answer, fd, ret_memory);
        }
        if (fd >= 0) {
            close(fd);
        }
        status = check_patience(asking);
        if (status != KVS_OK) {
            return status;
        }
        (void)poll(NULL, 0, wait_ms); /* nothing tells of a name that appears */
        wait_ms = wait_ms < ASK_SLOWLY_MS ? 2 * wait_ms : ASK_SLOWLY_MS;
    }
}

static kvs_status_t check_opening(const kvs_net_node_t *node, const kvs_net_peer_t *owner,
                                  const char *name)
{
    kvs_status_t status = net_node_check_waiter(node);

    status = status == KVS_OK ? check_on(node) : status;
    status = status == KVS_OK ? check_name(name) : status;
    if (status == KVS_OK && !kvs_net_node_shares_memory(node, owner)) {
        status = kvs_fail(KVS_ERR_UNAVAILABLE,
                          "%s is not of this host: no memory is shared with it", owner->label);
    }
    return status;
}

kvs_status_t kvs_net_segment_open(kvs_net_node_t *node, const kvs_net_peer_t *owner,
                                  const char *name, size_t n_bytes, int64_t timeout_ms,
                                  kvs_net_segment_t **ret_segment)
{
    kvs_status_t status = check_opening(node, owner, name);
    asking_t asking = {.node = node,
                       .owner = (const net_peer_t *)owner,
                       .name = name,
                       .n_bytes = n_bytes,
                       .deadline = net_deadline(timeout_ms),
                       .timeout_ms = timeout_ms};
    kvs_net_segment_t *segment = status == KVS_OK ? new_segment(name) : NULL;

    if (status != KVS_OK) {
        return status;
    }
    if (segment == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for segment '%s'", name);
    }
    status = net_door_open(0, &asking.fd);
    if (status == KVS_OK) {
        status = ask(&asking, &segment->memory);
        close(asking.fd);
    }
    if (status != KVS_OK) {
        free(segment);
        return status;
    }
    *ret_segment = segment;
    return KVS_OK;
}

void *kvs_net_segment_data(const kvs_net_segment_t *segment)
{
    return segment->memory.data;
}

size_t kvs_net_segment_size(const kvs_net_segment_t *segment)
{
    return segment->memory.n_bytes;
}

void kvs_net_segment_close(kvs_net_segment_t *segment)
{
    if (segment == NULL) {
        return;
    }
    serve_no_more(segment);
    if (segment->fd >= 0) {
        close(segment->fd);
    }
    net_memory_unmap(&segment->memory);
    free(segment);
}
