/* SPDX-License-Identifier: Apache-2.0 */
/* opt_notes_read.c - from the notes of a state file to plain tables, one function a note. Whether the
 * values make sense to an optimizer is checked where it is made of them. */
#include "opt_notes.h"

#include "jsonread.h"
#include "opt_private.h"

#include <kvstore/kit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARAMS (KVS_OPT_N_COMMON + KVS_OPTIMIZER_MAX_PARAMS)

/* While notes are read. */
typedef struct reader {
    kvs_jsonread_t json;
    kvs_opt_noted_t *noted;
    size_t n_dims, dims_capacity; /* in noted->shapes */
    int out_of_memory;
} reader_t;

static void *grown(reader_t *reader, void *items, size_t n, size_t item_bytes)
{
    void *bigger = items;

    if ((n & (n - 1)) == 0) { /* at each power of two, and at 0 */
        bigger = realloc(items, (n > 0 ? 2 * n : 1) * item_bytes);
        reader->out_of_memory |= bigger == NULL;
    }
    return bigger;
}

/* ---- Parameters ---------------------------------------------------------------------------------- */

/* A list of whole numbers; the memory is `param`'s. */
static void read_integers(reader_t *reader, kvs_param_t *param)
{
    int64_t *integers = NULL;

    param->type = KVS_PARAM_INTS;
    kvs_jsonread_open(&reader->json, '[');
    while (kvs_jsonread_more(&reader->json, ']')) {
        int64_t *bigger = grown(reader, integers, param->n_integers, sizeof(*integers));

        if (bigger == NULL || !kvs_jsonread_integer(&reader->json, &bigger[param->n_integers])) {
            integers = bigger != NULL ? bigger : integers;
            break;
        }
        integers = bigger;
        param->n_integers++;
    }
    param->value.integers = integers;
}

static void read_number(kvs_jsonread_t *json, kvs_param_t *param)
{
    kvs_jsonread_t before = *json;
    int is_integer = 0;
    double real = 0;

    if (!kvs_jsonread_real(json, &real, &is_integer)) {
        return;
    }
    param->type = is_integer ? KVS_PARAM_INT : KVS_PARAM_FLOAT;
    if (is_integer) {
        *json = before;
        kvs_jsonread_integer(json, &param->value.integer);
    } else {
        param->value.real = real;
    }
}

static void read_value(reader_t *reader, kvs_param_t *param)
{
    kvs_jsonread_t *json = &reader->json;
    int flag = 0;

    switch (kvs_jsonread_kind(json)) {
    case KVS_JSON_NULL:
        kvs_jsonread_null(json);
        param->type = KVS_PARAM_NULL;
        break;
    case KVS_JSON_BOOL:
        kvs_jsonread_bool(json, &flag);
        param->type = KVS_PARAM_BOOL;
        param->value.integer = flag;
        break;
    case KVS_JSON_NUMBER:
        read_number(json, param);
        break;
    case KVS_JSON_STRING:
        kvs_jsonread_string(json, &param->value.text);
        param->type = KVS_PARAM_TEXT;
        break;
    case KVS_JSON_ARRAY:
        read_integers(reader, param);
        break;
    default:
        kvs_jsonread_fault(json, "a parameter's value is expected");
    }
}

/* {"momentum": 0.9, …} */
static void read_params(reader_t *reader, kvs_param_t **ret_params, size_t *ret_n)
{
    kvs_param_t *params = calloc(MAX_PARAMS, sizeof(*params));

    *ret_params = params;
    reader->out_of_memory |= params == NULL;
    kvs_jsonread_open(&reader->json, '{');
    while (params != NULL && kvs_jsonread_more(&reader->json, '}')) {
        kvs_param_t *param = &params[*ret_n];

        if (*ret_n == MAX_PARAMS) {
            kvs_jsonread_fault(&reader->json, "there are more parameters than any optimizer has");
            break;
        }
        if (!kvs_jsonread_name(&reader->json, &param->name)) {
            break;
        }
        ++*ret_n;
        read_value(reader, param);
    }
}

static void free_params(kvs_param_t *params, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (params[i].type == KVS_PARAM_INTS) {
            free((void *)(uintptr_t)params[i].value.integers);
        }
    }
    free(params);
}

/* ---- Keys ---------------------------------------------------------------------------------------- */

static void read_key_type(reader_t *reader)
{
    const char *type = "";

    if (kvs_jsonread_kind(&reader->json) == KVS_JSON_NULL) {
        kvs_jsonread_null(&reader->json);
    } else if (kvs_jsonread_string(&reader->json, &type)) {
        reader->noted->int_keys = strcmp(type, "integer") == 0;
        reader->noted->str_keys = strcmp(type, "string") == 0;
        if (!reader->noted->int_keys && !reader->noted->str_keys) {
            kvs_jsonread_fault(&reader->json, "the type of keys is neither integer nor string");
        }
    }
}

static void read_optimizer(reader_t *reader)
{
    kvs_jsonread_string(&reader->json, &reader->noted->optimizer);
}

static int find_dtype(const char *name)
{
    for (int i = 0; i < KVS_N_DTYPES; i++) {
        if (strcmp(name, kvs_dtype_name(kvs_dtype(i))) == 0) {
            return i;
        }
    }
    return -1;
}

static void read_dtype(reader_t *reader, kvs_key_entry_t *entry)
{
    const char *name = "";

    if (kvs_jsonread_string(&reader->json, &name)) {
        entry->dtype = kvs_dtype(find_dtype(name));
        if (!kvs_dtype_is_floating(find_dtype(name))) {
            kvs_jsonread_fault(&reader->json, "the dtype of a key is none of a weight");
        }
    }
}

static void read_shape(reader_t *reader, kvs_key_entry_t *entry)
{
    kvs_jsonread_t *json = &reader->json;
    int64_t n_bytes;

    entry->ndim = 0;
    entry->n_elems = 1;
    kvs_jsonread_open(json, '[');
    while (kvs_jsonread_more(json, ']')) {
        int64_t dim = 0;
        int64_t *shapes =
            grown(reader, reader->noted->shapes, reader->n_dims, sizeof(*reader->noted->shapes));

        if (shapes == NULL || !kvs_jsonread_integer(json, &dim)) {
            reader->noted->shapes = shapes != NULL ? shapes : reader->noted->shapes;
            return;
        }
        reader->noted->shapes = shapes;
        shapes[reader->n_dims++] = dim;
        if (dim < 0 || ++entry->ndim > KVS_STATEFILE_MAX_NDIM ||
            __builtin_mul_overflow(entry->n_elems, dim, &entry->n_elems) ||
            __builtin_mul_overflow(entry->n_elems, (int64_t)sizeof(double), &n_bytes)) {
            kvs_jsonread_fault(json, "a shape is negative, too large, or has too many dimensions");
            return;
        }
    }
}

/* Whether the text is the one that an integer key is written as. */
static int is_integer_key(const char *text, int64_t *ret_number)
{
    char plain[24];

    *ret_number = strtoll(text, NULL, 10);
    snprintf(plain, sizeof(plain), "%lld", (long long)*ret_number);
    return strcmp(text, plain) == 0;
}

static void read_identity(reader_t *reader, kvs_opt_noted_key_t *key)
{
    if (reader->noted->str_keys && strlen(key->text) <= KVS_KEY_MAX_BYTES) {
        key->entry.name = key->text;
        key->entry.number = -1;
    } else if (!reader->noted->int_keys || !is_integer_key(key->text, &key->entry.number)) {
        kvs_jsonread_fault(&reader->json, "a key is not of the type that the file says");
    }
}

static void read_key(reader_t *reader, kvs_opt_noted_key_t *key)
{
    kvs_jsonread_t *json = &reader->json;
    kvs_key_entry_t *entry = &key->entry;
    const char *member;
    unsigned seen = 0;

    read_identity(reader, key);
    kvs_jsonread_open(json, '{');
    while (kvs_jsonread_more(json, '}') && kvs_jsonread_name(json, &member)) {
        unsigned which = strcmp(member, "dtype") == 0 ? 1 : strcmp(member, "shape") == 0 ? 2 : 4;

        if (which == 4 || (seen & which) != 0) {
            seen = 0;
            break;
        }
        seen |= which;
        if (which == 1) {
            read_dtype(reader, entry);
        } else {
            read_shape(reader, entry);
        }
    }
    if (seen != 3) {
        kvs_jsonread_fault(json, "a key has dtype and shape, each once");
    }
}

static int by_text(const void *a, const void *b)
{
    const kvs_opt_noted_key_t *x = a, *y = b;

    return strcmp(x->text, y->text);
}

/* In the order in which shapes were read. */
static void give_shapes(kvs_opt_noted_t *noted)
{
    const int64_t *shape = noted->shapes;

    for (size_t i = 0; i < noted->n_keys; i++) {
        if (noted->keys[i].entry.ndim > 0) {
            noted->keys[i].entry.shape = shape;
            shape += noted->keys[i].entry.ndim;
        }
    }
}

/* {"w": {"dtype": "float32", "shape": [3]}, …} */
static void read_keys(reader_t *reader)
{
    kvs_opt_noted_t *noted = reader->noted;

    kvs_jsonread_open(&reader->json, '{');
    while (kvs_jsonread_more(&reader->json, '}')) {
        kvs_opt_noted_key_t *keys = grown(reader, noted->keys, noted->n_keys, sizeof(*keys));

        if (keys == NULL) {
            return;
        }
        noted->keys = keys;
        keys += noted->n_keys;
        *keys = (kvs_opt_noted_key_t){0};
        if (!kvs_jsonread_name(&reader->json, &keys->text)) {
            return;
        }
        read_key(reader, keys);
        if (reader->json.fault != NULL || reader->out_of_memory) {
            return;
        }
        noted->n_keys++;
    }
    give_shapes(noted);
    if (noted->n_keys > 1) {
        qsort(noted->keys, noted->n_keys, sizeof(*noted->keys), by_text);
    }
    for (size_t i = 1; i < noted->n_keys; i++) {
        if (by_text(&noted->keys[i - 1], &noted->keys[i]) == 0) {
            kvs_jsonread_fault(&reader->json, "a key stands twice");
        }
    }
}

/* ---- The optimizer ------------------------------------------------------------------------------- */

static void read_hyper_parameters(reader_t *reader)
{
    reader->noted->dumped = 1;
    read_params(reader, &reader->noted->params, &reader->noted->spec.n_params);
}

/* A key of a multiplier: text or number. */
static void read_id(kvs_jsonread_t *json, kvs_key_t *key)
{
    if (kvs_jsonread_kind(json) == KVS_JSON_STRING) {
        kvs_jsonread_string(json, &key->str);
    } else {
        kvs_jsonread_integer(json, &key->num);
    }
}

/* [["w", 2.0], …] */
static void read_multipliers(reader_t *reader, kvs_multiplier_t **io_items, size_t *ret_n)
{
    kvs_jsonread_t *json = &reader->json;

    kvs_jsonread_open(json, '[');
    while (kvs_jsonread_more(json, ']')) {
        kvs_multiplier_t *items = grown(reader, *io_items, *ret_n, sizeof(*items));

        if (items == NULL) {
            return;
        }
        *io_items = items;
        items[*ret_n] = (kvs_multiplier_t){.value = 0};
        kvs_jsonread_open(json, '[');
        if (kvs_jsonread_more(json, ']')) {
            read_id(json, &items[*ret_n].key);
        }
        if (!kvs_jsonread_more(json, ']') || !kvs_jsonread_real(json, &items[*ret_n].value, NULL) ||
            kvs_jsonread_more(json, ']')) {
            kvs_jsonread_fault(json, "a multiplier is a key and a number");
        }
        ++*ret_n;
    }
}

static void read_lr_mult(reader_t *reader)
{
    read_multipliers(reader, &reader->noted->lr_mult, &reader->noted->spec.n_lr_mult);
}

static void read_wd_mult(reader_t *reader)
{
    read_multipliers(reader, &reader->noted->wd_mult, &reader->noted->spec.n_wd_mult);
}

/* [[0, "fc.weight"], …] */
static void read_names(reader_t *reader)
{
    kvs_jsonread_t *json = &reader->json;
    kvs_optimizer_spec_t *spec = &reader->noted->spec;

    kvs_jsonread_open(json, '[');
    while (kvs_jsonread_more(json, ']')) {
        kvs_param_name_t *names =
            grown(reader, reader->noted->names, spec->n_names, sizeof(*names));

        if (names == NULL) {
            return;
        }
        reader->noted->names = names;
        names += spec->n_names++;
        *names = (kvs_param_name_t){.name = NULL};
        kvs_jsonread_open(json, '[');
        if (kvs_jsonread_more(json, ']')) {
            read_id(json, &names->key);
        }
        if (!kvs_jsonread_more(json, ']') || !kvs_jsonread_string(json, &names->name) ||
            kvs_jsonread_more(json, ']')) {
            kvs_jsonread_fault(json, "a name is a key and a text");
        }
    }
}

/* {"w": 3, …} */
static void read_counts(reader_t *reader)
{
    kvs_opt_noted_t *noted = reader->noted;
    kvs_opt_noted_key_t wanted = {0};

    kvs_jsonread_open(&reader->json, '{');
    while (kvs_jsonread_more(&reader->json, '}')) {
        kvs_opt_noted_key_t *key = NULL;
        int64_t count = 0;

        if (!kvs_jsonread_name(&reader->json, &wanted.text) ||
            !kvs_jsonread_integer(&reader->json, &count)) {
            return;
        }
        if (noted->n_keys > 0) {
            key = bsearch(&wanted, noted->keys, noted->n_keys, sizeof(wanted), by_text);
        }
        if (key == NULL || key->has_count || count < 1) {
            kvs_jsonread_fault(&reader->json, "a count is of no key, stands twice, or is below 1");
            return;
        }
        key->count = count;
        key->has_count = 1;
    }
}

static void read_num_update(reader_t *reader)
{
    int64_t least = 0;

    kvs_jsonread_integer(&reader->json, &reader->noted->num_update);
    for (size_t i = 0; i < reader->noted->n_keys; i++) {
        least = reader->noted->keys[i].count > least ? reader->noted->keys[i].count : least;
    }
    if (reader->noted->num_update < least) {
        kvs_jsonread_fault(&reader->json, "num_update is below the count of a key");
    }
}

static void read_product(reader_t *reader)
{
    kvs_jsonread_real(&reader->json, &reader->noted->product, NULL);
}

static void read_schedule_member(reader_t *reader, unsigned which)
{
    kvs_jsonread_t *json = &reader->json;
    kvs_opt_noted_t *noted = reader->noted;

    switch (which) {
    case 0:
        kvs_jsonread_string(json, &noted->spec.schedule);
        break;
    case 1:
        read_params(reader, &noted->schedule_params, &noted->spec.n_schedule_params);
        break;
    case 2:
        kvs_jsonread_real(json, &noted->position.rate, NULL);
        break;
    case 3:
        kvs_jsonread_integer(json, &noted->position.n_counted);
        break;
    default:
        kvs_jsonread_integer(json, &noted->position.n_steps);
    }
}

static void read_schedule(reader_t *reader)
{
    static const char *const members[] = {"name", "parameters", "rate", "n_counted", "n_steps"};
    kvs_jsonread_t *json = &reader->json;
    const char *member;
    unsigned seen = 0;

    if (kvs_jsonread_kind(json) == KVS_JSON_NULL) {
        kvs_jsonread_null(json);
        return;
    }
    kvs_jsonread_open(json, '{');
    while (kvs_jsonread_more(json, '}') && kvs_jsonread_name(json, &member)) {
        unsigned which = 0;

        while (which < 5 && strcmp(member, members[which]) != 0) {
            which++;
        }
        if (which == 5 || (seen & 1u << which) != 0) {
            seen = 0;
            break;
        }
        seen |= 1u << which;
        read_schedule_member(reader, which);
    }
    if (seen != 31) {
        kvs_jsonread_fault(json, "a schedule has name, parameters, rate, n_counted and n_steps");
    }
}

/* ---- All of them --------------------------------------------------------------------------------- */

/* In an order in which each finds what it refers to. */
static const struct {
    const char *name;
    int with_optimizer;
    void (*read)(reader_t *reader);
} readers[] = {
    {"key_type", 0, read_key_type},
    {"optimizer", 0, read_optimizer},
    {"keys", 0, read_keys},
    {"hyper_parameters", 1, read_hyper_parameters},
    {"lr_mult", 1, read_lr_mult},
    {"wd_mult", 1, read_wd_mult},
    {"names", 1, read_names},
    {"counts", 1, read_counts},
    {"num_update", 1, read_num_update},
    {"schedule", 1, read_schedule},
    {"product", 1, read_product},
};

#define N_READERS (sizeof(readers) / sizeof(readers[0]))

static kvs_status_t read_note(const kvs_statefile_t *file, const kvs_statefile_note_t *note,
                              size_t reader_index, reader_t *reader)
{
    reader->json = kvs_jsonread(note->json, note->n_bytes);
    readers[reader_index].read(reader);
    if (reader->out_of_memory) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to read it", file->path);
    }
    if (!kvs_jsonread_end(&reader->json)) {
        return kvs_statefile_fail(file, "its %s: byte %zu: %s", note->name, reader->json.at,
                                  reader->json.fault);
    }
    return KVS_OK;
}

/* Whether a note is one that some reader takes. */
static int is_known(const char *name)
{
    static const char *const of_file[] = {"format_version", "checksum", "checksums"};

    for (size_t i = 0; i < sizeof(of_file) / sizeof(of_file[0]); i++) {
        if (strcmp(name, of_file[i]) == 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < N_READERS; i++) {
        if (strcmp(name, readers[i].name) == 0) {
            return 1;
        }
    }
    return 0;
}

kvs_status_t kvs_opt_notes_read(const kvs_statefile_t *file, kvs_opt_noted_t *ret_noted)
{
    reader_t reader = {.noted = ret_noted};
    int dumped = kvs_statefile_note(file, "hyper_parameters") != NULL;
    kvs_status_t status = KVS_OK;

    *ret_noted = (kvs_opt_noted_t){.optimizer = "", .product = 1};
    for (size_t i = 0; i < file->n_notes; i++) {
        if (!is_known(file->notes[i].name)) {
            return kvs_statefile_fail(file, "its note '%.80s' is unknown", file->notes[i].name);
        }
    }
    for (size_t i = 0; i < N_READERS && status == KVS_OK; i++) {
        const kvs_statefile_note_t *note = kvs_statefile_note(file, readers[i].name);

        if (readers[i].with_optimizer && !dumped && note == NULL) {
            continue;
        }
        status = note == NULL
                     ? kvs_statefile_fail(file, "its note '%s' is missing", readers[i].name)
                     : read_note(file, note, i, &reader);
    }
    ret_noted->spec.size = (uint32_t)sizeof(ret_noted->spec);
    ret_noted->spec.name = ret_noted->optimizer;
    ret_noted->spec.params = ret_noted->params;
    ret_noted->spec.lr_mult = ret_noted->lr_mult;
    ret_noted->spec.wd_mult = ret_noted->wd_mult;
    ret_noted->spec.names = ret_noted->names;
    ret_noted->spec.schedule_params = ret_noted->schedule_params;
    return status;
}

void kvs_opt_noted_release(kvs_opt_noted_t *noted)
{
    free_params(noted->params, noted->spec.n_params);
    free_params(noted->schedule_params, noted->spec.n_schedule_params);
    free(noted->lr_mult);
    free(noted->wd_mult);
    free(noted->names);
    free(noted->keys);
    free(noted->shapes);
    *noted = (kvs_opt_noted_t){.optimizer = ""};
}

kvs_status_t kvs_opt_of_notes(const kvs_opt_noted_t *noted, kvs_opt_t **ret_opt)
{
    kvs_opt_t *opt = NULL;
    kvs_status_t status = kvs_opt_new(&noted->spec, &opt);

    if (status == KVS_OK && opt->schedule != NULL) {
        status = kvs_schedule_set_position(opt->schedule, &noted->position);
    }
    if (status != KVS_OK) {
        kvs_opt_free(opt);
        return status;
    }
    opt->num_update = noted->num_update;
    opt->product = noted->product;
    *ret_opt = opt;
    return KVS_OK;
}
