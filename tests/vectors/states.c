/* SPDX-License-Identifier: Apache-2.0 */
/* states.c - see states.h. Tensors are looked at where they lie in the file's bytes. */
#include "states.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct state_file {
    char *bytes;
    size_t n_bytes;
    cJSON *header;
    const char *data; /* behind the header */
} state_file_t;

static char *read_all(const char *path, size_t *ret_n_bytes)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long n = -1;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (n = ftell(file)) >= 0) {
        rewind(file);
        bytes = malloc((size_t)n + 1);
        if (bytes != NULL && fread(bytes, 1, (size_t)n, file) != (size_t)n) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    *ret_n_bytes = n >= 0 ? (size_t)n : 0;
    return bytes;
}

static int open_file(golden_case_t *c, const char *path, state_file_t *file)
{
    uint64_t n_header = 0;

    file->bytes = read_all(path, &file->n_bytes);
    if (file->bytes == NULL || file->n_bytes < 8) {
        return golden_failed(c, "states: the file can't be read");
    }
    memcpy(&n_header, file->bytes, sizeof(n_header));
    if (n_header > file->n_bytes - 8 || n_header % 8 != 0) {
        return golden_failed(c, "states: the header is said to have %llu bytes",
                             (unsigned long long)n_header);
    }
    file->header = cJSON_ParseWithLength(file->bytes + 8, (size_t)n_header);
    file->data = file->bytes + 8 + n_header;
    return file->header != NULL ? 1 : golden_failed(c, "states: the header is no JSON");
}

static void close_file(state_file_t *file)
{
    cJSON_Delete(file->header);
    free(file->bytes);
}

/* A note: JSON in a string. To be deleted. */
static cJSON *read_note(golden_case_t *c, const state_file_t *file, const char *name)
{
    cJSON *note = cJSON_Parse(golden_text(golden_get(file->header, "__metadata__"), name));

    if (note == NULL) {
        golden_failed(c, "states: the file has no note %s", name);
    }
    return note;
}

static int check_number(golden_case_t *c, const char *what, double got, double want)
{
    return fabs(got - want) <= 1e-12 * fabs(want)
               ? 1
               : golden_failed(c, "states: %s is %.17g, want %.17g", what, got, want);
}

/* What the schedule said last, else the learning rate in force. */
static double rate_of(const cJSON *schedule, const cJSON *hyper)
{
    return cJSON_IsObject(schedule) ? golden_number(schedule, "rate", -1)
                                    : golden_number(hyper, "learning_rate", -1);
}

static int check_optimizer(golden_case_t *c, const state_file_t *file, const cJSON *op)
{
    cJSON *num_update = read_note(c, file, "num_update");
    cJSON *schedule = read_note(c, file, "schedule");
    cJSON *hyper = read_note(c, file, "hyper_parameters");
    int ok = num_update != NULL && schedule != NULL && hyper != NULL &&
             check_number(c, "num_update", num_update->valuedouble,
                          golden_number(op, "num_update", -1)) &&
             check_number(c, "the learning rate", rate_of(schedule, hyper),
                          golden_number(op, "current_lr", -1));

    cJSON_Delete(num_update);
    cJSON_Delete(schedule);
    cJSON_Delete(hyper);
    return ok;
}

/* The expected element `i` of a state, whose rows may be listed. */
static double wanted(const cJSON *value, size_t i)
{
    const cJSON *indices = golden_get(value, "indices");
    const cJSON *data = golden_get(value, "data");
    const cJSON *shape = golden_get(value, "shape");
    size_t row_elems = 1;
    int place = 0;
    const cJSON *id;

    if (indices == NULL) {
        return cJSON_GetArrayItem(data, (int)i)->valuedouble;
    }
    for (int d = 1; d < cJSON_GetArraySize(shape); d++) {
        row_elems *= (size_t)cJSON_GetArrayItem(shape, d)->valuedouble;
    }
    cJSON_ArrayForEach(id, indices)
    {
        if ((size_t)id->valuedouble == i / row_elems) {
            size_t at = (size_t)place * row_elems + i % row_elems;

            return cJSON_GetArrayItem(data, (int)at)->valuedouble;
        }
        place++;
    }
    return 0;
}

static int dtype_of(const cJSON *tensor)
{
    static const char *const names[KVS_N_DTYPES] = {
        [KVS_DTYPE_float32] = "F32",
        [KVS_DTYPE_float64] = "F64",
        [KVS_DTYPE_float16] = "F16",
        [KVS_DTYPE_bfloat16] = "BF16",
    };

    for (int i = 0; i < KVS_N_DTYPES; i++) {
        if (names[i] != NULL && strcmp(golden_text(tensor, "dtype"), names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int check_state(golden_case_t *c, const state_file_t *file, const cJSON *tensor,
                       const char *name, const cJSON *value)
{
    const cJSON *offsets = golden_get(tensor, "data_offsets");
    int dtype = dtype_of(tensor);
    size_t begin, n = 1;
    const cJSON *dim;

    if (!cJSON_Compare(golden_get(tensor, "shape"), golden_get(value, "shape"), 1) ||
        dtype != golden_dtype(golden_text(value, "dtype"))) {
        return golden_failed(c, "states: %s has another shape or dtype", name);
    }
    cJSON_ArrayForEach(dim, golden_get(value, "shape"))
    {
        n *= (size_t)dim->valuedouble;
    }
    begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    for (size_t i = 0; i < n; i++) {
        double got = golden_load(dtype, file->data + begin, i);
        double want = wanted(value, i);

        if (!(fabs(got - want) <= c->atol + c->rtol * fabs(want))) {
            return golden_failed(c, "states: %s, element %zu: got %.9g, want %.9g", name, i, got,
                                 want);
        }
    }
    return 1;
}

/* How many tensors are named …/KEY. */
static int count_states(const state_file_t *file, const char *key)
{
    const cJSON *tensor;
    int n = 0;

    cJSON_ArrayForEach(tensor, file->header)
    {
        const char *slash = strchr(tensor->string, '/');

        n += slash != NULL && strcmp(slash + 1, key) == 0;
    }
    return n;
}

static int check_key(golden_case_t *c, const state_file_t *file, const cJSON *counts,
                     const cJSON *expect)
{
    const cJSON *key = golden_get(expect, "key");
    const cJSON *states = golden_get(expect, "states");
    const cJSON *state;
    char text[64], name[128];

    if (cJSON_IsString(key)) {
        snprintf(text, sizeof(text), "%s", key->valuestring);
    } else {
        snprintf(text, sizeof(text), "%.0f", key->valuedouble);
    }
    if (count_states(file, text) != cJSON_GetArraySize(states)) {
        return golden_failed(c, "states: key %s has %d states, want %d", text,
                             count_states(file, text), cJSON_GetArraySize(states));
    }
    cJSON_ArrayForEach(state, states)
    {
        const cJSON *tensor;

        snprintf(name, sizeof(name), "%.40s/%s", golden_text(state, "name"), text);
        tensor = golden_get(file->header, name);
        if (tensor == NULL) {
            return golden_failed(c, "states: there is no tensor %s", name);
        }
        if (!check_state(c, file, tensor, name, golden_get(state, "value"))) {
            return 0;
        }
    }
    return check_number(c, "the count of a key", golden_number(counts, text, 0),
                        golden_number(expect, "count", 0));
}

void golden_check_states(golden_case_t *c, const char *path, const cJSON *op)
{
    state_file_t file = {0};
    int ok = open_file(c, path, &file) && check_optimizer(c, &file, op);
    cJSON *counts = ok ? read_note(c, &file, "counts") : NULL;
    const cJSON *expect;

    cJSON_ArrayForEach(expect, golden_get(op, "expect"))
    {
        ok = ok && counts != NULL && check_key(c, &file, counts, expect);
    }
    cJSON_Delete(counts);
    close_file(&file);
}
