/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - a few threads that share out the jobs of a loop and meet at its end.
 *
 * Which thread does which job is left to chance, so a job's result may depend on its number only. */
#ifndef DEMO_TEAM_H
#define DEMO_TEAM_H

#include <kvstore/kvstore.h>

typedef struct team team_t;

/* `n_threads` threads, the caller of team_run being one of them. Freed by team_free, which takes NULL. */
kvs_status_t team_new(size_t n_threads, team_t **ret_team);
void team_free(team_t *team);

/* Run job(0, arg) … job(n_jobs - 1, arg); returns when all are done. One thread at a time. */
void team_run(team_t *team, size_t n_jobs, void (*job)(size_t number, void *arg), void *arg);

size_t team_n_cores(void); /* that this process may use */

#endif
