/* SPDX-License-Identifier: Apache-2.0 */
/* opt_keymap.h - a number or a name for some keys: the multipliers and names given with an optimizer.
 * Built once, then only read. */
#ifndef KVS_KIT_OPT_KEYMAP_H
#define KVS_KIT_OPT_KEYMAP_H

#include <kvstore/plugin.h>

typedef struct kvs_keymap_entry {
    char *str; /* the string key, owned; NULL for an integer */
    int64_t num;
    double value;
    char *name; /* owned, or NULL */
} kvs_keymap_entry_t;

typedef struct kvs_keymap {
    kvs_keymap_entry_t *entries; /* sorted: integers, then strings */
    size_t n;
} kvs_keymap_t;

/* `what` ("lr_mult", "names") begins the texts of errors. ERR_ARGUMENT: a key that stands twice, a
 * multiplier below 0 or not finite, a name that is NULL. The map must be all-zero; it stays
 * so on failure. */
kvs_status_t kvs_keymap_set_multipliers(kvs_keymap_t *map, const char *what,
                                        const kvs_multiplier_t *multipliers, size_t n);
kvs_status_t kvs_keymap_set_names(kvs_keymap_t *map, const char *what,
                                  const kvs_param_name_t *names, size_t n);
void kvs_keymap_release(kvs_keymap_t *map); /* empties it; usable again */

/* Integers come first, by number, then strings, by bytes: below 0, 0 or above. */
int kvs_key_compare(kvs_key_t a, kvs_key_t b);

/* NULL if the key is not in the map. */
const kvs_keymap_entry_t *kvs_keymap_find(const kvs_keymap_t *map, kvs_key_t key);

#endif
