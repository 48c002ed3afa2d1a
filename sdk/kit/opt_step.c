/* SPDX-License-Identifier: Apache-2.0 */
/* opt_step.c - blocks of an array to the optimizer's arithmetic: finds the states' part, converts
 * half types piece by piece, splits at rows, and adds up sums in an order that no cut changes. */
#include "opt_private.h"

#include "fpenv.h"
#include "rowsparse.h"

#include <kvstore/kit.h>

/* Elements of a half type converted at a time: grad, weight and states stay in the first-level cache. */
#define PIECE 1024

/* What the work on all blocks of one update shares. */
typedef struct work {
    const kvs_optimizer_t *kind;
    const kvs_opt_states_t *states;
    int dtype;        /* of gradient and weight */
    const void *grad; /* at element `origin` of the array */
    char *weight;
    int64_t origin;
    const double *scalars;
    float scalars_f32[KVS_OPTIMIZER_MAX_SCALARS];
} work_t;

/* A run of elements in one of the two types of arithmetic. */
typedef struct span {
    int64_t n;
    const void *grad;
    void *weight;
    void *states[KVS_OPTIMIZER_MAX_STATES];
} span_t;

typedef struct piece {
    float grad[PIECE];
    float weight[PIECE];
    float states[KVS_OPTIMIZER_MAX_STATES][PIECE];
} piece_t;

static void round_scalars(work_t *work)
{
    for (size_t i = 0; i < KVS_OPTIMIZER_MAX_SCALARS; i++) {
        work->scalars_f32[i] = (float)work->scalars[i];
    }
}

static int is_half(int dtype)
{
    return dtype == KVS_DTYPE_float16 || dtype == KVS_DTYPE_bfloat16;
}

static int is_per_row(const work_t *work, size_t state)
{
    return (work->kind->states[state].flags & KVS_STATE_PER_ROW) != 0;
}

/* The part of a state that belongs to elements from `first` on; NULL if it is not in use. */
static void *state_at(const work_t *work, size_t state, int64_t first)
{
    char *data = work->states->data[state];
    int64_t index = is_per_row(work, state) ? first / work->states->row_elems : first;

    return data == NULL ? NULL : data + (size_t)index * kvs_dtype_bytes(work->states->dtype);
}

static const void *grad_at(const work_t *work, int64_t first)
{
    return (const char *)work->grad + (size_t)(first - work->origin) * kvs_dtype_bytes(work->dtype);
}

static void *weight_at(const work_t *work, int64_t first)
{
    return work->weight + (size_t)(first - work->origin) * kvs_dtype_bytes(work->dtype);
}

/* Arrays that are used where they lie. */
static span_t direct_span(const work_t *work, int64_t first, int64_t n)
{
    span_t span = {.n = n, .grad = grad_at(work, first), .weight = weight_at(work, first)};

    for (size_t i = 0; i < work->kind->n_states; i++) {
        span.states[i] = state_at(work, i, first);
    }
    return span;
}

/* Convert what is of a half type; a master weight and its states are used where they lie. */
static span_t load_piece(const work_t *work, int64_t first, int64_t n, piece_t *piece)
{
    span_t span = direct_span(work, first, n);

    kvs_cast(n, work->dtype, span.grad, KVS_DTYPE_float32, piece->grad);
    span.grad = piece->grad;
    if (work->states->master != NULL) {
        span.weight = (float *)work->states->master + first;
        return span;
    }
    kvs_cast(n, work->dtype, span.weight, KVS_DTYPE_float32, piece->weight);
    span.weight = piece->weight;
    for (size_t i = 0; i < work->kind->n_states; i++) {
        if (span.states[i] != NULL) {
            kvs_cast(is_per_row(work, i) ? 1 : n, work->states->dtype, span.states[i],
                     KVS_DTYPE_float32, piece->states[i]);
            span.states[i] = piece->states[i];
        }
    }
    return span;
}

/* Write back what a step has changed. */
static void store_piece(const work_t *work, int64_t first, const span_t *span)
{
    kvs_cast(span->n, KVS_DTYPE_float32, span->weight, work->dtype, weight_at(work, first));
    for (size_t i = 0; work->states->master == NULL && i < work->kind->n_states; i++) {
        if (span->states[i] != NULL && !is_per_row(work, i)) {
            kvs_cast(span->n, KVS_DTYPE_float32, span->states[i], work->states->dtype,
                     state_at(work, i, first));
        }
    }
}

static void step_span(const work_t *work, const span_t *span)
{
    if (work->dtype == KVS_DTYPE_float64) {
        work->kind->step_f64(span->n, span->grad, span->weight, (double *const *)span->states,
                             work->scalars);
    } else {
        work->kind->step_f32(span->n, span->grad, span->weight, (float *const *)span->states,
                             work->scalars_f32);
    }
}

/* Elements that lie in one row if a state is per row. */
static void step_run(const work_t *work, int64_t first, int64_t n)
{
    piece_t piece;

    if (!is_half(work->dtype)) {
        span_t span = direct_span(work, first, n);

        step_span(work, &span);
        return;
    }
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t n_piece = n - done < PIECE ? n - done : PIECE;
        span_t span = load_piece(work, first + done, n_piece, &piece);

        step_span(work, &span);
        store_piece(work, first + done, &span);
    }
}

static int has_rows(const kvs_optimizer_t *kind)
{
    for (size_t i = 0; i < kind->n_states; i++) {
        if ((kind->states[i].flags & KVS_STATE_PER_ROW) != 0) {
            return 1;
        }
    }
    return 0;
}

static int64_t to_end_of_row(const work_t *work, int64_t first)
{
    return work->states->row_elems - first % work->states->row_elems;
}

/* To the row behind the span's, which ends with a row. Short rows pay for each division saved. */
static void advance_span(const work_t *work, span_t *span)
{
    size_t n_bytes = (size_t)span->n * kvs_dtype_bytes(work->dtype);
    size_t state_bytes = kvs_dtype_bytes(work->states->dtype);

    span->grad = (const char *)span->grad + n_bytes;
    span->weight = (char *)span->weight + n_bytes;
    for (size_t i = 0; i < work->kind->n_states; i++) {
        if (span->states[i] != NULL) {
            size_t n = is_per_row(work, i) ? 1 : (size_t)span->n;

            span->states[i] = (char *)span->states[i] + n * state_bytes;
        }
    }
}

/* Elements [first, end), a row at a time. */
static void step_by_rows(const work_t *work, int64_t first, int64_t end)
{
    int64_t n = to_end_of_row(work, first);
    span_t span;

    if (!is_half(work->dtype)) {
        span = direct_span(work, first, n);
    }
    for (; first < end; first += n, n = work->states->row_elems) {
        n = n < end - first ? n : end - first;
        if (is_half(work->dtype)) {
            step_run(work, first, n);
        } else {
            span.n = n;
            step_span(work, &span);
            advance_span(work, &span);
        }
    }
}

void kvs_opt_step(const kvs_opt_t *opt, const kvs_opt_update_t *update, kvs_opt_key_t *key_state,
                  int dtype, int64_t first, int64_t n, const void *grad, void *weight)
{
    work_t work = {.kind = opt->kind,
                   .states = key_state->states,
                   .dtype = dtype,
                   .grad = grad,
                   .weight = weight,
                   .origin = first,
                   .scalars = update->scalars};
    unsigned fpenv = kvs_fpenv_enter();

    round_scalars(&work);
    if (n > 0 && has_rows(opt->kind)) {
        step_by_rows(&work, first, first + n);
    } else {
        step_run(&work, first, n);
    }
    kvs_fpenv_leave(fpenv);
}

int kvs_opt_needs_whole(const kvs_opt_t *opt)
{
    return opt->kind->n_phases > 0 || has_rows(opt->kind);
}

/* ---- Whole arrays ----------------------------------------------------------------------------- */

typedef struct sums_job {
    const work_t *work;
    uint32_t phase;
} sums_job_t;

static void sums_span(const work_t *work, uint32_t phase, const span_t *span, double *io_sums)
{
    if (work->dtype == KVS_DTYPE_float64) {
        work->kind->sums_f64(phase, span->n, span->grad, span->weight,
                             (double *const *)span->states, work->scalars, io_sums);
    } else {
        work->kind->sums_f32(phase, span->n, span->grad, span->weight, (float *const *)span->states,
                             work->scalars_f32, io_sums);
    }
}

static void sums_of_block(const work_t *work, uint32_t phase, int64_t block)
{
    int64_t first = block * KVS_OPTIMIZER_SUM_BLOCK;
    int64_t left = work->states->n_elems - first;
    int64_t n = left < KVS_OPTIMIZER_SUM_BLOCK ? left : KVS_OPTIMIZER_SUM_BLOCK;
    int64_t step = is_half(work->dtype) ? PIECE : KVS_OPTIMIZER_SUM_BLOCK;
    double *sums = work->states->sums + (size_t)block * work->kind->n_sums;
    piece_t piece;

    for (size_t i = 0; i < work->kind->n_sums; i++) {
        sums[i] = 0;
    }
    for (int64_t done = 0; done < n; done += step) {
        int64_t n_piece = n - done < step ? n - done : step;
        span_t span = is_half(work->dtype) ? load_piece(work, first + done, n_piece, &piece)
                                           : direct_span(work, first + done, n_piece);

        sums_span(work, phase, &span, sums);
    }
}

static void sums_of_blocks(void *arg, int64_t begin, int64_t end)
{
    const sums_job_t *job = arg;
    unsigned fpenv = kvs_fpenv_enter();

    for (int64_t block = begin; block < end; block++) {
        sums_of_block(job->work, job->phase, block);
    }
    kvs_fpenv_leave(fpenv);
}

static void sum_all_blocks(const work_t *work, uint32_t phase)
{
    sums_job_t job = {work, phase};
    int64_t n_blocks = kvs_opt_n_blocks(work->states->n_elems);

    if (n_blocks > 1) {
        kvs_plugin_host->parallel_for(n_blocks, 1, sums_of_blocks, &job);
    } else if (n_blocks == 1) {
        sums_of_blocks(&job, 0, 1);
    }
}

static void row_span(const work_t *work, const span_t *span)
{
    if (work->dtype == KVS_DTYPE_float64) {
        work->kind->row_f64(span->n, work->states->row_elems, span->grad,
                            (double *const *)span->states, work->scalars);
    } else {
        work->kind->row_f32(span->n, work->states->row_elems, span->grad,
                            (float *const *)span->states, work->scalars_f32);
    }
}

/* One row of a half type: its state stays in float32 until the row is done. */
static void update_half_row(const work_t *work, int64_t first)
{
    int64_t row_elems = work->states->row_elems;
    float states[KVS_OPTIMIZER_MAX_STATES];
    piece_t piece;

    for (int64_t done = 0; done < row_elems; done += PIECE) {
        int64_t n = row_elems - done < PIECE ? row_elems - done : PIECE;
        span_t span = load_piece(work, first + done, n, &piece);

        for (size_t i = 0; work->states->master == NULL && i < work->kind->n_states; i++) {
            if (span.states[i] != NULL && is_per_row(work, i)) {
                states[i] = done == 0 ? *(float *)span.states[i] : states[i];
                span.states[i] = &states[i];
            }
        }
        row_span(work, &span);
    }
    for (size_t i = 0; work->states->master == NULL && i < work->kind->n_states; i++) {
        if (work->states->data[i] != NULL && is_per_row(work, i)) {
            kvs_cast(1, KVS_DTYPE_float32, &states[i], work->states->dtype,
                     state_at(work, i, first));
        }
    }
}

/* The numbers kept for the row that begins with element `first`. */
static void update_row(const work_t *work, int64_t first)
{
    if (is_half(work->dtype)) {
        update_half_row(work, first);
    } else {
        span_t span = direct_span(work, first, work->states->row_elems);

        row_span(work, &span);
    }
}

static void update_rows(void *arg, int64_t begin, int64_t end)
{
    const work_t *work = arg;
    int64_t row_elems = work->states->row_elems;
    unsigned fpenv = kvs_fpenv_enter();
    span_t span = direct_span(work, begin * row_elems, row_elems);

    for (int64_t row = begin; row < end; row++) {
        if (is_half(work->dtype)) {
            update_half_row(work, row * row_elems);
        } else {
            row_span(work, &span);
            advance_span(work, &span);
        }
    }
    kvs_fpenv_leave(fpenv);
}

static work_t whole_work(const kvs_opt_t *opt, kvs_opt_key_t *key_state, int dtype,
                         const void *grad, const void *weight, const kvs_opt_update_t *update)
{
    work_t work = {.kind = opt->kind,
                   .states = key_state->states,
                   .dtype = dtype,
                   .grad = grad,
                   .weight = (char *)(uintptr_t)weight, /* only read here */
                   .scalars = update->scalars};

    round_scalars(&work);
    return work;
}

uint32_t kvs_opt_n_phases(const kvs_opt_t *opt)
{
    return opt->kind->n_phases;
}

uint32_t kvs_opt_n_sums(const kvs_opt_t *opt)
{
    return opt->kind->n_sums;
}

int kvs_opt_has_rows(const kvs_opt_t *opt)
{
    return has_rows(opt->kind);
}

const double *kvs_opt_sum_blocks(const kvs_opt_t *opt, kvs_opt_key_t *key_state, uint32_t phase,
                                 int dtype, const void *grad, const void *weight,
                                 const kvs_opt_update_t *update)
{
    unsigned fpenv = kvs_fpenv_enter();
    work_t work = whole_work(opt, key_state, dtype, grad, weight, update);

    sum_all_blocks(&work, phase);
    kvs_fpenv_leave(fpenv);
    return key_state->states->sums;
}

void kvs_opt_combine(const kvs_opt_t *opt, uint32_t phase, const double *totals,
                     kvs_opt_update_t *update)
{
    unsigned fpenv = kvs_fpenv_enter();

    opt->kind->combine(phase, totals, update->scalars);
    kvs_fpenv_leave(fpenv);
}

void kvs_opt_update_rows(const kvs_opt_t *opt, kvs_opt_key_t *key_state, int dtype, int64_t n,
                         const void *grad, const void *weight, const kvs_opt_update_t *update)
{
    unsigned fpenv = kvs_fpenv_enter();
    work_t work = whole_work(opt, key_state, dtype, grad, weight, update);

    if (n > 0 && has_rows(opt->kind)) {
        int64_t grain = KVS_OPTIMIZER_SUM_BLOCK / work.states->row_elems + 1;

        kvs_plugin_host->parallel_for(work.states->n_rows, grain, update_rows, &work);
    }
    kvs_fpenv_leave(fpenv);
}

void kvs_opt_prepare(const kvs_opt_t *opt, kvs_opt_key_t *key_state, int dtype, int64_t n,
                     const void *grad, const void *weight, kvs_opt_update_t *update)
{
    int64_t n_numbers = kvs_opt_n_blocks(key_state->states->n_elems) * opt->kind->n_sums;

    for (uint32_t phase = 0; phase < opt->kind->n_phases; phase++) {
        double totals[KVS_OPTIMIZER_MAX_SUMS] = {0};
        const double *sums = kvs_opt_sum_blocks(opt, key_state, phase, dtype, grad, weight, update);

        for (int64_t i = 0; i < n_numbers; i++) {
            totals[i % opt->kind->n_sums] += sums[i];
        }
        kvs_opt_combine(opt, phase, totals, update);
    }
    kvs_opt_update_rows(opt, key_state, dtype, n, grad, weight, update);
}

/* ---- Listed rows ------------------------------------------------------------------------------ */

/* Have the row's weight and states on their way to the caches. */
static void prefetch_row(const work_t *work, const char *weight, int64_t id)
{
    int64_t first = id * work->states->row_elems;
    size_t n = (size_t)work->states->row_elems;

    kvs_row_prefetch(weight + (size_t)first * kvs_dtype_bytes(work->dtype),
                     n * kvs_dtype_bytes(work->dtype));
    if (work->states->master != NULL) {
        kvs_row_prefetch((float *)work->states->master + first, n * sizeof(float));
    }
    for (size_t i = 0; i < work->kind->n_states; i++) {
        if (work->states->data[i] != NULL && !is_per_row(work, i)) {
            kvs_row_prefetch(state_at(work, i, first), n * kvs_dtype_bytes(work->states->dtype));
        }
    }
}

/* How many of the ids, from the first on, are neighbours. */
static int64_t n_neighbours(int64_t n, const int64_t *ids)
{
    int64_t i = 1;

    while (i < n && ids[i] == ids[0] + i) {
        i++;
    }
    return i;
}

void kvs_opt_step_rows(const kvs_opt_t *opt, const kvs_opt_update_t *update,
                       kvs_opt_key_t *key_state, int dtype, int64_t n, const int64_t *ids,
                       const void *grads, void *weight)
{
    unsigned fpenv = kvs_fpenv_enter();
    work_t work = whole_work(opt, key_state, dtype, NULL, NULL, update);
    int64_t row_elems = work.states->row_elems;
    size_t row_bytes = (size_t)row_elems * kvs_dtype_bytes(dtype);
    int by_rows = has_rows(opt->kind);
    int64_t n_run;

    for (int64_t i = 0; i < n && i < KVS_ROWS_AHEAD; i++) {
        prefetch_row(&work, weight, ids[i]);
    }
    for (int64_t i = 0; i < n && row_elems > 0; i += n_run) {
        n_run = by_rows ? 1 : n_neighbours(n - i, ids + i);
        if (i + KVS_ROWS_AHEAD < n) {
            prefetch_row(&work, weight, ids[i + KVS_ROWS_AHEAD]);
        }
        work.origin = ids[i] * row_elems;
        work.grad = (const char *)grads + (size_t)i * row_bytes;
        work.weight = (char *)weight + (size_t)ids[i] * row_bytes;
        if (by_rows) {
            update_row(&work, work.origin);
        }
        step_run(&work, work.origin, n_run * row_elems);
    }
    kvs_fpenv_leave(fpenv);
}
