/* SPDX-License-Identifier: Apache-2.0 */
/* job_status.c - what `kvstore status` shows of a job in the middle of a round. */
#include "job.h"

#include <signal.h>
#include <stdlib.h>

/* What the command prints; its exit status. */
static int run_status(const char *arguments, char *text, size_t n_bytes)
{
    char command[512];
    FILE *out;
    size_t n;

    snprintf(command, sizeof(command), "%s status %s 2>&1", getenv("KVSTORE"), arguments);
    out = popen(command, "r");
    n = out == NULL ? 0 : fread(text, 1, n_bytes - 1, out);
    text[n] = '\0';
    return out == NULL ? -1 : pclose(out);
}

static const char *arguments_of_this_job(void)
{
    static char arguments[256];

    snprintf(arguments, sizeof(arguments), "--job %s", getenv("KVSTORE_JOB_ID"));
    return arguments;
}

static int has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fprintf(stderr, "no \"%s\" in:\n%s", part, text);
        return 0;
    }
    return 1;
}

static void a_round_that_waits_is_shown(void)
{
    static char text[1 << 16];
    job_t room = job_open(NULL, 0), job = job_open(NULL, 0);
    vec_t value = VEC(1, 2, 3, 4), out = VEC(0, 0, 0, 0);

    KT_OK(JOB_OPTIMIZER(job.store, "adam", JOB_REAL("learning_rate", 0.5)));
    KT_OK(job_init(&job, kvs_key_str("fc.weight"), value));
    KT_OK(job_init(&job, kvs_key_str("fc.bias"), value));
    KT_OK(job_push(&job, kvs_key_str("fc.bias"), value));
    KT_OK(job_pull(&job, kvs_key_str("fc.bias"), &out));
    if (job.rank == 0) {
        kvs_event_t *event = job_begin_push(&job, kvs_key_str("fc.weight"), &value);

        /* a pull of another key comes behind it */
        KT_OK(job_pull(&job, kvs_key_str("fc.bias"), &out));
        KT_INT(run_status(arguments_of_this_job(), text, sizeof(text)), 0);
        KT_TRUE(has(text, ": server 0 (host "));
        KT_TRUE(has(text, "of 1 servers and 2 workers"));
        KT_TRUE(has(text, "store 2, synchronous: keys 2, values 0.0 MB"));
        KT_TRUE(has(text, "rounds 1, of them "));
        KT_TRUE(has(text, "  by tcp: received "));
        KT_TRUE(has(text, "key 'fc.weight', round 1: waits "));
        KT_TRUE(has(text, " s for worker 1 (host "));
        KT_TRUE(has(text, "MB resident, bound 67.1 MB"));
        KT_TRUE(has(text, ": scheduler (host "));
        KT_TRUE(
            has(text, "  group dist: 2 of 2 workers and 1 of 1 servers are there\n    worker 0 ("));
        KT_TRUE(has(text, "): heard "));
        job_meet(&room);
        KT_OK(job_finish(event));
    } else {
        job_meet(&room);
        KT_OK(job_push(&job, kvs_key_str("fc.weight"), value));
    }
    job_close(&job);
    job_close(&room);
}

static void a_server_that_is_stopped_is_named_and_the_others_are_shown(void)
{
    static char text[1 << 16];
    job_t job = job_open(NULL, 0);
    int pid = job_pid_of("server", 1);
    char line[128];

    job_stop_process(pid);
    KT_INT(run_status(arguments_of_this_job(), text, sizeof(text)), 0);
    KT_TRUE(pid > 0 && kill(pid, SIGCONT) == 0);
    snprintf(line, sizeof(line), "kvstore status: process %d has not answered within 2 s", pid);
    KT_TRUE(has(text, line));
    KT_TRUE(has(text, ": server 0 (host "));
    KT_TRUE(has(text, ": scheduler (host "));
    job_close(&job);
}

static void a_job_that_is_not_there_is_an_error(void)
{
    static char text[1 << 12];
    job_t job = job_open(NULL, 0);

    KT_TRUE(run_status("--job no-such-job", text, sizeof(text)) != 0);
    KT_TRUE(has(text, "no scheduler or server of job 'no-such-job' runs on this host"));
    job_close(&job);
}

static void an_address_says_which_job(void)
{
    static char text[1 << 16];
    job_t job = job_open(NULL, 0);
    char address[128] = "", mine[256];

    KT_INT(run_status(arguments_of_this_job(), text, sizeof(text)), 0);
    const char *line = strstr(text, ": scheduler (");

    KT_TRUE(line != NULL && sscanf(line, ": scheduler (%*[^)]) at %127s", address) == 1);
    KT_INT(run_status(address, text, sizeof(text)), 0);
    snprintf(mine, sizeof(mine), "job %s: scheduler ", getenv("KVSTORE_JOB_ID"));
    KT_TRUE(has(text, mine));
    snprintf(mine, sizeof(mine), "job %s: server 0 ", getenv("KVSTORE_JOB_ID"));
    KT_TRUE(has(text, mine));
    KT_TRUE(run_status("127.0.0.1:1", text, sizeof(text)) != 0);
    KT_TRUE(has(text, "no scheduler at 127.0.0.1:1 runs on this host"));
    snprintf(mine, sizeof(mine), "%s --job x", address);
    KT_TRUE(run_status(mine, text, sizeof(text)) != 0);
    KT_TRUE(has(text, "--job and an address: one of them says which job"));
    job_close(&job);
}

static void send(const job_t *job, const char *command)
{
    KT_OK(kvs_store_send_command_to_servers(job->store, 5, command, strlen(command)));
}

static void a_profile_of_the_servers_is_written(void)
{
    static char text[1 << 16];
    const char *dir = getenv("TMPDIR"), *job_id = getenv("KVSTORE_JOB_ID");
    char command[512], path[512];
    job_t job = job_open(NULL, 0);
    FILE *file;
    size_t n;

    snprintf(command, sizeof(command), "aggregate_stats:1,filename:%s/profile-%s.json0",
             dir == NULL ? "/tmp" : dir, job_id);
    snprintf(path, sizeof(path), "%s/rank0_profile-%s.json", dir == NULL ? "/tmp" : dir, job_id);
    KT_OK(job_init(&job, kvs_key_str("a \"b\""), VEC(1)));
    KT_OK(job_init(&job, kvs_key_str("unseen"), VEC(1)));
    send(&job, command);
    send(&job, "11");
    KT_OK(job_push(&job, kvs_key_str("a \"b\""), VEC(1)));
    job_want(&job, kvs_key_str("a \"b\""), 1, 1);
    send(&job, "12");
    KT_OK(job_push(&job, kvs_key_str("unseen"), VEC(1)));
    job_want(&job, kvs_key_str("unseen"), 1, 1);
    send(&job, "3");
    file = fopen(path, "r");
    n = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    KT_TRUE(has(text, "\"name\": \"kvstore server 0\""));
    KT_TRUE(
        has(text, "{\"name\": \"key 'a \\\"b\\\"'\", \"cat\": \"round\", \"ph\": \"X\", \"ts\": "));
    KT_TRUE(has(text, "\"args\": {\"bytes\": 4}}\n]\n"));
    KT_TRUE(strstr(text, "unseen") == NULL);
    if (file != NULL) {
        fclose(file);
    }
    remove(path);
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(a_round_that_waits_is_shown),
    KT_TEST(a_server_that_is_stopped_is_named_and_the_others_are_shown),
    KT_TEST(a_job_that_is_not_there_is_an_error),
    KT_TEST(an_address_says_which_job),
    KT_TEST(a_profile_of_the_servers_is_written),
};

KT_MAIN("job_status", tests)
