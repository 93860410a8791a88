/* SPDX-License-Identifier: BSD-3-Clause */
/* A BLAS that has oneMKL's gemm of 8-bit integers, and tells how it was called. */
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

/* By which it is known as a BLAS with 32-bit integers. */
EXPORT int isamax_(const int *n, const float *x, const int *step);
EXPORT int isamax_(const int *n, const float *x, const int *step)
{
    int most = 0;

    for (int i = 1; i < *n; i++)
        most = x[i * *step] > x[most * *step] ? i : most;
    return most + 1;
}

EXPORT int64_t cblas_isamax(int n, const float *x, int step);
EXPORT int64_t cblas_isamax(int n, const float *x, int step)
{
    return isamax_(&n, x, &step) - 1;
}

EXPORT void cblas_gemm_s8u8s32(int layout, int ta, int tb, int form, int m, int n,
                               int k, float alpha, const void *a, int lda, int8_t ao,
                               const void *b, int ldb, int8_t bo, float beta,
                               int32_t *c, int ldc, const int32_t *co);
EXPORT void cblas_gemm_s8u8s32(int layout, int ta, int tb, int form, int m, int n,
                               int k, float alpha, const void *a, int lda, int8_t ao,
                               const void *b, int ldb, int8_t bo, float beta,
                               int32_t *c, int ldc, const int32_t *co)
{
    fprintf(stderr, "cblas %d %d %d %d, %d %d %d, %g %s %d %d, %s %d %d, %g %d %d %d\n",
            layout, ta, tb, form, m, n, k, (double)alpha, (const char *)a, lda, ao,
            (const char *)b, ldb, bo, (double)beta, *c, ldc, *co);
}

EXPORT void gemm_s8u8s32_(const char *ta, const char *tb, const char *form,
                          const int *m, const int *n, const int *k, const float *alpha,
                          const char *a, const int *lda, const int8_t *ao,
                          const char *b, const int *ldb, const int8_t *bo,
                          const float *beta, const int32_t *c, const int *ldc,
                          const int32_t *co);
EXPORT void gemm_s8u8s32_(const char *ta, const char *tb, const char *form,
                          const int *m, const int *n, const int *k, const float *alpha,
                          const char *a, const int *lda, const int8_t *ao,
                          const char *b, const int *ldb, const int8_t *bo,
                          const float *beta, const int32_t *c, const int *ldc,
                          const int32_t *co)
{
    fprintf(stderr, "fortran %c %c %c, %d %d %d, %g %s %d %d, %s %d %d, %g %d %d %d\n",
            *ta, *tb, *form, *m, *n, *k, (double)*alpha, a, *lda, *ao, b, *ldb, *bo,
            (double)*beta, *c, *ldc, *co);
}
