/* SPDX-License-Identifier: Apache-2.0 */
/* opt_common.h - the parameters that all optimizers have, by the numbers of opt_private.h. */
#ifndef KVS_KIT_OPT_COMMON_H
#define KVS_KIT_OPT_COMMON_H

#include "opt_private.h"

extern const kvs_param_info_t kvs_opt_common_infos[KVS_OPT_N_COMMON];

#endif
