/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.c - the manifests are those of the build tree. */
#include "plugins.h"

#include "kt.h"

#include <kvstore/kvstore.h>

#include <stdlib.h>

const struct kvs_plugin *kvs_plugin_entry_v1_local(const struct kvs_host *host,
                                                   const char **ret_refusal);
const struct kvs_plugin *kvs_plugin_entry_v1_optimizers(const struct kvs_host *host,
                                                        const char **ret_refusal);

static void register_one(kvs_plugin_entry_t entry, const char *manifest)
{
    static char text[65536];
    FILE *file = fopen(manifest, "r");
    size_t n = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);

    if (n == 0) {
        perror(manifest);
        exit(2);
    }
    text[n] = '\0';
    fclose(file);
    KT_OK(kvs_plugin_register(entry, text));
}

void memory_register_plugins(void)
{
    static int done;

    if (!done) {
        done = 1;
        register_one(kvs_plugin_entry_v1_local, LOCAL_MANIFEST);
        register_one(kvs_plugin_entry_v1_optimizers, OPTIMIZERS_MANIFEST);
    }
}
