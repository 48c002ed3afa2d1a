/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_double_api.h - what tests ask of the stand-in for libnccl.so.2, by dlsym, beside NCCL's own
 * functions. */
#ifndef NCCL_DOUBLE_API_H
#define NCCL_DOUBLE_API_H

#include <stdint.h>

typedef struct nccl_double_counts {
    uint64_t inits; /* communicators begun, destroyed and aborted */
    uint64_t destroys, aborts;
    uint64_t groups;      /* with collectives in them */
    uint64_t collectives; /* a call on each of the communicators of this process is one */
    uint64_t lone;        /* collectives that not all communicators of this process were given */
} nccl_double_counts_t;

/* nccl_double_read */
typedef void (*nccl_double_read_t)(nccl_double_counts_t *ret_counts);
/* nccl_double_fault: as KVSTORE_DOUBLE_NCCL_FAULT; counting begins anew; "" for none */
typedef void (*nccl_double_fault_t)(const char *faults);

#endif
