/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - widths count characters, so that UTF-8 is aligned too. A cell is one line, whatever its text is. */
#include "columns.h"

#include "../printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t n_characters(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return n;
}

void columns_add(columns_t *columns, const char *text)
{
    char **grown = realloc(columns->cells, (columns->n_cells + 1) * sizeof(*grown));
    size_t n_bytes = 4 * strlen(text) + 4; /* no escape of a byte is longer */
    char *copy = malloc(n_bytes);

    columns->cells = grown != NULL ? grown : columns->cells;
    if (grown == NULL || copy == NULL) {
        columns->failed = 1;
        free(copy);
        return;
    }
    kvsi_printable(text[0] != '\0' ? text : "-", copy, n_bytes);
    columns->cells[columns->n_cells++] = copy;
}

void columns_add_list(columns_t *columns, const char *const *texts, size_t n_texts)
{
    size_t n_bytes = 1;
    char *joined;

    for (size_t i = 0; i < n_texts; i++) {
        n_bytes += strlen(texts[i]) + 2;
    }
    joined = calloc(n_bytes, 1);
    if (joined == NULL) {
        columns->failed = 1;
        return;
    }
    for (size_t i = 0; i < n_texts; i++) {
        strcat(strcat(joined, i > 0 ? ", " : ""), texts[i]);
    }
    columns_add(columns, joined);
    free(joined);
}

static size_t width_of(const columns_t *columns, size_t column)
{
    size_t width = 0;

    for (size_t i = column; i < columns->n_cells; i += columns->n_columns) {
        size_t n = n_characters(columns->cells[i]);

        width = n > width ? n : width;
    }
    return width;
}

/* Spaces are owed until a cell follows, so that no line ends in them. */
static void print_rows(const columns_t *columns, int indent, const size_t *widths)
{
    size_t owed = (size_t)indent;

    for (size_t i = 0; i < columns->n_cells; i++) {
        size_t column = i % columns->n_columns;
        const char *cell = columns->cells[i];

        printf("%*s%s", (int)owed, "", cell);
        owed = widths[column] - n_characters(cell) + 2;
        if (column + 1 == columns->n_columns) {
            putchar('\n');
            owed = (size_t)indent;
        }
    }
}

int columns_print(columns_t *columns, int indent)
{
    size_t *widths = calloc(columns->n_columns, sizeof(*widths));
    int failed = columns->failed || widths == NULL;

    for (size_t i = 0; !failed && i < columns->n_columns; i++) {
        widths[i] = width_of(columns, i);
    }
    if (!failed) {
        print_rows(columns, indent, widths);
    }
    free(widths);
    for (size_t i = 0; i < columns->n_cells; i++) {
        free(columns->cells[i]);
    }
    free(columns->cells);
    columns->cells = NULL;
    columns->n_cells = 0;
    return failed ? -1 : 0;
}
