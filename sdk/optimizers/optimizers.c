/* SPDX-License-Identifier: Apache-2.0 */
/* optimizers.c - the built-in optimizers as a plugin like anyone's. */
#include "optimizers.h"

#include "scalars.h"

#include <kvstore/states.h>

#include <math.h>

static int isa_limit = OPTIMIZERS_AVX512;

static int processor_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return OPTIMIZERS_AVX512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return OPTIMIZERS_AVX2;
    }
#endif
    return OPTIMIZERS_ANY_ISA;
}

int optimizers_isa(void)
{
    int isa = processor_isa();

    return isa < isa_limit ? isa : isa_limit;
}

void optimizers_limit_isa(int isa)
{
    isa_limit = isa;
}

void optimizers_common_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                               double *ret_scalars)
{
    ret_scalars[RESCALE] = hyper->rescale_grad;
    ret_scalars[CLIP] = hyper->clip_gradient > 0 ? hyper->clip_gradient : INFINITY;
    ret_scalars[LR] = update->lr;
    ret_scalars[WD] = update->wd;
}

double optimizers_rest_f32(double beta)
{
    return 1.0f - (float)beta;
}

static const kvs_optimizer_t *const table[] = {
#define ENTRY(name) &optimizers_##name,
    OPTIMIZERS_LIST(ENTRY)
#undef ENTRY
};

KVS_PLUGIN(optimizers, KVS_OPTIMIZERS_VERSION, .optimizers = table,
           .n_optimizers = OPTIMIZERS_COUNT(table), .optimizer_service = &kvs_optimizer_service)
