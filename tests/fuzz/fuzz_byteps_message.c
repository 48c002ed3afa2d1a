/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_byteps_message.c - any bytes as a header between workers and summation servers. What is read keeps the
 * promises of its header; written again it is the same. Seeds lie in seeds/byteps_message. */
#include "byteps_message.h"
#include "fuzz_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    byteps_header_t header;
    uint8_t again[BYTEPS_MAX_HEADER_BYTES];
    uint64_t n_blocks;

    if (byteps_header_decode(data, n_bytes, &header) != KVS_OK) {
        return 0;
    }
    require(byteps_header_encode(&header, again) == n_bytes && memcmp(again, data, n_bytes) == 0);
    require(header.kind > 0 && header.kind < BYTEPS_N_KINDS && byteps_n_elems(&header) >= 0);
    n_blocks = byteps_n_blocks(header.dtype, byteps_n_elems(&header));
    require(n_blocks > 0 &&
            byteps_elems_of_block(header.dtype, byteps_n_elems(&header), n_blocks - 1) >= 0);
    require(strlen(BYTEPS_KEY_TEXT(&header)) < BYTEPS_KEY_TEXT_BYTES);
    require(strlen(BYTEPS_ARRAY_TEXT(&header)) < BYTEPS_ARRAY_TEXT_BYTES);
    return 0;
}
