/* SPDX-License-Identifier: Apache-2.0 */
/* opt_state.c - the memory of one key's states: made at its first update, and again for those that a
 * changed parameter calls for. */
#include "opt_states.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <string.h>

static int64_t state_n_elems(const kvs_opt_states_t *states, size_t index)
{
    int per_row = (states->kind->states[index].flags & KVS_STATE_PER_ROW) != 0;

    return per_row ? states->n_rows : states->n_elems;
}

static void free_array(void **array, int dtype, int64_t n_elems)
{
    const kvs_device_t cpu = {KVS_DEVICE_CPU, 0};

    kvs_cpu_provider()->free(cpu, *array, (size_t)n_elems * kvs_dtype_bytes(dtype));
    *array = NULL;
}

/* An array of zeros, or, with `weight`, of the weight's values. */
static kvs_status_t make_array(int dtype, int64_t n_elems, int weight_dtype, const void *weight,
                               void **ret_array)
{
    const kvs_provider_t *provider = kvs_cpu_provider();
    const kvs_device_t cpu = {KVS_DEVICE_CPU, 0};
    kvs_status_t status = provider->alloc(cpu, (size_t)n_elems * kvs_dtype_bytes(dtype), ret_array);

    if (status == KVS_OK && weight != NULL && n_elems > 0) {
        status = provider->cast(n_elems, weight_dtype, weight, dtype, *ret_array);
        if (status != KVS_OK) {
            free_array(ret_array, dtype, n_elems);
        }
    }
    return status;
}

static void release_states(kvs_opt_states_t *states, uint32_t mask)
{
    for (size_t i = 0; i < states->kind->n_states; i++) {
        if ((mask & 1u << i) != 0 && states->data[i] != NULL) {
            free_array(&states->data[i], states->dtype, state_n_elems(states, i));
        }
    }
}

static void free_states(kvs_opt_states_t *states)
{
    release_states(states, states->made);
    free_array(&states->master, KVS_DTYPE_float32, states->n_elems);
    free(states->sums);
    free(states);
}

static kvs_status_t make_sums(kvs_opt_states_t *states)
{
    size_t n_sums = (size_t)kvs_opt_n_blocks(states->n_elems) * states->kind->n_sums;

    if (states->kind->n_phases > 0 && n_sums > 0) {
        states->sums = calloc(n_sums, sizeof(*states->sums));
        if (states->sums == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu sums", n_sums);
        }
    }
    return KVS_OK;
}

int kvs_opt_has_master(const kvs_opt_t *opt, const kvs_key_entry_t *key)
{
    return opt->hyper.multi_precision && key->dtype.bits == 16;
}

int64_t kvs_opt_n_rows(const kvs_key_entry_t *key)
{
    return key->n_elems == 0 ? 0 : key->ndim > 0 ? key->shape[0] : 1;
}

/* All but the states themselves. */
static kvs_status_t new_states(const kvs_opt_t *opt, const kvs_key_entry_t *key, const void *weight,
                               kvs_opt_states_t **ret_states)
{
    int weight_dtype = kvs_dtype_index(key->dtype);
    int with_master = kvs_opt_has_master(opt, key);
    kvs_opt_states_t *states = calloc(1, sizeof(*states));
    kvs_status_t status;

    if (states == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory");
    }
    states->kind = opt->kind;
    states->dtype = with_master ? KVS_DTYPE_float32 : weight_dtype;
    states->n_elems = key->n_elems;
    states->n_rows = kvs_opt_n_rows(key);
    states->row_elems = states->n_rows > 0 ? key->n_elems / states->n_rows : 0;
    status = make_sums(states);
    if (status == KVS_OK && with_master) {
        status = make_array(KVS_DTYPE_float32, key->n_elems, weight_dtype, weight, &states->master);
    }
    if (status != KVS_OK) {
        free_states(states);
        return status;
    }
    *ret_states = states;
    return KVS_OK;
}

/* Make those of `mask`: all or none. */
static kvs_status_t make_states(kvs_opt_states_t *states, uint32_t mask, int weight_dtype,
                                const void *weight)
{
    for (size_t i = 0; i < states->kind->n_states; i++) {
        int from_weight = (states->kind->states[i].flags & KVS_STATE_FROM_WEIGHT) != 0;
        kvs_status_t status;

        if ((mask & 1u << i) == 0) {
            continue;
        }
        status = make_array(states->dtype, state_n_elems(states, i), weight_dtype,
                            from_weight ? weight : NULL, &states->data[i]);
        if (status != KVS_OK) {
            release_states(states, mask & ((1u << i) - 1));
            return status;
        }
    }
    states->made |= mask;
    return KVS_OK;
}

kvs_status_t kvs_opt_states_new(const kvs_opt_t *opt, const kvs_key_entry_t *key, uint32_t mask,
                                kvs_opt_states_t **ret_states)
{
    kvs_opt_states_t *states = NULL;
    kvs_status_t status = new_states(opt, key, NULL, &states);

    if (status == KVS_OK) {
        status = make_states(states, mask, states->dtype, NULL);
    }
    if (status != KVS_OK) {
        if (states != NULL) {
            free_states(states);
        }
        return status;
    }
    *ret_states = states;
    return KVS_OK;
}

kvs_status_t kvs_opt_begin(kvs_opt_t *opt, kvs_opt_key_t *key_state, const kvs_key_entry_t *key,
                           const void *weight)
{
    return kvs_opt_begin_for(opt, key_state, key, weight, kvs_opt_states_used(opt));
}

kvs_status_t kvs_opt_begin_for(kvs_opt_t *opt, kvs_opt_key_t *key_state, const kvs_key_entry_t *key,
                               const void *weight, uint32_t wanted)
{
    uint32_t used = wanted & ((1u << opt->kind->n_states) - 1);
    kvs_opt_states_t *states = key_state->states;
    kvs_status_t status = KVS_OK;

    if (states != NULL && states->made == used) {
        return KVS_OK;
    }
    if (states == NULL) {
        status = new_states(opt, key, weight, &states);
    }
    if (status == KVS_OK) {
        status = make_states(states, used & ~states->made, kvs_dtype_index(key->dtype), weight);
        if (status != KVS_OK && key_state->states == NULL) {
            free_states(states);
        }
    }
    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s: states of %lld elements", opt->owner,
                                (long long)key->n_elems);
    }
    release_states(states, states->made & ~used);
    states->made = used;
    key_state->states = states;
    return KVS_OK;
}

void kvs_opt_key_release(kvs_opt_key_t *key_state)
{
    if (key_state->states != NULL) {
        free_states(key_state->states);
    }
    *key_state = (kvs_opt_key_t){0};
}

size_t kvs_opt_n_states(const kvs_opt_key_t *key_state)
{
    const kvs_opt_states_t *states = key_state->states;

    return states == NULL ? 0 : (size_t)__builtin_popcount(states->made) + (states->master != NULL);
}

kvs_opt_state_t kvs_opt_state_at(const kvs_opt_key_t *key_state, size_t index)
{
    const kvs_opt_states_t *states = key_state->states;
    size_t place = 0;

    if (states->master != NULL) {
        if (index == 0) {
            return (kvs_opt_state_t){.name = KVS_OPT_MASTER,
                                     .dtype = KVS_DTYPE_float32,
                                     .n_elems = states->n_elems,
                                     .data = states->master};
        }
        index--;
    }
    while ((states->made & 1u << place) == 0 || index-- > 0) {
        place++;
    }
    return (kvs_opt_state_t){
        .name = states->kind->states[place].name,
        .dtype = states->dtype,
        .per_row = (states->kind->states[place].flags & KVS_STATE_PER_ROW) != 0,
        .n_elems = state_n_elems(states, place),
        .data = states->data[place],
    };
}
