/* SPDX-License-Identifier: Apache-2.0 */
/* What a process says to `kvstore status`: in time, or that it is busy. */
#include "show.h"

#include <kt.h>
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct knower {
    bool is_busy;
    net_show_t *show; /* rung by it, and not answered yet */
    double number;
} knower_t;

static void ring(void *arg, net_show_t *show)
{
    knower_t *knower = arg;

    if (knower->is_busy) {
        knower->show = show;
    } else {
        net_show_answer(show);
    }
}

static void write_down(void *arg, FILE *out)
{
    const knower_t *knower = arg;

    fprintf(out, "job j: %.1f\n", knower->number);
}

/* The windows of a process are numbered through. */
static void ask(int number, char *text, size_t n_bytes)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "kvstore-status-%ld-%ld-%d",
                          (long)geteuid(), (long)getpid(), number);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = 0;
    ssize_t got;

    KT_INT(connect(fd, (struct sockaddr *)&name,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
           0);
    while ((got = read(fd, text + n, n_bytes - 1 - n)) > 0) {
        n += (size_t)got;
    }
    text[n] = '\0';
    close(fd);
}

static void who_does_not_answer_is_busy_and_a_late_answer_is_nobodys(void)
{
    knower_t knower = {.is_busy = true, .number = 1.5};
    net_show_t *show = net_show_open(&(net_show_args_t){"j", "server", ring, write_down, &knower});
    char text[256], want[256];

    KT_TRUE(show != NULL);
    ask(1, text, sizeof(text));
    snprintf(want, sizeof(want), "job j: server (pid %ld) is busy: no answer within 1 s\n",
             (long)getpid());
    KT_STR(text, want);
    net_show_answer(knower.show);
    knower.is_busy = false;
    knower.number = 2.5;
    ask(1, text, sizeof(text));
    KT_STR(text, "job j: 2.5\n");
    net_show_close(show);
    net_show_free(show);
}

static const kt_test_t tests[] = {
    KT_TEST(who_does_not_answer_is_busy_and_a_late_answer_is_nobodys),
};

KT_MAIN("net_show", tests)
