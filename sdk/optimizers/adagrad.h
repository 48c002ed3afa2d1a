/* SPDX-License-Identifier: Apache-2.0 */
/* adagrad.h - one element of adagrad, groupadagrad, adadelta and rmsprop. For REAL: see real32.h. */

#ifndef KVS_OPTIMIZERS_ADAGRAD_H
#define KVS_OPTIMIZERS_ADAGRAD_H
enum { ADAGRAD_EPSILON = OWN };                     /* adagrad, groupadagrad */
enum { RHO = OWN, RHO_REST, RHO_EPSILON, RHO_OWN }; /* adadelta, rmsprop: ρ, 1-ρ, ε */
enum { RMS_MOMENTUM = RHO_OWN, RMS_BOUND };         /* RMS_BOUND: infinite for off */
#endif

ELEM void NAME(adagrad)(REAL grad, REAL *weight, REAL *history, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);

    *history += g * g;
    *weight -= s[LR] * g / (SQRT(*history) + s[ADAGRAD_EPSILON]);
}

/* What a row's history sums the squares of. */
ELEM void NAME(group_squares)(REAL grad, const REAL *s, REAL *terms)
{
    terms[0] = NAME(rescaled)(grad, s);
}

/* The row's history is up to date. */
ELEM void NAME(groupadagrad)(REAL grad, REAL *weight, REAL history, const REAL *s)
{
    *weight -= s[LR] * NAME(rescaled)(grad, s) / (SQRT(history) + s[ADAGRAD_EPSILON]);
}

ELEM void NAME(adadelta)(REAL grad, REAL *weight, REAL *acc_g, REAL *acc_delta, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);
    REAL delta;

    *acc_g = s[RHO] * *acc_g + s[RHO_REST] * (g * g);
    delta = SQRT(*acc_delta + s[RHO_EPSILON]) / SQRT(*acc_g + s[RHO_EPSILON]) * g;
    *acc_delta = s[RHO] * *acc_delta + s[RHO_REST] * (delta * delta);
    *weight -= s[LR] * delta;
}

ELEM void NAME(rmsprop)(REAL grad, REAL *weight, REAL *var, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);

    *var = s[RHO] * *var + s[RHO_REST] * (g * g);
    *weight = NAME(clipped)(*weight - s[LR] * g / (SQRT(*var) + s[RHO_EPSILON]), s[RMS_BOUND]);
}

/* The variance about the mean is never negative, but its rounded difference may be. */
ELEM void NAME(rmsprop_centered)(REAL grad, REAL *weight, REAL *mean, REAL *var, REAL *mom,
                                 const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);
    REAL centered;

    *mean = s[RHO] * *mean + s[RHO_REST] * g;
    *var = s[RHO] * *var + s[RHO_REST] * (g * g);
    centered = *var - *mean * *mean;
    centered = centered < 0 ? 0 : centered;
    *mom = s[RMS_MOMENTUM] * *mom - s[LR] * g / SQRT(centered + s[RHO_EPSILON]);
    *weight = NAME(clipped)(*weight + *mom, s[RMS_BOUND]);
}
