/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - states of plugins and the texts around them. */
#include "verdict.h"

#include "cnumber.h"
#include "printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REASON_BYTES 1024

const char *kvs_plugin_state_text(kvs_plugin_state_t state)
{
    switch (state) {
#define TEXT_OF(name, text)                                                                        \
    case KVS_PLUGIN_##name:                                                                        \
        return text;
        KVS_PLUGIN_STATE_LIST(TEXT_OF)
#undef TEXT_OF
    }
    return "unknown state";
}

void kvsi_judge(kvsi_arena_t *arena, kvs_plugin_info_t *info, kvs_plugin_state_t state,
                const char *fix, const char *format, ...)
{
    char reason[REASON_BYTES], shown[REASON_BYTES];
    va_list args;

    if (info->state != KVS_PLUGIN_OK) {
        return;
    }
    va_start(args, format);
    kvsi_c_vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    kvsi_printable(reason, shown, sizeof(shown));
    info->state = state;
    info->reason = kvsi_arena_text(arena, "%s", shown);
    info->fix = fix;
}

void kvsi_note(kvsi_arena_t *arena, const char *const **notes, size_t *n_notes, const char *format,
               ...)
{
    const char **texts = (const char **)*notes;
    char text[REASON_BYTES], shown[REASON_BYTES];
    va_list args;

    if (*n_notes == 0) {
        texts = kvsi_arena_array(arena, KVSI_MAX_NOTES, sizeof(*texts));
    }
    if (texts == NULL || *n_notes == KVSI_MAX_NOTES) {
        return;
    }
    va_start(args, format);
    kvsi_c_vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kvsi_printable(text, shown, sizeof(shown));
    texts[(*n_notes)++] = kvsi_arena_text(arena, "%s", shown);
    *notes = texts;
}

kvs_status_t kvsi_verdict_fail(const kvs_plugin_info_t *info)
{
    int outside = info->state == KVS_PLUGIN_DISABLED || info->state == KVS_PLUGIN_UNAVAILABLE;
    int names_file = strncmp(info->reason, info->manifest, strlen(info->manifest)) == 0;
    int is_path = info->manifest[0] != '('; /* else "(static)" */

    return kvs_fail(outside ? KVS_ERR_UNAVAILABLE : KVS_ERR_PLUGIN,
                    "plugin \"%s\"%s%s%s: %s: %s%s%s", info->name,
                    names_file ? ""
                    : is_path  ? " ("
                               : " ",
                    names_file ? "" : info->manifest, names_file || !is_path ? "" : ")",
                    kvs_plugin_state_text(info->state), info->reason,
                    info->fix[0] != '\0' ? "; " : "", info->fix);
}

const char *kvsi_place_of(const kvs_plugin_info_t *info)
{
    return info->library[0] != '\0' ? info->library : info->manifest;
}

const char *kvsi_fix_reinstall(kvsi_arena_t *arena, const kvs_plugin_info_t *info)
{
    return info->package[0] == '\0'
               ? "install the plugin again"
               : kvsi_arena_text(arena, "install package %s again", info->package);
}
