/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c - `kvstore bench`: measure workloads on a backend, and the machine's memory beside
 * them, as rows that stand next to those of tests/bench. --json: a line of JSON a row. */
#include "bench_job.h"
#include "commands.h"

#include <kvstore/settings.h>

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct workload {
    const char *name;
    kvs_status_t (*run)(bench_t *bench);
    int needs_machine;                      /* its rows are held against the triad */
    int one_core;                           /* it is about one core */
    kvs_status_t (*worker)(bench_t *bench); /* of one that is a job: in its processes */
} workload_t;

static const workload_t workloads[] = {
    {"W1", bench_w1, 1, 0, NULL},
    {"W2", bench_w2, 0, 0, NULL},
    {"W3", bench_w3, 1, 0, NULL},
    {"W4", bench_w4, 0, 0, bench_w4_worker},
    {"W5", bench_w5, 0, 0, bench_w5_worker},
    {"W6", bench_w6, 1, 1, NULL},
    {"W7", bench_w7, 1, 0, NULL},
    {"W8", bench_w8, 0, 0, NULL},
};
#define N_WORKLOADS (sizeof(workloads) / sizeof(workloads[0]))

static const workload_t *find_workload(const char *name)
{
    for (size_t i = 0; i < N_WORKLOADS; i++) {
        if (strcasecmp(workloads[i].name, name) == 0) {
            return &workloads[i];
        }
    }
    return NULL;
}

/* ---- What the run is like ------------------------------------------------------------------------ */

static int count_processors(void)
{
    cpu_set_t allowed;

    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

/* The setting "threads", where 0 stands for the processors. What is malformed, create will refuse. */
static int count_threads(void)
{
    kvs_setting_list_t *list = NULL;
    long n = 0;

    if (kvs_setting_list(&list) == KVS_OK) {
        for (size_t i = 0; i < kvs_setting_list_count(list); i++) {
            const kvs_setting_t *setting = kvs_setting_list_at(list, i);

            if (strcmp(setting->owner, "core") == 0 && strcmp(setting->name, "threads") == 0) {
                n = strtol(setting->value, NULL, 10);
            }
        }
    }
    kvs_setting_list_free(list);
    return n > 0 && n < 1024 ? (int)n : count_processors();
}

static int asks_for_quick(void)
{
    const char *value = getenv("KVSTORE_BENCH_QUICK");

    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* ---- The command line -------------------------------------------------------------------------- */

/* 0, or the exit status of wrong usage. The workloads are argv[optind] and what follows. */
static int parse(int argc, char **argv, bench_t *ret_bench, const char **ret_started,
                 const char **ret_rows, int *ret_python)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'},
        {"json", no_argument, NULL, 'j'},
        {"pushpull", no_argument, NULL, 'p'},
        {"rows", required_argument, NULL, 'r'},
        {"started", required_argument, NULL, 's'},
        {"python", no_argument, NULL, 'y'},
        {NULL, 0, NULL, 0},
    };
    int option;

    optind = 0; /* start anew: the main program has looked at its own options */
    opterr = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'b':
            ret_bench->backend = optarg;
            break;
        case 'j':
            ret_bench->json = 1;
            break;
        case 'p':
            ret_bench->pushpull = 1;
            break;
        case 'y':
            *ret_python = 1;
            break;
        case 'r': /* not for users: W4 and W5 start themselves with it */
            *ret_rows = optarg;
            break;
        case 's': /* not for users: W8 starts itself with it */
            *ret_started = optarg;
            break;
        default:
            return cli_usage_error("bench", "unknown option, or without its value: %s",
                                   argv[optind - 1]);
        }
    }
    if (optind == argc && !*ret_python) {
        return cli_usage_error("bench", "name a workload: W1, W2, W3, W4, W5, W6, W7 or W8");
    }
    for (int i = optind; i < argc; i++) {
        if (find_workload(argv[i]) == NULL) {
            return cli_usage_error(
                "bench", "no workload \"%s\": there are W1, W2, W3, W4, W5, W6, W7 and W8",
                argv[i]);
        }
    }
    return 0;
}

/* Before much time is spent: whether there is such a store. */
static kvs_status_t try_backend(const char *name)
{
    kvs_store_t *store = NULL;
    kvs_status_t status = kvs_store_create(name, NULL, 0, &store);

    return status != KVS_OK ? status : kvs_store_close(store);
}

static int needs_machine(char **names)
{
    int needs = 0;

    for (; *names != NULL; names++) {
        needs |= find_workload(*names)->needs_machine;
    }
    return needs;
}

/* The first store fixes the threads of the process: by itself, such a workload gets one unless the
 * user has said how many. */
static void choose_threads(char **names)
{
    int one_core = 1;

    for (; *names != NULL; names++) {
        one_core &= find_workload(*names)->one_core;
    }
    if (one_core) {
        setenv("KVSTORE_THREADS", "1", 0);
    }
}

/* In a process of a job. Gives its exit status. */
static int run_worker(bench_t *bench, const char *rows, const char *name)
{
    const workload_t *workload = find_workload(name);
    kvs_status_t status =
        workload->worker == NULL
            ? kvs_fail(KVS_ERR_ARGUMENT, "%s is no workload of several processes", name)
            : bench_job_begin(bench, rows);

    status = status == KVS_OK ? workload->worker(bench) : status;
    if (status != KVS_OK) {
        fprintf(stderr, "kvstore bench: %s\n", kvs_last_error());
    }
    return status != KVS_OK;
}

/* All of them, though one may fail. */
static int run_workloads(bench_t *bench, char **names, int python)
{
    int failed = python && bench_python(bench) != KVS_OK ? cli_failed("bench") : 0;

    for (; *names != NULL; names++) {
        if (find_workload(*names)->run(bench) != KVS_OK) {
            fflush(stdout);
            fprintf(stderr, "kvstore bench: %s: %s\n", *names, kvs_last_error());
            failed = 1;
        }
    }
    return failed;
}

int cmd_bench(int argc, char **argv)
{
    bench_t bench = {.backend = "local", .quick = asks_for_quick()};
    const char *started = NULL, *rows = NULL;
    int python = 0, status = parse(argc, argv, &bench, &started, &rows, &python);

    if (status != 0) {
        return status;
    }
    if (started != NULL) {
        return bench_w8_child(&bench, started);
    }
    if (rows != NULL) {
        return run_worker(&bench, rows, argv[optind]);
    }
    choose_threads(argv + optind);
    if (try_backend(bench.backend) != KVS_OK) {
        return cli_failed("bench");
    }
    bench.n_threads = count_threads();
    bench_print_head(&bench);
    if (needs_machine(argv + optind) && bench_machine(&bench) != KVS_OK) {
        return cli_failed("bench");
    }
    return run_workloads(&bench, argv + optind, python);
}
