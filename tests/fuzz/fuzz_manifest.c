/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_manifest.c - any bytes as a manifest: it is read or refused, and what is read keeps the
 * promises of kvstore/plugins.h. Seeds lie in seeds/manifest; each crash that was mended left
 * one. */
#include "compat.h"
#include "manifest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_provide(const kvs_provide_t *provide)
{
    require(provide->kind[0] != '\0' && provide->name[0] != '\0' && provide->word != NULL);
    require(provide->priority >= 0 && provide->priority <= 100);
    for (size_t i = 0; i < provide->n_aliases; i++) {
        require(provide->aliases[i][0] != '\0');
    }
    for (size_t i = 0; i < provide->n_dtypes; i++) {
        require(strlen(provide->dtypes[i]) >= 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info = kvsi_manifest_blank(&arena, "/fuzz/fuzz.json");

    kvsi_manifest_parse(&arena, (const char *)data, n_bytes, &info);
    kvsi_compat_check(&arena, &info);
    require(info.state == KVS_PLUGIN_OK || info.reason[0] != '\0');
    require(info.name[0] != '\0' && info.version != NULL && info.library != NULL);
    if (info.state != KVS_PLUGIN_BAD_MANIFEST && info.state != KVS_PLUGIN_FORMAT_TOO_NEW) {
        require(strcmp(info.name, "fuzz") == 0 && info.library[0] != '\0' && info.n_provides > 0);
        for (size_t i = 0; i < info.n_provides; i++) {
            check_provide(&info.provides[i]);
        }
    }
    kvsi_arena_release(&arena);
    return 0;
}
