/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_status.c - `kvstore status`: what the schedulers and servers of this user's jobs on this host say of
 * themselves. Each listens on an abstract socket named kvstore-status-USER-PROCESS-NUMBER, so the system's
 * list of sockets is the list of them. All are asked at once, and none is waited for long. */
#include "commands.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 2000 /* for all of them together */

typedef struct names {
    char **list;
    size_t n;
} names_t;

typedef struct answer {
    const char *name;
    int fd; /* -1: it has said all, or is not there any more */
    FILE *out;
    char *text;
    size_t n;
} answer_t;

/* Accepted connections show the same name. */
static int is_listed(const names_t *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->list[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

static int add(names_t *names, const char *name)
{
    char **grown = realloc(names->list, (names->n + 1) * sizeof(*grown));

    if (grown == NULL) {
        return -1;
    }
    names->list = grown;
    names->list[names->n] = strdup(name);
    names->n += names->list[names->n] != NULL;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* 0, or -1 with errno. */
static int find_names(names_t *names)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512], prefix[64];

    if (file == NULL) {
        return -1;
    }
    snprintf(prefix, sizeof(prefix), "@kvstore-status-%ld-", (long)geteuid());
    while (fgets(line, sizeof(line), file) != NULL) {
        char *name = strstr(line, prefix);

        if (name != NULL) {
            name[strcspn(name, "\n")] = '\0';
            if (!is_listed(names, name + 1) && add(names, name + 1) != 0) {
                break;
            }
        }
    }
    fclose(file);
    if (names->n > 1) {
        qsort(names->list, names->n, sizeof(*names->list), by_text);
    }
    return 0;
}

static int is_own_user(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* ---- Asking all at once ------------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Not to wait for one whose queue is full of others. */
static int call(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (n < sizeof(address.sun_path)) {
        memcpy(address.sun_path + 1, name, n);
    }
    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&address,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) != 0 ||
                    !is_own_user(fd))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void begin(answer_t *answer, const char *name)
{
    *answer = (answer_t){.name = name, .fd = call(name)};
    answer->out = answer->fd < 0 ? NULL : open_memstream(&answer->text, &answer->n);
    if (answer->fd >= 0 && answer->out == NULL) {
        close(answer->fd);
        answer->fd = -1;
    }
}

/* All that comes until the other end closes. */
static void read_some(answer_t *answer)
{
    char part[4096];
    ssize_t got = read(answer->fd, part, sizeof(part));

    if (got > 0) {
        fwrite(part, 1, (size_t)got, answer->out);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(answer->fd);
        answer->fd = -1;
    }
}

static void wait_for_all(answer_t *answers, struct pollfd *items, size_t n)
{
    int64_t deadline = now_ms() + PATIENCE_MS, left;
    int n_open = 1;

    while (n_open > 0 && (left = deadline - now_ms()) > 0) {
        n_open = 0;
        for (size_t i = 0; i < n; i++) {
            items[i] = (struct pollfd){.fd = answers[i].fd, .events = POLLIN};
            n_open += answers[i].fd >= 0;
        }
        if (n_open == 0 || poll(items, (nfds_t)n, (int)left) <= 0) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            if (items[i].revents != 0) {
                read_some(&answers[i]);
            }
        }
    }
}

/* kvstore-status-USER-PROCESS-NUMBER */
static long process_of(const char *name)
{
    long user, process = 0;

    return sscanf(name, "kvstore-status-%ld-%ld-", &user, &process) == 2 ? process : 0;
}

static int is_of_job(const char *text, const char *job)
{
    size_t n = job == NULL ? 0 : strlen(job);

    return job == NULL ||
           (strncmp(text, "job ", 4) == 0 && strncmp(text + 4, job, n) == 0 && text[4 + n] == ':');
}

/* Nothing more is read: what was said stands in `text`. */
static void end(answer_t *answer)
{
    if (answer->out != NULL) {
        fclose(answer->out);
    }
}

/* The job whose scheduler says that it is at the address, or NULL; the caller frees it. */
static char *job_at(const answer_t *answers, size_t n, const char *address)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = answers[i].text;
        const char *id_end = text == NULL ? NULL : strstr(text, ": scheduler ");
        size_t n_line = text == NULL ? 0 : strcspn(text, "\n"), n_address = strlen(address);

        if (id_end != NULL && strncmp(text, "job ", 4) == 0 && n_line > n_address + 4 &&
            strncmp(text + n_line - n_address - 4, " at ", 4) == 0 &&
            strncmp(text + n_line - n_address, address, n_address) == 0) {
            return strndup(text + 4, (size_t)(id_end - text) - 4);
        }
    }
    return NULL;
}

/* Shows what is of the job; gives how many texts that were. Who was not heard is named. */
static size_t show(answer_t *answer, const char *job)
{
    size_t n_shown = 0;

    if (answer->out == NULL) {
        return 0;
    }
    if (answer->fd >= 0) {
        fflush(stdout);
        fprintf(
            stderr,
            "kvstore status: process %ld has not answered within %d s: it is stopped, or busy\n",
            process_of(answer->name), PATIENCE_MS / 1000);
        close(answer->fd);
    } else if (answer->n > 0 && is_of_job(answer->text, job)) {
        fputs(answer->text, stdout);
        n_shown = 1;
    }
    free(answer->text);
    return n_shown;
}

/* The address, if there is one, says which job. -1: no memory. */
static int ask_all(const names_t *names, const char *job, const char *address, size_t *ret_n_shown)
{
    answer_t *answers = calloc(names->n + 1, sizeof(*answers));
    struct pollfd *items = calloc(names->n + 1, sizeof(*items));
    int has_memory = answers != NULL && items != NULL;

    if (has_memory) {
        for (size_t i = 0; i < names->n; i++) {
            begin(&answers[i], names->list[i]);
        }
        wait_for_all(answers, items, names->n);
        for (size_t i = 0; i < names->n; i++) {
            end(&answers[i]);
        }
        char *found = address == NULL ? NULL : job_at(answers, names->n, address);

        for (size_t i = 0; i < names->n; i++) {
            *ret_n_shown += show(&answers[i], address == NULL ? job : found == NULL ? "" : found);
        }
        free(found);
    }
    free(answers);
    free(items);
    return has_memory ? 0 : -1;
}

int cmd_status(int argc, char **argv)
{
    static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    const char *job = NULL, *address = NULL;
    names_t names = {NULL, 0};
    size_t n_shown = 0;
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != 'j') {
            return cli_usage_error(argv[0], "unknown option, or without its value: %s",
                                   argv[optind - 1]);
        }
        job = optarg;
    }
    address = optind < argc ? argv[optind++] : NULL;
    if (address != NULL && job != NULL) {
        return cli_usage_error(argv[0], "--job and an address: one of them says which job");
    }
    if (optind < argc) {
        return cli_usage_error(argv[0], "\"%s\" is one argument too many", argv[optind]);
    }
    if (find_names(&names) != 0) {
        fprintf(stderr, "kvstore status: /proc/net/unix: %s\n", strerror(errno));
        return 1;
    }
    if (ask_all(&names, job, address, &n_shown) != 0) {
        fprintf(stderr, "kvstore status: no memory\n");
    }
    for (size_t i = 0; i < names.n; i++) {
        free(names.list[i]);
    }
    free(names.list);
    if (n_shown == 0 && address != NULL) {
        fprintf(stderr,
                "kvstore status: no scheduler at %s runs on this host for this user; without an "
                "address all that do are shown\n",
                address);
    } else if (n_shown == 0) {
        fprintf(
            stderr,
            "kvstore status: no scheduler or server of %s%s%s runs on this host for this user\n",
            job == NULL ? "a job" : "job '", job == NULL ? "" : job, job == NULL ? "" : "'");
    }
    return n_shown == 0;
}
