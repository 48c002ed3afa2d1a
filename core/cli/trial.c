/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - the child writes its verdict into a pipe, whose buffer holds all of it, and then ends as
 * a program does, so that what the plugin left for the end is tried too. */
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- The child ------------------------------------------------------------------------------ */

static void fill(trial_t *trial, kvs_plugin_state_t state, const char *reason, const char *fix)
{
    trial->state = state;
    snprintf(trial->reason, sizeof(trial->reason), "%s", reason);
    snprintf(trial->fix, sizeof(trial->fix), "%s", fix);
}

/* No output but on stderr, no core file, an end when the parent ends. */
static void prepare_child(pid_t parent, const sigset_t *mask)
{
    const struct rlimit no_core = {0, 0};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setpgid(0, 0); /* on failure the parent kills the child alone */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
    }
}

/* Texts that don't fit are left out. */
static void add_about(void *arg, const char *label, const char *text)
{
    char *about = arg;
    size_t used = strlen(about), room = sizeof(((trial_t *)0)->about) - used;
    int n = snprintf(about + used, room, "%s\n%s\n", label, text);

    if (n < 0 || (size_t)n >= room || strchr(label, '\n') != NULL || strchr(text, '\n') != NULL) {
        about[used] = '\0';
    }
}

static _Noreturn void run_child(kvs_plugin_list_t *list, size_t index, int wants_about,
                                int pipe_end)
{
    trial_t trial = {.state = KVS_PLUGIN_OK};

    if (kvs_plugin_try(list, index) != KVS_OK) {
        fill(&trial, KVS_PLUGIN_UNAVAILABLE, kvs_last_error(), "");
    } else {
        const kvs_plugin_info_t *plugin = kvs_plugin_list_at(list, index);

        fill(&trial, plugin->state, plugin->reason, plugin->fix);
    }
    if (wants_about && kvs_plugin_about(list, index, add_about, trial.about) != KVS_OK &&
        trial.state == KVS_PLUGIN_OK) {
        fill(&trial, KVS_PLUGIN_UNAVAILABLE, kvs_last_error(), "");
    }
    if (write(pipe_end, &trial, sizeof(trial)) != (ssize_t)sizeof(trial)) {
        _exit(1); /* told as a crash */
    }
    exit(0);
}

/* ---- The parent ----------------------------------------------------------------------------- */

static struct timespec now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time); /* it can't fail */
    return time;
}

/* Time from now until `end`, not below 0. */
static struct timespec until(struct timespec end)
{
    struct timespec begin = now();
    struct timespec rest = {end.tv_sec - begin.tv_sec, end.tv_nsec - begin.tv_nsec};

    if (rest.tv_nsec < 0) {
        rest.tv_sec--;
        rest.tv_nsec += 1000000000;
    }
    return rest.tv_sec < 0 ? (struct timespec){0, 0} : rest;
}

/* Wait for the child, with SIGCHLD blocked; past the limit kill it. 1: it ended by itself. */
static int wait_for(pid_t child, int timeout_s, int *ret_status)
{
    struct timespec end = now();
    sigset_t ended;
    int in_time;

    end.tv_sec += timeout_s;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    while ((in_time = waitpid(child, ret_status, WNOHANG)) == 0) {
        struct timespec rest = until(end);

        if (rest.tv_sec == 0 && rest.tv_nsec == 0) {
            break;
        }
        (void)sigtimedwait(&ended, NULL, &rest); /* whatever woke it, the loop looks again */
    }
    (void)kill(-child, SIGKILL); /* also what it started; there may be nothing left */
    if (in_time == 0) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, ret_status, 0);
    }
    return in_time != 0;
}

static void describe_end(int status, char *ret_text, size_t n_bytes)
{
    if (WIFSIGNALED(status)) {
        snprintf(ret_text, n_bytes, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(ret_text, n_bytes, "it ended the process with exit status %d",
                 WEXITSTATUS(status));
    }
}

static void tell_violence(const kvs_plugin_info_t *plugin, kvs_plugin_state_t state,
                          trial_t *ret_trial)
{
    const char *package = plugin->package;

    ret_trial->state = state;
    snprintf(ret_trial->fix, sizeof(ret_trial->fix),
             "install %s%s again, or run: kvstore disable %s",
             package[0] != '\0' ? "package " : "the plugin", package, plugin->name);
}

/* Whether the child wrote its verdict; the plugin's code ran there, so it may be anything. */
static int read_verdict(int pipe_end, trial_t *ret_trial)
{
    trial_t trial;

    if (read(pipe_end, &trial, sizeof(trial)) != (ssize_t)sizeof(trial) ||
        (unsigned)trial.state > KVS_PLUGIN_TIMEOUT ||
        memchr(trial.reason, '\0', sizeof(trial.reason)) == NULL ||
        memchr(trial.fix, '\0', sizeof(trial.fix)) == NULL ||
        memchr(trial.about, '\0', sizeof(trial.about)) == NULL) {
        return 0;
    }
    *ret_trial = trial;
    return 1;
}

/* What the pipe holds, and how the child ended. */
static void judge(const kvs_plugin_info_t *plugin, int pipe_end, int in_time, int timeout_s,
                  int status, trial_t *ret_trial)
{
    int has_verdict = read_verdict(pipe_end, ret_trial);
    char how[80];

    if (!in_time) {
        tell_violence(plugin, KVS_PLUGIN_TIMEOUT, ret_trial);
        snprintf(ret_trial->reason, sizeof(ret_trial->reason), "it did not %s within %d s",
                 has_verdict ? "let the process end" : "finish loading", timeout_s);
    } else if (!has_verdict || status != 0) {
        describe_end(status, how, sizeof(how));
        tell_violence(plugin, KVS_PLUGIN_CRASHED, ret_trial);
        snprintf(ret_trial->reason, sizeof(ret_trial->reason), "%s: %s",
                 has_verdict ? "crashed when the process ended" : "crashed while it was loaded",
                 how);
    }
}

static int cannot_start(const char *what)
{
    (void)kvs_fail(KVS_ERR_IO, "cannot start a process to try plugins in: %s: %s", what,
                   strerror(errno));
    return -1;
}

static int try_in_child(kvs_plugin_list_t *list, size_t index, int wants_about, int timeout_s,
                        trial_t *ret_trial)
{
    const kvs_plugin_info_t *plugin = kvs_plugin_list_at(list, index);
    sigset_t child_ended, before;
    pid_t parent = getpid(), child;
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return cannot_start("pipe");
    }
    fflush(stdout); /* else the child would print it again */
    (void)signal(SIGCHLD,
                 SIG_DFL); /* who started this may have ignored it: no child could be waited for */
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child_ended, &before);
    child = fork();
    if (child == 0) {
        prepare_child(parent, &before);
        run_child(list, index, wants_about, ends[1]);
    }
    (void)close(ends[1]); /* nothing was written here */
    if (child > 0) {
        int in_time = wait_for(child, timeout_s, &status);

        judge(plugin, ends[0], in_time, timeout_s, status, ret_trial);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[0]);
    return child > 0 ? 0 : cannot_start("fork");
}

int cli_trial(kvs_plugin_list_t *list, size_t index, int timeout_s, trial_t *ret_trial)
{
    const kvs_plugin_info_t *plugin = kvs_plugin_list_at(list, index);

    if (plugin->state != KVS_PLUGIN_OK) {
        fill(ret_trial, plugin->state, plugin->reason, plugin->fix);
        return 0;
    }
    return try_in_child(list, index, 0, timeout_s, ret_trial);
}

int cli_trial_about(kvs_plugin_list_t *list, size_t index, int timeout_s, trial_t *ret_trial)
{
    const kvs_plugin_info_t *plugin = kvs_plugin_list_at(list, index);

    if (plugin->state != KVS_PLUGIN_OK && plugin->state != KVS_PLUGIN_UNAVAILABLE) {
        fill(ret_trial, plugin->state, plugin->reason, plugin->fix);
        return 0;
    }
    return try_in_child(list, index, 1, timeout_s, ret_trial);
}

kvs_plugin_info_t cli_tried(const kvs_plugin_info_t *plugin, const trial_t *trial)
{
    kvs_plugin_info_t tried = *plugin;

    tried.state = trial->state;
    tried.reason = trial->reason;
    tried.fix = trial->fix;
    return tried;
}
