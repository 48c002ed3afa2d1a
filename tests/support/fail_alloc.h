/* SPDX-License-Identifier: Apache-2.0 */
/* fail_alloc.h - let the n-th allocation of this program fail. The linker puts the functions of
 * fail_alloc.c in the place of libc's: link with kvs_fail_alloc. Plugins that are opened at run time
 * keep libc's, so tests link theirs statically. */
#ifndef KT_FAIL_ALLOC_H
#define KT_FAIL_ALLOC_H

#include <kvstore/kvstore.h>

/* The allocation after `n` more of this thread or others fails; negative: none does. */
void kt_fail_alloc(long n);

/* Call `attempt(arg)` with its first allocation failing, then its second, and so on, until one that
 * meets no failure; that must succeed. Others may succeed or be KVS_ERR_NO_MEMORY, after which
 * `check(arg)`, if not NULL, looks at what is left. Gives how many allocations there are. */
long kt_fail_each_alloc(kvs_status_t (*attempt)(void *arg), void (*check)(void *arg), void *arg);

#endif
