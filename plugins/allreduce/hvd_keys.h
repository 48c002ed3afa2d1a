/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_keys.h - what a store knows of its keys, as long as it is open. The core forgets a key whose first
 * exchange failed; here it stays, so that all workers count its exchanges alike. Filled by one thread at
 * a time: the one that issues operations. */
#ifndef HVD_KEYS_H
#define HVD_KEYS_H

#include <kvstore/plugin.h>

typedef struct hvd_turn hvd_turn_t;

typedef struct hvd_key {
    struct hvd_key *chain;
    int64_t number;
    char *name;               /* NULL: the key is its number */
    uint64_t digest;          /* of these two */
    hvd_turn_t *first, *last; /* the first is being exchanged; guarded by the member's lock */
    uint64_t n_exchanges;     /* asked for in this epoch; as is */
    uint32_t epoch;           /* this */
} hvd_key_t;

typedef struct hvd_keys {
    hvd_key_t **buckets;
    size_t n_buckets, n;
} hvd_keys_t;

/* The key of an entry, made at its first use. NULL: no memory. It lives until hvd_keys_release. */
hvd_key_t *hvd_keys_get(hvd_keys_t *keys, const kvs_key_entry_t *entry);
void hvd_keys_release(hvd_keys_t *keys);

/* One more number in a digest. */
static inline uint64_t hvd_mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return digest ^ digest >> 29;
}

#endif
