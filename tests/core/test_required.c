/* SPDX-License-Identifier: Apache-2.0 */
/* The settings `default` and `required`: what create makes without a name, and without what it makes
 * nothing. */
#include "kt.h"
#include "fakes.h"

#include <stdlib.h>

static char dir[512];

/* clash_a and `fake`, which is `variant`, are installed; the user's configuration file is `text`. */
static void use(const char *variant, const char *text)
{
    const char *config = kt_temp_dir();

    setenv("XDG_CONFIG_HOME", config, 1);
    kt_write_file(config, "kvstore/kvstore.conf", text);
    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
    unsetenv("KVSTORE_PLUGINS");
    unsetenv("KVSTORE_REQUIRED");
    unsetenv("KVSTORE_DEFAULT");
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a");
    FAKE_VARIANT(dir, variant, .provide = "\"aliases\": [\"imitation\"], ");
}

static void creates(const char *name, const char *want_type)
{
    kvs_store_t *store = NULL;

    if (KT_OK(kvs_store_create(name, NULL, 0, &store))) {
        KT_STR(kvs_store_type(store), want_type);
        KT_OK(kvs_store_close(store));
    }
}

static void fails(const char *name, kvs_status_t status, const char *part)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create(name, NULL, 0, &store), status, part);
    KT_TRUE(store == NULL);
}

/* ---- required ---------------------------------------------------------------------------------- */

static void what_is_required_and_there_is_no_obstacle(void)
{
    use("good", "required = fake\n");
    creates("clash_a", "clash_a");
    use("good", "required = imitation, clash_a\n");
    creates("clash_a", "clash_a");
    use("good", "required =\n");
    creates("clash_a", "clash_a");
}

static void without_what_is_required_no_store_is_created(void)
{
    use("good", "required = clash_a, horovod\n");
    fails(
        "clash_a", KVS_ERR_UNAVAILABLE,
        "create: a required backend can't be had: backend \"horovod\" is known but not installed: "
        "install package kvstore-backend-horovod");
    use("good", "required = fkae\n");
    fails("clash_a", KVS_ERR_NOT_FOUND, "no backend named \"fkae\"; did you mean \"fake\"?");
    use("undefined", "required = fake\n");
    fails("clash_a", KVS_ERR_PLUGIN, "undefined symbol: fake_symbol_that_nobody_has");
}

static void what_is_required_must_also_be_able_to_work(void)
{
    use("probe_fails", "required = fake\n");
    fails("clash_a", KVS_ERR_UNAVAILABLE,
          "a required backend can't be had: backend 'fake' is unavailable: no flux capacitor");
}

static void what_is_required_may_not_be_turned_off(void)
{
    use("good", "required = fake\n");
    setenv("KVSTORE_PLUGINS", "-fake", 1);
    fails("clash_a", KVS_ERR_UNAVAILABLE, "disabled: removed by KVSTORE_PLUGINS=-fake");
    unsetenv("KVSTORE_PLUGINS");
    creates("clash_a", "clash_a");
}

static void the_variable_beats_the_file(void)
{
    use("good", "required = horovod\n");
    setenv("KVSTORE_REQUIRED", "fake", 1);
    creates("clash_a", "clash_a");
    setenv("KVSTORE_REQUIRED", "", 1);
    creates("clash_a", "clash_a");
    unsetenv("KVSTORE_REQUIRED");
    fails("clash_a", KVS_ERR_UNAVAILABLE, "horovod");
}

/* ---- default ----------------------------------------------------------------------------------- */

static void without_a_name_the_default_is_created(void)
{
    use("good", "default = clash_a\n");
    creates(NULL, "clash_a");
    creates("fake", "fake");
    use("good", "default = Imitation\n");
    creates(NULL, "imitation");
    setenv("KVSTORE_DEFAULT", "clash_a", 1);
    creates(NULL, "clash_a");
    unsetenv("KVSTORE_DEFAULT");
}

static void a_default_that_cannot_be_had_is_told(void)
{
    use("good", "default = clash_b\n");
    fails(NULL, KVS_ERR_NOT_FOUND, "no backend named \"clash_b\"; did you mean \"clash_a\"?");
    use("good", "# none\n");
    fails(NULL, KVS_ERR_UNAVAILABLE, "\"local\" is known but not installed");
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_required_and_there_is_no_obstacle),
    KT_TEST(without_what_is_required_no_store_is_created),
    KT_TEST(what_is_required_must_also_be_able_to_work),
    KT_TEST(what_is_required_may_not_be_turned_off),
    KT_TEST(the_variable_beats_the_file),
    KT_TEST(without_a_name_the_default_is_created),
    KT_TEST(a_default_that_cannot_be_had_is_told),
};
KT_MAIN("required", tests)
