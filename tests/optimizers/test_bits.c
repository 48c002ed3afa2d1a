/* SPDX-License-Identifier: Apache-2.0 */
/* test_bits.c - the same bits for any cut into blocks, any number of threads, any instruction set, for
 * every optimizer and dtype. */
#include "rig.h"

#include "kt.h"
#include "optimizers.h"

#include <kvstore/kit.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define N_STEPS 3

/* One way of updating; the default is all at once. */
typedef struct way {
    int dtype;
    int master; /* multi_precision */
    int64_t block;
    int64_t pieces;
    int isa;
    int threads; /* steps of different blocks at once */
} way_t;

/* The parameters that make an optimizer use every state and branch it has. */
static kvs_opt_t *opt_of(const kvs_optimizer_t *kind, int master)
{
    kvs_param_t params[8] = {RIG_REAL("rescale_grad", 0.5), RIG_REAL("clip_gradient", 0.7),
                             RIG_BOOL("multi_precision", master)};
    size_t n = 3;

    if (strcmp(kind->name, "groupadagrad") != 0) {
        params[n++] = (kvs_param_t)RIG_REAL("wd", 0.01);
    }
    for (size_t i = 0; i < kind->n_params; i++) {
        if (strcmp(kind->params[i].name, "momentum") == 0) {
            params[n++] = (kvs_param_t)RIG_REAL("momentum", 0.9);
        }
        if (strcmp(kind->params[i].name, "centered") == 0) {
            params[n++] = (kvs_param_t)RIG_BOOL("centered", 1);
        }
    }
    return rig_opt(kind->name, params, n);
}

static void fill(int dtype, int64_t n, double phase, void *array)
{
    double *values = malloc(((size_t)n + 1) * sizeof(*values));

    if (values == NULL) {
        KT_TRUE(!"there is memory");
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        values[i] = sin((double)i * 1.7 + phase) * (i % 11 == 0 ? 3 : 0.5);
    }
    kvs_cast(n, KVS_DTYPE_float64, values, dtype, array);
    free(values);
}

typedef struct part {
    const kvs_opt_t *opt;
    const kvs_opt_update_t *update;
    rig_key_t *key;
    const char *grad;
    int64_t first, n;
} part_t;

static void *run_part(void *arg)
{
    const part_t *part = arg;
    size_t offset = (size_t)part->first * kvs_dtype_bytes(part->key->dtype);

    kvs_opt_step(part->opt, part->update, &part->key->state, part->key->dtype, part->first, part->n,
                 part->grad + offset, (char *)part->key->weight + offset);
    return NULL;
}

/* rig_update with two threads, each of which has half of the array. */
static void update_by_threads(kvs_opt_t *opt, rig_key_t *key, const void *grad)
{
    int64_t half = key->entry.n_elems / 2;
    kvs_opt_update_t update;
    part_t parts[2] = {{opt, &update, key, grad, 0, half},
                       {opt, &update, key, grad, half, key->entry.n_elems - half}};
    pthread_t other;

    key->entry.shape = key->shape;
    KT_OK(kvs_opt_issue(opt, &key->state, &key->entry, &update));
    KT_OK(kvs_opt_begin(opt, &key->state, &key->entry, key->weight));
    if (kvs_opt_needs_whole(opt)) {
        kvs_opt_prepare(opt, &key->state, key->dtype, key->entry.n_elems, grad, key->weight,
                        &update);
    }
    if (pthread_create(&other, NULL, run_part, &parts[0]) != 0) {
        KT_TRUE(!"a thread starts");
        return;
    }
    run_part(&parts[1]);
    pthread_join(other, NULL);
}

static rig_key_t run_way(const kvs_optimizer_t *kind, const int64_t shape[2], const way_t *way)
{
    rig_key_t key = rig_key(3, way->dtype, shape, 2);
    int64_t n = key.entry.n_elems;
    void *grad = malloc(((size_t)n + 1) * kvs_dtype_bytes(way->dtype));
    kvs_opt_t *opt = opt_of(kind, way->master);

    optimizers_limit_isa(way->isa);
    rig_set_pieces(way->pieces > 0 ? way->pieces : 1);
    fill(way->dtype, n, 0.3, key.weight);
    for (int step = 0; opt != NULL && grad != NULL && step < N_STEPS; step++) {
        fill(way->dtype, n, step, grad);
        if (way->threads) {
            update_by_threads(opt, &key, grad);
        } else {
            KT_OK(rig_update(opt, &key, grad, way->block, NULL));
        }
    }
    kvs_opt_free(opt);
    free(grad);
    return key;
}

static int same_bytes(int dtype, int64_t n, const void *a, const void *b)
{
    return n == 0 || memcmp(a, b, (size_t)n * kvs_dtype_bytes(dtype)) == 0;
}

static int same_keys(const rig_key_t *a, const rig_key_t *b)
{
    int same = same_bytes(a->dtype, a->entry.n_elems, a->weight, b->weight) &&
               kvs_opt_n_states(&a->state) == kvs_opt_n_states(&b->state);

    for (size_t i = 0; same && i < kvs_opt_n_states(&a->state); i++) {
        kvs_opt_state_t x = kvs_opt_state_at(&a->state, i);
        kvs_opt_state_t y = kvs_opt_state_at(&b->state, i);

        same = same_bytes(x.dtype, x.n_elems, x.data, y.data);
    }
    return same;
}

static int looks_at_whole_arrays(const kvs_optimizer_t *kind)
{
    return kind->n_phases > 0 || kind->row_f32 != NULL;
}

/* Every optimizer, or each that looks at whole arrays, gives the same bits both ways. */
static void compare_ways(const int64_t shape[2], way_t one, way_t other, int only_whole)
{
    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        if (only_whole && !looks_at_whole_arrays(rig_optimizer_at(i))) {
            continue;
        }
        rig_key_t a = run_way(rig_optimizer_at(i), shape, &one);
        rig_key_t b = run_way(rig_optimizer_at(i), shape, &other);
        int same = same_keys(&a, &b);

        if (!same) {
            printf("\n  %s differs, dtype %s, block %lld, isa %d", rig_optimizer_at(i)->name,
                   kvs_dtype_name(kvs_dtype(one.dtype)), (long long)other.block, other.isa);
        }
        KT_TRUE(same);
        rig_key_release(&a);
        rig_key_release(&b);
    }
}

static const struct {
    int dtype, master;
} dtypes[] = {{KVS_DTYPE_float32, 0}, {KVS_DTYPE_float64, 0},  {KVS_DTYPE_float16, 0},
              {KVS_DTYPE_float16, 1}, {KVS_DTYPE_bfloat16, 0}, {KVS_DTYPE_bfloat16, 1}};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

/* 2047 = 23 * 89: no multiple of any vector, and more than one piece of a half type. */
static const int64_t odd_shape[] = {23, 89};

static void blocks_of_any_size_give_the_same_bits(void)
{
    static const int64_t blocks[] = {1, 7, 64, 1000};

    for (size_t d = 0; d < N_DTYPES; d++) {
        for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
            way_t whole = {.dtype = dtypes[d].dtype, .master = dtypes[d].master};
            way_t cut = whole;

            whole.isa = cut.isa = OPTIMIZERS_AVX512;
            cut.block = blocks[b];
            compare_ways(odd_shape, whole, cut, 0);
        }
    }
}

static void all_instruction_sets_give_the_same_bits(void)
{
    for (size_t d = 0; d < N_DTYPES; d++) {
        way_t plain = {.dtype = dtypes[d].dtype, .master = dtypes[d].master};
        way_t vectors = plain;

        plain.isa = OPTIMIZERS_ANY_ISA;
        vectors.isa = OPTIMIZERS_AVX2;
        compare_ways(odd_shape, plain, vectors, 0);
        plain.isa = OPTIMIZERS_AVX2;
        vectors.isa = OPTIMIZERS_AVX512;
        compare_ways(odd_shape, plain, vectors, 0);
    }
}

/* Several blocks of sums, and a last one that is not full. */
static void sums_and_rows_do_not_depend_on_how_work_is_cut(void)
{
    static const int64_t wide[] = {3, 70001};
    static const int64_t tall[] = {70001, 3};

    for (size_t d = 0; d < 4; d++) {
        way_t alone = {.dtype = dtypes[d].dtype, .master = dtypes[d].master};
        way_t shared = alone;

        alone.isa = shared.isa = OPTIMIZERS_AVX512;
        alone.pieces = 1;
        shared.pieces = 1000;
        shared.block = KVS_OPTIMIZER_SUM_BLOCK;
        compare_ways(wide, alone, shared, 1);
        compare_ways(tall, alone, shared, 1);
    }
}

static void blocks_may_be_updated_by_several_threads(void)
{
    for (size_t d = 0; d < N_DTYPES; d++) {
        way_t alone = {.dtype = dtypes[d].dtype, .master = dtypes[d].master};
        way_t together = alone;

        alone.isa = together.isa = OPTIMIZERS_AVX512;
        together.threads = 1;
        compare_ways(odd_shape, alone, together, 0);
    }
}

/* Term i goes to lane i modulo 16, and lanes are added pairwise, however few there are. */
static double sum_of_squares(int64_t n, const float *terms)
{
    double lanes[16] = {0};

    for (int64_t i = 0; i < n; i++) {
        lanes[i % 16] += (double)terms[i] * (double)terms[i];
    }
    for (int width = 8; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            lanes[i] += lanes[i + width];
        }
    }
    return lanes[0];
}

static void short_rows_are_summed_in_the_order_of_long_ones(void)
{
    float grad[40];

    for (int64_t n = 1; n <= 40; n++) {
        const int64_t shape[2] = {1, n};
        kvs_opt_t *opt = rig_opt("groupadagrad", NULL, 0);
        rig_key_t key = rig_key(0, KVS_DTYPE_float32, shape, 2);
        float history;

        for (int64_t i = 0; i < n; i++) {
            grad[i] = 1.0f / (float)(i + 3);
        }
        KT_OK(rig_update(opt, &key, grad, 0, NULL));
        history = *(const float *)rig_state(&key, "history").data;
        KT_REAL(history, (float)(sum_of_squares(n, grad) / (double)n));
        rig_key_release(&key);
        kvs_opt_free(opt);
    }
}

static void arrays_without_elements_are_counted_and_left_alone(void)
{
    static const int64_t none[] = {0, 4};

    for (size_t d = 0; d < N_DTYPES; d++) {
        for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
            way_t way = {.dtype = dtypes[d].dtype, .master = dtypes[d].master};
            rig_key_t key = run_way(rig_optimizer_at(i), none, &way);

            KT_INT(key.state.n_updates, N_STEPS);
            rig_key_release(&key);
        }
    }
}

static const kt_test_t tests[] = {
    KT_TEST(blocks_of_any_size_give_the_same_bits),
    KT_TEST(all_instruction_sets_give_the_same_bits),
    KT_TEST(sums_and_rows_do_not_depend_on_how_work_is_cut),
    KT_TEST(blocks_may_be_updated_by_several_threads),
    KT_TEST(short_rows_are_summed_in_the_order_of_long_ones),
    KT_TEST(arrays_without_elements_are_counted_and_left_alone),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("bits", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
