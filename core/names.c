/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h. */
#include "names.h"

#include <string.h>

static int part_is(const char *part, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(part, word, len) == 0;
}

static int part_is_in(const char *part, size_t len, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        if (part_is(part, len, words[i])) {
            return 1;
        }
    }
    return 0;
}

static int matches_word(const char *name, const kvs_provide_t *provide)
{
    int n_words = 0;

    if (provide->word[0] == '\0') {
        return 0;
    }
    for (;;) {
        size_t len = strcspn(name, "_-");

        if (part_is(name, len, provide->word)) {
            n_words++;
        } else if (!part_is_in(name, len, provide->with, provide->n_with)) {
            return 0;
        }
        if (name[len] == '\0') {
            return n_words == 1;
        }
        name += len + 1;
    }
}

kvsi_match_t kvsi_name_match(const char *name, const kvs_provide_t *provide)
{
    if (strcmp(name, provide->name) == 0) {
        return KVSI_MATCH_NAME;
    }
    if (part_is_in(name, strlen(name), provide->aliases, provide->n_aliases)) {
        return KVSI_MATCH_ALIAS;
    }
    return matches_word(name, provide) ? KVSI_MATCH_WORD : KVSI_NO_MATCH;
}

int kvsi_name_is_valid(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return len >= 1 && len <= 64 && name[len] == '\0' && name[0] != '_' && name[0] != '-';
}

void kvsi_name_to_lower(char *name)
{
    for (; *name != '\0'; name++) {
        if (*name >= 'A' && *name <= 'Z') {
            *name = (char)(*name - 'A' + 'a');
        }
    }
}
