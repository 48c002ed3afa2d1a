/* SPDX-License-Identifier: Apache-2.0 */
/* compression.h - gradient compression in use: a compressor with its parameters, and the residuals of
 * the keys. For stores that compress what is pushed; the compressor itself is a plugin's table
 * (kvs_compressor_t). Semantics: those of MXNet's gradient compression, except that a gradient that
 * is not finite is an error. */
#ifndef KVSTORE_COMPRESSION_H
#define KVSTORE_COMPRESSION_H

#include <kvstore/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Never changed once made. Any thread. */
typedef struct kvs_compression kvs_compression_t;

/* From the parameters of set_gradient_compression: `type`, the name of a compressor, and those of that
 * compressor. ERR_NOT_FOUND: no such compressor; ERR_ARGUMENT: the text names the parameter and what
 * is accepted. */
kvs_status_t kvs_compression_new(const kvs_param_t *params, size_t n_params,
                                 kvs_compression_t **ret_compression);
void kvs_compression_free(kvs_compression_t *compression); /* NULL does nothing */

/* Can all values of the group be compressed? ERR_DTYPE: they are not float32; ERR_STORAGE: one is
 * row-sparse. The text names the key. */
kvs_status_t kvs_compression_check(const kvs_compression_t *compression, const kvs_group_t *group);

/* ---- Residuals ------------------------------------------------------------------------------- */

/* What is kept of one key: for each place in the list of values the residual that its next push begins
 * with. All-zero is fresh. The caller sees to it that one thread at a time uses it. */
typedef struct kvs_residuals {
    struct kvs_residual *items;
    size_t n;        /* places that have been pushed so far */
    int64_t n_elems; /* of each; unset while n is 0 */
} kvs_residuals_t;

/* `n_elems` numbers, for `place` below `n`. Valid until the next push or change. */
const float *kvs_residuals_at(const kvs_residuals_t *residuals, size_t place);
/* Copy `data` in as the residual of `place`; places before it that were none begin as zeros. ERR_NO_MEMORY. */
kvs_status_t kvs_residuals_set(kvs_residuals_t *residuals, int64_t n_elems, size_t place,
                               const float *data);
void kvs_residuals_release(kvs_residuals_t *residuals); /* all are zeros again */

/* ---- Packing and unpacking ------------------------------------------------------------------- */

/* The packed values of one push, in list order. Valid until the next use of the residuals. */
typedef struct kvs_packed {
    const kvs_compression_t *compression;
    const kvs_residuals_t *residuals; /* the packed bytes lie with them */
    size_t n_values;
} kvs_packed_t;

/* Pack n_values arrays of n_elems float32, the i-th with the residual of place i, cut over the host's
 * pool. All or nothing: ERR_NON_FINITE, with value and element in the text, and ERR_NO_MEMORY leave
 * every residual as it was. */
kvs_status_t kvs_compression_pack(const kvs_compression_t *compression, kvs_residuals_t *residuals,
                                  int64_t n_elems, const void *const *values, size_t n_values,
                                  kvs_packed_t *ret_packed);
/* The bytes of the value at `place`: kvs_compression_bytes of them. */
const void *kvs_packed_at(const kvs_packed_t *packed, size_t place);

/* Write the sum, in list order, of what elements [begin, end) of all values stand for, on the calling
 * thread. `begin` is a multiple of kvs_compression_unit. */
void kvs_packed_sum(const kvs_packed_t *packed, int64_t begin, int64_t end, float *sum);

/* What it is made of: the compressor, and the values of its parameters. */
const kvs_compressor_t *kvs_compression_kind(const kvs_compression_t *compression);
const float *kvs_compression_params(const kvs_compression_t *compression);
/* Where packed arrays can be cut: a number of elements that divides KVS_COMPRESSOR_BLOCK. */
int64_t kvs_compression_unit(const kvs_compression_t *compression);
/* Bytes of n_elems packed elements. */
uint64_t kvs_compression_bytes(const kvs_compression_t *compression, int64_t n_elems);
/* Write what the bytes stand for to `dst`, or with `adds` add it, on the calling thread. */
void kvs_compression_unpack(const kvs_compression_t *compression, int64_t n_elems,
                            const void *packed, float *dst, int adds);

#ifdef __cplusplus
}
#endif
#endif
