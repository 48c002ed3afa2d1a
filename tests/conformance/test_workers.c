/* SPDX-License-Identifier: Apache-2.0 */
/* The suite is right with two workers: the reference stores, in two processes that trade their sums,
 * pass on both ranks; those that are wrong among workers fail. */
#include <kt.h>

#include "conformance.h"
#include "mutants.h"
#include "peer.h"

#include <sys/wait.h>
#include <unistd.h>

static void print_failure(const kvs_conformance_result_t *result, void *arg)
{
    if (result->verdict == KVS_CONFORMANCE_FAILED) {
        printf("\n  rank %d: FAILED %s: %s\n    %s", *(int *)arg, result->rule.id,
               result->rule.text, result->text);
    }
}

/* One worker, in a process of its own, of a mutant: 0 if the case `id` fails. */
static int work_wrongly(int rank, const char *name, const char *id)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts = {0};
    kvs_status_t status;

    peer_join(rank);
    options.only = id;
    status = register_exchange(name);
    if (status == KVS_OK) {
        status = kvs_conformance_run(name, &options, &counts);
    }
    if (status != KVS_OK || counts.n_failed != 1) {
        printf("\n  rank %d: %s got past %s: %s", rank, name, id,
               status == KVS_OK ? "" : kvs_last_error());
    }
    fflush(stdout);
    return status != KVS_OK || counts.n_failed != 1;
}

/* One worker, in a process of its own: 0 if all passed. */
static int work(int rank, kvs_status_t (*add)(const char *name), size_t n_at_least)
{
    kvs_conformance_options_t options = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts = {0};
    kvs_status_t status;

    peer_join(rank);
    options.on_result = print_failure;
    options.arg = &rank;
    status = add("pair");
    if (status == KVS_OK) {
        status = kvs_conformance_run("pair", &options, &counts);
    }
    if (status != KVS_OK) {
        printf("\n  rank %d: %s", rank, kvs_last_error());
    }
    fflush(stdout);
    return status != KVS_OK || counts.n_failed > 0 || counts.n_cases < n_at_least;
}

static void want_zero(const pid_t *pids)
{
    for (int rank = 0; rank < 2; rank++) {
        int status = -1;

        KT_TRUE(waitpid(pids[rank], &status, 0) == pids[rank]);
        KT_INT(status, 0);
    }
}

static void want_both_pass(kvs_status_t (*add)(const char *name), size_t n_at_least)
{
    pid_t pids[2];

    KT_OK(peer_connect());
    fflush(stdout);
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        KT_TRUE(pids[rank] >= 0);
        if (pids[rank] == 0) {
            _exit(work(rank, add, n_at_least));
        }
    }
    want_zero(pids);
}

static void want_both_fail(const char *name, const char *id)
{
    pid_t pids[2];

    KT_OK(peer_connect());
    fflush(stdout);
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        KT_TRUE(pids[rank] >= 0);
        if (pids[rank] == 0) {
            _exit(work_wrongly(rank, name, id));
        }
    }
    want_zero(pids);
}

static void two_workers_with_weights_pass_every_case(void)
{
    want_both_pass(register_weights, 90);
}

static void two_workers_without_weights_pass_every_case(void)
{
    want_both_pass(register_exchange, 60);
}

static void each_mutant_among_workers_fails_the_case_made_for_it(void)
{
#define WANT_FAILURE(name, id) want_both_fail("mutant_" #name, id);
    REDUCE_MUTATIONS(WANT_FAILURE)
}

static const kt_test_t tests[] = {
    KT_TEST(two_workers_with_weights_pass_every_case),
    KT_TEST(two_workers_without_weights_pass_every_case),
    KT_TEST(each_mutant_among_workers_fails_the_case_made_for_it),
};

KT_MAIN("workers", tests)
