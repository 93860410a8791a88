/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference product, and the comparison of a call with it. */
#include "verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* ---- reference ------------------------------------------------------------------- */

/* op(A) by rows or op(B) by columns, parts apart, k side by side, so that the reference
 * runs over contiguous memory. */
struct packed {
    double *re, *im;     /* im is NULL for real types */
    const int64_t *line; /* the row or column that each packed line holds */
    int64_t k;
};

static struct verify_value operand(const struct verify_matrix *x, enum gb_trans t,
                                   int64_t i, int64_t j)
{
    struct verify_value v =
        gb_transposed(t) ? verify_get(x, j, i) : verify_get(x, i, j);

    if (t == GB_C || t == GB_CONJ)
        v.im = -v.im;
    return v;
}

static struct packed pack(const struct verify_matrix *x, enum gb_trans t, bool right,
                          const int64_t *line, int64_t count, int64_t k)
{
    size_t bytes = (size_t)(count * k + 1) * sizeof(double);
    struct packed p = {.re = malloc(bytes), .line = line, .k = k};

    if (gb_is_complex(x->type))
        p.im = malloc(bytes);
    if (!p.re || (gb_is_complex(x->type) && !p.im))
        bail("no memory");
    for (int64_t i = 0; i < count; i++) {
        for (int64_t l = 0; l < k; l++) {
            struct verify_value v =
                right ? operand(x, t, l, line[i]) : operand(x, t, line[i], l);

            p.re[i * k + l] = (double)v.re;
            if (p.im)
                p.im[i * k + l] = (double)v.im;
        }
    }
    return p;
}

/* A sum of products and the sum of their absolute values. Products of f32 are exact in
 * double, and double's own error is then far below the bound; f64 needs long double. */
struct dot {
    long double sum, abs;
};

static struct dot dot_short(const double *a, const double *b, int64_t k)
{
    double sum = 0, abs = 0;

    for (int64_t l = 0; l < k; l++) {
        double x = a[l] * b[l];

        sum += x;
        abs += fabs(x);
    }
    return (struct dot){.sum = sum, .abs = abs};
}

static struct dot dot_long(const double *a, const double *b, int64_t k)
{
    struct dot d = {.sum = 0};

    for (int64_t l = 0; l < k; l++) {
        long double x = (long double)a[l] * b[l];

        d.sum += x;
        d.abs += fabsl(x);
    }
    return d;
}

/* What C(i,j) should be, the gauge G of each part, and the part of it that is
 * beta*C. */
struct wanted {
    struct verify_value value, g, beta_c;
};

static struct wanted reference(const struct verify_gemm *g, enum verify_how how,
                               const struct packed *a, const struct packed *b,
                               int64_t ia, int64_t jb, struct verify_value before)
{
    struct dot (*dot)(const double *, const double *, int64_t) =
        verify_part(g->f->type) == GB_F64 && how != VERIFY_EXACT ? dot_long : dot_short;
    long double ar = g->alpha.re, ai = g->alpha.im, br = g->beta.re, bi = g->beta.im;
    struct verify_value s = {.re = 0}, abs = {.re = 0};
    struct wanted w = {.value = {.re = 0}};
    int64_t k = g->k;

    if (g->k > 0 && a->re && b->re) { /* packed unless alpha is 0 */
        struct dot rr = dot(a->re + ia * k, b->re + jb * k, k);

        s.re = rr.sum;
        abs.re = rr.abs;
        if (a->im) {
            struct dot ii = dot(a->im + ia * k, b->im + jb * k, k);
            struct dot ri = dot(a->re + ia * k, b->im + jb * k, k);
            struct dot ir = dot(a->im + ia * k, b->re + jb * k, k);

            s.re -= ii.sum;
            abs.re += ii.abs;
            s.im = ri.sum + ir.sum;
            abs.im = ri.abs + ir.abs;
        }
        w.value.re = ar * s.re;
        w.g.re = fabsl(ar) * abs.re;
        if (a->im) {
            w.value.re -= ai * s.im;
            w.g.re += fabsl(ai) * abs.im;
            w.value.im = ar * s.im + ai * s.re;
            w.g.im = fabsl(ar) * abs.im + fabsl(ai) * abs.re;
        }
    }
    if (br != 0 || bi != 0) {
        w.value.re += br * before.re;
        w.beta_c.re = fabsl(br * before.re);
        if (gb_is_complex(g->f->type_c)) {
            w.value.re -= bi * before.im;
            w.beta_c.re += fabsl(bi * before.im);
            w.value.im += br * before.im + bi * before.re;
            w.beta_c.im = fabsl(br * before.im) + fabsl(bi * before.re);
        }
    }
    return w;
}

/* ---- comparison ------------------------------------------------------------------ */

/* Unit roundoff of a type. */
static long double roundoff(enum gb_type t)
{
    switch (verify_part(t)) {
    case GB_F16:
        return 0x1p-11L;
    case GB_BF16:
        return 0x1p-8L;
    case GB_F32:
        return 0x1p-24L;
    default:
        return 0x1p-53L;
    }
}

static bool part_right(const struct verify_gemm *g, enum verify_how how,
                       long double want, long double seen, long double gauge,
                       long double beta_c)
{
    enum gb_type type_c = verify_part(g->f->type_c);
    char rounded[16];
    long double want_rounded, u, error, terms, allowed;

    verify_store(type_c, rounded, (struct verify_value){.re = want});
    want_rounded = verify_load(type_c, rounded).re;
    if (isnan(want_rounded) || isnan(seen))
        return isnan(want_rounded) && isnan(seen);
    if (seen == want_rounded)
        return true;
    if (how == VERIFY_EXACT || isinf(want_rounded) || isinf(seen))
        return false;
    u = roundoff(verify_part(g->f->type) == GB_F64 ? GB_F64 : GB_F32);
    error = fabsl(seen - want);
    /* One rounding to a C that is shorter than the accumulator; its smallest step when
     * the result is subnormal. */
    allowed = 0;
    if (roundoff(type_c) > u)
        allowed = roundoff(type_c) * fabsl(want) + (type_c == GB_F16 ? 0x1p-25L : 0);
    if (how == VERIFY_BOUND) {
        terms = (long double)g->k * (gb_is_complex(g->f->type) ? 2 : 1) + 2;
        if (error >
            (terms * u * gauge + 2 * u * beta_c) * (1 + roundoff(type_c)) + allowed)
            return false;
    }
    return error < 16 * 2 * u * (gauge + beta_c) + allowed;
}

static bool element_right(const struct verify_gemm *g, enum verify_how how,
                          const struct wanted *w, int64_t i, int64_t j, char *why,
                          size_t len)
{
    struct verify_value seen = verify_get(&g->c, i, j);
    char call[256];

    if (part_right(g, how, w->value.re, seen.re, w->g.re, w->beta_c.re) &&
        (!gb_is_complex(g->f->type_c) ||
         part_right(g, how, w->value.im, seen.im, w->g.im, w->beta_c.im)))
        return true;
    verify_describe(g, call, sizeof call);
    snprintf(why, len,
             "C(%lld,%lld) is %.17Lg%+.17Lgi, not %.17Lg%+.17Lgi (G %.3Lg): %s",
             (long long)i, (long long)j, seen.re, seen.im, w->value.re, w->value.im,
             w->g.re + w->beta_c.re, call);
    return false;
}

/* Which rows (or columns) to compare: all, or edges and random ones. Returns how
 * many. */
static int64_t choose(int64_t n, int64_t most, int64_t *line)
{
    struct verify_random r = verify_seed((uint64_t)n);

    if (n <= most) {
        for (int64_t i = 0; i < n; i++)
            line[i] = i;
        return n;
    }
    for (int64_t i = 0; i < most; i++)
        line[i] = i < 2 ? i : i < 4 ? n - 1 - (i - 2) : verify_below(&r, n);
    return most;
}

static bool check(const struct verify_gemm *g, enum verify_how how, char *why,
                  size_t len)
{
    struct verify_matrix c0 = g->c; /* C as it was */
    int64_t most_rows = g->m, most_cols = g->n, rows, cols;
    int64_t *row, *col;
    struct packed a = {.re = NULL}, b = {.re = NULL};
    char call[256];
    bool right = true;

    verify_describe(g, call, sizeof call);
    if (!verify_untouched(&g->a) || !verify_untouched(&g->b)) {
        snprintf(why, len, "an input has changed: %s", call);
        return false;
    }
    if (!verify_gaps_untouched(&g->c)) {
        snprintf(why, len, "memory that is not C's has changed: %s", call);
        return false;
    }
    /* About 2^26 multiply-adds of reference at most. */
    if ((double)g->m * (double)g->n * (double)(g->k + 1) > 0x1p26) {
        most_rows = g->m < 97 ? g->m : 97;
        most_cols = (int64_t)(0x1p26 / (double)(g->k + 1) / (double)most_rows) + 5;
        if (most_cols > 2000)
            most_cols = 2000;
    }
    row = malloc((size_t)(g->m + 1) * sizeof *row);
    col = malloc((size_t)(g->n + 1) * sizeof *col);
    if (!row || !col)
        bail("no memory");
    rows = choose(g->m, most_rows, row);
    cols = choose(g->n, most_cols, col);
    c0.at = c0.before + ((const char *)g->c.at - g->c.data);
    if (g->alpha.re != 0 || g->alpha.im != 0) {
        a = pack(&g->a, g->transa, false, row, rows, g->k);
        b = pack(&g->b, g->transb, true, col, cols, g->k);
    }
    for (int64_t j = 0; right && j < cols; j++) {
        for (int64_t i = 0; right && i < rows; i++) {
            struct wanted w =
                reference(g, how, &a, &b, i, j, verify_get(&c0, row[i], col[j]));

            right = element_right(g, how, &w, row[i], col[j], why, len);
        }
    }
    free(a.re);
    free(a.im);
    free(b.re);
    free(b.im);
    free(row);
    free(col);
    return right;
}

/* ---- one call -------------------------------------------------------------------- */

/* What the BLAS behind does with it is right, whatever that is: the same bytes, gaps
 * included. */
static bool as_direct(const struct verify_gemm *g, const struct verify_flavour *direct,
                      char *why, size_t len)
{
    struct verify_gemm again = *g;
    char *seen = malloc(g->c.data_bytes + 1), call[256];
    bool same;

    if (!seen)
        bail("no memory");
    memcpy(seen, g->c.data, g->c.data_bytes);
    memcpy(g->c.data, g->c.before, g->c.data_bytes);
    again.f = direct;
    /* The reference's cblas_dgemm calls dgemm_, which is ours. */
    verify_gemm_untraced(&again);
    same = memcmp(seen, g->c.data, g->c.data_bytes) == 0;
    memcpy(g->c.data, seen, g->c.data_bytes);
    free(seen);
    verify_describe(g, call, sizeof call);
    if (!same)
        snprintf(why, len, "not what the BLAS behind makes of it: %s", call);
    return same;
}

bool verify_gemm_run(struct verify_gemm *g, enum verify_how how, char *why, size_t len)
{
    struct verify_flavour direct;

    verify_freeze(&g->a, true);
    verify_freeze(&g->b, true);
    verify_freeze(&g->c, false);
    verify_watch(g);
    verify_gemm_call(g);
    if ((g->k == 0 || (g->alpha.re == 0 && g->alpha.im == 0)) &&
        verify_direct(g->f, &direct))
        return as_direct(g, &direct, why, len);
    return check(g, how, why, len);
}

bool verify_gemm_integers(struct verify_gemm *g, enum verify_fill c,
                          const int64_t extra[3], enum verify_place place,
                          struct verify_random *r, char *why, size_t len)
{
    bool right;

    verify_gemm_make(g, VERIFY_INTEGERS, c, extra, place, r);
    right = verify_gemm_run(g, VERIFY_EXACT, why, len);
    verify_gemm_drop(g);
    return right;
}
