/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - an updater that waits to be let go, so that a case can look at an operation that has
 * certainly not completed. Adds the value to the stored one (float32); with `fails` it reports an
 * error instead. A call that runs the updater before it returns is found by the gate's patience. */
#ifndef CF_GATE_H
#define CF_GATE_H

#include "case.h"

#include <semaphore.h>

typedef struct cf_gate {
    sem_t closed;
    bool fails;
    bool lost_patience; /* nobody let it go: the call waits for it. Read after the operation */
} cf_gate_t;

/* Take one of the semaphore, within that time. */
bool cf_await(sem_t *semaphore, int64_t timeout_ms);

kvs_status_t cf_gate_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                             const kvs_tensor_t *stored, void *arg);
/* A closed gate that is the store's updater. */
cf_gate_t *cf_gate_set(cf_t *t);
/* Let the updater through `times` times. */
void cf_gate_open(cf_gate_t *gate, int times);
/* After the operations: their calls did not wait for them. */
void cf_gate_release(cf_t *t, cf_gate_t *gate);

#endif
