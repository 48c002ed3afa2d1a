/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_turn.h - operations of a store of a job, key by key: those of a key have their turn one after the
 * other, in order of issue, and an operation is over when all its keys are, with the error of the failed one
 * that stands first in the call. The stores of horovod and of nccl say what a turn does. */
#ifndef HVD_TURN_H
#define HVD_TURN_H

#include "hvd_member.h"

typedef struct hvd_op {
    kvs_op_t *pub;
    void *store; /* the plugin's */
    /* guarded by the member's lock */
    size_t n_left; /* turns, and one for the call that begins it */
    kvs_status_t status;
    size_t list_index; /* of the turn whose error this is */
    char *text;
} hvd_op_t;

/* One key of an operation. Embedded by its owner. */
struct hvd_turn {
    hvd_pending_t pending; /* first */
    hvd_op_t *op;
    kvs_group_t *group;
    hvd_key_t *key;
    hvd_turn_t *next; /* on its key */
};

/* Put it behind others of its key. True: there are none, so it begins. */
bool hvd_turn_join_locked(hvd_turn_t *turn);
/* It is its key's first no longer. Gives the one that is now, or NULL. */
hvd_turn_t *hvd_turn_leave_locked(hvd_turn_t *turn);
/* Ask worker 0 for the exchange of `pending`, of which the key has had `count`. As hvd_job_ask. */
kvs_status_t hvd_turn_ask(hvd_turn_t *turn, const hvd_member_t *member, int64_t extra,
                          uint64_t count);

const char *hvd_verb_name(const kvs_op_t *pub);
/* A turn has failed. */
void hvd_op_note_error_locked(hvd_op_t *op, const hvd_turn_t *turn, kvs_status_t status,
                              const char *text);
/* One thing less that the operation waits for. True: it was the last. */
bool hvd_op_let_go(hvd_op_t *op, hvd_member_t *member);
/* Its status when nothing is left, with the text of its error; that is not kept. */
kvs_status_t hvd_op_result(hvd_op_t *op);

#endif
