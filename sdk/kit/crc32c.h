/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - the checksum of state files: CRC-32C (Castagnoli), as RFC 3720 defines it for iSCSI. */
#ifndef KVS_KIT_CRC32C_H
#define KVS_KIT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Begin with `crc` 0; the result of one piece begins the next. Any thread. */
uint32_t kvs_crc32c(uint32_t crc, const void *data, size_t n_bytes);
/* The same without the processor's instruction for it, for tests. */
uint32_t kvs_crc32c_by_table(uint32_t crc, const void *data, size_t n_bytes);

#endif
