/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - multinomial logistic regression. The weight, rows x categories, stays in the store; a batch
 * pulls the rows of its words, and pushes gradients of the same rows. */
#include "sparse.h"

#include "rng.h"
#include "sha256.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, TEST_EVERY = 10 };

#define LEARNING_RATE 20.0 /* by trying; features are small */

typedef struct sparse {
    corpus_t corpus;
    kvs_store_t *store;
    kvs_key_t key;
    int64_t shape[2];
    uint32_t *train, *test; /* numbers of pieces */
    size_t n_train, n_test, n_batches;
    int rank, n_workers; /* of the job; 0 and 1 without one */
    int64_t *slots;      /* [row]: its place in `ids`, or -1 */
    int64_t *ids;        /* the rows of the batch, ascending */
    int64_t *pulled_ids; /* the same, as the store wrote them */
    int64_t n_ids;
    float *weights, *gradients; /* of those rows */
    float *scores;              /* [category] */
} sparse_t;

static kvs_status_t allocate(sparse_t *sparse)
{
    size_t n_pieces = sparse->corpus.n_pieces, n_categories = sparse->corpus.n_categories;

    sparse->train = calloc(n_pieces, sizeof(*sparse->train));
    sparse->test = calloc(n_pieces, sizeof(*sparse->test));
    sparse->slots = calloc(TEXT_N_ROWS, sizeof(*sparse->slots));
    sparse->ids = calloc(TEXT_N_ROWS, sizeof(*sparse->ids));
    sparse->pulled_ids = calloc(TEXT_N_ROWS, sizeof(*sparse->pulled_ids));
    sparse->weights = calloc(TEXT_N_ROWS * n_categories, sizeof(float));
    sparse->gradients = calloc(TEXT_N_ROWS * n_categories, sizeof(float));
    sparse->scores = calloc(n_categories, sizeof(float));
    if (sparse->train == NULL || sparse->test == NULL || sparse->slots == NULL ||
        sparse->ids == NULL || sparse->pulled_ids == NULL || sparse->weights == NULL ||
        sparse->gradients == NULL || sparse->scores == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to train with");
    }
    memset(sparse->slots, -1, TEXT_N_ROWS * sizeof(*sparse->slots));
    return KVS_OK;
}

/* Every tenth piece is kept to test with. */
static void split(sparse_t *sparse)
{
    for (size_t i = 0; i < sparse->corpus.n_pieces; i++) {
        if (i % TEST_EVERY == TEST_EVERY - 1) {
            sparse->test[sparse->n_test++] = (uint32_t)i;
        } else {
            sparse->train[sparse->n_train++] = (uint32_t)i;
        }
    }
}

/* ---- The store ----------------------------------------------------------------------------------- */

static kvs_tensor_t weight_tensor(const sparse_t *sparse, float *data, kvs_rows_t *rows)
{
    return (kvs_tensor_t){.data = data,
                          .device = {KVS_DEVICE_CPU, 0},
                          .ndim = 2,
                          .dtype = kvs_dtype(KVS_DTYPE_float32),
                          .shape = sparse->shape,
                          .rows = rows};
}

static kvs_status_t set_optimizer(kvs_store_t *store)
{
    const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value = {.real = LEARNING_RATE}},
        {.name = "rescale_grad", .type = KVS_PARAM_FLOAT, .value = {.real = 1.0 / BATCH}},
        {.name = "lazy_update", .type = KVS_PARAM_BOOL, .value = {.integer = 1}},
    };
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = sizeof(params) / sizeof(params[0]);
    return kvs_store_set_optimizer(store, &spec);
}

/* The weight begins without rows, which is as zeros. */
static kvs_status_t open_store(sparse_t *sparse, const char *backend)
{
    kvs_rows_t none = {sparse->ids, 0, 0};
    kvs_tensor_t initial = weight_tensor(sparse, sparse->weights, &none);
    kvs_arrays_t values = kvs_arrays(&initial, 1);
    kvs_status_t status = kvs_store_create(backend, NULL, 0, &sparse->store);

    if (status == KVS_OK) {
        status = kvs_store_rank(sparse->store, &sparse->rank);
    }
    if (status == KVS_OK) {
        status = kvs_store_num_workers(sparse->store, &sparse->n_workers);
    }
    if (status == KVS_OK) {
        status = set_optimizer(sparse->store);
    }
    if (status == KVS_OK) {
        status = kvs_store_init(sparse->store, &sparse->key, 1, &values, NULL);
    }
    return status;
}

static kvs_status_t pull_rows(sparse_t *sparse)
{
    kvs_rows_t rows = {sparse->pulled_ids, 0, TEXT_N_ROWS};
    kvs_tensor_t out = weight_tensor(sparse, sparse->weights, &rows);
    kvs_tensor_t wanted = {.data = sparse->ids,
                           .device = {KVS_DEVICE_CPU, 0},
                           .ndim = 1,
                           .dtype = kvs_dtype(KVS_DTYPE_int64),
                           .shape = &sparse->n_ids};
    kvs_arrays_t outs = kvs_arrays(&out, 1), row_ids = kvs_arrays(&wanted, 1);

    return kvs_store_row_sparse_pull(sparse->store, &sparse->key, 1, &outs, &row_ids, NULL);
}

static kvs_status_t push_rows(sparse_t *sparse)
{
    kvs_rows_t rows = {sparse->ids, sparse->n_ids, sparse->n_ids};
    kvs_tensor_t value = weight_tensor(sparse, sparse->gradients, &rows);
    kvs_arrays_t values = kvs_arrays(&value, 1);

    return kvs_store_push(sparse->store, &sparse->key, 1, &values, NULL);
}

/* Every row, by its id: so they lie as in the whole weight. */
static kvs_status_t pull_all(sparse_t *sparse)
{
    for (int64_t i = 0; i < TEXT_N_ROWS; i++) {
        sparse->ids[i] = i;
    }
    sparse->n_ids = TEXT_N_ROWS;
    return pull_rows(sparse);
}

/* ---- One batch ----------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void collect_rows(sparse_t *sparse, const uint32_t *batch, size_t n)
{
    const corpus_t *corpus = &sparse->corpus;

    sparse->n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        const text_piece_t *piece = &corpus->pieces[batch[i]];

        for (size_t w = piece->first; w < piece->first + piece->n_words; w++) {
            if (sparse->slots[corpus->words[w]] < 0) {
                sparse->slots[corpus->words[w]] = 0; /* seen */
                sparse->ids[sparse->n_ids++] = corpus->words[w];
            }
        }
    }
    qsort(sparse->ids, (size_t)sparse->n_ids, sizeof(*sparse->ids), compare_ids);
    for (int64_t i = 0; i < sparse->n_ids; i++) {
        sparse->slots[sparse->ids[i]] = i;
    }
}

static void forget_rows(sparse_t *sparse)
{
    for (int64_t i = 0; i < sparse->n_ids; i++) {
        sparse->slots[sparse->ids[i]] = -1;
    }
}

/* Each word of a piece counts this: pieces are vectors of length 1. */
static float feature(const text_piece_t *piece)
{
    return 1.0f / sqrtf((float)piece->n_words);
}

/* The scores of a piece, from the rows that were pulled or, with `whole`, from the whole weight. */
static void score(sparse_t *sparse, const text_piece_t *piece, int whole)
{
    size_t n_categories = sparse->corpus.n_categories;

    memset(sparse->scores, 0, n_categories * sizeof(float));
    for (size_t w = piece->first; w < piece->first + piece->n_words; w++) {
        size_t row = sparse->corpus.words[w];
        const float *weights =
            sparse->weights + (whole ? row : (size_t)sparse->slots[row]) * n_categories;

        for (size_t c = 0; c < n_categories; c++) {
            sparse->scores[c] += feature(piece) * weights[c];
        }
    }
}

static size_t best_category(const sparse_t *sparse)
{
    size_t best = 0;

    for (size_t c = 1; c < sparse->corpus.n_categories; c++) {
        if (sparse->scores[c] > sparse->scores[best]) {
            best = c;
        }
    }
    return best;
}

/* Scores become probabilities, less 1 at the right category: the gradient. Gives the loss. */
static double differentiate(sparse_t *sparse, uint32_t category)
{
    float largest = sparse->scores[best_category(sparse)], sum = 0;
    double loss;

    for (size_t c = 0; c < sparse->corpus.n_categories; c++) {
        sparse->scores[c] = expf(sparse->scores[c] - largest);
        sum += sparse->scores[c];
    }
    for (size_t c = 0; c < sparse->corpus.n_categories; c++) {
        sparse->scores[c] /= sum;
    }
    loss = -log((double)fmaxf(sparse->scores[category], 1e-30f));
    sparse->scores[category] -= 1;
    return loss;
}

static double add_gradient(sparse_t *sparse, const text_piece_t *piece)
{
    size_t n_categories = sparse->corpus.n_categories;
    double loss;

    score(sparse, piece, 0);
    loss = differentiate(sparse, piece->category);
    for (size_t w = piece->first; w < piece->first + piece->n_words; w++) {
        float *gradients =
            sparse->gradients + (size_t)sparse->slots[sparse->corpus.words[w]] * n_categories;

        for (size_t c = 0; c < n_categories; c++) {
            gradients[c] += feature(piece) * sparse->scores[c];
        }
    }
    return loss;
}

/* This worker's part of a batch, which may be empty: it pushes no rows then, but it pushes. */
static kvs_status_t train_batch(sparse_t *sparse, const uint32_t *whole, size_t n_whole,
                                double *loss)
{
    size_t rank = (size_t)sparse->rank, n_workers = (size_t)sparse->n_workers;
    const uint32_t *batch = whole + n_whole * rank / n_workers;
    size_t n = n_whole * (rank + 1) / n_workers - n_whole * rank / n_workers;
    kvs_status_t status;

    collect_rows(sparse, batch, n);
    status = pull_rows(sparse);
    if (status == KVS_OK) {
        memset(sparse->gradients, 0,
               (size_t)sparse->n_ids * sparse->corpus.n_categories * sizeof(float));
        for (size_t i = 0; i < n; i++) {
            *loss += add_gradient(sparse, &sparse->corpus.pieces[batch[i]]);
        }
        status = push_rows(sparse);
    }
    forget_rows(sparse);
    sparse->n_batches++;
    return status;
}

/* ---- The whole run ------------------------------------------------------------------------------- */

static kvs_status_t train(sparse_t *sparse, size_t n_epochs)
{
    rng_t rng = {1};
    kvs_status_t status = KVS_OK;

    for (size_t e = 0; e < n_epochs && status == KVS_OK; e++) {
        double loss = 0;

        rng_shuffle(&rng, sparse->train, sparse->n_train);
        for (size_t i = 0; i < sparse->n_train && status == KVS_OK; i += BATCH) {
            size_t left = sparse->n_train - i;

            status = train_batch(sparse, sparse->train + i, left < BATCH ? left : BATCH, &loss);
        }
        if (status == KVS_OK && sparse->rank == 0) {
            printf("epoch %zu/%zu: loss %.4f\n", e + 1, n_epochs,
                   loss / (double)sparse->n_train * sparse->n_workers);
            fflush(stdout);
        }
    }
    return status;
}

static kvs_status_t print_bytes(sparse_t *sparse)
{
    kvs_stats_t stats = {.size = sizeof(stats)};
    kvs_status_t status = kvs_store_stats(sparse->store, &stats);
    double dense = (double)sparse->n_batches * TEXT_N_ROWS * (double)sparse->corpus.n_categories *
                   sizeof(float);

    if (status == KVS_OK) {
        printf("pulled %llu bytes in %zu batches; dense pulls: %.0f bytes, %.1f times as many\n",
               (unsigned long long)stats.bytes_pulled, sparse->n_batches, dense,
               dense / (double)stats.bytes_pulled);
    }
    return status;
}

static void print_accuracy(sparse_t *sparse)
{
    size_t n_right = 0;

    for (size_t i = 0; i < sparse->n_test; i++) {
        const text_piece_t *piece = &sparse->corpus.pieces[sparse->test[i]];

        score(sparse, piece, 1);
        n_right += best_category(sparse) == piece->category;
    }
    printf("test accuracy %.4f\n", (double)n_right / (double)sparse->n_test);
}

static void print_weights_hash(const sparse_t *sparse)
{
    char hex[SHA256_HEX_BYTES];
    sha256_t hash;

    sha256_start(&hash);
    sha256_add_floats(&hash, sparse->weights, TEXT_N_ROWS * sparse->corpus.n_categories);
    sha256_finish(&hash, hex);
    printf("weights sha256 %s\n", hex);
}

static kvs_status_t summarise(sparse_t *sparse)
{
    kvs_status_t status;

    printf("\nsummary\n");
    status = print_bytes(sparse);
    if (status == KVS_OK) {
        status = pull_all(sparse); /* which is not counted any more */
    }
    if (status == KVS_OK) {
        print_accuracy(sparse);
        print_weights_hash(sparse);
    }
    return status;
}

static void describe(const options_t *options, const sparse_t *sparse)
{
    printf("data        %zu training and %zu test texts in %zu categories from %s\n",
           sparse->n_train, sparse->n_test, sparse->corpus.n_categories, options->data_dir);
    printf("model       logistic regression, a row-sparse weight of %d x %zu\n", TEXT_N_ROWS,
           sparse->corpus.n_categories);
    printf("store       %s, libkvstore %s\n", options->backend, kvs_version());
    if (sparse->n_workers > 1) {
        printf("job         %d workers; this is one's part of every batch\n", sparse->n_workers);
    }
    printf("optimizer   sgd in the store, lazy_update, learning rate %g, batches of %d\n",
           LEARNING_RATE, BATCH);
}

static kvs_status_t release(sparse_t *sparse)
{
    kvs_status_t status = kvs_store_close(sparse->store);

    corpus_release(&sparse->corpus);
    free(sparse->train);
    free(sparse->test);
    free(sparse->slots);
    free(sparse->ids);
    free(sparse->pulled_ids);
    free(sparse->weights);
    free(sparse->gradients);
    free(sparse->scores);
    return status;
}

static kvs_status_t run(const options_t *options, sparse_t *sparse)
{
    kvs_status_t status = corpus_load(options->data_dir, &sparse->corpus);

    if (status == KVS_OK) {
        status = allocate(sparse);
    }
    if (status != KVS_OK) {
        return status;
    }
    split(sparse);
    sparse->shape[0] = TEXT_N_ROWS;
    sparse->shape[1] = (int64_t)sparse->corpus.n_categories;
    status = open_store(sparse, options->backend);
    if (status != KVS_OK) {
        return status;
    }
    if (sparse->rank == 0) {
        describe(options, sparse);
    }
    status = train(sparse, options->n_epochs);
    return status == KVS_OK && sparse->rank == 0 ? summarise(sparse) : status;
}

kvs_status_t sparse_run(const options_t *options)
{
    sparse_t sparse = {.key = kvs_key_str("weight")};
    kvs_status_t status = run(options, &sparse);

    if (status != KVS_OK) {
        (void)release(&sparse); /* the first error counts */
        return status;
    }
    return release(&sparse);
}
