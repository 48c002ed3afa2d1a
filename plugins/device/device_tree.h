/* SPDX-License-Identifier: Apache-2.0 */
/* device_tree.h - along which links the devices of a host sum and hand back an array: a tree for each
 * device as root, planned from a matrix of what the links carry. Plans only; touches no device. */
#ifndef DEVICE_TREE_H
#define DEVICE_TREE_H

#include <kvstore/plugin.h>

#define DEVICE_TREE_MAX 64 /* devices */

/* Parents of all devices towards one root. */
typedef struct device_tree {
    int32_t n;
    int32_t root;
    int32_t parent[DEVICE_TREE_MAX]; /* of the root: itself */
    int32_t level[DEVICE_TREE_MAX];  /* of the root: 0 */
    int32_t
        order[DEVICE_TREE_MAX]; /* the devices by level, the root first: a broadcast's order, and
                                      * from its end a reduction's */
    double width;               /* of its narrowest link, penalties applied */
} device_tree_t;

/* Plan a tree for each of `n` devices as root, in ascending order, into `trees`.
 *
 * `links` holds n × n widths, symmetric, in any unit (bytes a second, say); 0: no link, such a pair is
 * joined through host memory, which carries `through_host`, above 0. A tree has, of all spanning trees,
 * first the widest narrowest link, then the least sum of levels, then the most width altogether; of
 * equal parents the one with fewer children, then the lower number. After each tree the links it uses
 * count `penalty` (above 0, at most 1) times as much, so that the next root prefers others.
 * ERR_ARGUMENT: another n than 1 to DEVICE_TREE_MAX, a width that is negative, infinite or NaN or that
 * differs by direction, a penalty out of range. */
kvs_status_t device_tree_plan(int32_t n, const double *links, double through_host, double penalty,
                              device_tree_t *trees);

/* Whether some pairs have another width than others: where all are equal no tree is better than a
 * direct exchange. */
int device_tree_pays(int32_t n, const double *links);

/* Cut `n_elems` elements over the roots, in proportion to the widths of their trees, at multiples of
 * `multiple`: slice i is [first[i], first[i + 1]). `first` has n + 1 places. */
void device_tree_slices(const device_tree_t *trees, int32_t n, int64_t n_elems, int64_t multiple,
                        int64_t *first);

#endif
