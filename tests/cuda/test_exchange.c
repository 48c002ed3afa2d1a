/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays on pretend devices, as many as KVSTORE_DOUBLE_DEVICES says: `device` gives the bits that `local`
 * gives for the same numbers on the host. */
#include "pretend.h"

#include <stdlib.h>

enum { MAX_ARRAYS = 24 };

static const char *const optimizers[] = {"sgd",   "nag",     "signum",       "signsgd",   "dcasgd",
                                         "test",  "adam",    "adamw",        "adabelief", "adamax",
                                         "nadam", "adagrad", "groupadagrad", "adadelta",  "rmsprop",
                                         "ftrl",  "ftml",    "lars",         "lamb",      "lans"};

/* One store with arrays on devices, and one whose arrays are on the host. */
typedef struct pair {
    kvs_store_t *device, *host;
} pair_t;

static pair_t open_pair(const char *host_backend)
{
    pair_t pair = {NULL, NULL};

    KT_OK(kvs_store_create("device", NULL, 0, &pair.device));
    KT_OK(kvs_store_create(host_backend, NULL, 0, &pair.host));
    return pair;
}

static void close_pair(pair_t *pair)
{
    KT_OK(kvs_store_close(pair->device));
    KT_OK(kvs_store_close(pair->host));
}

/* Where the i-th array of a list lies: over all devices, and with `mixed` some on the host. */
static int place(int i, int n_devices, int mixed)
{
    return mixed && i % 3 == 1 ? -1 : i % n_devices;
}

typedef struct arrays {
    kvs_tensor_t on_device[MAX_ARRAYS], on_host[MAX_ARRAYS];
    int n, off;
} arrays_t;

static void make_arrays(arrays_t *arrays, int n, int dtype, const int64_t *n_elems, int mixed,
                        int off)
{
    void *bytes = malloc((size_t)*n_elems * 8 + 8);
    int n_devices = pretend_n_devices();

    arrays->n = n;
    arrays->off = off;
    for (int i = 0; i < n; i++) {
        pretend_fill(dtype, *n_elems, bytes);
        arrays->on_device[i] =
            pretend_array(place(i, n_devices, mixed), dtype, n_elems, bytes, off);
        arrays->on_host[i] = pretend_array(-1, dtype, n_elems, bytes, 0);
    }
    free(bytes);
}

static void free_arrays(arrays_t *arrays)
{
    for (int i = 0; i < arrays->n; i++) {
        pretend_free(&arrays->on_device[i], arrays->off);
        pretend_free(&arrays->on_host[i], 0);
    }
}

static int n_different(const arrays_t *arrays)
{
    size_t n_bytes =
        (size_t)arrays->on_host[0].shape[0] * (size_t)(arrays->on_host[0].dtype.bits / 8);
    char *got = malloc(n_bytes + 1);
    int n = 0;

    for (int i = 0; i < arrays->n; i++) {
        pretend_get(&arrays->on_device[i], got);
        n += memcmp(got, arrays->on_host[i].data, n_bytes) != 0;
    }
    free(got);
    return n;
}

static void both_init(const pair_t *pair, int64_t number, const arrays_t *value)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device = pretend_list(value->on_device, 1), host = pretend_list(value->on_host, 1);

    KT_OK(kvs_store_init(pair->device, &key, 1, &device, NULL));
    KT_OK(kvs_store_init(pair->host, &key, 1, &host, NULL));
}

/* With `outs` NULL in place. */
static void both_pushpull(const pair_t *pair, int64_t number, const arrays_t *values,
                          const arrays_t *outs)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device = pretend_list(values->on_device, (size_t)values->n);
    kvs_arrays_t host = pretend_list(values->on_host, (size_t)values->n);
    kvs_arrays_t device_outs, host_outs;

    if (outs != NULL) {
        device_outs = pretend_list(outs->on_device, (size_t)outs->n);
        host_outs = pretend_list(outs->on_host, (size_t)outs->n);
    }
    KT_OK(kvs_store_pushpull(pair->device, &key, 1, &device, outs ? &device_outs : NULL, NULL));
    KT_OK(kvs_store_pushpull(pair->host, &key, 1, &host, outs ? &host_outs : NULL, NULL));
}

static void both_push(const pair_t *pair, int64_t number, const arrays_t *values)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device = pretend_list(values->on_device, (size_t)values->n);
    kvs_arrays_t host = pretend_list(values->on_host, (size_t)values->n);

    KT_OK(kvs_store_push(pair->device, &key, 1, &device, NULL));
    KT_OK(kvs_store_push(pair->host, &key, 1, &host, NULL));
}

static void both_pull(const pair_t *pair, int64_t number, const arrays_t *outs)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device = pretend_list(outs->on_device, (size_t)outs->n);
    kvs_arrays_t host = pretend_list(outs->on_host, (size_t)outs->n);

    KT_OK(kvs_store_pull(pair->device, &key, 1, &device, NULL));
    KT_OK(kvs_store_pull(pair->host, &key, 1, &host, NULL));
}

/* ---- Sums ---------------------------------------------------------------------------------------- */

static void try_sums(int dtype, int64_t n_elems, int n_values, int mixed, int off)
{
    pair_t pair = open_pair("local");
    arrays_t weight, values, outs;

    make_arrays(&weight, 1, dtype, &n_elems, 0, off);
    make_arrays(&values, n_values, dtype, &n_elems, mixed, off);
    make_arrays(&outs, n_values + 1, dtype, &n_elems, mixed, off);
    both_init(&pair, 7, &weight);
    both_pull(&pair, 7, &outs);
    KT_INT(n_different(&outs), 0);
    both_pushpull(&pair, 7, &values, &outs);
    KT_INT(n_different(&outs), 0);
    both_push(&pair, 7, &values);
    both_pull(&pair, 7, &weight);
    KT_INT(n_different(&weight), 0);
    both_pushpull(&pair, 7, &values, NULL); /* in place */
    KT_INT(n_different(&values), 0);
    free_arrays(&weight);
    free_arrays(&values);
    free_arrays(&outs);
    close_pair(&pair);
}

static void sums_of_every_dtype_have_the_bits_of_the_host(void)
{
    int n_devices = pretend_n_devices();

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        try_sums(dtype, 1, n_devices, 0, 0);
        try_sums(dtype, 4099, 2 * n_devices + 1, 0, 0);
        try_sums(dtype, 131072 + 77, n_devices, 0, 0);
    }
}

static void big_arrays_are_cut_over_devices(void)
{
    try_sums(KVS_DTYPE_float32, 65536 * 9 + 5, pretend_n_devices(), 0, 0);
    try_sums(KVS_DTYPE_float16, 65536 * 3 + 1, 2 * pretend_n_devices(), 0, 0);
}

static void lists_may_mix_host_and_device_arrays(void)
{
    try_sums(KVS_DTYPE_float32, 200003, 7, 1, 0);
    try_sums(KVS_DTYPE_bfloat16, 1001, 5, 1, 0);
}

static void arrays_need_no_more_alignment_than_their_elements(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        try_sums(dtype, 5003, 3, 0, 1);
    }
}

static void outs_of_other_floating_dtypes_are_converted_to(void)
{
    int64_t n = 70001;

    for (int from = KVS_DTYPE_float32; from <= KVS_DTYPE_bfloat16; from++) {
        for (int to = KVS_DTYPE_float32; to <= KVS_DTYPE_bfloat16; to++) {
            pair_t pair = open_pair("local");
            arrays_t values, outs;

            make_arrays(&values, pretend_n_devices(), from, &n, 0, 0);
            make_arrays(&outs, pretend_n_devices() + 1, to, &n, 1, 0);
            both_init(&pair, 1, &values);
            both_pushpull(&pair, 1, &values, &outs);
            KT_INT(n_different(&outs), 0);
            free_arrays(&values);
            free_arrays(&outs);
            close_pair(&pair);
        }
    }
}

static void a_push_may_bring_other_arrays_than_the_last(void)
{
    int64_t n = 65536 * 4 + 9;
    pair_t pair = open_pair("local");
    arrays_t weight, some;

    make_arrays(&weight, 1, KVS_DTYPE_float32, &n, 0, 0);
    both_init(&pair, 1, &weight);
    for (int n_values = 1; n_values < 2 * pretend_n_devices() + 2; n_values++) {
        make_arrays(&some, n_values, KVS_DTYPE_float32, &n, n_values % 2, 0);
        both_pushpull(&pair, 1, &some, NULL);
        KT_INT(n_different(&some), 0);
        free_arrays(&some);
    }
    free_arrays(&weight);
    close_pair(&pair);
}

/* ---- Optimizers ----------------------------------------------------------------------------------- */

static void set_optimizer(const pair_t *pair, const char *name, int multi_precision)
{
    const kvs_param_t params[] = {
        {.name = "wd",
         .type = KVS_PARAM_FLOAT,
         .value.real = strcmp(name, "groupadagrad") == 0 ? 0 : 0.01},
        {.name = "rescale_grad", .type = KVS_PARAM_FLOAT, .value.real = 0.37},
        {.name = "clip_gradient", .type = KVS_PARAM_FLOAT, .value.real = 3.0},
        {.name = "multi_precision", .type = KVS_PARAM_BOOL, .value.integer = multi_precision}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = 4;
    KT_OK(kvs_store_set_optimizer(pair->device, &spec));
    KT_OK(kvs_store_set_optimizer(pair->host, &spec));
}

static void try_optimizer(const char *name, int dtype, int64_t n_elems, int multi_precision)
{
    pair_t pair = open_pair("local");
    arrays_t weight, values, outs;

    make_arrays(&weight, 1, dtype, &n_elems, 0, 0);
    both_init(&pair, 3, &weight);
    set_optimizer(&pair, name, multi_precision);
    for (int round = 0; round < 2; round++) {
        make_arrays(&values, pretend_n_devices(), dtype, &n_elems, 0, 0);
        make_arrays(&outs, pretend_n_devices(), dtype, &n_elems, 0, 0);
        both_pushpull(&pair, 3, &values, &outs);
        if (n_different(&outs) != 0) {
            printf("%s, dtype %d, %lld elements, round %d\n", name, dtype, (long long)n_elems,
                   round);
        }
        KT_INT(n_different(&outs), 0);
        free_arrays(&values);
        free_arrays(&outs);
    }
    free_arrays(&weight);
    close_pair(&pair);
}

static void reshape(arrays_t *arrays, int32_t ndim, const int64_t *shape)
{
    for (int i = 0; i < arrays->n; i++) {
        arrays->on_device[i].ndim = arrays->on_host[i].ndim = ndim;
        arrays->on_device[i].shape = arrays->on_host[i].shape = shape;
    }
}

/* Between rounds the key goes home for a file of states, and out again. */
static void try_rows(const int64_t *shape, int dtype, int multi_precision)
{
    pair_t pair = open_pair("local");
    int64_t n_elems = shape[0] * shape[1];
    arrays_t weight, values;
    char path[600];

    snprintf(path, sizeof(path), "%s/rows.states", kt_temp_dir());
    make_arrays(&weight, 1, dtype, &n_elems, 0, 0);
    reshape(&weight, 2, shape);
    both_init(&pair, 3, &weight);
    set_optimizer(&pair, "groupadagrad", multi_precision);
    for (int round = 0; round < 3; round++) {
        make_arrays(&values, pretend_n_devices(), dtype, &n_elems, 0, 0);
        reshape(&values, 2, shape);
        both_pushpull(&pair, 3, &values, NULL);
        reshape(&values, 1, &n_elems);
        KT_INT(n_different(&values), 0);
        free_arrays(&values);
        KT_OK(kvs_store_save_optimizer_states(pair.device, path, 0));
    }
    free_arrays(&weight);
    close_pair(&pair);
}

/* Rows of one element, of fewer than there are lanes, of as many; and longer than half types are summed
 * at a time, in a key that would be cut. */
static void states_per_row_have_the_bits_of_the_host(void)
{
    static const int64_t shapes[][2] = {{300, 1}, {41, 7}, {13, 16}, {9, 300}, {70, 2100}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int dtype = KVS_DTYPE_float32; dtype <= KVS_DTYPE_bfloat16; dtype++) {
            try_rows(shapes[i], dtype, 0);
        }
        try_rows(shapes[i], KVS_DTYPE_float16, 1);
    }
}

static void steps_of_every_optimizer_have_the_bits_of_the_host(void)
{
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        for (int dtype = KVS_DTYPE_float32; dtype <= KVS_DTYPE_bfloat16; dtype++) {
            try_optimizer(optimizers[i], dtype, 1003, 0);
        }
        try_optimizer(optimizers[i], KVS_DTYPE_float16, 515, 1);
        try_optimizer(optimizers[i], KVS_DTYPE_float32, 65536 * 2 + 11, 0);
    }
}

static void states_go_to_files_and_back(void)
{
    int64_t n = 65536 * 3 + 2;
    pair_t pair = open_pair("local");
    arrays_t values, outs;
    char path[4096];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    make_arrays(&values, pretend_n_devices(), KVS_DTYPE_float32, &n, 0, 0);
    make_arrays(&outs, pretend_n_devices(), KVS_DTYPE_float32, &n, 0, 0);
    both_init(&pair, 3, &values);
    set_optimizer(&pair, "adam", 0);
    both_pushpull(&pair, 3, &values, &outs);
    KT_OK(kvs_store_save_optimizer_states(pair.device, path, 1));
    KT_OK(kvs_store_load_optimizer_states(pair.host, path)); /* the device's states, on the host */
    both_pushpull(&pair, 3, &values, &outs);
    KT_INT(n_different(&outs), 0);
    KT_OK(kvs_store_load_optimizer_states(pair.device, path)); /* older states */
    KT_OK(kvs_store_load_optimizer_states(pair.host, path));
    both_pushpull(&pair, 3, &values, &outs);
    KT_INT(n_different(&outs), 0);
    free_arrays(&values);
    free_arrays(&outs);
    close_pair(&pair);
}

/* ---- Compression ------------------------------------------------------------------------------------ */

static void set_compression(const pair_t *pair, const char *type)
{
    const kvs_param_t params[] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value.text = type},
        {.name = "threshold", .type = KVS_PARAM_FLOAT, .value.real = 1.25},
    };

    KT_OK(kvs_store_set_gradient_compression(pair->device, params, 2));
    KT_OK(kvs_store_set_gradient_compression(pair->host, params, 2));
}

static void try_compression(const char *type, const char *optimizer, int64_t n_elems)
{
    pair_t pair = open_pair("device");
    arrays_t weight, values, outs;

    make_arrays(&weight, 1, KVS_DTYPE_float32, &n_elems, 0, 0);
    both_init(&pair, 3, &weight);
    if (optimizer != NULL) {
        set_optimizer(&pair, optimizer, 0);
    }
    set_compression(&pair, type);
    for (int round = 0; round < 4; round++) {
        make_arrays(&values, 1 + round, KVS_DTYPE_float32, &n_elems, 0, 0);
        make_arrays(&outs, pretend_n_devices(), KVS_DTYPE_float32, &n_elems, 0, 0);
        both_pushpull(&pair, 3, &values, &outs);
        KT_INT(n_different(&outs), 0);
        if (round == 1) {
            set_compression(&pair, type); /* residuals go home and come back */
        }
        free_arrays(&values);
        free_arrays(&outs);
    }
    free_arrays(&weight);
    close_pair(&pair);
}

static void compression_has_the_bits_of_the_host(void)
{
    for (int i = 0; i < 2; i++) {
        const char *type = i == 0 ? "1bit" : "2bit";

        try_compression(type, NULL, 37);
        try_compression(type, NULL, 65536 * 2 + 21);
        try_compression(type, "sgd", 70003);
    }
}

static void what_cannot_be_compressed_is_named_and_changes_nothing(void)
{
    int64_t n = 65536 * 2 + 5;
    float *bytes = calloc((size_t)n, sizeof(*bytes));
    pair_t pair = open_pair("device");
    kvs_key_t key = kvs_key_int(3);
    arrays_t values, outs;

    make_arrays(&values, pretend_n_devices(), KVS_DTYPE_float32, &n, 0, 0);
    make_arrays(&outs, 1, KVS_DTYPE_float32, &n, 0, 0);
    both_init(&pair, 3, &values);
    set_compression(&pair, "2bit");
    both_pushpull(&pair, 3, &values, &outs);
    bytes[n - 2] = 1.0f / 0.0f;
    kvs_tensor_t bad = pretend_array(0, KVS_DTYPE_float32, &n, bytes, 0);
    kvs_arrays_t list = pretend_list(&bad, 1);

    KT_FAIL(kvs_store_push(pair.device, &key, 1, &list, NULL), KVS_ERR_NON_FINITE,
            "element 131075 is infinite");
    both_pushpull(&pair, 3, &values, &outs);
    KT_INT(n_different(&outs), 0);
    pretend_free(&bad, 0);
    free(bytes);
    free_arrays(&values);
    free_arrays(&outs);
    close_pair(&pair);
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

static void pinned_and_managed_arrays_are_taken(void)
{
    int64_t n = 30011;
    const int32_t types[] = {KVS_DEVICE_CUDA_HOST, KVS_DEVICE_CUDA_MANAGED};
    pair_t pair = open_pair("local");
    kvs_key_t key = kvs_key_int(3);
    arrays_t values;
    float *got = malloc((size_t)n * sizeof(*got));

    make_arrays(&values, 1, KVS_DTYPE_float32, &n, 0, 0);
    both_init(&pair, 3, &values);
    for (int i = 0; i < 2; i++) {
        kvs_tensor_t list[2] = {values.on_device[0], values.on_device[0]};

        list[1].device = (kvs_device_t){types[i], 0};
        KT_OK(kvs_device_alloc(list[1].device, (size_t)n * 4, &list[1].data));
        memcpy(list[1].data, values.on_host[0].data, (size_t)n * 4);

        kvs_tensor_t twice[2] = {values.on_host[0], values.on_host[0]};
        kvs_arrays_t device = pretend_list(list, 2), host = pretend_list(twice, 2);
        kvs_arrays_t device_out = pretend_list(&list[1], 1);

        KT_OK(kvs_store_pushpull(pair.device, &key, 1, &device, &device_out, NULL));
        KT_OK(kvs_store_push(pair.host, &key, 1, &host, NULL));
        kvs_tensor_t out = KT_F32(got, n);
        host = pretend_list(&out, 1);
        KT_OK(kvs_store_pull(pair.host, &key, 1, &host, NULL));
        KT_INT(memcmp(got, list[1].data, (size_t)n * 4), 0);
        kvs_device_free(list[1].device, list[1].data, (size_t)n * 4);
    }
    free(got);
    free_arrays(&values);
    close_pair(&pair);
}

static void a_closed_store_leaves_no_memory_on_devices(void)
{
    if (driver.live == NULL) {
        return; /* others may use the device */
    }
    uint64_t before = driver.live(0);

    try_optimizer("adam", KVS_DTYPE_float16, 65536 * 2 + 3, 1);
    try_compression("2bit", "sgd", 65536 * 2 + 3);
    for (int i = 0; i < 2000 && driver.live(0) > before + 1024; i++) {
        int64_t n = 16; /* what was freed in order goes when its turn has come */
        kvs_tensor_t tensor = pretend_array(0, KVS_DTYPE_float32, &n, NULL, 0);
        float got[16];

        pretend_get(&tensor, got);
        pretend_free(&tensor, 0);
    }
    KT_TRUE(driver.live(0) <= before + 1024);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(sums_of_every_dtype_have_the_bits_of_the_host),
        KT_TEST(big_arrays_are_cut_over_devices),
        KT_TEST(lists_may_mix_host_and_device_arrays),
        KT_TEST(arrays_need_no_more_alignment_than_their_elements),
        KT_TEST(outs_of_other_floating_dtypes_are_converted_to),
        KT_TEST(a_push_may_bring_other_arrays_than_the_last),
        KT_TEST(steps_of_every_optimizer_have_the_bits_of_the_host),
        KT_TEST(states_per_row_have_the_bits_of_the_host),
        KT_TEST(states_go_to_files_and_back),
        KT_TEST(compression_has_the_bits_of_the_host),
        KT_TEST(what_cannot_be_compressed_is_named_and_changes_nothing),
        KT_TEST(pinned_and_managed_arrays_are_taken),
        KT_TEST(a_closed_store_leaves_no_memory_on_devices),
    };

    pretend_open();
    return kt_run("cuda_exchange", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
