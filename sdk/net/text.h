/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - what texts are built from, and copies of fact lists. */
#ifndef NET_TEXT_H
#define NET_TEXT_H

#include "wire.h"

#define NET_LABEL_MAX 320 /* "worker 3 (host NAME, pid 71)" */

/* What the function that failed on this thread said. */
#define net_last_error() (kvs_plugin_host->last_error())

/* "worker 3 (host a, pid 71)"; without a rank (-1) "worker (host a, pid 71)". */
void net_label(char label[NET_LABEL_MAX], int role, int rank, const char *host, int64_t pid);
/* "15 s", "0.2 s". */
const char *net_seconds(char text[32], int64_t ms);

/* Owned facts. */
typedef struct net_facts {
    kvs_net_fact_t *facts;
    size_t n;
} net_facts_t;

/* Append a copy; false: no memory, nothing changed. */
bool net_facts_add(net_facts_t *facts, const char *name, const char *value);
/* NULL: there is none of that name. */
const char *net_facts_find(const net_facts_t *facts, const char *name);
void net_facts_release(net_facts_t *facts);

#endif
