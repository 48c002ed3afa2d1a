/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_digest.h - what a store's updates follow from, as one number: processes that are to make the same
 * updates hold theirs against each other. */
#ifndef NCCL_DIGEST_H
#define NCCL_DIGEST_H

#include <kvstore/plugin.h>

uint64_t nccl_digest_text(uint64_t digest, const char *text); /* NULL: none */
uint64_t nccl_digest_param(uint64_t digest, const kvs_param_t *param);
uint64_t nccl_digest_spec(uint64_t digest, const kvs_optimizer_spec_t *spec);

#endif
