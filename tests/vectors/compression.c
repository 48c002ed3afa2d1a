/* SPDX-License-Identifier: Apache-2.0 */
/* compression.c - golden cases of kind "gradient_compression", through a store: each round is one push, or one of
 * each worker in a job that has as many as the case has devices,
 * and what is pulled after it is compared with `merged`. Packed words and residuals are not seen
 * through a store's operations; vectors.compression compares them. */
#include "runner.h"

#include <stdlib.h>

static int set_compression(golden_case_t *c)
{
    const kvs_param_t params[] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value.text = golden_text(c->json, "type")},
        {.name = "threshold",
         .type = KVS_PARAM_FLOAT,
         .value.real = golden_number(c->json, "threshold", 0.5)},
    };

    return golden_ok(c, kvs_store_set_gradient_compression(c->store, params, 2),
                     "set_gradient_compression");
}

/* The key as zeros. */
static int init(golden_case_t *c, const kvs_key_t *key, const cJSON *like)
{
    golden_list_t values = GOLDEN_LIST_INIT;
    int ok = golden_list_add_flat(c, "float32", golden_get(c->json, "shape"), like, GOLDEN_OUTS,
                                  &values);

    if (ok) {
        kvs_arrays_t arrays = kvs_arrays(values.tensors, values.n);

        ok = golden_ok(c, kvs_store_init(c->store, key, 1, &arrays, NULL), "init");
    }
    golden_list_release(&values);
    return ok;
}

static int run_round(golden_case_t *c, const kvs_key_t *key, const cJSON *round, int number)
{
    const cJSON *shape = golden_get(c->json, "shape");
    const cJSON *merged = golden_get(round, "merged");
    golden_list_t grads = GOLDEN_LIST_INIT, sum = GOLDEN_LIST_INIT;
    const cJSON *device;
    int of_all = getenv("KVSTORE_VECTORS_STORE") == NULL, rank = 0, place = 0;
    char what[64];
    int ok = golden_list_add_flat(c, "float32", shape, merged, GOLDEN_OUTS, &sum);

    snprintf(what, sizeof(what), "round %d: merged", number);
    ok = ok && golden_ok(c, kvs_store_rank(c->store, &rank), "rank");
    cJSON_ArrayForEach(device, golden_get(round, "devices"))
    {
        if (of_all || place++ == rank) {
            ok = ok && golden_list_add_flat(c, "float32", shape, golden_get(device, "grad"),
                                            GOLDEN_VALUES, &grads);
        }
    }
    if (ok) {
        kvs_arrays_t values = kvs_arrays(grads.tensors, grads.n);
        kvs_arrays_t outs = kvs_arrays(sum.tensors, sum.n);

        ok = golden_ok(c, kvs_store_push(c->store, key, 1, &values, NULL), "push") &&
             golden_ok(c, kvs_store_pull(c->store, key, 1, &outs, NULL), "pull") &&
             golden_check_flat(c, &sum.tensors[0], merged, what);
    }
    golden_list_release(&grads);
    golden_list_release(&sum);
    return ok;
}

void golden_run_compression(golden_case_t *c)
{
    const cJSON *rounds = golden_get(c->json, "rounds");
    kvs_key_t key = kvs_key_int(1);
    const cJSON *round;
    int number = 0;

    if (!set_compression(c) ||
        !init(c, &key, golden_get(cJSON_GetArrayItem(rounds, 0), "merged"))) {
        return;
    }
    cJSON_ArrayForEach(round, rounds)
    {
        if (!run_round(c, &key, round, number++)) {
            return;
        }
    }
}
