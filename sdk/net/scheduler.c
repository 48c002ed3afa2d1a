/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.c - the thread of a scheduler, which takes frames off the socket, and how it begins and ends.
 *
 * All but the result belongs to the thread. */
#include "scheduler.h"

#include "address.h"
#include "beacon.h"
#include "clock.h"
#include "scheduler_members.h"
#include "wake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH     256 /* frames between looks at the clock */
#define LINGER_MS 500

/* ---- The thread ------------------------------------------------------------------------------ */

static void receive(net_scheduler_t *s)
{
    net_frame_t frame;
    net_route_t route;

    for (int i = 0; i < BATCH && net_socket_receive(s->socket, &route, &frame, 1) == 1; i++) {
        net_members_take(s, &route, net_frame_data(&frame), net_frame_size(&frame));
        net_frame_release(&frame);
    }
}

static void *run(void *arg)
{
    net_scheduler_t *s = arg;
    int fds[2] = {s->wake_fd, s->beacon_fd};

    while (!s->stopping) {
        int64_t next = net_members_tick(s);
        unsigned ready = net_wait(&s->socket, 1, fds, s->beacon_fd < 0 ? 1 : 2, net_poll_ms(next));

        if ((ready & 1) != 0) {
            net_wake_clear(s->wake_fd);
            pthread_mutex_lock(&s->lock);
            pthread_cond_broadcast(&s->changed); /* somebody may have cancelled */
            pthread_mutex_unlock(&s->lock);
            net_show_answer(s->show);
        }
        if ((ready & 2) != 0) {
            net_beacon_answer(s->beacon_fd, s->address);
        }
        receive(s);
    }
    net_members_dissolve(s);
    return NULL;
}

static void ring(void *arg, net_show_t *show)
{
    const net_scheduler_t *s = arg;

    (void)show; /* the thread looks at it each time it is woken */
    net_wake_ring(s->wake_fd);
}

static void write_down(void *arg, FILE *out)
{
    const net_scheduler_t *s = arg;

    fprintf(out, "job %s: %s at %s\n", s->settings.job_id, s->label, s->address);
    net_roster_write(s->groups, out);
    net_show_memory(out);
    fprintf(out, "\n");
}

static kvs_status_t start(net_scheduler_t *s)
{
    sigset_t all, old;
    int error;

    s->show =
        net_show_open(&(net_show_args_t){s->settings.job_id, "scheduler", ring, write_down, s});
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&s->thread, NULL, run, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error == 0 ? KVS_OK
                      : kvs_fail(KVS_ERR_IO, "no thread for the scheduler: %s", strerror(error));
}

/* ---- Opening --------------------------------------------------------------------------------- */

static kvs_status_t bind_to(net_scheduler_t *s, net_context_t *context, const char *host, int port,
                            int *ret_errno)
{
    net_socket_options_t options = {.max_frame_bytes = NET_WIRE_MAX_CONTROL,
                                    .heartbeat_ms = s->settings.heartbeat_ms,
                                    .dead_after_ms = s->settings.dead_after_ms};
    int real_port;
    kvs_status_t status =
        net_listener_open(context, host, port, &options, &s->socket, &real_port, ret_errno);

    if (status == KVS_OK) {
        snprintf(s->address, sizeof(s->address), strchr(host, ':') == NULL ? "%s:%d" : "[%s]:%d",
                 host, real_port);
    }
    return status;
}

/* An address that is none of this host's leads to it all the same where addresses are translated. */
static kvs_status_t bind_wildcard(net_scheduler_t *s, net_context_t *context, const char *given,
                                  int family, int port)
{
    kvs_status_t status = bind_to(s, context, family == AF_INET6 ? "::" : "0.0.0.0", port, NULL);

    if (status == KVS_OK) {
        kvs_log(KVS_LOG_WARN, "net", "%s is no address of this host: listening on all of them",
                given);
        snprintf(s->address, sizeof(s->address), "%s", given);
    }
    return status;
}

static kvs_status_t bind_socket(net_scheduler_t *s, net_context_t *context, const char *address)
{
    net_address_t found[16];
    char host[NET_HOST_MAX];
    int port, cause = 0;
    size_t n = 0;
    kvs_status_t status = net_address_split(address, host, &port);

    status = status == KVS_OK ? net_address_resolve(host, port, found, 16, &n) : status;
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = net_address_check_allowed(&found[i], s->settings.insecure != 0);
    }
    if (status != KVS_OK) {
        return kvs_fail_context(status, "scheduler");
    }
    for (size_t i = 0; i < n && s->socket == NULL; i++) {
        char numeric[NET_ADDRESS_MAX];

        net_address_host(&found[i], numeric);
        status = bind_to(s, context, numeric, port, &cause);
    }
    if (s->socket == NULL && cause == EADDRNOTAVAIL) {
        status = bind_wildcard(s, context, address, found[0].storage.ss_family, port);
    }
    return s->socket != NULL
               ? KVS_OK
               : kvs_fail_context(status, "scheduler%s",
                                  cause == EADDRINUSE ? " (is another one still running there?)"
                                                      : "");
}

static void release(net_scheduler_t *s)
{
    net_members_release(s);
    net_show_close(s->show);
    net_show_free(s->show);
    net_socket_close(s->socket, LINGER_MS);
    if (s->wake_fd >= 0) {
        close(s->wake_fd);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->result_text);
    free(s);
}

kvs_status_t net_scheduler_open(net_context_t *context, const kvs_net_settings_t *settings,
                                const char *address, int beacon_fd, net_scheduler_t **ret_scheduler)
{
    net_scheduler_t *s = calloc(1, sizeof(*s));
    char host[NET_HOST_MAX];
    kvs_status_t status;

    if (s == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the scheduler");
    }
    s->settings = *settings;
    s->beacon_fd = beacon_fd;
    s->wake_fd = -1;
    s->token = net_random();
    s->deadline = net_deadline(settings->rendezvous_ms);
    s->liveness.looked = net_now();
    pthread_mutex_init(&s->lock, NULL);
    net_cond_init(&s->changed);
    net_host_name(host);
    net_label(s->label, KVS_NET_SCHEDULER, -1, host, getpid());
    status = net_wake_open(&s->wake_fd);
    status = status == KVS_OK ? bind_socket(s, context, address) : status;
    status = status == KVS_OK ? start(s) : status;
    if (status != KVS_OK) {
        release(s);
        return status;
    }
    kvs_log(KVS_LOG_INFO, "net", "the scheduler of job '%s' listens on %s", settings->job_id,
            s->address);
    *ret_scheduler = s;
    return KVS_OK;
}

const char *net_scheduler_address(const net_scheduler_t *scheduler)
{
    return scheduler->address;
}

/* ---- Waiting and closing --------------------------------------------------------------------- */

kvs_status_t net_scheduler_wait(net_scheduler_t *s, int64_t timeout_ms)
{
    int64_t deadline = net_deadline(timeout_ms);
    kvs_status_t status;

    pthread_mutex_lock(&s->lock);
    while (!s->over && !s->cancelled && net_now() < deadline) {
        net_cond_wait(&s->changed, &s->lock, deadline);
    }
    if (s->over) {
        status = s->result == KVS_OK
                     ? KVS_OK
                     : kvs_fail(s->result, "job '%s': %s", s->settings.job_id,
                                s->result_text == NULL ? "it failed" : s->result_text);
    } else if (s->cancelled) {
        status = kvs_fail(KVS_ERR_CANCELLED, "job '%s': cancelled", s->settings.job_id);
    } else {
        status = kvs_fail(KVS_ERR_TIMEOUT, "job '%s' goes on", s->settings.job_id);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

void net_scheduler_cancel(net_scheduler_t *s)
{
    s->cancelled = true;
    net_wake_ring(s->wake_fd);
}

static bool is_running(net_scheduler_t *s)
{
    bool running;

    pthread_mutex_lock(&s->lock);
    running = s->running;
    pthread_mutex_unlock(&s->lock);
    return running;
}

kvs_status_t net_scheduler_close(net_scheduler_t *s, int64_t timeout_ms)
{
    kvs_status_t status;

    if (s == NULL) {
        return KVS_OK;
    }
    status = timeout_ms != 0 && is_running(s) ? net_scheduler_wait(s, timeout_ms) : KVS_OK;
    net_show_close(s->show);
    s->stopping = true;
    net_wake_ring(s->wake_fd);
    pthread_join(s->thread, NULL);
    release(s);
    return status;
}
