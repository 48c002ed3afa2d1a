/* SPDX-License-Identifier: Apache-2.0 */
/* roster.h - the scheduler's lists as lines for `kvstore status`. */
#ifndef NET_ROSTER_H
#define NET_ROSTER_H

#include "membership.h"

#include <stdio.h>

/* Of each group who is there, who has gone, and when each was last heard. On the scheduler's thread. */
void net_roster_write(const net_group_t *groups, FILE *out);

#endif
