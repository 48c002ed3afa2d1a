/* SPDX-License-Identifier: Apache-2.0 */
#include "cnumber.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale; /* written once, by make_locale */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* "C" is built in: this needs no memory */
}

static locale_t get_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_locale);
    return c_locale;
}

double kvsi_c_strtod(const char *text, char **ret_end)
{
    return strtod_l(text, ret_end, get_locale());
}

int kvsi_c_vsnprintf(char *text, size_t n_bytes, const char *format, va_list args)
{
    locale_t before = uselocale(get_locale());
    int n = vsnprintf(text, n_bytes, format, args);

    uselocale(before);
    return n;
}
