/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hvd_message.c - any bytes as a message between workers of horovod: the first byte says what they are
 * taken for. What is read keeps the promises of its header; an ask written again is the same. Seeds lie in
 * seeds/hvd_message. */
#include "fuzz_host.h"
#include "hvd_message.h"

#include <stdbool.h>

static void read_asks(hvd_view_t *view)
{
    const unsigned char *begin = view->at;
    hvd_bytes_t again = {0};
    hvd_ask_t ask;

    while (hvd_get_ask(view, &ask)) {
        require(ask.ndim >= 0 && ask.ndim <= HVD_MAX_NDIM && ask.dtype < KVS_N_DTYPES);
        require(ask.what >= HVD_REDUCE && ask.what <= HVD_JOIN);
        hvd_put_ask(&again, &ask);
        require(again.failed || memcmp(again.data, begin, again.n) == 0);
    }
    hvd_bytes_release(&again);
}

static void read_go(hvd_view_t *view)
{
    hvd_go_t go;
    int64_t sum = 0;

    if (hvd_get_go(view, &go) != KVS_OK) {
        return;
    }
    require(go.n_members > 0 && go.n_items > 0);
    for (uint32_t i = 0; i < go.n_items; i++) {
        sum ^= go.items[i].extra[0] ^ go.items[i].extra[go.n_members - 1];
    }
    require(sum == 0 || view->failed == 0);
    hvd_go_release(&go);
}

static void read_no(hvd_view_t *view)
{
    hvd_no_t no;

    if (hvd_get_no(view, &no) == KVS_OK) {
        require(no.status != KVS_OK && no.text != NULL);
        hvd_no_release(&no);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    hvd_view_t view = {.at = data + 1, .n_left = n_bytes - 1};

    if (n_bytes == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        read_asks(&view);
        break;
    case 1:
        read_go(&view);
        break;
    default:
        read_no(&view);
        break;
    }
    return 0;
}
