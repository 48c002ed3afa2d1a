/* SPDX-License-Identifier: Apache-2.0 */
#include "clocale.h"

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

size_t kvs_clocale_print(double number, char *ret_text, size_t n_bytes)
{
    locale_t before = uselocale(get_locale());
    int n = 0;

    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(ret_text, n_bytes, "%.*g", digits, number);
        if (strtod(ret_text, NULL) == number) {
            break;
        }
    }
    uselocale(before);
    return (size_t)n;
}

double kvs_clocale_read(const char *text, char **ret_end)
{
    return strtod_l(text, ret_end, get_locale());
}
