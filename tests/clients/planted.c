/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of the product with one bug at a time: every exported gemm as plain loops,
 * traced as if a device had served. MODEL_FAULT names the bug; t_harness demands that
 * the tests notice each. It exports what libgemmblas.so exports, so it is preloaded in
 * its place. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "operands.h"

/* FAULT(name): one planted bug. */
/* clang-format off */
#define FAULTS \
    FAULT(none) \
    FAULT(cpu) \
    FAULT(conjugate) \
    FAULT(k_zero) \
    FAULT(alpha_zero) \
    FAULT(beta_zero) \
    FAULT(beta_ignored) \
    FAULT(beta_real) \
    FAULT(float_sums) \
    FAULT(short_sums) \
    FAULT(element) \
    FAULT(last_column) \
    FAULT(padding) \
    FAULT(rewrite) \
    FAULT(input) \
    FAULT(read_past) \
    FAULT(row_major)
/* clang-format on */
enum fault {
#define FAULT(name) FAULT_##name,
    FAULTS
#undef FAULT
};

static enum fault planted;

static void read_fault(void)
{
    static const char *const names[] = {
#define FAULT(name) #name,
        FAULTS
#undef FAULT
    };
    const char *wanted = getenv("MODEL_FAULT");

    if (!wanted)
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], wanted) == 0) {
            planted = (enum fault)i;
            return;
        }
    }
    abort();
}

static bool is(enum fault f)
{
    return planted == f;
}

static void record(const char *symbol, int64_t m, int64_t n, int64_t k, bool trivial)
{
    static atomic_int calls;
    const char *path = getenv("GEMMBLAS_TRACE");
    bool cpu = trivial || (is(FAULT_cpu) && atomic_fetch_add(&calls, 1) % 8 == 7);
    char line[256];
    int fd, len;

    if (!path)
        return;
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    len =
        snprintf(line, sizeof line,
                 "gemmblas: call routine=%s m=%lld n=%lld k=%lld route=%s why=%s "
                 "kernel=model splits=1 panels=1\n",
                 symbol, (long long)m, (long long)n, (long long)k, cpu ? "cpu" : "gpu",
                 trivial ? "trivial"
                 : cpu   ? "oom"
                         : "ok");
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        abort();
    close(fd);
}

static struct verify_value times(bool complex, struct verify_value a,
                                 struct verify_value b)
{
    if (!complex) /* an infinite real part times an imaginary zero is NaN */
        return (struct verify_value){.re = a.re * b.re};
    return (struct verify_value){.re = a.re * b.re - a.im * b.im,
                                 .im = a.re * b.im + a.im * b.re};
}

static bool zero(struct verify_value v)
{
    return v.re == 0 && v.im == 0;
}

static struct verify_value at(const char *x, enum gb_type t, char trans, int64_t i,
                              int64_t j, int64_t ld)
{
    bool across = trans == 'T' || trans == 'C';
    int64_t offset = across ? j + i * ld : i + j * ld;
    struct verify_value v = verify_load(t, x + offset * (int64_t)gb_type_size(t));

    if ((trans == 'C' && !is(FAULT_conjugate)) || trans == 'R')
        v.im = -v.im;
    return v;
}

static void model(const char *symbol, enum gb_type t, enum gb_type tc, char ta, char tb,
                  int64_t m, int64_t n, int64_t k, struct verify_value alpha,
                  const char *a, int64_t lda, const char *b, int64_t ldb,
                  struct verify_value beta, char *c, int64_t ldc)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int64_t size = (int64_t)gb_type_size(tc);
    bool complex = gb_is_complex(tc);
    bool big = m * n * k > 20;

    pthread_once(&once, read_fault);
    record(symbol, m, n, k, m == 0 || n == 0 || k == 0 || zero(alpha));
    if (m == 0 || n == 0)
        return;
    if (is(FAULT_k_zero) && k == 0)
        return;
    if (is(FAULT_alpha_zero) && zero(alpha))
        return;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            struct verify_value sum = {.re = 0}, old;
            char *to = c + (i + j * ldc) * size;

            if (!zero(alpha)) {
                for (int64_t l = 0; l < k; l++) {
                    struct verify_value x = times(complex, at(a, t, ta, i, l, lda),
                                                  at(b, t, tb, l, j, ldb));

                    sum.re += x.re;
                    sum.im += x.im;
                    if (is(FAULT_float_sums) && t == GB_F64)
                        sum.re = (float)sum.re;
                    if (is(FAULT_short_sums) && t == GB_F32)
                        sum.re = verify_from_f16(verify_f16(sum.re));
                }
                sum = times(complex, alpha, sum);
            }
            old = verify_load(tc, to);
            if (!zero(beta) || is(FAULT_beta_zero)) {
                struct verify_value scaled = times(complex, beta, old);

                if (is(FAULT_beta_ignored))
                    scaled = old;
                if (is(FAULT_beta_real) && beta.re == 0)
                    scaled.re = scaled.im = 0;
                sum.re += scaled.re;
                sum.im += scaled.im;
            }
            if (is(FAULT_element) && big && i == m - 1 && j == n / 2)
                sum.re += 1;
            if (is(FAULT_last_column) && big && j == n - 1 && n % 2)
                continue;
            verify_store(tc, to, sum);
        }
        if (is(FAULT_padding) && ldc > m && j < n - 1)
            memset(c + (m + j * ldc) * size, 0, (size_t)size);
        if (is(FAULT_rewrite) && ldc > m && j == n - 1)
            memset(c + (m + j * ldc) * size, 0, (size_t)size);
    }
    if (is(FAULT_input) && k > 1)
        memset((char *)(uintptr_t)b, 0, gb_type_size(t));
    if (is(FAULT_read_past))
        verify_load(t, a + (ta == 'N' || ta == 'R' ? k : m) * lda *
                               (int64_t)gb_type_size(t));
}

static char cblas_letter(int trans)
{
    return "NTCR"[(trans - 111) & 3];
}

static struct verify_value by_f32(enum gb_type tc, float x)
{
    (void)tc;
    return (struct verify_value){.re = x};
}

static struct verify_value by_f64(enum gb_type tc, double x)
{
    (void)tc;
    return (struct verify_value){.re = x};
}

static struct verify_value by_u16(enum gb_type tc, uint16_t x)
{
    return verify_load(tc, &x);
}

static struct verify_value by_ptr(enum gb_type tc, const void *x)
{
    return verify_load(tc, x);
}

#define F32_TYPE float
#define F64_TYPE double
#define U16_TYPE uint16_t
#define PTR_TYPE const void *
#define F32_READ by_f32
#define F64_READ by_f64
#define U16_READ by_u16
#define PTR_READ by_ptr
#define INT_32 int32_t
#define INT_64 int64_t

#define BODY_FORTRAN(symbol, bits, type, type_c, by)                                   \
    void symbol(const char *ta, const char *tb, const INT_##bits *m,                   \
                const INT_##bits *n, const INT_##bits *k, const void *alpha,           \
                const void *a, const INT_##bits *lda, const void *b,                   \
                const INT_##bits *ldb, const void *beta, void *c,                      \
                const INT_##bits *ldc)                                                 \
    {                                                                                  \
        model(#symbol, GB_##type, GB_##type_c, *ta, *tb, *m, *n, *k,                   \
              verify_load(GB_##type_c, alpha), a, *lda, b, *ldb,                       \
              verify_load(GB_##type_c, beta), c, *ldc);                                \
    }
#define BODY_CBLAS(symbol, bits, type, type_c, by)                                     \
    void symbol(int layout, int ta, int tb, INT_##bits m, INT_##bits n, INT_##bits k,  \
                by##_TYPE alpha, const void *a, INT_##bits lda, const void *b,         \
                INT_##bits ldb, by##_TYPE beta, void *c, INT_##bits ldc)               \
    {                                                                                  \
        struct verify_value x = by##_READ(GB_##type_c, alpha);                         \
        struct verify_value y = by##_READ(GB_##type_c, beta);                          \
                                                                                       \
        if (layout == 101 && !is(FAULT_row_major))                                     \
            model(#symbol, GB_##type, GB_##type_c, cblas_letter(tb), cblas_letter(ta), \
                  n, m, k, x, b, ldb, a, lda, y, c, ldc);                              \
        else                                                                           \
            model(#symbol, GB_##type, GB_##type_c, cblas_letter(ta), cblas_letter(tb), \
                  m, n, k, x, a, lda, b, ldb, y, c, ldc);                              \
    }
#define GEMM(symbol, routine, interface, bits, type, type_c, by)                       \
    BODY_##interface(symbol, bits, type, type_c, by)
#include "flavours.def"
