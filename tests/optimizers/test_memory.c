/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory at each allocation in turn, from the making of an optimizer to files of its
 * states: an error that says so, nothing changed, and the next try succeeds. */
#include "fail_alloc.h"
#include "kt.h"
#include "states_rig.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <unistd.h>

/* ---- Making one ---------------------------------------------------------------------------------- */

static kvs_status_t make(void *arg)
{
    static const int64_t steps[] = {2, 4, 8};
    static const kvs_multiplier_t lr[] = {{{"w", 0}, 0.5}, {{NULL, 3}, 2}};
    static const kvs_multiplier_t wd[] = {{{"bias", 0}, 0}};
    static const kvs_param_name_t names[] = {{{NULL, 3}, "bias"}, {{"b", 0}, "beta"}};
    const kvs_param_t schedule[] = {
        {.name = "step", .type = KVS_PARAM_INTS, .value.integers = steps, .n_integers = 3}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL;
    kvs_status_t status;

    (void)arg;
    spec.name = "adam";
    spec.lr_mult = lr;
    spec.n_lr_mult = 2;
    spec.wd_mult = wd;
    spec.n_wd_mult = 1;
    spec.names = names;
    spec.n_names = 2;
    spec.schedule = "multifactor";
    spec.schedule_params = schedule;
    spec.n_schedule_params = 1;
    status = kvs_opt_new(&spec, &opt);
    kvs_opt_free(opt);
    return status;
}

static void making_an_optimizer_survives(void)
{
    KT_TRUE(kt_fail_each_alloc(make, NULL, NULL) >= 10);
}

/* ---- Updating ------------------------------------------------------------------------------------ */

typedef struct update {
    kvs_opt_t *opt;
    rig_key_t key;
    float grad[4];
} update_t;

static kvs_status_t update(void *arg)
{
    update_t *u = arg;

    return rig_update(u->opt, &u->key, u->grad, 0, NULL);
}

/* The weight is as it was, and no states are left half-made. */
static void check_update(void *arg)
{
    const update_t *u = arg;

    KT_REAL(*(float *)u->key.weight, 1);
    KT_INT(kvs_opt_n_states(&u->key.state), 0);
}

static void the_first_update_of_a_key_survives(void)
{
    const float weight[4] = {1, 2, 3, 4};
    const kvs_optimizer_t *kind;

    for (size_t i = 0; (kind = rig_optimizer_at(i)) != NULL; i++) {
        update_t u = {rig_opt(kind->name, NULL, 0), rig_key_f32(4, weight), {1, 1, 1, 1}};

        KT_TRUE(kt_fail_each_alloc(update, check_update, &u) >= 1);
        rig_key_release(&u.key);
        kvs_opt_free(u.opt);
    }
}

/* ---- Files --------------------------------------------------------------------------------------- */

typedef struct files {
    states_rig_t rig;
    const char *path;
    uint64_t digest;
} files_t;

static kvs_status_t save(void *arg)
{
    const files_t *f = arg;

    return states_rig_save(&f->rig, f->path, 1);
}

/* What the file was, it still is. */
static void check_save(void *arg)
{
    const files_t *f = arg;
    bytes_t bytes = bytes_read(f->path);

    KT_INT(bytes.n, 3);
    bytes_release(&bytes);
}

static kvs_status_t load(void *arg)
{
    files_t *f = arg;

    return states_rig_load(&f->rig, f->path);
}

static void check_load(void *arg)
{
    const files_t *f = arg;

    KT_TRUE(states_rig_digest(&f->rig) == f->digest);
}

static kvs_opt_t *new_opt(void)
{
    return RIG_OPT("lamb", RIG_BOOL("multi_precision", 1));
}

static void saving_and_loading_survive(void)
{
    files_t f = {.rig = states_rig(new_opt(), 0), .path = states_path("memory")};
    files_t other = {.rig = states_rig(rig_opt("sgd", NULL, 0), 0), .path = f.path};
    bytes_t old = {(char[]){'o', 'l', 'd'}, 3};

    states_rig_update(&f.rig, 2);
    KT_OK(kvs_residuals_set(&f.rig.residuals[0], 12, 1, (float[12]){0}));
    KT_OK(kvs_residuals_set(&other.rig.residuals[0], 12, 0, (float[12]){1}));
    bytes_write(f.path, &old);
    KT_TRUE(kt_fail_each_alloc(save, check_save, &f) >= 10);
    states_rig_update(&other.rig, 1);
    other.digest = states_rig_digest(&other.rig);
    KT_TRUE(kt_fail_each_alloc(load, check_load, &other) >= 30);
    KT_STR(kvs_opt_name(other.rig.opt), "lamb");
    KT_INT(other.rig.residuals[0].n, 2);
    states_rig_release(&f.rig);
    states_rig_release(&other.rig);
}

/* ---- In the worker ------------------------------------------------------------------------------- */

/* From nothing to a file and back. The weight is changed by success only. */
static kvs_status_t work(void *arg)
{
    const kvs_optimizer_service_t *service = &kvs_optimizer_service;
    const kvs_key_t key = kvs_key_str("w");
    const int64_t n = 2;
    float grad[2] = {1, 1}, weight[2] = {1, 2};
    kvs_tensor_t from = kt_tensor(grad, KVS_DTYPE_float32, &n, 1);
    kvs_tensor_t to = kt_tensor(weight, KVS_DTYPE_float32, &n, 1);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    void *optimizer = NULL;
    kvs_status_t status;

    spec.name = "adam";
    status = service->create(&spec, &optimizer);
    if (status != KVS_OK) {
        return status;
    }
    status = service->update(optimizer, &key, &from, &to);
    if (status != KVS_OK) {
        KT_REAL(weight[0], 1);
    }
    if (status == KVS_OK) {
        status = service->save_states(optimizer, arg, 1);
    }
    service->free(optimizer);
    optimizer = NULL;
    if (status == KVS_OK) {
        status = service->create(&spec, &optimizer);
    }
    if (status == KVS_OK) {
        status = service->load_states(optimizer, arg);
        service->free(optimizer);
    }
    return status;
}

static void an_optimizer_in_the_worker_survives(void)
{
    KT_TRUE(kt_fail_each_alloc(work, NULL, (void *)(uintptr_t)states_path("worker")) >= 30);
}

static const kt_test_t tests[] = {
    KT_TEST(making_an_optimizer_survives),
    KT_TEST(the_first_update_of_a_key_survives),
    KT_TEST(saving_and_loading_survive),
    KT_TEST(an_optimizer_in_the_worker_survives),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("optimizers.memory", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
