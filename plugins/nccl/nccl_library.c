/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_library.c - see nccl_library.h. */
#include "nccl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

nccl_library_t nccl_library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_open; /* guarded by lock */

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

static kvs_status_t open_locked(void)
{
    const char *name = secure_getenv("KVSTORE_NCCL_LIBRARY");
    kvs_status_t status;
    void *library;

    name = name != NULL && *name != '\0' ? name : "libnccl.so.2";
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "no NCCL: %s; install libnccl2", dlerror());
    }
    status = check_version(library, name);
    if (status == KVS_OK) { /* else it stays open: it may have started threads */
        status = find_functions(library, name);
    }
    return status;
}

kvs_status_t nccl_library_open(void)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&lock);
    if (!is_open) {
        status = open_locked();
        is_open = status == KVS_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
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
