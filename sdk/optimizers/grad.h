/* SPDX-License-Identifier: Apache-2.0 */
/* grad.h - from the gradient as pushed to the one that an update uses. `s` are the update's scalars.
 * NaN passes through clipping; clipping that is off has infinity as its bound. */
#include "scalars.h"

#include <math.h>

ELEM REAL NAME(clipped)(REAL x, REAL bound)
{
    return x > bound ? bound : x < -bound ? -bound : x;
}

/* Rescaled, then clipped. */
ELEM REAL NAME(rescaled)(REAL grad, const REAL *s)
{
    return NAME(clipped)(s[RESCALE] * grad, s[CLIP]);
}

/* Rescaled, then clipped, then weight decay added. */
ELEM REAL NAME(decayed)(REAL grad, REAL weight, const REAL *s)
{
    return NAME(rescaled)(grad, s) + s[WD] * weight;
}

ELEM REAL NAME(sign_of)(REAL x)
{
    return (REAL)(x > 0) - (REAL)(x < 0);
}
