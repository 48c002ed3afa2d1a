/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line: `--name value` or `--name=value`, some also `-n value`. A new option is
 * a member here and a row of the table in options.c. */
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include <kvstore/kvstore.h>

#include <stdio.h>

typedef enum task { TASK_IMAGES, TASK_SPARSE } task_t;

#define OPTIONS_NO_WORD SIZE_MAX

typedef struct options {
    const char *backend;
    int allow_cpu;
    const char *device; /* "cpu" or "cuda", where their arrays lie */
    size_t n_devices;   /* of each worker */
    size_t n_workers;   /* processes to start; 0: this one works itself */
    size_t
        n_servers; /* processes to start beside them; OPTIONS_NO_WORD: as many as the backend needs */
    size_t n_epochs;
    size_t n_threads;         /* 0: as many as devices, at most as many as cores */
    const char *optimizer;    /* NULL: sgd */
    double rate;              /* its learning rate; 0: its own */
    const char *schedule;     /* NULL: none */
    size_t n_schedule_epochs; /* over which it runs; 0: n_epochs */
    const char *update;       /* "store", "worker", or NULL: where the store can */
    const char *save_dir;     /* NULL: nothing is saved */
    const char *resume_dir;   /* NULL: from the beginning */
    const char *compression;  /* a compressor's name, or NULL */
    double threshold;         /* its parameter */
    const char *task_name;    /* as given, of `task` */
    task_t task;
    const char *data_dir;
    const char *out_dir;
    int help; /* 1: asked for; nothing else was looked at after it */
} options_t;

/* Texts point into argv or are static. ERR_ARGUMENT: unknown, malformed or out of range; the text
 * names the option and what is accepted. `out_dir` is the default of --out. */
kvs_status_t options_parse(int argc, char **argv, const char *out_dir, options_t *ret_options);
void options_print_help(FILE *to);

#endif
