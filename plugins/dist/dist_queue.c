/* SPDX-License-Identifier: Apache-2.0 */
/* dist_queue.c - a binary heap for whose turn it is, and a list by arrival for who has waited longest. */
#include "dist_queue.h"

#include <stdlib.h>

void dist_queue_release(dist_queue_t *queue)
{
    free(queue->heap);
    *queue = (dist_queue_t){.heap = NULL};
}

/* ---- The heap: places from 1, children of i at 2 i and 2 i + 1 ------------------------------------------ */

static bool before(const dist_item_t *a, const dist_item_t *b)
{
    if (a->priority != b->priority) {
        return a->priority > b->priority;
    }
    return a->order != b->order ? a->order < b->order : a->ticket < b->ticket;
}

static void put(dist_queue_t *queue, size_t place, dist_item_t *item)
{
    queue->heap[place] = item;
    item->place = place;
}

static void rise(dist_queue_t *queue, dist_item_t *item)
{
    size_t place = item->place;

    while (place > 1 && before(item, queue->heap[place / 2])) {
        put(queue, place, queue->heap[place / 2]);
        place /= 2;
    }
    put(queue, place, item);
}

static void sink(dist_queue_t *queue, dist_item_t *item)
{
    size_t place = item->place;

    for (;;) {
        size_t child = 2 * place;

        if (child < queue->n && before(queue->heap[child + 1], queue->heap[child])) {
            child++;
        }
        if (child > queue->n || !before(queue->heap[child], item)) {
            break;
        }
        put(queue, place, queue->heap[child]);
        place = child;
    }
    put(queue, place, item);
}

static bool grow(dist_queue_t *queue)
{
    size_t room = queue->room == 0 ? 64 : 2 * queue->room;
    dist_item_t **grown = realloc(queue->heap, (room + 1) * sizeof(dist_item_t *));

    if (grown == NULL) {
        return false;
    }
    queue->heap = grown;
    queue->room = room;
    return true;
}

/* ---- Items ---------------------------------------------------------------------------------------------- */

bool dist_queue_add(dist_queue_t *queue, dist_item_t *item, int32_t priority, uint64_t order)
{
    if (queue->n == queue->room && !grow(queue)) {
        return false;
    }
    *item = (dist_item_t){.priority = priority,
                          .order = order,
                          .ticket = ++queue->n_tickets,
                          .place = ++queue->n,
                          .older = queue->newest};
    if (queue->newest != NULL) {
        queue->newest->newer = item;
    } else {
        queue->oldest = item;
    }
    queue->newest = item;
    rise(queue, item);
    return true;
}

dist_item_t *dist_queue_next(const dist_queue_t *queue)
{
    if (queue->n == 0) {
        return NULL;
    }
    return queue->turn % DIST_QUEUE_AGEING == DIST_QUEUE_AGEING - 1 ? queue->oldest
                                                                    : queue->heap[1];
}

void dist_queue_end_turn(dist_queue_t *queue)
{
    queue->turn++;
}

static void unlist(dist_queue_t *queue, const dist_item_t *item)
{
    if (item->older != NULL) {
        item->older->newer = item->newer;
    } else {
        queue->oldest = item->newer;
    }
    if (item->newer != NULL) {
        item->newer->older = item->older;
    } else {
        queue->newest = item->older;
    }
}

void dist_queue_remove(dist_queue_t *queue, dist_item_t *item)
{
    size_t place = item->place;
    dist_item_t *last;

    if (place == 0) {
        return;
    }
    unlist(queue, item);
    last = queue->heap[queue->n--];
    if (last != item) {
        put(queue, place, last);
        rise(queue, last);
        sink(queue, last);
    }
    *item = (dist_item_t){.place = 0};
}

void dist_queue_raise(dist_queue_t *queue, dist_item_t *item, int32_t priority)
{
    if (item->place != 0 && item->priority < priority) {
        item->priority = priority;
        rise(queue, item);
    }
}

int32_t dist_queue_lowest(const dist_queue_t *queue, int32_t otherwise)
{
    int32_t lowest = queue->n == 0 ? otherwise : INT32_MAX;

    for (const dist_item_t *item = queue->oldest; item != NULL; item = item->newer) {
        lowest = item->priority < lowest ? item->priority : lowest;
    }
    return lowest;
}
