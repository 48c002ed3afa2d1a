/* SPDX-License-Identifier: Apache-2.0 */
/* inflow.c - gzip is started without a shell, so any path will do, and reads the opened file as its
 * standard input. */
#include "inflow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Start `gzip -dc` from `from` to `to`; 0 or an errno. */
static int start_gzip(int from, int to, pid_t *ret_gzip)
{
    char *const args[] = {"gzip", "-dc", NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    }
    if (error == 0) {
        error = posix_spawnp(ret_gzip, "gzip", &actions, NULL, args, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static kvs_status_t open_packed(int packed, const char *path, inflow_t *ret_inflow)
{
    int ends[2];
    int error;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return kvs_fail(KVS_ERR_IO, "%s.gz: no pipe to unpack it: %s", path, strerror(errno));
    }
    error = start_gzip(packed, ends[1], &ret_inflow->gzip);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return kvs_fail(KVS_ERR_IO, "%s.gz: cannot start gzip to unpack it: %s", path,
                        strerror(error));
    }
    ret_inflow->file = fdopen(ends[0], "rb");
    if (ret_inflow->file == NULL) {
        close(ends[0]);
        (void)waitpid(ret_inflow->gzip, NULL, 0); /* it ends, having lost its reader */
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s.gz: no memory to read it", path);
    }
    return KVS_OK;
}

kvs_status_t inflow_open(const char *path, inflow_t *ret_inflow)
{
    char packed_path[PATH_MAX + 4];
    kvs_status_t status;
    int packed;

    ret_inflow->gzip = 0;
    ret_inflow->file = fopen(path, "rbe");
    if (ret_inflow->file != NULL) {
        return KVS_OK;
    }
    if (errno != ENOENT) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    snprintf(packed_path, sizeof(packed_path), "%s.gz", path);
    packed = open(packed_path, O_RDONLY | O_CLOEXEC);
    if (packed < 0 && errno == ENOENT) {
        return kvs_fail(KVS_ERR_NOT_FOUND, "%s: no such file, nor one with .gz", path);
    }
    if (packed < 0) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", packed_path, strerror(errno));
    }
    status = open_packed(packed, path, ret_inflow);
    close(packed);
    return status;
}

/* What gzip makes of the rest of the file, too. */
static int gzip_succeeds(const inflow_t *inflow)
{
    char rest[4096];
    int how;

    while (fread(rest, 1, sizeof(rest), inflow->file) == sizeof(rest)) {
    }
    return waitpid(inflow->gzip, &how, 0) == inflow->gzip && WIFEXITED(how) &&
           WEXITSTATUS(how) == 0;
}

kvs_status_t inflow_close(inflow_t *inflow, const char *path)
{
    int damaged = inflow->gzip > 0 && !gzip_succeeds(inflow);
    int failed = ferror(inflow->file);

    fclose(inflow->file);
    if (damaged) {
        return kvs_fail(KVS_ERR_IO, "%s.gz: damaged: gzip cannot unpack it", path);
    }
    return failed ? kvs_fail(KVS_ERR_IO, "%s: cannot be read to its end", path) : KVS_OK;
}
