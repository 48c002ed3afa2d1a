/* SPDX-License-Identifier: Apache-2.0 */
/* devstore.c - the device store: which way an operation goes, and its life. Operations and keys that no
 * device has to do with go to the host store as they are. */
#include "devstore.h"

#include "devstore_rows.h"
#include "hoststore_sparse.h"
#include "hoststore_update.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

kvs_status_t kvs_dev_provider(const kvs_provider_t **ret_provider)
{
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, ret_provider);

    if (status == KVS_OK && ((*ret_provider)->size < offsetof(kvs_provider_t, rows_sum) ||
                             (*ret_provider)->steps == NULL)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "device provider '%s' has no queues; install a newer version",
                        (*ret_provider)->name);
    }
    return status == KVS_OK ? (*ret_provider)->probe() : status;
}

void kvs_dev_tell(uint32_t reason, const char *what)
{
    static uint32_t told; /* reasons; relaxed: nothing else is told by it */

    if ((__atomic_fetch_or(&told, reason, __ATOMIC_RELAXED) & reason) == 0) {
        kvs_log(KVS_LOG_WARN, "device", "%s on a device: goes through host memory", what);
    }
}

void kvs_dev_tell_compressor(const kvs_compression_t *compression)
{
    char what[80];

    snprintf(what, sizeof(what), "compressor '%s'", kvs_compression_kind(compression)->name);
    kvs_dev_tell(KVS_DEV_COMPRESSOR, what);
}

/* ---- The choice of a way ------------------------------------------------------------------------------ */

static int any_on_device(const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kvs_dev_is(&tensors[i])) {
            return 1;
        }
    }
    return 0;
}

static int has_device(const kvs_group_t *group)
{
    return any_on_device(group->values, group->n_values) ||
           any_on_device(group->outs, group->n_outs) ||
           any_on_device(group->row_ids, group->n_row_ids);
}

/* Whether the host store alone can see to it. */
static int is_for_host(const kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        if (kvs_dev_key(op->groups[g].key)->parts != NULL || has_device(&op->groups[g])) {
            return 0;
        }
    }
    return 1;
}

/* Whether the provider has a kernel for the optimizer as it is set now. */
static int has_step(const kvs_dev_task_t *task)
{
    const kvs_opt_t *opt = task->store->host.opt;
    uint32_t used = kvs_opt_states_used(opt);
    void *states[KVS_OPTIMIZER_MAX_STATES] = {NULL};
    kvs_step_item_t item = {
        .size = (uint32_t)sizeof(item), .dtype = task->dtype, .kind = opt->kind, .states = states};
    kvs_queue_t *queue;

    for (size_t i = 0; i < opt->kind->n_states; i++) {
        states[i] = (used & 1u << i) != 0 ? &item : NULL; /* only that there is one counts */
    }
    if (task->provider->queue((kvs_device_t){KVS_DEVICE_CUDA, 0}, &queue) != KVS_OK ||
        task->provider->step(queue, &item) != KVS_OK) {
        return 0;
    }
    for (uint32_t phase = 0; phase < kvs_opt_n_phases(opt); phase++) {
        if (task->provider->norms(queue, &item, phase, NULL) != KVS_OK) {
            return 0;
        }
    }
    return 1;
}

static int has_packing(const kvs_dev_task_t *task)
{
    kvs_pack_item_t item = {.size = (uint32_t)sizeof(item),
                            .kind = kvs_compression_kind(task->store->host.compression)};
    kvs_queue_t *queue;

    return task->provider->queue((kvs_device_t){KVS_DEVICE_CUDA, 0}, &queue) == KVS_OK &&
           task->provider->pack(queue, &item) == KVS_OK;
}

/* Whether the group goes the devices' way, having said why not. */
static int goes_on_devices(const kvs_dev_task_t *task)
{
    const kvs_group_t *group = task->group;
    kvs_devstore_t *store = task->store;

    if (!kvs_dev_has_rows(task->provider) &&
        (group->key->row_sparse || kvs_sparse_has_rows(group->values, task->n_values) ||
         kvs_sparse_has_rows(group->outs, task->n_outs))) {
        kvs_dev_tell(KVS_DEV_ROWS, "row-sparse arrays");
        return 0;
    }
    if (task->n_values > 0 && store->host.updater != NULL) {
        kvs_dev_tell(KVS_DEV_UPDATER, "an updater of the program");
        return 0;
    }
    if (task->n_values > 0 && store->host.opt != NULL && !has_step(task)) {
        kvs_dev_tell(KVS_DEV_OPTIMIZER, store->host.opt->owner);
        return 0;
    }
    if (task->n_values > 0 && store->host.compression != NULL && !has_packing(task)) {
        kvs_dev_tell_compressor(store->host.compression);
        return 0;
    }
    if (task->n_values + task->n_outs > KVS_DEV_MAX_ARRAYS) {
        kvs_dev_tell(KVS_DEV_OTHER, "a key with very many arrays");
        return 0;
    }
    return group->key->n_elems > 0 &&
           (task->key->parts != NULL || any_on_device(group->values, task->n_values));
}

/* ---- Exchanges ------------------------------------------------------------------------------------------ */

/* So many keys have their kernels launched together, and none joins once there are so many bytes: that
 * is enough to do. */
#define MAX_BATCH       32
#define MAX_BATCH_BYTES ((uint64_t)4 << 20)

typedef kvs_status_t verb_t(void *store, kvs_op_t *op);

/* Bring the keys home and work there, with copies. */
static kvs_status_t go_home(kvs_devstore_t *store, kvs_op_t *op, unsigned what, verb_t *verb)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = kvs_dev_move_home(store, op->groups[g].key);
        status = status == KVS_OK ? KVS_OK : kvs_update_name_key(status, op->groups[g].key);
    }
    return status == KVS_OK ? kvs_dev_stage(store, op, what, verb) : status;
}

static kvs_status_t task_of(kvs_devstore_t *store, const kvs_group_t *group, unsigned what,
                            kvs_dev_task_t *ret_task)
{
    *ret_task = (kvs_dev_task_t){.store = store,
                                 .group = group,
                                 .key = kvs_dev_key(group->key),
                                 .dtype = kvs_dtype_index(group->key->dtype),
                                 .n_values = what & KVS_DEV_READS ? group->n_values : 0,
                                 .n_outs = what & KVS_DEV_WRITES ? group->n_outs : 0};
    ret_task->elem_bytes = kvs_dtype_bytes(ret_task->dtype);
    kvs_status_t status = kvs_dev_provider(&ret_task->provider);

    return status == KVS_OK ? KVS_OK : kvs_update_name_key(status, group->key);
}

/* The failure that a call of several keys tells: of the first in the list. */
typedef struct failure {
    kvs_status_t status;
    size_t list_index;
    char text[1024];
} failure_t;

static void note_failure(failure_t *failure, kvs_status_t status, const kvs_group_t *group)
{
    if (status != KVS_OK &&
        (failure->status == KVS_OK || group->list_index < failure->list_index)) {
        failure->status = status;
        failure->list_index = group->list_index;
        snprintf(failure->text, sizeof(failure->text), "%s", kvs_plugin_host->last_error());
    }
}

static kvs_status_t tell(const failure_t *failure)
{
    return failure->status == KVS_OK ? KVS_OK : kvs_fail(failure->status, "%s", failure->text);
}

/* Begin on devices: *ret_run, to be worked on and closed; or all of it through the host: NULL. */
static kvs_status_t begin_group(kvs_devstore_t *store, kvs_op_t *op, unsigned what, verb_t *verb,
                                kvs_dev_task_t *task, kvs_dev_run_t **ret_run)
{
    kvs_status_t status = task_of(store, op->groups, what, task);

    *ret_run = NULL;
    if (status != KVS_OK) {
        return status;
    }
    if (!goes_on_devices(task)) {
        return go_home(store, op, what, verb);
    }
    status = kvs_dev_move_out(task);
    if (status == KVS_OK) {
        status = kvs_dev_run_open(task, ret_run);
    }
    if (status == KVS_ERR_NON_FINITE) {
        return go_home(store, op, what, verb); /* which finds the element and says so */
    }
    return status == KVS_OK ? KVS_OK : kvs_update_name_key(status, op->groups->key);
}

/* Groups whose kernels are launched together; gives how many it took of n. */
static size_t exchange_batch(kvs_devstore_t *store, const kvs_op_t *op, kvs_group_t *groups,
                             size_t n, unsigned what, verb_t *verb, failure_t *failure)
{
    kvs_dev_task_t tasks[MAX_BATCH];
    kvs_dev_run_t *runs[MAX_BATCH];
    size_t n_runs = 0, n_taken = 0;
    uint64_t n_bytes = 0;

    while (n_taken < n && n_taken < MAX_BATCH && n_bytes < MAX_BATCH_BYTES) {
        kvs_group_t *group = &groups[n_taken++];
        kvs_op_t one = *op;

        one.groups = group;
        one.n_groups = 1;
        note_failure(failure, begin_group(store, &one, what, verb, &tasks[n_runs], &runs[n_runs]),
                     group);
        n_bytes += (uint64_t)group->key->n_elems * (group->key->dtype.bits / 8);
        n_runs += runs[n_runs] != NULL;
    }
    kvs_dev_run_work(runs, n_runs);
    for (size_t i = 0; i < n_runs; i++) {
        kvs_status_t status = kvs_dev_run_close(runs[i]);
        const kvs_group_t *group = tasks[i].group;

        status = status == KVS_OK ? KVS_OK : kvs_update_name_key(status, group->key);
        note_failure(failure, status, group);
    }
    return n_taken;
}

/* A group that fails holds up no other. */
static kvs_status_t exchange_groups(kvs_devstore_t *store, const kvs_op_t *op, kvs_group_t *groups,
                                    size_t n, unsigned what, verb_t *verb)
{
    failure_t failure = {KVS_OK, 0, ""};

    for (size_t g = 0; g < n;) {
        g += exchange_batch(store, op, groups + g, n - g, what, verb, &failure);
    }
    return tell(&failure);
}

/* Those groups that the store's collective sums, at once; `left` gets the others. */
static kvs_status_t collect(kvs_devstore_t *store, const kvs_op_t *op, unsigned what,
                            kvs_group_t *left, size_t *ret_n_left)
{
    kvs_dev_task_t *tasks = calloc(op->n_groups, sizeof(*tasks));
    kvs_status_t status = tasks != NULL
                              ? KVS_OK
                              : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu keys", op->n_groups);
    size_t n_tasks = 0;

    *ret_n_left = 0;
    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = task_of(store, &op->groups[g], what, &tasks[n_tasks]);
        if (status == KVS_OK && goes_on_devices(&tasks[n_tasks]) &&
            kvs_dev_collects(&tasks[n_tasks])) {
            n_tasks++;
        } else {
            left[(*ret_n_left)++] = op->groups[g];
        }
    }
    if (status == KVS_OK && n_tasks > 0) {
        status = kvs_dev_collect(tasks, n_tasks);
    }
    free(tasks);
    return status;
}

static kvs_status_t collect_and_exchange(kvs_devstore_t *store, kvs_op_t *op, unsigned what,
                                         verb_t *verb)
{
    kvs_group_t *left = calloc(op->n_groups, sizeof(*left));
    size_t n_left = 0;
    kvs_status_t status = left != NULL
                              ? collect(store, op, what, left, &n_left)
                              : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu keys", op->n_groups);

    if (status == KVS_OK) {
        status = exchange_groups(store, op, left, n_left, what, verb);
    }
    free(left);
    return status;
}

static kvs_status_t collect_one_by_one(kvs_devstore_t *store, const kvs_op_t *op, unsigned what,
                                       verb_t *verb)
{
    failure_t failure = {KVS_OK, 0, ""};

    for (size_t g = 0; g < op->n_groups; g++) {
        kvs_op_t one = *op;

        one.groups = &op->groups[g];
        one.n_groups = 1;
        note_failure(&failure, collect_and_exchange(store, &one, what, verb), one.groups);
    }
    return tell(&failure);
}

static void drop_marks(kvs_devstore_t *store, kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        kvs_dev_marks_drop(store, &op->groups[g]);
    }
}

static kvs_status_t exchange(kvs_devstore_t *store, kvs_op_t *op, unsigned what, verb_t *verb)
{
    kvs_status_t status = KVS_OK;

    if (is_for_host(op)) {
        return verb(store, op);
    }
    if ((op->flags & KVS_OP_SHARED) != 0) {
        kvs_dev_tell(KVS_DEV_OTHER, "a call whose arrays share memory");
        status = go_home(store, op, what, verb);
    } else if (store->collective != NULL && store->collective->is_one_by_one) {
        status = collect_one_by_one(store, op, what, verb);
    } else if (store->collective != NULL) {
        status = collect_and_exchange(store, op, what, verb);
    } else {
        status = exchange_groups(store, op, op->groups, op->n_groups, what, verb);
    }
    drop_marks(store, op);
    return status;
}

kvs_status_t kvs_devstore_push(void *store, kvs_op_t *op)
{
    return exchange(store, op, KVS_DEV_READS, kvs_hoststore_push);
}

kvs_status_t kvs_devstore_pull(void *store, kvs_op_t *op)
{
    return exchange(store, op, KVS_DEV_WRITES, kvs_hoststore_pull);
}

kvs_status_t kvs_devstore_pushpull(void *store, kvs_op_t *op)
{
    return exchange(store, op, KVS_DEV_READS | KVS_DEV_WRITES, kvs_hoststore_pushpull);
}

/* A broadcast is an init, and then a pull. */
kvs_status_t kvs_devstore_init(void *store, kvs_op_t *op)
{
    kvs_status_t status = is_for_host(op) ? kvs_hoststore_init(store, op)
                                          : go_home(store, op, KVS_DEV_READS, kvs_hoststore_init);

    if (op->verb != KVS_VERB_BROADCAST || status != KVS_OK) {
        drop_marks(store, op);
    }
    return status;
}

/* Ids on a device could not be looked at when the operation was issued. */
static kvs_status_t row_sparse_pull(void *store, kvs_op_t *op)
{
    kvs_status_t status = kvs_sparse_check_issued(op);

    return status == KVS_OK ? kvs_hoststore_row_sparse_pull(store, op) : status;
}

/* The pulls of an operation whose rows come from devices, and its other groups. */
typedef struct rowpulls {
    kvs_dev_task_t *tasks;
    kvs_dev_rowpull_t **pulls;
    size_t n;
    kvs_op_t left;
} rowpulls_t;

static kvs_status_t make_rowpulls(const kvs_op_t *op, rowpulls_t *rowpulls)
{
    *rowpulls = (rowpulls_t){.tasks = calloc(op->n_groups, sizeof(kvs_dev_task_t)),
                             .pulls = calloc(op->n_groups, sizeof(kvs_dev_rowpull_t *)),
                             .left = *op};
    rowpulls->left.groups = calloc(op->n_groups, sizeof(kvs_group_t));
    rowpulls->left.n_groups = 0;
    return rowpulls->tasks != NULL && rowpulls->pulls != NULL && rowpulls->left.groups != NULL
               ? KVS_OK
               : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu keys", op->n_groups);
}

static void release_rowpulls(rowpulls_t *rowpulls)
{
    for (size_t i = 0; i < rowpulls->n; i++) {
        kvs_dev_rowpull_close(rowpulls->pulls[i]);
    }
    free(rowpulls->tasks);
    free(rowpulls->pulls);
    free(rowpulls->left.groups);
}

/* Read all ids, then write all outs, those of the host first, whose ids are read by the host store. */
static kvs_status_t pull_rows(kvs_devstore_t *store, const kvs_op_t *op)
{
    rowpulls_t rowpulls;
    kvs_status_t status = make_rowpulls(op, &rowpulls);

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        kvs_dev_task_t *task = &rowpulls.tasks[rowpulls.n];

        status = task_of(store, &op->groups[g], KVS_DEV_WRITES, task);
        if (status == KVS_OK && goes_on_devices(task)) {
            status = kvs_dev_rowpull_open(task, &rowpulls.pulls[rowpulls.n++]);
        } else {
            rowpulls.left.groups[rowpulls.left.n_groups++] = op->groups[g];
        }
    }
    if (status == KVS_OK && rowpulls.left.n_groups > 0) {
        status = go_home(store, &rowpulls.left, KVS_DEV_WRITES, row_sparse_pull);
    }
    for (size_t i = 0; i < rowpulls.n && status == KVS_OK; i++) {
        status = kvs_dev_rowpull_run(rowpulls.pulls[i]);
    }
    release_rowpulls(&rowpulls);
    return status;
}

kvs_status_t kvs_devstore_row_sparse_pull(void *store, kvs_op_t *op)
{
    kvs_status_t status;

    if (is_for_host(op)) {
        status = kvs_hoststore_row_sparse_pull(store, op);
    } else if ((op->flags & KVS_OP_SHARED) != 0) {
        kvs_dev_tell(KVS_DEV_OTHER, "a call whose arrays share memory");
        status = go_home(store, op, KVS_DEV_WRITES, row_sparse_pull);
    } else {
        status = pull_rows(store, op);
    }
    drop_marks(store, op);
    return status;
}

/* ---- Issue ------------------------------------------------------------------------------------------------ */

static int has_ids_on_device(const kvs_op_t *op)
{
    int any = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        any |= any_on_device(op->groups[g].row_ids, op->groups[g].n_row_ids);
    }
    return any;
}

kvs_status_t kvs_devstore_issue(void *store, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = kvs_dev_marks_take(store, &op->groups[g]);
        status = status == KVS_OK ? KVS_OK : kvs_update_name_key(status, op->groups[g].key);
    }
    if (status == KVS_OK && !(op->verb == KVS_VERB_ROW_SPARSE_PULL && has_ids_on_device(op))) {
        status = kvs_hoststore_issue(store, op);
    }
    if (status != KVS_OK) {
        drop_marks(store, op);
    }
    return status;
}

/* ---- Life and settings ------------------------------------------------------------------------------------ */

kvs_status_t kvs_devstore_close(void *store, int64_t timeout_ms)
{
    kvs_dev_marks_drop_all(store);
    return kvs_hoststore_close(store, timeout_ms);
}

void kvs_devstore_key_release(void *store, kvs_key_entry_t *entry)
{
    kvs_dev_release_parts(store, kvs_dev_key(entry));
    kvs_hoststore_key_release(store, entry);
}

/* Settings and files know host arrays only. They run alone: no key comes or goes now. */
static kvs_status_t move_all_home(kvs_devstore_t *store)
{
    kvs_status_t status = KVS_OK;

    for (kvs_hoststore_key_t *key = store->host.keys; key != NULL && status == KVS_OK;
         key = key->next) {
        kvs_key_entry_t entry = *key->entry;

        status = kvs_dev_move_home(store, &entry);
        status = status == KVS_OK ? KVS_OK : kvs_update_name_key(status, &entry);
    }
    return status;
}

kvs_status_t kvs_devstore_set_updater(void *store, kvs_updater_t fn, void *arg)
{
    kvs_status_t status = move_all_home(store);

    return status == KVS_OK ? kvs_hoststore_set_updater(store, fn, arg) : status;
}

kvs_status_t kvs_devstore_set_optimizer(void *store, const kvs_optimizer_spec_t *spec)
{
    kvs_status_t status = move_all_home(store);

    return status == KVS_OK ? kvs_hoststore_set_optimizer(store, spec) : status;
}

kvs_status_t kvs_devstore_set_gradient_compression(void *store, const kvs_param_t *params,
                                                   size_t n_params)
{
    kvs_status_t status = move_all_home(store);

    return status == KVS_OK ? kvs_hoststore_set_gradient_compression(store, params, n_params)
                            : status;
}

kvs_status_t kvs_devstore_save_optimizer_states(void *store, const char *path, int dump_optimizer)
{
    kvs_status_t status = move_all_home(store);

    return status == KVS_OK ? kvs_hoststore_save_optimizer_states(store, path, dump_optimizer)
                            : status;
}

kvs_status_t kvs_devstore_load_optimizer_states(void *store, const char *path)
{
    kvs_status_t status = move_all_home(store);

    return status == KVS_OK ? kvs_hoststore_load_optimizer_states(store, path) : status;
}
