/* SPDX-License-Identifier: Apache-2.0 */
/* conffile.c - line by line; a malformed line is an error of the whole file, since half a
 * configuration is worse than none. */
#include "conffile.h"

#include "environment.h"
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_BYTES (64 * 1024)

const kvsi_conf_entry_t *kvsi_conf_find(const kvsi_conf_t *conf, const char *key)
{
    for (const kvsi_conf_entry_t *entry = conf->first; entry != NULL; entry = entry->next) {
        if (strcmp(entry->key, key) == 0) {
            return entry;
        }
    }
    return NULL;
}

static bool is_key_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* One line, [begin, end), that is neither empty nor a comment. */
static kvs_status_t parse_line(kvsi_arena_t *arena, const char *path, int line, const char *begin,
                               const char *end, kvsi_conf_t *conf)
{
    const char *key_end = begin, *value;
    kvsi_conf_entry_t *entry;

    while (key_end < end && is_key_char(*key_end)) {
        key_end++;
    }
    value = key_end;
    while (value < end && is_blank(*value)) {
        value++;
    }
    if (key_end == begin || value == end || *value != '=') {
        return kvs_fail(KVS_ERR_FORMAT, "%s:%d: expected \"key = value\"", path, line);
    }
    do {
        value++;
    } while (value < end && is_blank(*value));
    entry = kvsi_arena_array(arena, 1, sizeof(*entry));
    if (entry != NULL) {
        entry->key = kvsi_arena_copy(arena, begin, (size_t)(key_end - begin));
        entry->value = kvsi_arena_copy(arena, value, (size_t)(end - value));
        entry->origin = kvsi_arena_text(arena, "%s:%d", path, line);
        entry->next = conf->first;
        conf->first = entry;
    }
    return KVS_OK;
}

kvs_status_t kvsi_conf_parse(kvsi_arena_t *arena, const char *path, const char *text,
                             size_t n_bytes, kvsi_conf_t *conf)
{
    const char *end_of_text = text + n_bytes;
    kvs_status_t status = KVS_OK;

    if (n_bytes > MAX_BYTES) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: larger than %d bytes", path, MAX_BYTES);
    }
    if (memchr(text, '\0', n_bytes) != NULL) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: holds a NUL byte", path);
    }
    for (int line = 1; text < end_of_text && status == KVS_OK; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end_of_text - text));
        const char *end = newline == NULL ? end_of_text : newline;
        const char *begin = text;

        text = newline == NULL ? end_of_text : newline + 1;
        while (begin < end && is_blank(*begin)) {
            begin++;
        }
        while (end > begin && is_blank(end[-1])) {
            end--;
        }
        if (begin < end && *begin != '#') {
            status = parse_line(arena, path, line, begin, end, conf);
        }
    }
    return status != KVS_OK ? status : kvsi_arena_check(arena);
}

/* The user's own file may be out of reach: HOME is often that of somebody else, and a program that has
 * given up its rights must still work. */
static kvs_status_t pass_over(const char *path)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&told)) {
        kvsi_log(KVS_LOG_WARN, "config", "%s is ignored: %s", path, strerror(EACCES));
    }
    return KVS_OK;
}

static kvs_status_t read_file(kvsi_arena_t *arena, const char *path, bool is_users,
                              kvsi_conf_t *conf)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait for a writer */
    FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
    struct stat st;
    char *text;
    size_t n;
    kvs_status_t status;

    if (file == NULL && errno == EACCES && is_users) {
        return pass_over(path);
    }
    if (file == NULL) {
        return errno == ENOENT || errno == ENOTDIR
                   ? KVS_OK
                   : kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (fstat(fd, &st) != 0 || S_ISFIFO(st.st_mode)) {
        (void)fclose(file);
        return kvs_fail(KVS_ERR_IO, "%s: not a regular file", path);
    }
    text = malloc(MAX_BYTES + 1);
    n = text == NULL ? 0 : fread(text, 1, MAX_BYTES + 1, file);
    if (text == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to read it", path);
    } else if (ferror(file)) {
        status = kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    } else {
        status = kvsi_conf_parse(arena, path, text, n, conf);
    }
    free(text);
    (void)fclose(file); /* it was only read */
    return status;
}

kvs_status_t kvsi_conf_read(kvsi_arena_t *arena, kvsi_conf_t *ret_conf)
{
    const char *config = kvsi_env("XDG_CONFIG_HOME"), *home = kvsi_env("HOME");
    kvsi_conf_t conf = {NULL};
    kvs_status_t status = read_file(arena, "/etc/kvstore/kvstore.conf", false, &conf);

    if (status == KVS_OK && config != NULL && config[0] == '/') {
        status = read_file(arena, kvsi_arena_text(arena, "%s/kvstore/kvstore.conf", config), true,
                           &conf);
    } else if (status == KVS_OK && home != NULL && home[0] == '/') {
        status = read_file(arena, kvsi_arena_text(arena, "%s/.config/kvstore/kvstore.conf", home),
                           true, &conf);
    }
    if (status == KVS_OK) {
        *ret_conf = conf;
    }
    return status;
}
