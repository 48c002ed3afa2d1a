/* SPDX-License-Identifier: Apache-2.0 */
/* adam.h - one element of adam, adamw, adabelief, adamax and nadam. For REAL: see real32.h. */

#ifndef KVS_OPTIMIZERS_ADAM_H
#define KVS_OPTIMIZERS_ADAM_H
/* β1, 1-β1, β2, 1-β2, ε. LR holds the rate with all bias corrections that are scalars. */
enum { BETA1 = OWN, REST1, BETA2, REST2, EPSILON, ADAM_OWN };
enum { NADAM_GRAD = ADAM_OWN, NADAM_MEAN, NADAM_VAR }; /* factors of gradient, mean and var */
#endif

ELEM void NAME(adam)(REAL grad, REAL *weight, REAL *mean, REAL *var, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);

    *mean = s[BETA1] * *mean + s[REST1] * g;
    *var = s[BETA2] * *var + s[REST2] * (g * g);
    *weight -= s[LR] * *mean / (SQRT(*var) + s[EPSILON]);
}

ELEM void NAME(adamw)(REAL grad, REAL *weight, REAL *mean, REAL *var, const REAL *s)
{
    REAL g = NAME(rescaled)(grad, s);
    REAL square = g * g;

    *mean = s[BETA1] * (*mean - g) + g;
    *var = s[BETA2] * (*var - square) + square;
    *weight -= s[LR] * (*mean / (SQRT(*var) + s[EPSILON]) + s[WD] * *weight);
}

ELEM void NAME(adabelief)(REAL grad, REAL *weight, REAL *mean, REAL *var, const REAL *s)
{
    REAL g = NAME(clipped)(s[RESCALE] * grad + s[WD] * *weight, s[CLIP]);
    REAL surprise;

    *mean = s[BETA1] * (*mean - g) + g;
    surprise = (*mean - g) * (*mean - g);
    *var = s[BETA2] * (*var - surprise) + surprise + s[EPSILON];
    *weight -= s[LR] * *mean / (SQRT(*var) + s[EPSILON]);
}

ELEM void NAME(adamax)(REAL grad, REAL *weight, REAL *mean, REAL *inf_norm, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);
    REAL faded = s[BETA2] * *inf_norm;

    *mean = s[BETA1] * *mean + s[REST1] * g;
    *inf_norm = faded > ABS(g) ? faded : ABS(g);
    *weight -= s[LR] * *mean / (*inf_norm + s[EPSILON]);
}

ELEM void NAME(nadam)(REAL grad, REAL *weight, REAL *mean, REAL *var, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);

    *mean = s[BETA1] * *mean + s[REST1] * g;
    *var = s[BETA2] * *var + s[REST2] * (g * g);
    *weight -= s[LR] * (s[NADAM_GRAD] * g + s[NADAM_MEAN] * *mean) /
               (SQRT(*var * s[NADAM_VAR]) + s[EPSILON]);
}
