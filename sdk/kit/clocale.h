/* SPDX-License-Identifier: Apache-2.0 */
/* clocale.h - doubles as text with a decimal point, whatever the program's locale is. Any thread. */
#ifndef KVS_KIT_CLOCALE_H
#define KVS_KIT_CLOCALE_H

#include <stddef.h>

/* The shortest of 15 to 17 digits that reads back as the same bits; `n_bytes` at least 32. Gives the
 * length. */
size_t kvs_clocale_print(double number, char *ret_text, size_t n_bytes);
/* strtod. */
double kvs_clocale_read(const char *text, char **ret_end);

#endif
