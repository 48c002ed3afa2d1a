/* SPDX-License-Identifier: Apache-2.0 */
/* opt_pack.c - an optimizer as bytes, with its counts: the notes that a file of states has of it, names
 * and JSON texts in turn, each ended by a 0. */
#include "opt_notes.h"

#include <stdlib.h>
#include <string.h>

kvs_status_t kvs_opt_pack(const kvs_opt_t *opt, char **ret_bytes, size_t *ret_n)
{
    kvs_opt_notes_t notes;
    kvs_status_t status = kvs_opt_notes_make(opt, NULL, 0, 1, &notes);
    size_t n = 0;
    char *bytes, *at;

    if (status != KVS_OK) {
        return status;
    }
    for (size_t i = 0; i < notes.n; i++) {
        n += strlen(notes.notes[i].name) + notes.notes[i].n_bytes + 2;
    }
    bytes = malloc(n);
    at = bytes;
    for (size_t i = 0; i < notes.n && bytes != NULL; i++) {
        at = stpcpy(at, notes.notes[i].name) + 1;
        memcpy(at, notes.notes[i].json, notes.notes[i].n_bytes);
        at += notes.notes[i].n_bytes;
        *at++ = '\0';
    }
    kvs_opt_notes_release(&notes);
    if (bytes == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to pack an optimizer");
    }
    *ret_bytes = bytes;
    *ret_n = n;
    return KVS_OK;
}

/* The text that begins at `*io_at`, which goes behind it; NULL if none ends before `end`. */
static char *next_text(char **io_at, const char *end)
{
    char *text = *io_at, *ends = memchr(text, '\0', (size_t)(end - text));

    *io_at = ends == NULL ? text : ends + 1;
    return ends == NULL ? NULL : text;
}

static kvs_status_t read_packed(kvs_statefile_t *packed, kvs_opt_t **ret_opt)
{
    kvs_opt_noted_t noted;
    kvs_status_t status = kvs_opt_notes_read(packed, &noted);

    if (status == KVS_OK && !noted.dumped) {
        status = kvs_statefile_fail(packed, "has no parameters");
    }
    if (status == KVS_OK) {
        status = kvs_opt_of_notes(&noted, ret_opt);
    }
    kvs_opt_noted_release(&noted);
    return status;
}

kvs_status_t kvs_opt_unpack(const char *bytes, size_t n, kvs_opt_t **ret_opt)
{
    kvs_statefile_note_t notes[KVS_OPT_MAX_NOTES];
    kvs_statefile_t packed = {.path = "a packed optimizer", .notes = notes};
    char *copy = malloc(n + 1), *at = copy;
    kvs_status_t status;

    if (copy == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to unpack an optimizer");
    }
    memcpy(copy, bytes, n);
    while (at < copy + n && packed.n_notes < KVS_OPT_MAX_NOTES) {
        kvs_statefile_note_t note = {.name = next_text(&at, copy + n)};

        note.json = note.name == NULL ? NULL : next_text(&at, copy + n);
        if (note.json == NULL) {
            break;
        }
        note.n_bytes = strlen(note.json);
        notes[packed.n_notes++] = note;
    }
    status = at != copy + n ? kvs_statefile_fail(&packed, "is cut off, or too long")
                            : read_packed(&packed, ret_opt);
    free(copy);
    return status;
}
