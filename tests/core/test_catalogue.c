/* SPDX-License-Identifier: Apache-2.0 */
/* What is known without being installed, and which names answer to it. */
#include "kt.h"
#include "catalogue.h"
#include "names.h"

static const kvs_provide_t *known(const char *name, const char **ret_package)
{
    for (size_t i = 0; kvs_known_at(i) != NULL; i++) {
        if (strcmp(kvs_known_at(i)->name, name) == 0) {
            *ret_package = kvs_known_at(i)->package;
            return kvsi_known_provide(i);
        }
    }
    *ret_package = "";
    return NULL;
}

static void every_backend_of_the_project_has_its_package(void)
{
    static const char *const packages[][2] = {
        {"local", "libkvstore0"},
        {"device", "kvstore-backend-device"},
        {"nccl", "kvstore-backend-nccl"},
        {"dist_sync", "kvstore-backend-dist"},
        {"horovod", "kvstore-backend-horovod"},
        {"byteps", "kvstore-backend-byteps"},
        {"teststore", "kvstore-backend-teststore"},
    };
    const char *package;

    for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
        KT_TRUE(known(packages[i][0], &package) != NULL);
        KT_STR(package, packages[i][1]);
    }
}

static void both_walks_end_together(void)
{
    size_t n = 0;

    while (kvs_known_at(n) != NULL) {
        KT_STR(kvsi_known_provide(n)->name, kvs_known_at(n)->name);
        KT_STR(kvsi_known_provide(n)->kind, kvs_known_at(n)->kind);
        n++;
    }
    KT_TRUE(n > 0);
    KT_TRUE(kvsi_known_provide(n) == NULL);
    KT_TRUE(kvs_known_at((size_t)-1) == NULL);
}

static void device_types_have_the_names_of_manifests(void)
{
    KT_STR(kvsi_device_name(KVS_DEVICE_CPU), "cpu");
    KT_STR(kvsi_device_name(KVS_DEVICE_CUDA), "cuda");
    KT_TRUE(kvsi_device_name(0) == NULL);
    KT_TRUE(kvsi_device_name(-1) == NULL);
}

/* ---- Names ---------------------------------------------------------------------------------- */

static kvsi_match_t match(const char *name, const char *known_name)
{
    const char *package;

    return kvsi_name_match(name, known(known_name, &package));
}

static void names_and_aliases_match_exactly(void)
{
    KT_INT(match("dist_sync", "dist_sync"), KVSI_MATCH_NAME);
    KT_INT(match("dist", "dist_sync"), KVSI_MATCH_ALIAS);
    KT_INT(match("dist_device_async", "dist_sync"), KVSI_MATCH_ALIAS);
    KT_INT(match("dis", "dist_sync"), KVSI_NO_MATCH);
    KT_INT(match("dist_sync2", "dist_sync"), KVSI_NO_MATCH);
    KT_INT(match("", "dist_sync"), KVSI_NO_MATCH);
}

static void one_part_is_the_word_and_the_others_may_stand_beside_it(void)
{
    KT_INT(match("dist_sync_device", "dist_sync"), KVSI_MATCH_WORD);
    KT_INT(match("p3-dist-async", "dist_sync"), KVSI_MATCH_WORD);
    KT_INT(match("local_update_cpu", "local"), KVSI_MATCH_WORD);
    KT_INT(match("local_allreduce_cpu", "local"), KVSI_MATCH_WORD);
    KT_INT(match("local_allreduce_device", "device"), KVSI_MATCH_WORD);
    KT_INT(match("local_device", "device"), KVSI_MATCH_WORD);
}

static void nothing_is_guessed(void)
{
    KT_INT(match("dist_asnyc", "dist_sync"), KVSI_NO_MATCH);
    KT_INT(match("sync_async", "dist_sync"), KVSI_NO_MATCH); /* the word is missing */
    KT_INT(match("dist_dist", "dist_sync"), KVSI_NO_MATCH);  /* it is there twice */
    KT_INT(match("dist__sync", "dist_sync"), KVSI_NO_MATCH); /* an empty part */
    KT_INT(match("dist_sync_", "dist_sync"), KVSI_NO_MATCH);
    KT_INT(match("_dist", "dist_sync"), KVSI_NO_MATCH);
    KT_INT(match("local_device", "local"), KVSI_NO_MATCH);
    KT_INT(match("horovod_sync", "horovod"), KVSI_NO_MATCH); /* it answers to no word */
    KT_INT(match("dist sync", "dist_sync"), KVSI_NO_MATCH);
}

static void valid_names_are_lower_case_and_short(void)
{
    char longest[66];

    memset(longest, 'a', sizeof(longest));
    longest[64] = '\0';
    KT_INT(kvsi_name_is_valid(longest), 1);
    longest[64] = 'a';
    longest[65] = '\0';
    KT_INT(kvsi_name_is_valid(longest), 0);
    KT_INT(kvsi_name_is_valid("a-b_c9"), 1);
    KT_INT(kvsi_name_is_valid("2bit"), 1);
    KT_INT(kvsi_name_is_valid(""), 0);
    KT_INT(kvsi_name_is_valid("_a"), 0);
    KT_INT(kvsi_name_is_valid("A"), 0);
    KT_INT(kvsi_name_is_valid("a b"), 0);
}

static void only_ascii_is_lowered(void)
{
    char name[] = "DiST_\xC3\x84Z9";

    kvsi_name_to_lower(name);
    KT_STR(name, "dist_\xC3\x84z9");
}

static const kt_test_t tests[] = {
    KT_TEST(every_backend_of_the_project_has_its_package),
    KT_TEST(both_walks_end_together),
    KT_TEST(device_types_have_the_names_of_manifests),
    KT_TEST(names_and_aliases_match_exactly),
    KT_TEST(one_part_is_the_word_and_the_others_may_stand_beside_it),
    KT_TEST(nothing_is_guessed),
    KT_TEST(valid_names_are_lower_case_and_short),
    KT_TEST(only_ascii_is_lowered),
};
KT_MAIN("catalogue", tests)
