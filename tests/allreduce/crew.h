/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - what the scenarios of tests/allreduce are written with. A scenario is a test of a program
 * job_horovod_….c, which every worker of a job started by `kvstore run` runs by its name. */
#ifndef CREW_H
#define CREW_H

#include <kt.h>

typedef struct crew {
    kvs_store_t *store;
    int rank, n;
} crew_t;

/* A store "horovod" with `n` options. Without it the program ends. */
crew_t crew_open(const kvs_option_t *options, size_t n);
#define CREW_OPEN(...)                                                                             \
    crew_open((const kvs_option_t[]){__VA_ARGS__},                                                 \
              sizeof((const kvs_option_t[]){__VA_ARGS__}) / sizeof(kvs_option_t))
void crew_close(crew_t *crew);      /* wants success */
void crew_meet(const crew_t *crew); /* a barrier */

/* One array of one dimension: in place without an out. With `ret_event` they return at once. */
kvs_status_t crew_sum(const crew_t *crew, kvs_key_t key, int dtype, int64_t n, void *value,
                      void *out, kvs_event_t **ret_event);
kvs_status_t crew_broadcast(const crew_t *crew, kvs_key_t key, int dtype, int64_t n, void *value,
                            void *out, kvs_event_t **ret_event);
/* The sum of one float. */
kvs_status_t crew_sum1(const crew_t *crew, kvs_key_t key, float value, float *ret_sum);
/* Wait at most 20 s, free. */
kvs_status_t crew_finish(kvs_event_t *event);
/* Every worker adds its rank + 1, and gets what that makes: the store works. */
void crew_works(const crew_t *crew, kvs_key_t key);

#endif
