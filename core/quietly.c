/* SPDX-License-Identifier: Apache-2.0 */
/* quietly.c - both signals go to the thread that writes, so it blocks them, and takes away the one it
 * caused. One that was pending before is the program's and stays. */
#include "quietly.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

ssize_t kvsi_write_quietly(int fd, const void *data, size_t n_bytes, off_t offset)
{
    const struct timespec at_once = {0, 0};
    sigset_t caused, before, pending;
    int number, error;
    ssize_t n;

    sigemptyset(&caused);
    sigaddset(&caused, SIGXFSZ);
    sigaddset(&caused, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &caused, &before);
    sigpending(&pending);
    n = offset < 0 ? write(fd, data, n_bytes) : pwrite(fd, data, n_bytes, offset);
    error = errno;
    number = n >= 0 ? 0 : error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
    if (number != 0 && sigismember(&pending, number) == 0) {
        sigemptyset(&caused);
        sigaddset(&caused, number);
        (void)sigtimedwait(&caused, NULL, &at_once); /* ignored signals are not pending */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}
