/* SPDX-License-Identifier: Apache-2.0 */
/* The suite finds nothing in backends that are right. */
#include <kt.h>

#include "conformance.h"
#include "mutants.h"

static void print_failure(const kvs_conformance_result_t *result, void *arg)
{
    (void)arg;
    if (result->verdict == KVS_CONFORMANCE_FAILED) {
        printf("\n  FAILED %s: %s\n    %s", result->rule.id, result->rule.text, result->text);
    }
}

static void want_all_pass(const char *name, size_t n_at_least)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts = {0};

    options.on_result = print_failure;
    KT_OK(kvs_conformance_run(name, &options, &counts));
    KT_INT(counts.n_failed, 0);
    KT_INT(counts.n_passed, counts.n_cases);
    KT_TRUE(counts.n_cases >= n_at_least);
    KT_INT(counts.n_cases + counts.n_not_applicable, kvs_conformance_n_rules());
    KT_STR(counts.devices, "cpu");
}

static void the_reference_with_weights_passes_every_case(void)
{
    KT_OK(register_weights("Reference"));
    want_all_pass("reference", 90);
}

static void the_reference_without_weights_passes_every_case(void)
{
    KT_OK(register_exchange("exchange"));
    want_all_pass("exchange", 50);
}

static void the_reference_with_rows_passes_every_case(void)
{
    KT_OK(register_rows("rowstore"));
    want_all_pass("rowstore", 130);
}

static void the_kits_store_passes_every_case(void)
{
    KT_OK(register_kit("kitstore"));
    want_all_pass("kitstore", 100);
}

static void the_asynchronous_store_passes_every_case(void)
{
    KT_OK(register_async("asyncstore"));
    want_all_pass("asyncstore", 80);
}

static void the_compressing_store_passes_every_case(void)
{
    KT_OK(register_compress("compressstore"));
    want_all_pass("compressstore", 120);
}

static void the_asynchronous_compressing_store_passes_every_case(void)
{
    KT_OK(register_async_compress("asynccompressstore"));
    want_all_pass("asynccompressstore", 90);
}

static const kt_test_t tests[] = {
    KT_TEST(the_reference_with_weights_passes_every_case),
    KT_TEST(the_reference_without_weights_passes_every_case),
    KT_TEST(the_reference_with_rows_passes_every_case),
    KT_TEST(the_kits_store_passes_every_case),
    KT_TEST(the_asynchronous_store_passes_every_case),
    KT_TEST(the_compressing_store_passes_every_case),
    KT_TEST(the_asynchronous_compressing_store_passes_every_case),
};

KT_MAIN("references", tests)
