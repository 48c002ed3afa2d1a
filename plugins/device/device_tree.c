/* SPDX-License-Identifier: Apache-2.0 */
/* device_tree.c - trees over the links of a host. The widest narrowest link comes from growing a
 * maximum spanning tree (Prim); among the links at least that wide, levels come from a search in
 * breadth, which is the least sum of levels, and each device takes its widest link one level up. */
#include "device_tree.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct plan {
    int32_t n;
    double width[DEVICE_TREE_MAX][DEVICE_TREE_MAX]; /* penalties applied; of no pair 0 */
} plan_t;

/* ---- The matrix ---------------------------------------------------------------------------------- */

static kvs_status_t check_link(const double *links, int32_t n, int32_t a, int32_t b)
{
    double width = links[a * n + b];

    if (!isfinite(width) || width < 0) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "the link of devices %d and %d has width %g: neither finite "
                        "nor above or equal to 0",
                        a, b, width);
    }
    if (width != links[b * n + a]) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "the link of devices %d and %d has width %g one way and %g the other", a, b,
                        width, links[b * n + a]);
    }
    return KVS_OK;
}

static kvs_status_t read_links(plan_t *plan, int32_t n, const double *links, double through_host)
{
    plan->n = n;
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = 0; b < n; b++) {
            kvs_status_t status = a == b ? KVS_OK : check_link(links, n, a, b);

            if (status != KVS_OK) {
                return status;
            }
            plan->width[a][b] = links[a * n + b] > 0 ? links[a * n + b] : through_host;
        }
    }
    return KVS_OK;
}

/* ---- One tree ------------------------------------------------------------------------------------ */

/* The narrowest link of a maximum spanning tree, which is as wide as that of any tree can be. */
static double widest_narrowest(const plan_t *plan)
{
    double reach[DEVICE_TREE_MAX], narrowest = INFINITY;
    bool in[DEVICE_TREE_MAX] = {true};

    memcpy(reach, plan->width[0], sizeof(reach));
    for (int32_t n_in = 1; n_in < plan->n; n_in++) {
        int32_t next = -1;

        for (int32_t i = 0; i < plan->n; i++) {
            if (!in[i] && (next < 0 || reach[i] > reach[next])) {
                next = i;
            }
        }
        in[next] = true;
        narrowest = fmin(narrowest, reach[next]);
        for (int32_t i = 0; i < plan->n; i++) {
            reach[i] = fmax(reach[i], plan->width[next][i]);
        }
    }
    return narrowest;
}

/* Levels and order of a search in breadth over links of at least `width`. */
static void find_levels(const plan_t *plan, double width, device_tree_t *tree)
{
    int32_t n_found = 1;

    for (int32_t i = 0; i < plan->n; i++) {
        tree->level[i] = -1;
    }
    tree->level[tree->root] = 0;
    tree->order[0] = tree->root;
    for (int32_t at = 0; at < n_found; at++) {
        int32_t from = tree->order[at];

        for (int32_t i = 0; i < plan->n; i++) {
            if (tree->level[i] < 0 && plan->width[from][i] >= width) {
                tree->level[i] = tree->level[from] + 1;
                tree->order[n_found++] = i;
            }
        }
    }
}

static void find_parents(const plan_t *plan, device_tree_t *tree)
{
    int32_t n_children[DEVICE_TREE_MAX] = {0};

    tree->parent[tree->root] = tree->root;
    for (int32_t at = 1; at < plan->n; at++) {
        int32_t child = tree->order[at], best = -1;

        for (int32_t i = 0; i < plan->n; i++) {
            const double *width = plan->width[child];

            if (tree->level[i] == tree->level[child] - 1 &&
                (best < 0 || width[i] > width[best] ||
                 (width[i] == width[best] && n_children[i] < n_children[best]))) {
                best = i;
            }
        }
        tree->parent[child] = best;
        n_children[best]++;
        tree->width = fmin(tree->width, plan->width[child][best]);
    }
}

static void weigh_down(plan_t *plan, const device_tree_t *tree, double penalty)
{
    for (int32_t i = 0; i < plan->n; i++) {
        if (i != tree->root) {
            plan->width[i][tree->parent[i]] *= penalty;
            plan->width[tree->parent[i]][i] = plan->width[i][tree->parent[i]];
        }
    }
}

kvs_status_t device_tree_plan(int32_t n, const double *links, double through_host, double penalty,
                              device_tree_t *trees)
{
    plan_t plan;
    kvs_status_t status;

    if (n < 1 || n > DEVICE_TREE_MAX) {
        return kvs_fail(KVS_ERR_ARGUMENT, "trees are planned over 1 to %d devices, not %d",
                        DEVICE_TREE_MAX, n);
    }
    if (!isfinite(through_host) || !(through_host > 0)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "the way through host memory has width %g, not above 0",
                        through_host);
    }
    if (!(penalty > 0 && penalty <= 1)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "the penalty of a used link is %g, not above 0 and at most 1", penalty);
    }
    status = read_links(&plan, n, links, through_host);
    for (int32_t root = 0; root < n && status == KVS_OK; root++) {
        trees[root] = (device_tree_t){.n = n, .root = root, .width = INFINITY};
        find_levels(&plan, widest_narrowest(&plan), &trees[root]);
        find_parents(&plan, &trees[root]);
        weigh_down(&plan, &trees[root], penalty);
    }
    return status;
}

/* ---- What follows from trees --------------------------------------------------------------------- */

int device_tree_pays(int32_t n, const double *links)
{
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = 0; b < n; b++) {
            if (a != b && links[a * n + b] != links[1]) {
                return 1;
            }
        }
    }
    return 0;
}

void device_tree_slices(const device_tree_t *trees, int32_t n, int64_t n_elems, int64_t multiple,
                        int64_t *first)
{
    double total = 0, before = 0;

    for (int32_t i = 0; i < n; i++) {
        total += n == 1 ? 1 : trees[i].width;
    }
    for (int32_t i = 0; i < n; i++) {
        first[i] = (int64_t)(before / total * (double)n_elems) / multiple * multiple;
        before += n == 1 ? 1 : trees[i].width;
    }
    first[n] = n_elems;
}
