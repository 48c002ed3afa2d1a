/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - an optimizer as golden cases describe it, as kvs_optimizer_spec_t. */
#ifndef SPEC_H
#define SPEC_H

#include "golden.h"

/* Everything but texts is owned; texts are the JSON's. */
typedef struct golden_spec {
    kvs_optimizer_spec_t spec;
    kvs_param_t *params, *schedule_params;
    kvs_multiplier_t *lr_mult, *wd_mult;
    kvs_param_name_t *names;
} golden_spec_t;

#define GOLDEN_SPEC_INIT                                                                           \
    {                                                                                              \
        .spec = KVS_OPTIMIZER_INIT                                                                 \
    }

/* `object` holds `hyper` and perhaps `lr_scheduler`, as a case or an op does. 1 on success. */
int golden_spec_read(golden_case_t *c, const char *optimizer, const cJSON *object,
                     golden_spec_t *spec);
/* A list of {"key", FIELD} into the multipliers: FIELD is `lr_mult`, `wd_mult` or `value`; objects
 * without it are passed over. */
int golden_spec_multipliers(golden_case_t *c, const cJSON *list, const char *field,
                            kvs_multiplier_t **ret_mult, size_t *ret_n);
/* The same for {"key", "name"}. */
int golden_spec_names(golden_case_t *c, const cJSON *list, golden_spec_t *spec);
void golden_spec_release(golden_spec_t *spec);

#endif
