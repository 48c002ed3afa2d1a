/* SPDX-License-Identifier: Apache-2.0 */
/* opt_private.h - what the files of the optimizer driver share: optimizer.c (parameters and counts),
 * opt_state.c (memory), opt_step.c (arithmetic). */
#ifndef KVS_KIT_OPT_PRIVATE_H
#define KVS_KIT_OPT_PRIVATE_H

#include "opt_keymap.h"
#include <kvstore/optimizer.h>
#include "schedule.h"

/* The parameters that all optimizers have; their own follow. */
enum {
    KVS_OPT_LEARNING_RATE,
    KVS_OPT_WD,
    KVS_OPT_RESCALE_GRAD,
    KVS_OPT_CLIP_GRADIENT,
    KVS_OPT_MULTI_PRECISION,
    KVS_OPT_BEGIN_NUM_UPDATE,
    KVS_OPT_N_COMMON
};

struct kvs_opt {
    const kvs_optimizer_t *kind;
    char owner[64]; /* "optimizer 'sgd'": how errors begin */
    kvs_param_info_t infos[KVS_OPT_N_COMMON + KVS_OPTIMIZER_MAX_PARAMS];
    double values[KVS_OPT_N_COMMON + KVS_OPTIMIZER_MAX_PARAMS];
    kvs_hyper_t hyper;        /* of `values` */
    const double *lazy_value; /* of parameter lazy_update; NULL: it has none */
    kvs_keymap_t lr_mult;
    kvs_keymap_t wd_mult;
    kvs_keymap_t names;
    kvs_schedule_t *schedule; /* NULL: none */
    int64_t num_update;
    double product;
};

/* The states of one key. */
typedef struct kvs_opt_states {
    const kvs_optimizer_t *kind;
    int dtype;       /* of every state */
    int64_t n_elems; /* of the weight */
    int64_t n_rows;  /* rows of row_elems elements each; both 0 if there are no elements */
    int64_t row_elems;
    void *master;                         /* float32; NULL: none */
    uint32_t made;                        /* mask of the states that exist */
    void *data[KVS_OPTIMIZER_MAX_STATES]; /* NULL: does not exist */
    double *sums;                         /* of each block; NULL: the optimizer needs none */
} kvs_opt_states_t;

static inline int64_t kvs_opt_n_blocks(int64_t n_elems)
{
    return (n_elems + KVS_OPTIMIZER_SUM_BLOCK - 1) / KVS_OPTIMIZER_SUM_BLOCK;
}

/* The states that the parameters in force need, as a mask. */
uint32_t kvs_opt_states_used(const kvs_opt_t *opt);

#endif
