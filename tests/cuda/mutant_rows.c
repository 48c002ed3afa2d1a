/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_rows.c - the CUDA provider as one of an older version, whose table ends before the kernels for rows.
 * Linked in place of cuda.c, which it includes. */
#include <kvstore/plugin.h>

#include <stddef.h>

#pragma push_macro("KVS_PLUGIN")
#undef KVS_PLUGIN
#define KVS_PLUGIN(...) /* below */
#include "cuda.c"
#pragma pop_macro("KVS_PLUGIN")

static kvs_provider_t old_provider;
static const kvs_provider_t *const old_providers[] = {&old_provider};

__attribute__((constructor)) static void make_old_provider(void)
{
    memcpy(&old_provider, &cuda_provider, offsetof(kvs_provider_t, rows_sum));
    memset(&old_provider.rows_sum, 0xA5, sizeof(old_provider) - offsetof(kvs_provider_t, rows_sum));
    old_provider.size = (uint32_t)offsetof(kvs_provider_t, rows_sum);
    (void)cuda_providers;
}

KVS_PLUGIN(cuda, CUDA_VERSION_TEXT, .providers = old_providers, .n_providers = 1,
           .about = cuda_about)
