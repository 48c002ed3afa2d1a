/* SPDX-License-Identifier: Apache-2.0 */
/* test_resume.c - kvstore-demo with any optimizer, updating in the store and in the worker, saving and
 * going on: all ways give the same weights. */
#include "run_demo.h"

#include <kt.h>
#include <stdlib.h>
#include <unistd.h>

/* A run that trains; gives its hash, until the next run. */
static const char *hash_of(const char *options)
{
    KT_INT(run_demo("", options), 0);
    return run_demo_hash();
}

/* Options with the directory in the place of %s. */
static const char *with_dir(const char *format, const char *dir)
{
    static char options[4][1600];
    static unsigned next;
    char *text = options[next++ % 4], *to = text;

    for (const char *c = format; *c != '\0'; c++) {
        if (c[0] == '%' && c[1] == 's') {
            to += sprintf(to, "'%s'", dir);
            c++;
        } else {
            *to++ = *c;
        }
    }
    *to = '\0';
    return text;
}

static const char *new_dir(void)
{
    static char dirs[4][700];
    static unsigned next;
    char *dir = dirs[next++ % 4];

    snprintf(dir, sizeof(dirs[0]), "%s/saved", kt_temp_dir());
    return dir;
}

static int exists(const char *dir, const char *name)
{
    char path[900];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

/* 2 epochs and then 2 more are 4, whatever else the options say. */
static void check_resumed(const char *more, const char *more_resumed)
{
    const char *dir = new_dir();
    char options[1200];
    char whole[65];

    snprintf(options, sizeof(options), "--epochs 4 %s", more);
    snprintf(whole, sizeof(whole), "%s", hash_of(options));
    snprintf(options, sizeof(options), "--epochs 2 --save %%s %s", more);
    KT_TRUE(strcmp(hash_of(with_dir(options, dir)), whole) != 0);
    snprintf(options, sizeof(options), "--epochs 4 --resume %%s %s", more_resumed);
    KT_STR(hash_of(with_dir(options, dir)), whole);
    KT_HAS(run_demo_output, "as it was after 2 epochs in ");
    KT_HAS(run_demo_output, "epoch 3/4: ");
    KT_TRUE(strstr(run_demo_output, "epoch 2/4: ") == NULL);
}

static void a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(void)
{
    check_resumed("", "");
    check_resumed("--devices 3 --threads 2", "--devices 3");
    check_resumed("--optimizer adam --lr 0.002", "");
    check_resumed("--optimizer nadam --lr-scheduler factor", "");
    check_resumed("--optimizer adam --lr-scheduler cosine --lr-epochs 4", "");
}

static void where_weights_are_updated_may_change_from_run_to_run(void)
{
    check_resumed("--optimizer lamb", "--update worker");
    check_resumed("--optimizer rmsprop --update worker", "--update store");
    check_resumed("--backend teststore", "--backend local");
}

static void every_epoch_is_saved_and_states_of_older_ones_go(void)
{
    const char *dir = new_dir();

    KT_INT(run_demo("", with_dir("--epochs 3 --save %s", dir)), 0);
    KT_TRUE(exists(dir, "checkpoint"));
    KT_TRUE(exists(dir, "optimizer-3.safetensors"));
    KT_TRUE(!exists(dir, "optimizer-2.safetensors"));
    KT_TRUE(!exists(dir, "checkpoint.tmp"));
    KT_INT(run_demo("", with_dir("--epochs 5 --resume %s --save %s", dir)), 0);
    KT_TRUE(exists(dir, "optimizer-5.safetensors"));
    KT_TRUE(!exists(dir, "optimizer-3.safetensors"));
}

static void the_curve_begins_at_the_beginning(void)
{
    const char *dir = new_dir();
    char whole[1 << 15] = "", resumed[1 << 15] = "", path[900];
    FILE *file;

    KT_INT(run_demo("", "--epochs 3"), 0);
    snprintf(path, sizeof(path), "%s/out/loss.svg", run_demo_dir());
    file = fopen(path, "r");
    KT_TRUE(file != NULL && fread(whole, 1, sizeof(whole) - 1, file) > 0);
    fclose(file);
    KT_INT(run_demo("", with_dir("--epochs 1 --save %s", dir)), 0);
    KT_INT(run_demo("", with_dir("--epochs 3 --resume %s", dir)), 0);
    snprintf(path, sizeof(path), "%s/out/loss.svg", run_demo_dir());
    file = fopen(path, "r");
    KT_TRUE(file != NULL && fread(resumed, 1, sizeof(resumed) - 1, file) > 0);
    fclose(file);
    KT_STR(resumed, whole);
}

static void both_places_give_the_same_weights(void)
{
    static const char *const optimizers[] = {"sgd", "adam", "ftrl", "lans", "groupadagrad"};

    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        char options[200];
        char in_store[65];

        snprintf(options, sizeof(options), "--epochs 1 --optimizer %s --update store",
                 optimizers[i]);
        snprintf(in_store, sizeof(in_store), "%s", hash_of(options));
        KT_HAS(run_demo_output, " in the store, learning rate ");
        KT_HAS(run_demo_output, "store local: 30 pushes of ");
        snprintf(options, sizeof(options), "--epochs 1 --optimizer %s --update=worker",
                 optimizers[i]);
        KT_STR(hash_of(options), in_store);
        KT_HAS(run_demo_output, " in the worker, learning rate ");
        KT_HAS(run_demo_output, "store local: 30 pushpulls of ");
        snprintf(options, sizeof(options), "--epochs 1 --optimizer %s --backend teststore",
                 optimizers[i]);
        KT_STR(hash_of(options), in_store);
        KT_HAS(run_demo_output, " in the worker, ");
    }
}

static void every_schedule_trains(void)
{
    static const char *const schedules[] = {"factor", "multifactor", "poly", "cosine"};
    char plain[65];

    snprintf(plain, sizeof(plain), "%s", hash_of("--epochs 2"));
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        char options[200], text[100];

        snprintf(options, sizeof(options), "--epochs 2 --lr-scheduler %s", schedules[i]);
        KT_TRUE(strcmp(hash_of(options), plain) != 0);
        snprintf(text, sizeof(text), "learning rate 0.02 by schedule %s over 2 epochs",
                 schedules[i]);
        KT_HAS(run_demo_output, text);
    }
}

static void processes_may_update_too(void)
{
    char devices[65];

    if (strcmp(getenv("KVSTORE_HAS_DIST"), "1") != 0) {
        printf("without ZeroMQ there is no dist_sync; ");
        return;
    }
    snprintf(devices, sizeof(devices), "%s", hash_of("--epochs 1 --devices 2 --optimizer adam"));
    KT_STR(hash_of("--epochs 1 --optimizer adam --backend dist_sync -w 2 --update worker"),
           devices);
}

static void what_can_not_be_done_is_told(void)
{
    KT_INT(run_demo("", "--epochs 1 --optimizer sgdd"), 1);
    KT_HAS(run_demo_output, "no optimizer named \"sgdd\"");
    KT_INT(run_demo("", "--epochs 1 --lr-scheduler cosin"), 1);
    KT_HAS(run_demo_output, "did you mean 'cosine'");
    KT_INT(run_demo("", "--epochs 1 --backend teststore --update store"), 1);
    KT_HAS(run_demo_output, "not implemented: set_optimizer by teststore");
    KT_INT(run_demo("", "--epochs 1 --save /nowhere/at/all"), 1);
    KT_HAS(run_demo_output, "/nowhere/at/all: cannot be made: No such file");
}

/* Overwrite the byte at `place` of a file, from the end if it is negative. */
static void damage(const char *dir, const char *name, long place)
{
    char path[900];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "r+b");
    KT_TRUE(file != NULL && fseek(file, place, place < 0 ? SEEK_END : SEEK_SET) == 0 &&
            fputc('#', file) == '#' && fclose(file) == 0);
}

static void what_can_not_be_resumed_is_told(void)
{
    const char *dir = new_dir();

    KT_INT(run_demo("", "--resume /nowhere"), 1);
    KT_HAS(run_demo_output, "/nowhere/checkpoint: cannot be read: No such file");
    KT_INT(run_demo("", with_dir("--epochs 2 --save %s", dir)), 0);
    KT_INT(run_demo("", with_dir("--epochs 2 --resume %s", dir)), 1);
    KT_HAS(run_demo_output, "2 epochs are done already");
    damage(dir, "optimizer-2.safetensors", -1);
    KT_INT(run_demo("", with_dir("--epochs 3 --resume %s", dir)), 1);
    KT_HAS(run_demo_output, "optimizer-2.safetensors: is damaged");
    damage(dir, "checkpoint", 2000);
    KT_INT(run_demo("", with_dir("--epochs 3 --resume %s", dir)), 1);
    KT_HAS(run_demo_output, "checkpoint: is damaged: its digest differs");
    damage(dir, "checkpoint", 3);
    KT_INT(run_demo("", with_dir("--epochs 3 --resume %s", dir)), 1);
    KT_HAS(run_demo_output, "checkpoint: is no checkpoint of this program");
}

static const kt_test_t tests[] = {
    KT_TEST(a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one),
    KT_TEST(where_weights_are_updated_may_change_from_run_to_run),
    KT_TEST(every_epoch_is_saved_and_states_of_older_ones_go),
    KT_TEST(the_curve_begins_at_the_beginning),
    KT_TEST(both_places_give_the_same_weights),
    KT_TEST(every_schedule_trains),
    KT_TEST(processes_may_update_too),
    KT_TEST(what_can_not_be_done_is_told),
    KT_TEST(what_can_not_be_resumed_is_told),
};

KT_MAIN("demo.resume", tests)
