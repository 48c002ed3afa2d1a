/* SPDX-License-Identifier: Apache-2.0 */
/* dist_local.h - a job of one worker, which was told of no server: a store in this process, without
 * sockets, by the kit's host store. Functions as in kvs_backend_ops_t; operations end before they
 * return. */
#ifndef DIST_LOCAL_H
#define DIST_LOCAL_H

#include "dist_finite.h"

#include <kvstore/kit.h>

/* As kvs_hoststore_issue; `codec` is the number of the compression in force. An asynchronous store needs an
 * optimizer to push. */
kvs_status_t dist_local_issue(kvs_hoststore_t *store, uint16_t codec, kvs_op_t *op);
kvs_status_t dist_local_run(kvs_hoststore_t *store, dist_nonfinite_t nonfinite, kvs_op_t *op);

#endif
