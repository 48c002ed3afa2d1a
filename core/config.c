/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the settings are a table: the core's own, then those the backend declares. */
#include "config.h"

#include "cnumber.h"
#include "environment.h"
#include "near.h"
#include "pool.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF_TOKENS(x) #x
#define TEXT_OF(x)        TEXT_OF_TOKENS(x)
#define MOST_THREADS      TEXT_OF(KVSI_POOL_MAX_THREADS)

static const kvs_option_info_t core_options[] = {
    {.name = "default",
     .type = "text",
     .preset = "local",
     .doc = "the store that create makes when it is given no name"},
    {.name = "required",
     .type = "text",
     .preset = "",
     .doc = "backends, by commas, without which no store is created"},
    {.name = "timeout",
     .type = "time",
     .preset = "60",
     .doc = "seconds without progress after which waiting for another process is an error; 0: for "
            "ever"},
    {.name = "threads",
     .type = "threads",
     .preset = "0",
     .doc =
         "threads of the process that work at once, from its first store on, at most " MOST_THREADS
         "; 0: its cores"},
    {.name = "log",
     .type = "level",
     .preset = "warn",
     .doc = "error, warn, info, debug or trace, and by commas the areas to show"},
    {.name = "trace",
     .type = "text",
     .preset = "",
     .doc = "file that gets the operations' times as a Chrome trace"},
};
#define N_CORE_OPTIONS     (sizeof(core_options) / sizeof(core_options[0]))
#define FIRST_STORE_OPTION 2 /* those before it are not options of create */

typedef struct setting {
    const kvs_option_info_t *info;
    const char *text;
    bool given; /* somebody set it: it is not the default */
} setting_t;

struct kvs_config {
    kvsi_arena_t arena;
    setting_t *settings;
    size_t n;
};

const kvs_option_info_t *kvsi_config_core_option(size_t index)
{
    return index < N_CORE_OPTIONS ? &core_options[index] : NULL;
}

/* ---- Types ----------------------------------------------------------------------------------- */

static bool parse_real(const char *text, double *ret_value)
{
    char *end;

    errno = 0;
    *ret_value = kvsi_c_strtod(text, &end);
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

/* Whether the first `n` bytes of `text` are one of `words`, in any case. */
static bool is_word(const char *text, size_t n, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strlen(*words) == n && strncasecmp(text, *words, n) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL if `text` is one of this type; else what is accepted. */
static const char *what_is_accepted(const char *type, const char *text)
{
    static const char *const bools[] = {"0", "1", "false", "true", "no", "yes", "off", "on", NULL};
    static const char *const levels[] = {"error", "warn", "info", "debug", "trace", NULL};
    double real;
    long long integer;

    if (strcmp(type, "int") == 0) {
        return parse_integer(text, &integer) ? NULL : "a whole number";
    }
    if (strcmp(type, "size") == 0) {
        return parse_integer(text, &integer) && integer >= 0 ? NULL
                                                             : "a whole number that isn't negative";
    }
    if (strcmp(type, "threads") == 0) {
        return parse_integer(text, &integer) && integer >= 0 && integer <= KVSI_POOL_MAX_THREADS
                   ? NULL
                   : "a whole number from 0 to " MOST_THREADS;
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
        return is_word(text, strlen(text), bools) ? NULL
                                                  : "0 or 1, true or false, yes or no, on or off";
    }
    if (strcmp(type, "level") == 0) {
        return is_word(text, strcspn(text, ","), levels)
                   ? NULL
                   : "error, warn, info, debug or trace, and areas behind commas";
    }
    return NULL;
}

kvs_status_t kvsi_config_check(const kvs_option_info_t *info, const char *text, const char *origin)
{
    const char *accepted = what_is_accepted(info->type, text);

    return accepted == NULL ? KVS_OK
                            : kvs_fail(KVS_ERR_ARGUMENT, "%s: %s is \"%.80s\"; accepted is %s",
                                       origin, info->name, text, accepted);
}

/* ---- Sources --------------------------------------------------------------------------------- */

static const char *variable_of(kvsi_arena_t *arena, const char *name)
{
    char *variable = (char *)kvsi_arena_text(arena, "KVSTORE_%s", name);

    for (char *c = variable; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    return variable;
}

void kvsi_config_source(kvsi_arena_t *arena, const kvsi_conf_t *conf, const kvs_option_info_t *info,
                        const char **ret_text, const char **ret_origin)
{
    const char *names[2] = {variable_of(arena, info->name), info->variable};
    const kvsi_conf_entry_t *entry = kvsi_conf_find(conf, info->name);

    for (size_t i = 0; i < 2 && names[i] != NULL; i++) {
        const char *text = kvsi_env(names[i]);

        if (text != NULL) {
            *ret_text = text;
            *ret_origin = kvsi_arena_text(arena, "variable %s", names[i]);
            return;
        }
    }
    *ret_text = entry != NULL ? entry->value : info->preset;
    *ret_origin = entry != NULL ? entry->origin : "default";
}

kvs_status_t kvsi_config_lookup(kvsi_arena_t *arena, const char *name, const char **ret_text)
{
    kvsi_conf_t conf;
    const char *origin;
    kvs_status_t status = kvsi_conf_read(arena, &conf);

    for (size_t i = 0; i < N_CORE_OPTIONS && status == KVS_OK; i++) {
        if (strcmp(core_options[i].name, name) == 0) {
            kvsi_config_source(arena, &conf, &core_options[i], ret_text, &origin);
            return kvsi_arena_check(arena);
        }
    }
    return status != KVS_OK ? status : kvs_fail(KVS_ERR_INTERNAL, "no setting \"%s\"", name);
}

/* ---- A store's settings ---------------------------------------------------------------------- */

static const char *find_option(const kvs_option_t *options, size_t n_options, const char *name)
{
    for (size_t i = 0; i < n_options; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return options[i].value;
        }
    }
    return NULL;
}

static kvs_status_t set(kvs_config_t *config, const kvsi_conf_t *conf, setting_t *setting,
                        const kvs_option_t *options, size_t n_options)
{
    const char *text = find_option(options, n_options, setting->info->name), *origin = "option";
    kvs_status_t status;

    if (text == NULL) {
        kvsi_config_source(&config->arena, conf, setting->info, &text, &origin);
    }
    status = kvsi_config_check(setting->info, text, origin);
    setting->given = text != setting->info->preset;
    setting->text = kvsi_arena_copy(&config->arena, text, strlen(text));
    return status;
}

static kvs_status_t check_given_once(const kvs_option_t *options, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(options[i].name, options[index].name) == 0) {
            return kvs_fail(KVS_ERR_ARGUMENT,
                            "option \"%.80s\" is given twice, as \"%.80s\" and \"%.80s\"",
                            options[i].name, options[i].value, options[index].value);
        }
    }
    return KVS_OK;
}

/* Every name of `options` is one of the settings, and stands there once. */
static kvs_status_t check_names(const kvs_config_t *config, const kvs_option_t *options,
                                size_t n_options)
{
    for (size_t i = 0; i < n_options; i++) {
        kvsi_near_t near = KVSI_NEAR_INIT(options[i].name == NULL ? "" : options[i].name);
        bool known = false;

        if (options[i].name == NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT, "option %zu has no name", i);
        }
        if (options[i].value == NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT, "option \"%.80s\" has no value", options[i].name);
        }
        for (size_t s = FIRST_STORE_OPTION; s < config->n; s++) {
            known |= strcmp(config->settings[s].info->name, options[i].name) == 0;
            kvsi_near_offer(&near, config->settings[s].info->name);
        }
        if (!known) {
            return kvs_fail(KVS_ERR_ARGUMENT, "unknown option \"%.80s\"%s%s", options[i].name,
                            kvsi_near_text(&near), near.text[0] != '\0' ? "?" : "");
        }
        if (check_given_once(options, i) != KVS_OK) {
            return KVS_ERR_ARGUMENT;
        }
    }
    return KVS_OK;
}

static kvs_status_t gather(kvs_config_t *config, const kvs_backend_t *backend,
                           const kvs_option_t *options, size_t n_options)
{
    kvsi_conf_t conf;
    kvs_status_t status;

    config->n = N_CORE_OPTIONS + backend->n_options;
    config->settings = kvsi_arena_array(&config->arena, config->n, sizeof(setting_t));
    if (config->settings == NULL) {
        return kvsi_arena_check(&config->arena);
    }
    for (size_t i = 0; i < config->n; i++) {
        config->settings[i].info =
            i < N_CORE_OPTIONS ? &core_options[i] : &backend->options[i - N_CORE_OPTIONS];
    }
    status = check_names(config, options, n_options);
    if (status == KVS_OK) {
        status = kvsi_conf_read(&config->arena, &conf);
    }
    for (size_t i = 0; i < config->n && status == KVS_OK; i++) {
        status = set(config, &conf, &config->settings[i], options, n_options);
    }
    return status != KVS_OK ? status : kvsi_arena_check(&config->arena);
}

kvs_status_t kvsi_config_new(const kvs_backend_t *backend, const kvs_option_t *options,
                             size_t n_options, kvs_config_t **ret_config)
{
    kvs_config_t *config = calloc(1, sizeof(*config));
    kvs_status_t status;

    if (config == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for options");
    }
    status = gather(config, backend, options, n_options);
    if (status != KVS_OK) {
        kvsi_config_free(config);
        return status;
    }
    *ret_config = config;
    return KVS_OK;
}

void kvsi_config_free(kvs_config_t *config)
{
    if (config != NULL) {
        kvsi_arena_release(&config->arena);
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

bool kvsi_config_is_given(const kvs_config_t *config, const char *name)
{
    for (size_t i = 0; i < config->n; i++) {
        if (strcmp(config->settings[i].info->name, name) == 0) {
            return config->settings[i].given;
        }
    }
    return false;
}

int64_t kvsi_config_time_ms(const kvs_config_t *config, const char *name)
{
    double seconds = kvsi_c_strtod(kvsi_config_text(config, name), NULL);
    int64_t ms = (int64_t)(seconds * 1000 + 0.5);

    return ms == 0 && seconds > 0 ? 1 : ms;
}
