/* SPDX-License-Identifier: Apache-2.0 */
/* dist_message.h - what workers and servers say to each other, as bytes and back; MESSAGES.md is the
 * reference. A message is a header, the same for all kinds, and a body: elements, a record of a key,
 * or a text. No sockets and no state; what comes from a peer is checked here as far as it can be
 * without knowing a store. */
#ifndef DIST_MESSAGE_H
#define DIST_MESSAGE_H

#include "dist_bytes.h"

#include <kvstore/plugin.h>

#include <string.h>

#define DIST_MESSAGES_VERSION "2" /* compared when nodes meet: all sides must speak the same */

/* Arrays travel in parts of at most so many bytes: sending, summing and returning overlap. */
#define DIST_PART_BYTES (256 << 10)
#define DIST_MAX_NDIM   32
#define DIST_MAX_CODECS UINT16_MAX /* calls of set_gradient_compression */

/* In names of stores `async` means asynchronous, everything else synchronous. */
static inline int dist_type_is_async(const char *type)
{
    return strstr(type, "async") != NULL;
}

#define DIST_NEEDS_OPTIMIZER                                                                       \
    "an asynchronous store updates by an optimizer, and none is set; call set_optimizer before "   \
    "the first push"

typedef enum dist_kind {
    /* to servers */
    DIST_DEFINE =
        1,        /* rank 0: keep this key; body: its record. VALUEs follow, then DONE comes back */
    DIST_VALUE,   /* a part of the key's first value */
    DIST_PUBLISH, /* to the directory: every server has its shard; body: the record; DONE */
    DIST_LOOKUP,  /* to the directory: RECORD, once rank 0 has published; body: a record */
    DIST_PUSH,    /* a part of an array for round `round`; DONE */
    DIST_PUSHPULL,  /* the same; PARTs of the new value, or DONE with an error */
    DIST_PULL,      /* PARTs of the value, once `round` is over */
    DIST_OPTIMIZER, /* the `optimizer`-th of this worker; body: its specification; DONE */
    DIST_COMMAND,   /* head `first`, body as given; DONE */
    DIST_CLOSE,     /* this worker pushes no more to this store */
    /* to workers: answers to the request of the same number */
    DIST_DONE,   /* status; body: its text, if it is an error */
    DIST_PART,   /* a part of a value; parts come in order */
    DIST_RECORD, /* body: the record of the key, with its shards */
    DIST_TELL, /* asked by nobody: an error by another worker; `key` 0: of the store; body: text */
    /* between servers */
    DIST_SUMS, /* block sums of phase `states` of round `round`, of a key cut over several */
    /* to servers, again */
    DIST_COMPRESSION, /* the `first`-th set_gradient_compression of this worker; body as OPTIMIZER; DONE */
    DIST_REFUSAL, /* this worker has no push for round `round`: status; body: why; DONE as for a push */
    DIST_TURN, /* of an asynchronous store: the next push of a key cut over several is worker `first`'s */
    /* to servers of an asynchronous store */
    DIST_ATTR,       /* body: an attribute of the `optimizer`-th as a specification; DONE */
    DIST_VALUE_ROWS, /* rows of the first value; their ids are the server's own: from 0 */
    DIST_PUSH_ROWS,  /* a part of a row-sparse push for round `round`; DONE */
    DIST_PULL_ROWS,  /* body: ids; ROWS, once `round` is over */
    /* to workers */
    DIST_ROWS, /* the rows asked for, as they were */
    /* to servers: states of optimizers; see MESSAGES.md */
    DIST_GET_STATES,    /* of the key, from byte `first` on; STATES */
    DIST_GET_OPTIMIZER, /* STATES; body: the `optimizer`-th, packed */
    DIST_PUT_OPTIMIZER, /* rank 0: of load `round`; DONE */
    DIST_PUT_STATES,    /* rank 0: of load `round`: of the key, from byte `first` on; DONE */
    DIST_LOAD, /* rank 0: put them in force; others: wait for that; `n` is this worker's number; DONE */
    /* to workers */
    DIST_STATES,
    /* to servers */
    DIST_JOIN, /* this worker takes no part in rounds until all have joined; DONE: `first` was the last */
    DIST_DELETE, /* this worker has forgotten the key; DONE. Or `first` DIST_DELETE_FAILED */
    /* to workers */
    DIST_PATIENCE, /* the answer to the request takes its time */
    DIST_BATCH,    /* either way: `n` small messages in one */
    DIST_N_KINDS
} dist_kind_t;

/* Members that a kind has no use for are 0. */
typedef struct dist_header {
    uint8_t kind;   /* dist_kind_t */
    uint8_t dtype;  /* KVS_DTYPE_… */
    uint16_t codec; /* 0: elements as they are; else packed by the so-many-th COMPRESSION */
    uint32_t epoch; /* 0 */
    uint64_t request;
    uint64_t key;    /* its id in the store, from 1, given by rank 0 */
    uint64_t digest; /* of name, shape and dtype: both sides mean the same key */
    int64_t round;   /* from 1 */
    int64_t first;   /* elements [first, first + n) of the server's shard */
    int64_t n;
    int64_t timeout_ms; /* of a round: how long this worker wants to wait; 0: for ever */
    union {
        int32_t status;
        uint32_t attrs; /* of a push: digest of the attributes set since `optimizer`; 0: none */
    };
    uint32_t optimizer; /* which set_optimizer of its worker this push is for; 0: none */
    uint32_t states;
    int32_t priority;   /* what is urgent goes first, both ways */
    uint32_t n_scalars; /* those behind it are 0 */
    double scalars[KVS_OPTIMIZER_MAX_SCALARS];
} dist_header_t;

/* Of rank 0: the key's init has failed, and all forget it; without an answer. */
#define DIST_DELETE_FAILED 1

/* In `states` of a push: a row-sparse gradient changes only the rows that it lists. */
#define DIST_LAZY UINT32_C(0x80000000)

#define DIST_HEADER_BYTES     88 /* without scalars */
#define DIST_MAX_HEADER_BYTES (DIST_HEADER_BYTES + 8 * KVS_OPTIMIZER_MAX_SCALARS)

/* Writes to `bytes`, which has room for DIST_MAX_HEADER_BYTES; gives their number. */
size_t dist_header_encode(const dist_header_t *header, uint8_t *bytes);
/* ERR_FORMAT: not a header, or one that no honest peer sends with a body of `n_body_bytes`. */
kvs_status_t dist_header_decode(const void *bytes, size_t n_bytes, size_t n_body_bytes,
                                dist_header_t *ret_header);

/* Elements of a part of an array of this dtype; at most `slice`, if that is not 0. */
int64_t dist_part_elems(int dtype, int64_t slice);
/* How many parts of `n_each` elements `n_elems` make: at least one. */
int64_t dist_n_parts(int64_t n_each, int64_t n_elems);

/* Rows travel with their ids: the number of all rows of this push (8 bytes), n ids, n rows. */
#define DIST_ROWS_HEAD 8
/* How many make a part: at least one. */
int64_t dist_part_rows(size_t row_bytes);
static inline size_t dist_rows_bytes(size_t row_bytes, int64_t n)
{
    return DIST_ROWS_HEAD + (size_t)n * (sizeof(int64_t) + row_bytes);
}

/* ---- Records of keys ----------------------------------------------------------------------------- */

/* A run of elements of an array, and the server that holds it. */
typedef struct dist_shard {
    uint32_t server;
    uint32_t reserved;
    int64_t first, n;
} dist_shard_t;

/* What all processes of a job agree on about a key. */
typedef struct dist_record {
    uint64_t id;    /* 0: not given yet */
    int64_t number; /* an integer key */
    char *name;     /* a string key, else NULL; owned */
    int dtype;
    int32_t ndim;
    int64_t shape[DIST_MAX_NDIM];
    int64_t n_elems;
    uint8_t row_sparse;   /* shards hold whole rows */
    uint32_t n_shards;    /* ascending, covering the array; 0: not placed yet */
    dist_shard_t *shards; /* owned */
} dist_record_t;

#define DIST_RECORD_INIT                                                                           \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* The record of a key of the core, not placed. */
kvs_status_t dist_record_of(const kvs_key_entry_t *key, dist_record_t *ret_record);
kvs_status_t dist_record_copy(const dist_record_t *record, dist_record_t *ret_record);
void dist_record_release(dist_record_t *record);
void dist_record_encode(const dist_record_t *record, dist_bytes_t *bytes);
kvs_status_t dist_record_decode(const void *bytes, size_t n_bytes, dist_record_t *ret_record);
/* Equal for equal name, shape, dtype and storage; wherever it is placed. */
uint64_t dist_record_digest(const dist_record_t *record);
uint64_t dist_record_name_hash(const dist_record_t *record);
int dist_record_same_name(const dist_record_t *a, const dist_record_t *b);
/* The shard of a server, or NULL. */
const dist_shard_t *dist_record_shard_of(const dist_record_t *record, uint32_t server);

/* Elements of a row: of everything but the first dimension. */
int64_t dist_row_elems(const dist_record_t *record);
int64_t dist_n_rows(const dist_record_t *record);
/* Do all shards hold whole rows? */
int dist_record_has_whole_rows(const dist_record_t *record);

#define DIST_KEY_TEXT_BYTES   112
#define DIST_SHAPE_TEXT_BYTES 160
/* "key 'fc1'", "key 7"; "(64, 3)": for messages; they give `text`. */
const char *dist_key_text(const dist_record_t *record, char *text);
const char *dist_shape_text(const dist_record_t *record, char *text);
#define DIST_KEY_TEXT(record)   dist_key_text((record), (char[DIST_KEY_TEXT_BYTES]){0})
#define DIST_SHAPE_TEXT(record) dist_shape_text((record), (char[DIST_SHAPE_TEXT_BYTES]){0})

#endif
