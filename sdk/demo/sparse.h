/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h - `--task sparse`: tells the category of a text by logistic regression over a row-sparse
 * weight, a row for each word. */
#ifndef DEMO_SPARSE_H
#define DEMO_SPARSE_H

#include "options.h"

/* Train, test and print how it went. Uses the options backend, n_epochs and data_dir. */
kvs_status_t sparse_run(const options_t *options);

#endif
