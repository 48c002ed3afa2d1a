/* SPDX-License-Identifier: Apache-2.0 */
/* jsonscan.h - strict reading of JSON, before cJSON builds a tree of it.
 *
 * cJSON accepts invalid UTF-8, duplicate keys, 1e400, leading zeros, an embedded NUL and a byte
 * order mark, nests deep, and tells no place. This scan refuses all of them and says where. It
 * builds nothing: callers that find a fault in the tree ask it for the place of that field. RFC
 * 8259. */
#ifndef KVSI_JSONSCAN_H
#define KVSI_JSONSCAN_H

#include <stddef.h>

#define KVSI_JSON_MAX_DEPTH   16
#define KVSI_JSON_FIELD_BYTES 192

typedef struct kvsi_json_place {
    size_t line, column; /* from 1; columns count characters */
    char field
        [KVSI_JSON_FIELD_BYTES]; /* "provides[0].name"; "" for the whole; cut if it is longer */
    char reason[128];
    int out_of_memory; /* so the text may be right */
} kvsi_json_place_t;

/* 0 if `text` is one JSON value and nothing else; -1 with the place of the first fault. */
int kvsi_jsonscan_check(const char *text, size_t n_bytes, kvsi_json_place_t *ret_fault);
/* Find where the value of `field` begins, written as above. -1: there is none. `text` has passed
 * the check. */
int kvsi_jsonscan_find(const char *text, size_t n_bytes, const char *field,
                       kvsi_json_place_t *ret_place);

#endif
