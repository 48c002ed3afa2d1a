/* SPDX-License-Identifier: Apache-2.0 */
#include "clocale.h"

#include <pthread.h>

static locale_t c_locale; /* written once, by make_locale */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* "C" is built in: this needs no memory */
}

locale_t net_c_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_locale);
    return c_locale;
}
