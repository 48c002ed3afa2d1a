/* SPDX-License-Identifier: Apache-2.0 */
/* beacon.h - how processes of one job on one host find each other without an address: an abstract
 * Unix socket named by user, job and purpose. The first to light it owns it until its process ends,
 * however it ends; others ask its owner. Abstract names belong to a network namespace. */
#ifndef NET_BEACON_H
#define NET_BEACON_H

#include <kvstore/net.h>

#include <stdbool.h>

/* Own the beacon: `ret_fd` listens, to be closed by the caller. ERR_EXISTS: somebody has it. */
kvs_status_t net_beacon_light(const char *job_id, const char *purpose, int *ret_fd);
/* Tell `text` to everyone who is asking now. */
void net_beacon_answer(int fd, const char *text);
/* The process that owns it, or -1: nobody of this user. */
int64_t net_beacon_owner(const char *job_id, const char *purpose);
/* Ask its owner, until `deadline`, as long as there is none too. False: no answer came. */
bool net_beacon_ask(const char *job_id, const char *purpose, int64_t deadline, char *ret_text,
                    size_t size);

#endif
