/* SPDX-License-Identifier: Apache-2.0 */
/* bench_resnet50.c - written out from the model's plan: a stem, four stages of blocks of three
 * convolutions, a classifier. Each convolution brings the scale and shift of its normalisation. */
#include "bench_resnet50.h"

#define EXPANSION 4 /* a block gives as many times its width */

typedef struct stage {
    int64_t width;
    int n_blocks;
} stage_t;

static const stage_t stages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};

static bench_shape_t *add_convolution(bench_shape_t *end, int64_t n_out, int64_t n_in, int64_t side)
{
    *end++ = (bench_shape_t){4, {n_out, n_in, side, side}};
    *end++ = (bench_shape_t){1, {n_out}};
    *end++ = (bench_shape_t){1, {n_out}};
    return end;
}

static bench_shape_t *add_block(bench_shape_t *end, int64_t width, int64_t n_in, int is_first)
{
    end = add_convolution(end, width, n_in, 1);
    end = add_convolution(end, width, width, 3);
    end = add_convolution(end, EXPANSION * width, width, 1);
    return is_first ? add_convolution(end, EXPANSION * width, n_in, 1) : end;
}

void bench_resnet50(bench_shape_t ret_shapes[BENCH_RESNET50_N])
{
    bench_shape_t *end = add_convolution(ret_shapes, 64, 3, 7);
    int64_t n_in = 64;

    for (size_t s = 0; s < sizeof(stages) / sizeof(stages[0]); s++) {
        for (int block = 0; block < stages[s].n_blocks; block++) {
            end = add_block(end, stages[s].width, n_in, block == 0);
            n_in = EXPANSION * stages[s].width;
        }
    }
    *end++ = (bench_shape_t){2, {1000, n_in}};
    *end++ = (bench_shape_t){1, {1000}};
}
