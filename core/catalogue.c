/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.c - data only: a new package of the project gets a line here, with the aliases and
 * words that its manifest states. */
#include "catalogue.h"

typedef struct known {
    kvs_known_t known;
    kvs_provide_t provide;
} known_t;

#define TEXTS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define N_TEXTS(...) (sizeof(TEXTS(__VA_ARGS__)) / sizeof(char *))
#define ALIASES(...) .aliases = TEXTS(__VA_ARGS__), .n_aliases = N_TEXTS(__VA_ARGS__)
#define WITH(...)    .with = TEXTS(__VA_ARGS__), .n_with = N_TEXTS(__VA_ARGS__)
#define KNOWN(kind_text, name_text, package_text, word_text, ...)                                  \
    {                                                                                              \
        {kind_text, name_text, package_text},                                                      \
        {                                                                                          \
            .kind = kind_text, .name = name_text, .word = word_text, __VA_ARGS__                   \
        }                                                                                          \
    }

static const known_t known_things[] = {
    KNOWN("backend", "local", "libkvstore0", "local", WITH("update", "allreduce", "cpu")),
    KNOWN("backend", "device", "kvstore-backend-device", "device",
          WITH("local", "update", "allreduce", "cpu")),
    KNOWN("backend", "nccl", "kvstore-backend-nccl", "nccl", ),
    KNOWN("backend", "dist_sync", "kvstore-backend-dist", "dist",
          ALIASES("dist", "dist_async", "dist_device_sync", "dist_device_async"),
          WITH("sync", "async", "device", "p3")),
    KNOWN("backend", "horovod", "kvstore-backend-horovod", "", ),
    KNOWN("backend", "byteps", "kvstore-backend-byteps", "", ),
    KNOWN("backend", "teststore", "kvstore-backend-teststore", "", ),
    KNOWN("compressor", "1bit", "libkvstore0", "", ),
    KNOWN("compressor", "2bit", "libkvstore0", "", ),
    KNOWN("device", "cuda", "kvstore-backend-cuda", "", ),
};

#define N_KNOWN (sizeof(known_things) / sizeof(known_things[0]))

/* DLPack's device types, as manifests write them. */
static const struct {
    int32_t type;
    const char *name;
} devices[] = {
    {KVS_DEVICE_CPU, "cpu"},
    {KVS_DEVICE_CUDA, "cuda"},
    {KVS_DEVICE_CUDA_HOST, "cuda_host"},
    {KVS_DEVICE_CUDA_MANAGED, "cuda_managed"},
    {4, "opencl"},
    {7, "vulkan"},
    {8, "metal"},
    {9, "vpi"},
    {10, "rocm"},
    {11, "rocm_host"},
    {12, "ext_dev"},
    {14, "oneapi"},
    {15, "webgpu"},
    {16, "hexagon"},
};

const kvs_known_t *kvs_known_at(size_t index)
{
    return index < N_KNOWN ? &known_things[index].known : NULL;
}

const kvs_provide_t *kvsi_known_provide(size_t index)
{
    return index < N_KNOWN ? &known_things[index].provide : NULL;
}

const char *kvsi_device_name(int32_t device_type)
{
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        if (devices[i].type == device_type) {
            return devices[i].name;
        }
    }
    return NULL;
}
