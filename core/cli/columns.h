/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - rows of text in aligned columns, printed when all widths are known. */
#ifndef KVS_CLI_COLUMNS_H
#define KVS_CLI_COLUMNS_H

#include <stddef.h>

typedef struct columns {
    size_t n_columns;
    char **cells; /* owned; rows one after the other */
    size_t n_cells;
    int failed; /* out of memory */
} columns_t;

/* Append a cell: a copy of `text`, or "-" for "". The `n_columns`-th ends its row. */
void columns_add(columns_t *columns, const char *text);
/* The texts with ", " between them. */
void columns_add_list(columns_t *columns, const char *const *texts, size_t n_texts);
/* Print with `indent` spaces before each row, and free everything. 0, or -1 if memory had run
 * out. */
int columns_print(columns_t *columns, int indent);

#endif
