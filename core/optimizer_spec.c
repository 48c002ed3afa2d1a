/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer_spec.c - see optimizer_spec.h. */
#include "optimizer_spec.h"

kvs_status_t kvsi_optimizer_spec_check(const kvs_optimizer_spec_t *spec, const char *what)
{
    if (spec->size < sizeof(*spec)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: the spec's size is %u; begin with KVS_OPTIMIZER_INIT (size %zu)", what,
                        spec->size, sizeof(*spec));
    }
    if (spec->reserved != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the spec's member reserved is %u, must be 0", what,
                        spec->reserved);
    }
    return KVS_OK;
}
