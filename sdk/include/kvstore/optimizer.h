/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h - an optimizer in use: what a store calls to update its weights. The optimizer itself is a
 * plugin's table (kvs_optimizer_t). Semantics: those of MXNet's Optimizer.
 *
 * Work is split in two, so that results don't depend on threads: kvs_opt_issue counts and computes every
 * scalar in program order; begin, prepare and step do the arithmetic later, on any thread. One update:
 * check_key for all keys of the push, issue for each; then, once the gradient's sum is known, begin, prepare
 * if kvs_opt_needs_whole, and step for each block; or, if the gradient is row-sparse and the update lazy,
 * begin and step_rows. If it is not lazy, such a gradient is given in its dense form. */
#ifndef KVSTORE_OPTIMIZER_H
#define KVSTORE_OPTIMIZER_H

#include <kvstore/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parsed specification, the schedule, and the counts that belong to no key. */
typedef struct kvs_opt kvs_opt_t;

/* The part of a key's state: all-zero is fresh. The caller sees to it that one thread at a time
 * changes it. */
typedef struct kvs_opt_key {
    int64_t n_updates;             /* issued for this key; begin_num_update is not included */
    struct kvs_opt_states *states; /* NULL until kvs_opt_begin */
} kvs_opt_key_t;

/* What one update of one key needs to know, fixed when it is issued: plain numbers, so that it can
 * be copied, sent, and dropped. */
typedef struct kvs_opt_update {
    double scalars[KVS_OPTIMIZER_MAX_SCALARS]; /* as kvs_optimizer_t.scalars gave them */
    int64_t t;       /* begin_num_update + updates of this key, this one included */
    double lr;       /* after schedule and multiplier */
    double wd;       /* after multiplier */
    uint32_t states; /* mask of the states in use */
    uint32_t lazy;   /* 1: a row-sparse gradient changes only the rows that it lists */
} kvs_opt_update_t;

/* Find the optimizer by name and check every parameter, with the schedule's. The spec is copied.
 * ERR_NOT_FOUND: no such optimizer; ERR_ARGUMENT: the text names the parameter and what is accepted. */
kvs_status_t kvs_opt_new(const kvs_optimizer_spec_t *spec, kvs_opt_t **ret_opt);
void kvs_opt_free(kvs_opt_t *opt); /* NULL does nothing; keys are released by their owner */

/* Change a parameter for the updates issued after it. Not while updates are running. ERR_STATE:
 * learning_rate while a schedule is set; ERR_ARGUMENT: no such parameter, one that is fixed
 * (multi_precision, begin_num_update), a wrong type or value. */
kvs_status_t kvs_opt_set_attr(kvs_opt_t *opt, const kvs_param_t *attr);

/* Can this key be updated? ERR_DTYPE: its weights are integers. */
kvs_status_t kvs_opt_check_key(const kvs_opt_t *opt, const kvs_key_entry_t *key);

/* Count one update of the key and compute its scalars. In program order, one caller at a time, never
 * waits. Fails as kvs_opt_check_key, before anything is counted; for a push of several keys, check
 * all of them first. */
kvs_status_t kvs_opt_issue(kvs_opt_t *opt, kvs_opt_key_t *key_state, const kvs_key_entry_t *key,
                           kvs_opt_update_t *ret_update);

/* Make the states the optimizer needs and this key lacks; `weight` is the whole array, before the
 * step. Does nothing if there are none to make. ERR_NO_MEMORY: nothing was done. */
kvs_status_t kvs_opt_begin(kvs_opt_t *opt, kvs_opt_key_t *key_state, const kvs_key_entry_t *key,
                           const void *weight);
/* The same for an update that was issued elsewhere, by an optimizer of the same specification whose
 * attributes may have changed since: `states` are those of the update. Others than the optimizer has
 * are ignored. */
kvs_status_t kvs_opt_begin_for(kvs_opt_t *opt, kvs_opt_key_t *key_state, const kvs_key_entry_t *key,
                               const void *weight, uint32_t states);
/* Free the states and zero the struct: the key is fresh again. */
void kvs_opt_key_release(kvs_opt_key_t *key_state);

/* Does the optimizer look at whole arrays (norms, means of rows)? Then prepare comes before the
 * steps, and the gradient's sum must exist as a whole by then. */
int kvs_opt_needs_whole(const kvs_opt_t *opt);

/* After kvs_opt_begin: complete the scalars of `update` by what the whole arrays of `n` elements say.
 * Cuts the work over the host's pool at multiples of KVS_OPTIMIZER_SUM_BLOCK; the bits don't depend
 * on the cut. Once for each update, also for empty arrays. Does nothing for optimizers that don't
 * need it. */
void kvs_opt_prepare(const kvs_opt_t *opt, kvs_opt_key_t *key_state, int dtype, int64_t n,
                     const void *grad, const void *weight, kvs_opt_update_t *update);

/* kvs_opt_prepare in parts, for an array whose pieces lie in different places, cut at multiples of
 * KVS_OPTIMIZER_SUM_BLOCK elements, each with a key state of its own. For each phase: take the sums of
 * the blocks of every piece, add them up from 0, block by block in the array's order, and give the
 * totals to combine with every piece's `update`; then, if it has rows, update those of every piece,
 * which must hold whole rows. The bits are those of kvs_opt_prepare. */
uint32_t kvs_opt_n_phases(const kvs_opt_t *opt);
uint32_t kvs_opt_n_sums(const kvs_opt_t *opt); /* at most KVS_OPTIMIZER_MAX_SUMS */
/* Does it keep numbers for each row, so that pieces must not cut rows? */
int kvs_opt_has_rows(const kvs_opt_t *opt);
/* The sums of one phase: kvs_opt_n_sums numbers for each block, in order. They live until the next
 * call for this key; NULL if there are none. */
const double *kvs_opt_sum_blocks(const kvs_opt_t *opt, kvs_opt_key_t *key_state, uint32_t phase,
                                 int dtype, const void *grad, const void *weight,
                                 const kvs_opt_update_t *update);
void kvs_opt_combine(const kvs_opt_t *opt, uint32_t phase, const double *totals,
                     kvs_opt_update_t *update);
void kvs_opt_update_rows(const kvs_opt_t *opt, kvs_opt_key_t *key_state, int dtype, int64_t n,
                         const void *grad, const void *weight, const kvs_opt_update_t *update);

/* After kvs_opt_begin: update `n` elements of dtype `dtype`, beginning with element `first` of the
 * array: `grad`, never changed, and `weight` point at that element. Blocks of one key may run on
 * several threads at once; results don't depend on how the array is cut. */
void kvs_opt_step(const kvs_opt_t *opt, const kvs_opt_update_t *update, kvs_opt_key_t *key_state,
                  int dtype, int64_t first, int64_t n, const void *grad, void *weight);

/* After kvs_opt_begin, for lazy updates by a row-sparse gradient, in place of prepare and step: update
 * the rows `ids`, each of which stands once, by `grads`, their gradients one after the other. `weight`
 * is the whole array. Other rows may be updated on other threads. A row's bits are those of a dense
 * update with these gradients. */
void kvs_opt_step_rows(const kvs_opt_t *opt, const kvs_opt_update_t *update,
                       kvs_opt_key_t *key_state, int dtype, int64_t n, const int64_t *ids,
                       const void *grads, void *weight);

/* ---- Looking in, for tests, state files and `states` ------------------------------------------ */

typedef struct kvs_opt_state {
    const char *name; /* as in state files; lives as long as the plugin */
    int dtype;
    int per_row; /* shape (rows, 1); else the key's */
    int64_t n_elems;
    void *data;
} kvs_opt_state_t;

/* How many states the key has now, master_weight included: 0 before kvs_opt_begin. */
size_t kvs_opt_n_states(const kvs_opt_key_t *key_state);
/* The `index`-th, in the optimizer's order, master_weight first; `index` below kvs_opt_n_states. */
kvs_opt_state_t kvs_opt_state_at(const kvs_opt_key_t *key_state, size_t index);
/* begin_num_update + updates issued for this key. */
int64_t kvs_opt_count(const kvs_opt_t *opt, const kvs_opt_key_t *key_state);
/* The largest count over the keys. */
int64_t kvs_opt_num_update(const kvs_opt_t *opt);
/* What the schedule answers for num_update, else learning_rate; without multipliers. */
double kvs_opt_rate(kvs_opt_t *opt);
const char *kvs_opt_name(const kvs_opt_t *opt);

#ifdef __cplusplus
}
#endif
#endif
