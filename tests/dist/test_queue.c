/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue.c - what waits for the wire: whose turn it is, whatever comes in between. */
#include "dist_queue.h"

#include <kt.h>
#include <stdlib.h>

enum { N = 400 };

/* Turns are one message long here. Gives the order in which items leave, by their place in the array. */
static void drain(dist_queue_t *queue, const dist_item_t *items, size_t *ret_left)
{
    dist_item_t *item;
    size_t n = 0;

    while ((item = dist_queue_next(queue)) != NULL) {
        ret_left[n++] = (size_t)(item - items);
        dist_queue_end_turn(queue);
        dist_queue_remove(queue, item);
    }
}

static void the_highest_priority_goes_first(void)
{
    static const int32_t priorities[] = {0, -5, INT32_MAX, 7, INT32_MIN, 3};
    static const size_t want[] = {2, 3, 5, 0, 1, 4};
    dist_queue_t queue = {.heap = NULL};
    dist_item_t items[6];
    size_t left[6];

    for (uint64_t i = 0; i < 6; i++) {
        KT_TRUE(dist_queue_add(&queue, &items[i], priorities[i], i));
    }
    drain(&queue, items, left);
    for (int i = 0; i < 6; i++) {
        KT_INT(left[i], want[i]);
    }
    dist_queue_release(&queue);
}

static void equal_priorities_go_in_order_of_issue(void)
{
    dist_queue_t queue = {.heap = NULL};
    dist_item_t items[N];

    for (uint64_t i = 0; i < N; i++) { /* 1, 0, 3, 2, …: those issued earlier come later */
        KT_TRUE(dist_queue_add(&queue, &items[i], 4, i ^ 1));
    }
    for (size_t i = 0; i < DIST_QUEUE_AGEING - 1; i++) {
        dist_item_t *item = dist_queue_next(&queue);

        KT_INT(item - items, i ^ 1);
        dist_queue_end_turn(&queue);
        dist_queue_remove(&queue, item);
    }
    dist_queue_release(&queue);
}

static void what_was_issued_together_goes_as_it_came(void)
{
    dist_queue_t queue = {.heap = NULL};
    dist_item_t items[N];
    size_t left[N];

    for (int i = 0; i < N; i++) {
        KT_TRUE(dist_queue_add(&queue, &items[i], 0, 9));
    }
    drain(&queue, items, left);
    for (size_t i = 0; i < N; i++) {
        KT_INT(left[i], i);
    }
    dist_queue_release(&queue);
}

/* Urgent ones keep coming, and yet the lowest gets its turn. */
static void nothing_starves(void)
{
    dist_queue_t queue = {.heap = NULL};
    dist_item_t low, urgent[N];
    int turns = 0;

    KT_TRUE(dist_queue_add(&queue, &low, INT32_MIN, 0));
    for (int i = 0; i < N && low.place != 0; i++) {
        dist_item_t *item;

        KT_TRUE(dist_queue_add(&queue, &urgent[i], 1000, (uint64_t)i));
        item = dist_queue_next(&queue);
        dist_queue_end_turn(&queue);
        dist_queue_remove(&queue, item);
        turns++;
    }
    KT_INT(low.place, 0);
    KT_INT(turns, DIST_QUEUE_AGEING);
    dist_queue_release(&queue);
}

static void a_turn_ends_only_when_it_is_said(void)
{
    dist_queue_t queue = {.heap = NULL};
    dist_item_t low, high;

    KT_TRUE(dist_queue_add(&queue, &low, 0, 1));
    KT_TRUE(dist_queue_next(&queue) == &low && dist_queue_next(&queue) == &low);
    KT_TRUE(dist_queue_add(&queue, &high, 1, 2));
    KT_TRUE(dist_queue_next(&queue) == &high);
    dist_queue_remove(&queue, &low);
    dist_queue_remove(&queue, &low); /* which is not in any more */
    KT_TRUE(dist_queue_next(&queue) == &high);
    dist_queue_remove(&queue, &high);
    KT_TRUE(dist_queue_next(&queue) == NULL);
    dist_queue_release(&queue);
}

static void a_raised_item_overtakes_and_is_never_lowered(void)
{
    dist_queue_t queue = {.heap = NULL};
    dist_item_t items[3];

    for (int i = 0; i < 3; i++) {
        KT_TRUE(dist_queue_add(&queue, &items[i], 3 - i, (uint64_t)i));
    }
    KT_INT(dist_queue_lowest(&queue, 9), 1);
    dist_queue_raise(&queue, &items[2], 4);
    KT_TRUE(dist_queue_next(&queue) == &items[2]);
    dist_queue_raise(&queue, &items[2], 0);
    KT_TRUE(dist_queue_next(&queue) == &items[2]);
    KT_INT(dist_queue_lowest(&queue, 9), 2);
    for (int i = 0; i < 3; i++) {
        dist_queue_remove(&queue, &items[i]);
    }
    KT_INT(dist_queue_lowest(&queue, 9), 9);
    dist_queue_raise(&queue, &items[0], 5); /* not in */
    KT_TRUE(dist_queue_next(&queue) == NULL);
    dist_queue_release(&queue);
}

/* Against a plain search, with items that come and go. */
static void whatever_comes_and_goes_the_most_urgent_is_found(void)
{
    dist_queue_t queue = {.heap = NULL};
    dist_item_t items[N] = {{.place = 0}};
    unsigned random = 12345;

    for (int step = 0; step < 20000; step++) {
        dist_item_t *best = NULL, *item;

        random = random * 1103515245 + 12345;
        item = &items[(random >> 8) % N];
        if (item->place == 0) {
            KT_TRUE(dist_queue_add(&queue, item, (int32_t)(random >> 24) % 5, random >> 28));
        } else if (random >> 31) {
            dist_queue_raise(&queue, item, (int32_t)(random >> 24) % 7);
        } else {
            dist_queue_remove(&queue, item);
        }
        for (int i = 0; i < N; i++) {
            dist_item_t *other = &items[i];

            if (other->place != 0 &&
                (best == NULL || other->priority > best->priority ||
                 (other->priority == best->priority &&
                  (other->order < best->order ||
                   (other->order == best->order && other->ticket < best->ticket))))) {
                best = other;
            }
        }
        if (dist_queue_next(&queue) != best) {
            KT_TRUE(dist_queue_next(&queue) == best);
            break;
        }
    }
    dist_queue_release(&queue);
}

static const kt_test_t tests[] = {
    KT_TEST(the_highest_priority_goes_first),
    KT_TEST(equal_priorities_go_in_order_of_issue),
    KT_TEST(what_was_issued_together_goes_as_it_came),
    KT_TEST(nothing_starves),
    KT_TEST(a_turn_ends_only_when_it_is_said),
    KT_TEST(a_raised_item_overtakes_and_is_never_lowered),
    KT_TEST(whatever_comes_and_goes_the_most_urgent_is_found),
};

KT_MAIN("queue", tests)
