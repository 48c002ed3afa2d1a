/* SPDX-License-Identifier: Apache-2.0 */
/* statefile_read.c - reading state files: nothing in one is believed before it has been checked. First
 * the lengths and the header's checksum, then its JSON, then that the tensors fill the rest of the file
 * without gaps. */
#include "statefile.h"

#include "crc32c.h"
#include "jsonread.h"
#include "statefile_private.h"

#include <kvstore/kit.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES (1u << 20)
#define MAX_NOTES   64

kvs_status_t kvs_statefile_fail(const kvs_statefile_t *file, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return kvs_fail(KVS_ERR_FORMAT, "%s: %s", file->path, text);
}

static kvs_status_t fail_memory(const kvs_statefile_t *file)
{
    return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to read it", file->path);
}

/* ---- Bytes --------------------------------------------------------------------------------------- */

static kvs_status_t read_bytes(const kvs_statefile_t *file, void *to, size_t n_bytes, uint64_t at)
{
    char *end = to;

    while (n_bytes > 0) {
        ssize_t n = pread(file->fd, end, n_bytes, (off_t)at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return kvs_fail(KVS_ERR_IO, "%s: cannot be read: %s", file->path, strerror(errno));
        }
        if (n == 0) {
            return kvs_statefile_fail(file,
                                      "is truncated: it has become shorter while it was read");
        }
        end += n;
        at += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return KVS_OK;
}

static kvs_status_t open_regular(kvs_statefile_t *file, uint64_t *ret_n_bytes)
{
    struct stat found;

    /* not to wait for somebody to write into a pipe */
    if (file->path[0] == '\0') {
        return kvs_fail(KVS_ERR_NOT_FOUND, "the path of the file is empty");
    }
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0) {
        return kvs_fail(errno == ENOENT ? KVS_ERR_NOT_FOUND : KVS_ERR_IO,
                        "%s: cannot be opened: %s", file->path, strerror(errno));
    }
    if (fstat(file->fd, &found) != 0) {
        return kvs_fail(KVS_ERR_IO, "%s: cannot be read: %s", file->path, strerror(errno));
    }
    if (!S_ISREG(found.st_mode)) {
        return kvs_fail(KVS_ERR_IO, "%s: is not a regular file", file->path);
    }
    *ret_n_bytes = (uint64_t)found.st_size;
    return KVS_OK;
}

/* ---- The header as bytes ------------------------------------------------------------------------- */

static kvs_status_t check_version(const kvs_statefile_t *file)
{
    const char *version = file->header + sizeof(KVS_STATEFILE_VERSION_OPEN) - 1;
    int n_digits = (int)strspn(version, "0123456789");

    if (n_digits == 0 || version[0] == '0') {
        return kvs_statefile_fail(file, "the version of its format is no number from 1 on");
    }
    if (n_digits > 9 || atoi(version) > KVS_STATEFILE_VERSION) {
        return kvs_statefile_fail(
            file,
            "its format has version %.*s, this library reads up to %d: a newer "
            "one wrote it",
            n_digits < 20 ? n_digits : 20, version, KVS_STATEFILE_VERSION);
    }
    return KVS_OK;
}

static kvs_status_t check_header(const kvs_statefile_t *file, size_t n_bytes)
{
    const char *digits = kvs_statefile_digits(file->header, n_bytes);
    char want[KVS_STATEFILE_DIGITS + 1];
    kvs_status_t status;

    if (digits == NULL) {
        return kvs_statefile_fail(file, "is not a file of optimizer states");
    }
    status = check_version(file);
    if (status != KVS_OK) {
        return status;
    }
    snprintf(want, sizeof(want), "%08x", kvs_statefile_checksum(file->header, n_bytes, digits));
    if (memcmp(want, digits, KVS_STATEFILE_DIGITS) != 0) {
        return kvs_statefile_fail(file, "is damaged: the checksum of its header is %.8s, not %s",
                                  digits, want);
    }
    return KVS_OK;
}

/* Read the header, whose end is marked by a NUL. */
static kvs_status_t read_header(kvs_statefile_t *file, uint64_t n_file_bytes, size_t *ret_n_bytes)
{
    unsigned char length[8];
    uint64_t n_bytes = 0;
    kvs_status_t status;

    if (n_file_bytes < sizeof(length)) {
        return kvs_statefile_fail(file,
                                  "is truncated: it has %llu bytes, not even the length of a "
                                  "header",
                                  (unsigned long long)n_file_bytes);
    }
    status = read_bytes(file, length, sizeof(length), 0);
    if (status != KVS_OK) {
        return status;
    }
    for (int i = 0; i < 8; i++) {
        n_bytes |= (uint64_t)length[i] << 8 * i;
    }
    if (n_bytes > KVS_STATEFILE_MAX_HEADER) {
        return kvs_statefile_fail(file,
                                  "is not a file of optimizer states: its header would have %llu "
                                  "bytes, more than %d",
                                  (unsigned long long)n_bytes, KVS_STATEFILE_MAX_HEADER);
    }
    if (n_bytes > n_file_bytes - sizeof(length)) {
        return kvs_statefile_fail(
            file, "is truncated: %llu of the %llu bytes of its header are there",
            (unsigned long long)(n_file_bytes - sizeof(length)), (unsigned long long)n_bytes);
    }
    file->header = malloc((size_t)n_bytes + 1);
    if (file->header == NULL) {
        return fail_memory(file);
    }
    file->header[n_bytes] = '\0';
    file->data_begin = sizeof(length) + n_bytes;
    *ret_n_bytes = (size_t)n_bytes;
    status = read_bytes(file, file->header, (size_t)n_bytes, sizeof(length));
    return status == KVS_OK ? check_header(file, (size_t)n_bytes) : status;
}

/* ---- The header as JSON -------------------------------------------------------------------------- */

/* What grows while the header is read; `file` has them at the end. */
typedef struct parse {
    kvs_statefile_t *file;
    kvs_jsonread_t json;
    size_t tensors_capacity, notes_capacity;
    size_t n_dims, dims_capacity; /* in file->shapes */
} parse_t;

/* Room for `n_more` items; 0 without memory. */
static int grow(void **items, size_t *capacity, size_t n, size_t n_more, size_t item_bytes)
{
    size_t wanted = *capacity;
    void *grown;

    while (wanted < n + n_more) {
        wanted = wanted > 0 ? 2 * wanted : 16;
    }
    if (wanted == *capacity) {
        return 1;
    }
    grown = realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        return 0;
    }
    *items = grown;
    *capacity = wanted;
    return 1;
}

static kvs_status_t fail_json(const kvs_statefile_t *file, const kvs_jsonread_t *json)
{
    return kvs_statefile_fail(file, "byte %zu of its header: %s", json->at, json->fault);
}

static int find_dtype(const char *name)
{
    for (int i = 0; i < KVS_N_DTYPES; i++) {
        if (strcmp(name, kvs_statefile_dtype(i)) == 0) {
            return i;
        }
    }
    return -1;
}

/* Dimensions are kept in file->shapes; until that no longer grows a tensor has none of its own. */
static kvs_status_t parse_shape(parse_t *parse, kvs_statefile_tensor_t *tensor)
{
    kvs_jsonread_t *json = &parse->json;

    tensor->ndim = 0;
    tensor->n_elems = 1;
    kvs_jsonread_open(json, '[');
    while (kvs_jsonread_more(json, ']')) {
        int64_t dim = 0;

        if (!kvs_jsonread_integer(json, &dim)) {
            break;
        }
        if (dim < 0 || ++tensor->ndim > KVS_STATEFILE_MAX_NDIM ||
            __builtin_mul_overflow(tensor->n_elems, dim, &tensor->n_elems)) {
            kvs_jsonread_fault(json, "a shape is negative, too large, or has too many dimensions");
            break;
        }
        if (!grow((void **)&parse->file->shapes, &parse->dims_capacity, parse->n_dims, 1,
                  sizeof(int64_t))) {
            return fail_memory(parse->file);
        }
        parse->file->shapes[parse->n_dims++] = dim;
    }
    return KVS_OK;
}

static void parse_offsets(kvs_jsonread_t *json, kvs_statefile_tensor_t *tensor)
{
    int64_t offsets[2] = {0, 0};
    int n = 0;

    kvs_jsonread_open(json, '[');
    while (kvs_jsonread_more(json, ']') && n < 3) {
        int64_t ignored;

        kvs_jsonread_integer(json, n < 2 ? &offsets[n] : &ignored);
        n++;
    }
    if (n != 2 || offsets[0] < 0 || offsets[1] < offsets[0]) {
        kvs_jsonread_fault(json, "data_offsets are two numbers, from 0 on, in order");
    }
    tensor->begin = (uint64_t)offsets[0];
    tensor->end = (uint64_t)offsets[1];
}

static kvs_status_t parse_member(parse_t *parse, const char *name, kvs_statefile_tensor_t *tensor,
                                 unsigned *io_seen)
{
    kvs_jsonread_t *json = &parse->json;
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    const char *dtype = "";
    unsigned which = 0;

    while (which < 3 && strcmp(name, names[which]) != 0) {
        which++;
    }
    if (which == 3 || (*io_seen & 1u << which) != 0) {
        kvs_jsonread_fault(json, "a tensor has dtype, shape and data_offsets, each once");
        return KVS_OK;
    }
    *io_seen |= 1u << which;
    if (which == 1) {
        return parse_shape(parse, tensor);
    }
    if (which == 2) {
        parse_offsets(json, tensor);
    } else if (kvs_jsonread_string(json, &dtype)) {
        tensor->dtype = find_dtype(dtype);
        if (tensor->dtype < 0) {
            kvs_jsonread_fault(json, "a dtype is none of F32, F64, F16, BF16, I8, U8, I32, I64");
        }
    }
    return KVS_OK;
}

static kvs_status_t parse_tensor(parse_t *parse, const char *name)
{
    kvs_jsonread_t *json = &parse->json;
    kvs_statefile_t *file = parse->file;
    kvs_statefile_tensor_t tensor = {.name = name};
    unsigned seen = 0;
    int64_t n_bytes;
    const char *member;

    kvs_jsonread_open(json, '{');
    while (kvs_jsonread_more(json, '}')) {
        if (!kvs_jsonread_name(json, &member)) {
            break;
        }
        kvs_status_t status = parse_member(parse, member, &tensor, &seen);

        if (status != KVS_OK) {
            return status;
        }
    }
    if (json->fault != NULL) {
        return KVS_OK;
    }
    if (seen != 7) {
        kvs_jsonread_fault(json, "a tensor lacks dtype, shape or data_offsets");
    } else if (__builtin_mul_overflow(tensor.n_elems, (int64_t)kvs_dtype_bytes(tensor.dtype),
                                      &n_bytes) ||
               (uint64_t)n_bytes != tensor.end - tensor.begin) {
        kvs_jsonread_fault(json, "the data_offsets of a tensor don't fit its shape and dtype");
    }
    if (!grow((void **)&file->tensors, &parse->tensors_capacity, file->n_tensors, 1,
              sizeof(tensor))) {
        return fail_memory(file);
    }
    file->tensors[file->n_tensors++] = tensor;
    return KVS_OK;
}

/* "__metadata__": names and strings, format_version and checksum among them. */
static kvs_status_t parse_notes(parse_t *parse)
{
    kvs_jsonread_t *json = &parse->json;
    kvs_statefile_t *file = parse->file;

    if (file->n_notes > 0) {
        kvs_jsonread_fault(json, "__metadata__ stands twice");
    }
    kvs_jsonread_open(json, '{');
    while (kvs_jsonread_more(json, '}')) {
        kvs_statefile_note_t note = {0};

        if (!kvs_jsonread_name(json, &note.name) ||
            !kvs_jsonread_text(json, &note.json, &note.n_bytes)) {
            break;
        }
        if (kvs_statefile_note(file, note.name) != NULL || file->n_notes == MAX_NOTES) {
            kvs_jsonread_fault(json, "a name stands twice in __metadata__, or it has too many");
            break;
        }
        if (!grow((void **)&file->notes, &parse->notes_capacity, file->n_notes, 1, sizeof(note))) {
            return fail_memory(file);
        }
        file->notes[file->n_notes++] = note;
    }
    return KVS_OK;
}

static void give_shapes(kvs_statefile_t *file)
{
    const int64_t *shape = file->shapes;

    for (size_t i = 0; i < file->n_tensors; i++) {
        if (file->tensors[i].ndim > 0) {
            file->tensors[i].shape = shape;
            shape += file->tensors[i].ndim;
        }
    }
}

static kvs_status_t parse_header(kvs_statefile_t *file, size_t n_bytes)
{
    parse_t parse = {.file = file, .json = kvs_jsonread(file->header, n_bytes)};
    kvs_status_t status = KVS_OK;
    const char *name;

    kvs_jsonread_open(&parse.json, '{');
    while (status == KVS_OK && kvs_jsonread_more(&parse.json, '}')) {
        if (!kvs_jsonread_name(&parse.json, &name)) {
            break;
        }
        status =
            strcmp(name, "__metadata__") == 0 ? parse_notes(&parse) : parse_tensor(&parse, name);
    }
    if (status == KVS_OK && !kvs_jsonread_end(&parse.json)) {
        status = fail_json(file, &parse.json);
    }
    give_shapes(file);
    return status;
}

/* ---- What the tensors say together --------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const kvs_statefile_tensor_t *x = a, *y = b;

    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    const kvs_statefile_tensor_t *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Each tensor begins where the one before it ends, and the last ends with the file. */
static kvs_status_t check_places(const kvs_statefile_t *file, uint64_t n_file_bytes)
{
    uint64_t n_data = n_file_bytes - file->data_begin;
    uint64_t at = 0;

    for (size_t i = 0; i < file->n_tensors; i++) {
        const kvs_statefile_tensor_t *tensor = &file->tensors[i];

        if (tensor->begin != at) {
            return kvs_statefile_fail(file,
                                      "tensor '%.80s' begins at byte %llu, not where the one "
                                      "before it ends, at %llu",
                                      tensor->name, (unsigned long long)tensor->begin,
                                      (unsigned long long)at);
        }
        at = tensor->end;
    }
    if (at != n_data) {
        return kvs_statefile_fail(file, "%s: its tensors have %llu bytes, %llu are there",
                                  at > n_data ? "is truncated" : "is too long",
                                  (unsigned long long)at, (unsigned long long)n_data);
    }
    return KVS_OK;
}

static kvs_status_t check_tensors(kvs_statefile_t *file, uint64_t n_file_bytes)
{
    kvs_status_t status;

    if (file->n_tensors > 1) {
        qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), by_place);
    }
    status = check_places(file, n_file_bytes);
    if (file->n_tensors > 1) {
        qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), by_name);
    }
    for (size_t i = 1; i < file->n_tensors && status == KVS_OK; i++) {
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0) {
            status = kvs_statefile_fail(file, "tensor '%.80s' stands twice", file->tensors[i].name);
        }
    }
    return status;
}

/* {"mom/w": 305419896, …}: one for each tensor. */
static kvs_status_t take_checksums(kvs_statefile_t *file)
{
    kvs_statefile_note_t *note = kvs_statefile_note(file, "checksums");
    kvs_jsonread_t json;
    size_t n_taken = 0;

    if (note == NULL) {
        return kvs_statefile_fail(file, "it has no checksums");
    }
    json = kvs_jsonread(note->json, note->n_bytes);
    kvs_jsonread_open(&json, '{');
    while (kvs_jsonread_more(&json, '}')) {
        kvs_statefile_tensor_t *tensor;
        const char *name;
        int64_t checksum = -1;

        if (!kvs_jsonread_name(&json, &name) || !kvs_jsonread_integer(&json, &checksum)) {
            break;
        }
        tensor = (kvs_statefile_tensor_t *)(uintptr_t)kvs_statefile_find(file, name);
        if (tensor == NULL || tensor->has_checksum || checksum < 0 || checksum > UINT32_MAX) {
            kvs_jsonread_fault(&json,
                               "a checksum is no tensor's, stands twice, or is no such number");
            break;
        }
        tensor->checksum = (uint32_t)checksum;
        tensor->has_checksum = 1;
        n_taken++;
    }
    if (!kvs_jsonread_end(&json)) {
        return kvs_statefile_fail(file, "its checksums: byte %zu: %s", json.at, json.fault);
    }
    return n_taken == file->n_tensors ? KVS_OK
                                      : kvs_statefile_fail(file, "a tensor has no checksum");
}

/* ---- The whole ----------------------------------------------------------------------------------- */

static kvs_status_t open_all(kvs_statefile_t *file)
{
    uint64_t n_file_bytes = 0;
    size_t n_header_bytes = 0;
    kvs_status_t status = kvs_statefile_check_host(file->path);

    if (status == KVS_OK) {
        status = open_regular(file, &n_file_bytes);
    }
    if (status == KVS_OK) {
        status = read_header(file, n_file_bytes, &n_header_bytes);
    }
    if (status == KVS_OK) {
        status = parse_header(file, n_header_bytes);
    }
    if (status == KVS_OK) {
        status = check_tensors(file, n_file_bytes);
    }
    return status == KVS_OK ? take_checksums(file) : status;
}

kvs_status_t kvs_statefile_open(const char *path, kvs_statefile_t *ret_file)
{
    kvs_statefile_t file = {.path = path, .fd = -1};
    kvs_status_t status = open_all(&file);

    if (status != KVS_OK) {
        kvs_statefile_close(&file);
        return status;
    }
    *ret_file = file;
    return KVS_OK;
}

void kvs_statefile_close(kvs_statefile_t *file)
{
    if (file->path != NULL && file->fd >= 0) {
        close(file->fd);
    }
    free(file->header);
    free(file->shapes);
    free(file->tensors);
    free(file->notes);
    *file = (kvs_statefile_t){.fd = -1};
}

const kvs_statefile_tensor_t *kvs_statefile_find(const kvs_statefile_t *file, const char *name)
{
    kvs_statefile_tensor_t wanted = {.name = name};

    return file->n_tensors == 0
               ? NULL
               : bsearch(&wanted, file->tensors, file->n_tensors, sizeof(wanted), by_name);
}

kvs_statefile_note_t *kvs_statefile_note(const kvs_statefile_t *file, const char *name)
{
    for (size_t i = 0; i < file->n_notes; i++) {
        if (strcmp(file->notes[i].name, name) == 0) {
            return &file->notes[i];
        }
    }
    return NULL;
}

kvs_status_t kvs_statefile_read(const kvs_statefile_t *file, const kvs_statefile_tensor_t *tensor,
                                void *to)
{
    char *end = to;
    uint64_t n_left = tensor->end - tensor->begin;
    uint64_t at = file->data_begin + tensor->begin;
    uint32_t checksum = 0;

    while (n_left > 0) {
        size_t n = n_left < CHUNK_BYTES ? (size_t)n_left : CHUNK_BYTES;
        kvs_status_t status = read_bytes(file, end, n, at);

        if (status != KVS_OK) {
            return status;
        }
        checksum = kvs_crc32c(checksum, end, n);
        end += n;
        at += n;
        n_left -= n;
    }
    if (checksum != tensor->checksum) {
        return kvs_statefile_fail(file,
                                  "is damaged: the checksum of tensor '%.80s' is %08x, not %08x",
                                  tensor->name, checksum, tensor->checksum);
    }
    return KVS_OK;
}
