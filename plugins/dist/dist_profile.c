/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_profile.h"

#include <kvstore/net.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SPANS    200000
#define DEFAULT_FILE "profile.json"

typedef struct dist_span {
    char name[112];
    int64_t begin_ns, end_ns;
    uint64_t n_bytes;
} dist_span_t;

void dist_profile_release(dist_profile_t *profile)
{
    free(profile->spans);
    *profile = (dist_profile_t){.n = 0};
}

void dist_profile_add(dist_profile_t *profile, const char *name, int64_t begin_ns, int64_t end_ns,
                      uint64_t n_bytes)
{
    dist_span_t *span;

    if (!profile->runs || profile->paused) {
        return;
    }
    if (profile->n == profile->capacity) {
        size_t capacity = profile->capacity == 0 ? 1024 : 2 * profile->capacity;
        dist_span_t *grown =
            profile->n >= MAX_SPANS ? NULL : realloc(profile->spans, capacity * sizeof(*grown));

        if (grown == NULL) {
            profile->n_dropped++;
            return;
        }
        profile->spans = grown;
        profile->capacity = capacity;
    }
    span = &profile->spans[profile->n++];
    *span = (dist_span_t){.begin_ns = begin_ns, .end_ns = end_ns, .n_bytes = n_bytes};
    snprintf(span->name, sizeof(span->name), "%s", name);
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', out);
        }
        if (*c >= 0x20) {
            fputc(*c, out);
        }
    }
    fputc('"', out);
}

static void put_spans(FILE *out, const dist_profile_t *profile, int rank)
{
    fprintf(out,
            "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": "
            "\"kvstore server %d\"}}",
            (int)getpid(), rank);
    for (size_t i = 0; i < profile->n; i++) {
        const dist_span_t *span = &profile->spans[i];
        char times[64];

        fprintf(out, ",\n{\"name\": ");
        put_text(out, span->name);
        kvs_net_print(times, sizeof(times), "\"ts\": %.3f, \"dur\": %.3f",
                      (double)span->begin_ns / 1000,
                      (double)(span->end_ns - span->begin_ns) / 1000);
        fprintf(out,
                ", \"cat\": \"round\", \"ph\": \"X\", %s, \"pid\": %d, "
                "\"tid\": %d, \"args\": {\"bytes\": %" PRIu64 "}}",
                times, (int)getpid(), rank, span->n_bytes);
    }
    fprintf(out, "\n]\n");
}

/* The name with rankR_ before its last part. */
static void path_of(const dist_profile_t *profile, int rank, char *path, size_t n_bytes)
{
    const char *file = profile->file[0] == '\0' ? DEFAULT_FILE : profile->file;
    const char *slash = strrchr(file, '/');
    int n_dir = slash == NULL ? 0 : (int)(slash + 1 - file);

    snprintf(path, n_bytes, "%.*srank%d_%s", n_dir, file, rank, file + n_dir);
}

static kvs_status_t dump(const dist_profile_t *profile, int rank)
{
    char path[640];
    FILE *out;
    int failed;

    path_of(profile, rank, path, sizeof(path));
    out = fopen(path, "we");
    if (out == NULL) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    put_spans(out, profile, rank);
    failed = ferror(out);
    failed |= fclose(out) != 0;
    if (failed) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (profile->n_dropped > 0) {
        kvs_log(KVS_LOG_WARN, "dist", "%s: %zu spans more than %d are left out", path,
                profile->n_dropped, MAX_SPANS);
    }
    return KVS_OK;
}

/* ---- Commands ------------------------------------------------------------------------------------------ */

static kvs_status_t configure(dist_profile_t *profile, char *settings)
{
    for (char *rest = settings, *one = strsep(&rest, ","); one != NULL; one = strsep(&rest, ",")) {
        char *value = strchr(one, ':');

        if (value == NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT,
                            "profiler: \"%.80s\" is no setting; accepted is name:value,...", one);
        }
        *value++ = '\0';
        if (strcmp(one, "filename") == 0) {
            if (*value == '\0' || strlen(value) >= sizeof(profile->file)) {
                return kvs_fail(KVS_ERR_ARGUMENT, "profiler: the filename is empty or too long");
            }
            strcpy(profile->file, value);
        } /* MXNet's others say what to record: here it is always the rounds */
    }
    return KVS_OK;
}

static kvs_status_t set_flag(bool *flag, const char *text, const char *what)
{
    if (text[0] != '0' && text[0] != '1') {
        return kvs_fail(KVS_ERR_ARGUMENT, "profiler: %s is \"%.20s\"; accepted are 0 and 1", what,
                        text);
    }
    *flag = text[0] == '1';
    return KVS_OK;
}

kvs_status_t dist_profile_command(dist_profile_t *profile, int rank, const char *body, size_t n)
{
    char text[1024];

    if (n == 0 || n >= sizeof(text) || body[n - 1] < '0' || body[n - 1] > '3') {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "profiler: a command is a text of less than 1023 bytes and a digit: 0 "
                        "settings, 1 state, 2 pause, 3 dump");
    }
    memcpy(text, body, n - 1);
    text[n - 1] = '\0';
    switch (body[n - 1]) {
    case '0':
        return configure(profile, text);
    case '1':
        return set_flag(&profile->runs, text, "the state");
    case '2':
        return set_flag(&profile->paused, text, "the pause");
    default:
        return dump(profile, rank);
    }
}
