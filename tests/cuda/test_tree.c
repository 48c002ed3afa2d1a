/* SPDX-License-Identifier: Apache-2.0 */
/* `device` with usetree (set by the ctest), on pretend devices with the links that KVSTORE_DOUBLE_FAULT
 * says: sums go along trees. */
#include "exact.h"
#include "pretend.h"

#include <stdlib.h>

static void sums_of_every_dtype_are_those_of_local(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        exact_try_sums("device", dtype, 1, pretend_n_devices());
        exact_try_sums("device", dtype, 4099, pretend_n_devices());
    }
}

/* The bound is 10000 elements here. */
static void big_arrays_are_cut_over_the_roots(void)
{
    exact_try_sums("device", KVS_DTYPE_float32, 40009, pretend_n_devices());
    exact_try_sums("device", KVS_DTYPE_float16, 65537, 2 * pretend_n_devices() + 1);
    exact_try_sums("device", KVS_DTYPE_float64, 10001, 1);
}

static void optimizers_work_at_the_weight(void)
{
    int64_t n = 20011;
    exact_pair_t pair;
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    exact_arrays_t values, outs;

    exact_open(&pair, "device");
    spec.name = "adam";
    KT_OK(kvs_store_set_optimizer(pair.device, &spec));
    KT_OK(kvs_store_set_optimizer(pair.local, &spec));
    exact_make(&values, pretend_n_devices() + 1, KVS_DTYPE_float32, &n);
    exact_make(&outs, pretend_n_devices() + 1, KVS_DTYPE_float32, &n);
    exact_init(&pair, 5, &values);
    for (int round = 0; round < 3; round++) {
        exact_exchange(&pair, 5, &values, &outs);
        KT_INT(exact_n_different(&outs), 0);
    }
    exact_free(&values);
    exact_free(&outs);
    exact_close(&pair);
}

static void compression_works_as_without(void)
{
    int64_t n = 30011;
    const kvs_param_t params[] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value.text = "2bit"},
        {.name = "threshold", .type = KVS_PARAM_FLOAT, .value.real = 2},
    };
    exact_pair_t pair;
    kvs_store_t *host = NULL;
    exact_arrays_t values;

    exact_open(&pair, "device");
    KT_OK(kvs_store_create("device", NULL, 0, &host));
    KT_OK(kvs_store_close(pair.local));
    pair.local = host; /* `device` on host arrays: what compression gives */
    KT_OK(kvs_store_set_gradient_compression(pair.device, params, 2));
    KT_OK(kvs_store_set_gradient_compression(host, params, 2));
    exact_make(&values, pretend_n_devices(), KVS_DTYPE_float32, &n);
    exact_init(&pair, 1, &values);
    exact_exchange(&pair, 1, &values, &values);
    KT_INT(exact_n_different(&values), 0);
    exact_free(&values);
    exact_close(&pair);
}

static void a_penalty_out_of_range_is_refused(void)
{
    kvs_option_t option = {"tree_link_usage_penalty", "1.5"};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("device", &option, 1, &store), KVS_ERR_ARGUMENT,
            "tree_link_usage_penalty is 1.5");
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(sums_of_every_dtype_are_those_of_local), KT_TEST(big_arrays_are_cut_over_the_roots),
        KT_TEST(optimizers_work_at_the_weight),          KT_TEST(compression_works_as_without),
        KT_TEST(a_penalty_out_of_range_is_refused),
    };

    pretend_open();
    return kt_run("cuda.tree", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
