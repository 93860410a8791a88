/* SPDX-License-Identifier: BSD-3-Clause */
/* Every exported gemm by name, one way to call them all, and a call with its operands. */
#include "calls.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

/* ---- flavours -------------------------------------------------------------------- */

#define GEMM(symbol, routine, interface, bits, type, type_c, scalars)                  \
    extern void symbol(void);
#include "flavours.def"
#undef GEMM

const struct verify_flavour verify_flavours[] = {
#define GEMM(symbol_, routine_, interface_, bits_, type_, type_c_, scalars_)           \
    {.symbol = #symbol_,                                                               \
     .routine = #routine_,                                                             \
     .interface = VERIFY_##interface_,                                                 \
     .bits = bits_,                                                                    \
     .type = GB_##type_,                                                               \
     .type_c = GB_##type_c_,                                                           \
     .scalars = VERIFY_##scalars_,                                                     \
     .fn = symbol_},
#include "flavours.def"
#undef GEMM
};
const int verify_flavour_count = sizeof verify_flavours / sizeof verify_flavours[0];

const struct verify_flavour *verify_flavour(const char *symbol)
{
    for (int i = 0; i < verify_flavour_count; i++)
        if (strcmp(verify_flavours[i].symbol, symbol) == 0)
            return &verify_flavours[i];
    bail("no flavour %s", symbol);
}

static int cblas_trans(const char *trans)
{
    switch (*trans) {
    case 'N':
        return 111;
    case 'T':
        return 112;
    case 'C':
        return 113;
    case 'R':
        return 114;
    default:
        return 0;
    }
}

/* The scalars' type is that of C: f32 for the mixed names, which take float scalars. */
void verify_call(const struct verify_flavour *f, int layout, const char *transa,
                 const char *transb, int64_t m, int64_t n, int64_t k,
                 struct gb_scalar alpha, const void *a, int64_t lda, const void *b,
                 int64_t ldb, struct gb_scalar beta, void *c, int64_t ldc)
{
    union {
        uint16_t u16;
        float f32;
        double f64;
        char bytes[16];
    } sa, sb;

    verify_store(f->type_c, &sa, (struct verify_value){.re = alpha.re, .im = alpha.im});
    verify_store(f->type_c, &sb, (struct verify_value){.re = beta.re, .im = beta.im});

#define CALL_FORTRAN(INT)                                                              \
    do {                                                                               \
        INT m_ = (INT)m, n_ = (INT)n, k_ = (INT)k;                                     \
        INT lda_ = (INT)lda, ldb_ = (INT)ldb, ldc_ = (INT)ldc;                         \
        ((void (*)(const char *, const char *, const INT *, const INT *, const INT *,  \
                   const void *, const void *, const INT *, const void *, const INT *, \
                   const void *, void *, const INT *, size_t, size_t))f->fn)(          \
            transa, transb, &m_, &n_, &k_, &sa, a, &lda_, b, &ldb_, &sb, c, &ldc_, 1,  \
            1);                                                                        \
    } while (0)
#define CALL_CBLAS(INT, SCALAR, sa_, sb_)                                              \
    ((void (*)(int, int, int, INT, INT, INT, SCALAR, const void *, INT, const void *,  \
               INT, SCALAR, void *, INT))f->fn)(                                       \
        layout, cblas_trans(transa), cblas_trans(transb), (INT)m, (INT)n, (INT)k, sa_, \
        a, (INT)lda, b, (INT)ldb, sb_, c, (INT)ldc)
#define CALL_CBLAS_BY(INT)                                                             \
    do {                                                                               \
        switch (f->scalars) {                                                          \
        case VERIFY_F32:                                                               \
            CALL_CBLAS(INT, float, sa.f32, sb.f32);                                    \
            break;                                                                     \
        case VERIFY_F64:                                                               \
            CALL_CBLAS(INT, double, sa.f64, sb.f64);                                   \
            break;                                                                     \
        case VERIFY_U16:                                                               \
            CALL_CBLAS(INT, uint16_t, sa.u16, sb.u16);                                 \
            break;                                                                     \
        case VERIFY_PTR:                                                               \
            CALL_CBLAS(INT, const void *, &sa, &sb);                                   \
            break;                                                                     \
        }                                                                              \
    } while (0)

    if (f->interface == VERIFY_FORTRAN && f->bits == 32)
        CALL_FORTRAN(int32_t);
    else if (f->interface == VERIFY_FORTRAN)
        CALL_FORTRAN(int64_t);
    else if (f->bits == 32)
        CALL_CBLAS_BY(int32_t);
    else
        CALL_CBLAS_BY(int64_t);
}

/* ---- one product ----------------------------------------------------------------- */

static const char *trans_letter(enum gb_trans t)
{
    static const char *const letter[] = {"N", "T", "C", "R"};

    return letter[t];
}

void verify_gemm_make(struct verify_gemm *g, enum verify_fill ab, enum verify_fill c,
                      const int64_t extra[3], enum verify_place place,
                      struct verify_random *r)
{
    int64_t a_rows = gb_transposed(g->transa) ? g->k : g->m;
    int64_t a_cols = gb_transposed(g->transa) ? g->m : g->k;
    int64_t b_rows = gb_transposed(g->transb) ? g->n : g->k;
    int64_t b_cols = gb_transposed(g->transb) ? g->k : g->n;
    int64_t lda = (g->row_major ? a_cols : a_rows) + extra[0];
    int64_t ldb = (g->row_major ? b_cols : b_rows) + extra[1];
    int64_t ldc = (g->row_major ? g->n : g->m) + extra[2];

    verify_matrix_make(&g->a, g->f->type, g->row_major, a_rows, a_cols,
                       lda > 0 ? lda : 1, place);
    verify_matrix_make(&g->b, g->f->type, g->row_major, b_rows, b_cols,
                       ldb > 0 ? ldb : 1, place);
    verify_matrix_make(&g->c, g->f->type_c, g->row_major, g->m, g->n, ldc > 0 ? ldc : 1,
                       place);
    verify_matrix_fill(&g->a, ab, r);
    verify_matrix_fill(&g->b, ab, r);
    verify_matrix_fill(&g->c, c, r);
}

void verify_gemm_drop(struct verify_gemm *g)
{
    verify_matrix_drop(&g->a);
    verify_matrix_drop(&g->b);
    verify_matrix_drop(&g->c);
}

void verify_gemm_call(const struct verify_gemm *g)
{
    verify_call(g->f, g->row_major ? 101 : 102, trans_letter(g->transa),
                trans_letter(g->transb), g->m, g->n, g->k, g->alpha, g->a.at, g->a.ld,
                g->b.at, g->b.ld, g->beta, g->c.at, g->c.ld);
}

void verify_describe(const struct verify_gemm *g, char *buf, size_t len)
{
    snprintf(
        buf, len,
        "%s %s %s %s m=%lld n=%lld k=%lld alpha=%g%+gi beta=%g%+gi lda=%lld ldb=%lld "
        "ldc=%lld",
        g->f->symbol, g->row_major ? "row" : "column", trans_letter(g->transa),
        trans_letter(g->transb), (long long)g->m, (long long)g->n, (long long)g->k,
        g->alpha.re, g->alpha.im, g->beta.re, g->beta.im, (long long)g->a.ld,
        (long long)g->b.ld, (long long)g->c.ld);
}

/* ---- crash reports --------------------------------------------------------------- */

static __thread char watched[256];

static void on_fault(int signal_number)
{
    static const char start[] = "not ok - fault in ";
    char text[sizeof start + sizeof watched + 2];
    size_t n = strlen(watched);

    memcpy(text, start, sizeof start - 1);
    memcpy(text + sizeof start - 1, watched, n);
    text[sizeof start - 1 + n] = '\n';
    if (write(STDOUT_FILENO, text, sizeof start + n) < 0)
        _exit(EXIT_FAILURE);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void verify_watch(const struct verify_gemm *g)
{
    static atomic_bool installed;

    verify_describe(g, watched, sizeof watched);
    if (!atomic_exchange(&installed, true)) {
        struct sigaction act = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};

        sigaction(SIGSEGV, &act, NULL);
        sigaction(SIGBUS, &act, NULL);
    }
}
