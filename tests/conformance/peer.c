/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - a board with a few places. Who comes first puts its array on a free place and waits; who
 * comes second answers there. One lock: it is only slow. */
#include "peer.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { N_PLACES = 64, MAX_BYTES = 8 << 20, PATIENCE_S = 20 };

typedef enum state { FREE, ASKED, ANSWERED } state_t;

typedef struct place {
    state_t state;
    char name[64];
    size_t n_bytes;
    char first[MAX_BYTES], second[MAX_BYTES]; /* touched as far as they are used */
} place_t;

typedef struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    place_t places[N_PLACES]; /* guarded by lock */
} board_t;

static board_t *board;
static int my_rank, n_workers = 1;

kvs_status_t peer_connect(void)
{
    pthread_mutexattr_t mutex_shared;
    pthread_condattr_t cond_shared;

    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (board == MAP_FAILED) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no shared memory: %s", strerror(errno));
    }
    pthread_mutexattr_init(&mutex_shared);
    pthread_mutexattr_setpshared(&mutex_shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&board->lock, &mutex_shared);
    pthread_mutexattr_destroy(&mutex_shared);
    pthread_condattr_init(&cond_shared);
    pthread_condattr_setpshared(&cond_shared, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&board->changed, &cond_shared);
    pthread_condattr_destroy(&cond_shared);
    return KVS_OK;
}

void peer_join(int rank)
{
    my_rank = rank;
    n_workers = 2;
}

int peer_rank(void)
{
    return my_rank;
}

int peer_n_workers(void)
{
    return n_workers;
}

/* The place of that name that is asked, else a free one; NULL if all are taken. */
static place_t *find_locked(const char *name)
{
    place_t *found = NULL;

    for (int i = 0; i < N_PLACES; i++) {
        place_t *place = &board->places[i];

        if (place->state == ASKED && strcmp(place->name, name) == 0) {
            return place;
        }
        if (place->state == FREE) {
            found = place;
        }
    }
    return found;
}

static kvs_status_t answer_locked(place_t *place, const void *mine, size_t n_bytes,
                                  void *ret_theirs)
{
    if (place->n_bytes != n_bytes) {
        return kvs_fail(KVS_ERR_PEER, "%s: %zu bytes here, %zu there", place->name, n_bytes,
                        place->n_bytes);
    }
    memcpy(place->second, mine, n_bytes);
    memcpy(ret_theirs, place->first, n_bytes);
    place->state = ANSWERED;
    pthread_cond_broadcast(&board->changed);
    return KVS_OK;
}

static kvs_status_t ask_locked(place_t *place, const char *name, const void *mine, size_t n_bytes,
                               void *ret_theirs)
{
    struct timespec deadline;

    snprintf(place->name, sizeof(place->name), "%s", name);
    place->n_bytes = n_bytes;
    memcpy(place->first, mine, n_bytes);
    place->state = ASKED;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += PATIENCE_S;
    while (place->state == ASKED) {
        if (pthread_cond_clockwait(&board->changed, &board->lock, CLOCK_MONOTONIC, &deadline) !=
            0) {
            place->state = FREE;
            return kvs_fail(KVS_ERR_TIMEOUT, "%s: the other worker did not come", name);
        }
    }
    memcpy(ret_theirs, place->second, n_bytes);
    place->state = FREE;
    return KVS_OK;
}

kvs_status_t peer_trade(const char *name, const void *mine, size_t n_bytes, void *ret_theirs)
{
    kvs_status_t status;
    place_t *place;

    if (n_bytes > MAX_BYTES) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: %zu bytes are too many", name, n_bytes);
    }
    pthread_mutex_lock(&board->lock);
    place = find_locked(name);
    if (place == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "%s: all places are taken", name);
    } else if (place->state == ASKED) {
        status = answer_locked(place, mine, n_bytes, ret_theirs);
    } else {
        status = ask_locked(place, name, mine, n_bytes, ret_theirs);
    }
    pthread_mutex_unlock(&board->lock);
    return status;
}
