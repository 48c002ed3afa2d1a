/* SPDX-License-Identifier: Apache-2.0 */
#include "byteps_message.h"

#include <kvstore/kit.h>

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIXED_BYTES    80
#define MAX_BYTES      INT64_C(0x3fffffffffffffff) /* of an array */
#define MAX_TIMEOUT_MS INT64_C(1000000000000)      /* what a store's timeout may be */

/* ---- Bytes ------------------------------------------------------------------------------------------- */

static void put_u64(uint8_t *bytes, uint64_t value)
{
    uint64_t little = htole64(value);

    memcpy(bytes, &little, sizeof(little));
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    uint32_t little = htole32(value);

    memcpy(bytes, &little, sizeof(little));
}

static uint64_t get_u64(const uint8_t *bytes)
{
    uint64_t little;

    memcpy(&little, bytes, sizeof(little));
    return le64toh(little);
}

static uint32_t get_u32(const uint8_t *bytes)
{
    uint32_t little;

    memcpy(&little, bytes, sizeof(little));
    return le32toh(little);
}

size_t byteps_header_encode(const byteps_header_t *header, uint8_t *bytes)
{
    uint8_t *at = bytes + FIXED_BYTES;

    bytes[0] = header->kind;
    bytes[1] = header->dtype;
    bytes[2] = header->verb;
    bytes[3] = header->has_name;
    put_u32(bytes + 4, (uint32_t)header->ndim);
    put_u64(bytes + 8, header->id);
    put_u64(bytes + 16, header->exchange);
    put_u64(bytes + 24, header->block);
    put_u64(bytes + 32, header->answer);
    put_u64(bytes + 40, header->settled);
    put_u64(bytes + 48, (uint64_t)header->timeout_ms);
    put_u64(bytes + 56, (uint64_t)header->number);
    put_u32(bytes + 64, (uint32_t)header->status);
    put_u32(bytes + 68, header->n_name);
    put_u32(bytes + 72, header->n_ranks);
    put_u32(bytes + 76, header->server);
    for (int32_t i = 0; i < header->ndim; i++) {
        put_u64(at, (uint64_t)header->shape[i]);
        at += 8;
    }
    if (header->n_name > 0) {
        memcpy(at, header->name, header->n_name);
    }
    return (size_t)(at - bytes) + header->n_name;
}

static bool is_sound(const byteps_header_t *header)
{
    int64_t most =
        header->dtype < KVS_N_DTYPES ? MAX_BYTES / (int64_t)kvs_dtype_bytes(header->dtype) : 0;

    for (int32_t i = 0; i < header->ndim; i++) {
        if (header->shape[i] < 0) {
            return false;
        }
    }
    for (int32_t i = 0; i < header->ndim; i++) { /* as the core has it: zeros don't count */
        most /= header->shape[i] > 0 ? header->shape[i] : 1;
    }
    return header->kind >= 1 && header->kind < BYTEPS_N_KINDS && header->dtype < KVS_N_DTYPES &&
           (header->verb == 0 || header->verb == KVS_VERB_PUSHPULL ||
            header->verb == KVS_VERB_BROADCAST) &&
           header->timeout_ms >= 0 && header->timeout_ms <= MAX_TIMEOUT_MS && header->status <= 0 &&
           most > 0;
}

kvs_status_t byteps_header_decode(const void *data, size_t n_bytes, byteps_header_t *ret_header)
{
    const uint8_t *bytes = data;
    byteps_header_t header = {.kind = 0};
    size_t n_shape;

    if (n_bytes < FIXED_BYTES) {
        return kvs_fail(KVS_ERR_FORMAT, "a header of %zu bytes", n_bytes);
    }
    header.kind = bytes[0];
    header.dtype = bytes[1];
    header.verb = bytes[2];
    header.has_name = bytes[3] != 0;
    header.ndim = (int32_t)get_u32(bytes + 4);
    header.id = get_u64(bytes + 8);
    header.exchange = get_u64(bytes + 16);
    header.block = get_u64(bytes + 24);
    header.answer = get_u64(bytes + 32);
    header.settled = get_u64(bytes + 40);
    header.timeout_ms = (int64_t)get_u64(bytes + 48);
    header.number = (int64_t)get_u64(bytes + 56);
    header.status = (int32_t)get_u32(bytes + 64);
    header.n_name = get_u32(bytes + 68);
    header.n_ranks = get_u32(bytes + 72);
    header.server = get_u32(bytes + 76);
    if (header.ndim < 0 || header.ndim > BYTEPS_MAX_NDIM || header.n_name > BYTEPS_MAX_NAME) {
        return kvs_fail(KVS_ERR_FORMAT, "a header with %d dimensions and a name of %u bytes",
                        (int)header.ndim, header.n_name);
    }
    n_shape = 8 * (size_t)header.ndim;
    if (n_bytes != FIXED_BYTES + n_shape + header.n_name) {
        return kvs_fail(KVS_ERR_FORMAT, "a header of %zu bytes, not %zu", n_bytes,
                        FIXED_BYTES + n_shape + header.n_name);
    }
    for (int32_t i = 0; i < header.ndim; i++) {
        header.shape[i] = (int64_t)get_u64(bytes + FIXED_BYTES + 8 * (size_t)i);
    }
    header.name = (const char *)bytes + FIXED_BYTES + n_shape;
    if (bytes[3] > 1 || !is_sound(&header)) {
        return kvs_fail(KVS_ERR_FORMAT, "a header of kind %u makes no sense",
                        (unsigned)header.kind);
    }
    *ret_header = header;
    return KVS_OK;
}

/* ---- Arrays and blocks -------------------------------------------------------------------------------- */

int64_t byteps_n_elems(const byteps_header_t *header)
{
    int64_t n = 1;

    for (int32_t i = 0; i < header->ndim; i++) {
        if (header->shape[i] == 0) {
            return 0;
        }
        n *= header->shape[i];
    }
    return n;
}

int64_t byteps_block_elems(int dtype)
{
    return BYTEPS_BLOCK_BYTES / (int64_t)kvs_dtype_bytes(dtype);
}

uint64_t byteps_n_blocks(int dtype, int64_t n_elems)
{
    int64_t n_block = byteps_block_elems(dtype);

    return n_elems == 0 ? 1 : (uint64_t)((n_elems + n_block - 1) / n_block);
}

int64_t byteps_elems_of_block(int dtype, int64_t n_elems, uint64_t block)
{
    int64_t n_block = byteps_block_elems(dtype);
    int64_t n_left = n_elems - (int64_t)block * n_block;

    return n_left < n_block ? n_left : n_block;
}

bool byteps_same_array(const byteps_header_t *a, const byteps_header_t *b)
{
    return a->dtype == b->dtype && a->verb == b->verb && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

/* ---- Texts -------------------------------------------------------------------------------------------- */

const char *byteps_key_text(const byteps_header_t *header, char *text)
{
    if (header->has_name) {
        snprintf(text, BYTEPS_KEY_TEXT_BYTES, header->n_name > 90 ? "key '%.*s…'" : "key '%.*s'",
                 header->n_name > 90 ? 90 : (int)header->n_name, header->name);
    } else {
        snprintf(text, BYTEPS_KEY_TEXT_BYTES, "key %" PRId64, header->number);
    }
    return text;
}

const char *byteps_array_text(const byteps_header_t *header, char *text)
{
    size_t n = (size_t)snprintf(text, BYTEPS_ARRAY_TEXT_BYTES, "%s of %s (",
                                header->verb == KVS_VERB_BROADCAST ? "broadcast" : "pushpull",
                                kvs_dtype_name(kvs_dtype(header->dtype)));

    for (int32_t i = 0; i < header->ndim && n < BYTEPS_ARRAY_TEXT_BYTES - 32; i++) {
        n += (size_t)snprintf(text + n, BYTEPS_ARRAY_TEXT_BYTES - n, "%s%" PRId64,
                              i == 0 ? "" : ", ", header->shape[i]);
    }
    snprintf(text + n, BYTEPS_ARRAY_TEXT_BYTES - n, header->ndim == 1 ? ",)" : ")");
    return text;
}
