/* SPDX-License-Identifier: Apache-2.0 */
/* test_data.c - a pair of files becomes a set, or an error that says what doesn't fit. */
#include "data.h"

#include "tiny_set.h"

#include <kt.h>
#include <math.h>

static void a_pair_of_files_is_loaded(void)
{
    const char *dir = kt_temp_dir();
    dataset_t written = tiny_set(300, 1), read = {0};

    tiny_write_set(dir, "train", &written);
    if (KT_OK(dataset_load(dir, "train", &read))) {
        KT_INT(read.n_images, 300);
        KT_INT(read.rows, TINY_SIDE);
        KT_INT(read.columns, TINY_SIDE);
        KT_TRUE(memcmp(read.pixels, written.pixels, 300 * TINY_SIDE * TINY_SIDE) == 0);
        KT_TRUE(memcmp(read.labels, written.labels, 300) == 0);
    }
    dataset_release(&written);
    dataset_release(&read);
}

static void missing_files_name_the_package_and_the_option(void)
{
    dataset_t set;

    KT_FAIL(dataset_load("/nowhere", "train", &set), KVS_ERR_NOT_FOUND,
            "/nowhere/train-images-idx3-ubyte: no such file");
    KT_HAS(kvs_last_error(), "dataset-fashion-mnist");
    KT_HAS(kvs_last_error(), "--data");
}

static void as_many_labels_as_images_are_needed(void)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    const char *dir = kt_temp_dir();
    dataset_t written = tiny_set(3, 1), read;

    tiny_write_set(dir, "t10k", &written);
    tiny_write(dir, "t10k-labels-idx1-ubyte", labels, sizeof(labels));
    KT_FAIL(dataset_load(dir, "t10k", &read), KVS_ERR_FORMAT, "t10k has 3 images and 2 labels");
    dataset_release(&written);
}

static void a_label_without_a_class_is_refused(void)
{
    const char *dir = kt_temp_dir();
    dataset_t written = tiny_set(3, 1), read;

    written.labels[1] = 10;
    tiny_write_set(dir, "train", &written);
    KT_FAIL(dataset_load(dir, "train", &read), KVS_ERR_FORMAT, "label 1 of train is 10");
    dataset_release(&written);
}

static void pixels_become_floats_about_zero(void)
{
    dataset_t set = tiny_set(2, 1);
    float values[TINY_SIDE * TINY_SIDE];

    set.pixels[TINY_SIDE * TINY_SIDE] = 0;
    set.pixels[TINY_SIDE * TINY_SIDE + 1] = 255;
    dataset_image(&set, 1, values);
    KT_TRUE(fabs(values[0] - (0 - 0.2860) / 0.3530) < 1e-6);
    KT_TRUE(fabs(values[1] - (1 - 0.2860) / 0.3530) < 1e-6);
    dataset_release(&set);
}

static const kt_test_t tests[] = {
    KT_TEST(a_pair_of_files_is_loaded),
    KT_TEST(missing_files_name_the_package_and_the_option),
    KT_TEST(as_many_labels_as_images_are_needed),
    KT_TEST(a_label_without_a_class_is_refused),
    KT_TEST(pixels_become_floats_about_zero),
};

KT_MAIN("demo.data", tests)
