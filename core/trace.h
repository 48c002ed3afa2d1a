/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - what happened when, as a Chrome trace (chrome://tracing, Perfetto): the setting `trace`,
 * KVSTORE_TRACE=FILE. One file a process, from its first store on; a complete JSON text after each
 * flush. Format: the "JSON Array Format" of Trace Event Format, complete events ("ph": "X"). */
#ifndef KVSI_TRACE_H
#define KVSI_TRACE_H

#include <kvstore/abi.h>

/* Begin to write to `path`; "" does nothing, nor does a second call. ERR_IO: it can't be written. */
kvs_status_t kvsi_trace_open(const char *path);
/* Whether it could, without making or changing a file. */
kvs_status_t kvsi_trace_try(const char *path);
/* The time now if a trace is being written, else 0: then the end is not recorded either. */
int64_t kvsi_trace_begin(void);
/* Record the span from `begin`; `name` and `detail` are copied. Any thread. */
void kvsi_trace_end(int64_t begin, const char *name, const char *detail, uint64_t n_bytes);
/* Write what is buffered. */
void kvsi_trace_flush(void);

#endif
