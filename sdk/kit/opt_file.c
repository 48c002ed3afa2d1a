/* SPDX-License-Identifier: Apache-2.0 */
/* opt_file.c - between the states of keys and a file of tensors. New states are made and filled beside
 * the old ones; only when all are there do they change places, which can't fail. */
#include <kvstore/states.h>

#include "opt_keymap.h"
#include "opt_notes.h"
#include "opt_states.h"
#include "residuals.h"
#include "shape.h"
#include "statefile.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvs_key_t key_of(const kvs_key_entry_t *entry)
{
    return (kvs_key_t){entry->name, entry->number};
}

/* ---- What there is of a key ------------------------------------------------------------------------ */

/* A tensor's part of the name before the slash, and its data. */
typedef struct part {
    char name[KVS_OPT_STATE_NAME_BYTES];
    int dtype, per_row;
    int64_t n_elems;
    const void *data;
} part_t;

static size_t n_residuals_of(const kvs_opt_item_t *item)
{
    return item->residuals != NULL ? item->residuals->n : 0;
}

static size_t n_parts(const kvs_opt_item_t *item)
{
    return kvs_opt_n_states(item->state) + n_residuals_of(item);
}

static void name_residual(size_t place, char name[KVS_OPT_STATE_NAME_BYTES])
{
    snprintf(name, KVS_OPT_STATE_NAME_BYTES, "residual%zu", place);
}

/* States first, then residuals. */
static part_t part_at(const kvs_opt_item_t *item, size_t index)
{
    size_t n_states = kvs_opt_n_states(item->state);
    part_t part = {.dtype = KVS_DTYPE_float32};

    if (index < n_states) {
        kvs_opt_state_t state = kvs_opt_state_at(item->state, index);

        snprintf(part.name, sizeof(part.name), "%s", state.name);
        part.dtype = state.dtype;
        part.per_row = state.per_row;
        part.n_elems = state.n_elems;
        part.data = state.data;
    } else {
        name_residual(index - n_states, part.name);
        part.n_elems = item->residuals->n_elems;
        part.data = kvs_residuals_at(item->residuals, index - n_states);
    }
    return part;
}

/* ---- Saving -------------------------------------------------------------------------------------- */

/* Everything that a file is made of. */
typedef struct save {
    const kvs_opt_t *opt;
    kvs_opt_item_t *items; /* those that go into the file */
    size_t n_items;
    kvs_statefile_tensor_t *tensors;
    size_t n_tensors;
    int64_t *columns; /* shapes (rows, 1), two numbers for each tensor */
    char *names;      /* of the tensors, one after the other */
    size_t n_name_bytes;
} save_t;

static int has_something(const kvs_opt_item_t *item, int dump_optimizer)
{
    return n_parts(item) > 0 || (dump_optimizer && item->state->n_updates > 0);
}

static kvs_status_t choose_items(save_t *save, const kvs_opt_item_t *items, size_t n_items,
                                 int dump_optimizer)
{
    save->items = malloc((n_items + 1) * sizeof(*save->items));
    if (save->items == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu keys", n_items);
    }
    for (size_t i = 0; i < n_items; i++) {
        if (has_something(&items[i], dump_optimizer)) {
            save->items[save->n_items++] = items[i];
        }
    }
    return KVS_OK;
}

/* STATE/KEY, at `to` if there is room; gives its bytes with the NUL. */
static size_t name_tensor(const char *state, const kvs_key_entry_t *key, char *to, size_t n_bytes)
{
    int n = key->name != NULL ? snprintf(to, n_bytes, "%s/%s", state, key->name)
                              : snprintf(to, n_bytes, "%s/%lld", state, (long long)key->number);

    return (size_t)n + 1;
}

static kvs_status_t make_tables(save_t *save)
{
    size_t n_tensors = 0;

    for (size_t i = 0; i < save->n_items; i++) {
        size_t n = n_parts(&save->items[i]);

        n_tensors += n;
        for (size_t j = 0; j < n; j++) {
            part_t part = part_at(&save->items[i], j);

            save->n_name_bytes += name_tensor(part.name, save->items[i].key, NULL, 0);
        }
    }
    save->tensors = calloc(n_tensors + 1, sizeof(*save->tensors));
    save->columns = calloc(2 * n_tensors + 1, sizeof(*save->columns));
    save->names = malloc(save->n_name_bytes + 1);
    if (save->tensors == NULL || save->columns == NULL || save->names == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu states", n_tensors);
    }
    return KVS_OK;
}

static void list_tensors(save_t *save)
{
    char *name = save->names;
    const char *end = name + save->n_name_bytes;

    for (size_t i = 0; i < save->n_items; i++) {
        const kvs_opt_item_t *item = &save->items[i];

        for (size_t j = 0; j < n_parts(item); j++) {
            part_t part = part_at(item, j);
            kvs_statefile_tensor_t *tensor = &save->tensors[save->n_tensors];
            int64_t *column = &save->columns[2 * save->n_tensors];

            *tensor = (kvs_statefile_tensor_t){.name = name,
                                               .dtype = part.dtype,
                                               .ndim = item->key->ndim,
                                               .shape = item->key->shape,
                                               .data = part.data};
            if (part.per_row) {
                column[0] = part.n_elems;
                column[1] = 1;
                tensor->ndim = 2;
                tensor->shape = column;
            }
            name += name_tensor(part.name, item->key, name, (size_t)(end - name));
            save->n_tensors++;
        }
    }
}

static kvs_status_t write_notes(save_t *save, const char *path, int dump_optimizer)
{
    kvs_opt_notes_t notes;
    kvs_status_t status =
        kvs_opt_notes_make(save->opt, save->items, save->n_items, dump_optimizer, &notes);

    if (status == KVS_OK) {
        status = kvs_statefile_write(path, notes.notes, notes.n, save->tensors, save->n_tensors);
        kvs_opt_notes_release(&notes);
    }
    return status;
}

kvs_status_t kvs_opt_save(const kvs_opt_t *opt, const kvs_opt_item_t *items, size_t n_items,
                          const char *path, int dump_optimizer)
{
    save_t save = {.opt = opt};
    kvs_status_t status = choose_items(&save, items, n_items, dump_optimizer);

    if (status == KVS_OK) {
        status = make_tables(&save);
    }
    if (status == KVS_OK) {
        list_tensors(&save);
        status = write_notes(&save, path, dump_optimizer);
    }
    free(save.items);
    free(save.tensors);
    free(save.columns);
    free(save.names);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------------- */

struct kvs_opt_file {
    char *path;
    kvs_statefile_t tensors;
    kvs_opt_noted_t noted;
};

kvs_status_t kvs_opt_file_open(const char *path, kvs_opt_file_t **ret_file)
{
    kvs_opt_file_t *file = calloc(1, sizeof(*file));
    kvs_status_t status;

    if (file == NULL || (file->path = strdup(path)) == NULL) {
        free(file);
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to read it", path);
    }
    status = kvs_statefile_open(file->path, &file->tensors);
    if (status == KVS_OK) {
        status = kvs_opt_notes_read(&file->tensors, &file->noted);
    }
    if (status != KVS_OK) {
        kvs_opt_file_close(file);
        return status;
    }
    *ret_file = file;
    return KVS_OK;
}

void kvs_opt_file_close(kvs_opt_file_t *file)
{
    if (file != NULL) {
        kvs_opt_noted_release(&file->noted);
        kvs_statefile_close(&file->tensors);
        free(file->path);
        free(file);
    }
}

size_t kvs_opt_file_n_keys(const kvs_opt_file_t *file)
{
    return file->noted.n_keys;
}

const kvs_key_entry_t *kvs_opt_file_key(const kvs_opt_file_t *file, size_t index)
{
    return &file->noted.keys[index].entry;
}

/* ---- Loading ------------------------------------------------------------------------------------- */

typedef struct load {
    const kvs_opt_file_t *file;
    kvs_opt_t *opt; /* to which the states will belong */
    kvs_opt_item_t *items;
    size_t n_items;
    kvs_opt_key_t *loaded;      /* one for each item: what takes the place of its state */
    kvs_residuals_t *residuals; /* likewise */
    char *used;                 /* of each tensor: it is some key's state */
} load_t;

static int by_key(const void *a, const void *b)
{
    const kvs_opt_item_t *x = a, *y = b;

    return kvs_key_compare(key_of(x->key), key_of(y->key));
}

static kvs_status_t check_layout(const load_t *load, const kvs_opt_noted_key_t *noted,
                                 const kvs_key_entry_t *key)
{
    const kvs_key_entry_t *saved = &noted->entry;
    char saved_shape[KVS_SHAPE_TEXT_BYTES], shape[KVS_SHAPE_TEXT_BYTES];

    if (!kvs_same_shape(saved->shape, saved->ndim, key->shape, key->ndim)) {
        kvs_shape_text(saved->shape, saved->ndim, saved_shape);
        kvs_shape_text(key->shape, key->ndim, shape);
        return kvs_fail(KVS_ERR_SHAPE, "%s: key '%.80s' has shape %s there, but %s here",
                        load->file->path, noted->text, saved_shape, shape);
    }
    if (kvs_dtype_index(saved->dtype) != kvs_dtype_index(key->dtype)) {
        return kvs_fail(KVS_ERR_DTYPE, "%s: key '%.80s' has dtype %s there, but %s here",
                        load->file->path, noted->text, kvs_dtype_name(saved->dtype),
                        kvs_dtype_name(key->dtype));
    }
    return KVS_OK;
}

/* What the file has of one key: the master weight, then the states, in the optimizer's order. */
typedef struct found {
    const kvs_statefile_tensor_t *tensors[1 + KVS_OPTIMIZER_MAX_STATES]; /* NULL: it has none */
    uint32_t mask;                                                       /* of the states */
} found_t;

static const kvs_statefile_tensor_t *find_tensor(load_t *load, const char *state,
                                                 const kvs_key_entry_t *key)
{
    char name[KVS_KEY_MAX_BYTES + KVS_OPT_STATE_NAME_BYTES + 2];
    const kvs_statefile_tensor_t *tensor;

    name_tensor(state, key, name, sizeof(name));
    tensor = kvs_statefile_find(&load->file->tensors, name);
    if (tensor != NULL) {
        load->used[tensor - load->file->tensors.tensors] = 1;
    }
    return tensor;
}

static found_t find_states(load_t *load, const kvs_key_entry_t *key)
{
    const kvs_optimizer_t *kind = load->opt->kind;
    found_t found = {.mask = 0};

    found.tensors[0] = find_tensor(load, KVS_OPT_MASTER, key);
    for (size_t i = 0; i < kind->n_states; i++) {
        found.tensors[1 + i] = find_tensor(load, kind->states[i].name, key);
        found.mask |= found.tensors[1 + i] != NULL ? 1u << i : 0;
    }
    return found;
}

static kvs_status_t check_tensor(const load_t *load, const kvs_statefile_tensor_t *tensor,
                                 const kvs_key_entry_t *key, int per_row, int dtype)
{
    int64_t column[2] = {kvs_opt_n_rows(key), 1};
    int32_t ndim = per_row ? 2 : key->ndim;
    const int64_t *shape = per_row ? column : key->shape;
    char got_text[KVS_SHAPE_TEXT_BYTES], want_text[KVS_SHAPE_TEXT_BYTES];

    if (!kvs_same_shape(tensor->shape, tensor->ndim, shape, ndim)) {
        kvs_shape_text(tensor->shape, tensor->ndim, got_text);
        kvs_shape_text(shape, ndim, want_text);
        return kvs_fail(KVS_ERR_SHAPE, "%s: tensor '%.80s' has shape %s, but that state has %s",
                        load->file->path, tensor->name, got_text, want_text);
    }
    if (tensor->dtype != dtype) {
        return kvs_fail(KVS_ERR_DTYPE, "%s: tensor '%.80s' has dtype %s, but that state has %s",
                        load->file->path, tensor->name, kvs_dtype_name(kvs_dtype(tensor->dtype)),
                        kvs_dtype_name(kvs_dtype(dtype)));
    }
    return KVS_OK;
}

/* Without a master weight there is none, or nothing at all; with one there must be one. */
static kvs_status_t check_master(const load_t *load, const kvs_key_entry_t *key,
                                 const found_t *found)
{
    int on = kvs_opt_has_master(load->opt, key);
    int was_on = found->tensors[0] != NULL;

    if (was_on == on || (!was_on && found->mask == 0)) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_FORMAT, "%s: was saved with multi_precision %s, but it is %s in %s",
                    load->file->path, was_on ? "on" : "off", on ? "on" : "off", load->opt->owner);
}

static kvs_status_t check_states(const load_t *load, const kvs_key_entry_t *key,
                                 const found_t *found)
{
    const kvs_optimizer_t *kind = load->opt->kind;
    int dtype =
        kvs_opt_has_master(load->opt, key) ? KVS_DTYPE_float32 : kvs_dtype_index(key->dtype);
    kvs_status_t status = check_master(load, key, found);

    if (status == KVS_OK && found->tensors[0] != NULL) {
        status = check_tensor(load, found->tensors[0], key, 0, dtype);
    }
    for (size_t i = 0; i < kind->n_states && status == KVS_OK; i++) {
        if (found->tensors[1 + i] != NULL) {
            status = check_tensor(load, found->tensors[1 + i], key,
                                  (kind->states[i].flags & KVS_STATE_PER_ROW) != 0, dtype);
        }
    }
    return status;
}

/* Read the tensors of one key into new states. */
static kvs_status_t load_states(load_t *load, const kvs_key_entry_t *key, kvs_opt_key_t *loaded)
{
    const kvs_statefile_t *file = &load->file->tensors;
    found_t found = find_states(load, key);
    kvs_status_t status = check_states(load, key, &found);

    if (status != KVS_OK || (found.mask == 0 && found.tensors[0] == NULL)) {
        return status;
    }
    status = kvs_opt_states_new(load->opt, key, found.mask, &loaded->states);
    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", load->file->path);
    }
    if (found.tensors[0] != NULL) {
        status = kvs_statefile_read(file, found.tensors[0], loaded->states->master);
    }
    for (size_t i = 0; i < KVS_OPTIMIZER_MAX_STATES && status == KVS_OK; i++) {
        if (found.tensors[1 + i] != NULL) {
            status = kvs_statefile_read(file, found.tensors[1 + i], loaded->states->data[i]);
        }
    }
    return status;
}

/* Read one residual. What is not finite would never leave it again. */
static kvs_status_t load_residual(const load_t *load, const kvs_statefile_tensor_t *tensor,
                                  const kvs_key_entry_t *key, size_t place, kvs_residuals_t *loaded)
{
    kvs_status_t status = kvs_residuals_reserve(loaded, key->n_elems, place + 1);

    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", load->file->path);
    }
    float *residual = loaded->items[place].data;

    status = kvs_statefile_read(&load->file->tensors, tensor, residual);
    for (int64_t i = 0; i < key->n_elems && status == KVS_OK; i++) {
        if (!isfinite(residual[i])) {
            status = kvs_statefile_fail(&load->file->tensors,
                                        "element %lld of tensor '%.80s' is not finite",
                                        (long long)i, tensor->name);
        }
    }
    return status;
}

/* All of one key, from the first place on, if there is room for them here. */
static kvs_status_t load_residuals(load_t *load, const kvs_opt_item_t *item,
                                   kvs_residuals_t *loaded)
{
    kvs_status_t status = KVS_OK;

    for (size_t place = 0; status == KVS_OK; place++) {
        char name[KVS_OPT_STATE_NAME_BYTES];

        name_residual(place, name);
        const kvs_statefile_tensor_t *tensor = find_tensor(load, name, item->key);

        if (tensor == NULL) {
            break;
        }
        status = check_tensor(load, tensor, item->key, 0, KVS_DTYPE_float32);
        if (status == KVS_OK && item->residuals != NULL) {
            status = load_residual(load, tensor, item->key, place, loaded);
        }
    }
    return status;
}

static kvs_status_t load_count(const load_t *load, const kvs_opt_noted_key_t *noted,
                               kvs_opt_key_t *loaded)
{
    kvs_opt_key_t fresh = {0};
    int64_t begin = kvs_opt_count(load->opt, &fresh);

    if (!noted->has_count) {
        return KVS_OK;
    }
    if (noted->count <= begin) {
        return kvs_statefile_fail(
            &load->file->tensors,
            "the count of key '%.80s' is %lld, not above begin_num_update, %lld", noted->text,
            (long long)noted->count, (long long)begin);
    }
    loaded->n_updates = noted->count - begin;
    return KVS_OK;
}

static kvs_opt_item_t *find_item(const load_t *load, const kvs_key_entry_t *key)
{
    kvs_opt_item_t wanted = {.key = key};

    return load->n_items == 0
               ? NULL
               : bsearch(&wanted, load->items, load->n_items, sizeof(wanted), by_key);
}

static kvs_status_t load_key(load_t *load, const kvs_opt_noted_key_t *noted)
{
    const kvs_opt_item_t *item = find_item(load, &noted->entry);
    kvs_opt_key_t *loaded;
    kvs_status_t status;

    if (item == NULL) {
        return kvs_fail(KVS_ERR_NOT_FOUND,
                        "%s: holds states of key '%.80s', which is not here; init it first",
                        load->file->path, noted->text);
    }
    loaded = &load->loaded[item - load->items];
    status = check_layout(load, noted, item->key);
    if (status == KVS_OK) {
        status = load_states(load, item->key, loaded);
    }
    if (status == KVS_OK) {
        status = load_residuals(load, item, &load->residuals[item - load->items]);
    }
    return status == KVS_OK ? load_count(load, noted, loaded) : status;
}

static kvs_status_t check_key_types(const load_t *load)
{
    int here_str = load->n_items > 0 && load->items[0].key->name != NULL;

    if (load->n_items > 0 && (here_str ? load->file->noted.int_keys : load->file->noted.str_keys)) {
        return kvs_fail(KVS_ERR_KEY_TYPE, "%s: holds states of %s keys, but keys are %ss here",
                        load->file->path, here_str ? "integer" : "string",
                        here_str ? "string" : "integer");
    }
    return KVS_OK;
}

/* Every tensor must be a state of a key. */
static kvs_status_t check_used(const load_t *load)
{
    const kvs_statefile_t *file = &load->file->tensors;

    for (size_t i = 0; i < file->n_tensors; i++) {
        if (!load->used[i]) {
            return kvs_statefile_fail(file,
                                      "tensor '%.80s' is no state of %s, or its key is not noted",
                                      file->tensors[i].name, load->opt->owner);
        }
    }
    return KVS_OK;
}

static kvs_status_t load_keys(load_t *load)
{
    const kvs_opt_noted_t *noted = &load->file->noted;
    kvs_status_t status = check_key_types(load);

    for (size_t i = 0; i < noted->n_keys && status == KVS_OK; i++) {
        status = load_key(load, &noted->keys[i]);
    }
    return status == KVS_OK ? check_used(load) : status;
}

/* The optimizer to which the states will belong: the one that was saved, or the one in force. */
static kvs_status_t choose_optimizer(load_t *load, kvs_opt_t *in_force)
{
    const kvs_opt_noted_t *noted = &load->file->noted;
    kvs_status_t status;

    if (!noted->dumped) {
        load->opt = in_force;
        return strcmp(noted->optimizer, in_force->kind->name) == 0
                   ? KVS_OK
                   : kvs_statefile_fail(&load->file->tensors,
                                        "holds states of optimizer '%.80s', but '%s' is in force",
                                        noted->optimizer, in_force->kind->name);
    }
    status = kvs_opt_of_notes(noted, &load->opt);
    if (status == KVS_ERR_ARGUMENT) {
        status = KVS_ERR_FORMAT; /* it is the file's mistake, not the caller's */
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", load->file->path);
}

/* Everything is there: let old and new change places. */
static void commit(load_t *load, kvs_opt_t **io_opt)
{
    for (size_t i = 0; i < load->n_items; i++) {
        kvs_opt_key_t *state = load->items[i].state;
        int64_t n_updates = load->file->noted.dumped ? load->loaded[i].n_updates : state->n_updates;

        kvs_opt_key_release(state);
        *state = load->loaded[i];
        state->n_updates = n_updates;
        load->loaded[i] = (kvs_opt_key_t){0};
        if (load->items[i].residuals != NULL) {
            kvs_residuals_release(load->items[i].residuals);
            *load->items[i].residuals = load->residuals[i];
            load->residuals[i] = (kvs_residuals_t){0};
        }
    }
    if (load->opt != *io_opt) {
        kvs_opt_free(*io_opt);
        *io_opt = load->opt;
    }
}

static kvs_status_t run_load(load_t *load, kvs_opt_t **io_opt)
{
    kvs_status_t status;

    load->loaded = calloc(load->n_items + 1, sizeof(*load->loaded));
    load->residuals = calloc(load->n_items + 1, sizeof(*load->residuals));
    load->used = calloc(load->file->tensors.n_tensors + 1, 1);
    if (load->loaded == NULL || load->residuals == NULL || load->used == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to read it", load->file->path);
    }
    status = choose_optimizer(load, *io_opt);
    if (status == KVS_OK) {
        status = load_keys(load);
    }
    if (status == KVS_OK) {
        commit(load, io_opt);
    } else if (load->opt != *io_opt) {
        kvs_opt_free(load->opt);
    }
    return status;
}

kvs_status_t kvs_opt_file_load(const kvs_opt_file_t *file, kvs_opt_t **io_opt,
                               kvs_opt_item_t *items, size_t n_items)
{
    load_t load = {.file = file, .items = items, .n_items = n_items};
    kvs_status_t status;

    if (n_items > 1) {
        qsort(items, n_items, sizeof(*items), by_key);
    }
    status = run_load(&load, io_opt);
    for (size_t i = 0; load.loaded != NULL && i < n_items; i++) {
        kvs_opt_key_release(&load.loaded[i]);
    }
    for (size_t i = 0; load.residuals != NULL && i < n_items; i++) {
        kvs_residuals_release(&load.residuals[i]);
    }
    free(load.loaded);
    free(load.residuals);
    free(load.used);
    return status;
}
