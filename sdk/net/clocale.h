/* SPDX-License-Identifier: Apache-2.0 */
/* clocale.h - texts with a decimal point, whatever the program's locale is. Any thread. */
#ifndef NET_CLOCALE_H
#define NET_CLOCALE_H

#include <locale.h>

/* What uselocale takes; printing in it is printing in the locale "C". */
locale_t net_c_locale(void);

#endif
