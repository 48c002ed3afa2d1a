/* SPDX-License-Identifier: Apache-2.0 */
/* test_place.c - which server gets what: loads, cuts, rows, and arrays beyond 2^31 elements. */
#include "../kit/fake_host.h"

#include "dist_map.h"
#include "dist_place.h"

#define MAX_SERVERS 8

typedef struct placing {
    dist_placing_t placing;
    uint64_t loads[MAX_SERVERS];
} placing_t;

static void begin(placing_t *p, uint32_t n_servers, int64_t cut_elems)
{
    *p = (placing_t){.placing = {.n_servers = n_servers, .cut_elems = cut_elems}};
    p->placing.loads = p->loads;
}

static dist_record_t record_of(int dtype, int64_t rows, int64_t row)
{
    return (dist_record_t){.dtype = dtype, .ndim = 2, .shape = {rows, row}, .n_elems = rows * row};
}

static void place_one(placing_t *p, dist_record_t *record)
{
    KT_OK(dist_place(&p->placing, &record, 1));
}

static void the_largest_goes_first_to_the_least_loaded(void)
{
    static const int64_t sizes[] = {1, 10, 4, 8, 3};
    static const uint32_t want[] = {0, 0, 1, 1, 0}; /* 10 -> 0, 8 -> 1, 4 -> 1, 3 -> 0, 1 -> 1 */
    dist_record_t records[5], *list[5];
    placing_t p;

    begin(&p, 2, 1000000);
    for (int i = 0; i < 5; i++) {
        records[i] = record_of(KVS_DTYPE_float32, sizes[i], 1);
        list[i] = &records[i];
    }
    KT_OK(dist_place(&p.placing, list, 5));
    for (int i = 0; i < 5; i++) {
        KT_INT(records[i].n_shards, 1);
        KT_INT(records[i].shards[0].n, sizes[i]);
        if (i > 0) {
            KT_INT(records[i].shards[0].server, want[i]);
        }
        dist_record_release(&records[i]);
    }
    KT_INT(p.loads[0] + p.loads[1], 4 * 26);
    KT_INT(p.loads[0], 4 * 13);
}

static void later_lists_go_on_where_earlier_ones_ended(void)
{
    placing_t p;

    begin(&p, 3, 1000000);
    for (uint32_t i = 0; i < 6; i++) {
        dist_record_t record = record_of(KVS_DTYPE_float32, 10, 1);

        place_one(&p, &record);
        KT_INT(record.shards[0].server, i % 3);
        dist_record_release(&record);
    }
}

static void check_cover(const dist_record_t *record, int64_t unit)
{
    int64_t next = 0;

    for (uint32_t i = 0; i < record->n_shards; i++) {
        KT_INT(record->shards[i].first, next);
        KT_INT(record->shards[i].first % unit, 0);
        KT_TRUE(record->shards[i].n > 0);
        KT_TRUE(i == 0 || record->shards[i].server > record->shards[i - 1].server);
        next += record->shards[i].n;
    }
    KT_INT(next, record->n_elems);
}

static void big_arrays_are_cut_at_blocks(void)
{
    dist_record_t record = record_of(KVS_DTYPE_float32, 1211, 1211);
    placing_t p;

    begin(&p, 3, 1000000);
    place_one(&p, &record);
    KT_INT(record.n_shards, 3);
    check_cover(&record, 65536);
    dist_record_release(&record);
}

static void the_bound_itself_is_big(void)
{
    dist_record_t below = record_of(KVS_DTYPE_float32, 99999, 1),
                  at = record_of(KVS_DTYPE_float32, 100000, 1);
    placing_t p;

    begin(&p, 2, 100000);
    place_one(&p, &below);
    place_one(&p, &at);
    KT_INT(below.n_shards, 1);
    KT_INT(at.n_shards, 2);
    dist_record_release(&below);
    dist_record_release(&at);
}

static void cuts_lie_at_rows_where_they_can(void)
{
    dist_record_t record = record_of(KVS_DTYPE_float32, 4096, 768);
    placing_t p;

    begin(&p, 4, 1000000);
    place_one(&p, &record); /* 768 = 3 * 256: blocks and rows meet every 196,608 elements */
    KT_INT(record.n_shards, 4);
    check_cover(&record, 196608);
    dist_record_release(&record);
}

static void what_can_not_be_cut_at_rows_stays_whole_if_rows_count(void)
{
    dist_record_t record = record_of(KVS_DTYPE_float32, 1211, 1211);
    placing_t p;

    begin(&p, 2, 1000000);
    p.placing.whole_rows = 1;
    place_one(&p, &record);
    KT_INT(record.n_shards, 1);
    dist_record_release(&record);
}

static void some_servers_get_nothing_of_an_array_of_few_blocks(void)
{
    dist_record_t record = record_of(KVS_DTYPE_int8, 65536 * 2 + 1, 1);
    placing_t p;

    begin(&p, 8, 1000);
    place_one(&p, &record);
    KT_INT(record.n_shards, 3);
    check_cover(&record, 65536);
    dist_record_release(&record);
}

static void arrays_of_more_than_2_to_the_31_elements_are_cut(void)
{
    dist_record_t record = record_of(KVS_DTYPE_int64, ((int64_t)1 << 33) + 8, 1);
    placing_t p;

    begin(&p, 7, 1000000);
    place_one(&p, &record);
    KT_INT(record.n_shards, 7);
    check_cover(&record, 65536);
    KT_INT(p.loads[6] >> 30, 9); /* a seventh of 64 GiB, in GiB */
    dist_record_release(&record);
}

static void empty_arrays_and_single_servers_are_not_cut(void)
{
    dist_record_t empty = record_of(KVS_DTYPE_float32, 0, 5),
                  big = record_of(KVS_DTYPE_float32, 1000, 1000);
    placing_t p;

    begin(&p, 2, 0);
    place_one(&p, &empty);
    KT_INT(empty.n_shards, 1);
    KT_INT(empty.shards[0].n, 0);
    dist_record_release(&empty);
    begin(&p, 1, 1000);
    place_one(&p, &big);
    KT_INT(big.n_shards, 1);
    dist_record_release(&big);
}

static void a_map_finds_what_was_put_in(void)
{
    enum { N = 5000 };
    dist_map_t map = DIST_MAP_INIT;
    static int values[N];
    int n_wrong = 0;

    KT_TRUE(dist_map_find(&map, 1) == NULL);
    for (int i = 0; i < N; i++) {
        KT_OK(dist_map_set(&map, (uint64_t)i * 64 + 1, &values[i]));
    }
    KT_OK(dist_map_set(&map, 65, &values[0])); /* in place of another */
    for (int i = 2; i < N; i++) {
        n_wrong += dist_map_find(&map, (uint64_t)i * 64 + 1) != &values[i];
        n_wrong += dist_map_find(&map, (uint64_t)i * 64) != NULL;
    }
    KT_INT(n_wrong, 0);
    KT_TRUE(dist_map_find(&map, 65) == &values[0]);
    KT_TRUE(dist_map_find(&map, 0) == NULL);
    KT_INT(map.n_used, N);
    dist_map_release(&map);
}

/* As many come as go: never more than eight are there. */
static void a_map_does_not_grow_by_what_was_removed(void)
{
    dist_map_t map = DIST_MAP_INIT;
    static int value;
    int n_wrong = 0;

    for (uint64_t i = 1; i <= 5000; i++) {
        KT_OK(dist_map_set(&map, i, &value));
        dist_map_remove(&map, i > 8 ? i - 8 : 0);
        n_wrong += i > 8 && dist_map_find(&map, i - 8) != NULL;
        n_wrong += dist_map_find(&map, i > 8 ? i - 7 : 1) != &value;
    }
    KT_INT(n_wrong, 0);
    KT_TRUE(map.n_items <= 256);
    dist_map_release(&map);
}

static const kt_test_t tests[] = {
    KT_TEST(the_largest_goes_first_to_the_least_loaded),
    KT_TEST(later_lists_go_on_where_earlier_ones_ended),
    KT_TEST(big_arrays_are_cut_at_blocks),
    KT_TEST(the_bound_itself_is_big),
    KT_TEST(cuts_lie_at_rows_where_they_can),
    KT_TEST(what_can_not_be_cut_at_rows_stays_whole_if_rows_count),
    KT_TEST(some_servers_get_nothing_of_an_array_of_few_blocks),
    KT_TEST(arrays_of_more_than_2_to_the_31_elements_are_cut),
    KT_TEST(empty_arrays_and_single_servers_are_not_cut),
    KT_TEST(a_map_finds_what_was_put_in),
    KT_TEST(a_map_does_not_grow_by_what_was_removed),
};

KT_MAIN("place", tests)
