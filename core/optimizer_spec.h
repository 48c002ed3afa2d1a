/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer_spec.h - what is checked of every kvs_optimizer_spec_t before a backend or plugin sees it. */
#ifndef KVSI_OPTIMIZER_SPEC_H
#define KVSI_OPTIMIZER_SPEC_H

#include <kvstore/kvstore.h>

/* ERR_ARGUMENT: its size is too small, or what is reserved is used; the text begins with `what`. */
kvs_status_t kvsi_optimizer_spec_check(const kvs_optimizer_spec_t *spec, const char *what);

#endif
