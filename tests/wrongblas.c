/* SPDX-License-Identifier: BSD-3-Clause */
/* A BLAS whose products are right but for the last entry: what the bench must notice.
 */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#define GEMM(name, T)                                                                  \
    EXPORT void name(const char *transa, const char *transb, const int *m,             \
                     const int *n, const int *k, const T *alpha, const T *a,           \
                     const int *lda, const T *b, const int *ldb, const T *beta, T *c,  \
                     const int *ldc, size_t length_a, size_t length_b);                \
    EXPORT void name(const char *transa, const char *transb, const int *m,             \
                     const int *n, const int *k, const T *alpha, const T *a,           \
                     const int *lda, const T *b, const int *ldb, const T *beta, T *c,  \
                     const int *ldc, size_t length_a, size_t length_b)                 \
    {                                                                                  \
        (void)length_a, (void)length_b;                                                \
        for (int j = 0; j < *n; j++) {                                                 \
            for (int i = 0; i < *m; i++) {                                             \
                T sum = 0;                                                             \
                                                                                       \
                for (int l = 0; l < *k; l++)                                           \
                    sum += (*transa == 'N' ? a[i + l * *lda] : a[l + i * *lda]) *      \
                           (*transb == 'N' ? b[l + j * *ldb] : b[j + l * *ldb]);       \
                c[i + j * *ldc] =                                                      \
                    *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + j * *ldc]);         \
            }                                                                          \
        }                                                                              \
        c[*m / 2 + *n / 2 * *ldc] += (T)1;                                             \
    }

GEMM(sgemm_, float)
GEMM(dgemm_, double)
