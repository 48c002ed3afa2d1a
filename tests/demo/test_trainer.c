/* SPDX-License-Identifier: Apache-2.0 */
/* test_trainer.c - what training must not depend on: how many devices and threads share a batch, and
 * which run it is. Over the backend local. */
#include "trainer.h"

#include "tiny_set.h"

#include <kt.h>
#include <math.h>
#include <stdlib.h>

enum { N_EPOCHS = 3, BATCH = 10, N_TRAIN = 45, N_TEST = 13, MOST_ELEMS = 1024 };

static const size_t hidden[] = {8};

/* What a run ends with. */
typedef struct outcome {
    float weights[MOST_ELEMS]; /* of all arrays, one after the other */
    double loss;               /* of the last epoch */
    uint8_t predicted[N_TEST];
    size_t n_right;
    kvs_stats_t stats;
} outcome_t;

static trainer_config_t config_of(size_t n_devices, size_t n_threads)
{
    return (trainer_config_t){.backend = "local",
                              .recipe = {.optimizer = "sgd", .rate = 0.05},
                              .n_devices = n_devices,
                              .n_threads = n_threads,
                              .n_epochs = N_EPOCHS,
                              .batch = BATCH,
                              .hidden = hidden,
                              .n_hidden = 1,
                              .seed = 5};
}

static void keep_weights(const trainer_t *trainer, outcome_t *outcome)
{
    const model_t *model = trainer_model(trainer);
    size_t n = 0;

    KT_TRUE(model_n_elems(model) <= MOST_ELEMS);
    for (size_t a = 0; a < model->n_arrays; a++) {
        memcpy(outcome->weights + n, trainer_weights(trainer)[a],
               model->arrays[a].n_elems * sizeof(float));
        n += model->arrays[a].n_elems;
    }
}

static outcome_t run(size_t n_devices, size_t n_threads)
{
    trainer_config_t config = config_of(n_devices, n_threads);
    dataset_t train_set = tiny_set(N_TRAIN, 1), test_set = tiny_set(N_TEST, 2);
    progress_t no_progress = {0, -1};
    outcome_t outcome = {.n_right = 0};
    trainer_t *trainer = NULL;

    if (KT_OK(trainer_open(&config, &train_set, &test_set, &trainer))) {
        for (int e = 0; e < N_EPOCHS; e++) {
            KT_OK(trainer_epoch(trainer, &no_progress, &outcome.loss));
        }
        outcome.n_right = trainer_test(trainer, outcome.predicted);
        keep_weights(trainer, &outcome);
        KT_OK(trainer_stats(trainer, &outcome.stats));
        KT_OK(trainer_close(trainer));
    }
    dataset_release(&train_set);
    dataset_release(&test_set);
    return outcome;
}

static int same_bits(const outcome_t *a, const outcome_t *b)
{
    return memcmp(a->weights, b->weights, sizeof(a->weights)) == 0 && a->loss == b->loss &&
           memcmp(a->predicted, b->predicted, sizeof(a->predicted)) == 0;
}

static void check_close(const outcome_t *a, const outcome_t *b)
{
    for (size_t i = 0; i < MOST_ELEMS; i++) {
        KT_TRUE(fabs((double)a->weights[i] - (double)b->weights[i]) < 2e-6);
    }
    KT_TRUE(fabs(a->loss - b->loss) < 1e-6);
}

static void any_number_of_devices_gives_the_same_up_to_rounding(void)
{
    outcome_t one = run(1, 1), four = run(4, 2), more_than_images = run(12, 2);

    check_close(&one, &four);
    check_close(&one, &more_than_images);
}

static void two_runs_give_the_same_bits(void)
{
    outcome_t first = run(4, 2), second = run(4, 2);

    KT_TRUE(same_bits(&first, &second));
}

static void any_number_of_threads_gives_the_same_bits(void)
{
    outcome_t one = run(3, 1), two = run(3, 2), five = run(3, 5);

    KT_TRUE(same_bits(&one, &two));
    KT_TRUE(same_bits(&one, &five));
}

static void training_changes_weights_and_lowers_the_loss(void)
{
    dataset_t train_set = tiny_set(N_TRAIN, 1), test_set = tiny_set(N_TEST, 2);
    trainer_config_t config = config_of(2, 1);
    progress_t no_progress = {0, -1};
    trainer_t *trainer = NULL;
    double first = 0, last = 0;
    size_t n_steps = 0;

    if (KT_OK(trainer_open(&config, &train_set, &test_set, &trainer))) {
        KT_OK(trainer_epoch(trainer, &no_progress, &first));
        KT_OK(trainer_epoch(trainer, &no_progress, &last));
        KT_TRUE(last < 0.9 * first);
        (void)trainer_losses(trainer, &n_steps);
        KT_INT(n_steps, 2 * (N_TRAIN / BATCH)); /* five images of an epoch fill no batch */
        KT_OK(trainer_close(trainer));
    }
    dataset_release(&train_set);
    dataset_release(&test_set);
}

/* 4 arrays of 16·8 + 8 + 8·10 + 10 = 226 floats, 3 epochs of 4 steps, 4 devices. */
static void the_store_counts_what_went_through_it(void)
{
    outcome_t outcome = run(4, 2);

    KT_INT(outcome.stats.n_pushes, 4 * 12);
    KT_INT(outcome.stats.n_pulls, 4 * 12 + 4); /* the broadcast at the beginning too */
    KT_INT(outcome.stats.bytes_pushed, 226 * 4 * 4 * 12);
}

static void right_ones_are_counted(void)
{
    dataset_t test_set = tiny_set(N_TEST, 2);
    outcome_t outcome = run(2, 2);
    size_t n_right = 0;

    for (size_t i = 0; i < N_TEST; i++) {
        n_right += outcome.predicted[i] == test_set.labels[i];
    }
    KT_INT(outcome.n_right, n_right);
    dataset_release(&test_set);
}

static void an_unknown_backend_is_the_stores_error(void)
{
    dataset_t set = tiny_set(N_TRAIN, 1);
    trainer_config_t config = config_of(2, 1);
    trainer_t *trainer = NULL;

    config.backend = "no-such-thing";
    KT_FAIL(trainer_open(&config, &set, &set, &trainer), KVS_ERR_NOT_FOUND, "no-such-thing");
    KT_TRUE(trainer == NULL);
    dataset_release(&set);
}

static void sets_that_do_not_fit_are_refused(void)
{
    dataset_t few = tiny_set(BATCH - 1, 1), enough = tiny_set(BATCH, 1);
    trainer_config_t config = config_of(2, 1);
    trainer_t *trainer = NULL;

    KT_FAIL(trainer_open(&config, &few, &enough, &trainer), KVS_ERR_ARGUMENT,
            "9 images don't fill a batch of 10");
    few.columns = 3;
    KT_FAIL(trainer_open(&config, &enough, &few, &trainer), KVS_ERR_ARGUMENT,
            "images for training are 4 × 4, those for the test 4 × 3");
    dataset_release(&few);
    dataset_release(&enough);
}

static const kt_test_t tests[] = {
    KT_TEST(any_number_of_devices_gives_the_same_up_to_rounding),
    KT_TEST(two_runs_give_the_same_bits),
    KT_TEST(any_number_of_threads_gives_the_same_bits),
    KT_TEST(training_changes_weights_and_lowers_the_loss),
    KT_TEST(the_store_counts_what_went_through_it),
    KT_TEST(right_ones_are_counted),
    KT_TEST(an_unknown_backend_is_the_stores_error),
    KT_TEST(sets_that_do_not_fit_are_refused),
};

KT_MAIN("demo.trainer", tests)
