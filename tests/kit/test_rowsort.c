/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting of row ids, against qsort; equal ids must stay in order. */
#include "fake_host.h"
#include "rowsort.h"

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* Sizes about the change of digits, ids of one digit and of many. */
static const int64_t sizes[] = {1, 2, 3, 17, 255, 1000, 4095, 4096, 4097, 20011};
static const int64_t n_rows_of[] = {1,    2,       255,       256,       257,           2048,
                                    2049, 1000000, 1LL << 32, 1LL << 40, INT64_MAX - 1, INT64_MAX};
enum {
    N_SIZES = sizeof(sizes) / sizeof(sizes[0]),
    N_RANGES = sizeof(n_rows_of) / sizeof(n_rows_of[0])
};

static int64_t random_id(int64_t n_rows)
{
    return (int64_t)(fake_random() % (uint64_t)n_rows);
}

static void sort_ids(int64_t n, int64_t n_rows)
{
    int64_t *ids = malloc((size_t)n * 3 * sizeof(*ids)), *want = ids + 2 * n;

    for (int64_t i = 0; i < n; i++) {
        ids[i] = want[i] = random_id(n_rows);
    }
    ids[0] = want[0] = n_rows - 1; /* the highest digits count */
    qsort(want, (size_t)n, sizeof(*want), compare);
    kvs_rowsort_ids(n, n_rows, ids, ids + n);
    KT_TRUE(memcmp(ids, want, (size_t)n * sizeof(*ids)) == 0);
    free(ids);
}

static void ids_of_any_number_and_range_are_sorted(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        for (int j = 0; j < N_RANGES; j++) {
            sort_ids(sizes[i], n_rows_of[j]);
        }
    }
}

static void rows_of_equal_id_stay_in_order(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        int64_t n = sizes[i], n_rows = n / 4 + 1, n_wrong = 0;
        kvs_row_source_t *sources = malloc((size_t)n * 2 * sizeof(*sources));

        for (int64_t j = 0; j < n; j++) {
            sources[j] = (kvs_row_source_t){random_id(n_rows), (uintptr_t)j};
        }
        kvs_rowsort_sources(n, n_rows, sources, sources + n);
        for (int64_t j = 1; j < n; j++) {
            n_wrong += sources[j].id < sources[j - 1].id ||
                       (sources[j].id == sources[j - 1].id && sources[j].row <= sources[j - 1].row);
        }
        KT_INT(n_wrong, 0);
        free(sources);
    }
}

static void ids_of_a_shape_with_one_row_need_no_sorting(void)
{
    int64_t ids[3] = {0, 0, 0};

    kvs_rowsort_ids(3, 1, ids, NULL);
    KT_INT(ids[2], 0);
}

static const kt_test_t tests[] = {
    KT_TEST(ids_of_any_number_and_range_are_sorted),
    KT_TEST(rows_of_equal_id_stay_in_order),
    KT_TEST(ids_of_a_shape_with_one_row_need_no_sorting),
};
KT_MAIN("rowsort", tests)
