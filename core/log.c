/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - the setting is read once; a line is put together in a buffer and written whole. */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"", "error", "warn", "info", "debug", "trace"};
static int shown_level = KVS_LOG_WARN; /* fixed after read_setting, as is shown_areas */
static char shown_areas[256];          /* ",loader,engine,", or empty for all */

static void read_setting(void)
{
    const char *text = secure_getenv("KVSTORE_LOG");
    size_t len = text == NULL ? 0 : strcspn(text, ",");

    for (int level = KVS_LOG_ERROR; text != NULL && level <= KVS_LOG_TRACE; level++) {
        if (strlen(level_names[level]) == len && strncmp(text, level_names[level], len) == 0) {
            shown_level = level;
        }
    }
    if (text != NULL && text[len] == ',') {
        snprintf(shown_areas, sizeof(shown_areas), "%s,", text + len);
    }
}

static int is_shown(int level, const char *area)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char word[64];

    pthread_once(&once, read_setting);
    if (level > shown_level || level < KVS_LOG_ERROR) {
        return 0;
    }
    snprintf(word, sizeof(word), ",%s,", area);
    return shown_areas[0] == '\0' || strstr(shown_areas, word) != NULL;
}

void kvsi_log(int level, const char *area, const char *format, ...)
{
    char line[1200];
    va_list args;
    int head, body;
    size_t n;

    if (!is_shown(level, area)) {
        return;
    }
    head = snprintf(line, sizeof(line), "kvstore %s %s: ", level_names[level], area);
    va_start(args, format);
    body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
    va_end(args);
    n = (size_t)head + (size_t)(body < 0 ? 0 : body);
    n = n < sizeof(line) - 2 ? n : sizeof(line) - 2;
    line[n] = '\n';
    if (write(STDERR_FILENO, line, n + 1) < 0) {
        return; /* nowhere to complain */
    }
}
