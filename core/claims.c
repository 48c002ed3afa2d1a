/* SPDX-License-Identifier: Apache-2.0 */
/* claims.c - the descriptor is turned into what its manifest should say, then the two are
 * compared. */
#include "claims.h"

#include "catalogue.h"
#include "verdict.h"

#include <stdio.h>
#include <string.h>

/* The names of the bits that are set. */
static const char *const *dtype_names(kvsi_arena_t *arena, uint32_t dtypes, size_t *ret_n)
{
    const char **names = kvsi_arena_array(arena, KVS_N_DTYPES, sizeof(*names));

    *ret_n = 0;
    for (int i = 0; names != NULL && i < KVS_N_DTYPES; i++) {
        if ((dtypes >> i & 1) != 0) {
            names[(*ret_n)++] = kvs_dtype_name(kvs_dtype(i));
        }
    }
    return names;
}

static const char *const *device_names(kvsi_arena_t *arena, const kvs_backend_t *backend,
                                       size_t *ret_n)
{
    size_t n = backend->n_device_types;
    const char **names = kvsi_arena_array(arena, n, sizeof(*names));

    *ret_n = names != NULL ? n : 0;
    for (size_t i = 0; i < *ret_n; i++) {
        const char *name = kvsi_device_name(backend->device_types[i]);

        names[i] =
            name != NULL ? name : kvsi_arena_text(arena, "%d", (int)backend->device_types[i]);
    }
    return names;
}

kvs_provide_t kvsi_provide_of_backend(kvsi_arena_t *arena, const kvs_backend_t *backend)
{
    static const char *const compression[] = {"yes"}; /* the descriptor knows only whether */
    uint32_t can = backend->capabilities;
    kvs_provide_t provide = {
        .kind = "backend",
        .name = kvsi_arena_text(arena, "%s", backend->name),
        .word = "",
        .optimizer = (can & KVS_CAN_OPTIMIZER) != 0,
        .sparse = (can & KVS_CAN_SPARSE) != 0,
        .async = (can & KVS_CAN_ASYNC) != 0,
        .multi_worker = (can & KVS_CAN_MULTI_WORKER) != 0,
        .keeps_weights = (can & KVS_KEEPS_WEIGHTS) != 0,
        .compression = compression,
        .n_compression = (can & KVS_CAN_COMPRESSION) != 0,
    };

    provide.devices = device_names(arena, backend, &provide.n_devices);
    provide.dtypes = dtype_names(arena, backend->dtypes, &provide.n_dtypes);
    return provide;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

/* A plugin and the field of its manifest that is being compared. */
typedef struct claim {
    kvsi_arena_t *arena;
    kvs_plugin_info_t *info;
    const char *field; /* such as "provides[0]"; "" for the whole */
    const char *fix;
} claim_t;

static void differs(const claim_t *claim, const char *name, const char *manifest,
                    const char *library)
{
    kvsi_judge(claim->arena, claim->info, KVS_PLUGIN_MANIFEST_MISMATCH, claim->fix,
               "\"%s%s%s\": the manifest says %s, %s says %s", claim->field,
               claim->field[0] != '\0' ? "." : "", name, manifest, kvsi_place_of(claim->info),
               library);
}

static void same_text(const claim_t *claim, const char *name, const char *manifest,
                      const char *library)
{
    if (strcmp(manifest, library) != 0) {
        differs(claim, name, manifest, library);
    }
}

static void same_flag(const claim_t *claim, const char *name, int manifest, int library)
{
    same_text(claim, name, manifest ? "true" : "false", library ? "true" : "false");
}

static int holds(const char *const *texts, size_t n_texts, const char *text)
{
    for (size_t i = 0; i < n_texts; i++) {
        if (strcmp(texts[i], text) == 0) {
            return 1;
        }
    }
    return 0;
}

static int within(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    for (size_t i = 0; i < n_a; i++) {
        if (!holds(b, n_b, a[i])) {
            return 0;
        }
    }
    return 1;
}

static const char *listed(kvsi_arena_t *arena, const char *const *texts, size_t n_texts)
{
    const char *all = "";

    for (size_t i = 0; i < n_texts; i++) {
        all = kvsi_arena_text(arena, "%s%s%s", all, i > 0 ? ", " : "", texts[i]);
    }
    return kvsi_arena_text(arena, "[%s]", all);
}

static void same_set(const claim_t *claim, const char *name, const char *const *manifest,
                     size_t n_manifest, const char *const *library, size_t n_library)
{
    if (!within(manifest, n_manifest, library, n_library) ||
        !within(library, n_library, manifest, n_manifest)) {
        differs(claim, name, listed(claim->arena, manifest, n_manifest),
                listed(claim->arena, library, n_library));
    }
}

static void same_backend(const claim_t *claim, const kvs_provide_t *manifest,
                         const kvs_backend_t *backend)
{
    kvs_provide_t library = kvsi_provide_of_backend(claim->arena, backend);
    claim_t inner = *claim;

    inner.field = kvsi_arena_text(claim->arena, "%s.capabilities", claim->field);
    same_flag(&inner, "optimizer", manifest->optimizer, library.optimizer);
    same_flag(&inner, "sparse", manifest->sparse, library.sparse);
    same_flag(&inner, "async", manifest->async, library.async);
    same_flag(&inner, "multi_worker", manifest->multi_worker, library.multi_worker);
    same_flag(&inner, "keeps_weights", manifest->keeps_weights, library.keeps_weights);
    same_flag(&inner, "gradient_compression", manifest->n_compression > 0,
              library.n_compression > 0);
    same_set(&inner, "devices", manifest->devices, manifest->n_devices, library.devices,
             library.n_devices);
    same_set(&inner, "dtypes", manifest->dtypes, manifest->n_dtypes, library.dtypes,
             library.n_dtypes);
}

static const kvs_backend_t *backend_named(const kvs_plugin_t *plugin, const char *name)
{
    for (size_t i = 0; i < plugin->n_backends; i++) {
        if (strcmp(plugin->backends[i]->name, name) == 0) {
            return plugin->backends[i];
        }
    }
    return NULL;
}

static size_t count_of(const kvs_plugin_t *plugin, const char *kind)
{
    return strcmp(kind, "backend") == 0      ? plugin->n_backends
           : strcmp(kind, "optimizer") == 0  ? plugin->n_optimizers
           : strcmp(kind, "compressor") == 0 ? plugin->n_compressors
                                             : plugin->n_providers;
}

static const char *name_of(const kvs_plugin_t *plugin, const char *kind, size_t i)
{
    return strcmp(kind, "backend") == 0      ? plugin->backends[i]->name
           : strcmp(kind, "optimizer") == 0  ? plugin->optimizers[i]->name
           : strcmp(kind, "compressor") == 0 ? plugin->compressors[i]->name
                                             : plugin->providers[i]->name;
}

/* All that the descriptor holds of a kind that manifests name. */
static const char *const *provided(kvsi_arena_t *arena, const kvs_plugin_t *plugin,
                                   const char *kind, size_t *ret_n)
{
    size_t n = count_of(plugin, kind);
    const char **names = kvsi_arena_array(arena, n, sizeof(*names));

    *ret_n = names != NULL ? n : 0;
    for (size_t i = 0; i < *ret_n; i++) {
        names[i] = name_of(plugin, kind, i);
    }
    return names;
}

/* The same names of that kind on both sides. */
static void same_names(const claim_t *claim, const kvs_plugin_t *plugin, const char *kind)
{
    const kvs_plugin_info_t *info = claim->info;
    const char **manifest = kvsi_arena_array(claim->arena, info->n_provides, sizeof(*manifest));
    size_t n_manifest = 0, n_library;
    const char *const *library = provided(claim->arena, plugin, kind, &n_library);

    for (size_t i = 0; manifest != NULL && i < info->n_provides; i++) {
        if (strcmp(info->provides[i].kind, kind) == 0) {
            manifest[n_manifest++] = info->provides[i].name;
        }
    }
    same_set(claim, kvsi_arena_text(claim->arena, "provides\" of kind \"%s", kind), manifest,
             n_manifest, library, n_library);
}

void kvsi_claims_check(kvsi_arena_t *arena, kvs_plugin_info_t *info, const kvs_plugin_t *plugin,
                       const char *fix)
{
    claim_t claim = {arena, info, "", fix};

    same_text(&claim, "name", info->name, plugin->name);
    same_text(&claim, "version", info->version, plugin->version);
    same_text(&claim, "abi", info->abi,
              kvsi_arena_text(arena, "%u.%u", plugin->abi_major, plugin->abi_minor));
    same_names(&claim, plugin, "backend");
    same_names(&claim, plugin, "optimizer");
    same_names(&claim, plugin, "compressor");
    same_names(&claim, plugin, "device");
    for (size_t i = 0; i < info->n_provides; i++) {
        const kvs_backend_t *backend = backend_named(plugin, info->provides[i].name);

        if (backend != NULL && strcmp(info->provides[i].kind, "backend") == 0) {
            claim.field = kvsi_arena_text(arena, "provides[%zu]", i);
            same_backend(&claim, &info->provides[i], backend);
        }
    }
}
