/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - fields are read by tables of name, place and rule, so that a manifest's format is
 * to be seen at one place. Unknown keys are ignored: a newer minor version may have added them.
 * The first fault decides; reading goes on, but kvsi_judge keeps the first. */
#include "manifest.h"

#include "jsonscan.h"
#include "names.h"
#include "near.h"
#include "verdict.h"

#include <cjson/cJSON.h>

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_MAJOR   1
#define PRIORITY_MAX   100
#define N_ITEMS(array) (sizeof(array) / sizeof((array)[0]))

typedef struct reader {
    kvsi_arena_t *arena;
    kvs_plugin_info_t *info;
    const char *text;
    size_t n_bytes;
} reader_t;

/* An object of the file and its own field, such as "provides[0]"; "" for the whole. */
typedef struct object {
    const cJSON *json;
    const char *field;
} object_t;

/* What a text must look like. */
typedef struct rule {
    int (*holds)(const char *text);
    const char *want;
} rule_t;

typedef struct text_field {
    const char *name;
    const rule_t *rule;
    int required;
    size_t offset; /* of the const char * in the struct that is read */
} text_field_t;

typedef struct flag_field {
    const char *name;
    size_t offset; /* of the int32_t */
} flag_field_t;

/* ---- Rules ---------------------------------------------------------------------------------- */

static int made_of(const char *text, const char *others, size_t max)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(others, c) != NULL)) {
            return 0;
        }
    }
    return len >= 1 && len <= max;
}

static int is_line(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7F) {
            return 0;
        }
    }
    return 1;
}

static int is_plugin_name(const char *text)
{
    return made_of(text, "_", 32) && text[0] >= 'a';
}

static int is_word(const char *text)
{
    return made_of(text, "", 32);
}

static int is_version(const char *text)
{
    return made_of(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.+~-", 64) && isdigit((unsigned char)text[0]);
}

/* Numbers with points between them: "1.0". */
static int is_numbers(const char *text, int min_parts, int max_parts)
{
    for (int n_parts = 1; n_parts <= max_parts; n_parts++) {
        size_t n_digits = strspn(text, "0123456789");

        if (n_digits < 1 || n_digits > 5 || (n_digits > 1 && *text == '0')) {
            return 0;
        }
        text += n_digits;
        if (*text == '\0') {
            return n_parts >= min_parts;
        }
        if (*text++ != '.') {
            return 0;
        }
    }
    return 0;
}

static int is_pair(const char *text)
{
    return is_numbers(text, 2, 2);
}

static int is_core_range(const char *text)
{
    return strncmp(text, ">=", 2) == 0 && is_numbers(text + 2, 1, 3);
}

static int is_library(const char *text)
{
    return is_line(text) && strchr(text, '/') != NULL && text[strlen(text) - 1] != '/';
}

static int is_bare_file(const char *text)
{
    return is_line(text) && text[0] != '\0' && strchr(text, '/') == NULL;
}

static int is_variable(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    return len >= 1 && text[len] == '\0' && !isdigit((unsigned char)text[0]);
}

static int one_of(const char *const *texts, size_t n_texts, const char *text)
{
    for (size_t i = 0; i < n_texts; i++) {
        if (strcmp(texts[i], text) == 0) {
            return 1;
        }
    }
    return 0;
}

static int is_kind(const char *text)
{
    static const char *const kinds[] = {"backend", "optimizer", "compressor", "device"};

    return one_of(kinds, N_ITEMS(kinds), text);
}

static int is_option_type(const char *text)
{
    static const char *const types[] = {"int", "size", "float", "bool", "text", "time"};

    return one_of(types, N_ITEMS(types), text);
}

static int is_dtype(const char *text)
{
    static const char *const dtypes[] = {
#define DTYPE_TEXT(name, code, bits) #name,
        KVS_DTYPE_LIST(DTYPE_TEXT)
#undef DTYPE_TEXT
    };

    return one_of(dtypes, N_ITEMS(dtypes), text);
}

static const rule_t line_rule = {is_line, "text without control characters"};
static const rule_t plugin_name_rule = {is_plugin_name,
                                        "a letter, then at most 31 of a-z, 0-9 and _"};
static const rule_t name_rule = {kvsi_name_is_valid,
                                 "1 to 64 of a-z, 0-9, _ and -, not beginning with _ or -"};
static const rule_t word_rule = {is_word, "1 to 32 of a-z and 0-9"};
static const rule_t version_rule = {is_version, "a version such as 1.2.0"};
static const rule_t pair_rule = {is_pair, "MAJOR.MINOR, such as 1.0"};
static const rule_t core_rule = {is_core_range, "a range such as >=0.1"};
static const rule_t library_rule = {
    is_library, "a path with a slash, absolute or relative to the manifest (./x.so, never x.so)"};
static const rule_t bare_file_rule = {is_bare_file, "a file name such as libzmq.so.5"};
static const rule_t kind_rule = {is_kind, "backend, optimizer, compressor or device"};
static const rule_t option_type_rule = {is_option_type, "int, size, float, bool, text or time"};
static const rule_t variable_rule = {is_variable, "a variable such as DMLC_ROLE"};
static const rule_t dtype_rule = {
    is_dtype, "float32, float64, float16, bfloat16, int8, uint8, int32 or int64"};

/* ---- Fields --------------------------------------------------------------------------------- */

#define INFO(member)    offsetof(kvs_plugin_info_t, member)
#define PROVIDE(member) offsetof(kvs_provide_t, member)
#define LIBRARY(member) offsetof(kvs_requirement_t, member)
#define OPTION(member)  offsetof(kvs_plugin_option_t, member)

static const text_field_t plugin_fields[] = {
    {"name", &plugin_name_rule, 1, INFO(name)}, {"version", &version_rule, 1, INFO(version)},
    {"arch", &line_rule, 1, INFO(arch)},        {"abi", &pair_rule, 1, INFO(abi)},
    {"summary", &line_rule, 0, INFO(summary)},  {"package", &line_rule, 0, INFO(package)},
    {"license", &line_rule, 0, INFO(license)},
};
static const text_field_t provide_fields[] = {
    {"kind", &kind_rule, 1, PROVIDE(kind)},
    {"name", &name_rule, 1, PROVIDE(name)},
    {"word", &word_rule, 0, PROVIDE(word)},
};
static const flag_field_t capability_flags[] = {
    {"optimizer", PROVIDE(optimizer)},
    {"sparse", PROVIDE(sparse)},
    {"async", PROVIDE(async)},
    {"multi_worker", PROVIDE(multi_worker)},
    {"keeps_weights", PROVIDE(keeps_weights)},
};
static const text_field_t library_fields[] = {
    {"name", &bare_file_rule, 1, LIBRARY(name)},
    {"package", &line_rule, 0, LIBRARY(package)},
    {"why", &line_rule, 0, LIBRARY(why)},
    {"variable", &line_rule, 0, LIBRARY(variable)},
};
static const text_field_t option_fields[] = {
    {"name", &name_rule, 1, OPTION(name)},
    {"type", &option_type_rule, 1, OPTION(type)},
    {"doc", &line_rule, 0, OPTION(doc)},
    {"variable", &variable_rule, 0, OPTION(variable)},
};

/* The keys that an object may have: those of its tables, and others. */
typedef struct keys {
    const text_field_t *fields;
    size_t n_fields;
    const flag_field_t *flags;
    size_t n_flags;
    const char *others[6]; /* NULL after the last */
} keys_t;

static const keys_t plugin_keys = {
    .fields = plugin_fields,
    .n_fields = N_ITEMS(plugin_fields),
    .others = {"manifest_version", "library", "provides", "requires", "options"}};
static const keys_t provide_keys = {.fields = provide_fields,
                                    .n_fields = N_ITEMS(provide_fields),
                                    .others = {"aliases", "with", "capabilities", "priority"}};
static const keys_t capability_keys = {.flags = capability_flags,
                                       .n_flags = N_ITEMS(capability_flags),
                                       .others = {"gradient_compression", "devices", "dtypes"}};
static const keys_t requires_keys = {.others = {"libraries", "devices", "core"}};
static const keys_t library_keys = {.fields = library_fields, .n_fields = N_ITEMS(library_fields)};
static const keys_t option_keys = {
    .fields = option_fields, .n_fields = N_ITEMS(option_fields), .others = {"default"}};

/* ---- Faults --------------------------------------------------------------------------------- */

/* Of a field is said something: that it " is missing", or, with a colon, ": duplicate key". */
static void judge_bad(reader_t *reader, const kvsi_json_place_t *place, const char *field,
                      const char *said)
{
    const char *quoted = field[0] != '\0' ? kvsi_arena_text(reader->arena, "\"%s\"", field) : "";

    kvsi_judge(reader->arena, reader->info, KVS_PLUGIN_BAD_MANIFEST,
               "correct the manifest, or remove it", "%s:%zu:%zu: %s%s", reader->info->manifest,
               place->line, place->column, quoted, said);
}

/* The place is that of `field`, or if it is missing that of its object. */
static void bad(reader_t *reader, const object_t *object, const char *field, const char *format,
                ...) KVS_PRINTF(4, 5);
static void bad(reader_t *reader, const object_t *object, const char *field, const char *format,
                ...)
{
    kvsi_json_place_t place = {.line = 1, .column = 1};
    char said[256] = " ";
    va_list args;

    va_start(args, format);
    vsnprintf(said + 1, sizeof(said) - 1, format, args);
    va_end(args);
    if (kvsi_jsonscan_find(reader->text, reader->n_bytes, field, &place) != 0) {
        (void)kvsi_jsonscan_find(reader->text, reader->n_bytes, object->field, &place);
    }
    judge_bad(reader, &place, field, field[0] != '\0' ? said : said + 1);
}

static const char *type_name(const cJSON *json)
{
    switch (json->type & 0xFF) {
    case cJSON_False:
    case cJSON_True:
        return "true or false";
    case cJSON_NULL:
        return "null";
    case cJSON_Number:
        return "a number";
    case cJSON_String:
        return "text";
    case cJSON_Array:
        return "an array";
    default:
        return "an object";
    }
}

static const char *field_of(reader_t *reader, const object_t *object, const char *name)
{
    return object->field[0] == '\0' ? name
                                    : kvsi_arena_text(reader->arena, "%s.%s", object->field, name);
}

static int has_type(reader_t *reader, const object_t *object, const char *field, const cJSON *json,
                    int type, const char *want)
{
    if ((json->type & type) != 0) {
        return 1;
    }
    bad(reader, object, field, "must be %s, not %s", want, type_name(json));
    return 0;
}

/* The member of that type, or NULL: missing, or of another type, which is a fault. */
static const cJSON *member(reader_t *reader, const object_t *object, const char *name, int type,
                           const char *want)
{
    const cJSON *json = cJSON_GetObjectItemCaseSensitive(object->json, name);

    if (json == NULL ||
        !has_type(reader, object, field_of(reader, object, name), json, type, want)) {
        return NULL;
    }
    return json;
}

static void missing(reader_t *reader, const object_t *object, const char *name)
{
    if (cJSON_GetObjectItemCaseSensitive(object->json, name) == NULL) {
        bad(reader, object, field_of(reader, object, name), "is missing");
    }
}

/* ---- Unknown keys ---------------------------------------------------------------------------- */

static const char *key_at(const keys_t *keys, size_t index)
{
    if (index < keys->n_fields) {
        return keys->fields[index].name;
    }
    index -= keys->n_fields;
    if (index < keys->n_flags) {
        return keys->flags[index].name;
    }
    return keys->others[index - keys->n_flags];
}

/* The key with nothing in it that a terminal might obey. */
static const char *printable(reader_t *reader, const char *key)
{
    char *copy = (char *)kvsi_arena_copy(reader->arena, key, strnlen(key, 80));

    for (char *at = copy; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7F) {
            *at = '?';
        }
    }
    return copy;
}

static void note_unknown(reader_t *reader, const object_t *object, const char *key,
                         const kvsi_near_t *near)
{
    kvs_plugin_info_t *info = reader->info;
    kvsi_json_place_t place = {.line = 1, .column = 1};
    const char *field = field_of(reader, object, printable(reader, key));

    if (kvsi_jsonscan_find(reader->text, reader->n_bytes, field, &place) != 0) {
        (void)kvsi_jsonscan_find(reader->text, reader->n_bytes, object->field, &place);
    }
    kvsi_note(reader->arena, &info->notes, &info->n_notes, "%s:%zu:%zu: unknown key \"%s\"%s%s",
              info->manifest, place.line, place.column, field, kvsi_near_text(near),
              near->text[0] != '\0' ? "?" : "");
}

/* Nobody reads them: they are ignored, since a newer minor version may have added them, but most are
 * slips. Keys that begin with x- are the vendors'. */
static void look_for_unknown(reader_t *reader, const object_t *object, const keys_t *keys)
{
    const cJSON *json = object->json != NULL ? object->json->child : NULL;

    for (; json != NULL && reader->info->n_notes < KVSI_MAX_NOTES; json = json->next) {
        kvsi_near_t near = KVSI_NEAR_INIT(json->string);
        const char *key;
        int known = strncmp(json->string, "x-", 2) == 0;

        for (size_t i = 0; !known && (key = key_at(keys, i)) != NULL; i++) {
            known = strcmp(key, json->string) == 0;
            kvsi_near_offer(&near, key);
        }
        if (!known) {
            note_unknown(reader, object, json->string, &near);
        }
    }
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* A copy of the text, checked by the rule; "" if it is none. */
static const char *read_text(reader_t *reader, const object_t *object, const char *field,
                             const cJSON *json, const rule_t *rule)
{
    if (!has_type(reader, object, field, json, cJSON_String, "text")) {
        return "";
    }
    if (!is_line(json->valuestring)) {
        bad(reader, object, field, "holds a control character");
        return "";
    }
    if (!rule->holds(json->valuestring)) {
        bad(reader, object, field, "is \"%.80s\"; it must be %s", json->valuestring, rule->want);
        return "";
    }
    return kvsi_arena_text(reader->arena, "%s", json->valuestring);
}

static void read_text_fields(reader_t *reader, const object_t *object, const text_field_t *fields,
                             size_t n_fields, void *ret_struct)
{
    for (size_t i = 0; i < n_fields; i++) {
        const cJSON *json = cJSON_GetObjectItemCaseSensitive(object->json, fields[i].name);
        const char **place = (const char **)((char *)ret_struct + fields[i].offset);

        *place = "";
        if (json != NULL) {
            *place = read_text(reader, object, field_of(reader, object, fields[i].name), json,
                               fields[i].rule);
        } else if (fields[i].required) {
            missing(reader, object, fields[i].name);
        }
    }
}

/* An array of texts; without it, none. */
static const char *const *read_texts(reader_t *reader, const object_t *object, const char *name,
                                     const rule_t *rule, size_t *ret_n)
{
    const cJSON *array = member(reader, object, name, cJSON_Array, "an array of texts");
    size_t n = array != NULL ? (size_t)cJSON_GetArraySize(array) : 0;
    const char **texts = kvsi_arena_array(reader->arena, n, sizeof(*texts));
    size_t i = 0;

    *ret_n = 0;
    if (texts == NULL || array == NULL) {
        return texts;
    }
    for (const cJSON *item = array->child; item != NULL; item = item->next, i++) {
        const char *field =
            kvsi_arena_text(reader->arena, "%s[%zu]", field_of(reader, object, name), i);

        texts[i] = read_text(reader, object, field, item, rule);
    }
    *ret_n = n;
    return texts;
}

/* An array of objects: room for them is given, and `read_one` fills each. */
typedef void (*read_one_t)(reader_t *reader, const object_t *object, void *ret_item);

static const void *read_objects(reader_t *reader, const object_t *object, const char *name,
                                size_t item_bytes, read_one_t read_one, size_t *ret_n)
{
    const cJSON *array = member(reader, object, name, cJSON_Array, "an array of objects");
    size_t n = array != NULL ? (size_t)cJSON_GetArraySize(array) : 0;
    char *items = kvsi_arena_array(reader->arena, n, item_bytes);
    size_t i = 0;

    *ret_n = 0;
    if (items == NULL || array == NULL) {
        return items;
    }
    for (const cJSON *json = array->child; json != NULL; json = json->next, i++) {
        object_t item = {
            json, kvsi_arena_text(reader->arena, "%s[%zu]", field_of(reader, object, name), i)};

        if (!has_type(reader, object, item.field, json, cJSON_Object, "an object")) {
            return items;
        }
        read_one(reader, &item, items + i * item_bytes);
    }
    *ret_n = n;
    return items;
}

static void read_capabilities(reader_t *reader, const object_t *parent, kvs_provide_t *provide)
{
    object_t object = {member(reader, parent, "capabilities", cJSON_Object, "an object"),
                       field_of(reader, parent, "capabilities")};

    for (size_t i = 0; i < N_ITEMS(capability_flags); i++) {
        const cJSON *flag = member(reader, &object, capability_flags[i].name,
                                   cJSON_True | cJSON_False, "true or false");

        *(int32_t *)((char *)provide + capability_flags[i].offset) = cJSON_IsTrue(flag);
    }
    look_for_unknown(reader, &object, &capability_keys);
    provide->compression =
        read_texts(reader, &object, "gradient_compression", &name_rule, &provide->n_compression);
    provide->devices = read_texts(reader, &object, "devices", &name_rule, &provide->n_devices);
    provide->dtypes = read_texts(reader, &object, "dtypes", &dtype_rule, &provide->n_dtypes);
}

static void read_provide(reader_t *reader, const object_t *object, void *ret_item)
{
    kvs_provide_t *provide = ret_item;
    const cJSON *priority = member(reader, object, "priority", cJSON_Number, "a number");

    look_for_unknown(reader, object, &provide_keys);
    read_text_fields(reader, object, provide_fields, N_ITEMS(provide_fields), provide);
    provide->aliases = read_texts(reader, object, "aliases", &name_rule, &provide->n_aliases);
    provide->with = read_texts(reader, object, "with", &word_rule, &provide->n_with);
    read_capabilities(reader, object, provide);
    if (priority != NULL) {
        double value = priority->valuedouble;

        if (!(value >= 0 && value <= PRIORITY_MAX) || value != (int32_t)value) {
            bad(reader, object, field_of(reader, object, "priority"),
                "is %g; it must be a whole number from 0 to %d", value, PRIORITY_MAX);
            return;
        }
        provide->priority = (int32_t)value;
    }
}

static void read_library_needed(reader_t *reader, const object_t *object, void *ret_item)
{
    look_for_unknown(reader, object, &library_keys);
    read_text_fields(reader, object, library_fields, N_ITEMS(library_fields), ret_item);
}

static void read_option(reader_t *reader, const object_t *object, void *ret_item)
{
    kvs_plugin_option_t *option = ret_item;
    const cJSON *preset = cJSON_GetObjectItemCaseSensitive(object->json, "default");
    const char *field = field_of(reader, object, "default");

    look_for_unknown(reader, object, &option_keys);
    read_text_fields(reader, object, option_fields, N_ITEMS(option_fields), option);
    option->preset = "";
    if (preset == NULL) {
        return;
    }
    if (cJSON_IsString(preset)) {
        option->preset = read_text(reader, object, field, preset, &line_rule);
    } else if (has_type(reader, object, field, preset, cJSON_Number | cJSON_True | cJSON_False,
                        "text, a number, true or false")) {
        char *printed = cJSON_PrintUnformatted(preset);

        option->preset = kvsi_arena_text(reader->arena, "%s", printed != NULL ? printed : "");
        reader->arena->failed |= printed == NULL;
        cJSON_free(printed);
    }
}

static void read_requires(reader_t *reader, const object_t *root)
{
    object_t object = {member(reader, root, "requires", cJSON_Object, "an object"), "requires"};
    kvs_plugin_info_t *info = reader->info;
    static const text_field_t core_field = {"core", &core_rule, 0, INFO(core)};

    look_for_unknown(reader, &object, &requires_keys);
    info->libraries = read_objects(reader, &object, "libraries", sizeof(kvs_requirement_t),
                                   read_library_needed, &info->n_libraries);
    info->devices = read_texts(reader, &object, "devices", &name_rule, &info->n_devices);
    read_text_fields(reader, &object, &core_field, 1, info);
}

/* Relative paths count from the directory that really holds the manifest, so that a link to a
 * manifest in another tree finds that tree's library. Of a library that is a link, the link's own
 * place is kept: whoever may change the link chooses what is loaded (trust.c). */
static const char *resolve_library(reader_t *reader, const char *library)
{
    char manifest[PATH_MAX], directory[PATH_MAX];
    const char *joined = library;

    if (library[0] != '/') {
        if (realpath(reader->info->manifest, manifest) == NULL) {
            snprintf(manifest, sizeof(manifest), "%s", reader->info->manifest);
        }
        joined = kvsi_arena_text(reader->arena, "%.*s%s",
                                 (int)(strrchr(manifest, '/') - manifest) + 1, manifest, library);
    }
    const char *slash = strrchr(joined, '/'); /* NULL only if there was no memory to join */
    size_t len = slash != NULL ? (size_t)(slash - joined) + 1 : 0;

    if (realpath(kvsi_arena_copy(reader->arena, joined, len), directory) == NULL) {
        return joined;
    }
    return kvsi_arena_text(reader->arena, "%s/%s", strcmp(directory, "/") == 0 ? "" : directory,
                           joined + len);
}

static void read_library(reader_t *reader, const object_t *root)
{
    static const text_field_t field = {"library", &library_rule, 1, INFO(library)};

    if (strcmp(reader->info->manifest, KVSI_MANIFEST_STATIC) == 0) {
        return;
    }
    read_text_fields(reader, root, &field, 1, reader->info);
    if (reader->info->state == KVS_PLUGIN_OK) {
        reader->info->library = resolve_library(reader, reader->info->library);
    }
}

/* Whether this library reads that version of the format. */
static int read_format(reader_t *reader, const object_t *root)
{
    const char *version = "";
    const text_field_t field = {"manifest_version", &pair_rule, 1, 0};

    read_text_fields(reader, root, &field, 1, &version);
    if (reader->info->state != KVS_PLUGIN_OK) {
        return 0;
    }
    int major = atoi(version);
    if (major > FORMAT_MAJOR) {
        kvsi_judge(reader->arena, reader->info, KVS_PLUGIN_FORMAT_TOO_NEW,
                   "install a newer libkvstore0",
                   "%s: \"manifest_version\" is %s, this library reads %d.x",
                   reader->info->manifest, version, FORMAT_MAJOR);
    } else if (major < FORMAT_MAJOR) {
        bad(reader, root, "manifest_version", "is %s; it must be %d.x", version, FORMAT_MAJOR);
    }
    return major == FORMAT_MAJOR;
}

static void read_root(reader_t *reader, const object_t *root)
{
    kvs_plugin_info_t *info = reader->info;
    const char *file_name = info->name;

    look_for_unknown(reader, root, &plugin_keys);
    read_text_fields(reader, root, plugin_fields, N_ITEMS(plugin_fields), info);
    read_library(reader, root);
    if (info->name[0] == '\0') {
        info->name = file_name;
    } else if (strcmp(info->name, file_name) != 0 &&
               strcmp(info->manifest, KVSI_MANIFEST_STATIC) != 0) {
        bad(reader, root, "name", "is \"%s\", but the file is named \"%s.json\"", info->name,
            file_name);
        info->name = file_name; /* which is what shadows, and is asked for */
    }
    missing(reader, root, "provides");
    info->provides = read_objects(reader, root, "provides", sizeof(kvs_provide_t), read_provide,
                                  &info->n_provides);
    if (info->n_provides == 0) {
        bad(reader, root, "provides", "is empty");
    }
    read_requires(reader, root);
    info->options = read_objects(reader, root, "options", sizeof(kvs_plugin_option_t), read_option,
                                 &info->n_options);
}

kvs_plugin_info_t kvsi_manifest_blank(kvsi_arena_t *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    size_t len = strlen(base);
    kvs_plugin_info_t info = {.version = "",
                              .summary = "",
                              .package = "",
                              .license = "",
                              .arch = "",
                              .abi = "",
                              .core = "",
                              .library = "",
                              .reason = "",
                              .fix = ""};

    if (len > 5 && strcmp(base + len - 5, ".json") == 0) {
        len -= 5;
    }
    info.name = kvsi_arena_copy(arena, base, len);
    info.manifest = kvsi_arena_text(arena, "%s", path);
    return info;
}

void kvsi_manifest_parse(kvsi_arena_t *arena, const char *text, size_t n_bytes,
                         kvs_plugin_info_t *info)
{
    reader_t reader = {arena, info, text, n_bytes};
    kvsi_json_place_t place = {.line = 1, .column = 1};

    if (n_bytes > KVSI_MANIFEST_MAX_BYTES) {
        judge_bad(&reader, &place, "", "larger than 64 KiB");
        return;
    }
    if (kvsi_jsonscan_check(text, n_bytes, &place) != 0) {
        arena->failed |= place.out_of_memory;
        judge_bad(&reader, &place, place.field,
                  place.field[0] == '\0' ? place.reason
                                         : kvsi_arena_text(arena, ": %s", place.reason));
        return;
    }
    cJSON *json = cJSON_ParseWithLength(text, n_bytes);
    object_t root = {json, ""};
    if (json == NULL) {
        arena->failed = 1; /* the scan accepts nothing that cJSON refuses */
    } else if (has_type(&reader, &root, "", json, cJSON_Object, "an object") &&
               read_format(&reader, &root)) {
        read_root(&reader, &root);
    }
    cJSON_Delete(json);
}
