/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64

static uint64_t digest_of(const kvs_key_entry_t *entry)
{
    uint64_t digest = hvd_mix(1, entry->name != NULL);

    for (const char *c = entry->name; c != NULL && *c != '\0'; c++) {
        digest = hvd_mix(digest, (unsigned char)*c);
    }
    return hvd_mix(digest, entry->name == NULL ? (uint64_t)entry->number : 0);
}

static bool is_key(const hvd_key_t *key, const kvs_key_entry_t *entry)
{
    return entry->name == NULL ? key->name == NULL && key->number == entry->number
                               : key->name != NULL && strcmp(key->name, entry->name) == 0;
}

static bool grow(hvd_keys_t *keys)
{
    size_t n = keys->n_buckets == 0 ? FIRST_BUCKETS : 2 * keys->n_buckets;
    hvd_key_t **buckets = calloc(n, sizeof(*buckets));

    if (buckets == NULL) {
        return false;
    }
    for (size_t i = 0; i < keys->n_buckets; i++) {
        for (hvd_key_t *key = keys->buckets[i], *next; key != NULL; key = next) {
            next = key->chain;
            key->chain = buckets[key->digest % n];
            buckets[key->digest % n] = key;
        }
    }
    free(keys->buckets);
    keys->buckets = buckets;
    keys->n_buckets = n;
    return true;
}

static hvd_key_t *make(hvd_keys_t *keys, const kvs_key_entry_t *entry, uint64_t digest)
{
    hvd_key_t *key = calloc(1, sizeof(*key));

    if (key != NULL && entry->name != NULL) {
        key->name = strdup(entry->name);
    }
    if (key == NULL || (entry->name != NULL && key->name == NULL)) {
        free(key);
        return NULL;
    }
    key->number = entry->number;
    key->digest = digest;
    key->chain = keys->buckets[digest % keys->n_buckets];
    keys->buckets[digest % keys->n_buckets] = key;
    keys->n++;
    return key;
}

hvd_key_t *hvd_keys_get(hvd_keys_t *keys, const kvs_key_entry_t *entry)
{
    uint64_t digest = digest_of(entry);
    hvd_key_t *key;

    if (keys->n >= keys->n_buckets && !grow(keys)) {
        return NULL;
    }
    key = keys->buckets[digest % keys->n_buckets];
    while (key != NULL && !is_key(key, entry)) {
        key = key->chain;
    }
    return key != NULL ? key : make(keys, entry, digest);
}

void hvd_keys_release(hvd_keys_t *keys)
{
    for (size_t i = 0; i < keys->n_buckets; i++) {
        for (hvd_key_t *key = keys->buckets[i], *next; key != NULL; key = next) {
            next = key->chain;
            free(key->name);
            free(key);
        }
    }
    free(keys->buckets);
    *keys = (hvd_keys_t){0};
}
