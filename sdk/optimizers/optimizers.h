/* SPDX-License-Identifier: Apache-2.0 */
/* optimizers.h - every built-in optimizer, and what their tables have in common. */
#ifndef KVS_OPTIMIZERS_H
#define KVS_OPTIMIZERS_H

#include <kvstore/plugin.h>

/* X(name): each is optimizers_NAME, defined in its family's file. */
#define OPTIMIZERS_LIST(X)                                                                         \
    X(sgd)                                                                                         \
    X(nag)                                                                                         \
    X(signum)                                                                                      \
    X(signsgd)                                                                                     \
    X(dcasgd)                                                                                      \
    X(test)                                                                                        \
    X(adam)                                                                                        \
    X(adamw)                                                                                       \
    X(adabelief)                                                                                   \
    X(adamax)                                                                                      \
    X(nadam)                                                                                       \
    X(adagrad)                                                                                     \
    X(groupadagrad)                                                                                \
    X(adadelta)                                                                                    \
    X(rmsprop)                                                                                     \
    X(ftrl)                                                                                        \
    X(ftml)                                                                                        \
    X(lars)                                                                                        \
    X(lamb)                                                                                        \
    X(lans)

#define OPTIMIZERS_DECLARE(name) extern const kvs_optimizer_t optimizers_##name;
OPTIMIZERS_LIST(OPTIMIZERS_DECLARE)
#undef OPTIMIZERS_DECLARE

/* The instruction sets that loops are compiled for; all give the same bits. */
enum { OPTIMIZERS_ANY_ISA, OPTIMIZERS_AVX2, OPTIMIZERS_AVX512 };

/* The best that this processor has, and no better than the limit. */
int optimizers_isa(void);
/* For tests: lower the limit, which is at first the best. Not while updates are running. */
void optimizers_limit_isa(int isa);

#define OPTIMIZERS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The scalars that come first: RESCALE, CLIP, LR, WD. */
void optimizers_common_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                               double *ret_scalars);

/* 1-β as adam's and lamb's kernels in the peer take it: in float32. */
double optimizers_rest_f32(double beta);

#endif
