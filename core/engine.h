/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - runs operations: in order on each key, keys in parallel.
 *
 * Blocking backends: a call without an event runs its op on its own thread, with the pool helping,
 * and waits where an earlier operation still owns one of its keys; so it never depends on a pool
 * thread being free. A call with an event leaves its tasks to the pool, by priority. Asynchronous
 * backends: the backend runs the op, the engine keeps the accounts. */
#ifndef KVSI_ENGINE_H
#define KVSI_ENGINE_H

#include "op.h"

/* Check the request, carry it out, and return its status; the whole way of every verb. */
kvs_status_t kvsi_engine_run(kvs_store_t *store, const kvsi_request_t *request);

/* Wait for what has been issued so far, until the deadline. issue_lock held or not. ERR_TIMEOUT,
 * ERR_CANCELLED. `what` is the call that waits. */
kvs_status_t kvsi_engine_drain(kvs_store_t *store, int64_t deadline_ns, const char *what);
/* Wait until nothing is pending, cancelled or not, at most until the deadline. Whether nothing is. */
bool kvsi_engine_await_end(kvs_store_t *store, int64_t deadline_ns);

/* Tell the oldest error that nobody was told; KVS_OK if there is none. */
kvs_status_t kvsi_engine_tell_debt(kvs_store_t *store, const char *what);
/* Drop all debts, as nobody will ask: the log has them. */
void kvsi_engine_forgive(kvs_store_t *store);
/* Wait until the op's arrays may be touched again, as its call would without an event, or `until_ns`.
 * `ret_free` is always written. Errors of the op, ERR_TIMEOUT past the call's deadline, ERR_CANCELLED. */
kvs_status_t kvsi_engine_wait_arrays(kvsi_op_t *op, int64_t until_ns, bool *ret_free);
/* The user gives up an event: an error it carries, or will carry, is owed to others, unless the user
 * was told; with `untold`, also then. */
void kvsi_engine_owe(kvs_event_t *event, bool untold);

/* The host table's: an asynchronous backend's word on an op. */
void kvsi_engine_consumed(kvs_op_t *op);
void kvsi_engine_complete(kvs_op_t *op, kvs_status_t status);

#endif
