/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of the kernels that compute fp32 products from fp16 ones: gb_split cuts operands
 * into two parts, gb_gemm_emul_... multiplies these, gb_rest_f32_... computes in fp32 what the
 * second must not. Strides are in elements.
 *
 * x = 2^-s (high + low) (Ootomo and Yokota, arXiv 2203.03341, with a scale of its own for each
 * block): s is of x's block of GB_SPLIT_K of k of its vector (a row of op(A), a column of op(B)),
 * whose largest element is brought to [2^14, 2^15). Both parts are rounded to nearest. What is
 * missing of an element is at most 2^-22 of it plus, where low is a denormal, 2^-39 of the block's
 * largest; of a zero it is nothing. */
#ifndef GB_SPLIT_ARGS_H
#define GB_SPLIT_ARGS_H

#include "tensor_map.h"

enum {
    GB_SPLIT_K = 128,
    GB_SPLIT_THREADS = 256,
    GB_SPLIT_GROUP =
        32, /* vectors that a block of threads has, and a guard speaks of */
    GB_SPLIT_TILE =
        128, /* sides of the tiles of C that are computed one way or the other */
    /* Exponents of a block's largest element between which its scale, and the product of two, are
     * powers of two that fp32 has. */
    GB_SPLIT_LEAST = -48,
    GB_SPLIT_MOST = 56,
    /* Least k for sums of tensor cores over 64 of k: gemm_emul.h says why; over 128. */
    GB_EMUL_LEAST_K = 256,
    GB_EMUL_LEAST_K_128 = 2048,
    GB_EMUL_MOST_K = 1 << 22
};

/* What is known of GB_SPLIT_GROUP vectors in one block of k. */
struct gb_guard {
    float
        most; /* the largest element's magnitude; infinite where fp16 parts cannot be */
    float sum;   /* of magnitudes, in the vector where it is the least */
    float least; /* the smallest magnitude, 0 included */
    float
        span; /* of a vector's largest to its smallest that is not 0, where it is the most */
};

struct gb_split {
    uint64_t from;           /* op(X)(0, 0); fp32 */
    int64_t vectors, deep;   /* of m or n; of k */
    int64_t of_vector, of_k; /* strides, of which one is 1 */
    int64_t batch, batch_from, batch_to;
    /* fp16, element (v, l) at v * ld + l; ld is a multiple of 64, and what lies past `deep` is 0 */
    uint64_t high, low;
    int64_t ld;
    /* fp32, 2^-s of block b of vector v of batch z at (z * blocks + b) * scale_ld + v */
    uint64_t scales;
    int64_t scale_ld;
    uint64_t guard; /* struct gb_guard of group g at (z * groups + g) * blocks + b */
    int64_t groups, blocks;
};

struct gb_split_args {
    struct gb_split x[2]; /* op(A), op(B) */
    uint64_t any;         /* uint32_t: set to 0 */
};

/* Which tiles of 128 by 128 of C are left to fp32: a byte each, not 0 where it is, of tile (i, j)
 * of batch z at flags + (z * tiles_n + j) * tiles_m + i. */
struct gb_left {
    uint64_t any; /* uint32_t: is there such a tile? */
    uint64_t flags;
    int64_t tiles_m, tiles_n;
};

struct gb_emul_args {
    struct gb_tma_args t; /* a and b: the high parts */
    struct gb_tensor_map a_low, b_low;
    struct gb_split x[2]; /* as they were cut */
    struct gb_left left;
};

struct gb_rest_args {
    struct gb_gemm_args g; /* the product itself */
    struct gb_left left;
};

/* The row of ffma.def of whose shape gb_rest_f32_... are. */
#define GB_REST_ROW "gemm_ffma_f32_64x64x16"

#endif
