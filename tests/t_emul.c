/* SPDX-License-Identifier: BSD-3-Clause */
/* fp32 products from fp16 ones (gemm_emul.h): every row, on the emulated device (whose fibers
 * multiply as tensor cores do: with 25 bits, cut off) or on hardware. Data of many kinds keep to
 * DESIGN 8's bound, element by element, in every layout; what parts of fp16 cannot hold is left
 * to fp32 and comes out as if all had been; and the error beside that of a chain of fp32
 * multiply-adds is told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "emulated.h"
#include "kernels.h"
#include "operands.h"
#include "split_args.h"
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

/* ---- data ---- */

enum kind {
    NORMAL,
    UNIFORM,
    POSITIVE,
    SPARSE,
    INTEGERS,
    GRADED,
    SPREAD_1,
    SPREAD_2,
    SPREAD_4,
    SPREAD_6,
    LARGE,
    TINY,
    DENORMAL,
    KINDS
};

static const struct {
    const char *name;
    /* What is promised of the Frobenius error, in those of a chain of multiply-adds; and that
     * fp32 computes some of it (1), none of it (0), or either. */
    double most;
    int left;
} kinds[KINDS] = {
    [NORMAL] = {"normal", 1, 0},
    [UNIFORM] = {"uniform", 1, 0},
    [POSITIVE] = {"positive", 1, 0},
    [SPARSE] = {"half zeros", 1, -1},
    [INTEGERS] = {"integers", 1, 0},
    [GRADED] = {"graded over 2^60", 3, -1},
    [SPREAD_1] = {"exp(normal)", 3, 0},
    [SPREAD_2] = {"exp(2 normal)", 3, -1},
    [SPREAD_4] = {"exp(4 normal)", 3, -1},
    [SPREAD_6] = {"exp(6 normal)", 3, -1},
    [LARGE] = {"near 2^58", 3, 1},
    [TINY] = {"near 2^-60", 3, 1},
    [DENORMAL] = {"denormals among ones", 3, -1},
};

/* Element l of vector v: of op(A)'s rows, or (b) of op(B)'s columns. */
static float draw(enum kind kind, bool b, int64_t v, int64_t l, int64_t deep)
{
    double x = verify_normal(&rng);

    switch (kind) {
    case UNIFORM:
        return (float)((double)(verify_next(&rng) >> 11) * 0x1p-53);
    case POSITIVE:
        return (float)(1 + fabs(x));
    case SPARSE:
        return verify_next(&rng) % 2 ? (float)x : 0;
    case INTEGERS:
        return (float)((v * 7 + l * (b ? 11 : 5)) % 41 - 20);
    case GRADED:
        return (float)ldexp(x, (int)(60 * l / deep - 30) * (b ? -1 : 1));
    case SPREAD_1:
        return (float)exp(x);
    case SPREAD_2:
        return (float)exp(2 * x);
    case SPREAD_4:
        return (float)exp(4 * x);
    case SPREAD_6:
        return (float)exp(6 * x);
    case LARGE:
        return (float)ldexp(x, 58);
    case TINY:
        return (float)ldexp(x, -60);
    case DENORMAL:
        return l % 37 == 3 ? 0x1p-140f : 1;
    default:
        return (float)x;
    }
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

static void fill(struct operand *o, enum kind kind, bool b)
{
    for (int64_t v = 0; v < o->vectors; v++)
        for (int64_t l = 0; l < o->deep; l++)
            o->x[place(o, v, l)] = draw(kind, b, v, l, o->deep);
}

/* ---- a product ---- */

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

/* What is more than one product: so many, of rows of A one below the other, each by all of B, or of
 * all of A by columns of B one beside the other; and a bias for each row of C. */
struct more {
    int batch;
    bool of_b;
    const float *bias;
};

/* C := alpha op(A) op(B) + beta C; what is answered: was anything left to fp32? */
static bool multiply(const struct gb_kernel *k, const struct operand *a,
                     const struct operand *b, float alpha, float beta, float *c,
                     int64_t ldc, struct more more)
{
    struct gb_module *module = module_of(k);
    const int64_t m = a->vectors / (more.of_b ? 1 : more.batch);
    const int64_t n = b->vectors / (more.of_b ? more.batch : 1);
    const size_t bytes = (size_t)(ldc * n * more.batch) * sizeof *c;
    gb_devptr bias = memory((size_t)m * sizeof *c);
    char name[96];
    uint32_t *any = room(sizeof *any);
    struct gb_emulated f = {{NULL}};
    gb_devptr work;
    bool left;
    struct gb_gemm_args g = {
        .m = m,
        .n = n,
        .k = a->deep,
        .k_end = a->deep,
        .a_m = a->along ? a->ld : 1,
        .a_k = a->along ? 1 : a->ld,
        .b_n = b->along ? b->ld : 1,
        .b_k = b->along ? 1 : b->ld,
        .ldc = ldc,
        .split_len = a->deep,
        .alpha = {alpha},
        .beta = {beta},
        .splits = 1,
        .split_count = 1,
        .batch = more.batch,
        .a_batch = more.of_b ? 0 : m * (a->along ? a->ld : 1),
        .b_batch = more.of_b ? n * (b->along ? b->ld : 1) : 0,
        .c_batch = ldc * n,
        .group_m = 8,
        .flags = GB_G_EPILOGUE | (beta == 0 ? GB_G_BETA_ZERO : 0u),
    };

    for (int i = 0; i < GB_EMULATED_STEPS; i++)
        if (gb_emulated_symbol(k, (enum gb_emulated_step)i, a->along ? 't' : 'n',
                               b->along ? 'n' : 't', name, sizeof name))
            f.step[i] = function(module, name);
    if (more.bias) {
        g.flags |= GB_G_FUSED;
        g.fused.bias = bias;
        send(bias, more.bias, (size_t)m * sizeof *c);
    }
    g.a = a->at;
    g.b = b->at;
    g.c = memory(bytes);
    work = memory(gb_emulated_bytes(k, &g));
    send(a->at, a->x, (size_t)a->elements * sizeof *a->x);
    send(b->at, b->x, (size_t)b->elements * sizeof *b->x);
    send(g.c, c, bytes);
    must(gb_emulated_launch(dev, stream, &f, k, &g, work, hardware ? 0 : 3), k->name);
    receive(c, g.c, bytes);
    receive(any, gb_emulated_left(k, &g, work), sizeof *any);
    left = *any != 0;
    ops->host_free(dev, any);
    ops->mem_free(dev, bias);
    ops->mem_free(dev, work);
    ops->mem_free(dev, g.c);
    return left;
}

static const struct more one = {1, false, NULL};

/* ---- what must hold ---- */

/* Of all elements: the worst error over the bound, and sums of squares of the errors of ours and
 * of a chain of fp32 multiply-adds. */
struct errors {
    double worst, ours, chain;
    bool exact, gaps; /* gaps: between C's columns nothing has changed */
};

static struct errors compare(const struct operand *a, const struct operand *b,
                             float alpha, float beta, const float *old, const float *c,
                             int64_t ldc)
{
    struct errors e = {.exact = true, .gaps = true};

    for (int64_t j = 0; j < b->vectors; j++)
        for (int64_t i = 0; i < ldc; i++) {
            double sum = 0, size = 0, bound, want, error;
            float chain = 0;

            if (i >= a->vectors) {
                e.gaps &= isnan(c[i + j * ldc]);
                continue;
            }
            for (int64_t l = 0; l < a->deep; l++) {
                float x = a->x[place(a, i, l)], y = b->x[place(b, j, l)];

                sum += (double)x * y;
                size += fabs((double)x * y);
                chain = fmaf(x, y, chain);
            }
            want = alpha * sum;
            bound = ((double)a->deep + 2) * 0x1p-24 * fabs(alpha) * size;
            if (beta != 0) {
                want += (double)beta * old[i + j * ldc];
                bound += 2 * 0x1p-24 * fabs((double)beta * old[i + j * ldc]);
                chain = fmaf(alpha, chain, beta * old[i + j * ldc]);
            } else {
                chain *= alpha;
            }
            bound += 0x1p-149; /* of a result that is denormal itself */
            error = fabs(c[i + j * ldc] - want);
            e.exact &= c[i + j * ldc] == (float)want;
            if (!(error <= e.worst * bound)) /* a NaN too, and for good */
                e.worst = error > e.worst * bound ? error / bound : INFINITY;
            e.ours += error * error;
            e.chain += (chain - want) * (chain - want);
        }
    return e;
}

static void check_kind(const struct gb_kernel *k, enum kind kind, int64_t m, int64_t n,
                       int64_t deep, int x)
{
    struct operand a = operand_new(m, deep, x & 1, x % 3);
    struct operand b = operand_new(n, deep, x >> 1 & 1, x % 2);
    const float alpha = x % 3 == 1 ? -0.5f : 1, beta = x % 3 == 2 ? 2 : 0;
    const int64_t ldc = x % 4 == 1 ? m + 1 : gb_round_up(m, 4);
    const size_t bytes = (size_t)(ldc * n) * sizeof(float);
    float *c = room(bytes), *old = room(bytes);
    struct errors e;
    double ratio;
    bool left;

    fill(&a, kind, false);
    fill(&b, kind, true);
    for (int64_t i = 0; i < ldc * n; i++)
        old[i] = beta != 0 && i % ldc < m ? (float)(i % 7) : NAN;
    memcpy(c, old, bytes);
    left = multiply(k, &a, &b, alpha, beta, c, ldc, one);
    e = compare(&a, &b, alpha, beta, old, c, ldc);
    ratio = e.chain > 0 ? sqrt(e.ours / e.chain) : e.ours > 0 ? INFINITY : 0;
    ok(e.worst <= 1 && e.gaps && (kind != INTEGERS || e.exact),
       "%s: %s, %lldx%lldx%lld: %.4f of the bound%s", k->name, kinds[kind].name,
       (long long)m, (long long)n, (long long)deep, e.worst,
       left ? ", some left to fp32" : "");
    ok((ratio <= kinds[kind].most || left) &&
           (kinds[kind].left < 0 || kinds[kind].left == left),
       "  %.2f of the error of multiply-adds in the Frobenius norm", ratio);
    ops->host_free(dev, c);
    ops->host_free(dev, old);
    operand_drop(&a);
    operand_drop(&b);
}

/* Infinities and NaNs come out where they belong, and spoil nothing else. */
static void check_special(const struct gb_kernel *k)
{
    enum { M = 150, N = 140 };
    const int64_t deep = gb_emulated_least_k(k) + 44;
    struct operand a = operand_new(M, deep, true, 0),
                   b = operand_new(N, deep, false, 1);
    const int64_t ldc = 152;
    float *c = room(sizeof *c * ldc * N);
    int wrong = 0;
    bool left;

    fill(&a, NORMAL, false);
    fill(&b, NORMAL, true);
    a.x[place(&a, 3, 200)] = INFINITY;
    a.x[place(&a, 140, 10)] = NAN;
    b.x[place(&b, 133, deep - 1)] = -INFINITY;
    for (int64_t i = 0; i < ldc * N; i++)
        c[i] = NAN;
    left = multiply(k, &a, &b, 1, 0, c, ldc, one);
    for (int64_t j = 0; j < N; j++)
        for (int64_t i = 0; i < M; i++) {
            double sum = 0;
            float seen = c[i + j * ldc];

            for (int64_t l = 0; l < deep; l++)
                sum += (double)a.x[place(&a, i, l)] * b.x[place(&b, j, l)];
            if (isnan(sum)   ? !isnan(seen)
                : isinf(sum) ? seen != (float)sum
                             : !(fabs(seen - sum) <= (double)(deep * deep) * 0x1p-22))
                wrong++;
        }
    ok(wrong == 0 && left, "%s: infinities and NaNs are fp32's", k->name);
    ops->host_free(dev, c);
    operand_drop(&a);
    operand_drop(&b);
}

/* One tile of many is left, and the others are not computed again: C's old value counts once. */
static void check_some_left(const struct gb_kernel *k)
{
    enum { M = 300, N = 270 };
    const int64_t deep = gb_emulated_least_k(k);
    struct operand a = operand_new(M, deep, false, 0),
                   b = operand_new(N, deep, true, 0);
    const size_t bytes = sizeof(float) * M * N;
    float *c = room(bytes), *old = room(bytes);
    struct errors e;
    bool left;

    fill(&a, NORMAL, false);
    fill(&b, NORMAL, true);
    a.x[place(&a, 200, 77)] = 0x1p-130f; /* of its tile row alone */
    for (int64_t l = 0; l < deep; l++)
        b.x[place(&b, 5, l)] = l == 77 ? 1 : 0;
    for (int64_t i = 0; i < M * N; i++)
        c[i] = old[i] = (float)(i % 13 - 6);
    left = multiply(k, &a, &b, 1, -1, c, M, one);
    e = compare(&a, &b, 1, -1, old, c, M);
    ok(e.worst <= 1 && left, "%s: a tile that is left counts once: %.4f of the bound",
       k->name, e.worst);
    ops->host_free(dev, c);
    ops->host_free(dev, old);
    operand_drop(&a);
    operand_drop(&b);
}

/* Batches of which one operand is the same, with a bias, and one of them left to fp32. */
static void check_batch(const struct gb_kernel *k)
{
    enum { M = 140, N = 150, BATCH = 3 };
    const int64_t deep = gb_emulated_least_k(k) + 44;

    for (int x = 0; x < 8; x++) {
        const bool along = x & 1, fused = x & 2, of_b = x & 4;
        struct operand a = operand_new(of_b ? M : M * BATCH, deep, along, 1);
        struct operand b = operand_new(of_b ? N * BATCH : N, deep, !along, 0);
        struct operand a_of = a, b_of = b;
        const int64_t ldc = M + fused;
        const size_t each = sizeof(float) * (size_t)(ldc * N);
        float *c = room(each * BATCH), *bias = room(sizeof *bias * M);
        double worst = 0;
        bool left, gaps = true;

        fill(&a, NORMAL, false);
        fill(&b, NORMAL, true);
        if (of_b)
            b.x[place(&b, N * 2 - 1, 5)] = 0x1p100f;
        else
            a.x[place(&a, M * 2 - 1, 5)] = 0x1p100f;
        for (int64_t i = 0; i < ldc * N * BATCH; i++)
            c[i] = NAN;
        for (int i = 0; i < M; i++)
            bias[i] = fused ? (float)(i % 9 - 4) : 0;
        left = multiply(k, &a, &b, 2, 0, c, ldc,
                        (struct more){BATCH, of_b, fused ? bias : NULL});
        a_of.vectors = M;
        b_of.vectors = N;
        for (int z = 0; z < BATCH; z++) {
            float *const at = c + z * ldc * N;
            struct errors e;

            *(of_b ? &b_of.x : &a_of.x) = of_b ? b.x + place(&b, (int64_t)z * N, 0)
                                               : a.x + place(&a, (int64_t)z * M, 0);
            for (int64_t i = 0; i < ldc * N; i++)
                at[i] -= i % ldc < M ? bias[i % ldc] : 0;
            e = compare(&a_of, &b_of, 2, 0, NULL, at, ldc);
            worst = isfinite(e.worst) ? fmax(worst, e.worst) : INFINITY;
            gaps &= e.gaps;
        }
        ok(worst <= 1 && gaps && left,
           "%s: a batch, %c the same, %s%s: %.4f of the bound", k->name,
           of_b ? 'A' : 'B', along ? "along k" : "across", fused ? ", with a bias" : "",
           worst);
        ops->host_free(dev, c);
        ops->host_free(dev, bias);
        operand_drop(&a);
        operand_drop(&b);
    }
}

/* alpha 0 drops whatever A and B hold. */
static void check_no_alpha(const struct gb_kernel *k)
{
    enum { M = 130, N = 130 };
    const int64_t deep = gb_emulated_least_k(k);
    struct operand a = operand_new(M, deep, true, 0), b = operand_new(N, deep, true, 0);
    float *c = room(sizeof *c * M * N);
    int wrong = 0;

    for (int64_t i = 0; i < a.elements; i++)
        a.x[i] = b.x[i] = i % 2 ? NAN : INFINITY;
    for (int64_t i = 0; i < M * N; i++)
        c[i] = (float)(i % 100);
    multiply(k, &a, &b, 0, 2, c, M, one);
    for (int64_t i = 0; i < M * N; i++)
        wrong += c[i] != 2 * (float)(i % 100);
    is_int(0, wrong, "%s: alpha 0", k->name);
    ops->host_free(dev, c);
    operand_drop(&a);
    operand_drop(&b);
}

static bool served(const struct gb_kernel *k)
{
    return (k->flags & GB_K_EMULATED) && k->type == GB_F32 &&
           (!hardware ||
            (gb_kernel_runs(k, &dev->info) && gb_image_find(k->family, &dev->info)));
}

int main(void)
{
    static const int64_t sides[] = {1, 127, 128, 129, 200, 64, 300, 17};
    static const int64_t deeps[] = {0, 1, 128, 244, 744, 1792}; /* beyond the least */
    const char *knob = getenv("GEMMBLAS_DEVICE");
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
    rng = verify_seed(7);
    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];
        bool few =
            !hardware && k->tile_k > 64; /* fibers take their time for a long k */
        int x = 0;

        if (!served(k))
            continue;
        rows++;
        for (int kind = 0; kind < KINDS; kind++)
            for (int turn = 0; turn < (hardware ? 4 : few ? 1 : 2); turn++, x++)
                check_kind(k, (enum kind)kind, sides[few ? x % 4 + 4 : x * 3 % 8],
                           few ? 20 + x : sides[(x * 5 + 4) % 8],
                           gb_emulated_least_k(k) + deeps[(hardware ? x : x % 5) % 6],
                           x);
        if (few)
            continue;
        check_special(k);
        check_some_left(k);
        check_batch(k);
        check_no_alpha(k);
    }
    if (rows == 0)
        skip("no row computes so on %s", dev->info.arch_name);
    ops->stream_destroy(dev, stream);
    ops->leave(dev, &guest);
    ops->close(dev);
    return 0;
}
