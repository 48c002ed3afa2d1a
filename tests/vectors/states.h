/* SPDX-License-Identifier: Apache-2.0 */
/* states.h - state files as the `states` operation of golden cases sees them: read by this file's own
 * code, with cJSON, so that what is compared is what any reader would find. */
#ifndef STATES_H
#define STATES_H

#include "golden.h"

/* Compare the file at `path`, saved with the optimizer, with what `op` expects. */
void golden_check_states(golden_case_t *c, const char *path, const cJSON *op);

#endif
