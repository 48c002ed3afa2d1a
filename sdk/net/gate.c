/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - waiting for a number in shared memory. A wake-up across cores costs tens of microseconds and
 * a spin a fraction of one, so waiters spin first; where others of the job want the core, they offer it
 * at each step instead. Asleep they look up now and then, as nothing but the gate can wake them. */
#include "node.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_NS    (INT64_C(50) * 1000)
#define PAUSES     128 /* steps of about 40 ns */
#define LOOK_EVERY 16  /* steps between looks at the clock */
#define SLICE_NS   (50 * NET_MS)

_Static_assert(sizeof(kvs_net_gate_t) == 8, "a gate is part of the layout of segments");

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int kvs_net_node_spin(const kvs_net_node_t *node, kvs_net_spin_t *spin)
{
    if (spin->n_steps == 0) {
        spin->until = net_now() + SPIN_NS;
    }
    if (node->is_crowded || spin->n_steps >= PAUSES) { /* others than the job's may want it too */
        (void)sched_yield();
    } else {
        pause_core();
    }
    return ++spin->n_steps % LOOK_EVERY != 0 || net_now() < spin->until;
}

void kvs_net_gate_wake(kvs_net_gate_t *gate)
{
    (void)syscall(SYS_futex, &gate->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Until the value is another than `seen`, or `ns` have passed. */
static void sleep_on(kvs_net_gate_t *gate, uint32_t seen, int64_t ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};

    (void)__atomic_add_fetch(&gate->n_sleepers, 1, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, &gate->value, FUTEX_WAIT, seen, &time, NULL, 0);
    (void)__atomic_sub_fetch(&gate->n_sleepers, 1, __ATOMIC_SEQ_CST);
}

static kvs_status_t check_members(kvs_net_node_t *node, const kvs_net_peer_t *peer)
{
    if (peer != NULL) {
        return kvs_net_node_check_peer(node, peer);
    }
    for (uint32_t i = 0; i < node->n_peers; i++) {
        if (atomic_load_explicit(&node->peers[i].gone, memory_order_acquire) &&
            node->peers[i].is_dead) {
            return kvs_net_node_check_peer(node, &node->peers[i].pub);
        }
    }
    return KVS_OK;
}

static kvs_status_t check_waiting(kvs_net_node_t *node, const kvs_net_peer_t *peer,
                                  int64_t deadline, int64_t timeout_ms)
{
    kvs_status_t status = check_members(node, peer);
    char seconds[32];

    if (status != KVS_OK) {
        return status;
    }
    if (node->cancelled) {
        return kvs_fail(KVS_ERR_CANCELLED, "cancelled while waiting for %s",
                        peer == NULL ? "other processes of this host" : peer->label);
    }
    if (net_node_phase(node) == NET_ENDED) {
        return net_node_fail_ended(node);
    }
    if (net_now() >= deadline) {
        return kvs_fail(KVS_ERR_TIMEOUT, "%s: nothing for %s",
                        peer == NULL ? "other processes of this host" : peer->label,
                        net_seconds(seconds, timeout_ms));
    }
    return KVS_OK;
}

kvs_status_t kvs_net_gate_wait(kvs_net_node_t *node, kvs_net_gate_t *gate, uint32_t value,
                               const kvs_net_peer_t *peer, int64_t timeout_ms)
{
    kvs_net_spin_t spin = KVS_NET_SPIN_INIT;
    kvs_status_t status = KVS_OK;
    int64_t deadline;

    do {
        if (kvs_net_gate_reached(gate, value)) {
            return KVS_OK;
        }
    } while (kvs_net_node_spin(node, &spin));
    status = net_node_check_waiter(node);
    deadline = net_deadline(timeout_ms);
    while (status == KVS_OK) {
        uint32_t seen = kvs_net_gate_value(gate);

        if ((int32_t)(seen - value) >= 0) {
            return KVS_OK;
        }
        status = check_waiting(node, peer, deadline, timeout_ms);
        if (status == KVS_OK) {
            sleep_on(gate, seen, net_earlier(SLICE_NS, deadline - net_now() + 1));
        }
    }
    return status;
}
