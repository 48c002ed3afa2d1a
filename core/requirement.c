/* SPDX-License-Identifier: Apache-2.0 */
/* requirement.c - follows ld.so(8). The cache's format is glibc's cache.h, "glibc-ld.so.cache1.1";
 * if it is another, or missing, the default directories still serve. */
#include "requirement.h"

#include "elfcheck.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_PATH "/etc/ld.so.cache"

typedef struct cache_header {
    char magic[20]; /* with the version, no NUL */
    uint32_t n_entries;
    uint32_t rest[6];
} cache_header_t;

typedef struct cache_entry {
    int32_t flags;
    uint32_t name, path; /* offsets of texts from the begin of the header */
    uint32_t os_version;
    uint64_t hardware;
} cache_entry_t;

static int is_usable(const char *path)
{
    char reason[PATH_MAX + 256];

    return kvsi_elf_check(path, reason, sizeof(reason)) == KVS_PLUGIN_OK;
}

static int is_in_directory(const char *dir, size_t len, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, name);

    return n > 0 && (size_t)n < sizeof(path) && is_usable(path);
}

static int is_in_directories(const char *dirs, const char *name)
{
    while (dirs != NULL && *dirs != '\0') {
        size_t len = strcspn(dirs, ":;");

        if (len > 0 && is_in_directory(dirs, len, name)) {
            return 1;
        }
        dirs += len + (dirs[len] != '\0');
    }
    return 0;
}

/* The text at an offset, or "" if it doesn't end within the cache. */
static const char *cache_text(const char *cache, size_t n_bytes, uint32_t offset)
{
    return offset < n_bytes && memchr(cache + offset, '\0', n_bytes - offset) != NULL
               ? cache + offset
               : "";
}

static int is_in_cache_bytes(const char *cache, size_t n_bytes, const char *name)
{
    cache_header_t header;

    if (n_bytes < sizeof(header)) {
        return 0;
    }
    memcpy(&header, cache, sizeof(header));
    if (memcmp(header.magic, "glibc-ld.so.cache1.1", sizeof(header.magic)) != 0 ||
        header.n_entries > (n_bytes - sizeof(header)) / sizeof(cache_entry_t)) {
        return 0;
    }
    for (uint32_t i = 0; i < header.n_entries; i++) {
        cache_entry_t entry;

        memcpy(&entry, cache + sizeof(header) + i * sizeof(entry), sizeof(entry));
        if (strcmp(cache_text(cache, n_bytes, entry.name), name) == 0 &&
            is_usable(cache_text(cache, n_bytes, entry.path))) {
            return 1;
        }
    }
    return 0;
}

static int is_in_cache(const char *name)
{
    int fd = open(CACHE_PATH, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int found = 0;

    if (fd < 0) {
        return 0;
    }
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        void *cache = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (cache != MAP_FAILED) {
            found = is_in_cache_bytes(cache, (size_t)st.st_size, name);
            (void)munmap(cache, (size_t)st.st_size); /* it was mapped */
        }
    }
    (void)close(fd); /* read only: nothing can be lost */
    return found;
}

/* Asked of the kernel: the dynamic linker's own answer may be fatal in the child of a process of which
 * another thread was loading something when it forked. */
static int is_in_process(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t n_name = strlen(name), room = 0;
    char *line = NULL;
    int found = 0;

    while (maps != NULL && !found && getline(&line, &room, maps) > 0) {
        const char *base = strrchr(line, '/');

        /* libzmq.so.5 may be a link to libzmq.so.5.2.4, of which the kernel tells */
        found = base != NULL && strncmp(base + 1, name, n_name) == 0 &&
                (base[1 + n_name] == '\n' || base[1 + n_name] == '.');
    }
    free(line);
    if (maps != NULL) {
        (void)fclose(maps); /* read only: nothing can be lost */
    }
    return found;
}

int kvsi_library_is_found(const char *name)
{
    return is_in_process(name) || is_in_directories(secure_getenv("LD_LIBRARY_PATH"), name) ||
           is_in_cache(name) ||
           is_in_directories(
               "/lib/" KVS_ARCH ":/usr/lib/" KVS_ARCH ":/lib64:/usr/lib64:/lib:/usr/lib", name);
}
