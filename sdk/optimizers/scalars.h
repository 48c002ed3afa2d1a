/* SPDX-License-Identifier: Apache-2.0 */
/* scalars.h - the order of scalars: these four, then each optimizer's own from OWN on. */
#ifndef KVS_OPTIMIZERS_SCALARS_H
#define KVS_OPTIMIZERS_SCALARS_H

enum { RESCALE, CLIP, LR, WD, OWN };

/* Of functions of one element. */
#if defined(__CUDACC__)
#define ELEM static __host__ __device__ __forceinline__
#else
#define ELEM static inline __attribute__((always_inline))
#endif

#endif
