/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_new_plugin.c - `kvstore new-plugin NAME`: the templates in PREFIX/share/kvstore/template, with
 * @name@ and @NAME@ replaced, as a project in the new directory NAME. */
#include "commands.h"

#include <kvstore/plugins.h>

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPLATE_DIR   "../share/kvstore/template" /* from the directory that holds this program */
#define MAX_FILE_BYTES (64 * 1024)
#define MAX_NAME       32

/* A template, and what it becomes; "@name@" stands in both names for the plugin's. */
static const struct {
    const char *template, *file;
} files[] = {
    {"CMakeLists.txt.in", "CMakeLists.txt"}, {"plugin.c", "@name@.c"},
    {"plugin.json.in", "@name@.json.in"},    {"test.c", "test_@name@.c"},
    {"README.md.in", "README.md"},
};

typedef struct project {
    const char *name;
    char upper[MAX_NAME + 1];
    char templates[PATH_MAX]; /* their directory */
} project_t;

static int is_plugin_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return name[len] == '\0' && len <= MAX_NAME && islower((unsigned char)name[0]);
}

/* A second plugin of a name would hide the first, or be hidden. */
static kvs_status_t check_name(const char *name)
{
    kvs_plugin_list_t *list = NULL;
    kvs_status_t status;

    if (!is_plugin_name(name)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "\"%.80s\" can't be a plugin's name: that is a letter, then at most 31 of "
                        "a-z, 0-9 and _",
                        name);
    }
    for (size_t i = 0; kvs_known_at(i) != NULL; i++) {
        if (strcmp(kvs_known_at(i)->name, name) == 0) {
            return kvs_fail(KVS_ERR_EXISTS,
                            "\"%s\" is the name of a %s of kvstore itself; choose "
                            "another",
                            name, kvs_known_at(i)->kind);
        }
    }
    status = kvs_plugin_list(&list);
    for (size_t i = 0; status == KVS_OK && i < kvs_plugin_list_count(list); i++) {
        if (strcmp(kvs_plugin_list_at(list, i)->name, name) == 0) {
            status =
                kvs_fail(KVS_ERR_EXISTS, "a plugin \"%s\" is installed: %s; choose another name",
                         name, kvs_plugin_list_at(list, i)->manifest);
        }
    }
    kvs_plugin_list_free(list);
    return status;
}

static kvs_status_t find_templates(project_t *project)
{
    char self[PATH_MAX], path[PATH_MAX + sizeof(TEMPLATE_DIR)];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0) {
        return kvs_fail(KVS_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    }
    self[n] = '\0';
    *(strrchr(self, '/') + 1) = '\0';
    snprintf(path, sizeof(path), "%s" TEMPLATE_DIR, self);
    if (realpath(path, project->templates) == NULL) {
        return kvs_fail(KVS_ERR_NOT_FOUND, "%s: %s; install package libkvstore-dev", path,
                        strerror(errno));
    }
    return KVS_OK;
}

/* Write `text` with the name in place of its two marks. 0 if all was written. */
static int put_replaced(const project_t *project, const char *text, FILE *out)
{
    static const char lower[] = "@name@", upper[] = "@NAME@";

    for (const char *at; (at = strchr(text, '@')) != NULL; text = at) {
        fwrite(text, 1, (size_t)(at - text), out);
        if (strncmp(at, lower, strlen(lower)) == 0) {
            fputs(project->name, out);
            at += strlen(lower);
        } else if (strncmp(at, upper, strlen(upper)) == 0) {
            fputs(project->upper, out);
            at += strlen(upper);
        } else {
            fputc(*at++, out);
        }
    }
    return fputs(text, out) < 0 || ferror(out) ? -1 : 0;
}

static kvs_status_t read_template(const project_t *project, const char *name, char *ret_text,
                                  size_t n_bytes)
{
    char path[PATH_MAX + 64];
    FILE *in;
    size_t n;
    kvs_status_t status = KVS_OK;

    snprintf(path, sizeof(path), "%s/%s", project->templates, name);
    in = fopen(path, "re");
    if (in == NULL) {
        return kvs_fail(KVS_ERR_IO, "%s: %s; install package libkvstore-dev again", path,
                        strerror(errno));
    }
    n = fread(ret_text, 1, n_bytes - 1, in);
    if (ferror(in)) {
        status = kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    ret_text[n] = '\0';
    (void)fclose(in); /* it was only read */
    return status;
}

static kvs_status_t write_file(const project_t *project, size_t index)
{
    char text[MAX_FILE_BYTES], file[64], path[128];
    FILE *out;
    kvs_status_t status = read_template(project, files[index].template, text, sizeof(text));

    if (status != KVS_OK) {
        return status;
    }
    const char *mark = strstr(files[index].file, "@name@");
    int n_before = mark != NULL ? (int)(mark - files[index].file) : 0;

    snprintf(file, sizeof(file), "%.*s%s%s", n_before, files[index].file,
             mark != NULL ? project->name : "",
             mark != NULL ? mark + strlen("@name@") : files[index].file);
    snprintf(path, sizeof(path), "%s/%s", project->name, file);
    out = fopen(path, "wxe");
    int failed = out == NULL || put_replaced(project, text, out) != 0;

    if ((out != NULL && fclose(out) != 0) || failed) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    printf("%s\n", path);
    return KVS_OK;
}

static kvs_status_t write_project(const char *name)
{
    project_t project = {.name = name};
    kvs_status_t status = check_name(name);

    if (status == KVS_OK) {
        status = find_templates(&project);
    }
    if (status != KVS_OK) {
        return status;
    }
    for (size_t i = 0; name[i] != '\0'; i++) {
        project.upper[i] = (char)toupper((unsigned char)name[i]);
    }
    if (mkdir(name, 0755) != 0) {
        return kvs_fail(errno == EEXIST ? KVS_ERR_EXISTS : KVS_ERR_IO, "%s: %s", name,
                        strerror(errno));
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && status == KVS_OK; i++) {
        status = write_file(&project, i);
    }
    return status;
}

int cmd_new_plugin(int argc, char **argv)
{
    const char *name;
    int status = cli_parse_flag(argc, argv, NULL, 1, &name, NULL);

    if (status != 0) {
        return status;
    }
    if (write_project(name) != KVS_OK) {
        return cli_failed("new-plugin");
    }
    printf("build it: cmake -S %s -B %s/build && cmake --build %s/build\n", name, name, name);
    return 0;
}
