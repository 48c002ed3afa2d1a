/* SPDX-License-Identifier: Apache-2.0 */
/* opt_states.h - what kind of states a key has, and states that are made without an update: what files
 * need to know of opt_state.c. */
#ifndef KVS_KIT_OPT_STATES_H
#define KVS_KIT_OPT_STATES_H

#include "opt_private.h"

/* The name of the float32 copy of a weight of a half type. */
#define KVS_OPT_MASTER "master_weight"
/* The longest name that a state may have, and its NUL. */
#define KVS_OPT_STATE_NAME_BYTES 64

/* Whether such a key has a master weight, so that its states are float32. */
int kvs_opt_has_master(const kvs_opt_t *opt, const kvs_key_entry_t *key);
/* The rows of a state that is kept per row. */
int64_t kvs_opt_n_rows(const kvs_key_entry_t *key);
/* States of zeros for a key: those of `mask`, and the master weight if it has one. ERR_NO_MEMORY. */
kvs_status_t kvs_opt_states_new(const kvs_opt_t *opt, const kvs_key_entry_t *key, uint32_t mask,
                                kvs_opt_states_t **ret_states);

#endif
