/* SPDX-License-Identifier: Apache-2.0 */
/* ftrl.h - one element of ftrl and ftml, which compute the weight anew from their states. For REAL: see
 * real32.h. Both divide by the rate: at rate 0 nothing is to be changed, so don't call them. */

#ifndef KVS_OPTIMIZERS_FTRL_H
#define KVS_OPTIMIZERS_FTRL_H
enum { FTRL_LAMDA1 = OWN, FTRL_BETA, FTRL_PER_RATE }; /* λ1, β, 1/lr */
enum { FTML_BETA1 = OWN, FTML_REST1, FTML_BETA2, FTML_REST2, FTML_EPSILON, FTML_VAR, FTML_SCALE };
#endif

ELEM void NAME(ftrl)(REAL grad, REAL *weight, REAL *z, REAL *n, const REAL *s)
{
    REAL g = NAME(rescaled)(grad, s);
    REAL root = SQRT(*n);
    REAL sum = *n + g * g;
    REAL new_root = SQRT(sum);
    REAL excess;

    *z += g - (new_root - root) * *weight * s[FTRL_PER_RATE];
    *n = sum;
    excess = NAME(sign_of)(*z) * s[FTRL_LAMDA1] - *z;
    excess /= (s[FTRL_BETA] + new_root) * s[FTRL_PER_RATE] + s[WD];
    *weight = ABS(*z) <= s[FTRL_LAMDA1] ? 0 : excess;
}

ELEM void NAME(ftml)(REAL grad, REAL *weight, REAL *d, REAL *v, REAL *z, const REAL *s)
{
    REAL g = NAME(decayed)(grad, *weight, s);
    REAL new_d;

    *v = s[FTML_BETA2] * *v + s[FTML_REST2] * (g * g);
    new_d = s[FTML_SCALE] * (SQRT(*v * s[FTML_VAR]) + s[FTML_EPSILON]);
    *z = s[FTML_BETA1] * *z + s[FTML_REST1] * g - (new_d - s[FTML_BETA1] * *d) * *weight;
    *weight = -*z / new_d;
    *d = new_d;
}
