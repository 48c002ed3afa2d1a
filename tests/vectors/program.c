/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - golden cases of kind "program": operations carried out in order on one store. Each
 * verb is a function in the table at the bottom. */
#include "runner.h"

#include "kt.h"
#include "spec.h"
#include "states.h"

#include <stdlib.h>
#include <string.h>

typedef struct program {
    golden_case_t *c;
    /* the updater: stored = a * stored + b * merged */
    double a, b;
    cJSON *updater_calls; /* keys, since the operation began */
    char dir[512];        /* of saved states */
} program_t;

/* ---- what several verbs need ---- */

typedef struct keys {
    kvs_key_t *keys;
    size_t n;
} keys_t;

static int read_keys(golden_case_t *c, const cJSON *json, keys_t *keys)
{
    const cJSON *item;

    keys->keys = calloc((size_t)cJSON_GetArraySize(json) + 1, sizeof(*keys->keys));
    if (keys->keys == NULL) {
        return golden_failed(c, "out of memory");
    }
    cJSON_ArrayForEach(item, json)
    {
        if (!golden_key(c, item, &keys->keys[keys->n])) {
            return 0;
        }
        keys->n++;
    }
    return 1;
}

/* What an operation is given, read from its JSON; released whatever came of it. */
typedef struct operands {
    keys_t keys;
    golden_list_t values, outs, row_ids;
    kvs_call_t call;
} operands_t;

#define OPERANDS_INIT                                                                              \
    {                                                                                              \
        .call = KVS_CALL_INIT                                                                      \
    }

static int read_operands(golden_case_t *c, const cJSON *op, operands_t *operands)
{
    operands->call.priority = (int32_t)golden_number(op, "priority", 0);
    return read_keys(c, golden_get(op, "keys"), &operands->keys) &&
           golden_list_read(c, golden_get(op, "values"), GOLDEN_VALUES, &operands->values) &&
           golden_list_read(c, golden_get(op, "expect"), GOLDEN_OUTS, &operands->outs);
}

static void release_operands(operands_t *operands)
{
    free(operands->keys.keys);
    golden_list_release(&operands->values);
    golden_list_release(&operands->outs);
    golden_list_release(&operands->row_ids);
}

static kvs_status_t run_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                                const kvs_tensor_t *stored, void *arg)
{
    program_t *p = arg;
    int dtype = kvs_dtype_index(stored->dtype);
    size_t n = 1;

    for (int32_t i = 0; i < stored->ndim; i++) {
        n *= (size_t)stored->shape[i];
    }
    for (size_t i = 0; i < n; i++) {
        double merged = golden_load(dtype, value->data, i);

        golden_store(dtype, stored->data, i,
                     p->a * golden_load(dtype, stored->data, i) + p->b * merged);
    }
    cJSON_AddItemToArray(p->updater_calls, key->str != NULL ? cJSON_CreateString(key->str)
                                                            : cJSON_CreateNumber((double)key->num));
    return KVS_OK;
}

static void check_updater_calls(program_t *p, const cJSON *op)
{
    const cJSON *want = golden_get(op, "updater_calls");

    if (want != NULL && !cJSON_Compare(p->updater_calls, want, 1)) {
        char *got_text = cJSON_PrintUnformatted(p->updater_calls);
        char *want_text = cJSON_PrintUnformatted(want);

        golden_failed(p->c, "the updater ran for %s, want %s", got_text, want_text);
        cJSON_free(got_text);
        cJSON_free(want_text);
    }
}

/* ---- verbs ---- */

static void do_init(program_t *p, const cJSON *op)
{
    operands_t o = OPERANDS_INIT;

    if (read_operands(p->c, op, &o)) {
        kvs_arrays_t values = golden_list_arrays(&o.values);

        golden_ok(p->c, kvs_store_init(p->c->store, o.keys.keys, o.keys.n, &values, &o.call),
                  "init");
    }
    release_operands(&o);
}

static void do_broadcast(program_t *p, const cJSON *op)
{
    operands_t o = OPERANDS_INIT;

    if (read_operands(p->c, op, &o)) {
        kvs_arrays_t values = golden_list_arrays(&o.values);
        kvs_arrays_t outs = golden_list_arrays(&o.outs);
        kvs_status_t status =
            kvs_store_broadcast(p->c->store, o.keys.keys, o.keys.n, &values, &outs, &o.call);

        (void)(golden_ok(p->c, status, "broadcast") &&
               golden_list_check(p->c, &o.outs, &o.outs, "broadcast"));
    }
    release_operands(&o);
}

static void do_push(program_t *p, const cJSON *op)
{
    operands_t o = OPERANDS_INIT;

    if (read_operands(p->c, op, &o)) {
        kvs_arrays_t values = golden_list_arrays(&o.values);
        kvs_status_t status = kvs_store_push(p->c->store, o.keys.keys, o.keys.n, &values, &o.call);

        /* the pushed arrays are as they were */
        (void)(golden_ok(p->c, status, "push") &&
               golden_list_check(p->c, &o.values, &o.values, "pushed array"));
    }
    release_operands(&o);
}

static void do_pull(program_t *p, const cJSON *op)
{
    operands_t o = OPERANDS_INIT;

    if (read_operands(p->c, op, &o)) {
        kvs_arrays_t outs = golden_list_arrays(&o.outs);
        kvs_status_t status = kvs_store_pull(p->c->store, o.keys.keys, o.keys.n, &outs, &o.call);

        (void)(golden_ok(p->c, status, "pull") &&
               golden_list_check(p->c, &o.outs, &o.outs, "pull"));
    }
    release_operands(&o);
}

static void do_pushpull(program_t *p, const cJSON *op)
{
    int in_place = cJSON_IsTrue(golden_get(op, "in_place"));
    operands_t o = OPERANDS_INIT;

    if (read_operands(p->c, op, &o)) {
        kvs_arrays_t values = golden_list_arrays(&o.values);
        kvs_arrays_t outs = golden_list_arrays(&o.outs);
        kvs_status_t status = kvs_store_pushpull(p->c->store, o.keys.keys, o.keys.n, &values,
                                                 in_place ? NULL : &outs, &o.call);

        (void)(golden_ok(p->c, status, "pushpull") &&
               golden_list_check(p->c, in_place ? &o.values : &o.outs, &o.outs, "pushpull"));
    }
    release_operands(&o);
}

static int read_row_ids(golden_case_t *c, const cJSON *json, golden_list_t *list)
{
    const cJSON *ids;

    cJSON_ArrayForEach(ids, json)
    {
        if (!golden_list_add_flat(c, "int64", NULL, ids, GOLDEN_VALUES, list)) {
            return 0;
        }
        golden_list_end_key(list, 1);
    }
    return 1;
}

static void do_row_sparse_pull(program_t *p, const cJSON *op)
{
    operands_t o = OPERANDS_INIT;

    if (read_operands(p->c, op, &o) && read_row_ids(p->c, golden_get(op, "row_ids"), &o.row_ids)) {
        kvs_arrays_t outs = golden_list_arrays(&o.outs);
        kvs_arrays_t ids = golden_list_arrays(&o.row_ids);
        kvs_status_t status =
            kvs_store_row_sparse_pull(p->c->store, o.keys.keys, o.keys.n, &outs, &ids, &o.call);

        (void)(golden_ok(p->c, status, "row_sparse_pull") &&
               golden_list_check(p->c, &o.outs, &o.outs, "row_sparse_pull"));
    }
    release_operands(&o);
}

static void do_set_updater(program_t *p, const cJSON *op)
{
    const char *name = golden_text(op, "updater");

    if (strcmp(name, "add_scaled") == 0) {
        p->a = 1;
        p->b = golden_number(op, "alpha", 0);
    } else if (strcmp(name, "axpby") == 0) {
        p->a = golden_number(op, "a", 0);
        p->b = golden_number(op, "b", 0);
    } else {
        golden_failed(p->c, "unknown updater \"%s\"", name);
        return;
    }
    golden_ok(p->c, kvs_store_set_updater(p->c->store, run_updater, p), "set_updater");
}

static void do_set_optimizer(program_t *p, const cJSON *op)
{
    golden_spec_t spec = GOLDEN_SPEC_INIT;
    kvs_optimizer_spec_t *s = &spec.spec;

    if (golden_spec_read(p->c, golden_text(op, "optimizer"), op, &spec) &&
        golden_spec_multipliers(p->c, golden_get(op, "lr_mult"), "value", &spec.lr_mult,
                                &s->n_lr_mult) &&
        golden_spec_multipliers(p->c, golden_get(op, "wd_mult"), "value", &spec.wd_mult,
                                &s->n_wd_mult)) {
        s->lr_mult = spec.lr_mult;
        s->wd_mult = spec.wd_mult;
        golden_ok(p->c, kvs_store_set_optimizer(p->c->store, s), "set_optimizer");
    }
    golden_spec_release(&spec);
}

static void do_set_learning_rate(program_t *p, const cJSON *op)
{
    kvs_param_t attr = {.name = "learning_rate", .type = KVS_PARAM_FLOAT};

    attr.value.real = golden_number(op, "value", 0);
    golden_ok(p->c, kvs_store_set_optimizer_attr(p->c->store, &attr), "set_learning_rate");
}

static void slot_path(const program_t *p, const char *slot, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.states", p->dir, slot);
}

/* States are seen through a state file. */
static void do_states(program_t *p, const cJSON *op)
{
    char path[600];

    slot_path(p, "look", path, sizeof(path));
    if (golden_ok(p->c, kvs_store_save_optimizer_states(p->c->store, path, 1),
                  "save_optimizer_states")) {
        golden_check_states(p->c, path, op);
    }
}

static void do_save_states(program_t *p, const cJSON *op)
{
    char path[600];
    int dump_optimizer = cJSON_IsTrue(golden_get(op, "dump_optimizer"));

    slot_path(p, golden_text(op, "slot"), path, sizeof(path));
    golden_ok(p->c, kvs_store_save_optimizer_states(p->c->store, path, dump_optimizer),
              "save_optimizer_states");
}

static void do_load_states(program_t *p, const cJSON *op)
{
    char path[600];

    slot_path(p, golden_text(op, "slot"), path, sizeof(path));
    golden_ok(p->c, kvs_store_load_optimizer_states(p->c->store, path), "load_optimizer_states");
}

static void do_new_store(program_t *p, const cJSON *op)
{
    kvs_store_t *store = p->c->store;
    char type[64];

    (void)op;
    snprintf(type, sizeof(type), "%s", kvs_store_type(store));
    p->c->store = NULL;
    if (golden_ok(p->c, kvs_store_close(store), "close")) {
        golden_ok(p->c, kvs_store_create(type, NULL, 0, &p->c->store), "create");
    }
}

static const struct {
    const char *name;
    void (*run)(program_t *p, const cJSON *op);
} verbs[] = {
    {"init", do_init},
    {"broadcast", do_broadcast},
    {"push", do_push},
    {"pull", do_pull},
    {"pushpull", do_pushpull},
    {"row_sparse_pull", do_row_sparse_pull},
    {"set_updater", do_set_updater},
    {"set_optimizer", do_set_optimizer},
    {"set_learning_rate", do_set_learning_rate},
    {"states", do_states},
    {"save_optimizer_states", do_save_states},
    {"load_optimizer_states", do_load_states},
    {"new_store", do_new_store},
};

static void run_op(program_t *p, const cJSON *op)
{
    const char *name = golden_text(op, "op");

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(name, verbs[i].name) == 0) {
            p->updater_calls = cJSON_CreateArray();
            verbs[i].run(p, op);
            check_updater_calls(p, op);
            cJSON_Delete(p->updater_calls);
            p->updater_calls = NULL;
            return;
        }
    }
    golden_failed(p->c, "unknown op \"%s\"", name);
}

void golden_run_program(golden_case_t *c)
{
    program_t p = {.c = c};
    const cJSON *op;
    int number = 0;

    snprintf(p.dir, sizeof(p.dir), "%s", kt_temp_dir());
    cJSON_ArrayForEach(op, golden_get(c->json, "ops"))
    {
        golden_verdict_t before = c->verdict;

        run_op(&p, op);
        if (c->verdict != before) {
            char reason[sizeof(c->reason)];

            snprintf(reason, sizeof(reason), "op %d: %.900s", number, c->reason);
            memcpy(c->reason, reason, sizeof(reason));
            return;
        }
        number++;
    }
}
