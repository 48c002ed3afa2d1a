/* SPDX-License-Identifier: Apache-2.0 */
/* job_big.c - an array of more than 2^31 elements, cut over servers. */
#include "job.h"

#include <stdlib.h>

static void more_than_2_to_the_31_elements(void)
{
    const int64_t n = ((int64_t)1 << 31) + 8;
    job_t job = job_open(NULL, 0);
    kvs_key_t key = kvs_key_int(1);
    int8_t *data = calloc((size_t)n, 1);
    kvs_tensor_t tensor = kt_tensor(data, KVS_DTYPE_int8, &n, 1);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    int64_t n_wrong = 0;

    KT_TRUE(data != NULL);
    if (data == NULL) {
        return;
    }
    KT_OK(kvs_store_init(job.store, &key, 1, &arrays, NULL));
    for (int64_t i = 0; i < n; i++) {
        data[i] = (int8_t)(i % 113);
    }
    KT_OK(kvs_store_pushpull(job.store, &key, 1, &arrays, NULL, NULL)); /* in place */
    for (int64_t i = 0; i < n; i++) {
        n_wrong += data[i] != (int8_t)(i % 113 * job.n_workers);
    }
    KT_INT(n_wrong, 0);
    free(data);
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(more_than_2_to_the_31_elements),
};

KT_MAIN("job_big", tests)
