/* SPDX-License-Identifier: BSD-3-Clause */
/* The one argument of every GEMM kernel: plain data, the same layout for nvcc, clang and the
 * host. All strides are in elements and 64 bits; no kernel multiplies sizes in 32 bits.
 *
 * What one launch does, for each batch z < batch:
 *   op(A)(i,l) = a[z*a_batch + i*a_m + l*a_k],  op(B)(l,j) = b[z*b_batch + l*b_k + j*b_n],
 *   C(i,j)     = c[z*c_batch + i + j*ldc]        (column-major C)
 * over i < m, j < n, and l in [k_begin, k_end) of the whole problem's k. Or each matrix of a
 * batch lies by itself: with a_list, the address of a device's array of `batch` addresses, op(A)
 * of batch z begins at a_list[z]; a_batch is then 0, k_begin too, and `a` is no address but has
 * no bit that is 0 in all of the addresses (so that it is as aligned as they are). Likewise B
 * and C.
 *
 * Sums over k. The whole problem cuts k at fixed multiples of split_len into `splits` parts
 * (split s covers [s*split_len, min((s+1)*split_len, k))), each summed in ascending l by one
 * chain per element, so that the bits depend on the problem alone: a chain of fused
 * multiply-adds, or, by tensor cores, of blocks of l that begin at multiples of 16. A launch may
 * cover any range of k that is not empty, or is all of an empty k (of rows with GB_K_TENSOR:
 * between multiples of tile_k, or to the end), because the chain can be carried between launches in
 * `partial`: splits x m x n elements of the accumulator's type, column-major, leading dimension
 * m, split s at partial + s*m*n (per batch: + z*splits*m*n).
 *   - A split whose range begins inside [k_begin, k_end) starts its chain at 0; one that
 *     began before k_begin continues from partial.
 *   - With GB_G_EPILOGUE (only legal when splits == 1 and k_end == k, and where
 *     gb_launch_sums_splits() says so) the kernel applies C := alpha*sum + beta*C. Otherwise
 *     each touched split's sum goes to partial.
 * Work units of a launch: tiles(m) x tiles(n) x splits touched x batch.
 *
 * With GB_G_FUSED, wherever alpha and beta are applied, more is (struct gb_fused):
 *   C := act(row_scale(i) * col_scale(j) * alpha * sum + beta*C + bias)
 * all in the accumulator's type, and then once rounded to C's.
 *
 * The reduce kernel reads partial, sums the splits in ascending order and applies
 * C := alpha*sum + beta*C. It is launched with GB_REDUCE_THREADS threads and any grid; the
 * GEMM kernels likewise run right with any grid (of whole clusters), blocks taking units in
 * turn. launch.h does both. */
#ifndef GB_GEMM_ARGS_H
#define GB_GEMM_ARGS_H

#include <stdint.h>

enum gb_gemm_flags {
    GB_G_CONJ_A = 1u << 0,
    GB_G_CONJ_B = 1u << 1,
    GB_G_EPILOGUE = 1u << 2,  /* apply alpha and beta; else write partial */
    GB_G_BETA_ZERO = 1u << 3, /* beta is 0: C is never read */
    GB_G_UPPER = 1u << 4,     /* only i + row0 <= j + col0 is computed and written */
    GB_G_LOWER = 1u << 5,     /* only i + row0 >= j + col0 */
    /* What loads ask of L2 where a row can say it: to keep an operand, or not to. */
    GB_G_KEEP_A = 1u << 6,
    GB_G_STREAM_A = 1u << 7,
    GB_G_KEEP_B = 1u << 8,
    GB_G_STREAM_B = 1u << 9,
    GB_G_FUSED = 1u << 10 /* there is more to the epilogue than alpha and beta */
};

/* What a value becomes in the end: activate.h. */
enum gb_activation {
    GB_ACT_NONE,
    GB_ACT_RELU,      /* 0 for x < 0 */
    GB_ACT_GELU,      /* x/2 (1 + erf(x / sqrt 2)) */
    GB_ACT_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    GB_ACT_SILU,      /* x / (1 + e^-x) */
    GB_ACT_TANH,
    GB_ACTIVATIONS
};

enum gb_fused_flags {
    GB_F_BIAS_COLS =
        1u << 0, /* the bias has an entry for each column of C; else each row */
    GB_F_BIAS_ACC = 1u << 1 /* it is of the accumulator's type; else of C's */
};

/* Vectors of m or n entries, one after the other, on the device; an address of 0: there is no
 * such vector. Scales are real, of the accumulator's precision. Nothing is read beyond m or n
 * entries. Batch strides are in elements, 0 broadcasts. A factor of 0 drops the sum, whatever
 * it holds, as alpha does. Activations are of real types. */
struct gb_fused {
    uint64_t bias, row_scale, col_scale;
    int64_t bias_batch, row_batch, col_batch;
    int32_t activation; /* enum gb_activation */
    uint32_t flags;     /* enum gb_fused_flags */
};

enum {
    GB_REDUCE_THREADS = 256,
    GB_SPLITS_TOGETHER = 8 /* at most, in one launch: what every cluster may have */
};

struct gb_gemm_args {
    uint64_t a, b, c; /* device addresses */
    uint64_t partial; /* accumulators, or 0 */
    int64_t m, n, k;  /* k of the whole problem */
    int64_t k_begin, k_end;
    int64_t a_m, a_k; /* strides of op(A) */
    int64_t b_k, b_n; /* strides of op(B) */
    int64_t ldc;
    int64_t a_batch, b_batch, c_batch; /* 0 broadcasts (not C) */
    int64_t
        split_len; /* of the whole problem, a multiple of tile_k; >= k when splits is 1 */
    int64_t row0, col0; /* position of C(0,0) in the whole C, for the triangle masks */
    double alpha[2], beta[2];    /* real, imaginary */
    int32_t splits;              /* of the whole problem */
    int32_t split0, split_count; /* splits touched by [k_begin, k_end) */
    int32_t batch;
    int32_t group_m; /* tile rows per group of the L2 order; 1 disables */
    int32_t tail;    /* splits of the tiles that fill no turn, or 0: gb_launch_tail() */
    uint32_t flags;
    uint64_t a_list, b_list, c_list; /* addresses of arrays of addresses, or 0 */
    struct gb_fused fused;           /* with GB_G_FUSED */
};

/* a points at op(A)(0, k_begin) and b at op(B)(k_begin, 0): a launch sees only its own range
 * of k. */

#endif
