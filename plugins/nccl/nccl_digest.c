/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_digest.c - FNV-1a over all that a caller has said. */
#include "nccl_digest.h"

#include <string.h>

static uint64_t mix(uint64_t digest, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++) {
        digest = (digest ^ at[i]) * UINT64_C(1099511628211);
    }
    return digest;
}

uint64_t nccl_digest_text(uint64_t digest, const char *text)
{
    return text == NULL ? mix(digest, "\1", 1) : mix(digest, text, strlen(text) + 1);
}

uint64_t nccl_digest_param(uint64_t digest, const kvs_param_t *param)
{
    digest = nccl_digest_text(digest, param->name);
    digest = mix(digest, &param->type, sizeof(param->type));
    switch (param->type) {
    case KVS_PARAM_TEXT:
        return nccl_digest_text(digest, param->value.text);
    case KVS_PARAM_INTS:
        return mix(digest, param->value.integers, param->n_integers * sizeof(int64_t));
    case KVS_PARAM_FLOAT:
        return mix(digest, &param->value.real, sizeof(double));
    default:
        return mix(digest, &param->value.integer, sizeof(int64_t));
    }
}

/* Lists come from hash tables too: their order says nothing. */
static uint64_t mix_sum(uint64_t digest, uint64_t sum, size_t n)
{
    return mix(mix(digest, &sum, sizeof(sum)), &n, sizeof(n));
}

static uint64_t mix_params(uint64_t digest, const kvs_param_t *params, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += nccl_digest_param(0, &params[i]);
    }
    return mix_sum(digest, sum, n);
}

static uint64_t mix_key(uint64_t digest, const kvs_key_t *key)
{
    return key->str != NULL ? nccl_digest_text(digest, key->str)
                            : mix(digest, &key->num, sizeof(key->num));
}

static uint64_t mix_multipliers(uint64_t digest, const kvs_multiplier_t *list, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += mix(mix_key(0, &list[i].key), &list[i].value, sizeof(double));
    }
    return mix_sum(digest, sum, n);
}

static uint64_t mix_names(uint64_t digest, const kvs_optimizer_spec_t *spec)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < spec->n_names; i++) {
        sum += nccl_digest_text(mix_key(0, &spec->names[i].key), spec->names[i].name);
    }
    return mix_sum(digest, sum, spec->n_names);
}

uint64_t nccl_digest_spec(uint64_t digest, const kvs_optimizer_spec_t *spec)
{
    digest = nccl_digest_text(digest, spec->name);
    digest = mix_params(digest, spec->params, spec->n_params);
    digest = mix_multipliers(digest, spec->lr_mult, spec->n_lr_mult);
    digest = mix_multipliers(digest, spec->wd_mult, spec->n_wd_mult);
    digest = nccl_digest_text(mix_names(digest, spec), spec->schedule);
    return mix_params(digest, spec->schedule_params, spec->n_schedule_params);
}
