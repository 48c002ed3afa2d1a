/* SPDX-License-Identifier: Apache-2.0 */
#include "run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The environment --------------------------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    (void)setenv(name, text, 1);
}

/* Both ways of saying it: KVSTORE_* and, for programs of others, DMLC_*. */
static void set_environment(const run_child_t *child, const run_job_t *job)
{
    char host[sizeof(job->scheduler)];
    char *colon;
    int is_worker = strcmp(child->role, "worker") == 0;

    snprintf(host, sizeof(host), "%s", job->scheduler);
    colon = strrchr(host, ':');
    (void)setenv("KVSTORE_ROLE", child->role, 1);
    (void)setenv("KVSTORE_SCHEDULER", job->scheduler, 1);
    (void)setenv("KVSTORE_JOB_ID", job->job_id, 1);
    (void)setenv("KVSTORE_DEFAULT", job->backend, 1);
    set_number("KVSTORE_RANK", child->rank);
    set_number("KVSTORE_NUM_WORKERS", job->n_workers);
    set_number("KVSTORE_NUM_SERVERS", job->n_servers);
    (void)setenv("DMLC_ROLE", child->role, 1);
    set_number("DMLC_NUM_WORKER", job->n_workers);
    set_number("DMLC_NUM_SERVER", job->n_servers);
    set_number(is_worker ? "DMLC_WORKER_ID" : "DMLC_SERVER_ID", child->rank);
    (void)unsetenv(is_worker ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID");
    if (colon != NULL) {
        *colon = '\0';
        (void)setenv("DMLC_PS_ROOT_URI", host, 1);
        (void)setenv("DMLC_PS_ROOT_PORT", colon + 1, 1);
    }
}

/* ---- Starting ---------------------------------------------------------------------------------------- */

/* In the child. Descriptors other than 0, 1, 2 and `kept_fd` are close-on-exec. */
static void become(const run_child_t *child, const run_job_t *job, char *const *argv, int kept_fd,
                   const int *out, const int *err, pid_t parent)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)setpgid(0, 0);
    /* Should `kvstore run` be killed: the guard kills groups, this the process itself, at once. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0) {
        _exit(127);
    }
    if (kept_fd >= 0) {
        (void)fcntl(kept_fd, F_SETFD, 0);
    }
    set_environment(child, job);
    execvp(argv[0], argv);
    fprintf(stderr, "cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void close_both(int *ends)
{
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void keep(run_stream_t *stream, const int *ends)
{
    (void)close(ends[1]);
    stream->fd = ends[0];
    stream->n = 0;
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

int run_child_start(run_child_t *child, const run_job_t *job, char *const *argv, int kept_fd)
{
    int out[2], err[2];
    pid_t parent = getpid();

    if (pipe2(out, O_CLOEXEC) != 0) {
        return -1;
    }
    if (pipe2(err, O_CLOEXEC) != 0) {
        close_both(out);
        return -1;
    }
    child->pid = fork();
    if (child->pid == 0) {
        become(child, job, argv, kept_fd, out, err, parent);
    }
    if (child->pid < 0) {
        child->pid = 0;
        close_both(out);
        close_both(err);
        return -1;
    }
    (void)setpgid(child->pid, child->pid); /* here too, so that it is so at once */
    keep(&child->out, out);
    keep(&child->err, err);
    return 0;
}

/* ---- Output ------------------------------------------------------------------------------------------ */

static void write_all(int to, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(to, bytes, n);

        if (written < 0 && errno != EINTR) {
            return; /* nobody reads us any more; the job goes on */
        }
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
}

static void write_line(const run_child_t *child, int to, const char *line, size_t n)
{
    char text[RUN_LINE_BYTES + 64];
    int head = snprintf(text, sizeof(text), "[%s] ", child->name);

    memcpy(text + head, line, n);
    n += (size_t)head;
    if (text[n - 1] != '\n') {
        text[n++] = '\n';
    }
    write_all(to, text, n);
}

static void write_lines(const run_child_t *child, run_stream_t *stream, int to)
{
    char *line = stream->line, *end = stream->line + stream->n, *newline;

    while (line < end && (newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        write_line(child, to, line, (size_t)(newline + 1 - line));
        line = newline + 1;
    }
    stream->n = (size_t)(end - line);
    memmove(stream->line, line, stream->n);
    if (stream->n == sizeof(stream->line)) {
        write_line(child, to, stream->line, stream->n);
        stream->n = 0;
    }
}

static void close_stream(const run_child_t *child, run_stream_t *stream, int to)
{
    if (stream->n > 0) {
        write_line(child, to, stream->line, stream->n);
        stream->n = 0;
    }
    (void)close(stream->fd);
    stream->fd = -1;
}

/* One read. 1: there was something; 0: nothing now; -1: the stream is closed. */
static int read_some(const run_child_t *child, run_stream_t *stream, int to)
{
    ssize_t n = read(stream->fd, stream->line + stream->n, sizeof(stream->line) - stream->n);

    if (n > 0) {
        stream->n += (size_t)n;
        write_lines(child, stream, to);
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    close_stream(child, stream, to);
    return -1;
}

void run_child_pass_on(run_child_t *child, run_stream_t *stream, int to)
{
    (void)read_some(child, stream, to);
}

static void drain(run_child_t *child, run_stream_t *stream, int to)
{
    int more = stream->fd >= 0 ? 1 : -1;

    while (more > 0) {
        more = read_some(child, stream, to);
    }
    if (more == 0) {
        close_stream(child, stream, to);
    }
}

void run_child_drain(run_child_t *child)
{
    drain(child, &child->out, STDOUT_FILENO);
    drain(child, &child->err, STDERR_FILENO);
}

int run_child_exit_status(const run_child_t *child)
{
    return WIFEXITED(child->status) ? WEXITSTATUS(child->status) : 128 + WTERMSIG(child->status);
}
