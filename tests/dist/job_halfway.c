/* SPDX-License-Identifier: Apache-2.0 */
/* job_halfway.c - calls that reach one server and not the other, which is stopped meanwhile: servers and
 * worker mean the same afterwards. Jobs of one worker and two servers. */
#include "job.h"

#include <signal.h>
#include <stdlib.h>

#define SHORT                                                                                      \
    {                                                                                              \
        "timeout", "3"                                                                             \
    }

static void stop_server_1(void)
{
    job_stop_process(job_pid_of("server", 1));
}

static void continue_server_1(void)
{
    int pid = job_pid_of("server", 1);

    KT_TRUE(pid > 0 && kill(pid, SIGCONT) == 0);
}

/* Keys 1 and 2 lie on servers 0 and 1, the least loaded ones, and key 3 on server 0. */
static void a_delete_that_fails_half_way_is_gone_on_with(void)
{
    const kvs_key_t keys[2] = {kvs_key_int(1), kvs_key_int(2)};
    job_t job = JOB_OPEN(SHORT);
    vec_t out = VEC(0);

    KT_OK(job_init(&job, keys[0], VEC(1, 2)));
    KT_OK(job_init(&job, keys[1], VEC(1, 2)));
    KT_OK(job_init(&job, kvs_key_int(3), VEC(7)));
    stop_server_1();
    KT_FAIL(kvs_store_delete(job.store, keys, 2), KVS_ERR_TIMEOUT, "delete: key 2: server 1 (");
    for (int i = 0; i < 2; i++) {
        KT_FAIL(job_push(&job, keys[i], VEC(3, 3)), KVS_ERR_STATE, "was to be deleted");
        KT_FAIL(job_pull(&job, keys[i], &(vec_t){2, {0}}), KVS_ERR_STATE, "delete it again");
    }
    job_want(&job, kvs_key_int(3), 1, 7); /* which was not in the list */
    continue_server_1();
    KT_OK(kvs_store_delete(job.store, keys, 2));
    for (int i = 0; i < 2; i++) {
        KT_FAIL(job_pull(&job, keys[i], &out), KVS_ERR_NOT_FOUND, "never initialised");
        KT_OK(job_init(&job, keys[i], VEC((float)i)));
        job_want(&job, keys[i], 1, (float)i);
    }
    job_close(&job);
}

/* How often the part stands in what `kvstore status` says of this job. */
static int count_in_status(const char *part)
{
    static char text[1 << 16];
    char command[512];
    FILE *out;
    int n = 0;

    snprintf(command, sizeof(command), "%s status --job %s", getenv("KVSTORE"),
             getenv("KVSTORE_JOB_ID"));
    out = popen(command, "r");
    text[out == NULL ? 0 : fread(text, 1, sizeof(text) - 1, out)] = '\0';
    if (out != NULL) {
        KT_INT(pclose(out), 0);
    }
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    return n;
}

/* One byte each, so that the shards of two servers are small enough to be copied. With an event, as a call
 * would wait little longer than the servers are waited for. */
static kvs_status_t init_bytes(const job_t *job, kvs_key_t key)
{
    enum { N = 2 * 65536 };
    static int8_t bytes[N];
    kvs_tensor_t tensor = kt_tensor(bytes, KVS_DTYPE_int8, (const int64_t[]){N}, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    call.ret_event = &event;
    KT_OK(kvs_store_init(job->store, &key, 1, &values, &call));
    return job_finish(event);
}

static void servers_forget_an_init_that_failed(void)
{
    job_t job = JOB_OPEN(SHORT, {"bigarray_bound", "1000"});
    kvs_key_t key = kvs_key_str("table");

    stop_server_1();
    KT_FAIL(init_bytes(&job, key), KVS_ERR_TIMEOUT, "init: key 'table': server 1 (");
    continue_server_1();
    KT_OK(kvs_store_send_command_to_servers(job.store, 1, NULL, 0)); /* behind all that */
    KT_INT(count_in_status(": keys 0,"), 2);
    KT_OK(init_bytes(&job, key));
    KT_INT(count_in_status(": keys 1,"), 2);
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(a_delete_that_fails_half_way_is_gone_on_with),
    KT_TEST(servers_forget_an_init_that_failed),
};

KT_MAIN("job_halfway", tests)
