/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.h - names that are known whether installed or not: what exists as a package, so that
 * an error can say what to install, and the device types of DLPack. kvs_known_at, in
 * kvstore/plugins.h, walks the packages. */
#ifndef KVSI_CATALOGUE_H
#define KVSI_CATALOGUE_H

#include <kvstore/plugins.h>

/* What the thing at `index` of kvs_known_at answers to. NULL past the last. */
const kvs_provide_t *kvsi_known_provide(size_t index);
/* "cuda" for KVS_DEVICE_CUDA; NULL for a type that has no name. */
const char *kvsi_device_name(int32_t device_type);

#endif
