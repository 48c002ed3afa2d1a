/* SPDX-License-Identifier: Apache-2.0 */
#include "byteps_settings.h"

#include "ar_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOCAL 65536

typedef struct launched {
    void *config;
    long local_size, local_rank;
    char n_workers[32], rank[32];
} launched_t;

/* A whole number from 0 to `max`; -1: the variable is not set, -2: it is no such number. */
static long number_of(const char *variable, long max)
{
    const char *text = getenv(variable);
    char *end;
    long value;

    if (text == NULL || *text == '\0') {
        return -1;
    }
    value = strtol(text, &end, 10);
    return *text == ' ' || end == text || *end != '\0' || value < 0 || value > max ? -2 : value;
}

/* Processes where the variables count machines. What is malformed goes on as it is, and is complained of. */
static const char *look_up(void *arg, const char *variable)
{
    launched_t *launched = arg;
    long machines = strcmp(variable, "DMLC_NUM_WORKER") == 0 ? number_of(variable, MAX_LOCAL) : -1;
    long machine = strcmp(variable, "DMLC_WORKER_ID") == 0 ? number_of(variable, MAX_LOCAL) : -1;

    if (machines > 0) {
        snprintf(launched->n_workers, sizeof(launched->n_workers), "%ld",
                 machines * launched->local_size);
        return launched->n_workers;
    }
    if (strcmp(variable, "DMLC_WORKER_ID") == 0 && getenv("BYTEPS_GLOBAL_RANK") != NULL) {
        return getenv("BYTEPS_GLOBAL_RANK");
    }
    if (machine >= 0) {
        snprintf(launched->rank, sizeof(launched->rank), "%ld",
                 machine * launched->local_size + launched->local_rank);
        return launched->rank;
    }
    return kvs_net_look_up_option(launched->config, variable);
}

static kvs_status_t read_launched(launched_t *launched)
{
    long size = number_of("BYTEPS_LOCAL_SIZE", MAX_LOCAL);
    long rank = number_of("BYTEPS_LOCAL_RANK", MAX_LOCAL);

    if (size == -2 || size == 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "BYTEPS_LOCAL_SIZE is '%s', not a number of processes",
                        getenv("BYTEPS_LOCAL_SIZE"));
    }
    if (rank == -2 || rank >= (size < 0 ? MAX_LOCAL : size)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "BYTEPS_LOCAL_RANK is '%s', not a number below %ld",
                        getenv("BYTEPS_LOCAL_RANK"), size < 0 ? MAX_LOCAL : size);
    }
    launched->local_size = size < 0 ? 1 : size;
    launched->local_rank = rank < 0 || size < 0 ? 0 : rank;
    return KVS_OK;
}

kvs_status_t byteps_settings_read(const kvs_config_t *config, kvs_net_settings_t *ret_settings)
{
    launched_t launched = {.config = (void *)(uintptr_t)config};
    kvs_status_t status = read_launched(&launched);

    return status == KVS_OK ? kvs_net_settings_read(look_up, &launched, ret_settings) : status;
}
