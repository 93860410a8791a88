/* SPDX-License-Identifier: BSD-3-Clause */
/* fp32 products of operands rounded to tf32 (GEMMBLAS_MATH=fast): every row, on the
 * emulated device or on hardware. Operands are rounded to the nearest, in every layout
 * alike; errors keep to the bound of doc/design.md, element by element; what tf32 holds
 * is exact; infinities, NaNs and denormals arrive; and the executor's panels, with the
 * copies that they need, come to the exact sums of integers. (Edges of tiles, batches,
 * fused epilogues, cuts of k and tails: t_kernels.) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "engine.h"
#include "exec.h"
#include "kernels.h"
#include "launch.h"
#include "operands.h"
#include "product.h"
#include "tap.h"
#include "util.h"

static const struct gb_device_ops *ops;
static struct gb_device *dev;
static struct gb_stream *stream;
static bool hardware;
static struct verify_random rng;

static void must(enum gb_status s, const char *what)
{
    if (s != GB_SUCCESS)
        bail("%s: %s", what, gb_status_text(s));
}

/* ---- operands ---- */

/* op(A) by rows, or op(B) by columns: `vectors` of `deep`. */
struct operand {
    int64_t vectors, deep, ld, elements;
    bool along; /* the unit stride runs along k */
    float *x;
    gb_devptr at;
};

static int64_t place(const struct operand *o, int64_t v, int64_t l)
{
    return o->along ? l + v * o->ld : v + l * o->ld;
}

static void *room(size_t bytes)
{
    void *p;

    must(ops->host_alloc(dev, bytes, &p), "host_alloc");
    return p;
}

static gb_devptr memory(size_t bytes)
{
    gb_devptr p;

    must(ops->mem_alloc(dev, bytes, &p), "mem_alloc");
    return p;
}

static void send(gb_devptr to, const void *from, size_t bytes)
{
    must(ops->copy_in(dev, stream, to, bytes, from, bytes, bytes, 1), "copy_in");
}

static void receive(void *to, gb_devptr from, size_t bytes)
{
    must(ops->copy_out(dev, stream, to, bytes, from, bytes, bytes, 1), "copy_out");
    must(ops->stream_sync(dev, stream), "stream_sync");
}

/* Its gaps are NaN, and so is what is not filled. */
static struct operand operand_new(int64_t vectors, int64_t deep, bool along,
                                  int64_t gap)
{
    struct operand o = {.vectors = vectors, .deep = deep, .along = along};

    o.ld = (along ? deep : vectors) + gap;
    o.elements = o.ld * (along ? vectors : deep);
    o.x = room((size_t)o.elements * sizeof *o.x);
    memset(o.x, 0xff, (size_t)o.elements * sizeof *o.x);
    o.at = memory((size_t)o.elements * sizeof *o.x);
    return o;
}

static void operand_drop(struct operand *o)
{
    ops->host_free(dev, o->x);
    ops->mem_free(dev, o->at);
}

static float normal(int64_t v, int64_t l)
{
    (void)v;
    (void)l;
    return (float)verify_normal(&rng);
}

/* Up to 2047, which 11 bits hold; sums of few of them stay below 2^24. */
static float integer(int64_t v, int64_t l)
{
    return (float)((l + 3 * v) % 5 ? (v * 7 + l * 5) % 61 - 30 : 2047 - v % 100);
}

static float nothing(int64_t v, int64_t l)
{
    return (v + l) % 2 ? NAN : INFINITY;
}

static void fill(struct operand *o, float (*value)(int64_t v, int64_t l))
{
    for (int64_t v = 0; v < o->vectors; v++)
        for (int64_t l = 0; l < o->deep; l++)
            o->x[place(o, v, l)] = value(v, l);
}

/* ---- a product ---- */

static struct gb_function *function(const char *family, const char *symbol)
{
    static struct {
        const char *family;
        struct gb_module *module;
    } known[GB_FAMILIES];
    struct gb_function *f;
    int i = 0;

    while (known[i].family && strcmp(known[i].family, family) != 0)
        i++;
    if (!known[i].family) {
        const struct gb_image *image = gb_image_find(family, &dev->info);

        must(ops->module_load(dev, family, image ? image->data : NULL,
                              image ? image->bytes : 0, &known[i].module),
             family);
        known[i].family = family;
    }
    must(ops->module_get(dev, known[i].module, symbol, &f), symbol);
    return f;
}

/* Bytes that an operand's address and leading dimension are multiples of, at most
 * 128. */
static uint32_t alignment(const struct operand *o)
{
    uint64_t bits = 128 | o->at | (uint64_t)o->ld * sizeof *o->x;

    return (uint32_t)(bits & -bits);
}

/* C := alpha op(A) op(B) + beta C, k in so many parts. */
static void multiply(const struct gb_kernel *k, const struct operand *a,
                     const struct operand *b, float alpha, float beta, float *c,
                     int64_t ldc, int splits)
{
    const char la = a->along ? 't' : 'n', lb = b->along ? 'n' : 't';
    const size_t bytes = (size_t)(ldc * b->vectors) * sizeof *c;
    const unsigned which = gb_launch_repaired(k, la, lb, alignment(a), alignment(b));
    struct gb_gemm_args g = {
        .m = a->vectors,
        .n = b->vectors,
        .k = a->deep,
        .k_end = a->deep,
        .a_m = a->along ? a->ld : 1,
        .a_k = a->along ? 1 : a->ld,
        .b_n = b->along ? b->ld : 1,
        .b_k = b->along ? 1 : b->ld,
        .ldc = ldc,
        .split_len = splits > 1 ? gb_launch_split_length(k, a->deep, splits) : a->deep,
        .alpha = {alpha},
        .beta = {beta},
        .batch = 1,
        .group_m = 8,
        .flags = beta == 0 ? GB_G_BETA_ZERO : 0u,
    };
    gb_devptr work;
    char name[96];

    g.splits = g.split_count = (int32_t)gb_ceil_div(g.k, g.split_len);
    if (g.splits == 1 || gb_launch_sums_splits(k, &g))
        g.flags |= GB_G_EPILOGUE;
    g.a = a->at;
    g.b = b->at;
    g.c = memory(bytes);
    g.partial = memory((size_t)(g.splits * g.m * g.n) * sizeof *c);
    work = memory(gb_launch_repair_bytes(k, GB_REPAIR_A | GB_REPAIR_B, la, lb, &g));
    send(a->at, a->x, (size_t)a->elements * sizeof *a->x);
    send(b->at, b->x, (size_t)b->elements * sizeof *b->x);
    send(g.c, c, bytes);
    if (which)
        must(gb_launch_repair(dev, stream,
                              function(GB_REPAIR_FAMILY, gb_launch_repair_symbol(k)), k,
                              which, la, lb, work, &g),
             "copies");
    gb_kernel_symbol(k, la, lb, name, sizeof name);
    must(gb_launch_gemm(dev, stream, function(k->family, name), k, la, lb, &g,
                        hardware ? 0 : 3),
         k->name);
    if (!(g.flags & GB_G_EPILOGUE)) {
        gb_kernel_reduce_symbol(k, name, sizeof name);
        must(gb_launch_reduce(dev, stream, function(k->family, name), k, &g, 0), name);
    }
    receive(c, g.c, bytes);
    ops->mem_free(dev, work);
    ops->mem_free(dev, g.partial);
    ops->mem_free(dev, g.c);
}

/* ---- what must hold ---- */

/* The worst error over the bound, and whether all is exact; INFINITY where a gap has
 * changed. */
static double compare(const struct operand *a, const struct operand *b, float alpha,
                      float beta, const float *old, const float *c, int64_t ldc,
                      bool *exact)
{
    const double u = 0x1p-24;
    const double share = 0x1p-10 + 0x1p-22 + ((double)a->deep + 2) * u;
    double worst = 0;

    *exact = true;
    for (int64_t j = 0; j < b->vectors; j++)
        for (int64_t i = 0; i < ldc; i++) {
            double sum = 0, size = 0, bound, error;

            if (i >= a->vectors) {
                if (!isnan(c[i + j * ldc]))
                    return INFINITY;
                continue;
            }
            for (int64_t l = 0; l < a->deep; l++) {
                double x = (double)a->x[place(a, i, l)] * b->x[place(b, j, l)];

                sum += x;
                size += fabs(x);
            }
            sum *= alpha;
            bound = share * fabs(alpha) * size + 0x1p-149;
            if (beta != 0) {
                sum += (double)beta * old[i + j * ldc];
                bound += 2 * u * fabs((double)beta * old[i + j * ldc]);
            }
            error = fabs(c[i + j * ldc] - sum);
            *exact = *exact && c[i + j * ldc] == (float)sum;
            if (!(error <= worst * bound)) /* a NaN too */
                worst = isnan(error) ? INFINITY : error / bound;
        }
    return worst;
}

static void check_sums(const struct gb_kernel *k, int x, int64_t m, int64_t n,
                       int64_t deep)
{
    static const float betas[] = {0, 1, -0.5f};
    static const int splits[] = {1, 2, 3, 4};
    struct operand a = operand_new(m, deep, x & 1, x % 5);
    struct operand b = operand_new(n, deep, x >> 1 & 1, x % 3);
    const float alpha = x % 4 == 1 ? -2 : 1, beta = betas[x % 3];
    const int64_t ldc = x % 4 == 2 ? m + 1 : gb_round_up(m, 4);
    const size_t bytes = (size_t)(ldc * n) * sizeof(float);
    float *c = room(bytes), *old = room(bytes);
    const bool whole = x % 2;
    double worst;
    bool exact;

    fill(&a, whole ? integer : normal);
    fill(&b, whole ? integer : normal);
    if (whole) /* small enough that sums stay below 2^24 */
        for (int64_t i = 0; i < b.elements; i++)
            b.x[i] = isnan(b.x[i]) ? b.x[i] : (float)((int)b.x[i] % 3);
    for (int64_t i = 0; i < ldc * n; i++)
        old[i] = beta != 0 && i % ldc < m ? (float)(i % 7) : NAN;
    memcpy(c, old, bytes);
    multiply(k, &a, &b, alpha, beta, c, ldc, splits[x / 2 % 4]);
    worst = compare(&a, &b, alpha, beta, old, c, ldc, &exact);
    ok(worst <= 1 && (!whole || exact),
       "%s: %s, %lldx%lldx%lld, %d splits: %.4f of the bound", k->name,
       whole ? "integers" : "normal", (long long)m, (long long)n, (long long)deep,
       splits[x / 2 % 4], worst);
    ops->host_free(dev, c);
    ops->host_free(dev, old);
    operand_drop(&a);
    operand_drop(&b);
}

/* By a single column of op(B), or row of op(A), of 1 and zeros: elements as they were
 * read. */
static void check_rounding(const struct gb_kernel *k)
{
    enum { M = 200, DEEP = 4 };
    static const float at[][2] = {
        /* an element, and what tf32 has for it */
        {1 + 0x1p-10f, 1 + 0x1p-10f},
        {2047, 2047},
        {-0x1p-126f, -0x1p-126f},
        {0x1p-136f, 0x1p-136f},
        {1 + 0x1.8p-11f, 1 + 0x1p-10f},
        {-(1 + 0x1.fcp-11f), -(1 + 0x1p-10f)},
        {1 + 0x1.cp-12f, 1},
        {2 - 0x1p-20f, 2},
        {0x1.ffcp127f, 0x1.ffcp127f},
        {0x1.ffdp127f, 0x1.ffcp127f},
        {INFINITY, INFINITY},
        {-INFINITY, -INFINITY},
    };

    for (int x = 0; x < 4; x++) {
        struct operand o = operand_new(M, DEEP, x & 1, x & 2 ? 1 : 0);
        struct operand one = operand_new(1, DEEP, x & 1, 0);
        const bool of_b = x == 1 || x == 2;
        int far = 0, wide = 0, wrong = 0;
        float *c = room(sizeof *c * M);

        for (int64_t v = 0; v < M; v++)
            for (int64_t l = 0; l < DEEP; l++)
                o.x[place(&o, v, l)] = l > 0 ? 0
                                       : v < (int64_t)GB_COUNT(at)
                                           ? at[v][0]
                                           : (float)(verify_normal(&rng) * 1000);
        for (int64_t l = 0; l < DEEP; l++)
            one.x[place(&one, 0, l)] = l == 0;
        for (int i = 0; i < M; i++)
            c[i] = NAN;
        multiply(k, of_b ? &one : &o, of_b ? &o : &one, 1, 0, c, of_b ? 1 : M, 1);
        for (int64_t v = 0; v < M; v++) {
            const float read = o.x[place(&o, v, 0)];
            uint32_t bits;

            memcpy(&bits, &c[v], sizeof bits);
            wide += (bits & 0x1fff) != 0;
            if (v < (int64_t)GB_COUNT(at))
                wrong += c[v] != at[v][1];
            else /* within half of its last place */
                far += !(fabs((double)c[v] - read) <= ldexp(1, ilogb(read) - 11));
        }
        ok(wide == 0 && far == 0 && wrong == 0,
           "%s: %s %s k%s is rounded to the nearest tf32", k->name, of_b ? "B" : "A",
           x & 1 ? "along" : "across", x & 2 ? ", ragged," : "");
        if (wide + far + wrong)
            diag("%d are no tf32, %d not the nearest, %d not what they should be", wide,
                 far, wrong);
        ops->host_free(dev, c);
        operand_drop(&o);
        operand_drop(&one);
    }
}

/* Infinities and NaNs come out where they belong, and spoil nothing else. */
static void check_special(const struct gb_kernel *k)
{
    enum { M = 150, N = 140, DEEP = 300 };
    static const int64_t ldc = 152;
    struct operand a = operand_new(M, DEEP, false, 1),
                   b = operand_new(N, DEEP, true, 0);
    float *c = room(sizeof *c * (size_t)ldc * N);
    int wrong = 0;

    fill(&a, normal);
    fill(&b, normal);
    a.x[place(&a, 3, 200)] = INFINITY;
    a.x[place(&a, 140, 10)] = NAN;
    b.x[place(&b, 133, DEEP - 1)] = -INFINITY;
    for (int64_t i = 0; i < ldc * N; i++)
        c[i] = NAN;
    multiply(k, &a, &b, 1, 0, c, ldc, 1);
    for (int64_t j = 0; j < N; j++)
        for (int64_t i = 0; i < M; i++) {
            const float seen = c[i + j * ldc];
            double sum = 0;

            for (int64_t l = 0; l < DEEP; l++)
                sum += (double)a.x[place(&a, i, l)] * b.x[place(&b, j, l)];
            wrong += isnan(sum)   ? !isnan(seen)
                     : isinf(sum) ? seen != (float)sum
                                  : !(fabs(seen - sum) < 1);
        }
    is_int(0, wrong, "%s: infinities and NaNs", k->name);
    ops->host_free(dev, c);
    operand_drop(&a);
    operand_drop(&b);
}

/* alpha 0 drops whatever A and B hold. */
static void check_no_alpha(const struct gb_kernel *k)
{
    enum { M = 130, N = 70, DEEP = 100 };
    struct operand a = operand_new(M, DEEP, false, 0),
                   b = operand_new(N, DEEP, false, 0);
    float *c = room(sizeof *c * M * N);
    int wrong = 0;

    fill(&a, nothing);
    fill(&b, nothing);
    for (int i = 0; i < M * N; i++)
        c[i] = (float)(i % 100);
    multiply(k, &a, &b, 0, 2, c, M, 1);
    for (int i = 0; i < M * N; i++)
        wrong += c[i] != 2 * (float)(i % 100);
    is_int(0, wrong, "%s: alpha 0", k->name);
    ops->host_free(dev, c);
    operand_drop(&a);
    operand_drop(&b);
}

/* ---- operands on the host ---- */

/* Panels, ranges of k and splits of every kind: copies are made of each step's
 * operands. */
static void check_staged(const struct gb_kernel *k, struct gb_engine *engine, int x)
{
    const struct product_spec spec = {
        .type = GB_F32,
        .type_c = GB_F32,
        .transa = x & 1 ? GB_T : GB_N,
        .transb = x & 2 ? GB_T : GB_N,
        .m = 150 + x,
        .n = 133,
        .k = 260 + 3 * x,
        .alpha = {.re = 2},
        .beta = {.re = x % 3 - 1},
        .extra = {x % 2, x % 3, 1},
        .place = VERIFY_MIDDLE,
        .fill = VERIFY_INTEGERS,
    };
    struct gb_exec_stats stats;
    struct product p;
    char why[256] = "";
    enum gb_why answer;

    product_make(&p, &spec, &rng);
    product_plan(&p, x % 4 < 2 ? 150 : 64, x % 8 < 4 ? 50 : 133, x % 3 ? 96 : 1000, 1);
    p.plan.kernel = k;
    if (x % 3 == 2) {
        p.plan.splits = 3;
        p.plan.split_len = gb_launch_split_length(k, p.p.k, 3);
    }
    answer = gb_exec(engine, &p.plan, &stats);
    ok(answer == GB_OK && product_check(&p, product_pieces_total(&p), why, sizeof why),
       "%s: staged %c%c, panels of %lldx%lldx%lld, %d splits%s%s", k->name,
       x & 1 ? 't' : 'n', x & 2 ? 't' : 'n', (long long)p.plan.panel_m,
       (long long)p.plan.panel_n, (long long)p.plan.panel_k, p.plan.splits,
       *why ? ": " : "", why);
    product_drop(&p);
}

static bool served(const struct gb_kernel *k)
{
    return (k->flags & GB_K_FAST) &&
           (!hardware ||
            (gb_kernel_runs(k, &dev->info) && gb_image_find(k->family, &dev->info)));
}

int main(void)
{
    static const int64_t sides[] = {1, 127, 128, 129, 200, 64, 300, 17};
    static const int64_t deeps[] = {1, 31, 32, 100, 257, 700};
    const char *knob = getenv("GEMMBLAS_DEVICE");
    const struct gb_kernel *first = NULL;
    struct gb_device_ref ref;
    struct gb_guest guest;
    int rows = 0;

    if (gb_device_list(knob ? knob : "emu", &ref, 1) < 1)
        skip_all("no device for GEMMBLAS_DEVICE=%s", knob ? knob : "emu");
    ops = ref.ops;
    must(ops->open(ref.ordinal, &dev), "open");
    must(ops->enter(dev, &guest), "enter");
    must(ops->stream_create(dev, &stream), "stream_create");
    hardware = dev->info.vendor != GB_EMU;
    diag("%s, %s", dev->info.name, dev->info.arch_name);
    plan_lazy();
    rng = verify_seed(11);
    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];

        if (!served(k))
            continue;
        first = first ? first : k;
        for (int x = 0; x < (hardware ? 24 : 6); x++, rows++)
            check_sums(k, rows, sides[rows * 3 % 8], sides[(rows * 5 + 4) % 8],
                       deeps[rows % 6]);
        check_rounding(k);
        check_special(k);
        check_no_alpha(k);
    }
    if (!first)
        skip("no row computes so on %s", dev->info.arch_name);
    ops->stream_destroy(dev, stream);
    ops->leave(dev, &guest);
    ops->close(dev);
    if (first && !hardware) {
        struct gb_engine *engine = product_engine();

        for (int x = 0; x < 12; x++)
            check_staged(gb_kernel_find("gemm_wgmma_tf32_64x64x32"), engine, x);
        gb_engine_close(engine);
    }
    return 0;
}
