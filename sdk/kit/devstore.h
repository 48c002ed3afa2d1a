/* SPDX-License-Identifier: Apache-2.0 */
/* devstore.h - the device store from the inside: devstore.c (life, settings, the choice of a way),
 * devstore_home.c (where a key's weight is), devstore_run.c (work on devices), devstore_rows.c and
 * devstore_rowpull.c (row-sparse arrays there), devstore_stage.c (through host memory), devstore_marks.c
 * (streams of the program).
 *
 * A part of a key is touched by the queue of its device only, in order; so no events belong to keys. */
#ifndef KVS_KIT_DEVSTORE_H
#define KVS_KIT_DEVSTORE_H

#include "opt_states.h"

#include <kvstore/kit.h>

/* A part begins and ends at a multiple of this many elements: norms and packed values can be cut there,
 * and 256 KiB of float32 are what it takes to keep a device busy. */
#define KVS_DEV_CUT        KVS_OPTIMIZER_SUM_BLOCK
#define KVS_DEV_MAX_ARRAYS 256    /* values and outs of a group that go the devices' way */
#define KVS_DEV_WAIT_MS    600000 /* the longest that a device is waited for */

/* A part of a key, whose weight is dense: elements [begin, begin + n), which may begin within a row. */
typedef struct kvs_dev_part {
    kvs_device_t device;
    kvs_queue_t *queue;
    int64_t begin, n;
    void *weight;
    float *master; /* NULL: none */
    void *states[KVS_OPTIMIZER_MAX_STATES];
    float **residuals; /* n_residuals of the key */
} kvs_dev_part_t;

/* Which values and outs of a group an operation is about. */
typedef struct kvs_dev_task {
    kvs_devstore_t *store;
    const kvs_provider_t *provider;
    const kvs_group_t *group;
    kvs_devstore_key_t *key;
    int dtype;
    size_t elem_bytes;
    size_t n_values, n_outs; /* the first so many of the group's */
} kvs_dev_task_t;

static inline kvs_devstore_key_t *kvs_dev_key(const kvs_key_entry_t *entry)
{
    return entry->state;
}

/* The provider of arrays on devices, able to work. */
kvs_status_t kvs_dev_provider(const kvs_provider_t **ret_provider);
/* Say once in the process that something goes through host memory. */
enum {
    KVS_DEV_ROWS = 1,
    KVS_DEV_UPDATER = 2,
    KVS_DEV_OPTIMIZER = 4,
    KVS_DEV_COMPRESSOR = 8,
    KVS_DEV_OTHER = 16
};
void kvs_dev_tell(uint32_t reason, const char *what);
void kvs_dev_tell_compressor(const kvs_compression_t *compression);

/* ---- Streams ------------------------------------------------------------------------------------- */

typedef struct kvs_dev_marks kvs_dev_marks_t;

void kvs_dev_marks_drop_all(kvs_devstore_t *store);

/* ---- Where a weight is ----------------------------------------------------------------------------- */

/* Move a key's weight, states and residuals to the devices of the task's values, if they are on the
 * host. ERR_NO_MEMORY: they stay there. */
kvs_status_t kvs_dev_move_out(kvs_dev_task_t *task);
/* And back. */
kvs_status_t kvs_dev_move_home(kvs_devstore_t *store, kvs_key_entry_t *entry);
void kvs_dev_release_parts(kvs_devstore_t *store, kvs_devstore_key_t *key);
/* Have the states that the optimizer needs, and no others. */
kvs_status_t kvs_dev_begin_step(const kvs_dev_task_t *task, kvs_dev_part_t *part);
/* Elements of a row, if the optimizer has states per row: such a key is one part; else 0. */
int64_t kvs_dev_row_elems(const kvs_dev_task_t *task);
/* Have residuals for the first n_places. */
kvs_status_t kvs_dev_reserve_residuals(const kvs_dev_task_t *task, size_t n_places);

/* ---- Work ------------------------------------------------------------------------------------------ */

/* Sum the values, update, write the outs: where the key's parts are. ERR_NON_FINITE, only with
 * compression: nothing was done, and the text is still to be written. */
kvs_status_t kvs_dev_run(kvs_dev_task_t *task);

/* The same in three calls, so that kernels of several keys become one launch. */
typedef struct kvs_dev_run kvs_dev_run_t;

/* Bring what the devices need. A failure ends the run: *ret_run is NULL then. */
kvs_status_t kvs_dev_run_open(kvs_dev_task_t *task, kvs_dev_run_t **ret_run);
/* The kernels of all runs. What fails, close tells. */
void kvs_dev_run_work(kvs_dev_run_t *const *runs, size_t n);
/* Send what is still to be sent, let the streams wait, wait for what must be waited for, and free. */
kvs_status_t kvs_dev_run_close(kvs_dev_run_t *run);

/* Whether kernels of the part's device touch the array. */
int kvs_dev_reaches(const kvs_dev_task_t *task, const kvs_dev_part_t *part,
                    const kvs_tensor_t *tensor);
/* All is queued: let the streams wait for the part, and wait for what must be waited for. */
kvs_status_t kvs_dev_end_part(const kvs_dev_task_t *task, const kvs_dev_part_t *part);

/* Whether the store's collective sums the task: all arrays are on devices, on enough of them. */
int kvs_dev_collects(const kvs_dev_task_t *task);
/* The same as kvs_dev_run of several keys, summed over devices by the store's collective. */
kvs_status_t kvs_dev_collect(kvs_dev_task_t *tasks, size_t n_tasks);

/* The parts of an operation: a verb of the host store is about values, outs, or both. */
enum { KVS_DEV_READS = 1, KVS_DEV_WRITES = 2 };

/* The verb of the host store with copies of the device arrays that it is about. */
kvs_status_t kvs_dev_stage(kvs_devstore_t *store, kvs_op_t *op, unsigned what,
                           kvs_status_t (*verb)(void *store, kvs_op_t *op));

#endif
