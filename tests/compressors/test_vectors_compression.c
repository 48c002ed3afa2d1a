/* SPDX-License-Identifier: Apache-2.0 */
/* test_vectors_compression.c - golden cases of kind "gradient_compression" on the compressors
 * themselves: packed words, what they stand for, and residuals. The sums are vectors.store's. */
#include "compressors.h"
#include "golden.h"
#include "host.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

const kvs_plugin_t *kvs_plugin_entry_v1_compressors(const kvs_host_t *host,
                                                    const char **ret_refusal);

#define MAX_ELEMS   1024
#define MAX_DEVICES 8

typedef struct run {
    golden_case_t verdict;
    const kvs_compressor_t *compressor;
    float threshold;
    int64_t n;
    float residuals[MAX_DEVICES][MAX_ELEMS];
} run_t;

static int check_floats(golden_case_t *c, const char *what, const float *got, const cJSON *want,
                        int64_t n)
{
    kvs_tensor_t tensor = {.data = (void *)got,
                           .device = {KVS_DEVICE_CPU, 0},
                           .ndim = 1,
                           .dtype = kvs_dtype(KVS_DTYPE_float32),
                           .shape = &n};

    return golden_check_flat(c, &tensor, want, what);
}

/* Little-endian words of 32 bits; as many as there should be. */
static int check_words(golden_case_t *c, const uint8_t *packed, uint64_t n_bytes, const cJSON *want)
{
    if ((uint64_t)cJSON_GetArraySize(want) * 4 != n_bytes) {
        return golden_failed(c, "%d words, got %llu bytes", cJSON_GetArraySize(want),
                             (unsigned long long)n_bytes);
    }
    for (int i = 0; i < cJSON_GetArraySize(want); i++) {
        const uint8_t *bytes = packed + 4 * i;
        double word = bytes[0] + 0x1p8 * bytes[1] + 0x1p16 * bytes[2] + 0x1p24 * bytes[3];

        if (word != cJSON_GetArrayItem(want, i)->valuedouble) {
            return golden_failed(c, "word %d: got %.0f, want %.0f", i, word,
                                 cJSON_GetArrayItem(want, i)->valuedouble);
        }
    }
    return 1;
}

static int run_device(run_t *run, const cJSON *device, float *residual)
{
    golden_case_t *c = &run->verdict;
    const cJSON *grads = golden_get(device, "grad");
    float grad[MAX_ELEMS], decoded[MAX_ELEMS];
    uint8_t packed[MAX_ELEMS];

    if (cJSON_GetArraySize(grads) != run->n) {
        return golden_failed(c, "a gradient of %d elements", cJSON_GetArraySize(grads));
    }
    for (int i = 0; i < run->n; i++) {
        grad[i] = (float)cJSON_GetArrayItem(grads, i)->valuedouble;
    }
    if (!run->compressor->encode(&run->threshold, run->n, grad, residual, residual, packed, 0)) {
        return golden_failed(c, "the gradient is taken for one that is not finite");
    }
    run->compressor->decode(&run->threshold, run->n, packed, decoded);
    return check_words(c, packed, run->compressor->packed_bytes(&run->threshold, run->n),
                       golden_get(device, "words")) &&
           check_floats(c, "dequantized", decoded, golden_get(device, "dequantized"), run->n) &&
           check_floats(c, "residual", residual, golden_get(device, "residual"), run->n);
}

static void run_rounds(run_t *run)
{
    const cJSON *round;

    cJSON_ArrayForEach(round, golden_get(run->verdict.json, "rounds"))
    {
        const cJSON *devices = golden_get(round, "devices");

        if (cJSON_GetArraySize(devices) > MAX_DEVICES) {
            golden_failed(&run->verdict, "%d devices", cJSON_GetArraySize(devices));
            return;
        }
        for (int i = 0; i < cJSON_GetArraySize(devices); i++) {
            if (!run_device(run, cJSON_GetArrayItem(devices, i), run->residuals[i])) {
                return;
            }
        }
    }
}

static const kvs_compressor_t *compressor_of(const cJSON *json)
{
    const char *type = golden_text(json, "type");

    return strcmp(type, "1bit") == 0   ? &compressors_1bit
           : strcmp(type, "2bit") == 0 ? &compressors_2bit
                                       : NULL;
}

static golden_verdict_t run_case(const cJSON *file, const cJSON *json, const char *name)
{
    const cJSON *tolerance = golden_get(file, "tolerance");
    const cJSON *size;
    run_t run = {.compressor = compressor_of(json),
                 .threshold = (float)golden_number(json, "threshold", 0.5),
                 .n = 1};

    run.verdict.json = json;
    run.verdict.name = golden_text(json, "case");
    run.verdict.kind = "gradient_compression";
    run.verdict.rtol = golden_number(tolerance, "rtol", 0);
    run.verdict.atol = golden_number(tolerance, "atol", 0);
    cJSON_ArrayForEach(size, golden_get(json, "shape"))
    {
        run.n *= (int64_t)size->valuedouble;
    }
    if (run.compressor == NULL || run.n > MAX_ELEMS) {
        golden_failed(&run.verdict, "type \"%s\", %lld elements", golden_text(json, "type"),
                      (long long)run.n);
    } else {
        run_rounds(&run);
    }
    if (run.verdict.verdict != GOLDEN_PASSED) {
        printf("%s: %s: %s\n", name, run.verdict.name, run.verdict.reason);
    }
    return run.verdict.verdict;
}

static cJSON *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    cJSON *json = NULL;

    if (file != NULL && getdelim(&text, &size, '\0', file) > 0) {
        json = cJSON_Parse(text);
    }
    if (json == NULL) {
        printf("%s: can't be read\n", path);
    }
    free(text);
    if (file != NULL) {
        fclose(file);
    }
    return json;
}

int main(void)
{
    const char *directory = getenv("KVSTORE_VECTORS");
    const char *refusal;
    int counts[3] = {0}; /* by verdict */
    char pattern[4096];
    glob_t files;

    (void)kvs_plugin_entry_v1_compressors(kvsi_host(), &refusal);
    snprintf(pattern, sizeof(pattern), "%s/compression_*.json",
             directory != NULL ? directory : KVS_VECTORS_DIR);
    if (glob(pattern, 0, NULL, &files) != 0) {
        printf("%s: no such files\n", pattern);
        return 1;
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        cJSON *json = read_file(files.gl_pathv[i]);
        const cJSON *one;

        counts[GOLDEN_FAILED] += json == NULL;
        cJSON_ArrayForEach(one, golden_get(json, "cases"))
        {
            counts[run_case(json, one, strrchr(files.gl_pathv[i], '/') + 1)]++;
        }
        cJSON_Delete(json);
    }
    printf("vectors: %zu files, %d cases, %d passed, %d skipped\n", files.gl_pathc,
           counts[GOLDEN_PASSED] + counts[GOLDEN_FAILED], counts[GOLDEN_PASSED],
           counts[GOLDEN_SKIPPED]);
    globfree(&files);
    return counts[GOLDEN_FAILED] != 0 || counts[GOLDEN_SKIPPED] != 0 || counts[GOLDEN_PASSED] == 0;
}
