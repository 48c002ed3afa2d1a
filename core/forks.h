/* SPDX-License-Identifier: Apache-2.0 */
/* forks.h - whether this process is a forked child of the one that made something. */
#ifndef KVSI_FORKS_H
#define KVSI_FORKS_H

#include <stdint.h>

/* Before anything is made that asks: the forks from here on count. Any thread. */
void kvsi_forks_watch(void);
/* Raised in each forked child. */
uint32_t kvsi_forks_count(void);

#endif
