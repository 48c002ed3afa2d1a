/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the text behind a status: one per thread. kvs_fail, in kvstore.h, sets it. */
#ifndef KVSI_STATUS_H
#define KVSI_STATUS_H

#include <kvstore/kvstore.h>

#include <stdarg.h>

kvs_status_t kvsi_fail_v(kvs_status_t status, const char *format, va_list args);
/* Put "CONTEXT: " in front of this thread's text and return `status`. */
kvs_status_t kvsi_fail_context(kvs_status_t status, const char *format, ...) KVS_PRINTF(2, 3);
/* Forget this thread's text: what is found there next was written since. */
void kvsi_status_clear(void);

#endif
