/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h - every golden case of a directory that a store can be asked to carry out. */
#ifndef RUNNER_H
#define RUNNER_H

#include "golden.h"

typedef struct golden_counts {
    int n_files, n_run, n_passed, n_failed, n_skipped; /* n_run = n_passed + n_failed */
} golden_counts_t;

/* Run *.json of `directory`. Cases failed and skipped are reported, with reason, to `report`.
 * 0: the directory cannot be read, holds no JSON file, or a file is malformed. */
int golden_run(const char *directory, FILE *report, golden_counts_t *ret_counts);

/* The kinds: carry out the case on c->store, which is new and empty. */
void golden_run_program(golden_case_t *c);
void golden_run_optimizer(golden_case_t *c);
void golden_run_compression(golden_case_t *c);

#endif
