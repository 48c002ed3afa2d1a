/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c - arrays of golden cases. Elements go through double, which holds every value the files
 * contain; conversions to half types are half.c's, not the library's. */
#include "golden.h"

#include "half.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXACT 9007199254740992.0 /* 2^53: whole numbers up to here are exact in a double */

/* ---- verdicts and JSON ---- */

static void set_verdict(golden_case_t *c, golden_verdict_t verdict, const char *format,
                        va_list args)
{
    if (c->verdict == GOLDEN_PASSED) {
        c->verdict = verdict;
        vsnprintf(c->reason, sizeof(c->reason), format, args);
    }
}

int golden_failed(golden_case_t *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_verdict(c, GOLDEN_FAILED, format, args);
    va_end(args);
    return 0;
}

int golden_skipped(golden_case_t *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_verdict(c, GOLDEN_SKIPPED, format, args);
    va_end(args);
    return 0;
}

int golden_ok(golden_case_t *c, kvs_status_t status, const char *what)
{
    if (status == KVS_OK) {
        return 1;
    }
    if (status == KVS_ERR_NOT_IMPLEMENTED || status == KVS_ERR_UNAVAILABLE) {
        return golden_skipped(c, "%s: %s", what, kvs_last_error());
    }
    return golden_failed(c, "%s: %s: %s", what, kvs_status_name(status), kvs_last_error());
}

const cJSON *golden_get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *golden_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(golden_get(object, name));

    return text != NULL ? text : "";
}

double golden_number(const cJSON *object, const char *name, double preset)
{
    const cJSON *item = golden_get(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : preset;
}

int golden_dtype(const char *name)
{
    for (int i = 0; i < KVS_N_DTYPES; i++) {
        if (strcmp(name, kvs_dtype_name(kvs_dtype(i))) == 0) {
            return i;
        }
    }
    return -1;
}

int golden_key(golden_case_t *c, const cJSON *json, kvs_key_t *ret_key)
{
    if (cJSON_IsString(json)) {
        *ret_key = kvs_key_str(json->valuestring);
        return 1;
    }
    if (!cJSON_IsNumber(json) || fabs(json->valuedouble) > MAX_EXACT) {
        return golden_failed(c, "a key is neither text nor a whole number below 2^53");
    }
    *ret_key = kvs_key_int((int64_t)json->valuedouble);
    return 1;
}

/* ---- elements ---- */

void golden_store(int dtype, void *data, size_t i, double value)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        ((float *)data)[i] = (float)value;
        break;
    case KVS_DTYPE_float64:
        ((double *)data)[i] = value;
        break;
    case KVS_DTYPE_float16:
        ((uint16_t *)data)[i] = half_from_double((float)value);
        break;
    case KVS_DTYPE_bfloat16:
        ((uint16_t *)data)[i] = bfloat_from_double((float)value);
        break;
    case KVS_DTYPE_int8:
        ((int8_t *)data)[i] = (int8_t)value;
        break;
    case KVS_DTYPE_uint8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case KVS_DTYPE_int32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    default:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    }
}

double golden_load(int dtype, const void *data, size_t i)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        return ((const float *)data)[i];
    case KVS_DTYPE_float64:
        return ((const double *)data)[i];
    case KVS_DTYPE_float16:
        return half_to_double(((const uint16_t *)data)[i]);
    case KVS_DTYPE_bfloat16:
        return bfloat_to_double(((const uint16_t *)data)[i]);
    case KVS_DTYPE_int8:
        return ((const int8_t *)data)[i];
    case KVS_DTYPE_uint8:
        return ((const uint8_t *)data)[i];
    case KVS_DTYPE_int32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

static int is_floating(kvs_dtype_t dtype)
{
    return dtype.code == KVS_CODE_FLOAT || dtype.code == KVS_CODE_BFLOAT;
}

static int agrees(const golden_case_t *c, kvs_dtype_t dtype, double got, double want)
{
    if (!is_floating(dtype)) {
        return got == want;
    }
    return fabs(got - want) <= c->atol + c->rtol * fabs(want); /* false for NaN */
}

/* ---- one array ---- */

/* Elements of one step of the first dimension. */
static size_t row_elems(const kvs_tensor_t *tensor)
{
    size_t n = 1;

    for (int32_t i = 1; i < tensor->ndim; i++) {
        n *= (size_t)tensor->shape[i];
    }
    return n;
}

static size_t data_elems(const kvs_tensor_t *tensor)
{
    int64_t n_rows = tensor->ndim > 0 ? tensor->shape[0] : 1;

    if (tensor->rows != NULL) {
        n_rows = tensor->rows->capacity;
    }
    return (size_t)n_rows * row_elems(tensor);
}

static size_t data_bytes(const kvs_tensor_t *tensor)
{
    return data_elems(tensor) * (tensor->dtype.bits / 8);
}

static void free_tensor(kvs_tensor_t *tensor)
{
    if (tensor->device.type == KVS_DEVICE_CUDA) {
        kvs_device_free(tensor->device, tensor->data, data_bytes(tensor));
    } else {
        free(tensor->data);
    }
    if (tensor->rows != NULL) {
        free(tensor->rows->ids);
    }
    free(tensor->rows);
    free((void *)tensor->shape);
}

int golden_n_devices(void)
{
    const char *text = getenv("KVSTORE_VECTORS_CUDA");

    return text != NULL ? atoi(text) : 0;
}

/* An array from host memory to the device of its place in a list, if there are any. */
static int put_on_device(golden_case_t *c, kvs_tensor_t *tensor, size_t place)
{
    const kvs_device_t host = {KVS_DEVICE_CPU, 0};
    size_t n_devices = (size_t)golden_n_devices();
    void *from = tensor->data, *to = NULL;

    if (n_devices == 0) {
        return 1;
    }
    kvs_device_t device = {KVS_DEVICE_CUDA, (int32_t)(place % n_devices)};

    if (!golden_ok(c, kvs_device_alloc(device, data_bytes(tensor), &to), "device_alloc")) {
        return 0;
    }
    tensor->device = device;
    tensor->data = to;
    kvs_status_t status = kvs_device_copy(device, to, host, from, data_bytes(tensor));

    free(from);
    return golden_ok(c, status, "device_copy");
}

/* Without `json` one dimension of `n_elems`. */
static int read_shape(golden_case_t *c, const cJSON *json, int n_elems, kvs_tensor_t *tensor)
{
    int64_t *shape = calloc((size_t)cJSON_GetArraySize(json) + 1, sizeof(*shape));
    const cJSON *dim;

    tensor->shape = shape;
    if (shape == NULL) {
        return golden_failed(c, "out of memory");
    }
    if (json == NULL) {
        shape[tensor->ndim++] = n_elems;
        return 1;
    }
    cJSON_ArrayForEach(dim, json)
    {
        shape[tensor->ndim++] = (int64_t)dim->valuedouble;
    }
    return 1;
}

/* Values of `data` one after the other, or, without them, bytes that no result is likely to have. */
static int fill_tensor(golden_case_t *c, kvs_tensor_t *tensor, const cJSON *data)
{
    int dtype = kvs_dtype_index(tensor->dtype);
    size_t n = data_elems(tensor);
    size_t i = 0;
    const cJSON *item;

    tensor->data = malloc(n * sizeof(int64_t) + 1);
    if (tensor->data == NULL) {
        return golden_failed(c, "out of memory");
    }
    memset(tensor->data, 0xA5, n * sizeof(int64_t) + 1);
    if (data == NULL) {
        return 1;
    }
    if ((size_t)cJSON_GetArraySize(data) != n) {
        return golden_failed(c, "an array of %zu elements comes with %d numbers", n,
                             cJSON_GetArraySize(data));
    }
    cJSON_ArrayForEach(item, data)
    {
        golden_store(dtype, tensor->data, i++, item->valuedouble);
    }
    return 1;
}

static int read_rows(golden_case_t *c, const cJSON *indices, golden_fill_t fill,
                     kvs_tensor_t *tensor)
{
    size_t n = (size_t)cJSON_GetArraySize(indices);
    kvs_rows_t *rows = calloc(1, sizeof(*rows));
    const cJSON *id;

    tensor->rows = rows;
    if (rows == NULL || (rows->ids = calloc(n + 1, sizeof(*rows->ids))) == NULL) {
        return golden_failed(c, "out of memory");
    }
    rows->capacity = (int64_t)n;
    if (fill == GOLDEN_OUTS) {
        return 1;
    }
    cJSON_ArrayForEach(id, indices)
    {
        rows->ids[rows->n_rows++] = (int64_t)id->valuedouble;
    }
    return 1;
}

static int read_tensor(golden_case_t *c, const char *dtype_name, const cJSON *shape,
                       const cJSON *data, const cJSON *indices, golden_fill_t fill,
                       kvs_tensor_t *tensor)
{
    int dtype = golden_dtype(dtype_name);

    *tensor = (kvs_tensor_t){.device = {KVS_DEVICE_CPU, 0}, .dtype = kvs_dtype(dtype)};
    if (dtype < 0) {
        return golden_failed(c, "unknown dtype \"%s\"", dtype_name);
    }
    if (!read_shape(c, shape, cJSON_GetArraySize(data), tensor) ||
        (indices != NULL && !read_rows(c, indices, fill, tensor))) {
        return 0;
    }
    return fill_tensor(c, tensor, fill == GOLDEN_VALUES ? data : NULL);
}

static int check_element(golden_case_t *c, const kvs_tensor_t *tensor, size_t i, double want,
                         const char *what)
{
    double got = golden_load(kvs_dtype_index(tensor->dtype), tensor->data, i);

    if (!agrees(c, tensor->dtype, got, want)) {
        return golden_failed(c, "%s, element %zu: got %.9g, want %.9g (rtol %g, atol %g)", what, i,
                             got, want, c->rtol, c->atol);
    }
    return 1;
}

static int check_on_host(golden_case_t *c, const kvs_tensor_t *tensor, const cJSON *data,
                         const char *what)
{
    size_t i = 0;
    const cJSON *want;

    if ((size_t)cJSON_GetArraySize(data) != data_elems(tensor)) {
        return golden_failed(c, "%s: the expected data do not fill the shape", what);
    }
    cJSON_ArrayForEach(want, data)
    {
        if (!check_element(c, tensor, i++, want->valuedouble, what)) {
            return 0;
        }
    }
    return 1;
}

int golden_check_flat(golden_case_t *c, const kvs_tensor_t *tensor, const cJSON *data,
                      const char *what)
{
    kvs_tensor_t copy = *tensor;
    int ok;

    if (tensor->device.type != KVS_DEVICE_CUDA) {
        return check_on_host(c, tensor, data, what);
    }
    copy.device = (kvs_device_t){KVS_DEVICE_CPU, 0};
    copy.data = malloc(data_bytes(tensor) + 1);
    ok = copy.data != NULL ? golden_ok(c,
                                       kvs_device_copy(copy.device, copy.data, tensor->device,
                                                       tensor->data, data_bytes(tensor)),
                                       "device_copy")
                           : golden_failed(c, "out of memory");
    ok = ok && check_on_host(c, &copy, data, what);
    free(copy.data);
    return ok;
}

static int check_rows(golden_case_t *c, const kvs_tensor_t *tensor, const cJSON *indices,
                      const char *what)
{
    int64_t n = 0;
    const cJSON *want;

    if (tensor->rows->n_rows != cJSON_GetArraySize(indices)) {
        return golden_failed(c, "%s: got %lld rows, want %d", what, (long long)tensor->rows->n_rows,
                             cJSON_GetArraySize(indices));
    }
    cJSON_ArrayForEach(want, indices)
    {
        if ((double)tensor->rows->ids[n] != want->valuedouble) {
            return golden_failed(c, "%s: row %lld has id %lld, want %.0f", what, (long long)n,
                                 (long long)tensor->rows->ids[n], want->valuedouble);
        }
        n++;
    }
    return 1;
}

/* ---- lists ---- */

static kvs_tensor_t *append(golden_case_t *c, golden_list_t *list, const cJSON *source)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 8;
        kvs_tensor_t *tensors = realloc(list->tensors, capacity * sizeof(*tensors));
        list->tensors = tensors != NULL ? tensors : list->tensors;
        const cJSON **sources = realloc(list->source, capacity * sizeof(*sources));
        list->source = sources != NULL ? sources : list->source;
        if (tensors == NULL || sources == NULL) {
            golden_failed(c, "out of memory");
            return NULL;
        }
        list->capacity = capacity;
    }
    list->source[list->n] = source;
    return &list->tensors[list->n++];
}

void golden_list_end_key(golden_list_t *list, size_t n_arrays)
{
    size_t *per_key = realloc(list->per_key, (list->n_keys + 1) * sizeof(*per_key));

    if (per_key == NULL) {
        abort(); /* a test: there is nothing to save */
    }
    list->per_key = per_key;
    list->per_key[list->n_keys++] = n_arrays;
}

int golden_list_add_flat(golden_case_t *c, const char *dtype, const cJSON *shape, const cJSON *data,
                         golden_fill_t fill, golden_list_t *list)
{
    kvs_tensor_t *tensor = append(c, list, data);

    return tensor != NULL && read_tensor(c, dtype, shape, data, NULL, fill, tensor) &&
           put_on_device(c, tensor, list->n - 1);
}

static int add_object(golden_case_t *c, const cJSON *object, golden_fill_t fill, int32_t device_id,
                      golden_list_t *list)
{
    const cJSON *indices = golden_get(object, "indices");
    kvs_tensor_t *tensor = append(c, list, object);

    if (tensor == NULL || !read_tensor(c, golden_text(object, "dtype"), golden_get(object, "shape"),
                                       golden_get(object, "data"), indices, fill, tensor)) {
        return 0;
    }
    tensor->device.id = device_id;
    return put_on_device(c, tensor, (size_t)device_id);
}

int golden_list_read(golden_case_t *c, const cJSON *json, golden_fill_t fill, golden_list_t *list)
{
    const cJSON *of_key;
    const cJSON *object;

    cJSON_ArrayForEach(of_key, json)
    {
        int32_t n = 0;

        if (cJSON_IsObject(of_key)) {
            if (!add_object(c, of_key, fill, n++, list)) {
                return 0;
            }
        } else {
            cJSON_ArrayForEach(object, of_key)
            {
                if (!add_object(c, object, fill, n++, list)) {
                    return 0;
                }
            }
        }
        golden_list_end_key(list, (size_t)n);
    }
    return 1;
}

void golden_list_release(golden_list_t *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free_tensor(&list->tensors[i]);
    }
    free(list->tensors);
    free(list->source);
    free(list->per_key);
    *list = (golden_list_t)GOLDEN_LIST_INIT;
}

kvs_arrays_t golden_list_arrays(const golden_list_t *list)
{
    return (kvs_arrays_t){list->tensors, list->n, list->per_key, list->n_keys};
}

int golden_list_check(golden_case_t *c, const golden_list_t *list, const golden_list_t *expect,
                      const char *what)
{
    if (list->n != expect->n) {
        return golden_failed(c, "%s: %zu arrays, but %zu are expected", what, list->n, expect->n);
    }
    for (size_t i = 0; i < list->n; i++) {
        const kvs_tensor_t *got = &list->tensors[i];
        const cJSON *want = expect->source[i];
        char where[96];

        snprintf(where, sizeof(where), "%s: array %zu", what, i);
        if (got->rows != NULL && !check_rows(c, got, golden_get(want, "indices"), where)) {
            return 0;
        }
        if (!golden_check_flat(c, got, golden_get(want, "data"), where)) {
            return 0;
        }
    }
    return 1;
}
