/* SPDX-License-Identifier: Apache-2.0 */
/* The runner's own behaviour: rules, options, counts and results. */
#include <kt.h>

#include "conformance.h"
#include "mutants.h"

static void every_rule_has_its_own_id_and_one_sentence(void)
{
    size_t n = kvs_conformance_n_rules();

    for (size_t i = 0; i < n; i++) {
        kvs_conformance_rule_t rule = kvs_conformance_rule(i);

        KT_TRUE(rule.id[strspn(rule.id, "abcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0');
        KT_TRUE(strchr(rule.id, '.') != NULL && strchr(rule.id, '.') == strrchr(rule.id, '.'));
        KT_TRUE(rule.text[strlen(rule.text) - 1] == '.');
        KT_TRUE(strlen(rule.text) <= 110);
        for (size_t j = 0; j < i; j++) {
            KT_TRUE(strcmp(kvs_conformance_rule(j).id, rule.id) != 0);
        }
    }
    KT_TRUE(kvs_conformance_rule(n).id == NULL);
}

static void a_backend_that_does_not_exist_is_an_error(void)
{
    kvs_conformance_counts_t counts = {.n_cases = 77};

    KT_FAIL(kvs_conformance_run("no_such_backend", NULL, &counts), KVS_ERR_NOT_FOUND,
            "no_such_backend");
    KT_INT(counts.n_cases, 77);
}

static void options_that_were_not_initialised_are_an_error(void)
{
    kvs_conformance_options_t options = {0};
    kvs_conformance_counts_t counts;

    KT_FAIL(kvs_conformance_run("reference", &options, &counts), KVS_ERR_ARGUMENT,
            "KVS_CONFORMANCE_INIT");
    KT_FAIL(kvs_conformance_run(NULL, NULL, &counts), KVS_ERR_ARGUMENT, "NULL");
}

static void an_unknown_rule_is_an_error(void)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts;

    options.only = "push.misplaces";
    KT_FAIL(kvs_conformance_run("reference", &options, &counts), KVS_ERR_ARGUMENT,
            "push.misplaces");
}

static void a_device_without_arrays_is_an_error(void)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts;

    KT_OK(register_weights("reference"));
    options.device = "cuda";
    KT_FAIL(kvs_conformance_run("reference", &options, &counts), KVS_ERR_NOT_IMPLEMENTED, "cuda");
}

static void an_option_of_the_store_is_passed_on(void)
{
    const kvs_option_t option = {"no_such_option", "1"};
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts;

    KT_OK(register_weights("reference"));
    options.store_options = &option;
    options.n_store_options = 1;
    KT_FAIL(kvs_conformance_run("reference", &options, &counts), KVS_ERR_ARGUMENT,
            "no_such_option");
}

typedef struct seen {
    size_t n;
    char id[64], device[16], text[2048];
    kvs_conformance_verdict_t verdict;
} seen_t;

static void note(const kvs_conformance_result_t *result, void *arg)
{
    seen_t *seen = arg;

    seen->n++;
    seen->verdict = result->verdict;
    snprintf(seen->id, sizeof(seen->id), "%s", result->rule.id);
    snprintf(seen->device, sizeof(seen->device), "%s", result->device);
    snprintf(seen->text, sizeof(seen->text), "%s", result->text);
}

static seen_t run_one(const char *name, const char *id)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts = {0};
    seen_t seen = {0};

    options.only = id;
    options.on_result = note;
    options.arg = &seen;
    KT_OK(kvs_conformance_run(name, &options, &counts));
    KT_INT(seen.n, 1);
    KT_STR(seen.id, id);
    KT_STR(seen.device, "cpu");
    KT_INT(counts.n_failed, seen.verdict == KVS_CONFORMANCE_FAILED);
    KT_INT(counts.n_not_applicable, seen.verdict == KVS_CONFORMANCE_NOT_APPLICABLE);
    return seen;
}

static void a_passed_case_has_no_text(void)
{
    seen_t seen;

    KT_OK(register_weights("reference"));
    seen = run_one("reference", "push.replaces");
    KT_STR(kvs_conformance_verdict_text(seen.verdict), "passed");
    KT_STR(seen.text, "");
}

static void a_failed_case_says_what_it_got_and_wanted(void)
{
    seen_t seen;

    KT_OK(register_weights("mutant_adds"));
    seen = run_one("mutant_adds", "push.replaces");
    KT_STR(kvs_conformance_verdict_text(seen.verdict), "failed");
    KT_HAS(seen.text, "got 101, want 1");
}

static void a_case_that_does_not_apply_says_why(void)
{
    seen_t seen;

    KT_OK(register_exchange("exchange"));
    seen = run_one("exchange", "push.replaces");
    KT_STR(kvs_conformance_verdict_text(seen.verdict), "not applicable");
    KT_HAS(seen.text, "keeps no weights");
}

static const kt_test_t tests[] = {
    KT_TEST(every_rule_has_its_own_id_and_one_sentence),
    KT_TEST(a_backend_that_does_not_exist_is_an_error),
    KT_TEST(options_that_were_not_initialised_are_an_error),
    KT_TEST(an_unknown_rule_is_an_error),
    KT_TEST(a_device_without_arrays_is_an_error),
    KT_TEST(an_option_of_the_store_is_passed_on),
    KT_TEST(a_passed_case_has_no_text),
    KT_TEST(a_failed_case_says_what_it_got_and_wanted),
    KT_TEST(a_case_that_does_not_apply_says_why),
};

KT_MAIN("runner", tests)
