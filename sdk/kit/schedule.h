/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - a learning rate as a function of the number of updates: factor, multifactor, poly,
 * cosine, each with a warm-up. A schedule has memory: rates that have fallen don't rise again when it
 * is asked for an earlier number. One caller at a time. Semantics: MXNet's lr_scheduler. */
#ifndef KVS_KIT_SCHEDULE_H
#define KVS_KIT_SCHEDULE_H

#include <kvstore/plugin.h>

typedef struct kvs_schedule kvs_schedule_t;

/* ERR_ARGUMENT: no such schedule, or a parameter it does not accept; the text names it. */
kvs_status_t kvs_schedule_new(const char *name, const kvs_param_t *params, size_t n_params,
                              kvs_schedule_t **ret_schedule);
void kvs_schedule_free(kvs_schedule_t *schedule); /* NULL does nothing */

/* Replace the rate that was computed last, or at first base_lr: what a learning_rate named together
 * with a schedule does. Warm-up, poly and cosine go on computing from the base_lr of construction. */
void kvs_schedule_set_rate(kvs_schedule_t *schedule, double rate);
/* The rate at `num_update`, 0 or more. */
double kvs_schedule_rate(kvs_schedule_t *schedule, int64_t num_update);
const char *kvs_schedule_name(const kvs_schedule_t *schedule);

/* ---- For state files ------------------------------------------------------------------------------ */

#define KVS_SCHEDULE_MAX_PARAMS 8

/* Every parameter with its value, defaults included: kvs_schedule_new makes the same of them. Texts and
 * lists live as long as the schedule. Gives how many. */
size_t kvs_schedule_params(const kvs_schedule_t *schedule,
                           kvs_param_t ret_params[KVS_SCHEDULE_MAX_PARAMS]);

/* What a schedule has kept in mind of the questions so far. */
typedef struct kvs_schedule_position {
    double rate;       /* computed last, outside of warm-up */
    int64_t n_counted; /* factor: the number of updates at the last fall */
    int64_t n_steps;   /* multifactor: steps passed */
} kvs_schedule_position_t;

kvs_schedule_position_t kvs_schedule_position(const kvs_schedule_t *schedule);
/* ERR_ARGUMENT: no schedule of these parameters is ever there; nothing was done. */
kvs_status_t kvs_schedule_set_position(kvs_schedule_t *schedule,
                                       const kvs_schedule_position_t *position);

#endif
