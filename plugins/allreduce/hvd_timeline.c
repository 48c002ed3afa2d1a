/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Opened before the job's thread begins, closed after it has ended; in between that thread's alone. */
static FILE *file;
static int own_rank;
static const char *separator;
static uint64_t n_waits;

int64_t hvd_timeline_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

kvs_status_t hvd_timeline_open(const char *path, int rank)
{
    char name[4096];

    if (path[0] == '\0' || file != NULL) {
        return KVS_OK;
    }
    snprintf(name, sizeof(name), rank == 0 ? "%s" : "%s.%d", path, rank);
    file = fopen(name, "we");
    if (file == NULL) {
        return kvs_fail(KVS_ERR_IO, "timeline: %s: %s", name, strerror(errno));
    }
    own_rank = rank;
    separator = "";
    (void)fputs("[\n", file); /* what can't be written is seen after the next event */
    return KVS_OK;
}

/* Whoever looks at the file is to know that it is not whole; exchanges go on. */
static void end_if_broken(void)
{
    if (ferror(file)) {
        kvs_log(KVS_LOG_WARN, "horovod", "the timeline ends here, as it can't be written: %s",
                strerror(errno));
        (void)fclose(file);
        file = NULL;
    }
}

void hvd_timeline_close(void)
{
    if (file == NULL) {
        return;
    }
    (void)fputs("\n]\n", file);
    if (fclose(file) != 0) {
        kvs_log(KVS_LOG_WARN, "horovod", "the timeline is not whole: %s", strerror(errno));
    }
    file = NULL;
}

/* The key as the end of an event's arguments. */
static void write_key(const kvs_key_entry_t *key)
{
    fputs("\"key\":\"", file);
    for (const char *c = key->name; c != NULL && *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20) {
            fprintf(file, "\\u%04x", (unsigned)*c);
        } else {
            fprintf(file, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        }
    }
    if (key->name == NULL) {
        fprintf(file, "%" PRId64, key->number);
    }
    fputs("\"}}", file);
}

static void write_head(const char *what, char phase, int64_t at)
{
    fprintf(file, "%s{\"name\":\"%s\",\"ph\":\"%c\",\"pid\":%d,\"tid\":0,\"ts\":%" PRId64,
            separator, what, phase, own_rank, at);
    separator = ",\n";
}

/* Such spans overlap as they like: they have two ends, and a number that these share. */
void hvd_timeline_wait(const char *what, const kvs_key_entry_t *key, int64_t begin, int64_t end)
{
    if (file == NULL || key == NULL) {
        return;
    }
    write_head(what, 'b', begin);
    fprintf(file, ",\"cat\":\"wait\",\"id\":%" PRIu64 ",\"args\":{", ++n_waits);
    write_key(key);
    write_head(what, 'e', end);
    fprintf(file, ",\"cat\":\"wait\",\"id\":%" PRIu64 "}", n_waits);
    end_if_broken();
}

void hvd_timeline_exchange(const kvs_key_entry_t *key, size_t n, int64_t begin, int64_t end)
{
    if (file == NULL || key == NULL) {
        return;
    }
    write_head("exchange", 'X', begin);
    fprintf(file, ",\"dur\":%" PRId64 ",\"args\":{\"fused\":%zu,", end - begin, n);
    write_key(key);
    end_if_broken();
}
