/* SPDX-License-Identifier: Apache-2.0 */
/* case.c - the run's memory, what is wanted of values, and calls in one line. */
#include "case.h"

#include "number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS      20000
#define MARGIN_BYTES 64
#define MARGIN_BYTE  0xA5

/* ---- Verdicts -------------------------------------------------------------------------------- */

void cf_fail(cf_t *t, const char *format, ...)
{
    va_list args;

    if (t->failed) {
        return;
    }
    t->failed = true;
    va_start(args, format);
    vsnprintf(t->text, sizeof(t->text), format, args);
    va_end(args);
}

void cf_skip(cf_t *t, const char *format, ...)
{
    va_list args;

    if (t->failed || t->skipped) {
        return;
    }
    t->skipped = true;
    va_start(args, format);
    vsnprintf(t->text, sizeof(t->text), format, args);
    va_end(args);
}

void cf_check_ok(cf_t *t, kvs_status_t status, const char *expr)
{
    if (status != KVS_OK) {
        cf_fail(t, "%s: got %s \"%s\", want success", expr, kvs_status_name(status),
                kvs_last_error());
    }
}

void cf_check_fail(cf_t *t, kvs_status_t status, kvs_status_t want, const char *part,
                   const char *expr)
{
    if (status == KVS_OK) {
        cf_fail(t, "%s: got success, want %s", expr, kvs_status_name(want));
    } else if (status != want || strstr(kvs_last_error(), part) == NULL) {
        cf_fail(t, "%s: got %s \"%s\", want %s with a text that holds \"%s\"", expr,
                kvs_status_name(status), kvs_last_error(), kvs_status_name(want), part);
    }
}

void cf_check_refused(cf_t *t, kvs_status_t status, const char *part, const char *expr)
{
    if (status == KVS_OK) {
        cf_fail(t, "%s: got success, want an error", expr);
    } else if (kvs_last_error()[0] == '\0' || strstr(kvs_last_error(), part) == NULL) {
        cf_fail(t, "%s: got %s \"%s\", want a text that holds \"%s\"", expr,
                kvs_status_name(status), kvs_last_error(), part);
    }
}

void cf_want_true(cf_t *t, bool holds, const char *what)
{
    if (!holds) {
        cf_fail(t, "%s: does not hold", what);
    }
}

void cf_want_number(cf_t *t, const char *what, int64_t got, int64_t want)
{
    if (got != want) {
        cf_fail(t, "%s: got %lld, want %lld", what, (long long)got, (long long)want);
    }
}

void cf_want_text(cf_t *t, const char *what, const char *got, const char *want)
{
    if (got == NULL || strcmp(got, want) != 0) {
        cf_fail(t, "%s: got \"%s\", want \"%s\"", what, got ? got : "(null)", want);
    }
}

void cf_want_part(cf_t *t, const char *what, const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL) {
        cf_fail(t, "%s: got \"%s\", want a text that holds \"%s\"", what, text ? text : "(null)",
                part);
    }
}

/* ---- Blocks of elements: a device's memory is not for reading one by one ----------------------- */

static const char *window_at(const cf_t *t, cf_window_t *window, int64_t i)
{
    const size_t size = cf_dtype_bytes(window->array->dtype);

    if (i < window->first || i >= window->first + window->n) {
        int64_t rest = window->array->n_elems - i;

        window->first = i;
        window->n = rest < CF_BLOCK ? rest : CF_BLOCK;
        t->memory->read((const char *)window->array->tensor.data + (size_t)i * size, window->bytes,
                        (size_t)window->n * size);
    }
    return window->bytes + (size_t)(i - window->first) * size;
}

double cf_peek(const cf_t *t, cf_window_t *window, int64_t i)
{
    return cf_decode(window->array->dtype, window_at(t, window, i));
}

void cf_set_each(const cf_t *t, cf_array_t *array, cf_number_t number, void *arg)
{
    const size_t size = cf_dtype_bytes(array->dtype);
    char bytes[CF_BLOCK * 8];

    for (int64_t first = 0; first < array->n_elems; first += CF_BLOCK) {
        int64_t rest = array->n_elems - first, n = rest < CF_BLOCK ? rest : CF_BLOCK;

        for (int64_t i = 0; i < n; i++) {
            cf_encode(array->dtype, number(arg, first + i), bytes + (size_t)i * size);
        }
        t->memory->write((char *)array->tensor.data + (size_t)first * size, bytes,
                         (size_t)n * size);
    }
}

static void want_number(cf_t *t, const char *what, const cf_array_t *array, int64_t i, double got,
                        double want)
{
    if (got != want && !(isnan(got) && isnan(want))) {
        cf_fail(t, "%s, %s, element %lld of %lld: got %.17g, want %.17g", what,
                kvs_dtype_name(array->tensor.dtype), (long long)i, (long long)array->n_elems, got,
                want);
    }
}

void cf_want_at(cf_t *t, const char *what, const cf_array_t *array, int64_t i, double want)
{
    want_number(t, what, array, i, cf_get(t, array, i), want);
}

void cf_want_all(cf_t *t, const char *what, const cf_array_t *array, double want)
{
    cf_window_t window = {.array = array};

    for (int64_t i = 0; i < array->n_elems && !t->failed; i++) {
        want_number(t, what, array, i, cf_peek(t, &window, i), want);
    }
}

void cf_want_sum(cf_t *t, const char *what, const cf_array_t *array, int n_places)
{
    cf_window_t window = {.array = array};

    for (int64_t i = 0; i < array->n_elems && !t->failed; i++) {
        want_number(t, what, array, i, cf_peek(t, &window, i), cf_sum(t, n_places, i));
    }
}

void cf_want_same(cf_t *t, const char *what, const cf_array_t *got, const cf_array_t *want)
{
    const size_t size = cf_dtype_bytes(got->dtype);
    cf_window_t got_window = {.array = got}, want_window = {.array = want};
    uint64_t a = 0, b = 0;

    for (int64_t i = 0; i < got->n_elems; i++) {
        memcpy(&a, window_at(t, &got_window, i), size);
        memcpy(&b, window_at(t, &want_window, i), size);
        if (a != b) {
            cf_fail(t, "%s, %s, element %lld: got bits %llx, want %llx", what,
                    kvs_dtype_name(got->tensor.dtype), (long long)i, (unsigned long long)a,
                    (unsigned long long)b);
            return;
        }
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

typedef struct cf_block {
    struct cf_block *next;
    max_align_t data[];
} cf_block_t;

static void *no_memory(cf_t *t)
{
    cf_fail(t, "the suite is out of memory");
    longjmp(t->out_of_memory, 1);
}

void *cf_alloc(cf_t *t, size_t n_bytes)
{
    cf_block_t *block = calloc(1, sizeof(*block) + n_bytes);

    if (block == NULL) {
        return no_memory(t);
    }
    block->next = t->blocks;
    t->blocks = block;
    return block->data;
}

static void write_margins(const cf_t *t, cf_array_t *array)
{
    char margin[MARGIN_BYTES];

    memset(margin, MARGIN_BYTE, sizeof(margin));
    t->memory->write(array->memory, margin, sizeof(margin));
    t->memory->write(array->memory + MARGIN_BYTES + array->n_bytes, margin, sizeof(margin));
}

static bool margin_is_whole(const cf_t *t, const char *at)
{
    unsigned char margin[MARGIN_BYTES];

    t->memory->read(at, margin, sizeof(margin));
    for (size_t i = 0; i < sizeof(margin); i++) {
        if (margin[i] != MARGIN_BYTE) {
            return false;
        }
    }
    return true;
}

void cf_check_margins(cf_t *t)
{
    for (const cf_array_t *array = t->arrays; array != NULL; array = array->next) {
        if (!margin_is_whole(t, array->memory)) {
            cf_fail(t, "something was written in front of an array of %lld elements of %s",
                    (long long)array->n_elems, kvs_dtype_name(array->tensor.dtype));
        }
        if (!margin_is_whole(t, array->memory + MARGIN_BYTES + array->n_bytes)) {
            cf_fail(t, "something was written behind an array of %lld elements of %s",
                    (long long)array->n_elems, kvs_dtype_name(array->tensor.dtype));
        }
    }
}

void cf_release(cf_t *t)
{
    for (cf_array_t *array = t->arrays; array != NULL; array = array->next) {
        t->memory->free(array->memory);
    }
    t->arrays = NULL; /* the structs themselves are blocks */
    while (t->blocks != NULL) {
        cf_block_t *next = t->blocks->next;

        free(t->blocks);
        t->blocks = next;
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

kvs_key_t cf_key(const cf_t *t, int n)
{
    return kvs_key_int((int64_t)(t->number + 1) * 1000 + n);
}

kvs_key_t cf_name(cf_t *t, int n)
{
    char *name = cf_alloc(t, 32);

    snprintf(name, 32, "case-%zu/%d", t->number, n);
    return kvs_key_str(name);
}

const char *cf_key_text(cf_t *t, kvs_key_t key)
{
    char *text;

    if (key.str != NULL) {
        return key.str;
    }
    text = cf_alloc(t, 24);
    snprintf(text, 24, "%lld", (long long)key.num);
    return text;
}

/* ---- Arrays and numbers ---------------------------------------------------------------------- */

cf_array_t *cf_new(cf_t *t, int dtype, int32_t ndim, const int64_t *shape)
{
    cf_array_t *array = cf_alloc(t, sizeof(*array));
    char *zeros;

    array->n_elems = 1;
    for (int32_t i = 0; i < ndim; i++) {
        array->shape[i] = shape[i];
        array->n_elems *= shape[i];
    }
    array->dtype = dtype;
    array->n_bytes = (size_t)array->n_elems * cf_dtype_bytes(dtype);
    zeros = calloc(1, array->n_bytes + 1);
    array->memory = zeros ? t->memory->alloc(array->n_bytes + 2 * MARGIN_BYTES) : NULL;
    if (array->memory == NULL) {
        free(zeros);
        return no_memory(t);
    }
    t->memory->write(array->memory + MARGIN_BYTES, zeros, array->n_bytes);
    free(zeros);
    write_margins(t, array);
    array->tensor.data = array->memory + MARGIN_BYTES;
    array->tensor.device.type = t->memory->device_type;
    array->tensor.ndim = ndim;
    array->tensor.dtype = kvs_dtype(dtype);
    array->tensor.shape = array->shape;
    array->next = t->arrays;
    t->arrays = array;
    return array;
}

cf_array_t *cf_vector(cf_t *t, int dtype, int64_t n_elems)
{
    return cf_new(t, dtype, 1, &n_elems);
}

cf_array_t *cf_const(cf_t *t, int dtype, int64_t n_elems, double value)
{
    cf_array_t *array = cf_vector(t, dtype, n_elems);

    cf_set_all(t, array, value);
    return array;
}

static double given_number(void *arg, int64_t i)
{
    const double *const *values = arg;

    return (*values)[i];
}

cf_array_t *cf_values(cf_t *t, int dtype, int64_t n_elems, const double *values)
{
    cf_array_t *array = cf_vector(t, dtype, n_elems);

    cf_set_each(t, array, given_number, &values);
    return array;
}

cf_array_t *cf_ranked(cf_t *t, int dtype, int64_t n_elems, int place)
{
    cf_array_t *array = cf_vector(t, dtype, n_elems);

    cf_fill_ranked(t, array, place);
    return array;
}

static double ranked_number(void *arg, int64_t i)
{
    const int *rank_and_place = arg;

    return cf_value(rank_and_place[0], rank_and_place[1], i);
}

void cf_fill_ranked(const cf_t *t, cf_array_t *array, int place)
{
    int rank_and_place[] = {t->rank, place};

    cf_set_each(t, array, ranked_number, rank_and_place);
}

double cf_value(int rank, int place, int64_t i)
{
    return (double)((rank + 2 * place + i) % 5);
}

double cf_sum(const cf_t *t, int n_places, int64_t i)
{
    double sum = 0;

    for (int rank = 0; rank < t->n_workers; rank++) {
        for (int place = 0; place < n_places; place++) {
            sum += cf_value(rank, place, i);
        }
    }
    return sum;
}

static void *element(const cf_array_t *array, int64_t i)
{
    return (char *)array->tensor.data + (size_t)i * cf_dtype_bytes(array->dtype);
}

void cf_set(const cf_t *t, cf_array_t *array, int64_t i, double value)
{
    char bytes[8];

    cf_encode(array->dtype, value, bytes);
    t->memory->write(element(array, i), bytes, cf_dtype_bytes(array->dtype));
}

double cf_get(const cf_t *t, const cf_array_t *array, int64_t i)
{
    char bytes[8];

    t->memory->read(element(array, i), bytes, cf_dtype_bytes(array->dtype));
    return cf_decode(array->dtype, bytes);
}

void cf_set_int(const cf_t *t, cf_array_t *array, int64_t i, int64_t value)
{
    char bytes[8];

    cf_encode_int(array->dtype, value, bytes);
    t->memory->write(element(array, i), bytes, cf_dtype_bytes(array->dtype));
}

int64_t cf_get_int(const cf_t *t, const cf_array_t *array, int64_t i)
{
    char bytes[8];

    t->memory->read(element(array, i), bytes, cf_dtype_bytes(array->dtype));
    return cf_decode_int(array->dtype, bytes);
}

static double same_number(void *arg, int64_t i)
{
    (void)i;
    return *(double *)arg;
}

void cf_set_all(const cf_t *t, cf_array_t *array, double value)
{
    cf_set_each(t, array, same_number, &value);
}

double cf_round(int dtype, double value)
{
    char bytes[8];

    cf_encode(dtype, value, bytes);
    return cf_decode(dtype, bytes);
}

bool cf_has_dtype(cf_t *t, int dtype)
{
    kvs_device_t device = {t->memory->device_type, 0};
    int supported = 0;

    CF_OK(t, kvs_store_supports(t->store, kvs_dtype(dtype), device, &supported));
    return supported != 0;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

const kvs_arrays_t *cf_list(cf_t *t, size_t n, cf_array_t *const *arrays)
{
    kvs_tensor_t *tensors = cf_alloc(t, n * sizeof(*tensors));
    kvs_arrays_t *list = cf_alloc(t, sizeof(*list));

    for (size_t i = 0; i < n; i++) {
        tensors[i] = arrays[i]->tensor;
    }
    list->tensors = tensors;
    list->n = n;
    return list;
}

const kvs_arrays_t *cf_split(cf_t *t, const kvs_arrays_t *list, size_t n, const size_t *per_key)
{
    kvs_arrays_t *split = cf_alloc(t, sizeof(*split));
    size_t *copy = cf_alloc(t, n * sizeof(*copy));

    memcpy(copy, per_key, n * sizeof(*copy));
    *split = *list;
    split->per_key = copy;
    split->n_per_key = n;
    return split;
}

void cf_init(cf_t *t, kvs_key_t key, cf_array_t *value)
{
    CF_OK(t, kvs_store_init(t->store, &key, 1, CF_LIST(t, value), NULL));
}

void cf_push(cf_t *t, kvs_key_t key, const kvs_arrays_t *values)
{
    CF_OK(t, kvs_store_push(t->store, &key, 1, values, NULL));
}

void cf_pull(cf_t *t, kvs_key_t key, cf_array_t *out)
{
    CF_OK(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, out), NULL));
}

void cf_pushpull(cf_t *t, kvs_key_t key, const kvs_arrays_t *values, const kvs_arrays_t *outs)
{
    CF_OK(t, kvs_store_pushpull(t->store, &key, 1, values, outs, NULL));
}

bool cf_keeps_weights(const cf_t *t)
{
    return (t->traits & CF_WEIGHTS) != 0;
}

void cf_reduce(cf_t *t, kvs_key_t key, const kvs_arrays_t *values, cf_array_t *out)
{
    if (!cf_keeps_weights(t)) {
        cf_pushpull(t, key, values, CF_LIST(t, out));
        return;
    }
    cf_init(t, key, cf_new(t, out->dtype, out->tensor.ndim, out->shape));
    cf_push(t, key, values);
    cf_pull(t, key, out);
}

void cf_use(cf_t *t, kvs_key_t key, cf_array_t *value)
{
    if (cf_keeps_weights(t)) {
        cf_init(t, key, value);
    } else {
        cf_array_t *out = cf_new(t, value->dtype, value->tensor.ndim, value->shape);

        cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, out));
    }
}

kvs_status_t cf_create(const cf_t *t, const char *name, kvs_store_t **ret_store)
{
    return kvs_store_create(name ? name : t->backend, t->options, t->n_options, ret_store);
}

kvs_call_t cf_call(kvs_event_t **ret_event)
{
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = ret_event;
    return call;
}

void cf_finish(cf_t *t, kvs_event_t *event)
{
    if (event == NULL) {
        cf_fail(t, "a call with ret_event gave no event");
        return;
    }
    CF_OK(t, kvs_event_wait(event, WAIT_MS));
    kvs_event_free(event);
}
