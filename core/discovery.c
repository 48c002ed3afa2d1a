/* SPDX-License-Identifier: Apache-2.0 */
/* discovery.c - a directory's manifests are taken in byte order, without recursion; other files
 * are passed over. A faulty manifest is listed with its fault and hides a later one of its name,
 * so that nobody runs another version than the one that was put first; one for another
 * architecture doesn't. */
#include "discovery.h"

#include "claims.h"
#include "compat.h"
#include "log.h"
#include "manifest.h"
#include "policy.h"
#include "trust.h"
#include "verdict.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A list that is being built. */
typedef struct scan {
    kvs_plugin_list_t *list;
    kvsi_masks_t masks;
    size_t capacity;
    int ignores_policy;
} scan_t;

static int is_manifest_name(const char *name)
{
    size_t len = strlen(name);

    return len > 5 && name[0] != '.' && strcmp(name + len - 5, ".json") == 0;
}

/* ---- One plugin ----------------------------------------------------------------------------- */

static const kvs_plugin_info_t *find_claimant(const kvs_plugin_list_t *list, const char *name)
{
    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *info = &list->plugins[i];

        if (strcmp(info->name, name) == 0 && info->state != KVS_PLUGIN_ARCH_MISMATCH &&
            strcmp(info->manifest, KVSI_MANIFEST_PROGRAM) != 0) {
            return info;
        }
    }
    return NULL;
}

/* Append; a name that is taken makes it a loser. */
static void append(scan_t *scan, kvs_plugin_info_t info)
{
    kvs_plugin_list_t *list = scan->list;
    const kvs_plugin_info_t *claimant = find_claimant(list, info.name);

    if (list->n_plugins == scan->capacity) {
        size_t capacity = scan->capacity * 2 + 16;
        kvs_plugin_info_t *grown = realloc(list->plugins, capacity * sizeof(*grown));

        if (grown == NULL) {
            list->arena.failed = 1;
            return;
        }
        list->plugins = grown;
        scan->capacity = capacity;
    }
    if (claimant != NULL) {
        info.state = KVS_PLUGIN_OK; /* its own faults don't matter any more */
        kvsi_judge(&list->arena, &info, KVS_PLUGIN_SHADOWED,
                   kvsi_arena_text(&list->arena, "remove %s to use this one", claimant->manifest),
                   "%s comes first", claimant->manifest);
    }
    list->plugins[list->n_plugins++] = info;
}

static void append_text(scan_t *scan, kvs_plugin_info_t info, const char *text, size_t n_bytes)
{
    kvsi_arena_t *arena = &scan->list->arena;

    kvsi_manifest_parse(arena, text, n_bytes, &info);
    kvsi_trust_check(arena, &info);
    kvsi_compat_check(arena, &info);
    if (!scan->ignores_policy) {
        kvsi_policy_apply(arena, &scan->masks, &info);
    }
    append(scan, info);
}

static void append_unreadable(scan_t *scan, kvs_plugin_info_t info, const char *cause)
{
    kvsi_judge(&scan->list->arena, &info, KVS_PLUGIN_BAD_MANIFEST, "correct or remove the file",
               "%s: %s", info.manifest, cause);
    append(scan, info);
}

/* Read the whole file; one byte more than allowed is enough to see that it is too large. */
static ssize_t read_file(int fd, char *buffer, size_t capacity)
{
    size_t n_bytes = 0;

    while (n_bytes < capacity) {
        ssize_t n = read(fd, buffer + n_bytes, capacity - n_bytes);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -1 : (ssize_t)n_bytes;
        }
        n_bytes += (size_t)n;
    }
    return (ssize_t)n_bytes;
}

static void scan_file(scan_t *scan, const char *path)
{
    kvs_plugin_info_t info = kvsi_manifest_blank(&scan->list->arena, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    struct stat st;

    if (fd < 0) {
        append_unreadable(scan, info, strerror(errno));
        return;
    }
    if (fstat(fd, &st) != 0) {
        append_unreadable(scan, info, strerror(errno));
    } else if (kvsi_policy_is_mask(&st) && !scan->ignores_policy) {
        kvsi_policy_add_mask(&scan->list->arena, &scan->masks, info.name, path);
    } else if (!S_ISREG(st.st_mode)) {
        append_unreadable(scan, info, "not a regular file");
    } else {
        static const size_t capacity = KVSI_MANIFEST_MAX_BYTES + 1;
        char *text = malloc(capacity);
        ssize_t n_bytes = text != NULL ? read_file(fd, text, capacity) : -1;

        if (text == NULL) {
            scan->list->arena.failed = 1;
        } else if (n_bytes < 0) {
            append_unreadable(scan, info, strerror(errno));
        } else {
            append_text(scan, info, text, (size_t)n_bytes);
        }
        free(text);
    }
    (void)close(fd); /* read only: nothing can be lost */
}

/* ---- Places --------------------------------------------------------------------------------- */

static int keep_manifests(const struct dirent *entry)
{
    return is_manifest_name(entry->d_name);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void scan_place(scan_t *scan, const char *path)
{
    struct dirent **entries = NULL;
    int n_entries = scandir(path, &entries, keep_manifests, by_bytes);

    if (n_entries < 0 && errno == ENOTDIR) {
        scan_file(scan, path);
        return;
    }
    scan->list->arena.failed |= n_entries < 0 && errno == ENOMEM;
    if (n_entries < 0 && errno != ENOENT) {
        const char *cause = strerror(errno);

        kvsi_log(KVS_LOG_WARN, "discovery", "cannot read directory '%s': %s", path, cause);
        kvsi_note(&scan->list->arena, &scan->list->notes, &scan->list->n_notes,
                  "cannot read directory %s: %s", path, cause);
    }
    for (int i = 0; i < n_entries; i++) {
        scan_file(scan, kvsi_arena_text(&scan->list->arena, "%s/%s", path, entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
}

static void append_program_backend(scan_t *scan, const kvs_backend_t *backend)
{
    kvsi_arena_t *arena = &scan->list->arena;
    kvs_plugin_info_t info = kvsi_manifest_blank(arena, KVSI_MANIFEST_PROGRAM);
    kvs_provide_t *provide = kvsi_arena_array(arena, 1, sizeof(*provide));

    if (provide != NULL) {
        *provide = kvsi_provide_of_backend(arena, backend);
        info.name = provide->name;
        info.provides = provide;
        info.n_provides = 1;
        append(scan, info);
    }
}

static kvs_status_t new_list(kvs_plugin_list_t **ret_list)
{
    *ret_list = calloc(1, sizeof(**ret_list));
    return *ret_list != NULL ? KVS_OK
                             : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the list of plugins");
}

/* The finished list, or the error. */
static kvs_status_t hand_over(kvs_status_t status, kvs_plugin_list_t *list,
                              kvs_plugin_list_t **ret_list)
{
    if (status == KVS_OK) {
        status = kvsi_arena_check(&list->arena);
    }
    if (status == KVS_OK) {
        *ret_list = list;
    } else {
        kvs_plugin_list_free(list);
    }
    return status;
}

kvs_status_t kvsi_discovery_read(const char *path, kvs_plugin_list_t **ret_list)
{
    kvs_plugin_list_t *list;
    kvs_status_t status = new_list(&list);
    scan_t scan = {.list = list, .ignores_policy = 1};

    if (status == KVS_OK) {
        scan_file(&scan, kvsi_path_absolute(&list->arena, path));
        status = hand_over(status, list, ret_list);
    }
    return status;
}

kvs_status_t kvsi_discovery_scan(const kvsi_added_t *added, kvs_plugin_list_t **ret_list)
{
    kvs_plugin_list_t *list;
    kvs_status_t status = new_list(&list);
    scan_t scan = {.list = list};

    if (status != KVS_OK) {
        return status;
    }
    status = kvsi_searchpath_build(&list->arena, added->paths, added->n_paths, &list->path);
    for (size_t i = 0; status == KVS_OK && i < added->n_backends; i++) {
        append_program_backend(&scan, added->backends[i]);
    }
    for (size_t i = 0; status == KVS_OK && i < added->n_statics; i++) {
        append_text(&scan, kvsi_manifest_blank(&list->arena, KVSI_MANIFEST_STATIC),
                    added->statics[i].manifest, strlen(added->statics[i].manifest));
    }
    for (size_t i = 0; status == KVS_OK && i < list->path.n_paths; i++) {
        scan_place(&scan, list->path.paths[i]);
    }
    kvsi_policy_note_unmatched(&list->arena, list->plugins, list->n_plugins, &list->notes,
                               &list->n_notes);
    return hand_over(status, list, ret_list);
}

void kvs_plugin_list_free(kvs_plugin_list_t *list)
{
    if (list != NULL) {
        kvsi_arena_release(&list->arena);
        free(list->plugins);
        free(list);
    }
}
