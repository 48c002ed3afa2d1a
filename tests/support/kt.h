/* SPDX-License-Identifier: Apache-2.0 */
/* kt.h - what every test shares: CUnit with statuses checked as code and text.
 *
 * A test program lists its tests in a kt_test_t array, named by a sentence about behaviour, and ends
 * with KT_MAIN("suite", tests). `PROGRAM NAME` runs one test. Exit: 0 passed, 1 failed, 77 skipped. */
#ifndef KT_H
#define KT_H

#include <kvstore/kvstore.h>

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

typedef struct kt_test {
    const char *name;
    void (*run)(void);
} kt_test_t;

/* clang-format off */
#define KT_TEST(function) {#function, function}
/* clang-format on */
#define KT_MAIN(suite, tests)                                                                      \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return kt_run(suite, tests, sizeof(tests) / sizeof((tests)[0]), argc, argv);               \
    }

int kt_run(const char *suite, const kt_test_t *tests, size_t n_tests, int argc, char **argv);

/* The expression gives KVS_OK; else its text is printed. */
#define KT_OK(expr) kt_check_ok((expr), #expr, __FILE__, __LINE__)
/* It gives `want`, and the text holds `part`. */
#define KT_FAIL(expr, want, part) kt_check_fail((expr), (want), (part), #expr, __FILE__, __LINE__)
/* Strings, integers and reals are equal; else both are printed. */
#define KT_STR(got, want) kt_check_str((got), (want), #got, __FILE__, __LINE__)
#define KT_INT(got, want)                                                                          \
    kt_check_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define KT_REAL(got, want) kt_check_real((got), (want), #got, __FILE__, __LINE__)
/* `text` contains `part`. */
#define KT_HAS(text, part) kt_check_has((text), (part), #text, __FILE__, __LINE__)
/* It is true. */
#define KT_TRUE(expr) CU_assertImplementation(!!(expr), __LINE__, #expr, __FILE__, "", CU_FALSE)

int kt_check_ok(kvs_status_t status, const char *expr, const char *file, int line);
int kt_check_fail(kvs_status_t status, kvs_status_t want, const char *part, const char *expr,
                  const char *file, int line);
void kt_check_str(const char *got, const char *want, const char *expr, const char *file, int line);
void kt_check_int(long long got, long long want, const char *expr, const char *file, int line);
void kt_check_real(double got, double want, const char *expr, const char *file, int line);
void kt_check_has(const char *text, const char *part, const char *expr, const char *file, int line);

/* A fresh directory under the test's working directory, removed at exit. Static until the next call. */
const char *kt_temp_dir(void);
/* Write `text` to DIR/NAME, making parent directories; gives the path, static until the next call. */
const char *kt_write_file(const char *dir, const char *name, const char *text);

/* Keep what is written to stderr from here on, instead of showing it. */
void kt_stderr_begin(void);
/* Show it again, and give what was kept: at most what a pipe holds; static until the next call. */
const char *kt_stderr_end(void);

/* Have the program's numbers written with a decimal comma, until setlocale(LC_ALL, "C"); 0: there is no
 * locale that has one, nothing has changed. */
int kt_comma_locale(void);

/* Dense CPU float32 tensors in one line: KT_F32(data, n) is one-dimensional. `shape` must outlive use. */
kvs_tensor_t kt_tensor(void *data, int dtype_index, const int64_t *shape, int32_t ndim);
#define KT_F32(data, n) kt_tensor((data), KVS_DTYPE_float32, (const int64_t[]){(n)}, 1)

#endif
