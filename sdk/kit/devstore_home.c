/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_home.c - a key's weight, with what belongs to it, moves to devices and back. It is small work:
 * a key moves out at its first push from devices, and home when something needs it there, such as a
 * file of states or an updater of the program. */
#include "devstore.h"
#include "residuals.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- Memory of parts ------------------------------------------------------------------------------- */

static int state_dtype(const kvs_opt_t *opt, const kvs_key_entry_t *entry)
{
    return kvs_opt_has_master(opt, entry) ? KVS_DTYPE_float32 : kvs_dtype_index(entry->dtype);
}

static kvs_status_t make_array(const kvs_provider_t *provider, const kvs_dev_part_t *part,
                               int dtype, void *io_array)
{
    return provider->alloc(part->device, (size_t)part->n * kvs_dtype_bytes(dtype),
                           (void **)io_array);
}

static void free_array(const kvs_provider_t *provider, const kvs_dev_part_t *part, int dtype,
                       void *io_array)
{
    void **array = io_array;

    provider->free(part->device, *array, (size_t)part->n * kvs_dtype_bytes(dtype));
    *array = NULL;
}

/* What a part has of a state: of one per row, whose key is a single part, a number a row. */
static kvs_dev_part_t range_of_state(const kvs_opt_t *opt, const kvs_key_entry_t *entry,
                                     const kvs_dev_part_t *part, size_t state)
{
    kvs_dev_part_t range = *part;

    if (opt != NULL && state < opt->kind->n_states &&
        (opt->kind->states[state].flags & KVS_STATE_PER_ROW) != 0) {
        range.n = kvs_opt_n_rows(entry);
    }
    return range;
}

/* The dtype of a state is that of the optimizer in force, which is the one that made it: settings move
 * keys home before they change it. */
static void release_part(kvs_devstore_t *store, const kvs_provider_t *provider,
                         const kvs_devstore_key_t *key, kvs_dev_part_t *part)
{
    int dtype = kvs_dtype_index(key->host.entry->dtype);

    for (size_t i = 0; i < KVS_OPTIMIZER_MAX_STATES; i++) {
        kvs_dev_part_t range = range_of_state(store->host.opt, key->host.entry, part, i);

        free_array(provider, &range,
                   store->host.opt != NULL ? state_dtype(store->host.opt, key->host.entry) : dtype,
                   &part->states[i]);
    }
    for (size_t i = 0; part->residuals != NULL && i < key->n_residuals; i++) {
        free_array(provider, part, KVS_DTYPE_float32, &part->residuals[i]);
    }
    free(part->residuals);
    free_array(provider, part, KVS_DTYPE_float32, &part->master);
    if (part->weight != NULL) {
        __atomic_fetch_sub(&store->n_bytes[part->device.id % 64],
                           (uint64_t)part->n * kvs_dtype_bytes(dtype), __ATOMIC_RELAXED);
    }
    free_array(provider, part, dtype, &part->weight);
}

void kvs_dev_release_parts(kvs_devstore_t *store, kvs_devstore_key_t *key)
{
    const kvs_provider_t *provider;

    if (key->parts != NULL && kvs_dev_provider(&provider) == KVS_OK) {
        for (size_t i = 0; i < key->n_parts; i++) {
            release_part(store, provider, key, &key->parts[i]);
        }
    }
    free(key->parts);
    key->parts = NULL;
    key->n_parts = key->n_residuals = 0;
}

/* ---- Where to -------------------------------------------------------------------------------------- */

/* The distinct devices of the values, in list order; managed memory names none. */
static size_t list_devices(const kvs_dev_task_t *task, kvs_device_t *ret_devices, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < task->n_values; i++) {
        kvs_device_t device = task->group->values[i].device;
        size_t j = 0;

        if (!kvs_dev_is(&task->group->values[i])) {
            continue;
        }
        device.id = device.type == KVS_DEVICE_CUDA ? device.id : 0;
        device.type = KVS_DEVICE_CUDA;
        while (j < n && ret_devices[j].id != device.id) {
            j++;
        }
        if (j == n && n < max) {
            ret_devices[n++] = device;
        }
    }
    return n;
}

static int all_reach(const kvs_provider_t *provider, const kvs_device_t *devices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (i != j && provider->reaches(devices[i].id, devices[j].id) == 0) {
                return 0;
            }
        }
    }
    return 1;
}

static kvs_device_t least_loaded(const kvs_devstore_t *store, const kvs_device_t *devices, size_t n)
{
    kvs_device_t best = devices[0];
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < n; i++) {
        uint64_t load = __atomic_load_n(&store->n_bytes[devices[i].id % 64], __ATOMIC_RELAXED);

        if (load < least) {
            least = load;
            best = devices[i];
        }
    }
    return best;
}

static int has_rows(const kvs_devstore_t *store)
{
    return store->host.opt != NULL && kvs_opt_has_rows(store->host.opt);
}

int64_t kvs_dev_row_elems(const kvs_dev_task_t *task)
{
    const kvs_key_entry_t *entry = task->group->key;

    return has_rows(task->store) ? entry->n_elems / kvs_opt_n_rows(entry) : 0;
}

/* Cut the key: over all devices that push it if it is big and they reach one another. */
static size_t plan_parts(const kvs_dev_task_t *task, kvs_dev_part_t *parts, size_t max)
{
    kvs_device_t devices[64] = {{0, 0}};
    size_t n_devices = list_devices(task, devices, max);
    int64_t n_elems = task->group->key->n_elems;
    int64_t n_blocks = n_elems / KVS_DEV_CUT;
    size_t n_parts = n_blocks < 1 ? 1 : (size_t)n_blocks < n_devices ? (size_t)n_blocks : n_devices;

    if (n_parts == 1 || task->store->collective != NULL || has_rows(task->store) ||
        !all_reach(task->provider, devices, n_devices)) {
        parts[0] =
            (kvs_dev_part_t){.device = least_loaded(task->store, devices, n_devices), .n = n_elems};
        return 1;
    }
    for (size_t i = 0; i < n_parts; i++) {
        int64_t begin = n_blocks * (int64_t)i / (int64_t)n_parts * KVS_DEV_CUT;
        int64_t end = i + 1 < n_parts ? n_blocks * (int64_t)(i + 1) / (int64_t)n_parts * KVS_DEV_CUT
                                      : n_elems;

        parts[i] = (kvs_dev_part_t){.device = devices[i], .begin = begin, .n = end - begin};
    }
    return n_parts;
}

/* ---- Out ------------------------------------------------------------------------------------------- */

/* A new array of the part from that of the whole key on the host. */
static kvs_status_t upload(const kvs_provider_t *provider, const kvs_dev_part_t *part, int dtype,
                           const void *whole, void *io_array)
{
    size_t elem_bytes = kvs_dtype_bytes(dtype);
    kvs_status_t status = make_array(provider, part, dtype, io_array);

    return status == KVS_OK
               ? provider->copy(part->queue, part->device, *(void **)io_array, host_device,
                                (const char *)whole + (size_t)part->begin * elem_bytes,
                                (size_t)part->n * elem_bytes)
               : status;
}

static kvs_status_t upload_part(const kvs_dev_task_t *task, kvs_dev_part_t *part)
{
    const kvs_devstore_key_t *key = task->key;
    const kvs_opt_states_t *states = key->host.opt.states;
    kvs_status_t status = task->provider->queue(part->device, &part->queue);

    if (status == KVS_OK) {
        status = upload(task->provider, part, task->dtype, key->host.weight, &part->weight);
    }
    if (part->weight != NULL) {
        __atomic_fetch_add(&task->store->n_bytes[part->device.id % 64],
                           (uint64_t)part->n * task->elem_bytes, __ATOMIC_RELAXED);
    }
    if (status == KVS_OK && states != NULL && states->master != NULL) {
        status = upload(task->provider, part, KVS_DTYPE_float32, states->master, &part->master);
    }
    for (size_t i = 0; states != NULL && i < KVS_OPTIMIZER_MAX_STATES && status == KVS_OK; i++) {
        if (states->data[i] != NULL) {
            kvs_dev_part_t range = range_of_state(task->store->host.opt, task->group->key, part, i);

            status =
                upload(task->provider, &range, states->dtype, states->data[i], &part->states[i]);
        }
    }
    return status;
}

static kvs_status_t upload_residuals(const kvs_dev_task_t *task)
{
    const kvs_residuals_t *residuals = &task->key->host.residuals;
    kvs_status_t status = kvs_dev_reserve_residuals(task, residuals->n);

    for (size_t i = 0; i < task->key->n_parts; i++) {
        kvs_dev_part_t *part = &task->key->parts[i];

        for (size_t place = 0; place < residuals->n && status == KVS_OK; place++) {
            status = task->provider->copy(
                part->queue, part->device, part->residuals[place], host_device,
                kvs_residuals_at(residuals, place) + part->begin, (size_t)part->n * sizeof(float));
        }
    }
    return status;
}

/* Nothing is left on the host but the count of updates. */
static void forget_host_arrays(kvs_devstore_key_t *key)
{
    int64_t n_updates = key->host.opt.n_updates;

    kvs_opt_key_release(&key->host.opt);
    key->host.opt.n_updates = n_updates;
    kvs_residuals_release(&key->host.residuals);
    kvs_cpu_provider()->free(host_device, key->host.merge, key->host.n_bytes);
    kvs_cpu_provider()->free(host_device, key->host.weight, key->host.n_bytes);
    key->host.merge = key->host.weight = NULL;
}

kvs_status_t kvs_dev_move_out(kvs_dev_task_t *task)
{
    kvs_devstore_key_t *key = task->key;
    kvs_dev_part_t planned[64];
    kvs_status_t status = KVS_OK;

    if (key->parts != NULL) {
        return KVS_OK;
    }
    key->n_parts = plan_parts(task, planned, 64);
    key->parts = malloc(key->n_parts * sizeof(*key->parts));
    if (key->parts == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu parts", key->n_parts);
    }
    memcpy(key->parts, planned, key->n_parts * sizeof(*key->parts));
    for (size_t i = 0; i < key->n_parts && status == KVS_OK; i++) {
        status = upload_part(task, &key->parts[i]);
    }
    if (status == KVS_OK) {
        status = upload_residuals(task);
    }
    if (status != KVS_OK) {
        kvs_dev_release_parts(task->store, key);
        return kvs_fail_context(status, "moving the weight to its devices");
    }
    forget_host_arrays(key);
    return KVS_OK;
}

/* ---- Home ------------------------------------------------------------------------------------------- */

static kvs_status_t download(const kvs_provider_t *provider, const kvs_dev_part_t *part, int dtype,
                             const void *array, void *whole)
{
    size_t elem_bytes = kvs_dtype_bytes(dtype);

    return provider->copy(part->queue, host_device,
                          (char *)whole + (size_t)part->begin * elem_bytes, part->device, array,
                          (size_t)part->n * elem_bytes);
}

/* Host states like those of the parts, which are alike. */
static kvs_status_t make_host_states(const kvs_devstore_t *store, kvs_devstore_key_t *key)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < KVS_OPTIMIZER_MAX_STATES; i++) {
        mask |= (uint32_t)(key->parts[0].states[i] != NULL) << i;
    }
    if (store->host.opt == NULL || (mask == 0 && key->parts[0].master == NULL)) {
        return KVS_OK;
    }
    return kvs_opt_states_new(store->host.opt, key->host.entry, mask, &key->host.opt.states);
}

static kvs_status_t download_part(const kvs_provider_t *provider, const kvs_opt_t *opt,
                                  kvs_devstore_key_t *key, const kvs_dev_part_t *part)
{
    kvs_opt_states_t *states = key->host.opt.states;
    kvs_status_t status = download(provider, part, kvs_dtype_index(key->host.entry->dtype),
                                   part->weight, key->host.weight);

    if (status == KVS_OK && part->master != NULL) {
        status = download(provider, part, KVS_DTYPE_float32, part->master, states->master);
    }
    for (size_t i = 0; i < KVS_OPTIMIZER_MAX_STATES && status == KVS_OK; i++) {
        if (part->states[i] != NULL) {
            kvs_dev_part_t range = range_of_state(opt, key->host.entry, part, i);

            status = download(provider, &range, states->dtype, part->states[i], states->data[i]);
        }
    }
    for (size_t i = 0; i < key->n_residuals && status == KVS_OK; i++) {
        status = download(provider, part, KVS_DTYPE_float32, part->residuals[i],
                          key->host.residuals.items[i].data);
    }
    return status;
}

kvs_status_t kvs_dev_move_home(kvs_devstore_t *store, kvs_key_entry_t *entry)
{
    kvs_devstore_key_t *key = kvs_dev_key(entry);
    const kvs_provider_t *provider;
    kvs_status_t status = key->parts != NULL ? kvs_dev_provider(&provider) : KVS_OK;

    if (key->parts == NULL || status != KVS_OK) {
        return status;
    }
    status = kvs_cpu_provider()->alloc(host_device, key->host.n_bytes, &key->host.weight);
    if (status == KVS_OK) {
        status = make_host_states(store, key);
    }
    if (status == KVS_OK && key->n_residuals > 0) {
        status = kvs_residuals_reserve(&key->host.residuals, entry->n_elems, key->n_residuals);
    }
    for (size_t i = 0; i < key->n_parts && status == KVS_OK; i++) {
        status = download_part(provider, store->host.opt, key, &key->parts[i]);
    }
    if (status != KVS_OK) {
        forget_host_arrays(key); /* it stays on its devices */
        return kvs_fail_context(status, "moving the weight to the host");
    }
    kvs_dev_release_parts(store, key);
    return KVS_OK;
}

/* ---- States and residuals of parts -------------------------------------------------------------------- */

static kvs_status_t make_state(const kvs_dev_task_t *task, kvs_dev_part_t *part, size_t index)
{
    const kvs_opt_t *opt = task->store->host.opt;
    int dtype = state_dtype(opt, task->group->key);
    kvs_dev_part_t range = range_of_state(opt, task->group->key, part, index);
    kvs_status_t status = make_array(task->provider, &range, dtype, &part->states[index]);

    if (status == KVS_OK && (opt->kind->states[index].flags & KVS_STATE_FROM_WEIGHT) != 0) {
        status = task->provider->convert(part->queue, part->n, task->dtype, part->weight, dtype,
                                         part->states[index]);
    }
    return status;
}

kvs_status_t kvs_dev_begin_step(const kvs_dev_task_t *task, kvs_dev_part_t *part)
{
    const kvs_opt_t *opt = task->store->host.opt;
    uint32_t used = kvs_opt_states_used(opt);
    kvs_status_t status = KVS_OK;

    if (kvs_opt_has_master(opt, task->group->key) && part->master == NULL) {
        status = make_array(task->provider, part, KVS_DTYPE_float32, &part->master);
        if (status == KVS_OK) {
            status = task->provider->convert(part->queue, part->n, task->dtype, part->weight,
                                             KVS_DTYPE_float32, part->master);
        }
    }
    for (size_t i = 0; i < KVS_OPTIMIZER_MAX_STATES && status == KVS_OK; i++) {
        int is_used = i < opt->kind->n_states && (used & 1u << i) != 0;

        if (is_used && part->states[i] == NULL) {
            status = make_state(task, part, i);
        } else if (!is_used && part->states[i] != NULL) {
            kvs_dev_part_t range = range_of_state(opt, task->group->key, part, i);

            free_array(task->provider, &range, state_dtype(opt, task->group->key),
                       &part->states[i]);
        }
    }
    return status;
}

kvs_status_t kvs_dev_reserve_residuals(const kvs_dev_task_t *task, size_t n_places)
{
    kvs_devstore_key_t *key = task->key;
    kvs_status_t status = KVS_OK;

    if (n_places <= key->n_residuals) {
        return KVS_OK;
    }
    for (size_t i = 0; i < key->n_parts && status == KVS_OK; i++) {
        kvs_dev_part_t *part = &key->parts[i];
        float **grown = realloc(part->residuals, n_places * sizeof(*grown));

        if (grown == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu residuals", n_places);
        }
        part->residuals = grown;
        memset(grown + key->n_residuals, 0, (n_places - key->n_residuals) * sizeof(*grown));
    }
    size_t first = key->n_residuals;

    key->n_residuals = n_places; /* those without memory are NULL: release passes over them */
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t place = first; place < n_places && status == KVS_OK; place++) {
            status = make_array(task->provider, &key->parts[i], KVS_DTYPE_float32,
                                &key->parts[i].residuals[place]);
        }
    }
    if (status != KVS_OK) {
        for (size_t i = 0; i < key->n_parts; i++) {
            for (size_t place = first; place < n_places; place++) {
                free_array(task->provider, &key->parts[i], KVS_DTYPE_float32,
                           &key->parts[i].residuals[place]);
            }
        }
        key->n_residuals = first;
    }
    return status;
}

kvs_status_t kvs_devstore_settle(kvs_devstore_t *store, kvs_key_entry_t *entry,
                                 const kvs_device_t *devices, size_t n_devices, size_t *ret_place)
{
    const kvs_devstore_key_t *key = kvs_dev_key(entry);
    size_t i = 0;

    while (i < n_devices && key->n_parts == 1 && key->parts[0].device.id != devices[i].id) {
        i++;
    }
    if (key->n_parts == 1 && i < n_devices) {
        *ret_place = i;
        return KVS_OK;
    }
    *ret_place = 0;
    return kvs_dev_move_home(store, entry);
}
