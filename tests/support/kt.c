/* SPDX-License-Identifier: Apache-2.0 */
/* kt.c - CUnit's own counts decide the exit status: CU_basic_run_tests() returns 0 with failed
 * asserts, and the number of failures misses a failed set-up. */
#include "kt.h"

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <ftw.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char temp_root[512];
static pid_t temp_owner; /* a forked child that ends must leave it alone */

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void remove_temp_root(void)
{
    if (temp_root[0] != '\0' && getpid() == temp_owner) {
        (void)nftw(temp_root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

const char *kt_temp_dir(void)
{
    static char dir[640];
    static int n_dirs;

    if (temp_root[0] == '\0') {
        const char *base = getenv("TMPDIR");

        snprintf(temp_root, sizeof(temp_root), "%s/kvs-test-XXXXXX", base ? base : "/tmp");
        if (mkdtemp(temp_root) == NULL) {
            perror("mkdtemp");
            exit(2);
        }
        temp_owner = getpid();
        atexit(remove_temp_root);
    }
    snprintf(dir, sizeof(dir), "%s/%d", temp_root, n_dirs++);
    if (mkdir(dir, 0755) != 0) {
        perror(dir);
        exit(2);
    }
    return dir;
}

const char *kt_write_file(const char *dir, const char *name, const char *text)
{
    static char path[1024];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755); /* it may exist; fopen tells if it doesn't */
        *slash = '/';
    }
    file = fopen(path, "wb");
    if (file == NULL || fwrite(text, 1, strlen(text), file) != strlen(text) || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
    return path;
}

static int stderr_before = -1, stderr_pipe[2];

void kt_stderr_begin(void)
{
    if (pipe(stderr_pipe) != 0 || fcntl(stderr_pipe[0], F_SETFL, O_NONBLOCK) != 0) {
        perror("pipe");
        exit(2);
    }
    stderr_before = dup(STDERR_FILENO);
    dup2(stderr_pipe[1], STDERR_FILENO);
}

const char *kt_stderr_end(void)
{
    static char text[65537];
    ssize_t n = read(stderr_pipe[0], text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    close(stderr_pipe[0]);
    close(stderr_pipe[1]);
    return text;
}

int kt_check_ok(kvs_status_t status, const char *expr, const char *file, int line)
{
    if (status != KVS_OK) {
        printf("\n  %s:%d: %s: %s: %s", file, line, expr, kvs_status_name(status),
               kvs_last_error());
    }
    CU_assertImplementation(status == KVS_OK, (unsigned)line, expr, file, "", CU_FALSE);
    return status == KVS_OK;
}

int kt_check_fail(kvs_status_t status, kvs_status_t want, const char *part, const char *expr,
                  const char *file, int line)
{
    const char *text = kvs_last_error();
    int ok = status == want && strstr(text, part) != NULL;

    if (!ok) {
        printf("\n  %s:%d: %s: got %s \"%s\", want %s \"…%s…\"", file, line, expr,
               kvs_status_name(status), status == KVS_OK ? "" : text, kvs_status_name(want), part);
    }
    CU_assertImplementation(ok, (unsigned)line, expr, file, "", CU_FALSE);
    return ok;
}

void kt_check_str(const char *got, const char *want, const char *expr, const char *file, int line)
{
    int ok = got != NULL && strcmp(got, want) == 0;

    if (!ok) {
        printf("\n  %s:%d: %s: got \"%s\", want \"%s\"", file, line, expr, got ? got : "(null)",
               want);
    }
    CU_assertImplementation(ok, (unsigned)line, expr, file, "", CU_FALSE);
}

void kt_check_int(long long got, long long want, const char *expr, const char *file, int line)
{
    if (got != want) {
        printf("\n  %s:%d: %s: got %lld, want %lld", file, line, expr, got, want);
    }
    CU_assertImplementation(got == want, (unsigned)line, expr, file, "", CU_FALSE);
}

void kt_check_real(double got, double want, const char *expr, const char *file, int line)
{
    if (got != want) {
        printf("\n  %s:%d: %s: got %.17g, want %.17g", file, line, expr, got, want);
    }
    CU_assertImplementation(got == want, (unsigned)line, expr, file, "", CU_FALSE);
}

void kt_check_has(const char *text, const char *part, const char *expr, const char *file, int line)
{
    int ok = text != NULL && strstr(text, part) != NULL;

    if (!ok) {
        printf("\n  %s:%d: %s: \"%s\" lacks \"%s\"", file, line, expr, text ? text : "(null)",
               part);
    }
    CU_assertImplementation(ok, (unsigned)line, expr, file, "", CU_FALSE);
}

kvs_tensor_t kt_tensor(void *data, int dtype_index, const int64_t *shape, int32_t ndim)
{
    kvs_tensor_t tensor = {.data = data,
                           .device = {KVS_DEVICE_CPU, 0},
                           .ndim = ndim,
                           .dtype = kvs_dtype(dtype_index),
                           .shape = shape};

    return tensor;
}

/* Whether the arguments ask for it: none ask for all. */
static int is_asked_for(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return argc < 2;
}

int kt_run(const char *suite, const kt_test_t *tests, size_t n_tests, int argc, char **argv)
{
    CU_pSuite cu_suite;
    size_t n_added = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (CU_initialize_registry() != CUE_SUCCESS) {
        return 2;
    }
    cu_suite = CU_add_suite(suite, NULL, NULL);
    for (size_t i = 0; cu_suite != NULL && i < n_tests; i++) {
        if (!is_asked_for(tests[i].name, argc, argv)) {
            continue;
        }
        if (CU_add_test(cu_suite, tests[i].name, tests[i].run) == NULL) {
            return 2;
        }
        n_added++;
    }
    if (n_added == 0 || (argc > 1 && n_added != (size_t)argc - 1)) {
        fprintf(stderr, "%s: %d tests were named, of which there are %zu\n", suite, argc - 1,
                n_added);
        return 2;
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_ErrorCode err = CU_basic_run_tests();
    int failed = err != CUE_SUCCESS || CU_get_number_of_failure_records() != 0;

    CU_cleanup_registry();
    return failed;
}

/* ---- Locales ------------------------------------------------------------------------------------- */

static int has_comma(const char *locale)
{
    return setlocale(LC_ALL, locale) != NULL && strcmp(localeconv()->decimal_point, ",") == 0;
}

/* The system's, else the one that the build has made. */
int kt_comma_locale(void)
{
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};

    for (size_t i = 0; i < 3; i++) {
        if (has_comma(locales[i])) {
            return 1;
        }
    }
    (void)setenv("LOCPATH", KT_LOCALES, 1);
    if (has_comma("de_DE.UTF-8")) {
        return 1;
    }
    setlocale(LC_ALL, "C");
    fprintf(stderr, "no locale with a decimal comma here: the test does without\n");
    return 0;
}
