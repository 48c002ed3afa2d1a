/* SPDX-License-Identifier: Apache-2.0 */
/* test_team.c - every job runs once, however many threads there are. */
#include "team.h"

#include <kt.h>

enum { MOST_JOBS = 40 };

static void count(size_t number, void *arg)
{
    int *counts = arg;

    counts[number]++;
}

static void check_team(size_t n_threads)
{
    team_t *team = NULL;
    int counts[MOST_JOBS] = {0};

    if (!KT_OK(team_new(n_threads, &team))) {
        return;
    }
    for (size_t n_jobs = 0; n_jobs <= MOST_JOBS; n_jobs++) {
        team_run(team, n_jobs, count, counts);
    }
    team_free(team);
    for (int i = 0; i < MOST_JOBS; i++) {
        KT_INT(counts[i], MOST_JOBS - i); /* in every run of more than i jobs */
    }
}

static void one_thread_does_every_job_once(void)
{
    check_team(1);
}

static void several_threads_do_every_job_once(void)
{
    check_team(2);
    check_team(7);
}

static void a_team_that_never_ran_ends(void)
{
    team_t *team = NULL;

    KT_OK(team_new(4, &team));
    team_free(team);
    team_free(NULL);
}

static void there_is_at_least_one_core(void)
{
    KT_TRUE(team_n_cores() >= 1);
}

static const kt_test_t tests[] = {
    KT_TEST(one_thread_does_every_job_once),
    KT_TEST(several_threads_do_every_job_once),
    KT_TEST(a_team_that_never_ran_ends),
    KT_TEST(there_is_at_least_one_core),
};

KT_MAIN("demo.team", tests)
