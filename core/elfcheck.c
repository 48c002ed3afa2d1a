/* SPDX-License-Identifier: Apache-2.0 */
/* elfcheck.c - headers are compared with those of this library, which lie in memory. */
#include "elfcheck.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that is being checked. */
typedef struct check {
    const char *path;
    int fd;
    uint64_t n_bytes;
    char *reason;
    size_t reason_bytes;
} check_t;

static kvs_plugin_state_t refuse(check_t *check, kvs_plugin_state_t state, const char *format, ...)
    KVS_PRINTF(3, 4);
static kvs_plugin_state_t refuse(check_t *check, kvs_plugin_state_t state, const char *format, ...)
{
    char cause[256];
    va_list args;

    va_start(args, format);
    vsnprintf(cause, sizeof(cause), format, args);
    va_end(args);
    snprintf(check->reason, check->reason_bytes, "%s: %s", check->path, cause);
    return state;
}

static const char *machine_name(unsigned machine, char *buffer, size_t n_bytes)
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {
        {EM_386, "x86"},         {EM_X86_64, "x86-64"},      {EM_ARM, "ARM"},
        {EM_AARCH64, "AArch64"}, {EM_PPC64, "64-bit POWER"}, {EM_RISCV, "RISC-V"},
        {EM_S390, "S/390"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].machine == machine) {
            return names[i].name;
        }
    }
    snprintf(buffer, n_bytes, "machine %u", machine);
    return buffer;
}

static const ElfW(Ehdr) * own_header(void)
{
    Dl_info self;

    return dladdr((void *)kvsi_elf_check, &self) != 0 ? self.dli_fbase : NULL;
}

static kvs_plugin_state_t check_machine(check_t *check, const ElfW(Ehdr) * header)
{
    const ElfW(Ehdr) *own = own_header();
    char theirs[32], ours[32];

    if (own == NULL) {
        return KVS_PLUGIN_OK;
    }
    if (header->e_ident[EI_CLASS] != own->e_ident[EI_CLASS]) {
        return refuse(check, KVS_PLUGIN_ARCH_MISMATCH, "is %s, this process is %s",
                      header->e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "64-bit",
                      own->e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "64-bit");
    }
    if (header->e_ident[EI_DATA] != own->e_ident[EI_DATA]) {
        return refuse(check, KVS_PLUGIN_ARCH_MISMATCH,
                      "has the other byte order than this process");
    }
    if (header->e_machine != own->e_machine) {
        return refuse(check, KVS_PLUGIN_ARCH_MISMATCH, "is for %s, this process is for %s",
                      machine_name(header->e_machine, theirs, sizeof(theirs)),
                      machine_name(own->e_machine, ours, sizeof(ours)));
    }
    return KVS_PLUGIN_OK;
}

/* Every segment lies within the file: of a truncated one the linker maps pages that aren't there,
 * and the process dies by SIGBUS at their first use. */
static kvs_plugin_state_t check_segments(check_t *check, const ElfW(Ehdr) * header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        off_t at = (off_t)(header->e_phoff + (uint64_t)i * sizeof(segment));
        uint64_t end;

        if (pread(check->fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment)) {
            return refuse(check, KVS_PLUGIN_NOT_ELF,
                          "is truncated: its program headers are missing");
        }
        if (__builtin_add_overflow((uint64_t)segment.p_offset, (uint64_t)segment.p_filesz, &end) ||
            (segment.p_type == PT_LOAD && end > check->n_bytes)) {
            return refuse(check, KVS_PLUGIN_NOT_ELF,
                          "is truncated: it has %llu bytes and its headers speak of %llu",
                          (unsigned long long)check->n_bytes, (unsigned long long)end);
        }
    }
    return KVS_PLUGIN_OK;
}

static kvs_plugin_state_t check_header(check_t *check)
{
    ElfW(Ehdr) header;
    ssize_t n = pread(check->fd, &header, sizeof(header), 0);
    kvs_plugin_state_t state;

    if (n < 0) {
        return refuse(check, KVS_PLUGIN_LIBRARY_MISSING, "%s", strerror(errno));
    }
    if (n == 0) {
        return refuse(check, KVS_PLUGIN_NOT_ELF, "is empty, not a shared object");
    }
    if (n < SELFMAG || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return refuse(check, KVS_PLUGIN_NOT_ELF, "is not an ELF file, so not a shared object");
    }
    if (n < (ssize_t)sizeof(header)) {
        return refuse(check, KVS_PLUGIN_NOT_ELF, "is truncated: it ends within its ELF header");
    }
    state = check_machine(check, &header);
    if (state != KVS_PLUGIN_OK) {
        return state;
    }
    if (header.e_type != ET_DYN || header.e_phentsize != sizeof(ElfW(Phdr))) {
        return refuse(check, KVS_PLUGIN_NOT_ELF, "is an ELF file, but not a shared object");
    }
    return check_segments(check, &header);
}

kvs_plugin_state_t kvsi_elf_check(const char *path, char *ret_reason, size_t n_bytes)
{
    check_t check = {.path = path, .reason = ret_reason, .reason_bytes = n_bytes};
    kvs_plugin_state_t state;
    struct stat st;

    check.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (check.fd < 0) {
        return refuse(&check, KVS_PLUGIN_LIBRARY_MISSING, "%s", strerror(errno));
    }
    if (fstat(check.fd, &st) != 0) {
        state = refuse(&check, KVS_PLUGIN_LIBRARY_MISSING, "%s", strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        state = refuse(&check, KVS_PLUGIN_NOT_ELF, "is not a regular file");
    } else {
        check.n_bytes = (uint64_t)st.st_size;
        state = check_header(&check);
    }
    (void)close(check.fd); /* read only: nothing can be lost */
    return state;
}
