/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - the host table: what the core offers to every plugin. */
#ifndef KVSI_HOST_H
#define KVSI_HOST_H

#include <kvstore/abi.h>

const kvs_host_t *kvsi_host(void);

#endif
