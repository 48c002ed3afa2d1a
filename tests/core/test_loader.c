/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: each way to fail has its own reason code and text, and hurts nobody else. */
#include "kt.h"
#include "compat.h"
#include "elfcheck.h"
#include "fakes.h"
#include "loader.h"
#include "manifest.h"

#include <elf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static kvsi_arena_t arena;

/* Load what a manifest of this text describes; `info` tells how it went. */
static const kvs_plugin_t *load(const fake_t *fake, kvs_plugin_info_t *ret_info)
{
    const char *text = fake_text(fake);
    char path[64];

    snprintf(path, sizeof(path), "/d/%s.json", fake->name != NULL ? fake->name : "fake");
    *ret_info = kvsi_manifest_blank(&arena, path);
    kvsi_manifest_parse(&arena, text, strlen(text), ret_info);
    KT_STR(ret_info->reason, "");
    return kvsi_loader_load(&arena, ret_info, NULL);
}

static const kvs_plugin_t *loads(const fake_t *fake)
{
    kvs_plugin_info_t info;
    const kvs_plugin_t *plugin = load(fake, &info);

    KT_STR(kvs_plugin_state_text(info.state), "ok");
    KT_STR(info.reason, "");
    KT_TRUE(plugin != NULL);
    return plugin;
}

/* Fails with that state and texts; and a good plugin can still be loaded. */
static void fails(const fake_t *fake, const char *state, const char *reason, const char *fix)
{
    kvs_plugin_info_t info;

    KT_TRUE(load(fake, &info) == NULL);
    KT_STR(kvs_plugin_state_text(info.state), state);
    KT_HAS(info.reason, reason);
    KT_HAS(info.fix, fix);
    (void)loads(&(fake_t){0});
}

static int ask(kvs_status_t (*function)(void *store, int *ret_number))
{
    int number = -1;

    KT_OK(function(NULL, &number));
    return number;
}

static void a_plugin_is_loaded_and_its_tables_are_the_cores_own(void)
{
    const kvs_plugin_t *plugin = loads(&(fake_t){0});
    const kvs_backend_t *backend = plugin->backends[0];

    KT_STR(plugin->name, "fake");
    KT_INT(plugin->n_backends, 1);
    KT_STR(backend->name, "fake");
    KT_INT(backend->ops->mode, KVS_BLOCKING);
    KT_TRUE(backend->ops->open != NULL);
    KT_TRUE(backend->ops->push == NULL);
    KT_INT(ask(backend->ops->num_workers), 1);
}

static void a_library_is_loaded_once_whoever_asks(void)
{
    const kvs_plugin_t *plugin = loads(&(fake_t){0});
    char link_path[600];

    snprintf(link_path, sizeof(link_path), "%s/other.so", kt_temp_dir());
    KT_INT(link(fake_library("good"), link_path), 0);
    KT_TRUE(loads(&(fake_t){0}) == plugin);
    KT_TRUE(loads(&(fake_t){.library = link_path}) == plugin);
    KT_INT(ask(plugin->backends[0]->ops->rank), 1); /* its entry was called once */
}

static void all_kinds_are_loaded(void)
{
    const kvs_plugin_t *plugin = loads(&(fake_t){
        .library = fake_library("all_kinds"),
        .provides =
            "[{\"kind\": \"device\", \"name\": \"rocm\"},"
            " {\"kind\": \"optimizer\", \"name\": \"fakeopt\"},"
            " {\"kind\": \"compressor\", \"name\": \"fakepress\"},"
            " {\"kind\": \"backend\", \"name\": \"fake\", \"capabilities\":"
            " {\"keeps_weights\": true, \"devices\": [\"cpu\"], \"dtypes\": [\"float32\"]}}]"});

    KT_INT(plugin->n_optimizers, 1);
    KT_STR(plugin->optimizers[0]->name, "fakeopt");
    KT_REAL(plugin->optimizers[0]->learning_rate, 0.25);
    KT_INT(plugin->n_compressors, 1);
    KT_STR(plugin->compressors[0]->name, "fakepress");
    KT_INT(plugin->n_providers, 1);
    KT_INT(plugin->providers[0]->device_type, 10);
}

/* The plugin's memory behind the size it states holds functions: they must not be seen. */
static void members_behind_a_tables_size_are_not_read(void)
{
    const kvs_plugin_t *plugin = loads(&(fake_t){.library = fake_library("short_table")});
    const kvs_backend_ops_t *ops = plugin->backends[0]->ops;

    KT_INT(ops->size, offsetof(kvs_backend_ops_t, rank));
    KT_TRUE(ops->pushpull != NULL);
    KT_TRUE(ops->rank == NULL);
    KT_TRUE(ops->num_workers == NULL);
}

static void two_plugins_with_the_same_symbols_keep_their_own(void)
{
    const kvs_plugin_t *a = loads(&(fake_t){.name = "clash_a", .library = fake_library("clash_a")});
    const kvs_plugin_t *b = loads(&(fake_t){.name = "clash_b", .library = fake_library("clash_b")});

    KT_INT(ask(a->backends[0]->ops->num_workers), 11);
    KT_INT(ask(b->backends[0]->ops->num_workers), 22);
    KT_INT(ask(a->backends[0]->ops->num_workers), 11);
}

/* ---- What the plugin does wrong ------------------------------------------------------------- */

static void a_library_without_the_entry_is_refused(void)
{
    fails(&(fake_t){.library = fake_library("no_entry")}, "entry-missing",
          "/no_entry.so has no symbol kvs_plugin_entry_v1", "KVS_PLUGIN");
}

static void another_abi_than_the_manifest_says_is_refused(void)
{
    fails(&(fake_t){.library = fake_library("other_major")}, "abi-mismatch",
          "/other_major.so was built for ABI 2.0, this library offers 1.0 to 1.0",
          "install the plugin again");
    fails(&(fake_t){.library = fake_library("newer_minor")}, "abi-mismatch",
          "/newer_minor.so was built for ABI 1.1, this library offers 1.0 to 1.0",
          "install the plugin again");
}

static void a_refusal_is_passed_on(void)
{
    fails(&(fake_t){.library = fake_library("refuses")}, "unavailable",
          "the plugin refused to load: there is no moon today", "");
    fails(&(fake_t){.library = fake_library("refuses_silently")}, "unavailable",
          "the plugin refused to load: it gave no reason", "");
}

static void an_incomplete_table_is_refused(void)
{
    fails(&(fake_t){.library = fake_library("no_open")}, "abi-mismatch",
          "/no_open.so breaks the ABI: backend 'fake' has no function open", "author");
    fails(&(fake_t){.library = fake_library("tiny_table")}, "abi-mismatch",
          "/tiny_table.so breaks the ABI: backend 'fake': its operations table has 40 bytes",
          "author");
}

static void an_undefined_symbol_is_named(void)
{
    fails(&(fake_t){.library = fake_library("undefined")}, "unresolved-symbol",
          "/undefined.so: undefined symbol: fake_symbol_that_nobody_has",
          "install the plugin again");
}

static void a_missing_dependency_is_named_with_its_package(void)
{
    fails(&(fake_t){.library = fake_library("missing_dependency")}, "missing-dependency",
          "libfake_dependency.so: cannot open shared object file",
          "install the package that brings libfake_dependency.so");
    fails(&(fake_t){.library = fake_library("missing_dependency"),
                    .more = "\"requires\": {\"libraries\": [{\"name\": \"libfake_dependency.so\","
                            " \"package\": \"fakes0\"}]}, "},
          "missing-dependency", "libfake_dependency.so: cannot open shared object file",
          "install package fakes0");
}

/* ---- What the manifest claims --------------------------------------------------------------- */

#define BACKEND(capabilities)                                                                      \
    "[{\"kind\": \"backend\", \"name\": \"fake\", \"capabilities\": {" capabilities "}}]"
#define RIGHT "\"keeps_weights\": true, \"devices\": [\"cpu\"], \"dtypes\": [\"float32\"]"

static void mismatch(const fake_t *fake, const char *reason)
{
    fails(fake, "manifest-mismatch", reason, "install");
}

static void a_different_name_version_or_abi_is_a_mismatch(void)
{
    mismatch(&(fake_t){.name = "other"}, "\"name\": the manifest says other, /");
    mismatch(&(fake_t){.name = "other"}, "/good.so says fake");
    mismatch(&(fake_t){.version = "1.0.1"}, "\"version\": the manifest says 1.0.1, /");
    mismatch(&(fake_t){.version = "1.0.1"}, "/good.so says 1.0.0");
}

static void different_capabilities_are_a_mismatch(void)
{
    mismatch(&(fake_t){.provides = BACKEND("\"sparse\": true, " RIGHT)},
             "\"provides[0].capabilities.sparse\": the manifest says true, /");
    mismatch(&(fake_t){.provides = BACKEND("\"devices\": [\"cpu\"], \"dtypes\": [\"float32\"]")},
             "\"provides[0].capabilities.keeps_weights\": the manifest says false, ");
    mismatch(&(fake_t){.provides = BACKEND("\"gradient_compression\": [\"1bit\"], " RIGHT)},
             "\"provides[0].capabilities.gradient_compression\": the manifest says true, ");
    mismatch(&(fake_t){.provides = BACKEND("\"keeps_weights\": true, \"dtypes\": [\"float32\"],"
                                           " \"devices\": [\"cpu\", \"cuda\"]")},
             "\"provides[0].capabilities.devices\": the manifest says [cpu, cuda], /");
    mismatch(&(fake_t){.provides = BACKEND("\"keeps_weights\": true, \"devices\": [\"cpu\"]")},
             "\"provides[0].capabilities.dtypes\": the manifest says [], /");
}

static void other_things_provided_are_a_mismatch(void)
{
    mismatch(&(fake_t){.provides = "[{\"kind\": \"backend\", \"name\": \"other\"}]"},
             "\"provides\" of kind \"backend\": the manifest says [other], /");
    mismatch(&(fake_t){.provides =
                           "[{\"kind\": \"optimizer\", \"name\": \"sgd\"}, "
                           "{\"kind\": \"backend\", \"name\": \"fake\", \"capabilities\": {" RIGHT
                           "}}]"},
             "\"provides\" of kind \"optimizer\": the manifest says [sgd], /");
    mismatch(&(fake_t){.provides = "[{\"kind\": \"compressor\", \"name\": \"2bit\"}, "
                                   "{\"kind\": \"backend\", \"name\": \"fake\", "
                                   "\"capabilities\": {" RIGHT "}}]"},
             "\"provides\" of kind \"compressor\": the manifest says [2bit], /");
}

static void a_mismatch_with_what_is_loaded_asks_for_a_restart(void)
{
    kvs_plugin_info_t info;

    (void)loads(&(fake_t){0});
    KT_TRUE(load(&(fake_t){.version = "9.9.9"}, &info) == NULL);
    KT_HAS(info.fix, "restart this process");
}

/* ---- Files that are no shared object for this process --------------------------------------- */

/* A copy of good.so under that name in a fresh directory, or of its first `limit` bytes; byte `at`
 * becomes `value`. */
static const char *damaged(const char *name, long limit, long at, int value)
{
    static char path[600];
    FILE *in = fopen(fake_library("good"), "rb"), *out;
    int c;

    snprintf(path, sizeof(path), "%s/%s", kt_temp_dir(), name);
    out = fopen(path, "wb");
    for (long i = 0; i != limit && (c = getc(in)) != EOF; i++) {
        putc(i == at ? value : c, out);
    }
    fclose(in);
    fclose(out);
    return path;
}

static void a_missing_library_is_told(void)
{
    fails(&(fake_t){.library = "/no/such/kvs_x.so"}, "library-missing",
          "/no/such/kvs_x.so: No such file or directory", "install the plugin again");
    fails(&(fake_t){.library = "/no/such/kvs_x.so", .more = "\"package\": \"kvstore-x\", "},
          "library-missing", "No such file", "install package kvstore-x again");
}

static void empty_and_text_files_are_not_elf(void)
{
    char dir[512];

    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    fails(&(fake_t){.library = kt_write_file(dir, "empty.so", "")}, "not-elf",
          "/empty.so: is empty, not a shared object", "install");
    fails(&(fake_t){.library = kt_write_file(dir, "text.so", "INPUT(libc.so.6)\n")}, "not-elf",
          "/text.so: is not an ELF file, so not a shared object", "install");
    fails(&(fake_t){.library = kt_write_file(dir, "short.so", "\x7F")}, "not-elf",
          "/short.so: is not an ELF file", "install");
    fails(&(fake_t){.library = dir}, "not-elf", ": is not a regular file", "install");
}

static void truncated_files_are_not_elf(void)
{
    fails(&(fake_t){.library = damaged("head.so", 40, -1, 0)}, "not-elf",
          "/head.so: is truncated: it ends within its ELF header", "install");
    fails(&(fake_t){.library = damaged("phdr.so", 80, -1, 0)}, "not-elf",
          "/phdr.so: is truncated: its program headers are missing", "install");
    fails(&(fake_t){.library = damaged("half.so", 6000, -1, 0)}, "not-elf",
          "/half.so: is truncated: it has 6000 bytes and its headers speak of ", "install");
}

static void another_machine_or_class_is_an_arch_mismatch(void)
{
    fails(&(fake_t){.library = damaged("class.so", -1, EI_CLASS, ELFCLASS32)}, "arch-mismatch",
          "/class.so: is 32-bit, this process is 64-bit", "install");
    fails(&(fake_t){.library = damaged("order.so", -1, EI_DATA, ELFDATA2MSB)}, "arch-mismatch",
          "/order.so: has the other byte order", "install");
    fails(&(fake_t){.library = damaged("machine.so", -1, 18, EM_S390)}, "arch-mismatch",
          "/machine.so: is for S/390, this process is for ", "install");
    fails(&(fake_t){.library = damaged("unknown.so", -1, 18, 0xF1)}, "arch-mismatch",
          "/unknown.so: is for machine 241, this process is for ", "install");
}

static void an_executable_is_not_a_shared_object(void)
{
    fails(&(fake_t){.library = damaged("exec.so", -1, 16, ET_EXEC)}, "not-elf",
          "/exec.so: is an ELF file, but not a shared object", "install");
}

/* Whatever byte of the headers is wrong, the process goes on. */
static void no_damage_to_the_headers_hurts(void)
{
    char reason[1024];

    for (long at = 0; at < 64 + 4 * 56; at++) {
        (void)kvsi_elf_check(damaged("x.so", -1, at, 0xFF), reason, sizeof(reason));
    }
    (void)loads(&(fake_t){0});
}

/* ---- Static plugins ------------------------------------------------------------------------- */

static const kvs_plugin_t *static_entry(const kvs_host_t *host, const char **ret_refusal)
{
    (void)host;
    *ret_refusal = "not in the mood";
    return NULL;
}

static void a_static_plugin_is_asked_by_its_entry(void)
{
    kvs_plugin_info_t info = kvsi_manifest_blank(&arena, KVSI_MANIFEST_STATIC);

    KT_TRUE(kvsi_loader_load(&arena, &info, static_entry) == NULL);
    KT_STR(info.reason, "the plugin refused to load: not in the mood");
}

static const kt_test_t tests[] = {
    KT_TEST(a_plugin_is_loaded_and_its_tables_are_the_cores_own),
    KT_TEST(a_library_is_loaded_once_whoever_asks),
    KT_TEST(all_kinds_are_loaded),
    KT_TEST(members_behind_a_tables_size_are_not_read),
    KT_TEST(two_plugins_with_the_same_symbols_keep_their_own),
    KT_TEST(a_library_without_the_entry_is_refused),
    KT_TEST(another_abi_than_the_manifest_says_is_refused),
    KT_TEST(a_refusal_is_passed_on),
    KT_TEST(an_incomplete_table_is_refused),
    KT_TEST(an_undefined_symbol_is_named),
    KT_TEST(a_missing_dependency_is_named_with_its_package),
    KT_TEST(a_different_name_version_or_abi_is_a_mismatch),
    KT_TEST(different_capabilities_are_a_mismatch),
    KT_TEST(other_things_provided_are_a_mismatch),
    KT_TEST(a_mismatch_with_what_is_loaded_asks_for_a_restart),
    KT_TEST(a_missing_library_is_told),
    KT_TEST(empty_and_text_files_are_not_elf),
    KT_TEST(truncated_files_are_not_elf),
    KT_TEST(another_machine_or_class_is_an_arch_mismatch),
    KT_TEST(an_executable_is_not_a_shared_object),
    KT_TEST(no_damage_to_the_headers_hurts),
    KT_TEST(a_static_plugin_is_asked_by_its_entry),
};
KT_MAIN("loader", tests)
