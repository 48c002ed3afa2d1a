/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - trains a classifier of clothes over a store and tells how it went. What concerns the store
 * is in exchange.c; how a batch is shared out to devices, in trainer.c. */
#include "chart.h"
#include "data.h"
#include "gallery.h"
#include "job.h"
#include "options.h"
#include "sha256.h"
#include "sparse.h"
#include "team.h"
#include "trainer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const size_t hidden_layers[] = {128, 64};

/* What a run has got hold of; release_run takes it half-built. */
typedef struct run {
    dataset_t train_set, test_set;
    trainer_t *trainer;
    double *accuracies;  /* of each epoch */
    uint8_t *predicted;  /* for each test image */
    double started;      /* seconds */
    checkpoint_t resume; /* n_epochs is 0: it begins at the beginning */
} run_t;

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static kvs_status_t load_data(const options_t *options, run_t *run)
{
    kvs_status_t status = dataset_load(options->data_dir, "train", &run->train_set);

    if (status == KVS_OK) {
        status = dataset_load(options->data_dir, "t10k", &run->test_set);
    }
    return status;
}

/* All processes compute the same; the first one talks. */
static int talks(const run_t *run)
{
    return trainer_rank(run->trainer) == 0;
}

static void describe_optimizer(const options_t *options, const trainer_config_t *config,
                               const run_t *run)
{
    printf("optimizer   %s in the %s, ", config->recipe.optimizer,
           trainer_updates_here(run->trainer) ? "worker" : "store");
    if (config->resume != NULL) {
        printf("as it was after %zu epoch%s in %s", run->resume.n_epochs,
               run->resume.n_epochs == 1 ? "" : "s", options->resume_dir);
    } else {
        printf("learning rate %g", trainer_rate(run->trainer));
    }
    if (config->recipe.schedule != NULL) {
        printf(" by schedule %s over %zu epochs", config->recipe.schedule,
               config->n_schedule_epochs > 0 ? config->n_schedule_epochs : config->n_epochs);
    }
    printf(", batches of %zu\n", config->batch);
}

static void describe_devices(const trainer_config_t *config)
{
    kvs_device_info_t info = {.size = sizeof(info)};
    int n = 0;

    printf("%zu device%s", config->n_devices, config->n_devices == 1 ? "" : "s");
    if (config->device_type == KVS_DEVICE_CPU) {
        printf(", cpu(0) to cpu(%zu)", config->n_devices - 1);
    } else if (kvs_device_count(config->device_type, &n) == KVS_OK &&
               kvs_device_info((kvs_device_t){config->device_type, 0}, &info) == KVS_OK) {
        printf(" among %d GPU%s (%s), gradients computed on the host", n, n == 1 ? "" : "s",
               info.name);
    }
    printf(", on %zu thread%s\n", config->n_threads, config->n_threads == 1 ? "" : "s");
}

static void describe(const options_t *options, const trainer_config_t *config, const run_t *run)
{
    const model_t *model = trainer_model(run->trainer);
    int n_workers = trainer_n_workers(run->trainer);

    printf("data        %zu training and %zu test images of %zu x %zu pixels from %s\n",
           run->train_set.n_images, run->test_set.n_images, run->train_set.rows,
           run->train_set.columns, options->data_dir);
    printf("model       ");
    for (size_t l = 0; l <= model->n_layers; l++) {
        printf("%s%zu", l > 0 ? "-" : "", model->sizes[l]);
    }
    printf(" perceptron, %zu weights in %zu arrays\n", model_n_elems(model), model->n_arrays);
    printf("store       %s, libkvstore %s; ", config->backend, kvs_version());
    if (n_workers > 1) {
        printf("%d processes, each with ", n_workers);
    }
    describe_devices(config);
    describe_optimizer(options, config, run);
    if (config->compression.type != NULL) {
        printf("compression %s, threshold %g\n", config->compression.type,
               config->compression.threshold);
    }
}

static int is_for_gpus(const options_t *options)
{
    return options->task == TASK_IMAGES && strcmp(options->device, "cuda") == 0;
}

/* Before processes are started, which would wait for one another. */
static kvs_status_t check_gpus(const options_t *options)
{
    int n;

    return is_for_gpus(options) ? kvs_device_count(KVS_DEVICE_CUDA, &n) : KVS_OK;
}

static size_t choose_threads(const options_t *options)
{
    size_t n_cores = team_n_cores();

    if (options->n_threads > 0) {
        return options->n_threads;
    }
    return options->n_devices < n_cores ? options->n_devices : n_cores;
}

static update_place_t place_of(const options_t *options)
{
    if (options->update == NULL) {
        return UPDATE_DEFAULT;
    }
    return strcmp(options->update, "worker") == 0 ? UPDATE_IN_WORKER : UPDATE_IN_STORE;
}

/* The name of the optimizer: the one that was saved, the user's, or sgd. */
static const char *optimizer_of(const options_t *options, const run_t *run)
{
    if (options->resume_dir != NULL) {
        return run->resume.optimizer;
    }
    return options->optimizer != NULL ? options->optimizer : "sgd";
}

static kvs_status_t open_trainer(const options_t *options, run_t *run)
{
    const trainer_config_t config = {
        .backend = options->backend,
        .allow_cpu = options->allow_cpu,
        .recipe = {.optimizer = optimizer_of(options, run),
                   .rate = options->rate,
                   .schedule = options->schedule},
        .n_schedule_epochs = options->n_schedule_epochs,
        .update = place_of(options),
        .resume = options->resume_dir != NULL ? &run->resume : NULL,
        .resume_dir = options->resume_dir,
        .compression = {.type = options->compression, .threshold = options->threshold},
        .device_type = is_for_gpus(options) ? KVS_DEVICE_CUDA : KVS_DEVICE_CPU,
        .n_devices = options->n_devices,
        .n_threads = choose_threads(options),
        .n_epochs = options->n_epochs,
        .batch = 120,
        .hidden = hidden_layers,
        .n_hidden = sizeof(hidden_layers) / sizeof(hidden_layers[0]),
        .seed = 1};
    kvs_status_t status = trainer_open(&config, &run->train_set, &run->test_set, &run->trainer);

    if (status == KVS_OK && talks(run)) {
        describe(options, &config, run);
    }
    return status;
}

static kvs_status_t prepare(const options_t *options, run_t *run)
{
    kvs_status_t status = load_data(options, run);

    if (status == KVS_OK && options->resume_dir != NULL) {
        status = checkpoint_read(options->resume_dir, &run->resume);
    }
    if (status == KVS_OK && options->save_dir != NULL) { /* before the work, not for nothing */
        status = checkpoint_make_dir(options->save_dir);
    }
    if (status == KVS_OK) {
        status = open_trainer(options, run);
    }
    if (status != KVS_OK) {
        return status;
    }
    run->accuracies = calloc(options->n_epochs, sizeof(*run->accuracies));
    run->predicted = calloc(run->test_set.n_images, sizeof(*run->predicted));
    if (run->accuracies == NULL || run->predicted == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the results");
    }
    if (run->resume.n_epochs > 0) {
        memcpy(run->accuracies, run->resume.accuracies,
               run->resume.n_epochs * sizeof(*run->accuracies));
    }
    return KVS_OK;
}

/* In the process that talks. */
static kvs_status_t end_epoch(const options_t *options, run_t *run, size_t epoch, double loss,
                              double started)
{
    run->accuracies[epoch] =
        (double)trainer_test(run->trainer, run->predicted) / (double)run->test_set.n_images;
    printf("epoch %zu/%zu: loss %.4f, test accuracy %.4f, %.1f s\n", epoch + 1, options->n_epochs,
           loss, run->accuracies[epoch], seconds_now() - started);
    fflush(stdout);
    return options->save_dir != NULL
               ? trainer_save(run->trainer, options->save_dir, run->accuracies)
               : KVS_OK;
}

static kvs_status_t train(const options_t *options, run_t *run)
{
    progress_t progress = progress_new();

    for (size_t e = run->resume.n_epochs; e < options->n_epochs; e++) {
        double started = seconds_now();
        double loss;
        kvs_status_t status = trainer_epoch(run->trainer, &progress, &loss);

        progress_clear(&progress);
        if (status == KVS_OK && talks(run)) {
            status = end_epoch(options, run, e, loss, started);
        }
        if (status != KVS_OK) {
            return status;
        }
    }
    return KVS_OK;
}

static kvs_status_t print_store(const options_t *options, trainer_t *trainer)
{
    kvs_stats_t stats;
    kvs_status_t status = trainer_stats(trainer, &stats);

    if (status == KVS_OK && trainer_updates_here(trainer)) {
        printf("store %s: %llu pushpulls of %llu bytes\n", options->backend,
               (unsigned long long)stats.n_pushpulls, (unsigned long long)stats.bytes_pushed);
    } else if (status == KVS_OK) {
        printf("store %s: %llu pushes of %llu bytes, %llu pulls of %llu bytes\n", options->backend,
               (unsigned long long)stats.n_pushes, (unsigned long long)stats.bytes_pushed,
               (unsigned long long)stats.n_pulls, (unsigned long long)stats.bytes_pulled);
    }
    return status;
}

static void print_weights_hash(const trainer_t *trainer)
{
    const model_t *model = trainer_model(trainer);
    char hex[SHA256_HEX_BYTES];
    sha256_t hash;

    sha256_start(&hash);
    for (size_t a = 0; a < model->n_arrays; a++) {
        sha256_add_floats(&hash, trainer_weights(trainer)[a], model->arrays[a].n_elems);
    }
    sha256_finish(&hash, hex);
    printf("weights sha256 %s\n", hex);
}

static kvs_status_t write_pictures(const options_t *options, const run_t *run)
{
    char path[PATH_MAX + 64];
    size_t n_steps;
    const double *losses = trainer_losses(run->trainer, &n_steps);
    kvs_status_t status;

    snprintf(path, sizeof(path), "%s/loss.svg", options->out_dir);
    status = chart_write(path, losses, n_steps, run->accuracies, options->n_epochs);
    if (status != KVS_OK) {
        return status;
    }
    printf("loss curve: %s\n", path);
    snprintf(path, sizeof(path), "%s/predictions.svg", options->out_dir);
    status = gallery_write(path, &run->test_set, run->predicted);
    if (status != KVS_OK) {
        return status;
    }
    printf("predictions: %s\n", path);
    return KVS_OK;
}

static kvs_status_t summarise(const options_t *options, const run_t *run)
{
    kvs_status_t status;

    printf("\nsummary\n");
    printf("test accuracy %.4f\n", run->accuracies[options->n_epochs - 1]);
    printf("time %.1f s, epochs %zu\n", seconds_now() - run->started, options->n_epochs);
    status = print_store(options, run->trainer);
    if (status != KVS_OK) {
        return status;
    }
    print_weights_hash(run->trainer);
    return write_pictures(options, run);
}

/* Before the work, so that nobody trains for nothing. */
static kvs_status_t make_out_dir(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return kvs_fail(KVS_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
    }
    return KVS_OK;
}

static kvs_status_t run_all(const options_t *options, run_t *run)
{
    kvs_status_t status = make_out_dir(options->out_dir);

    run->started = seconds_now();
    if (status == KVS_OK) {
        status = prepare(options, run);
    }
    if (status == KVS_OK) {
        status = train(options, run);
    }
    if (status == KVS_OK && talks(run)) {
        status = summarise(options, run);
    }
    return status;
}

static kvs_status_t release_run(run_t *run)
{
    kvs_status_t status = trainer_close(run->trainer);

    dataset_release(&run->train_set);
    dataset_release(&run->test_set);
    free(run->accuracies);
    free(run->predicted);
    checkpoint_release(&run->resume);
    return status;
}

static int fail(int exit_status, const char *hint)
{
    fflush(stdout);
    fprintf(stderr, "kvstore-demo: %s%s\n", kvs_last_error(), hint);
    return exit_status;
}

int main(int argc, char **argv)
{
    options_t options;
    run_t run = {0};

    if (options_parse(argc, argv, DEMO_OUT_DIR, &options) != KVS_OK) {
        return fail(2, " (kvstore-demo --help lists the options)");
    }
    if (options.help) {
        options_print_help(stdout);
        return 0;
    }
    if (check_gpus(&options) != KVS_OK) {
        return fail(1, "");
    }
    if (options.n_workers > 0 && !job_is_there()) {
        (void)job_start(&options, argc, argv); /* comes back only if it failed */
        return fail(1, "");
    }
    if (options.task == TASK_SPARSE) {
        if (sparse_run(&options) != KVS_OK) {
            return fail(1, "");
        }
    } else {
        if (run_all(&options, &run) != KVS_OK) {
            fail(1, "");
            (void)release_run(&run); /* the first error is told */
            return 1;
        }
        if (release_run(&run) != KVS_OK) {
            return fail(1, "");
        }
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "kvstore-demo: standard output cannot be written\n");
        return 1;
    }
    return 0;
}
