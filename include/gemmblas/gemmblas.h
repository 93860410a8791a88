/* SPDX-License-Identifier: BSD-3-Clause */
/* gemmblas: the functions of its own. Its BLAS is called by the names of BLAS, see
 * cblas.h. */
#ifndef GEMMBLAS_GEMMBLAS_H
#define GEMMBLAS_GEMMBLAS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define GEMMBLAS_API __attribute__((visibility("default")))
#else
#define GEMMBLAS_API
#endif

/* "major.minor.patch" of the library that runs; static storage. A copy of the library
 * knows another one by this symbol. */
GEMMBLAS_API const char *gemmblas_version(void);

/* ---- products ---- */

enum gemmblas_status {
    GEMMBLAS_OK,
    GEMMBLAS_E_ARGUMENT, /* a size, stride, pointer or flag is illegal */
    GEMMBLAS_E_TYPE,     /* no product of these types, or no such activation of them */
    GEMMBLAS_E_OVERLAP, /* elements of C share memory with each other or what is read */
    GEMMBLAS_E_PLACE,   /* matrices and vectors are partly here, partly there */
    GEMMBLAS_E_MEMORY,  /* out of memory, or more than can be counted */
    GEMMBLAS_E_UNSUPPORTED, /* the device has no kernel for it, or no memory for streams */
    GEMMBLAS_E_DEVICE       /* the device failed or is not there; C may be anything */
};

enum gemmblas_type {
    GEMMBLAS_F16,
    GEMMBLAS_BF16,
    GEMMBLAS_F32,
    GEMMBLAS_F64,
    GEMMBLAS_C32, /* complex of two f32 */
    GEMMBLAS_C64, /* complex of two f64 */
    GEMMBLAS_S8,  /* signed 8-bit integers */
    GEMMBLAS_S32  /* of C alone */
};

enum gemmblas_activation {
    GEMMBLAS_ACT_NONE,
    GEMMBLAS_ACT_RELU,      /* 0 for x < 0 */
    GEMMBLAS_ACT_GELU,      /* x/2 (1 + erf(x / sqrt 2)) */
    GEMMBLAS_ACT_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    GEMMBLAS_ACT_SILU,      /* x / (1 + e^-x) */
    GEMMBLAS_ACT_TANH
};

enum gemmblas_flags {
    GEMMBLAS_BIAS_PER_COLUMN = 1, /* n entries, one for each column of C; else m */
    GEMMBLAS_BIAS_WIDE = 2, /* the bias is of the accumulator's type; else of C's */
    /* The arrays of addresses are themselves in device memory. What they say is not looked
     * at: neither whether C overlaps nor how matrices are aligned. */
    GEMMBLAS_ARRAYS_ON_DEVICE = 4,
    GEMMBLAS_ARRAYS_ALIGNED = 8 /* and every address is a multiple of 16 */
};

/* Element (i, j) of product z: i * row_stride + j * col_stride + z * batch_stride elements after
 * `data`; or, if `array` is given, i * row_stride + j * col_stride elements after array[z]. Any
 * strides, of either sign; those of A and B may be 0, which repeats what is there. Fastest are
 * matrices of which one stride is 1. C is written, though its pointer is to const. */
struct gemmblas_matrix {
    const void *data;
    const void *const *array;
    int64_t row_stride, col_stride, batch_stride;
};

/* Entries one after the other; batch_stride entries from product to product, 0: the same for
 * all. Without data there is no such vector. */
struct gemmblas_vector {
    const void *data;
    int64_t batch_stride;
};

/* Zeros are a good beginning: what is not set is not there. */
struct gemmblas_product {
    size_t size;                    /* sizeof(struct gemmblas_product) */
    int32_t type, type_c;           /* enum gemmblas_type, of A and B, and of C */
    int32_t activation;             /* enum gemmblas_activation */
    uint32_t flags;                 /* enum gemmblas_flags */
    int64_t m, n, k, batch;         /* a batch of 0 is one of 1 */
    struct gemmblas_matrix a, b, c; /* m x k, k x n, m x n */
    int32_t conj_a, conj_b;         /* conjugate the elements of A, of B */
    double alpha[2], beta[2];       /* real and imaginary part */
    struct gemmblas_vector bias;
    /* m and n real entries of the accumulator's precision: float, but for f64 and c64. */
    struct gemmblas_vector row_scale, col_scale;
    void *
        stream; /* of matrices in device memory: a CUstream, cudaStream_t or hipStream_t;
                     NULL is the default stream */
};

/* For each z < batch,
 *   C := act(row_scale(i) * col_scale(j) * alpha * (A B)(i,j) + beta * C(i,j) + bias)
 * in the accumulator's type (f32 for 16-bit types, else that of A and B), rounded once to the
 * type of C. Pairs of types: f16 and bf16 with a C of the same or of f32; the others with
 * their own; s8 with a C of s32. Complex types have no activation. With beta 0, C is not read;
 * with alpha 0 or k 0, neither A nor B.
 *
 * Of s8, A B is summed modulo 2^32; alpha, beta and the bias, which is of s32, are applied to
 * that in double precision, and the result is rounded to the nearest integer (of two the even one)
 * and kept inside int32_t: what is beyond becomes the nearest end, NaN the lower one. With an alpha
 * of 1, and a beta of 0 or 1, nothing is rounded. Matrices in device memory must be on a device of
 * compute capability 9.0, else GEMMBLAS_E_UNSUPPORTED. There are neither scales nor activations (GEMMBLAS_E_TYPE). Arrays of addresses in
 * device memory are GEMMBLAS_E_UNSUPPORTED.
 *
 * No element of C may be another one's, in the whole batch, nor one of any A, B or vector that is
 * read. Matrices that interleave are legal: where both have the same strides and sizes of
 * elements, or lie in columns or rows of unit stride. Of other strides, the ranges of memory must
 * not meet. Within C's batch each stride must lead beyond what the smaller ones reach, unless C
 * is an array of addresses at no one distance.
 *
 * Matrices and vectors in device memory: the work is queued in `stream`, after what is queued
 * there; the call does not wait, and what it needs of memory is taken and released in the order
 * of the stream. Matrices in host memory: C is final when the call returns; a device computes it
 * where that pays (GEMMBLAS_ROUTE), else the CPU; without any device too. Threads may call at
 * the same time.
 *
 * Memory of a device that is not used (GEMMBLAS_DEVICE), that failed, or that was the parent's of
 * a forked process is answered by GEMMBLAS_E_DEVICE. GEMMBLAS_E_ARGUMENT may also say that the
 * driver does not take work in `stream`, and GEMMBLAS_MEM_LIMIT is not for memory of streams.
 *
 * Returns an enum gemmblas_status. Of GEMMBLAS_E_ARGUMENT, TYPE, OVERLAP, PLACE, MEMORY and
 * UNSUPPORTED nothing has been touched. */
GEMMBLAS_API int gemmblas_gemm(const struct gemmblas_product *product);

/* One sentence; static storage. */
GEMMBLAS_API const char *gemmblas_status_text(int status);

#ifdef __cplusplus
}
#endif
#endif
