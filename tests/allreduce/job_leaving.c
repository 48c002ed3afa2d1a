/* SPDX-License-Identifier: Apache-2.0 */
/* job_leaving.c - a process leaves its job while another one still sends to its engine. Run by both workers of a
 * job; the engine carries nothing, it only sees what comes and when. */
#include "hvd_job.h"
#include "kt.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define N_SENT   500
#define N_ENOUGH 50 /* for worker 1 to leave */
#define PAUSE_US 1000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_came, is_closed; /* guarded by lock */

static kvs_status_t open_engine(hvd_job_t *job, const void *options, void **ret_state)
{
    (void)job;
    (void)options;
    *ret_state = &n_came;
    return KVS_OK;
}

static void take(void *state, hvd_view_t view)
{
    (void)state;
    (void)view;
    pthread_mutex_lock(&lock);
    if (is_closed) {
        printf("FAILED: a message came to an engine that is closed\n");
        fflush(stdout);
    }
    n_came++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    usleep(PAUSE_US); /* others queue up behind it */
}

static void close_engine(void *state, bool is_over)
{
    (void)state;
    (void)is_over;
    pthread_mutex_lock(&lock);
    is_closed = 1;
    pthread_mutex_unlock(&lock);
}

static const hvd_engine_t engine = {.name = "horovod",
                                    .version = "of a test",
                                    .open = open_engine,
                                    .message = take,
                                    .close = close_engine};

/* It leaves at the end of the process. */
static void no_message_comes_to_an_engine_that_is_closed(void)
{
    hvd_job_options_t options = {.engine = &engine, .timeline = ""};
    kvs_net_settings_t settings = KVS_NET_SETTINGS_INIT;
    hvd_bytes_t bytes = {0};
    hvd_job_t *job;

    KT_OK(kvs_net_settings_read(NULL, NULL, &settings));
    if (hvd_job_get(&settings, &options, &job) != KVS_OK) {
        printf("FAILED: %s\n", kvs_last_error());
        exit(1);
    }
    if (kvs_net_node_rank(hvd_job_node(job)) == 1) {
        pthread_mutex_lock(&lock);
        while (n_came < N_ENOUGH) {
            pthread_cond_wait(&changed, &lock);
        }
        pthread_mutex_unlock(&lock);
        return;
    }
    hvd_put_i64(&bytes, 7);
    for (int i = 0; i < N_SENT; i++) {
        hvd_job_send(job, 1, &bytes);
        usleep(PAUSE_US / 4);
    }
    hvd_bytes_release(&bytes);
}

static const kt_test_t tests[] = {
    KT_TEST(no_message_comes_to_an_engine_that_is_closed),
};

KT_MAIN("job_leaving", tests)
