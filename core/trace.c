/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - spans gather in a buffer; each flush overwrites the closing bracket of the last one, so
 * that the file is whole whenever the process ends. */
#include "trace.h"

#include "futex.h"
#include "log.h"
#include "printable.h"
#include "quietly.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (64 * 1024)
#define EVENT_BYTES  512

static atomic_bool is_on; /* relaxed: a span more or less at the start does not matter */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1; /* guarded by lock, as all below */
static off_t end;   /* where the closing bracket stands */
static char buffer[BUFFER_BYTES];
static size_t used;
static pid_t owner; /* a forked child must not write into its parent's file */

/* A full disk costs the trace, not the training; said once. */
static void tell_failure(int error)
{
    static bool told;

    if (!told) {
        told = true;
        kvsi_log(KVS_LOG_ERROR, "trace", "the trace file is cut: %s", strerror(error));
    }
}

static void flush_locked(void)
{
    size_t written = 0;

    if (fd < 0 || used == 0 || owner != getpid()) {
        used = 0;
        return;
    }
    memcpy(buffer + used, "\n]\n", 3);
    while (written < used + 3) {
        ssize_t n =
            kvsi_write_quietly(fd, buffer + written, used + 3 - written, end + (off_t)written);

        if (n < 0 && errno != EINTR) {
            tell_failure(errno);
            break;
        }
        written += n > 0 ? (size_t)n : 0;
    }
    end += (off_t)used;
    used = 0;
}

/* Another thread of the parent may have held it, which is not in the child; nor is the file the child's. */
static void forget_lock(void)
{
    pthread_mutex_init(&lock, NULL);
    used = 0;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL,
                         forget_lock); /* without memory a child might wait for a span */
}

static kvs_status_t fail_open(const char *path)
{
    return kvs_fail(KVS_ERR_IO, "trace: %s: %s", path, strerror(errno));
}

kvs_status_t kvsi_trace_try(const char *path)
{
    char copy[PATH_MAX];
    int file = path[0] == '\0' ? -1 : open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

    if (file >= 0) {
        close(file);
        return KVS_OK;
    }
    if (path[0] == '\0') {
        return KVS_OK;
    }
    if (errno != ENOENT || strlen(path) >= sizeof(copy)) {
        return fail_open(path);
    }
    /* It would be made: that takes a directory that may be written. */
    strcpy(copy, path);
    return faccessat(AT_FDCWD, dirname(copy), W_OK | X_OK, AT_EACCESS) == 0 ? KVS_OK
                                                                            : fail_open(path);
}

kvs_status_t kvsi_trace_open(const char *path)
{
    static pthread_once_t forks_once = PTHREAD_ONCE_INIT;
    kvs_status_t status = KVS_OK;

    if (path[0] == '\0') {
        return KVS_OK;
    }
    pthread_once(&forks_once, watch_forks);
    pthread_mutex_lock(&lock);
    if (fd < 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
        if (fd < 0) {
            status = fail_open(path);
        } else {
            owner = getpid();
            used = (size_t)snprintf(buffer, sizeof(buffer),
                                    "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, "
                                    "\"args\": {\"name\": \"kvstore\"}}",
                                    (int)owner);
            flush_locked();
            atomic_store_explicit(&is_on, true, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int64_t kvsi_trace_begin(void)
{
    return atomic_load_explicit(&is_on, memory_order_relaxed) ? kvsi_now_ns() : 0;
}

/* `text` as a JSON string's inside, cut where it does not fit. */
static void escape(const char *text, char *out, size_t n_bytes)
{
    char shown[64];
    size_t n = 0;

    kvsi_printable(text, shown, sizeof(shown));
    for (const char *c = shown; *c != '\0' && n + 2 < n_bytes; c++) {
        if (*c == '"' || *c == '\\') {
            out[n++] = '\\';
        }
        out[n++] = *c;
    }
    out[n] = '\0';
}

void kvsi_trace_end(int64_t begin, const char *name, const char *detail, uint64_t n_bytes)
{
    char safe_name[64], safe_detail[128];
    int64_t now;

    if (begin == 0) {
        return;
    }
    now = kvsi_now_ns();
    escape(name, safe_name, sizeof(safe_name));
    escape(detail, safe_detail, sizeof(safe_detail));
    pthread_mutex_lock(&lock);
    if (used + EVENT_BYTES > sizeof(buffer)) {
        flush_locked();
    }
    used += (size_t)snprintf(buffer + used, sizeof(buffer) - used,
                             ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %ld, "
                             "\"ts\": %lld.%03d, \"dur\": %lld.%03d, \"args\": {\"keys\": \"%s\", "
                             "\"bytes\": %llu}}",
                             safe_name, (int)owner, syscall(SYS_gettid), (long long)(begin / 1000),
                             (int)(begin % 1000), (long long)((now - begin) / 1000),
                             (int)((now - begin) % 1000), safe_detail, (unsigned long long)n_bytes);
    pthread_mutex_unlock(&lock);
}

void kvsi_trace_flush(void)
{
    if (!atomic_load_explicit(&is_on, memory_order_relaxed)) {
        return; /* nor are forks watched, so that a child might wait for the lock */
    }
    pthread_mutex_lock(&lock);
    flush_locked();
    pthread_mutex_unlock(&lock);
}

/* A process that ends without closing its stores keeps its trace. */
__attribute__((destructor)) static void flush_at_exit(void)
{
    if (pthread_mutex_trylock(&lock) == 0) {
        flush_locked();
        pthread_mutex_unlock(&lock);
    }
}
