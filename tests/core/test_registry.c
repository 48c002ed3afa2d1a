/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to a backend: who answers, in which order, and what is told when nobody does. */
#include "kt.h"
#include "fakes.h"
#include "host.h"
#include "registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[512];

/* A fresh directory, and only that is searched. */
static void use_fresh_place(void)
{
    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
    unsetenv("KVSTORE_PLUGINS");
}

static const kvs_backend_t *find(const char *name)
{
    const kvs_backend_t *backend = NULL;

    KT_OK(kvsi_registry_find_backend(name, &backend));
    return backend;
}

static void fails(const char *name, kvs_status_t status, const char *part)
{
    const kvs_backend_t *backend = (const kvs_backend_t *)dir;

    KT_FAIL(kvsi_registry_find_backend(name, &backend), status, part);
    KT_TRUE(backend == (const kvs_backend_t *)dir); /* written only on success */
}

static void answers(const char *name, int want)
{
    const kvs_backend_t *backend = find(name);
    int got = -1;

    if (backend != NULL) {
        KT_OK(backend->ops->num_workers(NULL, &got));
        KT_INT(got, want);
    }
}

/* ---- Who answers ---------------------------------------------------------------------------- */

static void names_are_lowered_and_found_by_name_alias_and_word(void)
{
    use_fresh_place();
    FAKE_WRITE(dir, .provide = "\"aliases\": [\"imitation\"], \"word\": \"sham\", "
                               "\"with\": [\"sync\"], ");
    KT_STR(find("fake")->name, "fake");
    KT_STR(find("FaKe")->name, "fake");
    KT_STR(find("Imitation")->name, "fake");
    KT_STR(find("sham")->name, "fake");
    KT_STR(find("SYNC-sham")->name, "fake");
    KT_TRUE(find("fake") == find("sham"));
}

static void an_installed_package_is_seen_at_once(void)
{
    use_fresh_place();
    fails("fake", KVS_ERR_NOT_FOUND, "no backend named \"fake\"");
    const char *manifest = FAKE_WRITE(dir, 0);
    KT_STR(find("fake")->name, "fake");
    KT_INT(unlink(manifest), 0);
    fails("fake", KVS_ERR_NOT_FOUND, "no backend named \"fake\"");
}

static void exact_names_beat_aliases_beat_words(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a",
                 .provide = "\"priority\": 1, \"aliases\": [\"both\"], ");
    FAKE_VARIANT(dir, "clash_b", .name = "clash_b",
                 .provide = "\"priority\": 90, \"word\": \"both\", \"aliases\": [\"clash_a\"], ");
    answers("both", 11);    /* alias before word */
    answers("clash_a", 11); /* name before alias */
    answers("clash_b", 22);
}

static void priority_decides_among_equals(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a",
                 .provide = "\"priority\": 30, \"word\": \"both\", ");
    FAKE_VARIANT(dir, "clash_b", .name = "clash_b",
                 .provide = "\"priority\": 40, \"word\": \"both\", ");
    answers("both", 22);
}

static void then_directory_and_name_decide(void)
{
    char earlier[512], path[1100];

    use_fresh_place();
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a", .provide = "\"word\": \"both\", ");
    FAKE_VARIANT(dir, "clash_b", .name = "clash_b", .provide = "\"word\": \"both\", ");
    answers("both", 11);
    snprintf(earlier, sizeof(earlier), "%s", kt_temp_dir());
    FAKE_VARIANT(earlier, "clash_b", .name = "clash_b", .provide = "\"word\": \"both\", ");
    snprintf(path, sizeof(path), "%s:%s", earlier, dir);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    answers("both", 22);
}

/* dist, device and local as their manifests state them: the order that users are used to. */
static void of_several_words_dist_beats_device_beats_local(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "clash_b", .name = "clash_b",
                 .provide = "\"priority\": 50, \"word\": \"dist\", \"with\": [\"device\"], ");
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a",
                 .provide = "\"priority\": 30, \"word\": \"device\", "
                            "\"with\": [\"local\", \"dist\"], ");
    FAKE_WRITE(dir, .provide = "\"priority\": 20, \"word\": \"local\", \"with\": [\"device\"], ");
    answers("dist_device", 22);
    answers("local_device", 11);
    answers("local", 1);
}

static void one_that_can_be_used_beats_one_that_cannot(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a", .abi = "7.0",
                 .provide = "\"priority\": 90, \"word\": \"both\", ");
    FAKE_VARIANT(dir, "clash_b", .name = "clash_b", .provide = "\"word\": \"both\", ");
    answers("both", 22);
    setenv("KVSTORE_PLUGINS", "-clash_b", 1);
    fails("clash_b", KVS_ERR_UNAVAILABLE, "disabled");
    unsetenv("KVSTORE_PLUGINS");
}

/* ---- What is told --------------------------------------------------------------------------- */

static void a_mistyped_name_is_an_error_that_tells_what_exists(void)
{
    use_fresh_place();
    FAKE_WRITE(dir, .provide = "\"aliases\": [\"imitation\"], ");
    fails("imitatoin", KVS_ERR_NOT_FOUND,
          "no backend named \"imitatoin\"; did you mean \"imitation\"? Installed: fake; "
          "known but not installed: local (package libkvstore0), ");
    fails("horovdo", KVS_ERR_NOT_FOUND, "did you mean \"horovod\"? Installed: fake; ");
    fails("horovdo", KVS_ERR_NOT_FOUND, "horovod (package kvstore-backend-horovod)");
    fails("dist_asnyc", KVS_ERR_NOT_FOUND, "did you mean \"dist_async\"?");
    fails("nothing_like_it", KVS_ERR_NOT_FOUND,
          "no backend named \"nothing_like_it\". Installed: fake; ");
}

static void a_known_name_that_is_not_installed_names_its_package(void)
{
    use_fresh_place();
    fails("horovod", KVS_ERR_UNAVAILABLE,
          "backend \"horovod\" is known but not installed: install package "
          "kvstore-backend-horovod");
    fails("dist_async", KVS_ERR_UNAVAILABLE, "install package kvstore-backend-dist");
    fails("local_allreduce_device", KVS_ERR_UNAVAILABLE, "install package kvstore-backend-device");
}

static void an_empty_search_path_names_the_backend_and_the_paths(void)
{
    setenv("KVSTORE_PLUGIN_PATH", "/nonexistent:/neither/this", 1);
    fails("local", KVS_ERR_UNAVAILABLE, "\"local\"");
    fails("local", KVS_ERR_UNAVAILABLE, "searched: /nonexistent, /neither/this");
    fails(
        "quite_unknown", KVS_ERR_NOT_FOUND,
        "no backend named \"quite_unknown\". None is installed; searched: /nonexistent, /neither");
}

static void what_is_found_but_unfit_tells_its_own_reason_and_fix(void)
{
    char want[1024];

    use_fresh_place();
    FAKE_WRITE(dir, .abi = "2.0", .provide = "\"aliases\": [\"imitation\"], ");
    snprintf(
        want, sizeof(want),
        "backend \"imitation\": plugin \"fake\" (%s/fake.json): abi-mismatch: the plugin needs "
        "ABI 2.0, this library offers 1.0 to 1.0; install a newer libkvstore0",
        dir);
    fails("imitation", KVS_ERR_PLUGIN, want);
    setenv("KVSTORE_PLUGINS", "-fake", 1);
    fails("fake", KVS_ERR_UNAVAILABLE, "disabled: removed by KVSTORE_PLUGINS=-fake; change or");
    unsetenv("KVSTORE_PLUGINS");
}

static void what_cannot_be_loaded_tells_its_own_reason_and_fix(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "undefined", .more = "\"package\": \"kvstore-fake\", ");
    fails("fake", KVS_ERR_PLUGIN,
          "undefined symbol: fake_symbol_that_nobody_has; install package kvstore-fake again");
    FAKE_VARIANT(dir, "refuses", 0);
    fails("fake", KVS_ERR_UNAVAILABLE,
          "unavailable: the plugin refused to load: there is no moon today");
    FAKE_WRITE(dir, 0); /* mended: the process needs no restart */
    KT_STR(find("fake")->name, "fake");
}

static void a_manifest_that_cannot_be_read_is_told_by_its_file_name(void)
{
    char want[1024];

    use_fresh_place();
    kt_write_file(dir, "fake.json", "{\n  oops}");
    snprintf(want, sizeof(want),
             "backend \"fake\": plugin \"fake\": bad-manifest: %s/fake.json:2:3: ", dir);
    fails("fake", KVS_ERR_PLUGIN, want);
    snprintf(want, sizeof(want), "; found but not usable: %s/fake.json (bad-manifest)", dir);
    fails("something_else", KVS_ERR_NOT_FOUND, want);
}

/* ---- Optimizers, compressors and providers --------------------------------------------------- */

static void use_all_kinds(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "all_kinds",
                 .provides = "[{\"kind\": \"device\", \"name\": \"rocm\"},"
                             " {\"kind\": \"optimizer\", \"name\": \"fakeopt\"},"
                             " {\"kind\": \"compressor\", \"name\": \"fakepress\"},"
                             " {\"kind\": \"backend\", \"name\": \"fake\", \"capabilities\":"
                             " {\"keeps_weights\": true, \"devices\": [\"cpu\"],"
                             " \"dtypes\": [\"float32\"]}}]");
}

static void optimizers_are_found_by_name(void)
{
    const kvs_optimizer_t *optimizer = NULL;

    use_all_kinds();
    KT_OK(kvsi_registry_find_optimizer("FakeOpt", &optimizer));
    KT_STR(optimizer->name, "fakeopt");
    KT_FAIL(kvsi_registry_find_optimizer("fakepot", &optimizer), KVS_ERR_NOT_FOUND,
            "no optimizer named \"fakepot\"; did you mean \"fakeopt\"? Installed: fakeopt");
    KT_FAIL(kvsi_registry_find_optimizer("fake", &optimizer), KVS_ERR_NOT_FOUND,
            "no optimizer named \"fake\"");
}

static void compressors_are_found_by_name(void)
{
    const kvs_compressor_t *compressor = NULL;

    use_all_kinds();
    KT_OK(kvsi_registry_find_compressor("FakePress", &compressor));
    KT_STR(compressor->name, "fakepress");
    KT_FAIL(kvsi_registry_find_compressor("fakeopt", &compressor), KVS_ERR_NOT_FOUND,
            "no compressor named \"fakeopt\"");
    KT_FAIL(kvsi_registry_find_compressor("2bit", &compressor), KVS_ERR_UNAVAILABLE,
            "compressor \"2bit\" is known but not installed: install package libkvstore0");
}

static void providers_are_found_by_device_type(void)
{
    const kvs_provider_t *provider = NULL, *again = NULL;

    use_all_kinds();
    KT_OK(kvsi_registry_find_provider(10, &provider));
    KT_STR(provider->name, "rocm");
    KT_OK(kvsi_registry_find_provider(10, &again));
    KT_TRUE(provider == again);
    KT_FAIL(kvsi_registry_find_provider(KVS_DEVICE_CUDA, &provider), KVS_ERR_UNAVAILABLE,
            "device \"cuda\" is known but not installed: install package kvstore-backend-cuda");
    KT_FAIL(kvsi_registry_find_provider(99, &provider), KVS_ERR_NOT_FOUND,
            "no device named \"99\"");
}

/* ---- Backends of the program ---------------------------------------------------------------- */

static kvs_status_t own_open(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    return KVS_OK;
}

static kvs_status_t own_close(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t own_verb(void *store, kvs_op_t *op)
{
    (void)store;
    (void)op;
    return KVS_OK;
}

static kvs_status_t answer_77(void *store, int *ret_number)
{
    (void)store;
    *ret_number = 77;
    return KVS_OK;
}

static kvs_backend_ops_t own_ops(void)
{
    kvs_backend_ops_t ops = {.size = (uint32_t)sizeof(ops),
                             .mode = KVS_BLOCKING,
                             .open = own_open,
                             .close = own_close,
                             .pushpull = own_verb,
                             .num_workers = answer_77};

    return ops;
}

static kvs_backend_t own_backend(const kvs_backend_ops_t *ops)
{
    kvs_backend_t backend = {.size = (uint32_t)sizeof(backend), .name = "mine", .ops = ops};

    return backend;
}

static void a_registered_backend_beats_every_installed_one(void)
{
    kvs_backend_ops_t ops = own_ops();
    kvs_backend_t backend = own_backend(&ops);

    use_fresh_place();
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a", .provide = "\"priority\": 100, ");
    answers("clash_a", 11);
    KT_OK(kvs_register_backend("Clash_A", &backend));
    answers("CLASH_A", 77);
    KT_STR(find("clash_a")->name, "clash_a");
}

static void the_tables_of_a_registered_backend_are_copied(void)
{
    kvs_backend_ops_t ops = own_ops();
    kvs_backend_t backend = own_backend(&ops);

    ops.size = (uint32_t)offsetof(kvs_backend_ops_t, num_workers);
    KT_OK(kvs_register_backend("copied", &backend));
    memset(&ops, 0xEE, sizeof(ops));
    memset(&backend, 0xEE, sizeof(backend));
    KT_TRUE(find("copied")->ops->pushpull == own_verb);
    KT_TRUE(find("copied")->ops->num_workers == NULL);
}

static void a_second_registration_replaces_the_first_which_stays_alive(void)
{
    kvs_backend_ops_t ops = own_ops();
    kvs_backend_t backend = own_backend(&ops);
    const kvs_backend_t *old, *new;

    KT_OK(kvs_register_backend("twice", &backend));
    old = find("twice");
    ops.num_workers = NULL;
    KT_OK(kvs_register_backend("twice", &backend));
    new = find("twice");
    KT_TRUE(new != old);
    KT_TRUE(old->ops->num_workers == answer_77);
    KT_TRUE(new->ops->num_workers == NULL);
}

static void a_backend_that_lacks_something_is_refused_by_name(void)
{
    kvs_backend_ops_t ops = own_ops();
    kvs_backend_t backend = own_backend(&ops);

    KT_FAIL(kvs_register_backend(NULL, &backend), KVS_ERR_ARGUMENT, "the name is NULL");
    KT_FAIL(kvs_register_backend("mine", NULL), KVS_ERR_ARGUMENT, "the backend is NULL");
    KT_FAIL(kvs_register_backend("", &backend), KVS_ERR_ARGUMENT, "the name is \"\"");
    KT_FAIL(kvs_register_backend("a b", &backend), KVS_ERR_ARGUMENT, "the name is \"a b\"");
    ops.open = NULL;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "has no function open");
    ops = own_ops();
    ops.close = NULL;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "has no function close");
    ops = own_ops();
    ops.pushpull = NULL;
    ops.push = own_verb;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT,
            "has no function pushpull, nor push and pull");
    ops.pull = own_verb;
    KT_OK(kvs_register_backend("push_and_pull", &backend));
    ops.mode = 0;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "mode is 0");
    ops = own_ops();
    ops.size = 0;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "has 0 bytes");
    ops = own_ops();
    backend.name = NULL;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "a backend has no name");
    backend = own_backend(NULL);
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "no operations table");
    backend = own_backend(&ops);
    backend.size = 8;
    KT_FAIL(kvs_register_backend("mine", &backend), KVS_ERR_ARGUMENT, "has 8 bytes");
}

/* ---- Static plugins and paths --------------------------------------------------------------- */

static const kvs_plugin_t *static_entry(const kvs_host_t *host, const char **ret_refusal)
{
    static kvs_backend_ops_t ops;
    static kvs_backend_t backend;
    static const kvs_backend_t *const backends[] = {&backend};
    static const kvs_plugin_t plugin = {.size = (uint32_t)sizeof(plugin),
                                        .abi_major = KVS_ABI_MAJOR,
                                        .abi_minor = KVS_ABI_MINOR,
                                        .name = "within",
                                        .version = "1.0.0",
                                        .backends = backends,
                                        .n_backends = 1};
    const kvs_backend_t *other;

    (void)ret_refusal;
    KT_TRUE(host == kvsi_host());
    /* An entry that asks for other plugins gets an answer, not a deadlock. */
    KT_FAIL(kvsi_registry_find_backend("fake", &other), KVS_ERR_STATE, "while one is loading");
    ops = own_ops();
    backend = own_backend(&ops);
    backend.name = "within";
    return &plugin;
}

static void a_static_plugin_comes_before_all_directories(void)
{
    static const char manifest[] =
        "{\"manifest_version\": \"1.0\", \"name\": \"within\", \"version\": \"1.0.0\","
        " \"arch\": \"" KVS_ARCH "\", \"abi\": \"1.0\","
        " \"provides\": [{\"kind\": \"backend\", \"name\": \"within\"}]}";

    use_fresh_place();
    FAKE_WRITE(dir, .name = "within");
    KT_OK(kvs_plugin_register(static_entry, manifest));
    answers("within", 77);
    KT_TRUE(find("within") == find("WITHIN"));
    KT_FAIL(kvs_plugin_register(static_entry, manifest), KVS_ERR_EXISTS, "'within' is registered");
}

static void a_wrong_static_manifest_is_refused_at_once(void)
{
    KT_FAIL(kvs_plugin_register(static_entry, "{\"manifest_version\": \"1.0\",\n \"name\": 1}"),
            KVS_ERR_FORMAT, "(static):2:10: \"name\" must be text, not a number");
    KT_FAIL(kvs_plugin_register(static_entry, "{\"manifest_version\": \"9.0\"}"), KVS_ERR_PLUGIN,
            "format-too-new");
    KT_FAIL(kvs_plugin_register(NULL, "{}"), KVS_ERR_ARGUMENT, "the entry is NULL");
    KT_FAIL(kvs_plugin_register(static_entry, NULL), KVS_ERR_ARGUMENT, "the manifest is NULL");
}

static void an_added_path_is_searched_before_the_others(void)
{
    char added[512];

    use_fresh_place();
    FAKE_VARIANT(dir, "clash_a", .name = "clash_b"); /* it would not load */
    snprintf(added, sizeof(added), "%s", kt_temp_dir());
    FAKE_VARIANT(added, "clash_b", .name = "clash_b");
    fails("clash_b", KVS_ERR_PLUGIN, "manifest-mismatch");
    KT_OK(kvs_plugin_path_add(added));
    answers("clash_b", 22);
    KT_FAIL(kvs_plugin_path_add(""), KVS_ERR_ARGUMENT, "the path is empty");
    KT_FAIL(kvs_plugin_path_add(NULL), KVS_ERR_ARGUMENT, "the path is NULL");
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void *find_often(void *arg)
{
    const kvs_backend_t *backend = NULL;

    for (int i = 0; i < 50; i++) {
        if (kvsi_registry_find_backend("fake", &backend) != KVS_OK) {
            return NULL;
        }
        (void)kvsi_registry_find_backend("no_such_backend", &backend);
    }
    *(const kvs_backend_t **)arg = backend;
    return NULL;
}

static void several_threads_find_the_same_backend(void)
{
    const kvs_backend_t *found[4] = {NULL};
    pthread_t threads[4];

    use_fresh_place();
    FAKE_WRITE(dir, 0);
    for (int i = 0; i < 4; i++) {
        KT_INT(pthread_create(&threads[i], NULL, find_often, &found[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        KT_INT(pthread_join(threads[i], NULL), 0);
        KT_TRUE(found[i] != NULL && found[i] == found[0]);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(names_are_lowered_and_found_by_name_alias_and_word),
    KT_TEST(an_installed_package_is_seen_at_once),
    KT_TEST(exact_names_beat_aliases_beat_words),
    KT_TEST(priority_decides_among_equals),
    KT_TEST(then_directory_and_name_decide),
    KT_TEST(of_several_words_dist_beats_device_beats_local),
    KT_TEST(one_that_can_be_used_beats_one_that_cannot),
    KT_TEST(a_mistyped_name_is_an_error_that_tells_what_exists),
    KT_TEST(a_known_name_that_is_not_installed_names_its_package),
    KT_TEST(an_empty_search_path_names_the_backend_and_the_paths),
    KT_TEST(what_is_found_but_unfit_tells_its_own_reason_and_fix),
    KT_TEST(what_cannot_be_loaded_tells_its_own_reason_and_fix),
    KT_TEST(a_manifest_that_cannot_be_read_is_told_by_its_file_name),
    KT_TEST(optimizers_are_found_by_name),
    KT_TEST(compressors_are_found_by_name),
    KT_TEST(providers_are_found_by_device_type),
    KT_TEST(a_registered_backend_beats_every_installed_one),
    KT_TEST(the_tables_of_a_registered_backend_are_copied),
    KT_TEST(a_second_registration_replaces_the_first_which_stays_alive),
    KT_TEST(a_backend_that_lacks_something_is_refused_by_name),
    KT_TEST(a_static_plugin_comes_before_all_directories),
    KT_TEST(a_wrong_static_manifest_is_refused_at_once),
    KT_TEST(an_added_path_is_searched_before_the_others),
    KT_TEST(several_threads_find_the_same_backend),
};
KT_MAIN("registry", tests)
