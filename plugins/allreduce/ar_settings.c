/* SPDX-License-Identifier: Apache-2.0 */
#include "ar_settings.h"

#include <stdlib.h>
#include <string.h>

/* Ways to say the same. A process that is told twice must be told the same. */
static const char *const sizes[] = {"KVSTORE_NUM_WORKERS", "DMLC_NUM_WORKER", "HOROVOD_SIZE",
                                    "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"};
static const char *const ranks[] = {"KVSTORE_RANK", "DMLC_WORKER_ID", "HOROVOD_RANK",
                                    "OMPI_COMM_WORLD_RANK", "RANK"};
enum { N_WAYS = sizeof(sizes) / sizeof(sizes[0]) };

static kvs_status_t check_alike(const kvs_config_t *config, const char *const *variables,
                                const char *what)
{
    const char *first = NULL, *first_value = NULL;

    for (size_t i = 0; i < N_WAYS; i++) {
        const char *value = kvs_net_look_up_option((void *)(uintptr_t)config, variables[i]);

        if (value == NULL || value[0] == '\0') {
            continue;
        }
        if (first == NULL) {
            first = variables[i];
            first_value = value;
        } else if (strtol(first_value, NULL, 10) != strtol(value, NULL, 10)) {
            return kvs_fail(KVS_ERR_ARGUMENT,
                            "the environment of this process contradicts itself about %s: %s is "
                            "'%s', but %s is '%s'; unset the one that is wrong",
                            what, first, first_value, variables[i], value);
        }
    }
    return KVS_OK;
}

kvs_status_t ar_settings_read(const kvs_config_t *config, kvs_net_settings_t *ret_settings)
{
    kvs_status_t status =
        kvs_net_settings_read(kvs_net_look_up_option, (void *)(uintptr_t)config, ret_settings);

    if (status == KVS_OK && ret_settings->role == KVS_NET_WORKER) {
        status = check_alike(config, sizes, "the number of workers");
        status = status == KVS_OK ? check_alike(config, ranks, "its rank") : status;
    }
    return status;
}

int64_t ar_option_int(const kvs_config_t *config, const char *name)
{
    const char *text = kvs_plugin_host->option(config, name);

    return text == NULL ? 0 : strtoll(text, NULL, 10);
}
