/* SPDX-License-Identifier: Apache-2.0 */
/* fpenv.h - the default floating-point environment, for the length of a kernel.
 *
 * Programs built with -ffast-math, and their libraries, flush denormals on some of their threads,
 * which others inherit; a sum's bits would then depend on the thread that computes it. Elsewhere
 * than on x86 nothing is done. */
#ifndef KVS_KIT_FPENV_H
#define KVS_KIT_FPENV_H

#if defined(__SSE__)
#include <xmmintrin.h>

#define KVS_FPENV_DEFAULT 0x1F80u /* round to nearest, all exceptions masked, denormals kept */
#define KVS_FPENV_FLAGS   0x003Fu /* raised exceptions */

/* Returns what kvs_fpenv_leave needs. */
static inline unsigned kvs_fpenv_enter(void)
{
    unsigned saved = _mm_getcsr();

    if ((saved & ~KVS_FPENV_FLAGS) != KVS_FPENV_DEFAULT) {
        _mm_setcsr(KVS_FPENV_DEFAULT);
    }
    return saved;
}

static inline void kvs_fpenv_leave(unsigned saved)
{
    if ((saved & ~KVS_FPENV_FLAGS) != KVS_FPENV_DEFAULT) {
        _mm_setcsr(saved);
    }
}
#else
static inline unsigned kvs_fpenv_enter(void)
{
    return 0;
}

static inline void kvs_fpenv_leave(unsigned saved)
{
    (void)saved;
}
#endif

#endif
