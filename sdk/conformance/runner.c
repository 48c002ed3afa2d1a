/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c - finds out what a backend offers, and gives each case that applies a store of its own.
 *
 * Whether weights are kept is asked of the backend itself, by an init of a store that is thrown away:
 * that works for backends of the program, which have no manifest, and a manifest that says otherwise
 * is found by a case. Between cases all workers meet at a barrier. */
#include "conformance.h"

#include "case.h"
#include "themes.h"

#include <kvstore/plugins.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cf_theme_t *const themes[] = {
#define THEME_POINTER(name) &cf_theme_##name,
    CF_THEME_LIST(THEME_POINTER)
#undef THEME_POINTER
};
enum { N_THEMES = sizeof(themes) / sizeof(themes[0]) };

/* ---- Kinds of device ------------------------------------------------------------------------- */

static void *host_alloc(size_t n_bytes)
{
    return aligned_alloc(64, (n_bytes + 63) / 64 * 64);
}

static void host_write(void *data, const void *from, size_t n_bytes)
{
    memcpy(data, from, n_bytes);
}

static void host_read(const void *data, void *to, size_t n_bytes)
{
    memcpy(to, data, n_bytes);
}

static const kvs_device_t cpu = {KVS_DEVICE_CPU, 0}, cuda = {KVS_DEVICE_CUDA, 0};

/* Where a copy fails the case sees numbers that it doesn't want. */
static void *cuda_alloc(size_t n_bytes)
{
    void *data = NULL;

    return kvs_device_alloc(cuda, n_bytes, &data) == KVS_OK ? data : NULL;
}

static void cuda_free(void *data)
{
    kvs_device_free(cuda, data, 0);
}

static void cuda_write(void *data, const void *from, size_t n_bytes)
{
    (void)kvs_device_copy(cuda, data, cpu, from, n_bytes);
}

static void cuda_read(const void *data, void *to, size_t n_bytes)
{
    (void)kvs_device_copy(cpu, to, cuda, data, n_bytes);
}

static const cf_memory_t memories[] = {
    {"cpu", KVS_DEVICE_CPU, host_alloc, free, host_write, host_read},
    {"cuda", KVS_DEVICE_CUDA, cuda_alloc, cuda_free, cuda_write, cuda_read},
};
enum { N_MEMORIES = sizeof(memories) / sizeof(memories[0]) };

/* ---- Rules ----------------------------------------------------------------------------------- */

size_t kvs_conformance_n_rules(void)
{
    size_t n = 0;

    for (size_t i = 0; i < N_THEMES; i++) {
        n += themes[i]->n_cases;
    }
    return n;
}

static const cf_case_t *case_at(size_t index)
{
    for (size_t i = 0; i < N_THEMES; i++) {
        if (index < themes[i]->n_cases) {
            return &themes[i]->cases[index];
        }
        index -= themes[i]->n_cases;
    }
    return NULL;
}

kvs_conformance_rule_t kvs_conformance_rule(size_t index)
{
    const cf_case_t *which = case_at(index);
    kvs_conformance_rule_t rule = {which ? which->id : NULL, which ? which->text : NULL};

    return rule;
}

const char *kvs_conformance_verdict_text(kvs_conformance_verdict_t verdict)
{
    static const char *const texts[] = {"passed", "failed", "not applicable"};

    return texts[verdict];
}

/* ---- What the backend offers ----------------------------------------------------------------- */

static kvs_status_t keep_value(const kvs_key_t *key, const kvs_tensor_t *value,
                               const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    (void)arg;
    return KVS_OK;
}

static kvs_status_t find_weights(cf_t *t)
{
    kvs_key_t key = kvs_key_int(0);
    cf_array_t *value = cf_vector(t, KVS_DTYPE_float32, 1);
    kvs_status_t status = kvs_store_init(t->store, &key, 1, CF_LIST(t, value), NULL);

    if (status != KVS_OK && status != KVS_ERR_NOT_IMPLEMENTED) {
        return status;
    }
    t->traits |= status == KVS_OK ? CF_WEIGHTS : CF_NO_WEIGHTS;
    return KVS_OK;
}

static kvs_status_t find_capability(cf_t *t, const char *name, unsigned if_so, unsigned if_not)
{
    int capable = 0;
    kvs_status_t status = kvs_store_is_capable(t->store, name, &capable);

    t->traits |= capable ? if_so : if_not;
    return status;
}

/* Asked of a backend that keeps weights, of the key that find_weights has left. */
static kvs_status_t find_replacing(cf_t *t)
{
    kvs_key_t key = kvs_key_int(0);
    cf_array_t *value = cf_vector(t, KVS_DTYPE_float32, 1);

    if ((t->traits & CF_WEIGHTS) == 0 ||
        kvs_store_push(t->store, &key, 1, CF_LIST(t, value), NULL) != KVS_ERR_STATE) {
        t->traits |= CF_REPLACES; /* other errors are for the cases to find */
    }
    return KVS_OK;
}

static kvs_status_t find_updater(cf_t *t)
{
    kvs_status_t status = kvs_store_set_updater(t->store, keep_value, NULL);

    if (status == KVS_OK) {
        t->traits |= CF_UPDATER;
    }
    return status == KVS_ERR_NOT_IMPLEMENTED ? KVS_OK : status;
}

/* Without an optimizer, or such a file, it can't succeed; it may be said why. */
static kvs_status_t find_states(cf_t *t)
{
    kvs_status_t status = kvs_store_load_optimizer_states(t->store, "/nonexistent");

    if (status != KVS_ERR_NOT_IMPLEMENTED && (t->traits & CF_OPTIMIZER) != 0) {
        t->traits |= CF_STATES;
    }
    return KVS_OK;
}

/* As its manifest says; a backend of the program has none and is for one. */
static bool is_for_several_workers(const char *name)
{
    const kvs_plugin_info_t *plugin = NULL;
    kvs_plugin_list_t *list = NULL;
    bool several = false;

    if (kvs_plugin_list(&list) == KVS_OK && kvs_plugin_list_find(list, name, &plugin) == KVS_OK) {
        for (size_t i = 0; i < plugin->n_provides; i++) {
            several = several || plugin->provides[i].multi_worker;
        }
    }
    kvs_plugin_list_free(list);
    return several;
}

/* Exchanges of an array, and of two. Whoever keeps weights takes lists. */
static kvs_status_t find_lists(cf_t *t)
{
    kvs_key_t key = kvs_key_int(0);
    cf_array_t *a = cf_vector(t, KVS_DTYPE_float32, 1), *b = cf_vector(t, KVS_DTYPE_float32, 1);
    kvs_status_t status;

    if (cf_keeps_weights(t)) {
        t->traits |= CF_LISTS;
        return KVS_OK;
    }
    status = kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, a), NULL, NULL);
    if (status == KVS_ERR_UNAVAILABLE) {
        t->traits |= CF_NOT_ALLOWED;
        return KVS_OK;
    }
    if (status != KVS_OK) {
        return status;
    }
    status = kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, a, b), NULL, NULL);
    t->traits |= status == KVS_ERR_ARGUMENT ? CF_NO_LISTS : CF_LISTS;
    return status == KVS_ERR_ARGUMENT ? KVS_OK : status;
}

static kvs_status_t find_traits(cf_t *t)
{
    kvs_status_t status = kvs_store_num_workers(t->store, &t->n_workers);

    if (status == KVS_OK) {
        status = kvs_store_rank(t->store, &t->rank);
    }
    t->traits |= t->n_workers == 1 ? CF_ONE_WORKER : 0;
    if (status == KVS_OK) {
        status = find_weights(t);
    }
    if (status == KVS_OK) {
        status = find_replacing(t);
    }
    if (status == KVS_OK) {
        status = find_lists(t);
    }
    if (status == KVS_OK) {
        status = find_updater(t);
    }
    if (status == KVS_OK) {
        status = find_capability(t, "optimizer", CF_OPTIMIZER, CF_NO_OPTIMIZER);
    }
    if (status == KVS_OK) {
        status = find_states(t);
    }
    if (status == KVS_OK) {
        status = find_capability(t, "sparse", CF_SPARSE, CF_NO_SPARSE);
    }
    if (status == KVS_OK) {
        status = find_capability(t, "gradient_compression", CF_COMPRESSION, CF_NO_COMPRESSION);
    }
    if (status == KVS_OK) {
        status = find_capability(t, "async", CF_ASYNC, CF_IN_STEP);
        t->traits |= t->n_workers == 1 ? CF_IN_STEP : 0;
    }
    if (status == KVS_OK && !is_for_several_workers(kvs_store_type(t->store))) {
        t->traits |= CF_COMPRESSES_EACH | CF_PULLS_SPARSE;
    } else {
        t->traits |= CF_NO_SPARSE_PULL;
    }
    return status;
}

/* `ret_usable`: whether the backend takes arrays there at all, and there are such devices, whose lack is
 * an error only if they are wanted. */
static kvs_status_t explore(cf_t *t, bool is_wanted, bool *ret_usable)
{
    kvs_device_t device = {t->memory->device_type, 0};
    kvs_status_t status = cf_create(t, NULL, &t->store);
    kvs_status_t closed;
    int usable = 0, n_devices = 0;

    if (status != KVS_OK) {
        return status;
    }
    if (setjmp(t->out_of_memory) != 0) {
        (void)kvs_store_close(t->store); /* the lack of memory is the error to report */
        cf_release(t);
        return kvs_fail(KVS_ERR_NO_MEMORY, "conformance: out of memory");
    }
    status = kvs_store_supports(t->store, kvs_dtype(KVS_DTYPE_float32), device, &usable);
    if (status == KVS_OK && usable) {
        status = kvs_device_count(device.type, &n_devices);
        usable = status == KVS_OK;
        status = is_wanted ? status : KVS_OK;
    }
    if (status == KVS_OK && usable) {
        status = find_traits(t);
    }
    *ret_usable = usable != 0;
    closed = kvs_store_close(t->store);
    t->store = NULL;
    cf_release(t);
    return status != KVS_OK ? status : closed;
}

/* ---- Running --------------------------------------------------------------------------------- */

static const char *lacking(unsigned lacks)
{
    static const struct {
        unsigned need;
        const char *text;
    } reasons[] = {
        {CF_WEIGHTS, "the backend keeps no weights"},
        {CF_NO_WEIGHTS, "the backend keeps weights"},
        {CF_UPDATER, "the backend takes no updater"},
        {CF_OPTIMIZER, "the backend has no optimizer"},
        {CF_NO_OPTIMIZER, "the backend has an optimizer"},
        {CF_SPARSE, "the backend takes no row-sparse values"},
        {CF_STATES, "the backend saves no states of optimizers"},
        {CF_NO_SPARSE, "the backend takes row-sparse values"},
        {CF_NO_COMPRESSION, "the backend compresses gradients"},
        {CF_COMPRESSION, "the backend does not compress gradients"},
        {CF_REPLACES, "a push needs an updater or optimizer"},
        {CF_IN_STEP, "the workers of the job are not in step"},
        {CF_ASYNC, "the backend is not asynchronous"},
        {CF_COMPRESSES_EACH, "the backend compresses the sum of a worker's values"},
        {CF_PULLS_SPARSE, "row-sparse keys of this backend are pulled by row_sparse_pull only"},
        {CF_NO_SPARSE_PULL, "row-sparse keys of this backend can be pulled"},
        {CF_LISTS, "the backend takes one key and one array a call"},
        {CF_NO_LISTS, "the backend takes lists"},
        {CF_NOT_ALLOWED, "the backend takes these arrays without being told to"},
        {CF_ONE_WORKER, "the job has several workers"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (lacks & reasons[i].need) {
            return reasons[i].text;
        }
    }
    return "";
}

static void run_case(cf_t *t, const cf_case_t *which)
{
    kvs_status_t status = cf_create(t, NULL, &t->store);

    if (status != KVS_OK) {
        cf_check_ok(t, status, "kvs_store_create");
        return;
    }
    if (setjmp(t->out_of_memory) == 0) {
        which->run(t);
    }
    CF_OK(t, kvs_store_barrier(t->store));
    status = kvs_store_close(t->store);
    cf_check_ok(t, status, "kvs_store_close");
    if (status == KVS_ERR_TIMEOUT) {
        t->arrays = NULL; /* operations that go on may still use them */
        t->blocks = NULL;
    }
    cf_check_margins(t);
    cf_release(t);
    t->store = NULL;
}

static kvs_conformance_verdict_t verdict_of(const cf_t *t)
{
    if (t->failed) {
        return KVS_CONFORMANCE_FAILED;
    }
    return t->skipped ? KVS_CONFORMANCE_NOT_APPLICABLE : KVS_CONFORMANCE_PASSED;
}

static void count(kvs_conformance_counts_t *counts, kvs_conformance_verdict_t verdict)
{
    counts->n_passed += verdict == KVS_CONFORMANCE_PASSED;
    counts->n_failed += verdict == KVS_CONFORMANCE_FAILED;
    counts->n_not_applicable += verdict == KVS_CONFORMANCE_NOT_APPLICABLE;
    counts->n_cases += verdict != KVS_CONFORMANCE_NOT_APPLICABLE;
}

static void try_case(cf_t *t, const cf_case_t *which, const kvs_conformance_options_t *options,
                     kvs_conformance_counts_t *counts)
{
    unsigned lacks = which->needs & ~t->traits;
    kvs_conformance_result_t result = {{which->id, which->text}, t->memory->name, 0, t->text};

    t->failed = t->skipped = false;
    t->text[0] = '\0';
    if ((t->traits & ~which->needs & CF_NOT_ALLOWED) != 0) {
        cf_skip(t, "the backend takes these arrays with the option allow_%s=1 only",
                t->memory->name);
    } else if (lacks) {
        cf_skip(t, "%s", lacking(lacks));
    } else {
        run_case(t, which);
    }
    result.verdict = verdict_of(t);
    count(counts, result.verdict);
    if (options->on_result != NULL) {
        options->on_result(&result, options->arg);
    }
}

static void run_on(cf_t *t, const kvs_conformance_options_t *options,
                   kvs_conformance_counts_t *counts)
{
    size_t used = strlen(counts->devices);

    snprintf(counts->devices + used, sizeof(counts->devices) - used, "%s%s", used ? ", " : "",
             t->memory->name);
    for (size_t i = 0; i < kvs_conformance_n_rules(); i++) {
        const cf_case_t *which = case_at(i);

        if (options->only == NULL || strcmp(options->only, which->id) == 0) {
            t->number = i;
            try_case(t, which, options, counts);
        }
    }
}

static kvs_status_t check_arguments(const char *name, const kvs_conformance_options_t *options)
{
    if (name == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "conformance: the backend's name is NULL");
    }
    if (options->size != sizeof(*options)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "conformance: the options' size is %u; begin with KVS_CONFORMANCE_INIT "
                        "(size %zu)",
                        options->size, sizeof(*options));
    }
    if (options->only == NULL) {
        return KVS_OK;
    }
    for (size_t i = 0; i < kvs_conformance_n_rules(); i++) {
        if (strcmp(options->only, case_at(i)->id) == 0) {
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_ARGUMENT, "conformance: no rule \"%s\"; --list shows them",
                    options->only);
}

static kvs_status_t run_on_all(cf_t *t, const kvs_conformance_options_t *options,
                               kvs_conformance_counts_t *counts)
{
    for (size_t i = 0; i < N_MEMORIES; i++) {
        bool usable = false;
        kvs_status_t status;

        if (options->device != NULL && strcmp(options->device, memories[i].name) != 0) {
            continue;
        }
        t->memory = &memories[i];
        t->traits = 0;
        status = explore(t, options->device != NULL, &usable);
        if (status != KVS_OK) {
            return status;
        }
        if (usable) {
            run_on(t, options, counts);
        }
    }
    if (counts->devices[0] == '\0') {
        return kvs_fail(
            KVS_ERR_NOT_IMPLEMENTED,
            "conformance: backend '%s' takes no arrays on %s; the suite has cpu and cuda",
            t->backend, options->device ? options->device : "any device");
    }
    return KVS_OK;
}

kvs_status_t kvs_conformance_run(const char *name, const kvs_conformance_options_t *options,
                                 kvs_conformance_counts_t *ret_counts)
{
    static const kvs_conformance_options_t defaults = KVS_CONFORMANCE_INIT;
    kvs_conformance_counts_t counts = {0};
    kvs_status_t status;
    cf_t *t;

    options = options ? options : &defaults;
    status = check_arguments(name, options);
    if (status != KVS_OK) {
        return status;
    }
    t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "conformance: out of memory");
    }
    t->backend = name;
    t->options = options->store_options;
    t->n_options = options->n_store_options;
    status = run_on_all(t, options, &counts);
    free(t);
    if (status == KVS_OK) {
        *ret_counts = counts;
    }
    return status;
}
