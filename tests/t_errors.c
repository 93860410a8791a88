/* SPDX-License-Identifier: BSD-3-Clause */
/* Illegal arguments, seen from a program that defines both handlers: which number
 * arrives (B13), that C stays, that a handler may leave by longjmp (B16), that each
 * call is reported once (B17); and 16-bit scalars by value (B25). The names with 64-bit
 * integers have no BLAS behind them here, so those reports are ours; dgemm_ goes to the
 * BLAS. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gemmblas/cblas.h"
#include "tap.h"

#define EXPORT __attribute__((visibility("default")))

enum { THREADS = 4, ROUNDS = 1000, BIG = 160 };

void xerbla_(const char *name, const int *info, size_t len);
void cblas_xerbla(int info, const char *name, const char *format, ...);
void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc, size_t la, size_t lb);
void dgemm_64_(const char *transa, const char *transb, const int64_t *m,
               const int64_t *n, const int64_t *k, const double *alpha, const double *a,
               const int64_t *lda, const double *b, const int64_t *ldb,
               const double *beta, double *c, const int64_t *ldc, size_t la, size_t lb);

static __thread struct {
    int calls, info;
    char name[40];
    size_t len;
    bool nul;
    jmp_buf *out;
} seen;

EXPORT void xerbla_(const char *name, const int *info, size_t len)
{
    seen.calls++;
    seen.info = *info;
    seen.len = len;
    memset(seen.name, 0, sizeof seen.name);
    memcpy(seen.name, name, len < sizeof seen.name ? len : sizeof seen.name - 1);
    seen.nul = name[len] == 0 || name[len - 1] == 0;
    if (seen.out)
        longjmp(*seen.out, 1);
}

EXPORT void cblas_xerbla(int info, const char *name, const char *format, ...)
{
    va_list args;

    seen.calls++;
    seen.info = info;
    strncpy(seen.name, name, sizeof seen.name - 1);
    va_start(args, format);
    if (strstr(format, "%d"))
        seen.len = (size_t)va_arg(args, int);
    va_end(args);
}

static void fortran(void)
{
    static const struct {
        const char *ta, *tb;
        int64_t m, n, k, lda, ldb, ldc;
        int info;
    } t[] = {{"X", "N", -1, 2, 2, 2, 2, 2, 1},  {"N", "/", 2, 2, 2, 2, 2, 2, 2},
             {"N", "N", -1, -1, 2, 2, 2, 2, 3}, {"N", "N", 2, -1, 2, 2, 2, 2, 4},
             {"N", "N", 2, 2, -1, 2, 2, 2, 5},  {"N", "N", 2, 2, 2, 1, 2, 2, 8},
             {"N", "N", 2, 2, 2, 2, 1, 2, 10},  {"N", "N", 2, 2, 2, 2, 2, 1, 13}};
    const double one = 1, a[4] = {1, 2, 3, 4};
    double c[4] = {5, 6, 7, 8};

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        seen.calls = 0;
        dgemm_64_(t[i].ta, t[i].tb, &t[i].m, &t[i].n, &t[i].k, &one, a, &t[i].lda, a,
                  &t[i].ldb, &one, c, &t[i].ldc, 1, 1);
        is_int(1, seen.calls, "B17 one report");
        is_int(t[i].info, seen.info, "B13 argument %d", t[i].info);
        is_string("DGEMM ", seen.name, "blank-padded name");
        ok(seen.len == 6 && seen.nul, "of six letters, then a NUL");
    }
    ok(c[0] == 5 && c[1] == 6 && c[2] == 7 && c[3] == 8, "B14 C is as it was");
}

static void cblas(void)
{
    static const struct {
        int64_t layout, ta, tb, m, n, k, lda, ldb, ldc, info;
    } t[] = {
        {0, 111, 111, 2, 2, 2, 2, 2, 2, 1},    {102, 0, 111, 2, 2, 2, 2, 2, 2, 2},
        {102, 111, 0, 2, 2, 2, 2, 2, 2, 3},    {102, 111, 111, -1, 2, 2, 2, 2, 2, 4},
        {102, 111, 111, 2, -1, 2, 2, 2, 2, 5}, {102, 111, 111, 2, 2, -1, 2, 2, 2, 6},
        {102, 111, 111, 2, 2, 2, 1, 2, 2, 9},  {102, 111, 111, 2, 2, 2, 2, 1, 2, 11},
        {102, 111, 111, 2, 2, 2, 2, 2, 1, 14}, {101, 111, 111, -1, -1, 2, 2, 2, 2, 5},
        {101, 111, 111, 2, 2, 2, 1, 2, 2, 9},  {101, 111, 111, 2, 2, 2, 2, 1, 2, 11},
        {101, 111, 111, 2, 2, 2, 2, 2, 1, 14}};
    const double a[4] = {1, 2, 3, 4};
    double c[4] = {5, 6, 7, 8};

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        seen.calls = 0;
        seen.len = 0;
        cblas_dgemm64_((CBLAS_LAYOUT)t[i].layout, (CBLAS_TRANSPOSE)t[i].ta,
                       (CBLAS_TRANSPOSE)t[i].tb, t[i].m, t[i].n, t[i].k, 1, a, t[i].lda,
                       a, t[i].ldb, 1, c, t[i].ldc);
        is_int(1, seen.calls, "B17 one report");
        is_int(t[i].info, seen.info, "B13 layout %d, argument %d", (int)t[i].layout,
               (int)t[i].info);
        is_string("cblas_dgemm", seen.name, "name");
        is_int(0, (long long)seen.len, "the setting that was refused");
    }
    ok(c[0] == 5 && c[1] == 6 && c[2] == 7 && c[3] == 8, "B14 C is as it was");
}

/* C = A A, by either name */
static bool product(const double *a, double *c)
{
    const int n = BIG;
    const int64_t wide = BIG;
    const double one = 1, zero = 0;
    bool right = true;

    for (int names = 0; names < 2; names++) {
        memset(c, 0xff, sizeof *c * BIG * BIG);
        if (names)
            dgemm_64_("N", "N", &wide, &wide, &wide, &one, a, &wide, a, &wide, &zero, c,
                      &wide, 1, 1);
        else
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n, 1, 1);
        for (int j = 0; j < BIG; j += 13)
            for (int i = 0; i < BIG; i += 11) {
                double sum = 0;

                for (int l = 0; l < BIG; l++)
                    sum += a[i + l * BIG] * a[l + j * BIG];
                right &= c[i + j * BIG] == sum;
            }
    }
    return right;
}

/* A thousand calls that never return, then two that must. */
static void *jumper(void *arg)
{
    const int minus = -1, n = BIG;
    const int64_t wide_minus = -1, wide = BIG;
    const double one = 1;
    double *a = malloc(sizeof *a * BIG * BIG), *c = malloc(sizeof *c * BIG * BIG);
    volatile long jumps = 0;
    jmp_buf out;

    for (int i = 0; i < BIG * BIG; i++)
        a[i] = i % 7 - 3;
    seen.out = &out;
    for (volatile int i = 0; i < ROUNDS; i++) {
        if (setjmp(out)) {
            jumps++;
            continue;
        }
        if (i % 2)
            dgemm_("N", "N", &minus, &n, &n, &one, a, &n, a, &n, &one, c, &n, 1, 1);
        else
            dgemm_64_("N", "N", &wide_minus, &wide, &wide, &one, a, &wide, a, &wide,
                      &one, c, &wide, 1, 1);
    }
    seen.out = NULL;
    *(long *)arg = product(a, c) ? jumps : -1;
    free(a);
    free(c);
    return NULL;
}

static void jumps(void)
{
    pthread_t thread[THREADS];
    long count[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, jumper, &count[i]))
            bail("no thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        is_int(ROUNDS, count[i],
               "B16 thread %d jumped out of each call, then got it right", i);
    }
}

static void halves(void)
{
    const uint16_t one = 0x3c00, brain = 0x3f80;
    uint16_t c = 0x7e00;

    cblas_hgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 0x4000, &one, 1,
                &one, 1, 0, &c, 1);
    is_int(0x4000, c, "B25 alpha of cblas_hgemm");
    cblas_hgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, one, &one, 1, &one,
                1, 0x4000, &c, 1);
    is_int(0x4500, c, "B25 beta of cblas_hgemm");
    c = 0x7fc0;
    cblas_bgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 0x4000, &brain, 1,
                &brain, 1, 0, &c, 1);
    is_int(0x4000, c, "B25 alpha of cblas_bgemm");
}

int main(void)
{
    plan_lazy();
    fortran();
    cblas();
    jumps();
    halves();
    return 0;
}
