/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_message.h"

#include <kvstore/kit.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Headers ------------------------------------------------------------------------------------- */

/* What the body of a kind is. */
typedef enum body { NOTHING, ELEMENTS, ROWS_WITH_IDS, ROWS, IDS, RECORD, TEXT, ANYTHING } body_t;

static const struct {
    body_t body;
    uint8_t has_key;
} kinds[DIST_N_KINDS] = {
    [DIST_DEFINE] = {RECORD, 1},
    [DIST_VALUE] = {ELEMENTS, 1},
    [DIST_PUBLISH] = {RECORD, 1},
    [DIST_LOOKUP] = {RECORD, 0},
    [DIST_PUSH] = {ELEMENTS, 1},
    [DIST_PUSHPULL] = {ELEMENTS, 1},
    [DIST_PULL] = {NOTHING, 1},
    [DIST_OPTIMIZER] = {ANYTHING, 0},
    [DIST_COMMAND] = {ANYTHING, 0},
    [DIST_CLOSE] = {NOTHING, 0},
    [DIST_DONE] = {TEXT, 0},
    [DIST_PART] = {ELEMENTS, 1},
    [DIST_RECORD] = {RECORD, 0},
    [DIST_TELL] = {TEXT, 0},
    [DIST_SUMS] = {ANYTHING, 1},
    [DIST_COMPRESSION] = {ANYTHING, 0},
    [DIST_REFUSAL] = {TEXT, 1},
    [DIST_TURN] = {NOTHING, 1},
    [DIST_ATTR] = {ANYTHING, 0},
    [DIST_VALUE_ROWS] = {ROWS_WITH_IDS, 1},
    [DIST_PUSH_ROWS] = {ROWS_WITH_IDS, 1},
    [DIST_PULL_ROWS] = {IDS, 1},
    [DIST_ROWS] = {ROWS, 1},
    [DIST_GET_STATES] = {NOTHING, 1},
    [DIST_GET_OPTIMIZER] = {NOTHING, 0},
    [DIST_PUT_OPTIMIZER] = {ANYTHING, 0},
    [DIST_PUT_STATES] = {ANYTHING, 1},
    [DIST_LOAD] = {NOTHING, 0},
    [DIST_STATES] = {ANYTHING, 0},
    [DIST_JOIN] = {NOTHING, 0},
    [DIST_DELETE] = {NOTHING, 1},
    [DIST_PATIENCE] = {NOTHING, 0},
    [DIST_BATCH] = {ANYTHING, 0},
};

/* Written through a fixed array: dist_bytes_t would allocate for each message. */
static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        *at++ = (uint8_t)(value >> 8 * i);
    }
    return at;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    return put_u32(put_u32(at, (uint32_t)value), (uint32_t)(value >> 32));
}

static uint8_t *put_real(uint8_t *at, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return put_u64(at, bits);
}

size_t dist_header_encode(const dist_header_t *header, uint8_t *bytes)
{
    uint8_t *at = bytes;

    *at++ = header->kind;
    *at++ = header->dtype;
    *at++ = (uint8_t)header->codec;
    *at++ = (uint8_t)(header->codec >> 8);
    at = put_u32(at, header->epoch);
    at = put_u64(at, header->request);
    at = put_u64(at, header->key);
    at = put_u64(at, header->digest);
    at = put_u64(at, (uint64_t)header->round);
    at = put_u64(at, (uint64_t)header->first);
    at = put_u64(at, (uint64_t)header->n);
    at = put_u64(at, (uint64_t)header->timeout_ms);
    at = put_u32(at, (uint32_t)header->status);
    at = put_u32(at, header->optimizer);
    at = put_u32(at, header->states);
    at = put_u32(at, header->n_scalars);
    at = put_u32(at, (uint32_t)header->priority);
    at = put_u32(at, 0);
    for (uint32_t i = 0; i < header->n_scalars; i++) {
        at = put_real(at, header->scalars[i]);
    }
    return (size_t)(at - bytes);
}

static void get_header(dist_view_t *view, dist_header_t *header)
{
    header->kind = dist_get_u8(view);
    header->dtype = dist_get_u8(view);
    header->codec = dist_get_u8(view);
    header->codec |= (uint16_t)(dist_get_u8(view) << 8);
    header->epoch = dist_get_u32(view);
    header->request = dist_get_u64(view);
    header->key = dist_get_u64(view);
    header->digest = dist_get_u64(view);
    header->round = dist_get_i64(view);
    header->first = dist_get_i64(view);
    header->n = dist_get_i64(view);
    header->timeout_ms = dist_get_i64(view);
    header->status = (int32_t)dist_get_u32(view);
    header->optimizer = dist_get_u32(view);
    header->states = dist_get_u32(view);
    header->n_scalars = dist_get_u32(view);
    header->priority = (int32_t)dist_get_u32(view);
    view->failed |= dist_get_u32(view) != 0;
    view->failed |= header->n_scalars > KVS_OPTIMIZER_MAX_SCALARS;
    for (uint32_t i = 0; !view->failed && i < header->n_scalars; i++) {
        header->scalars[i] = dist_get_real(view);
    }
    view->failed |= view->n_left != 0;
}

/* Only float32 gradients are packed; how many bytes that makes, the receiver knows. */
static int has_wrong_size(const dist_header_t *header, size_t n_body_bytes)
{
    if (header->codec != 0) {
        return header->dtype != KVS_DTYPE_float32 ||
               (header->kind != DIST_PUSH && header->kind != DIST_PUSHPULL);
    }
    return n_body_bytes != (size_t)header->n * kvs_dtype_bytes(header->dtype);
}

/* How long rows are, the receiver knows. */
static int has_wrong_rows(const dist_header_t *header, size_t n_body_bytes)
{
    size_t n = (size_t)header->n;

    switch (kinds[header->kind].body) {
    case ROWS_WITH_IDS:
        return header->dtype >= KVS_N_DTYPES || n_body_bytes < DIST_ROWS_HEAD ||
               (n_body_bytes - DIST_ROWS_HEAD) / sizeof(int64_t) < n;
    case IDS:
        return n == 0 || n_body_bytes % sizeof(int64_t) != 0 || n_body_bytes / sizeof(int64_t) != n;
    default:
        return header->dtype >= KVS_N_DTYPES || n == 0;
    }
}

static int is_malformed(const dist_header_t *header, size_t n_body_bytes)
{
    if (header->kind == 0 || header->kind >= DIST_N_KINDS || header->epoch != 0 ||
        header->round < 0 || header->first < 0 || header->n < 0 || header->timeout_ms < 0 ||
        (kinds[header->kind].has_key && header->key == 0)) {
        return 1;
    }
    switch (kinds[header->kind].body) {
    case NOTHING:
        return n_body_bytes != 0;
    case ELEMENTS:
        return header->dtype >= KVS_N_DTYPES || header->n > dist_part_elems(header->dtype, 0) ||
               has_wrong_size(header, n_body_bytes);
    case TEXT:
        return header->status > 0 ||
               (header->status == 0 &&
                ((n_body_bytes != 0 && header->kind != DIST_TELL) || header->kind == DIST_REFUSAL));
    case ROWS_WITH_IDS:
    case ROWS:
    case IDS:
        return header->codec != 0 || has_wrong_rows(header, n_body_bytes);
    case RECORD:
    case ANYTHING:
        break;
    }
    return 0;
}

kvs_status_t dist_header_decode(const void *bytes, size_t n_bytes, size_t n_body_bytes,
                                dist_header_t *ret_header)
{
    dist_view_t view = dist_view(bytes, n_bytes);
    dist_header_t header = {0};

    get_header(&view, &header);
    if (view.failed || is_malformed(&header, n_body_bytes)) {
        return kvs_fail(KVS_ERR_FORMAT,
                        "a message of kind %u with a header of %zu and a body of %zu bytes is "
                        "malformed",
                        (unsigned)header.kind, n_bytes, n_body_bytes);
    }
    *ret_header = header;
    return KVS_OK;
}

int64_t dist_part_elems(int dtype, int64_t slice)
{
    int64_t n = DIST_PART_BYTES / (int64_t)kvs_dtype_bytes(dtype);

    return slice > 0 && slice < n ? slice : n;
}

int64_t dist_n_parts(int64_t n_each, int64_t n_elems)
{
    return n_elems == 0 ? 1 : (n_elems - 1) / n_each + 1;
}

int64_t dist_part_rows(size_t row_bytes)
{
    int64_t n = (int64_t)((DIST_PART_BYTES - DIST_ROWS_HEAD) / (row_bytes + sizeof(int64_t)));

    return n > 0 ? n : 1;
}

/* ---- Records -------------------------------------------------------------------------------------- */

static kvs_status_t fail_memory(void)
{
    return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the record of a key");
}

static kvs_status_t copy_name(const char *name, dist_record_t *record)
{
    record->name = name == NULL ? NULL : strdup(name);
    return name == NULL || record->name != NULL ? KVS_OK : fail_memory();
}

kvs_status_t dist_record_of(const kvs_key_entry_t *key, dist_record_t *ret_record)
{
    dist_record_t record = {.number = key->name == NULL ? key->number : 0,
                            .dtype = kvs_dtype_index(key->dtype),
                            .row_sparse = key->row_sparse != 0,
                            .ndim = key->ndim,
                            .n_elems = key->n_elems};
    kvs_status_t status = copy_name(key->name, &record);

    if (status == KVS_OK) {
        for (int32_t i = 0; i < key->ndim; i++) {
            record.shape[i] = key->shape[i];
        }
        *ret_record = record;
    }
    return status;
}

kvs_status_t dist_record_copy(const dist_record_t *record, dist_record_t *ret_record)
{
    dist_record_t copy = *record;
    kvs_status_t status = copy_name(record->name, &copy);

    if (status != KVS_OK) {
        return status;
    }
    copy.shards = calloc((size_t)record->n_shards + 1, sizeof(*copy.shards));
    if (copy.shards == NULL) {
        free(copy.name);
        return fail_memory();
    }
    if (record->n_shards > 0) {
        memcpy(copy.shards, record->shards, record->n_shards * sizeof(*copy.shards));
    }
    *ret_record = copy;
    return KVS_OK;
}

void dist_record_release(dist_record_t *record)
{
    free(record->name);
    free(record->shards);
    *record = (dist_record_t)DIST_RECORD_INIT;
}

void dist_record_encode(const dist_record_t *record, dist_bytes_t *bytes)
{
    dist_put_u64(bytes, record->id);
    dist_put_i64(bytes, record->number);
    dist_put_text(bytes, record->name);
    dist_put_u8(bytes, (uint8_t)record->dtype);
    dist_put_u8(bytes, record->row_sparse);
    dist_put_u32(bytes, (uint32_t)record->ndim);
    for (int32_t i = 0; i < record->ndim; i++) {
        dist_put_i64(bytes, record->shape[i]);
    }
    dist_put_u32(bytes, record->n_shards);
    for (uint32_t i = 0; i < record->n_shards; i++) {
        dist_put_u32(bytes, record->shards[i].server);
        dist_put_i64(bytes, record->shards[i].first);
        dist_put_i64(bytes, record->shards[i].n);
    }
}

/* The product of the shape, if it and its bytes can be counted; as in the core also where a dimension is 0
 * and the others would be too much. */
static int count_elems(dist_record_t *record)
{
    int64_t n = 8;
    int is_empty = 0;

    for (int32_t i = 0; i < record->ndim; i++) {
        is_empty |= record->shape[i] == 0;
        if (record->shape[i] < 0 ||
            (record->shape[i] > 0 && __builtin_mul_overflow(n, record->shape[i], &n))) {
            return 0;
        }
    }
    record->n_elems = is_empty ? 0 : n / 8;
    return 1;
}

static void get_shape(dist_view_t *view, dist_record_t *record)
{
    uint32_t ndim;

    record->dtype = dist_get_u8(view);
    record->row_sparse = dist_get_u8(view);
    ndim = dist_get_u32(view);
    if (record->dtype >= KVS_N_DTYPES || ndim > DIST_MAX_NDIM || record->row_sparse > 1 ||
        record->row_sparse > ndim) {
        view->failed = 1;
        return;
    }
    record->ndim = (int32_t)ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        record->shape[i] = dist_get_i64(view);
    }
    view->failed |= !count_elems(record);
}

/* In order, without gaps, and all of it. */
static int shards_cover(const dist_record_t *record)
{
    int64_t next = 0;

    for (uint32_t i = 0; i < record->n_shards; i++) {
        const dist_shard_t *shard = &record->shards[i];

        if (shard->first != next || shard->n < 0 || shard->n > record->n_elems - next) {
            return 0;
        }
        next += shard->n;
    }
    return record->n_shards == 0 || next == record->n_elems;
}

static kvs_status_t get_shards(dist_view_t *view, dist_record_t *record)
{
    uint32_t n = dist_get_count(view, 20);

    record->shards = calloc((size_t)n + 1, sizeof(*record->shards));
    if (record->shards == NULL) {
        return fail_memory();
    }
    record->n_shards = n;
    for (uint32_t i = 0; i < n; i++) {
        record->shards[i].server = dist_get_u32(view);
        record->shards[i].first = dist_get_i64(view);
        record->shards[i].n = dist_get_i64(view);
    }
    view->failed |=
        !shards_cover(record) || (record->row_sparse && !dist_record_has_whole_rows(record));
    return KVS_OK;
}

kvs_status_t dist_record_decode(const void *bytes, size_t n_bytes, dist_record_t *ret_record)
{
    dist_view_t view = dist_view(bytes, n_bytes);
    dist_record_t record = DIST_RECORD_INIT;
    const char *name;
    kvs_status_t status;

    record.id = dist_get_u64(&view);
    record.number = dist_get_i64(&view);
    name = dist_get_text(&view);
    get_shape(&view, &record);
    if (name != NULL && strlen(name) > KVS_KEY_MAX_BYTES) {
        view.failed = 1;
    }
    status = view.failed ? KVS_OK : copy_name(name, &record);
    if (status == KVS_OK && !view.failed) {
        status = get_shards(&view, &record);
    }
    if (status == KVS_OK && (view.failed || view.n_left != 0)) {
        status =
            kvs_fail(KVS_ERR_FORMAT, "the record of a key, of %zu bytes, is malformed", n_bytes);
    }
    if (status != KVS_OK) {
        dist_record_release(&record);
        return status;
    }
    *ret_record = record;
    return KVS_OK;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    }
    return hash;
}

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    uint8_t bytes[8];

    (void)put_u64(bytes, (uint64_t)number);
    return hash_bytes(hash, bytes, sizeof(bytes));
}

uint64_t dist_record_name_hash(const dist_record_t *record)
{
    uint64_t hash = 0xCBF29CE484222325u;

    return record->name == NULL
               ? hash_number(hash_bytes(hash, "i", 1), record->number)
               : hash_bytes(hash_bytes(hash, "s", 1), record->name, strlen(record->name));
}

uint64_t dist_record_digest(const dist_record_t *record)
{
    uint64_t hash = dist_record_name_hash(record);

    hash = hash_number(hash_number(hash, record->dtype), record->ndim);
    hash = record->row_sparse ? hash_bytes(hash, "r", 1) : hash;
    for (int32_t i = 0; i < record->ndim; i++) {
        hash = hash_number(hash, record->shape[i]);
    }
    return hash;
}

int dist_record_same_name(const dist_record_t *a, const dist_record_t *b)
{
    if (a->name == NULL || b->name == NULL) {
        return a->name == b->name && a->number == b->number;
    }
    return strcmp(a->name, b->name) == 0;
}

int64_t dist_row_elems(const dist_record_t *record)
{
    int64_t n = 1;

    for (int32_t i = 1; i < record->ndim; i++) {
        n *= record->shape[i];
    }
    return n;
}

int64_t dist_n_rows(const dist_record_t *record)
{
    return record->ndim > 0 ? record->shape[0] : 1;
}

int dist_record_has_whole_rows(const dist_record_t *record)
{
    int64_t row = dist_row_elems(record);

    for (uint32_t i = 0; i < record->n_shards; i++) {
        if (record->n_shards > 1 && row > 0 && record->shards[i].first % row != 0) {
            return 0;
        }
    }
    return 1;
}

const dist_shard_t *dist_record_shard_of(const dist_record_t *record, uint32_t server)
{
    for (uint32_t i = 0; i < record->n_shards; i++) {
        if (record->shards[i].server == server) {
            return &record->shards[i];
        }
    }
    return NULL;
}

const char *dist_key_text(const dist_record_t *record, char *text)
{
    size_t n = record->name == NULL ? 0 : strlen(record->name);
    int cut = 80;

    if (record->name == NULL) {
        snprintf(text, DIST_KEY_TEXT_BYTES, "key %" PRId64, record->number);
    } else if (n <= (size_t)cut) {
        snprintf(text, DIST_KEY_TEXT_BYTES, "key '%s'", record->name);
    } else {
        while (cut > 0 && ((unsigned char)record->name[cut] & 0xC0) == 0x80) {
            cut--; /* not within a character */
        }
        snprintf(text, DIST_KEY_TEXT_BYTES, "key '%.*s...'", cut, record->name);
    }
    return text;
}

const char *dist_shape_text(const dist_record_t *record, char *text)
{
    size_t n = (size_t)snprintf(text, DIST_SHAPE_TEXT_BYTES, "(");

    for (int32_t i = 0; i < record->ndim && n < DIST_SHAPE_TEXT_BYTES - 32; i++) {
        n += (size_t)snprintf(text + n, DIST_SHAPE_TEXT_BYTES - n, "%s%" PRId64, i > 0 ? ", " : "",
                              record->shape[i]);
    }
    snprintf(text + n, DIST_SHAPE_TEXT_BYTES - n, record->ndim == 1 ? ",)" : ")");
    return text;
}
