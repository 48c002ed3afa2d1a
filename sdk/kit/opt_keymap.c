/* SPDX-License-Identifier: Apache-2.0 */
/* opt_keymap.c - a sorted array: it is looked up at every update and never changes. */
#include "opt_keymap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kvs_key_compare(kvs_key_t a, kvs_key_t b)
{
    if (a.str != NULL && b.str != NULL) {
        return strcmp(a.str, b.str);
    }
    if (a.str != NULL || b.str != NULL) {
        return a.str != NULL ? 1 : -1;
    }
    return (a.num > b.num) - (a.num < b.num);
}

static kvs_key_t key_of(const kvs_keymap_entry_t *entry)
{
    return (kvs_key_t){entry->str, entry->num};
}

static int compare_entries(const void *a, const void *b)
{
    const kvs_keymap_entry_t *x = a;
    const kvs_keymap_entry_t *y = b;

    return kvs_key_compare(key_of(x), key_of(y));
}

static kvs_status_t fail_key(const char *what, kvs_key_t key, const char *problem)
{
    if (key.str != NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: key '%s' %s", what, key.str, problem);
    }
    return kvs_fail(KVS_ERR_ARGUMENT, "%s: key %lld %s", what, (long long)key.num, problem);
}

static kvs_status_t fail_memory(const char *what, size_t n)
{
    return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for %zu keys", what, n);
}

static kvs_status_t allocate(kvs_keymap_t *map, const char *what, const void *list, size_t n)
{
    if (n == 0) {
        return KVS_OK;
    }
    if (list == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the list is NULL", what);
    }
    map->entries = calloc(n, sizeof(*map->entries));
    if (map->entries == NULL) {
        return fail_memory(what, n);
    }
    map->n = n;
    return KVS_OK;
}

static kvs_status_t set_key(kvs_keymap_t *map, const char *what, size_t index, kvs_key_t key)
{
    kvs_keymap_entry_t *entry = &map->entries[index];

    entry->num = key.num;
    if (key.str != NULL) {
        entry->str = strdup(key.str);
        if (entry->str == NULL) {
            return fail_memory(what, map->n);
        }
    }
    return KVS_OK;
}

static kvs_status_t sort(kvs_keymap_t *map, const char *what)
{
    if (map->n > 1) {
        qsort(map->entries, map->n, sizeof(*map->entries), compare_entries);
    }
    for (size_t i = 1; i < map->n; i++) {
        if (compare_entries(&map->entries[i - 1], &map->entries[i]) == 0) {
            return fail_key(what, (kvs_key_t){map->entries[i].str, map->entries[i].num},
                            "stands twice");
        }
    }
    return KVS_OK;
}

kvs_status_t kvs_keymap_set_multipliers(kvs_keymap_t *map, const char *what,
                                        const kvs_multiplier_t *multipliers, size_t n)
{
    kvs_status_t status = allocate(map, what, multipliers, n);

    for (size_t i = 0; status == KVS_OK && i < n; i++) {
        if (!isfinite(multipliers[i].value) || multipliers[i].value < 0) {
            status = fail_key(what, multipliers[i].key, "has a multiplier that is not 0 or more");
            break;
        }
        map->entries[i].value = multipliers[i].value;
        status = set_key(map, what, i, multipliers[i].key);
    }
    if (status == KVS_OK) {
        status = sort(map, what);
    }
    if (status != KVS_OK) {
        kvs_keymap_release(map);
    }
    return status;
}

kvs_status_t kvs_keymap_set_names(kvs_keymap_t *map, const char *what,
                                  const kvs_param_name_t *names, size_t n)
{
    kvs_status_t status = allocate(map, what, names, n);

    for (size_t i = 0; status == KVS_OK && i < n; i++) {
        if (names[i].name == NULL) {
            status = fail_key(what, names[i].key, "has no name");
            break;
        }
        map->entries[i].name = strdup(names[i].name);
        status = map->entries[i].name != NULL ? set_key(map, what, i, names[i].key)
                                              : fail_memory(what, n);
    }
    if (status == KVS_OK) {
        status = sort(map, what);
    }
    if (status != KVS_OK) {
        kvs_keymap_release(map);
    }
    return status;
}

void kvs_keymap_release(kvs_keymap_t *map)
{
    for (size_t i = 0; i < map->n; i++) {
        free(map->entries[i].str);
        free(map->entries[i].name);
    }
    free(map->entries);
    *map = (kvs_keymap_t){0};
}

const kvs_keymap_entry_t *kvs_keymap_find(const kvs_keymap_t *map, kvs_key_t key)
{
    size_t low = 0;
    size_t high = map->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const kvs_keymap_entry_t *entry = &map->entries[middle];
        int order = kvs_key_compare(key, key_of(entry));

        if (order == 0) {
            return entry;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}
