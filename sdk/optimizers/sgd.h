/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.h - one element of sgd, nag, signum, signsgd, dcasgd and test. For REAL: see real32.h. */

#ifndef KVS_OPTIMIZERS_SGD_H
#define KVS_OPTIMIZERS_SGD_H
enum { MOMENTUM = OWN };                            /* sgd, nag, dcasgd */
enum { SIGN_MOMENTUM = OWN, SIGN_REST, SIGN_KEEP }; /* μ, 1-μ, what weight decay leaves */
enum { DC_MOMENTUM = OWN, DC_LAMDA };
#endif

ELEM void NAME(sgd)(REAL grad, REAL *weight, const REAL *s)
{
    *weight -= s[LR] * NAME(decayed)(grad, *weight, s);
}

ELEM void NAME(sgd_mom)(REAL grad, REAL *weight, REAL *mom, const REAL *s)
{
    *mom = s[MOMENTUM] * *mom - s[LR] * NAME(decayed)(grad, *weight, s);
    *weight += *mom;
}

ELEM void NAME(nag_mom)(REAL grad, REAL *weight, REAL *mom, const REAL *s)
{
    REAL step = s[LR] * NAME(decayed)(grad, *weight, s);

    *mom = s[MOMENTUM] * *mom - step;
    *weight += s[MOMENTUM] * *mom - step;
}

ELEM void NAME(signum)(REAL grad, REAL *weight, REAL *mom, const REAL *s)
{
    *mom = s[SIGN_MOMENTUM] * *mom - s[SIGN_REST] * NAME(decayed)(grad, *weight, s);
    *weight = s[SIGN_KEEP] * *weight + s[LR] * NAME(sign_of)(*mom);
}

ELEM void NAME(signsgd)(REAL grad, REAL *weight, const REAL *s)
{
    *weight = s[SIGN_KEEP] * *weight - s[LR] * NAME(sign_of)(grad);
}

/* The gradient, corrected for how far the weight has moved since `previous`. */
ELEM REAL NAME(compensated)(REAL grad, REAL weight, REAL *previous, const REAL *s)
{
    REAL g = NAME(decayed)(grad, weight, s);
    REAL moved = weight - *previous;

    *previous = weight;
    return g + s[DC_LAMDA] * g * g * moved;
}

ELEM void NAME(dcasgd)(REAL grad, REAL *weight, REAL *previous, const REAL *s)
{
    *weight -= s[LR] * NAME(compensated)(grad, *weight, previous, s);
}

ELEM void NAME(dcasgd_mom)(REAL grad, REAL *weight, REAL *mom, REAL *previous, const REAL *s)
{
    *mom = s[DC_MOMENTUM] * *mom - s[LR] * NAME(compensated)(grad, *weight, previous, s);
    *weight += *mom;
}

ELEM void NAME(test)(REAL grad, REAL *weight, const REAL *s)
{
    *weight -= s[LR] * (s[RESCALE] * grad + s[WD] * *weight);
}
