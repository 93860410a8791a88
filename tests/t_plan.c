/* SPDX-License-Identifier: BSD-3-Clause */
/* Planning and routing are pure, so they are swept: every panel of C covered once, every
 * budget kept, the overlap test against brute force, and the cost model's order (without tuned
 * rows, which t_tuned.c has). */
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "model.h"
#include "plan.h"
#include "route.h"
#include "residue_args.h"
#include "tap.h"
#include "util.h"

static uint64_t state = 88172645463325252u;

static int64_t draw(int64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (uint64_t)below);
}

static struct gb_problem problem(enum gb_type t, int64_t m, int64_t n, int64_t k)
{
    return (struct gb_problem){
        .op = GB_GEMM,
        .type = t,
        .type_c = t,
        .m = m,
        .n = n,
        .k = k,
        .alpha = {.re = 1},
        .a = (const void *)(UINT64_C(1) << 50),
        .b = (const void *)(UINT64_C(1) << 51),
        .c = (void *)(UINT64_C(1) << 52),
        .lda = gb_max(1, m),
        .ldb = gb_max(1, k),
        .ldc = gb_max(1, m),
    };
}

/* Every element of a small C belongs to exactly one piece of one panel. */
static bool covers(const struct gb_plan *plan)
{
    int64_t m = plan->p.m, n = plan->p.n, seen = 0;
    unsigned char *hit = calloc((size_t)(m * n), 1);
    bool right = true;

    for (int64_t x = 0; x < gb_plan_panels(plan); x++) {
        struct gb_rect panel = gb_plan_panel(plan, x);
        int64_t pieces = gb_rect_pieces(panel, plan->piece_rows, plan->piece_cols);

        for (int64_t y = 0; y < pieces; y++) {
            struct gb_rect r =
                gb_rect_piece(panel, plan->piece_rows, plan->piece_cols, y);

            right =
                right && r.m > 0 && r.n > 0 && r.i + r.m <= m && r.j + r.n <= n &&
                (size_t)(r.m * r.n) * gb_type_size(plan->p.type_c) <= plan->slot_bytes;
            for (int64_t j = r.j; right && j < r.j + r.n; j++)
                for (int64_t i = r.i; i < r.i + r.m; i++)
                    right = right && hit[i + j * m]++ == 0;
            seen += r.m * r.n;
        }
    }
    free(hit);
    return right && seen == m * n;
}

static void test_cover(void)
{
    bool right = true;

    for (int i = 0; i < 300 && right; i++) {
        struct gb_problem p =
            problem(GB_F64, 1 + draw(300), 1 + draw(300), 1 + draw(300));
        struct gb_plan plan = {.p = p, .slot_bytes = 1 << 20};

        plan.panel_m = 1 + draw(p.m);
        plan.panel_n = 1 + draw(p.n);
        plan.panel_k = 1 + draw(p.k);
        plan.piece_rows = 1 + draw(plan.panel_m);
        plan.piece_cols = 1 + draw(plan.panel_n);
        plan.rows_first = draw(2) == 0;
        right = covers(&plan);
    }
    ok(right, "panels and pieces cover C exactly once, whatever their sizes");
}

static void test_budget(void)
{
    static const enum gb_type types[] = {GB_F16, GB_F32, GB_F64, GB_C32, GB_C64};
    int made = 0, refused = 0;
    bool right = true, same_bits = true;

    for (int i = 0; i < 4000 && right; i++) {
        struct gb_problem p =
            problem(types[draw(5)], 1 + draw(20000), 1 + draw(20000), 1 + draw(20000));
        size_t budget = (size_t)1 << (16 + draw(22));
        struct gb_plan plan, roomy;
        enum gb_why why = gb_plan_make(&p, &gb_model_typical, budget, &plan);

        if (why == GB_WHY_OOM) {
            refused++;
            continue;
        }
        made++;
        right = why == GB_OK && gb_plan_bytes(&plan) <= budget && plan.panel_m >= 1 &&
                plan.panel_m <= p.m && plan.panel_n >= 1 && plan.panel_n <= p.n &&
                plan.panel_k >= 1 && plan.panel_k <= p.k && plan.piece_rows >= 1 &&
                plan.piece_cols >= 1 &&
                (size_t)(plan.piece_rows * plan.piece_cols) * gb_type_size(p.type_c) <=
                    plan.slot_bytes;
        if (gb_plan_make(&p, &gb_model_typical, (size_t)1 << 40, &roomy) == GB_OK)
            same_bits = same_bits && roomy.kernel == plan.kernel &&
                        roomy.splits == plan.splits &&
                        roomy.split_len == plan.split_len;
    }
    ok(right, "a plan keeps its budget and its slots");
    ok(same_bits, "kernel row and split do not depend on the memory there is");
    ok(made > 1000 && refused > 10, "both fates occur (%d planned, %d refused)", made,
       refused);
}

/* A handful of rows over a long k: no panel is empty. */
static void test_thin(void)
{
    bool right = true;

    for (int64_t m = 1; m <= 9 && right; m++) {
        for (int64_t k = 1; k <= INT64_C(1000000000) && right; k *= 10) {
            for (int64_t n = 1; n <= 300 && right; n += 13) {
                struct gb_problem p = problem(GB_F64, m, n, k);
                struct gb_plan plan;
                enum gb_why why =
                    gb_plan_make(&p, &gb_model_typical, (size_t)1 << 38, &plan);

                right = why == GB_OK && plan.panel_m >= 1 && plan.panel_n >= 1 &&
                        plan.panel_k >= 1 && plan.panel_m <= m && plan.panel_n <= n &&
                        gb_plan_panels(&plan) >= 1;
                if (!right)
                    diag("m %lld n %lld k %lld: %s", (long long)m, (long long)n,
                         (long long)k, gb_why_name(why));
            }
        }
    }
    ok(right, "thin products over any k have panels");
}

static void test_kernel_choice(void)
{
    struct gb_choice c = {0};
    struct gb_problem p = problem(GB_F64, 64, 64, 65536);
    bool found =
        gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c);

    ok(found && c.splits > 1, "few tiles and a long k are split (%d)", c.splits);
    ok(c.split_len * (c.splits - 1) < p.k && c.split_len * c.splits >= p.k,
       "the splits cover k and none is empty");
    p = problem(GB_F64, 8192, 8192, 8192);
    found = gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c);
    ok(found && c.splits == 1, "many tiles are not");
    p.type = GB_I32;
    ok(!gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c),
       "a type without kernels has no plan");
}

/* Rows that TMA feeds, where this build has them. */
static void test_tma_choice(void)
{
    static const enum gb_type pairs[][2] = {
        {GB_F16, GB_F16}, {GB_F16, GB_F32}, {GB_BF16, GB_BF16}, {GB_BF16, GB_F32}};

    for (size_t i = 0; i < GB_COUNT(pairs); i++) {
        const char *name = gb_type_name(pairs[i][0]);
        struct gb_problem p = problem(pairs[i][0], 4096, 4096, 4096);
        struct gb_choice c = {0};
        struct gb_plan plan;

        p.type_c = pairs[i][1];
        if (!gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c) ||
            !(c.kernel->flags & GB_K_TMA)) {
            skip("%s: built without Hopper's rows", name);
            continue;
        }
        ok(gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, 2, 0, &c) &&
               (c.kernel->flags & GB_K_TMA) && c.repair == GB_REPAIR_B,
           "%s: a large operand of less alignment is copied", name);
        p.m = p.k = 8;
        ok(gb_plan_model(&p, &gb_model_typical, 2, 2, 0, &c) && c.repair == 0 &&
               c.kernel->align <= 2,
           "%s: for a little product another row is quicker", name);
        p = problem(pairs[i][0], 20000, 20000, 20000);
        p.type_c = pairs[i][1];
        ok(gb_plan_make(&p, &gb_model_typical, (size_t)300 << 20, &plan) == GB_OK &&
               (plan.kernel->flags & GB_K_TMA) && plan.panel_k < p.k &&
               plan.panel_k % plan.kernel->tile_k == 0,
           "%s: short of memory, k is cut between its buffers", name);
        for (int side = 0; side < 3; side++) {
            int64_t *const of[] = {&p.m, &p.n, &p.k};
            bool tma;

            p.m = p.n = p.k = 64;
            *of[side] = GB_TMA_MOST;
            tma = gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0,
                                &c) &&
                  (c.kernel->flags & GB_K_TMA);
            ++*of[side];
            ok(tma &&
                   gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0,
                                 &c) &&
                   !(c.kernel->flags & GB_K_TMA),
               "%s: %c beyond TMA's count likewise", name, "mnk"[side]);
        }
    }
}

/* The same of fp64. */
static void test_emulated_f64(void)
{
    struct gb_problem p = problem(GB_F64, 8192, 8192, 8192);
    struct gb_choice c = {0};
    struct gb_plan plan;
    int wrong = 0;

    p.math = GB_MATH_EMULATED;
    if (!gb_plan_model(&p, &gb_model_typical, 8, 8, 0, &c) ||
        !(c.kernel->flags & GB_K_EMULATED)) {
        skip("built without rows for emulated fp64");
        return;
    }
    ok(c.splits == 1 && c.tail == 0 && c.terms.copies > 0 && c.terms.sums > 0,
       "emulated fp64: what is around the products is counted");
    for (int64_t side = 16; side <= 1024; side *= 2) {
        p.m = p.n = p.k = side;
        wrong += !gb_plan_model(&p, &gb_model_typical, 8, 8, 0, &c) ||
                 (c.kernel->flags & GB_K_EMULATED);
    }
    p = problem(GB_F64, 8192, 8192, 8192);
    p.math = GB_MATH_EMULATED;
    for (int i = 0; i < 4; i++) {
        p.k = i == 0 ? GB_RESIDUE_LEAST_K - 1 : i == 1 ? GB_RESIDUE_MOST_K + 1 : 8192;
        p.n = i == 2 ? 16 : 8192;
        p.uplo = i == 3 ? GB_LOWER : GB_FULL;
        wrong += !gb_plan_model(&p, &gb_model_typical, 8, 8, 0, &c) ||
                 (c.kernel->flags & GB_K_EMULATED);
    }
    is_int(0, wrong,
           "small, short, very long, narrow and triangular products are native");
    p = problem(GB_F64, 8192, 8192, 8192);
    p.math = GB_MATH_EMULATED;
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)1 << 38, &plan) == GB_OK &&
           (plan.kernel->flags & GB_K_EMULATED) && plan.panel_k == p.k,
       "staged, a panel has all of k");
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)16 << 20, &plan) == GB_OK &&
           !(plan.kernel->flags & GB_K_EMULATED) && gb_plan_bytes(&plan) <= 16 << 20,
       "where residues have no room, native");
}

/* Rows that compute from parts of numbers are for those who ask, and where they are quicker. */
static void test_emulated(void)
{
    struct gb_problem p = problem(GB_F32, 4096, 4096, 4096);
    struct gb_choice c = {0};
    struct gb_plan plan;
    int wrong = 0;

    for (int64_t side = 16; side <= 16384; side *= 2) {
        p.m = p.n = p.k = side;
        wrong += !gb_plan_model(&p, &gb_model_typical, 4, 4, 0, &c) ||
                 (c.kernel->flags & GB_K_EMULATED);
    }
    is_int(0, wrong, "native products are");
    p = problem(GB_F32, 4096, 4096, 4096);
    p.math = GB_MATH_EMULATED;
    if (!gb_plan_model(&p, &gb_model_typical, 4, 4, 0, &c) ||
        !(c.kernel->flags & GB_K_EMULATED)) {
        skip("built without rows for emulated fp32");
        return;
    }
    ok(c.splits == 1 && c.tail == 0 && c.repair == (GB_REPAIR_A | GB_REPAIR_B) &&
           c.terms.copies > 0,
       "emulated: operands are cut into parts, and that is counted");
    for (int i = 0; i < gb_kernel_count; i++)
        if (gb_kernels[i].flags & GB_K_EMULATED && gb_kernels[i].type == p.type)
            wrong += gb_plan_row(&p, &gb_model_typical, &gb_kernels[i], 4, 4, 0, 2, &c);
    is_int(0, wrong, "no such row has splits");
    for (int64_t k = 1; k < GB_EMUL_LEAST_K; k++) {
        p.k = k;
        wrong += !gb_plan_model(&p, &gb_model_typical, 4, 4, 0, &c) ||
                 (c.kernel->flags & GB_K_EMULATED);
    }
    p = problem(GB_F32, 16, 4096, 4096);
    p.math = GB_MATH_EMULATED;
    wrong += !gb_plan_model(&p, &gb_model_typical, 4, 4, 0, &c) ||
             (c.kernel->flags & GB_K_EMULATED);
    p.m = 4096;
    p.uplo = GB_LOWER;
    wrong += !gb_plan_model(&p, &gb_model_typical, 4, 4, 0, &c) ||
             (c.kernel->flags & GB_K_EMULATED);
    is_int(0, wrong, "a short k, a narrow side and a triangle are native");
    for (int t = GB_F16; t < GB_TYPES; t++) {
        p = problem((enum gb_type)t, 4096, 4096, 4096);
        p.math = GB_MATH_EMULATED;
        if (t != GB_F32 && t != GB_F64 &&
            gb_plan_model(&p, &gb_model_typical, 256, 256, 0, &c))
            wrong += (c.kernel->flags & GB_K_EMULATED) != 0;
    }
    is_int(0, wrong, "so are the other types");
    p = problem(GB_F32, 4096, 4096, 4096);
    p.math = GB_MATH_EMULATED;
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)1 << 38, &plan) == GB_OK &&
           (plan.kernel->flags & GB_K_EMULATED) && plan.panel_k == p.k &&
           gb_plan_needs(&plan).partial.size >
               (size_t)((plan.panel_m + plan.panel_n) * p.k) * sizeof(float),
       "staged, a panel's parts have room");
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)64 << 20, &plan) == GB_OK &&
           (plan.kernel->flags & GB_K_EMULATED) && plan.panel_k == p.k &&
           plan.panel_m % GB_SPLIT_TILE == 0 && plan.panel_n % GB_SPLIT_TILE == 0 &&
           gb_plan_bytes(&plan) <= 64 << 20,
       "short of memory, of whole tiles of the guard");
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)4 << 20, &plan) == GB_OK &&
           !(plan.kernel->flags & GB_K_EMULATED) && gb_plan_bytes(&plan) <= 4 << 20,
       "where not even one has room, native");
    p = problem(GB_F16, 4096, 4096, 4096);
    wrong = 0;
    for (int64_t side = 16; side < 5000; side += 333) {
        struct gb_choice d = {0};

        p.m = p.n = p.k = side;
        p.math = GB_MATH_NATIVE;
        wrong += !gb_plan_kernel(&p, &gb_model_typical, 256, 256, &c);
        p.math = GB_MATH_EMULATED;
        wrong += !gb_plan_kernel(&p, &gb_model_typical, 256, 256, &d) ||
                 d.kernel != c.kernel || d.splits != c.splits || d.chosen != c.chosen;
    }
    is_int(0, wrong, "fp16 is planned as ever");
}

/* Rows for tf32 are for those who ask, and where they are quicker. */
static void test_fast(void)
{
    static const unsigned copied[] = {GB_REPAIR_A, GB_REPAIR_A | GB_REPAIR_B, 0,
                                      GB_REPAIR_B}; /* NN NT TN TT */
    struct gb_problem p = problem(GB_F32, 4096, 4096, 4096);
    struct gb_choice c = {0}, d = {0};
    struct gb_plan plan;
    int wrong = 0;

    p.math = GB_MATH_FAST;
    if (!gb_plan_model(&p, &gb_model_typical, 16, 16, 0, &c) ||
        !(c.kernel->flags & GB_K_FAST)) {
        skip("built without rows for tf32");
        return;
    }
    for (int64_t side = 16; side <= 16384; side *= 2) {
        p = problem(GB_F32, side, side, side);
        wrong += !gb_plan_kernel(&p, &gb_model_typical, 128, 128, &c) ||
                 (c.kernel->flags & GB_K_FAST);
        p.math = GB_MATH_EMULATED;
        wrong += !gb_plan_kernel(&p, &gb_model_typical, 128, 128, &d) ||
                 (d.kernel->flags & GB_K_FAST);
        p.math = GB_MATH_FAST;
        wrong += !gb_plan_kernel(&p, &gb_model_typical, 128, 128, &d) ||
                 (d.kernel->flags & GB_K_EMULATED) ||
                 (d.seconds > c.seconds && c.chosen == GB_BY_MODEL);
    }
    is_int(0, wrong, "tf32 is for MATH=fast alone, and where it is quicker");
    for (int x = 0; x < 8; x++) {
        const uint32_t align = x & 4 ? 4 : 16;

        p.m = p.n = p.k = 4096;
        p.transa = x & 2 ? GB_T : GB_N;
        p.transb = x & 1 ? GB_T : GB_N;
        wrong += !gb_plan_model(&p, &gb_model_typical, align, align, 0, &c) ||
                 !(c.kernel->flags & GB_K_FAST) ||
                 c.repair != (align == 4 ? GB_REPAIR_A | GB_REPAIR_B : copied[x & 3]) ||
                 (c.repair != 0) != (c.terms.copies > 0);
    }
    is_int(0, wrong, "what does not run along k, or is ragged, is copied and counted");
    p.uplo = GB_LOWER;
    ok(gb_plan_model(&p, &gb_model_typical, 128, 128, 0, &c) &&
           !(c.kernel->flags & GB_K_FAST),
       "a triangle is native");
    for (int t = GB_F16; t < GB_TYPES; t++)
        for (int64_t side = 16; t != GB_F32 && side < 5000; side += 333) {
            bool one, other;

            p = problem((enum gb_type)t, side, side, side);
            one = gb_plan_kernel(&p, &gb_model_typical, 128, 128, &c);
            p.math = GB_MATH_FAST;
            other = gb_plan_kernel(&p, &gb_model_typical, 128, 128, &d);
            wrong +=
                one != other || (one && (c.kernel != d.kernel || c.splits != d.splits ||
                                         c.chosen != d.chosen));
        }
    is_int(0, wrong, "other types are planned as ever");
    p = problem(GB_F32, 4096, 4096, 4096);
    p.math = GB_MATH_FAST;
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)1 << 38, &plan) == GB_OK &&
           (plan.kernel->flags & GB_K_FAST) && gb_plan_copied(&plan) == GB_REPAIR_A &&
           gb_plan_copies(&plan) >=
               (size_t)(plan.panel_m * plan.panel_k) * sizeof(float),
       "staged, a panel's copies have room");
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)16 << 20, &plan) == GB_OK &&
           (plan.kernel->flags & GB_K_FAST) && plan.panel_k < p.k &&
           plan.panel_k % plan.kernel->tile_k == 0 && gb_plan_bytes(&plan) <= 16 << 20,
       "short of memory, k is cut between its buffers");
}

/* 8-bit integers: operands that lie along k are read where they are, of one sign. */
static void test_integers(void)
{
    struct gb_problem p = problem(GB_I8, 4096, 4096, 4096);
    struct gb_choice c = {0};
    struct gb_plan plan;
    double quick;
    int wrong = 0;

    p.type_c = GB_I32;
    p.transa = GB_T;
    if (!gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c)) {
        skip("built without rows for 8-bit integers");
        return;
    }
    ok((c.kernel->flags & GB_K_INTEGER) && c.repair == 0 && c.splits == 1 &&
           c.tail == 0,
       "TN is read in place");
    quick = c.seconds;
    for (int x = 1; x < 8; x++) { /* A along m, B along n, B without sign */
        const unsigned copied = (x & 1 ? GB_REPAIR_A : 0u) | (x & 6 ? GB_REPAIR_B : 0u);

        p.transa = x & 1 ? GB_N : GB_T;
        p.transb = x & 2 ? GB_T : GB_N;
        p.offsets.b_unsigned = x & 4;
        wrong +=
            !gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c) ||
            c.repair != copied || c.seconds <= quick;
    }
    is_int(0, wrong, "others are copied, and that is counted");
    p.transa = GB_T;
    p.transb = GB_N;
    p.offsets.b_unsigned = false;
    ok(gb_plan_model(&p, &gb_model_typical, 1, 16, 0, &c) && c.repair == GB_REPAIR_A,
       "so are those that are not aligned");
    for (int i = 0; i < gb_kernel_count; i++)
        if (gb_kernels[i].flags & GB_K_INTEGER)
            wrong += gb_plan_row(&p, &gb_model_typical, &gb_kernels[i], GB_PLAN_LINE,
                                 GB_PLAN_LINE, 0, 2, &c);
    is_int(0, wrong, "no such row has splits");
    p.offsets.b_unsigned = true;
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)1 << 38, &plan) == GB_OK &&
           plan.panel_k == p.k &&
           gb_plan_needs(&plan).partial.size > (size_t)(plan.panel_n * p.k),
       "staged, what is copied of a panel has room");
    ok(gb_plan_make(&p, &gb_model_typical, (size_t)8 << 20, &plan) == GB_OK &&
           plan.panel_k == p.k && gb_plan_bytes(&plan) <= 8 << 20,
       "short of memory, panels of all of k are smaller");
    for (int i = 0; i < 3; i++) {
        p.k = (int64_t[]){1, 128, 255}[i];
        ok(gb_plan_make(&p, &gb_model_typical, (size_t)1 << 20, &plan) == GB_OK &&
               plan.panel_k == p.k && gb_plan_bytes(&plan) <= 1 << 20,
           "so are those of a k of %d", (int)p.k);
    }
}

/* Tiles that fill no turn of the grid, and operands that are read once. */
static void test_tail_and_hints(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_bf16_256x128x64");
    struct gb_problem p = problem(GB_BF16, 10240, 1024, 8192);
    struct gb_choice c, d;
    struct gb_gemm_args g;

    if (!k || !gb_kernel_runs(k, &gb_model_typical)) {
        skip("built without Hopper's rows");
        return;
    }
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) && c.tail == 2,
       "320 tiles of long k: the last 56 by pairs");
    g = gb_plan_args(&p, &c);
    is_int(56, gb_launch_tail(k, &g, c.tiles, gb_model_typical.multiprocessors),
           "as the launch has it");
    ok(c.terms.turns > 2 && c.terms.turns < 3, "predicted to be part of a turn");
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, GB_PLAN_STAGED, 1, &d) &&
           d.tail == 0 && d.terms.turns == 3 && d.seconds > c.seconds,
       "not where panels are staged");
    p.n = 1056;
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &d) && d.tail == 0 &&
           d.seconds > c.seconds,
       "360 tiles: the last 96 have no room for pairs");
    p.m = 8448;
    p.n = 1024;
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) && c.tail == 0,
       "264 tiles: none");
    p = problem(GB_BF16, 10240, 1024, 256);
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) && c.tail == 0,
       "nor where k is short");

    p = problem(GB_BF16, 4096, 4096, 4096);
    ok(gb_plan_row(&p, &gb_model_typical, k, 128, 128, 0, 1, &c) &&
           gb_plan_row(&p, &gb_model_typical, k, 16, 128, 0, 1, &d) &&
           d.seconds > 1.1 * c.seconds,
       "columns that begin inside a line take longer");
    ok(gb_plan_row(&p, &gb_model_typical, k, 2, 128, 0, 1, &d) &&
           d.repair == GB_REPAIR_A && d.seconds == c.seconds + d.terms.copies,
       "but not those of a copy");
    ok(gb_plan_model(&p, &gb_model_typical, 16, 16, 0, &c) &&
           (c.kernel->flags & GB_K_PAIRS),
       "where pairs that share them are quicker");
    p = problem(GB_BF16, 10240, 1024, 256);
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) && c.hints == 0,
       "both operands are read again");
    p.n = 128;
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) &&
           c.hints == (GB_G_STREAM_A | GB_G_KEEP_B),
       "A once, B by every tile");
    p.batch = 2;
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) && c.hints == 0,
       "which may be one for all of a batch");
    p.batch = 1;
    p.m = 256;
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) && c.hints == 0,
       "a single tile");
    p.n = 1024;
    ok(gb_plan_row(&p, &gb_model_typical, k, 16, 16, 0, 1, &c) &&
           c.hints == (GB_G_KEEP_A | GB_G_STREAM_B),
       "B once");
}

/* What tensor cores multiply without TMA: everything where there is no Hopper, ragged operands
 * where there is. */
static void test_mma_choice(void)
{
    static const int64_t sizes[] = {1, 40, 64, 100, 320, 1000, 4096};
    struct gb_device_info older = gb_model_typical;
    struct gb_problem p = problem(GB_F16, 4096, 4096, 4096);
    struct gb_choice c = {0};
    bool hopper =
        gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c) &&
        (c.kernel->flags & GB_K_TMA);
    long wrong = 0;

    older.arch = 86;
    older.smem_per_block = 101376;
    ok(gb_plan_model(&p, &older, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c) &&
           (c.kernel->flags & GB_K_TENSOR) && c.kernel->align == 16 &&
           c.kernel->smem <= older.smem_per_block,
       "f16 on sm_86: %s", c.kernel->name);
    for (size_t i = 0; i < 7 * 7 * 7; i++) {
        p = problem(GB_F16, sizes[i % 7], sizes[i / 7 % 7], sizes[i / 49]);
        wrong +=
            !gb_plan_model(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, 0, &c) ||
            (hopper && (c.kernel->flags & GB_K_TENSOR) &&
             !(c.kernel->flags & (GB_K_TMA | GB_K_WHOLE)));
        if (p.k < 100)
            continue;
        wrong += !gb_plan_model(&p, &gb_model_typical, 2, 2, 0, &c) ||
                 !(c.kernel->flags & GB_K_TENSOR) ||
                 (c.kernel->align != 2 && c.repair == 0);
    }
    is_int(0, wrong,
           "aligned operands meet Hopper's tensor cores by TMA or whole; ragged ones "
           "meet them as well");
}

/* Brute force over bytes of a small arena. */
static bool overlap_brute(const struct gb_problem *p)
{
    static unsigned char mark[1 << 16];
    size_t sa = gb_type_size(p->type), sc = gb_type_size(p->type_c);
    bool hit = false;

    memset(mark, 0, sizeof mark);
    for (int64_t j = 0; j < p->n; j++)
        memset(mark + ((uintptr_t)p->c + (size_t)(j * p->ldc) * sc), 1,
               (size_t)p->m * sc);
    for (int which = 0; which < 2; which++) {
        const void *base = which ? p->b : p->a;
        enum gb_trans t = which ? p->transb : p->transa;
        int64_t ld = which ? p->ldb : p->lda;
        int64_t rows = which ? p->k : p->m, cols = which ? p->n : p->k;

        if (gb_transposed(t)) {
            int64_t swap = rows;

            rows = cols;
            cols = swap;
        }
        for (int64_t j = 0; j < cols; j++)
            for (size_t x = 0; x < (size_t)rows * sa; x++)
                hit = hit || mark[(uintptr_t)base + (size_t)(j * ld) * sa + x];
    }
    return hit;
}

static void test_overlap(void)
{
    int overlapping = 0, apart = 0;
    bool right = true;

    for (int i = 0; i < 20000 && right; i++) {
        struct gb_problem p = {.op = GB_GEMM,
                               .type = draw(2) ? GB_F32 : GB_F16,
                               .m = 1 + draw(12),
                               .n = 1 + draw(12),
                               .k = 1 + draw(12),
                               .transa = (enum gb_trans)draw(2),
                               .transb = (enum gb_trans)draw(2)};
        int64_t ld = 12 + draw(30);
        bool same = draw(2) == 0;

        p.type_c = draw(2) ? p.type : GB_F32;
        p.lda = same ? ld : 12 + draw(30);
        p.ldb = same ? ld : 12 + draw(30);
        p.ldc = same ? ld : 12 + draw(30);
        p.a = (void *)(uintptr_t)(2 * draw(2000));
        p.b = (void *)(uintptr_t)(2 * draw(2000));
        p.c = (void *)(uintptr_t)(2 * draw(2000));
        right = gb_route_overlap(&p) == overlap_brute(&p);
        if (overlap_brute(&p))
            overlapping++;
        else
            apart++;
        if (!right)
            diag("m %lld n %lld k %lld ld %lld %lld %lld at %p %p %p", (long long)p.m,
                 (long long)p.n, (long long)p.k, (long long)p.lda, (long long)p.ldb,
                 (long long)p.ldc, p.a, p.b, p.c);
    }
    ok(right, "the overlap test agrees with brute force");
    ok(overlapping > 2000 && apart > 2000, "on both kinds (%d, %d)", overlapping,
       apart);
}

/* dgemm_64_ with one column and an absurd leading dimension is legal. */
static void test_tighten(void)
{
    struct gb_problem p = {.op = GB_GEMM,
                           .type = GB_F64,
                           .type_c = GB_F64,
                           .m = 4,
                           .n = 1,
                           .k = 1,
                           .alpha = {.re = 1},
                           .a = (void *)4096,
                           .b = (void *)8192,
                           .c = (void *)4100,
                           .lda = INT64_C(1) << 61,
                           .ldb = INT64_MAX,
                           .ldc = INT64_C(1) << 62};

    gb_route_tighten(&p);
    ok(p.lda == 4 && p.ldb == 1 && p.ldc == 4,
       "one column: the leading dimension is moot");
    ok(gb_route_overlap(&p), "and its overlap is found");
    p.transa = GB_T;
    p.m = 1;
    p.k = 5;
    p.lda = INT64_C(1) << 60;
    p.n = 3;
    p.ldc = 7;
    gb_route_tighten(&p);
    ok(p.lda == 5 && p.ldc == 7, "as stored, not as multiplied");
}

static const char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

static const char *four_threads(const char *name)
{
    return strcmp(name, "OMP_NUM_THREADS") == 0 ? "1" : NULL;
}

static void test_route(void)
{
    struct gb_rates rates = gb_model_rates(no_environment);
    struct gb_route_in in = {
        .route = GB_ROUTE_AUTO, .info = &gb_model_typical, .rates = &rates};
    struct gb_route_out out;
    struct gb_problem p = problem(GB_F64, 4096, 4096, 4096);

    rates.cpu_threads = 16;
    is_int(GB_OK, gb_route(&p, &in, &out), "a large dgemm is worth the device");
    ok(out.cost.gpu < out.cost.cpu && out.cost.gpu > 0, "and the model says why");
    p = problem(GB_F64, 24, 24, 16);
    is_int(GB_WHY_SMALL, gb_route(&p, &in, &out), "a tiny one is small");
    p = problem(GB_F64, 4096, 4096, 4);
    is_int(GB_WHY_MODEL, gb_route(&p, &in, &out), "a thin one stays by the model");
    in.route = GB_ROUTE_GPU;
    p = problem(GB_F64, 2, 2, 2);
    is_int(GB_OK, gb_route(&p, &in, &out), "forced, everything goes");
    p.k = 0;
    is_int(GB_WHY_TRIVIAL, gb_route(&p, &in, &out), "but an empty product");
    p = problem(GB_F64, 2, 2, 2);
    p.alpha.re = 0;
    is_int(GB_WHY_TRIVIAL, gb_route(&p, &in, &out), "or alpha = 0");
    p = problem(GB_C64, 2, 2, 2);
    p.alpha = (struct gb_scalar){0, 1};
    is_int(GB_OK, gb_route(&p, &in, &out), "an imaginary alpha is not 0");
    p.c = (void *)p.a;
    is_int(GB_WHY_OVERLAP, gb_route(&p, &in, &out), "C on A is forwarded");
    in.disabled = true;
    is_int(GB_WHY_DISABLED, gb_route(&p, &in, &out), "disabled beats forced");
    in.disabled = false;
    in.route = GB_ROUTE_CPU;
    is_int(GB_WHY_CPU, gb_route(&p, &in, &out), "cpu keeps everything");
    ok(gb_model_rates(four_threads).cpu_threads == 1, "the BLAS's thread limit counts");
    ok(gb_route_floor(&rates) > 1000, "the frameless test has a floor");
}

/* fp64 meets the tensor cores that have it, whatever the alignment and of triangles too; fp32 rows
 * of several stages; each type has rows enough, of more than one tile, stages and k. */
static void test_native(void)
{
    static const struct {
        enum gb_type type;
        const char *family;
    } types[] = {{GB_F64, "gemm_dmma_f64"},
                 {GB_C64, "gemm_dmma_c64"},
                 {GB_F32, "gemm_ffma_f32"},
                 {GB_C32, "gemm_ffma_c32"}};
    static const int64_t sizes[] = {1, 33, 100, 1000, 4095};
    struct gb_device_info older = gb_model_typical;
    struct gb_choice c = {0};

    older.arch = 86;
    older.smem_per_block = 101376;
    for (size_t t = 0; t < GB_COUNT(types); t++) {
        uint32_t size = (uint32_t)gb_type_size(types[t].type);
        uint32_t least = types[t].type == GB_C64 ? size / 2 : size;
        unsigned tiles = 0, stages = 0, deeps = 0;
        int rows = 0, wrong = 0;

        for (int x = 0; x < 125; x++) {
            struct gb_problem p =
                problem(types[t].type, sizes[x % 5], sizes[x / 5 % 5], sizes[x / 25]);

            p.uplo = x % 3 == 2 ? GB_LOWER : GB_FULL;
            wrong += !gb_plan_model(&p, &gb_model_typical, least, least, 0, &c) ||
                     c.repair != 0;
            if (p.m >= 1000 && p.n >= 1000 && p.k >= 1000)
                wrong += strcmp(c.kernel->family, types[t].family) != 0;
            wrong += !gb_plan_model(&p, &older, least, least, 0, &c) ||
                     c.kernel->smem + GB_KERNEL_STATIC > older.smem_per_block;
        }
        is_int(0, wrong, "%s: chosen for all large products of its type",
               types[t].family);
        for (int i = 0; i < gb_kernel_count; i++) {
            const struct gb_kernel *k = &gb_kernels[i];

            if (strcmp(k->family, types[t].family) != 0)
                continue;
            rows++;
            tiles |= (unsigned)(k->tile_m | k->tile_n);
            stages |= 1u << k->stages;
            deeps |= k->tile_k;
        }
        ok(rows >= 6 && (tiles & (tiles - 1)) && (stages & (stages - 1)) &&
               (deeps & (deeps - 1)),
           "%s: %d configurations", types[t].family, rows);
    }
}

/* Four tiles of the classics, each with groups of 8 tile rows, in every family of gemm_mma. */
static void test_classics(void)
{
    static const char *const families[] = {"gemm_mma_f16", "gemm_mma_f16_f32",
                                           "gemm_mma_bf16", "gemm_mma_bf16_f32"};
    static const struct {
        int m, n, k, stages, warps;
    } classics[] = {{128, 256, 64, 3, 8},
                    {128, 128, 32, 4, 4},
                    {64, 128, 32, 4, 4},
                    {64, 64, 32, 5, 2}};
    struct gb_device_info a100 = gb_model_typical;

    a100.arch = 80;
    a100.multiprocessors = 108;
    a100.smem_per_block = 166912;
    for (size_t f = 0; f < GB_COUNT(families); f++) {
        int seen = 0, rows = 0;

        for (int i = 0; i < gb_kernel_count; i++) {
            const struct gb_kernel *k = &gb_kernels[i];
            struct gb_problem p = problem(k->type, 4096, 4096, 4096);
            struct gb_choice c;

            if (strcmp(k->family, families[f]) != 0)
                continue;
            rows++;
            p.type_c = k->type_c;
            for (size_t j = 0; j < GB_COUNT(classics); j++)
                seen +=
                    k->tile_m == classics[j].m && k->tile_n == classics[j].n &&
                    k->tile_k == classics[j].k && k->stages == classics[j].stages &&
                    k->threads == 32 * classics[j].warps &&
                    gb_plan_row(&p, &a100, k, GB_PLAN_LINE, GB_PLAN_LINE, 0, 0, &c) &&
                    c.group_m == 8;
        }
        is_int((long long)GB_COUNT(classics), seen, "%s: the four classics, GROUP_M 8",
               families[f]);
        ok(rows >= 12, "%s: %d configurations", families[f], rows);
    }
}

/* A row with so many splits as it is told. */
static void test_row_splits(void)
{
    struct gb_problem p = problem(GB_F64, 64, 64, 4096);
    const struct gb_kernel *k = gb_kernel_find("gemm_simt_f64_64x64x8");
    struct gb_choice c = {0}, model;
    bool right = true;

    for (int splits = 1; splits <= GB_PLAN_SPLITS; splits++) {
        bool can = gb_plan_row(&p, &gb_model_typical, k, GB_PLAN_LINE, GB_PLAN_LINE, 0,
                               splits, &c);

        right = right && (!can || (c.splits == splits && c.split_len % k->tile_k == 0 &&
                                   c.split_len * splits >= p.k &&
                                   c.split_len * (splits - 1) < p.k));
    }
    ok(right, "splits as told cover k, none empty");
    ok(!gb_plan_row(&p, &gb_model_typical, k, GB_PLAN_LINE, GB_PLAN_LINE, 0,
                    GB_PLAN_SPLITS + 1, &c),
       "but not beyond the most");
    ok(gb_plan_row(&p, &gb_model_typical, k, GB_PLAN_LINE, GB_PLAN_LINE, 0, 0,
                   &model) &&
           gb_plan_row(&p, &gb_model_typical, k, GB_PLAN_LINE, GB_PLAN_LINE, 0,
                       model.splits, &c) &&
           c.seconds == model.seconds && c.split_len == model.split_len,
       "the model's own number gives the model's prediction");
    p.k = 24;
    ok(!gb_plan_row(&p, &gb_model_typical, k, GB_PLAN_LINE, GB_PLAN_LINE, 0, 4, &c),
       "three tiles of k are not cut in four");
}

int main(void)
{
    plan_lazy();
    test_cover();
    test_budget();
    test_thin();
    test_kernel_choice();
    test_tma_choice();
    test_emulated();
    test_emulated_f64();
    test_fast();
    test_integers();
    test_tail_and_hints();
    test_mma_choice();
    test_native();
    test_classics();
    test_row_splits();
    test_overlap();
    test_tighten();
    test_route();
    return 0;
}
