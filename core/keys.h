/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - the keys of a store: integer or string, from key to entry.
 *
 * Entries live until the table is released, so that queued work may point at them: where an init
 * fails, its entry stays for those who have it, and the next init of that key makes another. The
 * caller locks. */
#ifndef KVSI_KEYS_H
#define KVSI_KEYS_H

#include "lane.h"

#include <kvstore/abi.h>

#include <stdbool.h>

typedef struct kvsi_key {
    kvs_key_entry_t entry; /* what backends see; first */
    kvsi_lane_t lane;      /* operations on this key, in order */
    uint64_t mark;         /* sequence of the operation that groups its list by this key just now */
    size_t mark_group;
    uint64_t hash;
    bool live;             /* initialised, or its init is under way */
    bool dropped;          /* its init failed: it won't be live again */
    bool proven;           /* an operation on it has succeeded */
    bool used;             /* the backend has seen it: its state may need a release */
    int64_t *dims;         /* entry.shape */
    char *name;            /* entry.name */
    struct kvsi_key *next; /* in `all` */
} kvsi_key_t;

typedef enum kvsi_key_kind { KVSI_KEYS_NONE, KVSI_KEYS_INT, KVSI_KEYS_STR } kvsi_key_kind_t;

typedef struct kvsi_keys {
    kvsi_key_t **slots; /* open addressing; n_slots is a power of two, or 0 */
    size_t n_slots, n_used;
    kvsi_key_t *all; /* every entry, newest first */
    size_t n_live;
    kvsi_key_kind_t kind; /* of the live keys; NONE while there are none */
    int64_t next_number;  /* of the next string that comes to life */
    size_t state_bytes;   /* of the backend, for each key */
} kvsi_keys_t;

/* ERR_ARGUMENT: a string that is not UTF-8, or too long. */
kvs_status_t kvsi_key_check(const kvs_key_t *key);
/* The newest entry of the key, which may have been dropped; NULL if it was never added. */
kvsi_key_t *kvsi_keys_find(const kvsi_keys_t *keys, const kvs_key_t *key);
/* Find an entry that was not dropped, or make one; not live when new. Fails as kvsi_key_check. */
kvs_status_t kvsi_keys_add(kvsi_keys_t *keys, const kvs_key_t *key, kvsi_key_t **ret_key);
/* Raise or lower; the first live key decides the kind, the last one to go frees it. A string gets
 * its number as it is raised; the last number given is free again when its key is lowered. */
void kvsi_keys_set_live(kvsi_keys_t *keys, kvsi_key_t *key, bool live);
/* Lower it for ever: its init failed. */
void kvsi_keys_drop(kvsi_keys_t *keys, kvsi_key_t *key);
/* ERR_KEY_TYPE if `key` is of the other kind than the live ones. */
kvs_status_t kvsi_keys_check_kind(const kvsi_keys_t *keys, const kvs_key_t *key);
/* Set the shape and dtype that init gives. */
kvs_status_t kvsi_key_set_layout(kvsi_key_t *key, const kvs_tensor_t *tensor, int64_t n_elems);
/* Frees all entries; the backend has released its state. */
void kvsi_keys_release(kvsi_keys_t *keys);

static inline kvs_key_t kvsi_key_of(const kvs_key_entry_t *entry)
{
    return (kvs_key_t){entry->name, entry->number};
}

#endif
