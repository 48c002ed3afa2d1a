/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - whether a backend that was loaded can work here: installed is not usable. */
#ifndef KVSI_PROBE_H
#define KVSI_PROBE_H

#include <kvstore/abi.h>

/* KVS_ERR_UNAVAILABLE with the backend's own reason if its probe says no; one that has no probe can
 * always work. No lock of the core may be held. */
kvs_status_t kvsi_probe(const kvs_backend_t *backend, const kvs_config_t *config);
/* The same with the settings of a store that is created without options, whose errors it passes
 * on. */
kvs_status_t kvsi_probe_preset(const kvs_backend_t *backend);

#endif
