/* SPDX-License-Identifier: Apache-2.0 */
/* Golden cases through a store's public interface. KVSTORE_VECTORS names another directory to read
 * instead of the one beside this file. The other tests here hold the runner itself. */
#include "half.h"
#include "kt.h"
#include "runner.h"

#include <math.h>
#include <stdlib.h>

static void every_golden_case_gives_its_numbers(void)
{
    const char *own = getenv("KVSTORE_VECTORS");
    golden_counts_t counts;
    int ok = golden_run(own != NULL && *own != '\0' ? own : KVS_VECTORS_DIR, stdout, &counts);

    printf("\nvectors: %d files, %d cases, %d passed, %d skipped\n  ", counts.n_files, counts.n_run,
           counts.n_passed, counts.n_skipped);
    KT_TRUE(ok);
    KT_INT(counts.n_failed, 0);
}

/* What can run today: the 26 cases of pushpull.json on `local` and its 6 on `device`, all 73 of the
 * optimizers, the 12 of states and the 17 of compression. A change that makes them skip must not go
 * unseen. */
static void cases_for_local_and_device_are_not_skipped(void)
{
    FILE *nowhere = fopen("/dev/null", "w");
    golden_counts_t counts;

    KT_TRUE(golden_run(KVS_VECTORS_DIR, nowhere, &counts));
    KT_TRUE(counts.n_run >= 26 + 6 + 73 + 12 + 17);
    fclose(nowhere);
}

/* One program on `local` that pulls a value after init; the report says what came of it. */
static golden_counts_t run_program(const char *store, const char *stored, const char *expected,
                                   char *report, size_t report_size)
{
    const char *dir = kt_temp_dir();
    FILE *file = fmemopen(report, report_size, "w");
    golden_counts_t counts = {0};
    char text[1024];

    snprintf(text, sizeof(text),
             "{\"kind\":\"program\",\"cases\":[{\"case\":\"c\",\"store\":\"%s\",\"tolerance\":"
             "{\"rtol\":0.01,\"atol\":0.001},\"ops\":[{\"op\":\"init\",\"keys\":[1],\"values\":["
             "{\"dtype\":\"float32\",\"shape\":[2],\"data\":%s}]},{\"op\":\"pull\",\"keys\":[1],"
             "\"expect\":[[{\"dtype\":\"float32\",\"shape\":[2],\"data\":%s}]]}]}]}",
             store, stored, expected);
    kt_write_file(dir, "case.json", text);
    KT_TRUE(golden_run(dir, file, &counts));
    fclose(file);
    return counts;
}

static void a_result_within_the_tolerance_passes(void)
{
    char report[1024] = "";

    KT_INT(run_program("local", "[10,0]", "[10.1,0.001]", report, sizeof(report)).n_passed, 1);
}

static void a_result_outside_the_tolerance_fails_and_is_shown(void)
{
    char report[1024] = "";
    golden_counts_t counts = run_program("local", "[10,0]", "[10,0.0011]", report, sizeof(report));

    KT_INT(counts.n_failed, 1);
    KT_INT(counts.n_passed, 0);
    KT_HAS(report, "case.json: c: failed: op 1: pull: array 0, element 1: got 0, want 0.0011");
}

static void a_store_that_does_not_exist_fails(void)
{
    char report[1024] = "";

    KT_INT(run_program("locla", "[1,2]", "[1,2]", report, sizeof(report)).n_failed, 1);
    KT_HAS(report, "locla");
}

static void a_missing_directory_fails(void)
{
    char report[1024] = "";
    FILE *file = fmemopen(report, sizeof(report), "w");
    golden_counts_t counts;

    KT_TRUE(!golden_run("/nonexistent/vectors", file, &counts));
    fclose(file);
    KT_HAS(report, "/nonexistent/vectors: cannot be read");
}

static void an_empty_directory_fails(void)
{
    char report[1024] = "";
    FILE *file = fmemopen(report, sizeof(report), "w");
    golden_counts_t counts;

    KT_TRUE(!golden_run(kt_temp_dir(), file, &counts));
    fclose(file);
    KT_HAS(report, "holds no JSON file");
}

static void a_malformed_file_fails(void)
{
    const char *dir = kt_temp_dir();
    char report[1024] = "";
    FILE *file = fmemopen(report, sizeof(report), "w");
    golden_counts_t counts;

    kt_write_file(dir, "broken.json", "{\"kind\":\"program\",\"cases\":[");
    KT_TRUE(!golden_run(dir, file, &counts));
    fclose(file);
    KT_HAS(report, "broken.json: cannot be read");
}

static void another_suites_kind_is_skipped(void)
{
    const char *dir = kt_temp_dir();
    char report[1024] = "";
    FILE *file = fmemopen(report, sizeof(report), "w");
    golden_counts_t counts;

    kt_write_file(dir, "s.json", "{\"kind\":\"lr_scheduler\",\"cases\":[{\"case\":\"a\"},{}]}");
    KT_TRUE(golden_run(dir, file, &counts));
    fclose(file);
    KT_INT(counts.n_run, 0);
    KT_INT(counts.n_skipped, 2);
}

/* 1 + 2^-10 is the float16 after 1; halfway cases go to the even one. */
static void half_types_round_to_nearest_even(void)
{
    KT_INT(half_from_double(1.0), 0x3C00);
    KT_INT(half_from_double(1.0 + ldexp(1, -11)), 0x3C00);
    KT_INT(half_from_double(1.0 + 3 * ldexp(1, -11)), 0x3C02);
    KT_INT(half_from_double(65519.0), 0x7BFF);
    KT_INT(half_from_double(65520.0), 0x7C00);
    KT_INT(half_from_double(ldexp(1, -24)), 1);
    KT_INT(half_from_double(-2.0), 0xC000);
    KT_REAL(half_to_double(0x7BFF), 65504.0);
    KT_REAL(half_to_double(1), ldexp(1, -24));
    KT_INT(bfloat_from_double(1.0 + ldexp(1, -8)), 0x3F80);
    KT_INT(bfloat_from_double(1.0 + 3 * ldexp(1, -8)), 0x3F82);
    KT_REAL(bfloat_to_double(0x3F82), 1.0 + ldexp(1, -6));
}

static const kt_test_t tests[] = {
    KT_TEST(half_types_round_to_nearest_even),
    KT_TEST(a_result_within_the_tolerance_passes),
    KT_TEST(a_result_outside_the_tolerance_fails_and_is_shown),
    KT_TEST(a_store_that_does_not_exist_fails),
    KT_TEST(a_missing_directory_fails),
    KT_TEST(an_empty_directory_fails),
    KT_TEST(a_malformed_file_fails),
    KT_TEST(another_suites_kind_is_skipped),
    KT_TEST(cases_for_local_and_device_are_not_skipped),
    KT_TEST(every_golden_case_gives_its_numbers),
};
KT_MAIN("vectors.store", tests)
