/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c - what the command line may say, and what is said about the rest. */
#include "options.h"

#include <kt.h>

#define PARSE(ret, ...)                                                                            \
    options_parse((int)(sizeof((char *[]){"kvstore-demo", __VA_ARGS__}) / sizeof(char *)),         \
                  (char *[]){"kvstore-demo", __VA_ARGS__, NULL}, "default-out", ret)

static void without_options_there_are_defaults(void)
{
    char *argv[] = {"kvstore-demo", NULL};
    options_t options;

    KT_OK(options_parse(1, argv, "default-out", &options));
    KT_STR(options.backend, "local");
    KT_STR(options.device, "cpu");
    KT_INT(options.n_devices, 2);
    KT_INT(options.n_epochs, 12);
    KT_INT(options.n_threads, 0);
    KT_STR(options.out_dir, "default-out");
    KT_TRUE(options.compression == NULL);
    KT_REAL(options.threshold, 2);
    KT_TRUE(options.optimizer == NULL && options.schedule == NULL && options.update == NULL);
    KT_TRUE(options.save_dir == NULL && options.resume_dir == NULL);
    KT_REAL(options.rate, 0);
    KT_INT(options.n_schedule_epochs, 0);
    KT_INT(options.help, 0);
}

static void a_value_stands_behind_or_after_an_equals_sign(void)
{
    options_t options;

    KT_OK(PARSE(&options, "--backend", "device", "--devices=4", "--epochs", "3", "--out=a=b"));
    KT_STR(options.backend, "device");
    KT_INT(options.n_devices, 4);
    KT_INT(options.n_epochs, 3);
    KT_STR(options.out_dir, "a=b");
}

static void some_options_have_a_letter(void)
{
    options_t options;

    KT_OK(PARSE(&options, "-w", "3", "-s", "0"));
    KT_INT(options.n_workers, 3);
    KT_INT(options.n_servers, 0);
    KT_OK(PARSE(&options, "--workers=2"));
    KT_INT(options.n_workers, 2);
    CU_ASSERT(options.n_servers == OPTIONS_NO_WORD);
    KT_FAIL(PARSE(&options, "-w"), KVS_ERR_ARGUMENT, "--workers needs a value");
    KT_FAIL(PARSE(&options, "-w", "0"), KVS_ERR_ARGUMENT, "--workers takes a number from 1 to 64");
    KT_FAIL(PARSE(&options, "-x"), KVS_ERR_ARGUMENT, "no option is called \"-x\"");
    KT_FAIL(PARSE(&options, "-w2"), KVS_ERR_ARGUMENT, "no option is called \"-w2\"");
}

static void workers_have_one_device_each_unless_told(void)
{
    options_t options;

    KT_OK(PARSE(&options, "-w", "2"));
    KT_INT(options.n_devices, 1);
    KT_OK(PARSE(&options, "--devices", "4", "-w", "2"));
    KT_INT(options.n_devices, 4);
}

static void arrays_lie_on_the_host_unless_told_or_for_nccl(void)
{
    options_t options;

    KT_OK(PARSE(&options, "--backend", "device", "--device", "cuda", "--devices", "3"));
    KT_STR(options.device, "cuda");
    KT_INT(options.n_devices, 3);
    KT_OK(PARSE(&options, "--backend", "NCCL"));
    KT_STR(options.device, "cuda");
    KT_OK(PARSE(&options, "--backend=nccl", "--device=cpu")); /* the store will refuse it */
    KT_STR(options.device, "cpu");
    KT_FAIL(PARSE(&options, "--device", "gpu"), KVS_ERR_ARGUMENT,
            "--device takes cpu or cuda, not \"gpu\"");
    KT_FAIL(PARSE(&options, "--task", "sparse", "--device", "cuda"), KVS_ERR_ARGUMENT,
            "--device is not for --task sparse");
}

static void a_threshold_is_any_number(void)
{
    static char *const wrong[] = {"", "half", "0.5x", "0,5"};
    options_t options;

    KT_OK(PARSE(&options, "--compression", "2bit", "--threshold", "1e-7"));
    KT_STR(options.compression, "2bit");
    KT_REAL(options.threshold, 1e-7);
    KT_OK(PARSE(&options, "--threshold=-1")); /* which the store refuses */
    KT_REAL(options.threshold, -1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        KT_FAIL(PARSE(&options, "--threshold", wrong[i]), KVS_ERR_ARGUMENT,
                "--threshold takes a number, not \"");
    }
}

static void an_optimizer_is_as_given(void)
{
    options_t options;

    KT_OK(PARSE(&options, "--optimizer", "adam", "--lr=0.25", "--lr-scheduler", "cosine",
                "--lr-epochs", "7", "--update=worker", "--save", "s"));
    KT_STR(options.optimizer, "adam");
    KT_REAL(options.rate, 0.25);
    KT_STR(options.schedule, "cosine");
    KT_INT(options.n_schedule_epochs, 7);
    KT_STR(options.update, "worker");
    KT_STR(options.save_dir, "s");
    KT_FAIL(PARSE(&options, "--lr", "-0.5"), KVS_ERR_ARGUMENT,
            "--lr takes a number above 0, not -0.5");
    KT_FAIL(PARSE(&options, "--lr-epochs", "0"), KVS_ERR_ARGUMENT,
            "--lr-epochs takes a number from 1 to 1000");
    KT_FAIL(PARSE(&options, "--update", "server"), KVS_ERR_ARGUMENT,
            "--update takes store or worker, not \"server\"");
}

static void a_resumed_run_has_the_saved_optimizer(void)
{
    options_t options;

    KT_OK(PARSE(&options, "--resume", "r", "--save", "s", "--update", "store"));
    KT_STR(options.resume_dir, "r");
    KT_FAIL(PARSE(&options, "--resume", "r", "--optimizer", "sgd"), KVS_ERR_ARGUMENT,
            "leave --optimizer out");
    KT_FAIL(PARSE(&options, "--lr", "1", "--resume", "r"), KVS_ERR_ARGUMENT, "leave --lr out");
    KT_FAIL(PARSE(&options, "--resume", "r", "--lr-scheduler", "poly"), KVS_ERR_ARGUMENT,
            "leave --lr-scheduler out");
    KT_FAIL(PARSE(&options, "--resume", "r", "--lr-epochs", "2"), KVS_ERR_ARGUMENT,
            "leave --lr-epochs out");
}

static void the_sparse_task_refuses_what_it_would_ignore(void)
{
    static char *const foreign[][2] = {
        {"--update", "store"}, {"--out", "o"},  {"--threshold", "2"},   {"--lr-epochs", "3"},
        {"--devices", "2"},    {"--save", "s"}, {"--lr-scheduler", "x"}};
    options_t options;

    KT_OK(PARSE(&options, "--task", "sparse", "--epochs", "3", "--backend=device", "--data", "d"));
    KT_INT(options.task, TASK_SPARSE);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        KT_FAIL(PARSE(&options, foreign[i][0], foreign[i][1], "--task", "sparse"), KVS_ERR_ARGUMENT,
                foreign[i][0]);
        KT_FAIL(
            PARSE(&options, "--task", "sparse", foreign[i][0], foreign[i][1]), KVS_ERR_ARGUMENT,
            "is not for --task sparse, which takes --backend, -w, -s, --epochs and --data only");
    }
    KT_OK(PARSE(&options, "--task=sparse", "-w", "2", "-s", "1"));
}

static void the_last_of_equal_options_counts(void)
{
    options_t options;

    KT_OK(PARSE(&options, "--devices", "3", "--devices", "5"));
    KT_INT(options.n_devices, 5);
}

static void help_is_noticed_before_later_mistakes(void)
{
    options_t options;

    KT_OK(PARSE(&options, "--help", "--nonsense"));
    KT_INT(options.help, 1);
}

static void an_unknown_option_is_named(void)
{
    options_t options;

    KT_FAIL(PARSE(&options, "--devic", "3"), KVS_ERR_ARGUMENT, "no option is called \"--devic\"");
    KT_FAIL(PARSE(&options, "--devices2"), KVS_ERR_ARGUMENT, "\"--devices2\"");
    KT_FAIL(PARSE(&options, "local"), KVS_ERR_ARGUMENT, "\"local\"");
    KT_FAIL(PARSE(&options, ""), KVS_ERR_ARGUMENT, "\"\"");
    KT_FAIL(PARSE(&options, "--"), KVS_ERR_ARGUMENT, "\"--\"");
}

static void a_malformed_number_is_refused_with_what_is_accepted(void)
{
    static char *const wrong[] = {"0",  "65",  "-1", "+1",  "",
                                  "1x", "0x2", " 2", "1.5", "99999999999999999999999"};
    options_t options;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        KT_FAIL(PARSE(&options, "--devices", wrong[i]), KVS_ERR_ARGUMENT,
                "--devices takes a number from 1 to 64, not \"");
    }
}

static void a_missing_or_superfluous_value_is_refused(void)
{
    options_t options;

    KT_FAIL(PARSE(&options, "--epochs"), KVS_ERR_ARGUMENT, "--epochs needs a value: --epochs N");
    KT_FAIL(PARSE(&options, "--backend="), KVS_ERR_ARGUMENT, "--backend takes a NAME");
    KT_FAIL(PARSE(&options, "--help=yes"), KVS_ERR_ARGUMENT, "--help takes no value");
}

static const kt_test_t tests[] = {
    KT_TEST(without_options_there_are_defaults),
    KT_TEST(a_value_stands_behind_or_after_an_equals_sign),
    KT_TEST(some_options_have_a_letter),
    KT_TEST(workers_have_one_device_each_unless_told),
    KT_TEST(arrays_lie_on_the_host_unless_told_or_for_nccl),
    KT_TEST(a_threshold_is_any_number),
    KT_TEST(an_optimizer_is_as_given),
    KT_TEST(a_resumed_run_has_the_saved_optimizer),
    KT_TEST(the_sparse_task_refuses_what_it_would_ignore),
    KT_TEST(the_last_of_equal_options_counts),
    KT_TEST(help_is_noticed_before_later_mistakes),
    KT_TEST(an_unknown_option_is_named),
    KT_TEST(a_malformed_number_is_refused_with_what_is_accepted),
    KT_TEST(a_missing_or_superfluous_value_is_refused),
};

KT_MAIN("demo.options", tests)
