/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h - texts for people, whoever they come from: a key, a path or a manifest may hold what a
 * terminal or a log acts on. What is text stays as it is. */
#ifndef KVSI_PRINTABLE_H
#define KVSI_PRINTABLE_H

#include <stddef.h>

/* Copy `text`; control characters and bytes that are no UTF-8 become \n, \t, \r or \xNN. A backslash
 * stays, so that a text may pass here twice. What does not fit in `n_bytes`, at least 4, is cut between
 * characters and ends in "...". */
void kvsi_printable(const char *text, char *out, size_t n_bytes);

#endif
