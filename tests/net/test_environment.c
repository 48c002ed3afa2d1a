/* SPDX-License-Identifier: Apache-2.0 */
/* Who am I: a table of environments and what follows from each. No variable of this process is read. */
#include "kt.h"

#include <kvstore/net.h>

#include <stdlib.h>

#define MAX_VARIABLES 16

/* "A=1 B=2"; a value reaches to the next space. */
static const char *look_up(void *arg, const char *variable)
{
    static char values[MAX_VARIABLES][256]; /* the reader keeps a few at a time */
    static int next;
    const char *at = arg;
    size_t n = strlen(variable);

    for (; at != NULL && *at != '\0'; at = strchr(at, ' ') == NULL ? NULL : strchr(at, ' ') + 1) {
        if (strncmp(at, variable, n) == 0 && at[n] == '=') {
            char *value = values[next++ % MAX_VARIABLES];

            snprintf(value, 256, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
            return value;
        }
    }
    return NULL;
}

static kvs_status_t read_settings(const char *environment, kvs_net_settings_t *settings)
{
    return kvs_net_settings_read(look_up, (void *)(uintptr_t)environment, settings);
}

typedef struct good {
    const char *environment;
    int role, rank, n_workers, n_servers, embed, local_rank;
    const char *scheduler, *job_id, *rule;
} good_t;

#define BOTH  (KVS_NET_EMBED_SCHEDULER | KVS_NET_EMBED_SERVERS)
#define TORCH "WORLD_SIZE=4 RANK=2 LOCAL_RANK=0 MASTER_ADDR=h MASTER_PORT=29500"
#define OMPI  "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1"
#define SLURM                                                                                      \
    "SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_JOB_ID=10042 SLURM_STEP_ID=0"
#define OWN_RULE "KVSTORE_* and DMLC_* variables"

static const good_t good[] = {
    {"", KVS_NET_WORKER, 0, 1, 0, BOTH, 0, "", "default", "none"},
    {"KVSTORE_ROLE=worker KVSTORE_RANK=1 KVSTORE_NUM_WORKERS=2 KVSTORE_NUM_SERVERS=3 "
     "KVSTORE_SCHEDULER=a:5 KVSTORE_JOB_ID=j",
     KVS_NET_WORKER, 1, 2, 3, 0, -1, "a:5", "j", OWN_RULE},
    {"KVSTORE_ROLE=Server KVSTORE_NUM_WORKERS=2 KVSTORE_NUM_SERVERS=3 KVSTORE_SCHEDULER=[::1]:5",
     KVS_NET_SERVER, -1, 2, 3, 0, -1, "[::1]:5", "default", OWN_RULE},
    {"KVSTORE_ROLE=scheduler KVSTORE_NUM_WORKERS=2 KVSTORE_NUM_SERVERS=0 KVSTORE_SCHEDULER=a:5",
     KVS_NET_SCHEDULER, -1, 2, 0, KVS_NET_EMBED_SERVERS, -1, "a:5", "default", OWN_RULE},
    {"DMLC_ROLE=server DMLC_SERVER_ID=1 DMLC_WORKER_ID=0 DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=2 "
     "DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9000",
     KVS_NET_SERVER, 1, 2, 2, 0, -1, "10.0.0.1:9000", "default", OWN_RULE},
    /* no role, as MXNet has it: a worker */
    {"DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=1 DMLC_PS_ROOT_URI=::1 DMLC_PS_ROOT_PORT=9000",
     KVS_NET_WORKER, -1, 2, 1, 0, -1, "[::1]:9000", "default", OWN_RULE},
    /* our name goes before theirs */
    {"DMLC_ROLE=server KVSTORE_ROLE=worker KVSTORE_NUM_WORKERS=5 DMLC_NUM_WORKER=2 "
     "DMLC_NUM_SERVER=1 KVSTORE_SCHEDULER=b:1 DMLC_PS_ROOT_URI=c DMLC_PS_ROOT_PORT=9000",
     KVS_NET_WORKER, -1, 5, 1, 0, -1, "b:1", "default", OWN_RULE},
    /* ranks by hand, on one host */
    {"KVSTORE_NUM_WORKERS=3 KVSTORE_RANK=2", KVS_NET_WORKER, 2, 3, 0, BOTH, -1, "", "default",
     OWN_RULE},
    {"KVSTORE_NUM_WORKERS=1", KVS_NET_WORKER, 0, 1, 0, BOTH, 0, "", "default", OWN_RULE},
    {"KVSTORE_NUM_WORKERS=3 KVSTORE_RANK=2 KVSTORE_NUM_SERVERS=0 KVSTORE_SCHEDULER=a:5",
     KVS_NET_WORKER, 2, 3, 0, BOTH, -1, "a:5", "default", OWN_RULE},
    /* launchers: one host, and several */
    {TORCH " LOCAL_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=run7", KVS_NET_WORKER, 2, 4, 0, BOTH, 0, "",
     "run7", "torchrun"},
    {TORCH " LOCAL_WORLD_SIZE=2", KVS_NET_WORKER, 2, 4, 0, BOTH, 0, "h:29501", "default",
     "torchrun"},
    {"HOROVOD_SIZE=2 HOROVOD_RANK=1 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2", KVS_NET_WORKER, 1,
     2, 0, BOTH, 1, "", "default", "Horovod"},
    {OMPI " OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=77", KVS_NET_WORKER, 3, 4, 0, BOTH, 1, "",
     "77", "Open MPI"},
    {OMPI " OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=78 MASTER_ADDR=h MASTER_PORT=10",
     KVS_NET_WORKER, 3, 4, 0, BOTH, 1, "h:11", "78", "Open MPI"},
    {OMPI " OMPI_COMM_WORLD_LOCAL_SIZE=2 DMLC_PS_ROOT_URI=h DMLC_PS_ROOT_PORT=12", KVS_NET_WORKER,
     3, 4, 0, BOTH, 1, "h:12", "default", OWN_RULE ", then Open MPI"},
    {OMPI " KVSTORE_NUM_SERVERS=2 KVSTORE_SCHEDULER=s:1 KVSTORE_JOB_ID=x", KVS_NET_WORKER, 3, 4, 2,
     0, 1, "s:1", "x", OWN_RULE ", then Open MPI"},
    {SLURM " SLURM_STEP_NUM_NODES=1", KVS_NET_WORKER, 5, 8, 0, BOTH, 1, "", "10042.0", "Slurm"},
    {SLURM " SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=gpu[03-07,12],login1", KVS_NET_WORKER, 5, 8,
     0, BOTH, 1, "gpu03:20042", "10042.0", "Slurm"},
    {SLURM " SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a7,b[1-2]", KVS_NET_WORKER, 5, 8, 0, BOTH,
     1, "a7:20042", "10042.0", "Slurm"},
    {"PMI_SIZE=2 PMI_RANK=1", KVS_NET_WORKER, 1, 2, 0, BOTH, -1, "", "default", "PMI"},
    /* a batch script of Slurm is one process, and RANK alone may be anybody's */
    {"SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_JOB_ID=3 RANK=4", KVS_NET_WORKER, 0, 1, 0, BOTH, 0, "",
     "default", "none"},
};

static void each_environment_says_who_this_process_is(void)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const good_t *want = &good[i];
        kvs_net_settings_t got = {0};

        if (!KT_OK(read_settings(want->environment, &got))) {
            fprintf(stderr, "environment: %s\n", want->environment);
            continue;
        }
        KT_INT(got.role, want->role);
        KT_INT(got.rank, want->rank);
        KT_INT(got.n_workers, want->n_workers);
        KT_INT(got.n_servers, want->n_servers);
        KT_INT(got.embed, want->embed);
        KT_INT(got.local_rank, want->local_rank);
        KT_STR(got.scheduler, want->scheduler);
        KT_STR(got.job_id, want->job_id);
        KT_STR(got.rule, want->rule);
    }
}

static const struct bad {
    const char *environment, *part[3];
} bad[] = {
    {"KVSTORE_ROLE=worker",
     {"KVSTORE_NUM_WORKERS (or DMLC_NUM_WORKER) is missing",
      "KVSTORE_NUM_SERVERS (or DMLC_NUM_SERVER) is missing", "KVSTORE_SCHEDULER (or DMLC_PS_ROOT"}},
    {"DMLC_ROLE=worker DMLC_NUM_WORKER=x DMLC_NUM_SERVER=1.5 DMLC_PS_ROOT_URI=a",
     {"DMLC_NUM_WORKER is 'x', not a whole number from 1", "DMLC_NUM_SERVER is '1.5'",
      "DMLC_PS_ROOT_PORT is missing"}},
    {"DMLC_PS_ROOT_PORT=99999 DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=1",
     {"DMLC_PS_ROOT_URI is missing", "DMLC_PS_ROOT_PORT is '99999'", ""}},
    {"KVSTORE_ROLE=boss KVSTORE_NUM_WORKERS=1 KVSTORE_NUM_SERVERS=1 KVSTORE_SCHEDULER=a:1",
     {"KVSTORE_ROLE is 'boss', not worker, server or scheduler", "", ""}},
    {"KVSTORE_RANK=2 KVSTORE_NUM_WORKERS=2 KVSTORE_NUM_SERVERS=1 KVSTORE_SCHEDULER=a:1",
     {"KVSTORE_RANK is '2', not a whole number from 0 to 1", "", ""}},
    {"KVSTORE_RANK=-1 KVSTORE_NUM_WORKERS=0",
     {"KVSTORE_NUM_WORKERS is '0'", "KVSTORE_RANK is '-1'", ""}},
    {"KVSTORE_NUM_WORKERS=2", {"KVSTORE_RANK (or KVSTORE_ROLE with", "", ""}},
    {"KVSTORE_RANK=0", {"KVSTORE_NUM_WORKERS (or DMLC_NUM_WORKER) is missing", "", ""}},
    {"KVSTORE_NUM_WORKERS=2 KVSTORE_RANK=1 KVSTORE_SCHEDULER=a:1",
     {"KVSTORE_NUM_SERVERS (or DMLC_NUM_SERVER) is missing", "", ""}},
    {"KVSTORE_ROLE=server KVSTORE_NUM_WORKERS=2 KVSTORE_NUM_SERVERS=0 KVSTORE_SCHEDULER=a:1",
     {"KVSTORE_NUM_SERVERS is 0, but this process is a server", "", ""}},
    {"KVSTORE_ROLE=worker KVSTORE_NUM_WORKERS=2 KVSTORE_NUM_SERVERS=1 KVSTORE_SCHEDULER=::1:5",
     {"KVSTORE_SCHEDULER is '::1:5', not host:port", "", ""}},
    {"WORLD_SIZE=2", {"RANK (or KVSTORE_RANK) is missing", "", ""}},
    {"WORLD_SIZE=2 RANK=9", {"RANK is '9', not a whole number from 0 to 1", "", ""}},
    {TORCH " LOCAL_WORLD_SIZE=none", {"LOCAL_WORLD_SIZE is 'none'", "", ""}},
    {"WORLD_SIZE=4 RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h",
     {"MASTER_PORT (or KVSTORE_SCHEDULER)", "", ""}},
    {OMPI " OMPI_COMM_WORLD_LOCAL_SIZE=2", {"the job spans hosts, and KVSTORE_SCHEDULER", "", ""}},
    {"KVSTORE_HEARTBEAT=fast KVSTORE_DEAD_AFTER=-1 KVSTORE_RENDEZVOUS=1e99",
     {"KVSTORE_HEARTBEAT is 'fast', not a number of seconds above 0",
      "KVSTORE_DEAD_AFTER is '-1', not", "KVSTORE_RENDEZVOUS is '1e99'"}},
    {"KVSTORE_HEARTBEAT=8",
     {"KVSTORE_DEAD_AFTER (15 s) is less than twice KVSTORE_HEARTBEAT (8 s)", "", ""}},
    {"KVSTORE_INSECURE=yes KVSTORE_SHM=2",
     {"KVSTORE_INSECURE is 'yes'", "KVSTORE_SHM is '2', not a whole number from 0 to 1", ""}},
};

static void everything_wrong_is_named_in_one_error(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kvs_net_settings_t got;

        for (size_t part = 0; part < 3; part++) {
            if (!KT_FAIL(read_settings(bad[i].environment, &got), KVS_ERR_ARGUMENT,
                         bad[i].part[part])) {
                fprintf(stderr, "environment: %s\n", bad[i].environment);
            }
        }
    }
}

static void times_are_seconds_with_fractions(void)
{
    kvs_net_settings_t got;

    KT_OK(read_settings("KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=1 KVSTORE_RENDEZVOUS=2.5", &got));
    KT_INT(got.heartbeat_ms, 200);
    KT_INT(got.dead_after_ms, 1000);
    KT_INT(got.rendezvous_ms, 2500);
    KT_OK(read_settings("KVSTORE_RENDEZVOUS=0", &got));
    KT_INT(got.rendezvous_ms, -1);
    KT_OK(read_settings("PS_HEARTBEAT_INTERVAL=0 PS_HEARTBEAT_TIMEOUT=0", &got));
    KT_INT(got.heartbeat_ms, 2000);
    KT_INT(got.dead_after_ms, 15000);
    KT_OK(read_settings("PS_HEARTBEAT_INTERVAL=1 PS_HEARTBEAT_TIMEOUT=4", &got));
    KT_INT(got.heartbeat_ms, 1000);
    KT_INT(got.dead_after_ms, 4000);
}

static void the_rest_is_copied(void)
{
    kvs_net_settings_t got;

    KT_OK(read_settings("KVSTORE_INTERFACE=eth7 DMLC_INTERFACE=eth8 DMLC_NODE_HOST=me "
                        "KVSTORE_INSECURE=1",
                        &got));
    KT_STR(got.interface, "eth7");
    KT_STR(got.node_host, "me");
    KT_INT(got.insecure, 1);
    KT_INT(got.shm, KVS_NET_SHM_AUTO);
    KT_OK(read_settings("KVSTORE_SHM=1", &got));
    KT_INT(got.shm, KVS_NET_SHM_AUTO);
    KT_OK(read_settings("KVSTORE_SHM=0", &got));
    KT_INT(got.shm, KVS_NET_SHM_OFF);
}

static void a_value_that_is_too_long_is_named(void)
{
    char environment[400] = "KVSTORE_JOB_ID=";
    kvs_net_settings_t got;

    memset(environment + 15, 'x', 200);
    KT_FAIL(read_settings(environment, &got), KVS_ERR_ARGUMENT,
            "KVSTORE_JOB_ID is longer than 127 bytes");
}

static void without_a_lookup_the_process_is_read(void)
{
    kvs_net_settings_t got;

    setenv("KVSTORE_NUM_WORKERS", "7", 1);
    setenv("KVSTORE_RANK", "6", 1);
    KT_OK(kvs_net_settings_read(NULL, NULL, &got));
    KT_INT(got.n_workers, 7);
    KT_INT(got.rank, 6);
}

static const kt_test_t tests[] = {
    KT_TEST(each_environment_says_who_this_process_is),
    KT_TEST(everything_wrong_is_named_in_one_error),
    KT_TEST(times_are_seconds_with_fractions),
    KT_TEST(the_rest_is_copied),
    KT_TEST(a_value_that_is_too_long_is_named),
    KT_TEST(without_a_lookup_the_process_is_read),
};

KT_MAIN("environment", tests)
