/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.h - what is installed: for the `kvstore` command, and hosts that show the same.
 *
 * A list is made of manifests; no shared object is opened but by kvs_plugin_try, kvs_plugin_about
 * and kvs_optimizer_describe. Everything belongs to the list it came from and lives until
 * kvs_plugin_list_free. Strings are never NULL: what is absent is "". */
#ifndef KVSTORE_PLUGINS_H
#define KVSTORE_PLUGINS_H

#include <kvstore/kvstore.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a plugin can or can't be used. X(name, text): the texts are stable. */
#define KVS_PLUGIN_STATE_LIST(X)                                                                   \
    X(OK, "ok")                                                                                    \
    X(DISABLED, "disabled")                                                                        \
    X(SHADOWED, "shadowed") /* another plugin of that name was found earlier */                    \
    X(BAD_MANIFEST, "bad-manifest")                                                                \
    X(FORMAT_TOO_NEW, "format-too-new")                                                            \
    X(ARCH_MISMATCH, "arch-mismatch")                                                              \
    X(ABI_MISMATCH, "abi-mismatch")                                                                \
    X(CORE_TOO_OLD, "core-too-old")                                                                \
    X(LIBRARY_MISSING, "library-missing")                                                          \
    X(NOT_ELF, "not-elf")                                                                          \
    X(MISSING_DEPENDENCY, "missing-dependency")                                                    \
    X(UNRESOLVED_SYMBOL, "unresolved-symbol")                                                      \
    X(ENTRY_MISSING, "entry-missing")                                                              \
    X(MANIFEST_MISMATCH, "manifest-mismatch")                                                      \
    X(UNTRUSTED, "untrusted")                                                                      \
    X(UNAVAILABLE, "unavailable")                                                                  \
    X(CRASHED, "crashed")                                                                          \
    X(TIMEOUT, "timeout")

typedef enum kvs_plugin_state {
#define KVS_PLUGIN_STATE_ENUM(name, text) KVS_PLUGIN_##name,
    KVS_PLUGIN_STATE_LIST(KVS_PLUGIN_STATE_ENUM)
#undef KVS_PLUGIN_STATE_ENUM
} kvs_plugin_state_t;

KVS_API const char *kvs_plugin_state_text(kvs_plugin_state_t state);

typedef struct kvs_provide {
    const char *kind; /* "backend", "optimizer", "compressor", "device" */
    const char *name;
    const char *const *aliases;
    size_t n_aliases;
    const char *word; /* the word it answers to, or "" */
    const char *const *with;
    size_t n_with;
    int32_t priority;
    /* capabilities, 0 or 1 */
    int32_t optimizer, sparse, async, multi_worker, keeps_weights;
    const char *const *compression; /* gradient_compression */
    size_t n_compression;
    const char *const *devices; /* "cpu", "cuda", … */
    size_t n_devices;
    const char *const *dtypes;
    size_t n_dtypes;
} kvs_provide_t;

typedef struct kvs_requirement {
    const char *name; /* of a library: "libzmq.so.5" */
    const char *package;
    const char *why;
    int32_t found; /* 1: the dynamic linker finds it */
    /* "", or: the plugin opens it at run time, and this variable names another */
    const char *variable;
} kvs_requirement_t;

typedef struct kvs_plugin_option {
    const char *name, *type, *preset, *doc;
    const char *variable; /* read behind KVSTORE_NAME: another system's name for the same */
} kvs_plugin_option_t;

typedef struct kvs_plugin_info {
    const char *name, *version, *summary, *package, *license, *arch, *abi, *core;
    const char *manifest; /* absolute path; "(static)" or "(program)" for what the program added */
    const char *library;  /* absolute path */
    kvs_plugin_state_t state;
    const char *reason; /* why it is not ok */
    const char *fix;    /* what mends it */
    const kvs_provide_t *provides;
    size_t n_provides;
    const kvs_requirement_t *libraries;
    size_t n_libraries;
    const char *const *devices; /* required device types: "cuda", … */
    size_t n_devices;
    const kvs_plugin_option_t *options;
    size_t n_options;
    /* no faults, but worth a look: a key that nothing reads, and, except by kvs_plugin_read, files that others
     * may change */
    const char *const *notes;
    size_t n_notes;
} kvs_plugin_info_t;

typedef struct kvs_plugin_list kvs_plugin_list_t;

/* Everything found along the search path, in its order, losers included. */
KVS_API kvs_status_t kvs_plugin_list(kvs_plugin_list_t **ret_list);
/* A list of one: the manifest at `path`, whatever else is installed and whatever is turned off. */
KVS_API kvs_status_t kvs_plugin_read(const char *path, kvs_plugin_list_t **ret_list);
KVS_API void kvs_plugin_list_free(kvs_plugin_list_t *list); /* NULL does nothing */
KVS_API size_t kvs_plugin_list_count(const kvs_plugin_list_t *list);
/* NULL if `index` is not below the count. */
KVS_API const kvs_plugin_info_t *kvs_plugin_list_at(const kvs_plugin_list_t *list, size_t index);
/* By the name of a plugin, or the name, an alias or a word of something it provides; the one that
 * is ok if several. ERR_NOT_FOUND names near ones; ERR_UNAVAILABLE: known, but not installed. */
KVS_API kvs_status_t kvs_plugin_list_find(const kvs_plugin_list_t *list, const char *name,
                                          const kvs_plugin_info_t **ret_plugin);
/* Directories and files searched, in order. */
KVS_API size_t kvs_plugin_list_n_paths(const kvs_plugin_list_t *list);
KVS_API const char *kvs_plugin_list_path(const kvs_plugin_list_t *list, size_t index);

/* What is worth knowing of the search as a whole: a glob of KVSTORE_PLUGINS that matches nothing, a
 * directory that can't be read. */
KVS_API size_t kvs_plugin_list_n_notes(const kvs_plugin_list_t *list);
KVS_API const char *kvs_plugin_list_note(const kvs_plugin_list_t *list, size_t index);

/* Load the plugin at `index` into this process, where it stays, and ask its backends whether they
 * can work here. How it went is told by the state, reason and fix of that item. Code of which nothing
 * is known may crash or hang: `kvstore doctor` does this in a child process. ERR_ARGUMENT: no such
 * item; ERR_STATE: called by a plugin that is being loaded. */
KVS_API kvs_status_t kvs_plugin_try(kvs_plugin_list_t *list, size_t index);

/* Load it so, and let it tell what it found on this machine, such as versions of libraries that it opened:
 * a call of `line` for each. Also of a plugin that is unavailable. ERR_ARGUMENT, ERR_STATE as above; else
 * why it can't be loaded, as kvs_store_create. */
KVS_API kvs_status_t kvs_plugin_about(kvs_plugin_list_t *list, size_t index,
                                      void (*line)(void *arg, const char *label, const char *text),
                                      void *arg);

/* Turn a plugin off, by a mask in the administrator's directory, or in the user's, or on again by
 * removing that mask. `name` is that of the plugin or of something that it provides. Processes see it
 * at their next create. ERR_STATE: it would have no effect, or something else turns the plugin off;
 * ERR_IO: no right to write there; ERR_NOT_FOUND, ERR_UNAVAILABLE: as kvs_plugin_list_find. */
KVS_API kvs_status_t kvs_plugin_disable(const char *name, int for_user);
KVS_API kvs_status_t kvs_plugin_enable(const char *name, int for_user);

/* ---- What an optimizer takes and keeps -------------------------------------------------------- */

typedef struct kvs_optimizer_param {
    kvs_param_t preset;  /* its name, and the default: of `type`, or KVS_PARAM_NULL */
    const char *type;    /* "bool", "int", "float" */
    const char *accepts; /* "0 or more", "0 or more, or null", …; "" for any finite value */
    const char *doc;
} kvs_optimizer_param_t;

typedef struct kvs_optimizer_state {
    const char *name;    /* as in files of states */
    int32_t by_default;  /* 1: the default parameters need it */
    int32_t from_weight; /* 1: begins as a copy of the weight; else as zeros */
    int32_t per_row;     /* 1: one number for each row of the weight; else as large as the weight */
    int32_t reserved;
} kvs_optimizer_state_t;

typedef struct kvs_optimizer_info {
    const char *name, *summary;
    const kvs_optimizer_param_t *params; /* those that all optimizers have come first */
    size_t n_params;
    const kvs_optimizer_state_t *states;
    size_t n_states;
} kvs_optimizer_info_t;

/* Loads the plugin that provides the optimizer. Errors as kvs_optimizer_create. */
KVS_API kvs_status_t kvs_optimizer_describe(const char *name, kvs_optimizer_info_t **ret_info);
KVS_API void kvs_optimizer_info_free(kvs_optimizer_info_t *info); /* NULL does nothing */

/* A backend, optimizer, … of this project that exists as a package, installed or not. */
typedef struct kvs_known {
    const char *kind, *name, *package;
} kvs_known_t;
KVS_API const kvs_known_t *kvs_known_at(size_t index); /* NULL past the last */

#ifdef __cplusplus
}
#endif
#endif
