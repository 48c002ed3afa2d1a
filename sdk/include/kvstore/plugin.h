/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - what a plugin author includes: the ABI, the entry macro, and short names for the
 * host's services. A plugin needs no symbol of libkvstore: everything goes through kvs_plugin_host,
 * which the entry stores. sdk/teststore is the smallest complete plugin; copy it. */
#ifndef KVSTORE_PLUGIN_H
#define KVSTORE_PLUGIN_H

#include <kvstore/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set by the entry, before any other function of the plugin is called; read-only from then on. */
extern __attribute__((visibility("hidden"))) const kvs_host_t *kvs_plugin_host;

#define kvs_fail(...)         (kvs_plugin_host->fail(__VA_ARGS__))
#define kvs_fail_context(...) (kvs_plugin_host->fail_context(__VA_ARGS__))
#define kvs_log(...)          (kvs_plugin_host->log(__VA_ARGS__))

#ifdef KVS_PLUGIN_STATIC
#define KVS_PLUGIN_ENTRY(ident) kvs_plugin_entry_v1_##ident
#else
#define KVS_PLUGIN_ENTRY(ident) kvs_plugin_entry_v1
#endif

/* KVS_PLUGIN(acme, "1.2.0", .backends = acme_backends, .n_backends = 1) writes the one exported
 * symbol. `ident` is the plugin's name and an identifier; the rest are members of kvs_plugin_t. */
/* clang-format off */
#define KVS_PLUGIN(ident, plugin_version, ...)                                                     \
    __attribute__((weak, visibility("hidden"))) const kvs_host_t *kvs_plugin_host = NULL;          \
    static const kvs_plugin_t kvs_plugin_descriptor_##ident = {                                    \
        .size = (uint32_t)sizeof(kvs_plugin_t),                                                    \
        .abi_major = KVS_ABI_MAJOR,                                                                \
        .abi_minor = KVS_ABI_MINOR,                                                                \
        .name = #ident,                                                                            \
        .version = (plugin_version),                                                               \
        __VA_ARGS__};                                                                              \
    KVS_API const kvs_plugin_t *KVS_PLUGIN_ENTRY(ident)(const kvs_host_t *host,                    \
                                                        const char **ret_refusal);                 \
    const kvs_plugin_t *KVS_PLUGIN_ENTRY(ident)(const kvs_host_t *host, const char **ret_refusal)  \
    {                                                                                              \
        if (host->abi_major != KVS_ABI_MAJOR || host->abi_minor < KVS_ABI_MINOR) {                 \
            *ret_refusal = "this plugin was built for a newer kvstore ABI than the host's";        \
            return NULL;                                                                           \
        }                                                                                          \
        kvs_plugin_host = host;                                                                    \
        return &kvs_plugin_descriptor_##ident;                                                     \
    }
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif
