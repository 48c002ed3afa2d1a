/* SPDX-License-Identifier: Apache-2.0 */
/* jsonwrite.h - JSON as text that grows, for state files.
 *
 * Commas are seen to: a value or a member that follows another gets one. Running out of memory is
 * remembered in `failed`, so that one look at the end is enough. All-zero is empty. */
#ifndef KVS_KIT_JSONWRITE_H
#define KVS_KIT_JSONWRITE_H

#include <stddef.h>
#include <stdint.h>

typedef struct kvs_jsonwrite {
    char *text; /* NUL-terminated once there is any */
    size_t n_bytes, capacity;
    int failed; /* out of memory: the text is incomplete */
    int comma;  /* what comes next is not the first of its object or array */
} kvs_jsonwrite_t;

void kvs_jsonwrite_open(kvs_jsonwrite_t *json, char bracket); /* '{' or '[' */
void kvs_jsonwrite_close(kvs_jsonwrite_t *json, char bracket);
/* The name of the value that comes next. */
void kvs_jsonwrite_name(kvs_jsonwrite_t *json, const char *name);
/* UTF-8; what JSON wants escaped is. */
void kvs_jsonwrite_string(kvs_jsonwrite_t *json, const char *string);
void kvs_jsonwrite_integer(kvs_jsonwrite_t *json, int64_t number);
/* With a point or an exponent, and digits that give back every bit; null for NaN. Not infinite. */
void kvs_jsonwrite_real(kvs_jsonwrite_t *json, double number);
/* true, false, null. */
void kvs_jsonwrite_word(kvs_jsonwrite_t *json, const char *word);
/* Bytes as they are, without a comma. */
void kvs_jsonwrite_raw(kvs_jsonwrite_t *json, const char *bytes, size_t n_bytes);
void kvs_jsonwrite_release(kvs_jsonwrite_t *json); /* empties it; usable again */

#endif
