/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.h - an operation's hold on memory that was taken from a DLPack capsule. */
#ifndef KVSI_DLPACK_H
#define KVSI_DLPACK_H

#include <kvstore/kvstore.h>

#include <stdbool.h>

/* NULL does nothing. The last unref runs the deleter, so not under a lock. */
void kvsi_dlpack_ref(kvs_dlpack_t *taken);
void kvsi_dlpack_unref(kvs_dlpack_t *taken);
/* Whoever exported it forbids to write to it. NULL: no. */
bool kvsi_dlpack_is_read_only(const kvs_dlpack_t *taken);

#endif
