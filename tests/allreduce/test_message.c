/* SPDX-License-Identifier: Apache-2.0 */
/* What horovod's workers and worker 0 say to each other, as bytes and back; what no honest peer sends is
 * refused. */
#include "../kit/fake_host.h"

#include <kt.h>

#include "hvd_message.h"

static hvd_view_t view_of(const hvd_bytes_t *bytes)
{
    return (hvd_view_t){bytes->data, bytes->n, false};
}

static void what_is_asked_survives_the_way(void)
{
    hvd_ask_t ask = {.ticket = UINT64_C(0x100000007),
                     .store = 2,
                     .what = HVD_ROWS,
                     .dtype = KVS_DTYPE_int8,
                     .priority = -3,
                     .ndim = 2,
                     .shape = {5, 0},
                     .extra = 4,
                     .count = 9,
                     .timeout_ms = 60000,
                     .is_text = true,
                     .text = "fc",
                     .n_text = 2};
    hvd_bytes_t bytes = {0};
    hvd_view_t view;
    hvd_ask_t got;

    hvd_put_ask(&bytes, &ask);
    view = view_of(&bytes);
    KT_TRUE(hvd_get_ask(&view, &got));
    KT_TRUE(got.ticket == ask.ticket);
    KT_INT(got.what, HVD_ROWS);
    KT_INT(got.dtype, KVS_DTYPE_int8);
    KT_INT(got.priority, -3);
    KT_INT(got.shape[0], 5);
    KT_INT(got.shape[1], 0);
    KT_INT(got.extra, 4);
    KT_INT(got.count, 9);
    KT_INT(got.timeout_ms, 60000);
    KT_INT(got.n_text, 2);
    KT_TRUE(memcmp(got.text, "fc", 2) == 0);
    KT_TRUE(!hvd_get_ask(&view, &got)); /* the end */
    KT_TRUE(!view.failed);
    hvd_bytes_release(&bytes);
}

static void nobody_asks_with_less_than_no_rows(void)
{
    hvd_ask_t ask = {.what = HVD_GATHER, .ndim = 1, .shape = {5}, .extra = -1}, got;
    hvd_bytes_t bytes = {0};
    hvd_view_t view;

    hvd_put_ask(&bytes, &ask);
    view = view_of(&bytes);
    KT_TRUE(!hvd_get_ask(&view, &got));
    KT_TRUE(view.failed);
    hvd_bytes_release(&bytes);
}

/* An exchange of two members and one item. */
static kvs_status_t go(uint32_t first, uint32_t second, int64_t rows, hvd_go_t *ret_go)
{
    hvd_bytes_t bytes = {0};
    hvd_view_t view;
    kvs_status_t status;

    hvd_put_u32(&bytes, 70);
    hvd_put_u32(&bytes, 2);
    hvd_put_u32(&bytes, 1);
    hvd_put_u32(&bytes, 1);
    hvd_put_u32(&bytes, first);
    hvd_put_u32(&bytes, second);
    hvd_put_i64(&bytes, 11); /* the ticket */
    hvd_put_i64(&bytes, rows);
    hvd_put_i64(&bytes, 6);
    view = view_of(&bytes);
    status = hvd_get_go(&view, ret_go);
    hvd_bytes_release(&bytes);
    return status;
}

static void an_exchange_survives_the_way(void)
{
    hvd_go_t message;

    KT_OK(go(0, 3, 8, &message));
    KT_INT(message.number, 70);
    KT_INT(message.members[0], 0);
    KT_INT(message.members[1], 3);
    KT_INT(message.items[0].ticket, 11);
    KT_INT(message.items[0].extra[0], 8);
    KT_INT(message.items[0].extra[1], 6);
    hvd_go_release(&message);
}

static void members_are_ranks_in_order_with_rows(void)
{
    hvd_go_t message;

    KT_FAIL(go(3, 0, 8, &message), KVS_ERR_FORMAT, "malformed");
    KT_FAIL(go(1, 1, 8, &message), KVS_ERR_FORMAT, "malformed");
    KT_FAIL(go(UINT32_MAX, 1, 8, &message), KVS_ERR_FORMAT, "malformed");
    KT_FAIL(go(0, 1, -8, &message), KVS_ERR_FORMAT, "malformed");
}

static void rows_that_cannot_be_are_refused(void)
{
    const int members[] = {0, 2, 3};
    int64_t n_rows[] = {4, 0, 10};

    KT_OK(hvd_check_rows(members, n_rows, 3, 2, 0, 10, 40));
    KT_OK(hvd_check_rows(members, n_rows, 3, 1, 7, 10, 0)); /* of others only */
    KT_FAIL(hvd_check_rows(members, n_rows, 3, 3, 9, 10, 40), KVS_ERR_PEER,
            "worker 0 says that worker 3 gives 10 rows, but it gives 9");
    KT_FAIL(hvd_check_rows(members, n_rows, 3, 0, 4, 9, 40), KVS_ERR_PEER,
            "worker 0 says that worker 3 gives 10 rows, which cannot be");
    n_rows[1] = INT64_MAX / 100; /* more than 100 bytes each can be of three */
    KT_FAIL(hvd_check_rows(members, n_rows, 3, 0, 4, INT64_MAX, 100), KVS_ERR_PEER, "worker 2");
    n_rows[1] = INT64_MAX;
    KT_FAIL(hvd_check_rows(members, n_rows, 3, 0, 4, INT64_MAX, 0), KVS_ERR_PEER, "worker 2");
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_asked_survives_the_way),  KT_TEST(nobody_asks_with_less_than_no_rows),
    KT_TEST(an_exchange_survives_the_way),    KT_TEST(members_are_ranks_in_order_with_rows),
    KT_TEST(rows_that_cannot_be_are_refused),
};

KT_MAIN("message", tests)
