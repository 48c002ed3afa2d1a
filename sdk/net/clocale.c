/* SPDX-License-Identifier: Apache-2.0 */
#include "clocale.h"

#include <kvstore/net.h>

#include <pthread.h>
#include <stdio.h>

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

int net_c_vsnprintf(char *text, size_t n_bytes, const char *format, va_list args)
{
    locale_t before = uselocale(net_c_locale());
    int n = vsnprintf(text, n_bytes, format, args);

    uselocale(before);
    return n;
}

int kvs_net_print(char *text, size_t n_bytes, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = net_c_vsnprintf(text, n_bytes, format, args);
    va_end(args);
    return n;
}
