/* SPDX-License-Identifier: BSD-3-Clause */
/* fp32 products from fp16 ones, on fibers: the parts of operands of any layout, and that what they
 * give keeps to the bound of fp32 arithmetic. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fiber_emul.h"
#include "operands.h"
#include "split_args.h"
#include "tap.h"
#include "util.h"

static char error[200];
static struct verify_random rng;

/* Operand X by its vectors: v of `vectors`, l of `deep`. */
struct operand {
    int vectors, deep;
    bool along; /* the unit stride runs along k */
    int64_t ld;
    float *x;
    uint16_t *high, *low;
    float *scales;
    int64_t ld_split, scale_ld;
};

static float *at(const struct operand *o, int v, int l)
{
    return o->along ? o->x + v * o->ld + l : o->x + l * o->ld + v;
}

static void *area(size_t bytes)
{
    return aligned_alloc(128, (bytes + 255) / 128 * 128);
}

static struct operand operand_new(int vectors, int deep, bool along, int gap)
{
    struct operand o = {.vectors = vectors,
                        .deep = deep,
                        .along = along,
                        .ld = (along ? deep : vectors) + gap,
                        .ld_split = gb_round_up(deep, 64),
                        .scale_ld = gb_round_up(vectors, 256)};
    int64_t blocks = gb_ceil_div(deep, GB_SPLIT_K);

    o.x = area((size_t)(o.ld * (along ? vectors : deep)) * sizeof *o.x);
    memset(o.x, 0xff, (size_t)(o.ld * (along ? vectors : deep)) * sizeof *o.x);
    o.high = area((size_t)(o.ld_split * vectors) * 2);
    o.low = area((size_t)(o.ld_split * vectors) * 2);
    o.scales = area((size_t)(o.scale_ld * blocks) * sizeof *o.scales);
    memset(o.scales, 0xff, (size_t)(o.scale_ld * blocks) * sizeof *o.scales);
    return o;
}

static void operand_drop(struct operand *o)
{
    free(o->x);
    free(o->high);
    free(o->low);
    free(o->scales);
}

static uint32_t split(const struct operand *o)
{
    uint32_t met = 0;
    const struct gb_split_args g = {
        .from = (uintptr_t)o->x,
        .vectors = o->vectors,
        .deep = o->deep,
        .of_vector = o->along ? o->ld : 1,
        .of_k = o->along ? 1 : o->ld,
        .high = (uintptr_t)o->high,
        .low = (uintptr_t)o->low,
        .ld = o->ld_split,
        .scales = (uintptr_t)o->scales,
        .scale_ld = o->scale_ld,
        .met = (uintptr_t)&met,
    };

    if (gb_fiber_run(o->along ? &emul_split_along : &emul_split_across, 3,
                     GB_SPLIT_THREADS, 1, 0, &g, sizeof g,
                     (uint32_t)verify_next(&rng) | 1, error, sizeof error))
        bail("%s", error);
    return met;
}

/* high + 2^-11 low, scaled back. */
static double whole(const struct operand *o, int v, int l)
{
    return (verify_from_f16(o->high[v * o->ld_split + l]) +
            verify_from_f16(o->low[v * o->ld_split + l]) / 2048) *
           o->scales[l / GB_SPLIT_K * o->scale_ld + v];
}

static void check_parts(void)
{
    for (int x = 0; x < 16; x++) {
        struct operand o = operand_new(1 + x * 7 % 70, 1 + x * 53 % 400, x % 2, x % 5);
        double worst = 0;
        bool zeros = true, exact = true;

        for (int v = 0; v < o.vectors; v++)
            for (int l = 0; l < o.deep; l++)
                *at(&o, v, l) = x % 4 == 3 ? (float)((v * 31 + l * 17) % 4095 - 2047)
                                           : (float)ldexp(1 + fabs(verify_normal(&rng)),
                                                          (v * 13 + l) % 20);
        is_int(0, split(&o), "%d vectors of %d, %s: nothing special", o.vectors, o.deep,
               o.along ? "along k" : "across");
        for (int v = 0; v < o.vectors; v++)
            for (int l = 0; l < o.ld_split; l++) {
                double want = l < o.deep ? *at(&o, v, l) : 0, seen;

                if (l >= o.deep) {
                    zeros &= o.high[v * o.ld_split + l] == 0 &&
                             o.low[v * o.ld_split + l] == 0;
                    continue;
                }
                seen = whole(&o, v, l);
                exact &= seen == want;
                if (want != 0 && fabs(seen - want) > worst * fabs(want))
                    worst = fabs(seen - want) / fabs(want);
            }
        ok(worst <= 0x1p-22 && zeros && (x % 4 != 3 || exact),
           "its parts are it, to 2^%.1f%s", worst > 0 ? log2(worst) : -99.0,
           x % 4 == 3 ? ": integers exactly" : "");
        operand_drop(&o);
    }
}

static void check_met(void)
{
    static const struct {
        float x, y; /* two elements of a block of ones; 0: no such */
        uint32_t met;
        const char *what;
    } cases[] = {
        {1, 1, 0, "ones"},
        {0, -0.0f, 0, "zeros"},
        {0x1p-28f, 1, 0, "a span of 28"},
        {0x1p-29f, 1, GB_SPLIT_WIDE, "a span of 29"},
        {0x1p-140f, 1, GB_SPLIT_WIDE, "a denormal"},
        {INFINITY, 1, GB_SPLIT_SPECIAL, "an infinity"},
        {-INFINITY, 1, GB_SPLIT_SPECIAL, "another"},
        {NAN, 1, GB_SPLIT_SPECIAL, "a NaN"},
        {0x1p127f, 0x1p127f, GB_SPLIT_WIDE, "the largest beside ones"},
    };

    for (size_t i = 0; i < GB_COUNT(cases); i++)
        for (int along = 0; along < 2; along++) {
            struct operand o = operand_new(40, 200, along, 1);

            for (int v = 0; v < 40; v++)
                for (int l = 0; l < 200; l++)
                    *at(&o, v, l) = 1;
            *at(&o, 37, 150) = cases[i].x;
            *at(&o, 37, 151) = cases[i].y;
            is_int(cases[i].met, split(&o), "%s, %s", cases[i].what,
                   along ? "along k" : "across");
            operand_drop(&o);
        }
    {
        struct operand o = operand_new(3, 5, true, 0);

        for (int i = 0; i < 15; i++)
            o.x[i] = 0x1p-101f;
        is_int(GB_SPLIT_SPECIAL, split(&o), "very small numbers alone");
        operand_drop(&o);
    }
}

static void describe(struct gb_tensor_map *map, const uint16_t *x, int64_t ld, int deep,
                     int vectors, int rows)
{
    const struct gb_host_tensor t = {.at = (uintptr_t)x,
                                     .dim = {(uint64_t)deep, (uint64_t)vectors, 1},
                                     .stride = {(uint64_t)ld * 2, 16},
                                     .box = {64, (uint32_t)rows},
                                     .element_bytes = 2};

    memset(map, 0, sizeof *map);
    memcpy(map, &t, sizeof t);
}

static void multiply(const struct emul_tile *tile, const struct operand *a,
                     const struct operand *b, float alpha, float beta, float *c,
                     int64_t ldc, uint32_t *met)
{
    struct gb_emul_args e = {
        .t.g = {.c = (uintptr_t)c,
                .m = a->vectors,
                .n = b->vectors,
                .k = a->deep,
                .k_end = a->deep,
                .ldc = ldc,
                .split_len = a->deep,
                .alpha = {alpha},
                .beta = {beta},
                .splits = 1,
                .split_count = 1,
                .batch = 1,
                .group_m = 8,
                .flags = GB_G_EPILOGUE | (beta == 0 ? GB_G_BETA_ZERO : 0u)},
        .t.together = 1,
        .t.c_direct = ldc % 4 != 0,
        .a_scales = (uintptr_t)a->scales,
        .b_scales = (uintptr_t)b->scales,
        .a_scale_ld = a->scale_ld,
        .b_scale_ld = b->scale_ld,
        .met = (uintptr_t)met,
    };
    struct gb_host_tensor of_c = {
        .at = (uintptr_t)c,
        .dim = {(uint64_t)a->vectors, (uint64_t)b->vectors, 1},
        .stride = {(uint64_t)ldc * 4, 16},
        .box = {32, 16},
        .element_bytes = 4};
    struct gb_tile_map map;

    describe(&e.t.a, a->high, a->ld_split, a->deep, a->vectors, tile->m);
    describe(&e.a_low, a->low, a->ld_split, a->deep, a->vectors, tile->m);
    describe(&e.t.b, b->high, b->ld_split, b->deep, b->vectors, tile->n);
    describe(&e.b_low, b->low, b->ld_split, b->deep, b->vectors, tile->n);
    memcpy(&e.t.c, &of_c, sizeof of_c);
    gb_tile_map_init(&map, &e.t.g, tile->m, tile->n);
    if (!gb_tile_map32_init(&e.t.map, &map) ||
        gb_fiber_run(&tile->kernel, 2, (uint32_t)tile->threads, 1, tile->smem, &e,
                     sizeof e, (uint32_t)verify_next(&rng) | 1, error, sizeof error))
        bail("%s", error);
}

/* Worst error over the bound of fp32 arithmetic, ours and of a chain of multiply-adds. */
static void check_products(void)
{
    static const char *const kinds[] = {"normal", "positive", "graded", "integers"};

    for (int x = 0; x < 24; x++) {
        const struct emul_tile *tile = &emul_tiles[x % EMUL_TILES];
        const int m = 1 + x * 67 % 300, n = 1 + x * 41 % 200, k = 1 + x * 131 % 700;
        struct operand a = operand_new(m, k, x / 2 % 2, x % 3);
        struct operand b = operand_new(n, k, x / 4 % 2, x % 2);
        const int kind = x % 4;
        const float alpha = x % 3 == 1 ? -0.5f : 1, beta = x % 3 == 2 ? 2 : 0;
        const int64_t ldc = x % 5 == 1 ? m + 1 : gb_round_up(m, 4);
        float *c = area((size_t)(ldc * n) * sizeof *c);
        uint32_t met = 0;
        double ours = 0, chain = 0;
        bool right = true;

        for (int l = 0; l < k; l++) {
            for (int v = 0; v < m; v++)
                *at(&a, v, l) =
                    (float)(kind == 3   ? (v * 7 + l * 5) % 41 - 20
                            : kind == 1 ? fabs(verify_normal(&rng))
                                        : verify_normal(&rng) *
                                              ldexp(1, kind == 2 ? l % 8 : 0));
            for (int v = 0; v < n; v++)
                *at(&b, v, l) =
                    (float)(kind == 3   ? (v * 3 + l * 11) % 31 - 15
                            : kind == 1 ? fabs(verify_normal(&rng))
                                        : verify_normal(&rng) *
                                              ldexp(1, kind == 2 ? -(l % 8) : 0));
        }
        for (int64_t i = 0; i < ldc * n; i++)
            c[i] = beta != 0 && i % ldc < m ? (float)(i % 7) : NAN;
        if (split(&a) | split(&b))
            bail("met");
        multiply(tile, &a, &b, alpha, beta, c, ldc, &met);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                double sum = 0, bound = 0, old = beta != 0 ? (i + j * ldc) % 7 : 0;
                float fma_sum = 0;

                for (int l = 0; l < k; l++) {
                    double p = (double)*at(&a, i, l) * *at(&b, j, l);

                    sum += p;
                    bound += fabs(p);
                    fma_sum = fmaf(*at(&a, i, l), *at(&b, j, l), fma_sum);
                }
                bound = (k + 2) * 0x1p-24 * fabs(alpha) * bound +
                        2 * 0x1p-24 * fabs(beta * old);
                if (kind == 3)
                    right &= c[i + j * ldc] == (float)(alpha * sum + beta * old);
                ours = fmax(ours,
                            fabs(c[i + j * ldc] - (alpha * sum + beta * old)) / bound);
                chain = fmax(chain, fabs(alpha * (fma_sum - sum)) / bound);
            }
        for (int64_t i = 0; i < ldc * n; i++)
            right &= i % ldc < m || isnan(c[i]);
        ok(right && ours <= 1, "%s %dx%dx%d, tile %s: %.3f of the bound, a chain %.3f",
           kinds[kind], m, n, k, tile->kernel.symbol, ours, chain);
        free(c);
        operand_drop(&a);
        operand_drop(&b);
    }
}

static void check_refused(void)
{
    struct operand a = operand_new(5, 130, true, 0), b = operand_new(6, 130, false, 0);
    uint32_t met = GB_SPLIT_WIDE;
    float c[30];
    bool same = true;

    for (int i = 0; i < 5 * 130; i++)
        a.x[i] = 1;
    for (int i = 0; i < 6 * 130; i++)
        b.x[i] = 1;
    split(&a);
    split(&b);
    for (int i = 0; i < 30; i++)
        c[i] = (float)i;
    multiply(&emul_tiles[0], &a, &b, 1, 0, c, 5, &met);
    for (int i = 0; i < 30; i++)
        same &= c[i] == (float)i;
    ok(same, "with anything met C stays as it is");
    operand_drop(&a);
    operand_drop(&b);
}

int main(void)
{
    plan_lazy();
    rng = verify_seed(7);
    check_parts();
    check_met();
    check_products();
    check_refused();
    return 0;
}
