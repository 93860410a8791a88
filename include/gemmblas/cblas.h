/* SPDX-License-Identifier: BSD-3-Clause */
/* CBLAS prototypes of the products that gemmblas serves.
 *
 * Every function computes C := alpha op(A) op(B) + beta C, where op(X) is X, its
 * transpose or its conjugate transpose; op(A) is m x k, op(B) is k x n, C is m x n. A
 * is stored as m x k (CblasNoTrans) or k x m, B as k x n or n x k. The leading
 * dimension is the distance in elements between columns (CblasColMajor: at least max(1,
 * rows as stored)) or between rows (CblasRowMajor: at least max(1, columns as stored)).
 * Elements between the end of a column (or row) and the leading dimension are neither
 * read nor written. beta of 0 does not read C; alpha of 0, or k of 0, reads neither A
 * nor B. C must not share elements with A or B.
 *
 * An illegal argument goes to the BLAS that the program uses. Where that lacks the
 * function, the program's cblas_xerbla is called with the argument's position (1
 * layout, 2 transa, 3 transb, 4 m, 5 n, 6 k, 9 lda, 11 ldb, 14 ldc) if it defines one,
 * else one line goes to stderr; C is left as it was.
 *
 * The functions without suffix have 32-bit integers, unless the program's BLAS has 64
 * there; those with _64 or 64_ have 64-bit integers. If the program also needs the rest
 * of CBLAS, include that header first: this one then adds what is missing in it. */
#ifndef GEMMBLAS_CBLAS_H
#define GEMMBLAS_CBLAS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if !defined CBLAS_H && !defined __MKL_CBLAS_H__

typedef enum CBLAS_LAYOUT { CblasRowMajor = 101, CblasColMajor = 102 } CBLAS_LAYOUT;
typedef enum CBLAS_TRANSPOSE {
    CblasNoTrans = 111,
    CblasTrans = 112,
    CblasConjTrans = 113,
    CblasConjNoTrans = 114 /* conjugated, not transposed: as in OpenBLAS */
} CBLAS_TRANSPOSE;

/* f32, f64, complex f32, complex f64. Complex scalars are passed by address. */
void cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                 int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
void cblas_dgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                 int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc);
void cblas_cgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                 int m, int n, int k, const void *alpha, const void *a, int lda,
                 const void *b, int ldb, const void *beta, void *c, int ldc);
void cblas_zgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                 int m, int n, int k, const void *alpha, const void *a, int lda,
                 const void *b, int ldb, const void *beta, void *c, int ldc);

#endif

/* The same with 64-bit integers: reference and MKL spell cblas_dgemm_64, OpenBLAS
 * spells cblas_dgemm64_. */
#define GEMMBLAS_CBLAS_64(name, scalar, element)                                       \
    void name(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,     \
              int64_t m, int64_t n, int64_t k, scalar alpha, const element *a,         \
              int64_t lda, const element *b, int64_t ldb, scalar beta, element *c,     \
              int64_t ldc)
GEMMBLAS_CBLAS_64(cblas_sgemm_64, float, float);
GEMMBLAS_CBLAS_64(cblas_dgemm_64, double, double);
GEMMBLAS_CBLAS_64(cblas_cgemm_64, const void *, void);
GEMMBLAS_CBLAS_64(cblas_zgemm_64, const void *, void);
#ifndef OPENBLAS_VERSION
GEMMBLAS_CBLAS_64(cblas_sgemm64_, float, float);
GEMMBLAS_CBLAS_64(cblas_dgemm64_, double, double);
GEMMBLAS_CBLAS_64(cblas_cgemm64_, const void *, void);
GEMMBLAS_CBLAS_64(cblas_zgemm64_, const void *, void);
#endif
#undef GEMMBLAS_CBLAS_64

#ifndef __MKL_CBLAS_H__

/* fp16 (IEEE binary16 as bits) throughout; sums in fp32, one rounding at the end. alpha
 * and beta are fp16 too, passed as 16-bit integers. */
void cblas_hgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                 int m, int n, int k, uint16_t alpha, const uint16_t *a, int lda,
                 const uint16_t *b, int ldb, uint16_t beta, uint16_t *c, int ldc);

/* fp16 or bf16 A and B, f32 scalars, sums and C. */
void cblas_gemm_f16f16f32(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa,
                          CBLAS_TRANSPOSE transb, int m, int n, int k, float alpha,
                          const uint16_t *a, int lda, const uint16_t *b, int ldb,
                          float beta, float *c, int ldc);
void cblas_gemm_bf16bf16f32(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa,
                            CBLAS_TRANSPOSE transb, int m, int n, int k, float alpha,
                            const uint16_t *a, int lda, const uint16_t *b, int ldb,
                            float beta, float *c, int ldc);

/* 8-bit integers: C := alpha (op(A) + ao) (op(B) + bo) + beta C + C_offset, where ao and bo are
 * added to every element. Column-major, A is signed (int8_t) and B unsigned (uint8_t);
 * row-major, A is unsigned and B signed. CblasFixOffset: every element of C_offset is co[0];
 * CblasRowOffset: each of its rows is co[0..n-1]; CblasColOffset: each of its columns is
 * co[0..m-1]. The product of the integers is taken modulo 2^32; alpha, beta and C_offset are applied
 * to it in double precision, and the result is rounded to the nearest integer, of two the even
 * one, and kept inside int32_t: what is beyond becomes the nearest end, NaN the lower one. With an
 * alpha of 1, and a beta of 0 or 1, nothing is rounded. Positions of illegal arguments: 1 layout, 2 transa, 3 transb, 4 offsetc, 5 m, 6 n,
 * 7 k, 10 lda, 13 ldb, 17 ldc. */
typedef enum CBLAS_OFFSET {
    CblasRowOffset = 171,
    CblasColOffset = 172,
    CblasFixOffset = 173
} CBLAS_OFFSET;
void cblas_gemm_s8u8s32(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa,
                        CBLAS_TRANSPOSE transb, CBLAS_OFFSET offsetc, int m, int n,
                        int k, float alpha, const void *a, int lda, int8_t ao,
                        const void *b, int ldb, int8_t bo, float beta, int32_t *c,
                        int ldc, const int32_t *co);
void cblas_gemm_s8u8s32_64(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa,
                           CBLAS_TRANSPOSE transb, CBLAS_OFFSET offsetc, int64_t m,
                           int64_t n, int64_t k, float alpha, const void *a,
                           int64_t lda, int8_t ao, const void *b, int64_t ldb,
                           int8_t bo, float beta, int32_t *c, int64_t ldc,
                           const int32_t *co);

#endif
#ifndef OPENBLAS_VERSION

/* The same products by OpenBLAS's names: shgemm fp16, sbgemm bf16; and bgemm, bf16
 * throughout with sums in fp32 and one rounding at the end. */
void cblas_shgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                  int m, int n, int k, float alpha, const uint16_t *a, int lda,
                  const uint16_t *b, int ldb, float beta, float *c, int ldc);
void cblas_sbgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                  int m, int n, int k, float alpha, const uint16_t *a, int lda,
                  const uint16_t *b, int ldb, float beta, float *c, int ldc);
void cblas_bgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb,
                 int m, int n, int k, uint16_t alpha, const uint16_t *a, int lda,
                 const uint16_t *b, int ldb, uint16_t beta, uint16_t *c, int ldc);

#endif

#ifdef __cplusplus
}
#endif
#endif
