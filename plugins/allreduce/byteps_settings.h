/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_settings.h - who a process is: as everywhere, and by the variables of BytePS's launcher. There
 * DMLC_NUM_WORKER and DMLC_WORKER_ID count machines of BYTEPS_LOCAL_SIZE processes each. */
#ifndef BYTEPS_SETTINGS_H
#define BYTEPS_SETTINGS_H

#include <kvstore/net.h>

/* ERR_ARGUMENT names every variable that is missing or malformed. */
kvs_status_t byteps_settings_read(const kvs_config_t *config, kvs_net_settings_t *ret_settings);

#endif
