/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - data-parallel training: each batch is cut into as many parts as there are devices, in all
 * processes.
 *
 * Batches and initial weights depend on the seed only, so any number of devices computes the same up
 * to the rounding of sums, any number of threads the same bits, and so do processes with a device each
 * as one process with as many devices. */
#ifndef DEMO_TRAINER_H
#define DEMO_TRAINER_H

#include "checkpoint.h"
#include "data.h"
#include "exchange.h"
#include "progress.h"
#include "recipe.h"

typedef struct trainer_config {
    const char *backend;
    int allow_cpu;            /* 1: of a backend that has to be told to take arrays on the CPU */
    recipe_settings_t recipe; /* numbers of updates and rescale_grad are set by the trainer */
    size_t n_schedule_epochs; /* over which the schedule runs; 0: n_epochs */
    update_place_t update;
    compression_settings_t compression;
    int32_t device_type; /* KVS_DEVICE_CUDA: what is exchanged lies on GPUs; else on the host */
    size_t n_devices, n_threads;
    size_t n_epochs;
    size_t batch; /* images a step; those of an epoch that don't fill a batch are left out of it */
    const size_t *hidden; /* sizes of the hidden layers */
    size_t n_hidden;      /* below MODEL_MAX_LAYERS */
    uint64_t seed;
    const checkpoint_t
        *resume;            /* NULL: begin at the beginning. Else go on behind its epochs, with */
    const char *resume_dir; /* the optimizer saved beside it; `recipe` then only names one */
} trainer_config_t;

typedef struct trainer trainer_t;

/* The sets must outlive the trainer. ERR_ARGUMENT: too few images for a batch, images of two sizes, or
 * a checkpoint of other training; else the library's errors. Freed by trainer_close. */
kvs_status_t trainer_open(const trainer_config_t *config, const dataset_t *train_set,
                          const dataset_t *test_set, trainer_t **ret_trainer);
kvs_status_t trainer_close(trainer_t *trainer); /* as exchange_close */

/* One pass over the training set. At most `n_epochs` of the configuration, with those done before. */
kvs_status_t trainer_epoch(trainer_t *trainer, progress_t *progress, double *ret_mean_loss);
/* Classify the test set; `predicted` has a place for each image. Returns how many are right. */
size_t trainer_test(trainer_t *trainer, uint8_t *predicted);

const model_t *trainer_model(const trainer_t *trainer);
float *const *trainer_weights(const trainer_t *trainer);
/* This process's number; the first one tells how it goes. */
int trainer_rank(const trainer_t *trainer);
int trainer_n_workers(const trainer_t *trainer);
int trainer_updates_here(const trainer_t *trainer);
/* The learning rate that training began with. */
double trainer_rate(const trainer_t *trainer);
/* In the first process, between epochs: write everything to go on from. `accuracies` are those of the
 * epochs so far. */
kvs_status_t trainer_save(trainer_t *trainer, const char *dir, const double *accuracies);
/* The mean loss of each step so far, over the images of this process's parts. */
const double *trainer_losses(const trainer_t *trainer, size_t *ret_n_steps);
kvs_status_t trainer_stats(trainer_t *trainer, kvs_stats_t *ret_stats);

#endif
