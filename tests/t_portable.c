/* SPDX-License-Identifier: BSD-3-Clause */
/* The portable products and the conversions of halves: every type, all transposes,
 * against a product in long double; exact on small integers. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "half.h"
#include "real.h"
#include "tap.h"

static uint64_t state = 1;

static uint32_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* ---- conversions ----------------------------------------------------------------- */

/* The nearest multiple of the type's unit at x, ties to even, in exact double
 * arithmetic. */
static double rounded(double x, int digits, int lowest, double largest)
{
    int e;
    double unit, r;

    if (x == 0 || isnan(x) || isinf(x))
        return x;
    frexp(x, &e);
    unit = ldexp(1, e - digits < lowest ? lowest : e - digits);
    r = nearbyint(x / unit) * unit;
    return fabs(r) > largest ? copysign(INFINITY, x) : r;
}

static void conversions(void)
{
    unsigned long bad16 = 0, badb = 0, wrong16 = 0, wrongb = 0;

    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = gb_f16_to_f32((uint16_t)h), g = gb_bf16_to_f32((uint16_t)h);
        uint32_t fh = gb_f32_to_f16(f), gh = gb_f32_to_bf16(g);

        bad16 += isnan(f) ? !isnan(gb_f16_to_f32((uint16_t)fh)) : fh != h;
        badb += isnan(g) ? !isnan(gb_bf16_to_f32((uint16_t)gh)) : gh != h;
    }
    is_int(0, (long long)bad16, "every fp16 survives the way to f32 and back");
    is_int(0, (long long)badb, "every bf16 too");
    for (uint64_t i = 0; i < 0x100000000; i += 4093) {
        float f = gb_bits_to_f32((uint32_t)i);
        double want16 = rounded((double)f, 11, -24, 65504);
        double wantb = rounded((double)f, 8, -133, 0x1.fep127);

        if (isnan(f)) {
            wrong16 += !isnan(gb_f16_to_f32(gb_f32_to_f16(f)));
            wrongb += !isnan(gb_bf16_to_f32(gb_f32_to_bf16(f)));
            continue;
        }
        wrong16 += (double)gb_f16_to_f32(gb_f32_to_f16(f)) != want16;
        wrongb += (double)gb_bf16_to_f32(gb_f32_to_bf16(f)) != wantb;
    }
    is_int(0, (long long)wrong16, "f32 rounds to the nearest even fp16");
    is_int(0, (long long)wrongb, "f32 rounds to the nearest even bf16");
    is_int(0x7bff, gb_f32_to_f16(65519.996f), "below the middle: largest fp16");
    is_int(0x7c00, gb_f32_to_f16(65520), "from the middle on: infinity");
    is_int(1, gb_f32_to_f16(0x1.8p-25f), "a denormal rounds up");
    is_int(0, gb_f32_to_f16(0x1p-25f), "a tie below the denormals goes to even");
    is_int(0x8000, gb_f32_to_f16(-0x1p-30f), "and keeps its sign");
}

/* ---- products -------------------------------------------------------------------- */

static void put(void *x, int64_t at, enum gb_type type, int part, double v)
{
    switch (type) {
    case GB_F16:
        ((uint16_t *)x)[at] = gb_f32_to_f16((float)v);
        break;
    case GB_BF16:
        ((uint16_t *)x)[at] = gb_f32_to_bf16((float)v);
        break;
    case GB_F32:
        ((float *)x)[at] = (float)v;
        break;
    case GB_C32:
        ((float *)x)[2 * at + part] = (float)v;
        break;
    case GB_C64:
        ((double *)x)[2 * at + part] = v;
        break;
    default:
        ((double *)x)[at] = v;
    }
}

static double get(const void *x, int64_t at, enum gb_type type, int part)
{
    switch (type) {
    case GB_F16:
        return gb_f16_to_f32(((const uint16_t *)x)[at]);
    case GB_BF16:
        return gb_bf16_to_f32(((const uint16_t *)x)[at]);
    case GB_F32:
        return ((const float *)x)[at];
    case GB_C32:
        return ((const float *)x)[2 * at + part];
    case GB_C64:
        return ((const double *)x)[2 * at + part];
    default:
        return ((const double *)x)[at];
    }
}

static void *matrix(int64_t count, enum gb_type type, bool whole)
{
    void *x = malloc((size_t)count * gb_type_size(type) + 1);

    for (int64_t i = 0; i < count; i++)
        for (int part = 0; part < 1 + gb_is_complex(type); part++)
            put(x, i, type, part,
                whole ? (int)(next() % 5) - 2 : ldexp((double)next(), -30) - 1);
    return x;
}

static bool is_trans(enum gb_trans t)
{
    return t == GB_T || t == GB_C;
}

static bool is_conj(enum gb_trans t)
{
    return t == GB_C || t == GB_CONJ;
}

struct sum {
    long double re, im, size;
};

static struct sum exact(const struct gb_problem *p, const void *c, int64_t i, int64_t j)
{
    int parts = gb_is_complex(p->type);
    int64_t at = i + j * p->ldc;
    struct sum s = {0};
    long double re = 0, im = 0, cr, ci;

    for (int64_t l = 0; l < p->k; l++) {
        int64_t ia = is_trans(p->transa) ? l + i * p->lda : i + l * p->lda;
        int64_t ib = is_trans(p->transb) ? j + l * p->ldb : l + j * p->ldb;
        long double ar = get(p->a, ia, p->type, 0), br = get(p->b, ib, p->type, 0);
        long double ai = parts ? get(p->a, ia, p->type, 1) : 0;
        long double bi = parts ? get(p->b, ib, p->type, 1) : 0;

        if (is_conj(p->transa))
            ai = -ai;
        if (is_conj(p->transb))
            bi = -bi;
        re += ar * br - ai * bi;
        im += ar * bi + ai * br;
        s.size += (fabsl(ar) + fabsl(ai)) * (fabsl(br) + fabsl(bi));
    }
    s.re = p->alpha.re * re - p->alpha.im * im;
    s.im = p->alpha.re * im + p->alpha.im * re;
    s.size *= fabs(p->alpha.re) + fabs(p->alpha.im);
    if (p->beta.re != 0 || p->beta.im != 0) {
        cr = get(c, at, p->type_c, 0);
        ci = parts ? get(c, at, p->type_c, 1) : 0;
        s.re += p->beta.re * cr - p->beta.im * ci;
        s.im += p->beta.re * ci + p->beta.im * cr;
        s.size += (fabs(p->beta.re) + fabs(p->beta.im)) * (fabsl(cr) + fabsl(ci));
    }
    return s;
}

/* Elements that are wrong: above the bound, or not exact for whole numbers; and rows
 * between m and ldc that changed. */
static long judge(const struct gb_problem *p, const void *before, bool whole)
{
    static const double unit[GB_TYPES] = {
        [GB_F16] = FLT_EPSILON / 2, [GB_BF16] = FLT_EPSILON / 2,
        [GB_F32] = FLT_EPSILON / 2, [GB_F64] = DBL_EPSILON / 2,
        [GB_C32] = FLT_EPSILON / 2, [GB_C64] = DBL_EPSILON / 2};
    double last = p->type_c == GB_F16 ? 0x1p-11 : p->type_c == GB_BF16 ? 0x1p-8 : 0;
    size_t size = gb_type_size(p->type_c);
    long wrong = 0;

    for (int64_t j = 0; j < p->n; j++) {
        const char *old = (const char *)before + (size_t)(p->m + j * p->ldc) * size;
        const char *new = (const char *)p->c + (size_t)(p->m + j * p->ldc) * size;

        wrong += memcmp(old, new, (size_t)(p->ldc - p->m) * size) != 0;
        for (int64_t i = 0; i < p->m; i++) {
            struct sum s = exact(p, before, i, j);
            long double k = (long double)(gb_is_complex(p->type) ? 2 * p->k : p->k) + 2;
            long double bound = whole ? 0
                                      : k * unit[p->type] * s.size +
                                            last * (fabsl(s.re) + s.size * 1e-6);
            long double re = get(p->c, i + j * p->ldc, p->type_c, 0);
            long double im =
                gb_is_complex(p->type) ? get(p->c, i + j * p->ldc, p->type_c, 1) : s.im;

            /* Written so that a NaN is wrong. */
            wrong += !(fabsl(re - s.re) <= bound) || !(fabsl(im - s.im) <= bound);
        }
    }
    return wrong;
}

static void products(enum gb_type type, enum gb_type type_c,
                     void (*run)(const struct gb_problem *), const char *how)
{
    static const int64_t shape[][3] = {{1, 1, 1},   {3, 5, 7},     {4, 4, 4},
                                       {64, 64, 3}, {65, 67, 129}, {130, 1, 300},
                                       {1, 70, 33}, {5, 6, 0},     {70, 40, 257}};
    static const struct gb_scalar scalar[] = {{1, 0}, {0, 0}, {-2, 0}, {1, 1}, {0, -1}};
    int scalars = gb_is_complex(type) ? 5 : 3;

    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        bool whole =
            type_c != GB_F16 && type_c != GB_BF16 ? i % 2 == 0 : shape[i][2] < 8;
        long wrong = 0;
        bool large = shape[i][0] * shape[i][1] * shape[i][2] > 50000;

        /* 7 is prime to 16 and to the number of scalars. */
        for (int t = 0; t < 16 * scalars; t += large ? 7 : 1) {
            struct gb_problem p = {.type = type,
                                   .type_c = type_c,
                                   .transa = (enum gb_trans)(t % 4),
                                   .transb = (enum gb_trans)(t / 4 % 4),
                                   .m = shape[i][0],
                                   .n = shape[i][1],
                                   .k = shape[i][2],
                                   .alpha = scalar[t / 16],
                                   .beta = scalar[(int)(next() % 7) % scalars]};
            int64_t ca = is_trans(p.transa) ? p.m : p.k,
                    cb = is_trans(p.transb) ? p.k : p.n;
            void *a, *b, *before;

            p.lda = (is_trans(p.transa) ? p.k : p.m) + 1 + next() % 3;
            p.ldb = (is_trans(p.transb) ? p.n : p.k) + 1 + next() % 3;
            p.ldc = p.m + next() % 3;
            p.a = a = matrix(p.lda * ca, type, whole);
            p.b = b = matrix(p.ldb * cb, type, whole);
            p.c = matrix(p.ldc * p.n, type_c, whole);
            before = malloc((size_t)(p.ldc * p.n) * gb_type_size(type_c) + 1);
            if (p.beta.re == 0 && p.beta.im == 0)
                for (int64_t at = 0; at < p.ldc * p.n; at++)
                    for (int part = 0; part < 1 + gb_is_complex(type_c); part++)
                        put(p.c, at, type_c, part, NAN);
            memcpy(before, p.c, (size_t)(p.ldc * p.n) * gb_type_size(type_c));
            if (p.alpha.re == 0 && p.alpha.im == 0)
                p.a = p.b = NULL;
            run(&p);
            p.a = a;
            p.b = b;
            wrong += judge(&p, before, whole);
            free(a);
            free(b);
            free(p.c);
            free(before);
        }
        is_int(0, wrong, "%s %s -> %s, %lld x %lld x %lld%s", how, gb_type_name(type),
               gb_type_name(type_c), (long long)shape[i][0], (long long)shape[i][1],
               (long long)shape[i][2], whole ? ", exact" : "");
    }
}

/* alpha == 0 must not look at A, nor beta == 1 disturb the bits of a signalling NaN. */
static void untouched(void)
{
    const uint64_t bits = 0x7ff0000000000001;
    uint64_t after;
    double c, nan = NAN;
    struct gb_problem p = {.type = GB_F64,
                           .type_c = GB_F64,
                           .m = 1,
                           .n = 1,
                           .k = 1,
                           .alpha = {0, 0},
                           .beta = {1, 0},
                           .a = &nan,
                           .b = &nan,
                           .c = &c,
                           .lda = 1,
                           .ldb = 1,
                           .ldc = 1};

    memcpy(&c, &bits, sizeof c);
    gb_cpu_gemm(&p);
    memcpy(&after, &c, sizeof after);
    ok(after == bits, "B01 a signalling NaN stays");
    p.beta.re = 2;
    c = 3;
    gb_cpu_gemm(&p);
    ok(c == 6, "B01 alpha 0 does not read A");
    p.alpha.re = 1;
    p.beta.re = 0;
    gb_cpu_gemm(&p);
    ok(isnan(c), "NaN propagates");
}

/* What is left of a plan, in panels and pieces that divide nothing evenly. */
static void finish(void)
{
    enum { M = 23, N = 17, K = 5 };
    double *a = matrix(M * K, GB_F64, true), *b = matrix(K * N, GB_F64, true);
    double *c = matrix(M * N, GB_F64, true), *before = malloc(sizeof *before * M * N);
    struct gb_plan plan = {.p = {.type = GB_F64,
                                 .type_c = GB_F64,
                                 .transa = GB_T,
                                 .m = M,
                                 .n = N,
                                 .k = K,
                                 .alpha = {2, 0},
                                 .beta = {-1, 0},
                                 .a = a,
                                 .b = b,
                                 .c = c,
                                 .lda = K,
                                 .ldb = K,
                                 .ldc = M},
                           .panel_m = 9,
                           .panel_n = 7,
                           .panel_k = 5,
                           .rows_first = true,
                           .piece_rows = 4,
                           .piece_cols = 5};
    int64_t total = 0;

    memcpy(before, c, sizeof *c * M * N);
    for (int64_t i = 0; i < gb_plan_panels(&plan); i++)
        total +=
            gb_rect_pieces(gb_plan_panel(&plan, i), plan.piece_rows, plan.piece_cols);
    for (int64_t done = 0; done <= total; done += 3) {
        long wrong = 0, index = 0;

        memcpy(c, before, sizeof *c * M * N);
        gb_cpu_finish(&plan, done);
        for (int64_t i = 0; i < gb_plan_panels(&plan); i++) {
            struct gb_rect panel = gb_plan_panel(&plan, i);

            for (int64_t j = 0;
                 j < gb_rect_pieces(panel, plan.piece_rows, plan.piece_cols);
                 j++, index++) {
                struct gb_rect r =
                    gb_rect_piece(panel, plan.piece_rows, plan.piece_cols, j);

                for (int64_t y = r.j; y < r.j + r.n; y++)
                    for (int64_t x = r.i; x < r.i + r.m; x++) {
                        double want = index < done
                                          ? before[x + y * M]
                                          : (double)exact(&plan.p, before, x, y).re;

                        wrong += c[x + y * M] != want;
                    }
            }
        }
        is_int(0, wrong, "the pieces from %lld of %lld on are computed, no others",
               (long long)done, (long long)total);
    }
    free(a);
    free(b);
    free(c);
    free(before);
}

int main(void)
{
    static const enum gb_type pair[][2] = {
        {GB_F32, GB_F32}, {GB_F64, GB_F64}, {GB_C32, GB_C32},   {GB_C64, GB_C64},
        {GB_F16, GB_F16}, {GB_F16, GB_F32}, {GB_BF16, GB_BF16}, {GB_BF16, GB_F32}};

    /* Threads for products this small only wait for each other. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    plan_lazy();
    diag("the BLAS behind: %s", gb_real_path(gb_real_any("sgemm", NULL).fn));
    conversions();
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        products(pair[i][0], pair[i][1], gb_cpu_gemm, "portable");
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        products(pair[i][0], pair[i][1], gb_cpu_real_gemm, "real");
    untouched();
    finish();
    return 0;
}
