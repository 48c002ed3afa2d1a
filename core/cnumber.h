/* SPDX-License-Identifier: Apache-2.0 */
/* cnumber.h - numbers with a decimal point, whatever the program's locale is. Any thread. */
#ifndef KVSI_CNUMBER_H
#define KVSI_CNUMBER_H

#include <stdarg.h>
#include <stddef.h>

/* strtod and vsnprintf. */
double kvsi_c_strtod(const char *text, char **ret_end);
int kvsi_c_vsnprintf(char *text, size_t n_bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
