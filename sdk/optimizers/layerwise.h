/* SPDX-License-Identifier: Apache-2.0 */
/* layerwise.h - one element of lamb and lans, and the terms whose squares they and lars sum. For REAL:
 * see real32.h. Rates are adapted to whole arrays: norms first, then the step. */

#ifndef KVS_OPTIMIZERS_LAYERWISE_H
#define KVS_OPTIMIZERS_LAYERWISE_H
enum { LARS_MOMENTUM = OWN, LARS_ETA, LARS_EPSILON, LARS_SKIP }; /* LARS_MOMENTUM as sgd's */
/* β1, 1-β1, β2, 1-β2, ε, 1/(1-β1^t), 1/(1-β2^t), the bounds of the weights' norm */
enum { LAMB_BETA1 = OWN, LAMB_REST1, LAMB_BETA2, LAMB_REST2, LAMB_EPSILON, LAMB_MEAN, LAMB_VAR };
enum { LAMB_LOWER = LAMB_VAR + 1, LAMB_UPPER, LAMB_OWN };
enum { LANS_MEAN_RATE = LAMB_LOWER, LANS_GRAD_RATE = LAMB_UPPER, LANS_WEIGHT_NORM = LAMB_OWN };
#endif

/* Of the gradient as pushed and the weight. */
ELEM void NAME(lars_norms)(REAL grad, REAL weight, const REAL *s, REAL *terms)
{
    (void)s;
    terms[0] = grad;
    terms[1] = weight;
}

/* The step before it is scaled; changes mean and var. */
ELEM REAL NAME(lamb_direction)(REAL grad, REAL weight, REAL *mean, REAL *var, const REAL *s)
{
    REAL g = NAME(rescaled)(grad, s);

    *mean = s[LAMB_BETA1] * *mean + s[LAMB_REST1] * g;
    *var = s[LAMB_BETA2] * *var + s[LAMB_REST2] * (g * g);
    return *mean * s[LAMB_MEAN] / (SQRT(*var * s[LAMB_VAR]) + s[LAMB_EPSILON]) + s[WD] * weight;
}

ELEM void NAME(lamb_norms)(REAL grad, REAL weight, REAL mean, REAL var, const REAL *s, REAL *terms)
{
    terms[0] = weight;
    terms[1] = NAME(lamb_direction)(grad, weight, &mean, &var, s);
}

ELEM void NAME(lamb)(REAL grad, REAL *weight, REAL *mean, REAL *var, const REAL *s)
{
    *weight -= s[LR] * NAME(lamb_direction)(grad, *weight, mean, var, s);
}

/* The two parts of the step before they are scaled: along the mean, and along the gradient. RESCALE has
 * the gradient's norm in it. Changes mean and var. */
ELEM void NAME(lans_parts)(REAL grad, REAL weight, REAL *mean, REAL *var, const REAL *s,
                           REAL *parts)
{
    REAL g = NAME(rescaled)(grad, s);
    REAL divisor;

    *mean = s[LAMB_BETA1] * *mean + s[LAMB_REST1] * g;
    *var = s[LAMB_BETA2] * *var + s[LAMB_REST2] * (g * g);
    divisor = SQRT(*var * s[LAMB_VAR]) + s[LAMB_EPSILON];
    parts[0] = *mean * s[LAMB_MEAN] / divisor + s[WD] * weight;
    parts[1] = g / divisor + s[WD] * weight;
}

ELEM void NAME(lans_norms)(REAL grad, REAL weight, REAL mean, REAL var, const REAL *s, REAL *terms)
{
    NAME(lans_parts)(grad, weight, &mean, &var, s, terms);
}

ELEM void NAME(lans)(REAL grad, REAL *weight, REAL *mean, REAL *var, const REAL *s)
{
    REAL parts[2];

    NAME(lans_parts)(grad, *weight, mean, var, s, parts);
    *weight -= s[LANS_MEAN_RATE] * parts[0] + s[LANS_GRAD_RATE] * parts[1];
}
