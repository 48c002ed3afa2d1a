/* SPDX-License-Identifier: Apache-2.0 */
/* bench_optimizers.h - the optimizers that W3 and W7 put into the store. */
#ifndef KVS_CLI_BENCH_OPTIMIZERS_H
#define KVS_CLI_BENCH_OPTIMIZERS_H

#include <kvstore/kvstore.h>

static inline kvs_optimizer_spec_t bench_optimizer(const char *name, const kvs_param_t *params,
                                                   size_t n_params)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n_params;
    return spec;
}

/* SGD, learning rate 0.01, momentum 0.9, no weight decay. */
static inline kvs_optimizer_spec_t bench_sgdmom(void)
{
    static const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.01},
        {.name = "momentum", .type = KVS_PARAM_FLOAT, .value.real = 0.9},
    };

    return bench_optimizer("sgd", params, 2);
}

/* Adam, learning rate 0.001. */
static inline kvs_optimizer_spec_t bench_adam(void)
{
    static const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.001},
    };

    return bench_optimizer("adam", params, 1);
}

#endif
