/* SPDX-License-Identifier: Apache-2.0 */
/* The suite finds each way to be wrong by its own case. */
#include <kt.h>

#include "conformance.h"
#include "mutants.h"

typedef struct mutant {
    const char *name; /* "mutant_adds" */
    const char *id;   /* of the case that must fail */
    kvs_status_t (*add)(const char *name);
} mutant_t;

static const mutant_t mutants[] = {
#define WEIGHTS_MUTANT(name, id)           {"mutant_" #name, id, register_weights},
#define EXCHANGE_MUTANT(name, id)          {"mutant_" #name, id, register_exchange},
#define KIT_MUTANT(name, id)               {"mutant_" #name, id, register_kit},
#define ASYNC_MUTANT(name, id)             {"mutant_" #name, id, register_async},
#define COMPRESSION_MUTANT(name, id)       {"mutant_" #name, id, register_compress},
#define ROWS_MUTANT(name, id)              {"mutant_" #name, id, register_rows},
#define ASYNC_COMPRESSION_MUTANT(name, id) {"mutant_" #name, id, register_async_compress},
    WEIGHTS_MUTATIONS(WEIGHTS_MUTANT) EXCHANGE_MUTATIONS(EXCHANGE_MUTANT) KIT_MUTATIONS(KIT_MUTANT)
        ASYNC_MUTATIONS(ASYNC_MUTANT) COMPRESSION_MUTATIONS(COMPRESSION_MUTANT)
            ASYNC_COMPRESSION_MUTATIONS(ASYNC_COMPRESSION_MUTANT) ROWS_MUTATIONS(ROWS_MUTANT)};

static const mutant_t others[] = {
#define OTHER_MUTANT(name, id, kind) {"mutant_" #name, id, register_##kind},
    OTHER_CASES(OTHER_MUTANT)};

static void want_caught(const mutant_t *mutant, const char *name)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts = {0};

    options.only = mutant->id;
    KT_OK(mutant->add(name));
    KT_OK(kvs_conformance_run(name, &options, &counts));
    if (counts.n_failed != 1) {
        printf("\n  %s got past %s", name, mutant->id);
    }
    KT_INT(counts.n_failed, 1);
}

static void each_mutant_fails_the_case_made_for_it(void)
{
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        want_caught(&mutants[i], mutants[i].name);
    }
}

static void other_cases_catch_them_too(void)
{
    static char names[sizeof(others) / sizeof(others[0])][80]; /* which backends keep */

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(names[i], sizeof(names[i]), "%s__%zu", others[i].name, i);
        want_caught(&others[i], names[i]);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(each_mutant_fails_the_case_made_for_it),
    KT_TEST(other_cases_catch_them_too),
};

KT_MAIN("mutants", tests)
