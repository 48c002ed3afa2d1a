/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_book.h - worker 0's book: which key has which number, and which server each of its parts goes to.
 * A part goes to the server that has the fewest bytes so far, and stays there; whichever worker asks
 * first. Where hosts sum first, a worker of each host does it for the part, chosen likewise. The caller
 * locks. */
#ifndef BYTEPS_BOOK_H
#define BYTEPS_BOOK_H

#include "byteps_message.h"

/* A key. Lives as long as the book. */
typedef struct byteps_place {
    struct byteps_place *next; /* in its bucket */
    uint64_t id;               /* from 1 */
    uint64_t n_parts;
    uint32_t *servers; /* of each part */
    uint32_t
        *summers; /* of each part, of each host: the worker that sums for it; NULL: nobody does */
    int64_t number;
    uint32_t n_name;
    bool has_name;
    char name[];
} byteps_place_t;

typedef struct byteps_book {
    uint32_t base, n_servers;    /* numbers of servers: from `base` on, so many */
    uint64_t *loads;             /* bytes given to each server so far */
    bool *lost;                  /* servers that get nothing any more */
    uint32_t n_hosts, n_workers; /* 0: hosts don't sum first */
    uint32_t *host_of;           /* of each worker */
    uint64_t *summed;            /* bytes that each worker sums for its host */
    byteps_place_t **buckets;
    size_t n_buckets, n_places;
} byteps_book_t;

kvs_status_t byteps_book_init(byteps_book_t *book, uint32_t base, uint32_t n_servers);
/* Hosts sum first. `host_of`: of each worker, below `n_hosts`; copied. ERR_NO_MEMORY. */
kvs_status_t byteps_book_set_hosts(byteps_book_t *book, const uint32_t *host_of, uint32_t n_workers,
                                   uint32_t n_hosts);
void byteps_book_release(byteps_book_t *book);

/* The place of the header's key, with at least `n_parts` parts, of `part_bytes` but the last, which has
 * `last_bytes`. ERR_NO_MEMORY; ERR_ARGUMENT: there are BYTEPS_MAX_KEYS others. */
kvs_status_t byteps_book_place(byteps_book_t *book, const byteps_header_t *key, uint64_t n_parts,
                               uint64_t part_bytes, uint64_t last_bytes,
                               const byteps_place_t **ret_place);

/* Which of the servers that are left does the part of one that was lost: the same for all workers that
 * know of the same losses, and another loss changes it only if it was that server. UINT32_MAX: none is
 * left. */
uint32_t byteps_replace(uint64_t id, uint64_t part, const bool *lost, uint32_t n_servers);

#endif
