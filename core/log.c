/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - a line is put together in a buffer and written whole. */
#include "log.h"

#include "cnumber.h"
#include "printable.h"
#include "quietly.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1200

static const char *const level_names[] = {"", "error", "warn", "info", "debug", "trace"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int shown_level = KVS_LOG_WARN; /* relaxed: a line more or less does not matter */
static char shown_areas[256]; /* ",loader,engine,", or empty for all; guarded by lock */

static void set(const char *setting)
{
    size_t len = strcspn(setting, ",");

    for (int level = KVS_LOG_ERROR; level <= KVS_LOG_TRACE; level++) {
        if (strlen(level_names[level]) == len &&
            strncasecmp(setting, level_names[level], len) == 0) {
            pthread_mutex_lock(&lock);
            shown_areas[0] = '\0';
            if (setting[len] == ',' && setting[len + 1] != '\0') {
                snprintf(shown_areas, sizeof(shown_areas), "%s,", setting + len);
            }
            pthread_mutex_unlock(&lock);
            shown_level = level;
        }
    }
}

/* Another thread of the parent may have held it, which is not in the child. */
static void forget_lock(void)
{
    pthread_mutex_init(&lock, NULL);
}

static void read_variable(void)
{
    const char *text = secure_getenv("KVSTORE_LOG");

    (void)pthread_atfork(NULL, NULL,
                         forget_lock); /* without memory a child might wait for a line */
    if (text != NULL) {
        set(text);
    }
}

/* Before anything else is set or shown, so that the variable never undoes a later setting. */
static void read_variable_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_variable);
}

void kvsi_log_set(const char *setting)
{
    read_variable_once();
    set(setting);
}

static bool is_shown(int level, const char *area)
{
    char word[64];
    bool shown;

    read_variable_once();
    if (level > shown_level || level < KVS_LOG_ERROR) {
        return false;
    }
    snprintf(word, sizeof(word), ",%s,", area);
    pthread_mutex_lock(&lock);
    shown = shown_areas[0] == '\0' || strstr(shown_areas, word) != NULL;
    pthread_mutex_unlock(&lock);
    return shown;
}

void kvsi_log(int level, const char *area, const char *format, ...)
{
    char line[LINE_BYTES], body[LINE_BYTES];
    va_list args;
    int head;
    size_t n;

    if (!is_shown(level, area)) {
        return;
    }
    head = snprintf(line, sizeof(line), "kvstore %s %s: ", level_names[level], area);
    va_start(args, format);
    kvsi_c_vsnprintf(body, sizeof(body), format, args);
    va_end(args);
    kvsi_printable(body, line + head, sizeof(line) - (size_t)head - 1);
    n = strlen(line);
    line[n] = '\n';
    if (kvsi_write_quietly(STDERR_FILENO, line, n + 1, -1) < 0) {
        return; /* nowhere to complain */
    }
}
