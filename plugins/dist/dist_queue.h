/* SPDX-License-Identifier: Apache-2.0 */
/* dist_queue.h - what waits for the wire, by priority: higher first, equal ones in order of issue. So that
 * none starves, every so-many-th turn is that of the one that has waited longest. Items are members of
 * what they stand for; the queue keeps pointers. No locks. */
#ifndef DIST_QUEUE_H
#define DIST_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIST_QUEUE_AGEING 16 /* turns */

typedef struct dist_item {
    int32_t priority;
    uint64_t order;  /* of issue */
    uint64_t ticket; /* of arrival, for those issued together */
    size_t place;    /* in the heap, from 1; 0: not queued */
    struct dist_item *older, *newer;
} dist_item_t;

typedef struct dist_queue {
    dist_item_t **heap; /* owned */
    size_t n, room;
    dist_item_t *oldest, *newest;
    uint64_t n_tickets;
    uint32_t turn;
} dist_queue_t;

void dist_queue_release(dist_queue_t *queue); /* items are their owners' */
/* False: no memory. */
bool dist_queue_add(dist_queue_t *queue, dist_item_t *item, int32_t priority, uint64_t order);
/* Whose turn it is: the same until the turn is over, unless something more urgent comes. NULL: nothing waits. */
dist_item_t *dist_queue_next(const dist_queue_t *queue);
void dist_queue_end_turn(dist_queue_t *queue);
void dist_queue_remove(dist_queue_t *queue, dist_item_t *item); /* if it is in */
/* Its priority is at least this from now on. */
void dist_queue_raise(dist_queue_t *queue, dist_item_t *item, int32_t priority);
/* The lowest priority that waits; `otherwise` if nothing does. */
int32_t dist_queue_lowest(const dist_queue_t *queue, int32_t otherwise);

#endif
