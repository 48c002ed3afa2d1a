/* test_@name@.c - what this backend does, through the interface that programs use. What every backend
 * has to do is tested by `kvstore conformance @name@`. */
#include <kvstore/kvstore.h>

#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, kvs_last_error());
    return 1;
}

int main(void)
{
    const int64_t shape[1] = {3};
    float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, sum[3] = {0, 0, 0};
    kvs_tensor_t values[2], out = {.data = sum,
                                   .device = {KVS_DEVICE_CPU, 0},
                                   .ndim = 1,
                                   .dtype = kvs_dtype(KVS_DTYPE_float32),
                                   .shape = shape};
    kvs_arrays_t in = kvs_arrays(values, 2), outs = kvs_arrays(&out, 1);
    kvs_key_t key = kvs_key_str("weight");
    kvs_store_t *store;

    values[0] = values[1] = out;
    values[0].data = a;
    values[1].data = b;
    if (kvs_store_create("@name@", NULL, 0, &store) != KVS_OK) {
        return failed("create");
    }
    if (kvs_store_pushpull(store, &key, 1, &in, &outs, NULL) != KVS_OK) {
        return failed("pushpull");
    }
    if (kvs_store_close(store) != KVS_OK) {
        return failed("close");
    }
    for (int i = 0; i < 3; i++) {
        if (sum[i] != a[i] + b[i]) {
            fprintf(stderr, "element %d of the sum is %g, want %g\n", i, sum[i], a[i] + b[i]);
            return 1;
        }
    }
    return 0;
}
