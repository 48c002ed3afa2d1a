/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - see gate.h. */
#include "gate.h"

#include <time.h>

enum { PATIENCE_MS = 10000 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* sem_timedwait goes by a clock that may be set meanwhile. */
bool cf_await(sem_t *semaphore, int64_t timeout_ms)
{
    int64_t deadline = now_ms() + timeout_ms;

    while (sem_trywait(semaphore) != 0) {
        if (now_ms() >= deadline) {
            return false;
        }
        (void)nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    return true;
}

kvs_status_t cf_gate_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                             const kvs_tensor_t *stored, void *arg)
{
    cf_gate_t *gate = arg;
    const float *from = value->data;
    float *to = stored->data;

    (void)key;
    if (!cf_await(&gate->closed, PATIENCE_MS)) {
        gate->lost_patience = true;
    }
    if (gate->fails) {
        return kvs_fail(KVS_ERR_IO, "the gate fell shut");
    }
    for (int64_t i = 0; i < value->shape[0]; i++) {
        to[i] += from[i];
    }
    return KVS_OK;
}

cf_gate_t *cf_gate_set(cf_t *t)
{
    cf_gate_t *gate = cf_alloc(t, sizeof(*gate));

    sem_init(&gate->closed, 0, 0);
    CF_OK(t, kvs_store_set_updater(t->store, cf_gate_updater, gate));
    return gate;
}

void cf_gate_open(cf_gate_t *gate, int times)
{
    for (int i = 0; i < times; i++) {
        sem_post(&gate->closed);
    }
}

void cf_gate_release(cf_t *t, cf_gate_t *gate)
{
    CF_OK(t, kvs_store_set_updater(t->store, NULL, NULL));
    if (gate->lost_patience) {
        cf_fail(t, "a call with ret_event waited for its operation, want it to return at once");
    }
    sem_destroy(&gate->closed);
}
