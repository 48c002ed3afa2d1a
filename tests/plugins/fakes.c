/* SPDX-License-Identifier: Apache-2.0 */
/* fakes.c - see fakes.h. */
#include "fakes.h"

#include "kt.h"

const char *fake_library(const char *variant)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/%s.so", KVS_FAKE_DIR, variant);
    return path;
}

static const char *or_else(const char *text, const char *preset)
{
    return text != NULL ? text : preset;
}

const char *fake_text(const fake_t *fake)
{
    static char text[8192];
    char provides[2048], library[1024];
    const char *name = or_else(fake->name, "fake");

    snprintf(
        provides, sizeof(provides),
        "[{\"kind\": \"backend\", \"name\": \"%s\", %s\"capabilities\": {\"keeps_weights\": true, "
        "\"devices\": [\"cpu\"], \"dtypes\": [\"float32\"]}}]",
        name, or_else(fake->provide, ""));
    snprintf(library, sizeof(library), "%s/good.so", KVS_FAKE_DIR);
    snprintf(text, sizeof(text),
             "{\"manifest_version\": \"%s\", \"name\": \"%s\", \"version\": \"%s\",\n"
             " \"library\": \"%s\",\n \"arch\": \"%s\", \"abi\": \"%s\",\n %s\"provides\": %s}\n",
             or_else(fake->format, "1.0"), name, or_else(fake->version, "1.0.0"),
             or_else(fake->library, library), or_else(fake->arch, KVS_ARCH),
             or_else(fake->abi, "1.0"), or_else(fake->more, ""), or_else(fake->provides, provides));
    return text;
}

const char *fake_write(const char *dir, const fake_t *fake)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.json", or_else(fake->name, "fake"));
    return kt_write_file(dir, name, fake_text(fake));
}
