/* SPDX-License-Identifier: Apache-2.0 */
#include "opt_common.h"

#include <math.h>

const kvs_param_info_t kvs_opt_common_infos[KVS_OPT_N_COMMON] = {
    [KVS_OPT_LEARNING_RATE] = {"learning_rate", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0,
                               "size of a step; each optimizer has a default of its own"},
    [KVS_OPT_WD] = {"wd", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "weight decay"},
    [KVS_OPT_RESCALE_GRAD] = {"rescale_grad", KVS_PARAM_FLOAT, 0, 1,
                              "what gradients are multiplied by first"},
    [KVS_OPT_CLIP_GRADIENT] = {"clip_gradient", KVS_PARAM_FLOAT,
                               KVS_PARAM_NULLABLE | KVS_PARAM_NON_NEGATIVE, NAN,
                               "bound of the rescaled gradients; null and 0: none"},
    [KVS_OPT_MULTI_PRECISION] = {"multi_precision", KVS_PARAM_BOOL, 0, 0,
                                 "keep a float32 copy of float16 and bfloat16 weights"},
    [KVS_OPT_BEGIN_NUM_UPDATE] = {"begin_num_update", KVS_PARAM_INT, KVS_PARAM_NON_NEGATIVE, 0,
                                  "where the counts of updates begin"},
};
