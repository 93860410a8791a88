/* SPDX-License-Identifier: BSD-3-Clause */
/* Products, plans and their exact results. */
#include "product.h"

#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "util.h"

static bool is_zero(struct gb_scalar s)
{
    return s.re == 0 && s.im == 0;
}

void product_make(struct product *x, const struct product_spec *spec,
                  struct verify_random *r)
{
    bool ta = gb_transposed(spec->transa), tb = gb_transposed(spec->transb);
    int64_t m = spec->m, n = spec->n, k = spec->k;
    int64_t ra = ta ? k : m, rb = tb ? n : k;

    verify_matrix_make(&x->a, spec->type, false, ra, ta ? m : k, ra + spec->extra[0],
                       spec->place);
    verify_matrix_make(&x->b, spec->type, false, rb, tb ? k : n, rb + spec->extra[1],
                       spec->place);
    verify_matrix_make(&x->c, spec->type_c, false, m, n, m + spec->extra[2],
                       spec->place);
    verify_matrix_fill(&x->a, spec->fill, r);
    verify_matrix_fill(&x->b, spec->fill, r);
    verify_matrix_fill(&x->c, is_zero(spec->beta) ? VERIFY_NAN : spec->fill, r);
    verify_freeze(&x->a, true);
    verify_freeze(&x->b, true);
    verify_freeze(&x->c, false);
    x->p = (struct gb_problem){
        .op = GB_GEMM,
        .type = spec->type,
        .type_c = spec->type_c,
        .transa = spec->transa,
        .transb = spec->transb,
        .m = m,
        .n = n,
        .k = k,
        .alpha = spec->alpha,
        .beta = spec->beta,
        .a = x->a.at,
        .b = x->b.at,
        .c = x->c.at,
        .lda = x->a.ld,
        .ldb = x->b.ld,
        .ldc = x->c.ld,
    };
    product_plan(x, m, n, k, 1);
}

void product_drop(struct product *x)
{
    verify_matrix_drop(&x->a);
    verify_matrix_drop(&x->b);
    verify_matrix_drop(&x->c);
}

const struct gb_kernel *product_kernel(const struct gb_problem *p)
{
    const struct gb_kernel *best = NULL;

    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];

        if (k->type == p->type && k->type_c == p->type_c &&
            strncmp(k->family, "gemm_simt", 9) == 0 &&
            (!best || k->tile_m * k->tile_n < best->tile_m * best->tile_n))
            best = k;
    }
    if (!best)
        bail("no gemm_simt kernel for %s", verify_type_name(p->type));
    return best;
}

void product_plan(struct product *x, int64_t panel_m, int64_t panel_n, int64_t panel_k,
                  int splits)
{
    const struct gb_problem *p = &x->p;
    const struct gb_kernel *kernel = product_kernel(p);
    int64_t len = gb_round_up(gb_ceil_div(p->k, splits), kernel->tile_k);

    x->plan = (struct gb_plan){
        .p = *p,
        .kernel = kernel,
        .splits = splits == 1 ? 1 : (int)gb_ceil_div(p->k, len),
        .split_len = len,
        .panel_m = gb_max(1, gb_min(panel_m, p->m)),
        .panel_n = gb_max(1, gb_min(panel_n, p->n)),
        .panel_k = gb_max(1, gb_min(panel_k, p->k)),
        .group_m = 4,
    };
    product_pieces(x, p->m, p->n, 0);
}

void product_pieces(struct product *x, int64_t rows, int64_t cols, size_t slot_bytes)
{
    struct gb_plan *plan = &x->plan;
    size_t size = gb_type_size(x->p.type_c), bytes;

    plan->piece_rows = gb_max(1, gb_min(rows, plan->panel_m));
    plan->piece_cols = gb_max(1, gb_min(cols, plan->panel_n));
    bytes = (size_t)plan->piece_rows * (size_t)plan->piece_cols * size;
    plan->slot_bytes = slot_bytes > bytes ? slot_bytes : bytes;
}

void product_random_plan(struct product *x, struct verify_random *r)
{
    const struct gb_problem *p = &x->p;
    int64_t least = gb_max(1, gb_max(p->m, gb_max(p->n, p->k)) / 6);
    int splits = (int)(1 + verify_below(r, 4));

    product_plan(x, least + verify_below(r, p->m), least + verify_below(r, p->n),
                 least + verify_below(r, 2 * p->k), splits);
    x->plan.rows_first = verify_below(r, 2);
    product_pieces(x, 1 + verify_below(r, p->m), 1 + verify_below(r, p->n),
                   16 + (size_t)verify_below(r, 3000));
}

void product_describe(const struct product *x, char *buf, size_t len)
{
    const struct gb_problem *p = &x->p;
    const struct gb_plan *q = &x->plan;

    snprintf(
        buf, len,
        "%s->%s %s%s m=%lld n=%lld k=%lld ld %lld %lld %lld alpha %g,%g beta %g,%g, "
        "panels %lldx%lldx%lld%s, pieces %lldx%lld, slots %zu, %d splits of %lld",
        verify_type_name(p->type), verify_type_name(p->type_c),
        gb_trans_name(p->transa), gb_trans_name(p->transb), (long long)p->m,
        (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb,
        (long long)p->ldc, p->alpha.re, p->alpha.im, p->beta.re, p->beta.im,
        (long long)q->panel_m, (long long)q->panel_n, (long long)q->panel_k,
        q->rows_first ? " rows first" : "", (long long)q->piece_rows,
        (long long)q->piece_cols, q->slot_bytes, q->splits, (long long)q->split_len);
}

static struct verify_value op_at(const struct verify_matrix *x, enum gb_trans t,
                                 int64_t i, int64_t j)
{
    struct verify_value v =
        gb_transposed(t) ? verify_get(x, j, i) : verify_get(x, i, j);

    if (gb_is_complex(x->type) && (t == GB_C || t == GB_CONJ))
        v.im = -v.im;
    return v;
}

static struct verify_value times(struct verify_value x, struct verify_value y)
{
    return (struct verify_value){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static const char *old_c(const struct product *x, int64_t i, int64_t j)
{
    return x->c.before + ((const char *)verify_element(&x->c, i, j) - x->c.data);
}

static struct verify_value exact(const struct product *x, int64_t i, int64_t j)
{
    const struct gb_problem *p = &x->p;
    struct verify_value alpha = {p->alpha.re, p->alpha.im},
                        beta = {p->beta.re, p->beta.im};
    struct verify_value sum = {0, 0}, old;

    for (int64_t l = 0; l < p->k; l++) {
        struct verify_value t =
            times(op_at(&x->a, p->transa, i, l), op_at(&x->b, p->transb, l, j));

        sum.re += t.re;
        sum.im += t.im;
    }
    sum = times(alpha, sum);
    if (!is_zero(p->beta)) {
        old = times(beta, verify_load(p->type_c, old_c(x, i, j)));
        sum.re += old.re;
        sum.im += old.im;
    }
    return sum;
}

/* Equal as numbers: a zero of either sign is right. */
static bool is_exact(const struct product *x, int64_t i, int64_t j)
{
    struct verify_value want = exact(x, i, j), got = verify_get(&x->c, i, j);
    char rounded[16];

    verify_store(x->p.type_c, rounded, want);
    want = verify_load(x->p.type_c, rounded);
    return want.re == got.re && (!gb_is_complex(x->p.type_c) || want.im == got.im);
}

static bool check_piece(const struct product *x, struct gb_rect r, bool final,
                        char *why, size_t len)
{
    for (int64_t j = r.j; j < r.j + r.n; j++) {
        for (int64_t i = r.i; i < r.i + r.m; i++) {
            bool same = memcmp(verify_element(&x->c, i, j), old_c(x, i, j),
                               gb_type_size(x->p.type_c)) == 0;

            if (final ? is_exact(x, i, j) : same)
                continue;
            snprintf(why, len, "C(%lld,%lld) is %s", (long long)i, (long long)j,
                     final ? (same ? "untouched" : "wrong") : "touched");
            return false;
        }
    }
    return true;
}

int64_t product_pieces_total(const struct product *x)
{
    const struct gb_plan *plan = &x->plan;
    int64_t total = 0;

    for (int64_t i = 0; i < gb_plan_panels(plan); i++)
        total +=
            gb_rect_pieces(gb_plan_panel(plan, i), plan->piece_rows, plan->piece_cols);
    return total;
}

bool product_check(const struct product *x, int64_t done, char *why, size_t len)
{
    const struct gb_plan *plan = &x->plan;
    int64_t piece = 0;

    if (!verify_untouched(&x->a) || !verify_untouched(&x->b)) {
        snprintf(why, len, "an operand has changed");
        return false;
    }
    if (!verify_gaps_untouched(&x->c)) {
        snprintf(why, len, "something beside C has changed");
        return false;
    }
    for (int64_t i = 0; i < gb_plan_panels(plan); i++) {
        struct gb_rect r = gb_plan_panel(plan, i);
        int64_t n = gb_rect_pieces(r, plan->piece_rows, plan->piece_cols);

        for (int64_t l = 0; l < n; l++, piece++) {
            if (!check_piece(x, gb_rect_piece(r, plan->piece_rows, plan->piece_cols, l),
                             piece < done, why, len))
                return false;
        }
    }
    return true;
}

void product_restore(struct product *x)
{
    memcpy(x->c.data, x->c.before, x->c.data_bytes);
}

struct gb_engine *product_engine(void)
{
    struct gb_device_ref ref = {.ops = gb_emu_load(), .ordinal = 0};
    struct gb_engine *engine;

    if (!ref.ops || gb_engine_open(ref, &engine) != GB_SUCCESS)
        bail("the emulated device cannot be opened");
    return engine;
}
