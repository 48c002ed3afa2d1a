/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the settings are a table: the core's own, then those the backend declares. Each has a
 * type that its text must satisfy, wherever the text comes from. */
#include "config.h"

#include "near.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kvs_option_info_t core_options[] = {
    {"timeout", "time", "60",
     "seconds without progress after which waiting for another process is an error; 0: for ever"},
};
#define N_CORE_OPTIONS (sizeof(core_options) / sizeof(core_options[0]))

typedef struct setting {
    const kvs_option_info_t *info;
    char *text; /* owned */
} setting_t;

struct kvs_config {
    setting_t *settings;
    size_t n;
};

/* ---- Types ----------------------------------------------------------------------------------- */

static bool parse_real(const char *text, double *ret_value)
{
    char *end;

    errno = 0;
    *ret_value = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && isfinite(*ret_value) &&
           !isspace((unsigned char)text[0]);
}

static bool parse_integer(const char *text, long long *ret_value)
{
    char *end;

    errno = 0;
    *ret_value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && !isspace((unsigned char)text[0]);
}

static bool is_bool(const char *text)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL if `text` is one of this type; else what is accepted. */
static const char *what_is_accepted(const char *type, const char *text)
{
    double real;
    long long integer;

    if (strcmp(type, "int") == 0) {
        return parse_integer(text, &integer) ? NULL : "a whole number";
    }
    if (strcmp(type, "size") == 0) {
        return parse_integer(text, &integer) && integer >= 0 ? NULL
                                                             : "a whole number that isn't negative";
    }
    if (strcmp(type, "float") == 0) {
        return parse_real(text, &real) ? NULL : "a number";
    }
    if (strcmp(type, "time") == 0) {
        return parse_real(text, &real) && real >= 0 && real <= 1e9
                   ? NULL
                   : "a number of seconds that isn't negative";
    }
    if (strcmp(type, "bool") == 0) {
        return is_bool(text) ? NULL : "0 or 1, true or false, yes or no, on or off";
    }
    return NULL;
}

/* ---- Gathering ------------------------------------------------------------------------------- */

static const char *find_option(const kvs_option_t *options, size_t n_options, const char *name)
{
    const char *found = NULL;

    for (size_t i = 0; i < n_options; i++) {
        if (strcmp(options[i].name, name) == 0) {
            found = options[i].value; /* the last one counts */
        }
    }
    return found;
}

static const char *find_variable(const char *name, char *variable, size_t n_bytes)
{
    snprintf(variable, n_bytes, "KVSTORE_%s", name);
    for (char *c = variable; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    return secure_getenv(variable);
}

static kvs_status_t set(setting_t *setting, const kvs_option_info_t *info,
                        const kvs_option_t *options, size_t n_options)
{
    char variable[128];
    const char *text = find_option(options, n_options, info->name);
    const char *source = "option", *source_name = info->name, *accepted;

    if (text == NULL) {
        text = find_variable(info->name, variable, sizeof(variable));
        source = "variable";
        source_name = variable;
    }
    if (text == NULL) {
        text = info->preset;
    }
    accepted = what_is_accepted(info->type, text);
    if (accepted != NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s %s is \"%.80s\"; accepted is %s", source, source_name,
                        text, accepted);
    }
    setting->info = info;
    setting->text = strdup(text);
    return setting->text != NULL ? KVS_OK : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for options");
}

/* Every name of `options` is one of the settings. */
static kvs_status_t check_names(const kvs_config_t *config, const kvs_option_t *options,
                                size_t n_options)
{
    for (size_t i = 0; i < n_options; i++) {
        kvsi_near_t near = KVSI_NEAR_INIT(options[i].name == NULL ? "" : options[i].name);
        bool known = false;

        for (size_t s = 0; s < config->n && options[i].name != NULL; s++) {
            known |= strcmp(config->settings[s].info->name, options[i].name) == 0;
            kvsi_near_offer(&near, config->settings[s].info->name);
        }
        if (options[i].name == NULL || options[i].value == NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT, "option %zu has no %s", i,
                            options[i].name == NULL ? "name" : "value");
        }
        if (!known) {
            return kvs_fail(KVS_ERR_ARGUMENT, "unknown option \"%.80s\"%s", options[i].name,
                            kvsi_near_text(&near));
        }
    }
    return KVS_OK;
}

kvs_status_t kvsi_config_new(const kvs_backend_t *backend, const kvs_option_t *options,
                             size_t n_options, kvs_config_t **ret_config)
{
    size_t n = N_CORE_OPTIONS + backend->n_options;
    kvs_config_t *config = calloc(1, sizeof(*config));
    kvs_status_t status = KVS_OK;

    if (config != NULL) {
        config->settings = calloc(n, sizeof(setting_t));
    }
    if (config == NULL || config->settings == NULL) {
        free(config);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for options");
    }
    for (size_t i = 0; i < n; i++) {
        config->settings[i].info =
            i < N_CORE_OPTIONS ? &core_options[i] : &backend->options[i - N_CORE_OPTIONS];
    }
    config->n = n;
    status = check_names(config, options, n_options);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = set(&config->settings[i], config->settings[i].info, options, n_options);
    }
    if (status != KVS_OK) {
        kvsi_config_free(config);
        return status;
    }
    *ret_config = config;
    return KVS_OK;
}

void kvsi_config_free(kvs_config_t *config)
{
    for (size_t i = 0; config != NULL && i < config->n; i++) {
        free(config->settings[i].text);
    }
    if (config != NULL) {
        free(config->settings);
        free(config);
    }
}

const char *kvsi_config_text(const kvs_config_t *config, const char *name)
{
    for (size_t i = 0; i < config->n; i++) {
        if (strcmp(config->settings[i].info->name, name) == 0) {
            return config->settings[i].text;
        }
    }
    return NULL;
}

int64_t kvsi_config_time_ms(const kvs_config_t *config, const char *name)
{
    return (int64_t)(strtod(kvsi_config_text(config, name), NULL) * 1000);
}
