/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c - golden cases of kind "optimizer", through a store: each entry is one push of one key,
 * and the weight pulled after it is compared. Counts and states are not seen through a store's
 * operations; vectors.optimizers compares them. */
#include "runner.h"

#include "spec.h"

static int init_params(golden_case_t *c, const cJSON *params)
{
    const cJSON *param;

    cJSON_ArrayForEach(param, params)
    {
        golden_list_t values = GOLDEN_LIST_INIT;
        kvs_key_t key;
        int ok = golden_key(c, golden_get(param, "key"), &key) &&
                 golden_list_add_flat(c, golden_text(param, "dtype"), golden_get(param, "shape"),
                                      golden_get(param, "init"), GOLDEN_VALUES, &values);

        if (ok) {
            kvs_arrays_t arrays = kvs_arrays(values.tensors, values.n);

            ok = golden_ok(c, kvs_store_init(c->store, &key, 1, &arrays, NULL), "init");
        }
        golden_list_release(&values);
        if (!ok) {
            return 0;
        }
    }
    return 1;
}

static int set_optimizer(golden_case_t *c, const cJSON *params)
{
    golden_spec_t spec = GOLDEN_SPEC_INIT;
    kvs_optimizer_spec_t *s = &spec.spec;
    int ok = golden_spec_read(c, golden_text(c->json, "optimizer"), c->json, &spec) &&
             golden_spec_multipliers(c, params, "lr_mult", &spec.lr_mult, &s->n_lr_mult) &&
             golden_spec_multipliers(c, params, "wd_mult", &spec.wd_mult, &s->n_wd_mult) &&
             golden_spec_names(c, params, &spec);

    if (ok) {
        s->lr_mult = spec.lr_mult;
        s->wd_mult = spec.wd_mult;
        ok = golden_ok(c, kvs_store_set_optimizer(c->store, s), "set_optimizer");
    }
    golden_spec_release(&spec);
    return ok;
}

static const cJSON *find_param(const cJSON *params, const cJSON *key)
{
    const cJSON *param;

    cJSON_ArrayForEach(param, params)
    {
        if (cJSON_Compare(golden_get(param, "key"), key, 1)) {
            return param;
        }
    }
    return NULL;
}

/* Push the gradients of one entry and compare the weight. */
static int run_entry(golden_case_t *c, const cJSON *params, const cJSON *entry, int step)
{
    const cJSON *param = find_param(params, golden_get(entry, "key"));
    const char *dtype = golden_text(param, "dtype");
    const cJSON *shape = golden_get(param, "shape");
    golden_list_t grads = GOLDEN_LIST_INIT;
    golden_list_t weight = GOLDEN_LIST_INIT;
    const cJSON *grad;
    kvs_key_t key;
    char what[64];
    int ok =
        golden_key(c, golden_get(entry, "key"), &key) &&
        golden_list_add_flat(c, dtype, shape, golden_get(entry, "weight"), GOLDEN_OUTS, &weight);

    snprintf(what, sizeof(what), "step %d: weight", step);
    cJSON_ArrayForEach(grad, golden_get(entry, "grads"))
    {
        ok = ok && golden_list_add_flat(c, dtype, shape, grad, GOLDEN_VALUES, &grads);
    }
    if (ok) {
        kvs_arrays_t values = kvs_arrays(grads.tensors, grads.n);
        kvs_arrays_t outs = kvs_arrays(weight.tensors, weight.n);

        ok = golden_ok(c, kvs_store_push(c->store, &key, 1, &values, NULL), "push") &&
             golden_ok(c, kvs_store_pull(c->store, &key, 1, &outs, NULL), "pull") &&
             golden_check_flat(c, &weight.tensors[0], golden_get(entry, "weight"), what);
    }
    golden_list_release(&grads);
    golden_list_release(&weight);
    return ok;
}

void golden_run_optimizer(golden_case_t *c)
{
    const cJSON *params = golden_get(c->json, "params");
    const cJSON *step;
    const cJSON *entry;
    int number = 0;

    if (!init_params(c, params) || !set_optimizer(c, params)) {
        return;
    }
    cJSON_ArrayForEach(step, golden_get(c->json, "steps"))
    {
        cJSON_ArrayForEach(entry, golden_get(step, "params"))
        {
            if (!run_entry(c, params, entry, number)) {
                return;
            }
        }
        number++;
    }
}
