/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - a block for each allocation: arenas hold some hundred texts, so that cutting larger
 * blocks would gain nothing, and this way sanitizers see every overrun. */
#include "arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kvsi_arena_block {
    struct kvsi_arena_block *next;
    _Alignas(max_align_t) unsigned char data[];
};

void *kvsi_arena_array(kvsi_arena_t *arena, size_t n_items, size_t item_bytes)
{
    struct kvsi_arena_block *block = NULL;
    size_t n_bytes;

    if (!__builtin_mul_overflow(n_items, item_bytes, &n_bytes) &&
        !__builtin_add_overflow(n_bytes, sizeof(*block), &n_bytes)) {
        block = calloc(1, n_bytes);
    }
    if (block == NULL) {
        arena->failed = 1;
        return NULL;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    return block->data;
}

const char *kvsi_arena_copy(kvsi_arena_t *arena, const char *text, size_t n_bytes)
{
    char *copy = kvsi_arena_array(arena, n_bytes + 1, 1);

    if (copy == NULL) {
        return "";
    }
    memcpy(copy, text, n_bytes);
    return copy;
}

const char *kvsi_arena_text(kvsi_arena_t *arena, const char *format, ...)
{
    va_list args;
    char *copy = NULL;

    va_start(args, format);
    int n_bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n_bytes >= 0) {
        copy = kvsi_arena_array(arena, (size_t)n_bytes + 1, 1);
    }
    if (copy == NULL) {
        arena->failed = 1;
        return "";
    }
    va_start(args, format);
    vsnprintf(copy, (size_t)n_bytes + 1, format, args);
    va_end(args);
    return copy;
}

kvs_status_t kvsi_arena_check(const kvsi_arena_t *arena)
{
    return arena->failed ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the list of plugins")
                         : KVS_OK;
}

void kvsi_arena_release(kvsi_arena_t *arena)
{
    while (arena->blocks != NULL) {
        struct kvsi_arena_block *next = arena->blocks->next;

        free(arena->blocks);
        arena->blocks = next;
    }
    arena->failed = 0;
}
