/* SPDX-License-Identifier: Apache-2.0 */
/* Near names: the distance, and what is offered for a name that was mistyped. */
#include "kt.h"
#include "near.h"

static void equal_names_have_no_distance(void)
{
    KT_INT(kvsi_near_distance("", ""), 0);
    KT_INT(kvsi_near_distance("dist_sync", "dist_sync"), 0);
}

static void each_letter_to_insert_delete_or_change_counts_one(void)
{
    KT_INT(kvsi_near_distance("", "abc"), 3);
    KT_INT(kvsi_near_distance("abc", ""), 3);
    KT_INT(kvsi_near_distance("local", "locals"), 1);
    KT_INT(kvsi_near_distance("local", "loal"), 1);
    KT_INT(kvsi_near_distance("local", "lokal"), 1);
    KT_INT(kvsi_near_distance("kitten", "sitting"), 3);
}

static void neighbours_swapped_count_one(void)
{
    KT_INT(kvsi_near_distance("horovdo", "horovod"), 1);
    KT_INT(kvsi_near_distance("ab", "ba"), 1);
    KT_INT(kvsi_near_distance("dist_asnyc", "dist_async"), 1);
    /* a letter moves once: "ca" to "ac" to "abc" would move it twice */
    KT_INT(kvsi_near_distance("ca", "abc"), 3);
    KT_INT(kvsi_near_distance("abcdef", "badcfe"), 3);
}

static void the_distance_is_the_same_both_ways(void)
{
    static const char *const names[] = {"",     "a",     "ab",     "ba",
                                        "nccl", "local", "device", "dist_sync"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
            KT_INT(kvsi_near_distance(names[i], names[j]), kvsi_near_distance(names[j], names[i]));
        }
    }
}

static void names_too_long_to_compare_are_far(void)
{
    char longer[200];

    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    KT_INT(kvsi_near_distance(longer, longer), 0);
    KT_INT(kvsi_near_distance(longer, longer + 1), 64);
    KT_INT(kvsi_near_distance(longer + 199 - 64, longer + 199 - 63), 1);
}

static void check_offer(const char *wanted, const char *const *names, const char *text)
{
    kvsi_near_t near = KVSI_NEAR_INIT(wanted);

    for (; *names != NULL; names++) {
        kvsi_near_offer(&near, *names);
    }
    KT_STR(kvsi_near_text(&near), text);
}

static void the_nearest_names_are_offered(void)
{
    check_offer("horovdo", (const char *const[]){"local", "horovod", "byteps", NULL},
                "; did you mean \"horovod\"");
    check_offer("rat", (const char *const[]){"cat", "dog", "hat", NULL},
                "; did you mean \"cat\" or \"hat\"");
    check_offer("timeoud", (const char *const[]){"timed", "timeout", "timeouts", NULL},
                "; did you mean \"timeout\"");
}

static void nothing_is_offered_when_all_are_far(void)
{
    check_offer("foo", (const char *const[]){"local", "device", "nccl", NULL}, "");
    check_offer("xyz", (const char *const[]){"abc", NULL}, "");
    check_offer("local", (const char *const[]){NULL}, "");
    check_offer("", (const char *const[]){"local", NULL}, "");
}

static void names_for_which_there_is_no_room_are_left_out(void)
{
    kvsi_near_t near = KVSI_NEAR_INIT("some_long_name_of_an_option");

    for (char c = 'a'; c <= 'z'; c++) {
        char name[] = "some_long_name_of_an_option_";

        name[sizeof(name) - 2] = c;
        kvsi_near_offer(&near, name);
    }
    KT_HAS(kvsi_near_text(&near), "\"some_long_name_of_an_optiona\" or ");
    KT_INT(kvsi_near_text(&near)[strlen(kvsi_near_text(&near)) - 1], '"');
}

static const kt_test_t tests[] = {
    KT_TEST(equal_names_have_no_distance),
    KT_TEST(each_letter_to_insert_delete_or_change_counts_one),
    KT_TEST(neighbours_swapped_count_one),
    KT_TEST(the_distance_is_the_same_both_ways),
    KT_TEST(names_too_long_to_compare_are_far),
    KT_TEST(the_nearest_names_are_offered),
    KT_TEST(nothing_is_offered_when_all_are_far),
    KT_TEST(names_for_which_there_is_no_room_are_left_out),
};
KT_MAIN("near", tests)
