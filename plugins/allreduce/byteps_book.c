/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_book.c - replacement is by highest random weight (Thaler and Ravishankar, 1998). */
#include "byteps_book.h"

#include <stdlib.h>
#include <string.h>

kvs_status_t byteps_book_init(byteps_book_t *book, uint32_t base, uint32_t n_servers)
{
    *book = (byteps_book_t){.base = base,
                            .n_servers = n_servers,
                            .loads = calloc(n_servers + 1, sizeof(*book->loads)),
                            .lost = calloc(n_servers + 1, sizeof(*book->lost)),
                            .buckets = calloc(256, sizeof(byteps_place_t *)),
                            .n_buckets = 256};
    if (book->loads == NULL || book->lost == NULL || book->buckets == NULL) {
        byteps_book_release(book);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the table of keys");
    }
    return KVS_OK;
}

kvs_status_t byteps_book_set_hosts(byteps_book_t *book, const uint32_t *host_of, uint32_t n_workers,
                                   uint32_t n_hosts)
{
    book->host_of = malloc(n_workers * sizeof(*book->host_of));
    book->summed = calloc(n_workers, sizeof(*book->summed));
    if (book->host_of == NULL || book->summed == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the table of hosts");
    }
    memcpy(book->host_of, host_of, n_workers * sizeof(*host_of));
    book->n_workers = n_workers;
    book->n_hosts = n_hosts;
    return KVS_OK;
}

void byteps_book_release(byteps_book_t *book)
{
    for (size_t i = 0; book->buckets != NULL && i < book->n_buckets; i++) {
        while (book->buckets[i] != NULL) {
            byteps_place_t *next = book->buckets[i]->next;

            free(book->buckets[i]->servers);
            free(book->buckets[i]->summers);
            free(book->buckets[i]);
            book->buckets[i] = next;
        }
    }
    free(book->buckets);
    free(book->loads);
    free(book->lost);
    free(book->host_of);
    free(book->summed);
    *book = (byteps_book_t){.buckets = NULL};
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ x >> 32;
}

static uint64_t hash_of(bool has_name, const char *name, uint32_t n_name, int64_t number)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (uint32_t i = 0; has_name && i < n_name; i++) {
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    }
    return has_name ? hash : mix((uint64_t)number);
}

static size_t bucket_of(const byteps_book_t *book, const byteps_place_t *place)
{
    return hash_of(place->has_name, place->name, place->n_name, place->number) &
           (book->n_buckets - 1);
}

static bool is_of(const byteps_place_t *place, const byteps_header_t *key)
{
    return place->has_name == key->has_name && place->number == key->number &&
           place->n_name == key->n_name &&
           (key->n_name == 0 || memcmp(place->name, key->name, key->n_name) == 0);
}

static bool grow(byteps_book_t *book)
{
    byteps_book_t grown = *book;

    grown.n_buckets = 2 * book->n_buckets;
    grown.buckets = calloc(grown.n_buckets, sizeof(byteps_place_t *));
    if (grown.buckets == NULL) {
        return false;
    }
    for (size_t i = 0; i < book->n_buckets; i++) {
        while (book->buckets[i] != NULL) {
            byteps_place_t *place = book->buckets[i];
            size_t to = bucket_of(&grown, place);

            book->buckets[i] = place->next;
            place->next = grown.buckets[to];
            grown.buckets[to] = place;
        }
    }
    free(book->buckets);
    *book = grown;
    return true;
}

static byteps_place_t *find(const byteps_book_t *book, const byteps_header_t *key)
{
    size_t i = hash_of(key->has_name, key->name, key->n_name, key->number) & (book->n_buckets - 1);
    byteps_place_t *place = book->buckets[i];

    while (place != NULL && !is_of(place, key)) {
        place = place->next;
    }
    return place;
}

/* NULL: no memory. */
static byteps_place_t *add(byteps_book_t *book, const byteps_header_t *key)
{
    byteps_place_t *place;
    size_t i;

    if (book->n_places >= book->n_buckets && !grow(book)) {
        return NULL;
    }
    place = calloc(1, sizeof(*place) + key->n_name + 1);
    if (place == NULL) {
        return NULL;
    }
    place->id = ++book->n_places;
    place->has_name = key->has_name;
    place->number = key->number;
    place->n_name = key->n_name;
    if (key->n_name > 0) {
        memcpy(place->name, key->name, key->n_name);
    }
    i = bucket_of(book, place);
    place->next = book->buckets[i];
    book->buckets[i] = place;
    return place;
}

static uint32_t least_loaded(const byteps_book_t *book)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t s = 0; s < book->n_servers; s++) {
        if (!book->lost[s] && (least == UINT32_MAX || book->loads[s] < book->loads[least])) {
            least = s;
        }
    }
    return least == UINT32_MAX ? 0 : least; /* with no server left nothing works any more */
}

/* Of each host, the worker that has the fewest bytes to sum. */
static void choose_summers(byteps_book_t *book, uint32_t *summers, uint64_t n_bytes)
{
    for (uint32_t host = 0; host < book->n_hosts; host++) {
        summers[host] = UINT32_MAX;
    }
    for (uint32_t w = 0; w < book->n_workers; w++) {
        uint32_t *summer = &summers[book->host_of[w]];

        if (*summer == UINT32_MAX || book->summed[w] < book->summed[*summer]) {
            *summer = w;
        }
    }
    for (uint32_t host = 0; host < book->n_hosts; host++) {
        book->summed[summers[host]] += n_bytes;
    }
}

static bool make_room(const byteps_book_t *book, byteps_place_t *place, uint64_t n_parts)
{
    uint32_t **arrays[] = {&place->servers, &place->summers};
    uint64_t widths[] = {1, book->n_hosts};

    for (size_t i = 0; i < 2; i++) {
        uint32_t *grown = NULL;

        if (widths[i] == 0) {
            continue;
        }
        if (n_parts <= SIZE_MAX / sizeof(*grown) / widths[i]) {
            grown = realloc(*arrays[i], (size_t)(n_parts * widths[i]) * sizeof(*grown));
        }
        if (grown == NULL) {
            return false;
        }
        *arrays[i] = grown;
    }
    return true;
}

kvs_status_t byteps_book_place(byteps_book_t *book, const byteps_header_t *key, uint64_t n_parts,
                               uint64_t part_bytes, uint64_t last_bytes,
                               const byteps_place_t **ret_place)
{
    byteps_place_t *place = find(book, key);

    if (place == NULL && book->n_places >= BYTEPS_MAX_KEYS) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s is one too many: a store has at most %d keys",
                        BYTEPS_KEY_TEXT(key), BYTEPS_MAX_KEYS);
    }
    if (place == NULL) {
        place = add(book, key);
    }
    if (place == NULL || (n_parts > place->n_parts && !make_room(book, place, n_parts))) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to place a key of %llu parts",
                        (unsigned long long)n_parts);
    }
    for (; place->n_parts < n_parts; place->n_parts++) {
        uint64_t n_bytes = place->n_parts + 1 < n_parts ? part_bytes : last_bytes;
        uint32_t server = least_loaded(book);

        place->servers[place->n_parts] = book->base + server;
        book->loads[server] += n_bytes;
        if (book->n_hosts > 0) {
            choose_summers(book, &place->summers[place->n_parts * book->n_hosts], n_bytes);
        }
    }
    *ret_place = place;
    return KVS_OK;
}

uint32_t byteps_replace(uint64_t id, uint64_t part, const bool *lost, uint32_t n_servers)
{
    uint32_t best = UINT32_MAX;
    uint64_t best_weight = 0;

    for (uint32_t s = 0; s < n_servers; s++) {
        uint64_t weight = mix(mix(mix(id) ^ part) + s);

        if (!lost[s] && (best == UINT32_MAX || weight > best_weight)) {
            best = s;
            best_weight = weight;
        }
    }
    return best;
}
