/* SPDX-License-Identifier: BSD-3-Clause */
/* Products on the CPU: ours where no BLAS has the name, and what a failing device
 * left. */
#include "cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "real.h"
#include "util.h"

/* The portable product works on blocks of C of BLOCK x BLOCK, DEPTH of k at a time, in
 * squares of GROUP; the halves convert panels of PANEL x PANEL. */
enum { GROUP = 4, BLOCK = 64, DEPTH = 128, PANEL = 512 };

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

void gb_cpu_finish(const struct gb_plan *plan, int64_t done)
{
    for (int64_t i = 0; i < gb_plan_panels(plan); i++) {
        struct gb_rect panel = gb_plan_panel(plan, i);
        int64_t pieces = gb_rect_pieces(panel, plan->piece_rows, plan->piece_cols);

        for (int64_t j = gb_min(done, pieces); j < pieces; j++) {
            struct gb_problem q = part(
                &plan->p, gb_rect_piece(panel, plan->piece_rows, plan->piece_cols, j));

            gb_cpu_real_gemm(&q);
        }
        done = gb_max(0, done - pieces);
    }
}
