/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - a few lines of text, the last one a digest of the numbers that follow it: weights as
 * float32, losses and accuracies as float64, as this machine has them. */
#include "checkpoint.h"

#include "sha256.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TITLE       "kvstore-demo checkpoint 1"
#define STATES_NAME "optimizer-%zu.safetensors"
#define MOST_EPOCHS 100000
#define MOST_ITEMS  ((size_t)1 << 30)

static kvs_status_t fail_io(const char *path, const char *what)
{
    return kvs_fail(errno == ENOENT ? KVS_ERR_NOT_FOUND : KVS_ERR_IO, "%s: %s: %s", path, what,
                    strerror(errno));
}

static void path_of(const char *dir, char ret_path[CHECKPOINT_PATH_BYTES])
{
    snprintf(ret_path, CHECKPOINT_PATH_BYTES, "%s/checkpoint", dir);
}

void checkpoint_states_path(const char *dir, size_t n_epochs, char ret_path[CHECKPOINT_PATH_BYTES])
{
    snprintf(ret_path, CHECKPOINT_PATH_BYTES, "%s/" STATES_NAME, dir, n_epochs);
}

static void digest(const checkpoint_t *checkpoint, char ret_hex[SHA256_HEX_BYTES])
{
    sha256_t hash;

    sha256_start(&hash);
    sha256_add(&hash, checkpoint->weights, checkpoint->n_elems * sizeof(float));
    sha256_add(&hash, checkpoint->losses, checkpoint->n_steps * sizeof(double));
    sha256_add(&hash, checkpoint->accuracies, checkpoint->n_epochs * sizeof(double));
    sha256_finish(&hash, ret_hex);
}

/* ---- Reading ------------------------------------------------------------------------------------- */

static kvs_status_t allocate(checkpoint_t *checkpoint)
{
    checkpoint->weights = calloc(checkpoint->n_elems + 1, sizeof(*checkpoint->weights));
    checkpoint->losses = calloc(checkpoint->n_steps + 1, sizeof(*checkpoint->losses));
    checkpoint->accuracies = calloc(checkpoint->n_epochs + 1, sizeof(*checkpoint->accuracies));
    if (checkpoint->weights == NULL || checkpoint->losses == NULL ||
        checkpoint->accuracies == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a checkpoint of %zu weights",
                        checkpoint->n_elems);
    }
    return KVS_OK;
}

/* The lines of text; `ret_hex` is the digest that they say. */
static int read_lines(FILE *file, checkpoint_t *checkpoint, char ret_hex[SHA256_HEX_BYTES])
{
    return fscanf(file, TITLE "\noptimizer %63s\nepochs %zu\nsteps %zu\nweights %zu\nsha256 %64s",
                  checkpoint->optimizer, &checkpoint->n_epochs, &checkpoint->n_steps,
                  &checkpoint->n_elems, ret_hex) == 5 &&
           fgetc(file) == '\n' && checkpoint->n_epochs >= 1 &&
           checkpoint->n_epochs <= MOST_EPOCHS && checkpoint->n_steps <= MOST_ITEMS &&
           checkpoint->n_elems <= MOST_ITEMS;
}

static int read_numbers(FILE *file, checkpoint_t *checkpoint)
{
    return fread(checkpoint->weights, sizeof(float), checkpoint->n_elems, file) ==
               checkpoint->n_elems &&
           fread(checkpoint->losses, sizeof(double), checkpoint->n_steps, file) ==
               checkpoint->n_steps &&
           fread(checkpoint->accuracies, sizeof(double), checkpoint->n_epochs, file) ==
               checkpoint->n_epochs &&
           fgetc(file) == EOF;
}

static kvs_status_t read_file(const char *path, FILE *file, checkpoint_t *checkpoint)
{
    char said[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES];
    kvs_status_t status;

    if (!read_lines(file, checkpoint, said)) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: is no checkpoint of this program", path);
    }
    status = allocate(checkpoint);
    if (status != KVS_OK) {
        return status;
    }
    if (!read_numbers(file, checkpoint)) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: is not as long as it says", path);
    }
    digest(checkpoint, found);
    return strcmp(said, found) == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_FORMAT, "%s: is damaged: its digest differs", path);
}

kvs_status_t checkpoint_read(const char *dir, checkpoint_t *ret_checkpoint)
{
    checkpoint_t checkpoint = {.n_elems = 0};
    char path[CHECKPOINT_PATH_BYTES];
    kvs_status_t status;
    FILE *file;

    path_of(dir, path);
    file = fopen(path, "rb");
    if (file == NULL) {
        return fail_io(path, "cannot be read");
    }
    status = read_file(path, file, &checkpoint);
    fclose(file);
    if (status != KVS_OK) {
        checkpoint_release(&checkpoint);
        return status;
    }
    *ret_checkpoint = checkpoint;
    return KVS_OK;
}

void checkpoint_release(checkpoint_t *checkpoint)
{
    free(checkpoint->weights);
    free(checkpoint->losses);
    free(checkpoint->accuracies);
    *checkpoint = (checkpoint_t){.n_elems = 0};
}

/* ---- Writing ------------------------------------------------------------------------------------- */

kvs_status_t checkpoint_make_dir(const char *dir)
{
    return mkdir(dir, 0777) == 0 || errno == EEXIST ? KVS_OK : fail_io(dir, "cannot be made");
}

static int write_all(FILE *file, const checkpoint_t *checkpoint)
{
    char hex[SHA256_HEX_BYTES];

    digest(checkpoint, hex);
    fprintf(file, TITLE "\noptimizer %s\nepochs %zu\nsteps %zu\nweights %zu\nsha256 %s\n",
            checkpoint->optimizer, checkpoint->n_epochs, checkpoint->n_steps, checkpoint->n_elems,
            hex);
    fwrite(checkpoint->weights, sizeof(float), checkpoint->n_elems, file);
    fwrite(checkpoint->losses, sizeof(double), checkpoint->n_steps, file);
    fwrite(checkpoint->accuracies, sizeof(double), checkpoint->n_epochs, file);
    return fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
}

/* States of epochs that no checkpoint names any more. */
static void remove_others(const char *dir, size_t n_epochs)
{
    char path[CHECKPOINT_PATH_BYTES], kept[64];
    DIR *entries = opendir(dir);
    struct dirent *entry;

    snprintf(kept, sizeof(kept), STATES_NAME, n_epochs);
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        char plain[64];
        size_t number;

        if (sscanf(entry->d_name, STATES_NAME, &number) != 1) {
            continue;
        }
        snprintf(plain, sizeof(plain), STATES_NAME, number);
        if (strcmp(plain, entry->d_name) == 0 && strcmp(plain, kept) != 0) {
            checkpoint_states_path(dir, number, path);
            unlink(path);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

kvs_status_t checkpoint_write(const char *dir, const checkpoint_t *checkpoint)
{
    char path[CHECKPOINT_PATH_BYTES], temporary[CHECKPOINT_PATH_BYTES + 8];
    FILE *file;
    int written;

    path_of(dir, path);
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    file = fopen(temporary, "wb");
    if (file == NULL) {
        return fail_io(temporary, "cannot be written");
    }
    written = write_all(file, checkpoint);
    if ((fclose(file) != 0) | !written || rename(temporary, path) != 0) {
        kvs_status_t status = fail_io(path, "cannot be written");

        unlink(temporary);
        return status;
    }
    remove_others(dir, checkpoint->n_epochs);
    return KVS_OK;
}
