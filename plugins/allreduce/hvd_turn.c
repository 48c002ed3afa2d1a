/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Turns ------------------------------------------------------------------------------------------ */

bool hvd_turn_join_locked(hvd_turn_t *turn)
{
    hvd_key_t *key = turn->key;
    bool is_first = key->first == NULL;

    if (is_first) {
        key->first = turn;
    } else {
        key->last->next = turn;
    }
    key->last = turn;
    return is_first;
}

hvd_turn_t *hvd_turn_leave_locked(hvd_turn_t *turn)
{
    hvd_key_t *key = turn->key;

    key->first = turn->next;
    key->last = key->first == NULL ? NULL : key->last;
    return key->first;
}

kvs_status_t hvd_turn_ask(hvd_turn_t *turn, const hvd_member_t *member, int64_t extra,
                          uint64_t count)
{
    const kvs_tensor_t *value = &turn->group->values[0];
    const kvs_key_entry_t *key = turn->group->key;
    hvd_ask_t ask = {.store = member->number,
                     .what = (uint8_t)turn->pending.what,
                     .dtype = (uint8_t)turn->pending.dtype,
                     .reduce = (uint8_t)turn->pending.reduce,
                     .root = turn->pending.root,
                     .priority = turn->op->pub->priority,
                     .ndim = value->ndim,
                     .extra = extra,
                     .count = count,
                     .timeout_ms = member->timeout_ms,
                     .warning_ms = member->warning_ms,
                     .is_text = key->name != NULL,
                     .number = key->number,
                     .text = key->name,
                     .n_text = key->name == NULL ? 0 : (uint32_t)strlen(key->name)};

    memcpy(ask.shape, value->shape, (size_t)value->ndim * sizeof(int64_t));
    return hvd_job_ask(member->job, &turn->pending, &ask);
}

/* ---- Operations ------------------------------------------------------------------------------------- */

const char *hvd_verb_name(const kvs_op_t *pub)
{
    static const char *const names[] = {[KVS_VERB_INIT] = "init",
                                        [KVS_VERB_PUSH] = "push",
                                        [KVS_VERB_PULL] = "pull",
                                        [KVS_VERB_PUSHPULL] = "pushpull",
                                        [KVS_VERB_BROADCAST] = "broadcast"};

    return names[pub->verb];
}

void hvd_op_note_error_locked(hvd_op_t *op, const hvd_turn_t *turn, kvs_status_t status,
                              const char *text)
{
    const kvs_key_entry_t *key = turn->group->key;
    const char *verb = hvd_verb_name(op->pub);
    char *whole = NULL;
    int n;

    if (op->status != KVS_OK && op->list_index < turn->group->list_index) {
        return;
    }
    n = key->name != NULL ? asprintf(&whole, "%s: key '%s': %s", verb, key->name, text)
                          : asprintf(&whole, "%s: key %" PRId64 ": %s", verb, key->number, text);
    free(op->text);
    op->text = n < 0 ? NULL : whole;
    op->status = status;
    op->list_index = turn->group->list_index;
}

bool hvd_op_let_go(hvd_op_t *op, hvd_member_t *member)
{
    bool is_last;

    pthread_mutex_lock(&member->lock);
    is_last = --op->n_left == 0;
    pthread_mutex_unlock(&member->lock);
    return is_last;
}

kvs_status_t hvd_op_result(hvd_op_t *op)
{
    kvs_status_t status = op->status;

    if (status != KVS_OK) {
        (void)kvs_fail(status, "%s", op->text == NULL ? "no memory for the text" : op->text);
    }
    free(op->text);
    op->text = NULL;
    return status;
}
