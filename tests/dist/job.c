/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FINISH_MS 20000

job_t job_open(const kvs_option_t *options, size_t n)
{
    return job_open_as("dist_sync", options, n);
}

job_t job_open_as(const char *type, const kvs_option_t *options, size_t n)
{
    job_t job = {NULL, 0, 0};

    if (kvs_store_create(type, options, n, &job.store) != KVS_OK) {
        fprintf(stderr, "no store: %s\n", kvs_last_error());
        exit(1);
    }
    KT_OK(kvs_store_rank(job.store, &job.rank));
    KT_OK(kvs_store_num_workers(job.store, &job.n_workers));
    return job;
}

void job_close(job_t *job)
{
    KT_OK(kvs_store_close(job->store));
    job->store = NULL;
}

void job_meet(const job_t *job)
{
    KT_OK(kvs_store_barrier(job->store));
}

/* ---- Calls -------------------------------------------------------------------------------------------- */

/* Tensors' shapes point into the vectors. */
static kvs_tensor_t tensor_of(vec_t *vec)
{
    return (kvs_tensor_t){.data = vec->at,
                          .device = {KVS_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = kvs_dtype(KVS_DTYPE_float32),
                          .shape = &vec->n};
}

static kvs_status_t call(const job_t *job, kvs_key_t key, char verb, vec_t *value, vec_t *out,
                         kvs_event_t **ret_event)
{
    kvs_tensor_t value_tensor, out_tensor;
    kvs_arrays_t values = kvs_arrays(&value_tensor, 1), outs = kvs_arrays(&out_tensor, 1);
    kvs_call_t options = KVS_CALL_INIT;

    options.ret_event = ret_event;
    if (value != NULL) {
        value_tensor = tensor_of(value);
    }
    if (out != NULL) {
        out_tensor = tensor_of(out);
    }
    switch (verb) {
    case 'i':
        return kvs_store_init(job->store, &key, 1, &values, &options);
    case 'p':
        return kvs_store_push(job->store, &key, 1, &values, &options);
    case 'l':
        return kvs_store_pull(job->store, &key, 1, &outs, &options);
    default:
        return kvs_store_pushpull(job->store, &key, 1, &values, &outs, &options);
    }
}

kvs_status_t job_init(const job_t *job, kvs_key_t key, vec_t value)
{
    return call(job, key, 'i', &value, NULL, NULL);
}

kvs_status_t job_push(const job_t *job, kvs_key_t key, vec_t value)
{
    return call(job, key, 'p', &value, NULL, NULL);
}

kvs_status_t job_pull(const job_t *job, kvs_key_t key, vec_t *out)
{
    return call(job, key, 'l', NULL, out, NULL);
}

kvs_status_t job_pushpull(const job_t *job, kvs_key_t key, vec_t value, vec_t *out)
{
    return call(job, key, 'x', &value, out, NULL);
}

static kvs_event_t *begin(const job_t *job, kvs_key_t key, char verb, vec_t *value, vec_t *out)
{
    kvs_event_t *event = NULL;

    KT_OK(call(job, key, verb, value, out, &event));
    return event;
}

kvs_event_t *job_begin_push(const job_t *job, kvs_key_t key, vec_t *value)
{
    return begin(job, key, 'p', value, NULL);
}

kvs_event_t *job_begin_pushpull(const job_t *job, kvs_key_t key, vec_t *value, vec_t *out)
{
    return begin(job, key, 'x', value, out);
}

kvs_event_t *job_begin_init(const job_t *job, kvs_key_t key, vec_t *value)
{
    return begin(job, key, 'i', value, NULL);
}

kvs_status_t job_failure(const job_t *job, kvs_status_t status)
{
    return status != KVS_OK ? status : kvs_store_wait_all(job->store, FINISH_MS);
}

kvs_status_t job_finish(kvs_event_t *event)
{
    kvs_status_t status = kvs_event_wait(event, FINISH_MS);

    kvs_event_free(event);
    return status;
}

void job_want(const job_t *job, kvs_key_t key, int64_t n, float want)
{
    vec_t out = {n, {0}};

    KT_OK(job_pull(job, key, &out));
    for (int64_t i = 0; i < n; i++) {
        KT_REAL(out.at[i], want);
    }
}

kvs_status_t job_set_optimizer(kvs_store_t *store, const char *name, const kvs_param_t *params,
                               size_t n)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n;
    return kvs_store_set_optimizer(store, &spec);
}

/* ---- Other processes ---------------------------------------------------------------------------------- */

static size_t read_file(int pid, const char *name, char *text, size_t n_bytes)
{
    char path[64];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    n = fread(text, 1, n_bytes - 1, file);
    text[n] = '\0';
    fclose(file);
    return n;
}

static int parent_of(int pid)
{
    char text[512];
    const char *name_end;
    int parent = 0;

    if (read_file(pid, "stat", text, sizeof(text)) == 0 ||
        (name_end = strrchr(text, ')')) == NULL) {
        return 0;
    }
    return sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Whether "NAME=value" is in a process's environment. */
static int has_variable(int pid, const char *variable)
{
    static char text[1 << 16];
    size_t n = read_file(pid, "environ", text, sizeof(text));

    for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
        if (strcmp(text + at, variable) == 0) {
            return 1;
        }
    }
    return 0;
}

int job_pid_of(const char *role, int rank)
{
    DIR *processes = opendir("/proc");
    char role_is[64], rank_is[64];
    int found = 0;

    snprintf(role_is, sizeof(role_is), "KVSTORE_ROLE=%s", role);
    snprintf(rank_is, sizeof(rank_is), "KVSTORE_RANK=%d", rank);
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        int pid = atoi(entry->d_name);

        if (pid > 0 && parent_of(pid) == getppid() && has_variable(pid, role_is) &&
            has_variable(pid, rank_is)) {
            found = pid;
        }
    }
    if (processes != NULL) {
        closedir(processes);
    }
    return found;
}

/* Whether all its threads have stopped: they notice the signal one by one. */
static int is_stopped(int pid)
{
    char path[64], text[512];
    struct dirent *entry;
    int stopped = 1;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        int task = atoi(entry->d_name);
        const char *name_end;

        if (task > 0 && read_file(task, "stat", text, sizeof(text)) > 0 &&
            (name_end = strrchr(text, ')')) != NULL) {
            stopped &= strncmp(name_end, ") T", 3) == 0;
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return stopped;
}

void job_stop_process(int pid)
{
    const struct timespec nap = {.tv_nsec = 1000000};

    KT_TRUE(pid > 0);
    if (pid > 0) {
        KT_INT(kill(pid, SIGSTOP), 0);
        for (int i = 0; i < FINISH_MS && !is_stopped(pid); i++) {
            nanosleep(&nap, NULL);
        }
        KT_TRUE(is_stopped(pid));
    }
}
