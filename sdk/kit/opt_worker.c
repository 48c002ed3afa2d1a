/* SPDX-License-Identifier: Apache-2.0 */
/* opt_worker.c - optimizers without a store: the service through which the core offers them to workers.
 *
 * A key comes to life at its first update, or when states of it are loaded. The arithmetic is that of
 * the host store, and results don't depend on how arrays are cut, so both give the same bits. One
 * caller at a time, which the core sees to. */
#include <kvstore/states.h>

#include "opt_common.h"
#include "opt_keymap.h"
#include "pieces.h"
#include "shape.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <string.h>

typedef struct worker_key {
    kvs_key_entry_t entry; /* its name and shape are owned */
    kvs_opt_key_t state;
} worker_key_t;

typedef struct worker {
    kvs_opt_t *opt;
    worker_key_t **keys; /* sorted; there are few, and new ones are rare */
    size_t n_keys, capacity;
} worker_t;

static kvs_key_t key_of(const worker_key_t *key)
{
    return (kvs_key_t){key->entry.name, key->entry.number};
}

static kvs_status_t name_key(kvs_status_t status, const kvs_key_entry_t *key)
{
    return key->name != NULL ? kvs_fail_context(status, "key '%.80s'", key->name)
                             : kvs_fail_context(status, "key %lld", (long long)key->number);
}

/* ---- Keys ---------------------------------------------------------------------------------------- */

static void free_key(worker_key_t *key)
{
    if (key != NULL) {
        kvs_opt_key_release(&key->state);
        free((char *)(uintptr_t)key->entry.name);
        free((int64_t *)(uintptr_t)key->entry.shape);
        free(key);
    }
}

/* A key of the layout of `like`, which is copied. */
static kvs_status_t new_key(const kvs_key_entry_t *like, worker_key_t **ret_key)
{
    worker_key_t *key = calloc(1, sizeof(*key));
    int64_t *shape = malloc((size_t)(like->ndim + 1) * sizeof(*shape));
    char *name = like->name != NULL ? strdup(like->name) : NULL;

    if (key == NULL || shape == NULL || (like->name != NULL && name == NULL)) {
        free(key);
        free(shape);
        free(name);
        return name_key(kvs_fail(KVS_ERR_NO_MEMORY, "no memory for its entry"), like);
    }
    if (like->ndim > 0) {
        memcpy(shape, like->shape, (size_t)like->ndim * sizeof(*shape));
    }
    key->entry = *like;
    key->entry.name = name;
    key->entry.shape = shape;
    *ret_key = key;
    return KVS_OK;
}

/* The place of a key, or where it belongs. */
static size_t place_of(const worker_t *worker, kvs_key_t key, int *ret_is_there)
{
    size_t low = 0, high = worker->n_keys;

    *ret_is_there = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = kvs_key_compare(key, key_of(worker->keys[middle]));

        if (order == 0) {
            *ret_is_there = 1;
            return middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Room for `n_more` keys. */
static kvs_status_t make_room(worker_t *worker, size_t n_more)
{
    size_t capacity = worker->capacity > 0 ? worker->capacity : 16;
    worker_key_t **keys;

    while (capacity < worker->n_keys + n_more) {
        capacity *= 2;
    }
    if (capacity == worker->capacity) {
        return KVS_OK;
    }
    keys = realloc(worker->keys, capacity * sizeof(*keys));
    if (keys == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu keys", capacity);
    }
    worker->keys = keys;
    worker->capacity = capacity;
    return KVS_OK;
}

/* There is room. */
static void insert(worker_t *worker, worker_key_t *key)
{
    int is_there;
    size_t place = place_of(worker, key_of(key), &is_there);

    memmove(&worker->keys[place + 1], &worker->keys[place],
            (worker->n_keys - place) * sizeof(*worker->keys));
    worker->keys[place] = key;
    worker->n_keys++;
}

/* Keys of one type: integers or strings. */
static kvs_status_t check_type(const worker_t *worker, const kvs_key_entry_t *key)
{
    int has_strings = worker->n_keys > 0 && worker->keys[0]->entry.name != NULL;

    if (worker->n_keys == 0 || has_strings == (key->name != NULL)) {
        return KVS_OK;
    }
    return name_key(kvs_fail(KVS_ERR_KEY_TYPE,
                             "mixed key types are not allowed: this optimizer has %s keys",
                             has_strings ? "string" : "integer"),
                    key);
}

static kvs_status_t check_layout(const kvs_key_entry_t *known, const kvs_key_entry_t *given)
{
    char known_shape[KVS_SHAPE_TEXT_BYTES], given_shape[KVS_SHAPE_TEXT_BYTES];

    if (!kvs_same_shape(known->shape, known->ndim, given->shape, given->ndim)) {
        kvs_shape_text(known->shape, known->ndim, known_shape);
        kvs_shape_text(given->shape, given->ndim, given_shape);
        return name_key(kvs_fail(KVS_ERR_SHAPE, "the weight has shape %s, but the key's is %s",
                                 given_shape, known_shape),
                        known);
    }
    if (kvs_dtype_index(known->dtype) != kvs_dtype_index(given->dtype)) {
        return name_key(kvs_fail(KVS_ERR_DTYPE, "the weight has dtype %s, but the key's is %s",
                                 kvs_dtype_name(given->dtype), kvs_dtype_name(known->dtype)),
                        known);
    }
    return KVS_OK;
}

/* The key, known or new. */
static kvs_status_t find_key(worker_t *worker, const kvs_key_entry_t *given, worker_key_t **ret_key)
{
    int is_there;
    size_t place = place_of(worker, (kvs_key_t){given->name, given->number}, &is_there);
    worker_key_t *key;
    kvs_status_t status;

    if (is_there) {
        *ret_key = worker->keys[place];
        return check_layout(&worker->keys[place]->entry, given);
    }
    status = check_type(worker, given);
    if (status == KVS_OK) {
        status = make_room(worker, 1);
    }
    if (status == KVS_OK) {
        status = new_key(given, &key);
    }
    if (status == KVS_OK) {
        insert(worker, key);
        *ret_key = key;
    }
    return status;
}

/* ---- Life ---------------------------------------------------------------------------------------- */

static void worker_free(void *optimizer)
{
    worker_t *worker = optimizer;

    for (size_t i = 0; i < worker->n_keys; i++) {
        free_key(worker->keys[i]);
    }
    kvs_opt_free(worker->opt);
    free(worker->keys);
    free(worker);
}

static kvs_status_t worker_create(const kvs_optimizer_spec_t *spec, void **ret_optimizer)
{
    worker_t *worker = calloc(1, sizeof(*worker));
    kvs_status_t status;

    if (worker == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an optimizer");
    }
    status = kvs_opt_new(spec, &worker->opt);
    if (status != KVS_OK) {
        worker_free(worker);
        return status;
    }
    *ret_optimizer = worker;
    return KVS_OK;
}

static kvs_status_t worker_set_attr(void *optimizer, const kvs_param_t *attr)
{
    worker_t *worker = optimizer;

    return kvs_opt_set_attr(worker->opt, attr);
}

/* ---- Updating ------------------------------------------------------------------------------------ */

typedef struct step {
    const kvs_opt_t *opt;
    worker_key_t *key;
    const kvs_opt_update_t *update;
    int dtype;
    const char *grad;
    char *weight;
} step_t;

static void step_piece(void *arg, int64_t begin, int64_t end)
{
    const step_t *step = arg;
    size_t offset = (size_t)begin * kvs_dtype_bytes(step->dtype);

    kvs_opt_step(step->opt, step->update, &step->key->state, step->dtype, begin, end - begin,
                 step->grad + offset, step->weight + offset);
}

/* Nothing here can fail any more. */
static void run_update(worker_t *worker, worker_key_t *key, kvs_opt_update_t *update,
                       const kvs_tensor_t *grad, const kvs_tensor_t *weight)
{
    step_t step = {worker->opt, key,         update, kvs_dtype_index(key->entry.dtype),
                   grad->data,  weight->data};
    int64_t n = key->entry.n_elems;
    size_t n_arrays = 2 + kvs_opt_n_states(&key->state);

    if (kvs_opt_needs_whole(worker->opt)) {
        kvs_opt_prepare(worker->opt, &key->state, step.dtype, n, grad->data, weight->data, update);
    }
    if (n > 0) {
        kvs_for_pieces(n, (uint64_t)n * kvs_dtype_bytes(step.dtype) * n_arrays, step_piece, &step);
    }
}

static kvs_status_t worker_update(void *optimizer, const kvs_key_t *key, const kvs_tensor_t *grad,
                                  const kvs_tensor_t *weight)
{
    worker_t *worker = optimizer;
    kvs_key_entry_t given = {.number = key->str == NULL ? key->num : -1,
                             .name = key->str,
                             .dtype = weight->dtype,
                             .ndim = weight->ndim,
                             .shape = weight->shape,
                             .n_elems = kvs_tensor_n_elems(weight)};
    kvs_opt_update_t update;
    worker_key_t *found;
    kvs_status_t status = kvs_opt_check_key(worker->opt, &given);

    if (status == KVS_OK) {
        status = find_key(worker, &given, &found);
    }
    if (status == KVS_OK) { /* before the update is counted: this may lack memory */
        status = kvs_opt_begin(worker->opt, &found->state, &found->entry, weight->data);
    }
    if (status == KVS_OK) {
        status = kvs_opt_issue(worker->opt, &found->state, &found->entry, &update);
    }
    if (status == KVS_OK) {
        run_update(worker, found, &update, grad, weight);
    }
    return status;
}

/* ---- States in files ----------------------------------------------------------------------------- */

static kvs_status_t worker_save_states(void *optimizer, const char *path, int dump_optimizer)
{
    const worker_t *worker = optimizer;
    kvs_opt_item_t *items = malloc((worker->n_keys + 1) * sizeof(*items));
    kvs_status_t status;

    if (items == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of the keys");
    }
    for (size_t i = 0; i < worker->n_keys; i++) {
        items[i] = (kvs_opt_item_t){&worker->keys[i]->entry, &worker->keys[i]->state, NULL};
    }
    status = kvs_opt_save(worker->opt, items, worker->n_keys, path, dump_optimizer);
    free(items);
    return status;
}

/* Keys for those of the file that are not known yet. */
static kvs_status_t make_missing(const worker_t *worker, const kvs_opt_file_t *file,
                                 worker_key_t **missing, size_t *ret_n)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < kvs_opt_file_n_keys(file) && status == KVS_OK; i++) {
        const kvs_key_entry_t *entry = kvs_opt_file_key(file, i);
        int is_there;

        place_of(worker, (kvs_key_t){entry->name, entry->number}, &is_there);
        status = check_type(worker, entry);
        if (status == KVS_OK && !is_there) {
            status = new_key(entry, &missing[*ret_n]);
            *ret_n += status == KVS_OK;
        }
    }
    return status;
}

/* `items` has room for all. */
static kvs_status_t load_into(worker_t *worker, const kvs_opt_file_t *file, worker_key_t **missing,
                              size_t n_missing, kvs_opt_item_t *items)
{
    size_t n = 0;
    kvs_status_t status;

    for (size_t i = 0; i < worker->n_keys + n_missing; i++) {
        worker_key_t *key = i < worker->n_keys ? worker->keys[i] : missing[i - worker->n_keys];

        items[n++] = (kvs_opt_item_t){&key->entry, &key->state, NULL};
    }
    status = kvs_opt_file_load(file, &worker->opt, items, n);
    for (size_t i = 0; i < n_missing && status == KVS_OK; i++) {
        insert(worker, missing[i]);
        missing[i] = NULL;
    }
    return status;
}

static kvs_status_t load_file(worker_t *worker, const kvs_opt_file_t *file)
{
    size_t n_file = kvs_opt_file_n_keys(file);
    worker_key_t **missing = calloc(n_file + 1, sizeof(*missing));
    kvs_opt_item_t *items = malloc((worker->n_keys + n_file + 1) * sizeof(*items));
    size_t n_missing = 0;
    kvs_status_t status = make_room(worker, n_file);

    if (status == KVS_OK && (missing == NULL || items == NULL)) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu keys", n_file);
    }
    if (status == KVS_OK) {
        status = make_missing(worker, file, missing, &n_missing);
    }
    if (status == KVS_OK) {
        status = load_into(worker, file, missing, n_missing, items);
    }
    for (size_t i = 0; i < n_missing; i++) {
        free_key(missing[i]);
    }
    free(missing);
    free(items);
    return status;
}

static kvs_status_t worker_load_states(void *optimizer, const char *path)
{
    kvs_opt_file_t *file;
    kvs_status_t status = kvs_opt_file_open(path, &file);

    if (status == KVS_OK) {
        status = load_file(optimizer, file);
        kvs_opt_file_close(file);
    }
    return status;
}

const kvs_optimizer_service_t kvs_optimizer_service = {
    .size = (uint32_t)sizeof(kvs_optimizer_service_t),
    .n_params = KVS_OPT_N_COMMON,
    .params = kvs_opt_common_infos,
    .create = worker_create,
    .free = worker_free,
    .update = worker_update,
    .set_attr = worker_set_attr,
    .save_states = worker_save_states,
    .load_states = worker_load_states,
};
