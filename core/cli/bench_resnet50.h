/* SPDX-License-Identifier: Apache-2.0 */
/* bench_resnet50.h - the shapes of a real model's parameters: ResNet-50 with 1,000 classes, in the
 * order in which its layers come: 161 tensors, 25,557,032 elements. */
#ifndef KVS_CLI_BENCH_RESNET50_H
#define KVS_CLI_BENCH_RESNET50_H

#include "bench_exchange.h"

#define BENCH_RESNET50_N 161

void bench_resnet50(bench_shape_t ret_shapes[BENCH_RESNET50_N]);

#endif
