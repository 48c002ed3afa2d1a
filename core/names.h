/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - whether a name that a user wrote means something that exists. Nothing is guessed. */
#ifndef KVSI_NAMES_H
#define KVSI_NAMES_H

#include <kvstore/plugins.h>

/* In the order in which they win. */
typedef enum kvsi_match {
    KVSI_MATCH_NAME,
    KVSI_MATCH_ALIAS,
    KVSI_MATCH_WORD,
    KVSI_NO_MATCH
} kvsi_match_t;

/* The word rule: `name` is cut at '_' and '-'; one part is the word of `provide`, all others are
 * in its `with`. `name` is in lower case. */
kvsi_match_t kvsi_name_match(const char *name, const kvs_provide_t *provide);
/* Whether it may be the name of something provided: 1 to 64 of a-z, 0-9, _ and -, the first a
 * letter or digit. */
int kvsi_name_is_valid(const char *name);
/* ASCII letters, in place. */
void kvsi_name_to_lower(char *name);

#endif
