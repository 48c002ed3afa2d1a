/* SPDX-License-Identifier: Apache-2.0 */
/* test_rng.c - the numbers are SplitMix64's, as its reference implementation gives them. */
#include "rng.h"

#include <kt.h>

static void numbers_are_those_of_the_reference(void)
{
    static const uint64_t want[] = {6457827717110365317u, 3203168211198807973u,
                                    9817491932198370423u, 4593380528125082431u,
                                    16408922859458223821u};
    rng_t rng = {1234567};

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        KT_TRUE(rng_next(&rng) == want[i]);
    }
}

static void one_seed_gives_one_shuffle_and_another_seed_another(void)
{
    uint32_t first[50], second[50], third[50];
    rng_t rng_one = {7}, rng_same = {7}, rng_other = {8};

    for (uint32_t i = 0; i < 50; i++) {
        first[i] = second[i] = third[i] = i;
    }
    rng_shuffle(&rng_one, first, 50);
    rng_shuffle(&rng_same, second, 50);
    rng_shuffle(&rng_other, third, 50);
    KT_TRUE(memcmp(first, second, sizeof(first)) == 0);
    KT_TRUE(memcmp(first, third, sizeof(first)) != 0);
}

static void a_shuffle_keeps_every_item_once(void)
{
    uint32_t items[50];
    int seen[50] = {0};
    rng_t rng = {7};

    for (uint32_t i = 0; i < 50; i++) {
        items[i] = i;
    }
    rng_shuffle(&rng, items, 50);
    for (size_t i = 0; i < 50; i++) {
        seen[items[i]]++;
    }
    for (size_t i = 0; i < 50; i++) {
        KT_INT(seen[i], 1);
    }
    rng_shuffle(&rng, items, 0);
}

static void uniform_numbers_stay_in_their_range_and_fill_it(void)
{
    rng_t rng = {3};
    float low = 1, high = -1;

    for (int i = 0; i < 10000; i++) {
        float x = rng_uniform(&rng, -0.5f, 0.25f);

        KT_TRUE(x >= -0.5f && x < 0.25f);
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    KT_TRUE(low < -0.499f && high > 0.249f);
}

static const kt_test_t tests[] = {
    KT_TEST(numbers_are_those_of_the_reference),
    KT_TEST(one_seed_gives_one_shuffle_and_another_seed_another),
    KT_TEST(a_shuffle_keeps_every_item_once),
    KT_TEST(uniform_numbers_stay_in_their_range_and_fill_it),
};

KT_MAIN("demo.rng", tests)
