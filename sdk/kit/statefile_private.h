/* SPDX-License-Identifier: Apache-2.0 */
/* statefile_private.h - what statefile.c and statefile_read.c agree on: how a header begins. */
#ifndef KVS_KIT_STATEFILE_PRIVATE_H
#define KVS_KIT_STATEFILE_PRIVATE_H

#include "statefile.h"

/* {"__metadata__":{"format_version":"1","checksum":"\"00000000\"", … */
#define KVS_STATEFILE_VERSION_OPEN  "{\"__metadata__\":{\"format_version\":\""
#define KVS_STATEFILE_CHECKSUM_OPEN "\",\"checksum\":\"\\\""
#define KVS_STATEFILE_DIGITS        8

/* ERR_NOT_IMPLEMENTED where numbers in memory are not little-endian. */
kvs_status_t kvs_statefile_check_host(const char *path);
/* The name of a dtype in safetensors files: "F32". */
const char *kvs_statefile_dtype(int dtype);
/* Where the digits of the checksum stand in a header, or NULL if it does not begin as ours do, whatever
 * its version is. */
char *kvs_statefile_digits(char *header, size_t n_bytes);
/* The checksum that the header should have; its digits are ignored. */
uint32_t kvs_statefile_checksum(const char *header, uint64_t n_bytes, const char *digits);

#endif
