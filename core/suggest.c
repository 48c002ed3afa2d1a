/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c - the text is put together in a fixed buffer, as all error texts are. */
#include "suggest.h"

#include "catalogue.h"
#include "names.h"
#include "near.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int kvsi_is_kind(const kvs_provide_t *provide, const char *kind)
{
    return kind == NULL || strcmp(provide->kind, kind) == 0;
}

static const char *noun(const char *kind)
{
    return kind != NULL ? kind : "plugin";
}

/* A text that is put together; what doesn't fit is left out. */
typedef struct text {
    char bytes[1600];
    size_t len;
} text_t;

static void add_v(text_t *text, const char *format, va_list args)
{
    size_t room = sizeof(text->bytes) - text->len;
    int n = vsnprintf(text->bytes + text->len, room, format, args);

    if (n > 0) {
        text->len += (size_t)n < room ? (size_t)n : room - 1;
    }
}

static void add(text_t *text, const char *format, ...) KVS_PRINTF(2, 3);
static void add(text_t *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_v(text, format, args);
    va_end(args);
}

/* Items of an enumeration: the heading goes before the first, a comma before the others. */
static void add_item(text_t *text, const char *heading, size_t *n_items, const char *format, ...)
    KVS_PRINTF(4, 5);
static void add_item(text_t *text, const char *heading, size_t *n_items, const char *format, ...)
{
    va_list args;

    add(text, "%s", (*n_items)++ == 0 ? heading : ", ");
    va_start(args, format);
    add_v(text, format, args);
    va_end(args);
}

/* Installed and known names are often the same. */
static void offer_once(kvsi_near_t *near, const char *name)
{
    char quoted[128];

    snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    if (strstr(near->text, quoted) == NULL) {
        kvsi_near_offer(near, name);
    }
}

static void offer_provide(kvsi_near_t *near, const char *kind, const kvs_provide_t *provide)
{
    if (!kvsi_is_kind(provide, kind)) {
        return;
    }
    offer_once(near, provide->name);
    for (size_t i = 0; i < provide->n_aliases; i++) {
        offer_once(near, provide->aliases[i]);
    }
}

static void add_near(text_t *text, const kvs_plugin_list_t *list, const char *kind,
                     const char *name)
{
    kvsi_near_t near = KVSI_NEAR_INIT(name);
    const kvs_provide_t *known;

    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *plugin = &list->plugins[i];

        if (kind == NULL) {
            offer_once(&near, plugin->name);
        }
        for (size_t j = 0; j < plugin->n_provides; j++) {
            offer_provide(&near, kind, &plugin->provides[j]);
        }
    }
    for (size_t i = 0; (known = kvsi_known_provide(i)) != NULL; i++) {
        offer_provide(&near, kind, known);
    }
    add(text, "%s%s", kvsi_near_text(&near), near.text[0] != '\0' ? "?" : ".");
}

/* Names of what can be used, of plugins if of all kinds; 0 if there is nothing. */
static int add_installed(text_t *text, const kvs_plugin_list_t *list, const char *kind)
{
    size_t n_items = 0;

    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *plugin = &list->plugins[i];

        if (plugin->state != KVS_PLUGIN_OK) {
            continue;
        }
        if (kind == NULL) {
            add_item(text, " Installed: ", &n_items, "%s", plugin->name);
        }
        for (size_t j = 0; j < plugin->n_provides && kind != NULL; j++) {
            if (kvsi_is_kind(&plugin->provides[j], kind)) {
                add_item(text, " Installed: ", &n_items, "%s", plugin->provides[j].name);
            }
        }
    }
    return n_items > 0;
}

static int is_provided(const kvs_plugin_list_t *list, const kvs_provide_t *known)
{
    for (size_t i = 0; i < list->n_plugins; i++) {
        for (size_t j = 0; j < list->plugins[i].n_provides; j++) {
            if (strcmp(list->plugins[i].provides[j].kind, known->kind) == 0 &&
                strcmp(list->plugins[i].provides[j].name, known->name) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

static void add_known(text_t *text, const kvs_plugin_list_t *list, const char *kind)
{
    size_t n_items = 0;
    const kvs_provide_t *known;

    for (size_t i = 0; (known = kvsi_known_provide(i)) != NULL; i++) {
        if (kvsi_is_kind(known, kind) && !is_provided(list, known)) {
            add_item(text, "; known but not installed: ", &n_items, "%s (package %s)", known->name,
                     kvs_known_at(i)->package);
        }
    }
}

static void add_unusable(text_t *text, const kvs_plugin_list_t *list)
{
    size_t n_items = 0;

    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *plugin = &list->plugins[i];

        if (plugin->state != KVS_PLUGIN_OK && plugin->state != KVS_PLUGIN_SHADOWED) {
            add_item(text, "; found but not usable: ", &n_items, "%s (%s)", plugin->manifest,
                     kvs_plugin_state_text(plugin->state));
        }
    }
}

static void add_searched(text_t *text, const kvs_plugin_list_t *list)
{
    size_t n_items = 0;

    for (size_t i = 0; i < list->path.n_paths; i++) {
        add_item(text, "; searched: ", &n_items, "%s", list->path.paths[i]);
    }
}

static const char *package_of(const char *kind, const char *name)
{
    const kvs_provide_t *known;

    for (size_t i = 0; (known = kvsi_known_provide(i)) != NULL; i++) {
        if (kvsi_is_kind(known, kind) && kvsi_name_match(name, known) != KVSI_NO_MATCH) {
            return kvs_known_at(i)->package;
        }
    }
    return NULL;
}

static kvs_status_t fail_known(const kvs_plugin_list_t *list, const char *kind, const char *name,
                               const char *package)
{
    text_t text = {.len = 0};

    add(&text,
        "%s \"%s\" is known but not installed: install package %s, or set KVSTORE_PLUGIN_PATH to "
        "where its manifest is",
        noun(kind), name, package);
    add_unusable(&text, list);
    add_searched(&text, list);
    return kvs_fail(KVS_ERR_UNAVAILABLE, "%s", text.bytes);
}

kvs_status_t kvsi_suggest_fail(const kvs_plugin_list_t *list, const char *kind, const char *name)
{
    const char *package = package_of(kind, name);
    text_t text = {.len = 0};

    if (package != NULL) {
        return fail_known(list, kind, name, package);
    }
    add(&text, "no %s named \"%.200s\"", noun(kind), name);
    add_near(&text, list, kind, name);
    if (!add_installed(&text, list, kind)) {
        add(&text, " None is installed");
        add_searched(&text, list);
    }
    add_unusable(&text, list);
    add_known(&text, list, kind);
    return kvs_fail(KVS_ERR_NOT_FOUND, "%s", text.bytes);
}

static int takes(const kvs_provide_t *provide, const char *device)
{
    for (size_t i = 0; i < provide->n_devices && kvsi_is_kind(provide, "backend"); i++) {
        if (strcmp(provide->devices[i], device) == 0) {
            return 1;
        }
    }
    return 0;
}

const char *kvsi_suggest_takers(const char *device, char text[KVSI_TAKERS_BYTES])
{
    kvs_plugin_list_t *list = NULL;
    text_t names = {.len = 0};
    size_t n_names = 0;

    if (kvs_plugin_list(&list) == KVS_OK) {
        for (size_t i = 0; i < kvs_plugin_list_count(list); i++) {
            const kvs_plugin_info_t *plugin = kvs_plugin_list_at(list, i);

            for (size_t j = 0; j < plugin->n_provides && plugin->state == KVS_PLUGIN_OK; j++) {
                if (takes(&plugin->provides[j], device)) {
                    add_item(&names, "", &n_names, "%s", plugin->provides[j].name);
                }
            }
        }
    }
    kvs_plugin_list_free(list);
    snprintf(text, KVSI_TAKERS_BYTES, "%.*s", KVSI_TAKERS_BYTES - 1,
             n_names > 0 ? names.bytes : "none");
    return text;
}
