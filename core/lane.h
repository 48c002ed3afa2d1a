/* SPDX-License-Identifier: Apache-2.0 */
/* lane.h - what keeps operations in order: a lane is owned by one task at a time, in order of
 * arrival. Each key has one, and each store one for its updater. A task runs when it owns all its
 * lanes; since a task joins all of them at once, under the store's lock, no two can wait for each
 * other. The caller locks. */
#ifndef KVSI_LANE_H
#define KVSI_LANE_H

#include <stdbool.h>
#include <stddef.h>

struct kvsi_task;

typedef struct kvsi_place { /* of a task in a lane's queue */
    struct kvsi_task *task;
    struct kvsi_lane *lane;
    struct kvsi_place *next;
    bool waits; /* it is in the queue, and does not own the lane yet */
} kvsi_place_t;

typedef struct kvsi_lane {
    bool owned;
    kvsi_place_t *first, *last; /* tasks that wait for it */
} kvsi_lane_t;

/* Own the lane now and give true, or join its queue. */
static inline bool kvsi_lane_join(kvsi_lane_t *lane, kvsi_place_t *place)
{
    place->lane = lane;
    place->next = NULL;
    place->waits = lane->owned;
    if (!lane->owned) {
        lane->owned = true;
        return true;
    }
    if (lane->first == NULL) {
        lane->first = place;
    } else {
        lane->last->next = place;
    }
    lane->last = place;
    return false;
}

/* The owner leaves: gives the place that owns the lane from now on, or NULL. */
static inline kvsi_place_t *kvsi_lane_leave(kvsi_lane_t *lane)
{
    kvsi_place_t *next = lane->first;

    if (next == NULL) {
        lane->owned = false;
        return NULL;
    }
    lane->first = next->next;
    next->waits = false;
    return next;
}

/* Leave the queue without ever owning the lane. */
static inline void kvsi_lane_withdraw(kvsi_lane_t *lane, kvsi_place_t *place)
{
    kvsi_place_t **link = &lane->first, *before = NULL;

    while (*link != place) {
        before = *link;
        link = &before->next;
    }
    *link = place->next;
    if (lane->last == place) {
        lane->last = before;
    }
    place->waits = false;
}

#endif
