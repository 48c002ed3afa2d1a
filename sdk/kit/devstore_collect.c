/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_collect.c - exchanges of several keys whose sums over devices somebody else does, such as NCCL.
 *
 * Each device adds up what it has of a key; one exchange sums all keys over their devices; the weight's
 * device updates as it does alone; a second exchange hands weights to devices that only pull; each device
 * copies to what other outs it has. */
#include "devstore.h"

#include "devscratch.h"
#include "hoststore_update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One device's part in the exchange of a key. */
typedef struct side {
    kvs_device_t device;
    kvs_queue_t *queue;
    const void *give;            /* the sum of its values; NULL: it has none */
    void *got;                   /* the result here; NULL: not yet */
    const kvs_tensor_t *got_out; /* the out that `got` is, if it is one */
    size_t n_values, n_outs;
} side_t;

typedef struct errand {
    kvs_dev_task_t *task;
    side_t *sides;        /* with room behind them for lists of pointers */
    size_t n_sides, home; /* home: where the weight is */
    int all_get;          /* the sum goes to every device at once, and is the result */
    kvs_device_t *devices;
    kvs_queue_t **queues;
    const void **src;
    void **dst;
    kvs_tensor_t *home_outs;
    kvs_dev_scratch_t *scratch;
} errand_t;

/* ---- Who takes part ------------------------------------------------------------------------------ */

static size_t n_arrays(const kvs_dev_task_t *task)
{
    return task->n_values + task->n_outs;
}

static const kvs_tensor_t *array_at(const kvs_dev_task_t *task, size_t i)
{
    return i < task->n_values ? &task->group->values[i] : &task->group->outs[i - task->n_values];
}

int kvs_dev_collects(const kvs_dev_task_t *task)
{
    const kvs_collective_t *collective = task->store->collective;
    size_t n_devices = 0;

    if (collective == NULL || task->store->host.compression != NULL) {
        return 0;
    }
    for (size_t i = 0; i < n_arrays(task); i++) {
        size_t j = 0;

        if (array_at(task, i)->device.type != KVS_DEVICE_CUDA || array_at(task, i)->rows != NULL) {
            return 0;
        }
        while (j < i && array_at(task, j)->device.id != array_at(task, i)->device.id) {
            j++;
        }
        n_devices += j == i;
    }
    return n_devices >= collective->min_devices ||
           (task->n_values == 0 && task->key->parts != NULL &&
            array_at(task, 0)->device.id != task->key->parts[0].device.id);
}

static side_t *side_of(errand_t *errand, kvs_device_t device)
{
    size_t i = 0;

    while (i < errand->n_sides && errand->sides[i].device.id != device.id) {
        i++;
    }
    if (i == errand->n_sides) {
        errand->n_sides++;
        errand->sides[i].device = (kvs_device_t){KVS_DEVICE_CUDA, device.id};
    }
    return &errand->sides[i];
}

/* The sides, in the order of the lists: values, then outs, then the weight. */
static kvs_status_t find_sides(errand_t *errand)
{
    const kvs_dev_task_t *task = errand->task;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_arrays(task); i++) {
        side_t *side = side_of(errand, array_at(task, i)->device);

        side->n_values += i < task->n_values;
        side->n_outs += i >= task->n_values;
    }
    errand->home = (size_t)(side_of(errand, task->key->parts[0].device) - errand->sides);
    for (size_t i = 0; i < errand->n_sides && status == KVS_OK; i++) {
        status = task->provider->queue(errand->sides[i].device, &errand->sides[i].queue);
    }
    return status;
}

/* A weight that is on none of the devices that push now moves to one of them. */
static kvs_status_t settle_home(kvs_dev_task_t *task)
{
    kvs_status_t status = KVS_OK;

    if (task->key->parts != NULL && task->n_values > 0) {
        int32_t home = task->key->parts[0].device.id;
        size_t i = 0;

        while (i < task->n_values && task->group->values[i].device.id != home) {
            i++;
        }
        if (i == task->n_values) {
            status = kvs_dev_move_home(task->store, task->group->key);
        }
    }
    return status == KVS_OK ? kvs_dev_move_out(task) : status;
}

/* ---- Memory -------------------------------------------------------------------------------------- */

static kvs_status_t take_scratch(errand_t *errand, kvs_device_t device, void **ret_data)
{
    const kvs_dev_task_t *task = errand->task;
    size_t n_bytes = (size_t)task->group->key->n_elems * task->elem_bytes;

    return kvs_dev_scratch_take(&errand->scratch, task->provider, device, n_bytes, ret_data);
}

static void close_errand(errand_t *errand)
{
    kvs_dev_scratch_release(&errand->scratch, errand->task->provider);
    free(errand->sides);
}

static kvs_status_t open_errand(errand_t *errand, kvs_dev_task_t *task)
{
    size_t max_sides = n_arrays(task) + 1;
    char *memory = calloc(max_sides, sizeof(side_t) + sizeof(kvs_device_t) + 3 * sizeof(void *) +
                                         sizeof(kvs_tensor_t));

    errand->task = task;
    errand->sides = (side_t *)(void *)memory;
    if (memory == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for lists of %zu devices", max_sides);
    }
    errand->home_outs = (kvs_tensor_t *)(void *)(memory += max_sides * sizeof(side_t));
    errand->queues = (kvs_queue_t **)(void *)(memory += max_sides * sizeof(kvs_tensor_t));
    errand->src = (const void **)(void *)(memory += max_sides * sizeof(void *));
    errand->dst = (void **)(void *)(memory += max_sides * sizeof(void *));
    errand->devices = (kvs_device_t *)(void *)(memory + max_sides * sizeof(void *));
    return KVS_OK;
}

static kvs_status_t named(kvs_status_t status, const errand_t *errand)
{
    return status == KVS_OK ? KVS_OK : kvs_update_name_key(status, errand->task->group->key);
}

/* ---- Before the exchange ------------------------------------------------------------------------- */

static kvs_status_t add_up(errand_t *errand, side_t *side)
{
    const kvs_dev_task_t *task = errand->task;
    size_t n = 0;
    void *sum;

    for (size_t i = 0; i < task->n_values; i++) {
        if (task->group->values[i].device.id == side->device.id) {
            errand->src[n++] = task->group->values[i].data;
        }
    }
    if (n <= 1) {
        side->give = n == 0 ? NULL : errand->src[0];
        return KVS_OK;
    }
    kvs_status_t status = take_scratch(errand, side->device, &sum);
    kvs_sum_item_t item = {task->group->key->n_elems, errand->src, n, &sum, 1};

    side->give = sum;
    return status == KVS_OK ? task->provider->sums(side->queue, task->dtype, &item, 1) : status;
}

/* Where the result will be on a side: an out of the key's dtype, else a new array. */
static kvs_status_t choose_place(errand_t *errand, side_t *side)
{
    const kvs_dev_task_t *task = errand->task;

    for (size_t i = 0; i < task->n_outs; i++) {
        const kvs_tensor_t *out = &task->group->outs[i];

        if (out->device.id == side->device.id && kvs_dtype_index(out->dtype) == task->dtype) {
            side->got_out = out;
            side->got = out->data;
            return KVS_OK;
        }
    }
    return take_scratch(errand, side->device, &side->got);
}

static int all_sides_give(const errand_t *errand)
{
    for (size_t i = 0; i < errand->n_sides; i++) {
        if (errand->sides[i].n_values == 0) {
            return 0;
        }
    }
    return 1;
}

static kvs_status_t prepare(errand_t *errand)
{
    kvs_dev_task_t *task = errand->task;
    kvs_status_t status = settle_home(task);

    if (status == KVS_OK) {
        status = find_sides(errand);
    }
    for (size_t i = 0; i < errand->n_sides && status == KVS_OK; i++) {
        side_t *side = &errand->sides[i];

        status = kvs_dev_marks_wait(task->provider, task->group, side->queue);
        if (status == KVS_OK) {
            status = add_up(errand, side);
        }
    }
    errand->all_get = task->n_values > 0 && task->n_outs > 0 && task->store->host.opt == NULL &&
                      all_sides_give(errand);
    for (size_t i = 0; errand->all_get && i < errand->n_sides && status == KVS_OK; i++) {
        status = choose_place(errand, &errand->sides[i]);
    }
    return status;
}

/* ---- The exchanges ------------------------------------------------------------------------------- */

static void add_side(errand_t *errand, kvs_collective_item_t *item, const side_t *side,
                     const void *src, void *dst)
{
    errand->devices[item->n_devices] = side->device;
    errand->queues[item->n_devices] = side->queue;
    errand->src[item->n_devices] = src;
    errand->dst[item->n_devices] = dst;
    item->n_devices++;
}

static kvs_collective_item_t item_of(const errand_t *errand)
{
    const kvs_key_entry_t *key = errand->task->group->key;

    return (kvs_collective_item_t){.key = key,
                                   .n = key->n_elems,
                                   .devices = errand->devices,
                                   .queues = errand->queues,
                                   .src = errand->src,
                                   .dst = errand->dst,
                                   .root = -1};
}

/* Fill in the sum over devices; no devices: there is none to be done. */
static kvs_status_t plan_sum(errand_t *errand, kvs_collective_item_t *item)
{
    side_t *home = &errand->sides[errand->home];
    size_t n_giving = 0;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < errand->n_sides; i++) {
        n_giving += errand->sides[i].n_values > 0;
    }
    if (n_giving < errand->task->store->collective->min_devices) {
        return KVS_OK;
    }
    if (!errand->all_get) {
        status = take_scratch(errand, home->device, &home->got);
    }
    for (size_t i = 0; i < errand->n_sides && status == KVS_OK; i++) {
        side_t *side = &errand->sides[i];

        if (side->n_values > 0) {
            item->root = side == home && !errand->all_get ? (int32_t)item->n_devices : item->root;
            add_side(errand, item, side, side->give, side->got);
        }
    }
    return status;
}

static kvs_status_t plan_broadcast(errand_t *errand, kvs_collective_item_t *item)
{
    const side_t *home = &errand->sides[errand->home];
    void *weight = errand->task->key->parts[0].weight;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < errand->n_sides && status == KVS_OK && !errand->all_get; i++) {
        side_t *side = &errand->sides[i];

        if (side == home || side->n_outs == 0) {
            continue;
        }
        if (item->n_devices == 0) {
            add_side(errand, item, home, weight, weight);
        }
        status = choose_place(errand, side);
        add_side(errand, item, side, weight, side->got);
    }
    item->root = 0;
    item->is_broadcast = 1;
    return status;
}

typedef kvs_status_t plan_t(errand_t *errand, kvs_collective_item_t *item);

static kvs_status_t exchange(errand_t *errands, size_t n, plan_t *plan,
                             kvs_collective_item_t *items, uint64_t *io_ticket)
{
    kvs_devstore_t *store = errands[0].task->store;
    kvs_status_t status = KVS_OK;
    size_t n_items = 0;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        items[n_items] = item_of(&errands[i]);
        status = named(plan(&errands[i], &items[n_items]), &errands[i]);
        n_items += items[n_items].n_devices > 0;
    }
    return status == KVS_OK && n_items > 0
               ? store->collective->exchange(store, items, n_items, io_ticket)
               : status;
}

/* ---- At home, and after -------------------------------------------------------------------------- */

/* The weight's device goes on as if it had pushed the sum itself. */
static kvs_status_t run_at_home(errand_t *errand)
{
    const kvs_dev_task_t *task = errand->task;
    const side_t *home = &errand->sides[errand->home];
    kvs_group_t group = *task->group;
    kvs_tensor_t sum = {.data = home->got != NULL ? home->got : (void *)(uintptr_t)home->give,
                        .device = home->device,
                        .dtype = task->group->key->dtype,
                        .ndim = task->group->key->ndim,
                        .shape = task->group->key->shape,
                        .stream = 1}; /* nobody's array: nothing waits for it */
    kvs_dev_task_t own = *task;

    group.values = &sum;
    group.outs = errand->home_outs;
    own.group = &group;
    own.n_values = task->n_values > 0;
    own.n_outs = 0;
    for (size_t i = 0; i < task->n_outs; i++) {
        const kvs_tensor_t *out = &task->group->outs[i];

        if (out->device.id == home->device.id && out != home->got_out) {
            errand->home_outs[own.n_outs++] = *out;
        }
    }
    group.n_values = own.n_values;
    group.n_outs = own.n_outs;
    return own.n_values + own.n_outs > 0 ? kvs_dev_run(&own) : KVS_OK;
}

static kvs_status_t copy_to_outs(errand_t *errand, const side_t *side)
{
    const kvs_dev_task_t *task = errand->task;
    const void *got = side->got;
    kvs_sum_item_t item = {task->group->key->n_elems, &got, 1, errand->dst, 0};
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < task->n_outs && status == KVS_OK; i++) {
        const kvs_tensor_t *out = &task->group->outs[i];
        int dtype = kvs_dtype_index(out->dtype);

        if (out->device.id != side->device.id || out == side->got_out) {
            continue;
        }
        if (dtype == task->dtype) {
            errand->dst[item.n_dst++] = out->data;
        } else {
            status =
                task->provider->convert(side->queue, item.n, task->dtype, got, dtype, out->data);
        }
    }
    return status == KVS_OK && item.n_dst > 0
               ? task->provider->sums(side->queue, task->dtype, &item, 1)
               : status;
}

static int is_awaited(const kvs_dev_task_t *task, const side_t *side)
{
    for (size_t i = 0; i < n_arrays(task); i++) {
        if (array_at(task, i)->device.id == side->device.id &&
            kvs_dev_is_awaited(array_at(task, i))) {
            return 1;
        }
    }
    return 0;
}

static kvs_status_t end_side(const kvs_dev_task_t *task, const side_t *side, int *io_waited)
{
    kvs_mark_t mark;
    kvs_status_t status = task->provider->mark(side->queue, &mark);

    if (status == KVS_OK) {
        status = kvs_dev_marks_release(task->provider, task->group, &mark);
    }
    if (status == KVS_OK && is_awaited(task, side)) {
        status = task->provider->host_wait(&mark, KVS_DEV_WAIT_MS);
        *io_waited = 1;
    }
    return status;
}

static kvs_status_t end_errand(errand_t *errand, int *io_waited)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < errand->n_sides && status == KVS_OK; i++) {
        const side_t *side = &errand->sides[i];

        if (i != errand->home && side->n_outs > 0) {
            status = copy_to_outs(errand, side);
        }
        if (status == KVS_OK) {
            status = end_side(errand->task, side, io_waited);
        }
    }
    return status;
}

/* ---- All of it ----------------------------------------------------------------------------------- */

/* What is queued of other keys must not run into what the program does after a failure. */
static void end_failed(const errand_t *errands, size_t n, kvs_status_t status)
{
    char text[1024];
    int waited;

    snprintf(text, sizeof(text), "%s", kvs_plugin_host->last_error());
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < errands[i].n_sides && errands[i].sides[j].queue != NULL; j++) {
            /* a device that is lost does nothing more */
            (void)end_side(errands[i].task, &errands[i].sides[j], &waited);
        }
    }
    (void)kvs_fail(status, "%s", text);
}

static kvs_status_t run_errands(errand_t *errands, size_t n, kvs_collective_item_t *items)
{
    kvs_devstore_t *store = errands[0].task->store;
    kvs_status_t status = KVS_OK;
    uint64_t tickets[2] = {0};
    int waited = 0;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = named(prepare(&errands[i]), &errands[i]);
    }
    if (status == KVS_OK) {
        status = exchange(errands, n, plan_sum, items, &tickets[0]);
    }
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = named(run_at_home(&errands[i]), &errands[i]);
    }
    if (status == KVS_OK) {
        status = exchange(errands, n, plan_broadcast, items, &tickets[1]);
    }
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = named(end_errand(&errands[i], &waited), &errands[i]);
    }
    if (status != KVS_OK) {
        end_failed(errands, n, status);
    }
    for (size_t i = 0; i < 2 && status == KVS_OK && waited; i++) {
        status = store->collective->settle(store, tickets[i]);
    }
    return status;
}

kvs_status_t kvs_dev_collect(kvs_dev_task_t *tasks, size_t n_tasks)
{
    errand_t *errands = calloc(n_tasks, sizeof(*errands));
    kvs_collective_item_t *items = calloc(n_tasks, sizeof(*items));
    kvs_status_t status = KVS_OK;
    size_t n_open = 0;

    if (errands == NULL || items == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n_tasks);
    }
    while (n_open < n_tasks && status == KVS_OK) {
        status = open_errand(&errands[n_open], &tasks[n_open]);
        n_open += status == KVS_OK;
    }
    if (status == KVS_OK) {
        status = run_errands(errands, n_tasks, items);
    }
    for (size_t i = 0; i < n_open; i++) {
        close_errand(&errands[i]);
    }
    free(items);
    free(errands);
    return status;
}
