/* SPDX-License-Identifier: Apache-2.0 */
/* golden.h - what the runners of golden cases share: the verdict on a case, and arrays read from
 * and compared with its JSON. README.md of this folder describes the files. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <kvstore/kvstore.h>

#include <cjson/cJSON.h>
#include <stdio.h>

typedef enum golden_verdict { GOLDEN_PASSED, GOLDEN_FAILED, GOLDEN_SKIPPED } golden_verdict_t;

/* A case while it is carried out. The first verdict other than "passed" stays, with its reason. */
typedef struct golden_case {
    const cJSON *json;
    const char *name;
    const char *kind; /* of the file */
    double rtol, atol;
    kvs_store_t *store;
    golden_verdict_t verdict;
    char reason[1024];
} golden_case_t;

/* Each returns 0, so that a check can end with it. */
int golden_failed(golden_case_t *c, const char *format, ...) KVS_PRINTF(2, 3);
int golden_skipped(golden_case_t *c, const char *format, ...) KVS_PRINTF(2, 3);
/* 1 if `status` is 0. What today's library does not offer skips the case, any other error fails it. */
int golden_ok(golden_case_t *c, kvs_status_t status, const char *what);

const cJSON *golden_get(const cJSON *object, const char *name);
const char *golden_text(const cJSON *object, const char *name); /* "" if absent */
double golden_number(const cJSON *object, const char *name, double preset);
/* The number of a dtype by its name, or -1. */
int golden_dtype(const char *name);
/* Element i of `data` as a double, and back; `dtype` is a number. */
double golden_load(int dtype, const void *data, size_t i);
void golden_store(int dtype, void *data, size_t i, double value);
/* 1 on success. Text belongs to the JSON. */
int golden_key(golden_case_t *c, const cJSON *json, kvs_key_t *ret_key);

/* On how many CUDA devices dense arrays lie, in turns: KVSTORE_VECTORS_CUDA; 0: they lie in host memory. */
int golden_n_devices(void);

/* Arrays in the order of a call, and how many belong to each key. Everything is owned. */
typedef struct golden_list {
    kvs_tensor_t *tensors;
    size_t n, capacity;
    size_t *per_key;
    size_t n_keys;
    const cJSON **source; /* of each array: the object it was read from */
} golden_list_t;

#define GOLDEN_LIST_INIT                                                                           \
    {                                                                                              \
        0                                                                                          \
    }

typedef enum golden_fill { GOLDEN_VALUES, GOLDEN_OUTS } golden_fill_t;

/* `json` holds, per key, one tensor object or a list of them. With GOLDEN_VALUES the arrays hold the
 * data; with GOLDEN_OUTS they have the dtype and shape, and other bytes. The i-th array of a key
 * lives on cpu(i). */
int golden_list_read(golden_case_t *c, const cJSON *json, golden_fill_t fill, golden_list_t *list);
/* Add one array from flat data (`shape` NULL: one dimension); golden_list_end_key then says how many arrays were the key's. */
int golden_list_add_flat(golden_case_t *c, const char *dtype, const cJSON *shape, const cJSON *data,
                         golden_fill_t fill, golden_list_t *list);
void golden_list_end_key(golden_list_t *list, size_t n_arrays);
void golden_list_release(golden_list_t *list);
kvs_arrays_t golden_list_arrays(const golden_list_t *list);

/* 1 if each array of `list` agrees with the object that the array of `expect` in its place was read
 * from. Outs are checked against themselves: golden_list_check(c, &outs, &outs, …). */
int golden_list_check(golden_case_t *c, const golden_list_t *list, const golden_list_t *expect,
                      const char *what);
/* 1 if `tensor` agrees with flat dense data. */
int golden_check_flat(golden_case_t *c, const kvs_tensor_t *tensor, const cJSON *data,
                      const char *what);

#endif
