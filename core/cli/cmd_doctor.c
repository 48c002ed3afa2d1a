/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - `kvstore doctor`: what is wrong on this machine, and what mends it. Opens every enabled
 * plugin, each in a child process.
 *
 * --json: as its help says. Exit status 1 if something is wrong: a plugin that is enabled and broken, a
 * malformed setting, a default or required backend that can't be had, nothing usable at all. A plugin
 * that works but finds no device or the like is a warning. */
#include "columns.h"
#include "commands.h"
#include "plugin_json.h"
#include "trial.h"

#include <kvstore/settings.h>

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

/* What is wrong with the settings, as lines. */
typedef struct lines {
    char **texts; /* owned */
    size_t n;
} lines_t;

typedef struct visit {
    kvs_plugin_list_t *list;
    kvs_setting_list_t *settings; /* NULL: the configuration can't be read */
    trial_t *trials;              /* one a plugin */
    lines_t problems, notes;
    size_t n_ok, n_failed, n_unavailable, n_off;
    int timeout_s, as_json;
} visit_t;

static int add_line(lines_t *lines, const char *format, ...) KVS_PRINTF(2, 3);
static int add_line(lines_t *lines, const char *format, ...)
{
    char **grown = realloc(lines->texts, (lines->n + 1) * sizeof(*grown));
    va_list args;
    int n;

    lines->texts = grown != NULL ? grown : lines->texts;
    va_start(args, format);
    n = grown != NULL ? vasprintf(&grown[lines->n], format, args) : -1;
    va_end(args);
    if (n < 0) {
        (void)kvs_fail(KVS_ERR_NO_MEMORY, "no memory for what was found");
        return -1;
    }
    lines->n++;
    return 0;
}

static void free_lines(lines_t *lines)
{
    for (size_t i = 0; i < lines->n; i++) {
        free(lines->texts[i]);
    }
    free(lines->texts);
}

/* ---- Environment and places ----------------------------------------------------------------- */

static const char *const variables[] = {
    "KVSTORE_PLUGIN_PATH", "KVSTORE_PLUGINS", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME",
    "LD_LIBRARY_PATH"};
#define N_VARIABLES (sizeof(variables) / sizeof(variables[0]))

/* How many manifests of the list were found there; -1: the place doesn't exist. */
static int n_manifests_at(const kvs_plugin_list_t *list, const char *place)
{
    size_t len = strlen(place);
    struct stat st;
    int n = 0;

    for (size_t i = 0; i < kvs_plugin_list_count(list); i++) {
        const char *manifest = kvs_plugin_list_at(list, i)->manifest;

        n += strncmp(manifest, place, len) == 0 &&
             (manifest[len] == '\0' ||
              (manifest[len] == '/' && strchr(manifest + len + 1, '/') == NULL));
    }
    return stat(place, &st) == 0 ? n : -1;
}

static int print_surroundings(const kvs_plugin_list_t *list)
{
    columns_t columns = {.n_columns = 2};
    char count[32];
    int status;

    printf("environment\n");
    for (size_t i = 0; i < N_VARIABLES; i++) {
        const char *value = getenv(variables[i]);

        columns_add(&columns, variables[i]);
        columns_add(&columns, value != NULL ? value : "(unset)");
    }
    columns_add(&columns, "secure execution");
    columns_add(&columns, getauxval(AT_SECURE) != 0 ? "yes: variables are ignored" : "no");
    status = columns_print(&columns, 2);

    printf("\nsearch path\n");
    for (size_t i = 0; i < kvs_plugin_list_n_paths(list); i++) {
        const char *place = kvs_plugin_list_path(list, i);
        int n = n_manifests_at(list, place);

        snprintf(count, sizeof(count), n < 0 ? "absent" : "%d plugin%s", n, n == 1 ? "" : "s");
        columns_add(&columns, place);
        columns_add(&columns, count);
    }
    return columns_print(&columns, 2) | status;
}

/* ---- Plugins -------------------------------------------------------------------------------- */

static const char *mark_of(const visit_t *visit, size_t index)
{
    switch (visit->trials[index].state) {
    case KVS_PLUGIN_OK:
        return "ok";
    case KVS_PLUGIN_DISABLED:
    case KVS_PLUGIN_SHADOWED:
        return "off";
    case KVS_PLUGIN_UNAVAILABLE:
        return "WARN";
    default:
        return "FAIL";
    }
}

static void count(visit_t *visit, size_t index)
{
    switch (visit->trials[index].state) {
    case KVS_PLUGIN_OK:
        visit->n_ok++;
        break;
    case KVS_PLUGIN_DISABLED:
    case KVS_PLUGIN_SHADOWED:
        visit->n_off++;
        break;
    case KVS_PLUGIN_UNAVAILABLE:
        visit->n_unavailable++;
        break;
    default:
        visit->n_failed++;
    }
}

static int longest_name(const kvs_plugin_list_t *list)
{
    size_t longest = 0;

    for (size_t i = 0; i < kvs_plugin_list_count(list); i++) {
        size_t len = strlen(kvs_plugin_list_at(list, i)->name);

        longest = len > longest ? len : longest;
    }
    return (int)longest;
}

static void print_plugin(const visit_t *visit, size_t index, int width)
{
    const kvs_plugin_info_t *plugin = kvs_plugin_list_at(visit->list, index);
    const trial_t *trial = &visit->trials[index];

    printf("  %-4s  %-*s  %-18s  %s\n", mark_of(visit, index), width, plugin->name,
           kvs_plugin_state_text(trial->state), plugin->manifest);
    if (trial->reason[0] != '\0') {
        printf("        %s\n", trial->reason);
    }
    if (trial->fix[0] != '\0') {
        printf("        fix: %s\n", trial->fix);
    }
    for (size_t i = 0; i < plugin->n_notes; i++) {
        printf("        note: %s\n", plugin->notes[i]);
    }
    fflush(stdout); /* the next one may take its time */
}

static int try_plugins(visit_t *visit)
{
    size_t n = kvs_plugin_list_count(visit->list);
    int width = longest_name(visit->list);

    visit->trials = calloc(n + 1, sizeof(*visit->trials));
    if (visit->trials == NULL) {
        (void)kvs_fail(KVS_ERR_NO_MEMORY, "no memory to try %zu plugins", n);
        return -1;
    }
    if (!visit->as_json) {
        printf("\nplugins\n");
    }
    for (size_t i = 0; i < n; i++) {
        if (cli_trial(visit->list, i, visit->timeout_s, &visit->trials[i]) != 0) {
            return -1;
        }
        count(visit, i);
        if (!visit->as_json) {
            print_plugin(visit, i, width);
        }
    }
    return 0;
}

/* ---- Settings ------------------------------------------------------------------------------- */

/* A backend that the setting names: is it there, and did its trial go well? */
static int check_backend(visit_t *visit, const kvs_setting_t *setting, const char *name)
{
    const kvs_plugin_info_t *plugin;

    if (kvs_plugin_list_find(visit->list, name, &plugin) != KVS_OK) {
        return add_line(&visit->problems, "setting \"%s\" (%s): %s", setting->name, setting->origin,
                        kvs_last_error());
    }
    for (size_t i = 0; i < kvs_plugin_list_count(visit->list); i++) {
        if (kvs_plugin_list_at(visit->list, i) == plugin &&
            visit->trials[i].state != KVS_PLUGIN_OK) {
            return add_line(&visit->problems, "setting \"%s\" (%s): plugin '%s' is %s",
                            setting->name, setting->origin, plugin->name,
                            kvs_plugin_state_text(visit->trials[i].state));
        }
    }
    return 0;
}

/* `default` holds one name, `required` a list. */
static int check_backends(visit_t *visit, const kvs_setting_t *setting)
{
    const char *rest = setting->value;
    char name[128];

    for (rest += strspn(rest, ", "); *rest != '\0'; rest += strspn(rest, ", ")) {
        size_t len = strcspn(rest, ", ");

        snprintf(name, sizeof(name), "%.*s", (int)len, rest);
        if (check_backend(visit, setting, name) != 0) {
            return -1;
        }
        rest += len;
    }
    return 0;
}

static int check_settings(visit_t *visit)
{
    int status = 0;

    if (kvs_setting_list(&visit->settings) != KVS_OK) {
        visit->settings = NULL;
        return add_line(&visit->problems, "%s", kvs_last_error());
    }
    for (size_t i = 0; i < kvs_setting_list_count(visit->settings) && status == 0; i++) {
        const kvs_setting_t *setting = kvs_setting_list_at(visit->settings, i);
        int is_core = strcmp(setting->owner, "core") == 0;

        if (setting->error[0] != '\0') {
            status = add_line(&visit->problems, "%s", setting->error);
        } else if (is_core && strcmp(setting->name, "required") == 0) {
            status = check_backends(visit, setting);
        } else if (is_core && strcmp(setting->name, "default") == 0 &&
                   strcmp(setting->origin, "default") != 0) {
            status = check_backends(visit, setting); /* whoever set it means to use it */
        } else if (is_core && strcmp(setting->name, "trace") == 0 &&
                   kvs_setting_try(setting) != KVS_OK) {
            status = add_line(&visit->problems, "%s", kvs_last_error());
        }
    }
    return status;
}

static int gather_notes(visit_t *visit)
{
    int status = 0;

    for (size_t i = 0; i < kvs_plugin_list_n_notes(visit->list) && status == 0; i++) {
        status = add_line(&visit->notes, "%s", kvs_plugin_list_note(visit->list, i));
    }
    for (size_t i = 0; i < kvs_setting_list_n_notes(visit->settings) && status == 0; i++) {
        status = add_line(&visit->notes, "%s", kvs_setting_list_note(visit->settings, i));
    }
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static int examine(visit_t *visit)
{
    if (try_plugins(visit) != 0 || check_settings(visit) != 0 || gather_notes(visit) != 0) {
        return -1;
    }
    if (visit->n_ok + visit->n_unavailable == 0) {
        return add_line(&visit->problems, "no plugin can be used: install package libkvstore0, or "
                                          "set KVSTORE_PLUGIN_PATH to where manifests are");
    }
    return 0;
}

static void print_lines(const char *mark, const lines_t *lines)
{
    for (size_t i = 0; i < lines->n; i++) {
        printf("  %-4s  %s\n", mark, lines->texts[i]);
    }
}

static void print_rest(const visit_t *visit)
{
    if (visit->problems.n + visit->notes.n > 0) {
        printf("\nsettings\n");
        print_lines("FAIL", &visit->problems);
        print_lines("WARN", &visit->notes);
    }
    printf("\n%zu ok, %zu failed, %zu unavailable, %zu off; %zu wrong settings, %zu notes\n",
           visit->n_ok, visit->n_failed, visit->n_unavailable, visit->n_off, visit->problems.n,
           visit->notes.n);
}

static void surroundings_json(json_t *json, const kvs_plugin_list_t *list)
{
    json_text(json, "version", kvs_version());
    json_bool(json, "secure_execution", getauxval(AT_SECURE) != 0);
    json_open(json, "environment", '{');
    for (size_t i = 0; i < N_VARIABLES; i++) {
        json_text(json, variables[i], getenv(variables[i]));
    }
    json_close(json, '}');
    json_open(json, "paths", '[');
    for (size_t i = 0; i < kvs_plugin_list_n_paths(list); i++) {
        int n = n_manifests_at(list, kvs_plugin_list_path(list, i));

        json_open(json, NULL, '{');
        json_text(json, "path", kvs_plugin_list_path(list, i));
        json_bool(json, "exists", n >= 0);
        json_integer(json, "plugins", n > 0 ? n : 0);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void print_json(const visit_t *visit)
{
    json_t json = JSON_INIT;

    json_open(&json, NULL, '{');
    surroundings_json(&json, visit->list);
    json_open(&json, "plugins", '[');
    for (size_t i = 0; i < kvs_plugin_list_count(visit->list); i++) {
        kvs_plugin_info_t tried = cli_tried(kvs_plugin_list_at(visit->list, i), &visit->trials[i]);

        cli_plugin_json(&json, NULL, &tried);
    }
    json_close(&json, ']');
    json_texts(&json, "problems", (const char *const *)visit->problems.texts, visit->problems.n);
    json_texts(&json, "notes", (const char *const *)visit->notes.texts, visit->notes.n);
    json_integer(&json, "ok", (long long)visit->n_ok);
    json_integer(&json, "failed", (long long)visit->n_failed);
    json_integer(&json, "unavailable", (long long)visit->n_unavailable);
    json_integer(&json, "off", (long long)visit->n_off);
    json_close(&json, '}');
}

static int doctor(visit_t *visit)
{
    if (kvs_plugin_list(&visit->list) != KVS_OK) {
        return cli_failed("doctor");
    }
    if (!visit->as_json && print_surroundings(visit->list) != 0) {
        (void)kvs_fail(KVS_ERR_NO_MEMORY, "no memory to print the search path");
        return cli_failed("doctor");
    }
    if (examine(visit) != 0) {
        return cli_failed("doctor");
    }
    if (visit->as_json) {
        print_json(visit);
    } else {
        print_rest(visit);
    }
    return visit->n_failed + visit->problems.n > 0;
}

/* 0, or the exit status of wrong usage. */
static int parse(int argc, char **argv, visit_t *visit)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"timeout", required_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    int option;
    char *end;
    long seconds;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            visit->as_json = 1;
            break;
        case 't':
            seconds = strtol(optarg, &end, 10);
            if (*end != '\0' || seconds < 1 || seconds > 3600) {
                return cli_usage_error("doctor", "--timeout is 1 to 3600 seconds, not \"%s\"",
                                       optarg);
            }
            visit->timeout_s = (int)seconds;
            break;
        default:
            return cli_usage_error("doctor", "unknown option, or without its value: %s",
                                   argv[optind - 1]);
        }
    }
    return optind == argc
               ? 0
               : cli_usage_error("doctor", "\"%s\" is one argument too many", argv[optind]);
}

int cmd_doctor(int argc, char **argv)
{
    visit_t visit = {.timeout_s = 10};
    int status = parse(argc, argv, &visit);

    if (status == 0) {
        status = doctor(&visit);
    }
    free_lines(&visit.problems);
    free_lines(&visit.notes);
    free(visit.trials);
    kvs_setting_list_free(visit.settings);
    kvs_plugin_list_free(visit.list);
    return status;
}
