/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpus.c - kvstore-demo with arrays on GPUs, two pretend ones, on a tiny data set: weights are those of
 * the host, bit for bit. */
#include "run_demo.h"

#include <kt.h>

#define NO_DRIVER "KVSTORE_CUDA_DRIVER=/nonexistent/libcuda.so.1"

/* What two devices on the host come to. */
static const char *hash_on_host(const char *options)
{
    static char hash[65];
    char all[200];

    snprintf(all, sizeof(all), "--epochs 2 --devices 2 %s", options);
    KT_INT(run_demo("", all), 0);
    snprintf(hash, sizeof(hash), "%s", run_demo_hash());
    return hash;
}

static void check(const char *environment, const char *options, const char *hash, const char *text)
{
    KT_INT(run_demo(environment, options), 0);
    KT_STR(run_demo_hash(), hash);
    KT_HAS(run_demo_output, "test accuracy 1.0000\n");
    KT_HAS(run_demo_output, text);
}

static void devices_of_one_process_train_as_on_the_host(void)
{
    const char *hash = hash_on_host("");

    check("", "--epochs 2 --backend device --device cuda", hash,
          "; 2 devices among 2 GPUs (Pretend GPU), gradients computed on the host, on ");
    KT_HAS(run_demo_output, "\nstore device: 60 pushes of ");
    check("", "--epochs 2 --backend nccl", hash, "; 2 devices among 2 GPUs (Pretend GPU)");
    check("", "--epochs 2 --backend nccl --update worker", hash, "\nstore nccl: 60 pushpulls of ");
}

static void gpus_serve_several_devices_where_there_are_fewer(void)
{
    const char *hash = hash_on_host("");

    check("KVSTORE_DOUBLE_DEVICES=1", "--epochs 2 --backend device --device cuda", hash,
          "2 devices among 1 GPU (");
    check("KVSTORE_DOUBLE_DEVICES=1", "--epochs 2 --backend nccl", hash, "2 devices among 1 GPU (");
    check("KVSTORE_DOUBLE_DEVICES=1", "--epochs 2 --backend dist_sync -w 2 --device cuda", hash,
          "2 processes, each with 1 device among 1 GPU (");
}

static void processes_with_a_gpu_each_train_as_on_the_host(void)
{
    const char *hash = hash_on_host("");

    check("", "--epochs 2 --backend nccl -w 2", hash, "[worker 0] store nccl: 60 pushes of ");
    check("", "--epochs 2 --backend dist_sync -w 2 -s 2 --device cuda", hash,
          "[worker 0] store dist_sync: 60 pushes of ");
    check("", "--epochs 2 --backend horovod -w 2 --device cuda", hash,
          "[worker 0] store horovod: 60 pushpulls of ");
    check("", "--epochs 2 --backend byteps -w 2 -s 2 --device cuda", hash,
          "[worker 0] store byteps: 60 pushpulls of "); /* which takes GPUs without --allow-cpu */
}

static void codes_of_gpus_are_those_of_the_host(void)
{
    const char *hash = hash_on_host("--backend device --compression 2bit");

    KT_INT(run_demo("", "--epochs 2 --backend device --device cuda --compression 2bit"), 0);
    KT_STR(run_demo_hash(), hash);
    KT_INT(run_demo("", "--epochs 2 --backend dist_sync -w 2 --device cuda --compression 2bit"), 0);
    KT_STR(run_demo_hash(), hash);
}

/* Saved by the first process, and taken up by each of nccl, which all have the weights, or by the host. */
static void what_was_saved_goes_on_on_gpus_and_on_the_host(void)
{
    static const char *const ways[] = {"--backend nccl -w 2", "--backend nccl",
                                       "--backend device --device cuda", "--devices 2"};
    char saved[600], options[800];
    const char *hash = hash_on_host("");

    snprintf(saved, sizeof(saved), "%s/saved", kt_temp_dir());
    snprintf(options, sizeof(options), "--epochs 1 --backend nccl -w 2 --save '%s'", saved);
    KT_INT(run_demo("", options), 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        snprintf(options, sizeof(options), "--epochs 2 %s --resume '%s'", ways[i], saved);
        KT_INT(run_demo("", options), 0);
        KT_STR(run_demo_hash(), hash);
    }
}

static void without_a_driver_the_text_says_what_is_missing(void)
{
    static const char *const ways[] = {"--backend nccl", "--backend nccl -w 2",
                                       "--backend device --device cuda",
                                       "--backend dist_sync -w 2 --device cuda"};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        KT_INT(run_demo(NO_DRIVER, ways[i]), 1);
        KT_HAS(run_demo_output, "kvstore-demo: no CUDA driver: /nonexistent/libcuda.so.1: ");
        KT_HAS(run_demo_output, "install the NVIDIA driver");
    }
    KT_INT(run_demo("KVSTORE_DOUBLE_DEVICES=0", "--backend nccl"), 1);
    KT_HAS(run_demo_output, "kvstore-demo: the CUDA driver finds no device");
    KT_INT(run_demo("KVSTORE_NCCL_LIBRARY=/nonexistent/libnccl.so.2", "--backend nccl"), 1);
    KT_HAS(run_demo_output, "install libnccl2");
    KT_INT(run_demo("KVSTORE_PLUGIN_PATH=/nonexistent", "--backend device --device cuda"), 1);
    KT_HAS(run_demo_output, "install package kvstore-backend-cuda");
}

static void a_store_that_takes_no_such_arrays_names_others(void)
{
    KT_INT(run_demo("", "--backend local --device cuda"), 1);
    KT_HAS(run_demo_output, "arrays on cuda(0) (device type 2) are not taken by local");
    KT_HAS(run_demo_output, "device, ");
    KT_INT(run_demo("", "--backend nccl --device cpu"), 1);
    KT_HAS(run_demo_output, "arrays on cpu(0) (device type 1) are not taken by nccl");
}

static void memory_of_a_gpu_that_does_not_suffice_ends_with_1(void)
{
    KT_INT(run_demo("KVSTORE_DOUBLE_MEMORY=1000", "--backend device --device cuda"), 1);
    KT_HAS(run_demo_output, "kvstore-demo: ");
    KT_HAS(run_demo_output, "memory");
}

static const kt_test_t tests[] = {
    KT_TEST(devices_of_one_process_train_as_on_the_host),
    KT_TEST(gpus_serve_several_devices_where_there_are_fewer),
    KT_TEST(processes_with_a_gpu_each_train_as_on_the_host),
    KT_TEST(codes_of_gpus_are_those_of_the_host),
    KT_TEST(what_was_saved_goes_on_on_gpus_and_on_the_host),
    KT_TEST(without_a_driver_the_text_says_what_is_missing),
    KT_TEST(a_store_that_takes_no_such_arrays_names_others),
    KT_TEST(memory_of_a_gpu_that_does_not_suffice_ends_with_1),
};

KT_MAIN("demo.gpus", tests)
