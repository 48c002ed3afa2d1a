/* SPDX-License-Identifier: Apache-2.0 */
/* jsonread.h - strict reading of JSON, value by value, for state files: the reader knows what must come
 * next, so that no tree is built and nothing nests deeper than it asks for.
 *
 * Strings are decoded where they stand, so the text is changed, and lives as long as they do. After a
 * fault every function gives 0; `fault` says what was expected, `at` where. RFC 8259, RFC 3629. */
#ifndef KVS_KIT_JSONREAD_H
#define KVS_KIT_JSONREAD_H

#include <stddef.h>
#include <stdint.h>

typedef struct kvs_jsonread {
    char *text;
    size_t n_bytes;
    size_t at;
    int fresh;         /* an object or array has just been opened */
    const char *fault; /* NULL: none so far */
} kvs_jsonread_t;

typedef enum kvs_json_kind {
    KVS_JSON_FAULT,
    KVS_JSON_OBJECT,
    KVS_JSON_ARRAY,
    KVS_JSON_STRING,
    KVS_JSON_NUMBER,
    KVS_JSON_BOOL,
    KVS_JSON_NULL
} kvs_json_kind_t;

static inline kvs_jsonread_t kvs_jsonread(char *text, size_t n_bytes)
{
    return (kvs_jsonread_t){.text = text, .n_bytes = n_bytes};
}

/* What value comes next. */
kvs_json_kind_t kvs_jsonread_kind(kvs_jsonread_t *json);
/* 1 on success. '{' or '['. */
int kvs_jsonread_open(kvs_jsonread_t *json, char bracket);
/* 1: another member or item follows; 0: the bracket ('}' or ']') is closed, or a fault. */
int kvs_jsonread_more(kvs_jsonread_t *json, char bracket);
/* 1 on success. The name of a member: its value comes next. */
int kvs_jsonread_name(kvs_jsonread_t *json, const char **ret_name);
/* 1 on success. NUL-terminated UTF-8 without a NUL inside. */
int kvs_jsonread_string(kvs_jsonread_t *json, const char **ret_string);
/* The same, and how long it is, in place and to be changed: JSON within JSON. */
int kvs_jsonread_text(kvs_jsonread_t *json, char **ret_text, size_t *ret_n_bytes);
/* 1 on success. Without point and exponent, within int64. */
int kvs_jsonread_integer(kvs_jsonread_t *json, int64_t *ret_number);
/* 1 on success. Finite. `ret_is_integer` may be NULL: whether it has neither point nor exponent. */
int kvs_jsonread_real(kvs_jsonread_t *json, double *ret_number, int *ret_is_integer);
int kvs_jsonread_bool(kvs_jsonread_t *json, int *ret_bool);
int kvs_jsonread_null(kvs_jsonread_t *json);
/* 1 if nothing but spaces is left, and there was no fault. */
int kvs_jsonread_end(kvs_jsonread_t *json);
/* Make it a fault here, unless there is one; gives 0. The text is not copied. */
int kvs_jsonread_fault(kvs_jsonread_t *json, const char *fault);

#endif
