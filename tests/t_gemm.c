/* SPDX-License-Identifier: BSD-3-Clause */
/* Random property tests of every exported gemm: each flavour and type against the
 * reference product, with guard pages around all operands and signalling NaNs in every
 * gap. Whether a device really served is read from the trace. GEMMBLAS_ROUTE=cpu runs
 * the same through the real BLAS and the portable routines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "verify.h"

static const struct {
    int64_t m, n, k;
    bool large;
} shapes[] = {
#define SHAPE(m, n, k) {m, n, k, false},
#define LARGE(m, n, k) {m, n, k, true},
#include "shapes.def"
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static bool device; /* calls are meant for one */
static int rounds = 12;
static char why[640];

/* A scalar that a BLAS treats specially, or an ordinary one. */
static struct gb_scalar scalar(struct verify_random *r, const struct verify_flavour *f,
                               bool whole)
{
    static const double real[] = {1, 1, 0, -1, 2, 0.5, -0.75};
    int choices = whole ? 5 : 7;
    struct gb_scalar s = {.re = real[verify_below(r, choices)]};

    if (gb_is_complex(f->type) && verify_below(r, 2) == 0)
        s.im = real[verify_below(r, choices)];
    return s;
}

static enum gb_trans any_trans(const struct verify_flavour *f, struct verify_random *r)
{
    enum gb_trans t = (enum gb_trans)verify_below(r, 4);

    return t == GB_CONJ && !verify_takes_conj(f) ? GB_N : t;
}

/* A random call of f. */
static struct verify_gemm draw(const struct verify_flavour *f, struct verify_random *r,
                               bool whole)
{
    struct verify_gemm g = {.f = f};
    int s;

    do
        s = (int)verify_below(r, SHAPES);
    while (shapes[s].large);
    g.m = shapes[s].m;
    g.n = shapes[s].n;
    g.k = shapes[s].k;
    g.row_major = f->interface == VERIFY_CBLAS && verify_below(r, 2);
    g.transa = any_trans(f, r);
    g.transb = any_trans(f, r);
    g.alpha = scalar(r, f, whole);
    g.beta = scalar(r, f, whole);
    return g;
}

static void make(struct verify_gemm *g, enum verify_fill ab, enum verify_fill c,
                 struct verify_random *r)
{
    static const int64_t extra[] = {0, 0, 1, 3, 8, 37};
    int64_t chosen[3];

    for (int i = 0; i < 3; i++)
        chosen[i] = extra[verify_below(r, 6)];
    verify_gemm_make(g, ab, c, chosen,
                     (enum verify_place)verify_below(r, VERIFY_PLACES), r);
}

/* Did the call just made go where it should have gone? */
static bool routed(const struct verify_gemm *g)
{
    struct verify_trace t = verify_trace_read();
    bool trivial =
        g->m == 0 || g->n == 0 || g->k == 0 || (g->alpha.re == 0 && g->alpha.im == 0);
    char call[256];

    verify_describe(g, call, sizeof call);
    if (t.calls < 1) {
        snprintf(why, sizeof why, "no trace of %s", call);
        return false;
    }
    if (t.on_gpu != (device && !trivial)) {
        snprintf(why, sizeof why, "route %s, why %s: %s", t.on_gpu ? "gpu" : "cpu",
                 t.why, call);
        return false;
    }
    if (t.m * t.n != g->m * g->n || t.k != g->k) {
        snprintf(why, sizeof why, "traced as %lld %lld %lld: %s", t.m, t.n, t.k, call);
        return false;
    }
    if (strcmp(t.routine, g->f->symbol) != 0) {
        snprintf(why, sizeof why, "traced as %s: %s", t.routine, call);
        return false;
    }
    return true;
}

/* The design's bound holds on the device; a real BLAS only has to meet netlib's
 * gauge. */
static enum verify_how tolerance(void)
{
    return device ? VERIFY_BOUND : VERIFY_GAUGE;
}

/* One property of one flavour over several random calls; two tests: right, and on the
 * device. */
static void property(const struct verify_flavour *f, const char *what, uint64_t seed,
                     int n,
                     void (*arrange)(struct verify_gemm *, struct verify_random *),
                     enum verify_fill ab, enum verify_fill c, enum verify_how how)
{
    struct verify_random r = verify_seed(seed * 1000 + (uint64_t)(f - verify_flavours));
    bool right = true, route = true;
    char first[640] = "";

    for (int i = 0; i < n; i++) {
        struct verify_gemm g = draw(f, &r, ab == VERIFY_INTEGERS);

        arrange(&g, &r);
        make(&g, ab, c, &r);
        if (!verify_gemm_run(&g, how, why, sizeof why)) {
            if (right)
                snprintf(first, sizeof first, "%s", why);
            right = false;
        }
        if (!routed(&g)) {
            if (route)
                diag("%s", why);
            route = false;
        }
        verify_gemm_drop(&g);
    }
    if (!ok(right, "%s: %s", f->symbol, what))
        diag("%s", first);
    ok(route, "%s: %s: every call %s", f->symbol, what,
       device ? "with work ran on the device" : "stayed on the CPU");
}

static void as_drawn(struct verify_gemm *g, struct verify_random *r)
{
    (void)g;
    (void)r;
}

static void beta_zero(struct verify_gemm *g, struct verify_random *r)
{
    (void)r;
    g->beta = (struct gb_scalar){.re = 0};
    if (g->alpha.re == 0)
        g->alpha.re = 1;
}

static void alpha_zero(struct verify_gemm *g, struct verify_random *r)
{
    (void)r;
    g->alpha = (struct gb_scalar){.re = 0};
    if (g->beta.re == 1 && g->beta.im == 0)
        g->beta.re = 2;
}

static void k_zero(struct verify_gemm *g, struct verify_random *r)
{
    (void)r;
    g->k = 0;
}

static void empty(struct verify_gemm *g, struct verify_random *r)
{
    if (verify_below(r, 2))
        g->m = 0;
    else
        g->n = 0;
}

static void one_flavour(const struct verify_flavour *f)
{
    property(f, "normal data within the bounds", 1, rounds, as_drawn, VERIFY_NORMAL,
             VERIFY_NORMAL, tolerance());
    property(f, "small integers exact", 2, rounds, as_drawn, VERIFY_INTEGERS,
             VERIFY_INTEGERS, VERIFY_EXACT);
    property(f, "beta = 0 over NaN", 3, rounds / 2, beta_zero, VERIFY_INTEGERS,
             VERIFY_NAN, VERIFY_EXACT);
    property(f, "alpha = 0 over NaN in A and B", 4, rounds / 4 + 1, alpha_zero,
             VERIFY_NAN, VERIFY_INTEGERS, VERIFY_EXACT);
    property(f, "k = 0 scales C", 5, rounds / 4 + 1, k_zero, VERIFY_INTEGERS,
             VERIFY_INTEGERS, VERIFY_EXACT);
    property(f, "empty C", 6, 2, empty, VERIFY_INTEGERS, VERIFY_INTEGERS, VERIFY_EXACT);
}

/* All layouts and transposes of a type on one odd shape. */
static void all_forms(const struct verify_flavour *f)
{
    struct verify_random r = verify_seed(77);
    bool right = true, route = true;

    for (int form = 0; form < 32; form++) {
        struct verify_gemm g = {
            .f = f,
            .row_major = form & 16,
            .transa = (enum gb_trans)(form & 3),
            .transb = (enum gb_trans)(form >> 2 & 3),
            .m = 33,
            .n = 29,
            .k = 35,
            .alpha = {.re = 2, .im = gb_is_complex(f->type) ? -1 : 0},
            .beta = {.re = -1, .im = gb_is_complex(f->type) ? 1 : 0}};

        if (g.row_major && f->interface != VERIFY_CBLAS)
            continue;
        if ((g.transa == GB_CONJ || g.transb == GB_CONJ) && !verify_takes_conj(f))
            continue;
        make(&g, VERIFY_INTEGERS, VERIFY_INTEGERS, &r);
        right = verify_gemm_run(&g, VERIFY_EXACT, why, sizeof why) && right;
        if (!right)
            diag("%s", why);
        route = routed(&g) && route;
        verify_gemm_drop(&g);
        if (!right)
            break;
    }
    ok(right && route, "%s: every layout and transpose", f->symbol);
}

/* Special values pass through the product: an infinite or NaN element reaches exactly
 * its row or column of C, also against zeros. */
static void special_values(const char *symbol)
{
    const struct verify_flavour *f = verify_flavour(symbol);
    struct verify_random r = verify_seed(99);
    bool right = true;

    for (int i = 0; right && i < 6; i++) {
        struct verify_gemm g = draw(f, &r, true);

        g.m += 3;
        g.n += 3;
        g.k += 3;
        g.alpha.re = 1;
        make(&g, VERIFY_INTEGERS, VERIFY_INTEGERS, &r);
        verify_set(&g.a, 1, 0, i % 2 ? (double)INFINITY : (double)NAN, 0);
        verify_set(&g.b, 0, 2, i % 3 ? -(double)INFINITY : (double)NAN, 0);
        verify_set(&g.c, 2, 2, (double)INFINITY, 0);
        right = verify_gemm_run(&g, VERIFY_EXACT, why, sizeof why);
        right = right && routed(&g);
        verify_gemm_drop(&g);
    }
    if (!ok(right, "%s: NaN and infinity reach what they should and nothing else",
            symbol))
        diag("%s", why);
}

/* Subnormal numbers are neither flushed on the way in nor on the way out. */
static void subnormals(const char *symbol, double tiny)
{
    const struct verify_flavour *f = verify_flavour(symbol);
    struct verify_random r = verify_seed(101);
    struct verify_gemm g = {.f = f,
                            .m = 33,
                            .n = 34,
                            .k = 1,
                            .alpha = {.re = 1},
                            .beta = {.re = 1},
                            .transb = GB_T};

    make(&g, VERIFY_INTEGERS, VERIFY_INTEGERS, &r);
    for (int64_t i = 0; i < g.m; i++)
        verify_set(&g.a, i, 0, tiny * (double)(i - 9), 0);
    for (int64_t j = 0; j < g.n; j++)
        for (int64_t i = 0; i < g.m; i++)
            verify_set(&g.c, i, j, tiny * (double)verify_below(&r, 3), 0);
    ok(verify_gemm_run(&g, VERIFY_EXACT, why, sizeof why) && routed(&g),
       "%s: subnormal numbers are kept", symbol);
    verify_gemm_drop(&g);
}

static void large(const char *symbol)
{
    const struct verify_flavour *f = verify_flavour(symbol);
    struct verify_random r = verify_seed(55);

    for (int s = 0; s < SHAPES; s++) {
        if (!shapes[s].large)
            continue;
        if (!verify_on_hardware()) {
            skip("%s: %lld x %lld x %lld needs hardware", symbol,
                 (long long)shapes[s].m, (long long)shapes[s].n,
                 (long long)shapes[s].k);
            continue;
        }
        for (int integers = 0; integers < 2; integers++) {
            struct verify_gemm g = {.f = f,
                                    .m = shapes[s].m,
                                    .n = shapes[s].n,
                                    .k = shapes[s].k,
                                    .transa = any_trans(f, &r),
                                    .transb = any_trans(f, &r),
                                    .alpha = {.re = -1},
                                    .beta = {.re = 2}};
            enum verify_fill fill = integers ? VERIFY_INTEGERS : VERIFY_NORMAL;

            make(&g, fill, fill, &r);
            if (!ok(verify_gemm_run(&g, integers ? VERIFY_EXACT : tolerance(), why,
                                    sizeof why) &&
                        routed(&g),
                    "%s: %lld x %lld x %lld, %s", symbol, (long long)g.m,
                    (long long)g.n, (long long)g.k,
                    integers ? "exact" : "within the bounds"))
                diag("%s", why);
            verify_gemm_drop(&g);
        }
    }
}

int main(void)
{
    const char *quick = getenv("VERIFY_ROUNDS"), *only = getenv("VERIFY_ONLY");

    plan_lazy();
    device = verify_route("gpu");
    verify_say_provider();
    if (quick)
        rounds = atoi(quick);
    for (int i = 0; i < verify_flavour_count; i++) {
        if (only && !strstr(verify_flavours[i].symbol, only))
            continue;
        one_flavour(&verify_flavours[i]);
        all_forms(&verify_flavours[i]);
    }
    special_values("sgemm_");
    special_values("dgemm_");
    special_values("shgemm_");
    special_values("sbgemm_");
    subnormals("sgemm_", 0x1p-149);
    subnormals("dgemm_", 0x1p-1074);
    subnormals("hgemm_", 0x1p-24);
    large("sgemm_");
    large("cblas_dgemm");
    large("cgemm_");
    large("zgemm_");
    large("hgemm_");
    large("bgemm_");
    return 0;
}
