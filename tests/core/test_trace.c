/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file: one JSON array of complete events, whole after each flush. One trace a process, so
 * the tests build on each other. */
#include "kt.h"
#include "threads.h"

#include "trace.h"

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static char path[1024];

/* The file's events; NULL if it is not one JSON text. The caller deletes them. */
static cJSON *read_events(void)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t n = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);

    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    return cJSON_ParseWithOpts(text, NULL, 1);
}

static const cJSON *find_event(const cJSON *events, const char *name)
{
    const cJSON *event;

    cJSON_ArrayForEach(event, events)
    {
        if (strcmp(cJSON_GetObjectItem(event, "name")->valuestring, name) == 0) {
            return event;
        }
    }
    return NULL;
}

static void nothing_is_recorded_without_a_file(void)
{
    KT_OK(kvsi_trace_open(""));
    KT_TRUE(kvsi_trace_begin() == 0);
    kvsi_trace_end(0, "nothing", "", 0);
}

static void a_file_that_cannot_be_written_is_an_error(void)
{
    kvs_option_t option = {"trace", "/no/such/directory/trace.json"};
    kvs_store_t *store;

    KT_FAIL(kvs_store_create("local", &option, 1, &store), KVS_ERR_IO,
            "/no/such/directory/trace.json: No such file or directory");
}

static void operations_are_spans_with_key_and_bytes(void)
{
    float data[2] = {1, 2};
    kvs_tensor_t tensor = KT_F32(data, 2);
    kvs_arrays_t list = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_str("a \"quoted\" key");
    kvs_option_t option = {"trace", path};
    kvs_store_t *store;
    cJSON *events;
    const cJSON *push;

    snprintf(path, sizeof(path), "%s/trace.json", kt_temp_dir());
    KT_OK(kvs_store_create("local", &option, 1, &store));
    KT_OK(kvs_store_init(store, &key, 1, &list, NULL));
    KT_OK(kvs_store_push(store, &key, 1, &list, NULL));
    KT_OK(kvs_store_close(store));

    events = read_events();
    KT_TRUE(cJSON_IsArray(events));
    push = find_event(events, "push");
    KT_TRUE(push != NULL && find_event(events, "init") != NULL);
    if (push != NULL) {
        const cJSON *args = cJSON_GetObjectItem(push, "args");

        KT_STR(cJSON_GetObjectItem(push, "ph")->valuestring, "X");
        KT_TRUE(cJSON_GetObjectItem(push, "dur")->valuedouble >= 0);
        KT_TRUE(cJSON_GetObjectItem(push, "ts")->valuedouble >=
                cJSON_GetObjectItem(find_event(events, "init"), "ts")->valuedouble);
        KT_STR(cJSON_GetObjectItem(args, "keys")->valuestring, "'a \"quoted\" key'");
        KT_INT(cJSON_GetObjectItem(args, "bytes")->valueint, 8);
    }
    cJSON_Delete(events);
}

static void the_file_is_whole_after_each_flush(void)
{
    int n_before, n_after;
    cJSON *events = read_events();

    n_before = cJSON_GetArraySize(events);
    cJSON_Delete(events);
    for (int i = 0; i < 3000; i++) { /* more than the buffer holds */
        kvsi_trace_end(kvsi_trace_begin(), "span\n", "detail \\", 7);
    }
    kvsi_trace_flush();
    events = read_events();
    n_after = cJSON_GetArraySize(events);
    KT_INT(n_after, n_before + 3000);
    KT_TRUE(find_event(events, "span\\n") != NULL);
    cJSON_Delete(events);
}

static void flush_without_end(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        kvsi_trace_flush();
    }
}

/* As each close does, with a trace or without. */
static void check_flush_in_children(void)
{
    atomic_bool stop = false;
    kt_thread_t thread;
    int n_failed = 0;

    kt_thread_start(&thread, flush_without_end, &stop);
    for (int i = 0; i < 100 && n_failed == 0; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(KT_PATIENCE_MS / 2000); /* one that hangs is ended */
            kvsi_trace_flush();
            _exit(0);
        }
        n_failed += kt_wait_child(child) != 0;
    }
    atomic_store(&stop, true);
    kt_thread_join(&thread);
    KT_INT(n_failed, 0);
}

static void without_a_trace_a_child_flushes_whoever_held_the_lock(void)
{
    check_flush_in_children();
}

static void a_child_flushes_whoever_held_the_lock(void)
{
    check_flush_in_children();
}

static const kt_test_t tests[] = {
    KT_TEST(without_a_trace_a_child_flushes_whoever_held_the_lock),
    KT_TEST(nothing_is_recorded_without_a_file),
    KT_TEST(a_file_that_cannot_be_written_is_an_error),
    KT_TEST(operations_are_spans_with_key_and_bytes),
    KT_TEST(the_file_is_whole_after_each_flush),
    KT_TEST(a_child_flushes_whoever_held_the_lock),
};
KT_MAIN("trace", tests)
