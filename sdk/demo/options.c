/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the options as data: one table parses them, names them in errors and prints the help. */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_DATA_DIR "/usr/share/datasets/fashion-mnist" /* Debian: dataset-fashion-mnist */
#define DEFAULT_TEXT_DIR "/usr/share/games/fortunes"         /* Debian: fortunes */

/* By trying: with 1 to 4, and 2 or 4 devices, 2bit trains as well as none. */
#define DEFAULT_THRESHOLD 2

typedef enum kind { FLAG, COUNT, NUMBER, TEXT } kind_t;

typedef struct row {
    char letter; /* 0: none */
    const char *name, *value, *help;
    kind_t kind;
    size_t offset;   /* of its member in options_t: int, size_t, double or const char * */
    size_t min, max; /* of a COUNT */
} row_t;

static const row_t rows[] = {
    {0, "task", "NAME",
     "images: of clothes (default); sparse: the categories of texts, by a row-sparse weight; takes "
     "--backend, -w, -s, --epochs and --data only",
     TEXT, offsetof(options_t, task_name), 0, 0},
    {0, "backend", "NAME", "the store to train with (default local)", TEXT,
     offsetof(options_t, backend), 0, 0},
    {0, "allow-cpu", NULL,
     "let the store take arrays on the CPU, where it has to be told to: byteps", FLAG,
     offsetof(options_t, allow_cpu), 0, 0},
    {0, "device", "TYPE",
     "where weights and gradients lie that the store exchanges: cpu, or cuda (default cpu; with "
     "--backend nccl cuda); gradients are computed on the host",
     TEXT, offsetof(options_t, device), 0, 0},
    {0, "devices", "K",
     "devices, each with its part of every batch: contexts cpu(0) to cpu(K-1), or with --device "
     "cuda GPUs, again from the first where there are fewer (default 2; with -w 1 a worker)",
     COUNT, offsetof(options_t, n_devices), 1, 64},
    {'w', "workers", "N",
     "start N processes that work together; their devices share every batch (default: only this "
     "one)",
     COUNT, offsetof(options_t, n_workers), 1, 64},
    {'s', "servers", "M", "with -w: start M servers (default 1, if the backend has any)", COUNT,
     offsetof(options_t, n_servers), 0, 64},
    {0, "epochs", "N", "passes over the training set (default 12)", COUNT,
     offsetof(options_t, n_epochs), 1, 1000},
    {0, "threads", "N", "threads that compute (default: one a device, at most one a core)", COUNT,
     offsetof(options_t, n_threads), 1, 64},
    {0, "optimizer", "NAME",
     "what updates the weights (default sgd with momentum); kvstore info optimizers lists them",
     TEXT, offsetof(options_t, optimizer), 0, 0},
    {0, "lr", "RATE", "its learning rate (default: 0.02 for sgd, else the optimizer's own)", NUMBER,
     offsetof(options_t, rate), 0, 0},
    {0, "lr-scheduler", "NAME",
     "lower the rate by factor, multifactor, poly or cosine (default: it stays)", TEXT,
     offsetof(options_t, schedule), 0, 0},
    {0, "lr-epochs", "N",
     "with --lr-scheduler: the epochs over which it runs (default: those of --epochs)", COUNT,
     offsetof(options_t, n_schedule_epochs), 1, 1000},
    {0, "update", "WHERE",
     "update weights in the store or in the worker (default: in the store if it can); the bits "
     "are the same",
     TEXT, offsetof(options_t, update), 0, 0},
    {0, "save", "DIR", "after each epoch, write there what is needed to go on", TEXT,
     offsetof(options_t, save_dir), 0, 0},
    {0, "resume", "DIR",
     "go on from there, with the optimizer that was saved; --epochs counts from the beginning",
     TEXT, offsetof(options_t, resume_dir), 0, 0},
    {0, "compression", "TYPE",
     "compress gradients, by 1bit, 2bit or another installed compressor (default: they are not; "
     "--backend device, dist_sync or dist_async)",
     TEXT, offsetof(options_t, compression), 0, 0},
    {0, "threshold", "T", "with --compression: its threshold (default 2)", NUMBER,
     offsetof(options_t, threshold), 0, 0},
    {0, "data", "DIR",
     "where the files of Fashion-MNIST lie, packed or not (default " DEFAULT_DATA_DIR
     "); --task sparse: where the texts lie (default " DEFAULT_TEXT_DIR ")",
     TEXT, offsetof(options_t, data_dir), 0, 0},
    {0, "out", "DIR", "where the pictures go (default: demo in the build tree)", TEXT,
     offsetof(options_t, out_dir), 0, 0},
    {0, "help", NULL, "print this", FLAG, offsetof(options_t, help), 0, 0},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const row_t *find_letter(char letter)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].letter == letter) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The row that `arg`, "--name", "--name=value" or "-n", is about, or NULL. */
static const row_t *find_row(const char *arg)
{
    if (arg[0] == '-' && arg[1] != '-' && arg[1] != '\0' && arg[2] == '\0') {
        return find_letter(arg[1]);
    }
    for (size_t i = 0; i < N_ROWS && strncmp(arg, "--", 2) == 0; i++) {
        size_t length = strlen(rows[i].name);

        if (strncmp(arg + 2, rows[i].name, length) == 0 &&
            (arg[2 + length] == '\0' || arg[2 + length] == '=')) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Whether --task sparse takes it too. */
static int is_for_sparse(const row_t *row)
{
    static const char *const names[] = {"task",   "backend", "workers", "servers",
                                        "epochs", "data",    "help"};
    int found = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found |= strcmp(row->name, names[i]) == 0;
    }
    return found;
}

static kvs_status_t parse_count(const row_t *row, const char *value, size_t *ret_count)
{
    char *end;
    unsigned long long count;

    errno = 0;
    count = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || count < row->min ||
        count > row->max) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--%s takes a number from %zu to %zu, not \"%s\"",
                        row->name, row->min, row->max, value);
    }
    *ret_count = (size_t)count;
    return KVS_OK;
}

static kvs_status_t parse_number(const row_t *row, const char *value, double *ret_number)
{
    char *end;
    double number = strtod(value, &end);

    if (end == value || *end != '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "--%s takes a number, not \"%s\"", row->name, value);
    }
    *ret_number = number;
    return KVS_OK;
}

static kvs_status_t take_value(const row_t *row, const char *value, options_t *options)
{
    void *member = (char *)options + row->offset;

    if (row->kind == COUNT) {
        return parse_count(row, value, member);
    }
    if (row->kind == NUMBER) {
        return parse_number(row, value, member);
    }
    if (value[0] == '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "--%s takes a %s, not an empty text", row->name,
                        row->value);
    }
    *(const char **)member = value;
    return KVS_OK;
}

/* The value of argv[*i], beside it after '=' or in the next argument, which is then used up. */
static kvs_status_t find_value(const row_t *row, int argc, char **argv, int *i,
                               const char **ret_value)
{
    const char *equals = strchr(argv[*i], '=');

    if (equals != NULL) {
        *ret_value = equals + 1;
        return KVS_OK;
    }
    if (*i + 1 >= argc) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--%s needs a value: --%s %s", row->name, row->name,
                        row->value);
    }
    *ret_value = argv[++*i];
    return KVS_OK;
}

static kvs_status_t take_flag(const row_t *row, const char *arg, options_t *options)
{
    if (strchr(arg, '=') != NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--%s takes no value", row->name);
    }
    *(int *)((char *)options + row->offset) = 1;
    return KVS_OK;
}

/* `foreign`: an option that was given and is for images, or NULL. */
static kvs_status_t choose_task(options_t *options, const row_t *foreign)
{
    if (strcmp(options->task_name, "sparse") == 0) {
        options->task = TASK_SPARSE;
    } else if (strcmp(options->task_name, "images") != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--task takes images or sparse, not \"%s\"",
                        options->task_name);
    }
    if (options->task == TASK_SPARSE && foreign != NULL) {
        return kvs_fail(
            KVS_ERR_ARGUMENT,
            "--%s is not for --task sparse, which takes --backend, -w, -s, --epochs and "
            "--data only",
            foreign->name);
    }
    if (options->data_dir == NULL) {
        options->data_dir = options->task == TASK_SPARSE ? DEFAULT_TEXT_DIR : DEFAULT_DATA_DIR;
    }
    return KVS_OK;
}

/* What is legal by itself, but not beside the others. */
static kvs_status_t check_together(const options_t *options)
{
    const char *given = options->optimizer != NULL        ? "optimizer"
                        : options->rate != 0              ? "lr"
                        : options->schedule != NULL       ? "lr-scheduler"
                        : options->n_schedule_epochs != 0 ? "lr-epochs"
                                                          : NULL;

    if (options->resume_dir != NULL && given != NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "--resume goes on with the optimizer that was saved: leave --%s out",
                        given);
    }
    if (options->rate < 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--lr takes a number above 0, not %g", options->rate);
    }
    if (options->update != NULL && strcmp(options->update, "store") != 0 &&
        strcmp(options->update, "worker") != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--update takes store or worker, not \"%s\"",
                        options->update);
    }
    if (strcmp(options->device, "cpu") != 0 && strcmp(options->device, "cuda") != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "--device takes cpu or cuda, not \"%s\"",
                        options->device);
    }
    return KVS_OK;
}

kvs_status_t options_parse(int argc, char **argv, const char *out_dir, options_t *ret_options)
{
    options_t options = {.backend = "local",
                         .n_servers = OPTIONS_NO_WORD,
                         .n_epochs = 12,
                         .threshold = DEFAULT_THRESHOLD,
                         .task_name = "images",
                         .out_dir = out_dir};
    const row_t *foreign = NULL;

    for (int i = 1; i < argc && !options.help; i++) {
        const row_t *row = find_row(argv[i]);
        const char *value = NULL;
        kvs_status_t status;

        if (row == NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT, "no option is called \"%s\"", argv[i]);
        }
        foreign = foreign == NULL && !is_for_sparse(row) ? row : foreign;
        if (row->kind == FLAG) {
            status = take_flag(row, argv[i], &options);
        } else {
            status = find_value(row, argc, argv, &i, &value);
            if (status == KVS_OK) {
                status = take_value(row, value, &options);
            }
        }
        if (status != KVS_OK) {
            return status;
        }
    }
    if (!options.help) {
        kvs_status_t status = choose_task(&options, foreign);

        if (status != KVS_OK) {
            return status;
        }
    }
    if (options.n_devices == 0) {
        options.n_devices = options.n_workers > 0 ? 1 : 2;
    }
    if (options.device == NULL) { /* nccl takes no arrays on the host */
        options.device = strcasecmp(options.backend, "nccl") == 0 ? "cuda" : "cpu";
    }
    kvs_status_t status = options.help ? KVS_OK : check_together(&options);

    if (status == KVS_OK) {
        *ret_options = options;
    }
    return status;
}

void options_print_help(FILE *to)
{
    fprintf(to, "usage: kvstore-demo [OPTION]...\n"
                "Train a classifier of Fashion-MNIST's images on several devices that share their\n"
                "gradients through a store of libkvstore.\n\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        char head[40], letter[8] = "";

        if (rows[i].letter != 0) {
            snprintf(letter, sizeof(letter), "-%c, ", rows[i].letter);
        }
        snprintf(head, sizeof(head), "%s--%s %s", letter, rows[i].name,
                 rows[i].value ? rows[i].value : "");
        fprintf(to, "  %-18s %s\n", head, rows[i].help);
    }
    fprintf(to, "\nExit status: 0 trained, 1 an error, 2 a wrong option.\n");
}
