/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - see threads.h. */
#include "threads.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t kt_deadline(void)
{
    return now_ns() + (int64_t)KT_PATIENCE_MS * 1000000;
}

static void give_up(const char *what)
{
    fprintf(stderr, "\nwaited %d ms in vain for: %s\n", KT_PATIENCE_MS, what);
    fflush(NULL);
    _exit(1);
}

void kt_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void kt_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns,
                  const char *what)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};

    if (pthread_cond_timedwait(cond, lock, &until) == ETIMEDOUT) {
        give_up(what);
    }
}

static void *thread_main(void *arg)
{
    kt_thread_t *thread = arg;

    thread->run(thread->arg);
    pthread_mutex_lock(&thread->lock);
    thread->has_ended = true;
    pthread_cond_signal(&thread->ended);
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

void kt_thread_start(kt_thread_t *thread, void (*run)(void *arg), void *arg)
{
    thread->run = run;
    thread->arg = arg;
    thread->has_ended = false;
    pthread_mutex_init(&thread->lock, NULL);
    kt_cond_init(&thread->ended);
    if (pthread_create(&thread->id, NULL, thread_main, thread) != 0) {
        perror("pthread_create");
        exit(2);
    }
}

void kt_thread_join(kt_thread_t *thread)
{
    int64_t deadline = kt_deadline();

    pthread_mutex_lock(&thread->lock);
    while (!thread->has_ended) {
        kt_cond_wait(&thread->ended, &thread->lock, deadline, "the end of a thread");
    }
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->id, NULL);
    pthread_cond_destroy(&thread->ended);
    pthread_mutex_destroy(&thread->lock);
}

void kt_until(bool (*is_so)(void *arg), void *arg, const char *what)
{
    int64_t deadline = kt_deadline();

    while (!is_so(arg)) {
        if (now_ns() > deadline) {
            give_up(what);
        }
        sched_yield();
    }
}

typedef struct child {
    pid_t pid;
    int status;
} child_t;

static bool has_exited(void *arg)
{
    child_t *child = arg;

    return waitpid(child->pid, &child->status, WNOHANG) == child->pid;
}

int kt_wait_child(int pid)
{
    child_t child = {pid, 0};

    kt_until(has_exited, &child, "the end of a child process");
    return WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 128 + WTERMSIG(child.status);
}
