/* SPDX-License-Identifier: Apache-2.0 */
/* run_demo.c - see run_demo.h. */
#include "run_demo.h"

#include "tiny_set.h"

#include <kt.h>
#include <stdlib.h>
#include <sys/wait.h>

char run_demo_output[1 << 16];
static char data_dir[700];

static void make_data(void)
{
    dataset_t train_set = tiny_set(600, 1), test_set = tiny_set(100, 2);

    snprintf(data_dir, sizeof(data_dir), "%s", kt_temp_dir());
    tiny_write_set(data_dir, "train", &train_set);
    tiny_write_set(data_dir, "t10k", &test_set);
    dataset_release(&train_set);
    dataset_release(&test_set);
}

int run_demo(const char *environment, const char *options)
{
    char command[4096];
    FILE *pipe;
    size_t n;
    int how;

    make_data();
    snprintf(command, sizeof(command),
             "%s \"$KVSTORE_DEMO\" --data '%s' --out '%s/out' %s 2>&1 </dev/null", environment,
             data_dir, data_dir, options);
    pipe = popen(command, "r");
    if (pipe == NULL) {
        perror("popen");
        exit(2);
    }
    n = fread(run_demo_output, 1, sizeof(run_demo_output) - 1, pipe);
    run_demo_output[n] = '\0';
    how = pclose(pipe);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 255;
}

const char *run_demo_dir(void)
{
    return data_dir;
}

const char *run_demo_hash(void)
{
    static char hash[65];
    const char *found = strstr(run_demo_output, "weights sha256 ");

    KT_TRUE(found != NULL);
    if (found != NULL) {
        snprintf(hash, sizeof(hash), "%s", found + strlen("weights sha256 "));
    }
    return hash;
}
