/* SPDX-License-Identifier: Apache-2.0 */
/* test_vectors_optimizers.c - the golden cases of kind "optimizer" through the driver: weights, states,
 * counts, rates. KVSTORE_VECTORS names another directory of optimizer_*.json files. */
#include "rig.h"

#include "golden.h"
#include "spec.h"

#include <kvstore/kit.h>

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    golden_case_t verdict;
    double states_rtol, states_atol;
    golden_spec_t spec;
    kvs_opt_t *opt;
    rig_key_t *keys;
    const cJSON **params; /* the description of each key */
    size_t n_keys;
} run_t;

static int fill(golden_case_t *c, const cJSON *data, int dtype, int64_t n, void *out)
{
    if (cJSON_GetArraySize(data) != n) {
        return golden_failed(c, "an array of %d elements, %lld wanted", cJSON_GetArraySize(data),
                             (long long)n);
    }
    size_t i = 0;
    const cJSON *item;

    cJSON_ArrayForEach(item, data)
    {
        golden_store(dtype, out, i++, item->valuedouble);
    }
    return 1;
}

static int check(golden_case_t *c, const char *what, int dtype, const void *got, int64_t n,
                 const cJSON *want, double rtol, double atol)
{
    size_t i = 0;
    const cJSON *item;

    if (cJSON_GetArraySize(want) != n) {
        return golden_failed(c, "%s: %lld elements, want %d", what, (long long)n,
                             cJSON_GetArraySize(want));
    }
    cJSON_ArrayForEach(item, want)
    {
        double value = golden_load(dtype, got, i);

        if (!(fabs(value - item->valuedouble) <= atol + rtol * fabs(item->valuedouble))) {
            return golden_failed(c, "%s[%zu] is %.9g, want %.9g", what, i, value,
                                 item->valuedouble);
        }
        i++;
    }
    return 1;
}

static int check_number(golden_case_t *c, const char *what, double got, const cJSON *want)
{
    if (want != NULL && !(fabs(got - want->valuedouble) <= 1e-12 * fabs(want->valuedouble))) {
        return golden_failed(c, "%s is %.17g, want %.17g", what, got, want->valuedouble);
    }
    return 1;
}

static int make_key(run_t *run, size_t index, const cJSON *param)
{
    golden_case_t *c = &run->verdict;
    const cJSON *shape = golden_get(param, "shape");
    int dtype = golden_dtype(golden_text(param, "dtype"));
    int64_t dims[4];
    int32_t ndim = 0;
    kvs_key_t key;
    const cJSON *dim;

    cJSON_ArrayForEach(dim, shape)
    {
        if (ndim == 4) {
            return golden_failed(c, "too many dimensions");
        }
        dims[ndim++] = (int64_t)dim->valuedouble;
    }
    if (dtype < 0 || !golden_key(c, golden_get(param, "key"), &key)) {
        return golden_failed(c, "malformed parameter");
    }
    run->params[index] = param;
    run->keys[index] = rig_key(key.num, dtype, dims, ndim);
    run->keys[index].entry.name = key.str;
    run->n_keys++;
    return fill(c, golden_get(param, "init"), dtype, run->keys[index].entry.n_elems,
                run->keys[index].weight);
}

static int start(run_t *run)
{
    golden_case_t *c = &run->verdict;
    const cJSON *params = golden_get(c->json, "params");
    kvs_optimizer_spec_t *spec = &run->spec.spec;
    size_t n = (size_t)cJSON_GetArraySize(params);
    size_t index = 0;
    const cJSON *param;

    run->keys = calloc(n, sizeof(*run->keys));
    run->params = calloc(n, sizeof(*run->params));
    if (run->keys == NULL || run->params == NULL) {
        return golden_failed(c, "out of memory");
    }
    cJSON_ArrayForEach(param, params)
    {
        if (!make_key(run, index++, param)) {
            return 0;
        }
    }
    if (!golden_spec_read(c, golden_text(c->json, "optimizer"), c->json, &run->spec) ||
        !golden_spec_multipliers(c, params, "lr_mult", &run->spec.lr_mult, &spec->n_lr_mult) ||
        !golden_spec_multipliers(c, params, "wd_mult", &run->spec.wd_mult, &spec->n_wd_mult) ||
        !golden_spec_names(c, params, &run->spec)) {
        return 0;
    }
    spec->lr_mult = run->spec.lr_mult;
    spec->wd_mult = run->spec.wd_mult;
    return golden_ok(c, kvs_opt_new(spec, &run->opt), "kvs_opt_new");
}

static void finish(run_t *run)
{
    for (size_t i = 0; i < run->n_keys; i++) {
        rig_key_release(&run->keys[i]);
    }
    free(run->keys);
    free(run->params);
    kvs_opt_free(run->opt);
    golden_spec_release(&run->spec);
}

static rig_key_t *find_key(run_t *run, const cJSON *key)
{
    for (size_t i = 0; i < run->n_keys; i++) {
        if (cJSON_Compare(golden_get(run->params[i], "key"), key, 1)) {
            return &run->keys[i];
        }
    }
    return NULL;
}

/* The sum of the devices' gradients in list order, as a store hands it over. */
static void *sum_of(golden_case_t *c, const rig_key_t *key, const cJSON *grads)
{
    int64_t n = key->entry.n_elems;
    size_t n_bytes = ((size_t)n + 1) * kvs_dtype_bytes(key->dtype);
    void *sum = malloc(n_bytes);
    void *next = malloc(n_bytes);
    const cJSON *grad;
    int n_grads = 0;

    cJSON_ArrayForEach(grad, grads)
    {
        void *into = n_grads++ == 0 ? sum : next;

        if (sum == NULL || next == NULL || !fill(c, grad, key->dtype, n, into)) {
            free(sum);
            sum = NULL;
            break;
        }
        for (size_t i = 0; into == next && i < (size_t)n; i++) {
            golden_store(key->dtype, sum, i,
                         golden_load(key->dtype, sum, i) + golden_load(key->dtype, next, i));
        }
    }
    free(next);
    return sum;
}

static int check_states(run_t *run, const rig_key_t *key, const cJSON *states)
{
    golden_case_t *c = &run->verdict;
    const cJSON *want;

    if ((int)kvs_opt_n_states(&key->state) != cJSON_GetArraySize(states)) {
        return golden_failed(c, "%zu states, want %d", kvs_opt_n_states(&key->state),
                             cJSON_GetArraySize(states));
    }
    cJSON_ArrayForEach(want, states)
    {
        const char *name = golden_text(want, "name");
        kvs_opt_state_t state = rig_state(key, name);

        if (state.name == NULL || state.dtype != golden_dtype(golden_text(want, "dtype"))) {
            return golden_failed(c, "no state %s of dtype %s", name, golden_text(want, "dtype"));
        }
        if (!check(c, name, state.dtype, state.data, state.n_elems, golden_get(want, "data"),
                   run->states_rtol, run->states_atol)) {
            return 0;
        }
    }
    return 1;
}

static int run_entry(run_t *run, const cJSON *entry)
{
    golden_case_t *c = &run->verdict;
    rig_key_t *key = find_key(run, golden_get(entry, "key"));
    kvs_opt_update_t update;
    void *grad;
    int ok;

    if (key == NULL) {
        return golden_failed(c, "an entry for an unknown key");
    }
    grad = sum_of(c, key, golden_get(entry, "grads"));
    ok = grad != NULL && golden_ok(c, rig_update(run->opt, key, grad, 2, &update), "update") &&
         check_number(c, "lr", update.lr, golden_get(entry, "lr")) &&
         check_number(c, "wd", update.wd, golden_get(entry, "wd")) &&
         check_number(c, "count", (double)kvs_opt_count(run->opt, &key->state),
                      golden_get(entry, "count")) &&
         check(c, "weight", key->dtype, key->weight, key->entry.n_elems,
               golden_get(entry, "weight"), c->rtol, c->atol) &&
         check_states(run, key, golden_get(entry, "states"));
    free(grad);
    return ok;
}

static void run_steps(run_t *run)
{
    golden_case_t *c = &run->verdict;
    const cJSON *step;
    const cJSON *entry;
    int number = 0;
    char where[256];

    cJSON_ArrayForEach(step, golden_get(c->json, "steps"))
    {
        cJSON_ArrayForEach(entry, golden_get(step, "params"))
        {
            if (!run_entry(run, entry)) {
                snprintf(where, sizeof(where), "step %d: %.200s", number, c->reason);
                strcpy(c->reason, where);
                return;
            }
        }
        if (!check_number(c, "num_update", (double)kvs_opt_num_update(run->opt),
                          golden_get(step, "num_update"))) {
            return;
        }
        number++;
    }
}

static golden_verdict_t run_case(const cJSON *json, const char *file)
{
    const cJSON *tolerance = golden_get(json, "tolerance");
    run_t run = {.spec = GOLDEN_SPEC_INIT};

    run.verdict.json = json;
    run.verdict.name = golden_text(json, "case");
    run.verdict.kind = "optimizer";
    run.verdict.rtol = golden_number(tolerance, "rtol", 0);
    run.verdict.atol = golden_number(tolerance, "atol", 0);
    run.states_rtol = golden_number(tolerance, "states_rtol", run.verdict.rtol);
    run.states_atol = golden_number(tolerance, "states_atol", run.verdict.atol);
    if (start(&run)) {
        run_steps(&run);
    }
    finish(&run);
    if (run.verdict.verdict != GOLDEN_PASSED) {
        printf("%s: %s: %s\n", file, run.verdict.name, run.verdict.reason);
    }
    return run.verdict.verdict;
}

static cJSON *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    cJSON *json = NULL;

    if (file != NULL && getdelim(&text, &size, '\0', file) > 0) {
        json = cJSON_Parse(text);
    }
    if (json == NULL) {
        printf("%s: can't be read\n", path);
    }
    free(text);
    if (file != NULL) {
        fclose(file);
    }
    return json;
}

int main(void)
{
    const char *directory = getenv("KVSTORE_VECTORS");
    int counts[3] = {0}; /* by verdict */
    int n_files = 0;
    char pattern[4096];
    glob_t files;

    rig_start();
    snprintf(pattern, sizeof(pattern), "%s/optimizer_*.json",
             directory != NULL ? directory : KVS_VECTORS_DIR);
    if (glob(pattern, 0, NULL, &files) != 0) {
        printf("%s: no such files\n", pattern);
        return 1;
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        cJSON *json = read_file(files.gl_pathv[i]);
        const cJSON *one;

        counts[GOLDEN_FAILED] += json == NULL;
        if (strcmp(golden_text(json, "kind"), "optimizer") == 0) {
            n_files++;
            cJSON_ArrayForEach(one, golden_get(json, "cases"))
            {
                counts[run_case(one, strrchr(files.gl_pathv[i], '/') + 1)]++;
            }
        }
        cJSON_Delete(json);
    }
    globfree(&files);
    printf("vectors: %d files, %d cases, %d passed, %d skipped\n", n_files,
           counts[GOLDEN_PASSED] + counts[GOLDEN_FAILED], counts[GOLDEN_PASSED],
           counts[GOLDEN_SKIPPED]);
    return counts[GOLDEN_FAILED] != 0 || counts[GOLDEN_SKIPPED] != 0 || counts[GOLDEN_PASSED] == 0;
}
