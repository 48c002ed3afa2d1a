/* SPDX-License-Identifier: Apache-2.0 */
/* test_tree.c - trees over the links of known machines, held against a search through all trees. */
#include "../kit/fake_host.h"

#include "device_tree.h"

#include <math.h>
#include <stdlib.h>

#define THROUGH_HOST 0.25
#define PENALTY      0.7

/* ---- Every tree there is ------------------------------------------------------------------------- */

typedef struct value {
    double narrowest;
    int levels;
    double width;
} value_t;

static int is_better(const value_t *a, const value_t *b)
{
    if (a->narrowest != b->narrowest) {
        return a->narrowest > b->narrowest;
    }
    if (a->levels != b->levels) {
        return a->levels < b->levels;
    }
    return a->width > b->width + 1e-9;
}

/* The edges of the tree that a Prüfer sequence stands for. */
static void edges_of(int n, const int *sequence, int (*edges)[2])
{
    int degree[16];

    for (int i = 0; i < n; i++) {
        degree[i] = 1;
    }
    for (int i = 0; i < n - 2; i++) {
        degree[sequence[i]]++;
    }
    for (int e = 0; e < n - 1; e++) {
        int leaf = 0;

        while (degree[leaf] != 1) {
            leaf++;
        }
        degree[leaf] = 0;
        if (e < n - 2) {
            edges[e][1] = sequence[e];
            degree[sequence[e]]--;
        } else {
            edges[e][1] = leaf + 1;
            while (degree[edges[e][1]] != 1) {
                edges[e][1]++;
            }
        }
        edges[e][0] = leaf;
    }
}

static value_t value_of(int n, const double *width, int (*edges)[2], int root)
{
    int level[16];
    value_t value = {.narrowest = INFINITY};

    for (int i = 0; i < n; i++) {
        level[i] = i == root ? 0 : -1;
    }
    for (int known = 1; known < n;) {
        for (int e = 0; e < n - 1; e++) {
            int a = edges[e][0], b = edges[e][1];

            if ((level[a] < 0) != (level[b] < 0)) {
                level[level[a] < 0 ? a : b] = level[level[a] < 0 ? b : a] + 1;
                known++;
            }
        }
    }
    for (int e = 0; e < n - 1; e++) {
        value.narrowest = fmin(value.narrowest, width[edges[e][0] * n + edges[e][1]]);
        value.width += width[edges[e][0] * n + edges[e][1]];
    }
    for (int i = 0; i < n; i++) {
        value.levels += level[i];
    }
    return value;
}

static value_t best_of_all(int n, const double *width, int root)
{
    int sequence[16] = {0}, edges[16][2];
    value_t best = {.narrowest = -1};

    for (;;) {
        value_t value;
        int i = 0;

        edges_of(n, sequence, edges);
        value = value_of(n, width, edges, root);
        if (is_better(&value, &best)) {
            best = value;
        }
        while (i < n - 2 && ++sequence[i] == n) {
            sequence[i++] = 0;
        }
        if (i >= n - 2) {
            return best;
        }
    }
}

/* ---- Held against them --------------------------------------------------------------------------- */

static void check_shape(const device_tree_t *tree, int n, int root)
{
    int seen[16] = {0};

    KT_INT(tree->n, n);
    KT_INT(tree->root, root);
    KT_INT(tree->order[0], root);
    KT_INT(tree->parent[root], root);
    KT_INT(tree->level[root], 0);
    for (int at = 0; at < n; at++) {
        int i = tree->order[at];

        seen[i]++;
        KT_TRUE(at == 0 || seen[tree->parent[i]] == 1); /* parents come first */
        KT_TRUE(at == 0 || tree->level[i] == tree->level[tree->parent[i]] + 1);
    }
    for (int i = 0; i < n; i++) {
        KT_INT(seen[i], 1);
    }
}

static void check_best(int n, const double *links)
{
    device_tree_t trees[16];
    double width[256];

    for (int i = 0; i < n * n; i++) {
        width[i] = links[i] > 0 ? links[i] : THROUGH_HOST;
    }
    KT_OK(device_tree_plan(n, links, THROUGH_HOST, PENALTY, trees));
    for (int root = 0; root < n; root++) {
        int edges[16][2], n_edges = 0;
        value_t want = best_of_all(n, width, root), got;

        check_shape(&trees[root], n, root);
        for (int i = 0; i < n; i++) {
            if (i != root) {
                edges[n_edges][0] = i;
                edges[n_edges++][1] = trees[root].parent[i];
            }
        }
        got = value_of(n, width, edges, root);
        KT_REAL(got.narrowest, want.narrowest);
        KT_REAL(trees[root].width, want.narrowest);
        KT_INT(got.levels, want.levels);
        KT_TRUE(fabs(got.width - want.width) < 1e-9);
        for (int e = 0; e < n_edges; e++) {
            width[edges[e][0] * n + edges[e][1]] *= PENALTY;
            width[edges[e][1] * n + edges[e][0]] *= PENALTY;
        }
    }
}

static void join(double *links, int n, int a, int b, double width)
{
    links[a * n + b] = links[b * n + a] = width;
}

/* Eight devices on two boards; each has two double links and two single ones. */
static void the_best_trees_of_a_cube_mesh(void)
{
    static const int doubles[][2] = {{0, 3}, {0, 4}, {1, 2}, {1, 5},
                                     {2, 3}, {4, 7}, {5, 6}, {6, 7}};
    static const int singles[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 6},
                                     {3, 7}, {4, 5}, {4, 6}, {5, 7}};
    double links[64] = {0};

    for (int i = 0; i < 8; i++) {
        join(links, 8, doubles[i][0], doubles[i][1], 2);
        join(links, 8, singles[i][0], singles[i][1], 1);
    }
    check_best(8, links);
    KT_INT(device_tree_pays(8, links), 1);
}

static void the_best_trees_of_pairs_on_a_bus(void)
{
    double links[36];

    for (int i = 0; i < 36; i++) {
        links[i] = 1;
    }
    join(links, 6, 0, 1, 4);
    join(links, 6, 2, 3, 4);
    join(links, 6, 4, 5, 4);
    check_best(6, links);
    KT_INT(device_tree_pays(6, links), 1);
}

static void equal_links_make_stars(void)
{
    double links[49];
    device_tree_t trees[7];

    for (int i = 0; i < 49; i++) {
        links[i] = 3;
    }
    check_best(7, links);
    KT_INT(device_tree_pays(7, links), 0);
    KT_OK(device_tree_plan(7, links, THROUGH_HOST, 1, trees));
    for (int root = 0; root < 7; root++) {
        for (int i = 0; i < 7; i++) {
            KT_INT(trees[root].parent[i], root);
        }
    }
}

static void the_best_trees_of_odd_counts(void)
{
    for (int n = 1; n <= 7; n += 2) {
        double links[49] = {0};

        for (int i = 0; i < n; i++) {
            for (int j = 0; j < i; j++) {
                join(links, n, i, j, (double)((i * 7 + j * 5) % 4));
            }
        }
        if (n > 2) {
            check_best(n, links);
        }
    }
}

static void parts_without_a_link_are_joined_through_the_host(void)
{
    double links[25] = {0};
    device_tree_t trees[5];

    join(links, 5, 0, 1, 2);
    join(links, 5, 1, 2, 2);
    join(links, 5, 3, 4, 2);
    check_best(5, links);
    KT_OK(device_tree_plan(5, links, THROUGH_HOST, 1, trees));
    KT_REAL(trees[0].width, THROUGH_HOST);
}

static void one_and_two_devices(void)
{
    device_tree_t trees[2];
    double links[4] = {0, 5, 5, 0};

    KT_OK(device_tree_plan(1, links, 1, 1, trees));
    check_shape(&trees[0], 1, 0);
    KT_OK(device_tree_plan(2, links, 1, 1, trees));
    check_shape(&trees[0], 2, 0);
    check_shape(&trees[1], 2, 1);
    KT_REAL(trees[1].width, 5);
    KT_INT(device_tree_pays(1, links), 0);
    KT_INT(device_tree_pays(2, links), 0);
}

static void used_links_are_avoided(void)
{
    double links[16];
    device_tree_t trees[4];
    int uses[16] = {0};

    for (int i = 0; i < 16; i++) {
        links[i] = 1;
    }
    KT_OK(device_tree_plan(4, links, THROUGH_HOST, 0.5, trees));
    for (int root = 0; root < 4; root++) {
        for (int i = 0; i < 4; i++) {
            if (i != root) {
                uses[i * 4 + trees[root].parent[i]]++;
                uses[trees[root].parent[i] * 4 + i]++;
            }
        }
    }
    for (int i = 0; i < 16; i++) {
        KT_TRUE(uses[i] <=
                3); /* of 12 uses over 6 links; without a penalty the first tree's count 4 */
    }
}

static void slices_cover_an_array_by_width(void)
{
    device_tree_t trees[3] = {{.width = 1}, {.width = 2}, {.width = 1}};
    int64_t first[4];

    device_tree_slices(trees, 3, 1000, 1, first);
    KT_INT(first[0], 0);
    KT_INT(first[1], 250);
    KT_INT(first[2], 750);
    KT_INT(first[3], 1000);
    device_tree_slices(trees, 3, 1000, 64, first);
    KT_INT(first[1], 192);
    KT_INT(first[2], 704);
    KT_INT(first[3], 1000);
    device_tree_slices(trees, 3, 0, 64, first);
    KT_INT(first[2], 0);
    KT_INT(first[3], 0);
    device_tree_slices(trees, 3, (int64_t)1 << 33, 64, first);
    KT_INT(first[1], (int64_t)1 << 31);
}

static void what_is_no_matrix_of_links_is_refused(void)
{
    static device_tree_t trees[4];
    double links[16] = {0};

    KT_FAIL(device_tree_plan(0, links, 1, 1, trees), KVS_ERR_ARGUMENT, "not 0");
    KT_FAIL(device_tree_plan(65, links, 1, 1, trees), KVS_ERR_ARGUMENT, "not 65");
    KT_FAIL(device_tree_plan(4, links, 0, 1, trees), KVS_ERR_ARGUMENT, "host memory has width 0");
    KT_FAIL(device_tree_plan(4, links, NAN, 1, trees), KVS_ERR_ARGUMENT, "host memory has width");
    KT_FAIL(device_tree_plan(4, links, 1, 0, trees), KVS_ERR_ARGUMENT,
            "penalty of a used link is 0");
    KT_FAIL(device_tree_plan(4, links, 1, 1.5, trees), KVS_ERR_ARGUMENT, "is 1.5");
    links[1] = 2;
    KT_FAIL(device_tree_plan(4, links, 1, 1, trees), KVS_ERR_ARGUMENT,
            "devices 0 and 1 has width 2 one way and 0 the other");
    join(links, 4, 2, 3, -1);
    join(links, 4, 0, 1, 1);
    KT_FAIL(device_tree_plan(4, links, 1, 1, trees), KVS_ERR_ARGUMENT,
            "devices 2 and 3 has width -1");
    join(links, 4, 2, 3, INFINITY);
    KT_FAIL(device_tree_plan(4, links, 1, 1, trees), KVS_ERR_ARGUMENT,
            "devices 2 and 3 has width inf");
}

static const kt_test_t tests[] = {
    KT_TEST(the_best_trees_of_a_cube_mesh),
    KT_TEST(the_best_trees_of_pairs_on_a_bus),
    KT_TEST(equal_links_make_stars),
    KT_TEST(the_best_trees_of_odd_counts),
    KT_TEST(parts_without_a_link_are_joined_through_the_host),
    KT_TEST(one_and_two_devices),
    KT_TEST(used_links_are_avoided),
    KT_TEST(slices_cover_an_array_by_width),
    KT_TEST(what_is_no_matrix_of_links_is_refused),
};
KT_MAIN("device.tree", tests)
