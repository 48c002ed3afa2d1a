/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_statefile.c - any bytes as a file of optimizer states: it is loaded or refused with a text, and a
 * file that is refused changes nothing. Checksums are always 0 here, in files too, so that they need not
 * be guessed. Seeds lie in seeds/statefile; each crash that was mended left one. */
#include "crc32c.h"
#include "fuzz_host.h"

#include <kvstore/states.h>

#include <sys/mman.h>
#include <unistd.h>

extern const kvs_plugin_t *kvs_plugin_entry_v1_optimizers(const kvs_host_t *host,
                                                          const char **ret_refusal);

uint32_t kvs_crc32c(uint32_t crc, const void *data, size_t n_bytes)
{
    (void)crc, (void)data, (void)n_bytes;
    return 0;
}

/* ---- A host --------------------------------------------------------------------------------------- */

static const kvs_plugin_t *optimizers;

static kvs_status_t fail_context(kvs_status_t status, const char *format, ...)
{
    (void)format;
    return status;
}

static void parallel_for(int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    (void)grain;
    fn(arg, 0, n);
}

static kvs_status_t find_optimizer(const char *name, const kvs_optimizer_t **ret_optimizer)
{
    for (size_t i = 0; i < optimizers->n_optimizers; i++) {
        if (strcmp(optimizers->optimizers[i]->name, name) == 0) {
            *ret_optimizer = optimizers->optimizers[i];
            return KVS_OK;
        }
    }
    return fail(KVS_ERR_NOT_FOUND, "no optimizer '%s'", name);
}

/* ---- Bytes as a file ------------------------------------------------------------------------------ */

static const char *file_of(const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    static char path[64];

    if (fd < 0) {
        const char *refusal;

        fd = memfd_create("states", MFD_CLOEXEC);
        require(fd >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        host.fail_context = fail_context;
        host.parallel_for = parallel_for;
        host.find_optimizer = find_optimizer;
        optimizers = kvs_plugin_entry_v1_optimizers(&host, &refusal);
    }
    require(ftruncate(fd, 0) == 0 && pwrite(fd, data, n_bytes, 0) == (ssize_t)n_bytes);
    return path;
}

static kvs_optimizer_spec_t adam(void)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "adam";
    return spec;
}

/* ---- Loading -------------------------------------------------------------------------------------- */

/* Whatever keys the file has. */
static void load_into_worker(const char *path)
{
    kvs_optimizer_spec_t spec = adam();
    void *worker = NULL;

    require(kvs_optimizer_service.create(&spec, &worker) == KVS_OK);
    last_text[0] = '\0';
    require(kvs_optimizer_service.load_states(worker, path) == KVS_OK || last_text[0] != '\0');
    kvs_optimizer_service.free(worker);
}

#define N_KEYS 3

/* Keys as the seeds have them, with one update made. */
static void load_into_keys(const char *path)
{
    static const int64_t shapes[N_KEYS][2] = {{2, 3}, {4, 0}, {2, 0}};
    static const char *const names[N_KEYS] = {"w", "b", "half"};
    static const int dtypes[N_KEYS] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16};
    static const int64_t n_elems[N_KEYS] = {6, 4, 2};
    kvs_optimizer_spec_t spec = adam();
    kvs_key_entry_t keys[N_KEYS];
    kvs_opt_key_t states[N_KEYS] = {{0}};
    kvs_residuals_t residuals[N_KEYS] = {{0}};
    kvs_opt_item_t items[N_KEYS];
    kvs_opt_t *opt, *before;
    kvs_opt_file_t *file = NULL;
    char weight[64] = {0};
    void *mean;

    require(kvs_opt_new(&spec, &opt) == KVS_OK);
    for (int i = 0; i < N_KEYS; i++) {
        kvs_opt_update_t update;

        keys[i] = (kvs_key_entry_t){.name = names[i],
                                    .number = i,
                                    .dtype = kvs_dtype(dtypes[i]),
                                    .ndim = i == 0 ? 2 : 1,
                                    .shape = shapes[i],
                                    .n_elems = n_elems[i]};
        items[i] = (kvs_opt_item_t){&keys[i], &states[i], &residuals[i]};
        require(kvs_opt_begin(opt, &states[i], &keys[i], weight) == KVS_OK);
        require(kvs_opt_issue(opt, &states[i], &keys[i], &update) == KVS_OK);
    }
    before = opt;
    mean = kvs_opt_state_at(&states[0], 0).data;
    if (kvs_opt_file_open(path, &file) == KVS_OK &&
        kvs_opt_file_load(file, &opt, items, N_KEYS) != KVS_OK) {
        require(opt == before && states[0].n_updates == 1 && residuals[0].n == 0);
        require(kvs_opt_n_states(&states[0]) == 2 && kvs_opt_state_at(&states[0], 0).data == mean);
    }
    kvs_opt_file_close(file);
    for (int i = 0; i < N_KEYS; i++) {
        kvs_opt_key_release(&states[i]);
        kvs_residuals_release(&residuals[i]);
    }
    kvs_opt_free(opt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *path = file_of(data, n_bytes);

    load_into_worker(path);
    load_into_keys(path);
    return 0;
}
