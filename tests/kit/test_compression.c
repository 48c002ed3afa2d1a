/* SPDX-License-Identifier: Apache-2.0 */
/* Compression in use: its parameters, residuals by place, and packing that changes all or nothing. */
#include "compressors.h"
#include "fake_host.h"
#include "mean.h"
#include "plain.h"

#include <kvstore/compression.h>

#include <float.h>

#define BLOCK KVS_COMPRESSOR_BLOCK

static kvs_status_t find_compressor(const char *name, const kvs_compressor_t **ret_compressor)
{
    static const kvs_compressor_t *const all[] = {&compressors_1bit, &compressors_2bit,
                                                  &mean_compressor};

    for (size_t i = 0; i < 3; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            *ret_compressor = all[i];
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_NOT_FOUND, "no compressor named \"%s\"", name);
}

static kvs_param_t text(const char *name, const char *value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_TEXT, .value = {.text = value}};
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

static kvs_status_t make(const kvs_param_t *params, size_t n, kvs_compression_t **ret_compression)
{
    fake_host.find_compressor = find_compressor;
    *ret_compression = NULL;
    return kvs_compression_new(params, n, ret_compression);
}

/* With that threshold. */
static kvs_compression_t *compression_of(const char *type, double threshold)
{
    kvs_param_t params[2] = {text("type", type), real("threshold", threshold)};
    kvs_compression_t *compression;

    if (!KT_OK(make(params, strcmp(type, "mean") == 0 ? 1 : 2, &compression))) {
        abort();
    }
    return compression;
}

/* ---- Parameters ---------------------------------------------------------------------------------- */

static void refused(kvs_param_t first, kvs_param_t second, kvs_status_t status, const char *part)
{
    kvs_param_t params[2] = {first, second};
    kvs_compression_t *compression;

    KT_FAIL(make(params, 2, &compression), status, part);
    KT_TRUE(compression == NULL);
}

static void the_type_must_be_given(void)
{
    kvs_param_t threshold = real("threshold", 0.5);
    kvs_param_t slip = text("typ", "2bit");
    kvs_compression_t *compression;

    KT_FAIL(make(NULL, 0, &compression), KVS_ERR_ARGUMENT, "parameter 'type' is missing");
    KT_FAIL(make(&threshold, 1, &compression), KVS_ERR_ARGUMENT, "parameter 'type' is missing");
    KT_FAIL(make(&slip, 1, &compression), KVS_ERR_ARGUMENT,
            "unknown parameter 'typ'; did you mean 'type'?");
    KT_FAIL(make(NULL, 1, &compression), KVS_ERR_ARGUMENT, "the list of parameters is NULL");
}

static void the_type_must_be_the_name_of_a_compressor(void)
{
    kvs_param_t threshold = real("threshold", 0.5);
    kvs_param_t nothing = text("type", NULL);

    refused(text("type", "3bit"), threshold, KVS_ERR_NOT_FOUND,
            "gradient compression: no compressor named \"3bit\"");
    refused(text("type", "none"), threshold, KVS_ERR_NOT_FOUND, "\"none\"");
    refused(real("type", 2), threshold, KVS_ERR_ARGUMENT,
            "parameter 'type' must be a text, got a number");
    refused(nothing, threshold, KVS_ERR_ARGUMENT, "'type' is NULL");
}

static void the_threshold_of_2bit_must_be_a_number_above_0(void)
{
    kvs_param_t type = text("type", "2bit");
    kvs_param_t null = {.name = "threshold", .type = KVS_PARAM_NULL};

    refused(type, real("threshold", 0), KVS_ERR_ARGUMENT, "'threshold' is 0 as float32");
    refused(type, real("threshold", -1), KVS_ERR_ARGUMENT, "'threshold' is -1 as float32");
    refused(type, real("threshold", 1e-50), KVS_ERR_ARGUMENT, "'threshold' is 0 as float32");
    refused(type, real("threshold", 1e300), KVS_ERR_ARGUMENT, "too large for float32");
    refused(type, real("threshold", NAN), KVS_ERR_ARGUMENT, "a finite number");
    refused(type, real("threshold", INFINITY), KVS_ERR_ARGUMENT, "a finite number");
    refused(type, text("threshold", "abc"), KVS_ERR_ARGUMENT,
            "compressor '2bit': parameter 'threshold' must be a number, got a text");
    refused(type, null, KVS_ERR_ARGUMENT, "must be a number, got null");
}

static void unknown_and_repeated_parameters_are_named(void)
{
    kvs_param_t type = text("type", "2bit");

    refused(type, real("treshold", 0.5), KVS_ERR_ARGUMENT,
            "compressor '2bit': unknown parameter 'treshold'; did you mean 'threshold'? Accepted: "
            "type, threshold");
    refused(type, real("rate", 0.5), KVS_ERR_ARGUMENT, "unknown parameter 'rate'");
    refused(type, text("type", "1bit"), KVS_ERR_ARGUMENT, "'type' is given twice");
    refused(type, real(NULL, 1), KVS_ERR_ARGUMENT, "the name of a parameter is NULL");
    refused(text("type", "mean"), real("threshold", 1), KVS_ERR_ARGUMENT,
            "compressor 'mean': unknown parameter 'threshold'; accepted: type");
}

static void the_order_of_parameters_does_not_matter(void)
{
    kvs_param_t params[2] = {real("threshold", 0.25), text("type", "2bit")};
    kvs_compression_t *compression;

    KT_OK(make(params, 2, &compression));
    kvs_compression_free(compression);
    kvs_compression_free(NULL);
}

/* ---- What can be compressed ------------------------------------------------------------------------ */

static kvs_status_t check(const kvs_key_entry_t *key, kvs_tensor_t *values, size_t n)
{
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    kvs_group_t group = {.key = (kvs_key_entry_t *)key, .values = values, .n_values = n};
    kvs_status_t status = kvs_compression_check(compression, &group);

    kvs_compression_free(compression);
    return status;
}

static void only_dense_float32_can_be_compressed(void)
{
    const kvs_key_entry_t named = {.name = "w"}, numbered = {.number = 7};
    float data[2] = {0};
    kvs_rows_t rows = {0};
    kvs_tensor_t values[2] = {KT_F32(data, 2), KT_F32(data, 2)};

    KT_OK(check(&named, values, 2));
    KT_OK(check(&named, values, 0));
    values[1].dtype = kvs_dtype(KVS_DTYPE_float16);
    KT_FAIL(check(&named, values, 2), KVS_ERR_DTYPE,
            "key 'w': gradient compression '2bit' takes float32 values, got float16");
    values[1] = values[0];
    values[1].rows = &rows;
    KT_FAIL(check(&numbered, values, 2), KVS_ERR_STORAGE,
            "key 7: gradient compression '2bit' takes dense values, got a row-sparse one");
}

/* ---- Packing ------------------------------------------------------------------------------------- */

static void want_residual(const kvs_residuals_t *residuals, size_t place, const float *want,
                          int64_t n)
{
    KT_TRUE(memcmp(kvs_residuals_at(residuals, place), want, (size_t)n * sizeof(float)) == 0);
}

static void each_place_has_its_residual(void)
{
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    const float a[3] = {0.3f, -0.9f, 0.1f}, b[3] = {0.4f, 0, 2};
    const void *values[2] = {a, b};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;
    float sum[3];

    KT_OK(kvs_compression_pack(compression, &residuals, 3, values, 2, &packed));
    KT_INT(residuals.n, 2);
    kvs_packed_sum(&packed, 0, 3, sum);
    KT_REAL(sum[0], 0);
    KT_REAL(sum[1], -0.5);
    KT_REAL(sum[2], 0.5);
    want_residual(&residuals, 0, (float[]){0.3f, -0.9f + 0.5f, 0.1f}, 3);
    want_residual(&residuals, 1, (float[]){0.4f, 0, 1.5f}, 3);
    KT_OK(kvs_compression_pack(compression, &residuals, 3, values, 2, &packed));
    kvs_packed_sum(&packed, 0, 3, sum);
    KT_REAL(sum[0], 1);    /* 0.6 and 0.8 */
    KT_REAL(sum[1], -0.5); /* -1.3 and 0 */
    KT_REAL(sum[2], 0.5);  /* 0.2 and 3.5 */
    kvs_residuals_release(&residuals);
    KT_TRUE(residuals.items == NULL && residuals.n == 0);
    kvs_compression_free(compression);
}

static void a_new_place_begins_with_zeros_and_one_left_out_keeps_its_residual(void)
{
    kvs_compression_t *compression = compression_of("2bit", 1);
    const float a[1] = {0.6f};
    const void *values[3] = {a, a, a};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;
    float sum;

    KT_OK(kvs_compression_pack(compression, &residuals, 1, values, 2, &packed));
    KT_OK(kvs_compression_pack(compression, &residuals, 1, values, 1, &packed));
    KT_INT(packed.n_values, 1);
    kvs_packed_sum(&packed, 0, 1, &sum);
    KT_REAL(sum, 1);
    KT_INT(residuals.n, 2);
    want_residual(&residuals, 1, a, 1);
    KT_OK(kvs_compression_pack(compression, &residuals, 1, values, 3, &packed));
    kvs_packed_sum(&packed, 0, 1, &sum);
    KT_REAL(sum, 1); /* 0.8, 1.2, 0.6 */
    want_residual(&residuals, 2, a, 1);
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
}

static void residuals_can_be_looked_at_and_set(void)
{
    kvs_compression_t *compression = compression_of("1bit", 0.5);
    const float set[2] = {0.5f, -0.25f}, a[2] = {0.25f, 0.5f};
    const void *values[3] = {a, a, a};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;

    KT_OK(kvs_residuals_set(&residuals, 2, 2, set));
    KT_INT(residuals.n, 3);
    KT_INT(residuals.n_elems, 2);
    want_residual(&residuals, 0, (float[2]){0}, 2);
    want_residual(&residuals, 2, set, 2);
    KT_OK(kvs_compression_pack(compression, &residuals, 2, values, 3, &packed));
    want_residual(&residuals, 0, (float[]){1.25f, 1.5f}, 2);
    want_residual(&residuals, 2, (float[]){-0.25f, 1.25f}, 2);
    KT_OK(kvs_residuals_set(&residuals, 2, 0, set));
    want_residual(&residuals, 0, set, 2);
    KT_INT(residuals.n, 3);
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
}

static void a_value_that_is_not_finite_changes_no_residual(void)
{
    static const struct {
        float value;
        const char *text;
    } odd[] = {{NAN, "value 1 of the list: element 2 is NaN"},
               {INFINITY, "value 1 of the list: element 2 is infinite"},
               {-INFINITY, "element 2 is infinite"}};
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    const float good[3] = {0.3f, 0.2f, 0.1f};
    float bad[3] = {1, 2, 3};
    const void *values[2] = {good, bad};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;
    float sum[3];

    KT_OK(kvs_residuals_set(&residuals, 3, 1, good));
    for (size_t i = 0; i < 3; i++) {
        bad[2] = odd[i].value;
        KT_FAIL(kvs_compression_pack(compression, &residuals, 3, values, 2, &packed),
                KVS_ERR_NON_FINITE, odd[i].text);
        want_residual(&residuals, 0, (float[3]){0}, 3);
        want_residual(&residuals, 1, good, 3);
    }
    bad[2] = 0;
    KT_OK(kvs_compression_pack(compression, &residuals, 3, values, 2, &packed));
    kvs_packed_sum(&packed, 0, 3, sum);
    KT_REAL(sum[0], 0.5);
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
}

static void a_residual_never_exceeds_float32(void)
{
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    const float huge[1] = {FLT_MAX};
    const void *values[1] = {huge};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;

    KT_OK(kvs_compression_pack(compression, &residuals, 1, values, 1, &packed));
    KT_FAIL(kvs_compression_pack(compression, &residuals, 1, values, 1, &packed),
            KVS_ERR_NON_FINITE,
            "element 0 is 3.40282e+38, which with its residual 3.40282e+38 exceeds float32");
    want_residual(&residuals, 0, huge, 1);
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
}

static void arrays_without_elements_are_packed_too(void)
{
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    const void *values[2] = {NULL, NULL};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;

    KT_OK(kvs_compression_pack(compression, &residuals, 0, values, 2, &packed));
    KT_INT(packed.n_values, 2);
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
}

static void another_compressor_takes_over_the_residuals(void)
{
    kvs_compression_t *two = compression_of("2bit", 0.5), *one = compression_of("1bit", 0.5);
    const float a[1] = {0.4f};
    const void *values[1] = {a};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;
    float sum;

    KT_OK(kvs_compression_pack(two, &residuals, 1, values, 1, &packed));
    KT_OK(kvs_compression_pack(one, &residuals, 1, values, 1, &packed));
    kvs_packed_sum(&packed, 0, 1, &sum);
    KT_REAL(sum, 1); /* 0.8 is above 0.5 */
    want_residual(&residuals, 0, (float[]){0.4f + 0.4f - 1}, 1);
    kvs_residuals_release(&residuals);
    kvs_compression_free(two);
    kvs_compression_free(one);
}

/* ---- Large arrays -------------------------------------------------------------------------------- */

#define LARGE (5 * BLOCK + 333)

/* Three rounds of three values, packed in so many pieces, against the plain loop. */
static void large_arrays_agree(int bits, int64_t n_pieces)
{
    kvs_compression_t *compression = compression_of(bits == 1 ? "1bit" : "2bit", 0.5);
    float *memory = calloc(3 * LARGE * 2 + LARGE, sizeof(float));
    float *values[3], *rests[3], *sum = memory + 6 * LARGE;
    kvs_residuals_t residuals = {0};
    int same = 1;

    for (int i = 0; i < 3; i++) {
        values[i] = memory + i * LARGE;
        rests[i] = memory + (3 + i) * LARGE;
    }
    fake_n_pieces = n_pieces;
    for (int round = 0; round < 3; round++) {
        kvs_packed_t packed;

        for (int64_t i = 0; i < 3 * LARGE; i++) {
            values[0][i] = (float)(fake_random() % 2001) / 1000 - 1;
        }
        KT_OK(kvs_compression_pack(compression, &residuals, LARGE, (const void *const *)values, 3,
                                   &packed));
        for (int64_t begin = 0; begin < LARGE; begin += 96 * 1024) {
            int64_t end = begin + 96 * 1024 < LARGE ? begin + 96 * 1024 : LARGE;

            kvs_packed_sum(&packed, begin, end, sum + begin);
        }
        for (int64_t i = 0; i < LARGE; i++) {
            float want = 0;

            for (int j = 0; j < 3; j++) {
                float x = rests[j][i] + values[j][i], sent = plain_sent(bits, 0.5f, x);

                rests[j][i] = x - sent;
                want = j == 0 ? sent : want + sent;
            }
            same &= sum[i] == want;
        }
        for (size_t j = 0; j < 3; j++) {
            want_residual(&residuals, j, rests[j], LARGE);
        }
    }
    KT_TRUE(same);
    fake_n_pieces = 1;
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
    free(memory);
}

static void threads_and_blocks_change_nothing(void)
{
    large_arrays_agree(1, 1);
    large_arrays_agree(1, 4);
    large_arrays_agree(2, 1);
    large_arrays_agree(2, 7);
    KT_TRUE(fake_n_cuts > 0);
}

static void the_first_value_that_is_not_finite_is_named_in_large_arrays_too(void)
{
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    float *memory = calloc(2 * LARGE, sizeof(float));
    const void *values[2] = {memory, memory + LARGE};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;

    fake_n_pieces = 5;
    memory[LARGE - 1] = NAN;
    memory[LARGE + 1] = NAN;
    KT_FAIL(kvs_compression_pack(compression, &residuals, LARGE, values, 2, &packed),
            KVS_ERR_NON_FINITE, "value 0 of the list: element 328012 is NaN");
    memory[LARGE - 1] = 0;
    KT_FAIL(kvs_compression_pack(compression, &residuals, LARGE, values, 2, &packed),
            KVS_ERR_NON_FINITE, "value 1 of the list: element 1 is NaN");
    fake_n_pieces = 1;
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
    free(memory);
}

/* ---- Without memory ------------------------------------------------------------------------------- */

/* Calls of malloc, realloc and aligned_alloc until one fails; below 0: none does. The linker wraps them. */
static int n_until_failure = -1;

void *__real_malloc(size_t n_bytes);
void *__real_realloc(void *memory, size_t n_bytes);
void *__real_aligned_alloc(size_t alignment, size_t n_bytes);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_realloc(void *memory, size_t n_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes);

static int fails_now(void)
{
    return n_until_failure >= 0 && n_until_failure-- == 0;
}

void *__wrap_malloc(size_t n_bytes)
{
    return fails_now() ? NULL : __real_malloc(n_bytes);
}

void *__wrap_realloc(void *memory, size_t n_bytes)
{
    return fails_now() ? NULL : __real_realloc(memory, n_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment, n_bytes);
}

static void without_memory_a_push_fails_and_changes_nothing(void)
{
    kvs_compression_t *compression = compression_of("2bit", 0.5);
    const float a[2] = {0.25f, 0.5f}, set[2] = {0.125f, 0};
    const void *values[3] = {a, a, a};
    kvs_status_t status = KVS_ERR_NO_MEMORY;
    int n = 0;

    for (; status == KVS_ERR_NO_MEMORY; n++) {
        kvs_residuals_t residuals = {0};
        kvs_packed_t packed = {0};

        KT_OK(kvs_residuals_set(&residuals, 2, 0, set));
        n_until_failure = n;
        status = kvs_compression_pack(compression, &residuals, 2, values, 3, &packed);
        n_until_failure = -1;
        if (status == KVS_ERR_NO_MEMORY) {
            KT_HAS(kvs_last_error(), "no ");
            want_residual(&residuals, 0, set, 2);
        } else {
            KT_INT(packed.n_values, 3);
            want_residual(&residuals, 0, (float[]){0.375f, 0}, 2);
        }
        kvs_residuals_release(&residuals);
    }
    KT_OK(status);
    KT_INT(n - 1,
           1 + 2 + 2 * 3); /* the list; two residuals; room for the next and the bytes of three */
    kvs_compression_free(compression);
}

static void without_memory_compression_is_not_set(void)
{
    kvs_param_t type = text("type", "2bit");
    kvs_compression_t *compression = NULL;

    n_until_failure = 0;
    KT_FAIL(make(&type, 1, &compression), KVS_ERR_NO_MEMORY, "gradient compression: no memory");
    n_until_failure = -1;
    KT_TRUE(compression == NULL);
}

/* ---- A compressor of one's own --------------------------------------------------------------------- */

static void a_unit_may_be_a_whole_block(void)
{
    kvs_compression_t *compression = compression_of("mean", 0);
    float *values = calloc(BLOCK + 2, sizeof(*values)), *sum = calloc(BLOCK + 2, sizeof(*sum));
    const void *list[1] = {values};
    kvs_residuals_t residuals = {0};
    kvs_packed_t packed;

    values[0] = BLOCK;
    values[BLOCK] = 6;
    KT_INT(kvs_compression_unit(compression), BLOCK);
    KT_INT(kvs_compression_bytes(compression, BLOCK + 2), 8);
    KT_OK(kvs_compression_pack(compression, &residuals, BLOCK + 2, list, 1, &packed));
    kvs_packed_sum(&packed, 0, BLOCK, sum);
    kvs_packed_sum(&packed, BLOCK, BLOCK + 2, sum + BLOCK);
    KT_REAL(sum[0], 1);
    KT_REAL(sum[BLOCK - 1], 1);
    KT_REAL(sum[BLOCK], 3);
    KT_REAL(kvs_residuals_at(&residuals, 0)[BLOCK + 1], -3);
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
    free(values);
    free(sum);
}

static int cries_wolf(const float *params, int64_t n, const float *grad, const float *residual,
                      float *ret_residual, void *packed, int stream)
{
    (void)mean_encode(params, n, grad, residual, ret_residual, packed, stream);
    return 0;
}

static kvs_status_t find_liar(const char *name, const kvs_compressor_t **ret_compressor)
{
    static kvs_compressor_t liar;

    liar = mean_compressor;
    liar.name = "liar";
    liar.encode = cries_wolf;
    *ret_compressor = &liar;
    (void)name;
    return KVS_OK;
}

static void a_compressor_that_is_wrong_about_finite_values_is_named(void)
{
    kvs_param_t type = text("type", "liar");
    const float a[2] = {1, 2};
    const void *values[1] = {a};
    kvs_residuals_t residuals = {0};
    kvs_compression_t *compression = NULL;
    kvs_packed_t packed;

    fake_host.find_compressor = find_liar;
    KT_OK(kvs_compression_new(&type, 1, &compression));
    KT_FAIL(kvs_compression_pack(compression, &residuals, 2, values, 1, &packed), KVS_ERR_PLUGIN,
            "compressor 'liar' says that a value is not finite, though all are");
    kvs_residuals_release(&residuals);
    kvs_compression_free(compression);
}

static const kt_test_t tests[] = {
    KT_TEST(the_type_must_be_given),
    KT_TEST(the_type_must_be_the_name_of_a_compressor),
    KT_TEST(the_threshold_of_2bit_must_be_a_number_above_0),
    KT_TEST(unknown_and_repeated_parameters_are_named),
    KT_TEST(the_order_of_parameters_does_not_matter),
    KT_TEST(only_dense_float32_can_be_compressed),
    KT_TEST(each_place_has_its_residual),
    KT_TEST(a_new_place_begins_with_zeros_and_one_left_out_keeps_its_residual),
    KT_TEST(residuals_can_be_looked_at_and_set),
    KT_TEST(a_value_that_is_not_finite_changes_no_residual),
    KT_TEST(a_residual_never_exceeds_float32),
    KT_TEST(arrays_without_elements_are_packed_too),
    KT_TEST(another_compressor_takes_over_the_residuals),
    KT_TEST(threads_and_blocks_change_nothing),
    KT_TEST(the_first_value_that_is_not_finite_is_named_in_large_arrays_too),
    KT_TEST(without_memory_a_push_fails_and_changes_nothing),
    KT_TEST(without_memory_compression_is_not_set),
    KT_TEST(a_unit_may_be_a_whole_block),
    KT_TEST(a_compressor_that_is_wrong_about_finite_values_is_named),
};
KT_MAIN("compression", tests)
