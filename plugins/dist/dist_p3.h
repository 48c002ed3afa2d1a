/* SPDX-License-Identifier: Apache-2.0 */
/* dist_p3.h - stores with P3: arrays travel in small slices, so that what is urgent waits for no more than
 * one of them, and little is given to the network before its turn. */
#ifndef DIST_P3_H
#define DIST_P3_H

#include <kvstore/net.h>
#include <kvstore/plugin.h>

#include <stdbool.h>

/* On the way to one peer at most, with P3. */
#define DIST_P3_WINDOW (4 << 20)

/* The value of option `p3`: ERR_ARGUMENT if it says neither yes nor no, or yes to an asynchronous store. */
kvs_status_t dist_p3_check(const char *value, const char *type);
bool dist_p3_is_on(const char *value);
/* Elements of a slice, from option `slice_threshold`; a multiple of what gradient compression packs. */
int64_t dist_p3_slice(const char *threshold);
/* The same from what all workers have in common; 0: no P3. */
int64_t dist_p3_slice_of(const kvs_net_fact_t *facts, uint32_t n_facts);

#endif
