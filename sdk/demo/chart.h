/* SPDX-License-Identifier: Apache-2.0 */
/* chart.h - how training went, as a picture: the loss of the steps, the test accuracy of the epochs. */
#ifndef DEMO_CHART_H
#define DEMO_CHART_H

#include <kvstore/kvstore.h>

/* `losses` of `n_steps` steps and `accuracies` (0 to 1) after each of `n_epochs` epochs, all as long:
 * neither is empty. ERR_IO, ERR_NO_MEMORY. */
kvs_status_t chart_write(const char *path, const double *losses, size_t n_steps,
                         const double *accuracies, size_t n_epochs);

#endif
