/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - checks the header against what was asked for, and the length against the header, before
 * anybody computes with the bytes. */
#include "idx.h"

#include "inflow.h"

#include <stdlib.h>

#define MAX_BYTES ((size_t)1 << 28) /* five times the largest file of MNIST: a header may lie */

static size_t big_endian(const uint8_t *bytes)
{
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

static kvs_status_t read_header(FILE *file, const char *path, size_t n_dims, idx_t *idx)
{
    uint8_t header[4 + 4 * IDX_MAX_DIMS] = {0};
    size_t n_bytes = 4 + 4 * n_dims;
    size_t n_read = fread(header, 1, n_bytes, file);

    if (n_read < 4 || big_endian(header) != (0x0800 | n_dims)) {
        return kvs_fail(
            KVS_ERR_FORMAT,
            "%s: not an IDX file of unsigned bytes with %zu dimension%s: it begins with "
            "%08zx, not with %08zx",
            path, n_dims, n_dims == 1 ? "" : "s", big_endian(header), 0x0800 | n_dims);
    }
    if (n_read < n_bytes) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: truncated: it ends within its header", path);
    }
    idx->n_bytes = 1;
    for (size_t d = 0; d < n_dims; d++) {
        idx->dims[d] = big_endian(header + 4 + 4 * d);
        if (idx->dims[d] == 0 || idx->dims[d] > MAX_BYTES / idx->n_bytes) {
            return kvs_fail(KVS_ERR_FORMAT, "%s: its header announces a dimension of %zu", path,
                            idx->dims[d]);
        }
        idx->n_bytes *= idx->dims[d];
    }
    return KVS_OK;
}

static kvs_status_t read_data(FILE *file, const char *path, idx_t *idx)
{
    size_t n_read;

    idx->bytes = malloc(idx->n_bytes);
    if (idx->bytes == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for its %zu bytes", path, idx->n_bytes);
    }
    n_read = fread(idx->bytes, 1, idx->n_bytes, file);
    if (n_read < idx->n_bytes) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: truncated: its header announces %zu bytes, it has %zu",
                        path, idx->n_bytes, n_read);
    }
    if (fgetc(file) != EOF) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: it has more than the %zu bytes its header announces",
                        path, idx->n_bytes);
    }
    return KVS_OK;
}

kvs_status_t idx_read(const char *path, size_t n_dims, idx_t *ret_idx)
{
    idx_t idx = {NULL, 0, {0}};
    inflow_t inflow;
    kvs_status_t status = inflow_open(path, &inflow);

    if (status != KVS_OK) {
        return status;
    }
    status = read_header(inflow.file, path, n_dims, &idx);
    if (status == KVS_OK) {
        status = read_data(inflow.file, path, &idx);
    }
    kvs_status_t closed = inflow_close(&inflow, path);

    if (closed != KVS_OK) {
        status = closed; /* it explains why the bytes were not what they should be */
    }
    if (status != KVS_OK) {
        idx_release(&idx);
        return status;
    }
    *ret_idx = idx;
    return KVS_OK;
}

void idx_release(idx_t *idx)
{
    free(idx->bytes);
    *idx = (idx_t){NULL, 0, {0}};
}
