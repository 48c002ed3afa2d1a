/* SPDX-License-Identifier: Apache-2.0 */
/* frozen.c - the source of kvs_frozen.so, which was built once, with the headers beside it, and is kept
 * as plugins in the field are: every later core has to load it. It sums float32 arrays, times an option,
 * and needs no library. */
#include <kvstore/plugin.h>

typedef struct frozen_store {
    int64_t scale;
    int64_t n_exchanges;
} frozen_store_t;

typedef struct frozen_group {
    int64_t n_values;
} frozen_group_t;

static int64_t number_of(const char *text)
{
    int64_t number = 0;

    for (; *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (*text - '0');
    }
    return number;
}

static kvs_status_t frozen_probe(const kvs_config_t *config)
{
    return number_of(kvs_plugin_host->option(config, "scale")) != 13
               ? KVS_OK
               : kvs_fail(KVS_ERR_UNAVAILABLE, "the scale is %d, which brings bad luck", 13);
}

static kvs_status_t frozen_open(void *store, const kvs_open_args_t *args)
{
    frozen_store_t *frozen = store;

    frozen->scale = number_of(kvs_plugin_host->option(args->config, "scale"));
    return frozen->scale != 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_ARGUMENT, "'%s' has no use for scale 0", args->type);
}

static kvs_status_t frozen_close(void *store, int64_t timeout_ms)
{
    frozen_store_t *frozen = store;

    frozen->scale = timeout_ms;
    return KVS_OK;
}

static kvs_status_t frozen_issue(void *store, kvs_op_t *op)
{
    frozen_store_t *frozen = store;

    frozen->n_exchanges++;
    for (size_t i = 0; i < op->n_groups; i++) {
        frozen_group_t *group = op->groups[i].state;

        group->n_values = (int64_t)op->groups[i].n_values;
    }
    return KVS_OK;
}

static void write_out(const frozen_store_t *frozen, const kvs_group_t *group, float *out, int64_t n)
{
    const frozen_group_t *state = group->state;

    for (int64_t i = 0; i < n; i++) {
        float sum = 0;

        for (int64_t v = 0; v < state->n_values; v++) {
            sum += ((const float *)group->values[v].data)[i];
        }
        out[i] = sum * (float)frozen->scale;
    }
}

static kvs_status_t frozen_pushpull(void *store, kvs_op_t *op)
{
    for (size_t i = 0; i < op->n_groups; i++) {
        const kvs_group_t *group = &op->groups[i];

        for (size_t o = 0; o < group->n_outs; o++) {
            int64_t n = 1;

            for (int32_t d = 0; d < group->outs[o].ndim; d++) {
                n *= group->outs[o].shape[d];
            }
            write_out(store, group, group->outs[o].data, n);
        }
    }
    return KVS_OK;
}

static kvs_status_t frozen_rank(void *store, int *ret_rank)
{
    *ret_rank = (int)((const frozen_store_t *)store)->n_exchanges;
    return KVS_OK;
}

static const kvs_backend_ops_t frozen_ops = {
    .size = sizeof(frozen_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(frozen_store_t),
    .group_size = sizeof(frozen_group_t),
    .probe = frozen_probe,
    .open = frozen_open,
    .close = frozen_close,
    .issue = frozen_issue,
    .pushpull = frozen_pushpull,
    .rank = frozen_rank,
};

static const int32_t frozen_devices[] = {KVS_DEVICE_CPU};
static const kvs_option_info_t frozen_options[] = {
    {.name = "scale", .type = "size", .preset = "1", .doc = "what sums are multiplied by"},
};

static const kvs_backend_t frozen_backend = {
    .size = sizeof(frozen_backend),
    .name = "frozen",
    .dtypes = 1u << KVS_DTYPE_float32,
    .n_device_types = 1,
    .device_types = frozen_devices,
    .ops = &frozen_ops,
    .options = frozen_options,
    .n_options = 1,
};

static const kvs_backend_t *const frozen_backends[] = {&frozen_backend};

KVS_PLUGIN(frozen, "1.0", .backends = frozen_backends, .n_backends = 1)
