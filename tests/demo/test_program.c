/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c - kvstore-demo as its user sees it: output, files and exit status, on a tiny data set.
 * $KVSTORE_DEMO is the program. */
#include "run_demo.h"

#include <kt.h>
#include <stdlib.h>
#include <unistd.h>

static void check_file(const char *name)
{
    char path[800];

    snprintf(path, sizeof(path), "%s/out/%s", run_demo_dir(), name);
    KT_HAS(run_demo_output, path);
    KT_INT(access(path, R_OK), 0);
}

static void a_run_tells_what_it_did(void)
{
    KT_INT(run_demo("", "--epochs 2"), 0);
    KT_HAS(run_demo_output, "600 training and 100 test images");
    KT_HAS(run_demo_output, "epoch 1/2: loss ");
    KT_HAS(run_demo_output, "epoch 2/2: loss ");
    KT_HAS(run_demo_output, "\ntest accuracy 1.0000\n");     /* it is an easy set */
    KT_HAS(run_demo_output, "\nstore local: 60 pushes of "); /* 6 arrays, 2 epochs of 5 steps */
    KT_INT(strlen(run_demo_hash()), 64);
    check_file("loss.svg");
    check_file("predictions.svg");
}

static void no_bar_is_drawn_where_there_is_no_terminal(void)
{
    KT_INT(run_demo("", "--epochs 1"), 0);
    KT_TRUE(strchr(run_demo_output, '\r') == NULL && strchr(run_demo_output, '\033') == NULL);
}

static void two_runs_print_the_same_hash_and_other_numbers_of_threads_too(void)
{
    char first[65];

    KT_INT(run_demo("", "--epochs 2 --devices 3"), 0);
    snprintf(first, sizeof(first), "%s", run_demo_hash());
    KT_INT(run_demo("", "--epochs 2 --devices 3"), 0);
    KT_STR(run_demo_hash(), first);
    KT_INT(run_demo("", "--epochs 2 --devices 3 --threads 3"), 0);
    KT_STR(run_demo_hash(), first);
}

static void processes_train_as_devices_of_one_process_do(void)
{
    char devices[65];

    if (strcmp(getenv("KVSTORE_HAS_DIST"), "1") != 0) {
        printf("without ZeroMQ there is no dist_sync; ");
        return;
    }
    KT_INT(run_demo("", "--epochs 2 --devices 2"), 0);
    snprintf(devices, sizeof(devices), "%s", run_demo_hash());
    KT_INT(run_demo("", "--epochs 2 --backend dist_sync -w 2 -s 2"), 0);
    KT_STR(run_demo_hash(), devices);
    KT_HAS(run_demo_output, "[worker 0] store dist_sync: 60 pushes of ");
    KT_TRUE(strstr(run_demo_output, "[worker 1]") == NULL); /* the first one talks */
    KT_INT(run_demo("", "--epochs 2 --backend byteps -w 2 -s 2 --allow-cpu"), 0);
    KT_STR(run_demo_hash(), devices);
    KT_HAS(run_demo_output, "[worker 0] store byteps: 60 pushpulls of ");
}

static void compressed_gradients_train_too(void)
{
    KT_INT(run_demo("", "--epochs 8 --backend device --devices 4 --compression 2bit"), 0);
    KT_HAS(run_demo_output, "\ncompression 2bit, threshold 2\n");
    KT_HAS(run_demo_output, "\ntest accuracy 1.0000\n");
    KT_HAS(run_demo_output, "\nstore device: 240 pushes of ");
}

static void processes_compress_as_devices_do(void)
{
    char devices[65];

    if (strcmp(getenv("KVSTORE_HAS_DIST"), "1") != 0) {
        printf("without ZeroMQ there is no dist_sync; ");
        return;
    }
    KT_INT(run_demo("", "--epochs 2 --devices 2 --backend device --compression 2bit"), 0);
    snprintf(devices, sizeof(devices), "%s", run_demo_hash());
    KT_INT(run_demo("", "--epochs 2 --backend dist_sync -w 2 -s 2 --compression 2bit"), 0);
    KT_STR(run_demo_hash(), devices);
}

static void compression_that_the_store_refuses_ends_with_1_and_its_text(void)
{
    KT_INT(run_demo("", "--compression 2bit"), 1);
    KT_HAS(run_demo_output, "kvstore-demo: not implemented: set_gradient_compression by local");
    KT_INT(run_demo("", "--backend device --compression 2bit --threshold 0"), 1);
    KT_HAS(run_demo_output, "parameter 'threshold' is 0");
    KT_INT(run_demo("", "--backend device --compression 3bit"), 1);
    KT_HAS(run_demo_output, "no compressor named \"3bit\"");
}

static void help_lists_the_options(void)
{
    KT_INT(run_demo("", "--help"), 0);
    KT_HAS(run_demo_output, "--backend NAME");
    KT_HAS(run_demo_output, "--devices K");
    KT_HAS(run_demo_output, "--epochs N");
}

static void a_wrong_option_ends_with_2_and_a_text(void)
{
    KT_INT(run_demo("", "--bogus"), 2);
    KT_HAS(run_demo_output, "kvstore-demo: no option is called \"--bogus\"");
    KT_INT(run_demo("", "--devices none"), 2);
    KT_HAS(run_demo_output, "kvstore-demo: --devices takes a number");
}

static void missing_data_ends_with_1_and_a_text(void)
{
    KT_INT(run_demo("", "--data /nowhere"), 1);
    KT_HAS(run_demo_output, "kvstore-demo: /nowhere/train-images-idx3-ubyte");
}

static void without_plugins_the_stores_error_names_backend_and_path(void)
{
    KT_INT(run_demo("KVSTORE_PLUGIN_PATH=/nonexistent", "--epochs 1"), 1);
    KT_HAS(run_demo_output, "kvstore-demo: ");
    KT_HAS(run_demo_output, "local");
    KT_HAS(run_demo_output, "/nonexistent");
}

static void an_output_directory_that_cannot_be_made_ends_with_1(void)
{
    KT_INT(run_demo("", "--out /nowhere/at/all"), 1);
    KT_HAS(run_demo_output, "kvstore-demo: /nowhere/at/all: cannot be made: No such file");
}

static const kt_test_t tests[] = {
    KT_TEST(a_run_tells_what_it_did),
    KT_TEST(no_bar_is_drawn_where_there_is_no_terminal),
    KT_TEST(two_runs_print_the_same_hash_and_other_numbers_of_threads_too),
    KT_TEST(processes_train_as_devices_of_one_process_do),
    KT_TEST(compressed_gradients_train_too),
    KT_TEST(processes_compress_as_devices_do),
    KT_TEST(compression_that_the_store_refuses_ends_with_1_and_its_text),
    KT_TEST(help_lists_the_options),
    KT_TEST(a_wrong_option_ends_with_2_and_a_text),
    KT_TEST(missing_data_ends_with_1_and_a_text),
    KT_TEST(without_plugins_the_stores_error_names_backend_and_path),
    KT_TEST(an_output_directory_that_cannot_be_made_ends_with_1),
};

KT_MAIN("demo.program", tests)
