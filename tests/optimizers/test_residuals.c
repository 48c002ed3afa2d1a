/* SPDX-License-Identifier: Apache-2.0 */
/* The residuals of compression in files of states: of keys w, float32 (3, 4), and scalar, float32 (). */
#include "states_rig.h"

#include "kt.h"

#include <math.h>
#include <stdlib.h>

enum { W = 0, SCALAR = 4, W_ELEMS = 12 };

static const float first[W_ELEMS] = {0.25f, -0.5f, 1, 2, 3, 4, 5, 6, 7, 8, 9, -0.0f};
static const float third[W_ELEMS] = {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, 1e-40f};

/* w has residuals in places 0 and 2, of which 1 follows, scalar has one in place 0. */
static states_rig_t with_residuals(void)
{
    states_rig_t rig = states_rig(rig_opt("sgd", NULL, 0), 0);

    KT_STR(rig.keys[W].entry.name, "w");
    KT_STR(rig.keys[SCALAR].entry.name, "scalar");
    KT_OK(kvs_residuals_set(&rig.residuals[W], W_ELEMS, 0, first));
    KT_OK(kvs_residuals_set(&rig.residuals[W], W_ELEMS, 2, third));
    KT_OK(kvs_residuals_set(&rig.residuals[SCALAR], 1, 0, first));
    return rig;
}

static void want(const states_rig_t *rig, size_t key, size_t place, const float *wanted, size_t n)
{
    KT_TRUE(rig->residuals[key].n > place);
    KT_TRUE(memcmp(kvs_residuals_at(&rig->residuals[key], place), wanted, n * sizeof(float)) == 0);
}

static void want_all(const states_rig_t *rig)
{
    const float zeros[W_ELEMS] = {0};

    KT_INT(rig->residuals[W].n, 3);
    want(rig, W, 0, first, W_ELEMS);
    want(rig, W, 1, zeros, W_ELEMS);
    want(rig, W, 2, third, W_ELEMS);
    KT_INT(rig->residuals[SCALAR].n, 1);
    want(rig, SCALAR, 0, first, 1);
}

static void go_there_and_back(int dump_optimizer)
{
    states_rig_t rig = with_residuals(), other = states_rig(rig_opt("sgd", NULL, 0), 0);
    const char *path = states_path("residuals");

    KT_OK(states_rig_save(&rig, path, dump_optimizer));
    KT_OK(states_rig_load(&other, path));
    want_all(&other);
    states_rig_release(&rig);
    states_rig_release(&other);
}

static void residuals_go_along_with_and_without_the_optimizer(void)
{
    go_there_and_back(0);
    go_there_and_back(1);
}

static void they_are_tensors_of_their_key_by_place(void)
{
    states_rig_t rig = with_residuals();
    const char *path = states_path("tensors");
    bytes_t file, header;

    KT_OK(states_rig_save(&rig, path, 0));
    file = bytes_read(path);
    header = bytes_header(&file);
    KT_HAS(header.data, "\"residual0/w\":{\"dtype\":\"F32\",\"shape\":[3,4]");
    KT_HAS(header.data, "\"residual1/w\":{");
    KT_HAS(header.data, "\"residual2/w\":{");
    KT_HAS(header.data, "\"residual0/scalar\":{\"dtype\":\"F32\",\"shape\":[]");
    bytes_release(&file);
    bytes_release(&header);
    states_rig_release(&rig);
}

static void a_key_that_has_none_in_the_file_has_none_afterwards(void)
{
    states_rig_t rig = states_rig(rig_opt("sgd", NULL, 0), 0), other = with_residuals();
    const char *path = states_path("none");

    states_rig_update(&rig, 1);
    KT_OK(states_rig_save(&rig, path, 1));
    KT_OK(states_rig_load(&other, path));
    KT_INT(other.residuals[W].n, 0);
    KT_INT(other.residuals[SCALAR].n, 0);
    states_rig_release(&rig);
    states_rig_release(&other);
}

static void who_keeps_none_passes_them_over(void)
{
    states_rig_t rig = with_residuals(), other = states_rig(rig_opt("sgd", NULL, 0), 0);
    const char *path = states_path("passed_over");
    kvs_opt_item_t items[STATES_MAX_KEYS];
    kvs_opt_file_t *file = NULL;

    KT_OK(states_rig_save(&rig, path, 0));
    for (size_t i = 0; i < other.n_keys; i++) {
        other.keys[i].entry.shape = other.keys[i].shape;
        items[i] = (kvs_opt_item_t){&other.keys[i].entry, &other.keys[i].state, NULL};
    }
    KT_OK(kvs_opt_file_open(path, &file));
    KT_OK(kvs_opt_file_load(file, &other.opt, items, other.n_keys));
    kvs_opt_file_close(file);
    states_rig_release(&rig);
    states_rig_release(&other);
}

/* Loading the bent file fails with that, and all residuals are those of before. */
static void refused(const char *old, const char *new_text, kvs_status_t status, const char *part)
{
    states_rig_t rig = with_residuals();
    const char *path = states_path("refused");
    bytes_t file, bent;

    KT_OK(states_rig_save(&rig, path, 0));
    file = bytes_read(path);
    bent = bytes_bend(&file, old, new_text);
    bytes_write(path, &bent);
    KT_FAIL(states_rig_load(&rig, path), status, part);
    want_all(&rig);
    bytes_release(&file);
    bytes_release(&bent);
    states_rig_release(&rig);
}

static void other_shapes_and_dtypes_are_errors(void)
{
    refused("\"residual0/w\":{\"dtype\":\"F32\",\"shape\":[3,4]",
            "\"residual0/w\":{\"dtype\":\"F32\",\"shape\":[4,3]", KVS_ERR_SHAPE,
            "tensor 'residual0/w' has shape (4, 3), but that state has (3, 4)");
    refused("\"residual0/w\":{\"dtype\":\"F32\"", "\"residual0/w\":{\"dtype\":\"I32\"",
            KVS_ERR_DTYPE, "tensor 'residual0/w' has dtype int32, but that state has float32");
}

static void a_value_that_is_not_finite_is_an_error(void)
{
    states_rig_t rig = with_residuals(), other = with_residuals();
    const float odd[1] = {INFINITY};
    const char *path = states_path("odd");

    KT_OK(kvs_residuals_set(&rig.residuals[SCALAR], 1, 0, odd));
    KT_OK(states_rig_save(&rig, path, 0));
    KT_FAIL(states_rig_load(&other, path), KVS_ERR_FORMAT,
            "element 0 of tensor 'residual0/scalar' is not finite");
    want_all(&other);
    states_rig_release(&rig);
    states_rig_release(&other);
}

static const kt_test_t tests[] = {
    KT_TEST(residuals_go_along_with_and_without_the_optimizer),
    KT_TEST(they_are_tensors_of_their_key_by_place),
    KT_TEST(a_key_that_has_none_in_the_file_has_none_afterwards),
    KT_TEST(who_keeps_none_passes_them_over),
    KT_TEST(other_shapes_and_dtypes_are_errors),
    KT_TEST(a_value_that_is_not_finite_is_an_error),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("optimizers.residuals", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
