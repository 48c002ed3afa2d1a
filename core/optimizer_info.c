/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer_info.c - an optimizer's tables as data for people: the parameters of all optimizers, which
 * the service has, then its own, and its states. */
#include "arena.h"
#include "registry.h"

#include <kvstore/plugins.h>

#include <math.h>
#include <stdlib.h>

/* What a caller gets, and the memory of all that it points to. */
typedef struct described {
    kvs_optimizer_info_t info; /* first */
    kvsi_arena_t arena;
} described_t;

static const char *type_text(uint32_t type)
{
    return type == KVS_PARAM_BOOL ? "bool" : type == KVS_PARAM_INT ? "int" : "float";
}

static const char *accepts_text(uint32_t rules)
{
    int nullable = (rules & KVS_PARAM_NULLABLE) != 0;

    if ((rules & KVS_PARAM_UNIT) != 0) {
        return nullable ? "from 0 to below 1, or null" : "from 0 to below 1";
    }
    if ((rules & KVS_PARAM_NON_NEGATIVE) != 0) {
        return nullable ? "0 or more, or null" : "0 or more";
    }
    return nullable ? "any number, or null" : "";
}

static kvs_optimizer_param_t describe_param(kvsi_arena_t *arena, const kvs_param_info_t *info)
{
    kvs_optimizer_param_t param = {
        .preset = {.name = kvsi_arena_text(arena, "%s", info->name), .type = info->type},
        .type = type_text(info->type),
        .accepts = accepts_text(info->rules),
        .doc = kvsi_arena_text(arena, "%s", info->doc != NULL ? info->doc : ""),
    };

    if (isnan(info->preset)) {
        param.preset.type = KVS_PARAM_NULL;
    } else if (info->type == KVS_PARAM_FLOAT) {
        param.preset.value.real = info->preset;
    } else {
        param.preset.value.integer = (int64_t)info->preset;
    }
    return param;
}

static void describe_params(described_t *described, const kvs_optimizer_service_t *service,
                            const kvs_optimizer_t *kind)
{
    size_t n = service->n_params + kind->n_params;
    kvs_optimizer_param_t *params = kvsi_arena_array(&described->arena, n, sizeof(*params));

    for (size_t i = 0; params != NULL && i < n; i++) {
        kvs_param_info_t info =
            i < service->n_params ? service->params[i] : kind->params[i - service->n_params];

        if (i == 0 && service->n_params > 0) { /* learning_rate is each optimizer's own */
            info.preset = kind->learning_rate;
            info.rules = (kind->flags & KVS_OPTIMIZER_ANY_RATE) != 0 ? 0 : info.rules;
        }
        params[i] = describe_param(&described->arena, &info);
    }
    described->info.params = params;
    described->info.n_params = params != NULL ? n : 0;
}

/* The states that the default parameters need, as a mask. */
static uint32_t default_states(const kvs_optimizer_t *kind)
{
    double own[KVS_OPTIMIZER_MAX_PARAMS] = {0};
    kvs_hyper_t hyper = {.size = (uint32_t)sizeof(hyper),
                         .learning_rate = kind->learning_rate,
                         .rescale_grad = 1,
                         .own = own};

    for (size_t i = 0; i < kind->n_params && i < KVS_OPTIMIZER_MAX_PARAMS; i++) {
        own[i] = kind->params[i].preset;
    }
    return kind->states_used != NULL ? kind->states_used(&hyper) : UINT32_MAX;
}

static void describe_states(described_t *described, const kvs_optimizer_t *kind)
{
    kvs_optimizer_state_t *states =
        kvsi_arena_array(&described->arena, kind->n_states, sizeof(*states));
    uint32_t by_default = default_states(kind);

    for (size_t i = 0; states != NULL && i < kind->n_states; i++) {
        states[i] = (kvs_optimizer_state_t){
            .name = kvsi_arena_text(&described->arena, "%s", kind->states[i].name),
            .by_default = (by_default >> i & 1) != 0,
            .from_weight = (kind->states[i].flags & KVS_STATE_FROM_WEIGHT) != 0,
            .per_row = (kind->states[i].flags & KVS_STATE_PER_ROW) != 0,
        };
    }
    described->info.states = states;
    described->info.n_states = states != NULL ? kind->n_states : 0;
}

static kvs_status_t describe(const kvs_optimizer_service_t *service, const kvs_optimizer_t *kind,
                             kvs_optimizer_info_t **ret_info)
{
    described_t *described = calloc(1, sizeof(*described));
    kvs_status_t status;

    if (described == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "optimizer_describe: no memory");
    }
    described->info.name = kvsi_arena_text(&described->arena, "%s", kind->name);
    described->info.summary =
        kvsi_arena_text(&described->arena, "%s", kind->summary != NULL ? kind->summary : "");
    describe_params(described, service, kind);
    describe_states(described, kind);
    status = kvsi_arena_check(&described->arena);
    if (status != KVS_OK) {
        kvs_optimizer_info_free(&described->info);
        return status;
    }
    *ret_info = &described->info;
    return KVS_OK;
}

kvs_status_t kvs_optimizer_describe(const char *name, kvs_optimizer_info_t **ret_info)
{
    const kvs_optimizer_service_t *service;
    const kvs_optimizer_t *kind;
    kvs_status_t status;

    if (name == NULL || ret_info == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "optimizer_describe: %s is NULL",
                        name == NULL ? "the name" : "ret_info");
    }
    status = kvsi_registry_find_optimizer(name, &kind);
    if (status == KVS_OK) {
        status = kvsi_registry_find_optimizer_service(&service);
    }
    return status == KVS_OK ? describe(service, kind, ret_info) : status;
}

void kvs_optimizer_info_free(kvs_optimizer_info_t *info)
{
    described_t *described = (described_t *)info;

    if (described != NULL) {
        kvsi_arena_release(&described->arena);
        free(described);
    }
}
