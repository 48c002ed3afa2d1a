/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong with devices, as scripted by KVSTORE_DOUBLE_FAULT and its like: each test is run by
 * name, in a process of its own. Afterwards the store still works. */
#include "pretend.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const kvs_key_t key = {NULL, 4};

static kvs_store_t *open_store(int64_t n)
{
    kvs_store_t *store = NULL;
    float *zeros = calloc((size_t)n, sizeof(*zeros));
    kvs_tensor_t tensor = KT_F32(zeros, n);
    kvs_arrays_t list = pretend_list(&tensor, 1);

    KT_OK(kvs_store_create("device", NULL, 0, &store));
    KT_OK(kvs_store_init(store, &key, 1, &list, NULL));
    free(zeros);
    return store;
}

/* The store takes host arrays as ever. */
static void want_usable(kvs_store_t *store, int64_t number)
{
    kvs_key_t other = kvs_key_int(number);
    float values[] = {1, 2}, got[2] = {0, 0};
    kvs_tensor_t value = KT_F32(values, 2), out = KT_F32(got, 2);
    kvs_arrays_t list = pretend_list(&value, 1), outs = pretend_list(&out, 1);

    KT_OK(kvs_store_init(store, &other, 1, &list, NULL));
    KT_OK(kvs_store_pushpull(store, &other, 1, &list, &outs, NULL));
    KT_REAL(got[1], 2);
}

/* A push of an array that is said to lie on a device is refused, with this text. */
static void want_refused(kvs_status_t status, const char *part)
{
    kvs_store_t *store = open_store(4);
    float numbers[4] = {0};
    kvs_tensor_t value = KT_F32(numbers, 4);
    kvs_arrays_t list = pretend_list(&value, 1);
    int n = 0;

    value.device.type = KVS_DEVICE_CUDA;
    KT_FAIL(kvs_store_push(store, &key, 1, &list, NULL), status, part);
    KT_FAIL(kvs_device_count(KVS_DEVICE_CUDA, &n), status, part);
    want_usable(store, 5);
    KT_OK(kvs_store_close(store));
}

static void without_a_driver_the_reason_is_told(void)
{
    want_refused(KVS_ERR_UNAVAILABLE, "cannot open shared object file");
}

static void a_driver_that_is_too_old_is_refused_with_both_versions(void)
{
    want_refused(KVS_ERR_UNAVAILABLE, "offers CUDA 12.2, this plugin was built for 13.0");
}

static void a_driver_without_a_device_is_refused(void)
{
    want_refused(KVS_ERR_UNAVAILABLE, "the CUDA driver finds no device");
}

static void a_device_that_does_not_exist_is_named(void)
{
    int64_t n = 4;
    kvs_store_t *store = open_store(n);
    kvs_tensor_t value = pretend_array(0, KVS_DTYPE_float32, &n, NULL, 0), wrong = value;
    kvs_arrays_t list = pretend_list(&wrong, 1), right = pretend_list(&value, 1);

    wrong.device.id = 9;
    KT_FAIL(kvs_store_push(store, &key, 1, &list, NULL), KVS_ERR_ARGUMENT,
            "key 4: value 0: there is no device cuda(9): this machine has 2");
    wrong.device.id = -1;
    KT_FAIL(kvs_store_pull(store, &key, 1, &list, NULL), KVS_ERR_ARGUMENT, "key 4: out 0");
    KT_OK(kvs_store_push(store, &key, 1, &right, NULL));
    want_usable(store, 5);
    pretend_free(&value, 0);
    KT_OK(kvs_store_close(store));
}

static void a_full_device_is_an_error_and_the_key_is_as_before(void)
{
    int64_t n = 300000;
    kvs_store_t *store = open_store(n);
    float *numbers = calloc((size_t)n, sizeof(*numbers));
    kvs_tensor_t hog, value, out = KT_F32(numbers, n);
    kvs_arrays_t list = pretend_list(&value, 1), outs = pretend_list(&out, 1);
    int64_t rest = 400000;

    numbers[n - 1] = 7;
    value = pretend_array(0, KVS_DTYPE_float32, &n, numbers, 0);
    hog = pretend_array(0, KVS_DTYPE_float32, &rest, NULL, 0);
    KT_FAIL(kvs_store_push(store, &key, 1, &list, NULL), KVS_ERR_NO_MEMORY,
            "device cuda(0): no memory for 1200000 bytes");
    KT_OK(kvs_store_pull(store, &key, 1, &outs, NULL));
    KT_REAL(numbers[n - 1], 0);
    pretend_free(&hog, 0);
    KT_OK(kvs_device_copy((kvs_device_t){KVS_DEVICE_CPU, 0}, numbers, value.device, value.data, 4));
    KT_OK(kvs_store_push(store, &key, 1, &list, NULL)); /* there is room now */
    KT_OK(kvs_store_pull(store, &key, 1, &outs, NULL));
    KT_REAL(numbers[n - 1], 7);
    pretend_free(&value, 0);
    free(numbers);
    KT_OK(kvs_store_close(store));
}

/* An array that leaves 300,000 bytes of the device on which the other one is. */
static kvs_tensor_t take_the_rest(const kvs_tensor_t *other, int64_t *ret_n)
{
    kvs_device_info_t info = {.size = sizeof(info)};
    float first; /* behind what the device still has to free */

    KT_OK(kvs_device_copy((kvs_device_t){KVS_DEVICE_CPU, 0}, &first, other->device, other->data,
                          sizeof(first)));
    KT_OK(kvs_device_info(other->device, &info));
    *ret_n = ((int64_t)info.free_bytes - 300000) / 4;
    return pretend_array(other->device.id, KVS_DTYPE_float32, ret_n, NULL, 0);
}

/* 1000 rows of 250, on both devices if there are two. The sum of two gradients that list 600 of them has no room on the
 * last one. */
static void a_device_that_is_full_of_rows_is_an_error_and_the_key_is_as_before(void)
{
    static const int64_t shape[] = {1000, 250};
    const int64_t n_listed = 600 * shape[1];
    float *numbers = calloc((size_t)n_listed, sizeof(*numbers)), before;
    int64_t ids[600], n_hog;
    kvs_rows_t rows = {ids, 600, 600}, got = {&(int64_t){0}, 0, 1};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_tensor_t values[2], row, hog;
    kvs_store_t *store = NULL;
    int last = pretend_n_devices() - 1;

    for (int64_t i = 0; i < 600; i++) {
        ids[i] = i;
        numbers[i * shape[1] + 1] = 1;
    }
    for (int i = 0; i < 2; i++) {
        values[i] = pretend_array(i == 0 ? 0 : last, KVS_DTYPE_float32, &n_listed, numbers, 0);
        values[i].ndim = 2;
        values[i].shape = shape;
        values[i].rows = &rows;
    }
    row = kt_tensor(numbers, KVS_DTYPE_float32, shape, 2);
    row.rows = &got;
    kvs_tensor_t row_id = kt_tensor(&ids[7], KVS_DTYPE_int64, (const int64_t[]){1}, 1);
    kvs_arrays_t one = pretend_list(values, 1), both = pretend_list(values, 2),
                 outs = pretend_list(&row, 1), row_ids = pretend_list(&row_id, 1);

    spec.name = "adagrad"; /* which changes listed rows only */
    KT_OK(kvs_store_create("device", NULL, 0, &store));
    KT_OK(kvs_store_init(store, &key, 1, &one, NULL));
    KT_OK(kvs_store_set_optimizer(store, &spec));
    KT_OK(kvs_store_push(store, &key, 1, &both, NULL));
    KT_OK(kvs_store_row_sparse_pull(store, &key, 1, &outs, &row_ids, NULL));
    before = numbers[1];
    hog = take_the_rest(&values[1], &n_hog);
    KT_FAIL(kvs_store_push(store, &key, 1, &both, NULL), KVS_ERR_NO_MEMORY,
            last == 0 ? "key 4: device cuda(0): no memory for 600000 bytes"
                      : "key 4: device cuda(1): no memory for 338000 bytes");
    KT_OK(kvs_store_row_sparse_pull(store, &key, 1, &outs, &row_ids, NULL));
    KT_REAL(numbers[1], before);
    pretend_free(&hog, 0);
    KT_OK(kvs_device_copy((kvs_device_t){KVS_DEVICE_CPU, 0}, numbers + 1, values[1].device,
                          values[1].data, 4));
    KT_OK(kvs_store_push(store, &key, 1, &both, NULL)); /* there is room now */
    KT_OK(kvs_store_row_sparse_pull(store, &key, 1, &outs, &row_ids, NULL));
    KT_TRUE(numbers[1] < before && numbers[1] != 0);
    pretend_free(&values[0], 0);
    pretend_free(&values[1], 0);
    free(numbers);
    KT_OK(kvs_store_close(store));
}

static void a_lost_device_fails_its_keys_and_no_others(void)
{
    kvs_key_t keys[] = {kvs_key_int(10), kvs_key_int(11)};
    int64_t n = 100;
    kvs_store_t *store = open_store(4);
    kvs_tensor_t values[2], out;
    float *zeros = calloc((size_t)n, sizeof(*zeros));

    for (int d = 0; d < 2; d++) {
        values[d] = pretend_array(d, KVS_DTYPE_float32, &n, zeros, 0);
        kvs_arrays_t list = pretend_list(&values[d], 1);

        KT_OK(kvs_store_init(store, &keys[d], 1, &list, NULL));
        KT_OK(kvs_store_push(store, &keys[d], 1, &list, NULL));
    }
    driver.break_device(1);
    kvs_arrays_t lost = pretend_list(&values[1], 1), fine = pretend_list(&values[0], 1);

    KT_FAIL(kvs_store_push(store, &keys[1], 1, &lost, NULL), KVS_ERR_UNAVAILABLE,
            "device cuda(1) is lost until the process ends");
    KT_HAS(kvs_last_error(), "key 11");
    KT_HAS(kvs_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    KT_FAIL(kvs_store_push(store, &keys[1], 1, &fine, NULL), KVS_ERR_UNAVAILABLE, "cuda(1)");
    out = KT_F32(zeros, n);
    kvs_arrays_t outs = pretend_list(&out, 1);

    KT_FAIL(kvs_store_pull(store, &keys[1], 1, &outs, NULL), KVS_ERR_UNAVAILABLE, "cuda(1)");
    KT_OK(kvs_store_pushpull(store, &keys[0], 1, &fine, &outs, NULL));
    kvs_tensor_t twice[] = {values[0], values[0]};
    kvs_arrays_t both = pretend_list(twice, 2);

    zeros[0] = 9;
    KT_OK(kvs_device_copy(values[0].device, values[0].data, (kvs_device_t){KVS_DEVICE_CPU, 0},
                          zeros, sizeof(float)));
    KT_FAIL(kvs_store_push(store, keys, 2, &both, NULL), KVS_ERR_UNAVAILABLE, "key 11: ");
    KT_OK(kvs_store_pull(store, &keys[0], 1, &outs, NULL));
    KT_REAL(zeros[0], 9);
    want_usable(store, 5);
    pretend_free(&values[0], 0);
    free(zeros);
    KT_OK(kvs_store_close(store));
}

static void work_that_breaks_its_device_is_told_by_the_call_that_waits_for_it(void)
{
    int64_t n = 100;
    kvs_store_t *store = open_store(n);
    kvs_tensor_t value = pretend_array(0, KVS_DTYPE_float32, &n, NULL, 0);
    kvs_arrays_t list = pretend_list(&value, 1);

    KT_FAIL(kvs_store_push(store, &key, 1, &list, NULL), KVS_ERR_UNAVAILABLE,
            "key 4: device cuda(0) is lost");
    want_usable(store, 5);
    KT_OK(kvs_store_close(store));
}

static void a_stream_that_is_captured_is_refused(void)
{
    int64_t n = 4;
    kvs_store_t *store = open_store(n);
    kvs_tensor_t value = pretend_array(0, KVS_DTYPE_float32, &n, NULL, 0);
    kvs_arrays_t list = pretend_list(&value, 1);

    value.stream = (int64_t)(intptr_t)pretend_stream(0);
    driver.capturing(1);
    KT_FAIL(kvs_store_push(store, &key, 1, &list, NULL), KVS_ERR_STATE,
            "is being captured into a graph");
    KT_HAS(kvs_last_error(), "key 4: value 0");
    driver.capturing(0);
    KT_OK(kvs_store_push(store, &key, 1, &list, NULL));
    want_usable(store, 5);
    pretend_free(&value, 0);
    KT_OK(kvs_store_close(store));
}

static void a_forked_child_is_told_that_cuda_does_not_survive_that(void)
{
    int n = pretend_n_devices(), status = -1;
    pid_t child = fork();

    if (child == 0) {
        _exit(kvs_device_count(KVS_DEVICE_CUDA, &n) == KVS_ERR_STATE &&
                      strstr(kvs_last_error(), "forked") != NULL
                  ? 0
                  : 1);
    }
    KT_TRUE(child > 0 && waitpid(child, &status, 0) == child);
    KT_INT(status, 0);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(without_a_driver_the_reason_is_told),
        KT_TEST(a_driver_that_is_too_old_is_refused_with_both_versions),
        KT_TEST(a_driver_without_a_device_is_refused),
        KT_TEST(a_device_that_does_not_exist_is_named),
        KT_TEST(a_full_device_is_an_error_and_the_key_is_as_before),
        KT_TEST(a_device_that_is_full_of_rows_is_an_error_and_the_key_is_as_before),
        KT_TEST(a_lost_device_fails_its_keys_and_no_others),
        KT_TEST(work_that_breaks_its_device_is_told_by_the_call_that_waits_for_it),
        KT_TEST(a_stream_that_is_captured_is_refused),
        KT_TEST(a_forked_child_is_told_that_cuda_does_not_survive_that),
    };

    if (getenv("KVSTORE_DOUBLE_DEVICES") != NULL || getenv("KVSTORE_TEST_GPU") != NULL) {
        pretend_open();
    }
    return kt_run("cuda_faults", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
