/* SPDX-License-Identifier: Apache-2.0 */
/* cases_states.c - states of optimizers in files, seen by what the next pushes do. With several workers
 * whoever has the states saves and loads, between barriers. sgd as in cases_optimizer.c:
 * m = momentum * m - lr * g, then w += m, in numbers that are exact. */
#include "themes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 6 };

#define REAL(param_name, number)                                                                   \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                \
    }

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

/* ---- Files --------------------------------------------------------------------------------------- */

/* Where updaters of the program run, the states are in each process too: all save and load then. */
static bool keeps_states(const cf_t *t)
{
    return t->rank == 0 || (t->traits & CF_UPDATER) != 0;
}

/* A name of this case alone. */
static const char *file_of(cf_t *t, const char *name)
{
    const char *dir = getenv("TMPDIR");
    char *path = cf_alloc(t, 512);

    snprintf(path, 512, "%.400s/kvs-conformance-%ld-%zu-%s", dir != NULL && *dir ? dir : "/tmp",
             (long)getpid(), t->number, name);
    return path;
}

static void save(cf_t *t, const char *path, int dump_optimizer)
{
    CF_OK(t, kvs_store_barrier(t->store));
    if (keeps_states(t)) {
        CF_OK(t, kvs_store_save_optimizer_states(t->store, path, dump_optimizer));
    }
    CF_OK(t, kvs_store_barrier(t->store));
}

static void load(cf_t *t, const char *path)
{
    CF_OK(t, kvs_store_barrier(t->store));
    if (keeps_states(t)) {
        CF_OK(t, kvs_store_load_optimizer_states(t->store, path));
    }
    CF_OK(t, kvs_store_barrier(t->store));
}

/* An error of that kind. */
static void refuse(cf_t *t, const char *path, kvs_status_t want, const char *part)
{
    CF_OK(t, kvs_store_barrier(t->store));
    if (keeps_states(t)) {
        CF_FAIL(t, kvs_store_load_optimizer_states(t->store, path), want, part);
    }
    CF_OK(t, kvs_store_barrier(t->store));
}

/* The first `n` bytes of a file, in another. */
static void copy_part(cf_t *t, const char *from, const char *to, size_t n)
{
    char *bytes = cf_alloc(t, 4096);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t n_read = in != NULL ? fread(bytes, 1, n < 4096 ? n : 4096, in) : 0;

    cf_want_true(t, out != NULL && fwrite(bytes, 1, n_read, out) == n_read, "a file is written");
    if (in != NULL) {
        fclose(in);
    }
    if (out != NULL) {
        fclose(out);
    }
}

/* ---- An optimizer -------------------------------------------------------------------------------- */

/* Rate and momentum 0.5, on a store. */
static kvs_status_t set_sgd_of(kvs_store_t *store)
{
    const kvs_param_t params[] = {REAL("learning_rate", 0.5), REAL("momentum", 0.5)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 2;
    return kvs_store_set_optimizer(store, &spec);
}

static void set_sgd(cf_t *t)
{
    CF_OK(t, set_sgd_of(t->store));
}

/* What the weight of one key should be. */
typedef struct model {
    kvs_key_t key;
    double weight, mom, rate;
} model_t;

static model_t begin(cf_t *t, kvs_key_t key)
{
    model_t model = {key, 32, 0, 0.5};

    cf_init(t, key, f32(t, model.weight));
    return model;
}

/* Push the gradient 1 on each worker, and want the weight that follows. */
static void push(cf_t *t, model_t *model)
{
    cf_array_t *out = f32(t, 0);

    model->mom = 0.5 * model->mom - model->rate * t->n_workers;
    model->weight += model->mom;
    cf_push(t, model->key, CF_LIST(t, f32(t, 1)));
    cf_pull(t, model->key, out);
    cf_want_all(t, "weight after the update", out, model->weight);
}

static kvs_status_t set_rate(cf_t *t, double rate)
{
    const kvs_param_t attr = REAL("learning_rate", rate);

    return kvs_store_set_optimizer_attr(t->store, &attr);
}

/* ---- The cases ----------------------------------------------------------------------------------- */

static void round_trip(cf_t *t)
{
    const char *path = file_of(t, "round_trip");
    model_t a = begin(t, cf_key(t, 1)), b = begin(t, cf_key(t, 2));
    double mom[2];

    set_sgd(t);
    push(t, &a);
    push(t, &a);
    push(t, &b);
    save(t, path, 0);
    mom[0] = a.mom;
    mom[1] = b.mom;
    push(t, &a);
    push(t, &b);
    load(t, path);
    a.mom = mom[0];
    b.mom = mom[1];
    push(t, &a);
    push(t, &b);
    unlink(path);
}

static void string_keys(cf_t *t)
{
    const char *path = file_of(t, "string_keys");
    model_t a = begin(t, cf_name(t, 1)), b = begin(t, kvs_key_str("states/\"\xC3\xA9\"\\ \t/"));
    double mom;

    set_sgd(t);
    push(t, &a);
    push(t, &b);
    push(t, &b);
    save(t, path, 1);
    mom = b.mom;
    push(t, &b);
    load(t, path);
    b.mom = mom;
    push(t, &b);
    push(t, &a);
    unlink(path);
}

static void not_weights(cf_t *t)
{
    const char *path = file_of(t, "not_weights");
    model_t a = begin(t, cf_key(t, 1));
    cf_array_t *out = f32(t, 0);

    set_sgd(t);
    push(t, &a);
    save(t, path, 1);
    push(t, &a);
    load(t, path);
    cf_pull(t, a.key, out);
    cf_want_all(t, "weight, which no load changes", out, a.weight);
    unlink(path);
}

static void replaces_all(cf_t *t)
{
    const char *path = file_of(t, "replaces_all");
    model_t a = begin(t, cf_key(t, 1)), b = begin(t, cf_key(t, 2));
    double mom;

    set_sgd(t);
    push(t, &a);
    save(t, path, 0);
    mom = a.mom;
    push(t, &a);
    push(t, &b);
    load(t, path);
    a.mom = mom;
    b.mom = 0; /* it had no state when the file was written */
    push(t, &a);
    push(t, &b);
    unlink(path);
}

static void with_optimizer(cf_t *t)
{
    const char *path = file_of(t, "with_optimizer");
    model_t a = begin(t, cf_key(t, 1));
    double mom;

    set_sgd(t);
    CF_OK(t, set_rate(t, 0.25));
    a.rate = 0.25;
    push(t, &a);
    save(t, path, 1);
    mom = a.mom;
    CF_OK(t, set_rate(t, 2));
    a.rate = 2;
    push(t, &a);
    load(t, path);
    a.rate = 0.25;
    a.mom = mom;
    push(t, &a);
    unlink(path);
}

static void without_optimizer(cf_t *t)
{
    const char *path = file_of(t, "without_optimizer");
    model_t a = begin(t, cf_key(t, 1));
    double mom;

    set_sgd(t);
    push(t, &a);
    save(t, path, 0);
    mom = a.mom;
    CF_OK(t, set_rate(t, 2));
    a.rate = 2;
    push(t, &a);
    load(t, path);
    a.mom = mom;
    push(t, &a); /* at rate 2 still */
    unlink(path);
}

/* The rate is halved with each update. */
static void set_halving(cf_t *t)
{
    const kvs_param_t params[] = {REAL("momentum", 0.5)};
    const kvs_param_t schedule[] = {
        {.name = "step", .type = KVS_PARAM_INT, .value = {.integer = 1}},
        REAL("factor", 0.5),
        REAL("base_lr", 4),
    };
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 1;
    spec.schedule = "factor";
    spec.schedule_params = schedule;
    spec.n_schedule_params = 3;
    CF_OK(t, kvs_store_set_optimizer(t->store, &spec));
}

static void schedule(cf_t *t)
{
    const char *path = file_of(t, "schedule"), *states_path = file_of(t, "schedule_states");
    model_t a = begin(t, cf_key(t, 1));
    double mom;

    set_halving(t);
    a.rate = 4;
    push(t, &a);
    save(t, path, 1);
    save(t, states_path, 0);
    mom = a.mom;
    a.rate = 2;
    push(t, &a);
    a.rate = 1;
    push(t, &a);
    load(t, states_path); /* the schedule goes on where it is */
    a.mom = mom;
    a.rate = 0.5;
    push(t, &a);
    load(t, path); /* it is where it was */
    a.mom = mom;
    a.rate = 2;
    push(t, &a);
    unlink(path);
    unlink(states_path);
}

/* A store of the same backend with one key, its weight as given. */
static kvs_store_t *second_store(cf_t *t, kvs_key_t key, int64_t n_elems, double weight)
{
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, n_elems, weight);
    kvs_store_t *store = NULL;

    CF_OK(t, cf_create(t, NULL, &store));
    if (store != NULL) {
        CF_OK(t, kvs_store_init(store, &key, 1, CF_LIST(t, value), NULL));
    }
    return store;
}

static void another_store(cf_t *t)
{
    const char *path = file_of(t, "another_store");
    model_t a = begin(t, cf_key(t, 1));
    kvs_store_t *first = t->store, *second;

    set_sgd(t);
    push(t, &a);
    push(t, &a);
    save(t, path, 1);
    second = second_store(t, a.key, N, a.weight);
    if (second != NULL) {
        t->store = second;
        set_sgd(t);
        CF_OK(t, kvs_store_load_optimizer_states(second, path));
        push(t, &a);
        CF_OK(t, kvs_store_close(second));
        t->store = first;
    }
    unlink(path);
}

static void other_shape(cf_t *t)
{
    const char *path = file_of(t, "other_shape");
    model_t a = begin(t, cf_key(t, 1));
    kvs_store_t *second;

    set_sgd(t);
    push(t, &a);
    save(t, path, 0);
    second = second_store(t, a.key, N + 1, 0);
    if (second != NULL) {
        CF_OK(t, set_sgd_of(second));
        CF_FAIL(t, kvs_store_load_optimizer_states(second, path), KVS_ERR_SHAPE, "(6,)");
        cf_want_part(t, "text about another shape", kvs_last_error(), "(7,)");
        CF_OK(t, kvs_store_close(second));
    }
    unlink(path);
}

static void other_keys(cf_t *t)
{
    const char *path = file_of(t, "other_keys");
    model_t a = begin(t, cf_key(t, 1));
    kvs_store_t *second;

    set_sgd(t);
    push(t, &a);
    save(t, path, 0);
    second = second_store(t, cf_key(t, 2), N, 0);
    if (second != NULL) {
        CF_OK(t, set_sgd_of(second));
        CF_FAIL(t, kvs_store_load_optimizer_states(second, path), KVS_ERR_NOT_FOUND,
                cf_key_text(t, a.key));
        CF_OK(t, kvs_store_close(second));
    }
    unlink(path);
}

static void other_optimizer(cf_t *t)
{
    const char *path = file_of(t, "other_optimizer");
    model_t a = begin(t, cf_key(t, 1));
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    cf_array_t *out = f32(t, 0);

    spec.name = "test"; /* w -= rate * g, and a state that stays 0 */
    set_sgd(t);
    push(t, &a);
    save(t, path, 0);
    CF_OK(t, kvs_store_set_optimizer(t->store, &spec));
    CF_OK(t, set_rate(t, 1));
    refuse(t, path, KVS_ERR_FORMAT, "sgd");
    cf_push(t, a.key, CF_LIST(t, f32(t, 1)));
    cf_pull(t, a.key, out);
    cf_want_all(t, "weight by the optimizer that stayed", out, a.weight - t->n_workers);
    unlink(path);
}

static void bad_file(cf_t *t)
{
    const char *path = file_of(t, "whole"), *part = file_of(t, "part");
    model_t a = begin(t, cf_key(t, 1));

    set_sgd(t);
    push(t, &a);
    save(t, path, 1);
    refuse(t, file_of(t, "missing"), KVS_ERR_NOT_FOUND, "missing");
    push(t, &a);
    for (size_t n = 0; n < 400; n += 57) {
        if (keeps_states(t)) {
            copy_part(t, path, part, n);
        }
        refuse(t, part, KVS_ERR_FORMAT, "part");
    }
    if (keeps_states(t)) {
        copy_part(t, "/proc/self/exe", part, 4096);
    }
    refuse(t, part, KVS_ERR_FORMAT, "part");
    push(t, &a); /* with the momentum it had */
    unlink(path);
    unlink(part);
}

static void unwritable(cf_t *t)
{
    const char *path = file_of(t, "nowhere/file");
    model_t a = begin(t, cf_key(t, 1));

    set_sgd(t);
    push(t, &a);
    if (keeps_states(t)) {
        CF_FAIL(t, kvs_store_save_optimizer_states(t->store, path, 1), KVS_ERR_IO, path);
    }
    push(t, &a);
}

static void needs_optimizer(cf_t *t)
{
    const char *path = file_of(t, "needs_optimizer"), *none = file_of(t, "none");
    model_t a = begin(t, cf_key(t, 1));

    if (keeps_states(t)) {
        CF_FAIL(t, kvs_store_save_optimizer_states(t->store, none, 0), KVS_ERR_STATE, "optimizer");
        cf_want_true(t, access(none, F_OK) != 0, "nothing is written");
    }
    set_sgd(t);
    push(t, &a);
    save(t, path, 1);
    CF_OK(t, kvs_store_set_updater(t->store, NULL, NULL));
    refuse(t, path, KVS_ERR_STATE, "optimizer");
    unlink(path);
}

static void pushed_before(cf_t *t)
{
    const char *path = file_of(t, "pushed_before");
    model_t a = begin(t, cf_key(t, 1));
    enum { N_PUSHES = 8 };
    kvs_event_t *events[N_PUSHES] = {NULL};
    cf_array_t *grad = f32(t, 1);
    double mom;

    set_sgd(t);
    for (int i = 0; i < N_PUSHES; i++) {
        kvs_call_t call = cf_call(&events[i]);

        CF_OK(t, kvs_store_push(t->store, &a.key, 1, CF_LIST(t, grad), &call));
        a.mom = 0.5 * a.mom - 0.5 * t->n_workers;
        a.weight += a.mom;
    }
    save(t, path, 0); /* of all that was issued before */
    mom = a.mom;
    for (int i = 0; i < N_PUSHES; i++) {
        cf_finish(t, events[i]);
    }
    push(t, &a);
    load(t, path);
    a.mom = mom;
    push(t, &a);
    unlink(path);
}

/* TODO(conformance): stores of several workers too, when servers save their states. */
static void offered(cf_t *t)
{
    if ((t->traits & CF_STATES) == 0 && (t->traits & CF_COMPRESSES_EACH) == 0) {
        cf_skip(t, "states of servers are not saved yet");
        return;
    }
    cf_want_true(t, (t->traits & CF_STATES) != 0, "states can be saved and loaded");
}

/* Where there is none: it says so, or like Horovod does nothing. */
static void not_capable(cf_t *t)
{
    const char *path = file_of(t, "not_capable");
    kvs_status_t saved = kvs_store_save_optimizer_states(t->store, path, 1);
    kvs_status_t loaded;

    if (saved != KVS_OK) {
        CF_FAIL(t, saved, KVS_ERR_NOT_IMPLEMENTED, "not implemented: save_optimizer_states by");
    }
    loaded = kvs_store_load_optimizer_states(t->store, path);
    if (loaded != KVS_OK) {
        CF_FAIL(t, loaded, KVS_ERR_NOT_IMPLEMENTED, "not implemented: load_optimizer_states by");
    }
    cf_want_true(t, access(path, F_OK) != 0, "no file is written");
}

static const cf_case_t cases[] = {
    {"states.offered", "A backend that updates weights saves and loads its states.", CF_OPTIMIZER,
     offered},
    {"states.round_trip", "A load brings back the states of every key as they were saved.",
     CF_STATES | CF_IN_STEP, round_trip},
    {"states.string_keys", "States of string keys are saved, whatever text the keys are.",
     CF_STATES | CF_IN_STEP, string_keys},
    {"states.not_weights", "No load changes a weight.", CF_STATES | CF_IN_STEP, not_weights},
    {"states.replaces_all", "A key that is not in the file has no states after a load.",
     CF_STATES | CF_IN_STEP, replaces_all},
    {"states.with_optimizer", "A file with the optimizer brings its parameters back.",
     CF_STATES | CF_IN_STEP, with_optimizer},
    {"states.without_optimizer", "A file without it leaves the parameters in force.",
     CF_STATES | CF_IN_STEP, without_optimizer},
    {"states.schedule", "The schedule's position goes with the optimizer, or stays.",
     CF_STATES | CF_IN_STEP, schedule},
    {"states.pushed_before", "A save has the states of all pushes that were issued before it.",
     CF_STATES | CF_IN_STEP, pushed_before},
    {"states.another_store", "Another store goes on from the file as the first would.",
     CF_STATES | CF_ONE_WORKER | CF_IN_STEP, another_store},
    {"states.needs_optimizer", "Without an optimizer, saving and loading are state errors.",
     CF_STATES | CF_UPDATER | CF_IN_STEP, needs_optimizer},
    {"states.other_optimizer", "States of another optimizer are refused; the one in force stays.",
     CF_STATES | CF_IN_STEP, other_optimizer},
    {"states.other_shape", "States of a key of another shape are refused, with both shapes.",
     CF_STATES | CF_ONE_WORKER | CF_IN_STEP, other_shape},
    {"states.other_keys", "States of a key that is not initialised are refused, naming it.",
     CF_STATES | CF_ONE_WORKER | CF_IN_STEP, other_keys},
    {"states.bad_file", "A missing, truncated or foreign file is refused and changes nothing.",
     CF_STATES | CF_IN_STEP, bad_file},
    {"states.unwritable", "A file that can't be written is an error naming it; states stay.",
     CF_STATES | CF_IN_STEP, unwritable},
    {"states.not_capable", "A backend that is not capable of an optimizer saves nothing.",
     CF_NO_OPTIMIZER, not_capable},
};

const cf_theme_t cf_theme_states = CF_THEME(cases);
