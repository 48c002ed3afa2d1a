/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c - texts become pieces and rows, and `--task sparse` learns a tiny directory of them.
 * $KVSTORE_DEMO is the program. */
#include "text.h"

#include <kt.h>
#include <stdlib.h>
#include <sys/wait.h>

static char output[1 << 16];

/* ---- Rows, pieces, directories -------------------------------------------------------------------- */

/* 32-bit FNV-1a of "" is 0x811c9dc5, of "a" 0xe40c292c and of "foobar" 0xbf9cf968, as published. */
static uint32_t folded(uint32_t hash)
{
    return ((hash >> 15) ^ hash) & 0x7fff;
}

static void a_row_is_the_folded_hash_of_the_word_in_lower_case(void)
{
    KT_INT(text_row("", 0), folded(0x811c9dc5));
    KT_INT(text_row("a", 1), folded(0xe40c292c));
    KT_INT(text_row("foobar", 6), folded(0xbf9cf968));
    KT_INT(text_row("FooBAR", 6), folded(0xbf9cf968));
    KT_INT(text_row("foobarn", 6), folded(0xbf9cf968));
}

/* The piece has the rows of these words, each once. */
static void check_piece(const corpus_t *corpus, size_t number, uint32_t category, size_t n_words,
                        const char *const *words)
{
    const text_piece_t *piece = &corpus->pieces[number];

    KT_INT(piece->category, category);
    KT_INT(piece->n_words, n_words);
    for (size_t i = 0; i < n_words; i++) {
        int n_found = 0;

        for (size_t w = piece->first; w < piece->first + piece->n_words; w++) {
            n_found += corpus->words[w] == text_row(words[i], strlen(words[i]));
        }
        KT_INT(n_found, 1);
    }
    for (size_t w = piece->first + 1; w < piece->first + piece->n_words; w++) {
        KT_TRUE(corpus->words[w - 1] < corpus->words[w]);
    }
}

static void pieces_end_at_lines_of_one_percent_sign(void)
{
    static const char text[] = "The cat, the CAT!\nsat 50% up\n%\n"
                               "%%\n ... \n%\n%\ncaf\303\251\n% x\n%";
    corpus_t corpus = {0};

    if (KT_OK(corpus_add(&corpus, 7, text, strlen(text)))) {
        KT_INT(corpus.n_pieces, 2);
    }
    if (corpus.n_pieces == 2) {
        check_piece(&corpus, 0, 7, 5, (const char *const[]){"the", "cat", "sat", "50", "up"});
        check_piece(&corpus, 1, 7, 2, (const char *const[]){"caf\303\251", "x"});
    }
    corpus_release(&corpus);
}

static void no_text_gives_no_piece(void)
{
    corpus_t corpus = {0};

    KT_OK(corpus_add(&corpus, 0, "", 0));
    KT_INT(corpus.n_pieces, 0);
    corpus_release(&corpus);
}

/* 20 pieces a category, each with a word of its own among common ones. */
static const char *make_texts(void)
{
    static char dir[700];
    char cats[2000] = "", dogs[2000] = "";

    for (int i = 0; i < 20; i++) {
        snprintf(cats + strlen(cats), sizeof(cats) - strlen(cats), "the cat purrs %d\n%%\n", i);
        snprintf(dogs + strlen(dogs), sizeof(dogs) - strlen(dogs), "the dog\nbarks %d\n%%\n", i);
    }
    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    kt_write_file(dir, "dogs", dogs);
    kt_write_file(dir, "cats", cats);
    kt_write_file(dir, "cats.dat", "an index");
    kt_write_file(dir, "cats.u8", cats);
    kt_write_file(dir, ".hidden", cats);
    kt_write_file(dir, "off/birds", "tweet\n");
    return dir;
}

static void a_directory_has_a_category_for_each_file_in_order_of_names(void)
{
    corpus_t corpus = {0};

    if (KT_OK(corpus_load(make_texts(), &corpus))) {
        KT_INT(corpus.n_categories, 2);
        KT_STR(corpus.names[0], "cats");
        KT_STR(corpus.names[1], "dogs");
        KT_INT(corpus.n_pieces, 40);
        check_piece(&corpus, 3, 0, 4, (const char *const[]){"the", "cat", "purrs", "3"});
        check_piece(&corpus, 25, 1, 4, (const char *const[]){"the", "dog", "barks", "5"});
    }
    corpus_release(&corpus);
}

static void too_few_texts_are_refused(void)
{
    const char *dir = kt_temp_dir();
    corpus_t corpus = {0};

    kt_write_file(dir, "one", "a piece\n%\nanother\n");
    KT_FAIL(corpus_load(dir, &corpus), KVS_ERR_FORMAT, "2 pieces of text in 1 files");
    corpus_release(&corpus);
    KT_FAIL(corpus_load("/nowhere", &corpus), KVS_ERR_NOT_FOUND, "/nowhere: No such file");
    KT_HAS(kvs_last_error(), "package fortunes");
    corpus_release(&corpus);
}

/* ---- The program ----------------------------------------------------------------------------------- */

/* Its words, errors too, are in `output`. Gives its exit status. */
static int run(const char *dir, const char *options)
{
    char command[2048];
    FILE *pipe;
    size_t n;
    int how;

    snprintf(command, sizeof(command), "\"$KVSTORE_DEMO\" --data '%s' %s 2>&1 </dev/null", dir,
             options);
    pipe = popen(command, "r");
    if (pipe == NULL) {
        perror("popen");
        exit(2);
    }
    n = fread(output, 1, sizeof(output) - 1, pipe);
    output[n] = '\0';
    how = pclose(pipe);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 255;
}

/* Bytes by hand: 36 pieces are trained on, in 2 batches an epoch, and 2^15 rows x 2 categories x 4
 * bytes are the whole weight. */
static void the_program_learns_them_and_twice_the_same(void)
{
    static char first[sizeof(output)];
    const char *dir = make_texts();

    KT_INT(run(dir, "--task sparse --epochs 3"), 0);
    KT_HAS(output, "36 training and 4 test texts in 2 categories");
    KT_HAS(output, "epoch 3/3: loss ");
    KT_HAS(output, " bytes in 6 batches; dense pulls: 1572864 bytes, ");
    KT_HAS(output, "\ntest accuracy 1.0000\n");
    KT_HAS(output, "\nweights sha256 ");
    memcpy(first, output, sizeof(first));
    KT_INT(run(dir, "--task=sparse --epochs 3"), 0);
    KT_STR(output, first);
}

/* An epoch's two batches ask for different rows; of 36 pieces there are at most 5 + 20 words. A row is
 * 2 float32 and its id. */
static void no_more_rows_are_pulled_than_there_are_words(void)
{
    unsigned long long pulled = 0;
    const char *line;

    KT_INT(run(make_texts(), "--task sparse --epochs 1"), 0);
    line = strstr(output, "pulled ");
    KT_TRUE(line != NULL && sscanf(line, "pulled %llu bytes in 2 batches", &pulled) == 1);
    KT_TRUE(pulled > 0 && pulled <= 2 * 25 * (2 * 4 + 8));
    KT_INT(pulled % (2 * 4 + 8), 0);
}

/* Two processes share the batches of one: but for rounding the same sums, and so the same curve. */
static void a_job_learns_them_too(void)
{
    const char *dir = make_texts();

    if (strcmp(getenv("KVSTORE_HAS_DIST"), "1") != 0) {
        printf("without ZeroMQ there is no dist_sync; ");
        return;
    }
    KT_INT(run(dir, "--task sparse --epochs 3 --backend dist_sync -w 2 -s 2"), 0);
    KT_HAS(output, "job         2 workers");
    KT_HAS(output, "epoch 3/3: loss ");
    KT_HAS(output, "test accuracy 1.0000\n");
    KT_HAS(output, "weights sha256 ");
}

static void wrong_use_ends_with_a_text(void)
{
    KT_INT(run("/nowhere", "--task sparse"), 1);
    KT_HAS(output, "kvstore-demo: /nowhere: No such file");
    KT_INT(run("/nowhere", "--task poems"), 2);
    KT_HAS(output, "kvstore-demo: --task takes images or sparse, not \"poems\"");
    KT_INT(run("/nowhere", "--task sparse --devices 2"), 2);
    KT_HAS(output, "takes --backend, -w, -s, --epochs and --data only");
    KT_INT(run("/nowhere", "--task sparse --optimizer adam"), 2);
    KT_INT(run(make_texts(), "--task sparse --backend locall"), 1);
    KT_HAS(output, "locall");
}

static const kt_test_t tests[] = {
    KT_TEST(a_row_is_the_folded_hash_of_the_word_in_lower_case),
    KT_TEST(pieces_end_at_lines_of_one_percent_sign),
    KT_TEST(no_text_gives_no_piece),
    KT_TEST(a_directory_has_a_category_for_each_file_in_order_of_names),
    KT_TEST(too_few_texts_are_refused),
    KT_TEST(the_program_learns_them_and_twice_the_same),
    KT_TEST(no_more_rows_are_pulled_than_there_are_words),
    KT_TEST(a_job_learns_them_too),
    KT_TEST(wrong_use_ends_with_a_text),
};

KT_MAIN("demo.text", tests)
