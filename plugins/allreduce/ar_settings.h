/* SPDX-License-Identifier: Apache-2.0 */
/* ar_settings.h - who a process of an allreduce job is: the options of create before the environment,
 * and the launchers' variables held against each other. Shared by horovod and byteps. */
#ifndef AR_SETTINGS_H
#define AR_SETTINGS_H

#include <kvstore/net.h>

/* As kvs_net_settings_read, through the options of `config`. ERR_ARGUMENT also where two variables
 * that are set contradict each other: the text names both. */
kvs_status_t ar_settings_read(const kvs_config_t *config, kvs_net_settings_t *ret_settings);

/* An option of type "int" or "size". */
int64_t ar_option_int(const kvs_config_t *config, const char *name);
/* What functions of net.h take for it: negative is for ever. */
static inline int64_t ar_net_timeout(int64_t timeout_ms)
{
    return timeout_ms == 0 ? -1 : timeout_ms;
}

/* The options of create that say who a process is: part of each backend's table, and of its manifest. */
#define AR_JOB_OPTIONS                                                                             \
    {.name = "role",                                                                               \
     .type = "text",                                                                               \
     .preset = "",                                                                                 \
     .doc = "what this process is: worker, server or scheduler",                                   \
     .flags = KVS_OPTION_LOCAL},                                                                   \
        {.name = "rank",                                                                           \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "this process's number among those of its role",                                   \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "num_workers",                                                                    \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "workers in the job",                                                              \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "scheduler",                                                                      \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "the scheduler's address, host:port",                                              \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "job_id",                                                                         \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "the job's name: jobs of different names never meet",                              \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "node_host",                                                                      \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "the address to announce to the others",                                           \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "interface",                                                                      \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "the network interface whose address to announce",                                 \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "insecure",                                                                       \
         .type = "text",                                                                           \
         .preset = "",                                                                             \
         .doc = "1: addresses other than loopback are allowed, without keys",                      \
         .flags = KVS_OPTION_LOCAL},                                                               \
        {.name = "heartbeat",                                                                      \
         .type = "time",                                                                           \
         .preset = "2",                                                                            \
         .doc = "seconds between signs of life"},                                                  \
        {.name = "dead_after",                                                                     \
         .type = "time",                                                                           \
         .preset = "15",                                                                           \
         .doc = "seconds of silence after which a process counts as dead"},                        \
        {.name = "rendezvous",                                                                     \
         .type = "time",                                                                           \
         .preset = "300",                                                                          \
         .doc = "seconds to wait until all processes are there; 0: for ever",                      \
         .flags = KVS_OPTION_LOCAL},                                                               \
    {                                                                                              \
        .name = "announce", .type = "text", .preset = "",                                          \
        .doc = "file that a scheduler writes its address to, once it listens",                     \
        .flags = KVS_OPTION_LOCAL                                                                  \
    }

/* And where there are servers: `kvstore run` starts some for backends that have this option. */
#define AR_SERVER_OPTIONS                                                                          \
    {                                                                                              \
        .name = "num_servers", .type = "text", .preset = "", .doc = "servers in the job",          \
        .flags = KVS_OPTION_LOCAL                                                                  \
    }

#endif
