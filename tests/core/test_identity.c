/* SPDX-License-Identifier: Apache-2.0 */
/* What a store is told that it is made of: equal where the processes of a job are set up alike. */
#include "kt.h"
#include "identity.h"

#include <stdlib.h>

static char opened_with[512];
static uint64_t opened_digest;

static kvs_status_t keep_identity(void *store, const kvs_open_args_t *args)
{
    (void)store;
    snprintf(opened_with, sizeof(opened_with), "%s", args->loaded);
    opened_digest = args->digest;
    return KVS_OK;
}

static kvs_status_t close_nothing(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t exchange_nothing(void *store, kvs_op_t *op)
{
    (void)store;
    (void)op;
    return KVS_OK;
}

static const kvs_backend_ops_t ops = {.size = sizeof(ops),
                                      .mode = KVS_BLOCKING,
                                      .open = keep_identity,
                                      .close = close_nothing,
                                      .pushpull = exchange_nothing};
static const kvs_option_info_t options[] = {
    {.name = "bound", .type = "size", .preset = "1000", .doc = ""},
    {.name = "interface", .type = "text", .preset = "", .doc = "", .flags = KVS_OPTION_LOCAL},
    {.name = "mode", .type = "text", .preset = "fast", .doc = ""},
};
static const kvs_backend_t backend = {
    .size = sizeof(backend), .name = "seer", .ops = &ops, .options = options, .n_options = 3};
static const kvs_backend_t *const backends[] = {&backend};
static const kvs_plugin_t plugin = {.size = sizeof(plugin),
                                    .abi_major = KVS_ABI_MAJOR,
                                    .abi_minor = KVS_ABI_MINOR,
                                    .name = "seer",
                                    .version = "1.2.3",
                                    .backends = backends,
                                    .n_backends = 1};

static const kvs_plugin_t *entry(const kvs_host_t *host, const char **ret_refusal)
{
    (void)host;
    (void)ret_refusal;
    return &plugin;
}

static uint64_t opened(const char *name, const kvs_option_t *given, size_t n, const char *want)
{
    kvs_store_t *store = NULL;

    opened_digest = 0;
    if (KT_OK(kvs_store_create(name, given, n, &store))) {
        KT_STR(opened_with, want);
        KT_OK(kvs_store_close(store));
    }
    return opened_digest;
}

static void a_backend_is_told_its_plugin_and_options(void)
{
    static const char manifest[] =
        "{\"manifest_version\": \"1.0\", \"name\": \"seer\", \"version\": \"1.2.3\", \"arch\": "
        "\"" KVS_ARCH
        "\", \"abi\": \"1.0\", \"provides\": [{\"kind\": \"backend\", \"name\": \"seer\"}]}";
    const kvs_option_t wide = {"bound", "7"}, here = {"interface", "eth0"},
                       quiet = {"log", "error"};
    uint64_t plain, other;

    KT_OK(kvs_plugin_register(entry, manifest));
    plain = opened("seer", NULL, 0,
                   "plugin seer 1.2.3, ABI 1.0\nbackend seer\noption bound = 1000\n"
                   "option mode = fast\n");
    other = opened("seer", &wide, 1,
                   "plugin seer 1.2.3, ABI 1.0\nbackend seer\noption bound = 7\n"
                   "option mode = fast\n");
    KT_TRUE(plain != other);
    /* What may differ doesn't: an option that says so, and the core's own. */
    other = opened("seer", &here, 1,
                   "plugin seer 1.2.3, ABI 1.0\nbackend seer\noption bound = 1000\n"
                   "option mode = fast\n");
    KT_TRUE(plain == other);
    other = opened("seer", &quiet, 1,
                   "plugin seer 1.2.3, ABI 1.0\nbackend seer\noption bound = 1000\n"
                   "option mode = fast\n");
    KT_TRUE(plain == other);
}

static void a_backend_of_the_program_has_no_plugin(void)
{
    kvs_backend_t mine = backend;

    mine.n_options = 0;
    KT_OK(kvs_register_backend("mine", &mine));
    (void)opened("mine", NULL, 0, "plugin (program)\nbackend mine\n");
}

/* The test vectors of FNV's authors. */
static void the_digest_is_fnv_1a(void)
{
    KT_TRUE(kvsi_identity_digest("") == UINT64_C(0xcbf29ce484222325));
    KT_TRUE(kvsi_identity_digest("a") == UINT64_C(0xaf63dc4c8601ec8c));
    KT_TRUE(kvsi_identity_digest("foobar") == UINT64_C(0x85944171f73967e8));
}

static const kt_test_t tests[] = {
    KT_TEST(a_backend_is_told_its_plugin_and_options),
    KT_TEST(a_backend_of_the_program_has_no_plugin),
    KT_TEST(the_digest_is_fnv_1a),
};
KT_MAIN("identity", tests)
