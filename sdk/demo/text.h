/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - a corpus of short texts in categories, as Debian's package fortunes has them: a file for
 * each category, its name the label, pieces of text separated by lines of one '%'. Words become rows
 * of a weight by hashing. */
#ifndef DEMO_TEXT_H
#define DEMO_TEXT_H

#include <kvstore/kvstore.h>

enum { TEXT_N_ROWS = 1 << 15 };

typedef struct text_piece {
    size_t first, n_words; /* in the corpus's `words`: the different ones, in order of rows */
    uint32_t category;
} text_piece_t;

/* Begin with {0}; after a failure it is still to be released. */
typedef struct corpus {
    char **names; /* of the categories, in order of bytes */
    size_t n_categories;
    text_piece_t *pieces;
    size_t n_pieces, pieces_capacity;
    uint32_t *words; /* as rows */
    size_t n_words, words_capacity;
} corpus_t;

/* The row of a word of `length` bytes, whatever the case of its ASCII letters. */
uint32_t text_row(const char *word, size_t length);
/* Add the pieces of `text` that have a word. A word is a run of ASCII letters and digits and of bytes
 * outside ASCII. */
kvs_status_t corpus_add(corpus_t *corpus, uint32_t category, const char *text, size_t n_bytes);
/* Add all files of a directory but NAME.dat (indices), NAME.u8 (links) and hidden ones. ERR_NOT_FOUND:
 * no such directory. ERR_FORMAT: less than two files, or less than ten pieces. */
kvs_status_t corpus_load(const char *dir, corpus_t *corpus);
void corpus_release(corpus_t *corpus);

#endif
