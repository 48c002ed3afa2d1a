/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's kernels for rows, called as the kit calls them, against plain loops over doubles: half types
 * hold small whole numbers, of which all sums are exact; how they round, test_rows.c sees. */
#include "pretend.h"

#include "half.h"
#include "registry.h"

#include <kvstore/abi.h>

#include <stdlib.h>

static const kvs_device_t host = {KVS_DEVICE_CPU, 0}, device = {KVS_DEVICE_CUDA, 0};
static const kvs_provider_t *provider;
static kvs_queue_t *queue;

/* ---- Arrays ------------------------------------------------------------------------------------------ */

/* Doubles as they are, or whole numbers, in an array's own dtype. */
static void store(int dtype, void *array, int64_t i, double value)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        ((float *)array)[i] = (float)value;
        break;
    case KVS_DTYPE_float64:
        ((double *)array)[i] = value;
        break;
    case KVS_DTYPE_float16:
        ((uint16_t *)array)[i] = half_from_double(value);
        break;
    case KVS_DTYPE_bfloat16:
        ((uint16_t *)array)[i] = bfloat_from_double(value);
        break;
    case KVS_DTYPE_int8:
        ((int8_t *)array)[i] = (int8_t)(int64_t)value;
        break;
    case KVS_DTYPE_uint8:
        ((uint8_t *)array)[i] = (uint8_t)(int64_t)value;
        break;
    case KVS_DTYPE_int32:
        ((int32_t *)array)[i] = (int32_t)(int64_t)value;
        break;
    default:
        ((int64_t *)array)[i] = (int64_t)value;
    }
}

static double load(int dtype, const void *array, int64_t i)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        return ((const float *)array)[i];
    case KVS_DTYPE_float64:
        return ((const double *)array)[i];
    case KVS_DTYPE_float16:
        return half_to_double(((const uint16_t *)array)[i]);
    case KVS_DTYPE_bfloat16:
        return bfloat_to_double(((const uint16_t *)array)[i]);
    case KVS_DTYPE_int8:
        return ((const int8_t *)array)[i];
    case KVS_DTYPE_uint8:
        return ((const uint8_t *)array)[i];
    case KVS_DTYPE_int32:
        return ((const int32_t *)array)[i];
    default:
        return (double)((const int64_t *)array)[i];
    }
}

/* A sum as the dtype keeps it. */
static double kept(int dtype, double sum)
{
    double one[1];

    if (dtype != KVS_DTYPE_float32 && dtype != KVS_DTYPE_float64) {
        store(dtype, one, 0, sum);
        return load(dtype, one, 0);
    }
    return sum;
}

/* n numbers in host memory, free(). Whole, and small where they must be. */
static void *numbers(int dtype, int64_t n)
{
    char *array = malloc((size_t)n * pretend_elem_bytes(dtype) + 1);

    for (int64_t i = 0; i < n; i++) {
        store(dtype, array, i, (double)(pretend_random() % 8));
    }
    return array;
}

/* Device memory with these bytes, `off` behind what is aligned. */
static void *put(const void *bytes, size_t n_bytes, size_t off)
{
    void *data = NULL;

    KT_OK(provider->alloc(device, n_bytes + off + 1, &data));
    data = (char *)data + off;
    if (n_bytes > 0) {
        KT_OK(provider->copy(queue, device, data, host, bytes, n_bytes));
    }
    return data;
}

static void *get(const void *data, size_t n_bytes)
{
    void *bytes = malloc(n_bytes + 1);

    KT_OK(provider->copy(queue, host, bytes, device, data, n_bytes));
    return bytes;
}

static void drop(void *data, size_t off)
{
    provider->free(device, (char *)data - off, 0);
}

/* About one of `one_of` ids below n, ascending, free(). */
static int64_t *some_ids(int64_t n, uint64_t one_of, int64_t *ret_n)
{
    int64_t *ids = malloc((size_t)n * sizeof(*ids) + 1);

    *ret_n = 0;
    for (int64_t id = 0; id < n; id++) {
        if (pretend_random() % one_of == 0) {
            ids[(*ret_n)++] = id;
        }
    }
    return ids;
}

/* ---- Sums of rows -------------------------------------------------------------------------------------- */

enum { N_POOL = 16, N_SHAPE = 40 };

/* Rows of an array, each the sum of up to four of a pool. */
typedef struct sums {
    int dtype;
    int64_t row_elems;
    size_t elem_bytes, off;
    char *pool, *pool_there;
    int64_t *ids, *first, n;
    int *members; /* rows of the pool */
    void *table[3];
    kvs_rows_item_t item;
} sums_t;

static void make_sums(sums_t *sums, int dtype, int64_t row_elems, int64_t begin, int64_t n, int off)
{
    *sums = (sums_t){.dtype = dtype, .row_elems = row_elems};
    sums->elem_bytes = pretend_elem_bytes(dtype);
    sums->off = (size_t)off * sums->elem_bytes;
    sums->pool = numbers(dtype, N_POOL * row_elems);
    sums->pool_there = put(sums->pool, N_POOL * (size_t)row_elems * sums->elem_bytes, sums->off);
    sums->ids = some_ids(N_SHAPE, 3, &sums->n);
    sums->first = calloc((size_t)sums->n + 1, sizeof(*sums->first));
    sums->members = calloc((size_t)sums->n * 4 + 1, sizeof(*sums->members));

    const void **sources = calloc((size_t)sums->n * 4 + 1, sizeof(*sources));
    int64_t n_sources = 0;

    for (int64_t row = 0; row < sums->n; row++) {
        for (uint64_t i = pretend_random() % 5; i > 0; i--) {
            sums->members[n_sources] = (int)(pretend_random() % N_POOL);
            sources[n_sources] = sums->pool_there + (size_t)sums->members[n_sources] *
                                                        (size_t)row_elems * sums->elem_bytes;
            n_sources++;
        }
        sums->first[row + 1] = n_sources;
    }
    sums->table[0] = put(sums->ids, (size_t)sums->n * sizeof(int64_t), 0);
    sums->table[1] = put(sums->first, (size_t)(sums->n + 1) * sizeof(int64_t), 0);
    sums->table[2] = put(sources, (size_t)n_sources * sizeof(*sources), 0);
    free(sources);
    sums->item = (kvs_rows_item_t){.size = sizeof(sums->item),
                                   .dtype = dtype,
                                   .row_elems = row_elems,
                                   .n_rows = sums->n,
                                   .ids = sums->table[0],
                                   .first = sums->table[1],
                                   .sources = sums->table[2],
                                   .begin = begin,
                                   .n = n};
}

static void free_sums(sums_t *sums)
{
    for (int i = 0; i < 3; i++) {
        drop(sums->table[i], 0);
    }
    drop(sums->pool_there, sums->off);
    free(sums->pool);
    free(sums->ids);
    free(sums->first);
    free(sums->members);
}

/* Element i of row `row`. */
static double want_sum(const sums_t *sums, int64_t row, int64_t i)
{
    double sum = 0;

    for (int64_t j = sums->first[row]; j < sums->first[row + 1]; j++) {
        sum += load(sums->dtype, sums->pool, sums->members[j] * sums->row_elems + i);
    }
    return kept(sums->dtype, sum);
}

/* `range` after the rows were put there, or added. */
static void want_range(const sums_t *sums, int add, void *range)
{
    for (int64_t row = 0; row < sums->n; row++) {
        for (int64_t i = 0; i < sums->row_elems; i++) {
            int64_t at = sums->ids[row] * sums->row_elems + i - sums->item.begin;

            if (at >= 0 && at < sums->item.n) {
                double old = add ? load(sums->dtype, range, at) : 0;

                store(sums->dtype, range, at, kept(sums->dtype, old + want_sum(sums, row, i)));
            }
        }
    }
}

static void check_packed(const sums_t *sums)
{
    size_t n = (size_t)(sums->n * sums->row_elems);
    void *packed = put(NULL, 0, sums->off + n * sums->elem_bytes);
    int64_t n_wrong = 0;

    packed = (char *)packed - n * sums->elem_bytes;
    KT_OK(provider->rows_sum(queue, &sums->item, packed));
    void *got = get(packed, n * sums->elem_bytes);

    for (int64_t row = 0; row < sums->n; row++) {
        for (int64_t i = 0; i < sums->row_elems; i++) {
            n_wrong += load(sums->dtype, got, row * sums->row_elems + i) != want_sum(sums, row, i);
        }
    }
    KT_INT(n_wrong, 0);
    free(got);
    drop(packed, sums->off);
}

static void check_put(const sums_t *sums, int add)
{
    size_t n_bytes = (size_t)sums->item.n * sums->elem_bytes;
    void *want = numbers(sums->dtype, sums->item.n), *range = put(want, n_bytes, sums->off);

    KT_OK(provider->rows_put(queue, &sums->item, add, range));
    void *got = get(range, n_bytes);

    want_range(sums, add, want);
    KT_INT(memcmp(got, want, n_bytes), 0);
    free(got);
    free(want);
    drop(range, sums->off);
}

static const int64_t row_sizes[] = {1, 3, 16, 37, 256, 5000};

static void for_sums(void (*check)(const sums_t *sums))
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t i = 0; i < sizeof(row_sizes) / sizeof(row_sizes[0]); i++) {
            int64_t all = N_SHAPE * row_sizes[i];
            const int64_t ranges[][2] = {{0, all}, {all / 3 + 1, all / 2}};
            sums_t sums;

            for (int j = 0; j < 4; j++) { /* cut or not, aligned or not */
                make_sums(&sums, dtype, row_sizes[i], ranges[j % 2][0], ranges[j % 2][1], j / 2);
                check(&sums);
                free_sums(&sums);
            }
        }
    }
}

static void put_rows(const sums_t *sums)
{
    check_put(sums, 0);
}

static void add_rows(const sums_t *sums)
{
    check_put(sums, 1);
}

static void sums_of_rows_are_written_side_by_side(void)
{
    for_sums(check_packed);
}

static void sums_of_rows_are_put_to_their_places_in_a_range(void)
{
    for_sums(put_rows);
}

static void sums_of_rows_are_added_to_what_is_there(void)
{
    for_sums(add_rows);
}

static void rows_that_are_packed_or_nothing_are_put_too(void)
{
    enum { WIDTH = 5, N = 3 };
    const int64_t ids[N] = {1, 4, 7};
    float rows[N * WIDTH], want[8 * WIDTH];
    kvs_rows_item_t item = {.size = sizeof(item),
                            .dtype = KVS_DTYPE_float32,
                            .row_elems = WIDTH,
                            .n_rows = N,
                            .n = 8 * WIDTH};

    for (int i = 0; i < 8 * WIDTH; i++) {
        want[i] = (float)i;
        rows[i % (N * WIDTH)] = (float)-i;
    }
    void *there = put(want, sizeof(want), 0), *packed = put(rows, sizeof(rows), 0);

    item.ids = put(ids, sizeof(ids), 0);
    item.packed = packed;
    KT_OK(provider->rows_put(queue, &item, 0, there));
    item.packed = NULL;
    item.n_rows = 1;
    KT_OK(provider->rows_put(queue, &item, 0, there));
    float *got = get(there, sizeof(want));

    memset(&want[1 * WIDTH], 0, WIDTH * sizeof(float));
    memcpy(&want[4 * WIDTH], &rows[WIDTH], WIDTH * sizeof(float));
    memcpy(&want[7 * WIDTH], &rows[2 * WIDTH], WIDTH * sizeof(float));
    for (int i = 0; i < 8 * WIDTH; i++) {
        KT_REAL(got[i], want[i]);
    }
    free(got);
    drop((void *)(uintptr_t)item.ids, 0);
    drop(packed, 0);
    drop(there, 0);
}

/* ---- Rows from their places ------------------------------------------------------------------------------ */

static void try_gather(int dtype, int to_dtype, int64_t row_elems, int64_t begin, int64_t n,
                       int off)
{
    enum { N_DST = 3 };
    size_t from_bytes = pretend_elem_bytes(dtype), to_bytes = pretend_elem_bytes(to_dtype);
    int64_t n_ids, n_wrong = 0, *ids = some_ids(N_SHAPE, 2, &n_ids);
    size_t n_bytes = (size_t)(n_ids * row_elems) * to_bytes, aside = (size_t)off * to_bytes;
    void *range = numbers(dtype, n), *before = numbers(to_dtype, n_ids * row_elems);
    void *there = put(range, (size_t)n * from_bytes, (size_t)off * from_bytes);
    void *ids_there = put(ids, (size_t)n_ids * sizeof(*ids), 0), *dst[N_DST];
    kvs_rows_item_t item = {.size = sizeof(item),
                            .dtype = dtype,
                            .row_elems = row_elems,
                            .n_rows = n_ids,
                            .ids = ids_there,
                            .begin = begin,
                            .n = n};

    for (int i = 0; i < N_DST; i++) {
        dst[i] = put(before, n_bytes, i == 0 ? 0 : aside);
    }
    KT_OK(provider->rows_gather(queue, &item, there, to_dtype, dst, N_DST));
    for (int d = 0; d < N_DST; d++) {
        void *got = get(dst[d], n_bytes);

        for (int64_t i = 0; i < n_ids * row_elems; i++) {
            int64_t at = ids[i / row_elems] * row_elems + i % row_elems - begin;
            double want = at >= 0 && at < n ? load(dtype, range, at) : load(to_dtype, before, i);

            n_wrong += load(to_dtype, got, i) != want;
        }
        free(got);
        drop(dst[d], d == 0 ? 0 : aside);
    }
    KT_INT(n_wrong, 0);
    drop(there, (size_t)off * from_bytes);
    drop(ids_there, 0);
    free(ids);
    free(range);
    free(before);
}

static void rows_are_gathered_from_a_range_to_several_arrays(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t i = 0; i < sizeof(row_sizes) / sizeof(row_sizes[0]); i++) {
            int64_t all = N_SHAPE * row_sizes[i];

            try_gather(dtype, dtype, row_sizes[i], 0, all, 0);
            try_gather(dtype, dtype, row_sizes[i], all / 3 + 1, all / 2, 1);
        }
    }
}

static void rows_are_converted_on_their_way(void)
{
    const int floating[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                            KVS_DTYPE_bfloat16};

    for (int from = 0; from < 4; from++) {
        for (int to = 0; to < 4; to++) {
            try_gather(floating[from], floating[to], 37, 0, N_SHAPE * 37, 0);
            try_gather(floating[from], floating[to], 300, 1000, 5003, 1);
        }
    }
}

/* ---- Ids ------------------------------------------------------------------------------------------------- */

/* Ids in any order and repeated, of a dtype, become a list in order; *bad is one to be put among them. */
static void try_list(int dtype, int64_t n_rows, int64_t n, const int64_t *bad)
{
    int64_t n_want = 0, found[2] = {0, 0};
    char *ids = calloc((size_t)n + 1, 8), *want = calloc((size_t)n_rows, 1);

    for (int64_t i = 0; i < n; i++) {
        int64_t id = (int64_t)(pretend_random() % (uint64_t)n_rows);

        store(dtype, ids, i, (double)id);
        want[id] = bad == NULL || i != n / 2;
    }
    if (bad != NULL) {
        store(dtype, ids, n / 2, (double)*bad);
    }
    void *there = put(ids, (size_t)n * pretend_elem_bytes(dtype), 0);
    void *flags = put(NULL, 0, (size_t)n_rows), *list = put(NULL, 0, (size_t)n_rows * 8);
    void *counts = put(found, sizeof(found), 0);

    flags = (char *)flags - n_rows;
    list = (char *)list - n_rows * 8;
    KT_OK(provider->rows_mark(queue, dtype, n, there, n_rows, flags, counts));
    KT_OK(provider->rows_list(queue, n_rows, flags, list, (int64_t *)counts + 1));
    int64_t *got = get(list, (size_t)n_rows * 8), *got_counts = get(counts, sizeof(found));

    KT_INT(got_counts[0], bad != NULL);
    for (int64_t row = 0; row < n_rows && bad == NULL; row++) {
        if (want[row]) {
            n_want++;
            found[0] += n_want <= got_counts[1] && got[n_want - 1] != row;
        }
    }
    KT_INT(bad == NULL ? got_counts[1] : 0, n_want);
    KT_INT(found[0], 0);
    free(got);
    free(got_counts);
    free(ids);
    free(want);
    drop(there, 0);
    drop(flags, 0);
    drop(list, 0);
    drop(counts, 0);
}

static void ids_in_any_order_become_a_list_in_order(void)
{
    const int64_t sizes[] = {1, 2, 63, 64, 65, 100, 4096, 4097, 300001};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        try_list(KVS_DTYPE_int64, sizes[i], sizes[i] / 3 + 1, NULL);
        try_list(KVS_DTYPE_int32, sizes[i], 5000, NULL);
    }
    try_list(KVS_DTYPE_int64, 70000, 0, NULL);
    try_list(KVS_DTYPE_int8, 100, 300, NULL);
    try_list(KVS_DTYPE_uint8, 250, 300, NULL);
}

static void ids_outside_are_noted(void)
{
    const int64_t below = -1, above = 100;

    try_list(KVS_DTYPE_int64, 100, 5000, &below);
    try_list(KVS_DTYPE_int64, 100, 5000, &above);
    try_list(KVS_DTYPE_int8, 100, 30, &below);
    try_list(KVS_DTYPE_uint8, 100, 30, &above);
    try_list(KVS_DTYPE_int32, 100, 30, &below);
}

static void rows_that_hold_anything_are_found(void)
{
    enum { WIDTH = 7, N = 90 };

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        size_t elem_bytes = pretend_elem_bytes(dtype);
        char *range = calloc(N * WIDTH, elem_bytes), want[N] = {0};
        int64_t begin = 2 * WIDTH + 3, n = 80 * WIDTH;
        kvs_rows_item_t item = {
            .size = sizeof(item), .dtype = dtype, .row_elems = WIDTH, .begin = begin, .n = n};

        for (int64_t i = 0; i < n; i += 29) { /* one bit, which may be a sign */
            range[(size_t)i * elem_bytes + elem_bytes - 1] = (char)0x80;
            want[(begin + i) / WIDTH] = 1;
        }
        void *there = put(range, (size_t)n * elem_bytes, 0), *flags = put(NULL, 0, N);

        flags = (char *)flags - N;
        KT_OK(provider->rows_find(queue, &item, there, flags));
        void *got = get(flags, N);

        KT_INT(memcmp(got, want, N), 0);
        free(got);
        free(range);
        drop(there, 0);
        drop(flags, 0);
    }
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(sums_of_rows_are_written_side_by_side),
        KT_TEST(sums_of_rows_are_put_to_their_places_in_a_range),
        KT_TEST(sums_of_rows_are_added_to_what_is_there),
        KT_TEST(rows_that_are_packed_or_nothing_are_put_too),
        KT_TEST(rows_are_gathered_from_a_range_to_several_arrays),
        KT_TEST(rows_are_converted_on_their_way),
        KT_TEST(ids_in_any_order_become_a_list_in_order),
        KT_TEST(ids_outside_are_noted),
        KT_TEST(rows_that_hold_anything_are_found),
    };

    pretend_open();
    if (kvsi_registry_find_provider(KVS_DEVICE_CUDA, &provider) != KVS_OK ||
        provider->queue(device, &queue) != KVS_OK) {
        printf("%s\n", kvs_last_error());
        return 1;
    }
    return kt_run("cuda_kernels", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
