/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests: what they say, and that a wrong one is refused with its place, field and reason. */
#include "kt.h"
#include "manifest.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Line 1 is the brace: the places below count from here. */
static const char good[] =
    "{\n"
    "\"manifest_version\": \"1.0\",\n"
    "\"name\": \"dist\",\n"
    "\"version\": \"0.1.0\",\n"
    "\"summary\": \"Parameter server\",\n"
    "\"library\": \"../lib/kvs_dist.so\",\n"
    "\"arch\": \"x86_64-linux-gnu\",\n"
    "\"abi\": \"1.0\",\n"
    "\"package\": \"kvstore-backend-dist\",\n"
    "\"license\": \"Apache-2.0\",\n"
    "\"provides\": [\n"
    "{\"kind\": \"backend\", \"name\": \"dist_sync\", \"aliases\": [\"dist\", \"dist_async\"],\n"
    " \"word\": \"dist\", \"with\": [\"sync\", \"async\"], \"priority\": 50,\n"
    " \"capabilities\": {\"optimizer\": true, \"sparse\": true, \"async\": true,\n"
    "  \"gradient_compression\": [\"1bit\", \"2bit\"], \"multi_worker\": true,\n"
    "  \"keeps_weights\": false, \"devices\": [\"cpu\", \"cuda\"], \"dtypes\": [\"float32\"]}},\n"
    "{\"kind\": \"optimizer\", \"name\": \"sgd\"}],\n"
    "\"requires\": {\"libraries\": [{\"name\": \"libzmq.so.5\", \"package\": \"libzmq5\",\n"
    "  \"why\": \"transport\"}], \"devices\": [\"cuda\"], \"core\": \">=0.1\"},\n"
    "\"options\": [{\"name\": \"bound\", \"type\": \"size\", \"default\": 1000000, \"doc\": "
    "\"cut\"},\n"
    "  {\"name\": \"p3\", \"type\": \"bool\", \"default\": false},\n"
    "  {\"name\": \"rate\", \"type\": \"float\", \"default\": 0.5, \"variable\": \"DMLC_RATE\"},\n"
    "  {\"name\": \"uri\", \"type\": \"text\", \"default\": \"a b\"}],\n"
    "\"x-vendor\": {\"anything\": [1, 2]}, \"a_later_version\": 1\n"
    "}\n";

static kvs_plugin_info_t parse_bytes(kvsi_arena_t *arena, const char *path, const char *text,
                                     size_t n_bytes)
{
    kvs_plugin_info_t info = kvsi_manifest_blank(arena, path);

    kvsi_manifest_parse(arena, text, n_bytes, &info);
    return info;
}

static kvs_plugin_info_t parse(kvsi_arena_t *arena, const char *text)
{
    return parse_bytes(arena, "/no/such/place/dist.json", text, strlen(text));
}

static void every_field_is_read(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info = parse(&arena, good);

    KT_STR(info.reason, "");
    KT_INT(info.state, KVS_PLUGIN_OK);
    KT_STR(info.name, "dist");
    KT_STR(info.version, "0.1.0");
    KT_STR(info.summary, "Parameter server");
    KT_STR(info.package, "kvstore-backend-dist");
    KT_STR(info.license, "Apache-2.0");
    KT_STR(info.arch, "x86_64-linux-gnu");
    KT_STR(info.abi, "1.0");
    KT_STR(info.core, ">=0.1");
    KT_STR(info.manifest, "/no/such/place/dist.json");
    KT_STR(info.library, "/no/such/place/../lib/kvs_dist.so");
    KT_INT(info.n_libraries, 1);
    KT_STR(info.libraries[0].name, "libzmq.so.5");
    KT_STR(info.libraries[0].package, "libzmq5");
    KT_STR(info.libraries[0].why, "transport");
    KT_INT(info.n_devices, 1);
    KT_STR(info.devices[0], "cuda");
    kvsi_arena_release(&arena);
}

static void what_is_provided_is_read(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info = parse(&arena, good);
    const kvs_provide_t *dist = &info.provides[0], *sgd = &info.provides[1];

    KT_INT(info.n_provides, 2);
    KT_STR(dist->kind, "backend");
    KT_STR(dist->name, "dist_sync");
    KT_INT(dist->n_aliases, 2);
    KT_STR(dist->aliases[1], "dist_async");
    KT_STR(dist->word, "dist");
    KT_INT(dist->n_with, 2);
    KT_STR(dist->with[0], "sync");
    KT_INT(dist->priority, 50);
    KT_INT(dist->optimizer, 1);
    KT_INT(dist->sparse, 1);
    KT_INT(dist->async, 1);
    KT_INT(dist->multi_worker, 1);
    KT_INT(dist->keeps_weights, 0);
    KT_INT(dist->n_compression, 2);
    KT_STR(dist->compression[1], "2bit");
    KT_INT(dist->n_devices, 2);
    KT_STR(dist->devices[1], "cuda");
    KT_INT(dist->n_dtypes, 1);
    KT_STR(dist->dtypes[0], "float32");
    KT_STR(sgd->kind, "optimizer");
    KT_STR(sgd->word, "");
    KT_INT(sgd->priority, 0);
    KT_INT(sgd->n_aliases + sgd->n_with + sgd->n_devices + sgd->n_dtypes, 0);
    kvsi_arena_release(&arena);
}

static void defaults_of_options_become_text(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info = parse(&arena, good);

    KT_INT(info.n_options, 4);
    KT_STR(info.options[0].preset, "1000000");
    KT_STR(info.options[0].doc, "cut");
    KT_STR(info.options[0].variable, "");
    KT_STR(info.options[1].preset, "false");
    KT_STR(info.options[2].preset, "0.5");
    KT_STR(info.options[2].variable, "DMLC_RATE");
    KT_STR(info.options[3].preset, "a b");
    kvsi_arena_release(&arena);
}

static void what_may_be_missing_is_empty(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info =
        parse(&arena, "{\"manifest_version\": \"1.7\", \"name\": \"dist\", \"version\": \"1\","
                      " \"library\": \"/a/b.so\", \"arch\": \"a\", \"abi\": \"1.0\","
                      " \"provides\": [{\"kind\": \"device\", \"name\": \"cuda\"}]}");

    KT_STR(info.reason, "");
    KT_STR(info.library, "/a/b.so");
    KT_STR(info.summary, "");
    KT_STR(info.package, "");
    KT_STR(info.core, "");
    KT_INT(info.n_libraries + info.n_devices + info.n_options, 0);
    kvsi_arena_release(&arena);
}

/* ---- What is refused ------------------------------------------------------------------------ */

typedef struct change {
    const char *from, *to; /* the first `from` in the good text is replaced */
    const char *want;      /* how the reason begins after the path */
} change_t;

static void refused(const change_t *change)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    char text[8192], want[256];
    const char *at = strstr(good, change->from);
    kvs_plugin_info_t info;

    KT_TRUE(at != NULL);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, change->to,
             at + strlen(change->from));
    info = parse(&arena, text);
    snprintf(want, sizeof(want), "/no/such/place/dist.json:%s", change->want);
    KT_STR(kvs_plugin_state_text(info.state), "bad-manifest");
    KT_HAS(info.reason, want);
    KT_HAS(info.fix, "correct the manifest");
    KT_STR(info.name, "dist");
    kvsi_arena_release(&arena);
}

static void all_refused(const change_t *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        refused(&changes[i]);
    }
}

#define ALL_REFUSED(changes) all_refused(changes, sizeof(changes) / sizeof((changes)[0]))

static void wrong_types_are_refused(void)
{
    static const change_t changes[] = {
        {"\"dist\",\n", "7,\n", "3:9: \"name\" must be text, not a number"},
        {"\"0.1.0\"", "0.1", "4:12: \"version\" must be text, not a number"},
        {"\"1.0\",\n\"package\"", "1,\n\"package\"", "8:8: \"abi\" must be text, not a number"},
        {"\"1.0\"", "1.0", "2:21: \"manifest_version\" must be text, not a number"},
        {"\"Parameter server\"", "null", "5:12: \"summary\" must be text, not null"},
        {"{\"name\": \"libzmq", "[\"name\": \"libzmq",
         "18:35: \"requires.libraries[0]\": ',' or ']'"},
        {"{\"kind\": \"optimizer\", \"name\": \"sgd\"}", "\"sgd\"",
         "17:1: \"provides[1]\" must be an object, not text"},
        {"50", "\"50\"", "13:57: \"provides[0].priority\" must be a number, not text"},
        {"true", "1",
         "14:32: \"provides[0].capabilities.optimizer\" must be true or false, not a "},
        {"[\"cpu\", \"cuda\"]", "\"cpu\"",
         "16:38: \"provides[0].capabilities.devices\" must be an array of texts, not text"},
        {"\"cuda\"]", "2]", "16:46: \"provides[0].capabilities.devices[1]\" must be text"},
        {"{\"libraries\": ", "[], \"y\": {\"libraries\": ",
         "18:13: \"requires\" must be an object"},
        {"1000000", "[]", "20:58: \"options[0].default\" must be text, a number, true or false"},
        {"{\n\"manifest_version\"", "[{\n\"manifest_version\"",
         "26:1: the text ends where ',' or ']'"},
    };

    ALL_REFUSED(changes);
}

static void missing_fields_are_refused_at_their_object(void)
{
    static const change_t changes[] = {
        {"\"manifest_version\": \"1.0\",\n", "\n", "1:1: \"manifest_version\" is missing"},
        {"\"name\": \"dist\",\n", "\n", "1:1: \"name\" is missing"},
        {"\"version\": \"0.1.0\",\n", "\n", "1:1: \"version\" is missing"},
        {"\"library\": \"../lib/kvs_dist.so\",\n", "\n", "1:1: \"library\" is missing"},
        {"\"arch\": \"x86_64-linux-gnu\",\n", "\n", "1:1: \"arch\" is missing"},
        {"\"abi\": \"1.0\",\n", "\n", "1:1: \"abi\" is missing"},
        {"\"provides\"", "\"x-provides\"", "1:1: \"provides\" is missing"},
        {"\"kind\": \"optimizer\", ", "", "17:1: \"provides[1].kind\" is missing"},
        {"\"name\": \"libzmq.so.5\", ", "", "18:28: \"requires.libraries[0].name\" is missing"},
        {"\"type\": \"bool\", ", "", "21:3: \"options[1].type\" is missing"},
    };

    ALL_REFUSED(changes);
}

static void texts_of_the_wrong_form_are_refused(void)
{
    static const change_t changes[] = {
        {"\"dist\",\n", "\"Dist\",\n", "3:9: \"name\" is \"Dist\"; it must be a letter, then"},
        {"\"dist\",\n", "\"other\",\n",
         "3:9: \"name\" is \"other\", but the file is named \"dist."},
        {"0.1.0", "v1", "4:12: \"version\" is \"v1\"; it must be a version such as 1.2.0"},
        {"../lib/kvs_dist.so", "kvs_dist.so", "6:12: \"library\" is \"kvs_dist.so\"; it must be a"},
        {"../lib/kvs_dist.so", "../lib/", "6:12: \"library\" is \"../lib/\"; it must be a path"},
        {"\"1.0\",\n\"package\"", "\"1\",\n\"package\"", "8:8: \"abi\" is \"1\"; it must be MAJOR"},
        {"\"1.0\",\n\"name\"", "\"1\",\n\"name\"", "2:21: \"manifest_version\" is \"1\"; it must"},
        {"\"1.0\",\n\"name\"", "\"0.9\",\n\"name\"",
         "2:21: \"manifest_version\" is 0.9; it must b"},
        {"\"backend\"", "\"storage\"", "12:10: \"provides[0].kind\" is \"storage\"; it must be "},
        {"\"dist_async\"", "\"dist async\"", "12:62: \"provides[0].aliases[1]\" is \"dist async\""},
        {"\"word\": \"dist\"", "\"word\": \"a_b\"",
         "13:10: \"provides[0].word\" is \"a_b\"; it mus"},
        {"50", "101",
         "13:57: \"provides[0].priority\" is 101; it must be a whole number from 0 to "},
        {"50", "1.5",
         "13:57: \"provides[0].priority\" is 1.5; it must be a whole number from 0 to "},
        {"50", "-1",
         "13:57: \"provides[0].priority\" is -1; it must be a whole number from 0 to 10"},
        {"\"float32\"", "\"float8\"", "16:66: \"provides[0].capabilities.dtypes[0]\" is \"float8"},
        {"libzmq.so.5", "/lib/libzmq.so", "18:37: \"requires.libraries[0].name\" is \"/lib/libzm"},
        {">=0.1", "0.1", "19:54: \"requires.core\" is \"0.1\"; it must be a range such as >=0.1"},
        {"\"size\"", "\"bytes\"", "20:39: \"options[0].type\" is \"bytes\"; it must be int, size"},
        {"DMLC_RATE", "dmlc rate", "22:65: \"options[2].variable\" is \"dmlc rate\"; it must be "},
        {"Parameter", "\\u001b[31mred", "5:12: \"summary\" holds a control character"},
    };

    ALL_REFUSED(changes);
}

static void what_is_not_strict_json_is_refused(void)
{
    static const change_t changes[] = {
        {"\"0.1.0\",\n", "\"0.1.0\",\n\"version\": \"2\",\n", "5:1: \"version\": duplicate key"},
        {"Parameter", "\xFF", "5:13: \"summary\": invalid UTF-8"},
        {"1000000", "1e400", "20:58: \"options[0].default\": a number is too large"},
        {"Parameter", "\\u0000", "5:13: \"summary\": \\u0000 is not allowed"},
        {"50", "05", "13:57: \"provides[0].priority\": a number has a leading zero"},
        {"[1, 2]", "[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]", "24:40: \"x-vendor.anything[0][0]"},
        {"1\n}\n", "1\n", "25:1: the text ends where ',' or '}' is expected"},
        {"1\n}\n", "1\n}}\n", "25:2: the end of the text is expected"},
    };

    ALL_REFUSED(changes);
}

static void nul_bytes_and_a_byte_order_mark_are_refused(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    char text[sizeof(good) + 3];

    memcpy(text, good, sizeof(good));
    text[30] = '\0';
    KT_HAS(parse_bytes(&arena, "/d/dist.json", text, sizeof(good) - 1).reason, "NUL byte");
    snprintf(text, sizeof(text), "\xEF\xBB\xBF%s", good);
    KT_HAS(parse_bytes(&arena, "/d/dist.json", text, strlen(text)).reason,
           "/d/dist.json:1:1: a byte order mark is not allowed");
    kvsi_arena_release(&arena);
}

static void more_than_64_kib_are_refused(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    size_t n_bytes = KVSI_MANIFEST_MAX_BYTES + 1;
    char *text = malloc(n_bytes);

    memset(text, ' ', n_bytes);
    memcpy(text, good, strlen(good));
    KT_INT(parse_bytes(&arena, "/d/dist.json", text, n_bytes - 1).state, KVS_PLUGIN_OK);
    kvs_plugin_info_t info = parse_bytes(&arena, "/d/dist.json", text, n_bytes);
    KT_INT(info.state, KVS_PLUGIN_BAD_MANIFEST);
    KT_HAS(info.reason, "larger than 64 KiB");
    free(text);
    kvsi_arena_release(&arena);
}

static void only_an_object_is_a_manifest(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;

    KT_HAS(parse(&arena, "[]").reason, "dist.json:1:1: must be an object, not an array");
    KT_HAS(parse(&arena, "").reason, "dist.json:1:1: the text ends where a value is expected");
    KT_HAS(parse(&arena, "{}").reason, "dist.json:1:1: \"manifest_version\" is missing");
    kvsi_arena_release(&arena);
}

static void nothing_provided_is_refused(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;

    KT_HAS(parse(&arena, "{\"manifest_version\": \"1.0\", \"name\": \"dist\", \"version\": \"1\","
                         " \"library\": \"/a/b.so\", \"arch\": \"a\", \"abi\": \"1.0\",\n"
                         " \"provides\": []}")
               .reason,
           "dist.json:2:14: \"provides\" is empty");
    kvsi_arena_release(&arena);
}

/* Another major version may mean anything: nothing else in it is looked at. */
static void a_newer_major_version_is_refused_naming_both(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info =
        parse(&arena, "{\"manifest_version\": \"2.3\", \"name\": [], \"provides\": 7}");

    KT_STR(kvs_plugin_state_text(info.state), "format-too-new");
    KT_STR(info.reason,
           "/no/such/place/dist.json: \"manifest_version\" is 2.3, this library reads 1.x");
    KT_STR(info.fix, "install a newer libkvstore0");
    kvsi_arena_release(&arena);
}

/* ---- Paths ---------------------------------------------------------------------------------- */

static void a_relative_library_counts_from_the_real_manifest(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    char dir[512], path[1024], link_path[1024], want[PATH_MAX];
    kvs_plugin_info_t info;

    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    snprintf(path, sizeof(path), "%s", kt_write_file(dir, "share/dist.json", good));
    kt_write_file(dir, "lib/kvs_dist.so", "");
    kt_write_file(dir, "links/x", "");
    snprintf(link_path, sizeof(link_path), "%s/links/dist.json", dir);
    KT_INT(symlink(path, link_path), 0);
    KT_TRUE(realpath(dir, want) != NULL);
    strcat(want, "/lib/kvs_dist.so");
    info = parse_bytes(&arena, path, good, strlen(good));
    KT_STR(info.library, want);
    info = parse_bytes(&arena, link_path, good, strlen(good));
    KT_STR(info.library, want);
    kvsi_arena_release(&arena);
}

static void a_static_plugin_needs_no_library_and_takes_its_own_name(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    static const char text[] = "{\"manifest_version\": \"1.0\", \"name\": \"acme\","
                               " \"version\": \"1\", \"arch\": \"a\", \"abi\": \"1.0\","
                               " \"provides\": [{\"kind\": \"backend\", \"name\": \"acme\"}]}";
    kvs_plugin_info_t info = parse_bytes(&arena, KVSI_MANIFEST_STATIC, text, sizeof(text) - 1);

    KT_STR(info.reason, "");
    KT_STR(info.name, "acme");
    KT_STR(info.library, "");
    kvsi_arena_release(&arena);
}

/* ---- Unknown keys --------------------------------------------------------------------------- */

static void noted(const char *text, size_t n_notes, size_t index, const char *want)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info = parse(&arena, text);

    KT_STR(info.reason, "");
    KT_INT(info.n_notes, n_notes);
    if (index < info.n_notes) {
        KT_STR(info.notes[index], want);
    }
    kvsi_arena_release(&arena);
}

#define LEAST(more)                                                                                \
    "{\"manifest_version\": \"1.0\", \"name\": \"dist\", \"version\": \"1\",\n"                    \
    "\"library\": \"./x.so\", \"arch\": \"a\", \"abi\": \"1.0\",\n" more "}"
#define BACKEND(more) LEAST("\"provides\": [{\"kind\": \"backend\", \"name\": \"dist\"" more "}]")

static void unknown_keys_are_noted_with_place_and_near_names(void)
{
    noted(good, 1, 0, "/no/such/place/dist.json:24:54: unknown key \"a_later_version\"");
    noted(BACKEND(""), 0, 0, "");
    noted(BACKEND(",\n \"alias\": []"), 1, 0,
          "/no/such/place/dist.json:4:11: unknown key \"provides[0].alias\"; did you mean "
          "\"aliases\"?");
    noted(BACKEND(",\n \"capabilities\": {\"Sparse\": 1}"), 1, 0,
          "/no/such/place/dist.json:4:29: unknown key \"provides[0].capabilities.Sparse\"; did you "
          "mean \"sparse\"?");
    noted(
        LEAST(
            "\"provides\": [{\"kind\": \"device\", \"name\": \"d\"}],\n"
            "\"requires\": {\"library\": 1,\n\"libraries\": [{\"name\": \"l\", \"packge\": 1}]},\n"
            "\"options\": [{\"name\": \"a\", \"type\": \"int\", \"preset\": 1}]"),
        3, 1,
        "/no/such/place/dist.json:5:39: unknown key \"requires.libraries[0].packge\"; did you mean "
        "\"package\"?");
}

static void keys_of_vendors_are_not_noted(void)
{
    noted(BACKEND(", \"x-colour\": 1, \"capabilities\": {\"x-speed\": 9}"), 0, 0, "");
}

/* What a file holds may end on somebody's terminal. */
static void noted_keys_hold_no_control_characters(void)
{
    noted(BACKEND(", \"a\\u001b[31mb\\u007f\": 1"), 1, 0,
          "/no/such/place/dist.json:3:72: unknown key \"provides[0].a?[31mb?\"");
}

static void notes_are_kept_up_to_a_limit(void)
{
    static char text[8000];
    int len = snprintf(text, sizeof(text),
                       "{\"manifest_version\": \"1.0\", \"name\": \"dist\", "
                       "\"version\": \"1\", \"library\": \"./x.so\", "
                       "\"arch\": \"a\", \"abi\": \"1.0\"");

    for (int i = 0; i < 500; i++) {
        len += snprintf(text + len, sizeof(text) - (size_t)len, ",\"k%d\":0", i);
    }
    snprintf(text + len, sizeof(text) - (size_t)len,
             ",\"provides\":[{\"kind\":\"device\",\"name\":\"d\"}]}");
    noted(text, 20, 0, "/no/such/place/dist.json:1:113: unknown key \"k0\"");
}

static const kt_test_t tests[] = {
    KT_TEST(every_field_is_read),
    KT_TEST(what_is_provided_is_read),
    KT_TEST(defaults_of_options_become_text),
    KT_TEST(what_may_be_missing_is_empty),
    KT_TEST(wrong_types_are_refused),
    KT_TEST(missing_fields_are_refused_at_their_object),
    KT_TEST(texts_of_the_wrong_form_are_refused),
    KT_TEST(what_is_not_strict_json_is_refused),
    KT_TEST(nul_bytes_and_a_byte_order_mark_are_refused),
    KT_TEST(more_than_64_kib_are_refused),
    KT_TEST(only_an_object_is_a_manifest),
    KT_TEST(nothing_provided_is_refused),
    KT_TEST(a_newer_major_version_is_refused_naming_both),
    KT_TEST(a_relative_library_counts_from_the_real_manifest),
    KT_TEST(a_static_plugin_needs_no_library_and_takes_its_own_name),
    KT_TEST(unknown_keys_are_noted_with_place_and_near_names),
    KT_TEST(keys_of_vendors_are_not_noted),
    KT_TEST(noted_keys_hold_no_control_characters),
    KT_TEST(notes_are_kept_up_to_a_limit),
};
KT_MAIN("manifest", tests)
