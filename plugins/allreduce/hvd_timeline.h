/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_timeline.h - a trace of exchanges, for chrome://tracing and its like: for each key how long this
 * worker waited for the others (negotiate), for its turn (queue), and for the exchange itself. One file a
 * worker; times are those of the host's monotonic clock, so that files of one host fit together. */
#ifndef HVD_TIMELINE_H
#define HVD_TIMELINE_H

#include <kvstore/plugin.h>

/* Begin to write to `path`, worker 0, or `path`.RANK. "" does nothing, and so does everything below then.
 * ERR_IO. Once a process; one thread at a time. */
kvs_status_t hvd_timeline_open(const char *path, int rank);
void hvd_timeline_close(void);

int64_t hvd_timeline_now(void); /* microseconds */
/* What was waited for with a key, beside others. */
void hvd_timeline_wait(const char *what, const kvs_key_entry_t *key, int64_t begin, int64_t end);
/* One exchange, of `n` keys that were fused; `key` is the first. */
void hvd_timeline_exchange(const kvs_key_entry_t *key, size_t n, int64_t begin, int64_t end);

#endif
