/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_message.h - what workers and worker 0, which arranges exchanges, say to each other, as
 * little-endian bytes in the bodies of messages. A message is a number of records of one kind. */
#ifndef HVD_MESSAGE_H
#define HVD_MESSAGE_H

#include <kvstore/plugin.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_MESSAGES_VERSION "2"
#define HVD_MAX_NDIM         32

enum {              /* kinds of messages: the header, one byte */
       HVD_ASK = 1, /* to worker 0: hvd_ask_t … */
       HVD_GO,      /* from worker 0: carry out an exchange: hvd_go_t */
       HVD_NO,      /* from worker 0: hvd_no_t */
       HVD_JOINED, /* from worker 0: all have joined: ticket, 8 bytes, and the last to come, 4 bytes */
       HVD_CLOSE, /* to worker 0: this worker has closed a store: its number, 4 bytes */
       HVD_ENGINE /* from one engine to another: its own */
};

typedef enum hvd_what {
    HVD_REDUCE = 1,
    HVD_BROADCAST,
    HVD_GATHER, /* of arrays that may differ in their first dimension: `extra` */
    HVD_ROWS,   /* the union of row-sparse values: `extra` rows */
    HVD_JOIN
} hvd_what_t;

/* A worker has submitted a key. Points to memory of others. */
typedef struct hvd_ask {
    uint64_t ticket; /* the worker's own name for it */
    uint32_t store;
    uint8_t what; /* hvd_what_t; a worker that closes a store asks nothing more of it */
    uint8_t dtype;
    uint8_t reduce; /* KVS_REDUCE_… */
    int32_t root;   /* of a broadcast; of a reduction a digest of what is done with the sum */
    int32_t priority;
    int32_t ndim;
    int64_t shape[HVD_MAX_NDIM];
    int64_t extra;  /* what may differ among workers; of arrays on devices a bit for each device */
    uint64_t count; /* how many exchanges of this key this worker has submitted before */
    int64_t timeout_ms, warning_ms; /* 0: never */
    bool is_text;
    int64_t number;
    const char *text; /* `n_text` bytes, not terminated */
    uint32_t n_text;
} hvd_ask_t;

typedef struct hvd_go_item {
    uint64_t ticket;      /* of the receiver */
    const int64_t *extra; /* of each member; other than 0 only of GATHER and ROWS */
} hvd_go_item_t;

/* An exchange: all items in one. */
typedef struct hvd_go {
    uint32_t number; /* its place in the order of all */
    uint32_t n_members;
    int *members; /* ranks, ascending */
    uint32_t n_items;
    hvd_go_item_t *items;
    int64_t *extras;
} hvd_go_t;

typedef struct hvd_no {
    uint64_t ticket;
    kvs_status_t status;
    char *text;
} hvd_no_t;

/* Bytes being written; `failed`: there was no memory. */
typedef struct hvd_bytes {
    unsigned char *data;
    size_t n, capacity;
    bool failed;
} hvd_bytes_t;

void hvd_bytes_release(hvd_bytes_t *bytes);

void hvd_put_ask(hvd_bytes_t *bytes, const hvd_ask_t *ask);
void hvd_put_u32(hvd_bytes_t *bytes, uint32_t value);
void hvd_put_i64(hvd_bytes_t *bytes, int64_t value);
void hvd_put_text(hvd_bytes_t *bytes, const char *text);
void hvd_put_bytes(hvd_bytes_t *bytes, const void *from, size_t n);

/* Bytes being read; past the end, and where they make no sense, `failed`. */
typedef struct hvd_view {
    const unsigned char *at;
    size_t n_left;
    bool failed;
} hvd_view_t;

uint32_t hvd_get_u32(hvd_view_t *view);
int64_t hvd_get_i64(hvd_view_t *view);
const void *hvd_get_bytes(hvd_view_t *view, size_t n); /* NULL: failed */
/* False at the end, or if it is malformed. */
bool hvd_get_ask(hvd_view_t *view, hvd_ask_t *ret_ask);
/* ERR_FORMAT, ERR_NO_MEMORY; released by hvd_go_release. */
kvs_status_t hvd_get_go(hvd_view_t *view, hvd_go_t *ret_go);
void hvd_go_release(hvd_go_t *go);
/* Whether worker 0 can be right about the rows of all n members: this one, `rank`, gives `n_own`, none more
 * than `most`, and all together have a size. ERR_PEER. */
kvs_status_t hvd_check_rows(const int *members, const int64_t *n_rows, int n, int rank,
                            int64_t n_own, int64_t most, size_t row_bytes);
kvs_status_t hvd_get_no(hvd_view_t *view, hvd_no_t *ret_no);
void hvd_no_release(hvd_no_t *no);

const char *hvd_what_name(uint8_t what);
const char *hvd_reduce_name(int reduce); /* of KVS_REDUCE_… */

#endif
