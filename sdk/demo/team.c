/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - a counter of jobs under one lock: a loop has a handful of them, each milliseconds long. */
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct team {
    size_t n_helpers; /* threads beside the caller's; fixed after team_new */
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    void (*job)(size_t number, void *arg); /* guarded by lock, as all below */
    void *arg;
    size_t n_jobs, next_job, n_finished;
    int ending;
    pthread_t helpers[];
};

static void do_jobs_locked(team_t *team)
{
    while (team->next_job < team->n_jobs) {
        size_t number = team->next_job++;

        pthread_mutex_unlock(&team->lock);
        team->job(number, team->arg); /* these two change only when every job is finished */
        pthread_mutex_lock(&team->lock);
        team->n_finished++;
    }
    if (team->n_finished == team->n_jobs) {
        pthread_cond_signal(&team->done);
    }
}

static void *help(void *arg)
{
    team_t *team = arg;

    pthread_mutex_lock(&team->lock);
    while (!team->ending) {
        if (team->next_job < team->n_jobs) {
            do_jobs_locked(team);
        } else {
            pthread_cond_wait(&team->more, &team->lock);
        }
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

kvs_status_t team_new(size_t n_threads, team_t **ret_team)
{
    team_t *team = calloc(1, sizeof(*team) + n_threads * sizeof(team->helpers[0]));

    if (team == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a team of %zu threads", n_threads);
    }
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->more, NULL);
    pthread_cond_init(&team->done, NULL);
    while (team->n_helpers + 1 < n_threads) {
        int error = pthread_create(&team->helpers[team->n_helpers], NULL, help, team);

        if (error != 0) {
            team_free(team);
            return kvs_fail(KVS_ERR_NO_MEMORY, "cannot start a thread: %s", strerror(error));
        }
        team->n_helpers++;
    }
    *ret_team = team;
    return KVS_OK;
}

void team_free(team_t *team)
{
    if (team == NULL) {
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->ending = 1;
    pthread_cond_broadcast(&team->more);
    pthread_mutex_unlock(&team->lock);
    for (size_t i = 0; i < team->n_helpers; i++) {
        pthread_join(team->helpers[i], NULL);
    }
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->more);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

void team_run(team_t *team, size_t n_jobs, void (*job)(size_t number, void *arg), void *arg)
{
    pthread_mutex_lock(&team->lock);
    team->job = job;
    team->arg = arg;
    team->n_jobs = n_jobs;
    team->next_job = 0;
    team->n_finished = 0;
    pthread_cond_broadcast(&team->more);
    do_jobs_locked(team);
    while (team->n_finished < n_jobs) {
        pthread_cond_wait(&team->done, &team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}

size_t team_n_cores(void)
{
    cpu_set_t allowed;
    long n_online;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        return (size_t)CPU_COUNT(&allowed);
    }
    n_online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t has room for */
    return n_online > 0 ? (size_t)n_online : 1;
}
