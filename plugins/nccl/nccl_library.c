/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_library.c - see nccl_library.h. */
#include "nccl_library.h"

#include <kvstore/kit.h>

#include <dlfcn.h>
#include <stdio.h>

nccl_library_t nccl_library;

const char *nccl_version_text(int version, char text[24])
{
    /* up to 2.8 it was 1000 × major */
    int major = version >= 10000 ? version / 10000 : version / 1000;
    int minor = version >= 10000 ? version / 100 % 100 : version / 100 % 10;

    snprintf(text, 24, "%d.%d.%d", major, minor, version % 100);
    return text;
}

static kvs_status_t check_version(void *library, const char *name)
{
    __typeof__(&ncclGetVersion) get_version =
        (__typeof__(&ncclGetVersion))(uintptr_t)dlsym(library, "ncclGetVersion");
    char has[24], needs[24];

    if (get_version == NULL || get_version(&nccl_library.version) != ncclSuccess) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "%s is not NCCL: it does not tell its version", name);
    }
    if (nccl_library.version < NCCL_NEEDED || nccl_library.version / 10000 != NCCL_NEEDED_MAJOR) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "%s is NCCL %s, this plugin needs %s or a later one of version %d; install "
                        "another libnccl2",
                        name, nccl_version_text(nccl_library.version, has),
                        nccl_version_text(NCCL_NEEDED, needs), NCCL_NEEDED_MAJOR);
    }
    return KVS_OK;
}

static kvs_status_t find_functions(void *library, const char *name)
{
    void *found;

#define FIND(f)                                                                                    \
    found = dlsym(library, #f);                                                                    \
    if (found == NULL) {                                                                           \
        return kvs_fail(KVS_ERR_UNAVAILABLE, "%s has no %s", name, #f);                            \
    }                                                                                              \
    nccl_library.p_##f = (__typeof__(nccl_library.p_##f))(uintptr_t)found;
    NCCL_FUNCTIONS(FIND)
#undef FIND
    return KVS_OK;
}

static kvs_status_t find(void *handle, const char *name)
{
    kvs_status_t status = check_version(handle, name);

    return status == KVS_OK ? find_functions(handle, name) : status;
}

kvs_status_t nccl_library_open(void)
{
    static kvs_library_t library = {.preset = "libnccl.so.2",
                                    .variable = "KVSTORE_NCCL_LIBRARY",
                                    .missing = "no NCCL",
                                    .mend = "install libnccl2",
                                    .find = find};

    return kvs_library_open(&library);
}

const char *nccl_library_text(char text[NCCL_TEXT_BYTES])
{
    char version[24];
    Dl_info file = {0};

    if (nccl_library_open() != KVS_OK) {
        snprintf(text, NCCL_TEXT_BYTES, "%s", kvs_plugin_host->last_error());
        return text;
    }
    (void)dladdr((void *)(uintptr_t)nccl_library.p_ncclGetVersion, &file);
    snprintf(text, NCCL_TEXT_BYTES, "%s, %s", nccl_version_text(nccl_library.version, version),
             file.dli_fname != NULL ? file.dli_fname : "of an unknown file");
    return text;
}
