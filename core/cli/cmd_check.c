/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_check.c - `kvstore check FILE…`: manifests and shared objects held against the rules for plugins.
 *
 * Of a manifest also its library is checked, and loaded in a child process: does the library say what
 * the manifest claims? A line for each file that is right; what is wrong goes to stderr, one line each,
 * and makes the exit status 1. */
#include "check_elf.h"
#include "commands.h"
#include "trial.h"

#include <kvstore/plugins.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIAL_S 10

/* A file that is being checked. */
typedef struct report {
    const char *file;
    int n_faults;
} report_t;

static void tell(void *arg, const char *text)
{
    report_t *report = arg;

    fflush(stdout);
    fprintf(stderr, "%s: %s\n", report->file, text);
    report->n_faults++;
}

/* A text that names its file itself. */
static void tell_named(report_t *report, const char *text, const char *fix)
{
    fflush(stdout);
    fprintf(stderr, "%s%s%s\n", text, fix[0] != '\0' ? "; " : "", fix);
    report->n_faults++;
}

static int is_elf(const char *path)
{
    char magic[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */

    if (fd >= 0) {
        if (read(fd, magic, sizeof(magic)) < 0) {
            magic[0] = '\0'; /* the manifest's reader says why */
        }
        (void)close(fd); /* read only: nothing can be lost */
    }
    return memcmp(magic, "\177ELF", sizeof(magic)) == 0;
}

static void check_library(report_t *report, const char *path)
{
    report_t inner = {path, 0};

    if (check_elf(path, tell, &inner) != KVS_OK) {
        tell_named(&inner, kvs_last_error(), "");
    }
    report->n_faults += inner.n_faults;
}

/* Manifest and library agree, as far as the library can be loaded here. */
static int try_library(report_t *report, kvs_plugin_list_t *list)
{
    trial_t trial;

    if (cli_trial(list, 0, TRIAL_S, &trial) != 0) {
        return cli_failed("check");
    }
    if (trial.state == KVS_PLUGIN_UNAVAILABLE) {
        printf("%s: not available here: %s\n", report->file, trial.reason);
    } else if (trial.state != KVS_PLUGIN_OK) {
        char text[sizeof(trial.reason) + 32];

        snprintf(text, sizeof(text), "%s: %s", kvs_plugin_state_text(trial.state), trial.reason);
        tell(report, text);
    }
    return 0;
}

static int check_manifest(report_t *report)
{
    const kvs_plugin_info_t *plugin;
    kvs_plugin_list_t *list;
    int status = 0;

    if (kvs_plugin_read(report->file, &list) != KVS_OK) {
        return cli_failed("check");
    }
    plugin = kvs_plugin_list_at(list, 0);
    if (plugin->state == KVS_PLUGIN_BAD_MANIFEST) {
        tell_named(report, plugin->reason, plugin->fix);
    } else if (plugin->state != KVS_PLUGIN_OK) {
        char text[2048];

        snprintf(text, sizeof(text), "%s: %s; %s", kvs_plugin_state_text(plugin->state),
                 plugin->reason, plugin->fix);
        tell(report, text);
    }
    for (size_t i = 0; i < plugin->n_notes; i++) {
        tell_named(report, plugin->notes[i], "");
    }
    if (plugin->state == KVS_PLUGIN_OK) {
        check_library(report, plugin->library);
        status = try_library(report, list);
    }
    kvs_plugin_list_free(list);
    return status;
}

static int check_file(const char *file)
{
    report_t report = {file, 0};
    int status = 0;

    if (is_elf(file)) {
        check_library(&report, file);
    } else {
        status = check_manifest(&report);
    }
    if (status == 0 && report.n_faults == 0) {
        printf("%s: ok\n", file);
    }
    return status != 0 || report.n_faults > 0;
}

int cmd_check(int argc, char **argv)
{
    int first = 1, status = 0;

    if (argc > 1 && strcmp(argv[1], "--") == 0) {
        first = 2;
    } else if (argc > 1 && argv[1][0] == '-') {
        return cli_usage_error("check", "unknown option \"%s\"", argv[1]);
    }
    if (first >= argc) {
        return cli_usage_error("check", "name a manifest or a shared object");
    }
    for (int i = first; i < argc; i++) {
        status |= check_file(argv[i]);
    }
    return status;
}
