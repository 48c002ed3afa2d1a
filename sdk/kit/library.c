/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - libraries that are opened at run time. One lock for all of a plugin: they are few. */
#include <kvstore/kit.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static kvs_status_t open_locked(kvs_library_t *library)
{
    const char *told = secure_getenv(library->variable);
    const char *name = told != NULL && *told != '\0' ? told : library->preset;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    kvs_status_t status;

    if (handle == NULL) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "%s: %s; %s", library->missing, dlerror(),
                        library->mend);
    }
    status = library->find(handle, name);
    library->is_open = status == KVS_OK;
    return status;
}

kvs_status_t kvs_library_open(kvs_library_t *library)
{
    kvs_status_t status;

    pthread_mutex_lock(&lock);
    status = library->is_open ? KVS_OK : open_locked(library);
    pthread_mutex_unlock(&lock);
    return status;
}
