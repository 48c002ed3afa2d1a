/* SPDX-License-Identifier: Apache-2.0 */
/* clocale.h - texts with a decimal point, whatever the program's locale is. Any thread. */
#ifndef NET_CLOCALE_H
#define NET_CLOCALE_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

/* What uselocale takes; printing in it is printing in the locale "C". */
locale_t net_c_locale(void);
/* vsnprintf; see also kvs_net_print. */
int net_c_vsnprintf(char *text, size_t n_bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
