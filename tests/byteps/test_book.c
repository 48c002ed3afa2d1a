/* SPDX-License-Identifier: Apache-2.0 */
/* Which server gets which part, and who takes the place of one that is lost. */
#include "../kit/fake_host.h"

#include <kt.h>

#include "byteps_book.h"

static byteps_header_t named(const char *name)
{
    return (byteps_header_t){.has_name = true, .name = name, .n_name = (uint32_t)strlen(name)};
}

static const byteps_place_t *place(byteps_book_t *book, byteps_header_t key, uint64_t n_parts,
                                   uint64_t last_bytes)
{
    const byteps_place_t *got = NULL;

    KT_OK(byteps_book_place(book, &key, n_parts, 100, last_bytes, &got));
    return got;
}

static void a_part_goes_to_the_server_with_the_fewest_bytes(void)
{
    byteps_book_t book;
    const byteps_place_t *a, *b, *c;

    KT_OK(byteps_book_init(&book, 0, 3));
    a = place(&book, named("a"), 3, 50); /* 100, 100, 50 */
    KT_INT(a->servers[0], 0);
    KT_INT(a->servers[1], 1);
    KT_INT(a->servers[2], 2);
    b = place(&book, named("b"), 1, 30); /* 100, 100, 80 */
    KT_INT(b->servers[0], 2);
    c = place(&book, named("c"), 2, 1); /* 101, 100, 180 */
    KT_INT(c->servers[0], 2);
    KT_INT(c->servers[1], 0);
    KT_INT(book.loads[0], 101);
    KT_INT(book.loads[1], 100);
    KT_INT(book.loads[2], 180);
    byteps_book_release(&book);
}

static void a_key_keeps_its_places_and_gets_more_when_it_grows(void)
{
    byteps_book_t book;
    const byteps_place_t *first, *again;

    KT_OK(byteps_book_init(&book, 0, 2));
    first = place(&book, named("w"), 2, 100);
    again = place(&book, named("w"), 1, 100);
    KT_TRUE(first == again);
    KT_INT(again->n_parts, 2);
    again = place(&book, named("w"), 5, 100);
    KT_INT(again->id, first->id);
    KT_INT(again->n_parts, 5);
    KT_INT(again->servers[0], 0);
    KT_INT(again->servers[1], 1);
    KT_INT(book.loads[0] + book.loads[1], 500);
    byteps_book_release(&book);
}

static void a_key_too_many_is_refused_and_those_that_are_there_go_on(void)
{
    const byteps_place_t *first, *got = NULL;
    byteps_header_t more = named("more");
    byteps_book_t book;

    KT_OK(byteps_book_init(&book, 0, 2));
    first = place(&book, named("w"), 1, 100);
    book.n_places = 1048576; /* as if others had come */
    KT_FAIL(byteps_book_place(&book, &more, 1, 100, 100, &got), KVS_ERR_ARGUMENT,
            "key 'more' is one too many: a store has at most 1048576 keys");
    KT_TRUE(got == NULL);
    KT_TRUE(place(&book, named("w"), 3, 100) == first);
    KT_INT(first->n_parts, 3);
    book.n_places = 1048575;
    KT_INT(place(&book, named("more"), 1, 100)->id, 1048576);
    byteps_book_release(&book);
}

/* Workers 0, 1, 2 on one host, 3 on another. */
static void a_worker_of_each_host_sums_a_part_the_one_with_the_fewest_bytes(void)
{
    static const uint32_t host_of[] = {0, 0, 0, 1};
    static const uint32_t want[] = {0, 3, 1, 3, 2, 3};
    byteps_book_t book;
    const byteps_place_t *a, *b;

    KT_OK(byteps_book_init(&book, 0, 2));
    KT_OK(byteps_book_set_hosts(&book, host_of, 4, 2));
    a = place(&book, named("a"), 3, 50);
    for (size_t i = 0; i < 6; i++) {
        KT_INT(a->summers[i], want[i]);
    }
    b = place(&book, named("b"), 2, 20); /* they had 100, 100, 50 */
    KT_INT(b->summers[0], 2);
    KT_INT(b->summers[2], 0); /* 100, 100, 150 */
    KT_INT(b->summers[3], 3);
    a = place(&book, named("a"), 4, 10);
    KT_INT(a->summers[0], 0);
    KT_INT(a->summers[6], 1);
    byteps_book_release(&book);
}

static void an_integer_is_another_key_than_its_text(void)
{
    byteps_book_t book;
    byteps_header_t three = {.number = 3}, minus = {.number = -3};

    KT_OK(byteps_book_init(&book, 0, 1));
    KT_INT(place(&book, three, 1, 1)->id, 1);
    KT_INT(place(&book, named("3"), 1, 1)->id, 2);
    KT_INT(place(&book, minus, 1, 1)->id, 3);
    KT_INT(place(&book, named(""), 1, 1)->id, 4);
    KT_INT(place(&book, three, 1, 1)->id, 1);
    byteps_book_release(&book);
}

static void a_hundred_thousand_keys_are_told_apart(void)
{
    byteps_book_t book;
    size_t n_wrong = 0;

    KT_OK(byteps_book_init(&book, 0, 4));
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < 100000; i++) {
            byteps_header_t key = {.number = i};
            const byteps_place_t *got = NULL;

            n_wrong += byteps_book_place(&book, &key, 1, 100, 4, &got) != KVS_OK ||
                       got->id != (uint64_t)i + 1;
        }
    }
    KT_INT(n_wrong, 0);
    for (int s = 0; s < 4; s++) {
        KT_INT(book.loads[s], 100000);
    }
    byteps_book_release(&book);
}

static void a_lost_server_gets_nothing_new(void)
{
    byteps_book_t book;

    KT_OK(byteps_book_init(&book, 0, 2));
    book.lost[0] = true;
    KT_INT(place(&book, named("a"), 1, 10)->servers[0], 1);
    KT_INT(place(&book, named("b"), 1, 10)->servers[0], 1);
    byteps_book_release(&book);
}

static void another_loss_moves_only_what_that_server_had(void)
{
    bool one[4] = {true, false, false, false}, two[4] = {true, false, true, false};
    bool all[4] = {true, true, true, true};
    int n_of[4] = {0, 0, 0, 0};

    for (uint64_t part = 0; part < 3000; part++) {
        uint32_t before = byteps_replace(7, part, one, 4), after = byteps_replace(7, part, two, 4);

        KT_TRUE(before != 0 && after != 0 && after != 2);
        KT_TRUE(before == 2 || after == before);
        n_of[before]++;
    }
    for (int s = 1; s < 4; s++) { /* evenly */
        KT_TRUE(n_of[s] > 850 && n_of[s] < 1150);
    }
    KT_TRUE(byteps_replace(7, 0, all, 4) == UINT32_MAX);
}

static const kt_test_t tests[] = {
    KT_TEST(a_part_goes_to_the_server_with_the_fewest_bytes),
    KT_TEST(a_key_keeps_its_places_and_gets_more_when_it_grows),
    KT_TEST(a_key_too_many_is_refused_and_those_that_are_there_go_on),
    KT_TEST(a_worker_of_each_host_sums_a_part_the_one_with_the_fewest_bytes),
    KT_TEST(an_integer_is_another_key_than_its_text),
    KT_TEST(a_hundred_thousand_keys_are_told_apart),
    KT_TEST(a_lost_server_gets_nothing_new),
    KT_TEST(another_loss_moves_only_what_that_server_had),
};

KT_MAIN("book", tests)
