/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_openmpi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKAGE "install openmpi-bin (Debian), and start the job with its mpirun"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hvd_openmpi_t the_mpi; /* guarded by lock, as these two */
static bool is_loaded, is_open;

kvs_status_t hvd_openmpi_check(const hvd_openmpi_t *mpi, int error, const char *what)
{
    char text[HVD_MPI_TEXT_BYTES] = "";
    int n = 0;

    if (error == HVD_MPI_SUCCESS) {
        return KVS_OK;
    }
    (void)mpi->Error_string(error, text, &n); /* the number is told in any case */
    return kvs_fail(KVS_ERR_PEER, "MPI_%s: %s (error %d)", what, text, error);
}

/* ---- Opening ----------------------------------------------------------------------------------- */

static kvs_status_t check_family(const char *version, const char *where)
{
    return strncmp(version, "Open MPI", 8) == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_UNAVAILABLE, "engine mpi: %s is '%.*s', not Open MPI; " PACKAGE,
                          where, (int)strcspn(version, ",\n"), version);
}

/* A program that is linked with another MPI has its symbols already, and can't have two. */
static kvs_status_t check_loaded(void)
{
    int (*get_version)(char *, int *);
    char version[8192] = ""; /* others' texts are long */
    int n = 0;

    *(void **)&get_version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (get_version == NULL) {
        return KVS_OK;
    }
    (void)get_version(version, &n);
    return check_family(version, "the MPI of this program");
}

static kvs_status_t resolve(void *library, const char *path, hvd_openmpi_t *mpi)
{
    static const struct {
        const char *name;
        size_t at;
    } symbols[] = {
#define SYMBOL(name, arguments) {"MPI_" #name, offsetof(hvd_openmpi_t, name)},
        HVD_MPI_FUNCTIONS(SYMBOL)
#undef SYMBOL
            {"ompi_mpi_comm_world", offsetof(hvd_openmpi_t, world)},
        {"ompi_mpi_byte", offsetof(hvd_openmpi_t, byte)},
        {"ompi_mpi_errors_return", offsetof(hvd_openmpi_t, errors_return)},
    };
    int n = 0;

    *(void **)&mpi->Get_library_version = dlsym(library, "MPI_Get_library_version");
    if (mpi->Get_library_version != NULL) {
        char version[8192] = "";
        kvs_status_t status;

        (void)mpi->Get_library_version(version, &n);
        status = check_family(version, path);
        if (status != KVS_OK) {
            return status;
        }
        snprintf(mpi->version, sizeof(mpi->version), "%.*s", (int)strcspn(version, ",\n"), version);
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(library, symbols[i].name);

        if (symbol == NULL) {
            return kvs_fail(KVS_ERR_UNAVAILABLE,
                            "engine mpi: %s has no %s: it is not Open MPI 4; " PACKAGE, path,
                            symbols[i].name);
        }
        memcpy((char *)mpi + symbols[i].at, &symbol, sizeof(symbol));
    }
    return KVS_OK;
}

static kvs_status_t load(const char *path, hvd_openmpi_t *mpi)
{
    void *library;
    kvs_status_t status = check_loaded();

    if (status != KVS_OK) {
        return status;
    }
    /* Its components are plugins of its own, which look for its symbols among the global ones. */
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "engine mpi: no Open MPI (%s); " PACKAGE, dlerror());
    }
    status = resolve(library, path, mpi);
    if (status != KVS_OK) {
        (void)dlclose(library); /* nothing of it was used */
    }
    return status;
}

const char *hvd_openmpi_text(const char *library, char text[HVD_OPENMPI_TEXT_BYTES])
{
    hvd_openmpi_t mpi = {0};
    Dl_info file = {0};

    if (load(library, &mpi) != KVS_OK) {
        snprintf(text, HVD_OPENMPI_TEXT_BYTES, "%s", kvs_plugin_host->last_error());
        return text;
    }
    (void)dladdr((void *)(uintptr_t)mpi.Init_thread, &file); /* what isn't found is left out */
    snprintf(text, HVD_OPENMPI_TEXT_BYTES, "%s%s%s", mpi.version,
             file.dli_fname != NULL ? ", " : "", file.dli_fname != NULL ? file.dli_fname : "");
    return text;
}

/* ---- Initialising ------------------------------------------------------------------------------- */

static bool was_started_by_mpirun(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "SLURM_STEP_ID"};

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (getenv(signs[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static kvs_status_t check_started(const hvd_openmpi_t *mpi)
{
    int was = 0;

    (void)mpi->Initialized(&was); /* it can't fail */
    return was || was_started_by_mpirun()
               ? KVS_OK
               : kvs_fail(KVS_ERR_UNAVAILABLE,
                          "engine mpi: this process was not started by mpirun; " PACKAGE);
}

static kvs_status_t initialise(hvd_openmpi_t *mpi)
{
    int was = 0, level = 0, error;

    (void)mpi->Initialized(&was);
    error = was ? mpi->Query_thread(&level)
                : mpi->Init_thread(NULL, NULL, HVD_MPI_THREAD_MULTIPLE, &level);
    if (error != HVD_MPI_SUCCESS) {
        return hvd_openmpi_check(mpi, error, was ? "Query_thread" : "Init_thread");
    }
    mpi->is_ours = !was;
    if (level < HVD_MPI_THREAD_SERIALIZED) {
        return kvs_fail(KVS_ERR_STATE,
                        "engine mpi: MPI was initialised with %s, but exchanges run on a thread of "
                        "their own; call MPI_Init_thread with MPI_THREAD_MULTIPLE",
                        level == 0 ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED");
    }
    return KVS_OK;
}

kvs_status_t hvd_openmpi_load(const char *library)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&lock);
    if (!is_loaded) {
        hvd_openmpi_t mpi = {0};

        status = load(library, &mpi);
        if (status == KVS_OK) {
            the_mpi = mpi;
            is_loaded = true;
        }
    }
    if (status == KVS_OK) {
        status = check_started(&the_mpi);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

kvs_status_t hvd_openmpi_get(const hvd_openmpi_t **ret_mpi)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&lock);
    if (!is_open) {
        status = initialise(&the_mpi);
        is_open = status == KVS_OK;
    }
    if (status == KVS_OK) {
        *ret_mpi = &the_mpi;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

bool hvd_openmpi_is_there(const hvd_openmpi_t *mpi)
{
    int has_ended = 0;

    return mpi->Finalized(&has_ended) == HVD_MPI_SUCCESS && !has_ended;
}

void hvd_openmpi_finalize(void)
{
    pthread_mutex_lock(&lock);
    if (is_open && the_mpi.is_ours && hvd_openmpi_is_there(&the_mpi)) {
        (void)the_mpi.Finalize(); /* the process ends */
    }
    is_open = false;
    pthread_mutex_unlock(&lock);
}
