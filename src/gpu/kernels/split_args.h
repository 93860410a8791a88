/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of gemm_split, which cuts an fp32 operand into two of fp16 for gemm_emul, and of
 * gemm_emul. Strides are in elements.
 *
 * x = 2^-s (high + 2^-11 low), where s is of x's block of GB_SPLIT_K of k of its vector (a row of
 * op(A), a column of op(B)): its largest element is scaled to [2^14, 2^15). high and low are
 * rounded to nearest, so that high + 2^-11 low has 22 bits or more where x is less than 2^29 times
 * smaller than the largest (Ootomo and Yokota, arXiv 2203.03341, with a scale for each block). */
#ifndef GB_SPLIT_ARGS_H
#define GB_SPLIT_ARGS_H

#include "tensor_map.h"

enum {
    GB_SPLIT_K = 128,
    GB_SPLIT_THREADS = 256,
    GB_SPLIT_VECTORS =
        32,             /* of one block of threads, where the unit stride is theirs */
    GB_SPLIT_SPAN = 28, /* of exponents of a block's elements that are not 0 */
    GB_SPLIT_LEAST =
        27 /* biased exponent of a block's largest: below, scales are not normal */
};

/* What was met, so that the product needs something else. */
enum gb_split_met {
    GB_SPLIT_WIDE = 1u << 0, /* a block whose elements span more than GB_SPLIT_SPAN */
    GB_SPLIT_SPECIAL =
        1u << 1 /* an infinity, a NaN, or a block of very small numbers */
};

struct gb_split_args {
    uint64_t from;           /* op(X)(0, 0); fp32 */
    int64_t vectors, deep;   /* of m or n; of k */
    int64_t of_vector, of_k; /* strides, of which one is 1 */
    /* fp16, element (v, l) at v * ld + l; ld is a multiple of 64, and what lies past `deep` is 0 */
    uint64_t high, low;
    int64_t ld;
    /* fp32, 2^-s of block b of vector v at b * scale_ld + v */
    uint64_t scales;
    int64_t scale_ld;
    uint64_t met; /* uint32_t, enum gb_split_met: or-ed into */
};

struct gb_emul_args {
    struct gb_tma_args
        t; /* a and b: the high parts; splits are multiples of GB_SPLIT_K */
    struct gb_tensor_map a_low, b_low;
    uint64_t a_scales, b_scales;
    int64_t a_scale_ld, b_scale_ld;
    uint64_t met; /* with anything met nothing is computed */
};

#endif
