/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_library.h - NCCL, opened at run time: its functions as a table. libnccl.so.2, or what
 * KVSTORE_NCCL_LIBRARY names. The only includer of nccl.h. */
#ifndef NCCL_LIBRARY_H
#define NCCL_LIBRARY_H

#include <kvstore/plugin.h>

#include <nccl.h>

#define NCCL_NEEDED_MAJOR 2
#define NCCL_NEEDED       21800 /* communicators that don't block and can be aborted while they do */

#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclAllReduce)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclCommAbort)                                                                               \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclGetVersion)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclGroupStart)                                                                              \
    X(ncclReduce)

typedef struct nccl_library {
#define NCCL_MEMBER(f) __typeof__(&f) p_##f;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    int version; /* 22809 */
} nccl_library_t;

extern nccl_library_t nccl_library; /* filled by nccl_library_open, read-only from then on */

/* nccl(ncclGroupStart)() */
#define nccl(f) (nccl_library.p_##f)

/* Open it, once. ERR_UNAVAILABLE: there is none, or one of another major version or too old; again at
 * each call. Any thread. */
kvs_status_t nccl_library_open(void);
#define NCCL_TEXT_BYTES 1024
/* For people: its version and file, or why there is none. Any thread. */
const char *nccl_library_text(char text[NCCL_TEXT_BYTES]);
/* "2.28.9" of 22809. */
const char *nccl_version_text(int version, char text[24]);

#endif
