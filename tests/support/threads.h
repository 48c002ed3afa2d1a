/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h - threads and waits of tests. Whatever waits here ends the program with a message when
 * it has waited for KT_PATIENCE_MS: a test that hangs has failed. */
#ifndef KT_THREADS_H
#define KT_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define KT_PATIENCE_MS 20000

typedef struct kt_thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended; /* guarded by lock */
} kt_thread_t;

void kt_thread_start(kt_thread_t *thread, void (*run)(void *arg), void *arg);
void kt_thread_join(kt_thread_t *thread);

/* A condition for kt_cond_wait. */
void kt_cond_init(pthread_cond_t *cond);
/* Wait for a signal; `deadline_ns` comes from kt_deadline, `what` is for the message. */
void kt_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns,
                  const char *what);
int64_t kt_deadline(void);

/* Look again and again until `is_so(arg)`, where nothing can be waited for. */
void kt_until(bool (*is_so)(void *arg), void *arg, const char *what);

/* Whether a forked child may allocate while other threads do: AddressSanitizer's locks stay as they were. */
static inline bool kt_child_may_allocate(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return false;
#elif defined(__has_feature)
    return !__has_feature(address_sanitizer);
#else
    return true;
#endif
}

/* Wait for a child process. Gives its exit status, or 128 + the signal that ended it. */
int kt_wait_child(int pid);

#endif
