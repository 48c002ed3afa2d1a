/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses: names, texts, and the text of the last failure of each thread. */
#include "kt.h"
#include "status.h"

#include <pthread.h>

static void every_code_has_name_and_text(void)
{
    KT_STR(kvs_status_name(KVS_OK), "KVS_OK");
    KT_STR(kvs_status_name(KVS_ERR_SHAPE), "KVS_ERR_SHAPE");
    KT_STR(kvs_status_text(KVS_ERR_SHAPE), "shape mismatch");
    KT_STR(kvs_status_name(-9999), "unknown status");
    KT_STR(kvs_status_text(1), "unknown status");
}

static void fail_returns_its_status_and_keeps_the_text(void)
{
    KT_FAIL(kvs_fail(KVS_ERR_IO, "disk %d", 7), KVS_ERR_IO, "disk 7");
    KT_STR(kvs_last_error(), "disk 7");
}

static void context_goes_in_front_of_the_text(void)
{
    kvs_fail(KVS_ERR_IO, "no space");
    KT_INT(kvsi_fail_context(KVS_ERR_IO, "file '%s'", "x"), KVS_ERR_IO);
    KT_STR(kvs_last_error(), "file 'x': no space");
}

static void the_last_text_may_be_an_argument_of_the_next(void)
{
    kvs_fail(KVS_ERR_IO, "inner");
    kvs_fail(KVS_ERR_IO, "outer: %s", kvs_last_error());
    KT_STR(kvs_last_error(), "outer: inner");
}

static void a_long_text_is_cut_between_characters(void)
{
    char longer[5000];

    for (size_t i = 0; i + 2 < sizeof(longer); i += 2) {
        memcpy(longer + i, "\xC3\xA4", 3);
    }
    kvs_fail(KVS_ERR_IO, "%s", longer);
    size_t len = strlen(kvs_last_error());
    KT_TRUE(len > 2000 && len < 2048);
    KT_STR(kvs_last_error() + len - 3, "...");
    KT_INT((unsigned char)kvs_last_error()[len - 4], 0xA4);
}

static void *look_at_text(void *arg)
{
    *(const char **)arg = kvs_last_error()[0] == '\0' ? "empty" : "not empty";
    return NULL;
}

static void each_thread_has_its_own_text(void)
{
    const char *seen = NULL;
    pthread_t thread;

    kvs_fail(KVS_ERR_IO, "mine");
    KT_INT(pthread_create(&thread, NULL, look_at_text, &seen), 0);
    pthread_join(thread, NULL);
    KT_STR(seen, "empty");
}

static const kt_test_t tests[] = {
    KT_TEST(every_code_has_name_and_text),
    KT_TEST(fail_returns_its_status_and_keeps_the_text),
    KT_TEST(context_goes_in_front_of_the_text),
    KT_TEST(the_last_text_may_be_an_argument_of_the_next),
    KT_TEST(a_long_text_is_cut_between_characters),
    KT_TEST(each_thread_has_its_own_text),
};
KT_MAIN("status", tests)
