/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: one owner at a time, in order of arrival; places can be withdrawn. */
#include "kt.h"
#include "lane.h"

static void the_first_to_join_owns_the_lane(void)
{
    kvsi_lane_t lane = {0};
    kvsi_place_t place;

    KT_TRUE(kvsi_lane_join(&lane, &place));
    KT_TRUE(!place.waits);
    KT_TRUE(lane.owned);
    KT_TRUE(kvsi_lane_leave(&lane) == NULL);
    KT_TRUE(!lane.owned);
}

static void those_that_wait_own_it_in_order_of_arrival(void)
{
    kvsi_lane_t lane = {0};
    kvsi_place_t places[4];

    KT_TRUE(kvsi_lane_join(&lane, &places[0]));
    for (int i = 1; i < 4; i++) {
        KT_TRUE(!kvsi_lane_join(&lane, &places[i]));
        KT_TRUE(places[i].waits);
    }
    for (int i = 1; i < 4; i++) {
        KT_TRUE(kvsi_lane_leave(&lane) == &places[i]);
        KT_TRUE(!places[i].waits);
        KT_TRUE(lane.owned);
    }
    KT_TRUE(kvsi_lane_leave(&lane) == NULL);
    KT_TRUE(!lane.owned);
}

static void an_empty_lane_can_be_owned_again(void)
{
    kvsi_lane_t lane = {0};
    kvsi_place_t place, other;

    for (int i = 0; i < 3; i++) {
        KT_TRUE(kvsi_lane_join(&lane, &place));
        KT_TRUE(!kvsi_lane_join(&lane, &other));
        KT_TRUE(kvsi_lane_leave(&lane) == &other);
        KT_TRUE(kvsi_lane_leave(&lane) == NULL);
    }
}

/* Withdraw place `gone` of three that wait; the others follow, and one that joins later. */
static void check_withdrawn(int gone)
{
    kvsi_lane_t lane = {0};
    kvsi_place_t owner, places[3], late;

    KT_TRUE(kvsi_lane_join(&lane, &owner));
    for (int i = 0; i < 3; i++) {
        kvsi_lane_join(&lane, &places[i]);
    }
    kvsi_lane_withdraw(&lane, &places[gone]);
    KT_TRUE(!places[gone].waits);
    KT_TRUE(!kvsi_lane_join(&lane, &late));
    for (int i = 0; i < 3; i++) {
        KT_TRUE(i == gone || kvsi_lane_leave(&lane) == &places[i]);
    }
    KT_TRUE(kvsi_lane_leave(&lane) == &late);
    KT_TRUE(kvsi_lane_leave(&lane) == NULL);
}

static void a_withdrawn_place_is_passed_over(void)
{
    check_withdrawn(0);
    check_withdrawn(1);
    check_withdrawn(2);
}

static void the_only_waiter_can_withdraw(void)
{
    kvsi_lane_t lane = {0};
    kvsi_place_t owner, place;

    KT_TRUE(kvsi_lane_join(&lane, &owner));
    KT_TRUE(!kvsi_lane_join(&lane, &place));
    kvsi_lane_withdraw(&lane, &place);
    KT_TRUE(lane.owned);
    KT_TRUE(!kvsi_lane_join(&lane, &place));
    KT_TRUE(kvsi_lane_leave(&lane) == &place);
    KT_TRUE(kvsi_lane_leave(&lane) == NULL);
}

static const kt_test_t tests[] = {
    KT_TEST(the_first_to_join_owns_the_lane),  KT_TEST(those_that_wait_own_it_in_order_of_arrival),
    KT_TEST(an_empty_lane_can_be_owned_again), KT_TEST(a_withdrawn_place_is_passed_over),
    KT_TEST(the_only_waiter_can_withdraw),
};
KT_MAIN("lane", tests)
