/* SPDX-License-Identifier: Apache-2.0 */
/* From the arguments of a call to groups: what backends are given, what is refused, and that a list
 * is carried out whole or not at all. */
#include "calls.h"

#include <math.h>
#include <stdlib.h>

enum { N = 4 };
static const int64_t shape[] = {N};
static float slots[16][N];

/* Array `i`, full of `value`. */
static kvs_tensor_t filled(int i, float value)
{
    for (int j = 0; j < N; j++) {
        slots[i][j] = value;
    }
    return kt_tensor(slots[i], KVS_DTYPE_float32, shape, 1);
}

static kvs_tensor_t slot(int i)
{
    return kt_tensor(slots[i], KVS_DTYPE_float32, shape, 1);
}

#define KEYS(...)   ((const kvs_key_t[]){__VA_ARGS__})
#define ARRAYS(...) ((const kvs_tensor_t[]){__VA_ARGS__})
#define I(number)                                                                                  \
    {                                                                                              \
        NULL, (number)                                                                             \
    }
#define S(text)                                                                                    \
    {                                                                                              \
        (text), 0                                                                                  \
    }

static kvs_store_t *begin(const char *type)
{
    fake_begin();
    return fake_open(type);
}

/* Integer keys 0 to n - 1, each with the value of its number; then the record begins. */
static kvs_store_t *begin_with_keys(int n)
{
    kvs_store_t *store = begin(FAKE);

    for (int k = 0; k < n; k++) {
        kvs_key_t key = kvs_key_int(k);
        kvs_tensor_t value = filled(15, (float)k);
        kvs_arrays_t values = kvs_arrays(&value, 1);

        KT_OK(kvs_store_init(store, &key, 1, &values, NULL));
    }
    fake_begin();
    return store;
}

static kvs_status_t run(kvs_store_t *store, kvs_verb_t verb, const kvs_key_t *keys, size_t n_keys,
                        const kvs_arrays_t *values, const kvs_arrays_t *outs)
{
    switch (verb) {
    case KVS_VERB_INIT:
        return kvs_store_init(store, keys, n_keys, values, NULL);
    case KVS_VERB_PUSH:
        return kvs_store_push(store, keys, n_keys, values, NULL);
    case KVS_VERB_PULL:
        return kvs_store_pull(store, keys, n_keys, outs, NULL);
    case KVS_VERB_BROADCAST:
        return kvs_store_broadcast(store, keys, n_keys, values, outs, NULL);
    default:
        return kvs_store_pushpull(store, keys, n_keys, values, outs, NULL);
    }
}

/* Lists without numbers per key. */
static kvs_status_t run_lists(kvs_store_t *store, kvs_verb_t verb, const kvs_key_t *keys,
                              size_t n_keys, const kvs_tensor_t *values, size_t n_values,
                              const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_arrays_t value_list = kvs_arrays(values, n_values), out_list = kvs_arrays(outs, n_outs);

    return run(store, verb, keys, n_keys, &value_list, outs == NULL ? NULL : &out_list);
}

static kvs_status_t init_list(kvs_store_t *store, const kvs_key_t *keys, const kvs_tensor_t *values,
                              size_t n)
{
    return run_lists(store, KVS_VERB_INIT, keys, n, values, n, NULL, 0);
}

static kvs_status_t push_list(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                              const kvs_tensor_t *values, size_t n_values)
{
    return run_lists(store, KVS_VERB_PUSH, keys, n_keys, values, n_values, NULL, 0);
}

static kvs_status_t pull_list(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                              const kvs_tensor_t *outs, size_t n_outs)
{
    return run_lists(store, KVS_VERB_PULL, keys, n_keys, NULL, 0, outs, n_outs);
}

static void check_slot(int i, float want)
{
    for (int j = 0; j < N; j++) {
        KT_REAL(slots[i][j], want);
    }
}

static void check_close(kvs_store_t *store)
{
    KT_OK(kvs_store_close(store));
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static void all_arrays_of_a_call_with_one_key_are_that_keys(void)
{
    kvs_store_t *store = begin_with_keys(1);
    const fake_group_t *group;

    KT_OK(push_list(store, KEYS(I(0)), 1, ARRAYS(filled(0, 1), filled(1, 2), filled(2, 4)), 3));
    KT_STR(fake_calls(), "push 0");
    group = &fake_call(0)->groups[0];
    KT_INT(group->n_values, 3);
    KT_TRUE(group->values[0] == slots[0] && group->values[1] == slots[1] &&
            group->values[2] == slots[2]);
    KT_INT(group->n_outs, 0);
    KT_OK(pull_list(store, KEYS(I(0)), 1, ARRAYS(slot(3), slot(4)), 2));
    KT_INT(fake_call(1)->groups[0].n_outs, 2);
    check_slot(3, 7);
    check_slot(4, 7);
    check_close(store);
}

static void numbers_per_key_cut_the_list(void)
{
    kvs_store_t *store = begin_with_keys(3);
    const kvs_tensor_t *list = ARRAYS(filled(0, 1), filled(1, 2), filled(2, 4), filled(3, 8));
    kvs_arrays_t values = {list, 4, (const size_t[]){1, 2, 1}, 3};

    KT_OK(run(store, KVS_VERB_PUSH, KEYS(I(0), I(1), I(2)), 3, &values, NULL));
    KT_STR(fake_calls(), "push 0, push 1, push 2");
    KT_INT(fake_call(1)->groups[0].n_values, 2);
    KT_TRUE(fake_call(1)->groups[0].values[0] == slots[1]);
    KT_TRUE(fake_call(2)->groups[0].values[0] == slots[3]);
    KT_INT(fake_call(2)->groups[0].list_index, 2);
    check_close(store);
}

static void values_of_a_key_that_repeats_form_one_group_in_list_order(void)
{
    kvs_store_t *store = begin_with_keys(3);
    const fake_group_t *group;

    KT_OK(push_list(store, KEYS(I(2), I(1), I(2), I(2)), 4,
                    ARRAYS(filled(0, 1), filled(1, 2), filled(2, 4), filled(3, 8)), 4));
    KT_STR(fake_calls(), "push 1, push 2");
    group = &fake_call(1)->groups[0];
    KT_INT(group->n_values, 3);
    KT_TRUE(group->values[0] == slots[0] && group->values[1] == slots[2] &&
            group->values[2] == slots[3]);
    KT_INT(group->list_index, 0);
    KT_INT(fake_call(0)->groups[0].list_index, 1);
    check_close(store);
}

static void a_key_that_repeats_gets_the_arrays_of_all_its_places(void)
{
    kvs_store_t *store = begin_with_keys(3);
    const kvs_tensor_t *list =
        ARRAYS(filled(0, 1), filled(1, 2), filled(2, 4), filled(3, 8), filled(4, 16));
    kvs_arrays_t values = {list, 5, (const size_t[]){1, 2, 2}, 3};
    const fake_group_t *group;

    KT_OK(run(store, KVS_VERB_PUSH, KEYS(I(1), I(2), I(1)), 3, &values, NULL));
    group = &fake_call(0)->groups[0];
    KT_STR(group->key, "1");
    KT_INT(group->n_values, 3);
    KT_TRUE(group->values[0] == slots[0] && group->values[1] == slots[3] &&
            group->values[2] == slots[4]);
    KT_INT(fake_call(1)->groups[0].n_values, 2);
    check_close(store);
}

static void pushes_go_by_number_and_pulls_in_list_order(void)
{
    kvs_store_t *store = begin(FAKE);
    const kvs_key_t *keys = KEYS(I(5), I(-3), I(4), I(INT64_MIN), I(0));
    const kvs_tensor_t *arrays = ARRAYS(slot(0), slot(1), slot(2), slot(3), slot(4));

    KT_OK(init_list(store, keys, arrays, 5));
    KT_OK(push_list(store, keys, 5, arrays, 5));
    KT_OK(pull_list(store, keys, 5, arrays, 5));
    KT_STR(fake_calls(), "init 5, init -3, init 4, init -9223372036854775808, init 0, "
                         "push -9223372036854775808, push -3, push 0, push 4, push 5, "
                         "pull 5, pull -3, pull 4, pull -9223372036854775808, pull 0");
    check_close(store);
}

static void pushes_of_strings_go_in_order_of_init(void)
{
    kvs_store_t *store = begin(FAKE);
    const kvs_tensor_t *arrays = ARRAYS(slot(0), slot(1), slot(2));

    KT_OK(init_list(store, KEYS(S("w"), S("b")), arrays, 2));
    KT_OK(init_list(store, KEYS(S("a")), arrays, 1));
    KT_OK(push_list(store, KEYS(S("a"), S("b"), S("w")), 3, arrays, 3));
    KT_STR(fake_calls(), "init w, init b, init a, push w, push b, push a");
    KT_INT(fake_call(0)->groups[0].number, 0);
    KT_INT(fake_call(1)->groups[0].number, 1);
    KT_INT(fake_call(2)->groups[0].number, 2);
    check_close(store);
}

static void exchanges_without_weights_go_in_list_order(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);

    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(5), I(3)), 2, ARRAYS(slot(0), slot(1)), 2,
                    ARRAYS(slot(2), slot(3)), 2));
    KT_STR(fake_calls(), "pushpull 5, pushpull 3");
    check_close(store);
}

static void operations_are_numbered_in_order_of_issue(void)
{
    kvs_store_t *store = begin_with_keys(1);
    uint64_t first;

    KT_OK(push_one(store, 0, 1) == KVS_ERR_SHAPE ? KVS_OK : KVS_ERR_INTERNAL); /* takes a number */
    KT_OK(push_list(store, KEYS(I(0)), 1, ARRAYS(slot(0)), 1));
    KT_OK(pull_list(store, KEYS(I(0)), 1, ARRAYS(slot(0)), 1));
    first = fake_call(0)->sequence;
    KT_TRUE(first > 0);
    KT_TRUE(fake_call(1)->sequence > first);
    check_close(store);
}

static void a_byte_offset_is_added_to_the_data(void)
{
    kvs_store_t *store = begin_with_keys(1);
    kvs_tensor_t array = slot(0);

    array.byte_offset = sizeof(slots[0]);
    KT_OK(push_list(store, KEYS(I(0)), 1, &array, 1));
    KT_TRUE(fake_call(0)->groups[0].values[0] == slots[1]);
    check_close(store);
}

static void more_than_2_to_the_31_elements_are_passed_on(void)
{
    static const int64_t huge[] = {3, (int64_t)1 << 31};
    kvs_store_t *store = begin(FAKE);
    kvs_tensor_t array = kt_tensor((void *)64, KVS_DTYPE_int8, huge, 2); /* nobody looks there */
    kvs_stats_t stats = {.size = sizeof(stats)};

    KT_OK(init_list(store, KEYS(I(1)), &array, 1));
    KT_OK(push_list(store, KEYS(I(1)), 1, &array, 1));
    KT_TRUE(fake_call(1)->groups[0].values[0] == (void *)64);
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.bytes_pushed, (int64_t)3 << 31);
    check_close(store);
}

static void each_group_of_each_operation_has_its_own_zeroed_state(void)
{
    kvs_store_t *store = begin_with_keys(3);

    for (int i = 0; i < 2; i++) {
        KT_OK(push_list(store, KEYS(I(0), I(1), I(2)), 3, ARRAYS(slot(0), slot(1), slot(2)), 3));
    }
    for (size_t i = 0; i < 6; i++) {
        KT_TRUE(fake_call(i)->groups[0].was_zeroed);
    }
    check_close(store);
}

static void a_list_longer_than_the_stack_takes_is_grouped_alike(void)
{
    enum { MANY = 200 };
    static kvs_key_t keys[MANY];
    static kvs_tensor_t arrays[MANY];
    kvs_store_t *store = begin(FAKE);
    float sum = 0;

    for (int i = 0; i < MANY; i++) {
        keys[i] = kvs_key_int(i % 2 == 0 ? 0 : i);
        arrays[i] = i == 0 ? filled(0, 1) : slot(0);
        sum += i % 2 == 0 ? 1 : 0;
    }
    for (int i = 0; i < MANY; i += i == 0 ? 1 : 2) {
        KT_OK(init_list(store, &keys[i], &arrays[i], 1));
    }
    fake_begin();
    KT_OK(push_list(store, keys, MANY, arrays, MANY));
    KT_INT(fake_call(0)->groups[0].n_values, MANY / 2);
    KT_OK(pull_list(store, KEYS(I(0)), 1, ARRAYS(slot(1)), 1));
    check_slot(1, sum);
    check_close(store);
}

/* ---- Lists that don't fit together ----------------------------------------------------------- */

static void unequal_lengths_are_refused(void)
{
    kvs_store_t *store = begin_with_keys(3);
    const kvs_tensor_t *arrays = ARRAYS(slot(0), slot(1), slot(2));

    KT_FAIL(push_list(store, KEYS(I(0), I(1)), 2, arrays, 3), KVS_ERR_ARGUMENT,
            "push: 2 keys, but 3 values; give one for each key, or numbers per key");
    KT_FAIL(pull_list(store, KEYS(I(0), I(1), I(2)), 3, arrays, 2), KVS_ERR_ARGUMENT,
            "pull: 3 keys, but 2 outs");
    KT_STR(fake_calls(), "");
    check_close(store);
}

static void numbers_per_key_that_do_not_add_up_are_refused(void)
{
    kvs_store_t *store = begin_with_keys(2);
    const kvs_tensor_t *arrays = ARRAYS(slot(0), slot(1), slot(2));
    const struct {
        size_t per_key[3], n_per_key;
        const char *text;
    } wrong[] = {
        {{2, 2}, 2, "push: the numbers per key add up to 4, but there are 3 values"},
        {{1, 1}, 2, "push: the numbers per key add up to 2, but there are 3 values"},
        {{1, 1, 1}, 3, "push: 2 keys, but numbers of values for 3 keys"},
        {{3}, 1, "push: 2 keys, but numbers of values for 1 keys"},
        {{3, 0}, 2, "push: key 1 has no values"},
        {{SIZE_MAX, 4}, 2, "push: the numbers per key"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        kvs_arrays_t values = {arrays, 3, wrong[i].per_key, wrong[i].n_per_key};

        KT_FAIL(run(store, KVS_VERB_PUSH, KEYS(I(0), I(1)), 2, &values, NULL), KVS_ERR_ARGUMENT,
                wrong[i].text);
    }
    KT_STR(fake_calls(), "");
    check_close(store);
}

static void null_lists_are_refused(void)
{
    kvs_store_t *store = begin_with_keys(1);
    kvs_arrays_t null = kvs_arrays(NULL, 1);

    KT_FAIL(run(store, KVS_VERB_PUSH, NULL, 1, &null, NULL), KVS_ERR_ARGUMENT,
            "push: the keys are NULL");
    KT_FAIL(run(store, KVS_VERB_PUSH, KEYS(I(0)), 1, &null, NULL), KVS_ERR_ARGUMENT,
            "push: the values are NULL");
    KT_FAIL(run(store, KVS_VERB_PULL, KEYS(I(0)), 1, NULL, &null), KVS_ERR_ARGUMENT,
            "pull: the outs are NULL");
    KT_FAIL(run(store, KVS_VERB_PUSH, KEYS(I(0)), 1, NULL, NULL), KVS_ERR_ARGUMENT,
            "push: the list of values is NULL");
    KT_FAIL(run(store, KVS_VERB_PULL, KEYS(I(0)), 1, NULL, NULL), KVS_ERR_ARGUMENT,
            "pull: the list of outs is NULL");
    check_close(store);
}

static void an_empty_group_is_refused(void)
{
    kvs_store_t *store = begin_with_keys(1);

    KT_FAIL(push_list(store, KEYS(I(0)), 1, ARRAYS(slot(0)), 0), KVS_ERR_ARGUMENT,
            "push: key 0 has no values");
    check_close(store);
}

static void an_empty_list_does_nothing(void)
{
    kvs_store_t *store = begin(FAKE);
    kvs_arrays_t none = kvs_arrays(NULL, 0);
    kvs_event_t *event = NULL;
    kvs_call_t options = KVS_CALL_INIT;

    KT_OK(run(store, KVS_VERB_INIT, NULL, 0, &none, NULL));
    KT_OK(run(store, KVS_VERB_PULL, NULL, 0, NULL, &none));
    options.ret_event = &event;
    KT_OK(kvs_store_push(store, NULL, 0, &none, &options));
    KT_INT(is_done(event), 1);
    KT_OK(finish(event));
    KT_STR(fake_calls(), "");
    KT_FAIL(push_list(store, NULL, 0, ARRAYS(slot(0)), 1), KVS_ERR_ARGUMENT,
            "push: no keys, but arrays");
    check_close(store);
}

static void unknown_flags_and_a_wrong_size_of_the_call_are_refused(void)
{
    kvs_store_t *store = begin_with_keys(1);
    kvs_tensor_t array = slot(0);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);
    kvs_call_t options = KVS_CALL_INIT;

    options.flags = 4;
    KT_FAIL(kvs_store_push(store, KEYS(I(0)), 1, &arrays, &options), KVS_ERR_ARGUMENT,
            "push: unknown flags 0x4");
    options.flags = 0;
    options.reduce = 7;
    KT_FAIL(kvs_store_push(store, KEYS(I(0)), 1, &arrays, &options), KVS_ERR_ARGUMENT,
            "push: the call's member reduce is 7, must be 0 but in pushpull");
    options = (kvs_call_t){0};
    KT_FAIL(kvs_store_push(store, KEYS(I(0)), 1, &arrays, &options), KVS_ERR_ARGUMENT,
            "push: the call's size is 0; begin with KVS_CALL_INIT");
    check_close(store);
}

static void priority_and_flags_reach_the_backend(void)
{
    kvs_store_t *store = begin_with_keys(1);
    kvs_tensor_t array = slot(0);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);
    kvs_call_t options = KVS_CALL_INIT;

    options.priority = -7;
    options.flags = KVS_CALL_KEEP_SPARSE;
    KT_OK(kvs_store_pull(store, KEYS(I(0)), 1, &arrays, &options));
    KT_INT(fake_call(0)->priority, -7);
    KT_INT(fake_call(0)->flags, KVS_OP_KEEP_SPARSE | KVS_OP_WAITS);
    check_close(store);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void a_key_that_was_never_initialised_is_named(void)
{
    kvs_store_t *store = begin_with_keys(1);

    KT_FAIL(push_list(store, KEYS(I(7)), 1, ARRAYS(slot(0)), 1), KVS_ERR_NOT_FOUND,
            "push: key 7 was never initialised; init it first");
    KT_FAIL(pull_list(store, KEYS(I(0), I(8)), 2, ARRAYS(slot(0), slot(1)), 2), KVS_ERR_NOT_FOUND,
            "pull: key 8 was never initialised");
    KT_FAIL(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(9)), 1, ARRAYS(slot(0)), 1, NULL, 0),
            KVS_ERR_NOT_FOUND, "pushpull: key 9 was never initialised");
    KT_STR(fake_calls(), "");
    check_close(store);
}

static void a_second_init_is_refused(void)
{
    kvs_store_t *store = begin_with_keys(1);

    KT_FAIL(init_list(store, KEYS(I(0)), ARRAYS(slot(0)), 1), KVS_ERR_EXISTS,
            "init: duplicate init of key 0");
    KT_FAIL(
        run_lists(store, KVS_VERB_BROADCAST, KEYS(I(0)), 1, ARRAYS(slot(0)), 1, ARRAYS(slot(1)), 1),
        KVS_ERR_EXISTS, "broadcast: duplicate init of key 0");
    KT_FAIL(init_list(store, KEYS(I(5), I(6), I(5)), ARRAYS(slot(0), slot(1), slot(2)), 3),
            KVS_ERR_EXISTS, "duplicate init of key 5: it stands twice in the list");
    KT_FAIL(run_lists(store, KVS_VERB_INIT, KEYS(I(5)), 1, ARRAYS(slot(0), slot(1)), 2, NULL, 0),
            KVS_ERR_EXISTS, "duplicate init of key 5: it has 2 values");
    KT_STR(fake_calls(), "");
    check_close(store);
}

static void broadcasts_of_a_store_without_weights_may_be_repeated(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);

    for (int i = 0; i < 2; i++) {
        filled(0, (float)i);
        KT_OK(run_lists(store, KVS_VERB_BROADCAST, KEYS(I(1)), 1, ARRAYS(slot(0)), 1,
                        ARRAYS(slot(1)), 1));
        check_slot(1, (float)i);
    }
    check_close(store);
}

static void key_types_do_not_mix(void)
{
    kvs_store_t *store = begin_with_keys(1);

    KT_FAIL(push_list(store, KEYS(S("0")), 1, ARRAYS(slot(0)), 1), KVS_ERR_KEY_TYPE,
            "key '0': mixed key types are not allowed: this store has integer keys");
    KT_FAIL(init_list(store, KEYS(S("w")), ARRAYS(slot(0)), 1), KVS_ERR_KEY_TYPE, "integer keys");
    KT_FAIL(init_list(store, KEYS(I(3), S("w")), ARRAYS(slot(0), slot(1)), 2), KVS_ERR_KEY_TYPE,
            "init: keys 3 and 'w': mixed key types are not allowed");
    check_close(store);
}

static void impossible_keys_are_refused_and_nothing_is_kept(void)
{
    kvs_store_t *store = begin(FAKE);

    KT_FAIL(init_list(store, KEYS(S("a"), S("\xFF")), ARRAYS(slot(0), slot(1)), 2),
            KVS_ERR_ARGUMENT, "not UTF-8");
    KT_OK(init_list(store, KEYS(I(1)), ARRAYS(slot(0)), 1)); /* the key type is still open */
    check_close(store);
}

/* ---- Whole or not at all --------------------------------------------------------------------- */

static void a_list_whose_last_entry_is_wrong_initialises_nothing(void)
{
    static const int64_t negative[] = {-1};
    kvs_store_t *store = begin(FAKE);
    kvs_tensor_t wrong = kt_tensor(slots[2], KVS_DTYPE_float32, negative, 1);
    kvs_tensor_t on_gpu = slot(2);

    on_gpu.device.type = KVS_DEVICE_CUDA;
    KT_FAIL(init_list(store, KEYS(S("a"), S("b"), S("c")), ARRAYS(slot(0), slot(1), wrong), 3),
            KVS_ERR_ARGUMENT, "key 'c': value 2");
    KT_FAIL(init_list(store, KEYS(S("a"), S("b"), S("c")), ARRAYS(slot(0), slot(1), on_gpu), 3),
            KVS_ERR_NOT_IMPLEMENTED, "key 'c'");
    KT_FAIL(pull_list(store, KEYS(S("a")), 1, ARRAYS(slot(0)), 1), KVS_ERR_NOT_FOUND, "'a'");
    KT_STR(fake_calls(), "");
    /* neither their type nor their numbers are taken */
    KT_OK(init_list(store, KEYS(S("b"), S("a")), ARRAYS(slot(0), slot(1)), 2));
    KT_INT(fake_call(0)->groups[0].number, 0);
    KT_INT(fake_call(1)->groups[0].number, 1);
    check_close(store);
}

static void a_list_whose_last_entry_is_wrong_changes_nothing(void)
{
    static const int64_t other[] = {2, 2};
    kvs_store_t *store = begin_with_keys(2);
    kvs_tensor_t wrong = kt_tensor(slots[1], KVS_DTYPE_float32, other, 2);

    filled(0, 77);
    filled(1, 77);
    KT_FAIL(push_list(store, KEYS(I(0), I(1)), 2, ARRAYS(slot(0), wrong), 2), KVS_ERR_SHAPE,
            "push: key 1: value 0 has shape (2, 2), but the key's shape is (4,)");
    KT_FAIL(push_list(store, KEYS(I(0), I(5)), 2, ARRAYS(slot(0), slot(1)), 2), KVS_ERR_NOT_FOUND,
            "key 5");
    KT_STR(fake_calls(), "");
    KT_OK(pull_list(store, KEYS(I(0)), 1, ARRAYS(slot(2)), 1));
    check_slot(2, 0);
    check_close(store);
}

static void a_refused_exchange_leaves_the_key_type_open(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);
    kvs_tensor_t wrong = kt_tensor(slots[1], KVS_DTYPE_int32, shape, 1);

    KT_FAIL(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, &wrong, 1, NULL, 0),
            KVS_ERR_NOT_IMPLEMENTED, "pushpull: key 1: int32 arrays are not taken by fake_plain");
    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, KEYS(S("w")), 1, ARRAYS(slot(0)), 1, NULL, 0));
    check_close(store);
}

/* ---- Shapes, dtypes, devices ----------------------------------------------------------------- */

static void dtypes_must_be_those_of_init_except_of_floating_outs(void)
{
    kvs_store_t *store = begin_with_keys(1);
    kvs_tensor_t doubles = kt_tensor(slots[0], KVS_DTYPE_float64, shape, 1);
    kvs_tensor_t integers = kt_tensor(slots[0], KVS_DTYPE_int32, shape, 1);

    KT_FAIL(push_list(store, KEYS(I(0)), 1, &doubles, 1), KVS_ERR_DTYPE,
            "push: key 0: value 0 is float64, but the key's dtype is float32");
    KT_OK(pull_list(store, KEYS(I(0)), 1, &doubles, 1));
    KT_FAIL(pull_list(store, KEYS(I(0)), 1, &integers, 1), KVS_ERR_DTYPE,
            "pull: key 0: out 0 is int32, but the key's dtype is float32; only floating dtypes are "
            "converted");
    check_close(store);
}

static void without_weights_the_first_value_gives_shape_and_dtype(void)
{
    static const int64_t other[] = {2};
    kvs_store_t *store = begin(FAKE_PLAIN);
    kvs_tensor_t shorter = kt_tensor(slots[1], KVS_DTYPE_float32, other, 1);

    KT_FAIL(
        run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, ARRAYS(slot(0), shorter), 2, NULL, 0),
        KVS_ERR_SHAPE, "pushpull: key 1: value 1 has shape (2,), but value 0's shape is (4,)");
    KT_FAIL(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, ARRAYS(slot(0)), 1, &shorter, 1),
            KVS_ERR_SHAPE, "out 0 has shape (2,)");
    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, ARRAYS(slot(0)), 1, NULL, 0));
    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, &shorter, 1, NULL, 0));
    check_close(store);
}

static void devices_and_storage_a_backend_does_not_take_are_refused(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);
    kvs_rows_t rows = {0};
    kvs_tensor_t on_gpu = slot(0), sparse = slot(0);

    on_gpu.device = (kvs_device_t){KVS_DEVICE_CUDA, 3};
    sparse.rows = &rows;
    KT_FAIL(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, &on_gpu, 1, NULL, 0),
            KVS_ERR_NOT_IMPLEMENTED,
            "key 1: arrays on cuda(3) (device type 2) are not taken by fake_plain");
    KT_FAIL(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(1)), 1, &sparse, 1, ARRAYS(slot(1)), 1),
            KVS_ERR_NOT_IMPLEMENTED, "key 1: row-sparse arrays are not taken by fake_plain");
    check_close(store);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

/* A pushpull of a store without weights. */
static kvs_store_t *exchange(const kvs_key_t *keys, size_t n_keys, const kvs_tensor_t *values,
                             size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_store_t *store = begin(FAKE_PLAIN);

    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, keys, n_keys, values, n_values, outs, n_outs));
    return store;
}

static void check_shared(const char *calls)
{
    KT_STR(fake_calls(), calls);
    KT_INT(fake_call(0)->flags, KVS_OP_SHARED | KVS_OP_WAITS);
}

static void check_not_shared(const char *calls)
{
    KT_STR(fake_calls(), calls);
    KT_INT(fake_call(0)->flags, KVS_OP_WAITS);
}

/* Elements [from, from + n) of slot 0 and those behind it, as a list of one array. */
static kvs_tensor_t part(int64_t from, const int64_t *n)
{
    return kt_tensor(&slots[0][0] + from, KVS_DTYPE_float32, n, 1);
}

static void the_same_array_in_one_group_is_not_shared(void)
{
    check_close(exchange(KEYS(I(1)), 1, ARRAYS(filled(0, 1), filled(1, 2)), 2, ARRAYS(slot(0)), 1));
    check_not_shared("pushpull 1");
    check_slot(0, 3);
    check_close(
        exchange(KEYS(I(1)), 1, ARRAYS(filled(0, 1), slot(0)), 2, ARRAYS(slot(0), slot(0)), 2));
    check_not_shared("pushpull 1");
    check_slot(0, 2);
    check_close(exchange(KEYS(I(1)), 1, ARRAYS(filled(0, 1), filled(1, 2)), 2, NULL, 0));
    check_not_shared("pushpull 1");
}

static void arrays_that_overlap_in_part_are_shared(void)
{
    check_close(exchange(KEYS(I(1)), 1, ARRAYS(part(0, shape)), 1, ARRAYS(part(1, shape)), 1));
    check_shared("pushpull 1");
    check_close(exchange(KEYS(I(1)), 1, ARRAYS(part(1, shape)), 1, ARRAYS(part(0, shape)), 1));
    check_shared("pushpull 1");
    check_close(
        exchange(KEYS(I(1)), 1, ARRAYS(slot(5)), 1, ARRAYS(part(0, shape), part(3, shape)), 2));
    check_shared("pushpull 1");
}

static void arrays_that_only_touch_are_not_shared(void)
{
    check_close(exchange(KEYS(I(1)), 1, ARRAYS(part(0, shape)), 1,
                         ARRAYS(part(4, shape), part(8, shape)), 2));
    check_not_shared("pushpull 1");
}

static void arrays_without_elements_are_never_shared(void)
{
    static const int64_t none[] = {0};

    check_close(exchange(KEYS(I(1), I(2)), 2, ARRAYS(part(1, none), part(1, shape)), 2,
                         ARRAYS(part(2, none), part(8, shape)), 2));
    check_not_shared("pushpull 1, pushpull 2");
}

static void values_alone_are_never_shared(void)
{
    kvs_store_t *store =
        exchange(KEYS(I(1), I(2)), 2, ARRAYS(slot(0), slot(0)), 2, ARRAYS(slot(1), slot(2)), 2);

    check_not_shared("pushpull 1, pushpull 2");
    check_close(store);
    store = begin_with_keys(2);
    KT_OK(push_list(store, KEYS(I(0), I(1)), 2, ARRAYS(slot(0), slot(0)), 2));
    check_not_shared("push 0, push 1");
    check_close(store);
}

static void a_value_of_one_key_may_be_the_out_of_another(void)
{
    check_close(exchange(KEYS(I(1), I(2)), 2, ARRAYS(filled(0, 10), filled(1, 20)), 2,
                         ARRAYS(slot(1), slot(0)), 2));
    check_shared("pushpull 1+2");
    check_slot(1, 10);
    check_slot(0, 20);
}

static void of_outs_that_share_memory_the_last_in_the_list_stays(void)
{
    kvs_store_t *store = begin_with_keys(6);
    const fake_call_t *pulled;

    KT_OK(pull_list(store, KEYS(I(5), I(3)), 2, ARRAYS(slot(0), slot(0)), 2));
    check_shared("pull 5+3");
    pulled = fake_call(0);
    KT_TRUE(pulled->groups[0].is_numbered);
    KT_INT(pulled->groups[0].out_index[0], 0);
    KT_INT(pulled->groups[1].out_index[0], 1);
    check_slot(0, 3);
    check_close(store);
}

static void outs_of_a_key_that_repeats_keep_their_places(void)
{
    kvs_store_t *store = begin(FAKE_PLAIN);
    const fake_call_t *exchanged;

    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(7), I(3), I(7)), 3,
                    ARRAYS(filled(0, 1), filled(1, 10), filled(2, 2)), 3,
                    ARRAYS(slot(4), slot(4), slot(5)), 3));
    check_shared("pushpull 7+3");
    exchanged = fake_call(0);
    KT_INT(exchanged->groups[0].n_outs, 2);
    KT_INT(exchanged->groups[0].out_index[0], 0);
    KT_INT(exchanged->groups[0].out_index[1], 2);
    KT_INT(exchanged->groups[1].out_index[0], 1);
    KT_INT(exchanged->groups[1].list_index, 1);
    check_slot(4, 10);
    check_slot(5, 3);
    check_close(store);
}

static void outs_of_sorted_groups_keep_their_places(void)
{
    kvs_store_t *store = begin_with_keys(6);

    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, KEYS(I(5), I(3)), 2,
                    ARRAYS(filled(0, 50), filled(1, 30)), 2, ARRAYS(slot(2), slot(2)), 2));
    check_shared("push 3+5, pull 3+5");
    KT_INT(fake_call(1)->groups[0].out_index[0], 1);
    KT_INT(fake_call(1)->groups[1].out_index[0], 0);
    check_slot(2, 30);
    check_close(store);
}

static void an_exchange_in_place_of_one_array_for_two_keys_is_shared(void)
{
    check_close(exchange(KEYS(I(1), I(2)), 2, ARRAYS(filled(0, 5), slot(0)), 2, NULL, 0));
    check_shared("pushpull 1+2");
    KT_INT(fake_call(0)->groups[0].out_index[0], 0);
    KT_INT(fake_call(0)->groups[1].out_index[0], 1);
}

static void one_long_out_across_many_others_is_found(void)
{
    static const int64_t whole[] = {16 * N};
    kvs_store_t *store = begin(FAKE_PLAIN);
    static float inputs[16][N];
    kvs_tensor_t values[15], outs[15];
    kvs_key_t keys[15];

    for (int i = 0; i < 15; i++) {
        keys[i] = kvs_key_int(i);
        values[i] = kt_tensor(inputs[i], KVS_DTYPE_float32, shape, 1);
        outs[i] = slot(i);
    }
    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, keys, 15, values, 15, outs, 15));
    KT_INT(fake_call(14)->flags, KVS_OP_WAITS);
    static float long_input[16 * N];
    values[7] = kt_tensor(long_input, KVS_DTYPE_float32, whole, 1);
    outs[7] =
        kt_tensor(slots[0], KVS_DTYPE_float32, whole, 1); /* first in memory, not in the list */
    KT_OK(run_lists(store, KVS_VERB_PUSHPULL, keys, 15, values, 15, outs, 15));
    KT_INT(fake_call(15)->n_groups, 15);
    KT_INT(fake_call(15)->flags, KVS_OP_SHARED | KVS_OP_WAITS);
    check_close(store);
}

static void row_sparse_outs_that_share_memory_are_shared(void)
{
    static const int64_t table[] = {8, 2};
    static int64_t id_memory[2][2];
    static float row_memory[2][4];
    kvs_store_t *store = begin(FAKE);
    kvs_rows_t rows[2] = {{.ids = id_memory[0], .n_rows = 2, .capacity = 2},
                          {.ids = id_memory[1], .n_rows = 2, .capacity = 2}};
    kvs_tensor_t outs[2];
    kvs_tensor_t row_ids = kt_tensor(slots[15], KVS_DTYPE_int32, shape, 1);
    kvs_arrays_t ids = {ARRAYS(row_ids, row_ids), 2, NULL, 0}, list = {outs, 2, NULL, 0};

    for (int i = 0; i < 2; i++) {
        outs[i] = kt_tensor(row_memory[i], KVS_DTYPE_float32, table, 2);
        outs[i].rows = &rows[i];
    }
    KT_OK(init_list(store, KEYS(I(1), I(2)), outs, 2));
    fake_begin();
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1), I(2)), 2, &list, &ids, NULL));
    check_not_shared("row_sparse_pull 1, row_sparse_pull 2");

    outs[1].data = row_memory[0]; /* the rows */
    fake_begin();
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1), I(2)), 2, &list, &ids, NULL));
    check_shared("row_sparse_pull 1+2");

    outs[1].data = row_memory[1];
    rows[1].ids = &id_memory[0][1]; /* the ids, in part */
    fake_begin();
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1), I(2)), 2, &list, &ids, NULL));
    check_shared("row_sparse_pull 1+2");
    check_close(store);
}

static const kt_test_t tests[] = {
    KT_TEST(all_arrays_of_a_call_with_one_key_are_that_keys),
    KT_TEST(numbers_per_key_cut_the_list),
    KT_TEST(values_of_a_key_that_repeats_form_one_group_in_list_order),
    KT_TEST(a_key_that_repeats_gets_the_arrays_of_all_its_places),
    KT_TEST(pushes_go_by_number_and_pulls_in_list_order),
    KT_TEST(pushes_of_strings_go_in_order_of_init),
    KT_TEST(exchanges_without_weights_go_in_list_order),
    KT_TEST(operations_are_numbered_in_order_of_issue),
    KT_TEST(a_byte_offset_is_added_to_the_data),
    KT_TEST(more_than_2_to_the_31_elements_are_passed_on),
    KT_TEST(each_group_of_each_operation_has_its_own_zeroed_state),
    KT_TEST(a_list_longer_than_the_stack_takes_is_grouped_alike),
    KT_TEST(unequal_lengths_are_refused),
    KT_TEST(numbers_per_key_that_do_not_add_up_are_refused),
    KT_TEST(null_lists_are_refused),
    KT_TEST(an_empty_group_is_refused),
    KT_TEST(an_empty_list_does_nothing),
    KT_TEST(unknown_flags_and_a_wrong_size_of_the_call_are_refused),
    KT_TEST(priority_and_flags_reach_the_backend),
    KT_TEST(a_key_that_was_never_initialised_is_named),
    KT_TEST(a_second_init_is_refused),
    KT_TEST(broadcasts_of_a_store_without_weights_may_be_repeated),
    KT_TEST(key_types_do_not_mix),
    KT_TEST(impossible_keys_are_refused_and_nothing_is_kept),
    KT_TEST(a_list_whose_last_entry_is_wrong_initialises_nothing),
    KT_TEST(a_list_whose_last_entry_is_wrong_changes_nothing),
    KT_TEST(a_refused_exchange_leaves_the_key_type_open),
    KT_TEST(dtypes_must_be_those_of_init_except_of_floating_outs),
    KT_TEST(without_weights_the_first_value_gives_shape_and_dtype),
    KT_TEST(devices_and_storage_a_backend_does_not_take_are_refused),
    KT_TEST(the_same_array_in_one_group_is_not_shared),
    KT_TEST(arrays_that_overlap_in_part_are_shared),
    KT_TEST(arrays_that_only_touch_are_not_shared),
    KT_TEST(arrays_without_elements_are_never_shared),
    KT_TEST(values_alone_are_never_shared),
    KT_TEST(a_value_of_one_key_may_be_the_out_of_another),
    KT_TEST(of_outs_that_share_memory_the_last_in_the_list_stays),
    KT_TEST(outs_of_a_key_that_repeats_keep_their_places),
    KT_TEST(outs_of_sorted_groups_keep_their_places),
    KT_TEST(an_exchange_in_place_of_one_array_for_two_keys_is_shared),
    KT_TEST(one_long_out_across_many_others_is_found),
    KT_TEST(row_sparse_outs_that_share_memory_are_shared),
};
KT_MAIN("op", tests)
