/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - optimizers outside of a store: a host that finds the built-in ones, keys that own their
 * weights, and the whole way of one update in a line. */
#ifndef RIG_H
#define RIG_H

#include <kvstore/kvstore.h>

#include <kvstore/optimizer.h>

/* Must come first in each test program. */
void rig_start(void);

/* Every built-in optimizer; NULL past the last. */
const kvs_optimizer_t *rig_optimizer_at(size_t index);

/* How many pieces the host's parallel_for makes at least; 1 at first. */
void rig_set_pieces(int64_t n);

typedef struct rig_key {
    kvs_key_entry_t entry;
    kvs_opt_key_t state;
    int64_t shape[4];
    int dtype;
    void *weight; /* owned */
} rig_key_t;

/* A key with zero weights. `shape` of `ndim` dimensions, at most 4. */
rig_key_t rig_key(int64_t number, int dtype, const int64_t *shape, int32_t ndim);
/* One dimension of float32 weights, copied. */
rig_key_t rig_key_f32(int64_t n, const float *weight);
void rig_key_release(rig_key_t *key);

/* Issue, begin, prepare and step, in blocks of `block` elements; 0: all at once. `ret_update` may be
 * NULL. */
kvs_status_t rig_update(kvs_opt_t *opt, rig_key_t *key, const void *grad, int64_t block,
                        kvs_opt_update_t *ret_update);

/* The state of that name, or one with data NULL. */
kvs_opt_state_t rig_state(const rig_key_t *key, const char *name);

/* An optimizer from `n` parameters; on failure the test fails and NULL is returned. */
kvs_opt_t *rig_opt(const char *name, const kvs_param_t *params, size_t n);
#define RIG_OPT(name, ...)                                                                         \
    rig_opt(name, (const kvs_param_t[]){__VA_ARGS__},                                              \
            sizeof((const kvs_param_t[]){__VA_ARGS__}) / sizeof(kvs_param_t))
#define RIG_REAL(param_name, number)                                                               \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                \
    }
#define RIG_BOOL(param_name, flag)                                                                 \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_BOOL, .value = {.integer = (flag) }                \
    }

#endif
