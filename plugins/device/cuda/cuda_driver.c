/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_driver.c - see cuda_driver.h. The stub that comes with the toolkit, and a driver without a device,
 * answer too: what they say is the reason why CUDA is unavailable. */
#include "cuda_driver.h"

#include <kvstore/kit.h>

#include <dlfcn.h>
#include <stdio.h>

cuda_driver_t cuda_driver;

const char *cuda_version_text(int version, char text[16])
{
    snprintf(text, 16, "%d.%d", version / 1000, version % 1000 / 10);
    return text;
}

kvs_status_t cuda_fail(CUresult result, const char *what)
{
    const char *name = "unknown error", *text = "unknown error";
    kvs_status_t status = result == CUDA_ERROR_OUT_OF_MEMORY ? KVS_ERR_NO_MEMORY
                          : cuda_is_sticky(result)           ? KVS_ERR_UNAVAILABLE
                                                             : KVS_ERR_IO;

    if (cuda_driver.p_cuGetErrorName != NULL) {
        (void)cuda(cuGetErrorName)(result, &name); /* unknown numbers leave the text */
        (void)cuda(cuGetErrorString)(result, &text);
    }
    return kvs_fail(status, "%s: %s (%d): %s", what, name, (int)result, text);
}

int cuda_is_sticky(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return 1;
    default:
        return 0;
    }
}

#define TEXT_NOW(x) #x
#define TEXT(x)     TEXT_NOW(x)

static kvs_status_t find_functions(void *library, const char *name)
{
    void *found;

#define FIND(f)                                                                                    \
    found = dlsym(library, TEXT(f));                                                               \
    if (found == NULL) {                                                                           \
        return kvs_fail(KVS_ERR_UNAVAILABLE, "%s has no %s: the driver is too old", name,          \
                        TEXT(f));                                                                  \
    }                                                                                              \
    cuda_driver.p_##f = (__typeof__(cuda_driver.p_##f))(uintptr_t)found;
    CUDA_FUNCTIONS(FIND)
#undef FIND
    return KVS_OK;
}

static kvs_status_t check_version(void *library, const char *name)
{
    __typeof__(&cuInit) init = (__typeof__(&cuInit))(uintptr_t)dlsym(library, "cuInit");
    __typeof__(&cuDriverGetVersion) get_version =
        (__typeof__(&cuDriverGetVersion))(uintptr_t)dlsym(library, "cuDriverGetVersion");
    char has[16], needs[16];

    if (init == NULL || get_version == NULL) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "%s is no CUDA driver: it lacks cuInit", name);
    }
    if (get_version(&cuda_driver.version) == CUDA_SUCCESS && cuda_driver.version > 0 &&
        cuda_driver.version < CUDA_NEEDED) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "the driver offers CUDA %s, this plugin was built for %s; install a newer "
                        "NVIDIA driver",
                        cuda_version_text(cuda_driver.version, has),
                        cuda_version_text(CUDA_NEEDED, needs));
    }
    CUresult result = init(0);

    if (result == CUDA_ERROR_NO_DEVICE) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "the CUDA driver finds no device");
    }
    return result == CUDA_SUCCESS
               ? KVS_OK
               : kvs_fail(KVS_ERR_UNAVAILABLE, "cuInit of %s gives %d%s", name, (int)result,
                          result == CUDA_ERROR_STUB_LIBRARY
                              ? ": it is the toolkit's stub, not a driver"
                              : "");
}

static kvs_status_t find(void *handle, const char *name)
{
    kvs_status_t status = check_version(handle, name);

    return status == KVS_OK ? find_functions(handle, name) : status;
}

kvs_status_t cuda_driver_open(void)
{
    static kvs_library_t library = {.preset = "libcuda.so.1",
                                    .variable = "KVSTORE_CUDA_DRIVER",
                                    .missing = "no CUDA driver",
                                    .mend = "install the NVIDIA driver",
                                    .find = find};

    return kvs_library_open(&library);
}

const char *cuda_driver_text(char text[CUDA_TEXT_BYTES])
{
    char version[16];
    Dl_info file = {0};

    if (cuda_driver_open() != KVS_OK) {
        snprintf(text, CUDA_TEXT_BYTES, "%s", kvs_plugin_host->last_error());
        return text;
    }
    (void)dladdr((void *)(uintptr_t)cuda_driver.p_cuDeviceGetCount, &file);
    snprintf(text, CUDA_TEXT_BYTES, "for CUDA %s, %s",
             cuda_version_text(cuda_driver.version, version),
             file.dli_fname != NULL ? file.dli_fname : "of an unknown file");
    return text;
}
