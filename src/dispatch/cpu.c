/* SPDX-License-Identifier: BSD-3-Clause */
/* Products on the CPU: ours where no BLAS has the name, and what a failing device
 * left. */
#include "cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_fma.h"

#include "activate.h"
#include "fpstate.h"
#include "half.h"
#include "real.h"
#include "util.h"

/* The portable product works on blocks of C of BLOCK x BLOCK, DEPTH of k at a time, in
 * squares of GROUP; the halves convert panels of PANEL x PANEL. */
enum { GROUP = 4, BLOCK = 64, DEPTH = 128, PANEL = 512 };

/* Sums that wait for what is fused to them. */
enum { SUMS_BYTES = 8 << 20, FEW_BYTES = 512 };

_Static_assert(BLOCK % GROUP == 0, "blocks are made of groups");

static bool is_trans(enum gb_trans t)
{
    return t == GB_T || t == GB_C;
}

static bool is_conj(enum gb_trans t)
{
    return t == GB_C || t == GB_CONJ;
}

#define T float
#define COMPLEX 0
#define NAME(x) x##_f32
#include "cpu_gemm.h"
#define T double
#define COMPLEX 0
#define NAME(x) x##_f64
#include "cpu_gemm.h"
#define T float
#define COMPLEX 1
#define NAME(x) x##_c32
#include "cpu_gemm.h"
#define T double
#define COMPLEX 1
#define NAME(x) x##_c64
#include "cpu_gemm.h"

/* ---- halves ---------------------------------------------------------------------- */

static float load(const void *base, int64_t at, enum gb_type type)
{
    if (type == GB_F32)
        return ((const float *)base)[at];
    return type == GB_F16 ? gb_f16_to_f32(((const uint16_t *)base)[at])
                          : gb_bf16_to_f32(((const uint16_t *)base)[at]);
}

static void store(void *base, int64_t at, enum gb_type type, float value)
{
    if (type == GB_F32)
        ((float *)base)[at] = value;
    else
        ((uint16_t *)base)[at] =
            type == GB_F16 ? gb_f32_to_f16(value) : gb_f32_to_bf16(value);
}

/* out (rows x cols, packed) = op(X)(i:i+rows, j:j+cols) */
static void widen(float *out, const void *x, int64_t ld, bool trans, enum gb_type type,
                  struct gb_rect r)
{
    for (int64_t j = 0; j < r.n; j++)
        for (int64_t i = 0; i < r.m; i++)
            out[i + j * r.m] = load(
                x, trans ? r.j + j + (r.i + i) * ld : r.i + i + (r.j + j) * ld, type);
}

/* C(r) = alpha sum + beta C(r), rounded once to the type of C; sum of NULL: no
 * product. */
static void narrow(const struct gb_problem *p, struct gb_rect r, const float *sum)
{
    const float alpha = (float)p->alpha.re, beta = (float)p->beta.re;

    for (int64_t j = 0; j < r.n; j++)
        for (int64_t i = 0; i < r.m; i++) {
            int64_t at = r.i + i + (r.j + j) * p->ldc;
            float c = beta == 0 ? 0 : beta * load(p->c, at, p->type_c);

            if (sum)
                c = alpha * sum[i + j * r.m] + c;
            store(p->c, at, p->type_c, c);
        }
}

/* One panel of C: its sum over all of k in fp32, through sgemm. */
static void half_panel(const struct gb_problem *p, struct gb_rect r, float *work)
{
    float *sum = work, *a = sum + PANEL * PANEL, *b = a + PANEL * PANEL;
    struct gb_problem q = {.op = GB_GEMM,
                           .type = GB_F32,
                           .type_c = GB_F32,
                           .m = r.m,
                           .n = r.n,
                           .alpha = {1, 0},
                           .a = a,
                           .b = b,
                           .c = sum,
                           .lda = r.m,
                           .ldc = r.m};

    for (int64_t l = 0; l < p->k; l += PANEL) {
        q.k = gb_min(PANEL, p->k - l);
        q.ldb = q.k;
        widen(a, p->a, p->lda, is_trans(p->transa), p->type,
              (struct gb_rect){.i = r.i, .j = l, .m = r.m, .n = q.k});
        widen(b, p->b, p->ldb, is_trans(p->transb), p->type,
              (struct gb_rect){.i = l, .j = r.j, .m = q.k, .n = r.n});
        q.beta.re = l > 0;
        gb_cpu_real_gemm(&q);
    }
    narrow(p, r, sum);
}

/* Without workspace */
static void half_direct(const struct gb_problem *p, struct gb_rect r)
{
    bool ta = is_trans(p->transa), tb = is_trans(p->transb);

    for (int64_t j = r.j; j < r.j + r.n; j++)
        for (int64_t i = r.i; i < r.i + r.m; i++) {
            float sum = 0;

            for (int64_t l = 0; l < p->k; l++)
                sum += load(p->a, ta ? l + i * p->lda : i + l * p->lda, p->type) *
                       load(p->b, tb ? j + l * p->ldb : l + j * p->ldb, p->type);
            narrow(p, (struct gb_rect){i, j, 1, 1}, &sum);
        }
}

static void half(const struct gb_problem *p)
{
    const struct gb_rect whole = {.m = p->m, .n = p->n};
    float *work;

    if (p->k == 0 || p->alpha.re == 0) {
        if (p->beta.re != 1)
            narrow(p, whole, NULL);
        return;
    }
    work = malloc(sizeof(float) * 3 * PANEL * PANEL);
    if (!work) {
        half_direct(p, whole);
        return;
    }
    for (int64_t i = 0; i < gb_rect_pieces(whole, PANEL, PANEL); i++)
        half_panel(p, gb_rect_piece(whole, PANEL, PANEL, i), work);
    free(work);
}

void gb_cpu_gemm(const struct gb_problem *p)
{
    int saved = errno;

    switch (p->type) {
    case GB_I8:
        gb_cpu_integer_gemm(p);
        break;
    case GB_F32:
        portable_f32(p);
        break;
    case GB_F64:
        portable_f64(p);
        break;
    case GB_C32:
        portable_c32(p);
        break;
    case GB_C64:
        portable_c64(p);
        break;
    default:
        half(p);
    }
    errno = saved;
}

/* ---- through the real BLAS ------------------------------------------------------- */

typedef void (*gb_f77_gemm_fn)(const char *, const char *, const void *, const void *,
                               const void *, const void *, const void *, const void *,
                               const void *, const void *, const void *, void *,
                               const void *, size_t, size_t);

/* An integer that a routine of either width reads. */
union integer {
    int32_t narrow;
    int64_t wide;
};

static union integer integer(int64_t i, enum gb_int_width width)
{
    union integer u = {.wide = 0};

    if (width == GB_INT64)
        u.wide = i;
    else
        u.narrow = (int32_t)i;
    return u;
}

static void call_real(struct gb_provider real, const struct gb_problem *p)
{
    union integer m = integer(p->m, real.width), n = integer(p->n, real.width);
    union integer k = integer(p->k, real.width), lda = integer(p->lda, real.width);
    union integer ldb = integer(p->ldb, real.width), ldc = integer(p->ldc, real.width);
    float alpha32[2] = {(float)p->alpha.re, (float)p->alpha.im};
    float beta32[2] = {(float)p->beta.re, (float)p->beta.im};
    bool single = p->type == GB_F32 || p->type == GB_C32;
    bool locked = gb_real_lock();

    ((gb_f77_gemm_fn)real.fn)(
        gb_trans_name(p->transa), gb_trans_name(p->transb), &m, &n, &k,
        single ? (const void *)alpha32 : (const void *)&p->alpha, p->a, &lda, p->b,
        &ldb, single ? (const void *)beta32 : (const void *)&p->beta, p->c, &ldc, 1, 1);
    if (locked)
        gb_real_unlock();
}

void gb_cpu_real_gemm(const struct gb_problem *p)
{
    static const char *const base[GB_TYPES] = {
        [GB_F32] = "sgemm", [GB_F64] = "dgemm", [GB_C32] = "cgemm", [GB_C64] = "zgemm"};
    struct gb_provider real = {0};
    struct gb_problem q = *p;

    if (!gb_is_complex(p->type)) {
        q.transa = is_trans(p->transa) ? GB_T : GB_N;
        q.transb = is_trans(p->transb) ? GB_T : GB_N;
    }
    /* Nothing to multiply: some BLAS libraries read A and B all the same. */
    if (base[p->type] && p->k > 0 && (p->alpha.re != 0 || p->alpha.im != 0))
        real = gb_real_any(base[p->type], NULL);
    if (!real.fn || (!real.conj && (q.transa == GB_CONJ || q.transb == GB_CONJ)) ||
        (real.width == GB_INT32 &&
         gb_max(gb_max(gb_max(p->m, p->k), gb_max(p->lda, p->ldb)), p->ldc) >
             INT32_MAX)) {
        gb_cpu_gemm(p);
        return;
    }
    /* The one size that no leading dimension bounds; columns are independent. */
    for (int64_t j = 0; j < p->n || j == 0; j += INT32_MAX) {
        int64_t step = is_trans(q.transb) ? 1 : q.ldb;
        size_t size = gb_type_size(p->type);

        q.n = gb_min(INT32_MAX, p->n - j);
        q.b = (const char *)p->b + (size_t)(j * step) * size;
        q.c = (char *)p->c + (size_t)(j * q.ldc) * size;
        call_real(real, &q);
    }
}

/* ---- the rest of a plan ---------------------------------------------------------- */

/* The product that makes one rectangle of C. */
static struct gb_problem part(const struct gb_problem *p, struct gb_rect r)
{
    struct gb_problem q = *p;
    int64_t a = is_trans(p->transa) ? r.i * p->lda : r.i;
    int64_t b = is_trans(p->transb) ? r.j : r.j * p->ldb;

    q.m = r.m;
    q.n = r.n;
    q.a = (const char *)p->a + (size_t)a * gb_type_size(p->type);
    q.b = (const char *)p->b + (size_t)b * gb_type_size(p->type);
    q.c = (char *)p->c + (size_t)(r.i + r.j * p->ldc) * gb_type_size(p->type_c);
    return q;
}

/* ---- what is fused ---------------------------------------------------------------- */

static double load_f64(const void *base, int64_t at, enum gb_type type)
{
    (void)type;
    return ((const double *)base)[at];
}

static struct gb_c32 load_c32(const void *base, int64_t at, enum gb_type type)
{
    (void)type;
    return ((const struct gb_c32 *)base)[at];
}

static struct gb_c64 load_c64(const void *base, int64_t at, enum gb_type type)
{
    (void)type;
    return ((const struct gb_c64 *)base)[at];
}

static void store_f64(void *base, int64_t at, enum gb_type type, double value)
{
    (void)type;
    ((double *)base)[at] = value;
}

static void store_c32(void *base, int64_t at, enum gb_type type, struct gb_c32 value)
{
    (void)type;
    ((struct gb_c32 *)base)[at] = value;
}

static void store_c64(void *base, int64_t at, enum gb_type type, struct gb_c64 value)
{
    (void)type;
    ((struct gb_c64 *)base)[at] = value;
}

#define load_f32 load
#define store_f32 store
#define SCALAR_f32(s) ((float)(s).re)
#define SCALAR_f64(s) ((s).re)
#define SCALAR_c32(s) ((struct gb_c32){(float)(s).re, (float)(s).im})
#define SCALAR_c64(s) ((struct gb_c64){(s).re, (s).im})
#define NOTHING_f32 (-0.0f)
#define NOTHING_f64 (-0.0)
#define NOTHING_c32 ((struct gb_c32){-0.0f, -0.0f})
#define NOTHING_c64 ((struct gb_c64){-0.0, -0.0})
#define ACTIVATED_f32(x, y) gb_activate_f32((x)->activation, y)
#define ACTIVATED_f64(x, y) gb_activate_f64((x)->activation, y)
#define ACTIVATED_c32(x, y) (y)
#define ACTIVATED_c64(x, y) (y)

/* C(r) from its sums. */
#define EXTRA_OF(t, T, real, acc)                                                      \
    static void extra_##t(const struct gb_problem *p, struct gb_rect r, const T *sums) \
    {                                                                                  \
        const struct gb_extra *x = p->extra;                                           \
        const real *rows = x->row_scale, *cols = x->col_scale;                         \
        const T alpha = SCALAR_##t(p->alpha), scalar = SCALAR_##t(p->beta);            \
        const bool read = p->beta.re != 0 || p->beta.im != 0;                          \
        const T beta = read ? scalar : gb_unread_##t(alpha);                           \
        const enum gb_type wide = x->bias_wide ? acc : p->type_c;                      \
                                                                                       \
        for (int64_t j = 0; j < r.n; j++)                                              \
            for (int64_t i = 0; i < r.m; i++) {                                        \
                const int64_t at = r.i + i + (r.j + j) * p->ldc;                       \
                T old = {0}, bias = NOTHING_##t, y;                                    \
                                                                                       \
                if (read)                                                              \
                    old = load_##t(p->c, at, p->type_c);                               \
                if (x->bias)                                                           \
                    bias = load_##t(x->bias, x->bias_cols ? r.j + j : r.i + i, wide);  \
                y = gb_fused_##t(                                                      \
                    alpha, (rows ? rows[r.i + i] : 1) * (cols ? cols[r.j + j] : 1),    \
                    sums[i + j * r.m], beta, old, bias);                               \
                store_##t(p->c, at, p->type_c, ACTIVATED_##t(x, y));                   \
            }                                                                          \
    }

EXTRA_OF(f32, float, float, GB_F32)
EXTRA_OF(f64, double, double, GB_F64)
EXTRA_OF(c32, struct gb_c32, float, GB_C32)
EXTRA_OF(c64, struct gb_c64, double, GB_C64)

static void extra(const struct gb_problem *p, struct gb_rect r, const void *sums)
{
    uint64_t fp = gb_fp_enter();

    switch (p->type) {
    case GB_F64:
        extra_f64(p, r, sums);
        break;
    case GB_C32:
        extra_c32(p, r, sums);
        break;
    case GB_C64:
        extra_c64(p, r, sums);
        break;
    default:
        extra_f32(p, r, sums);
    }
    gb_fp_leave(fp);
}

void gb_cpu_extra_gemm(const struct gb_problem *p)
{
    const struct gb_rect whole = {.m = p->m, .n = p->n};
    enum gb_type acc = gb_type_acc(p->type);
    int64_t size = (int64_t)gb_type_size(acc), rows, cols;
    _Alignas(16) char few[FEW_BYTES] = {0}; /* where there is no memory */
    size_t bytes = (size_t)gb_min(p->m * p->n * size, SUMS_BYTES);
    char *sums;
    int64_t most;

    if (!p->extra || p->type == GB_I8) { /* of which the product takes care itself */
        gb_cpu_real_gemm(p);
        return;
    }
    sums = calloc(1, bytes);
    most = (sums ? (int64_t)bytes : FEW_BYTES) / size;
    rows = gb_max(1, gb_min(p->m, most));
    cols = gb_max(1, gb_min(p->n, most / rows));
    for (int64_t i = 0; i < gb_rect_pieces(whole, rows, cols); i++) {
        struct gb_rect r = gb_rect_piece(whole, rows, cols, i);
        struct gb_problem q = part(p, r);

        q.type_c = acc;
        q.alpha = (struct gb_scalar){1, 0};
        q.beta = (struct gb_scalar){0, 0};
        q.c = sums ? sums : few;
        q.ldc = r.m;
        q.extra = NULL;
        if (p->alpha.re != 0 || p->alpha.im != 0)
            gb_cpu_real_gemm(&q);
        extra(p, r, q.c);
    }
    free(sums);
}

/* ---- the rest of a plan, continued ------------------------------------------------ */

/* One entry on from another: of C's rows, or its columns. */
static const void *entry(const void *vector, int64_t at, enum gb_type type)
{
    return vector ? (const char *)vector + at * (int64_t)gb_type_size(type) : NULL;
}

/* What is fused to one rectangle of C. */
static struct gb_extra extra_part(const struct gb_problem *p, struct gb_rect r)
{
    struct gb_extra x = *p->extra;
    enum gb_type acc = gb_type_acc(p->type), part_type = gb_type_part(acc);

    x.bias = entry(x.bias, x.bias_cols ? r.j : r.i, x.bias_wide ? acc : p->type_c);
    x.row_scale = entry(x.row_scale, r.i, part_type);
    x.col_scale = entry(x.col_scale, r.j, part_type);
    return x;
}

void gb_cpu_finish(const struct gb_plan *plan, int64_t done)
{
    for (int64_t i = 0; i < gb_plan_panels(plan); i++) {
        struct gb_rect panel = gb_plan_panel(plan, i);
        int64_t pieces = gb_rect_pieces(panel, plan->piece_rows, plan->piece_cols);

        for (int64_t j = gb_min(done, pieces); j < pieces; j++) {
            struct gb_rect r =
                gb_rect_piece(panel, plan->piece_rows, plan->piece_cols, j);
            struct gb_problem q = part(&plan->p, r);
            struct gb_extra x;

            if (q.extra) {
                x = extra_part(&plan->p, r);
                q.extra = &x;
            }
            gb_cpu_extra_gemm(&q);
        }
        done = gb_max(0, done - pieces);
    }
}
