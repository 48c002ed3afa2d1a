/* SPDX-License-Identifier: Apache-2.0 */
/* opt_notes.h - what a file of optimizer states says beside its tensors: which optimizer's they are, and
 * of which keys; and, if the optimizer was saved with them, all that makes it go on where it was. */
#ifndef KVS_KIT_OPT_NOTES_H
#define KVS_KIT_OPT_NOTES_H

#include "schedule.h"
#include "statefile.h"

#include <kvstore/states.h>

/* ---- Writing ------------------------------------------------------------------------------------- */

#define KVS_OPT_MAX_NOTES 12

typedef struct kvs_opt_notes {
    kvs_statefile_note_t notes[KVS_OPT_MAX_NOTES];
    size_t n;
} kvs_opt_notes_t;

/* Notes about `items`, and with `dump_optimizer` about the optimizer. ERR_NO_MEMORY. */
kvs_status_t kvs_opt_notes_make(const kvs_opt_t *opt, const kvs_opt_item_t *items, size_t n_items,
                                int dump_optimizer, kvs_opt_notes_t *ret_notes);
void kvs_opt_notes_release(kvs_opt_notes_t *notes);

/* ---- Reading ------------------------------------------------------------------------------------- */

typedef struct kvs_opt_noted_key {
    const char *text; /* the key as tensors are named by it */
    kvs_key_entry_t entry;
    int64_t count; /* updates, begin_num_update included; 0 if there is none */
    int has_count;
} kvs_opt_noted_key_t;

/* Texts stand in the file's header, which must stay open. */
typedef struct kvs_opt_noted {
    const char *optimizer;
    int int_keys, str_keys;    /* what kind of keys there are; neither: none */
    kvs_opt_noted_key_t *keys; /* by text */
    size_t n_keys;
    int64_t *shapes;
    int dumped; /* the optimizer is there: */
    kvs_optimizer_spec_t spec;
    kvs_param_t *params, *schedule_params;
    kvs_multiplier_t *lr_mult, *wd_mult;
    kvs_param_name_t *names;
    kvs_schedule_position_t position;
    int64_t num_update;
    double product;
} kvs_opt_noted_t;

/* ERR_FORMAT: the text says which note is wrong, and where. Ended by release, also after failure. */
kvs_status_t kvs_opt_notes_read(const kvs_statefile_t *file, kvs_opt_noted_t *ret_noted);
void kvs_opt_noted_release(kvs_opt_noted_t *noted);

/* The optimizer that was saved, where it was. Errors are those of kvs_opt_new. */
kvs_status_t kvs_opt_of_notes(const kvs_opt_noted_t *noted, kvs_opt_t **ret_opt);

#endif
