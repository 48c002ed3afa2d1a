/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c - plugins that are right or wrong on purpose, all from this source: CMakeLists.txt names
 * the variants and the macros that make them.
 *
 * A backend's rank() tells how often the entry was called, its num_workers() the variant's
 * FAKE_ANSWER, through a global symbol that two plugins have alike. */
#include <kvstore/plugin.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef FAKE_NAME
#define FAKE_NAME "fake"
#endif
#ifndef FAKE_ANSWER
#define FAKE_ANSWER 1
#endif
#ifndef FAKE_ABI_MAJOR
#define FAKE_ABI_MAJOR KVS_ABI_MAJOR
#endif
#ifndef FAKE_ABI_MINOR
#define FAKE_ABI_MINOR KVS_ABI_MINOR
#endif
#ifndef FAKE_OPS_SIZE
#define FAKE_OPS_SIZE sizeof(kvs_backend_ops_t)
#endif
#ifndef FAKE_OPEN
#define FAKE_OPEN fake_open
#endif

#if defined(FAKE_ALL_KINDS) || defined(FAKE_OPEN_FAILS) || defined(FAKE_PROBE_FAILS)
#define FAKE_USES_HOST
const kvs_host_t *kvs_plugin_host;
#endif

static int n_entry_calls;

KVS_API int fake_answer(void);
int fake_answer(void)
{
    return FAKE_ANSWER;
}

#ifdef FAKE_UNDEFINED
int fake_symbol_that_nobody_has(void);
#endif
#ifdef FAKE_DEPENDENCY
int fake_dependency(void);
#endif

/* ---- What runs by itself -------------------------------------------------------------------- */

#ifdef FAKE_CONSTRUCTOR
__attribute__((constructor)) static void fake_constructor(void)
{
    FAKE_CONSTRUCTOR; /* abort(), for (;;) pause(), _exit(3) */
}
#endif

#ifdef FAKE_TLS
/* Every thread that opens a store leaves something for its end. */
static pthread_key_t fake_key;

static void forget(void *number)
{
    free(number);
}

__attribute__((constructor)) static void make_key(void)
{
    (void)pthread_key_create(&fake_key, forget);
}
#endif

#ifdef FAKE_ATEXIT
/* Tell whoever waits at the descriptor that the end was reached. */
static void tell_end(void)
{
    const char *fd = getenv("FAKE_ATEXIT_FD");

    if (fd != NULL && write(atoi(fd), "end", 3) != 3) {
        _exit(4);
    }
    FAKE_ATEXIT;
}

__attribute__((constructor)) static void ask_for_end(void)
{
    (void)atexit(tell_end);
}
#endif

#ifdef FAKE_STATIC_TLS
static __thread int fake_counter __attribute__((tls_model("initial-exec")));
#endif

/* ---- The backend ---------------------------------------------------------------------------- */

#ifdef FAKE_PROBE_FAILS
static kvs_status_t fake_probe(const kvs_config_t *config)
{
    (void)config;
    return kvs_fail(KVS_ERR_IO, "no flux capacitor");
}
#endif
#ifdef FAKE_PROBE_SILENT
static kvs_status_t fake_probe(const kvs_config_t *config)
{
    (void)config;
    return KVS_ERR_IO;
}
#endif

__attribute__((unused)) static kvs_status_t fake_open(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
#ifdef FAKE_TLS
    (void)pthread_setspecific(fake_key, malloc(16));
#endif
#ifdef FAKE_STATIC_TLS
    fake_counter++;
#endif
#ifdef FAKE_OPEN_FAILS
    return kvs_fail(KVS_ERR_IO, "the fake's door is stuck");
#endif
#ifdef FAKE_UNDEFINED
    return fake_symbol_that_nobody_has();
#elif defined(FAKE_DEPENDENCY)
    return fake_dependency();
#else
    return KVS_OK;
#endif
}

static kvs_status_t fake_close(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t fake_pushpull(void *store, kvs_op_t *op)
{
    (void)store;
    (void)op;
    return KVS_OK;
}

static kvs_status_t fake_rank(void *store, int *ret_rank)
{
    (void)store;
    *ret_rank = n_entry_calls;
    return KVS_OK;
}

static kvs_status_t fake_num_workers(void *store, int *ret_num_workers)
{
    (void)store;
    *ret_num_workers = fake_answer();
    return KVS_OK;
}

static const kvs_backend_ops_t ops = {
    .size = (uint32_t)(FAKE_OPS_SIZE),
    .mode = KVS_BLOCKING,
#if defined(FAKE_PROBE_FAILS) || defined(FAKE_PROBE_SILENT)
    .probe = fake_probe,
#endif
    .open = FAKE_OPEN,
    .close = fake_close,
    .pushpull = fake_pushpull,
    .rank = fake_rank,
    .num_workers = fake_num_workers,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};
static const kvs_backend_t backend = {
    .size = (uint32_t)sizeof(kvs_backend_t),
    .capabilities = KVS_KEEPS_WEIGHTS,
    .name = FAKE_NAME,
    .dtypes = 1u << KVS_DTYPE_float32,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &ops,
};
static const kvs_backend_t *const backends[] = {&backend};

#ifdef FAKE_ALL_KINDS
static void fake_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    (void)hyper;
    ret_scalars[0] = update->lr;
}

static void fake_step_f32(int64_t n, const float *grad, float *weight, float *const *states,
                          const float *scalars)
{
    (void)n;
    (void)grad;
    (void)weight;
    (void)states;
    (void)scalars;
}

static void fake_step_f64(int64_t n, const double *grad, double *weight, double *const *states,
                          const double *scalars)
{
    (void)n;
    (void)grad;
    (void)weight;
    (void)states;
    (void)scalars;
}

static const kvs_optimizer_t optimizer = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "fakeopt",
    .summary = "Does nothing",
    .learning_rate = 0.25,
    .scalars = fake_scalars,
    .step_f32 = fake_step_f32,
    .step_f64 = fake_step_f64,
};
static const kvs_optimizer_t *const optimizers[] = {&optimizer};

static uint64_t fake_packed_bytes(const float *params, int64_t n)
{
    (void)params;
    return (uint64_t)n;
}

static int fake_encode(const float *params, int64_t n, const float *grad, const float *residual,
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

static void fake_decode(const float *params, int64_t n, const void *packed, float *dst)
{
    (void)params;
    (void)n;
    (void)packed;
    (void)dst;
}

static const kvs_compressor_t compressor = {
    .size = (uint32_t)sizeof(kvs_compressor_t),
    .unit = 1,
    .name = "fakepress",
    .summary = "Loses everything",
    .packed_bytes = fake_packed_bytes,
    .encode = fake_encode,
    .decode = fake_decode,
    .decode_add = fake_decode,
};
static const kvs_compressor_t *const compressors[] = {&compressor};

static kvs_status_t fake_alloc(kvs_device_t device, size_t n_bytes, void **ret_data)
{
    (void)device;
    (void)n_bytes;
    (void)ret_data;
    return kvs_fail(KVS_ERR_NO_MEMORY, "a fake has no memory");
}

static void fake_free(kvs_device_t device, void *data, size_t n_bytes)
{
    (void)device;
    (void)data;
    (void)n_bytes;
}

static kvs_status_t fake_sum(int dtype, int64_t n, const void *const *src, size_t n_src,
                             void *const *dst, size_t n_dst)
{
    (void)dtype;
    (void)n;
    (void)src;
    (void)n_src;
    (void)dst;
    (void)n_dst;
    return KVS_OK;
}

static kvs_status_t fake_cast(int64_t n, int src_dtype, const void *src, int dst_dtype, void *dst)
{
    (void)n;
    (void)src_dtype;
    (void)src;
    (void)dst_dtype;
    (void)dst;
    return KVS_OK;
}

static const kvs_provider_t provider = {
    .size = (uint32_t)sizeof(kvs_provider_t),
    .device_type = 10, /* DLPack's number of rocm */
    .name = "rocm",
    .alloc = fake_alloc,
    .free = fake_free,
    .sum = fake_sum,
    .cast = fake_cast,
};
static const kvs_provider_t *const providers[] = {&provider};
#endif

static const kvs_plugin_t plugin = {
    .size = (uint32_t)sizeof(kvs_plugin_t),
    .abi_major = FAKE_ABI_MAJOR,
    .abi_minor = FAKE_ABI_MINOR,
    .name = FAKE_NAME,
    .version = "1.0.0",
    .backends = backends,
    .n_backends = 1,
#ifdef FAKE_ALL_KINDS
    .optimizers = optimizers,
    .n_optimizers = 1,
    .providers = providers,
    .n_providers = 1,
    .compressors = compressors,
    .n_compressors = 1,
#endif
};

#ifdef FAKE_NO_ENTRY
#define FAKE_ENTRY kvs_plugin_entry_v0
#else
#define FAKE_ENTRY KVS_PLUGIN_ENTRY(fake)
#endif

KVS_API const kvs_plugin_t *FAKE_ENTRY(const kvs_host_t *host, const char **ret_refusal);
const kvs_plugin_t *FAKE_ENTRY(const kvs_host_t *host, const char **ret_refusal)
{
    n_entry_calls++;
#ifdef FAKE_USES_HOST
    kvs_plugin_host = host;
#endif
#ifdef FAKE_REFUSAL
    *ret_refusal = FAKE_REFUSAL;
    return NULL;
#endif
    (void)ret_refusal;
    return host->abi_major == KVS_ABI_MAJOR ? &plugin : NULL;
}
