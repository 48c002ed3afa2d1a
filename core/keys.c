/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - one open-addressing table for both kinds: a store only ever holds one of them live. */
#include "keys.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

static uint64_t hash_of(const kvs_key_t *key)
{
    uint64_t hash = 0x7B;

    if (key->str == NULL) {
        return mix((uint64_t)key->num + 1);
    }
    for (const char *c = key->str; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 0x100000001B3u;
    }
    return mix(hash);
}

static bool is_same(const kvsi_key_t *known, const kvs_key_t *key, uint64_t hash)
{
    if (known->hash != hash || (known->name == NULL) != (key->str == NULL)) {
        return false;
    }
    return key->str == NULL ? known->entry.number == key->num : strcmp(known->name, key->str) == 0;
}

/* The slot that holds the key, or the free one where it belongs. The table is never full. */
static kvsi_key_t **slot_of(const kvsi_keys_t *keys, const kvs_key_t *key, uint64_t hash)
{
    size_t i = hash & (keys->n_slots - 1);

    while (keys->slots[i] != NULL && !is_same(keys->slots[i], key, hash)) {
        i = (i + 1) & (keys->n_slots - 1);
    }
    return &keys->slots[i];
}

kvsi_key_t *kvsi_keys_find(const kvsi_keys_t *keys, const kvs_key_t *key)
{
    return keys->n_slots == 0 ? NULL : *slot_of(keys, key, hash_of(key));
}

/* The bytes of the UTF-8 character at `c` (RFC 3629: no surrogates, no overlong forms), or 0. */
static size_t utf8_length(const unsigned char *c)
{
    if (c[0] < 0x80) {
        return 1;
    }
    if (c[0] >= 0xC2 && c[0] <= 0xDF) {
        return (c[1] & 0xC0) == 0x80 ? 2 : 0;
    }
    if ((c[0] & 0xF0) == 0xE0) {
        bool in_range = c[0] == 0xE0 ? c[1] >= 0xA0 : c[0] == 0xED ? c[1] <= 0x9F : true;

        return in_range && (c[1] & 0xC0) == 0x80 && (c[2] & 0xC0) == 0x80 ? 3 : 0;
    }
    if (c[0] >= 0xF0 && c[0] <= 0xF4) {
        bool in_range = c[0] == 0xF0 ? c[1] >= 0x90 : c[0] == 0xF4 ? c[1] <= 0x8F : true;

        return in_range && (c[1] & 0xC0) == 0x80 && (c[2] & 0xC0) == 0x80 && (c[3] & 0xC0) == 0x80
                   ? 4
                   : 0;
    }
    return 0;
}

kvs_status_t kvsi_key_check(const kvs_key_t *key)
{
    size_t len = key->str == NULL ? 0 : strnlen(key->str, KVS_KEY_MAX_BYTES + 1);

    if (len > KVS_KEY_MAX_BYTES) {
        return kvs_fail(KVS_ERR_ARGUMENT, "key %s is longer than %d bytes", KVSI_KEY_TEXT(key),
                        KVS_KEY_MAX_BYTES);
    }
    for (size_t i = 0; i < len;) {
        size_t step = utf8_length((const unsigned char *)key->str + i);

        if (step == 0) {
            return kvs_fail(KVS_ERR_ARGUMENT, "a string key is not UTF-8 text (byte %zu is 0x%02X)",
                            i, (unsigned char)key->str[i]);
        }
        i += step;
    }
    return KVS_OK;
}

static bool grow(kvsi_keys_t *keys)
{
    size_t n_slots = keys->n_slots == 0 ? 64 : keys->n_slots * 2;
    kvsi_key_t **old = keys->slots;
    size_t n_old = keys->n_slots;
    kvsi_key_t **slots = calloc(n_slots, sizeof(*slots));

    if (slots == NULL) {
        return false;
    }
    keys->slots = slots;
    keys->n_slots = n_slots;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i] != NULL) {
            size_t at = old[i]->hash & (n_slots - 1);

            while (slots[at] != NULL) {
                at = (at + 1) & (n_slots - 1);
            }
            slots[at] = old[i];
        }
    }
    free(old);
    return true;
}

static void free_key(kvsi_key_t *key)
{
    if (key != NULL) {
        free(key->entry.state);
        free(key->dims);
        free(key->name);
        free(key);
    }
}

static kvsi_key_t *new_key(kvsi_keys_t *keys, const kvs_key_t *key, uint64_t hash)
{
    kvsi_key_t *made = calloc(1, sizeof(*made));

    if (made == NULL) {
        return NULL;
    }
    made->entry.state = calloc(1, keys->state_bytes + 1);
    made->name = key->str == NULL ? NULL : strdup(key->str);
    if (made->entry.state == NULL || (key->str != NULL && made->name == NULL)) {
        free_key(made);
        return NULL;
    }
    made->hash = hash;
    made->entry.name = made->name;
    made->entry.number = key->str == NULL ? key->num : -1;
    made->entry.ndim = -1;
    return made;
}

kvs_status_t kvsi_keys_add(kvsi_keys_t *keys, const kvs_key_t *key, kvsi_key_t **ret_key)
{
    uint64_t hash = hash_of(key);
    kvsi_key_t *known = keys->n_slots == 0 ? NULL : *slot_of(keys, key, hash), *made;
    kvs_status_t status;

    if (known != NULL && !known->dropped) {
        *ret_key = known;
        return KVS_OK;
    }
    status = kvsi_key_check(key);
    if (status != KVS_OK) {
        return status;
    }
    if ((known == NULL && 2 * (keys->n_used + 1) > keys->n_slots && !grow(keys)) ||
        (made = new_key(keys, key, hash)) == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "key %s: no memory for its entry", KVSI_KEY_TEXT(key));
    }
    *slot_of(keys, key, hash) = made;
    keys->n_used += known == NULL;
    made->next = keys->all;
    keys->all = made;
    *ret_key = made;
    return KVS_OK;
}

void kvsi_keys_set_live(kvsi_keys_t *keys, kvsi_key_t *key, bool live)
{
    if (key->live == live) {
        return;
    }
    key->live = live;
    keys->n_live += live ? 1 : (size_t)-1;
    if (keys->n_live == 0) {
        keys->kind = KVSI_KEYS_NONE;
    } else if (live) {
        keys->kind = key->name == NULL ? KVSI_KEYS_INT : KVSI_KEYS_STR;
    }
    if (key->name != NULL && live) {
        key->entry.number = keys->next_number++;
    } else if (key->name != NULL && key->entry.number == keys->next_number - 1) {
        keys->next_number--;
    }
}

void kvsi_keys_drop(kvsi_keys_t *keys, kvsi_key_t *key)
{
    kvsi_keys_set_live(keys, key, false);
    key->dropped = true;
}

kvs_status_t kvsi_keys_check_kind(const kvsi_keys_t *keys, const kvs_key_t *key)
{
    kvsi_key_kind_t kind = key->str == NULL ? KVSI_KEYS_INT : KVSI_KEYS_STR;

    if (keys->kind == KVSI_KEYS_NONE || keys->kind == kind) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_KEY_TYPE,
                    "key %s: mixed key types are not allowed: this store has %s keys",
                    KVSI_KEY_TEXT(key), keys->kind == KVSI_KEYS_INT ? "integer" : "string");
}

kvs_status_t kvsi_key_set_layout(kvsi_key_t *key, const kvs_tensor_t *tensor, int64_t n_elems)
{
    size_t n_bytes = (size_t)tensor->ndim * sizeof(int64_t);
    int64_t *dims = malloc(n_bytes + 1);

    if (dims == NULL) {
        kvs_key_t named = kvsi_key_of(&key->entry);

        return kvs_fail(KVS_ERR_NO_MEMORY, "key %s: no memory for its shape",
                        KVSI_KEY_TEXT(&named));
    }
    if (n_bytes > 0) {
        memcpy(dims, tensor->shape, n_bytes);
    }
    free(key->dims);
    key->dims = dims;
    key->entry.shape = dims;
    key->entry.ndim = tensor->ndim;
    key->entry.dtype = tensor->dtype;
    key->entry.n_elems = n_elems;
    key->entry.row_sparse = tensor->rows != NULL;
    return KVS_OK;
}

void kvsi_keys_release(kvsi_keys_t *keys)
{
    while (keys->all != NULL) {
        kvsi_key_t *next = keys->all->next;

        free_key(keys->all);
        keys->all = next;
    }
    free(keys->slots);
    keys->slots = NULL;
    keys->n_slots = keys->n_used = keys->n_live = 0;
}
