/* SPDX-License-Identifier: Apache-2.0 */
/* States in files: what is saved is what is loaded, for every optimizer and schedule; and what a file
 * looks like. */
#include "states_rig.h"

#include "kt.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static kvs_opt_t *opt_of(const char *name, const kvs_param_t *params, size_t n)
{
    return rig_opt(name, params, n);
}

static kvs_opt_t *mixed(const char *name)
{
    kvs_param_t params[] = {RIG_BOOL("multi_precision", 1), RIG_REAL("clip_gradient", 0.5)};

    return opt_of(name, params, 2);
}

/* ---- There and back ------------------------------------------------------------------------------ */

/* Copy the weights, which are no part of a file. */
static void copy_weights(const states_rig_t *from, states_rig_t *to)
{
    for (size_t i = 0; i < from->n_keys; i++) {
        size_t n_bytes =
            (size_t)from->keys[i].entry.n_elems * kvs_dtype(from->keys[i].dtype).bits / 8;

        memcpy(to->keys[i].weight, from->keys[i].weight, n_bytes);
    }
}

/* Three updates, a file, and two more: by the one that was saved and by one that has loaded it. `fresh`
 * is another optimizer, of no matter what kind. */
static void check_goes_on(kvs_opt_t *opt, kvs_opt_t *fresh, int integers)
{
    states_rig_t first = states_rig(opt, integers), second = states_rig(fresh, integers);
    const char *path = states_path("goes_on"), *again = states_path("again");
    bytes_t saved, resaved;

    states_rig_update(&first, 3);
    KT_OK(states_rig_save(&first, path, 1));
    states_rig_update(&second, 1); /* what it has is dropped */
    KT_OK(states_rig_load(&second, path));
    copy_weights(&first, &second);
    KT_OK(states_rig_save(&second, again, 1));
    saved = bytes_read(path);
    resaved = bytes_read(again);
    KT_TRUE(saved.n > 0 && bytes_equal(&saved, &resaved));
    states_rig_update(&first, 2);
    states_rig_update(&second, 2);
    if (!states_rig_same_weights(&first, &second)) {
        printf("\n  optimizer '%s' goes on otherwise", kvs_opt_name(first.opt));
        KT_TRUE(0);
    }
    KT_INT(kvs_opt_num_update(first.opt), kvs_opt_num_update(second.opt));
    KT_REAL(kvs_opt_rate(first.opt), kvs_opt_rate(second.opt));
    bytes_release(&saved);
    bytes_release(&resaved);
    states_rig_release(&first);
    states_rig_release(&second);
}

static void every_optimizer_goes_on_bit_by_bit(void)
{
    const kvs_optimizer_t *kind;

    for (size_t i = 0; (kind = rig_optimizer_at(i)) != NULL; i++) {
        check_goes_on(opt_of(kind->name, NULL, 0), opt_of("sgd", NULL, 0), 0);
        check_goes_on(mixed(kind->name), opt_of("adam", NULL, 0), 1);
    }
}

static void optimizers_with_all_their_states_go_on(void)
{
    check_goes_on(RIG_OPT("rmsprop", RIG_BOOL("centered", 1)), opt_of("rmsprop", NULL, 0), 0);
    check_goes_on(RIG_OPT("sgd", RIG_REAL("momentum", 0.9)), opt_of("sgd", NULL, 0), 0);
    check_goes_on(RIG_OPT("dcasgd", RIG_REAL("momentum", 0.9)), opt_of("dcasgd", NULL, 0), 0);
    check_goes_on(RIG_OPT("lars", RIG_REAL("momentum", 0.9)), opt_of("lars", NULL, 0), 1);
    check_goes_on(RIG_OPT("lamb", RIG_REAL("lower_bound", 0.1)), opt_of("lamb", NULL, 0), 1);
}

static kvs_param_t integer(const char *name, int64_t value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_INT, .value.integer = value};
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value.real = value};
}

static kvs_opt_t *scheduled(const char *schedule, const kvs_param_t *params, size_t n_params,
                            const kvs_param_t *rate)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL;

    spec.name = "sgd";
    spec.params = rate;
    spec.n_params = rate != NULL;
    spec.schedule = schedule;
    spec.schedule_params = params;
    spec.n_schedule_params = n_params;
    KT_OK(kvs_opt_new(&spec, &opt));
    return opt;
}

static void schedules_go_on_where_they_were(void)
{
    const int64_t steps[] = {1, 2, 4};
    const kvs_param_t rate = real("learning_rate", 0.3);
    kvs_param_t factor[] = {integer("step", 2), real("factor", 0.7), integer("warmup_steps", 2),
                            real("base_lr", 0.25)};
    kvs_param_t multi[] = {
        {.name = "step", .type = KVS_PARAM_INTS, .value.integers = steps, .n_integers = 3},
        real("factor", 0.1)};
    kvs_param_t poly[] = {integer("max_update", 4), integer("pwr", 3), real("final_lr", 1e-3)};
    kvs_param_t cosine[] = {
        integer("max_update", 9),
        integer("warmup_steps", 4),
        {.name = "warmup_mode", .type = KVS_PARAM_TEXT, .value.text = "constant"}};

    check_goes_on(scheduled("factor", factor, 4, NULL), opt_of("sgd", NULL, 0), 0);
    check_goes_on(scheduled("factor", factor, 2, &rate), opt_of("sgd", NULL, 0), 0);
    check_goes_on(scheduled("multifactor", multi, 2, &rate), opt_of("sgd", NULL, 0), 1);
    check_goes_on(scheduled("poly", poly, 3, NULL), opt_of("sgd", NULL, 0), 0);
    check_goes_on(scheduled("cosine", cosine, 3, NULL), opt_of("sgd", NULL, 0), 0);
}

static kvs_opt_t *multiplied(void)
{
    static const kvs_multiplier_t lr[] = {{{"w", 0}, 0.5}, {{"a/b \"\xC3\xA9\"", 0}, 3}};
    static const kvs_multiplier_t wd[] = {{{"bias", 0}, 0}, {{NULL, 7}, 0.25}};
    static const kvs_param_name_t names[] = {{{"b", 0}, "bias"}, {{NULL, -9}, "\t\\"}};
    kvs_param_t params[] = {real("wd", 0.1), integer("begin_num_update", 40),
                            real("learning_rate", 0.1)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL;

    spec.name = "nadam";
    spec.params = params;
    spec.n_params = 3;
    spec.lr_mult = lr;
    spec.n_lr_mult = 2;
    spec.wd_mult = wd;
    spec.n_wd_mult = 2;
    spec.names = names;
    spec.n_names = 2;
    KT_OK(kvs_opt_new(&spec, &opt));
    return opt;
}

static void multipliers_names_and_counts_go_along(void)
{
    check_goes_on(multiplied(), opt_of("sgd", NULL, 0), 0);
}

static void attributes_that_were_changed_go_along(void)
{
    kvs_opt_t *opt = opt_of("adam", NULL, 0);
    kvs_param_t rate = real("learning_rate", 0.0123456789), epsilon = real("epsilon", 1e-3);

    KT_OK(kvs_opt_set_attr(opt, &rate));
    KT_OK(kvs_opt_set_attr(opt, &epsilon));
    check_goes_on(opt, opt_of("adam", NULL, 0), 0);
}

/* ---- Without the optimizer ----------------------------------------------------------------------- */

static void without_the_optimizer_only_states_change(void)
{
    states_rig_t first = states_rig(opt_of("adam", NULL, 0), 0);
    states_rig_t second = states_rig(RIG_OPT("adam", RIG_REAL("learning_rate", 0.5)), 0);
    const char *path = states_path("states_only");
    kvs_opt_t *opt = second.opt;

    states_rig_update(&first, 3);
    KT_OK(states_rig_save(&first, path, 0));
    states_rig_update(&second, 1);
    KT_OK(states_rig_load(&second, path));
    KT_TRUE(second.opt == opt);
    KT_REAL(kvs_opt_rate(second.opt), 0.5);
    KT_INT(kvs_opt_num_update(second.opt), 1);
    for (size_t i = 0; i < first.n_keys; i++) {
        kvs_opt_state_t want = rig_state(&first.keys[i], "var");
        kvs_opt_state_t got = rig_state(&second.keys[i], "var");

        KT_INT(kvs_opt_count(second.opt, &second.keys[i].state), 1);
        KT_INT(got.n_elems, want.n_elems);
        if (got.n_elems > 0) {
            size_t n_bytes = (size_t)got.n_elems * kvs_dtype(got.dtype).bits / 8;

            KT_TRUE(memcmp(got.data, want.data, n_bytes) == 0);
        }
    }
    states_rig_release(&first);
    states_rig_release(&second);
}

static void a_key_that_is_not_in_the_file_has_no_states_afterwards(void)
{
    states_rig_t first = states_rig(opt_of("adam", NULL, 0), 0);
    states_rig_t second = states_rig(opt_of("adam", NULL, 0), 0);
    const char *path = states_path("some_keys");

    first.n_keys = 2;
    states_rig_update(&first, 1);
    states_rig_update(&second, 2);
    KT_OK(states_rig_save(&first, path, 0));
    KT_OK(states_rig_load(&second, path));
    KT_INT(kvs_opt_n_states(&second.keys[1].state), 2);
    KT_INT(kvs_opt_n_states(&second.keys[2].state), 0);
    KT_INT(kvs_opt_count(second.opt, &second.keys[2].state), 2);
    KT_OK(states_rig_save(&first, path, 1));
    KT_OK(states_rig_load(&second, path));
    KT_INT(kvs_opt_n_states(&second.keys[2].state), 0);
    KT_INT(kvs_opt_count(second.opt, &second.keys[1].state), 1);
    KT_INT(kvs_opt_count(second.opt, &second.keys[2].state), 0);
    first.n_keys = second.n_keys;
    states_rig_release(&first);
    states_rig_release(&second);
}

static void a_packed_optimizer_goes_on_where_it_was(void)
{
    const kvs_param_t steps[] = {integer("step", 2), real("factor", 0.5)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL, *other = NULL;
    char *bytes = NULL, *again = NULL;
    size_t n = 0, n_again = 0;
    states_rig_t rig;

    spec.name = "nadam";
    spec.schedule = "factor";
    spec.schedule_params = steps;
    spec.n_schedule_params = 2;
    KT_OK(kvs_opt_new(&spec, &opt));
    rig = states_rig(opt, 0);
    states_rig_update(&rig, 5);
    KT_OK(kvs_opt_pack(rig.opt, &bytes, &n));
    KT_OK(kvs_opt_unpack(bytes, n, &other));
    KT_STR(kvs_opt_name(other), "nadam");
    KT_INT(kvs_opt_num_update(other), kvs_opt_num_update(rig.opt));
    KT_REAL(kvs_opt_rate(other), kvs_opt_rate(rig.opt));
    KT_OK(kvs_opt_pack(other, &again, &n_again));
    KT_INT(n_again, n);
    KT_TRUE(memcmp(again, bytes, n) == 0);
    kvs_opt_free(other);
    for (size_t cut = 0; cut < n; cut++) {
        KT_FAIL(kvs_opt_unpack(bytes, cut, &other), KVS_ERR_FORMAT, "a packed optimizer");
    }
    free(bytes);
    free(again);
    states_rig_release(&rig);
}

static void an_optimizer_without_any_update_is_a_file_too(void)
{
    states_rig_t first = states_rig(opt_of("adam", NULL, 0), 0);
    states_rig_t second = states_rig(opt_of("adam", NULL, 0), 1); /* of the other type of keys */
    const char *path = states_path("nothing");

    for (int dump = 0; dump < 2; dump++) {
        KT_OK(states_rig_save(&first, path, dump));
        states_rig_update(&second, 1);
        KT_OK(states_rig_load(&second, path));
        KT_INT(kvs_opt_n_states(&second.keys[0].state), 0);
        KT_INT(kvs_opt_count(second.opt, &second.keys[0].state), dump ? 0 : 1);
    }
    states_rig_release(&first);
    states_rig_release(&second);
}

/* sgd without momentum keeps nothing but counts. */
static void counts_alone_go_along(void)
{
    check_goes_on(opt_of("sgd", NULL, 0), opt_of("sgd", NULL, 0), 1);
}

static void a_state_that_is_not_used_any_more_goes_with_the_next_update(void)
{
    states_rig_t first = states_rig(RIG_OPT("sgd", RIG_REAL("momentum", 0.5)), 0);
    states_rig_t second = states_rig(opt_of("sgd", NULL, 0), 0);
    const char *path = states_path("momentum");

    states_rig_update(&first, 1);
    KT_OK(states_rig_save(&first, path, 0));
    KT_OK(states_rig_load(&second, path));
    KT_INT(kvs_opt_n_states(&second.keys[0].state), 1);
    states_rig_update(&second, 1);
    KT_INT(kvs_opt_n_states(&second.keys[0].state), 0);
    states_rig_release(&first);
    states_rig_release(&second);
}

/* ---- What a file looks like ---------------------------------------------------------------------- */

/* Two updates by a gradient of 1 and 2 with lr 1, momentum 0.5: mom -1 -2, then -1.5 -3. */
static void a_small_file_is_these_bytes(void)
{
    static const char want[] =
        "{\"__metadata__\":{\"format_version\":\"1\",\"checksum\":\"\\\"????????\\\"\","
        "\"key_type\":\"\\\"string\\\"\",\"optimizer\":\"\\\"sgd\\\"\","
        "\"keys\":\"{\\\"w\\\":{\\\"dtype\\\":\\\"float32\\\",\\\"shape\\\":[2]}}\","
        "\"hyper_parameters\":\"{\\\"learning_rate\\\":1.0,\\\"wd\\\":0.0,\\\"rescale_grad\\\":1.0,"
        "\\\"clip_gradient\\\":null,\\\"multi_precision\\\":false,\\\"begin_num_update\\\":0,"
        "\\\"momentum\\\":0.5,\\\"lazy_update\\\":false}\","
        "\"lr_mult\":\"[[\\\"w\\\",1.0]]\",\"wd_mult\":\"[]\",\"names\":\"[]\","
        "\"counts\":\"{\\\"w\\\":2}\",\"num_update\":\"2\","
        "\"schedule\":\"null\",\"product\":\"1.0\","
        "\"checksums\":\"{\\\"mom/w\\\":898087546}\"},"
        "\"mom/w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const kvs_multiplier_t lr_mult = {{"w", 0}, 1};
    const kvs_param_t params[] = {RIG_REAL("learning_rate", 1), RIG_REAL("momentum", 0.5)};
    const float weight[] = {0, 0}, grad[] = {1, 2}, mom[] = {-1.5f, -3};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    states_rig_t rig = {.n_keys = 1};
    const char *path = states_path("small");
    bytes_t file, header;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 2;
    spec.lr_mult = &lr_mult;
    spec.n_lr_mult = 1;
    KT_OK(kvs_opt_new(&spec, &rig.opt));
    rig.keys[0] = rig_key_f32(2, weight);
    rig.keys[0].entry.name = "w";
    KT_OK(rig_update(rig.opt, &rig.keys[0], grad, 0, NULL));
    KT_OK(rig_update(rig.opt, &rig.keys[0], grad, 0, NULL));
    KT_OK(states_rig_save(&rig, path, 1));
    file = bytes_read(path);
    header = bytes_header(&file);
    KT_INT(header.n % 8, 0);
    KT_INT(file.n, 8 + header.n + sizeof(mom));
    KT_TRUE(memcmp(file.data + 8 + header.n, mom, sizeof(mom)) == 0);
    for (size_t i = 0; want[i] != '\0'; i++) {
        if (want[i] != '?' && header.data[i] != want[i]) {
            printf("\n  byte %zu of %s", i, header.data);
            KT_TRUE(0);
            break;
        }
    }
    KT_INT(strspn(header.data + sizeof(want) - 1, " "), header.n - (sizeof(want) - 1));
    bytes_release(&file);
    bytes_release(&header);
    states_rig_release(&rig);
}

static void tensors_lie_in_the_order_of_their_names(void)
{
    states_rig_t rig = states_rig(mixed("adam"), 0);
    const char *path = states_path("order");
    static const char *const names[] = {"master_weight/bhalf",
                                        "master_weight/half",
                                        "mean/a/b \\\"\xC3\xA9\\\"",
                                        "mean/b",
                                        "mean/bhalf",
                                        "mean/empty",
                                        "mean/half",
                                        "mean/scalar",
                                        "mean/w",
                                        "var/a/b",
                                        "var/w"};
    bytes_t file, header;
    const char *at;

    states_rig_update(&rig, 1);
    KT_OK(states_rig_save(&rig, path, 0));
    file = bytes_read(path);
    header = bytes_header(&file);
    at = strstr(header.data, "\"},\""); /* behind the notes */
    for (size_t i = 0; at != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        char quoted[80];

        snprintf(quoted, sizeof(quoted), "\"%s", names[i]);
        at = strstr(at, quoted);
        if (at == NULL) {
            printf("\n  %s is not where it belongs", names[i]);
        }
        KT_TRUE(at != NULL);
    }
    KT_HAS(header.data, "\"mean/scalar\":{\"dtype\":\"F32\",\"shape\":[],");
    KT_HAS(header.data, "\"mean/bhalf\":{\"dtype\":\"F32\",\"shape\":[7],");
    KT_HAS(header.data, "\"mean/b\":{\"dtype\":\"F64\",\"shape\":[5],");
    KT_HAS(header.data, "\"mean/empty\":{\"dtype\":\"F32\",\"shape\":[4,0],");
    KT_TRUE(strstr(header.data, "hyper_parameters") == NULL);
    KT_TRUE(strstr(header.data, "counts") == NULL);
    bytes_release(&file);
    bytes_release(&header);
    states_rig_release(&rig);
}

static void a_state_per_row_is_a_column(void)
{
    states_rig_t rig = states_rig(opt_of("groupadagrad", NULL, 0), 1);
    const char *path = states_path("column");
    bytes_t file, header;

    states_rig_update(&rig, 1);
    KT_OK(states_rig_save(&rig, path, 0));
    file = bytes_read(path);
    header = bytes_header(&file);
    KT_HAS(header.data, "\"history/-1\":{\"dtype\":\"F32\",\"shape\":[3,1],");
    KT_HAS(header.data, "\"history/3\":{\"dtype\":\"F32\",\"shape\":[1,1],"); /* the scalar */
    KT_HAS(header.data, "\"history/5\":{\"dtype\":\"F32\",\"shape\":[0,1],"); /* the empty one */
    KT_HAS(header.data, "\"key_type\":\"\\\"integer\\\"\"");
    bytes_release(&file);
    bytes_release(&header);
    states_rig_release(&rig);
}

/* ---- The file in its directory ------------------------------------------------------------------- */

static void a_file_is_replaced_where_a_link_leads_to(void)
{
    states_rig_t rig = states_rig(opt_of("adam", NULL, 0), 0);
    const char *path = states_path("target"), *link_path = states_path("link");
    struct stat found;
    mode_t before = umask(027);

    KT_OK(states_rig_save(&rig, path, 0));
    umask(before);
    KT_INT(stat(path, &found), 0);
    KT_INT(found.st_mode & 0777, 0640);
    KT_INT(symlink(path, link_path), 0);
    states_rig_update(&rig, 1);
    KT_OK(states_rig_save(&rig, link_path, 0));
    KT_INT(lstat(link_path, &found), 0);
    KT_TRUE(S_ISLNK(found.st_mode));
    states_rig_update(&rig, 1);
    KT_OK(states_rig_load(&rig, path));
    KT_INT(kvs_opt_n_states(&rig.keys[0].state), 2);
    states_rig_release(&rig);
}

static void a_relative_path_is_one_of_the_working_directory(void)
{
    states_rig_t rig = states_rig(opt_of("adam", NULL, 0), 0);

    KT_OK(states_rig_save(&rig, "relative.states", 0));
    KT_OK(states_rig_load(&rig, "./relative.states"));
    KT_INT(unlink("relative.states"), 0);
    states_rig_release(&rig);
}

static const kt_test_t tests[] = {
    KT_TEST(every_optimizer_goes_on_bit_by_bit),
    KT_TEST(optimizers_with_all_their_states_go_on),
    KT_TEST(schedules_go_on_where_they_were),
    KT_TEST(multipliers_names_and_counts_go_along),
    KT_TEST(attributes_that_were_changed_go_along),
    KT_TEST(without_the_optimizer_only_states_change),
    KT_TEST(a_key_that_is_not_in_the_file_has_no_states_afterwards),
    KT_TEST(a_packed_optimizer_goes_on_where_it_was),
    KT_TEST(an_optimizer_without_any_update_is_a_file_too),
    KT_TEST(counts_alone_go_along),
    KT_TEST(a_state_that_is_not_used_any_more_goes_with_the_next_update),
    KT_TEST(a_small_file_is_these_bytes),
    KT_TEST(tensors_lie_in_the_order_of_their_names),
    KT_TEST(a_state_per_row_is_a_column),
    KT_TEST(a_file_is_replaced_where_a_link_leads_to),
    KT_TEST(a_relative_path_is_one_of_the_working_directory),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("optimizers.states", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
