/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in as an interpreter loads one: it needs a BLAS and multiplies with it.
 * Answers whether the product was right. */
enum { N = 64 };

void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);
int plugin_product(void);

int plugin_product(void)
{
    static double a[N * N], b[N * N], c[N * N];
    const int n = N;
    const double alpha = 2, beta = -1;

    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i + j * N] = i == j ? 3 : 0;
            b[i + j * N] = i - 2 * j;
            c[i + j * N] = j;
        }
    }
    dgemm_("N", "T", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (c[i + j * N] != 6.0 * (j - 2 * i) - j)
                return 0;
    return 1;
}
