/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - what the scenarios of tests/dist are written with. A scenario is a test of a program job_….c,
 * which every worker of a job started by `kvstore run` runs by its name; the ranks meet in barriers. */
#ifndef JOB_H
#define JOB_H

#include <kt.h>

typedef struct job {
    kvs_store_t *store;
    int rank, n_workers;
} job_t;

/* A store of this type with `n` options. Without it the program ends. */
job_t job_open_as(const char *type, const kvs_option_t *options, size_t n);
/* The same, "dist_sync". */
job_t job_open(const kvs_option_t *options, size_t n);
#define JOB_OPEN(...)                                                                              \
    job_open((const kvs_option_t[]){__VA_ARGS__},                                                  \
             sizeof((const kvs_option_t[]){__VA_ARGS__}) / sizeof(kvs_option_t))
void job_close(job_t *job); /* wants success */
void job_meet(const job_t *job);

/* ---- Float vectors, one key a call ------------------------------------------------------------------- */

#define JOB_MAX_ELEMS 8

typedef struct vec {
    int64_t n;
    float at[JOB_MAX_ELEMS];
} vec_t;

#define VEC(...) ((vec_t){(int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), {__VA_ARGS__}})

kvs_status_t job_init(const job_t *job, kvs_key_t key, vec_t value);
kvs_status_t job_push(const job_t *job, kvs_key_t key, vec_t value);
kvs_status_t job_pull(const job_t *job, kvs_key_t key, vec_t *out);
kvs_status_t job_pushpull(const job_t *job, kvs_key_t key, vec_t value, vec_t *out);
/* The same with an event; arrays must stay. */
kvs_event_t *job_begin_push(const job_t *job, kvs_key_t key, vec_t *value);
kvs_event_t *job_begin_pushpull(const job_t *job, kvs_key_t key, vec_t *value, vec_t *out);
kvs_event_t *job_begin_init(const job_t *job, kvs_key_t key, vec_t *value);
/* How a round has failed of which a push was `status`: told by that call, unless it has returned before. */
kvs_status_t job_failure(const job_t *job, kvs_status_t status);
/* Wait at most 20 s, free. */
kvs_status_t job_finish(kvs_event_t *event);
/* The pulled vector is (want, want, …). */
void job_want(const job_t *job, kvs_key_t key, int64_t n, float want);

kvs_status_t job_set_optimizer(kvs_store_t *store, const char *name, const kvs_param_t *params,
                               size_t n);
#define JOB_REAL(param, number)                                                                    \
    {                                                                                              \
        .name = (param), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                     \
    }
#define JOB_BOOL(param, flag)                                                                      \
    {                                                                                              \
        .name = (param), .type = KVS_PARAM_BOOL, .value = {.integer = (flag) }                     \
    }
#define JOB_OPTIMIZER(store, name, ...)                                                            \
    job_set_optimizer((store), (name), (const kvs_param_t[]){__VA_ARGS__},                         \
                      sizeof((const kvs_param_t[]){__VA_ARGS__}) / sizeof(kvs_param_t))

/* The process of a role and rank in this job, started by the same `kvstore run`; 0: none is found. */
int job_pid_of(const char *role, int rank);
/* Stop it: it does nothing more when this returns; until SIGCONT. */
void job_stop_process(int pid);

#endif
