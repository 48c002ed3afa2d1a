/* SPDX-License-Identifier: Apache-2.0 */
/* outside.c - a host that knows nothing but the installed prefix: create, init, push, pull. */
#include <kvstore/kvstore.h>

#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, kvs_last_error());
    return 1;
}

int main(void)
{
    const int64_t shape[1] = {2};
    float weight[2] = {1, 2}, gradient[2] = {10, 20}, out[2] = {0, 0};
    kvs_tensor_t tensor = {0};
    kvs_store_t *store = NULL;
    kvs_key_t key = kvs_key_str("w");
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    tensor.device.type = KVS_DEVICE_CPU;
    tensor.dtype = kvs_dtype(KVS_DTYPE_float32);
    tensor.ndim = 1;
    tensor.shape = shape;
    if (kvs_store_create("local", NULL, 0, &store) != KVS_OK) {
        return failed("create");
    }
    tensor.data = weight;
    if (kvs_store_init(store, &key, 1, &arrays, NULL) != KVS_OK) {
        return failed("init");
    }
    tensor.data = gradient;
    if (kvs_store_push(store, &key, 1, &arrays, NULL) != KVS_OK) {
        return failed("push");
    }
    tensor.data = out;
    if (kvs_store_pull(store, &key, 1, &arrays, NULL) != KVS_OK) {
        return failed("pull");
    }
    if (kvs_store_close(store) != KVS_OK) {
        return failed("close");
    }
    printf("kvstore %s: %g %g\n", kvs_version(), out[0], out[1]);
    return out[0] == 10 && out[1] == 20 ? 0 : 1;
}
