/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_held.h - sums of a group's values in memory of their own, for operations whose arrays overlap: all
 * values are read before any out is written, and outs in the order of the call. */
#ifndef HVD_HELD_H
#define HVD_HELD_H

#include <kvstore/kit.h>

/* Sum the values of `group` into new host memory, which looks like value 0. */
kvs_status_t hvd_held_make(const kvs_group_t *group, kvs_tensor_t *ret_held);
void hvd_held_release(kvs_tensor_t *held); /* empties it */
/* Write `held[g]` to every out of group g, in ascending out_index over all groups; nothing where it has
 * rows: those are written elsewhere. */
kvs_status_t hvd_held_write(const kvs_op_t *op, const kvs_tensor_t *held);

#endif
