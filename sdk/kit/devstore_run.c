/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_run.c - an exchange of a key on devices, in three rounds over its parts: bring what the part's
 * device does not reach; sum, update, and write what it does reach, in one kernel; send the rest.
 *
 * With peer access each device sums its part from all values and writes it to all outs: reduce-scatter
 * and all-gather at once, in place, without buffers. Values are added in list order, so that the bits
 * are the host's. */
#include "devstore.h"

#include "devstore_rows.h"
#include "hoststore_sparse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* What one part of the key takes part in. */
typedef struct lane {
    kvs_dev_part_t *part;
    const void **src; /* of each value, from the part's first element on */
    size_t n_src;
    void **dst; /* outs that the kernel writes */
    size_t n_dst;
    void **scratch; /* what was allocated for this exchange, with its size */
    size_t *scratch_bytes;
    size_t n_scratch;
    void *sums; /* of norms; one of the scratch arrays */
} lane_t;

typedef struct kvs_dev_run {
    kvs_dev_task_t *task;
    lane_t *lanes;        /* one a part */
    kvs_dev_rows_t *rows; /* NULL: values are dense */
    kvs_status_t status;
    char text[512]; /* of a failure */
} run_t;

static const kvs_provider_t *provider_of(const run_t *run)
{
    return run->task->provider;
}

/* ---- Memory of a run -------------------------------------------------------------------------------- */

/* Copies of values, packed values, the flag, a sum, its norms, a conversion of each out. */
static size_t max_scratch(const kvs_dev_task_t *task)
{
    return 2 * task->n_values + task->n_outs + 3;
}

static kvs_status_t take_scratch(const run_t *run, lane_t *lane, size_t n_bytes, void **ret_data)
{
    kvs_status_t status = provider_of(run)->alloc(lane->part->device, n_bytes, ret_data);

    if (status == KVS_OK) {
        lane->scratch[lane->n_scratch] = *ret_data;
        lane->scratch_bytes[lane->n_scratch++] = n_bytes;
    }
    return status;
}

static void close_run(run_t *run)
{
    for (size_t i = 0; run->lanes != NULL && i < run->task->key->n_parts; i++) {
        lane_t *lane = &run->lanes[i];

        for (size_t j = 0; j < lane->n_scratch; j++) {
            provider_of(run)->free(lane->part->device, lane->scratch[j], lane->scratch_bytes[j]);
        }
    }
    kvs_dev_rows_close(run->rows);
    free(run->lanes);
    free(run);
}

/* One block: the lanes, and behind them their lists. */
static kvs_status_t open_run(run_t *run, kvs_dev_task_t *task)
{
    size_t n_parts = task->key->n_parts, n_scratch = max_scratch(task);
    size_t n_pointers = task->n_values + task->n_outs + 1 + n_scratch;
    size_t per_lane = n_pointers * sizeof(void *) + n_scratch * sizeof(size_t);
    char *memory = calloc(n_parts, sizeof(lane_t) + per_lane);

    run->task = task;
    run->lanes = (lane_t *)(void *)memory;
    if (memory == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for lists of %zu arrays", n_pointers);
    }
    memory += n_parts * sizeof(lane_t);
    for (size_t i = 0; i < n_parts; i++, memory += per_lane) {
        lane_t *lane = &run->lanes[i];
        void **pointers = (void **)(void *)memory;

        lane->part = &task->key->parts[i];
        lane->src = (const void **)pointers;
        lane->dst = pointers + task->n_values;
        lane->scratch = lane->dst + task->n_outs + 1;
        lane->scratch_bytes = (size_t *)(void *)(pointers + n_pointers);
    }
    return KVS_OK;
}

/* ---- What is reached --------------------------------------------------------------------------------- */

int kvs_dev_reaches(const kvs_dev_task_t *task, const kvs_dev_part_t *part,
                    const kvs_tensor_t *tensor)
{
    return tensor->device.type == KVS_DEVICE_CUDA_MANAGED ||
           (tensor->device.type == KVS_DEVICE_CUDA &&
            (tensor->device.id == part->device.id ||
             task->provider->reaches(part->device.id, tensor->device.id) != 0));
}

static int reaches(const run_t *run, const lane_t *lane, const kvs_tensor_t *tensor)
{
    return kvs_dev_reaches(run->task, lane->part, tensor);
}

static void *piece_of(const lane_t *lane, const kvs_tensor_t *tensor)
{
    return (char *)tensor->data + (size_t)lane->part->begin * (tensor->dtype.bits / 8);
}

static int has_dtype(const run_t *run, const kvs_tensor_t *out)
{
    return kvs_dtype_index(out->dtype) == run->task->dtype;
}

/* Where all are, the kernel writes the out. */
static int is_written(const run_t *run, const lane_t *lane, const kvs_tensor_t *out)
{
    return out->rows == NULL && has_dtype(run, out) && reaches(run, lane, out);
}

/* ---- First round: what comes in ----------------------------------------------------------------------- */

static kvs_status_t bring_value(const run_t *run, lane_t *lane, const kvs_tensor_t *value)
{
    size_t n_bytes = (size_t)lane->part->n * run->task->elem_bytes;
    kvs_status_t status = KVS_OK;
    void *copy = piece_of(lane, value);

    if (!reaches(run, lane, value)) {
        status = take_scratch(run, lane, n_bytes, &copy);
        if (status == KVS_OK) {
            status = provider_of(run)->copy(lane->part->queue, lane->part->device, copy,
                                            value->device, piece_of(lane, value), n_bytes);
        }
    }
    lane->src[lane->n_src++] = copy;
    return status;
}

static kvs_step_item_t step_of(const run_t *run, const lane_t *lane)
{
    const kvs_dev_task_t *task = run->task;
    const kvs_devstore_group_t *issued = task->group->state;
    const kvs_dev_part_t *part = lane->part;

    return (kvs_step_item_t){.size = (uint32_t)sizeof(kvs_step_item_t),
                             .dtype = task->dtype,
                             .kind = task->store->host.opt->kind,
                             .scalars = issued->host.update.scalars,
                             .n = part->n,
                             .src = lane->src,
                             .n_src = lane->n_src,
                             .dst = lane->dst,
                             .n_dst = lane->n_dst,
                             .weight = part->weight,
                             .master = part->master,
                             .states = part->states,
                             .row_elems = kvs_dev_row_elems(task)};
}

static int changes_rows(const run_t *run)
{
    const kvs_devstore_group_t *issued = run->task->group->state;

    return run->rows != NULL && (run->task->store->host.opt == NULL || issued->host.update.lazy);
}

/* Change the weight by what row-sparse values say; or, for an optimizer that is to see every row, let the
 * dense form be the lane's only value. */
static kvs_status_t take_rows(const run_t *run, lane_t *lane)
{
    kvs_status_t status;
    void *gradient = NULL;

    if (run->task->store->host.opt == NULL) {
        return kvs_dev_rows_replace(run->rows, lane->part);
    }
    if (changes_rows(run)) {
        kvs_step_item_t item = step_of(run, lane);

        return kvs_dev_rows_step(run->rows, lane->part, &item);
    }
    status = kvs_dev_rows_gradient(run->rows, lane->part, &gradient);
    if (status == KVS_OK) {
        lane->src[lane->n_src++] = gradient;
    }
    return status;
}

static kvs_status_t bring(const run_t *run, lane_t *lane)
{
    const kvs_group_t *group = run->task->group;
    kvs_status_t status = kvs_dev_marks_wait(provider_of(run), group, lane->part->queue);

    for (size_t i = 0; i < run->task->n_values && run->rows == NULL && status == KVS_OK; i++) {
        status = bring_value(run, lane, &group->values[i]);
    }
    for (size_t i = 0; i < run->task->n_outs; i++) {
        if (is_written(run, lane, &group->outs[i])) {
            lane->dst[lane->n_dst++] = piece_of(lane, &group->outs[i]);
        }
    }
    if (status == KVS_OK && run->task->n_values > 0 && run->task->store->host.opt != NULL) {
        status = kvs_dev_begin_step(run->task, lane->part);
    }
    return status == KVS_OK && run->rows != NULL ? kvs_dev_rows_bring(run->rows, lane->part)
                                                 : status;
}

/* ---- Compression --------------------------------------------------------------------------------------- */

/* Look for what can't be packed on every part, and wait: a push is packed as a whole or not at all. */
static kvs_status_t check_finite(const run_t *run)
{
    kvs_devstore_key_t *key = run->task->key;
    kvs_status_t status = KVS_OK;
    uint32_t bad = 0;

    for (size_t i = 0; i < 2 * key->n_parts && status == KVS_OK; i++) {
        lane_t *lane = &run->lanes[i % key->n_parts];
        kvs_queue_t *queue = lane->part->queue;
        void *flag;

        if (i >= key->n_parts) { /* all are looking: now ask */
            uint32_t found = 0;

            flag = lane->scratch[lane->n_scratch - 1];
            status = provider_of(run)->copy(queue, host_device, &found, lane->part->device, flag,
                                            sizeof(found));
            bad |= found;
            continue;
        }
        status = take_scratch(run, lane, sizeof(uint32_t), &flag);
        for (size_t j = 0; j < lane->n_src && status == KVS_OK; j++) {
            status =
                provider_of(run)->find_non_finite(queue, KVS_DTYPE_float32, lane->part->n,
                                                  lane->src[j], lane->part->residuals[j], flag);
        }
    }
    return status == KVS_OK && bad != 0 ? KVS_ERR_NON_FINITE : status;
}

/* Pack the lane's values, and let what they stand for be its only source. */
static kvs_status_t pack(const run_t *run, lane_t *lane)
{
    const kvs_compression_t *compression = run->task->store->host.compression;
    const kvs_compressor_t *kind = kvs_compression_kind(compression);
    const float *params = kvs_compression_params(compression);
    kvs_dev_part_t *part = lane->part;
    size_t n_bytes = (size_t)kvs_compression_bytes(compression, part->n);
    kvs_status_t status = KVS_OK;
    void *sum = part->weight;

    for (size_t i = 0; i < lane->n_src && status == KVS_OK; i++) {
        kvs_pack_item_t item = {.size = (uint32_t)sizeof(item),
                                .kind = kind,
                                .params = params,
                                .n = part->n,
                                .grad = lane->src[i],
                                .residual = part->residuals[i],
                                .ret_residual = part->residuals[i]};

        status = take_scratch(run, lane, n_bytes, &item.packed);
        status = status == KVS_OK ? provider_of(run)->pack(part->queue, &item) : status;
        lane->src[i] = item.packed;
    }
    if (status == KVS_OK && run->task->store->host.opt != NULL) {
        status = take_scratch(run, lane, (size_t)part->n * sizeof(float), &sum);
    }
    if (status == KVS_OK) {
        status = provider_of(run)->unpack(part->queue, kind, params, part->n, lane->src,
                                          lane->n_src, sum);
    }
    lane->src[0] = sum;
    lane->n_src = 1;
    return status;
}

/* ---- Second round: the kernel --------------------------------------------------------------------------- */

static kvs_status_t step(const run_t *run, const lane_t *lane)
{
    kvs_step_item_t item = step_of(run, lane);

    return provider_of(run)->step(lane->part->queue, &item);
}

static int is_step(const run_t *run)
{
    return run->task->n_values > 0 && run->task->store->host.opt != NULL && !changes_rows(run);
}

/* The sum to the weight and the outs; or, where the weight is what it is to be, that to the outs. */
static kvs_sum_item_t sum_of(const lane_t *lane)
{
    kvs_sum_item_t item = {lane->part->n, lane->src, lane->n_src, lane->dst, lane->n_dst};

    if (item.n_src == 0) {
        item.src = (const void *const *)&lane->part->weight;
        item.n_src = 1;
    } else if (lane->src[0] != lane->part->weight) {
        lane->dst[item.n_dst++] = lane->part->weight;
    }
    return item;
}

static kvs_status_t sum(const run_t *run, lane_t *lane)
{
    kvs_sum_item_t item = sum_of(lane);

    return item.n_dst == 0 ? KVS_OK
                           : provider_of(run)->sums(lane->part->queue, run->task->dtype, &item, 1);
}

/* Packed values are unpacked, and what they stand for takes their place. */
static kvs_status_t open_values(const run_t *run, lane_t *lane)
{
    return run->task->store->host.compression != NULL ? pack(run, lane) : KVS_OK;
}

static kvs_status_t work(const run_t *run, lane_t *lane)
{
    return is_step(run) ? step(run, lane) : sum(run, lane);
}

/* ---- Norms: whole arrays are looked at before the step --------------------------------------------------- */

/* Leave the lane one source: the gradient. */
static kvs_status_t make_gradient(const run_t *run, lane_t *lane)
{
    size_t n_bytes = (size_t)lane->part->n * run->task->elem_bytes;
    kvs_status_t status = KVS_OK;
    void *gradient;

    if (lane->n_src > 1) {
        status = take_scratch(run, lane, n_bytes, &gradient);
        if (status == KVS_OK) {
            kvs_sum_item_t item = {lane->part->n, lane->src, lane->n_src, &gradient, 1};

            status = provider_of(run)->sums(lane->part->queue, run->task->dtype, &item, 1);
        }
        lane->src[0] = gradient;
        lane->n_src = 1;
    }
    return status;
}

static size_t bytes_of_sums(const run_t *run, const lane_t *lane)
{
    return (size_t)kvs_opt_n_blocks(lane->part->n) * kvs_opt_n_sums(run->task->store->host.opt) *
           sizeof(double);
}

/* Add the sums of the lane's blocks to the totals, in order: this waits. */
static kvs_status_t add_sums(const run_t *run, lane_t *lane, const double *sums, double *io_totals)
{
    uint32_t n_sums = kvs_opt_n_sums(run->task->store->host.opt);
    size_t n_bytes = bytes_of_sums(run, lane);
    double *copy = malloc(n_bytes);
    kvs_status_t status = copy != NULL
                              ? provider_of(run)->copy(lane->part->queue, host_device, copy,
                                                       lane->part->device, sums, n_bytes)
                              : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for norms");

    for (size_t i = 0; i < n_bytes / sizeof(*copy) && status == KVS_OK; i++) {
        io_totals[i % n_sums] += copy[i];
    }
    free(copy);
    return status;
}

/* One phase: every part's sums are under way before the first is waited for. Parts are in the array's
 * order. */
static kvs_status_t look_at_whole(const run_t *run, uint32_t phase)
{
    kvs_devstore_group_t *issued = run->task->group->state;
    double totals[KVS_OPTIMIZER_MAX_SUMS] = {0};
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < run->task->key->n_parts && status == KVS_OK; i++) {
        lane_t *lane = &run->lanes[i];
        kvs_step_item_t item = step_of(run, lane);

        if (phase == 0) {
            status = take_scratch(run, lane, bytes_of_sums(run, lane), &lane->sums);
        }
        status = status == KVS_OK
                     ? provider_of(run)->norms(lane->part->queue, &item, phase, lane->sums)
                     : status;
    }
    for (size_t i = 0; i < run->task->key->n_parts && status == KVS_OK; i++) {
        status = add_sums(run, &run->lanes[i], run->lanes[i].sums, totals);
    }
    if (status == KVS_OK) {
        kvs_opt_combine(run->task->store->host.opt, phase, totals, &issued->host.update);
    }
    return status;
}

/* ---- Third round: what goes out ---------------------------------------------------------------------------- */

static kvs_status_t send_out(const run_t *run, lane_t *lane, const kvs_tensor_t *out)
{
    const kvs_dev_part_t *part = lane->part;
    int dtype = kvs_dtype_index(out->dtype);
    size_t n_bytes = (size_t)part->n * kvs_dtype_bytes(dtype);
    kvs_status_t status = KVS_OK;
    void *data = part->weight;

    if (out->rows != NULL || is_written(run, lane, out)) {
        return KVS_OK;
    }
    if (reaches(run, lane, out)) {
        return provider_of(run)->convert(part->queue, part->n, run->task->dtype, part->weight,
                                         dtype, piece_of(lane, out));
    }
    if (!has_dtype(run, out)) {
        status = take_scratch(run, lane, n_bytes, &data);
        if (status == KVS_OK) {
            status = provider_of(run)->convert(part->queue, part->n, run->task->dtype, part->weight,
                                               dtype, data);
        }
    }
    return status == KVS_OK ? provider_of(run)->copy(part->queue, out->device, piece_of(lane, out),
                                                     part->device, data, n_bytes)
                            : status;
}

/* Is there an array that must be done with when the operation ends? */
static int must_wait(const kvs_dev_task_t *task)
{
    int any = 0;

    for (size_t i = 0; i < task->n_values; i++) {
        const kvs_tensor_t *value = &task->group->values[i];

        any |= value->device.type != KVS_DEVICE_CPU && kvs_dev_is_awaited(value);
    }
    for (size_t i = 0; i < task->n_outs; i++) {
        const kvs_tensor_t *out = &task->group->outs[i];

        any |= out->device.type != KVS_DEVICE_CPU && kvs_dev_is_awaited(out);
    }
    return any;
}

/* Copies from and to pageable memory are over when they return. */
kvs_status_t kvs_dev_end_part(const kvs_dev_task_t *task, const kvs_dev_part_t *part)
{
    kvs_mark_t mark;
    kvs_status_t status = task->provider->mark(part->queue, &mark);

    if (status == KVS_OK) {
        status = kvs_dev_marks_release(task->provider, task->group, &mark);
    }
    if (status == KVS_OK && must_wait(task)) {
        status = task->provider->host_wait(&mark, KVS_DEV_WAIT_MS);
    }
    return status;
}

/* ---- All of it ---------------------------------------------------------------------------------------------- */

typedef kvs_status_t lane_step_t(const run_t *run, lane_t *lane);

static kvs_status_t for_lanes(const run_t *run, lane_step_t *fn)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < run->task->key->n_parts && status == KVS_OK; i++) {
        status = fn(run, &run->lanes[i]);
    }
    return status;
}

static kvs_status_t send(const run_t *run, lane_t *lane)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < run->task->n_outs && status == KVS_OK; i++) {
        status = send_out(run, lane, &run->task->group->outs[i]);
    }
    return status;
}

static kvs_status_t end_lane(const run_t *run, lane_t *lane)
{
    return kvs_dev_end_part(run->task, lane->part);
}

/* Between the first round and the second: packed values, and norms. */
static kvs_status_t prepare(const run_t *run)
{
    const kvs_devstore_t *store = run->task->store;
    kvs_status_t status = store->host.compression != NULL ? check_finite(run) : KVS_OK;

    if (status == KVS_OK) {
        status = for_lanes(run, open_values);
    }
    if (store->host.opt == NULL || kvs_opt_n_phases(store->host.opt) == 0) {
        return status;
    }
    if (status == KVS_OK) {
        status = for_lanes(run, make_gradient);
    }
    for (uint32_t phase = 0; phase < kvs_opt_n_phases(store->host.opt) && status == KVS_OK;
         phase++) {
        status = look_at_whole(run, phase);
    }
    return status;
}

static int has_row_outs(const run_t *run)
{
    return kvs_sparse_has_rows(run->task->group->outs, run->task->n_outs);
}

/* Row-sparse outs have room for what will certainly come. */
static kvs_status_t check_room(const run_t *run)
{
    const kvs_dev_task_t *task = run->task;
    kvs_status_t status = has_row_outs(run) ? kvs_dev_rows_settle(task) : KVS_OK;

    if (status != KVS_OK || !has_row_outs(run)) {
        return status;
    }
    return task->n_values > 0
               ? kvs_sparse_check_push_room(&task->store->host, task->group)
               : kvs_sparse_check_room(task->group->key, task->group->outs, task->n_outs);
}

/* An out may be one of the values: rows are elsewhere in it, and with another part, after the sum. */
static kvs_status_t await_other_lanes(const run_t *run)
{
    size_t n = run->task->key->n_parts;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; n > 1 && i < n && status == KVS_OK; i++) {
        kvs_mark_t mark;

        status = provider_of(run)->mark(run->lanes[i].part->queue, &mark);
        for (size_t j = 0; j < n && status == KVS_OK; j++) {
            if (j != i) {
                status = provider_of(run)->wait(run->lanes[j].part->queue, &mark);
            }
        }
    }
    return status;
}

/* The first round. */
static kvs_status_t bring_all(run_t *run)
{
    const kvs_dev_task_t *task = run->task;
    kvs_status_t status = check_room(run);

    if (status == KVS_OK && kvs_sparse_has_rows(task->group->values, task->n_values)) {
        status = kvs_dev_rows_open(task, &run->rows);
    }
    if (status == KVS_OK) {
        status = for_lanes(run, bring);
    }
    if (status == KVS_OK && run->rows != NULL) {
        status = for_lanes(run, take_rows);
    }
    if (status == KVS_OK && run->rows != NULL) {
        kvs_dev_rows_note(run->rows);
        status = task->n_outs > 0 ? await_other_lanes(run) : KVS_OK;
    }
    return status;
}

static void fail_run(run_t *run, kvs_status_t status)
{
    if (status != KVS_OK && run->status == KVS_OK) {
        run->status = status;
        snprintf(run->text, sizeof(run->text), "%s", kvs_plugin_host->last_error());
    }
}

kvs_status_t kvs_dev_run_open(kvs_dev_task_t *task, kvs_dev_run_t **ret_run)
{
    run_t *run = calloc(1, sizeof(*run));
    kvs_status_t status = run != NULL ? open_run(run, task)
                                      : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange");

    *ret_run = NULL;
    if (status == KVS_OK && task->n_values > 0 && task->store->host.compression != NULL) {
        status = kvs_dev_reserve_residuals(task, task->n_values);
    }
    if (status == KVS_OK) {
        status = bring_all(run);
    }
    if (status == KVS_OK && task->n_values > 0) {
        status = prepare(run);
    }
    if (status == KVS_OK) {
        *ret_run = run;
    } else if (run != NULL) {
        fail_run(run, status);
        status = kvs_dev_run_close(run);
    }
    return status;
}

/* What is queued of other parts must not run into what the program does after a failure. */
kvs_status_t kvs_dev_run_close(kvs_dev_run_t *run)
{
    kvs_status_t status;

    if (run->status == KVS_OK) {
        fail_run(run, for_lanes(run, send));
    }
    if (run->status == KVS_OK && has_row_outs(run)) {
        fail_run(run, kvs_dev_rows_send(run->task));
    }
    if (run->status == KVS_OK) {
        fail_run(run, for_lanes(run, end_lane));
    }
    status = run->status;
    for (size_t i = 0; status != KVS_OK && run->lanes != NULL && i < run->task->key->n_parts; i++) {
        (void)end_lane(run, &run->lanes[i]); /* a device that is lost does nothing more */
    }
    if (status != KVS_OK) {
        (void)kvs_fail(status, "%s", run->text);
    }
    close_run(run);
    return status;
}

kvs_status_t kvs_dev_run(kvs_dev_task_t *task)
{
    kvs_dev_run_t *run;
    kvs_status_t status = kvs_dev_run_open(task, &run);

    if (status != KVS_OK) {
        return status;
    }
    kvs_dev_run_work(&run, 1);
    return kvs_dev_run_close(run);
}

/* ---- Kernels of several keys ----------------------------------------------------------------------------- */

/* A lane's kernel, of a run that is summed or stepped. */
typedef struct kernel {
    run_t *run;
    const lane_t *lane;
} kernel_t;

typedef union kernel_item {
    kvs_sum_item_t sum;
    kvs_step_item_t step;
} kernel_item_t;

static int are_alike(const kernel_t *a, const kernel_t *b)
{
    return a->lane->part->queue == b->lane->part->queue &&
           a->run->task->dtype == b->run->task->dtype && is_step(a->run) == is_step(b->run);
}

/* Launch all kernels like the first, and leave the others in front: gives how many. */
static size_t launch_alike(kernel_t *kernels, size_t n, void *items)
{
    const kernel_t first = kernels[0];
    const kvs_provider_t *provider = provider_of(first.run);
    kvs_queue_t *queue = first.lane->part->queue;
    kvs_sum_item_t *sums = items;
    kvs_step_item_t *steps = items;
    size_t n_items = 0, n_left = 0;
    kvs_status_t status;

    for (size_t i = 0; i < n; i++) {
        if (!are_alike(&kernels[i], &first)) {
            continue;
        }
        if (is_step(first.run)) {
            steps[n_items++] = step_of(kernels[i].run, kernels[i].lane);
        } else {
            sums[n_items] = sum_of(kernels[i].lane);
            n_items += sums[n_items].n_dst > 0;
        }
    }
    status = is_step(first.run) ? provider->steps(queue, steps, n_items)
                                : provider->sums(queue, first.run->task->dtype, sums, n_items);
    for (size_t i = 0; i < n; i++) {
        if (!are_alike(&kernels[i], &first)) {
            kernels[n_left++] = kernels[i];
        } else {
            fail_run(kernels[i].run, status);
        }
    }
    return n_left;
}

void kvs_dev_run_work(kvs_dev_run_t *const *runs, size_t n)
{
    size_t n_lanes = 0, n_kernels = 0;
    kernel_t *kernels = NULL;

    for (size_t i = 0; i < n; i++) {
        n_lanes += runs[i]->task->key->n_parts;
    }
    if (n > 1) {
        kernels = malloc(n_lanes * (sizeof(*kernels) + sizeof(kernel_item_t)));
    }
    for (size_t i = 0; i < n; i++) {
        if (kernels == NULL) { /* a single key, or no memory for lists: one after the other */
            fail_run(runs[i], for_lanes(runs[i], work));
            continue;
        }
        for (size_t p = 0; p < runs[i]->task->key->n_parts; p++) {
            kernels[n_kernels++] = (kernel_t){runs[i], &runs[i]->lanes[p]};
        }
    }
    while (n_kernels > 0) {
        n_kernels = launch_alike(kernels, n_kernels, kernels + n_lanes);
    }
    free(kernels);
}
