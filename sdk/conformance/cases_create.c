/* SPDX-License-Identifier: Apache-2.0 */
/* cases_create.c - creating and closing stores. */
#include "themes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char *changed_name(cf_t *t, const char *format, int (*change)(int))
{
    size_t n_bytes = strlen(t->backend) + 16;
    char *name = cf_alloc(t, n_bytes);

    snprintf(name, n_bytes, format, t->backend);
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)change((unsigned char)*c);
    }
    return name;
}

static void type_lower_case(cf_t *t)
{
    const char *lower = changed_name(t, "%s", tolower);
    kvs_store_t *store = NULL;

    CF_OK(t, cf_create(t, changed_name(t, "%s", toupper), &store));
    cf_want_text(t, "type of a store created in upper case", kvs_store_type(store), lower);
    cf_want_text(t, "type of this store", kvs_store_type(t->store), lower);
    CF_OK(t, kvs_store_close(store));
}

static void unknown_name(cf_t *t)
{
    const char *name = changed_name(t, "%sqq", tolower);
    kvs_store_t *store = NULL;

    CF_FAIL(t, cf_create(t, name, &store), KVS_ERR_NOT_FOUND, name);
    CF_FAIL(t, kvs_store_create("", NULL, 0, &store), KVS_ERR_ARGUMENT, "");
    cf_want_true(t, store == NULL, "ret_store is only written on success");
}

static void unknown_option(cf_t *t)
{
    kvs_option_t option = {"no_such_option", "1"};
    kvs_store_t *store = NULL;

    CF_FAIL(t, kvs_store_create(t->backend, &option, 1, &store), KVS_ERR_ARGUMENT,
            "no_such_option");
}

static void independent(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, 3);
    kvs_store_t *other = NULL;

    CF_OK(t, cf_create(t, NULL, &other));
    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, 3, 1));
    CF_FAIL(t, kvs_store_pull(other, &key, 1, CF_LIST(t, out), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, key));
    CF_OK(t,
          kvs_store_init(other, &key, 1, CF_LIST(t, cf_const(t, KVS_DTYPE_float32, 3, 2)), NULL));
    cf_pull(t, key, out);
    cf_want_all(t, "pulled from this store", out, 1);
    CF_OK(t, kvs_store_pull(other, &key, 1, CF_LIST(t, out), NULL));
    cf_want_all(t, "pulled from the other store", out, 2);
    CF_OK(t, kvs_store_close(other));
}

static void close_waits(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, 5, 3);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, 5);
    kvs_event_t *event = NULL;
    kvs_call_t call = cf_call(&event);
    kvs_store_t *other = NULL;
    int done = 0;

    CF_OK(t, cf_create(t, NULL, &other));
    CF_OK(t, kvs_store_broadcast(other, &key, 1, CF_LIST(t, value), CF_LIST(t, out), &call));
    CF_OK(t, kvs_store_close(other));
    cf_want_all(t, "out of a broadcast before close", out, 3);
    CF_OK(t, kvs_event_test(event, &done));
    cf_want_number(t, "the event is done after close", done, 1);
    kvs_event_free(event);
    CF_OK(t, kvs_store_close(NULL));
}

static const cf_case_t cases[] = {
    {"create.type_lower_case", "The name is lower-cased, and type returns it.", CF_ONE_WORKER,
     type_lower_case},
    {"create.unknown_name", "A name that nothing answers to is an error that names it.",
     CF_ONE_WORKER, unknown_name},
    {"create.unknown_option", "An option the backend does not have is an error that names it.",
     CF_ONE_WORKER, unknown_option},
    {"create.independent", "Two stores of one backend share no keys and no values.",
     CF_WEIGHTS | CF_ONE_WORKER, independent},
    {"create.close_waits", "Closing a store waits for its work; events outlive it.", CF_ONE_WORKER,
     close_waits},
};

const cf_theme_t cf_theme_create = CF_THEME(cases);
