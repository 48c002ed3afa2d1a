/* SPDX-License-Identifier: Apache-2.0 */
/* holder.c BACKEND - a program that has a store open while packages come and go.
 *
 * Works with the store, prints "open", waits for a line, works with it again, closes it, and tries to
 * create another. What it prints is the test's to judge. */
#include <kvstore/kvstore.h>

#include <stdio.h>

/* Sums two arrays under a new key; 0 if the sum is right. */
static int work(kvs_store_t *store, const char *key_text)
{
    const int64_t shape[1] = {2};
    float zero[2] = {0, 0}, a[2] = {1, 2}, b[2] = {10, 20}, sum[2] = {0, 0};
    kvs_tensor_t out = {.data = sum,
                        .device = {KVS_DEVICE_CPU, 0},
                        .ndim = 1,
                        .dtype = kvs_dtype(KVS_DTYPE_float32),
                        .shape = shape};
    kvs_tensor_t start = out, values[2] = {out, out};
    kvs_arrays_t starts = kvs_arrays(&start, 1), in = kvs_arrays(values, 2),
                 outs = kvs_arrays(&out, 1);
    kvs_key_t key = kvs_key_str(key_text);

    start.data = zero;
    values[0].data = a;
    values[1].data = b;
    if (kvs_store_init(store, &key, 1, &starts, NULL) != KVS_OK ||
        kvs_store_pushpull(store, &key, 1, &in, &outs, NULL) != KVS_OK) {
        printf("failed: %s\n", kvs_last_error());
        return 1;
    }
    printf("sum: %g %g\n", sum[0], sum[1]);
    return 0;
}

int main(int argc, char **argv)
{
    kvs_store_t *store = NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 || kvs_store_create(argv[1], NULL, 0, &store) != KVS_OK) {
        printf("refused: %s\n", kvs_last_error());
        return 1;
    }
    if (work(store, "before") != 0) {
        return 1;
    }
    puts("open");
    if (getchar() == EOF || work(store, "after") != 0 || kvs_store_close(store) != KVS_OK) {
        return 1;
    }
    if (kvs_store_create(argv[1], NULL, 0, &store) == KVS_OK) {
        puts("created again");
        return kvs_store_close(store) != KVS_OK;
    }
    printf("refused: %s\n", kvs_last_error());
    return 0;
}
