/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan cuts into what, over many plans: every element of A, B and C that is needed is
 * sent once, chunks are told apart, and a count of pieces leads back to its panel. */
#include "geometry.h"
#include "tap.h"
#include "util.h"
#include "verify.h"

enum { PLANS = 400, MOST = 24 };

static struct gb_plan draw(struct verify_random *r)
{
    static const enum gb_type types[] = {GB_F16, GB_BF16, GB_F32, GB_F64,
                                         GB_C32, GB_C64,  GB_I8};
    enum gb_type type = types[verify_below(r, GB_COUNT(types))];
    struct gb_plan plan = {.group_m = 1 + (int)verify_below(r, 4)};
    struct gb_problem *p = &plan.p;

    p->type = p->type_c = type;
    if (gb_type_size(type) == 2 && verify_below(r, 2))
        p->type_c = GB_F32;
    if (type == GB_I8) {
        p->type_c = GB_I32;
        p->offsets.b_unsigned = verify_below(r, 2);
    }
    p->transa = (enum gb_trans)verify_below(r, 4);
    p->transb = (enum gb_trans)verify_below(r, 4);
    p->m = 1 + verify_below(r, MOST);
    p->n = 1 + verify_below(r, MOST);
    p->k = 1 + verify_below(r, MOST);
    p->alpha.re = 1;
    p->beta.re = (double)verify_below(r, 2);
    p->beta.im = gb_is_complex(type) ? (double)verify_below(r, 2) : 0;
    plan.panel_m = 1 + verify_below(r, p->m);
    plan.panel_n = 1 + verify_below(r, p->n);
    plan.panel_k = 1 + verify_below(r, p->k);
    plan.rows_first = verify_below(r, 2);
    plan.piece_rows = 1 + verify_below(r, plan.panel_m);
    plan.piece_cols = 1 + verify_below(r, plan.panel_n);
    plan.split_len = 1 + verify_below(r, p->k);
    plan.splits = (int)gb_ceil_div(p->k, plan.split_len);
    do
        plan.kernel = &gb_kernels[verify_below(r, gb_kernel_count)];
    while (plan.kernel->type != p->type || plan.kernel->type_c != p->type_c);
    return plan;
}

static int64_t steps_of(const struct gb_plan *plan)
{
    return gb_panel_step(plan, gb_plan_panels(plan));
}

static bool same(struct gb_rect x, struct gb_rect y)
{
    return x.i == y.i && x.j == y.j && x.m == y.m && x.n == y.n;
}

/* Every property takes a plan and is asked for many. */
static void all(bool (*holds)(const struct gb_plan *plan, struct verify_random *r),
                const char *what)
{
    struct verify_random r = verify_seed(1);
    int i = 0;

    while (i < PLANS) {
        struct gb_plan plan = draw(&r);

        if (!holds(&plan, &r))
            break;
        i++;
    }
    is_int(PLANS, i, "%s", what);
}

/* ---- what is sent ---- */

/* Mark a rectangle of a rows x cols matrix: false when it leaves it or meets a mark. */
static bool mark(unsigned char *hit, int64_t rows, int64_t cols, struct gb_rect r)
{
    if (r.i < 0 || r.j < 0 || r.m < 1 || r.n < 1 || r.i + r.m > rows ||
        r.j + r.n > cols)
        return false;
    for (int64_t j = r.j; j < r.j + r.n; j++) {
        for (int64_t i = r.i; i < r.i + r.m; i++) {
            if (hit[i + j * rows]++)
                return false;
        }
    }
    return true;
}

/* Send a rectangle of a rows x cols matrix piece by piece. */
static bool send(unsigned char *hit, int64_t rows, int64_t cols, struct gb_rect rect,
                 size_t size, size_t limit)
{
    size_t pitch = (size_t)rect.m * size;
    struct gb_extent e = gb_upload_piece(rect.m, pitch, size, limit);
    bool right = e.rows >= 1 && e.cols >= 1;

    right = right && (e.cols == 1 || e.rows == rect.m) &&
            (size_t)(e.rows * e.cols) * size <= limit;
    for (int64_t i = 0; right && i < gb_rect_pieces(rect, e.rows, e.cols); i++)
        right = mark(hit, rows, cols, gb_rect_piece(rect, e.rows, e.cols, i));
    return right;
}

/* Were exactly the elements of `rect` marked? */
static bool marked(const unsigned char *hit, int64_t rows, int64_t cols,
                   struct gb_rect rect)
{
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < rows; i++) {
            bool in = i >= rect.i && i < rect.i + rect.m && j >= rect.j &&
                      j < rect.j + rect.n;

            if (hit[i + j * rows] != in)
                return false;
        }
    }
    return true;
}

static size_t some_limit(struct verify_random *r, size_t size)
{
    return size * (size_t)(1 + verify_below(r, 2 * MOST));
}

/* The steps of each panel send what op(A) and op(B) have in its rows, its columns. */
static bool operands_covered(const struct gb_plan *plan, struct verify_random *r)
{
    const struct gb_problem *p = &plan->p;
    struct gb_rect a = gb_rect_stored(p->transa, (struct gb_rect){0, 0, p->m, p->k});
    struct gb_rect b = gb_rect_stored(p->transb, (struct gb_rect){0, 0, p->k, p->n});
    size_t size = gb_type_size(p->type);
    bool right = true;

    for (int64_t i = 0; right && i < gb_plan_panels(plan); i++) {
        unsigned char hit_a[MOST * MOST] = {0}, hit_b[MOST * MOST] = {0};
        struct gb_rect c = gb_plan_panel(plan, i);
        int64_t step = gb_panel_step(plan, i);

        for (; right && step < gb_panel_step(plan, i + 1); step++)
            right =
                send(hit_a, a.m, a.n, gb_step_a(plan, step), size,
                     some_limit(r, size)) &&
                send(hit_b, b.m, b.n, gb_step_b(plan, step), size, some_limit(r, size));
        right =
            right &&
            marked(hit_a, a.m, a.n,
                   gb_rect_stored(p->transa, (struct gb_rect){c.i, 0, c.m, p->k})) &&
            marked(hit_b, b.m, b.n,
                   gb_rect_stored(p->transb, (struct gb_rect){0, c.j, p->k, c.n}));
    }
    return right;
}

/* C goes up panel by panel, and comes down in pieces of its own. */
static bool c_covered(const struct gb_plan *plan, struct verify_random *r)
{
    const struct gb_rect whole = {.m = plan->p.m, .n = plan->p.n};
    unsigned char up[MOST * MOST] = {0}, down[MOST * MOST] = {0};
    size_t size = gb_type_size(plan->p.type_c);
    bool right = true;

    for (int64_t i = 0; right && i < gb_plan_panels(plan); i++) {
        struct gb_rect c = gb_plan_panel(plan, i);
        int64_t pieces = gb_rect_pieces(c, plan->piece_rows, plan->piece_cols);

        right = send(up, whole.m, whole.n, c, size, some_limit(r, size));
        for (int64_t j = 0; right && j < pieces; j++)
            right = mark(down, whole.m, whole.n,
                         gb_rect_piece(c, plan->piece_rows, plan->piece_cols, j));
    }
    return right && marked(up, whole.m, whole.n, whole) &&
           marked(down, whole.m, whole.n, whole);
}

/* ---- indices ---- */

static bool steps_in_order(const struct gb_plan *plan, struct verify_random *r)
{
    int64_t step = 0;

    (void)r;
    for (int64_t i = 0; i < gb_plan_panels(plan); i++) {
        int64_t reached = 0;

        if (gb_panel_step(plan, i) != step)
            return false;
        while (reached < plan->p.k) {
            struct gb_range k = gb_step_k(plan, step);

            if (gb_step_panel(plan, step) != i || k.begin != reached ||
                k.end <= k.begin || k.end - k.begin > plan->panel_k ||
                gb_step_ends_panel(plan, step) != (k.end == plan->p.k))
                return false;
            reached = k.end;
            step++;
        }
    }
    return step == steps_of(plan);
}

static bool chunks_told_apart(const struct gb_plan *plan, struct verify_random *r)
{
    int64_t steps = steps_of(plan);

    /* All steps against a few, or it would take long. */
    for (int x = 0; x < 8; x++) {
        int64_t one = verify_below(r, steps);

        for (int64_t other = 0; other < steps; other++) {
            bool a = same(gb_step_a(plan, one), gb_step_a(plan, other));
            bool b = same(gb_step_b(plan, one), gb_step_b(plan, other));

            if (a != (gb_step_chunk_a(plan, one) == gb_step_chunk_a(plan, other)) ||
                b != (gb_step_chunk_b(plan, one) == gb_step_chunk_b(plan, other)))
                return false;
        }
    }
    return true;
}

static bool counts_lead_back(const struct gb_plan *plan, struct verify_random *r)
{
    int64_t done = 0, skip;

    (void)r;
    for (int64_t i = 0; i < gb_plan_panels(plan); i++) {
        int64_t pieces =
            gb_rect_pieces(gb_plan_panel(plan, i), plan->piece_rows, plan->piece_cols);

        for (int64_t j = 0; j < pieces; j++) {
            if (gb_plan_panel_at(plan, done++, &skip) != i || skip != j)
                return false;
        }
    }
    return gb_plan_panel_at(plan, done, &skip) == gb_plan_panels(plan) && skip == 0;
}

/* ---- memory ---- */

static bool fits(const struct gb_need *need, struct gb_rect r, int64_t ld)
{
    return r.m <= ld && ld <= need->ld && r.n <= need->cols;
}

/* Whatever a step needs fits into the buffers, and there are two where there are two chunks. */
static bool buffers_suffice(const struct gb_plan *plan, struct verify_random *r)
{
    struct gb_needs needs = gb_plan_needs(plan);
    const struct gb_extra extra = {.bias = plan, .col_scale = plan, .bias_wide = true};
    struct gb_plan fused = *plan;
    enum gb_type type = plan->p.type;
    int64_t a = 0, b = 0;
    size_t size = gb_type_size(type), most;

    (void)r;
    fused.p.extra = &extra;
    for (int64_t i = 0; i < steps_of(plan); i++) {
        struct gb_rect ra = gb_step_a(plan, i), rb = gb_step_b(plan, i);
        struct gb_rect rc = gb_plan_panel(plan, gb_step_panel(plan, i));

        a = gb_max(a, gb_step_chunk_a(plan, i));
        b = gb_max(b, gb_step_chunk_b(plan, i));
        if (!fits(&needs.a, ra, gb_plan_ld(ra.m, type)) ||
            !fits(&needs.b, rb, gb_plan_ld(rb.m, type)) ||
            !fits(&needs.c, rc, gb_plan_ld_c(plan, rc.m)) ||
            (size_t)gb_plan_ld(ra.m, type) * size % 16 != 0 ||
            (size_t)gb_plan_ld_c(plan, rc.m) * gb_type_size(plan->p.type_c) %
                    plan->kernel->align !=
                0)
            return false;
    }
    most = (size_t)(needs.a.n * needs.a.ld * needs.a.cols +
                    needs.b.n * needs.b.ld * needs.b.cols) *
               size +
           (size_t)(needs.c.n * needs.c.ld * needs.c.cols) * needs.c.size;
    if (plan->kernel->flags & GB_K_EMULATED) /* all of what it works in */
        return needs.partial.n == 1 && gb_plan_bytes(plan) == most + needs.partial.size;
    if (plan->kernel->flags & GB_K_INTEGER)
        return needs.partial.n == (needs.partial.size > 0) &&
               gb_plan_bytes(plan) == most + needs.partial.size;
    if (needs.partial.n)
        most += (size_t)plan->splits * (size_t)(plan->panel_m * plan->panel_n) *
                gb_type_size(plan->kernel->type_acc);
    if (plan->kernel->flags & GB_K_FAST) { /* copies of what does not run along k */
        size_t copies = gb_plan_copies(plan), least = 0;

        if (!gb_transposed(plan->p.transa))
            least += (size_t)(plan->panel_m * plan->panel_k) * size;
        if (gb_transposed(plan->p.transb))
            least += (size_t)(plan->panel_n * plan->panel_k) * size;
        if (copies < least || (copies > 0) != (least > 0))
            return false;
        most += copies;
    }
    return needs.a.n == 1 + (a > 0) && needs.b.n == 1 + (b > 0) &&
           needs.c.n == 1 + (gb_plan_panels(plan) > 1) &&
           needs.partial.n == (plan->splits > 1 || gb_plan_ranges(plan) > 1) &&
           gb_plan_bytes(plan) == most &&
           gb_plan_bytes(&fused) == most + gb_plan_vectors(&fused).bytes &&
           gb_plan_vectors(&fused).bytes > 0;
}

/* ---- what kernels are told ---- */

/* op(X)(i, l) of a step lies where the chunk, as stored, has it. */
static bool strides(const struct gb_plan *plan, enum gb_trans trans, struct gb_rect r,
                    int64_t down, int64_t across)
{
    int64_t ld = gb_plan_ld(r.m, plan->p.type);

    for (int64_t j = 0; j < r.n; j++) {
        for (int64_t i = 0; i < r.m; i++) {
            int64_t row = gb_transposed(trans) ? j : i;
            int64_t col = gb_transposed(trans) ? i : j;

            if (row * down + col * across != i + j * ld)
                return false;
        }
    }
    return true;
}

static bool kernels_told(const struct gb_plan *plan, struct verify_random *r)
{
    const struct gb_problem *p = &plan->p;
    bool carried = false;

    (void)r;
    for (int64_t i = 0; i < steps_of(plan); i++) {
        struct gb_rect c = gb_plan_panel(plan, gb_step_panel(plan, i));
        struct gb_range k = gb_step_k(plan, i);
        bool ends = gb_step_ends_panel(plan, i);
        struct gb_gemm_args g;

        gb_step_args(plan, i, &g);
        if (!strides(plan, p->transa, gb_step_a(plan, i), g.a_m, g.a_k) ||
            !strides(plan, p->transb, gb_step_b(plan, i), g.b_k, g.b_n))
            return false;
        if (g.m != c.m || g.n != c.n || g.row0 != c.i || g.col0 != c.j || g.k != p->k ||
            g.k_begin != k.begin || g.k_end != k.end ||
            g.ldc != gb_plan_ld_c(plan, c.m))
            return false;
        /* Splits follow each other; one that a step has cut goes on in the next. */
        if (g.split0 != k.begin / plan->split_len ||
            g.split0 + g.split_count - 1 != (k.end - 1) / plan->split_len)
            return false;
        carried = carried || !(g.flags & GB_G_EPILOGUE);
        if (!(g.flags & GB_G_EPILOGUE) != !(ends && plan->splits == 1) ||
            !(g.flags & GB_G_BETA_ZERO) != (p->beta.re != 0 || p->beta.im != 0) ||
            !(g.flags & GB_G_CONJ_A) !=
                !(gb_is_complex(p->type) &&
                  (p->transa == GB_C || p->transa == GB_CONJ)) ||
            !(g.flags & GB_G_CONJ_B) != !(gb_is_complex(p->type) &&
                                          (p->transb == GB_C || p->transb == GB_CONJ)))
            return false;
    }
    /* (of rows that work in memory of their own no sum is carried) */
    return (plan->kernel->flags & (GB_K_EMULATED | GB_K_INTEGER)) ||
           carried == (gb_plan_needs(plan).partial.n > 0);
}

/* ---- one by hand ---- */

/* 5 x 4 x 7 in panels of 3 x 2 and ranges of 4; A is stored transposed. */
static void by_hand(void)
{
    static const struct {
        struct gb_rect a, b;
        int64_t chunk_a, chunk_b;
    } wanted[] = {
        {{0, 0, 4, 3}, {0, 0, 4, 2}, 0, 0}, {{4, 0, 3, 3}, {4, 0, 3, 2}, 1, 1},
        {{0, 3, 4, 2}, {0, 0, 4, 2}, 2, 0}, {{4, 3, 3, 2}, {4, 0, 3, 2}, 3, 1},
        {{0, 0, 4, 3}, {0, 2, 4, 2}, 0, 2}, {{4, 0, 3, 3}, {4, 2, 3, 2}, 1, 3},
        {{0, 3, 4, 2}, {0, 2, 4, 2}, 2, 2}, {{4, 3, 3, 2}, {4, 2, 3, 2}, 3, 3},
    };
    const struct gb_plan plan = {
        .p = {.type = GB_F64, .type_c = GB_F64, .transa = GB_T, .m = 5, .n = 4, .k = 7},
        .panel_m = 3,
        .panel_n = 2,
        .panel_k = 4,
        .rows_first = true,
    };

    is_int((long long)GB_COUNT(wanted), steps_of(&plan), "steps of 5x4x7 in 3x2x4");
    for (size_t i = 0; i < GB_COUNT(wanted); i++) {
        int64_t step = (int64_t)i;

        ok(same(wanted[i].a, gb_step_a(&plan, step)) &&
               same(wanted[i].b, gb_step_b(&plan, step)) &&
               wanted[i].chunk_a == gb_step_chunk_a(&plan, step) &&
               wanted[i].chunk_b == gb_step_chunk_b(&plan, step),
           "step %zu", i);
    }
}

/* Panels of C of so many rows of 8 bytes: dense below 1 KiB, else in lines of 128 bytes. */
static void short_columns(void)
{
    static const int64_t wanted[][2] = {{1, 1},     {15, 15},   {17, 17},    {127, 127},
                                        {128, 128}, {129, 144}, {1000, 1008}};
    struct gb_kernel aligned = {.align = 16}, any = {.align = 8};
    struct gb_plan plan = {.p = {.type_c = GB_F64}, .kernel = &any};

    for (size_t i = 0; i < GB_COUNT(wanted); i++)
        is_int(wanted[i][1], gb_plan_ld_c(&plan, wanted[i][0]), "%lld rows of C",
               (long long)wanted[i][0]);
    plan.kernel = &aligned;
    is_int(2, gb_plan_ld_c(&plan, 1), "a kernel that loads 16 bytes: aligned columns");
}

int main(void)
{
    plan_lazy();
    by_hand();
    short_columns();
    all(operands_covered, "each panel's parts of A and B are sent once, and no more");
    all(c_covered, "C goes up once and comes down once");
    all(steps_in_order, "the steps of a panel cover k once, in order");
    all(chunks_told_apart, "chunks have the same number when they are the same");
    all(counts_lead_back, "a count of pieces leads back to its panel");
    all(buffers_suffice, "what a step needs fits into the buffers there are");
    all(kernels_told, "strides, ranges and flags of a step");
    return 0;
}
