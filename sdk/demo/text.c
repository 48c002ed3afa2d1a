/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - cuts texts into pieces and words, and reads a directory of them. */
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MIN_CATEGORIES = 2, MIN_PIECES = 10 /* one of them to test with */ };

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static int is_of_word(char c)
{
    unsigned char byte = lower(c);

    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte >= 0x80;
}

/* FNV-1a of 32 bits, folded to the bits of a row as its authors advise. */
uint32_t text_row(const char *word, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ lower(word[i])) * 16777619u;
    }
    return (hash >> 15 ^ hash) % TEXT_N_ROWS;
}

/* Room for one more item of `item_bytes`. */
static kvs_status_t grow(void **items, size_t n_items, size_t *capacity, size_t item_bytes)
{
    size_t wanted = *capacity > 0 ? 2 * *capacity : 1024;
    void *grown;

    if (n_items < *capacity) {
        return KVS_OK;
    }
    grown = wanted <= SIZE_MAX / item_bytes ? realloc(*items, wanted * item_bytes) : NULL;
    if (grown == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the texts");
    }
    *items = grown;
    *capacity = wanted;
    return KVS_OK;
}

static kvs_status_t add_word(corpus_t *corpus, uint32_t row)
{
    void *words = corpus->words;
    kvs_status_t status =
        grow(&words, corpus->n_words, &corpus->words_capacity, sizeof(*corpus->words));

    corpus->words = words;
    if (status == KVS_OK) {
        corpus->words[corpus->n_words++] = row;
    }
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Make a piece of the words from `first` on, unless there are none. */
static kvs_status_t end_piece(corpus_t *corpus, uint32_t category, size_t first)
{
    size_t n_words = corpus->n_words - first, n_different = 0;
    void *pieces = corpus->pieces;
    kvs_status_t status;

    if (n_words == 0) {
        return KVS_OK;
    }
    qsort(corpus->words + first, n_words, sizeof(*corpus->words), compare_rows);
    for (size_t i = first; i < first + n_words; i++) {
        if (i == first || corpus->words[i] != corpus->words[first + n_different - 1]) {
            corpus->words[first + n_different++] = corpus->words[i];
        }
    }
    corpus->n_words = first + n_different;
    status = grow(&pieces, corpus->n_pieces, &corpus->pieces_capacity, sizeof(*corpus->pieces));
    corpus->pieces = pieces;
    if (status == KVS_OK) {
        corpus->pieces[corpus->n_pieces++] = (text_piece_t){first, n_different, category};
    }
    return status;
}

static kvs_status_t add_line(corpus_t *corpus, const char *line, size_t n_bytes)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_bytes && status == KVS_OK;) {
        size_t start = i;

        while (i < n_bytes && is_of_word(line[i])) {
            i++;
        }
        if (i > start) {
            status = add_word(corpus, text_row(line + start, i - start));
        } else {
            i++;
        }
    }
    return status;
}

kvs_status_t corpus_add(corpus_t *corpus, uint32_t category, const char *text, size_t n_bytes)
{
    size_t first = corpus->n_words;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_bytes && status == KVS_OK;) {
        const char *end = memchr(text + i, '\n', n_bytes - i);
        size_t length = end != NULL ? (size_t)(end - text) - i : n_bytes - i;

        if (length == 1 && text[i] == '%') {
            status = end_piece(corpus, category, first);
            first = corpus->n_words;
        } else {
            status = add_line(corpus, text + i, length);
        }
        i += length + 1;
    }
    return status == KVS_OK ? end_piece(corpus, category, first) : status;
}

static kvs_status_t read_file(const char *path, char **ret_text, size_t *ret_n_bytes)
{
    FILE *file = fopen(path, "rb");
    size_t n = 0, capacity = 0, got = 1;
    void *text = NULL;
    kvs_status_t status = KVS_OK;

    if (file == NULL) {
        return kvs_fail(KVS_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    while (status == KVS_OK && got > 0) {
        status = grow(&text, n, &capacity, 1);
        if (status == KVS_OK) {
            got = fread((char *)text + n, 1, capacity - n, file);
            n += got;
        }
    }
    if (status == KVS_OK && ferror(file)) {
        status = kvs_fail(KVS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    fclose(file);
    if (status != KVS_OK) {
        free(text);
        return status;
    }
    *ret_text = text;
    *ret_n_bytes = n;
    return KVS_OK;
}

static int is_wanted(const struct dirent *entry)
{
    const char *ending = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' &&
           (ending == NULL || (strcmp(ending, ".dat") != 0 && strcmp(ending, ".u8") != 0));
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static kvs_status_t add_file(corpus_t *corpus, const char *dir, const char *name)
{
    char path[PATH_MAX + 260], *text = NULL;
    size_t n_bytes = 0;
    struct stat about;
    kvs_status_t status;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        return KVS_OK;
    }
    status = read_file(path, &text, &n_bytes);
    if (status != KVS_OK) {
        return status;
    }
    corpus->names[corpus->n_categories] = strdup(name);
    if (corpus->names[corpus->n_categories] == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the texts");
    } else {
        status = corpus_add(corpus, (uint32_t)corpus->n_categories++, text, n_bytes);
    }
    free(text);
    return status;
}

static kvs_status_t add_files(corpus_t *corpus, const char *dir, struct dirent **entries, size_t n)
{
    kvs_status_t status = KVS_OK;

    corpus->names = calloc(n + 1, sizeof(*corpus->names));
    if (corpus->names == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the texts");
    }
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = add_file(corpus, dir, entries[i]->d_name);
    }
    if (status == KVS_OK &&
        (corpus->n_categories < MIN_CATEGORIES || corpus->n_pieces < MIN_PIECES)) {
        status = kvs_fail(KVS_ERR_FORMAT,
                          "%s: %zu pieces of text in %zu files; needed are %d pieces, separated by "
                          "lines of one %%, in %d files",
                          dir, corpus->n_pieces, corpus->n_categories, MIN_PIECES, MIN_CATEGORIES);
    }
    return status;
}

kvs_status_t corpus_load(const char *dir, corpus_t *corpus)
{
    struct dirent **entries;
    int n = scandir(dir, &entries, is_wanted, compare_names);
    kvs_status_t status;

    if (n < 0) {
        return kvs_fail(KVS_ERR_NOT_FOUND,
                        "%s: %s (install Debian's package fortunes, or name a directory of texts "
                        "with --data)",
                        dir, strerror(errno));
    }
    status = add_files(corpus, dir, entries, (size_t)n);
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}

void corpus_release(corpus_t *corpus)
{
    for (size_t i = 0; i < corpus->n_categories; i++) {
        free(corpus->names[i]);
    }
    free(corpus->names);
    free(corpus->pieces);
    free(corpus->words);
    *corpus = (corpus_t){0};
}
