/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of the kernels that compute fp64 products from residues (the Ozaki scheme II of
 * Ozaki, Uchino and Imamura, arXiv 2504.08009): gb_measure looks at the operands, gb_choose says
 * for each tile of C how many moduli it wants, gb_cut writes residues, gb_gemm_emul_f64_...
 * multiplies these, gb_join puts C together, and gb_rest_f64_... computes natively what the
 * others must not. Strides are in elements.
 *
 * Row i of op(A) is scaled by a power of two so that its Euclidean norm is at most 2^qa, and rounded
 * to integers A'; column j of op(B) likewise by 2^qb. By Cauchy and Schwarz |A'B'| is at most
 * 2^(qa + qb) (1 + 2^-38) (rounding adds sqrt(k)/2 to a norm), less than half the product P of the
 * moduli, so that A'B' follows from its residues: there is no further error but the last
 * rounding's. Residues are symmetric, from -p/2 to p/2, a sum of k of their products is below
 * 2^31 for k up to GB_RESIDUE_MOST_K (but for p = 256, where the sum's residue is that of its
 * low bits in any case).
 *
 * What rounding to integers costs an element of A'B' is at most
 *   (sum |A'| + sum |B'|) / 2 + k / 4 <= sqrt(k) (2^qa + 2^qb) / 2 + k / 4,
 * and, since the errors are as good as random, 0.29 sqrt(4^qa + 4^qb) as a root mean square.
 *
 * The guard. A tile of 128 by 128 is computed by so many moduli that, with a bound L from below on
 * (|A||B|)(i, j) in units of 2^(E_i + E_j) (E: exponents of the scales), L is at least
 * 2^51 (2^-qa + 2^-qb) = GB_RESIDUE_LEAST. Then the error is at most 2 sqrt(k) u (|A||B|)(i, j) and a
 * little, u = 2^-53, at most an eighth of fp64's own bound of (k + 2) u from k = 256 on; and its
 * root mean square at most some 0.8 u L, three times what a chain of multiply-adds of random signs
 * has at least. Where no number of moduli is enough, and where there are infinities, NaNs or norms
 * outside 2^-300 to 2^300, the tile is left to native arithmetic.
 *
 * The bound from below. With x_l = min(|a_l| / s, 1) and y_l = min(|b_l| / t, 1), for any s and t,
 *   sum |a_l||b_l| >= s t sum x_l y_l >= s t (sum x_l + sum y_l - count),
 * so that sums of single vectors do: they are kept for blocks of GB_RESIDUE_K of k, with s the mean
 * of the block's magnitudes and an eighth of it, and joined for GB_RESIDUE_GROUP vectors. */
#ifndef GB_RESIDUE_ARGS_H
#define GB_RESIDUE_ARGS_H

#include "split_args.h"

/* The row of dmma.def of whose shape gb_rest_f64_... are. */
#define GB_REST_F64_ROW "gemm_dmma_f64_128x64x16"

enum {
    GB_RESIDUE_K = 128,
    GB_RESIDUE_GROUP = 32,
    GB_RESIDUE_THREADS = 256,
    GB_RESIDUE_LEAST_K = 256,
    GB_RESIDUE_MOST_K = 131072,
    GB_RESIDUE_RANGE = 300, /* exponents of norms, up and down */
    /* Instead of the exponent of a vector's scale. */
    GB_RESIDUE_BAD = 10000,
    /* Moduli: so many are there, and so many of the first may be all that is used. */
    GB_MODULI_MOST = 16,
    GB_MODULI_LEAST = 14,
    GB_MODULI_CHOICES = GB_MODULI_MOST - GB_MODULI_LEAST + 1
};

/* Coprime. */
#define GB_MODULI                                                                      \
    {                                                                                  \
        256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193 \
    }
/* qa, qb, and the least L, with so many moduli. (The residues of 62 bits are taken of int64_t.) */
#define GB_RESIDUE_BITS_A                                                              \
    {                                                                                  \
        55, 58, 62                                                                     \
    }
#define GB_RESIDUE_BITS_B                                                              \
    {                                                                                  \
        54, 58, 62                                                                     \
    }
#define GB_RESIDUE_LEAST                                                               \
    {                                                                                  \
        0x3p-4f, 0x1p-6f, 0x1p-10f                                                     \
    }

struct gb_modulus {
    int32_t p, inverse; /* round(2^38 / p) */
};

/* What a 16-bit digit of a number counts modulo p, the lowest first. */
struct gb_digits {
    int32_t of[4];
};

/* Of a block of k of one vector: magnitudes in units of 2^(exponent - 20), rounded down. */
struct gb_residue_block {
    int32_t exponent; /* of the largest */
    int32_t mean;     /* at least 1 */
    int32_t least[2]; /* sums of what is at most the mean; an eighth of it (or 1) */
};

/* Of the vectors of a group, each in units of its scale, the least of each: s and sum x_l of the
 * text above; s[0] < 0: one of them has no scale. */
struct gb_residue_guard {
    float s[2], x[2];
};

struct gb_residue_side {
    uint64_t from;           /* op(X)(0, 0); fp64 */
    int64_t vectors, deep;   /* of m or n; of k */
    int64_t of_vector, of_k; /* strides, of which one is 1 */
    int64_t batch, batch_from;
    int64_t groups, blocks;
    uint64_t exponents; /* int32_t of vector v of batch z at z * vectors + v */
    uint64_t parts;     /* struct gb_residue_block: at (z * vectors + v) * blocks + b */
    uint64_t guard;     /* struct gb_residue_guard: at (z * groups + g) * blocks + b */
    /* int8_t, element (v - first, l) of modulus i at (i * batch + z) * plane + (v - first) * ld + l:
     * of `count` vectors from `first` on, which begins a group; of 0 past `deep` */
    uint64_t residues;
    int64_t first, count, ld, plane;
};

/* What is chosen: what more than one tile may say, in words that are not 0. */
struct gb_residue_state {
    uint32_t any;                       /* a tile is left */
    uint32_t wanted[GB_MODULI_CHOICES]; /* so many moduli */
};

struct gb_measure_args {
    struct gb_residue_side x[2]; /* op(A), op(B) */
    uint64_t state;              /* set to 0 */
};

struct gb_choose_args {
    struct gb_residue_side x[2];
    struct gb_left left; /* `any`: the state */
    int64_t batch;
    int32_t no_product; /* alpha is 0 */
};

struct gb_cut_args {
    struct gb_residue_side x[2]; /* a side with `count` 0 is done */
    uint64_t state;
    int32_t bits[2][GB_MODULI_CHOICES]; /* qa, qb */
    struct gb_modulus modulus[GB_MODULI_MOST];
    /* of op(B); of op(A), by the number of moduli: times the inverse of P / p */
    struct gb_digits b[GB_MODULI_MOST], a[GB_MODULI_CHOICES][GB_MODULI_MOST];
};

/* C's residues, r of modulus i with sum_i r P / p = A'B' (mod P): column j of batch z at
 * (i * batch + z) * plane + j * ld. Where the tile's rows are `tile`, row m of it lies at
 * m / 2 % 4 * tile / 4 + m / 8 * 2 + m % 2: as threads have them. */
struct gb_residue_sums {
    uint64_t at;
    int64_t ld, plane, batch, tile;
};

struct gb_residue_args {
    struct gb_tma_args t; /* its batches: each modulus in turn, each with all batches */
    struct gb_residue_sums c;
    struct gb_left left;
    int64_t first; /* column of C, of the launch's first */
    int32_t batch_a, batch_b;
    struct gb_modulus modulus[GB_MODULI_MOST];
};

/* 128 bits in words of 32, the lowest first. */
struct gb_wide {
    uint32_t word[4];
};

/* A'B' = sum_i (r_i + 128) (P / p_i) + (z + 16) (-P) + constant modulo 2^128, where z is the integer
 * nearest to sum_i r_i / p_i = sum_i (r_i + 128) / p_i - share. */
struct gb_joining {
    struct gb_wide of[GB_MODULI_MOST], minus_p;
    uint64_t constant[2]; /* low, high */
    float share;
    int32_t scale; /* qa + qb */
};

struct gb_join_args {
    struct gb_gemm_args g; /* the product itself */
    struct gb_residue_side x[2];
    struct gb_residue_sums c;
    struct gb_left left;
    int64_t first, count;       /* columns */
    float part[GB_MODULI_MOST]; /* 1 / p */
    struct gb_joining by[GB_MODULI_CHOICES];
};

#endif
