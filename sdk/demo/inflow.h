/* SPDX-License-Identifier: Apache-2.0 */
/* inflow.h - the bytes of a file, which may lie there compressed by gzip.
 *
 * Where PATH doesn't exist and PATH.gz does, `gzip -dc` unpacks it into a pipe: gzip is part of every
 * Debian, and the program needs no library for it. */
#ifndef DEMO_INFLOW_H
#define DEMO_INFLOW_H

#include <kvstore/kvstore.h>

#include <stdio.h>
#include <sys/types.h>

typedef struct inflow {
    FILE *file;
    pid_t gzip; /* 0: none */
} inflow_t;

/* ERR_NOT_FOUND: neither PATH nor PATH.gz; ERR_IO. Ended by inflow_close. */
kvs_status_t inflow_open(const char *path, inflow_t *ret_inflow);
/* ERR_IO: reading failed, or the compressed file is damaged, whatever was made of the bytes so far. */
kvs_status_t inflow_close(inflow_t *inflow, const char *path);

#endif
