/* SPDX-License-Identifier: Apache-2.0 */
/* What the core takes over from a plugin's table of a compressor, and what it refuses. */
#include "descriptor.h"
#include "kt.h"

static uint64_t packed_bytes(const float *params, int64_t n)
{
    (void)params;
    return (uint64_t)n;
}

static int encode(const float *params, int64_t n, const float *grad, const float *residual,
                  float *ret_residual, void *packed, int stream)
{
    (void)params;
    (void)n;
    (void)grad;
    (void)residual;
    (void)ret_residual;
    (void)packed;
    (void)stream;
    return 1;
}

static void decode(const float *params, int64_t n, const void *packed, float *dst)
{
    (void)params;
    (void)n;
    (void)packed;
    (void)dst;
}

static kvs_compressor_t right(void)
{
    return (kvs_compressor_t){.size = (uint32_t)sizeof(kvs_compressor_t),
                              .unit = 16,
                              .name = "own",
                              .packed_bytes = packed_bytes,
                              .encode = encode,
                              .decode = decode,
                              .decode_add = decode};
}

/* The copy of a plugin with that compressor alone; or why there is none. Both live until the next. */
static const kvs_plugin_t *take(const kvs_compressor_t *compressor, const char **ret_complaint)
{
    static kvsi_arena_t arena;
    static kvsi_complaint_t complaint;
    const kvs_compressor_t *list[] = {compressor};
    const kvs_plugin_t plugin = {.size = (uint32_t)sizeof(plugin),
                                 .name = "own",
                                 .version = "1",
                                 .compressors = list,
                                 .n_compressors = 1};
    const kvs_plugin_t *copy;

    kvsi_arena_release(&arena);
    copy = kvsi_plugin_copy(&arena, &plugin, &complaint);
    *ret_complaint = complaint.text;
    return copy;
}

static void refused(kvs_compressor_t compressor, const char *part)
{
    const char *complaint;

    KT_TRUE(take(&compressor, &complaint) == NULL);
    KT_HAS(complaint, part);
}

static void a_compressor_is_copied(void)
{
    kvs_compressor_t compressor = right();
    const char *complaint;
    const kvs_plugin_t *plugin = take(&compressor, &complaint);

    KT_STR(complaint, "");
    KT_TRUE(plugin != NULL && plugin->compressors[0] != &compressor);
    KT_STR(plugin->compressors[0]->name, "own");
    KT_TRUE(plugin->compressors[0]->decode_add == decode);
}

static void a_compressor_without_a_function_is_refused(void)
{
    const char *lacks = "compressor 'own' lacks one of packed_bytes, encode, decode and decode_add";
    kvs_compressor_t compressor = right();

    compressor.packed_bytes = NULL;
    refused(compressor, lacks);
    compressor = right();
    compressor.encode = NULL;
    refused(compressor, lacks);
    compressor = right();
    compressor.decode = NULL;
    refused(compressor, lacks);
    compressor = right();
    compressor.size = offsetof(kvs_compressor_t, decode_add); /* what lies behind does not count */
    refused(compressor, lacks);
}

static void a_compressor_without_a_name_is_refused(void)
{
    kvs_compressor_t compressor = right();

    compressor.name = NULL;
    refused(compressor, "a compressor has no name");
    compressor.name = "";
    refused(compressor, "a compressor has no name");
}

static void a_unit_must_divide_a_block(void)
{
    kvs_compressor_t compressor = right();
    const char *complaint;

    compressor.unit = 0;
    refused(compressor, "compressor 'own': unit is 0, which doesn't divide 65536");
    compressor.unit = 48;
    refused(compressor, "unit is 48");
    compressor.unit = 131072;
    refused(compressor, "unit is 131072");
    compressor.unit = 65536;
    KT_TRUE(take(&compressor, &complaint) != NULL);
}

static void too_many_parameters_are_refused(void)
{
    kvs_compressor_t compressor = right();

    compressor.n_params = KVS_COMPRESSOR_MAX_PARAMS + 1;
    refused(compressor, "compressor 'own' has 9 parameters, more than 8");
}

static const kt_test_t tests[] = {
    KT_TEST(a_compressor_is_copied),
    KT_TEST(a_compressor_without_a_function_is_refused),
    KT_TEST(a_compressor_without_a_name_is_refused),
    KT_TEST(a_unit_must_divide_a_block),
    KT_TEST(too_many_parameters_are_refused),
};
KT_MAIN("descriptor", tests)
