/* SPDX-License-Identifier: Apache-2.0 */
/* states_rig.c - see states_rig.h. */
#include "states_rig.h"

#include "kt.h"
#include "statefile.h"

#include <kvstore/kit.h>

#include <stdlib.h>

static const struct {
    const char *name;
    int dtype;
    int32_t ndim;
    int64_t shape[2];
} layouts[] = {
    {"w", KVS_DTYPE_float32, 2, {3, 4}},     {"b", KVS_DTYPE_float64, 1, {5}},
    {"half", KVS_DTYPE_float16, 2, {2, 2}},  {"bhalf", KVS_DTYPE_bfloat16, 1, {7}},
    {"scalar", KVS_DTYPE_float32, 0, {0}},   {"a/b \"\xC3\xA9\"", KVS_DTYPE_float32, 1, {2}},
    {"empty", KVS_DTYPE_float32, 2, {4, 0}},
};
#define N_KEYS (sizeof(layouts) / sizeof(layouts[0]))

/* `n` numbers of the key's dtype, multiples of 1/16 that are exact in all. */
static void fill(int dtype, int64_t n, int salt, void *data)
{
    for (int64_t i = 0; i < n; i++) {
        float value = (float)((i * 7 + salt * 5) % 23 - 11) / 16;

        kvs_cast(1, KVS_DTYPE_float32, &value, dtype,
                 (char *)data + (size_t)i * kvs_dtype_bytes(dtype));
    }
}

states_rig_t states_rig(kvs_opt_t *opt, int integers)
{
    states_rig_t rig = {.opt = opt, .n_keys = N_KEYS};

    for (size_t i = 0; i < N_KEYS; i++) {
        rig_key_t *key = &rig.keys[i];

        *key = rig_key((int64_t)i - 1, layouts[i].dtype, layouts[i].shape, layouts[i].ndim);
        key->entry.name = integers ? NULL : layouts[i].name;
        fill(key->dtype, key->entry.n_elems, (int)i, key->weight);
    }
    return rig;
}

void states_rig_release(states_rig_t *rig)
{
    for (size_t i = 0; i < rig->n_keys; i++) {
        rig_key_release(&rig->keys[i]);
        kvs_residuals_release(&rig->residuals[i]);
    }
    kvs_opt_free(rig->opt);
    rig->opt = NULL;
}

void states_rig_update(states_rig_t *rig, int n)
{
    char grad[12 * sizeof(double)];

    for (int u = 0; u < n; u++) {
        for (size_t i = 0; i < rig->n_keys; i++) {
            rig_key_t *key = &rig->keys[i];

            fill(key->dtype, key->entry.n_elems, (int)(key->state.n_updates + 3 * (int64_t)i),
                 grad);
            KT_OK(rig_update(rig->opt, key, grad, 0, NULL));
        }
    }
}

static size_t list_items(states_rig_t *rig, kvs_opt_item_t items[STATES_MAX_KEYS])
{
    for (size_t i = 0; i < rig->n_keys; i++) {
        rig->keys[i].entry.shape = rig->keys[i].shape; /* the rig may have been copied */
        items[i] = (kvs_opt_item_t){&rig->keys[i].entry, &rig->keys[i].state, &rig->residuals[i]};
    }
    return rig->n_keys;
}

kvs_status_t states_rig_save(const states_rig_t *rig, const char *path, int dump_optimizer)
{
    kvs_opt_item_t items[STATES_MAX_KEYS];
    size_t n = list_items((states_rig_t *)(uintptr_t)rig, items);

    return kvs_opt_save(rig->opt, items, n, path, dump_optimizer);
}

kvs_status_t states_rig_load(states_rig_t *rig, const char *path)
{
    kvs_opt_item_t items[STATES_MAX_KEYS];
    size_t n = list_items(rig, items);
    kvs_opt_file_t *file;
    kvs_status_t status = kvs_opt_file_open(path, &file);

    if (status == KVS_OK) {
        status = kvs_opt_file_load(file, &rig->opt, items, n);
        kvs_opt_file_close(file);
    }
    return status;
}

static void digest(uint64_t *io_digest, const void *data, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        *io_digest = (*io_digest ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001B3);
    }
}

uint64_t states_rig_digest(const states_rig_t *rig)
{
    uint64_t result = 0xCBF29CE484222325;
    double rate = kvs_opt_rate(rig->opt);
    int64_t num_update = kvs_opt_num_update(rig->opt);

    digest(&result, kvs_opt_name(rig->opt), strlen(kvs_opt_name(rig->opt)));
    digest(&result, &rate, sizeof(rate));
    digest(&result, &num_update, sizeof(num_update));
    for (size_t i = 0; i < rig->n_keys; i++) {
        const rig_key_t *key = &rig->keys[i];
        int64_t count = kvs_opt_count(rig->opt, &key->state);

        digest(&result, &count, sizeof(count));
        digest(&result, key->weight, (size_t)key->entry.n_elems * kvs_dtype_bytes(key->dtype));
        for (size_t j = 0; j < kvs_opt_n_states(&key->state); j++) {
            kvs_opt_state_t state = kvs_opt_state_at(&key->state, j);

            digest(&result, state.name, strlen(state.name));
            digest(&result, state.data, (size_t)state.n_elems * kvs_dtype_bytes(state.dtype));
        }
        for (size_t j = 0; j < rig->residuals[i].n; j++) {
            digest(&result, kvs_residuals_at(&rig->residuals[i], j),
                   (size_t)key->entry.n_elems * sizeof(float));
        }
    }
    return result;
}

int states_rig_same_weights(const states_rig_t *a, const states_rig_t *b)
{
    for (size_t i = 0; i < a->n_keys; i++) {
        size_t n_bytes = (size_t)a->keys[i].entry.n_elems * kvs_dtype_bytes(a->keys[i].dtype);

        if (memcmp(a->keys[i].weight, b->keys[i].weight, n_bytes) != 0) {
            return 0;
        }
    }
    return 1;
}

const char *states_path(const char *name)
{
    static char dir[512];
    static char paths[4][700];
    static unsigned next;
    char *path = paths[next++ % 4];

    if (dir[0] == '\0') {
        snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    }
    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

/* ---- Files as bytes ------------------------------------------------------------------------------ */

bytes_t bytes_read(const char *path)
{
    bytes_t bytes = {0};
    FILE *file = fopen(path, "rb");
    char *data = malloc(1 << 20);

    if (file != NULL) {
        bytes.n = fread(data, 1, 1 << 20, file);
        fclose(file);
    }
    bytes.data = malloc(bytes.n + 1);
    memcpy(bytes.data, data, bytes.n);
    free(data);
    return bytes;
}

void bytes_write(const char *path, const bytes_t *bytes)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(bytes->data, 1, bytes->n, file) != bytes->n || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

void bytes_release(bytes_t *bytes)
{
    free(bytes->data);
    *bytes = (bytes_t){0};
}

int bytes_equal(const bytes_t *a, const bytes_t *b)
{
    return a->n == b->n && memcmp(a->data, b->data, a->n) == 0;
}

static size_t header_length(const bytes_t *file)
{
    uint64_t length;

    memcpy(&length, file->data, sizeof(length));
    return (size_t)length;
}

bytes_t bytes_header(const bytes_t *file)
{
    bytes_t header = {.n = header_length(file)};

    header.data = malloc(header.n + 1);
    memcpy(header.data, file->data + 8, header.n);
    header.data[header.n] = '\0';
    return header;
}

bytes_t bytes_bend(const bytes_t *file, const char *old, const char *new_text)
{
    bytes_t header = bytes_header(file);
    size_t n_data = file->n - 8 - header.n;
    char *at = strstr(header.data, old);
    bytes_t bent = {.n = file->n - strlen(old) + strlen(new_text)};
    uint64_t length = header.n - strlen(old) + strlen(new_text);
    char *to;

    KT_TRUE(at != NULL);
    if (at == NULL) {
        printf("\n  no %s in %s", old, header.data);
        exit(2);
    }
    bent.data = to = malloc(bent.n + 1);
    memcpy(to, &length, sizeof(length));
    to += sizeof(length);
    memcpy(to, header.data, (size_t)(at - header.data));
    to += at - header.data;
    memcpy(to, new_text, strlen(new_text));
    to += strlen(new_text);
    at += strlen(old);
    memcpy(to, at, (size_t)(header.data + header.n - at));
    memcpy(bent.data + 8 + length, file->data + 8 + header.n, n_data);
    kvs_statefile_seal(bent.data + 8, length);
    bytes_release(&header);
    return bent;
}
