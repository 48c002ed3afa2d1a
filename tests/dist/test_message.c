/* SPDX-License-Identifier: Apache-2.0 */
/* test_message.c - headers, records and specifications as bytes and back, and what is refused. */
#include "../kit/fake_host.h"

#include "dist_message.h"
#include "dist_spec.h"

/* ---- Headers ------------------------------------------------------------------------------------------- */

static dist_header_t a_push(void)
{
    dist_header_t header = {.kind = DIST_PUSH,
                            .dtype = KVS_DTYPE_float64,
                            .request = 0x0102030405060708,
                            .key = 9,
                            .digest = 0xfedcba9876543210,
                            .round = 3,
                            .first = 2 * dist_part_elems(KVS_DTYPE_float64, 0),
                            .n = 5,
                            .timeout_ms = 60000,
                            .optimizer = 2,
                            .states = 5,
                            .priority = -7,
                            .n_scalars = 3,
                            .scalars = {0.5, -1.0 / 3, 1e-300}};

    return header;
}

static void a_header_survives_the_way(void)
{
    dist_header_t sent = a_push(), got;
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    size_t n = dist_header_encode(&sent, bytes);

    KT_INT(n, DIST_HEADER_BYTES + 3 * 8);
    KT_OK(dist_header_decode(bytes, n, 5 * 8, &got));
    KT_INT(got.kind, sent.kind);
    KT_INT(got.dtype, sent.dtype);
    KT_INT(got.codec, sent.codec);
    KT_INT(got.epoch, sent.epoch);
    KT_TRUE(got.request == sent.request);
    KT_TRUE(got.key == sent.key);
    KT_TRUE(got.digest == sent.digest);
    KT_INT(got.round, sent.round);
    KT_INT(got.first, sent.first);
    KT_INT(got.n, sent.n);
    KT_INT(got.timeout_ms, sent.timeout_ms);
    KT_INT(got.status, sent.status);
    KT_INT(got.optimizer, sent.optimizer);
    KT_INT(got.states, sent.states);
    KT_INT(got.priority, sent.priority);
    KT_INT(got.n_scalars, sent.n_scalars);
    KT_INT(memcmp(got.scalars, sent.scalars, sizeof(sent.scalars)), 0);
}

/* Worked out by hand from MESSAGES.md. */
static void a_header_has_the_bytes_of_the_reference(void)
{
    dist_header_t header = {.kind = DIST_DONE, .request = 0x0102030405060708, .status = -18};
    uint8_t want[DIST_HEADER_BYTES] = {
        [0] = DIST_DONE, [8] = 8,  [9] = 7,     [10] = 6,    [11] = 5,    [12] = 4,   [13] = 3,
        [14] = 2,        [15] = 1, [64] = 0xee, [65] = 0xff, [66] = 0xff, [67] = 0xff};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];

    KT_INT(dist_header_encode(&header, bytes), 88);
    KT_INT(memcmp(bytes, want, sizeof(want)), 0);
}

static void refuse(dist_header_t header, size_t n_body)
{
    dist_header_t got;
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    size_t n = dist_header_encode(&header, bytes);

    KT_FAIL(dist_header_decode(bytes, n, n_body, &got), KVS_ERR_FORMAT, "is malformed");
}

#define REFUSE(n_body, change)                                                                     \
    do {                                                                                           \
        dist_header_t header = a_push();                                                           \
        header.change;                                                                             \
        refuse(header, (n_body));                                                                  \
    } while (0)

static void what_no_honest_peer_sends_is_refused(void)
{
    REFUSE(5 * 8, kind = 0);
    REFUSE(5 * 8, kind = DIST_N_KINDS);
    REFUSE(5 * 8, dtype = KVS_N_DTYPES);
    REFUSE(5 * 8, codec = 1);       /* only float32 is packed */
    REFUSE(0, kind = DIST_REFUSAL); /* without a status */
    REFUSE(5 * 8, epoch = 1);
    REFUSE(5 * 8, key = 0);
    REFUSE(5 * 8, round = -1);
    REFUSE(5 * 8, n = -5);
    REFUSE(5 * 8, timeout_ms = -1);
    REFUSE(5 * 8 - 1, n = 5);
    REFUSE(0, n = dist_part_elems(KVS_DTYPE_float64, 0) + 1);
    REFUSE(5 * 8, kind = DIST_PULL); /* has no body */
    REFUSE(5 * 8, kind = DIST_DONE); /* no text where there is no error */
}

static void every_length_but_the_right_one_is_refused(void)
{
    dist_header_t header = a_push(), got;
    uint8_t bytes[DIST_MAX_HEADER_BYTES + 8] = {0};
    size_t n = dist_header_encode(&header, bytes);

    for (size_t i = 0; i < n + 8; i++) {
        if (i != n) {
            KT_FAIL(dist_header_decode(bytes, i, 5 * 8, &got), KVS_ERR_FORMAT, "is malformed");
        }
    }
    bytes[76] = KVS_OPTIMIZER_MAX_SCALARS + 1;
    KT_FAIL(dist_header_decode(bytes, n, 5 * 8, &got), KVS_ERR_FORMAT, "is malformed");
}

static void parts_cover_an_array(void)
{
    KT_INT(dist_part_elems(KVS_DTYPE_float32, 0), 65536);
    KT_INT(dist_part_elems(KVS_DTYPE_int8, 0), 262144);
    KT_INT(dist_part_elems(KVS_DTYPE_float32, 39936), 39936);
    KT_INT(dist_part_elems(KVS_DTYPE_float64, 39936), 32768);
    KT_INT(dist_n_parts(65536, 0), 1);
    KT_INT(dist_n_parts(65536, 1), 1);
    KT_INT(dist_n_parts(65536, 65536), 1);
    KT_INT(dist_n_parts(65536, 65537), 2);
    KT_INT(dist_n_parts(262144, ((int64_t)1 << 31) + 8), 8193);
}

/* ---- Records ------------------------------------------------------------------------------------------- */

static dist_record_t a_record(void)
{
    static dist_shard_t shards[] = {{.server = 0, .first = 0, .n = 65536},
                                    {.server = 2, .first = 65536, .n = 4464}};
    static char name[] = "fc1_weight";

    return (dist_record_t){.id = 7,
                           .name = name,
                           .dtype = KVS_DTYPE_bfloat16,
                           .ndim = 2,
                           .shape = {700, 100},
                           .n_elems = 70000,
                           .n_shards = 2,
                           .shards = shards};
}

static void a_record_survives_the_way(void)
{
    dist_record_t sent = a_record(), got;
    dist_bytes_t bytes = DIST_BYTES_INIT;

    dist_record_encode(&sent, &bytes);
    KT_OK(dist_record_decode(bytes.data, bytes.n, &got));
    KT_INT(got.id, 7);
    KT_STR(got.name, "fc1_weight");
    KT_INT(got.dtype, KVS_DTYPE_bfloat16);
    KT_INT(got.n_elems, 70000);
    KT_STR(DIST_SHAPE_TEXT(&got), "(700, 100)");
    KT_INT(got.n_shards, 2);
    KT_INT(dist_record_shard_of(&got, 2)->first, 65536);
    KT_TRUE(dist_record_shard_of(&got, 1) == NULL);
    KT_TRUE(dist_record_digest(&got) == dist_record_digest(&sent));
    dist_record_release(&got);
    dist_bytes_release(&bytes);
}

static void a_cut_record_is_refused_wherever_it_is_cut(void)
{
    dist_record_t sent = a_record(), got;
    dist_bytes_t bytes = DIST_BYTES_INIT;

    dist_record_encode(&sent, &bytes);
    for (size_t i = 0; i < bytes.n; i++) {
        KT_FAIL(dist_record_decode(bytes.data, i, &got), KVS_ERR_FORMAT, "is malformed");
    }
    dist_put_u8(&bytes, 0);
    KT_FAIL(dist_record_decode(bytes.data, bytes.n, &got), KVS_ERR_FORMAT, "is malformed");
    dist_bytes_release(&bytes);
}

static void shards_that_do_not_cover_the_array_are_refused(void)
{
    static const dist_shard_t wrong[][2] = {
        {{.first = 0, .n = 70000}, {.first = 70000, .n = 1}},
        {{.first = 0, .n = 65536}, {.first = 65537, .n = 4463}},
        {{.first = 0, .n = -1}, {.first = -1, .n = 70001}},
        {{.first = 1, .n = 65535}, {.first = 65536, .n = 4464}},
        {{.first = 0, .n = INT64_MAX}, {.first = INT64_MAX, .n = INT64_MAX}}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dist_record_t sent = a_record(), got;
        dist_bytes_t bytes = DIST_BYTES_INIT;
        dist_shard_t shards[2] = {wrong[i][0], wrong[i][1]};

        sent.shards = shards;
        dist_record_encode(&sent, &bytes);
        KT_FAIL(dist_record_decode(bytes.data, bytes.n, &got), KVS_ERR_FORMAT, "is malformed");
        dist_bytes_release(&bytes);
    }
}

static void shapes_that_overflow_are_refused(void)
{
    static const int64_t wrong[][2] = {
        {INT64_MAX, 2}, {-1, -1}, {(int64_t)1 << 32, (int64_t)1 << 31}, {(int64_t)1 << 60, 2}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dist_record_t sent = a_record(), got;
        dist_bytes_t bytes = DIST_BYTES_INIT;

        memcpy(sent.shape, wrong[i], sizeof(wrong[i]));
        sent.n_shards = 0;
        dist_record_encode(&sent, &bytes);
        KT_FAIL(dist_record_decode(bytes.data, bytes.n, &got), KVS_ERR_FORMAT, "is malformed");
        dist_bytes_release(&bytes);
    }
}

static void names_and_numbers_are_different_keys(void)
{
    char three[] = "3";
    dist_record_t text = {.name = three}, number = {.number = 3};

    KT_TRUE(!dist_record_same_name(&text, &number));
    KT_TRUE(dist_record_name_hash(&text) != dist_record_name_hash(&number));
    KT_STR(DIST_KEY_TEXT(&text), "key '3'");
    KT_STR(DIST_KEY_TEXT(&number), "key 3");
}

static void a_long_name_is_cut_between_characters(void)
{
    char name[200];
    dist_record_t record = {.name = name};

    memset(name, 'a', sizeof(name));
    memcpy(name + 79, "\xc3\xa9", 2); /* é across the place of the cut */
    name[150] = '\0';
    KT_HAS(DIST_KEY_TEXT(&record), "aaa...'");
    KT_TRUE(strstr(DIST_KEY_TEXT(&record), "\xc3") == NULL);
}

static void the_digest_tells_shapes_and_dtypes_apart(void)
{
    dist_record_t a = {.number = 1, .dtype = 0, .ndim = 1, .shape = {6}}, b = a;

    KT_TRUE(dist_record_digest(&a) == dist_record_digest(&b));
    b.ndim = 2;
    b.shape[1] = 1;
    KT_TRUE(dist_record_digest(&a) != dist_record_digest(&b));
    b = a;
    b.dtype = 1;
    KT_TRUE(dist_record_digest(&a) != dist_record_digest(&b));
    b = a;
    b.number = 2;
    KT_TRUE(dist_record_digest(&a) != dist_record_digest(&b));
}

/* ---- Optimizers ---------------------------------------------------------------------------------------- */

static kvs_optimizer_spec_t a_spec(void)
{
    static const int64_t steps[] = {10, 20};
    static const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value = {.real = 0.1}},
        {.name = "multi_precision", .type = KVS_PARAM_BOOL, .value = {.integer = 1}},
        {.name = "clip_gradient", .type = KVS_PARAM_NULL},
        {.name = "begin_num_update", .type = KVS_PARAM_INT, .value = {.integer = -3}}};
    static const kvs_param_t schedule_params[] = {
        {.name = "step", .type = KVS_PARAM_INTS, .value = {.integers = steps}, .n_integers = 2},
        {.name = "warmup_mode", .type = KVS_PARAM_TEXT, .value = {.text = "linear"}}};
    static const kvs_multiplier_t lr_mult[] = {{{NULL, 3}, 2}, {{"w", 0}, 0.5}};
    static const kvs_param_name_t names[] = {{{NULL, 3}, "w_gamma"}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 4;
    spec.lr_mult = lr_mult;
    spec.n_lr_mult = 2;
    spec.names = names;
    spec.n_names = 1;
    spec.schedule = "multifactor";
    spec.schedule_params = schedule_params;
    spec.n_schedule_params = 2;
    return spec;
}

static void a_specification_survives_the_way(void)
{
    kvs_optimizer_spec_t sent = a_spec();
    dist_bytes_t bytes = DIST_BYTES_INIT;
    dist_spec_t got;
    char text[DIST_SPEC_TEXT_BYTES];

    KT_OK(dist_spec_encode(&sent, &bytes));
    KT_OK(dist_spec_decode(bytes.data, bytes.n, &got));
    KT_STR(got.spec.name, "sgd");
    KT_INT(got.spec.n_params, 4);
    KT_STR(got.spec.params[3].name, "begin_num_update");
    KT_REAL(got.spec.params[0].value.real, 0.1);
    KT_INT(got.spec.params[3].value.integer, -3);
    KT_INT(got.spec.n_lr_mult, 2);
    KT_INT(got.spec.lr_mult[0].key.num, 3);
    KT_STR(got.spec.lr_mult[1].key.str, "w");
    KT_INT(got.spec.n_wd_mult, 0);
    KT_STR(got.spec.names[0].name, "w_gamma");
    KT_STR(got.spec.schedule, "multifactor");
    KT_INT(got.spec.schedule_params[0].value.integers[1], 20);
    KT_STR(got.spec.schedule_params[1].value.text, "linear");
    dist_spec_release(&got);
    KT_STR(
        dist_spec_text(bytes.data, bytes.n, text),
        "sgd (learning_rate 0.1, multi_precision true, clip_gradient null, begin_num_update -3), "
        "schedule multifactor (step 2 numbers, warmup_mode 'linear'), 2 lr_mult, 0 wd_mult, 1 "
        "names");
    dist_bytes_release(&bytes);
}

static void a_cut_specification_is_refused_wherever_it_is_cut(void)
{
    kvs_optimizer_spec_t sent = a_spec();
    dist_bytes_t bytes = DIST_BYTES_INIT;
    dist_spec_t got;

    KT_OK(dist_spec_encode(&sent, &bytes));
    for (size_t i = 0; i < bytes.n; i++) {
        KT_FAIL(dist_spec_decode(bytes.data, i, &got), KVS_ERR_FORMAT, "is malformed");
    }
    dist_bytes_release(&bytes);
}

static void what_is_null_in_a_specification_is_named(void)
{
    kvs_param_t param = {.name = NULL};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    dist_bytes_t bytes = DIST_BYTES_INIT;

    KT_FAIL(dist_spec_encode(&spec, &bytes), KVS_ERR_ARGUMENT, "the name of the optimizer is NULL");
    spec.name = "sgd";
    spec.n_params = 1;
    KT_FAIL(dist_spec_encode(&spec, &bytes), KVS_ERR_ARGUMENT, "the list of parameters is NULL");
    spec.params = &param;
    KT_FAIL(dist_spec_encode(&spec, &bytes), KVS_ERR_ARGUMENT, "the name of a parameter is NULL");
    param.name = "momentum";
    param.type = KVS_PARAM_TEXT;
    KT_FAIL(dist_spec_encode(&spec, &bytes), KVS_ERR_ARGUMENT, "the text of a parameter is NULL");
    dist_bytes_release(&bytes);
}

static const kt_test_t tests[] = {
    KT_TEST(a_header_survives_the_way),
    KT_TEST(a_header_has_the_bytes_of_the_reference),
    KT_TEST(what_no_honest_peer_sends_is_refused),
    KT_TEST(every_length_but_the_right_one_is_refused),
    KT_TEST(parts_cover_an_array),
    KT_TEST(a_record_survives_the_way),
    KT_TEST(a_cut_record_is_refused_wherever_it_is_cut),
    KT_TEST(shards_that_do_not_cover_the_array_are_refused),
    KT_TEST(shapes_that_overflow_are_refused),
    KT_TEST(names_and_numbers_are_different_keys),
    KT_TEST(a_long_name_is_cut_between_characters),
    KT_TEST(the_digest_tells_shapes_and_dtypes_apart),
    KT_TEST(a_specification_survives_the_way),
    KT_TEST(a_cut_specification_is_refused_wherever_it_is_cut),
    KT_TEST(what_is_null_in_a_specification_is_named),
};

KT_MAIN("message", tests)
