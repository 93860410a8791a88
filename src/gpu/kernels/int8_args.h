/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of the kernels that multiply 8-bit integers: gb_bytes_s8 brings operands to
 * where TMA reads them, gb_sums_s8 adds up their vectors, gb_gemm_int8_... multiplies. Strides
 * are in elements; a vector is a row of op(A) or a column of op(B). */
#ifndef GB_INT8_ARGS_H
#define GB_INT8_ARGS_H

#include "tensor_map.h"

enum {
    GB_BYTES_SIDE = 128, /* of k, and vectors, that a block of threads moves at once */
    GB_BYTES_THREADS = 256,
    GB_SUMS_THREADS = 256
};

/* K-major copies: element (v, l) goes to v * ld + l; ld is a multiple of GB_BYTES_SIDE, and what
 * lies past `deep` may be anything. */
struct gb_bytes {
    uint64_t from;           /* op(X)(0, 0) */
    int64_t vectors, deep;   /* of m or n; of k */
    int64_t of_vector, of_k; /* strides, of which one is 1 */
    int64_t batch, batch_from, batch_to;
    uint64_t to;
    int64_t ld;
    int64_t groups, blocks; /* GB_BYTES_SIDE vectors and of k each; 0: nothing to do */
    uint32_t flip;          /* of four bytes, bits that change: 0x80808080 takes 128 off
                             * unsigned ones */
};

struct gb_bytes_args {
    struct gb_bytes x[2]; /* op(A), op(B) */
};

/* Sums over k, modulo 2^32, of vector v of batch z to int32_t z * vectors + v. */
struct gb_sums {
    uint64_t from; /* K-major, aligned to 16 bytes, as is each vector */
    int64_t vectors, deep, ld, batch, batch_from;
    uint64_t to;
};

struct gb_sums_args {
    struct gb_sums
        x[2]; /* of op(A), of op(B); without vectors: there is nothing to do */
};

/* The sum is that of op(A) op(B) + of_rows rows(i) + of_cols cols(j) + whole, modulo 2^32; rows
 * and cols are sums of vectors. C := round.h's of it, with `add` and, with GB_G_FUSED, the
 * bias. */
struct gb_int8_args {
    struct gb_tma_args t; /* its `c` is not used */
    uint64_t rows, cols;  /* 0: of_rows or of_cols is */
    int64_t rows_batch, cols_batch;
    int32_t of_rows, of_cols, whole, add;
    int32_t plain; /* C is the sum of op(A) op(B) */
};

#endif
