/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_driver.c - devices, contexts, kernels and errors of the stand-in for libcuda.so.1. */
#include "cuda_double.h"

#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t double_lock = PTHREAD_MUTEX_INITIALIZER;
double_settings_t double_settings;
double_device_t double_devices[DOUBLE_MAX_DEVICES];
cuda_double_counts_t double_counts;
int64_t double_downloads = -1;

uint32_t cuda_double_thread, cuda_double_block;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_fault(const char *fault)
{
    double_settings_t *s = &double_settings;
    int device;
    unsigned long long n;

    if (sscanf(fault, "driver=%d", &s->driver_version) == 1) {
        return;
    }
    if (sscanf(fault, "sticky=%d:%llu", &device, &n) == 2) {
        s->sticky_device = device;
        s->sticky_launch = n;
    }
    s->no_device |= strcmp(fault, "nodevice") == 0;
    s->no_peer |= strcmp(fault, "nopeer") == 0;
    s->pairs |= strcmp(fault, "pairs") == 0;
    s->islands |= strcmp(fault, "islands") == 0;
    s->no_pools |= strcmp(fault, "nopools") == 0;
    s->capture |= strcmp(fault, "capture") == 0;
}

static long long number_of(const char *variable, long long preset)
{
    const char *text = getenv(variable);

    return text != NULL && *text != '\0' ? atoll(text) : preset;
}

static void read_settings(void)
{
    char faults[256], *rest = faults, *fault;
    const char *text = getenv("KVSTORE_DOUBLE_FAULT");

    double_settings = (double_settings_t){.driver_version = 13000, .sticky_device = -1};
    double_settings.n_devices = (int)number_of("KVSTORE_DOUBLE_DEVICES", 1);
    if (double_settings.n_devices < 0 || double_settings.n_devices > DOUBLE_MAX_DEVICES) {
        double_settings.n_devices = DOUBLE_MAX_DEVICES;
    }
    double_settings.memory = (size_t)number_of("KVSTORE_DOUBLE_MEMORY", 4LL << 30);
    double_settings.pinned = (size_t)number_of("KVSTORE_DOUBLE_PINNED", 64LL << 30);
    double_settings.delay_ns = number_of("KVSTORE_DOUBLE_DELAY_US", 50) * 1000;
    snprintf(faults, sizeof(faults), "%s", text != NULL ? text : "");
    while ((fault = strsep(&rest, ",")) != NULL) {
        read_fault(fault);
    }
    for (int i = 0; i < double_settings.n_devices; i++) {
        double_devices[i].can_reach = 1u << i;
    }
    double_memory_start();
    double_streams_start();
}

static void start(void)
{
    pthread_once(&once, read_settings);
}

/* ---- What tests ask --------------------------------------------------------------------------- */

DOUBLE_API void cuda_double_read(cuda_double_counts_t *ret_counts);
void cuda_double_read(cuda_double_counts_t *ret_counts)
{
    pthread_mutex_lock(&double_lock);
    *ret_counts = double_counts;
    pthread_mutex_unlock(&double_lock);
}

DOUBLE_API void cuda_double_reset(void);
void cuda_double_reset(void)
{
    pthread_mutex_lock(&double_lock);
    double_counts = (cuda_double_counts_t){0};
    pthread_mutex_unlock(&double_lock);
}

DOUBLE_API void cuda_double_break(int device);
void cuda_double_break(int device)
{
    pthread_mutex_lock(&double_lock);
    double_devices[device].failed = 1;
    pthread_mutex_unlock(&double_lock);
}

DOUBLE_API void cuda_double_capturing(int on);
void cuda_double_capturing(int on)
{
    pthread_mutex_lock(&double_lock);
    double_settings.capture = on;
    pthread_mutex_unlock(&double_lock);
}

DOUBLE_API uint64_t cuda_double_live(int device);
uint64_t cuda_double_live(int device)
{
    pthread_mutex_lock(&double_lock);
    uint64_t n = double_devices[device].n_bytes_live;
    pthread_mutex_unlock(&double_lock);
    return n;
}

/* ---- Errors ----------------------------------------------------------------------------------- */

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
};
enum { N_ERRORS = sizeof(errors) / sizeof(errors[0]) };

DOUBLE_API CUresult cuGetErrorName(CUresult code, const char **text)
{
    for (int i = 0; i < N_ERRORS; i++) {
        if (errors[i].code == code) {
            *text = errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

DOUBLE_API CUresult cuGetErrorString(CUresult code, const char **text)
{
    for (int i = 0; i < N_ERRORS; i++) {
        if (errors[i].code == code) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult double_check(int device)
{
    if (device < 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&double_lock);
    int failed = double_devices[device].failed;
    pthread_mutex_unlock(&double_lock);
    return failed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

/* ---- Devices ---------------------------------------------------------------------------------- */

DOUBLE_API CUresult cuInit(unsigned flags)
{
    (void)flags;
    start();
    return double_settings.no_device ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDriverGetVersion(int *version)
{
    start();
    *version = double_settings.driver_version;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetCount(int *count)
{
    *count = double_settings.n_devices;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < double_settings.n_devices ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_DEVICE;
}

DOUBLE_API CUresult cuDeviceGetName(char *name, int n_bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)n_bytes, "Pretend GPU");
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceTotalMem_v2(size_t *n_bytes, CUdevice device)
{
    (void)device;
    *n_bytes = double_settings.memory;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *value = !double_settings.no_pools;
        break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        *value = 1;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = device != peer && !double_settings.no_peer &&
           (!double_settings.islands || device / 2 == peer / 2);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                            CUdevice device, CUdevice peer)
{
    int can;

    (void)cuDeviceCanAccessPeer(&can, device, peer);
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
                 ? can
                 : double_settings.pairs && device / 2 != peer / 2;
    return CUDA_SUCCESS;
}

/* ---- Contexts: a context is its device's number + 1 -------------------------------------------- */

static __thread CUcontext stack[16];
static __thread int depth;

static int device_of_context(CUcontext context)
{
    return (int)(intptr_t)context - 1;
}

int double_current(void)
{
    return depth > 0 ? device_of_context(stack[depth - 1]) : -1;
}

DOUBLE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(intptr_t)(device + 1);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (depth == 16) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = double_current();
    return *device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxSetCurrent(CUcontext context)
{
    depth = context != NULL;
    stack[0] = context;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    unsigned bit = 1u << device_of_context(peer);
    double_device_t *device = &double_devices[double_current()];

    (void)flags;
    if (double_settings.no_peer ||
        (double_settings.islands && device_of_context(peer) / 2 != double_current() / 2)) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    pthread_mutex_lock(&double_lock);
    int enabled = (device->can_reach & bit) != 0;
    device->can_reach |= bit;
    pthread_mutex_unlock(&double_lock);
    return enabled ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

/* ---- Kernels ---------------------------------------------------------------------------------- */

#define DECLARE(name, type) void cuda_double_##name(const void *args, uint32_t n_blocks);
CUDA_KERNEL_LIST(DECLARE)
#undef DECLARE

typedef struct double_kernel {
    const char *name;
    void (*run)(const void *args, uint32_t n_blocks);
    size_t args_bytes;
} double_kernel_t;

static const double_kernel_t kernels[] = {
#define ROW(name, type) {"kvs_" #name, cuda_double_##name, sizeof(type)},
    CUDA_KERNEL_LIST(ROW)
#undef ROW
};

DOUBLE_API CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
                                      CUjit_option *jit_options, void **jit_values, unsigned n_jit,
                                      CUlibraryOption *options, void **values, unsigned n)
{
    (void)jit_options, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n;
    *library = (CUlibrary)(uintptr_t)code;
    return code != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DOUBLE_API CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    (void)library;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *kernel = (CUkernel)(uintptr_t)&kernels[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* Whether the argument holds an address that the device's kernels can't touch. */
static int reaches_too_far(int device, const void *args, size_t n_bytes)
{
    const uintptr_t *words = args;

    for (size_t i = 0; i < n_bytes / sizeof(*words); i++) {
        int owner = double_device_of((const void *)words[i]);

        if (owner >= 0 && (double_devices[device].can_reach & 1u << owner) == 0) {
            return 1;
        }
    }
    return 0;
}

static void run_kernel(double_work_t *work)
{
    double_device_t *device = &double_devices[work->device];

    pthread_mutex_lock(&double_lock);
    device->n_launches++;
    if ((work->device == double_settings.sticky_device &&
         device->n_launches >= double_settings.sticky_launch) ||
        reaches_too_far(work->device, work->args, work->args_bytes)) {
        device->failed = 1;
    }
    int failed = device->failed;
    pthread_mutex_unlock(&double_lock);
    if (!failed) {
        work->kernel(work->args, work->n_blocks);
    }
}

DOUBLE_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream,
                                   void **params, void **extra)
{
    const double_kernel_t *kernel = (const double_kernel_t *)(uintptr_t)function;
    double_work_t work = {.run = run_kernel,
                          .kernel = kernel->run,
                          .n_blocks = grid_x,
                          .args_bytes = kernel->args_bytes,
                          .args = params[0]};

    (void)shared, (void)extra;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != CUDA_BLOCK || block_y != 1 ||
        block_z != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&double_lock);
    double_counts.launches++;
    pthread_mutex_unlock(&double_lock);
    return double_enqueue(stream, &work);
}
