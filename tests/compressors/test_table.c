/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of the built-in compressors promise. */
#include "compressors.h"
#include "host.h"
#include "kernels.h"
#include "kt.h"
#include "plain.h"

#include <math.h>
#include <string.h>

const kvs_plugin_t *kvs_plugin_entry_v1_compressors(const kvs_host_t *host,
                                                    const char **ret_refusal);

static const kvs_compressor_t *const both[] = {&compressors_1bit, &compressors_2bit};

static void the_plugin_brings_1bit_and_2bit(void)
{
    const char *refusal = NULL;
    const kvs_plugin_t *plugin = kvs_plugin_entry_v1_compressors(kvsi_host(), &refusal);

    KT_STR(plugin->name, "compressors");
    KT_INT(plugin->n_compressors, 2);
    KT_STR(plugin->compressors[0]->name, "1bit");
    KT_STR(plugin->compressors[1]->name, "2bit");
}

static void both_have_a_threshold_of_one_half(void)
{
    for (int i = 0; i < 2; i++) {
        KT_INT(both[i]->n_params, 1);
        KT_STR(both[i]->params[0].name, "threshold");
        KT_INT(both[i]->params[0].type, KVS_PARAM_FLOAT);
        KT_REAL(both[i]->params[0].preset, 0.5);
    }
}

static void two_bit_refuses_a_threshold_that_is_not_above_0(void)
{
    const char *text = "compressor '2bit': parameter 'threshold' is -1 as float32, must be above 0";
    float threshold = 0;

    KT_FAIL(compressors_2bit.check(&threshold), KVS_ERR_ARGUMENT, "is 0 as float32");
    threshold = -1;
    KT_FAIL(compressors_2bit.check(&threshold), KVS_ERR_ARGUMENT, text);
    threshold = 1e-45f; /* the least there is */
    KT_OK(compressors_2bit.check(&threshold));
    KT_TRUE(compressors_1bit.check == NULL); /* any will do */
}

static void packed_arrays_are_whole_words(void)
{
    for (int i = 0; i < 2; i++) {
        float threshold = 0.5f;
        int bits = i + 1;

        for (int64_t n = 1; n < 200; n++) {
            KT_INT(both[i]->packed_bytes(&threshold, n), plain_packed_bytes(bits, n));
        }
        KT_INT(both[i]->packed_bytes(&threshold, INT64_C(1) << 33), (INT64_C(1) << 30) * bits);
        KT_INT(both[i]->packed_bytes(&threshold, both[i]->unit), 4);
        KT_INT(KVS_COMPRESSOR_BLOCK % both[i]->unit, 0);
    }
}

/* By hand: 0.6, -0.6, 0.5, -0.5, 0.4 with threshold 0.5. */
static void the_layout_of_bits_is_the_documented_one(void)
{
    const float grad[5] = {0.6f, -0.6f, 0.5f, -0.5f, 0.4f};
    const float zeros[5] = {0};
    float threshold = 0.5f, next[5], decoded[5];
    uint8_t packed[4];

    KT_INT(compressors_2bit.encode(&threshold, 5, grad, zeros, next, packed, 0), 1);
    KT_INT(packed[0], 0xEE); /* 11 10 11 10 */
    KT_INT(packed[1], 0x00);
    KT_INT(packed[2] | packed[3], 0);
    compressors_2bit.decode(&threshold, 5, packed, decoded);
    KT_REAL(decoded[0], 0.5);
    KT_REAL(decoded[1], -0.5);
    KT_REAL(decoded[4], 0);
    KT_REAL(next[4], 0.4f);
    KT_INT(compressors_1bit.encode(&threshold, 5, grad, zeros, next, packed, 0), 1);
    KT_INT(packed[0], 0x80); /* 0.5 is not above the threshold */
    KT_INT(packed[1] | packed[2] | packed[3], 0);
    compressors_1bit.decode_add(&threshold, 5, packed, decoded);
    KT_REAL(decoded[0], 1.5);
    KT_REAL(decoded[1], -1.5);
    KT_REAL(next[0], 0.6f - 1);
}

static void the_best_instruction_set_is_chosen(void)
{
    KT_TRUE(compressors_kernels() == compressors_kernels_at(0));
    KT_TRUE(compressors_kernels_at(99) == NULL);
}

static const kt_test_t tests[] = {
    KT_TEST(the_plugin_brings_1bit_and_2bit),
    KT_TEST(both_have_a_threshold_of_one_half),
    KT_TEST(two_bit_refuses_a_threshold_that_is_not_above_0),
    KT_TEST(packed_arrays_are_whole_words),
    KT_TEST(the_layout_of_bits_is_the_documented_one),
    KT_TEST(the_best_instruction_set_is_chosen),
};
KT_MAIN("table", tests)
