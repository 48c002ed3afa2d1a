/* SPDX-License-Identifier: Apache-2.0 */
/* compressors.h - the built-in compressors. */
#ifndef KVS_COMPRESSORS_H
#define KVS_COMPRESSORS_H

#include <kvstore/plugin.h>

extern const kvs_compressor_t compressors_1bit, compressors_2bit;

#endif
