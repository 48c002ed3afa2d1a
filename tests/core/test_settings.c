/* SPDX-License-Identifier: Apache-2.0 */
/* kvstore/settings.h: every setting with its origin, and what is set and nobody reads. */
#include "kt.h"
#include "fakes.h"

#include <kvstore/settings.h>

#include <stdlib.h>
#include <unistd.h>

static char dir[512];

/* A plugin with the option "depth", turned off or not, and the user's configuration file. */
static void use(const char *text)
{
    const char *config = kt_temp_dir();

    clearenv();
    setenv("XDG_CONFIG_HOME", config, 1);
    kt_write_file(config, "kvstore/kvstore.conf", text);
    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
    FAKE_WRITE(dir, .more = "\"options\": [{\"name\": \"depth\", \"type\": \"int\", \"default\": 3,"
                            " \"variable\": \"MXNET_DEPTH\"}], ");
}

static kvs_setting_list_t *listed(void)
{
    kvs_setting_list_t *list = NULL;

    KT_OK(kvs_setting_list(&list));
    return list;
}

static const kvs_setting_t *setting(const kvs_setting_list_t *list, const char *name)
{
    for (size_t i = 0; i < kvs_setting_list_count(list); i++) {
        if (strcmp(kvs_setting_list_at(list, i)->name, name) == 0) {
            return kvs_setting_list_at(list, i);
        }
    }
    return NULL;
}

static void settings_tell_where_they_come_from(void)
{
    kvs_setting_list_t *list;

    use("depth = 5\n");
    list = listed();
    KT_STR(setting(list, "depth")->owner, "fake");
    KT_STR(setting(list, "depth")->value, "5");
    KT_HAS(setting(list, "depth")->origin, "/kvstore/kvstore.conf:1");
    KT_STR(setting(list, "timeout")->owner, "core");
    KT_STR(setting(list, "timeout")->origin, "default");
    kvs_setting_list_free(list);
    setenv("MXNET_DEPTH", "6", 1);
    list = listed();
    KT_STR(setting(list, "depth")->origin, "variable MXNET_DEPTH");
    kvs_setting_list_free(list);
}

static void a_value_that_create_would_refuse_is_told(void)
{
    kvs_setting_list_t *list;

    use("depth = deep\n");
    list = listed();
    KT_HAS(setting(list, "depth")->error, "depth is \"deep\"; accepted is a whole number");
    KT_STR(setting(list, "timeout")->error, "");
    kvs_setting_list_free(list);
}

/* The setting's value, from the user's file, is refused with `part`; NULL: it is taken. */
static void tried(const char *file, const char *name, kvs_status_t status, const char *part)
{
    kvs_setting_list_t *list;

    use(file);
    list = listed();
    if (part == NULL) {
        KT_OK(kvs_setting_try(setting(list, name)));
    } else {
        KT_FAIL(kvs_setting_try(setting(list, name)), status, part);
        KT_HAS(kvs_last_error(), "kvstore.conf:1: ");
        KT_HAS(kvs_last_error(), name);
    }
    kvs_setting_list_free(list);
}

static void values_that_only_trying_tells_are_tried(void)
{
    char text[700], path[600];

    tried("default = fake\n", "default", KVS_OK, NULL);
    tried("default = fkae\n", "default", KVS_ERR_NOT_FOUND, "did you mean \"fake\"?");
    tried("default =\n", "default", KVS_ERR_ARGUMENT, "the name of a store is empty");
    tried("required = fake,\n", "required", KVS_OK, NULL);
    tried("required = fake, horovod\n", "required", KVS_ERR_UNAVAILABLE, "kvstore-backend-horovod");
    tried("trace = /no/such/trace\n", "trace", KVS_ERR_IO, "No such file or directory");
    tried("trace = /\n", "trace", KVS_ERR_IO, "Is a directory");
    snprintf(path, sizeof(path), "%s/trace.json", kt_temp_dir());
    snprintf(text, sizeof(text), "trace = %s\n", path);
    tried(text, "trace", KVS_OK, NULL);
    KT_INT(access(path, F_OK), -1);
    tried("depth = deep\n", "depth", KVS_ERR_ARGUMENT, "accepted is a whole number");
    tried("timeout = 3\n", "timeout", KVS_OK, NULL);
    KT_FAIL(kvs_setting_try(NULL), KVS_ERR_ARGUMENT, "NULL");
}

static void notes(size_t n, const char *part)
{
    kvs_setting_list_t *list = listed();

    KT_INT(kvs_setting_list_n_notes(list), n);
    if (kvs_setting_list_n_notes(list) > 0) {
        KT_HAS(kvs_setting_list_note(list, 0), part);
    }
    KT_TRUE(kvs_setting_list_note(list, n) == NULL);
    kvs_setting_list_free(list);
}

static void keys_that_nobody_reads_are_noted(void)
{
    use("timeout = 3\ndepth = 2\nlog = warn\n");
    notes(0, "");
    use("timeout = 3\n\ntimeot = 3\n");
    notes(1, "/kvstore/kvstore.conf:3: unknown key \"timeot\"; did you mean \"timeout\"?");
    use("colour = red\n");
    notes(1, "/kvstore/kvstore.conf:1: unknown key \"colour\"");
    use("Timeout = 3\n"); /* names are in lower case */
    notes(1, "unknown key \"Timeout\"; did you mean \"timeout\"?");
    use("depth = 2\n");
    setenv("KVSTORE_PLUGINS", "-fake", 1); /* it is off, and installed */
    notes(0, "");
}

static void variables_that_nobody_reads_are_noted(void)
{
    use("");
    setenv("KVSTORE_TIMEOUT", "3", 1);
    setenv("KVSTORE_DEPTH", "3", 1);
    setenv("KVSTORE_PLUGINS", "*", 1);
    setenv("KVSTORIES", "many", 1);
    notes(0, "");
    setenv("KVSTORE_DEPHT", "3", 1);
    notes(1, "variable KVSTORE_DEPHT: there is no setting \"depht\"; did you mean \"depth\"?");
}

static void a_malformed_file_is_an_error(void)
{
    kvs_setting_list_t *list = NULL;

    use("depth\n");
    KT_FAIL(kvs_setting_list(&list), KVS_ERR_FORMAT, "kvstore.conf:1: expected \"key = value\"");
    KT_FAIL(kvs_setting_list(NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_INT(kvs_setting_list_n_notes(NULL), 0);
    KT_TRUE(kvs_setting_list_note(NULL, 0) == NULL);
}

static const kt_test_t tests[] = {
    KT_TEST(settings_tell_where_they_come_from),
    KT_TEST(a_value_that_create_would_refuse_is_told),
    KT_TEST(values_that_only_trying_tells_are_tried),
    KT_TEST(keys_that_nobody_reads_are_noted),
    KT_TEST(variables_that_nobody_reads_are_noted),
    KT_TEST(a_malformed_file_is_an_error),
};
KT_MAIN("settings", tests)
