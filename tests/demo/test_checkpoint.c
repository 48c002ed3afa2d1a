/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint.c - what is written is read back, and nothing else is. */
#include "checkpoint.h"

#include <kt.h>
#include <stdlib.h>
#include <unistd.h>

static float weights[] = {1, -2, 0.5f};
static double losses[] = {3, 2, 1, 0.5}, accuracies[] = {0.25, 0.75};

static checkpoint_t sample(void)
{
    return (checkpoint_t){.optimizer = "adam",
                          .n_epochs = 2,
                          .n_steps = 4,
                          .n_elems = 3,
                          .weights = weights,
                          .losses = losses,
                          .accuracies = accuracies};
}

static const char *make_dir(void)
{
    static char dir[700];

    snprintf(dir, sizeof(dir), "%s/new", kt_temp_dir());
    KT_OK(checkpoint_make_dir(dir));
    KT_OK(checkpoint_make_dir(dir)); /* it may be there */
    return dir;
}

static void what_is_written_is_read_back(void)
{
    const char *dir = make_dir();
    checkpoint_t written = sample(), read = {.n_elems = 0};

    KT_OK(checkpoint_write(dir, &written));
    if (KT_OK(checkpoint_read(dir, &read))) {
        KT_STR(read.optimizer, "adam");
        KT_INT(read.n_epochs, 2);
        KT_INT(read.n_steps, 4);
        KT_INT(read.n_elems, 3);
        KT_TRUE(memcmp(read.weights, weights, sizeof(weights)) == 0);
        KT_TRUE(memcmp(read.losses, losses, sizeof(losses)) == 0);
        KT_TRUE(memcmp(read.accuracies, accuracies, sizeof(accuracies)) == 0);
    }
    checkpoint_release(&read);
    KT_TRUE(read.weights == NULL);
}

static void only_states_of_its_epoch_stay(void)
{
    const char *dir = make_dir();
    static const char *const names[] = {"optimizer-1.safetensors", "optimizer-2.safetensors",
                                        "optimizer-02.safetensors", "optimizer-3.safetensors",
                                        "mine"};
    static const int stays[] = {0, 1, 1, 0, 1};
    checkpoint_t written = sample();
    char path[CHECKPOINT_PATH_BYTES];

    for (size_t i = 0; i < 5; i++) {
        kt_write_file(dir, names[i], "x");
    }
    KT_OK(checkpoint_write(dir, &written));
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        KT_INT(access(path, F_OK) == 0, stays[i]);
    }
    checkpoint_states_path(dir, 2, path);
    KT_INT(access(path, F_OK), 0);
}

static void want_damaged(const char *dir, const char *bytes, size_t n)
{
    char path[CHECKPOINT_PATH_BYTES];
    checkpoint_t read;
    FILE *file;

    snprintf(path, sizeof(path), "%s/checkpoint", dir);
    file = fopen(path, "wb");
    fwrite(bytes, 1, n, file);
    fclose(file);
    KT_FAIL(checkpoint_read(dir, &read), KVS_ERR_FORMAT, path);
}

/* Every file that is shorter, longer, or differs in a byte; but the name of the optimizer is for people. */
static void damage_is_noticed_at_every_byte(void)
{
    const char *dir = make_dir(), *name;
    checkpoint_t written = sample();
    char path[CHECKPOINT_PATH_BYTES], bytes[4096];
    size_t n;
    FILE *file;

    KT_OK(checkpoint_write(dir, &written));
    snprintf(path, sizeof(path), "%s/checkpoint", dir);
    file = fopen(path, "rb");
    n = fread(bytes, 1, sizeof(bytes) - 1, file);
    fclose(file);
    bytes[n] = '\n';
    name = strstr(bytes, "adam");
    for (size_t i = 0; i < n; i++) {
        want_damaged(dir, bytes, i);
        if (&bytes[i] < name - 1 || &bytes[i] >= name + 4) {
            bytes[i] = (char)(bytes[i] ^ 4); /* from no space to another */
            want_damaged(dir, bytes, n);
            bytes[i] = (char)(bytes[i] ^ 4);
        }
    }
    want_damaged(dir, bytes, n + 1);
}

static void what_can_not_be_written_is_told(void)
{
    checkpoint_t written = sample(), read;

    KT_FAIL(checkpoint_make_dir("/nowhere/new"), KVS_ERR_NOT_FOUND, "/nowhere/new: cannot be made");
    KT_FAIL(checkpoint_write("/nowhere", &written), KVS_ERR_NOT_FOUND, "/nowhere/checkpoint");
    KT_FAIL(checkpoint_read("/nowhere", &read), KVS_ERR_NOT_FOUND, "/nowhere/checkpoint");
    KT_FAIL(checkpoint_write("/proc/self", &written), KVS_ERR_NOT_FOUND, "/proc/self/checkpoint");
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_written_is_read_back),
    KT_TEST(only_states_of_its_epoch_stay),
    KT_TEST(damage_is_noticed_at_every_byte),
    KT_TEST(what_can_not_be_written_is_told),
};

KT_MAIN("demo.checkpoint", tests)
