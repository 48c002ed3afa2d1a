/* SPDX-License-Identifier: Apache-2.0 */
/* test_bench.c - `kvstore bench` as its user sees it: arguments, rows and exit status, in short runs.
 * $KVSTORE is the program. Figures are checked against each other only. */
#include <kt.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>

static char output[1 << 16];

/* Run `kvstore bench ARGUMENTS`, shortly; its words, errors too, are in `output`. Gives its exit status. */
static int run(const char *arguments)
{
    char command[4096];
    FILE *pipe;
    size_t n;
    int how;

    snprintf(command, sizeof(command),
             "KVSTORE_BENCH_QUICK=1 \"$KVSTORE\" bench %s 2>&1 </dev/null", arguments);
    pipe = popen(command, "r");
    if (pipe == NULL) {
        perror("popen");
        exit(2);
    }
    n = fread(output, 1, sizeof(output) - 1, pipe);
    output[n] = '\0';
    how = pclose(pipe);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 255;
}

/* ---- Rows -------------------------------------------------------------------------------------- */

#define MAX_ROWS 200

typedef struct rows {
    cJSON *items[MAX_ROWS];
    int n;
} rows_t;

static rows_t read_rows(void)
{
    rows_t rows = {.n = 0};
    char *rest = NULL;

    for (char *line = strtok_r(output, "\n", &rest); line != NULL && rows.n < MAX_ROWS;
         line = strtok_r(NULL, "\n", &rest)) {
        cJSON *row = cJSON_Parse(line);

        KT_TRUE(row != NULL);
        if (row == NULL) {
            printf("  not JSON: %s\n", line);
        } else {
            rows.items[rows.n++] = row;
        }
    }
    return rows;
}

static void release_rows(rows_t *rows)
{
    for (int i = 0; i < rows->n; i++) {
        cJSON_Delete(rows->items[i]);
    }
}

static const char *text_of(const cJSON *row, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, name));

    return text != NULL ? text : "(no text)";
}

/* NaN for null and for what is missing. */
static double number_of(const cJSON *row, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(row, name));
}

/* The row of that name and size; 0: any size. */
static const cJSON *find_row(const rows_t *rows, const char *workload, double size_bytes)
{
    for (int i = 0; i < rows->n; i++) {
        if (strcmp(text_of(rows->items[i], "workload"), workload) == 0 &&
            (size_bytes == 0 || number_of(rows->items[i], "size_bytes") == size_bytes)) {
            return rows->items[i];
        }
    }
    KT_STR("", workload);
    return NULL;
}

static void check_members(const cJSON *row)
{
    static const char *const names[] = {"peer",  "workload", "size_bytes", "keys",
                                        "procs", "median_s", "min_s",      "max_s",
                                        "GBps",  "samples",  "of_triad"};
    double median = number_of(row, "median_s");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        KT_TRUE(cJSON_HasObjectItem(row, names[i]));
    }
    KT_TRUE(number_of(row, "min_s") <= median && median <= number_of(row, "max_s"));
    KT_TRUE(number_of(row, "procs") >= 1);
    KT_TRUE(cJSON_HasObjectItem(row, "backend") == (strcmp(text_of(row, "peer"), "kvstore") == 0));
}

/* GBps is `n_bytes` over the median, as far as its four digits show. */
static void check_speed(const cJSON *row, double n_bytes)
{
    double speed = number_of(row, "GBps"), wanted = n_bytes / number_of(row, "median_s") * 1e-9;

    KT_TRUE(fabs(speed - wanted) <= 0.002 * wanted);
}

/* ---- Tests ------------------------------------------------------------------------------------- */

static void wrong_usage_is_refused_and_named(void)
{
    KT_INT(run(""), 2);
    KT_HAS(
        output,
        "kvstore bench: name a workload: W1, W2, W3, W4, W5, W6, W7 or W8\nusage: kvstore bench ");
    KT_INT(run("W1 W9"), 2);
    KT_HAS(output, "no workload \"W9\": there are W1, W2, W3, W4, W5, W6, W7 and W8");
    KT_INT(run("--fast W1"), 2);
    KT_HAS(output, "--fast");
    KT_INT(run("W1 --backend"), 2);
    KT_HAS(output, "without its value: --backend");
}

static void help_names_every_workload_and_member(void)
{
    KT_INT(run("--help"), 0);
    KT_HAS(output, "usage: kvstore bench [WORKLOAD...]");
    KT_HAS(output, "W3_list_k2_sgdmom");
    KT_HAS(output, "W8_rss_100MB_after_k2");
    KT_HAS(output, "of_triad");
}

static void an_unknown_backend_is_refused_before_anything_is_measured(void)
{
    KT_INT(run("--backend locl W1"), 1);
    KT_HAS(output, "kvstore bench: ");
    KT_HAS(output, "locl");
    KT_TRUE(strstr(output, "WORKLOAD ") == NULL);
}

static void a_table_has_a_line_a_row_and_names_are_taken_in_any_case(void)
{
    KT_INT(run("w2 --backend LOCAL"), 0);
    KT_HAS(output, "PEER     WORKLOAD ");
    KT_HAS(output, "\nkvstore  W2_listcall  ");
    KT_HAS(output, "\nkvstore  W2_percall_k2  ");
    KT_TRUE(strstr(output, "pushpull") == NULL);
    KT_TRUE(strstr(output, "machine") == NULL);
}

static void w1_stands_beside_the_machine(void)
{
    rows_t rows;

    KT_INT(run("--json W1"), 0);
    rows = read_rows();
    for (int i = 0; i < rows.n; i++) {
        check_members(rows.items[i]);
    }
    check_speed(find_row(&rows, "memcpy", 262144), 2 * 262144);
    check_speed(find_row(&rows, "triad", 4096), 3 * 4096);
    check_speed(find_row(&rows, "W1_k2", 4096), 4096);
    check_speed(find_row(&rows, "W1_k4", 262144), 262144);
    KT_TRUE(number_of(find_row(&rows, "W1_k4", 262144), "of_triad") > 0);
    KT_STR(text_of(find_row(&rows, "W1_k2", 4096), "backend"), "local");
    release_rows(&rows);
}

static void pushpull_adds_rows(void)
{
    static const char *const names[] = {"W2_listcall",
                                        "W2_percall",
                                        "W2_listcall_k2",
                                        "W2_percall_k2",
                                        "W2_pushpull_listcall",
                                        "W2_pushpull_percall",
                                        "W2_pushpull_listcall_k2",
                                        "W2_pushpull_percall_k2"};
    rows_t rows;

    KT_INT(run("--json --pushpull W2"), 0);
    rows = read_rows();
    KT_INT(rows.n, 8);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const cJSON *row = find_row(&rows, names[i], 1024);

        check_members(row);
        check_speed(row, 1024e3);
        KT_INT(number_of(row, "keys"), 1000);
    }
    release_rows(&rows);
}

static void w3_has_161_keys_with_and_without_an_optimizer(void)
{
    static const char *const names[] = {
        "W3_k2",        "W3_list_k2",        "W3_pushpull_k2",        "W3_pushpull_list_k2",
        "W3_k2_sgdmom", "W3_list_k2_sgdmom", "W3_pushpull_k2_sgdmom", "W3_pushpull_list_k2_sgdmom"};
    rows_t rows;

    KT_INT(run("--json --pushpull W3"), 0);
    rows = read_rows();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        KT_INT(number_of(find_row(&rows, names[i], 0), "keys"), 161);
    }
    release_rows(&rows);
}

static void w6_compresses_on_one_thread_unless_told_otherwise(void)
{
    rows_t rows;
    const cJSON *row;

    KT_INT(run("--json W6"), 0);
    rows = read_rows();
    row = find_row(&rows, "W6_2bit", 262144);
    check_speed(row, 2 * 262144);
    KT_INT(number_of(row, "procs"), 1);
    KT_STR(text_of(row, "backend"), "device");
    check_speed(find_row(&rows, "W6_device_k2_2bit", 262144), 2 * 262144);
    check_speed(find_row(&rows, "W6_device_k2_none", 262144), 2 * 262144);
    release_rows(&rows);
    setenv("KVSTORE_THREADS", "2", 1);
    KT_INT(run("--json W6 W2"), 0);
    unsetenv("KVSTORE_THREADS");
    rows = read_rows();
    KT_INT(number_of(find_row(&rows, "W6_2bit", 262144), "procs"), 2);
    release_rows(&rows);
    KT_INT(run("--backend teststore --pushpull W6"), 1);
    KT_HAS(output, "kvstore bench: W6: not implemented: set_gradient_compression by teststore");
}

static void w7_counts_every_stream_and_the_threads(void)
{
    static const char *const others[] = {"W7_nag",       "W7_signum",  "W7_signsgd",  "W7_adamw",
                                         "W7_adabelief", "W7_adamax",  "W7_nadam",    "W7_lans",
                                         "W7_lars",      "W7_adagrad", "W7_adadelta", "W7_rmsprop",
                                         "W7_ftrl",      "W7_ftml",    "W7_dcasgd"};
    rows_t rows;
    const cJSON *row;

    setenv("KVSTORE_THREADS", "3", 1);
    KT_INT(run("--json W7"), 0);
    unsetenv("KVSTORE_THREADS");
    rows = read_rows();
    row = find_row(&rows, "W7_sgdmom", 400000);
    check_speed(row, 5 * 400000);
    KT_INT(number_of(row, "procs"), 3);
    check_speed(find_row(&rows, "W7_adam", 400000), 7 * 400000);
    check_speed(find_row(&rows, "W7_sgd", 400000), 3 * 400000); /* by default without momentum */
    check_speed(find_row(&rows, "W7_lamb", 400000), 7 * 400000);
    check_speed(find_row(&rows, "W7_groupadagrad", 400000), 3 * 400000);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        KT_TRUE(find_row(&rows, others[i], 400000) != NULL);
    }
    release_rows(&rows);
}

static void w8_tells_the_start_and_the_memory_of_a_process(void)
{
    rows_t rows;
    const cJSON *start;

    KT_INT(run("--json W8"), 0);
    rows = read_rows();
    KT_INT(rows.n, 4);
    start = find_row(&rows, "W8_startup_first_pushpull", 4096);
    check_members(start);
    KT_TRUE(number_of(start, "min_s") > 0);
    KT_INT(number_of(start, "samples"), 2);
    KT_TRUE(number_of(find_row(&rows, "W8_rss_base", 0), "size_bytes") > 0);
    /* the stored data is there; how much more is for the reader */
    KT_TRUE(number_of(find_row(&rows, "W8_rss_100MB_init", 1e8), "rss_ratio") > 0.9);
    KT_TRUE(number_of(find_row(&rows, "W8_rss_100MB_after_k2", 1e8), "rss_ratio") > 0.9);
    release_rows(&rows);
}

static void a_backend_without_weights_has_pushpull_only(void)
{
    KT_INT(run("--backend teststore W2"), 1);
    KT_HAS(output, "kvstore bench: W2: ");
    KT_HAS(output, "not implemented");
    KT_INT(run("--backend teststore W2 --pushpull"), 0);
    KT_HAS(output, " W2_pushpull_listcall ");
    KT_TRUE(strstr(output, " W2_listcall ") == NULL);
}

static void a_workload_that_fails_does_not_stop_the_others(void)
{
    KT_INT(run("--backend teststore --pushpull W8 W2"), 1);
    KT_HAS(output, "kvstore bench: W8: the process that was started to be measured has failed");
    KT_HAS(output, " W2_pushpull_percall ");
}

static const kt_test_t tests[] = {
    KT_TEST(wrong_usage_is_refused_and_named),
    KT_TEST(help_names_every_workload_and_member),
    KT_TEST(an_unknown_backend_is_refused_before_anything_is_measured),
    KT_TEST(a_table_has_a_line_a_row_and_names_are_taken_in_any_case),
    KT_TEST(w1_stands_beside_the_machine),
    KT_TEST(pushpull_adds_rows),
    KT_TEST(w3_has_161_keys_with_and_without_an_optimizer),
    KT_TEST(w6_compresses_on_one_thread_unless_told_otherwise),
    KT_TEST(w7_counts_every_stream_and_the_threads),
    KT_TEST(w8_tells_the_start_and_the_memory_of_a_process),
    KT_TEST(a_backend_without_weights_has_pushpull_only),
    KT_TEST(a_workload_that_fails_does_not_stop_the_others),
};

KT_MAIN("bench", tests)
