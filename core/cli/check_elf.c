/* SPDX-License-Identifier: Apache-2.0 */
/* check_elf.c - reads the sections .dynsym, .dynstr and .dynamic. Every offset comes from the file and
 * is held against its size before it is used. */
#include "check_elf.h"

#include "../elfcheck.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY_SYMBOL "kvs_plugin_entry_v1"

/* A file in memory. */
typedef struct image {
    const char *bytes;
    size_t n_bytes;
} image_t;

/* A section's items. */
typedef struct table {
    const char *bytes;
    size_t n, item_bytes;
} table_t;

typedef struct object {
    table_t symbols, dynamic;
    const char *names; /* of symbols and of the dynamic section: .dynstr */
    size_t n_names;
} object_t;

typedef struct teller {
    check_tell_t tell;
    void *arg;
} teller_t;

static void complain(const teller_t *teller, const char *format, ...) KVS_PRINTF(2, 3);
static void complain(const teller_t *teller, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    teller->tell(teller->arg, text);
}

/* ---- Sections ------------------------------------------------------------------------------- */

/* `n` bytes at `offset`, or NULL if the file doesn't hold them. */
static const char *piece(const image_t *image, uint64_t offset, uint64_t n)
{
    return offset <= image->n_bytes && n <= image->n_bytes - offset ? image->bytes + offset : NULL;
}

/* The first section header of that type, into `ret_section`; its index, or -1. */
static int find_section(const image_t *image, uint32_t type, ElfW(Shdr) * ret_section)
{
    ElfW(Ehdr) header;

    memcpy(&header, image->bytes, sizeof(header)); /* kvsi_elf_check has seen that it is there */
    for (unsigned i = 0; i < header.e_shnum && header.e_shentsize == sizeof(*ret_section); i++) {
        const char *at =
            piece(image, header.e_shoff + (uint64_t)i * sizeof(*ret_section), sizeof(*ret_section));

        if (at == NULL) {
            return -1;
        }
        memcpy(ret_section, at, sizeof(*ret_section));
        if (ret_section->sh_type == type) {
            return (int)i;
        }
    }
    return -1;
}

static int read_table(const image_t *image, uint32_t type, size_t item_bytes, table_t *ret_table)
{
    ElfW(Shdr) section;

    if (find_section(image, type, &section) < 0) {
        return -1;
    }
    ret_table->bytes = piece(image, section.sh_offset, section.sh_size);
    ret_table->n = section.sh_size / item_bytes;
    ret_table->item_bytes = item_bytes;
    return ret_table->bytes != NULL ? 0 : -1;
}

/* The string table that the symbols' section names. */
static int read_names(const image_t *image, object_t *object)
{
    ElfW(Ehdr) header;
    ElfW(Shdr) section;

    memcpy(&header, image->bytes, sizeof(header));
    if (find_section(image, SHT_DYNSYM, &section) < 0 || section.sh_link >= header.e_shnum) {
        return -1;
    }
    const char *at =
        piece(image, header.e_shoff + (uint64_t)section.sh_link * sizeof(section), sizeof(section));
    if (at == NULL) {
        return -1;
    }
    memcpy(&section, at, sizeof(section));
    object->names = piece(image, section.sh_offset, section.sh_size);
    object->n_names = section.sh_size;
    return object->names != NULL && section.sh_size > 0 &&
                   object->names[section.sh_size - 1] == '\0'
               ? 0
               : -1;
}

static const char *name_at(const object_t *object, uint64_t offset)
{
    return offset < object->n_names ? object->names + offset : "";
}

static ElfW(Sym) symbol_at(const object_t *object, size_t index)
{
    ElfW(Sym) symbol;

    memcpy(&symbol, object->symbols.bytes + index * sizeof(symbol), sizeof(symbol));
    return symbol;
}

static ElfW(Dyn) dynamic_at(const object_t *object, size_t index)
{
    ElfW(Dyn) entry;

    memcpy(&entry, object->dynamic.bytes + index * sizeof(entry), sizeof(entry));
    return entry;
}

/* ---- Rules ---------------------------------------------------------------------------------- */

static int is_exported(const ElfW(Sym) * symbol)
{
    int binding = symbol->st_info >> 4, visibility = symbol->st_other & 3;

    return symbol->st_shndx != SHN_UNDEF && binding != STB_LOCAL &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

static void check_exports(const object_t *object, const teller_t *teller)
{
    int has_entry = 0;

    for (size_t i = 0; i < object->symbols.n; i++) {
        ElfW(Sym) symbol = symbol_at(object, i);
        const char *name = name_at(object, symbol.st_name);

        if (!is_exported(&symbol)) {
            continue;
        }
        if (strcmp(name, ENTRY_SYMBOL) == 0) {
            has_entry = 1;
        } else {
            complain(teller,
                     "exports %.200s; only " ENTRY_SYMBOL " may be: compile with "
                     "-fvisibility=hidden, link with -Wl,--exclude-libs,ALL",
                     name);
        }
    }
    if (!has_entry) {
        complain(teller, "has no symbol " ENTRY_SYMBOL
                         ": write KVS_PLUGIN(name, …), of kvstore/plugin.h, into one source file");
    }
}

static void check_needs(const object_t *object, const teller_t *teller)
{
    for (size_t i = 0; i < object->symbols.n; i++) {
        ElfW(Sym) symbol = symbol_at(object, i);
        const char *name = name_at(object, symbol.st_name);

        if (symbol.st_shndx == SHN_UNDEF && strncmp(name, "kvs_", 4) == 0) {
            complain(teller,
                     "needs %.200s of libkvstore, which a host may have opened privately: use "
                     "kvs_plugin_host, and link the kit",
                     name);
        }
    }
}

static void check_entry(const object_t *object, const ElfW(Dyn) * entry, int *io_bound_now,
                        const teller_t *teller)
{
    switch (entry->d_tag) {
    case DT_BIND_NOW:
        *io_bound_now = 1;
        break;
    case DT_FLAGS:
        *io_bound_now |= (entry->d_un.d_val & DF_BIND_NOW) != 0;
        if ((entry->d_un.d_val & DF_STATIC_TLS) != 0) {
            complain(teller, "uses static TLS, of which a process has little when plugins are "
                             "loaded: compile with -fPIC and without -ftls-model=initial-exec");
        }
        break;
    case DT_FLAGS_1:
        *io_bound_now |= (entry->d_un.d_val & DF_1_NOW) != 0;
        break;
    case DT_RPATH:
    case DT_RUNPATH:
        complain(teller, "has the run path %.200s: link without -rpath (CMake: SKIP_BUILD_RPATH)",
                 name_at(object, entry->d_un.d_val));
        break;
    case DT_NEEDED:
        if (strncmp(name_at(object, entry->d_un.d_val), "libkvstore.", 11) == 0) {
            complain(teller, "is linked to libkvstore: link the kit only");
        }
        break;
    default:
        break;
    }
}

static void check_dynamic(const object_t *object, const teller_t *teller)
{
    int bound_now = 0;

    for (size_t i = 0; i < object->dynamic.n; i++) {
        ElfW(Dyn) entry = dynamic_at(object, i);

        if (entry.d_tag == DT_NULL) {
            break;
        }
        check_entry(object, &entry, &bound_now, teller);
    }
    if (!bound_now) {
        complain(teller, "binds symbols at their first use, so that a missing one ends the process "
                         "then: link with -Wl,-z,now");
    }
}

/* ---- The file ------------------------------------------------------------------------------- */

static kvs_status_t check_image(const char *path, const image_t *image, const teller_t *teller)
{
    object_t object;

    if (read_table(image, SHT_DYNSYM, sizeof(ElfW(Sym)), &object.symbols) != 0 ||
        read_table(image, SHT_DYNAMIC, sizeof(ElfW(Dyn)), &object.dynamic) != 0 ||
        read_names(image, &object) != 0) {
        return kvs_fail(KVS_ERR_FORMAT,
                        "%s: its sections .dynsym, .dynstr and .dynamic can't be "
                        "read",
                        path);
    }
    check_exports(&object, teller);
    check_needs(&object, teller);
    check_dynamic(&object, teller);
    return KVS_OK;
}

static kvs_status_t map_file(const char *path, image_t *ret_image)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *bytes = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (bytes == MAP_FAILED) {
        (void)kvs_fail(KVS_ERR_IO, "%s: %s", path, strerror(errno));
    } else {
        *ret_image = (image_t){bytes, (size_t)st.st_size};
    }
    if (fd >= 0) {
        (void)close(fd); /* read only: nothing can be lost */
    }
    return bytes == MAP_FAILED ? KVS_ERR_IO : KVS_OK;
}

kvs_status_t check_elf(const char *path, check_tell_t tell, void *arg)
{
    const teller_t teller = {tell, arg};
    char reason[1024];
    image_t image;
    kvs_status_t status;

    if (kvsi_elf_check(path, reason, sizeof(reason)) != KVS_PLUGIN_OK) {
        return kvs_fail(KVS_ERR_FORMAT, "%s", reason);
    }
    status = map_file(path, &image);
    if (status == KVS_OK) {
        status = check_image(path, &image, &teller);
        (void)munmap((void *)image.bytes, image.n_bytes); /* it was mapped */
    }
    return status;
}
