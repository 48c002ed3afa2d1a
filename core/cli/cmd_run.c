/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c - `kvstore run`: a job on this host. Starts a scheduler, servers and workers with what each
 * has to know, and waits for them: signals, ends of processes and their output come to one loop.
 *
 * The first process that fails decides the exit status, but for a server whose job goes on with the other
 * servers and ends well. When one fails that is needed, the others have a grace time to find out, and
 * to say, what has happened; then they are told to end, and at last killed, whole groups of them. */
#include "commands.h"
#include "run_child.h"
#include "run_guard.h"

#include <kvstore/plugins.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 1000
#define ANNOUNCE_MS   60000 /* a scheduler that has not listened by then never will */
#define TERM_MS       2000  /* from being told to end to being killed */
#define AFTER_WORKERS 2.0   /* seconds that the others have when all workers have ended */

typedef struct run {
    run_job_t job;
    char *const *command;
    double grace;          /* seconds */
    run_child_t *children; /* the scheduler, servers, workers */
    int n_children;
    run_guard_t guard;
    int signals; /* a signalfd */
    int exit_status;
    int lost_status; /* of the first that failed, be it a server while others were left */
    int is_ending;   /* 1: waiting, 2: told to end, 3: killed */
    int64_t next_ms; /* when the next of these steps is due */
} run_t;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- The command line ---------------------------------------------------------------------------------- */

static int parse_count(const char *text, int min, int *ret_count)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > MAX_PROCESSES) {
        return -1;
    }
    *ret_count = (int)value;
    return 0;
}

/* As long as it takes to notice that a process is gone, and a little more. */
static double default_grace(void)
{
    const char *text = getenv("KVSTORE_DEAD_AFTER");
    double dead_after = text == NULL ? 15 : strtod(text, NULL);

    return (dead_after > 0 ? dead_after : 15) + 3;
}

static int parse_option(run_t *run, int option)
{
    char *end;

    switch (option) {
    case 'w':
        return parse_count(optarg, 1, &run->job.n_workers) == 0
                   ? 0
                   : cli_usage_error("run", "-w takes a number from 1 to %d, not \"%s\"",
                                     MAX_PROCESSES, optarg);
    case 's':
        return parse_count(optarg, 0, &run->job.n_servers) == 0
                   ? 0
                   : cli_usage_error("run", "-s takes a number from 0 to %d, not \"%s\"",
                                     MAX_PROCESSES, optarg);
    case 'b':
        run->job.backend = optarg;
        return 0;
    case 'g':
        run->grace = strtod(optarg, &end);
        return end != optarg && *end == '\0' && run->grace >= 0 && run->grace <= 1e6
                   ? 0
                   : cli_usage_error("run", "--grace takes seconds, not \"%s\"", optarg);
    default:
        return cli_usage_error("run", "unknown option, or without its value");
    }
}

/* Whether a job of that backend has servers at all: then it has an option that says how many. What is
 * not found here, the scheduler's own create will complain of. */
static int has_servers(const char *backend)
{
    const kvs_plugin_info_t *plugin = NULL;
    kvs_plugin_list_t *list = NULL;
    int has = 1;

    if (kvs_plugin_list(&list) == KVS_OK &&
        kvs_plugin_list_find(list, backend, &plugin) == KVS_OK) {
        has = 0;
        for (size_t i = 0; i < plugin->n_options; i++) {
            has |= strcmp(plugin->options[i].name, "num_servers") == 0;
        }
    }
    kvs_plugin_list_free(list);
    return has;
}

/* How many servers: as asked for, else one, or none where there is no use for one. */
static int count_servers(run_t *run)
{
    if (run->job.n_servers != 0 && !has_servers(run->job.backend)) {
        if (run->job.n_servers > 0) {
            return cli_usage_error("run", "a job of '%s' has no servers: leave out -s",
                                   run->job.backend);
        }
        run->job.n_servers = 0;
    }
    run->job.n_servers = run->job.n_servers < 0 ? 1 : run->job.n_servers;
    return 0;
}

/* 0, or the exit status of wrong usage. */
static int parse(int argc, char **argv, run_t *run)
{
    static const struct option options[] = {
        {"workers", required_argument, NULL, 'w'},
        {"servers", required_argument, NULL, 's'},
        {"backend", required_argument, NULL, 'b'},
        {"grace", required_argument, NULL, 'g'},
        {NULL, 0, NULL, 0},
    };
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "+w:s:", options, NULL)) != -1) {
        int usage = parse_option(run, option);

        if (usage != 0) {
            return usage;
        }
    }
    if (optind == argc) {
        return cli_usage_error("run", "the command is missing: kvstore run -w 2 -- COMMAND");
    }
    run->command = argv + optind;
    return count_servers(run);
}

/* The job is to end: by itself within the grace time, the shortest that was given, else told to. */
static void begin_end(run_t *run, int exit_status, double grace)
{
    int64_t next_ms = now_ms() + (int64_t)(grace * 1000);

    if (run->is_ending == 0) {
        run->exit_status = exit_status;
        run->is_ending = 1;
        run->next_ms = next_ms;
    } else if (run->is_ending == 1 && next_ms < run->next_ms) {
        run->next_ms = next_ms;
    }
}

/* ---- Starting ------------------------------------------------------------------------------------------- */

static int fail(const char *what)
{
    fprintf(stderr, "kvstore run: %s: %s\n", what, strerror(errno));
    return 1;
}

static int start(run_t *run, const char *role, int rank, char *const *argv, int kept_fd)
{
    run_child_t *child = &run->children[run->n_children++];

    child->role = role;
    child->rank = rank;
    child->out.fd = child->err.fd = -1;
    snprintf(child->name, sizeof(child->name), strcmp(role, "scheduler") == 0 ? "%s" : "%s %d",
             role, rank);
    if (run_child_start(child, &run->job, argv, kept_fd) != 0) {
        child->has_ended = 1;
        return fail("cannot start a process");
    }
    run_guard_watch(&run->guard, child->pid);
    return 0;
}

/* The address that the scheduler writes once it listens. 0, or -1 if it never does, because it ends,
 * which is told when it has, or is told to by a signal that waits, or takes too long. */
static int read_address(run_t *run, int fd)
{
    run_child_t *scheduler = &run->children[0];
    int64_t deadline = now_ms() + ANNOUNCE_MS;
    size_t n = 0;

    while (n < sizeof(run->job.scheduler) - 1) {
        struct pollfd fds[] = {{fd, POLLIN, 0},
                               {scheduler->out.fd, POLLIN, 0},
                               {scheduler->err.fd, POLLIN, 0},
                               {run->signals, POLLIN, 0}};
        int64_t left = deadline - now_ms();
        ssize_t got;

        if (left <= 0) {
            fprintf(stderr, "kvstore run: for %d s the scheduler has not said where it listens\n",
                    ANNOUNCE_MS / 1000);
            begin_end(run, 1, 0);
            return -1;
        }
        if ((poll(fds, 4, (int)left) < 0 && errno != EINTR) || fds[3].revents != 0) {
            return -1;
        }
        if (fds[1].revents != 0) {
            run_child_pass_on(scheduler, &scheduler->out, STDOUT_FILENO);
        }
        if (fds[2].revents != 0) {
            run_child_pass_on(scheduler, &scheduler->err, STDERR_FILENO);
        }
        if (fds[0].revents == 0) {
            continue;
        }
        got = read(fd, run->job.scheduler + n, sizeof(run->job.scheduler) - 1 - n);
        if (got <= 0) {
            return -1;
        }
        n += (size_t)got;
        if (run->job.scheduler[n - 1] == '\n') {
            run->job.scheduler[n - 1] = '\0';
            return 0;
        }
    }
    return -1;
}

static int start_scheduler(run_t *run, const char *self)
{
    char backend[64], path[32];
    char *argv[] = {
        (char *)(uintptr_t)self, "scheduler", "--announce", path, "--backend", backend, NULL};
    int ends[2], status;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail("cannot make a pipe");
    }
    snprintf(backend, sizeof(backend), "%s", run->job.backend);
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[1]);
    snprintf(run->job.scheduler, sizeof(run->job.scheduler), "127.0.0.1:0");
    status = start(run, "scheduler", 0, argv, ends[1]);
    (void)close(ends[1]);
    if (status == 0 && read_address(run, ends[0]) != 0) {
        run->job.scheduler[0] = '\0';
    }
    (void)close(ends[0]);
    return status;
}

static int start_all(run_t *run, const char *self)
{
    char backend[64];
    char *server[] = {(char *)(uintptr_t)self, "server", "--backend", backend, NULL};
    int status = start_scheduler(run, self);

    snprintf(backend, sizeof(backend), "%s", run->job.backend);
    if (status != 0 || run->job.scheduler[0] == '\0') {
        return status;
    }
    for (int i = 0; i < run->job.n_servers && status == 0; i++) {
        status = start(run, "server", i, server, -1);
    }
    for (int i = 0; i < run->job.n_workers && status == 0; i++) {
        status = start(run, "worker", i, run->command, -1);
    }
    return status;
}

/* ---- Ending --------------------------------------------------------------------------------------------- */

static void signal_all(const run_t *run, int number)
{
    for (int i = 0; i < run->n_children; i++) {
        if (run->children[i].pid > 0) {
            (void)kill(-run->children[i].pid, number); /* its group may be gone */
        }
    }
}

static int n_running(const run_t *run, const char *role)
{
    int n = 0;

    for (int i = 0; i < run->n_children; i++) {
        n += run->children[i].pid > 0 && !run->children[i].has_ended &&
             (role == NULL || strcmp(run->children[i].role, role) == 0);
    }
    return n;
}

static void name_running(const run_t *run, const char *what)
{
    const char *comma = " ";

    fprintf(stderr, "kvstore run: %s", what);
    for (int i = 0; i < run->n_children; i++) {
        if (run->children[i].pid > 0 && !run->children[i].has_ended) {
            fprintf(stderr, "%s%s", comma, run->children[i].name);
            comma = ", ";
        }
    }
    fputc('\n', stderr);
}

/* A step of an end that does not come by itself is due. */
static void force_end(run_t *run)
{
    if (run->is_ending == 1) {
        name_running(run, "told to end:");
        signal_all(run, SIGTERM);
    } else {
        signal_all(run, SIGKILL);
    }
    run->is_ending++;
    run->next_ms = now_ms() + TERM_MS;
}

static void tell_failure(const run_child_t *child)
{
    if (WIFSIGNALED(child->status)) {
        fprintf(stderr, "kvstore run: %s (pid %d) was killed by signal %d (%s)\n", child->name,
                (int)child->pid, WTERMSIG(child->status), strsignal(WTERMSIG(child->status)));
    } else {
        fprintf(stderr, "kvstore run: %s (pid %d) failed with exit status %d\n", child->name,
                (int)child->pid, run_child_exit_status(child));
    }
}

/* Workers of a backend that needs that server will fail; others do without it. */
static void note_failure(run_t *run, const run_child_t *child)
{
    int status = run_child_exit_status(child);

    tell_failure(child);
    run->lost_status = run->lost_status != 0 ? run->lost_status : status;
    if (strcmp(child->role, "server") == 0 && n_running(run, "server") > 0) {
        return;
    }
    run->is_ending = 0; /* this counts more than that all workers have ended */
    begin_end(run, run->lost_status, run->grace);
}

static void note_end(run_t *run, run_child_t *child)
{
    child->has_ended = 1;
    run_child_drain(child);
    if (child->status != 0 && run->is_ending < 2 && run->exit_status == 0) {
        note_failure(run, child);
    }
    if (n_running(run, "worker") == 0) {
        begin_end(run, 0, AFTER_WORKERS);
    }
}

/* In which order those have ended that are found at once, nobody tells: who was killed is the cause, and
 * others fail for it. */
static void note_ends(run_t *run, int killed_only)
{
    for (int i = 0; i < run->n_children; i++) {
        run_child_t *child = &run->children[i];

        if (child->is_reaped && !child->has_ended && (!killed_only || WIFSIGNALED(child->status))) {
            note_end(run, child);
        }
    }
}

static void reap(run_t *run)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < run->n_children; i++) {
            if (run->children[i].pid == pid) {
                run->children[i].status = status;
                run->children[i].is_reaped = 1;
            }
        }
    }
    note_ends(run, 1);
    note_ends(run, 0);
}

static void take_signal(run_t *run)
{
    struct signalfd_siginfo info;

    if (read(run->signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return;
    }
    if (info.ssi_signo == SIGCHLD) {
        reap(run);
        return;
    }
    fprintf(stderr, "kvstore run: ended by signal %u (%s)\n", info.ssi_signo,
            strsignal((int)info.ssi_signo));
    run->exit_status = 128 + (int)info.ssi_signo;
    signal_all(run, run->is_ending < 2 ? SIGTERM : SIGKILL);
    run->is_ending = 2;
    run->next_ms = now_ms() + TERM_MS;
}

/* ---- The loop -------------------------------------------------------------------------------------------- */

static int poll_timeout(const run_t *run)
{
    int64_t left = run->next_ms - now_ms();

    return run->is_ending == 0 ? -1 : left < 0 ? 0 : (int)left;
}

static void watch(run_t *run, struct pollfd *fds)
{
    for (int i = 0; i < run->n_children; i++) {
        fds[2 * i] = (struct pollfd){run->children[i].out.fd, POLLIN, 0};
        fds[2 * i + 1] = (struct pollfd){run->children[i].err.fd, POLLIN, 0};
    }
    fds[2 * run->n_children] = (struct pollfd){run->signals, POLLIN, 0};
    if (poll(fds, 2 * (nfds_t)run->n_children + 1, poll_timeout(run)) <= 0) {
        return;
    }
    for (int i = 0; i < run->n_children; i++) {
        run_child_t *child = &run->children[i];

        if (fds[2 * i].revents != 0) {
            run_child_pass_on(child, &child->out, STDOUT_FILENO);
        }
        if (fds[2 * i + 1].revents != 0) {
            run_child_pass_on(child, &child->err, STDERR_FILENO);
        }
    }
    if (fds[2 * run->n_children].revents != 0) {
        take_signal(run);
    }
}

static int loop(run_t *run)
{
    struct pollfd *fds = calloc(2 * (size_t)run->n_children + 1, sizeof(*fds));

    if (fds == NULL) {
        return fail("no memory");
    }
    while (n_running(run, NULL) > 0) {
        watch(run, fds);
        if (run->is_ending > 0 && now_ms() >= run->next_ms && n_running(run, NULL) > 0) {
            force_end(run);
        }
    }
    free(fds);
    return run->exit_status;
}

static int open_signals(run_t *run)
{
    /* who is stopped, as by a debugger, has not ended */
    const struct sigaction ends_only = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigset_t set;

    (void)sigaction(SIGCHLD, &ends_only, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals < 0 ? -1 : 0;
}

static int run_job(run_t *run, const char *self)
{
    int status;

    if (run_guard_start(&run->guard) != 0) {
        return fail("cannot start a process");
    }
    (void)fcntl(run->guard.pipe, F_SETFD, FD_CLOEXEC);
    (void)signal(SIGPIPE, SIG_IGN); /* output that nobody reads ends nothing */
    if (open_signals(run) != 0) {
        run_guard_end(&run->guard);
        return fail("cannot wait for signals");
    }
    if (start_all(run, self) != 0) {
        begin_end(run, 1, 0);
    }
    status = loop(run);
    if (status == 0 && run->job.scheduler[0] == '\0') {
        status = 1; /* nothing has been run */
    }
    signal_all(run, SIGKILL); /* what processes have left behind in their groups */
    run_guard_end(&run->guard);
    (void)close(run->signals);
    return status;
}

/* The one that the user has given, unless it is that of a job of which this process is a part. */
static int choose_job_id(run_job_t *job)
{
    const char *given = getenv("KVSTORE_JOB_ID");

    if (given == NULL || given[0] == '\0' || getenv("KVSTORE_ROLE") != NULL) {
        snprintf(job->job_id, sizeof(job->job_id), "run-%d-%lld", (int)getpid(),
                 (long long)time(NULL));
        return 0;
    }
    if (strlen(given) >= sizeof(job->job_id)) {
        return cli_usage_error("run", "KVSTORE_JOB_ID has %zu bytes; at most %zu are accepted",
                               strlen(given), sizeof(job->job_id) - 1);
    }
    strcpy(job->job_id, given); /* its length has been checked */
    return 0;
}

int cmd_run(int argc, char **argv)
{
    run_t run = {.job = {.backend = "dist_sync", .n_workers = 1, .n_servers = -1},
                 .grace = default_grace(),
                 .guard = {0, -1}};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int status = parse(argc, argv, &run);

    status = status == 0 ? choose_job_id(&run.job) : status;
    if (status != 0) {
        return status;
    }
    if (n <= 0) {
        return fail("/proc/self/exe");
    }
    self[n] = '\0';
    run.children =
        calloc((size_t)run.job.n_workers + (size_t)run.job.n_servers + 1, sizeof(*run.children));
    if (run.children == NULL) {
        return fail("no memory");
    }
    fflush(stdout); /* nothing of it twice */
    status = run_job(&run, self);
    free(run.children);
    return status;
}
