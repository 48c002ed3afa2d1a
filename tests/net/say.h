/* SPDX-License-Identifier: Apache-2.0 */
/* say.h - how a process of a test says what it does and hears: a line each, to whoever started it. Any
 * thread. */
#ifndef SAY_H
#define SAY_H

#include <kvstore/kvstore.h>

void say_line(const char *format, ...) KVS_PRINTF(1, 2);
/* "COMMAND KVS_OK", or "COMMAND STATUS: TEXT" with the text of the last error. */
void say_result(const char *command, kvs_status_t status);

#endif
