/* SPDX-License-Identifier: Apache-2.0 */
/* newfile.c - see newfile.h. Not mkostemp: it makes files that only their owner may read. */
#include "newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_TRIES 1000 /* names that may be taken, by what earlier crashes left */

static kvs_status_t fail_io(const char *path, const char *what)
{
    return kvs_fail(KVS_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* Where a link leads, so that the file is replaced and not the link. */
static char *resolved(const char *path)
{
    char *target = realpath(path, NULL);

    return target != NULL ? target : strdup(path);
}

static kvs_status_t check_place(const char *path)
{
    struct stat found;

    if (path[0] == '\0') {
        return kvs_fail(KVS_ERR_IO, "the path of the file is empty");
    }
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
        return kvs_fail(KVS_ERR_IO, "%s: is not a regular file, so it can't be replaced", path);
    }
    return KVS_OK;
}

static int open_temporary(kvs_newfile_t *file, size_t n_bytes)
{
    static uint32_t counter; /* other threads may save too */

    for (int i = 0; i < MAX_TRIES; i++) {
        snprintf(file->temporary, n_bytes, "%s.%ld-%u.tmp", file->path, (long)getpid(),
                 __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED));
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0 || errno != EEXIST) {
            break;
        }
    }
    return file->fd;
}

static void release(kvs_newfile_t *file)
{
    free(file->path);
    free(file->temporary);
    *file = (kvs_newfile_t){.fd = -1};
}

kvs_status_t kvs_newfile_open(const char *path, kvs_newfile_t *ret_file)
{
    kvs_newfile_t file = {.fd = -1};
    kvs_status_t status = check_place(path);
    size_t n_bytes;

    if (status != KVS_OK) {
        return status;
    }
    file.path = resolved(path);
    n_bytes = file.path != NULL ? strlen(file.path) + 48 : 0;
    file.temporary = file.path != NULL ? malloc(n_bytes) : NULL;
    if (file.temporary == NULL) {
        release(&file);
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to write it", path);
    }
    if (open_temporary(&file, n_bytes) < 0) {
        status = fail_io(path, "cannot be made");
        release(&file);
        return status;
    }
    *ret_file = file;
    return KVS_OK;
}

/* write(2), which gives EFBIG at a limit of file sizes also where the signal that comes with it would
 * end the process. One that was pending before is the program's and stays. */
static ssize_t write_quietly(int fd, const void *data, size_t n_bytes)
{
    const struct timespec at_once = {0, 0};
    sigset_t caused, before, pending;
    ssize_t n;
    int error;

    sigemptyset(&caused);
    sigaddset(&caused, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &caused, &before);
    sigpending(&pending);
    n = write(fd, data, n_bytes);
    error = errno;
    if (n < 0 && error == EFBIG && sigismember(&pending, SIGXFSZ) == 0) {
        (void)sigtimedwait(&caused, NULL, &at_once); /* an ignored one is not pending */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

kvs_status_t kvs_newfile_write(kvs_newfile_t *file, const void *data, size_t n_bytes)
{
    const char *at = data;

    while (n_bytes > 0) {
        size_t n_most = n_bytes < (size_t)1 << 30 ? n_bytes : (size_t)1 << 30;
        ssize_t n = write_quietly(file->fd, at, n_most);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return fail_io(file->path, "cannot be written");
        }
        at += n;
        n_bytes -= (size_t)n;
    }
    return KVS_OK;
}

void kvs_newfile_abandon(kvs_newfile_t *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        unlink(file->temporary);
    }
    release(file);
}

/* Bring the directory's new entry to the disk. Some file systems have nothing to bring, and a directory
 * that may be written but not read can't be asked to. */
static kvs_status_t sync_directory(const kvs_newfile_t *file)
{
    char *name = dirname(file->temporary); /* which is no longer needed */
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kvs_status_t status = KVS_OK;

    if (fd < 0 ? errno != EACCES : fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) {
        status = fail_io(file->path, "is written, but its directory can't be brought to the disk");
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

kvs_status_t kvs_newfile_commit(kvs_newfile_t *file)
{
    kvs_status_t status = KVS_OK;

    if (fsync(file->fd) != 0) {
        status = fail_io(file->path, "cannot be brought to the disk");
    } else if (rename(file->temporary, file->path) != 0) {
        status = fail_io(file->path, "cannot be replaced");
    }
    if (status != KVS_OK) {
        kvs_newfile_abandon(file);
        return status;
    }
    close(file->fd); /* fsync has told what a close could */
    file->fd = -1;
    status = sync_directory(file);
    release(file);
    return status;
}
