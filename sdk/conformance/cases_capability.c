/* SPDX-License-Identifier: Apache-2.0 */
/* cases_capability.c - what a backend says of itself is what it does. */
#include "themes.h"

#include <kvstore/plugins.h>

#include <stdio.h>
#include <string.h>

enum { N = 4 };

static void names(cf_t *t)
{
    static const char *const known[] = {"optimizer", "sparse", "gradient_compression", "async"};
    static const char *const unknown[] = {"", "Optimizer", "optimizers", "row_sparse"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        int capable = -1;

        CF_OK(t, kvs_store_is_capable(t->store, known[i], &capable));
        cf_want_true(t, capable == 0 || capable == 1, known[i]);
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        int capable = -1;

        CF_FAIL(t, kvs_store_is_capable(t->store, unknown[i], &capable), KVS_ERR_ARGUMENT,
                unknown[i]);
        cf_want_number(t, "what an unknown capability wrote", capable, -1);
    }
}

static void supports(cf_t *t)
{
    kvs_device_t here = {t->memory->device_type, 0}, nowhere = {77, 0};
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *memory = cf_vector(t, KVS_DTYPE_float32, N);
    kvs_tensor_t tensor = memory->tensor;
    kvs_arrays_t list = kvs_arrays(&tensor, 1);
    int supported = -1;

    CF_OK(t, kvs_store_supports(t->store, kvs_dtype(KVS_DTYPE_float32), here, &supported));
    cf_want_number(t, "supports float32 here", supported, 1);
    CF_OK(t, kvs_store_supports(t->store, kvs_dtype(KVS_DTYPE_float32), nowhere, &supported));
    cf_want_number(t, "supports a device that does not exist", supported, 0);
    tensor.device = nowhere;
    CF_REFUSED(t, kvs_store_broadcast(t->store, &key, 1, &list, &list, NULL), "");
}

/* "not implemented: OP by BACKEND" */
static void want_not_implemented(cf_t *t, kvs_status_t status, const char *op)
{
    char text[128];

    snprintf(text, sizeof(text), "not implemented: %s by ", op);
    if (status == KVS_OK) {
        cf_fail(t, "%s: got success, want KVS_ERR_NOT_IMPLEMENTED", op);
    } else if (status != KVS_ERR_NOT_IMPLEMENTED || strstr(kvs_last_error(), text) == NULL) {
        cf_fail(t, "%s: got %s \"%s\", want KVS_ERR_NOT_IMPLEMENTED \"%s%s\"", op,
                kvs_status_name(status), kvs_last_error(), text, t->backend);
    }
}

static void no_weights(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    const kvs_arrays_t *list = CF_LIST(t, cf_vector(t, KVS_DTYPE_float32, N));
    const kvs_arrays_t *ids = CF_LIST(t, cf_vector(t, KVS_DTYPE_int64, 2));

    want_not_implemented(t, kvs_store_init(t->store, &key, 1, list, NULL), "init");
    want_not_implemented(t, kvs_store_push(t->store, &key, 1, list, NULL), "push");
    want_not_implemented(t, kvs_store_pull(t->store, &key, 1, list, NULL), "pull");
    want_not_implemented(t, kvs_store_row_sparse_pull(t->store, &key, 1, list, ids, NULL),
                         "row_sparse_pull");
}

static void no_compression(cf_t *t)
{
    const kvs_param_t type = {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = "2bit"}};
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 0.75);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    CF_REFUSED(t, kvs_store_set_gradient_compression(t->store, &type, 1), "");
    cf_reduce(t, cf_key(t, 1), CF_LIST(t, value), out);
    cf_want_all(t, "a sum after the refused call", out, 0.75 * t->n_workers);
}

static void no_sparse(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    static const int64_t shape[2] = {5, N};
    cf_array_t *dense = cf_new(t, KVS_DTYPE_float32, 2, shape);
    cf_array_t *memory = cf_new(t, KVS_DTYPE_float32, 2, shape);
    int64_t ids[2] = {1, 3};
    kvs_rows_t rows = {ids, 2, 2};
    kvs_tensor_t tensor = memory->tensor;
    kvs_arrays_t sparse = kvs_arrays(&tensor, 1);
    const kvs_arrays_t *row_ids = CF_LIST(t, cf_vector(t, KVS_DTYPE_int64, 2));

    tensor.rows = &rows;
    cf_use(t, keys[0], dense);
    if (cf_keeps_weights(t)) {
        CF_REFUSED(t, kvs_store_init(t->store, &keys[1], 1, &sparse, NULL), "");
        CF_REFUSED(t, kvs_store_push(t->store, keys, 1, &sparse, NULL), "");
        CF_REFUSED(t, kvs_store_pull(t->store, keys, 1, &sparse, NULL), "");
        CF_REFUSED(t, kvs_store_pushpull(t->store, keys, 1, &sparse, NULL, NULL), "");
    } else if (kvs_store_pushpull(t->store, keys, 1, &sparse, NULL, NULL) == KVS_OK) {
        cf_want_number(t, "rows of a sum", rows.n_rows, 2);
    }
    CF_REFUSED(t, kvs_store_broadcast(t->store, &keys[1], 1, &sparse, &sparse, NULL), "");
    CF_REFUSED(t, kvs_store_row_sparse_pull(t->store, keys, 1, &sparse, row_ids, NULL), "");
}

static const kvs_provide_t *provided(const kvs_plugin_info_t *plugin, const char *name)
{
    for (size_t i = 0; i < plugin->n_provides; i++) {
        const kvs_provide_t *provide = &plugin->provides[i];

        if (strcmp(provide->kind, "backend") != 0) {
            continue;
        }
        if (strcmp(provide->name, name) == 0) {
            return provide;
        }
        for (size_t j = 0; j < provide->n_aliases; j++) {
            if (strcmp(provide->aliases[j], name) == 0) {
                return provide;
            }
        }
    }
    return NULL;
}

/* A store may be capable of less than its backend, by its options, but not of more. */
static void want_at_most(cf_t *t, const char *capability, bool claimed)
{
    int capable = 0;

    CF_OK(t, kvs_store_is_capable(t->store, capability, &capable));
    if (capable && !claimed) {
        cf_fail(t, "is_capable(\"%s\") is 1, the manifest does not claim it", capability);
    }
}

static void compare(cf_t *t, const kvs_provide_t *provide)
{
    want_at_most(t, "optimizer", provide->optimizer != 0);
    want_at_most(t, "sparse", provide->sparse != 0);
    want_at_most(t, "async", provide->async != 0);
    want_at_most(t, "gradient_compression", provide->n_compression != 0);
    cf_want_number(t, "keeps_weights of the manifest", provide->keeps_weights, cf_keeps_weights(t));
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        const char *name = kvs_dtype_name(kvs_dtype(dtype));
        bool claimed = false;

        for (size_t i = 0; i < provide->n_dtypes; i++) {
            claimed = claimed || strcmp(provide->dtypes[i], name) == 0;
        }
        cf_want_number(t, name, cf_has_dtype(t, dtype), claimed);
    }
}

static void manifest(cf_t *t)
{
    const char *name = kvs_store_type(t->store);
    const kvs_plugin_info_t *plugin = NULL;
    const kvs_provide_t *provide = NULL;
    kvs_plugin_list_t *list = NULL;

    CF_OK(t, kvs_plugin_list(&list));
    if (list != NULL && kvs_plugin_list_find(list, name, &plugin) == KVS_OK) {
        provide = provided(plugin, name);
    }
    if (provide != NULL) {
        compare(t, provide);
    } else {
        cf_skip(t, "no manifest provides the backend by this name");
    }
    kvs_plugin_list_free(list);
}

static const cf_case_t cases[] = {
    {"capability.names",
     "is_capable knows four capabilities; any other name is an error naming it.", 0, names},
    {"capability.supports", "supports is true for what is taken; another device is refused.", 0,
     supports},
    {"capability.no_weights",
     "Where no weights are kept, init, push, pull and row_sparse_pull are not implemented.",
     CF_NO_WEIGHTS, no_weights},
    {"capability.no_compression",
     "Setting compression on a backend without it is an error, and sums stay exact.",
     CF_NO_COMPRESSION | CF_REPLACES, no_compression},
    {"capability.no_sparse",
     "A backend without row-sparse refuses row-sparse arrays; if it keeps none, it may sum them.",
     CF_NO_SPARSE, no_sparse},
    {"capability.manifest", "The backend is what its manifest claims.", 0, manifest},
};

const cf_theme_t cf_theme_capability = CF_THEME(cases);
