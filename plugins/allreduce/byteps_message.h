/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_message.h - what workers and summation servers say to each other, as bytes and back. BYTEPS.md is
 * the reference. A message is a header, which names key, exchange and block, and a body: elements, servers of parts,
 * or a text. Everything a server has to know about a block comes with the block, since it keeps nothing
 * between rounds. No sockets and no state. */
#ifndef BYTEPS_MESSAGE_H
#define BYTEPS_MESSAGE_H

#include <kvstore/plugin.h>

#include <stdbool.h>

#define BYTEPS_MESSAGES_VERSION "3" /* compared when nodes meet: all sides must speak the same */

/* A part, the unit of placement and credit, travels as blocks of at most so many bytes. */
#define BYTEPS_BLOCK_BYTES (256 << 10)
#define BYTEPS_MAX_NDIM    32
/* Of a store: workers have a table by id, which a wrong one must not make huge. */
#define BYTEPS_MAX_KEYS (1 << 20)

typedef enum byteps_kind {
    /* between workers */
    BYTEPS_ASK = 1, /* worker 0: where do the parts of this key go? `block`: how many there are */
    BYTEPS_PLACES, /* the answer: `id`, `block` parts, and whom each of them is sent to, as a body of
                     * u32; where hosts sum first, then the server of each; or `status` and text */
    /* by a worker, to who sums; by one that sums for its host, to a server */
    BYTEPS_BLOCK, /* a block of its array, or the sum of its host's */
    BYTEPS_KEPT,  /* a block's result, given by a server that was lost since */
    BYTEPS_DROP,  /* it has given this exchange up */
    BYTEPS_CLOSE, /* it has closed the store */
    BYTEPS_HERE, /* those of its host, as a body of u32, have come to the exchange, others have not */
    /* by who sums, to workers */
    BYTEPS_RESULT, /* the sum of a block; number `answer` of this node's answers */
    BYTEPS_FAILED, /* the exchange failed with `status`; body: the text. Also by one that sums for its
                     * host, to a server */
    BYTEPS_WANTED,  /* others wait for this exchange */
    BYTEPS_SETTLED, /* see `settled` */
    /* by a worker, to whoever sums for it, and to the servers of its host's sums */
    BYTEPS_REFUSED, /* it can't bring its array, with `status`; body: the text */
    BYTEPS_N_KINDS
} byteps_kind_t;

/* Members that a kind has no use for are 0. */
typedef struct byteps_header {
    uint8_t kind;  /* byteps_kind_t */
    uint8_t dtype; /* KVS_DTYPE_… */
    uint8_t verb;  /* KVS_VERB_PUSHPULL or _BROADCAST */
    uint64_t
        id; /* of the key, given by worker 0; ASK and PLACES: the asker's number in `exchange` */
    uint64_t exchange;  /* which one of this key, from 1 */
    uint64_t block;     /* of the array */
    uint64_t answer;    /* from 1, in order; 0: nobody needs to know that it has come */
    uint64_t settled;   /* answers up to this one are with every worker */
    int64_t timeout_ms; /* how long this worker wants to wait; 0: for ever */
    int32_t status;
    uint32_t
        n_ranks; /* workers of a host that it speaks for; 0: hosts don't sum first, or not yet */
    uint32_t server; /* 1 more than that of the server to which the sum of the host goes; 0: none */
    int32_t ndim;
    int64_t shape[BYTEPS_MAX_NDIM];
    bool has_name;
    int64_t number;   /* an integer key */
    const char *name; /* a string key: not ended by a 0 */
    uint32_t n_name;
} byteps_header_t;

#define BYTEPS_MAX_NAME         1024
#define BYTEPS_MAX_HEADER_BYTES (80 + 8 * BYTEPS_MAX_NDIM + BYTEPS_MAX_NAME)

/* Writes to `bytes`, which has room for BYTEPS_MAX_HEADER_BYTES; gives their number. */
size_t byteps_header_encode(const byteps_header_t *header, uint8_t *bytes);
/* `name` points into `bytes`. ERR_FORMAT: not a header, or one that no honest peer sends. */
kvs_status_t byteps_header_decode(const void *bytes, size_t n_bytes, byteps_header_t *ret_header);

/* Elements of the array; of a block of it; and its number of blocks, at least one. */
int64_t byteps_n_elems(const byteps_header_t *header);
int64_t byteps_block_elems(int dtype);
uint64_t byteps_n_blocks(int dtype, int64_t n_elems);
int64_t byteps_elems_of_block(int dtype, int64_t n_elems, uint64_t block);

bool byteps_same_array(const byteps_header_t *a, const byteps_header_t *b);

#define BYTEPS_KEY_TEXT_BYTES   112
#define BYTEPS_ARRAY_TEXT_BYTES 192
/* "key 'fc1'", "key 7"; "pushpull of float32 (64, 3)": they give `text`. */
const char *byteps_key_text(const byteps_header_t *header, char *text);
const char *byteps_array_text(const byteps_header_t *header, char *text);
#define BYTEPS_KEY_TEXT(header)   byteps_key_text((header), (char[BYTEPS_KEY_TEXT_BYTES]){0})
#define BYTEPS_ARRAY_TEXT(header) byteps_array_text((header), (char[BYTEPS_ARRAY_TEXT_BYTES]){0})

#endif
