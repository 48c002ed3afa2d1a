/* SPDX-License-Identifier: Apache-2.0 */
/* compat.c - the formats of the fields have been checked by manifest.c. */
#include "compat.h"

#include "verdict.h"

#include <kvstore/abi.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int kvsi_abi_is_served(unsigned major, unsigned minor)
{
    return major == KVS_ABI_MAJOR && minor <= KVS_ABI_MINOR;
}

static void check_abi(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    unsigned major = 0, minor = 0;

    (void)sscanf(info->abi, "%u.%u", &major, &minor);
    if (!kvsi_abi_is_served(major, minor)) {
        int newer = major > KVS_ABI_MAJOR || (major == KVS_ABI_MAJOR && minor > KVS_ABI_MINOR);

        kvsi_judge(arena, info, KVS_PLUGIN_ABI_MISMATCH,
                   newer ? "install a newer libkvstore0, or an older version of the plugin"
                         : "install a newer version of the plugin",
                   "the plugin needs ABI %s, this library offers %d.0 to %d.%d", info->abi,
                   KVS_ABI_MAJOR, KVS_ABI_MAJOR, KVS_ABI_MINOR);
    }
}

/* `core` is "" or ">=1.2.3" with one to three numbers. */
static void check_core(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    static const unsigned own[] = {KVS_VERSION_MAJOR, KVS_VERSION_MINOR, KVS_VERSION_PATCH};
    unsigned needed[3] = {0, 0, 0};

    (void)sscanf(info->core, ">=%u.%u.%u", &needed[0], &needed[1], &needed[2]);
    for (int i = 0; i < 3; i++) {
        if (needed[i] != own[i]) {
            if (needed[i] > own[i]) {
                kvsi_judge(arena, info, KVS_PLUGIN_CORE_TOO_OLD, "install a newer libkvstore0",
                           "the plugin needs libkvstore %s, this is %s", info->core, kvs_version());
            }
            return;
        }
    }
}

static void check_library(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    struct stat st;

    if (info->library[0] != '\0' && stat(info->library, &st) != 0) {
        kvsi_judge(arena, info, KVS_PLUGIN_LIBRARY_MISSING, kvsi_fix_reinstall(arena, info),
                   "%s: %s", info->library, strerror(errno));
    }
}

void kvsi_compat_check(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    if (info->state != KVS_PLUGIN_OK) {
        return;
    }
    if (strcmp(info->arch, KVS_ARCH) != 0) {
        kvsi_judge(arena, info, KVS_PLUGIN_ARCH_MISMATCH,
                   "install the plugin for this architecture",
                   "the plugin is for %s, this library for %s", info->arch, KVS_ARCH);
    }
    check_abi(arena, info);
    check_core(arena, info);
    check_library(arena, info);
}
