/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - computing is shared out to the team a device at a time; the exchange is left to the
 * caller's thread, once all devices have computed. */
#include "trainer.h"

#include "team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one device works with. */
typedef struct device {
    network_t *network;
    uint8_t *labels; /* of the images in the network */
    double loss;     /* of the last step, summed over its images */
} device_t;

struct trainer {
    trainer_config_t config;
    const dataset_t *train_set, *test_set;
    rng_t rng;
    team_t *team;
    exchange_t *exchange;
    size_t first_part, n_parts; /* of a batch: this process's first, and all there are */
    device_t *devices;          /* config.n_devices */
    network_t **networks;       /* theirs, as a list */
    uint32_t *order;            /* of the training images in this epoch */
    size_t n_epoch_steps;
    double *losses; /* n_steps, room for n_epochs * n_epoch_steps */
    size_t n_steps;
    recipe_t recipe;
};

/* Where part `d` of `n` of `n_items` begins. */
static size_t part_begin(size_t n_items, size_t d, size_t n)
{
    return n_items * d / n;
}

static kvs_status_t check_sets(const trainer_config_t *config, const dataset_t *train_set,
                               const dataset_t *test_set)
{
    if (train_set->rows != test_set->rows || train_set->columns != test_set->columns) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "images for training are %zu × %zu, those for the test %zu × %zu",
                        train_set->rows, train_set->columns, test_set->rows, test_set->columns);
    }
    if (train_set->n_images < config->batch) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%zu images don't fill a batch of %zu",
                        train_set->n_images, config->batch);
    }
    return KVS_OK;
}

static model_t choose_model(const trainer_config_t *config, const dataset_t *set)
{
    size_t sizes[MODEL_MAX_LAYERS + 1] = {set->rows * set->columns};

    for (size_t i = 0; i < config->n_hidden; i++) {
        sizes[i + 1] = config->hidden[i];
    }
    sizes[config->n_hidden + 1] = DATA_N_CLASSES;
    return model_of(sizes, config->n_hidden + 1);
}

static kvs_status_t make_devices(trainer_t *trainer)
{
    model_t model = choose_model(&trainer->config, trainer->train_set);
    size_t n = trainer->config.n_devices;
    size_t max_images = (trainer->config.batch + trainer->n_parts - 1) / trainer->n_parts;
    kvs_status_t status = KVS_OK;

    for (size_t d = 0; d < n && status == KVS_OK; d++) {
        status = network_new(&model, max_images, &trainer->networks[d]);
        trainer->devices[d].network = trainer->networks[d];
        trainer->devices[d].labels = calloc(max_images, 1);
        if (status == KVS_OK && trainer->devices[d].labels == NULL) {
            status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for device %zu", d);
        }
    }
    if (status == KVS_OK) {
        model_init(&model, &trainer->rng, trainer->networks[0]->weights);
    }
    return status;
}

static kvs_status_t allocate(trainer_t *trainer)
{
    size_t n_images = trainer->train_set->n_images;
    size_t n = trainer->config.n_devices;

    trainer->devices = calloc(n, sizeof(*trainer->devices));
    trainer->networks = calloc(n, sizeof(*trainer->networks));
    trainer->order = calloc(n_images, sizeof(*trainer->order));
    trainer->losses =
        calloc(trainer->config.n_epochs * trainer->n_epoch_steps, sizeof(*trainer->losses));
    if (trainer->devices == NULL || trainer->networks == NULL || trainer->order == NULL ||
        trainer->losses == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to train on %zu images", n_images);
    }
    for (size_t i = 0; i < n_images; i++) {
        trainer->order[i] = (uint32_t)i;
    }
    return KVS_OK;
}

/* All processes have as many devices. With more than images in a batch, some parts are empty. */
static void share_out(trainer_t *trainer)
{
    size_t n = trainer->config.n_devices;

    trainer->first_part = n * (size_t)exchange_rank(trainer->exchange);
    trainer->n_parts = n * (size_t)exchange_n_workers(trainer->exchange);
}

static kvs_status_t open_exchange(trainer_t *trainer)
{
    const trainer_config_t *config = &trainer->config;
    recipe_settings_t settings = config->recipe;
    size_t n_epochs = config->n_schedule_epochs > 0 ? config->n_schedule_epochs : config->n_epochs;
    kvs_status_t status;

    settings.n_epoch_updates = trainer->n_epoch_steps;
    settings.n_updates = n_epochs * trainer->n_epoch_steps;
    settings.rescale_grad = 1.0 / (double)config->batch;
    status = recipe_make(&settings, &trainer->recipe);
    return status == KVS_OK
               ? exchange_open(config->backend, config->allow_cpu, config->update,
                               &trainer->recipe.spec, &config->compression, &trainer->exchange)
               : status;
}

/* Copy weights out of a list of all or into it. */
static void copy_weights(const trainer_t *trainer, float *all, int into)
{
    const model_t *model = trainer_model(trainer);

    for (size_t a = 0; a < model->n_arrays; a++) {
        float *array = trainer->networks[0]->weights[a];
        size_t n = model->arrays[a].n_elems;

        memcpy(into ? all : array, into ? array : all, n * sizeof(float));
        all += n;
    }
}

/* Everything is as after the epochs of the checkpoint, but for the optimizer's states: the order of the
 * images too, which depends on how often they were shuffled. */
static kvs_status_t take_checkpoint(trainer_t *trainer)
{
    const checkpoint_t *checkpoint = trainer->config.resume;

    if (checkpoint->n_elems != model_n_elems(trainer_model(trainer)) ||
        checkpoint->n_steps != checkpoint->n_epochs * trainer->n_epoch_steps) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: was saved by training of %zu weights in %zu steps an epoch, this has "
                        "%zu in %zu",
                        trainer->config.resume_dir, checkpoint->n_elems,
                        checkpoint->n_steps / checkpoint->n_epochs,
                        model_n_elems(trainer_model(trainer)), trainer->n_epoch_steps);
    }
    if (checkpoint->n_epochs >= trainer->config.n_epochs) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: %zu epochs are done already; they count too, so ask for more than "
                        "%zu",
                        trainer->config.resume_dir, checkpoint->n_epochs, trainer->config.n_epochs);
    }
    copy_weights(trainer, checkpoint->weights, 0);
    for (size_t e = 0; e < checkpoint->n_epochs; e++) {
        rng_shuffle(&trainer->rng, trainer->order, trainer->train_set->n_images);
    }
    memcpy(trainer->losses, checkpoint->losses, checkpoint->n_steps * sizeof(double));
    trainer->n_steps = checkpoint->n_steps;
    return KVS_OK;
}

static kvs_status_t load_states(trainer_t *trainer)
{
    char path[CHECKPOINT_PATH_BYTES];

    checkpoint_states_path(trainer->config.resume_dir, trainer->config.resume->n_epochs, path);
    return exchange_load_states(trainer->exchange, path);
}

static kvs_status_t begin(trainer_t *trainer)
{
    int resumes = trainer->config.resume != NULL;
    kvs_status_t status = allocate(trainer);

    if (status == KVS_OK) {
        status = open_exchange(trainer);
    }
    if (status == KVS_OK) {
        share_out(trainer);
        status = make_devices(trainer);
    }
    if (status == KVS_OK && resumes) {
        status = take_checkpoint(trainer);
    }
    if (status == KVS_OK) {
        status = team_new(trainer->config.n_threads, &trainer->team);
    }
    if (status == KVS_OK) {
        status = exchange_begin(trainer->exchange, trainer->networks, trainer->config.n_devices,
                                trainer->config.device_type);
    }
    return status == KVS_OK && resumes ? load_states(trainer) : status;
}

kvs_status_t trainer_open(const trainer_config_t *config, const dataset_t *train_set,
                          const dataset_t *test_set, trainer_t **ret_trainer)
{
    kvs_status_t status = check_sets(config, train_set, test_set);
    trainer_t *trainer = status == KVS_OK ? calloc(1, sizeof(*trainer)) : NULL;

    if (status != KVS_OK) {
        return status;
    }
    if (trainer == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a trainer");
    }
    trainer->config = *config;
    trainer->train_set = train_set;
    trainer->test_set = test_set;
    trainer->rng.state = config->seed;
    trainer->n_epoch_steps = train_set->n_images / config->batch;
    status = begin(trainer);
    if (status != KVS_OK) {
        (void)trainer_close(trainer); /* the first error counts */
        return status;
    }
    *ret_trainer = trainer;
    return KVS_OK;
}

kvs_status_t trainer_close(trainer_t *trainer)
{
    kvs_status_t status;

    if (trainer == NULL) {
        return KVS_OK;
    }
    status = exchange_close(trainer->exchange);
    team_free(trainer->team);
    for (size_t d = 0; trainer->devices != NULL && d < trainer->config.n_devices; d++) {
        network_free(trainer->devices[d].network);
        free(trainer->devices[d].labels);
    }
    free(trainer->devices);
    free(trainer->networks);
    free(trainer->order);
    free(trainer->losses);
    free(trainer);
    return status;
}

typedef struct step {
    trainer_t *trainer;
    const uint32_t *images; /* of the batch */
} step_t;

static void compute_part(size_t number, void *arg)
{
    const step_t *step = arg;
    const trainer_config_t *config = &step->trainer->config;
    const dataset_t *set = step->trainer->train_set;
    device_t *device = &step->trainer->devices[number];
    network_t *network = device->network;
    size_t part = step->trainer->first_part + number, n_parts = step->trainer->n_parts;
    size_t begin_image = part_begin(config->batch, part, n_parts);
    size_t n_images = part_begin(config->batch, part + 1, n_parts) - begin_image;

    for (size_t i = 0; i < n_images; i++) {
        uint32_t image = step->images[begin_image + i];

        dataset_image(set, image, network_image(network, i));
        device->labels[i] = set->labels[image];
    }
    network_forward(network, n_images);
    device->loss = network_backward(network, device->labels, n_images);
}

static kvs_status_t take_step(trainer_t *trainer, const uint32_t *images, double *ret_loss)
{
    size_t batch = trainer->config.batch, n = trainer->config.n_devices;
    size_t n_images = part_begin(batch, trainer->first_part + n, trainer->n_parts) -
                      part_begin(batch, trainer->first_part, trainer->n_parts);
    step_t step = {trainer, images};
    double loss = 0;

    team_run(trainer->team, n, compute_part, &step);
    for (size_t d = 0; d < n; d++) {
        loss += trainer->devices[d].loss;
    }
    *ret_loss = n_images == 0 ? 0 : loss / (double)n_images;
    return exchange_update(trainer->exchange);
}

kvs_status_t trainer_epoch(trainer_t *trainer, progress_t *progress, double *ret_mean_loss)
{
    double sum = 0;

    rng_shuffle(&trainer->rng, trainer->order, trainer->train_set->n_images);
    for (size_t s = 0; s < trainer->n_epoch_steps; s++) {
        double loss;
        kvs_status_t status = take_step(trainer, trainer->order + s * trainer->config.batch, &loss);

        if (status != KVS_OK) {
            return status;
        }
        trainer->losses[trainer->n_steps++] = loss;
        sum += loss;
        progress_show(progress, "training", s + 1, trainer->n_epoch_steps);
    }
    *ret_mean_loss = sum / (double)trainer->n_epoch_steps;
    return KVS_OK;
}

typedef struct test {
    trainer_t *trainer;
    uint8_t *predicted;
} test_t;

/* Classify a part of the test set, as many images at a time as fit into the network. */
static void classify_part(size_t number, void *arg)
{
    const test_t *test = arg;
    const dataset_t *set = test->trainer->test_set;
    device_t *device = &test->trainer->devices[number];
    size_t n_devices = test->trainer->config.n_devices;
    size_t end = part_begin(set->n_images, number + 1, n_devices);

    for (size_t i = part_begin(set->n_images, number, n_devices); i < end;) {
        size_t room = device->network->max_images;
        size_t n = end - i < room ? end - i : room;

        for (size_t k = 0; k < n; k++) {
            dataset_image(set, i + k, network_image(device->network, k));
        }
        network_forward(device->network, n);
        for (size_t k = 0; k < n; k++) {
            test->predicted[i + k] = network_predicted(device->network, k);
        }
        i += n;
    }
}

size_t trainer_test(trainer_t *trainer, uint8_t *predicted)
{
    test_t test = {trainer, predicted};
    size_t n_right = 0;

    team_run(trainer->team, trainer->config.n_devices, classify_part, &test);
    for (size_t i = 0; i < trainer->test_set->n_images; i++) {
        n_right += predicted[i] == trainer->test_set->labels[i];
    }
    return n_right;
}

const model_t *trainer_model(const trainer_t *trainer)
{
    return &trainer->networks[0]->model;
}

float *const *trainer_weights(const trainer_t *trainer)
{
    return trainer->networks[0]->weights;
}

int trainer_rank(const trainer_t *trainer)
{
    return exchange_rank(trainer->exchange);
}

int trainer_n_workers(const trainer_t *trainer)
{
    return exchange_n_workers(trainer->exchange);
}

int trainer_updates_here(const trainer_t *trainer)
{
    return exchange_updates_here(trainer->exchange);
}

double trainer_rate(const trainer_t *trainer)
{
    return trainer->recipe.rate;
}

kvs_status_t trainer_save(trainer_t *trainer, const char *dir, const double *accuracies)
{
    checkpoint_t checkpoint = {.n_epochs = trainer->n_steps / trainer->n_epoch_steps,
                               .n_steps = trainer->n_steps,
                               .n_elems = model_n_elems(trainer_model(trainer)),
                               .losses = trainer->losses,
                               .accuracies =
                                   (double *)(uintptr_t)accuracies}; /* which is only read */
    char path[CHECKPOINT_PATH_BYTES];
    kvs_status_t status;

    snprintf(checkpoint.optimizer, sizeof(checkpoint.optimizer), "%s",
             trainer->config.recipe.optimizer);
    checkpoint_states_path(dir, checkpoint.n_epochs, path);
    checkpoint.weights = malloc(checkpoint.n_elems * sizeof(float));
    if (checkpoint.weights == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a copy of the weights");
    }
    copy_weights(trainer, checkpoint.weights, 1);
    status = exchange_save_states(trainer->exchange, path);
    if (status == KVS_OK) {
        status = checkpoint_write(dir, &checkpoint);
    }
    free(checkpoint.weights);
    return status;
}

const double *trainer_losses(const trainer_t *trainer, size_t *ret_n_steps)
{
    *ret_n_steps = trainer->n_steps;
    return trainer->losses;
}

kvs_status_t trainer_stats(trainer_t *trainer, kvs_stats_t *ret_stats)
{
    return exchange_stats(trainer->exchange, ret_stats);
}
