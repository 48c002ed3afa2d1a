/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - the names that somebody who mistyped one may have meant, for error texts. */
#ifndef KVSI_NEAR_H
#define KVSI_NEAR_H

#include <stddef.h>

typedef struct kvsi_near {
    const char *wanted;
    char text[256]; /* "; did you mean \"a\" or \"b\"", or empty */
    int best;
} kvsi_near_t;

#define KVSI_NEAR_INIT(name)                                                                       \
    {                                                                                              \
        .wanted = (name), .text = "", .best = 100                                                  \
    }

/* Take `name` into account: kept if it is as near as the nearest so far, or nearer, and if there is
 * room for it. */
void kvsi_near_offer(kvsi_near_t *near, const char *name);
/* What to put behind a message: begins with "; ", or is empty. */
const char *kvsi_near_text(const kvsi_near_t *near);

/* Letters to insert, delete, change or swap with a neighbour to get from one to the other. */
int kvsi_near_distance(const char *a, const char *b);

#endif
