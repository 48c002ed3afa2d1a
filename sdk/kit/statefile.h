/* SPDX-License-Identifier: Apache-2.0 */
/* statefile.h - named tensors and notes in one file, in the layout of safetensors: eight bytes with the
 * length of the header, a JSON header padded by spaces, the tensors' little-endian bytes one after the
 * other. Every safetensors reader opens it.
 *
 * Notes stand under "__metadata__": each is a JSON text in a string. Two are this file's own and come
 * first: format_version, and checksum, a CRC-32C of the length and the header with zeros in its own
 * place; a third, checksums, holds the CRC-32C of each tensor. What a note means is its writer's
 * business (opt_notes.h). One thread a file. */
#ifndef KVS_KIT_STATEFILE_H
#define KVS_KIT_STATEFILE_H

#include <kvstore/plugin.h>

#define KVS_STATEFILE_VERSION    1
#define KVS_STATEFILE_MAX_HEADER 100000000 /* bytes: more is no safetensors file */
#define KVS_STATEFILE_MAX_NDIM   32

typedef struct kvs_statefile_tensor {
    const char *name;
    int dtype; /* KVS_DTYPE_… */
    int32_t ndim;
    const int64_t *shape;
    const void *data; /* to be written */
    /* found when reading, and while writing: */
    int64_t n_elems;
    uint64_t begin, end; /* bytes behind the header */
    uint32_t checksum;
    int has_checksum; /* while reading */
} kvs_statefile_tensor_t;

typedef struct kvs_statefile_note {
    const char *name;
    char *json; /* when reading: in place, to be changed by its reader */
    size_t n_bytes;
} kvs_statefile_note_t;

/* ---- Writing ------------------------------------------------------------------------------------- */

/* Write a file that takes the place of `path` when it is whole and on the disk: a crash leaves the old
 * one, two writers leave one of both. Tensors are sorted by name here; their names differ. ERR_IO: path
 * and cause; what was there before stays. ERR_ARGUMENT: the header would be above the limit. */
kvs_status_t kvs_statefile_write(const char *path, const kvs_statefile_note_t *notes,
                                 size_t n_notes, kvs_statefile_tensor_t *tensors, size_t n_tensors);

/* ---- Reading ------------------------------------------------------------------------------------- */

typedef struct kvs_statefile {
    const char *path; /* the caller's, for texts */
    int fd;
    char *header;
    uint64_t data_begin; /* in the file */
    int64_t *shapes;     /* of all tensors */
    kvs_statefile_tensor_t *tensors;
    size_t n_tensors; /* by name */
    kvs_statefile_note_t *notes;
    size_t n_notes;
} kvs_statefile_t;

/* Open and check everything but the tensors' bytes. `path` lives until close. ERR_NOT_FOUND: no such
 * file; ERR_IO; ERR_FORMAT: foreign, damaged, truncated, or of a later version: the text says which. */
kvs_status_t kvs_statefile_open(const char *path, kvs_statefile_t *ret_file);
void kvs_statefile_close(kvs_statefile_t *file); /* all-zero and half-open ones too */

/* NULL if there is none. */
const kvs_statefile_tensor_t *kvs_statefile_find(const kvs_statefile_t *file, const char *name);
kvs_statefile_note_t *kvs_statefile_note(const kvs_statefile_t *file, const char *name);
/* Read all bytes of a tensor and compare its checksum. ERR_FORMAT: it differs. */
kvs_status_t kvs_statefile_read(const kvs_statefile_t *file, const kvs_statefile_tensor_t *tensor,
                                void *to);
/* ERR_FORMAT: "PATH: …". */
kvs_status_t kvs_statefile_fail(const kvs_statefile_t *file, const char *format, ...)
    KVS_PRINTF(2, 3);

/* Put the right checksum into a header that has a place for it; for writers and fuzzers. */
void kvs_statefile_seal(char *header, uint64_t n_bytes);

#endif
