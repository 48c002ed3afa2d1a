/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - writes JSON to stdout, indented. The name of a member is NULL for the whole and for
 * items of arrays. */
#ifndef KVS_CLI_JSON_H
#define KVS_CLI_JSON_H

#include <stddef.h>

typedef struct json {
    int depth;
    int has_items; /* of the object or array that is open */
} json_t;

#define JSON_INIT                                                                                  \
    {                                                                                              \
        0, 0                                                                                       \
    }

void json_open(json_t *json, const char *name, char bracket); /* '{' or '[' */
void json_close(json_t *json, char bracket); /* '}' or ']'; the last ends the line */
/* What is not UTF-8, as may be in a path, becomes U+FFFD; NULL becomes null. */
void json_text(json_t *json, const char *name, const char *text);
void json_integer(json_t *json, const char *name, long long value);
/* The shortest digits that give the same number again; NaN becomes null. */
void json_real(json_t *json, const char *name, double value);
void json_bool(json_t *json, const char *name, int value);
void json_texts(json_t *json, const char *name, const char *const *texts, size_t n_texts);

#endif
