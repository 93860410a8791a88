/* SPDX-License-Identifier: BSD-3-Clause */
/* fp64 products from residues (residue_args.h): the arithmetic by itself, and every row, on the
 * emulated device or on hardware. Data of many kinds keep to DESIGN 8's bound, element by
 * element, in every layout; what residues cannot promise is left to native arithmetic, tile by tile;
 * and the error beside that of a chain of fp64 multiply-adds is told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "kernels.h"
#include "operands.h"
#include "residue_math.h"
#include "residues.h"
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

/* ---- arithmetic ---- */

/* The quotient grows where x passes the middle between two multiples of p, and is right between two
 * places where it is right. */
static void check_reduction(const struct gb_cut_args *cut)
{
    int64_t wrong = 0;

    for (int i = 0; i < GB_MODULI_MOST; i++) {
        const struct gb_modulus *by = &cut->modulus[i];
        const int64_t p = by->p, most = (int64_t)127 * 127 * GB_RESIDUE_MOST_K;

        for (int64_t x = -most / p * p; x <= most; x += p)
            for (int e = 0; e < 2; e++) {
                const int64_t at = x + (p - 1) / 2 + e;
                const int32_t r = gb_residue_of((int32_t)at, by);

                wrong += at <= most && ((at - r) % p != 0 || r < -128 || r > 127);
            }
        for (int64_t x = INT32_MAX; p == 256 && x > INT32_MAX - 1000; x--)
            wrong += (uint8_t)gb_residue_of((int32_t)x, by) != (uint8_t)x ||
                     (uint8_t)gb_residue_of((int32_t)-x, by) != (uint8_t)-x;
    }
    is_int(0, wrong, "sums are reduced modulo each p, and fit a byte");
}

/* Numbers to residues, as both operands have them, and back. */
static void check_joining(const struct gb_cut_args *cut)
{
    struct gb_join_args join;
    int wrong[3] = {0, 0, 0};

    gb_residues_joining(&join);
    for (int c = 0; c < GB_MODULI_CHOICES; c++) {
        const int count = GB_MODULI_LEAST + c;
        const int bits_a = cut->bits[0][c], bits_b = cut->bits[1][c];
        unsigned __int128 product = 1;

        for (int i = 0; i < count; i++)
            product *= (unsigned)cut->modulus[i].p;
        /* 2 A'B', whose norms rounding may have enlarged, is less */
        wrong[0] += ((unsigned __int128)1 << (bits_a + bits_b + 1)) +
                        ((unsigned __int128)1 << (bits_a + bits_b - 37)) >=
                    product;
        for (int turn = 0; turn < 20000; turn++) {
            const int64_t a = (int64_t)(verify_next(&rng) >> 1) >> (63 - bits_a) >>
                              turn % 50,
                          b = (int64_t)verify_next(&rng) >> (63 - bits_b) >> turn % 37;
            const int64_t x = turn == 0   ? (int64_t)1 << bits_a
                              : turn == 1 ? 0
                              : turn % 2  ? -a
                                          : a;
            const int64_t y = turn == 0 ? -((int64_t)1 << bits_b) : b;
            const __int128 exact = (__int128)x * y;
            struct gb_residue_sum sum = {{0}, 0};

            for (int i = 0; i < count; i++) {
                const struct gb_modulus *by = &cut->modulus[i];
                int32_t r = gb_residue_of_long(x, &cut->a[c][i], by),
                        s = gb_residue_of_long(y, &cut->b[i], by);

                wrong[1] +=
                    r < -128 || r > 127 || s < -128 || s > 127 || (y - s) % by->p != 0;
                gb_residue_add(&sum, (uint32_t)(gb_residue_of(r * s, by) + 128),
                               &join.by[c].of[i], join.part[i]);
            }
            wrong[2] += gb_residue_sum_of(&sum, &join.by[c]) != (double)exact;
        }
    }
    is_int(0, wrong[0], "the product of the moduli is large enough");
    is_int(0, wrong[1], "residues of long numbers fit a byte");
    is_int(0, wrong[2], "numbers come out of their residues, rounded to nearest");
}

/* ---- data ---- */

enum kind {
    NORMAL,
    UNIFORM,
    POSITIVE,
    ONES,
    SPARSE,
    INTEGERS,
    GRADED,
    SPREAD_1,
    SPREAD_2,
    SPREAD_4,
    SPREAD_6,
    ROWS,
    LARGE,
    TINY,
    DENORMAL,
    KINDS
};

static const struct {
    const char *name;
    /* What is promised of the Frobenius error, in those of a chain of multiply-adds; and that
     * native arithmetic computes some of it (1), none of it (0), or either. */
    double most;
    int left;
} kinds[KINDS] = {
    [NORMAL] = {"normal", 1, 0},
    [UNIFORM] = {"uniform", 1, 0},
    [POSITIVE] = {"positive", 1, 0},
    [ONES] = {"nearly 1", 1, 0},
    [SPARSE] = {"half zeros", 3, -1},
    [INTEGERS] = {"integers", 1, 0},
    [GRADED] = {"graded over 2^60", 3, -1},
    [SPREAD_1] = {"exp(normal)", 3, -1},
    [SPREAD_2] = {"exp(2 normal)", 3, -1},
    [SPREAD_4] = {"exp(4 normal)", 3, -1},
    [SPREAD_6] = {"exp(6 normal)", 3, -1},
    [ROWS] = {"vectors from 2^-200 to 2^200, some 0", 1, 0},
    [LARGE] = {"near 2^400", 3, 1},
    [TINY] = {"near 2^-400", 3, 1},
    [DENORMAL] = {"denormals among ones", 3, 0},
};

/* Element l of vector v: of op(A)'s rows, or (b) of op(B)'s columns. */
static double draw(enum kind kind, bool b, int64_t v, int64_t l, int64_t deep)
{
    double x = verify_normal(&rng);

    switch (kind) {
    case UNIFORM:
        return (double)(verify_next(&rng) >> 11) * 0x1p-53;
    case POSITIVE:
        return 1 + fabs(x);
    case ONES:
        return 1 + x * 0x1p-20;
    case SPARSE:
        return verify_next(&rng) % 2 ? x : 0;
    case INTEGERS:
        return (double)((v * 7 + l * (b ? 11 : 5)) % 41 - 20);
    case GRADED:
        return ldexp(x, (int)(60 * l / deep - 30) * (b ? -1 : 1));
    case SPREAD_1:
        return exp(x);
    case SPREAD_2:
        return exp(2 * x);
    case SPREAD_4:
        return exp(4 * x);
    case SPREAD_6:
        return exp(6 * x);
    case ROWS:
        return v % 11 == 5 ? 0 : ldexp(x, (int)(v * 37 % 401) - 200);
    case LARGE:
        return ldexp(x, 400);
    case TINY:
        return ldexp(x, -400);
    case DENORMAL:
        return l % 37 == 3 ? 0x1p-1060 : 1;
    default:
        return x;
    }
}

/* ---- operands ---- */

/* op(A) by rows, or op(B) by columns: `vectors` of `deep`. */
struct operand {
    int64_t vectors, deep, ld, elements;
    bool along; /* the unit stride runs along k */
    double *x;
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
 * all of A by columns of B one beside the other. */
struct more {
    int batch;
    bool of_b;
};

/* How many moduli the last product had. */
static int wanted;

/* C := alpha op(A) op(B) + beta C; what is answered: was anything left to native arithmetic? */
static bool multiply(const struct gb_kernel *k, const struct operand *a,
                     const struct operand *b, double alpha, double beta, double *c,
                     int64_t ldc, struct more more)
{
    struct gb_module *module = module_of(k);
    const int64_t m = a->vectors / (more.of_b ? 1 : more.batch);
    const int64_t n = b->vectors / (more.of_b ? more.batch : 1);
    const size_t bytes = (size_t)(ldc * n * more.batch) * sizeof *c;
    char name[96];
    struct gb_residue_state *state = room(sizeof *state);
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
    g.a = a->at;
    g.b = b->at;
    g.c = memory(bytes);
    work = memory(gb_emulated_bytes(k, &g));
    send(a->at, a->x, (size_t)a->elements * sizeof *a->x);
    send(b->at, b->x, (size_t)b->elements * sizeof *b->x);
    send(g.c, c, bytes);
    must(gb_emulated_launch(dev, stream, &f, k, &g, work, hardware ? 0 : 3), k->name);
    receive(c, g.c, bytes);
    receive(state, gb_emulated_left(k, &g, work), sizeof *state);
    left = state->any != 0;
    wanted = 0;
    for (int i = 0; i < GB_MODULI_CHOICES; i++)
        if (state->wanted[i])
            wanted = GB_MODULI_LEAST + i;
    ops->host_free(dev, state);
    ops->mem_free(dev, work);
    ops->mem_free(dev, g.c);
    return left;
}

static const struct more one = {1, false};

/* ---- what must hold ---- */

/* Of all elements: the worst error over the bound, and sums of squares of the errors of ours and
 * of a chain of multiply-adds, each over its bound, so that vectors of all sizes count alike. */
struct errors {
    double worst, ours, chain;
    bool exact, gaps; /* gaps: between C's columns nothing has changed */
};

static struct errors compare(const struct operand *a, const struct operand *b,
                             double alpha, double beta, const double *old,
                             const double *c, int64_t ldc)
{
    struct errors e = {.exact = true, .gaps = true};

    for (int64_t j = 0; j < b->vectors; j++)
        for (int64_t i = 0; i < ldc; i++) {
            long double sum = 0, size = 0, bound, want, error, of_chain;
            double chain = 0;

            if (i >= a->vectors) {
                e.gaps &= isnan(c[i + j * ldc]);
                continue;
            }
            for (int64_t l = 0; l < a->deep; l++) {
                double x = a->x[place(a, i, l)], y = b->x[place(b, j, l)];
                long double xy = (long double)x * y;

                sum += xy;
                size += fabsl(xy);
                chain = fma(x, y, chain);
            }
            want = alpha * sum;
            bound = ((long double)a->deep + 2) * 0x1p-53L * fabs(alpha) * size;
            if (beta != 0) {
                want += (long double)beta * old[i + j * ldc];
                bound += 2 * 0x1p-53L * fabsl((long double)beta * old[i + j * ldc]);
                chain = fma(alpha, chain, beta * old[i + j * ldc]);
            } else {
                chain *= alpha;
            }
            bound += 0x1p-1074L; /* of a result that is denormal itself */
            error = fabsl(c[i + j * ldc] - want) / bound;
            of_chain = (chain - want) / bound;
            e.exact &= c[i + j * ldc] == (double)want;
            if (!(error <= e.worst)) /* a NaN too, and for good */
                e.worst = error > e.worst ? (double)error : INFINITY;
            e.ours += (double)(error * error);
            e.chain += (double)(of_chain * of_chain);
        }
    return e;
}

static void check_kind(const struct gb_kernel *k, enum kind kind, int64_t m, int64_t n,
                       int64_t deep, int x)
{
    struct operand a = operand_new(m, deep, x & 1, x % 3);
    struct operand b = operand_new(n, deep, x >> 1 & 1, x % 2);
    const double alpha = x % 3 == 1 ? -0.5 : 1, beta = x % 3 == 2 ? 2 : 0;
    const int64_t ldc = x % 4 == 1 ? m + 1 : gb_round_up(m, 4);
    const size_t bytes = (size_t)(ldc * n) * sizeof(double);
    double *c = room(bytes), *old = room(bytes);
    struct errors e;
    double ratio;
    bool left;

    fill(&a, kind, false);
    fill(&b, kind, true);
    for (int64_t i = 0; i < ldc * n; i++)
        old[i] = beta != 0 && i % ldc < m ? (double)(i % 7) : NAN;
    memcpy(c, old, bytes);
    left = multiply(k, &a, &b, alpha, beta, c, ldc, one);
    e = compare(&a, &b, alpha, beta, old, c, ldc);
    ratio = e.chain > 0 ? sqrt(e.ours / e.chain) : e.ours > 0 ? INFINITY : 0;
    ok(e.worst <= 1 && e.gaps && (kind != INTEGERS || e.exact),
       "%s: %s, %lldx%lldx%lld: %.4f of the bound%s", k->name, kinds[kind].name,
       (long long)m, (long long)n, (long long)deep, e.worst, left ? ", some left" : "");
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
    double *c = room(sizeof *c * ldc * N);
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
            double sum = 0, seen = c[i + j * ldc];

            for (int64_t l = 0; l < deep; l++)
                sum += a.x[place(&a, i, l)] * b.x[place(&b, j, l)];
            if (isnan(sum)   ? !isnan(seen)
                : isinf(sum) ? seen != sum
                             : !(fabs(seen - sum) <= (double)(deep * deep) * 0x1p-51))
                wrong++;
        }
    ok(wrong == 0 && left, "%s: infinities and NaNs are native", k->name);
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
    const size_t bytes = sizeof(double) * M * N;
    double *c = room(bytes), *old = room(bytes);
    struct errors e;
    bool left;

    fill(&a, NORMAL, false);
    fill(&b, NORMAL, true);
    a.x[place(&a, 200, 77)] = 0x1p-80; /* of its tile row alone */
    for (int64_t l = 0; l < deep; l++)
        b.x[place(&b, 5, l)] = l == 77 ? 1 : 0;
    for (int64_t i = 0; i < M * N; i++)
        c[i] = old[i] = (double)(i % 13 - 6);
    left = multiply(k, &a, &b, 1, -1, c, M, one);
    e = compare(&a, &b, 1, -1, old, c, M);
    ok(e.worst <= 1 && left, "%s: a tile that is left counts once: %.4f of the bound",
       k->name, e.worst);
    ops->host_free(dev, c);
    ops->host_free(dev, old);
    operand_drop(&a);
    operand_drop(&b);
}

/* Batches of which one operand is the same, one of them left. */
static void check_batch(const struct gb_kernel *k)
{
    enum { M = 140, N = 150, BATCH = 3 };
    const int64_t deep = gb_emulated_least_k(k) + 44, ldc = M + 1;
    const size_t each = sizeof(double) * (size_t)(ldc * N);

    for (int x = 0; x < 4; x++) {
        const bool along = x & 1, of_b = x & 2;
        struct operand a = operand_new(of_b ? M : M * BATCH, deep, along, 1);
        struct operand b = operand_new(of_b ? N * BATCH : N, deep, !along, 0);
        struct operand a_of = a, b_of = b;
        double *c = room(each * BATCH);
        double worst = 0;
        bool left, gaps = true;

        fill(&a, NORMAL, false);
        fill(&b, NORMAL, true);
        if (of_b)
            b.x[place(&b, N * 2 - 1, 5)] = 0x1p400;
        else
            a.x[place(&a, M * 2 - 1, 5)] = 0x1p400;
        for (int64_t i = 0; i < ldc * N * BATCH; i++)
            c[i] = NAN;
        left = multiply(k, &a, &b, 2, 0, c, ldc, (struct more){BATCH, of_b});
        a_of.vectors = M;
        b_of.vectors = N;
        for (int z = 0; z < BATCH; z++) {
            struct errors e;

            *(of_b ? &b_of.x : &a_of.x) = of_b ? b.x + place(&b, (int64_t)z * N, 0)
                                               : a.x + place(&a, (int64_t)z * M, 0);
            e = compare(&a_of, &b_of, 2, 0, NULL, c + z * ldc * N, ldc);
            worst = isfinite(e.worst) ? fmax(worst, e.worst) : INFINITY;
            gaps &= e.gaps;
        }
        ok(worst <= 1 && gaps && left,
           "%s: a batch, %c the same, %s: %.4f of the bound", k->name, of_b ? 'A' : 'B',
           along ? "along k" : "across", worst);
        ops->host_free(dev, c);
        operand_drop(&a);
        operand_drop(&b);
    }
}

/* Panels of C's columns, of which one is left in part. */
static void check_panels(const struct gb_kernel *k)
{
    enum { M = 140, N = 700 };
    const int64_t deep = gb_emulated_least_k(k);
    const int64_t whole = gb_residues_panel_bytes;
    struct operand a = operand_new(M, deep, true, 0),
                   b = operand_new(N, deep, false, 1);
    const size_t bytes = sizeof(double) * M * N;
    double *c = room(bytes), *old = room(bytes);
    struct errors e;
    bool left;

    fill(&a, NORMAL, false);
    fill(&b, NORMAL, true);
    b.x[place(&b, 300, 9)] = 0x1p500;
    for (int64_t i = 0; i < M * N; i++)
        c[i] = old[i] = (double)(i % 13 - 6);
    gb_residues_panel_bytes = 1; /* so that one is a tile's columns */
    left = multiply(k, &a, &b, 1, 3, c, M, one);
    gb_residues_panel_bytes = whole;
    e = compare(&a, &b, 1, 3, old, c, M);
    ok(e.worst <= 1 && left, "%s: by panels: %.4f of the bound", k->name, e.worst);
    ops->host_free(dev, c);
    ops->host_free(dev, old);
    operand_drop(&a);
    operand_drop(&b);
}

/* The more the magnitudes of a vector differ, the more moduli, and then it is left; just before that the
 * error is still what is promised. */
static void check_hand_over(const struct gb_kernel *k)
{
    enum { M = 64, N = 64, STEPS = 24 };
    const int64_t deep = gb_emulated_least_k(k);
    double *c = room(sizeof *c * M * N), worst = 0, ratio = 0;
    int seen[GB_MODULI_MOST + 1] = {0}, before = 0, wrong = 0;

    for (int step = 0; step < STEPS; step++) {
        struct operand a = operand_new(M, deep, true, 0),
                       b = operand_new(N, deep, false, 1);
        const double phi = 0.1 * step;
        struct errors e;
        int moduli;

        for (int64_t v = 0; v < M; v++)
            for (int64_t l = 0; l < deep; l++) {
                const double x = verify_normal(&rng), y = verify_normal(&rng);

                a.x[place(&a, v, l)] = exp(phi * x) * (verify_next(&rng) % 2 ? -1 : 1);
                b.x[place(&b, v, l)] = exp(phi * y);
            }
        multiply(k, &a, &b, 1, 0, c, M, one);
        moduli = wanted ? wanted : GB_MODULI_MOST + 1; /* more than there are */
        wrong += moduli < before;
        before = moduli;
        if (wanted) {
            seen[wanted]++;
            e = compare(&a, &b, 1, 0, NULL, c, M);
            worst = isfinite(e.worst) ? fmax(worst, e.worst) : INFINITY;
            ratio = fmax(ratio, sqrt(e.ours / e.chain));
        }
        operand_drop(&a);
        operand_drop(&b);
    }
    ops->host_free(dev, c);
    ok(wrong == 0 && seen[14] && seen[15] && seen[16] && before > GB_MODULI_MOST,
       "%s: 14, 15, 16 moduli, and none: %d, %d, %d times of %d", k->name, seen[14],
       seen[15], seen[16], STEPS);
    ok(worst <= 1 && ratio <= 3,
       "  till then at most %.4f of the bound, %.2f of the error of multiply-adds",
       worst, ratio);
}

/* alpha 0 drops whatever A and B hold. */
static void check_no_alpha(const struct gb_kernel *k)
{
    enum { M = 130, N = 130 };
    const int64_t deep = gb_emulated_least_k(k);
    struct operand a = operand_new(M, deep, true, 0), b = operand_new(N, deep, true, 0);
    double *c = room(sizeof *c * M * N);
    int wrong = 0;

    for (int64_t i = 0; i < a.elements; i++)
        a.x[i] = b.x[i] = i % 2 ? NAN : INFINITY;
    for (int64_t i = 0; i < M * N; i++)
        c[i] = (double)(i % 100);
    multiply(k, &a, &b, 0, 2, c, M, one);
    for (int64_t i = 0; i < M * N; i++)
        wrong += c[i] != 2 * (double)(i % 100);
    is_int(0, wrong, "%s: alpha 0", k->name);
    ops->host_free(dev, c);
    operand_drop(&a);
    operand_drop(&b);
}

static bool served(const struct gb_kernel *k)
{
    return (k->flags & GB_K_EMULATED) && k->type == GB_F64 &&
           (!hardware ||
            (gb_kernel_runs(k, &dev->info) && gb_image_find(k->family, &dev->info)));
}

/* A plan has one piece of memory for its panels of C, of which the last are smaller: fewer rows may
 * let more columns be computed at a time, and that must not take more. */
static void check_bytes(void)
{
    const struct gb_gemm_args seen = {.m = 16768, .n = 20000, .k = 8192};
    struct gb_gemm_args last = seen;
    const int64_t whole = gb_residues_panel_bytes;
    struct verify_random r = verify_seed(8);
    int wrong = 0;

    last.m = 16624;
    ok(gb_residues_bytes(&last) <= gb_residues_bytes(&seen),
       "the last rows of 134000 have room in the memory of the others");
    for (int i = 0; i < 20000; i++) {
        const struct gb_gemm_args most = {.m = 1 + verify_below(&r, 3000),
                                          .n = 1 + verify_below(&r, 3000),
                                          .k = 256 + verify_below(&r, 3000),
                                          .batch = verify_below(&r, 3),
                                          .b_batch = verify_below(&r, 2)};
        struct gb_gemm_args part = most;

        gb_residues_panel_bytes = verify_below(&r, 64 << 20);
        part.m = 1 + verify_below(&r, most.m);
        part.n = 1 + verify_below(&r, most.n);
        wrong += gb_residues_bytes(&part) > gb_residues_bytes(&most);
    }
    gb_residues_panel_bytes = whole;
    is_int(0, wrong, "no part of a product takes more memory than all of it");
}

int main(void)
{
    static const int64_t sides[] = {1, 127, 128, 129, 200, 64, 300, 17};
    static const int64_t deeps[] = {0, 1, 128, 244, 444, 1792}; /* beyond the least */
    const char *knob = getenv("GEMMBLAS_DEVICE");
    struct gb_cut_args cut = {.state = 0};
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
    gb_residues_cutting(&cut);
    check_reduction(&cut);
    check_joining(&cut);
    check_bytes();
    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];
        int x = 0;

        if (!served(k))
            continue;
        rows++;
        for (int kind = 0; kind < KINDS; kind++)
            for (int turn = 0; turn < (hardware ? 4 : 2); turn++, x++)
                check_kind(k, (enum kind)kind, sides[x * 3 % 8], sides[(x * 5 + 4) % 8],
                           gb_emulated_least_k(k) + deeps[(hardware ? x : x % 5) % 6],
                           x);
        check_special(k);
        check_some_left(k);
        check_batch(k);
        check_panels(k);
        check_hand_over(k);
        check_no_alpha(k);
    }
    if (rows == 0)
        skip("no row computes so on %s", dev->info.arch_name);
    ops->stream_destroy(dev, stream);
    ops->leave(dev, &guest);
    ops->close(dev);
    return 0;
}
