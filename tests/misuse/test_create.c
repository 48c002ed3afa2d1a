/* SPDX-License-Identifier: Apache-2.0 */
/* Creating stores by wrong, odd and unavailable names, and with wrong options. */
#include "misuse.h"

#include <stdlib.h>

/* `name` fails and the text holds `part`; the result is not written. */
static void check_refused(const char *name, kvs_status_t want, const char *part)
{
    kvs_store_t *const untouched = (kvs_store_t *)&want;
    kvs_store_t *store = untouched;

    KT_FAIL(kvs_store_create(name, NULL, 0, &store), want, part);
    KT_TRUE(store == untouched);
}

static void check_created(const char *name, const char *type)
{
    kvs_store_t *store = misuse_create(name);

    KT_STR(kvs_store_type(store), type);
    misuse_close_working(store, kvs_key_int(1));
}

static void an_unknown_name_is_an_error_that_lists_what_exists(void)
{
    check_refused("foo", KVS_ERR_NOT_FOUND, "no backend named \"foo\"");
    KT_HAS(kvs_last_error(), "local");
    KT_HAS(kvs_last_error(), "teststore");
}

static void a_misspelt_name_is_an_error_that_names_the_near_one(void)
{
    check_refused("locla", KVS_ERR_NOT_FOUND, "did you mean \"local\"");
    check_refused("horovdo", KVS_ERR_NOT_FOUND, "did you mean \"horovod\"");
    check_refused("bytesp", KVS_ERR_NOT_FOUND, "did you mean \"byteps\"");
    check_refused("tststore", KVS_ERR_NOT_FOUND, "did you mean \"teststore\"");
}

static void a_misspelt_word_is_not_taken_for_local(void)
{
    check_refused("local_bogus", KVS_ERR_NOT_FOUND, "local_bogus");
    check_refused("dist_asnyc", KVS_ERR_NOT_FOUND, "dist_async");
}

static void an_empty_name_is_an_error(void)
{
    check_refused("", KVS_ERR_ARGUMENT, "name");
}

static void no_name_is_local(void)
{
    check_created(NULL, "local");
}

static void upper_case_works_and_the_type_is_lower_case(void)
{
    check_created("LOCAL", "local");
    check_created("LoCal_Update_CPU", "local_update_cpu");
}

static void the_words_beside_local_work(void)
{
    check_created("local_update_cpu", "local_update_cpu");
    check_created("local_allreduce_cpu", "local_allreduce_cpu");
    check_created("local-update-cpu", "local-update-cpu");
}

/* With a search path that holds nothing, so that the test does not depend on what is built. */
static void a_known_backend_that_is_missing_names_its_package(void)
{
    static const struct {
        const char *name, *package;
    } known[] = {{"nccl", "kvstore-backend-nccl"},       {"device", "kvstore-backend-device"},
                 {"horovod", "kvstore-backend-horovod"}, {"byteps", "kvstore-backend-byteps"},
                 {"dist_sync", "kvstore-backend-dist"},  {"dist_async", "kvstore-backend-dist"}};
    char *path = strdup(getenv("KVSTORE_PLUGIN_PATH"));

    setenv("KVSTORE_PLUGIN_PATH", kt_temp_dir(), 1);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        check_refused(known[i].name, KVS_ERR_UNAVAILABLE, known[i].name);
        KT_HAS(kvs_last_error(), "not installed");
        KT_HAS(kvs_last_error(), known[i].package);
    }
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    free(path);
}

static void local_missing_from_the_search_path_names_both(void)
{
    char *path = strdup(getenv("KVSTORE_PLUGIN_PATH"));

    setenv("KVSTORE_PLUGIN_PATH", "/nonexistent", 1);
    check_refused("local", KVS_ERR_UNAVAILABLE, "local");
    KT_HAS(kvs_last_error(), "/nonexistent");
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    check_created("local", "local");
    free(path);
}

static void a_very_long_name_is_an_error_with_a_bounded_text(void)
{
    size_t n = 1 << 20;
    char *name = malloc(n + 1);
    kvs_store_t *store = NULL;

    memset(name, 'x', n);
    name[n] = '\0';
    KT_TRUE(kvs_store_create(name, NULL, 0, &store) != KVS_OK);
    KT_TRUE(strlen(kvs_last_error()) > 0 && strlen(kvs_last_error()) < 8192);
    KT_TRUE(store == NULL);
    free(name);
}

static void odd_bytes_in_a_name_are_an_error(void)
{
    check_refused("local\n", KVS_ERR_NOT_FOUND, "no backend named");
    check_refused("../local", KVS_ERR_NOT_FOUND, "no backend named");
    check_refused("%s%n", KVS_ERR_NOT_FOUND, "%s%n");
    check_refused("_", KVS_ERR_NOT_FOUND, "no backend named");
    check_refused("lo\xFF", KVS_ERR_NOT_FOUND, "no backend named");
}

static void an_unknown_option_is_an_error_naming_it(void)
{
    kvs_option_t option = {"tiemout", "3"};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("local", &option, 1, &store), KVS_ERR_ARGUMENT, "tiemout");
    KT_TRUE(store == NULL);
}

static void options_must_not_be_null(void)
{
    kvs_option_t no_name = {NULL, "3"};
    kvs_option_t no_value = {"timeout", NULL};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("local", NULL, 1, &store), KVS_ERR_ARGUMENT, "option");
    KT_FAIL(kvs_store_create("local", &no_name, 1, &store), KVS_ERR_ARGUMENT, "option");
    KT_FAIL(kvs_store_create("local", &no_value, 1, &store), KVS_ERR_ARGUMENT, "timeout");
    KT_TRUE(store == NULL);
}

static void a_malformed_value_is_an_error_naming_option_and_value(void)
{
    kvs_option_t option = {"timeout", "soon"};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("local", &option, 1, &store), KVS_ERR_ARGUMENT, "timeout");
    KT_HAS(kvs_last_error(), "soon");
    KT_TRUE(store == NULL);
}

static void a_result_pointer_is_required(void)
{
    KT_FAIL(kvs_store_create("local", NULL, 0, NULL), KVS_ERR_ARGUMENT, "NULL");
}

static void closing_nothing_does_nothing(void)
{
    KT_OK(kvs_store_close(NULL));
    KT_STR(kvs_store_type(NULL), "");
}

static void two_stores_share_nothing(void)
{
    kvs_store_t *a = misuse_open();
    kvs_store_t *b = misuse_open_str();

    misuse_close_untouched(a);
    misuse_close_untouched(b);
}

static const kt_test_t tests[] = {
    KT_TEST(an_unknown_name_is_an_error_that_lists_what_exists),
    KT_TEST(a_misspelt_name_is_an_error_that_names_the_near_one),
    KT_TEST(a_misspelt_word_is_not_taken_for_local),
    KT_TEST(an_empty_name_is_an_error),
    KT_TEST(no_name_is_local),
    KT_TEST(upper_case_works_and_the_type_is_lower_case),
    KT_TEST(the_words_beside_local_work),
    KT_TEST(a_known_backend_that_is_missing_names_its_package),
    KT_TEST(local_missing_from_the_search_path_names_both),
    KT_TEST(a_very_long_name_is_an_error_with_a_bounded_text),
    KT_TEST(odd_bytes_in_a_name_are_an_error),
    KT_TEST(an_unknown_option_is_an_error_naming_it),
    KT_TEST(options_must_not_be_null),
    KT_TEST(a_malformed_value_is_an_error_naming_option_and_value),
    KT_TEST(a_result_pointer_is_required),
    KT_TEST(closing_nothing_does_nothing),
    KT_TEST(two_stores_share_nothing),
};
KT_MAIN("misuse.create", tests)
