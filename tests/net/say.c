/* SPDX-License-Identifier: Apache-2.0 */
#include "say.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void say_line(const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&lock);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&lock);
}

void say_result(const char *command, kvs_status_t status)
{
    if (status == KVS_OK) {
        say_line("%s KVS_OK", command);
    } else {
        say_line("%s %s: %s", command, kvs_status_name(status), kvs_last_error());
    }
}
