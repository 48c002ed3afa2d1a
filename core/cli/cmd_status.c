/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_status.c - `kvstore status`: what the servers of this user's jobs on this host say of themselves.
 * Each listens on an abstract socket named kvstore-status-USER-PROCESS-NUMBER, so the system's list of
 * sockets is the list of servers. */
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
#include <unistd.h>

#define PATIENCE_MS 5000

typedef struct names {
    char **list;
    size_t n;
} names_t;

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

/* All that comes until the other end closes; NULL: nobody is there any more. */
static char *read_all(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    char *text = NULL, part[4096];
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    ssize_t got = -1;

    while (out != NULL && poll(&item, 1, PATIENCE_MS) > 0 &&
           (got = read(fd, part, sizeof(part))) > 0) {
        fwrite(part, 1, (size_t)got, out);
    }
    if (out != NULL) {
        fclose(out);
    }
    if (got != 0 || n == 0) {
        free(text);
        return NULL;
    }
    return text;
}

static char *ask(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char *text = NULL;

    if (n < sizeof(address.sun_path)) {
        memcpy(address.sun_path + 1, name, n);
    }
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0 &&
        is_own_user(fd)) {
        text = read_all(fd);
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

static int is_of_job(const char *text, const char *job)
{
    size_t n = job == NULL ? 0 : strlen(job);

    return job == NULL ||
           (strncmp(text, "job ", 4) == 0 && strncmp(text + 4, job, n) == 0 && text[4 + n] == ':');
}

int cmd_status(int argc, char **argv)
{
    static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    const char *job = NULL;
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
    if (optind < argc) {
        return cli_usage_error(argv[0], "\"%s\" is one argument too many", argv[optind]);
    }
    if (find_names(&names) != 0) {
        fprintf(stderr, "kvstore status: /proc/net/unix: %s\n", strerror(errno));
        return 1;
    }
    for (size_t i = 0; i < names.n; i++) {
        char *text = ask(names.list[i]);

        if (text != NULL && is_of_job(text, job)) {
            fputs(text, stdout);
            n_shown++;
        }
        free(text);
        free(names.list[i]);
    }
    free(names.list);
    if (n_shown == 0) {
        fprintf(stderr, "kvstore status: no server of %s%s%s runs on this host for this user\n",
                job == NULL ? "a job" : "job '", job == NULL ? "" : job, job == NULL ? "" : "'");
    }
    return n_shown == 0;
}
