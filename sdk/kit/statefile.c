/* SPDX-License-Identifier: Apache-2.0 */
/* statefile.c - writing state files, and what writing and reading share. */
#include "statefile.h"

#include "crc32c.h"
#include "jsonwrite.h"
#include "newfile.h"
#include "statefile_private.h"

#include <kvstore/kit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kvs_statefile_dtype(int dtype)
{
    static const char *const names[KVS_N_DTYPES] = {
        [KVS_DTYPE_float32] = "F32",   [KVS_DTYPE_float64] = "F64", [KVS_DTYPE_float16] = "F16",
        [KVS_DTYPE_bfloat16] = "BF16", [KVS_DTYPE_int8] = "I8",     [KVS_DTYPE_uint8] = "U8",
        [KVS_DTYPE_int32] = "I32",     [KVS_DTYPE_int64] = "I64",
    };

    return names[dtype];
}

kvs_status_t kvs_statefile_check_host(const char *path)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)path;
    return KVS_OK;
#else
    return kvs_fail(
        KVS_ERR_NOT_IMPLEMENTED,
        "%s: files of states are not implemented on this processor, whose byte order is "
        "not theirs",
        path);
#endif
}

/* ---- The header's checksum ----------------------------------------------------------------------- */

char *kvs_statefile_digits(char *header, size_t n_bytes)
{
    static const char version_open[] = KVS_STATEFILE_VERSION_OPEN;
    static const char checksum_open[] = KVS_STATEFILE_CHECKSUM_OPEN;
    size_t at = sizeof(version_open) - 1;

    if (n_bytes < at || memcmp(header, version_open, at) != 0) {
        return NULL;
    }
    while (at < n_bytes && header[at] >= '0' && header[at] <= '9') {
        at++;
    }
    if (n_bytes - at < sizeof(checksum_open) - 1 + KVS_STATEFILE_DIGITS ||
        memcmp(header + at, checksum_open, sizeof(checksum_open) - 1) != 0) {
        return NULL;
    }
    return header + at + sizeof(checksum_open) - 1;
}

uint32_t kvs_statefile_checksum(const char *header, uint64_t n_bytes, const char *digits)
{
    unsigned char length[8];
    size_t n_before = (size_t)(digits - header);
    uint32_t crc;

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)(n_bytes >> 8 * i);
    }
    crc = kvs_crc32c(0, length, sizeof(length));
    crc = kvs_crc32c(crc, header, n_before);
    crc = kvs_crc32c(crc, "00000000", KVS_STATEFILE_DIGITS);
    return kvs_crc32c(crc, digits + KVS_STATEFILE_DIGITS,
                      n_bytes - n_before - KVS_STATEFILE_DIGITS);
}

void kvs_statefile_seal(char *header, uint64_t n_bytes)
{
    char *digits = kvs_statefile_digits(header, n_bytes);
    char text[KVS_STATEFILE_DIGITS + 1];

    if (digits != NULL) {
        snprintf(text, sizeof(text), "%08x", kvs_statefile_checksum(header, n_bytes, digits));
        memcpy(digits, text, KVS_STATEFILE_DIGITS);
    }
}

/* ---- Writing ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const kvs_statefile_tensor_t *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Give every tensor its place behind the one before. */
static void lay_out(kvs_statefile_tensor_t *tensors, size_t n_tensors)
{
    uint64_t at = 0;

    if (n_tensors > 1) {
        qsort(tensors, n_tensors, sizeof(*tensors), by_name);
    }
    for (size_t i = 0; i < n_tensors; i++) {
        kvs_statefile_tensor_t *tensor = &tensors[i];

        tensor->n_elems = 1;
        for (int32_t d = 0; d < tensor->ndim; d++) {
            tensor->n_elems *= tensor->shape[d];
        }
        tensor->begin = at;
        at += (uint64_t)tensor->n_elems * kvs_dtype_bytes(tensor->dtype);
        tensor->end = at;
        tensor->checksum = kvs_crc32c(0, tensor->data, (size_t)(tensor->end - tensor->begin));
    }
}

/* A member of the metadata: JSON in a string. */
static void add_note(kvs_jsonwrite_t *json, const char *name, const char *text)
{
    kvs_jsonwrite_name(json, name);
    kvs_jsonwrite_string(json, text != NULL ? text : "");
}

static void add_checksums(kvs_jsonwrite_t *json, const kvs_statefile_tensor_t *tensors,
                          size_t n_tensors)
{
    kvs_jsonwrite_t inner = {0};

    kvs_jsonwrite_open(&inner, '{');
    for (size_t i = 0; i < n_tensors; i++) {
        kvs_jsonwrite_name(&inner, tensors[i].name);
        kvs_jsonwrite_integer(&inner, tensors[i].checksum);
    }
    kvs_jsonwrite_close(&inner, '}');
    json->failed |= inner.failed;
    add_note(json, "checksums", inner.text);
    kvs_jsonwrite_release(&inner);
}

static void add_tensor(kvs_jsonwrite_t *json, const kvs_statefile_tensor_t *tensor)
{
    kvs_jsonwrite_name(json, tensor->name);
    kvs_jsonwrite_open(json, '{');
    kvs_jsonwrite_name(json, "dtype");
    kvs_jsonwrite_string(json, kvs_statefile_dtype(tensor->dtype));
    kvs_jsonwrite_name(json, "shape");
    kvs_jsonwrite_open(json, '[');
    for (int32_t d = 0; d < tensor->ndim; d++) {
        kvs_jsonwrite_integer(json, tensor->shape[d]);
    }
    kvs_jsonwrite_close(json, ']');
    kvs_jsonwrite_name(json, "data_offsets");
    kvs_jsonwrite_open(json, '[');
    kvs_jsonwrite_integer(json, (int64_t)tensor->begin);
    kvs_jsonwrite_integer(json, (int64_t)tensor->end);
    kvs_jsonwrite_close(json, ']');
    kvs_jsonwrite_close(json, '}');
}

static void make_header(kvs_jsonwrite_t *json, const kvs_statefile_note_t *notes, size_t n_notes,
                        const kvs_statefile_tensor_t *tensors, size_t n_tensors)
{
    char begin[96];
    int n = snprintf(begin, sizeof(begin), "%s%d%s00000000\\\"\"", KVS_STATEFILE_VERSION_OPEN,
                     KVS_STATEFILE_VERSION, KVS_STATEFILE_CHECKSUM_OPEN);

    kvs_jsonwrite_raw(json, begin, (size_t)n);
    json->comma = 1;
    for (size_t i = 0; i < n_notes; i++) {
        add_note(json, notes[i].name, notes[i].json);
    }
    add_checksums(json, tensors, n_tensors);
    kvs_jsonwrite_close(json, '}');
    for (size_t i = 0; i < n_tensors; i++) {
        add_tensor(json, &tensors[i]);
    }
    kvs_jsonwrite_close(json, '}');
    while (json->n_bytes % 8 != 0 && !json->failed) {
        kvs_jsonwrite_raw(json, " ", 1);
    }
}

static kvs_status_t write_all(kvs_newfile_t *file, const kvs_jsonwrite_t *header,
                              const kvs_statefile_tensor_t *tensors, size_t n_tensors)
{
    unsigned char length[8];
    kvs_status_t status;

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)header->n_bytes >> 8 * i);
    }
    status = kvs_newfile_write(file, length, sizeof(length));
    if (status == KVS_OK) {
        status = kvs_newfile_write(file, header->text, header->n_bytes);
    }
    for (size_t i = 0; i < n_tensors && status == KVS_OK; i++) {
        status =
            kvs_newfile_write(file, tensors[i].data, (size_t)(tensors[i].end - tensors[i].begin));
    }
    return status;
}

static kvs_status_t write_file(const char *path, const kvs_jsonwrite_t *header,
                               const kvs_statefile_tensor_t *tensors, size_t n_tensors)
{
    kvs_newfile_t file;
    kvs_status_t status = kvs_newfile_open(path, &file);

    if (status != KVS_OK) {
        return status;
    }
    status = write_all(&file, header, tensors, n_tensors);
    if (status != KVS_OK) {
        kvs_newfile_abandon(&file);
        return status;
    }
    return kvs_newfile_commit(&file);
}

kvs_status_t kvs_statefile_write(const char *path, const kvs_statefile_note_t *notes,
                                 size_t n_notes, kvs_statefile_tensor_t *tensors, size_t n_tensors)
{
    kvs_jsonwrite_t header = {0};
    kvs_status_t status = kvs_statefile_check_host(path);

    if (status != KVS_OK) {
        return status;
    }
    lay_out(tensors, n_tensors);
    make_header(&header, notes, n_notes, tensors, n_tensors);
    if (header.failed) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for its header", path);
    } else if (header.n_bytes > KVS_STATEFILE_MAX_HEADER) {
        status =
            kvs_fail(KVS_ERR_ARGUMENT,
                     "%s: its header would have %zu bytes, more than the %d of the format: too "
                     "many keys, or keys too long",
                     path, header.n_bytes, KVS_STATEFILE_MAX_HEADER);
    } else {
        kvs_statefile_seal(header.text, header.n_bytes);
        status = write_file(path, &header, tensors, n_tensors);
    }
    kvs_jsonwrite_release(&header);
    return status;
}
