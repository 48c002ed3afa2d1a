/* SPDX-License-Identifier: Apache-2.0 */
/* opt_notes_write.c - the notes of a state file, one function each; opt_notes_read.c reads them. */
#include "opt_notes.h"

#include "jsonwrite.h"
#include "opt_private.h"

#include <stdio.h>
#include <stdlib.h>

/* What a note is made of. */
typedef struct source {
    const kvs_opt_t *opt;
    const kvs_opt_item_t *items;
    size_t n_items;
} source_t;

static void add_param(kvs_jsonwrite_t *json, const kvs_param_t *param)
{
    kvs_jsonwrite_name(json, param->name);
    switch (param->type) {
    case KVS_PARAM_BOOL:
        kvs_jsonwrite_word(json, param->value.integer != 0 ? "true" : "false");
        break;
    case KVS_PARAM_INT:
        kvs_jsonwrite_integer(json, param->value.integer);
        break;
    case KVS_PARAM_FLOAT:
        kvs_jsonwrite_real(json, param->value.real);
        break;
    case KVS_PARAM_TEXT:
        kvs_jsonwrite_string(json, param->value.text);
        break;
    case KVS_PARAM_INTS:
        kvs_jsonwrite_open(json, '[');
        for (size_t i = 0; i < param->n_integers; i++) {
            kvs_jsonwrite_integer(json, param->value.integers[i]);
        }
        kvs_jsonwrite_close(json, ']');
        break;
    default:
        kvs_jsonwrite_word(json, "null");
    }
}

static void write_key_type(kvs_jsonwrite_t *json, const source_t *source)
{
    if (source->n_items == 0) {
        kvs_jsonwrite_word(json, "null");
    } else {
        kvs_jsonwrite_string(json, source->items[0].key->name != NULL ? "string" : "integer");
    }
}

static void write_optimizer(kvs_jsonwrite_t *json, const source_t *source)
{
    kvs_jsonwrite_string(json, source->opt->kind->name);
}

static void add_key_name(kvs_jsonwrite_t *json, const kvs_key_entry_t *key)
{
    char number[24];

    snprintf(number, sizeof(number), "%lld", (long long)key->number);
    kvs_jsonwrite_name(json, key->name != NULL ? key->name : number);
}

static void write_keys(kvs_jsonwrite_t *json, const source_t *source)
{
    kvs_jsonwrite_open(json, '{');
    for (size_t i = 0; i < source->n_items; i++) {
        const kvs_key_entry_t *key = source->items[i].key;

        add_key_name(json, key);
        kvs_jsonwrite_open(json, '{');
        kvs_jsonwrite_name(json, "dtype");
        kvs_jsonwrite_string(json, kvs_dtype_name(key->dtype));
        kvs_jsonwrite_name(json, "shape");
        kvs_jsonwrite_open(json, '[');
        for (int32_t d = 0; d < key->ndim; d++) {
            kvs_jsonwrite_integer(json, key->shape[d]);
        }
        kvs_jsonwrite_close(json, ']');
        kvs_jsonwrite_close(json, '}');
    }
    kvs_jsonwrite_close(json, '}');
}

static void write_hyper_parameters(kvs_jsonwrite_t *json, const source_t *source)
{
    const kvs_opt_t *opt = source->opt;

    kvs_jsonwrite_open(json, '{');
    for (size_t i = 0; i < KVS_OPT_N_COMMON + opt->kind->n_params; i++) {
        kvs_param_t param = {.name = opt->infos[i].name, .type = opt->infos[i].type};

        if (param.type == KVS_PARAM_FLOAT) {
            param.value.real = opt->values[i];
        } else {
            param.value.integer = (int64_t)opt->values[i];
        }
        add_param(json, &param);
    }
    kvs_jsonwrite_close(json, '}');
}

/* [["w", 2.0], [3, 0.5]]: of each entry its key, and a number or a name. */
static void write_keymap(kvs_jsonwrite_t *json, const kvs_keymap_t *map, int with_names)
{
    kvs_jsonwrite_open(json, '[');
    for (size_t i = 0; i < map->n; i++) {
        const kvs_keymap_entry_t *entry = &map->entries[i];

        kvs_jsonwrite_open(json, '[');
        if (entry->str != NULL) {
            kvs_jsonwrite_string(json, entry->str);
        } else {
            kvs_jsonwrite_integer(json, entry->num);
        }
        if (with_names) {
            kvs_jsonwrite_string(json, entry->name);
        } else {
            kvs_jsonwrite_real(json, entry->value);
        }
        kvs_jsonwrite_close(json, ']');
    }
    kvs_jsonwrite_close(json, ']');
}

static void write_lr_mult(kvs_jsonwrite_t *json, const source_t *source)
{
    write_keymap(json, &source->opt->lr_mult, 0);
}

static void write_wd_mult(kvs_jsonwrite_t *json, const source_t *source)
{
    write_keymap(json, &source->opt->wd_mult, 0);
}

static void write_names(kvs_jsonwrite_t *json, const source_t *source)
{
    write_keymap(json, &source->opt->names, 1);
}

static void write_counts(kvs_jsonwrite_t *json, const source_t *source)
{
    kvs_jsonwrite_open(json, '{');
    for (size_t i = 0; i < source->n_items; i++) {
        if (source->items[i].state->n_updates > 0) {
            add_key_name(json, source->items[i].key);
            kvs_jsonwrite_integer(json, kvs_opt_count(source->opt, source->items[i].state));
        }
    }
    kvs_jsonwrite_close(json, '}');
}

static void write_num_update(kvs_jsonwrite_t *json, const source_t *source)
{
    kvs_jsonwrite_integer(json, source->opt->num_update);
}

static void write_product(kvs_jsonwrite_t *json, const source_t *source)
{
    kvs_jsonwrite_real(json, source->opt->product);
}

static void write_schedule(kvs_jsonwrite_t *json, const source_t *source)
{
    const kvs_schedule_t *schedule = source->opt->schedule;
    kvs_param_t params[KVS_SCHEDULE_MAX_PARAMS];
    kvs_schedule_position_t position;
    size_t n_params;

    if (schedule == NULL) {
        kvs_jsonwrite_word(json, "null");
        return;
    }
    n_params = kvs_schedule_params(schedule, params);
    position = kvs_schedule_position(schedule);
    kvs_jsonwrite_open(json, '{');
    kvs_jsonwrite_name(json, "name");
    kvs_jsonwrite_string(json, kvs_schedule_name(schedule));
    kvs_jsonwrite_name(json, "parameters");
    kvs_jsonwrite_open(json, '{');
    for (size_t i = 0; i < n_params; i++) {
        add_param(json, &params[i]);
    }
    kvs_jsonwrite_close(json, '}');
    kvs_jsonwrite_name(json, "rate");
    kvs_jsonwrite_real(json, position.rate);
    kvs_jsonwrite_name(json, "n_counted");
    kvs_jsonwrite_integer(json, position.n_counted);
    kvs_jsonwrite_name(json, "n_steps");
    kvs_jsonwrite_integer(json, position.n_steps);
    kvs_jsonwrite_close(json, '}');
}

static const struct {
    const char *name;
    int with_optimizer;
    void (*write)(kvs_jsonwrite_t *json, const source_t *source);
} writers[] = {
    {"key_type", 0, write_key_type},
    {"optimizer", 0, write_optimizer},
    {"keys", 0, write_keys},
    {"hyper_parameters", 1, write_hyper_parameters},
    {"lr_mult", 1, write_lr_mult},
    {"wd_mult", 1, write_wd_mult},
    {"names", 1, write_names},
    {"counts", 1, write_counts},
    {"num_update", 1, write_num_update},
    {"schedule", 1, write_schedule},
    {"product", 1, write_product},
};

kvs_status_t kvs_opt_notes_make(const kvs_opt_t *opt, const kvs_opt_item_t *items, size_t n_items,
                                int dump_optimizer, kvs_opt_notes_t *ret_notes)
{
    source_t source = {opt, items, n_items};
    kvs_opt_notes_t notes = {.n = 0};

    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        kvs_jsonwrite_t json = {0};

        if (writers[i].with_optimizer && !dump_optimizer) {
            continue;
        }
        writers[i].write(&json, &source);
        if (json.failed) {
            kvs_jsonwrite_release(&json);
            kvs_opt_notes_release(&notes);
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to describe %zu keys", n_items);
        }
        notes.notes[notes.n++] = (kvs_statefile_note_t){writers[i].name, json.text, json.n_bytes};
    }
    *ret_notes = notes;
    return KVS_OK;
}

void kvs_opt_notes_release(kvs_opt_notes_t *notes)
{
    for (size_t i = 0; i < notes->n; i++) {
        free(notes->notes[i].json);
    }
    notes->n = 0;
}
