/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c - see crew.h. */
#include "crew.h"

#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void forget_settings(void)
{
    static const char *const prefixes[] = {"KVSTORE_N", "KVSTORE_R", "KVSTORE_S", "KVSTORE_J",
                                           "KVSTORE_H", "KVSTORE_D", "KVSTORE_I", "DMLC_"};

    for (char **at = environ; *at != NULL;) {
        char name[128];
        bool ours = false;

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at);
        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
            ours = ours || (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0 &&
                            strcmp(name, "KVSTORE_SHM") != 0);
        }
        if (ours) {
            unsetenv(name);
            at = environ;
        } else {
            at++;
        }
    }
}

/* In the child: never returns. It ends with the test, whatever happens. */
static void become(const crew_hand_t *hand, const char *environment, int in, int out)
{
    char copy[2048], *state = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    forget_settings();
    snprintf(copy, sizeof(copy), "%s", environment);
    for (char *at = strtok_r(copy, " ", &state); at != NULL; at = strtok_r(NULL, " ", &state)) {
        putenv(strdup(at));
    }
    if (hand->netns != NULL) {
        execlp("ip", "ip", "netns", "exec", hand->netns, NET_NODE, (char *)NULL);
    }
    execl(NET_NODE, "net_node", (char *)NULL);
    _exit(127);
}

void crew_start(crew_hand_t *hand, const char *name, const char *environment)
{
    int to[2], from[2];

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        perror("pipe");
        exit(1);
    }
    hand->n_heard = 0;
    snprintf(hand->name, sizeof(hand->name), "%s", name);
    hand->pid = fork();
    if (hand->pid == 0) {
        become(hand, environment, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    hand->to = to[1];
    hand->from = from[0];
}

static void say(crew_hand_t *hand, const char *format, va_list args)
{
    char line[1024];
    int n = vsnprintf(line, sizeof(line) - 1, format, args);

    line[n++] = '\n';
    if (write(hand->to, line, (size_t)n) != n) {
        fprintf(stderr, "%s does not listen: %s\n", hand->name, strerror(errno));
    }
}

void crew_say(crew_hand_t *hand, const char *command, ...)
{
    va_list args;

    va_start(args, command);
    say(hand, command, args);
    va_end(args);
}

/* Read what is there, waiting at most until `deadline`; false: nothing more will come. */
static bool listen_until(crew_hand_t *hand, int64_t deadline)
{
    struct pollfd item = {.fd = hand->from, .events = POLLIN};
    int64_t left = deadline - now_ms();
    ssize_t n;

    if (poll(&item, 1, left < 0 ? 0 : (int)left) <= 0) {
        return false;
    }
    n = read(hand->from, hand->heard + hand->n_heard, sizeof(hand->heard) - 1 - hand->n_heard);
    if (n <= 0) {
        return false;
    }
    hand->n_heard += (size_t)n;
    hand->heard[hand->n_heard] = '\0';
    return true;
}

static char *find_line(crew_hand_t *hand, const char *begin)
{
    char *at = hand->heard;

    hand->heard[hand->n_heard] = '\0';
    while (*at != '\0') {
        char *end = strchr(at, '\n');

        if (end == NULL) {
            return NULL;
        }
        if (strncmp(at, begin, strlen(begin)) == 0) {
            return at;
        }
        at = end + 1;
    }
    return NULL;
}

bool crew_has_heard(crew_hand_t *hand, const char *begin)
{
    while (listen_until(hand, 0)) {
    }
    return find_line(hand, begin) != NULL;
}

const char *crew_hear(crew_hand_t *hand, const char *begin)
{
    static char rest[2048];
    int64_t deadline = now_ms() + CREW_PATIENCE_MS;
    char *line = find_line(hand, begin), *end;

    while (line == NULL && listen_until(hand, deadline)) {
        line = find_line(hand, begin);
    }
    if (line == NULL) {
        fprintf(stderr, "\n%s never said '%s'; it said:\n%s\n", hand->name, begin, hand->heard);
        KT_TRUE(line != NULL);
        return "";
    }
    end = strchr(line, '\n');
    snprintf(rest, sizeof(rest), "%.*s", (int)(end - line - (long)strlen(begin)),
             line + strlen(begin));
    hand->n_heard -= (size_t)(end + 1 - line);
    memmove(line, end + 1, hand->n_heard - (size_t)(line - hand->heard));
    hand->heard[hand->n_heard] = '\0';
    return rest;
}

const char *crew_ask(crew_hand_t *hand, const char *begin, const char *command, ...)
{
    va_list args;

    va_start(args, command);
    say(hand, command, args);
    va_end(args);
    return crew_hear(hand, begin);
}

static void close_pipes(crew_hand_t *hand)
{
    close(hand->to);
    close(hand->from);
    hand->pid = 0;
}

void crew_kill(crew_hand_t *hand, int signal)
{
    int status;

    kill(hand->pid, signal);
    if (signal == SIGKILL) {
        waitpid(hand->pid, &status, 0);
        close_pipes(hand);
    }
}

static bool has_ended(void *arg)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)((crew_hand_t *)arg)->pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid != 0;
}

int crew_wait(crew_hand_t *hand)
{
    int status;

    kt_until(has_ended, hand, hand->name);
    while (listen_until(hand, 0)) {
    }
    waitpid(hand->pid, &status, 0);
    close_pipes(hand);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void crew_clear(crew_hand_t *hand)
{
    if (hand->pid > 0) {
        fprintf(stderr, "\n%s was left over; it said:\n%s\n", hand->name, hand->heard);
        KT_TRUE(hand->pid == 0);
        crew_kill(hand, SIGKILL);
    }
}

/* ---- A whole job ----------------------------------------------------------------------------- */

const char *crew_environment(const crew_t *crew, const char *role, int rank)
{
    static char text[1024];
    char number[40] = "";

    if (rank >= 0) {
        snprintf(number, sizeof(number), " KVSTORE_RANK=%d", rank);
    }
    snprintf(text, sizeof(text),
             "KVSTORE_ROLE=%s KVSTORE_NUM_WORKERS=%d KVSTORE_NUM_SERVERS=%d KVSTORE_SCHEDULER=%s%s "
             "%s",
             role, crew->n_workers, crew->n_servers,
             crew->address[0] == '\0' ? "127.0.0.1:0" : crew->address, number,
             crew->extra == NULL ? "" : crew->extra);
    return text;
}

static void start_member(crew_t *crew, crew_hand_t *hand, const char *role, int rank)
{
    char name[64];

    snprintf(name, sizeof(name), "%s %d", role, rank);
    crew_start(hand, name, crew_environment(crew, role, rank));
    crew_say(hand, "open");
    crew_say(hand, "ready -1");
}

void crew_open(crew_t *crew, int n_workers, int n_servers, const char *extra)
{
    *crew = (crew_t){.n_workers = n_workers, .n_servers = n_servers, .extra = extra};
    crew_start(&crew->scheduler, "scheduler", crew_environment(crew, "scheduler", -1));
    KT_STR(crew_ask(&crew->scheduler, "open ", "open"), "KVS_OK");
    snprintf(crew->address, sizeof(crew->address), "%s", crew_hear(&crew->scheduler, "address "));
    for (int i = 0; i < n_servers; i++) {
        start_member(crew, &crew->server[i], "server", i);
    }
    for (int i = 0; i < n_workers; i++) {
        start_member(crew, &crew->worker[i], "worker", i);
    }
    for (int i = 0; i < n_servers; i++) {
        KT_STR(crew_hear(&crew->server[i], "ready "), "KVS_OK");
    }
    for (int i = 0; i < n_workers; i++) {
        KT_STR(crew_hear(&crew->worker[i], "ready "), "KVS_OK");
    }
}

void crew_close(crew_t *crew)
{
    for (int i = 0; i < crew->n_workers; i++) {
        if (crew->worker[i].pid != 0) {
            crew_say(&crew->worker[i], "quit");
        }
    }
    for (int i = 0; i < crew->n_workers; i++) {
        if (crew->worker[i].pid != 0) {
            KT_INT(crew_wait(&crew->worker[i]), 0);
        }
    }
    for (int i = 0; i < crew->n_servers; i++) { /* they end by themselves */
        if (crew->server[i].pid != 0) {
            KT_INT(crew_wait(&crew->server[i]), 0);
        }
    }
    if (crew->scheduler.pid != 0) {
        KT_INT(crew_wait(&crew->scheduler), 0);
    }
}
