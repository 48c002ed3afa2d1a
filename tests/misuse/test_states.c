/* SPDX-License-Identifier: Apache-2.0 */
/* Files of optimizer states that can't be written or read, at wrong times and of something else: the
 * store stays as it was. */
#include "misuse.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value.real = value};
}

static kvs_status_t set(kvs_store_t *store, const char *name)
{
    const kvs_param_t params[] = {real("learning_rate", 1), real("momentum", 0.5)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = strcmp(name, "sgd") == 0 ? 2 : 1;
    return kvs_store_set_optimizer(store, &spec);
}

static void push_ones(kvs_store_t *store)
{
    float ones[MISUSE_N] = {1, 1, 1, 1, 1, 1};

    KT_OK(misuse_push(store, kvs_key_int(MISUSE_KEY),
                      kt_tensor(ones, KVS_DTYPE_float32, misuse_shape, 2)));
}

static float first_value(kvs_store_t *store)
{
    float out[MISUSE_N] = {-1};

    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY),
                      kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)));
    return out[0];
}

/* One push has been made with rate 1 and momentum 0.5: the weight is 0, mom is -1. */
static kvs_store_t *open_pushed(void)
{
    kvs_store_t *store = misuse_open();

    KT_OK(set(store, "sgd"));
    push_ones(store);
    KT_REAL(first_value(store), 0);
    return store;
}

/* The momentum is still -1: the next push gives -1.5. Then close it. */
static void close_unchanged(kvs_store_t *store)
{
    KT_REAL(first_value(store), 0);
    push_ones(store);
    KT_REAL(first_value(store), -1.5);
    misuse_close_working(store, kvs_key_int(9));
}

static const char *path_of(const char *name)
{
    static char path[700];

    snprintf(path, sizeof(path), "%s/%s", kt_temp_dir(), name);
    return path;
}

static void null_is_an_error(void)
{
    kvs_store_t *store = open_pushed();

    KT_FAIL(kvs_store_save_optimizer_states(store, NULL, 0), KVS_ERR_ARGUMENT, "path is NULL");
    KT_FAIL(kvs_store_load_optimizer_states(store, NULL), KVS_ERR_ARGUMENT, "path is NULL");
    KT_FAIL(kvs_store_save_optimizer_states(NULL, "x", 0), KVS_ERR_ARGUMENT, "store is NULL");
    KT_FAIL(kvs_store_load_optimizer_states(NULL, "x"), KVS_ERR_ARGUMENT, "store is NULL");
    close_unchanged(store);
}

static void without_an_optimizer_both_are_state_errors(void)
{
    kvs_store_t *store = misuse_open();
    const char *path = path_of("none");

    KT_FAIL(kvs_store_save_optimizer_states(store, path, 0), KVS_ERR_STATE, "no optimizer");
    KT_FAIL(kvs_store_save_optimizer_states(store, path, 1), KVS_ERR_STATE, "set_optimizer");
    KT_INT(access(path, F_OK), -1);
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_STATE, "no optimizer");
    misuse_close_untouched(store);
}

static void with_an_updater_both_are_state_errors(void)
{
    kvs_store_t *store = open_pushed();
    const char *path = path_of("updater");

    KT_OK(kvs_store_save_optimizer_states(store, path, 1));
    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_STATE, "no optimizer");
    KT_FAIL(kvs_store_save_optimizer_states(store, path, 1), KVS_ERR_STATE, "no optimizer");
    misuse_close_working(store, kvs_key_int(9));
}

static void a_missing_file_is_an_error(void)
{
    kvs_store_t *store = open_pushed();

    KT_FAIL(kvs_store_load_optimizer_states(store, path_of("missing")), KVS_ERR_NOT_FOUND,
            "/missing: cannot be opened: No such file");
    KT_FAIL(kvs_store_load_optimizer_states(store, ""), KVS_ERR_NOT_FOUND,
            "the path of the file is empty");
    KT_FAIL(kvs_store_load_optimizer_states(store, "/"), KVS_ERR_IO, "regular file");
    close_unchanged(store);
}

static void a_truncated_file_is_an_error(void)
{
    kvs_store_t *store = open_pushed();
    const char *path = path_of("truncated");
    struct stat found;

    KT_OK(kvs_store_save_optimizer_states(store, path, 1));
    KT_INT(stat(path, &found), 0);
    KT_INT(truncate(path, found.st_size - 1), 0);
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_FORMAT, "truncated");
    KT_HAS(kvs_last_error(), path);
    KT_INT(truncate(path, 3), 0);
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_FORMAT, "truncated");
    close_unchanged(store);
}

static void states_of_another_optimizer_are_an_error(void)
{
    kvs_store_t *store = open_pushed(), *adam = misuse_open();
    const char *path = path_of("adam");

    KT_OK(set(adam, "adam"));
    push_ones(adam);
    KT_OK(kvs_store_save_optimizer_states(adam, path, 0));
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_FORMAT,
            "states of optimizer 'adam', but 'sgd' is in force");
    close_unchanged(store);
    misuse_close_working(adam, kvs_key_int(9));
}

/* A store whose key MISUSE_KEY has two elements. */
static kvs_store_t *open_other(int dtype)
{
    kvs_store_t *store = misuse_create("local");
    const int64_t shape[1] = {2};
    double value[2] = {0, 0};
    kvs_tensor_t array = kt_tensor(value, dtype, shape, 1);
    kvs_arrays_t values = kvs_arrays(&array, 1);
    kvs_key_t key = kvs_key_int(MISUSE_KEY);

    KT_OK(misuse_init(store, key, array));
    KT_OK(set(store, "sgd"));
    KT_OK(kvs_store_push(store, &key, 1, &values, NULL));
    return store;
}

static void states_of_another_shape_or_dtype_are_an_error(void)
{
    kvs_store_t *store = open_pushed(), *other = open_other(KVS_DTYPE_float32);
    kvs_store_t *wide = open_other(KVS_DTYPE_float64), *narrow = open_other(KVS_DTYPE_float32);
    const char *path = path_of("other");

    KT_OK(kvs_store_save_optimizer_states(other, path, 0));
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_SHAPE,
            "key '3' has shape (2,) there, but (2, 3) here");
    KT_OK(kvs_store_save_optimizer_states(wide, path, 1));
    KT_FAIL(kvs_store_load_optimizer_states(narrow, path), KVS_ERR_DTYPE,
            "key '3' has dtype float64 there, but float32 here");
    close_unchanged(store);
    misuse_close_working(other, kvs_key_int(9));
    misuse_close_working(wide, kvs_key_int(9));
    misuse_close_working(narrow, kvs_key_int(9));
}

static void states_of_keys_of_the_other_type_are_an_error(void)
{
    kvs_store_t *store = open_pushed(), *named = misuse_open_str();
    const char *path = path_of("named");
    float ones[MISUSE_N] = {1, 1, 1, 1, 1, 1};

    KT_OK(set(named, "sgd"));
    KT_OK(
        misuse_push(named, kvs_key_str("w"), kt_tensor(ones, KVS_DTYPE_float32, misuse_shape, 2)));
    KT_OK(kvs_store_save_optimizer_states(named, path, 1));
    KT_FAIL(kvs_store_load_optimizer_states(store, path), KVS_ERR_KEY_TYPE, "string keys");
    close_unchanged(store);
    misuse_close_working(named, kvs_key_str("fresh"));
}

/* Loading before init would leave the states to nobody. */
static void states_of_a_key_that_is_not_there_yet_are_an_error(void)
{
    kvs_store_t *store = open_pushed(), *empty = misuse_create("local");
    const char *path = path_of("early");

    KT_OK(kvs_store_save_optimizer_states(store, path, 1));
    KT_OK(set(empty, "sgd"));
    KT_FAIL(kvs_store_load_optimizer_states(empty, path), KVS_ERR_NOT_FOUND,
            "key '3', which is not here; init it first");
    misuse_close_working(empty, kvs_key_int(9));
    close_unchanged(store);
}

static void a_file_that_can_not_be_written_is_an_error(void)
{
    kvs_store_t *store = open_pushed();
    const char *path = path_of("there");
    char inside[800];

    KT_FAIL(kvs_store_save_optimizer_states(store, "/nonexistent/file", 1), KVS_ERR_IO,
            "/nonexistent/file: cannot be made: No such file");
    KT_FAIL(kvs_store_save_optimizer_states(store, "", 1), KVS_ERR_IO, "empty");
    KT_FAIL(kvs_store_save_optimizer_states(store, "/dev/null", 1), KVS_ERR_IO, "regular file");
    KT_OK(kvs_store_save_optimizer_states(store, path, 1));
    snprintf(inside, sizeof(inside), "%s/file", path);
    KT_FAIL(kvs_store_save_optimizer_states(store, inside, 1), KVS_ERR_IO, "Not a directory");
    close_unchanged(store);
}

/* In a child, which the signal at the limit would end: 0 if the save fails with a text. */
static int save_past_the_limit(const char *path)
{
    const struct rlimit limit = {100, 100};
    kvs_store_t *store = open_pushed();
    kvs_status_t status = setrlimit(RLIMIT_FSIZE, &limit) == 0
                              ? kvs_store_save_optimizer_states(store, path, 1)
                              : KVS_OK;

    return status == KVS_ERR_IO && strstr(kvs_last_error(), "File too large") != NULL ? 0 : 1;
}

static void a_limit_of_file_sizes_is_an_error_and_no_signal(void)
{
    const char *path = path_of("limited");
    pid_t child;
    int how = -1;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(save_past_the_limit(path));
    }
    KT_INT(waitpid(child, &how, 0), child);
    KT_INT(how, 0);
    KT_INT(access(path, F_OK), -1);
}

static kvs_status_t save_within(const kvs_key_t *key, const kvs_tensor_t *value,
                                const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    KT_FAIL(kvs_store_save_optimizer_states(arg, "within", 0), KVS_ERR_STATE, "callback");
    KT_FAIL(kvs_store_load_optimizer_states(arg, "within"), KVS_ERR_STATE, "callback");
    return KVS_OK;
}

static void neither_is_allowed_in_an_updater(void)
{
    kvs_store_t *store = misuse_open();

    KT_OK(kvs_store_set_updater(store, save_within, store));
    push_ones(store);
    KT_INT(access("within", F_OK), -1);
    misuse_close_working(store, kvs_key_int(9));
}

static void neither_is_done_after_a_cancel(void)
{
    kvs_store_t *store = open_pushed();

    kvs_store_cancel(store);
    KT_FAIL(kvs_store_save_optimizer_states(store, path_of("cancelled"), 0), KVS_ERR_CANCELLED, "");
    KT_FAIL(kvs_store_load_optimizer_states(store, path_of("cancelled")), KVS_ERR_CANCELLED, "");
    KT_OK(kvs_store_close(store)); /* nothing was left to be done */
}

static const kt_test_t tests[] = {
    KT_TEST(a_limit_of_file_sizes_is_an_error_and_no_signal), /* forks before there are threads */
    KT_TEST(null_is_an_error),
    KT_TEST(without_an_optimizer_both_are_state_errors),
    KT_TEST(with_an_updater_both_are_state_errors),
    KT_TEST(a_missing_file_is_an_error),
    KT_TEST(a_truncated_file_is_an_error),
    KT_TEST(states_of_another_optimizer_are_an_error),
    KT_TEST(states_of_another_shape_or_dtype_are_an_error),
    KT_TEST(states_of_keys_of_the_other_type_are_an_error),
    KT_TEST(states_of_a_key_that_is_not_there_yet_are_an_error),
    KT_TEST(a_file_that_can_not_be_written_is_an_error),
    KT_TEST(neither_is_allowed_in_an_updater),
    KT_TEST(neither_is_done_after_a_cancel),
};
KT_MAIN("misuse.states", tests)
