/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h. The core's own settings, such as log and threads, may differ. */
#include "identity.h"

const char *kvsi_identity_text(kvsi_arena_t *arena, const kvs_plugin_t *plugin,
                               const kvs_backend_t *backend, const kvs_config_t *config)
{
    const char *text = plugin == NULL
                           ? kvsi_arena_text(arena, "plugin (program)\n")
                           : kvsi_arena_text(arena, "plugin %s %s, ABI %u.%u\n", plugin->name,
                                             plugin->version, plugin->abi_major, plugin->abi_minor);

    text = kvsi_arena_text(arena, "%sbackend %s\n", text, backend->name);
    for (size_t i = 0; i < backend->n_options; i++) {
        const kvs_option_info_t *option = &backend->options[i];

        if ((option->flags & KVS_OPTION_LOCAL) == 0) {
            text = kvsi_arena_text(arena, "%soption %s = %s\n", text, option->name,
                                   kvsi_config_text(config, option->name));
        }
    }
    return text;
}

uint64_t kvsi_identity_digest(const char *text)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++) {
        digest = (digest ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return digest;
}
