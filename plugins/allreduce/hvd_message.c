/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_message.h"

#include <kvstore/allreduce.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *hvd_what_name(uint8_t what)
{
    static const char *const names[] = {"?",         "pushpull",         "broadcast",
                                        "allgather", "pushpull of rows", "join"};

    return names[what <= HVD_JOIN ? what : 0];
}

const char *hvd_reduce_name(int reduce)
{
    static const char *const names[] = {"sum", "average", "min", "max"};

    return reduce >= 0 && reduce <= KVS_REDUCE_MAX ? names[reduce] : "?";
}

/* ---- Bytes ------------------------------------------------------------------------------------- */

void hvd_bytes_release(hvd_bytes_t *bytes)
{
    free(bytes->data);
    *bytes = (hvd_bytes_t){0};
}

void hvd_put_bytes(hvd_bytes_t *bytes, const void *from, size_t n)
{
    if (n == 0) {
        return;
    }
    if (bytes->n + n > bytes->capacity) {
        size_t capacity = 2 * (bytes->n + n) + 256;
        unsigned char *grown = realloc(bytes->data, capacity);

        if (grown == NULL) {
            bytes->failed = true;
            return;
        }
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->n, from, n);
    bytes->n += n;
}

static void put_number(hvd_bytes_t *bytes, uint64_t value, size_t n)
{
    unsigned char le[8];

    for (size_t i = 0; i < n; i++) {
        le[i] = (unsigned char)(value >> (8 * i));
    }
    hvd_put_bytes(bytes, le, n);
}

void hvd_put_u32(hvd_bytes_t *bytes, uint32_t value)
{
    put_number(bytes, value, 4);
}

void hvd_put_i64(hvd_bytes_t *bytes, int64_t value)
{
    put_number(bytes, (uint64_t)value, 8);
}

void hvd_put_text(hvd_bytes_t *bytes, const char *text)
{
    hvd_put_u32(bytes, (uint32_t)strlen(text));
    hvd_put_bytes(bytes, text, strlen(text));
}

const void *hvd_get_bytes(hvd_view_t *view, size_t n)
{
    const void *at = view->at;

    if (view->failed || n > view->n_left) {
        view->failed = true;
        return NULL;
    }
    view->at += n;
    view->n_left -= n;
    return at;
}

static uint64_t get_number(hvd_view_t *view, size_t n)
{
    const unsigned char *le = hvd_get_bytes(view, n);
    uint64_t value = 0;

    for (size_t i = 0; le != NULL && i < n; i++) {
        value |= (uint64_t)le[i] << (8 * i);
    }
    return value;
}

uint32_t hvd_get_u32(hvd_view_t *view)
{
    return (uint32_t)get_number(view, 4);
}

int64_t hvd_get_i64(hvd_view_t *view)
{
    return (int64_t)get_number(view, 8);
}

/* ---- Records ----------------------------------------------------------------------------------- */

void hvd_put_ask(hvd_bytes_t *bytes, const hvd_ask_t *ask)
{
    put_number(bytes, ask->ticket, 8);
    hvd_put_u32(bytes, ask->store);
    put_number(bytes, ask->what, 1);
    put_number(bytes, ask->dtype, 1);
    put_number(bytes, ask->reduce, 1);
    put_number(bytes, ask->is_text, 1);
    hvd_put_u32(bytes, (uint32_t)ask->root);
    hvd_put_u32(bytes, (uint32_t)ask->priority);
    hvd_put_u32(bytes, (uint32_t)ask->ndim);
    for (int32_t i = 0; i < ask->ndim; i++) {
        hvd_put_i64(bytes, ask->shape[i]);
    }
    hvd_put_i64(bytes, ask->extra);
    put_number(bytes, ask->count, 8);
    hvd_put_i64(bytes, ask->timeout_ms);
    hvd_put_i64(bytes, ask->warning_ms);
    hvd_put_i64(bytes, ask->number);
    hvd_put_u32(bytes, ask->n_text);
    hvd_put_bytes(bytes, ask->text == NULL ? "" : ask->text, ask->n_text);
}

/* Whether there can be such an array; as the core has it: zeros don't count. */
static bool is_shape(const hvd_ask_t *ask)
{
    int64_t most = INT64_MAX / 8;

    for (int32_t i = 0; i < ask->ndim; i++) {
        if (ask->shape[i] < 0) {
            return false;
        }
        most /= ask->shape[i] > 0 ? ask->shape[i] : 1;
    }
    return most > 0;
}

bool hvd_get_ask(hvd_view_t *view, hvd_ask_t *ret_ask)
{
    hvd_ask_t ask = {0};
    uint64_t is_text;

    if (view->n_left == 0 || view->failed) {
        return false;
    }
    ask.ticket = get_number(view, 8);
    ask.store = hvd_get_u32(view);
    ask.what = (uint8_t)get_number(view, 1);
    ask.dtype = (uint8_t)get_number(view, 1);
    ask.reduce = (uint8_t)get_number(view, 1);
    is_text = get_number(view, 1);
    ask.is_text = is_text != 0;
    ask.root = (int32_t)hvd_get_u32(view);
    ask.priority = (int32_t)hvd_get_u32(view);
    ask.ndim = (int32_t)hvd_get_u32(view);
    if (ask.ndim < 0 || ask.ndim > HVD_MAX_NDIM || ask.what < HVD_REDUCE || ask.what > HVD_JOIN ||
        ask.dtype >= KVS_N_DTYPES || is_text > 1) {
        view->failed = true;
    }
    for (int32_t i = 0; !view->failed && i < ask.ndim; i++) {
        ask.shape[i] = hvd_get_i64(view);
    }
    view->failed = view->failed || !is_shape(&ask);
    ask.extra = hvd_get_i64(view);
    view->failed |= ask.extra < 0;
    ask.count = get_number(view, 8);
    ask.timeout_ms = hvd_get_i64(view);
    ask.warning_ms = hvd_get_i64(view);
    ask.number = hvd_get_i64(view);
    ask.n_text = hvd_get_u32(view);
    ask.text = hvd_get_bytes(view, ask.n_text);
    *ret_ask = ask;
    return !view->failed;
}

static kvs_status_t malformed(const char *what)
{
    return kvs_fail(KVS_ERR_FORMAT, "a malformed message: %s", what);
}

/* Where no numbers come with the items, all share one list of zeros. */
static bool make_room(hvd_go_t *go, bool has_extras)
{
    size_t n_extras = has_extras ? (size_t)go->n_items * go->n_members : go->n_members;

    go->members = calloc(go->n_members, sizeof(*go->members));
    go->items = calloc(go->n_items, sizeof(*go->items));
    go->extras = calloc(n_extras, sizeof(*go->extras));
    return go->members != NULL && go->items != NULL && go->extras != NULL;
}

kvs_status_t hvd_get_go(hvd_view_t *view, hvd_go_t *ret_go)
{
    hvd_go_t go = {.number = hvd_get_u32(view)};
    bool has_extras;

    go.n_members = hvd_get_u32(view);
    go.n_items = hvd_get_u32(view);
    has_extras = hvd_get_u32(view) != 0;
    if (view->failed || go.n_members == 0 || go.n_items == 0 || go.n_members > view->n_left / 4 ||
        go.n_items > view->n_left / 8 ||
        (has_extras && go.n_items > view->n_left / 8 / go.n_members)) {
        return malformed("go");
    }
    if (!make_room(&go, has_extras)) {
        hvd_go_release(&go);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange");
    }
    for (uint32_t m = 0; m < go.n_members; m++) {
        go.members[m] = (int)hvd_get_u32(view);
        view->failed |= go.members[m] < 0 || (m > 0 && go.members[m] <= go.members[m - 1]);
    }
    for (uint32_t i = 0; i < go.n_items; i++) {
        int64_t *extra = go.extras + (has_extras ? (size_t)i * go.n_members : 0);

        go.items[i].ticket = get_number(view, 8);
        go.items[i].extra = extra;
        for (uint32_t m = 0; has_extras && m < go.n_members; m++) {
            extra[m] = hvd_get_i64(view);
            view->failed |= extra[m] < 0;
        }
    }
    if (view->failed) {
        hvd_go_release(&go);
        return malformed("go");
    }
    *ret_go = go;
    return KVS_OK;
}

void hvd_go_release(hvd_go_t *go)
{
    free(go->members);
    free(go->items);
    free(go->extras);
    *go = (hvd_go_t){0};
}

kvs_status_t hvd_check_rows(const int *members, const int64_t *n_rows, int n, int rank,
                            int64_t n_own, int64_t most, size_t row_bytes)
{
    int64_t most_of_all = PTRDIFF_MAX / (int64_t)(row_bytes > 0 ? row_bytes : 1) / n;

    for (int m = 0; m < n; m++) {
        if (n_rows[m] > most || n_rows[m] > most_of_all) {
            return kvs_fail(KVS_ERR_PEER,
                            "worker 0 says that worker %d gives %" PRId64 " rows, which cannot be",
                            members[m], n_rows[m]);
        }
        if (members[m] == rank && n_rows[m] != n_own) {
            return kvs_fail(KVS_ERR_PEER,
                            "worker 0 says that worker %d gives %" PRId64
                            " rows, but it gives %" PRId64,
                            rank, n_rows[m], n_own);
        }
    }
    return KVS_OK;
}

kvs_status_t hvd_get_no(hvd_view_t *view, hvd_no_t *ret_no)
{
    hvd_no_t no = {.ticket = get_number(view, 8)};
    uint32_t n_text;
    const char *text;

    no.status = (kvs_status_t)hvd_get_u32(view);
    n_text = hvd_get_u32(view);
    text = hvd_get_bytes(view, n_text);
    if (view->failed || no.status == KVS_OK) {
        return malformed("no");
    }
    no.text = strndup(text, n_text);
    if (no.text == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an error's text");
    }
    *ret_no = no;
    return KVS_OK;
}

void hvd_no_release(hvd_no_t *no)
{
    free(no->text);
    no->text = NULL;
}
