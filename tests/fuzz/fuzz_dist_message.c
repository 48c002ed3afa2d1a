/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dist_message.c - any bytes as a message between workers and servers: the first byte says what
 * they are taken for. What is read keeps the promises of its header; what was read and is written again
 * is the same. Seeds lie in seeds/dist_message. */
#include "dist_message.h"
#include "dist_spec.h"
#include "fuzz_host.h"

/* Bytes of a body behind a header are as many as the first two bytes say. */
static void read_header(const uint8_t *data, size_t n_bytes)
{
    size_t n_body = n_bytes < 2 ? 0 : (size_t)data[0] | (size_t)data[1] << 8;
    dist_header_t header;

    if (n_bytes < 2 || dist_header_decode(data + 2, n_bytes - 2, n_body, &header) != KVS_OK) {
        return;
    }
    uint8_t again[DIST_MAX_HEADER_BYTES];

    require(dist_header_encode(&header, again) == n_bytes - 2);
    require(memcmp(again, data + 2, n_bytes - 2) == 0);
    require(header.kind > 0 && header.kind < DIST_N_KINDS && header.n >= 0 && header.first >= 0);
    require(header.n_scalars <= KVS_OPTIMIZER_MAX_SCALARS);
}

static void read_record(const uint8_t *data, size_t n_bytes)
{
    dist_record_t record;
    dist_bytes_t again = DIST_BYTES_INIT;
    int64_t n = 0;

    if (dist_record_decode(data, n_bytes, &record) != KVS_OK) {
        return;
    }
    require(record.dtype >= 0 && record.dtype < KVS_N_DTYPES && record.ndim <= DIST_MAX_NDIM);
    for (uint32_t i = 0; i < record.n_shards; i++) {
        require(record.shards[i].first == n);
        n += record.shards[i].n;
    }
    require(record.n_shards == 0 || n == record.n_elems);
    dist_record_encode(&record, &again);
    require(again.failed || (again.n == n_bytes && memcmp(again.data, data, n_bytes) == 0));
    dist_bytes_release(&again);
    dist_record_release(&record);
}

static void read_spec(const uint8_t *data, size_t n_bytes)
{
    dist_spec_t spec;
    dist_bytes_t again = DIST_BYTES_INIT;
    char text[DIST_SPEC_TEXT_BYTES];

    if (dist_spec_decode(data, n_bytes, &spec) != KVS_OK) {
        return;
    }
    require(spec.spec.name != NULL && dist_spec_encode(&spec.spec, &again) == KVS_OK);
    require(strlen(dist_spec_text(data, n_bytes, text)) < sizeof(text));
    dist_bytes_release(&again);
    dist_spec_release(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        read_header(data + 1, n_bytes - 1);
        break;
    case 1:
        read_record(data + 1, n_bytes - 1);
        break;
    default:
        read_spec(data + 1, n_bytes - 1);
        break;
    }
    return 0;
}
