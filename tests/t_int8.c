/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of 8-bit integers, exact to the last bit against sums in 64 bits: every row of
 * gemm_int8 as the device runs it; cblas_gemm_s8u8s32 and its Fortran name in children that have
 * a device, one that fails, little of its memory, or none; and gemmblas_gemm() of s8. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "child.h"
#include "cpu.h"
#include "dispatch.h"
#include "engine.h"
#include "gemmblas/cblas.h"
#include "gemmblas/gemmblas.h"
#include "integer.h"
#include "tap.h"
#include "util.h"
#include "verify.h"

static struct verify_random rng;

static void must(enum gb_status s, const char *what)
{
    if (s != GB_SUCCESS)
        bail("%s: %s", what, gb_status_text(s));
}

/* ---- data and what is right ---- */

enum kind { ANY, LEAST, MOST, KINDS };

/* A matrix as it is stored: `runs` of `run`, ld apart, ld - run of which are not its own. */
static void fill8(uint8_t *x, int64_t elements, enum kind kind, bool is_unsigned)
{
    const uint8_t least = is_unsigned ? 0 : 128, most = is_unsigned ? 255 : 127;

    for (int64_t i = 0; i < elements; i++)
        x[i] = kind == ANY ? (uint8_t)verify_next(&rng) : kind == LEAST ? least : most;
}

static int64_t below(int64_t n)
{
    return (int64_t)(verify_next(&rng) % (uint64_t)n);
}

static int32_t any32(void)
{
    return (int32_t)verify_next(&rng);
}

/* To the nearest integer, of two the even one, that int32_t has. Exact for what is asked of it. */
static int32_t rounded(long double x)
{
    long double r = floorl(x);
    const long double over = x - r;

    if (over > 0.5L || (over == 0.5L && fmodl(r, 2) != 0))
        r += 1;
    return r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : (int32_t)r;
}

/* C(i, j) of a problem whose C was `old`. */
static int32_t wanted(const struct gb_problem *p, const int32_t *old, int64_t i,
                      int64_t j)
{
    const struct gb_offsets *o = &p->offsets;
    const bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
    int64_t sum = 0;
    long double x = o->c;

    for (int64_t l = 0; l < p->k; l++) {
        const int64_t b = tb ? j + l * p->ldb : l + j * p->ldb;

        sum += (((const int8_t *)p->a)[ta ? l + i * p->lda : i + l * p->lda] + o->a) *
               (int64_t)((o->b_unsigned ? ((const uint8_t *)p->b)[b]
                                        : ((const int8_t *)p->b)[b]) +
                         o->b);
    }
    sum = (int32_t)(uint32_t)(uint64_t)sum;
    if (p->extra)
        x += ((const int32_t *)p->extra->bias)[p->extra->bias_cols ? j : i];
    if (p->beta.re != 0)
        x += (long double)p->beta.re * old[i + j * p->ldc];
    if (p->alpha.re != 0)
        x += (long double)p->alpha.re * sum;
    return rounded(x);
}

/* Elements of C, and of the gaps between its columns, that are wrong. */
static int wrong_in(const struct gb_problem *p, const int32_t *old, const int32_t *c)
{
    int wrong = 0;

    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->ldc; i++)
            wrong += c[i + j * p->ldc] !=
                     (i < p->m ? wanted(p, old, i, j) : old[i + j * p->ldc]);
    return wrong;
}

static const double alphas[] = {1, 1, 0.5, -2.75, 0.0009765625, 0, -1},
                    betas[] = {0, 1, 0, 0.5, 1, 3, -1};

/* ---- the kernels ---- */

static const struct gb_device_ops *ops;
static struct gb_device *dev;
static struct gb_stream *stream;
static bool hardware;

static void *room(size_t bytes)
{
    void *p;

    must(ops->host_alloc(dev, bytes + 1, &p), "host_alloc");
    return memset(p, 0, bytes + 1);
}

static gb_devptr memory(size_t bytes)
{
    gb_devptr p;

    must(ops->mem_alloc(dev, bytes + 1, &p), "mem_alloc");
    return p;
}

static void send(gb_devptr to, const void *from, size_t bytes)
{
    if (bytes > 0)
        must(ops->copy_in(dev, stream, to, bytes, from, bytes, bytes, 1), "copy_in");
}

static void receive(void *to, gb_devptr from, size_t bytes)
{
    must(ops->copy_out(dev, stream, to, bytes, from, bytes, bytes, 1), "copy_out");
    must(ops->stream_sync(dev, stream), "stream_sync");
}

static struct gb_function *function(struct gb_module *module, const char *symbol)
{
    struct gb_function *f;

    must(ops->module_get(dev, module, symbol, &f), symbol);
    return f;
}

static struct gb_module *module_of(const struct gb_kernel *k)
{
    static struct gb_module *module;
    const struct gb_image *image = gb_image_find(k->family, &dev->info);

    if (!module)
        must(ops->module_load(dev, k->family, image ? image->data : NULL,
                              image ? image->bytes : 0, &module),
             k->family);
    return module;
}

/* How operands and C lie: gaps between columns, bytes before the first. */
struct lie {
    bool ta, tb;
    int64_t gap_a, gap_b, gap_c, skip_a, skip_b;
    int batch;
    bool one_a, one_b; /* of A, of B there is one for the whole batch */
};

/* One launch of row k; p has sizes, numbers and offsets. */
static int run_row(const struct gb_kernel *k, struct gb_problem p, struct lie lie,
                   enum kind kind)
{
    struct gb_module *module = module_of(k);
    const int64_t run_a = lie.ta ? p.k : p.m, runs_a = lie.ta ? p.m : p.k;
    const int64_t run_b = lie.tb ? p.n : p.k, runs_b = lie.tb ? p.k : p.n;
    const int64_t lda = run_a + lie.gap_a, ldb = run_b + lie.gap_b;
    const int64_t each_a = lda * runs_a, each_b = ldb * runs_b;
    const int64_t batch = lie.batch;
    const size_t a_bytes = (size_t)(each_a * (lie.one_a ? 1 : batch) + lie.skip_a);
    const size_t b_bytes = (size_t)(each_b * (lie.one_b ? 1 : batch) + lie.skip_b);
    const int64_t ldc = p.m + lie.gap_c, each_c = ldc * p.n;
    const size_t c_bytes = (size_t)(each_c * batch) * sizeof(int32_t);
    const size_t bias_bytes = (size_t)(p.m + p.n) * sizeof(int32_t);
    uint8_t *a = room(a_bytes), *b = room(b_bytes);
    int32_t *c = room(c_bytes), *old = calloc(1, c_bytes), *bias = room(bias_bytes);
    struct gb_integer f;
    char name[96];
    int wrong = 0;
    struct gb_gemm_args g = {
        .m = p.m,
        .n = p.n,
        .k = p.k,
        .k_end = p.k,
        .a_m = lie.ta ? lda : 1,
        .a_k = lie.ta ? 1 : lda,
        .b_k = lie.tb ? ldb : 1,
        .b_n = lie.tb ? 1 : ldb,
        .ldc = ldc,
        .split_len = p.k,
        .alpha = {p.alpha.re},
        .beta = {p.beta.re},
        .splits = 1,
        .split_count = 1,
        .batch = lie.batch,
        .a_batch = lie.one_a ? 0 : each_a,
        .b_batch = lie.one_b ? 0 : each_b,
        .c_batch = each_c,
        .group_m = 8,
        .flags = GB_G_EPILOGUE | (p.beta.re == 0 ? GB_G_BETA_ZERO : 0u),
    };
    /* few blocks have a second tile */
    const uint32_t most = hardware && below(2) ? 0 : 2 * (1 + (uint32_t)below(3));
    gb_devptr at_a, at_b, at_bias, work;

    gb_kernel_symbol(k, 'n', 'n', name, sizeof name);
    f = (struct gb_integer){.bytes = function(module, GB_BYTES_SYMBOL),
                            .sums = function(module, GB_SUMS_SYMBOL),
                            .gemm = function(module, name)};
    fill8(a, (int64_t)a_bytes, kind, false);
    fill8(b, (int64_t)b_bytes, kind, p.offsets.b_unsigned);
    for (size_t i = 0; i < c_bytes / sizeof *c; i++)
        c[i] = old[i] = any32() >> below(32);
    for (size_t i = 0; i < bias_bytes / sizeof *bias; i++)
        bias[i] = any32() >> below(20);
    at_a = memory(a_bytes);
    at_b = memory(b_bytes);
    at_bias = memory(bias_bytes);
    g.a = at_a + (gb_devptr)lie.skip_a;
    g.b = at_b + (gb_devptr)lie.skip_b;
    g.c = memory(c_bytes);
    if (p.extra) {
        g.flags |= GB_G_FUSED;
        g.fused.bias = at_bias;
        g.fused.flags = p.extra->bias_cols ? GB_F_BIAS_COLS : 0;
    }
    work = memory(gb_integer_bytes(&g, &p.offsets) + 1);
    send(at_a, a, a_bytes);
    send(at_b, b, b_bytes);
    send(at_bias, bias, bias_bytes);
    send(g.c, c, c_bytes);
    must(gb_integer_launch(dev, stream, &f, k, &g, &p.offsets, work, most), k->name);
    receive(c, g.c, c_bytes);
    for (int64_t z = 0; z < batch; z++) {
        struct gb_problem q = p;
        struct gb_extra x;

        q.transa = lie.ta ? GB_T : GB_N;
        q.transb = lie.tb ? GB_T : GB_N;
        q.a = a + lie.skip_a + (lie.one_a ? 0 : z * each_a);
        q.b = b + lie.skip_b + (lie.one_b ? 0 : z * each_b);
        q.lda = lda;
        q.ldb = ldb;
        q.ldc = ldc;
        if (p.extra) {
            x = *p.extra;
            x.bias = bias;
            q.extra = &x;
        }
        wrong += wrong_in(&q, old + z * each_c, c + z * each_c);
    }
    ops->mem_free(dev, work);
    ops->mem_free(dev, g.c);
    ops->mem_free(dev, at_bias);
    ops->mem_free(dev, at_b);
    ops->mem_free(dev, at_a);
    ops->host_free(dev, bias);
    ops->host_free(dev, c);
    ops->host_free(dev, b);
    ops->host_free(dev, a);
    free(old);
    return wrong;
}

static int64_t near(int64_t tile)
{
    static const int64_t from[] = {0, 1, -1, 2, -7, 5};
    int64_t x = tile * (1 + below(2)) / (1 + below(3)) + from[below(6)];

    return below(5) == 0 ? 1 + below(3) : gb_max(x, 1);
}

static void check_row(const struct gb_kernel *k)
{
    const int rounds = hardware ? 300 : 40;
    static const int64_t deeps[] = {1, 31, 32, 33, 127, 128, 129, 300, 512, 5};
    static const struct gb_extra columns = {.bias_cols = true}, rows = {.bias = NULL};
    int wrong = 0;

    for (int i = 0; i < rounds; i++) {
        const int plain = below(3) == 0, scalar = plain ? 0 : (int)below(7);
        const struct gb_problem p = {
            .m = near(k->tile_m),
            .n = near(k->tile_n),
            .k = deeps[below(10)],
            .type = GB_I8,
            .type_c = GB_I32,
            .alpha = {alphas[scalar], 0},
            .beta = {betas[scalar], 0},
            .extra = plain || below(2) ? NULL
                     : below(2)        ? &columns
                                       : &rows,
            .offsets = {plain || below(2) ? 0 : (int32_t)below(256) - 128,
                        plain || below(2) ? 0 : (int32_t)below(256) - 128,
                        plain || below(2) ? 0 : any32(), !plain && below(2)},
        };
        const struct lie lie = {.ta = below(2),
                                .tb = below(2),
                                .gap_a = below(2) ? (16 - p.k % 16) % 16 : below(20),
                                .gap_b = below(2) ? (16 - p.k % 16) % 16 : below(20),
                                .gap_c = below(2) ? (4 - p.m % 4) % 4 : below(5),
                                .skip_a = below(2) ? 0 : below(40),
                                .skip_b = below(2) ? 0 : below(40),
                                .batch = below(4) ? 1 : 3,
                                .one_a = below(2),
                                .one_b = below(2)};
        const int bad = run_row(k, p, lie, below(8) ? ANY : (enum kind)below(KINDS));

        if (bad)
            diag("%s: %d wrong: m %d n %d k %d, %c%c, gaps %d %d %d, skips %d %d, "
                 "batch %d "
                 "(%d %d), alpha %g beta %g, offsets %d %d %d %d, bias %d",
                 k->name, bad, (int)p.m, (int)p.n, (int)p.k, lie.ta ? 'T' : 'N',
                 lie.tb ? 'T' : 'N', (int)lie.gap_a, (int)lie.gap_b, (int)lie.gap_c,
                 (int)lie.skip_a, (int)lie.skip_b, lie.batch, lie.one_a, lie.one_b,
                 p.alpha.re, p.beta.re, p.offsets.a, p.offsets.b, p.offsets.c,
                 p.offsets.b_unsigned, p.extra ? 1 + p.extra->bias_cols : 0);
        wrong += bad != 0;
    }
    is_int(0, wrong, "%s: %d products", k->name, rounds);
}

/* Tiles of which all exists and is aligned have an epilogue of their own, in which C is read by
 * vectors; and one that ends where they do. */
static void check_whole(const struct gb_kernel *k)
{
    static const struct gb_extra columns = {.bias_cols = true}, rows = {.bias = NULL};
    const int64_t m = 2 * k->tile_m, n = 2 * k->tile_n;
    int wrong = 0;

    for (int i = 0; i < 12; i++) {
        const struct gb_problem p = {.m = m,
                                     .n = n,
                                     .k = 32,
                                     .type = GB_I8,
                                     .type_c = GB_I32,
                                     .alpha = {i % 3 == 2 ? 0.5 : 1, 0},
                                     .beta = {i % 2 ? 1 : 0, 0},
                                     .extra = i < 4   ? NULL
                                              : i < 8 ? &columns
                                                      : &rows,
                                     .offsets = {i % 4 == 3 ? 7 : 0,
                                                 i % 5 == 4 ? -9 : 0,
                                                 i == 11 ? INT32_MAX : 0, i % 2}};
        const struct lie lie = {.ta = true, .batch = 1, .gap_c = i % 4 == 1 ? 1 : 0};

        wrong += run_row(k, p, lie, ANY) != 0;
    }
    is_int(0, wrong, "%s: whole tiles", k->name);
}

/* Sums beyond 2^31 begin anew. */
static void check_long(const struct gb_kernel *k)
{
    struct gb_problem p = {.m = 3,
                           .n = 5,
                           .k = 70000,
                           .type = GB_I8,
                           .type_c = GB_I32,
                           .alpha = {1, 0},
                           .offsets = {-128, -128, 0, true}};
    const struct lie lie = {.ta = true, .batch = 1};

    is_int(0, run_row(k, p, lie, LEAST), "%s: %d sums of (-256)(-128)", k->name,
           (int)p.k);
    p.offsets = (struct gb_offsets){.b_unsigned = true};
    is_int(0, run_row(k, p, lie, ANY), "%s: a long sum", k->name);
    p.offsets.b = 127;
    is_int(0, run_row(k, p, lie, MOST), "%s: sums of 127 (255 + 127)", k->name);
}

static void check_none(const struct gb_kernel *k)
{
    struct gb_problem p = {.m = 70,
                           .n = 9,
                           .k = 40,
                           .type = GB_I8,
                           .type_c = GB_I32,
                           .beta = {2, 0},
                           .offsets = {3, 4, 5, true}};
    const struct lie lie = {.batch = 1, .gap_c = 1};

    is_int(0, run_row(k, p, lie, ANY), "%s: alpha 0", k->name);
    p.k = 0;
    p.alpha.re = 1;
    is_int(0, run_row(k, p, lie, ANY), "%s: k 0", k->name);
}

static void test_rows(void)
{
    int rows = 0;

    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];

        if (!(k->flags & GB_K_INTEGER) || !gb_kernel_runs(k, &dev->info))
            continue;
        check_row(k);
        check_whole(k);
        check_none(k);
        if (rows++ == 0 || hardware)
            check_long(k);
    }
    if (rows == 0)
        skip("no row computes so on %s", dev->info.arch_name);
}

/* ---- by the names of BLAS ---- */

/* What gemm_s8u8s32's own arguments ask for. */
struct call {
    int layout, ta, tb, form;
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    int8_t ao, bo;
    uint8_t *a, *b;
    int32_t *c, *old, *co;
    size_t c_count;
};

static struct call call_of(int layout, int m, int n, int k)
{
    const bool row = layout == CblasRowMajor;
    const int scalar = (int)below(7);
    struct call x = {.layout = layout,
                     .ta = below(2) ? CblasTrans : CblasNoTrans,
                     .tb = below(2) ? CblasTrans : CblasNoTrans,
                     .form = CblasRowOffset + (int)below(3),
                     .m = m,
                     .n = n,
                     .k = k,
                     .alpha = (float)alphas[scalar],
                     .beta = (float)betas[scalar]};
    const bool a_rows = (x.ta == CblasNoTrans) != row,
               b_rows = (x.tb == CblasNoTrans) != row;
    size_t a, b;

    if (below(2)) {
        x.ao = (int8_t)(below(3) == 0 ? -128 : below(3) == 0 ? 127 : below(256) - 128);
        x.bo = (int8_t)(below(3) == 0 ? -128 : below(3) == 0 ? 127 : below(256) - 128);
    }
    x.lda = (int)(gb_max(a_rows ? x.m : x.k, 1) + below(3) * below(9));
    x.ldb = (int)(gb_max(b_rows ? x.k : x.n, 1) + below(3) * below(9));
    x.ldc = (int)((row ? x.n : x.m) + below(3));
    a = (size_t)x.lda * (size_t)(a_rows ? x.k : x.m);
    b = (size_t)x.ldb * (size_t)(b_rows ? x.n : x.k);
    x.c_count = (size_t)x.ldc * (size_t)(row ? x.m : x.n);
    x.a = calloc(1, a + 1);
    x.b = calloc(1, b + 1);
    fill8(x.a, (int64_t)a, below(6) ? ANY : MOST, row);
    fill8(x.b, (int64_t)b, below(6) ? ANY : LEAST, !row);
    x.c = calloc(1, x.c_count * sizeof *x.c);
    x.old = calloc(1, x.c_count * sizeof *x.c);
    x.co = calloc(1, (size_t)(x.m + x.n) * sizeof *x.co);
    for (size_t i = 0; i < x.c_count; i++)
        x.c[i] = x.old[i] = any32() >> below(32);
    for (int i = 0; i < x.m + x.n; i++)
        x.co[i] = any32() >> below(32);
    return x;
}

static struct call call_new(int layout, int most)
{
    const int m = 1 + (int)below(most), n = 1 + (int)below(most);

    return call_of(layout, m, n, (int)below(most + 60));
}

static void call_drop(struct call *x)
{
    free(x->a);
    free(x->b);
    free(x->c);
    free(x->old);
    free(x->co);
}

/* What the call means, by its definition alone: element (i, j) of C, wherever it is stored. */
static int32_t meant(const struct call *x, int i, int j)
{
    const bool row = x->layout == CblasRowMajor;
    int64_t sum = 0;
    long double y = x->co[x->form == CblasFixOffset   ? 0
                          : x->form == CblasRowOffset ? j
                                                      : i];

    for (int l = 0; l < x->k; l++) {
        const size_t a = (x->ta == CblasNoTrans) != row
                             ? (size_t)i + (size_t)l * (size_t)x->lda
                             : (size_t)l + (size_t)i * (size_t)x->lda;
        const size_t b = (x->tb == CblasNoTrans) != row
                             ? (size_t)l + (size_t)j * (size_t)x->ldb
                             : (size_t)j + (size_t)l * (size_t)x->ldb;
        const int va = row ? x->a[a] : (int8_t)x->a[a];
        const int vb = row ? (int8_t)x->b[b] : x->b[b];

        sum += (int64_t)(va + x->ao) * (vb + x->bo);
    }
    if (x->beta != 0)
        y += (long double)x->beta * x->old[row ? j + (size_t)i * (size_t)x->ldc
                                               : i + (size_t)j * (size_t)x->ldc];
    if (x->alpha != 0)
        y += (long double)x->alpha * (int32_t)(uint32_t)(uint64_t)sum;
    return rounded(y);
}

static int call_wrong(const struct call *x)
{
    const bool row = x->layout == CblasRowMajor;
    int wrong = 0;

    for (size_t at = 0; at < x->c_count; at++) {
        const int along = (int)(at % (size_t)x->ldc), run = (int)(at / (size_t)x->ldc);
        const int i = row ? run : along, j = row ? along : run;

        wrong += x->c[at] != (i < x->m && j < x->n ? meant(x, i, j) : x->old[at]);
    }
    return wrong;
}

/* The names that the library exports; there are no prototypes for Fortran's. */
typedef void fortran(const char *, const char *, const char *, const void *,
                     const void *, const void *, const float *, const void *,
                     const void *, const int8_t *, const void *, const void *,
                     const int8_t *, const float *, int32_t *, const void *,
                     const int32_t *, size_t, size_t, size_t);
fortran gemm_s8u8s32_, gemm_s8u8s32, gemm_s8u8s32_64_;

static void call_fortran(const struct call *x, fortran *f, bool wide)
{
    const char *ta = x->ta == CblasTrans ? "T" : "n";
    const char *tb = x->tb == CblasTrans ? "t" : "N";
    const char *form = x->form == CblasFixOffset   ? "F"
                       : x->form == CblasRowOffset ? "row"
                                                   : "C";
    const int64_t m = x->m, n = x->n, k = x->k, lda = x->lda, ldb = x->ldb,
                  ldc = x->ldc;

    if (wide)
        f(ta, tb, form, &m, &n, &k, &x->alpha, x->a, &lda, &x->ao, x->b, &ldb, &x->bo,
          &x->beta, x->c, &ldc, x->co, 1, 1, 1);
    else
        f(ta, tb, form, &x->m, &x->n, &x->k, &x->alpha, x->a, &x->lda, &x->ao, x->b,
          &x->ldb, &x->bo, &x->beta, x->c, &x->ldc, x->co, 1, 1, 1);
}

static void call_by(const struct call *x, int name)
{
    switch (name) {
    case 0:
        cblas_gemm_s8u8s32((CBLAS_LAYOUT)x->layout, (CBLAS_TRANSPOSE)x->ta,
                           (CBLAS_TRANSPOSE)x->tb, (CBLAS_OFFSET)x->form, x->m, x->n,
                           x->k, x->alpha, x->a, x->lda, x->ao, x->b, x->ldb, x->bo,
                           x->beta, x->c, x->ldc, x->co);
        break;
    case 1:
        cblas_gemm_s8u8s32_64((CBLAS_LAYOUT)x->layout, (CBLAS_TRANSPOSE)x->ta,
                              (CBLAS_TRANSPOSE)x->tb, (CBLAS_OFFSET)x->form, x->m, x->n,
                              x->k, x->alpha, x->a, x->lda, x->ao, x->b, x->ldb, x->bo,
                              x->beta, x->c, x->ldc, x->co);
        break;
    case 2:
        call_fortran(x, gemm_s8u8s32_, false);
        break;
    case 3:
        call_fortran(x, gemm_s8u8s32_64_, true);
        break;
    default:
        call_fortran(x, gemm_s8u8s32, false);
    }
}

static int run_calls(int rounds, int most)
{
    int wrong = 0;

    for (int i = 0; i < rounds; i++) {
        const int name = i % 5;
        struct call x =
            call_new(name < 2 && below(2) ? CblasRowMajor : CblasColMajor, most);
        int bad;

        call_by(&x, name);
        bad = call_wrong(&x);
        if (bad)
            diag("name %d: %d wrong: layout %d, %d %d, form %d, m %d n %d k %d, ld %d "
                 "%d "
                 "%d, alpha %g beta %g, %d %d",
                 name, bad, x.layout, x.ta, x.tb, x.form, x.m, x.n, x.k, x.lda, x.ldb,
                 x.ldc, (double)x.alpha, (double)x.beta, x.ao, x.bo);
        wrong += bad != 0;
        call_drop(&x);
    }
    return wrong;
}

/* Does a device compute it? */
static enum gb_why route_of_one(void)
{
    static int8_t a[64 * 64];
    static uint8_t b[64 * 64];
    static int32_t c[64 * 64], co;
    const struct gb_cblas_integer args = {.gemm = {.layout = CblasColMajor,
                                                   .transa = CblasNoTrans,
                                                   .transb = CblasNoTrans,
                                                   .m = 64,
                                                   .n = 64,
                                                   .k = 64,
                                                   .alpha = &(float){1},
                                                   .a = a,
                                                   .lda = 64,
                                                   .b = b,
                                                   .ldb = 64,
                                                   .beta = &(float){0},
                                                   .c = c,
                                                   .ldc = 64},
                                          .offsetc = CblasFixOffset,
                                          .co = &co};
    const struct gb_call call = {.symbol = "cblas_gemm_s8u8s32"};
    struct gb_extra extra;
    struct gb_problem p;

    gb_cblas_integer_parse(&gb_routines[GB_ROUTINE_gemm_s8u8s32], &args, GB_INT32, &p,
                           &extra);
    return gb_dispatch(&p, "gemm_s8u8s32", &call, GB_OK);
}

/* A product in several panels, or a device that fails when one of them is final. */
static int child_panels(bool fails)
{
    static const int size[][3] = {{1500, 300, 300}, {300, 1400, 400}, {900, 700, 257},
                                  {700, 500, 128},  {513, 700, 255},  {1300, 333, 1}};
    int wrong = 0;

    /* (a device that is not open yet is planned for as a typical one) */
    if (!verify_route("gpu") || !gb_dispatch_engine(true))
        return 1;
    for (int i = 0; i < (int)GB_COUNT(size); i++) {
        struct call x = call_of(i % 2 ? CblasRowMajor : CblasColMajor, size[i][0],
                                size[i][1], size[i][2]);
        struct verify_trace t;

        x.form = CblasRowOffset + i % 3;
        x.alpha = i < 3 ? 1 : x.alpha == 0 ? 2 : x.alpha;
        if (fails && i == 0)
            x.beta = 1; /* to be applied once */
        call_by(&x, i % 2);
        t = verify_trace_read();
        if (call_wrong(&x) || t.calls != 1 ||
            (!fails && (!t.on_gpu || t.panels < 2 || strcmp(t.why, "ok") != 0)) ||
            (fails && i == 0 && (t.panels < 2 || strcmp(t.why, "lost") != 0))) {
            fprintf(stderr, "%d: %d wrong, %ld calls, %lld panels, %s\n", i,
                    call_wrong(&x), t.calls, t.panels, t.why);
            wrong++;
        }
        call_drop(&x);
    }
    return wrong != 0;
}

/* In children. */
static int child_calls(int rounds, int most, int served)
{
    const enum gb_why why = route_of_one();
    int wrong = run_calls(rounds, most);

    if (served >= 0 && (why == GB_OK) != served) {
        fprintf(stderr, "served: %s\n", gb_why_name(why));
        wrong++;
    }
    fprintf(stderr, "%d wrong\n", wrong);
    return wrong != 0;
}

static void test_names(void)
{
    static const struct {
        const char *name, *mode, *change[6];
    } cases[] = {
        {"without a device", "cpu", {"GEMMBLAS_DEVICE=none", NULL}},
        {"where the CPU is asked for", "cpu", {"GEMMBLAS_ROUTE=cpu", NULL}},
        {"by the device", "gpu", {"GEMMBLAS_ROUTE=gpu", NULL}},
        {"by panels",
         "panels",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu", "GEMMBLAS_MEM_LIMIT=1M", NULL}},
        {"by a device that fails",
         "fails",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu", "GEMMBLAS_MEM_LIMIT=1M",
          "GEMMBLAS_FAULT=copy_out@2+", NULL}},
    };
    struct child c;

    for (size_t i = 0; i < GB_COUNT(cases); i++) {
        child_run(&c, cases[i].mode, cases[i].change, 240);
        ok(child_passed(&c), "cblas_gemm_s8u8s32 %s", cases[i].name);
    }
}

/* Where the program's BLAS has the names it gets the calls as they are, illegal ones too. */
static int child_forward(void)
{
    struct call x = {.layout = CblasRowMajor,
                     .ta = CblasTrans,
                     .tb = CblasNoTrans,
                     .form = CblasColOffset,
                     .m = 2,
                     .n = 3,
                     .k = 4,
                     .lda = 5,
                     .ldb = 6,
                     .ldc = 7,
                     .alpha = 1.5F,
                     .beta = -2.5F,
                     .ao = -128,
                     .bo = 127,
                     .a = (uint8_t[]){"text of A"},
                     .b = (uint8_t[]){"and of B"},
                     .c = (int32_t[21]){11},
                     .co = (int32_t[]){-12, -13, -14}};

    call_by(&x, 0);
    x.lda = 1;
    call_by(&x, 0);
    x.form = 0;
    call_by(&x, 0);
    x.form = CblasRowOffset;
    call_by(&x, 2);
    return 0;
}

static void test_forward(void)
{
    static const char wanted[] =
        "cblas 101 112 111 172, 2 3 4, 1.5 text of A 5 -128, and of B 6 127, -2.5 11 7 "
        "-12\n"
        "cblas 101 112 111 172, 2 3 4, 1.5 text of A 1 -128, and of B 6 127, -2.5 11 7 "
        "-12\n"
        "cblas 101 112 111 0, 2 3 4, 1.5 text of A 1 -128, and of B 6 127, -2.5 11 7 "
        "-12\n"
        "fortran T N r, 2 3 4, 1.5 text of A 1 -128, and of B 6 127, -2.5 11 7 -12\n";
    const char *top = getenv("top_builddir");
    char library[4096];
    struct child c;

    snprintf(library, sizeof library, "GEMMBLAS_LIBRARY=%s/tests/int8blas.so",
             top ? top : ".");
    child_run(&c, "forward", (const char *const[]){library, "GEMMBLAS_ROUTE=cpu", NULL},
              60);
    is_string(wanted, c.err, "a BLAS that has the names gets the calls as they are");
}

/* ---- what no product is made of ---- */

static void test_arguments(void)
{
    static const struct {
        int number, layout, ta, tb, form;
        int64_t m, n, k, lda, ldb, ldc;
    } t[] = {
        {0, 102, 111, 111, 171, 2, 3, 4, 2, 4, 2},
        {0, 101, 111, 112, 173, 2, 3, 4, 4, 4, 3},
        {1, 100, 0, 0, 0, -1, -1, -1, 0, 0, 0},
        {2, 102, 0, 0, 0, -1, -1, -1, 0, 0, 0},
        {3, 101, 111, 0, 0, -1, -1, -1, 0, 0, 0},
        {4, 102, 111, 111, 170, -1, 2, 2, 2, 2, 2},
        {4, 101, 111, 111, 174, 2, 2, 2, 2, 2, 2},
        {5, 102, 111, 111, 172, -1, -1, 2, 2, 2, 2},
        {6, 102, 111, 111, 172, 2, -1, -1, 2, 2, 2},
        {7, 102, 111, 111, 172, 2, 2, -1, 0, 0, 0},
        {10, 102, 111, 111, 172, 2, 2, 2, 1, 1, 1},
        {13, 102, 111, 111, 172, 2, 2, 2, 2, 1, 1},
        {17, 102, 111, 111, 172, 2, 2, 2, 2, 2, 1},
        {6, 101, 111, 111, 172, -1, -1, 2, 2, 2, 2},
        {5, 101, 111, 111, 172, -1, 2, -1, 2, 2, 2},
        {13, 101, 111, 111, 172, 2, 2, 2, 1, 1, 1},
        {10, 101, 111, 111, 172, 2, 2, 2, 1, 2, 1},
        {17, 101, 111, 111, 172, 2, 2, 2, 2, 2, 1},
    };
    static const struct {
        int number;
        const char *ta, *tb, *form;
        int64_t m, n, k, lda, ldb, ldc;
    } f[] = {
        {0, "N", "t", "r", 2, 3, 4, 2, 3, 2},   {0, "c", "N", "F", 2, 3, 4, 4, 4, 2},
        {1, "X", "N", "X", -1, 2, 2, 2, 2, 2},  {2, "N", "X", "X", -1, 2, 2, 2, 2, 2},
        {3, "N", "N", "N", -1, 2, 2, 2, 2, 2},  {4, "N", "N", "C", -1, -1, 2, 2, 2, 2},
        {5, "N", "N", "C", 2, -1, -1, 2, 2, 2}, {6, "N", "N", "C", 2, 2, -1, 0, 0, 0},
        {9, "N", "N", "C", 2, 2, 2, 1, 1, 1},   {12, "N", "N", "C", 2, 2, 2, 2, 1, 1},
        {16, "N", "N", "C", 2, 2, 2, 2, 2, 1},
    };
    const struct gb_routine *r = &gb_routines[GB_ROUTINE_gemm_s8u8s32];
    static const int32_t co[3] = {7, 8, 9};
    static const int8_t three = 3, four = 4;
    const float one = 1;
    struct gb_extra extra;
    struct gb_problem p;

    for (size_t i = 0; i < GB_COUNT(t); i++) {
        const struct gb_cblas_integer args = {.gemm = {.layout = t[i].layout,
                                                       .transa = t[i].ta,
                                                       .transb = t[i].tb,
                                                       .m = t[i].m,
                                                       .n = t[i].n,
                                                       .k = t[i].k,
                                                       .alpha = &one,
                                                       .lda = t[i].lda,
                                                       .ldb = t[i].ldb,
                                                       .beta = &one,
                                                       .ldc = t[i].ldc},
                                              .offsetc = t[i].form,
                                              .ao = 3,
                                              .bo = 4,
                                              .co = co};

        is_int(t[i].number, gb_cblas_integer_parse(r, &args, GB_INT64, &p, &extra),
               "cblas row %zu", i);
        if (i == 0)
            ok(p.offsets.a == 3 && p.offsets.b == 4 && p.offsets.b_unsigned &&
                   p.extra == &extra && extra.bias == co && extra.bias_cols,
               "column-major: a row of offsets is an entry for each column");
        if (i == 1)
            ok(p.m == 3 && p.offsets.a == 4 && p.offsets.b == 3 &&
                   p.offsets.b_unsigned && p.offsets.c == 7 && !p.extra,
               "row-major: A and B in each other's place, and one offset");
    }
    for (size_t i = 0; i < GB_COUNT(f); i++) {
        const struct gb_f77_integer args = {.gemm = {.transa = f[i].ta,
                                                     .transb = f[i].tb,
                                                     .m = &f[i].m,
                                                     .n = &f[i].n,
                                                     .k = &f[i].k,
                                                     .alpha = &one,
                                                     .lda = &f[i].lda,
                                                     .ldb = &f[i].ldb,
                                                     .beta = &one,
                                                     .ldc = &f[i].ldc},
                                            .offsetc = f[i].form,
                                            .ao = &three,
                                            .bo = &four,
                                            .co = co};

        is_int(f[i].number, gb_f77_integer_parse(r, &args, GB_INT64, &p, &extra),
               "fortran row %zu", i);
    }
}

/* ---- gemmblas_gemm() ---- */

/* Where a test's bytes are: on the device if there is one, else here. */
static void *lend(void *host, size_t bytes)
{
    void *pinned;
    gb_devptr p;

    if (!dev)
        return host;
    pinned = room(bytes);
    memcpy(pinned, host, bytes);
    p = memory(bytes);
    send(p, pinned, bytes);
    must(ops->stream_sync(dev, stream), "stream_sync");
    ops->host_free(dev, pinned);
    return (void *)(uintptr_t)p;
}

static void give_back(void *lent, void *host, size_t bytes, bool read)
{
    void *pinned;

    if (!dev)
        return;
    if (read) {
        pinned = room(bytes);
        receive(pinned, (uintptr_t)lent, bytes);
        memcpy(host, pinned, bytes);
        ops->host_free(dev, pinned);
    }
    ops->mem_free(dev, (uintptr_t)lent);
}

/* All that is queued in the default stream is done. */
static void wait_for_default(void)
{
    struct gb_stream *s;
    struct gb_event *end;

    if (!dev)
        return;
    must(ops->stream_borrow(dev, NULL, &s), "stream_borrow");
    must(ops->event_create(dev, &end), "event_create");
    must(ops->event_record(dev, end, s), "event_record");
    must(ops->event_sync(dev, end), "event_sync");
    ops->event_destroy(dev, end);
    ops->stream_return(dev, s);
}

static struct gemmblas_matrix strides(int64_t rows, int64_t cols, bool batch)
{
    struct gemmblas_matrix x = {.row_stride = 1,
                                .col_stride = rows + below(3) * below(20)};
    int64_t s;

    switch (below(4)) {
    case 0: /* no unit stride */
        x.row_stride = 2 + below(2);
        x.col_stride = x.row_stride * rows + below(3);
        break;
    case 1: /* rows lie along memory */
    case 2:
        s = cols + below(2) * below(20);
        x.row_stride = below(2) ? s : (s + 15) / 16 * 16;
        x.col_stride = 1;
    }
    if (batch)
        x.batch_stride = x.row_stride * rows + x.col_stride * cols + below(9);
    return x;
}

static size_t count_of(const struct gemmblas_matrix *x, int64_t rows, int64_t cols,
                       int64_t batch)
{
    return (size_t)(1 + (rows - 1) * x->row_stride + (cols - 1) * x->col_stride +
                    (batch - 1) * x->batch_stride);
}

/* One product of the API, and whether it is right. */
static bool api_product(int most, bool lists)
{
    const int64_t m = 1 + below(most), n = 1 + below(most), k = below(most + 80);
    const int64_t batch = lists ? 3 : below(3) ? 1 : 3;
    const int scalar = (int)below(7);
    struct gemmblas_product p = {
        .size = sizeof p,
        .type = GEMMBLAS_S8,
        .type_c = GEMMBLAS_S32,
        .m = m,
        .n = n,
        .k = k,
        .batch = batch,
        .a = strides(m, gb_max(k, 1), !lists && below(2)),
        .b = strides(gb_max(k, 1), n, !lists && below(2)),
        .c = strides(m, n, true),
        .alpha = {alphas[scalar]},
        .beta = {betas[scalar]},
        .flags = below(2) ? GEMMBLAS_BIAS_PER_COLUMN : 0,
    };
    const bool by_columns = p.flags & GEMMBLAS_BIAS_PER_COLUMN, biased = below(2);
    /* of A's matrices by their addresses, which are at no one distance */
    const int64_t shift[3] = {0, lists ? 7 : 0, lists ? 3 : 0};
    const size_t na = count_of(&p.a, m, gb_max(k, 1), batch) + 7,
                 nb = count_of(&p.b, gb_max(k, 1), n, batch),
                 nc = count_of(&p.c, m, n, batch);
    int8_t *a = calloc(1, na), *b = calloc(1, nb);
    int32_t *c = calloc(1, nc * sizeof *c), *old = calloc(1, nc * sizeof *c);
    int32_t *bias = calloc(1, (size_t)(m + n) * sizeof *bias);
    void *la, *lb, *lc, *lbias;
    const void *array_a[3], *array_b[3];
    int wrong = 0, status;

    fill8((uint8_t *)a, (int64_t)na, ANY, false);
    fill8((uint8_t *)b, (int64_t)nb, ANY, false);
    for (size_t i = 0; i < nc; i++)
        c[i] = old[i] = any32() >> below(32);
    for (int64_t i = 0; i < m + n; i++)
        bias[i] = any32() >> below(32);
    la = lend(a, na);
    lb = lend(b, nb);
    lc = lend(c, nc * sizeof *c);
    lbias = lend(bias, (size_t)(m + n) * sizeof *bias);
    p.a.data = la;
    p.b.data = lb;
    p.c.data = lc;
    if (biased)
        p.bias.data = lbias;
    if (lists) {
        for (int z = 0; z < 3; z++) {
            array_a[z] = (int8_t *)la + shift[z];
            array_b[z] = lb;
        }
        p.a.array = array_a;
        p.b.array = array_b;
    }
    status = gemmblas_gemm(&p);
    wait_for_default();
    give_back(lc, c, nc * sizeof *c, true);
    give_back(la, a, na, false);
    give_back(lb, b, nb, false);
    give_back(lbias, bias, (size_t)(m + n) * sizeof *bias, false);
    for (int64_t z = 0; z < batch; z++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                const size_t at = (size_t)(i * p.c.row_stride + j * p.c.col_stride +
                                           z * p.c.batch_stride);
                int64_t sum = 0;
                long double y = biased ? bias[by_columns ? j : i] : 0;

                for (int64_t l = 0; l < k; l++)
                    sum += a[shift[z] + i * p.a.row_stride + l * p.a.col_stride +
                             z * p.a.batch_stride] *
                           b[l * p.b.row_stride + j * p.b.col_stride +
                             z * p.b.batch_stride];
                if (p.beta[0] != 0)
                    y += (long double)p.beta[0] * old[at];
                if (p.alpha[0] != 0)
                    y += (long double)p.alpha[0] * (int32_t)sum;
                wrong += c[at] != rounded(y);
                old[at] = c[at]; /* so that what is left must not have changed */
            }
    for (size_t i = 0; i < nc; i++)
        wrong += c[i] != old[i];
    if (status != GEMMBLAS_OK || wrong)
        diag("%s, %d wrong: m %d n %d k %d batch %d, strides %d %d, %d %d, %d %d, "
             "alpha %g "
             "beta %g",
             gemmblas_status_text(status), wrong, (int)m, (int)n, (int)k, (int)batch,
             (int)p.a.row_stride, (int)p.a.col_stride, (int)p.b.row_stride,
             (int)p.b.col_stride, (int)p.c.row_stride, (int)p.c.col_stride, p.alpha[0],
             p.beta[0]);
    free(a);
    free(b);
    free(c);
    free(old);
    free(bias);
    return status == GEMMBLAS_OK && wrong == 0;
}

static void test_api(const char *where)
{
    int bad = 0;

    for (int i = 0; i < 60; i++)
        bad += !api_product(150, false);
    is_int(0, bad, "gemmblas_gemm() of s8, %s", where);
    bad = 0;
    for (int i = 0; i < 4; i++)
        bad += !api_product(60, true);
    is_int(0, bad, "arrays of addresses, %s", where);
}

static void test_refused(void)
{
    int8_t a = 1, b = 2;
    int32_t c = 3;
    float scale = 2;
    const struct gemmblas_product good = {.size = sizeof good,
                                          .type = GEMMBLAS_S8,
                                          .type_c = GEMMBLAS_S32,
                                          .m = 1,
                                          .n = 1,
                                          .k = 1,
                                          .a = {&a, NULL, 1, 1, 0},
                                          .b = {&b, NULL, 1, 1, 0},
                                          .c = {&c, NULL, 1, 1, 0},
                                          .alpha = {1}};
    struct gemmblas_product p = good;

    is_int(GEMMBLAS_OK, gemmblas_gemm(&p), "one element");
    is_int(2, c, "is right");
    p.activation = GEMMBLAS_ACT_RELU;
    is_int(GEMMBLAS_E_TYPE, gemmblas_gemm(&p), "no activation");
    p = good;
    p.row_scale.data = &scale;
    is_int(GEMMBLAS_E_TYPE, gemmblas_gemm(&p), "no scale");
    p = good;
    p.type_c = GEMMBLAS_S8;
    is_int(GEMMBLAS_E_TYPE, gemmblas_gemm(&p), "no C of s8");
    p = good;
    p.type = GEMMBLAS_S32;
    is_int(GEMMBLAS_E_TYPE, gemmblas_gemm(&p), "no operands of s32");
    is_int(2, c, "and nothing is touched");
}

int main(int argc, char **argv)
{
    struct gb_engine *engine;
    struct gb_guest guest;

    rng = verify_seed(11);
    if (argc > 1 && strcmp(argv[1], "cpu") == 0)
        return child_calls(300, 90, 0);
    if (argc > 1 && strcmp(argv[1], "gpu") == 0) {
        engine = gb_dispatch_engine(true);
        dev = engine ? gb_engine_device(engine) : NULL;
        return child_calls(60, 200,
                           dev && (dev->info.vendor == GB_EMU || dev->info.arch == 90));
    }
    if (argc > 1 && strcmp(argv[1], "panels") == 0)
        return child_panels(false);
    if (argc > 1 && strcmp(argv[1], "fails") == 0)
        return child_panels(true);
    if (argc > 1 && strcmp(argv[1], "forward") == 0)
        return child_forward();
    plan_lazy();
    test_arguments();
    test_forward();
    test_refused();
    test_names();
    test_api("host");
    engine = gb_dispatch_engine(true);
    if (!engine) {
        skip("no device for GEMMBLAS_DEVICE");
        return 0;
    }
    dev = gb_engine_device(engine);
    ops = dev->ops;
    hardware = dev->info.vendor != GB_EMU;
    diag("%s", dev->info.name);
    must(ops->enter(dev, &guest), "enter");
    must(ops->stream_create(dev, &stream), "stream_create");
    test_rows();
    if (hardware && dev->info.arch != 90)
        skip("no row multiplies integers on %s", dev->info.arch_name);
    else
        test_api("device");
    ops->stream_destroy(dev, stream);
    ops->leave(dev, &guest);
    return 0;
}
