/* SPDX-License-Identifier: Apache-2.0 */
/* cases_allreduce.c - what backends that keep no weights may offer beside the sum: see kvstore/allreduce.h.
 * Where one does not, it says so, and the rule is not applicable. */
#include "themes.h"

#include <kvstore/allreduce.h>

enum { N = 9 };

/* False: the backend has only sums, and has said so. */
static bool reduce(cf_t *t, uint32_t how, cf_array_t *value)
{
    kvs_key_t key = cf_key(t, (int)how);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_status_t status;

    call.reduce = how;
    status = kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), NULL, &call);
    if (status == KVS_ERR_NOT_IMPLEMENTED) {
        cf_want_part(t, "the text", kvs_last_error(), "not implemented");
        cf_skip(t, "the backend has sums only");
        return false;
    }
    CF_OK(t, status);
    return true;
}

static int floor_of(int a, int b)
{
    return a / b - (a % b < 0);
}

static void average(cf_t *t)
{
    cf_array_t *real = cf_const(t, KVS_DTYPE_float64, N, t->rank + 0.5);
    cf_array_t *whole = cf_const(t, KVS_DTYPE_int32, N, t->rank == 0 ? -7 : 2);

    if (reduce(t, KVS_REDUCE_AVERAGE, real) && reduce(t, KVS_REDUCE_AVERAGE, whole)) {
        cf_want_all(t, "average", real, t->n_workers / 2.0);
        cf_want_all(t, "average of integers", whole,
                    floor_of(-7 + 2 * (t->n_workers - 1), t->n_workers));
    }
}

static void extremes(cf_t *t)
{
    cf_array_t *least = cf_const(t, KVS_DTYPE_float32, N, 10 - t->rank);
    cf_array_t *most = cf_const(t, KVS_DTYPE_int64, N, 10 - t->rank);

    if (reduce(t, KVS_REDUCE_MIN, least) && reduce(t, KVS_REDUCE_MAX, most)) {
        cf_want_all(t, "least", least, 11 - t->n_workers);
        cf_want_all(t, "greatest", most, 10);
    }
}

static void gather(cf_t *t)
{
    int n = t->n_workers, at = 0;
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, t->rank + 1, t->rank);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, n * (n + 1) / 2);
    kvs_status_t status = kvs_allgather(t->store, cf_key(t, 1), &value->tensor, &out->tensor);

    if (status == KVS_ERR_NOT_IMPLEMENTED) {
        cf_skip(t, "the backend has no allgather");
        return;
    }
    CF_OK(t, status);
    for (int rank = 0; rank < n; rank++) {
        for (int i = 0; i <= rank; i++) {
            cf_want_at(t, "element", out, at++, rank);
        }
    }
}

static const cf_case_t cases[] = {
    {"allreduce.average", "An average is the sum over the workers; of integers it is rounded down.",
     CF_NO_WEIGHTS, average},
    {"allreduce.extremes", "A minimum or maximum is that of each element over the workers.",
     CF_NO_WEIGHTS, extremes},
    {"allreduce.gather", "allgather puts the workers' values one behind the other, by rank.",
     CF_NO_WEIGHTS, gather},
};

const cf_theme_t cf_theme_allreduce = CF_THEME(cases);
