/* SPDX-License-Identifier: Apache-2.0 */
/* test_idx.c - good files, plain and packed, and every way a file can be wrong. */
#include "idx.h"

#include "tiny_set.h"

#include <kt.h>
#include <stdlib.h>

static const uint8_t good[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15};

/* Write the first `n_bytes` of `bytes` to a fresh DIR/f; gives the path, static until the next call. */
static const char *file_of(const void *bytes, size_t n_bytes)
{
    static char path[700];
    const char *dir = kt_temp_dir();

    tiny_write(dir, "f", bytes, n_bytes);
    snprintf(path, sizeof(path), "%s/f", dir);
    return path;
}

/* Replace PATH by PATH.gz. */
static void pack(const char *path)
{
    char command[800];

    snprintf(command, sizeof(command), "gzip '%s'", path);
    KT_INT(system(command), 0);
}

static void check_good(const char *path)
{
    idx_t idx = {0};

    if (KT_OK(idx_read(path, 2, &idx))) {
        KT_INT(idx.n_bytes, 6);
        KT_INT(idx.dims[0], 2);
        KT_INT(idx.dims[1], 3);
        KT_TRUE(memcmp(idx.bytes, good + 12, 6) == 0);
    }
    idx_release(&idx);
    KT_TRUE(idx.bytes == NULL);
}

static void a_good_file_is_read(void)
{
    check_good(file_of(good, sizeof(good)));
}

static void a_packed_file_is_read_by_its_plain_name(void)
{
    const char *path = file_of(good, sizeof(good));

    pack(path);
    check_good(path);
}

static void a_truncated_file_is_refused_at_every_length(void)
{
    for (size_t n = 0; n < sizeof(good); n++) {
        idx_t idx = {0};
        const char *part = n < 4 ? "not an IDX file" : "truncated";

        KT_FAIL(idx_read(file_of(good, n), 2, &idx), KVS_ERR_FORMAT, part);
        KT_TRUE(idx.bytes == NULL);
    }
    idx_t idx;
    KT_FAIL(idx_read(file_of(good, 15), 2, &idx), KVS_ERR_FORMAT,
            "its header announces 6 bytes, it has 3");
}

static void bytes_left_over_are_refused(void)
{
    uint8_t longer[sizeof(good) + 1] = {0};
    idx_t idx;

    memcpy(longer, good, sizeof(good));
    KT_FAIL(idx_read(file_of(longer, sizeof(longer)), 2, &idx), KVS_ERR_FORMAT,
            "more than the 6 bytes");
}

static void a_foreign_file_is_refused_with_its_first_bytes(void)
{
    static const char text[] = "<html>no such page</html>";
    idx_t idx;

    KT_FAIL(idx_read(file_of(text, sizeof(text)), 2, &idx), KVS_ERR_FORMAT,
            "it begins with 3c68746d, not with 00000802");
    KT_FAIL(idx_read(file_of(good, sizeof(good)), 3, &idx), KVS_ERR_FORMAT,
            "not an IDX file of unsigned bytes with 3 dimensions");
}

static void a_header_that_lies_about_sizes_is_refused_before_memory_is_taken(void)
{
    static const uint8_t huge[] = {0, 0, 8, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t none[] = {0, 0, 8, 1, 0, 0, 0, 0};
    idx_t idx;

    KT_FAIL(idx_read(file_of(huge, sizeof(huge)), 2, &idx), KVS_ERR_FORMAT,
            "a dimension of 4294967295");
    KT_FAIL(idx_read(file_of(none, sizeof(none)), 1, &idx), KVS_ERR_FORMAT, "a dimension of 0");
}

static void a_missing_file_is_named(void)
{
    idx_t idx;

    KT_FAIL(idx_read("/nowhere/at-all", 2, &idx), KVS_ERR_NOT_FOUND,
            "/nowhere/at-all: no such file, nor one with .gz");
}

static void a_directory_is_an_error_of_reading(void)
{
    idx_t idx;

    KT_FAIL(idx_read(kt_temp_dir(), 2, &idx), KVS_ERR_IO, "cannot be read");
}

static void a_damaged_packed_file_is_refused(void)
{
    static const uint8_t broken[] = {0x1f, 0x8b, 8, 0, 1, 2, 3};
    const char *dir = kt_temp_dir();
    char path[700];
    idx_t idx;

    tiny_write(dir, "f.gz", broken, sizeof(broken));
    snprintf(path, sizeof(path), "%s/f", dir);
    KT_FAIL(idx_read(path, 2, &idx), KVS_ERR_IO, "f.gz: damaged");
}

static const kt_test_t tests[] = {
    KT_TEST(a_good_file_is_read),
    KT_TEST(a_packed_file_is_read_by_its_plain_name),
    KT_TEST(a_truncated_file_is_refused_at_every_length),
    KT_TEST(bytes_left_over_are_refused),
    KT_TEST(a_foreign_file_is_refused_with_its_first_bytes),
    KT_TEST(a_header_that_lies_about_sizes_is_refused_before_memory_is_taken),
    KT_TEST(a_missing_file_is_named),
    KT_TEST(a_directory_is_an_error_of_reading),
    KT_TEST(a_damaged_packed_file_is_refused),
};

KT_MAIN("demo.idx", tests)
