/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong use of optimizers in the worker: code, text, nothing done, still usable. */
#include "misuse.h"

#include <kvstore/plugins.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static const int64_t pair[1] = {2}, triple[1] = {3};

static kvs_worker_optimizer_t *make(const char *name, double rate)
{
    const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = rate}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *optimizer = NULL;

    spec.name = name;
    spec.params = params;
    spec.n_params = 1;
    KT_OK(kvs_optimizer_create(&spec, &optimizer));
    return optimizer;
}

/* It still updates: 1 - 0.5 * 2. */
static void free_working(kvs_worker_optimizer_t *optimizer, kvs_key_t key)
{
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5};
    float grad[2] = {2, 2}, weight[2] = {1, 1};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);

    KT_OK(kvs_optimizer_set_attr(optimizer, &rate));
    KT_OK(kvs_optimizer_update(optimizer, key, &from, &to));
    KT_REAL(weight[0], 0);
    KT_REAL(grad[0], 2);
    kvs_optimizer_free(optimizer);
}

static void create_checks_its_arguments(void)
{
    const kvs_param_t wrong[] = {{.name = "momentun", .type = KVS_PARAM_FLOAT, .value.real = 0.5}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *optimizer = NULL;

    KT_FAIL(kvs_optimizer_create(NULL, &optimizer), KVS_ERR_ARGUMENT, "optimizer is NULL");
    KT_FAIL(kvs_optimizer_create(&spec, NULL), KVS_ERR_ARGUMENT, "ret_optimizer is NULL");
    KT_FAIL(kvs_optimizer_create(&spec, &optimizer), KVS_ERR_ARGUMENT, "name of the optimizer");
    spec.name = "sgdd";
    KT_FAIL(kvs_optimizer_create(&spec, &optimizer), KVS_ERR_NOT_FOUND, "did you mean \"sgd\"");
    spec.name = "sgd";
    spec.params = wrong;
    spec.n_params = 1;
    KT_FAIL(kvs_optimizer_create(&spec, &optimizer), KVS_ERR_ARGUMENT, "did you mean 'momentum'");
    spec.size = 8;
    KT_FAIL(kvs_optimizer_create(&spec, &optimizer), KVS_ERR_ARGUMENT, "KVS_OPTIMIZER_INIT");
    KT_TRUE(optimizer == NULL);
    kvs_optimizer_free(NULL);
}

static void without_the_plugin_create_says_which(void)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *optimizer = NULL;

    spec.name = "sgd";
    setenv("KVSTORE_PLUGINS", "-optimizers", 1);
    KT_FAIL(kvs_optimizer_create(&spec, &optimizer), KVS_ERR_UNAVAILABLE,
            "optimizers in the worker need plugin 'optimizers'");
    KT_HAS(kvs_last_error(), "disabled");
    unsetenv("KVSTORE_PLUGINS");
    free_working(make("sgd", 1), kvs_key_int(0));
}

static void update_checks_its_arguments(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1);
    float grad[3] = {1, 1, 1}, weight[3] = {1, 2, 3};
    double wide[2] = {1, 1};
    int32_t whole[2] = {1, 1}, other[2] = {1, 1};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);
    kvs_tensor_t bad = kt_tensor(grad, KVS_DTYPE_float32, triple, 1);
    kvs_tensor_t integers = kt_tensor(whole, KVS_DTYPE_int32, pair, 1);
    kvs_tensor_t more_integers = kt_tensor(other, KVS_DTYPE_int32, pair, 1);
    kvs_key_t key = kvs_key_int(1);

    KT_FAIL(kvs_optimizer_update(NULL, key, &from, &to), KVS_ERR_ARGUMENT, "optimizer is NULL");
    KT_FAIL(kvs_optimizer_update(optimizer, key, NULL, &to), KVS_ERR_ARGUMENT, "gradient is NULL");
    KT_FAIL(kvs_optimizer_update(optimizer, key, &from, NULL), KVS_ERR_ARGUMENT, "weight is NULL");
    KT_FAIL(kvs_optimizer_update(optimizer, kvs_key_str("\xFF"), &from, &to), KVS_ERR_ARGUMENT,
            "UTF-8");
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_SHAPE,
            "the gradient has shape (3,), the weight (2,)");
    bad = kt_tensor(wide, KVS_DTYPE_float64, pair, 1);
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_DTYPE,
            "the gradient has dtype float64, the weight float32");
    KT_FAIL(kvs_optimizer_update(optimizer, key, &integers, &more_integers), KVS_ERR_DTYPE,
            "int32");
    KT_FAIL(kvs_optimizer_update(optimizer, key, &to, &to), KVS_ERR_ARGUMENT, "share memory");
    bad = KT_F32(weight + 1, 2);
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_ARGUMENT, "share memory");
    bad = from;
    bad.device.type = KVS_DEVICE_CUDA;
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_NOT_IMPLEMENTED,
            "host memory");
    bad = from;
    bad.data = NULL;
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_ARGUMENT, "NULL data");
    bad = from;
    bad.byte_offset = 1;
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_ARGUMENT, "aligned");
    bad = from;
    bad.strides = triple;
    KT_FAIL(kvs_optimizer_update(optimizer, key, &bad, &to), KVS_ERR_ARGUMENT, "strides");
    KT_REAL(weight[0], 1);
    KT_REAL(weight[1], 2);
    free_working(optimizer, kvs_key_str("w")); /* no key has come to life, so any type will do */
}

static void row_sparse_arrays_are_not_implemented(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1);
    const int64_t shape[2] = {4, 1};
    int64_t id = 2;
    kvs_rows_t rows = {&id, 1, 1};
    float grad[1] = {1}, weight[4] = {1, 2, 3, 4};
    kvs_tensor_t from = kt_tensor(grad, KVS_DTYPE_float32, shape, 2);
    kvs_tensor_t to = kt_tensor(weight, KVS_DTYPE_float32, shape, 2);

    from.rows = &rows;
    KT_FAIL(kvs_optimizer_update(optimizer, kvs_key_int(1), &from, &to), KVS_ERR_NOT_IMPLEMENTED,
            "row-sparse");
    KT_REAL(weight[2], 3);
    free_working(optimizer, kvs_key_int(1));
}

static void byte_offsets_are_followed(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1);
    float grad[3] = {9, 1, 2}, weight[3] = {7, 8, 9};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);

    from.byte_offset = sizeof(float);
    to.byte_offset = sizeof(float);
    KT_OK(kvs_optimizer_update(optimizer, kvs_key_int(1), &from, &to));
    KT_REAL(weight[0], 7);
    KT_REAL(weight[1], 7);
    KT_REAL(weight[2], 7);
    kvs_optimizer_free(optimizer);
}

static void a_key_keeps_its_shape_dtype_and_type(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1);
    float grad[3] = {1, 1, 1}, weight[3] = {1, 2, 3};
    double wide_grad[2] = {1, 1}, wide[2] = {1, 1};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);

    KT_OK(kvs_optimizer_update(optimizer, kvs_key_int(1), &from, &to));
    from = kt_tensor(grad, KVS_DTYPE_float32, triple, 1);
    to = kt_tensor(weight, KVS_DTYPE_float32, triple, 1);
    KT_FAIL(kvs_optimizer_update(optimizer, kvs_key_int(1), &from, &to), KVS_ERR_SHAPE,
            "key 1: the weight has shape (3,), but the key's is (2,)");
    from = kt_tensor(wide_grad, KVS_DTYPE_float64, pair, 1);
    to = kt_tensor(wide, KVS_DTYPE_float64, pair, 1);
    KT_FAIL(kvs_optimizer_update(optimizer, kvs_key_int(1), &from, &to), KVS_ERR_DTYPE,
            "key 1: the weight has dtype float64, but the key's is float32");
    KT_FAIL(kvs_optimizer_update(optimizer, kvs_key_str("1"), &from, &to), KVS_ERR_KEY_TYPE,
            "key '1': mixed key types are not allowed: this optimizer has integer keys");
    KT_REAL(wide[0], 1);
    KT_REAL(weight[2], 3);
    free_working(optimizer, kvs_key_int(1));
}

static void set_attr_checks_its_arguments(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1);
    kvs_param_t attr = {.name = "learning_rat", .type = KVS_PARAM_FLOAT, .value.real = 1};

    KT_FAIL(kvs_optimizer_set_attr(NULL, &attr), KVS_ERR_ARGUMENT, "optimizer is NULL");
    KT_FAIL(kvs_optimizer_set_attr(optimizer, NULL), KVS_ERR_ARGUMENT, "attribute is NULL");
    KT_FAIL(kvs_optimizer_set_attr(optimizer, &attr), KVS_ERR_ARGUMENT, "learning_rat");
    attr.name = "learning_rate";
    attr.value.real = (double)NAN;
    KT_FAIL(kvs_optimizer_set_attr(optimizer, &attr), KVS_ERR_ARGUMENT, "finite");
    free_working(optimizer, kvs_key_int(1));
}

static void the_rate_can_not_be_set_beside_a_schedule(void)
{
    const kvs_param_t params[] = {{.name = "step", .type = KVS_PARAM_INT, .value.integer = 1}};
    const kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 1};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *optimizer = NULL;

    spec.name = "sgd";
    spec.schedule = "factor";
    spec.schedule_params = params;
    spec.n_schedule_params = 1;
    KT_OK(kvs_optimizer_create(&spec, &optimizer));
    KT_FAIL(kvs_optimizer_set_attr(optimizer, &rate), KVS_ERR_STATE, "factor");
    kvs_optimizer_free(optimizer);
}

static void files_are_checked_as_a_stores_are(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1), *adam = make("adam", 1);
    char path[700];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    KT_FAIL(kvs_optimizer_save_states(NULL, path, 0), KVS_ERR_ARGUMENT, "optimizer is NULL");
    KT_FAIL(kvs_optimizer_save_states(optimizer, NULL, 0), KVS_ERR_ARGUMENT, "path is NULL");
    KT_FAIL(kvs_optimizer_load_states(NULL, path), KVS_ERR_ARGUMENT, "optimizer is NULL");
    KT_FAIL(kvs_optimizer_load_states(optimizer, NULL), KVS_ERR_ARGUMENT, "path is NULL");
    KT_FAIL(kvs_optimizer_load_states(optimizer, path), KVS_ERR_NOT_FOUND, path);
    KT_FAIL(kvs_optimizer_save_states(optimizer, "/nonexistent/x", 1), KVS_ERR_IO,
            "/nonexistent/x");
    KT_OK(kvs_optimizer_save_states(adam, path, 0));
    KT_FAIL(kvs_optimizer_load_states(optimizer, path), KVS_ERR_FORMAT, "'adam', but 'sgd'");
    free_working(optimizer, kvs_key_int(1));
    kvs_optimizer_free(adam);
}

static void keys_of_a_file_must_fit_those_that_are_known(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1), *other = make("sgd", 1);
    kvs_worker_optimizer_t *longer = make("sgd", 1);
    float grad[3] = {1, 1, 1}, weight[3] = {1, 2, 3};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);
    char path[700];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    KT_OK(kvs_optimizer_update(optimizer, kvs_key_str("w"), &from, &to));
    KT_OK(kvs_optimizer_update(other, kvs_key_int(1), &from, &to));
    KT_OK(kvs_optimizer_save_states(other, path, 1));
    KT_FAIL(kvs_optimizer_load_states(optimizer, path), KVS_ERR_KEY_TYPE, "mixed key types");
    KT_OK(kvs_optimizer_save_states(optimizer, path, 1));
    KT_FAIL(kvs_optimizer_load_states(other, path), KVS_ERR_KEY_TYPE, "mixed key types");
    from = kt_tensor(grad, KVS_DTYPE_float32, triple, 1);
    to = kt_tensor(weight, KVS_DTYPE_float32, triple, 1);
    KT_OK(kvs_optimizer_update(longer, kvs_key_str("w"), &from, &to));
    KT_FAIL(kvs_optimizer_load_states(longer, path), KVS_ERR_SHAPE, "(2,) there, but (3,) here");
    kvs_optimizer_free(longer);
    free_working(optimizer, kvs_key_str("w"));
    free_working(other, kvs_key_int(1));
}

/* The keys of a loaded file are known: an update of another shape is an error. */
static void a_loaded_key_keeps_its_shape(void)
{
    kvs_worker_optimizer_t *optimizer = make("adam", 1), *fresh = make("adam", 1);
    float grad[3] = {1, 1, 1}, weight[3] = {1, 2, 3};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);
    char path[700];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    KT_OK(kvs_optimizer_update(optimizer, kvs_key_str("w"), &from, &to));
    KT_OK(kvs_optimizer_save_states(optimizer, path, 0));
    KT_OK(kvs_optimizer_load_states(fresh, path));
    from = kt_tensor(grad, KVS_DTYPE_float32, triple, 1);
    to = kt_tensor(weight, KVS_DTYPE_float32, triple, 1);
    KT_FAIL(kvs_optimizer_update(fresh, kvs_key_str("w"), &from, &to), KVS_ERR_SHAPE, "(2,)");
    kvs_optimizer_free(optimizer);
    kvs_optimizer_free(fresh);
}

#define N_THREADS 4
#define N_UPDATES 200

typedef struct share {
    kvs_worker_optimizer_t *optimizer;
    int64_t key;
} share_t;

static void *update_often(void *arg)
{
    const share_t *share = arg;
    float grad[2] = {1, 1}, weight[2] = {0, 0};
    kvs_tensor_t from = KT_F32(grad, 2), to = KT_F32(weight, 2);

    for (int i = 0; i < N_UPDATES; i++) {
        if (kvs_optimizer_update(share->optimizer, kvs_key_int(share->key), &from, &to) != KVS_OK) {
            return NULL;
        }
    }
    return weight[0] == -N_UPDATES ? arg : NULL;
}

static void several_threads_may_use_one(void)
{
    kvs_worker_optimizer_t *optimizer = make("sgd", 1);
    pthread_t threads[N_THREADS];
    share_t shares[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        shares[i] = (share_t){optimizer, i};
        KT_INT(pthread_create(&threads[i], NULL, update_often, &shares[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *result = NULL;

        KT_INT(pthread_join(threads[i], &result), 0);
        KT_TRUE(result == &shares[i]);
    }
    free_working(optimizer, kvs_key_int(99));
}

static void describe_checks_its_arguments(void)
{
    kvs_optimizer_info_t *info = NULL;

    KT_FAIL(kvs_optimizer_describe(NULL, &info), KVS_ERR_ARGUMENT, "name is NULL");
    KT_FAIL(kvs_optimizer_describe("sgd", NULL), KVS_ERR_ARGUMENT, "ret_info is NULL");
    KT_FAIL(kvs_optimizer_describe("", &info), KVS_ERR_NOT_FOUND, "optimizer");
    KT_FAIL(kvs_optimizer_describe("local", &info), KVS_ERR_NOT_FOUND, "no optimizer named");
    KT_TRUE(info == NULL);
    kvs_optimizer_info_free(NULL);
    KT_OK(kvs_optimizer_describe("SGD", &info));
    KT_STR(info->name, "sgd");
    KT_STR(info->params[0].preset.name, "learning_rate");
    KT_REAL(info->params[0].preset.value.real, 0.01);
    KT_INT(info->n_states, 1);
    kvs_optimizer_info_free(info);
}

static const kt_test_t tests[] = {
    KT_TEST(create_checks_its_arguments),
    KT_TEST(without_the_plugin_create_says_which),
    KT_TEST(update_checks_its_arguments),
    KT_TEST(row_sparse_arrays_are_not_implemented),
    KT_TEST(byte_offsets_are_followed),
    KT_TEST(a_key_keeps_its_shape_dtype_and_type),
    KT_TEST(set_attr_checks_its_arguments),
    KT_TEST(the_rate_can_not_be_set_beside_a_schedule),
    KT_TEST(files_are_checked_as_a_stores_are),
    KT_TEST(keys_of_a_file_must_fit_those_that_are_known),
    KT_TEST(a_loaded_key_keeps_its_shape),
    KT_TEST(several_threads_may_use_one),
    KT_TEST(describe_checks_its_arguments),
};
KT_MAIN("misuse.worker", tests)
