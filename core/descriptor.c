/* SPDX-License-Identifier: Apache-2.0 */
/* descriptor.c - see descriptor.h. */
#include "descriptor.h"

#include "catalogue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const void *complain(kvsi_complaint_t *complaint, const char *format, ...) KVS_PRINTF(2, 3);
static const void *complain(kvsi_complaint_t *complaint, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(complaint->text, sizeof(complaint->text), format, args);
    va_end(args);
    return NULL;
}

/* Every table begins with its size, as uint32_t. */
static void *copy_table(kvsi_arena_t *arena, const void *table, uint32_t own_size)
{
    void *copy = kvsi_arena_array(arena, 1, own_size);
    uint32_t size;

    if (copy != NULL) {
        memcpy(&size, table, sizeof(size));
        size = size < own_size ? size : own_size;
        memcpy(copy, table, size);
        memcpy(copy, &size, sizeof(size));
    }
    return copy;
}

/* Whether a table of that size holds the member; sizes below that of the first header are
 * faults. */
#define REACHES(table, member)                                                                     \
    ((table)->size >= offsetof(__typeof__(*(table)), member) + sizeof((table)->member))

/* ---- Backends ------------------------------------------------------------------------------- */

static const kvs_backend_ops_t *copy_ops(kvsi_arena_t *arena, const char *name,
                                         const kvs_backend_ops_t *ops, kvsi_complaint_t *complaint)
{
    const kvs_backend_ops_t *copy;

    if (!REACHES(ops, close)) {
        return complain(complaint,
                        "backend '%s': its operations table has %u bytes, too few to hold"
                        " open and close",
                        name, (unsigned)ops->size);
    }
    copy = copy_table(arena, ops, (uint32_t)sizeof(*ops));
    if (copy == NULL) {
        return NULL;
    }
    if (copy->mode != KVS_BLOCKING && copy->mode != KVS_ASYNCHRONOUS) {
        return complain(complaint,
                        "backend '%s': mode is %u, neither KVS_BLOCKING nor KVS_ASYNCHRONOUS", name,
                        (unsigned)copy->mode);
    }
    if (copy->open == NULL || copy->close == NULL) {
        return complain(complaint, "backend '%s' has no function %s", name,
                        copy->open == NULL ? "open" : "close");
    }
    if (copy->pushpull == NULL && (copy->push == NULL || copy->pull == NULL)) {
        return complain(complaint, "backend '%s' has no function pushpull, nor push and pull",
                        name);
    }
    return copy;
}

const kvs_backend_t *kvsi_backend_copy(kvsi_arena_t *arena, const kvs_backend_t *backend,
                                       kvsi_complaint_t *ret_complaint)
{
    kvs_backend_t *copy;

    ret_complaint->text[0] = '\0';
    if (!REACHES(backend, ops)) {
        return complain(ret_complaint, "a backend's table has %u bytes, too few to hold ops",
                        (unsigned)backend->size);
    }
    copy = copy_table(arena, backend, (uint32_t)sizeof(*backend));
    if (copy == NULL) {
        return NULL;
    }
    if (copy->name == NULL || copy->name[0] == '\0') {
        return complain(ret_complaint, "a backend has no name");
    }
    if (copy->ops == NULL) {
        return complain(ret_complaint, "backend '%s' has no operations table", copy->name);
    }
    if (copy->n_device_types > 0 && copy->device_types == NULL) {
        return complain(ret_complaint, "backend '%s': device_types is NULL", copy->name);
    }
    if (copy->n_options > 0 && copy->options == NULL) {
        return complain(ret_complaint, "backend '%s': options is NULL", copy->name);
    }
    copy->ops = copy_ops(arena, copy->name, copy->ops, ret_complaint);
    return copy->ops != NULL ? copy : NULL;
}

/* ---- Optimizers, compressors and providers --------------------------------------------------- */

static const kvs_optimizer_t *copy_optimizer(kvsi_arena_t *arena, const kvs_optimizer_t *optimizer,
                                             kvsi_complaint_t *complaint)
{
    const kvs_optimizer_t *copy = copy_table(arena, optimizer, (uint32_t)sizeof(*optimizer));

    if (copy == NULL) {
        return NULL;
    }
    if (copy->name == NULL || copy->name[0] == '\0') {
        return complain(complaint, "an optimizer has no name");
    }
    if (copy->scalars == NULL || copy->step_f32 == NULL || copy->step_f64 == NULL) {
        return complain(complaint, "optimizer '%s' has no function %s", copy->name,
                        copy->scalars == NULL    ? "scalars"
                        : copy->step_f32 == NULL ? "step_f32"
                                                 : "step_f64");
    }
    if (copy->n_states > KVS_OPTIMIZER_MAX_STATES) {
        return complain(complaint, "optimizer '%s' has %zu states, more than %d", copy->name,
                        copy->n_states, KVS_OPTIMIZER_MAX_STATES);
    }
    return copy;
}

static const kvs_optimizer_service_t *copy_service(kvsi_arena_t *arena,
                                                   const kvs_optimizer_service_t *service,
                                                   kvsi_complaint_t *complaint)
{
    const kvs_optimizer_service_t *copy = copy_table(arena, service, (uint32_t)sizeof(*service));

    if (copy == NULL) {
        return NULL;
    }
    if (copy->create == NULL || copy->free == NULL || copy->update == NULL ||
        copy->set_attr == NULL || copy->save_states == NULL || copy->load_states == NULL) {
        return complain(complaint, "its service of optimizers lacks a function");
    }
    if (copy->n_params > 0 && copy->params == NULL) {
        return complain(complaint, "its service of optimizers: params is NULL");
    }
    return copy;
}

static const kvs_compressor_t *copy_compressor(kvsi_arena_t *arena,
                                               const kvs_compressor_t *compressor,
                                               kvsi_complaint_t *complaint)
{
    const kvs_compressor_t *copy = copy_table(arena, compressor, (uint32_t)sizeof(*compressor));

    if (copy == NULL) {
        return NULL;
    }
    if (copy->name == NULL || copy->name[0] == '\0') {
        return complain(complaint, "a compressor has no name");
    }
    if (copy->packed_bytes == NULL || copy->encode == NULL || copy->decode == NULL ||
        copy->decode_add == NULL) {
        return complain(complaint,
                        "compressor '%s' lacks one of packed_bytes, encode, decode and decode_add",
                        copy->name);
    }
    if (copy->unit == 0 || KVS_COMPRESSOR_BLOCK % copy->unit != 0) {
        return complain(complaint, "compressor '%s': unit is %u, which doesn't divide %d",
                        copy->name, (unsigned)copy->unit, KVS_COMPRESSOR_BLOCK);
    }
    if (copy->n_params > KVS_COMPRESSOR_MAX_PARAMS) {
        return complain(complaint, "compressor '%s' has %zu parameters, more than %d", copy->name,
                        copy->n_params, KVS_COMPRESSOR_MAX_PARAMS);
    }
    return copy;
}

static const kvs_provider_t *copy_provider(kvsi_arena_t *arena, const kvs_provider_t *provider,
                                           kvsi_complaint_t *complaint)
{
    const kvs_provider_t *copy = copy_table(arena, provider, (uint32_t)sizeof(*provider));

    if (copy == NULL) {
        return NULL;
    }
    if (copy->name == NULL || copy->name[0] == '\0') {
        return complain(complaint, "a device provider has no name");
    }
    const char *name = kvsi_device_name(copy->device_type);
    if (name != NULL && strcmp(name, copy->name) != 0) {
        return complain(complaint,
                        "device provider '%s' serves device type %d, which is named '%s'",
                        copy->name, (int)copy->device_type, name);
    }
    if (copy->alloc == NULL || copy->free == NULL || copy->sum == NULL || copy->cast == NULL) {
        return complain(complaint, "device provider '%s' lacks one of alloc, free, sum and cast",
                        copy->name);
    }
    return copy;
}

/* ---- Plugins -------------------------------------------------------------------------------- */

/* A copy of an array of pointers to tables, each copied by `copy_one`. NULL for a fault. */
typedef const void *(*copy_one_t)(kvsi_arena_t *arena, const void *table,
                                  kvsi_complaint_t *complaint);

static const void *copy_one_backend(kvsi_arena_t *arena, const void *table,
                                    kvsi_complaint_t *complaint)
{
    return kvsi_backend_copy(arena, table, complaint);
}

static const void *copy_one_optimizer(kvsi_arena_t *arena, const void *table,
                                      kvsi_complaint_t *complaint)
{
    return copy_optimizer(arena, table, complaint);
}

static const void *copy_one_compressor(kvsi_arena_t *arena, const void *table,
                                       kvsi_complaint_t *complaint)
{
    return copy_compressor(arena, table, complaint);
}

static const void *copy_one_provider(kvsi_arena_t *arena, const void *table,
                                     kvsi_complaint_t *complaint)
{
    return copy_provider(arena, table, complaint);
}

static const void *copy_tables(kvsi_arena_t *arena, const char *what, const void *tables, size_t n,
                               copy_one_t copy_one, kvsi_complaint_t *complaint)
{
    const void *const *from = tables;
    const void **copies = kvsi_arena_array(arena, n, sizeof(*copies));

    if (n > 0 && from == NULL) {
        return complain(complaint, "%s is NULL", what);
    }
    for (size_t i = 0; copies != NULL && i < n; i++) {
        if (from[i] == NULL) {
            return complain(complaint, "%s[%zu] is NULL", what, i);
        }
        copies[i] = copy_one(arena, from[i], complaint);
        if (copies[i] == NULL) {
            return NULL;
        }
    }
    return copies;
}

const kvs_plugin_t *kvsi_plugin_copy(kvsi_arena_t *arena, const kvs_plugin_t *plugin,
                                     kvsi_complaint_t *ret_complaint)
{
    kvs_plugin_t *copy;

    ret_complaint->text[0] = '\0';
    if (!REACHES(plugin, n_backends)) {
        return complain(ret_complaint, "the plugin's table has %u bytes, too few to hold backends",
                        (unsigned)plugin->size);
    }
    copy = copy_table(arena, plugin, (uint32_t)sizeof(*plugin));
    if (copy == NULL) {
        return NULL;
    }
    if (copy->name == NULL || copy->version == NULL) {
        return complain(ret_complaint, "the plugin has no %s",
                        copy->name == NULL ? "name" : "version");
    }
    copy->backends = copy_tables(arena, "backends", copy->backends, copy->n_backends,
                                 copy_one_backend, ret_complaint);
    if (copy->backends == NULL) {
        return NULL;
    }
    copy->optimizers = copy_tables(arena, "optimizers", copy->optimizers, copy->n_optimizers,
                                   copy_one_optimizer, ret_complaint);
    if (copy->optimizers == NULL) {
        return NULL;
    }
    copy->compressors = copy_tables(arena, "compressors", copy->compressors, copy->n_compressors,
                                    copy_one_compressor, ret_complaint);
    if (copy->compressors == NULL) {
        return NULL;
    }
    if (copy->optimizer_service != NULL) {
        copy->optimizer_service = copy_service(arena, copy->optimizer_service, ret_complaint);
        if (copy->optimizer_service == NULL) {
            return NULL;
        }
    }
    copy->providers = copy_tables(arena, "providers", copy->providers, copy->n_providers,
                                  copy_one_provider, ret_complaint);
    return copy->providers != NULL ? copy : NULL;
}
