/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan cuts into what: buffers, steps, chunks, and the kernels' view of a step. Pure. */
#include "geometry.h"

#include "emulated.h"
#include "integer.h"
#include "launch.h"
#include "tile_map.h"

struct gb_fused gb_fused_of(const struct gb_extra *x)
{
    return (struct gb_fused){
        .activation = x->activation,
        .flags =
            (x->bias_cols ? GB_F_BIAS_COLS : 0u) | (x->bias_wide ? GB_F_BIAS_ACC : 0u),
    };
}

const char *gb_plan_chosen_name(enum gb_chosen by)
{
    static const char *const name[] = {
        [GB_BY_MODEL] = "model", [GB_BY_SHIPPED] = "shipped", [GB_BY_TUNED] = "tuned"};

    return name[by];
}

struct gb_needs gb_plan_needs(const struct gb_plan *plan)
{
    const struct gb_problem *p = &plan->p;
    int64_t pm = plan->panel_m, pn = plan->panel_n, pk = plan->panel_k;
    struct gb_rect a = gb_rect_stored(p->transa, (struct gb_rect){.m = pm, .n = pk});
    struct gb_rect b = gb_rect_stored(p->transb, (struct gb_rect){.m = pk, .n = pn});
    struct gb_needs needs = {
        .a = {pm >= p->m && pk >= p->k ? 1 : 2, gb_plan_ld(a.m, p->type), a.n,
              gb_type_size(p->type)},
        .b = {pn >= p->n && pk >= p->k ? 1 : 2, gb_plan_ld(b.m, p->type), b.n,
              gb_type_size(p->type)},
        .c = {pm >= p->m && pn >= p->n ? 1 : 2, gb_plan_ld(pm, p->type_c), pn,
              gb_type_size(p->type_c)},
    };

    if (plan->kernel->flags & GB_K_EMULATED) {
        const struct gb_gemm_args g = {.m = pm, .n = pn, .k = pk};

        needs.partial = (struct gb_need){1, 1, 1, gb_emulated_bytes(plan->kernel, &g)};
    } else if (plan->kernel->flags & GB_K_INTEGER) {
        const bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
        const struct gb_gemm_args g = {.m = pm,
                                       .n = pn,
                                       .k = pk,
                                       .a_m = ta ? needs.a.ld : 1,
                                       .a_k = ta ? 1 : needs.a.ld,
                                       .b_k = tb ? needs.b.ld : 1,
                                       .b_n = tb ? 1 : needs.b.ld,
                                       .alpha = {1}};
        const size_t bytes = gb_integer_bytes(&g, &p->offsets);

        needs.partial = (struct gb_need){bytes > 0, 1, 1, bytes};
    } else if (plan->splits > 1 || pk < p->k)
        needs.partial = (struct gb_need){
            1, pm, pn, (size_t)plan->splits * gb_type_size(plan->kernel->type_acc)};
    return needs;
}

static char layout(enum gb_trans trans)
{
    return gb_transposed(trans) ? 't' : 'n';
}

unsigned gb_plan_copied(const struct gb_plan *plan)
{
    const struct gb_problem *p = &plan->p;

    if (!(plan->kernel->flags & GB_K_FAST))
        return 0;
    return gb_launch_repaired(plan->kernel, layout(p->transa), layout(p->transb),
                              GB_PLAN_ALIGN, GB_PLAN_ALIGN);
}

size_t gb_plan_copies(const struct gb_plan *plan)
{
    const struct gb_problem *p = &plan->p;
    const unsigned which = gb_plan_copied(plan);
    const struct gb_gemm_args g = {
        .m = plan->panel_m, .n = plan->panel_n, .k_end = plan->panel_k};

    return which ? gb_launch_repair_bytes(plan->kernel, which, layout(p->transa),
                                          layout(p->transb), &g)
                 : 0;
}

static size_t bytes_of(const struct gb_need *need)
{
    return (size_t)need->n * (size_t)need->ld * (size_t)need->cols * need->size;
}

size_t gb_plan_bytes(const struct gb_plan *plan)
{
    struct gb_needs needs = gb_plan_needs(plan);

    return bytes_of(&needs.a) + bytes_of(&needs.b) + bytes_of(&needs.c) +
           bytes_of(&needs.partial) + gb_plan_vectors(plan).bytes +
           gb_plan_copies(plan);
}

int64_t gb_plan_ld_c(const struct gb_plan *plan, int64_t rows)
{
    size_t size = gb_type_size(plan->p.type_c);

    if ((size_t)rows * size < 1024 && plan->kernel->align <= size)
        return rows;
    return gb_plan_ld(rows, plan->p.type_c);
}

int64_t gb_plan_panel_at(const struct gb_plan *plan, int64_t done, int64_t *skip)
{
    int64_t panel = 0, panels = gb_plan_panels(plan);

    for (; panel < panels; panel++) {
        int64_t pieces = gb_rect_pieces(gb_plan_panel(plan, panel), plan->piece_rows,
                                        plan->piece_cols);

        if (done < pieces)
            break;
        done -= pieces;
    }
    *skip = done;
    return panel;
}

struct gb_range gb_step_k(const struct gb_plan *plan, int64_t step)
{
    int64_t begin = step % gb_plan_ranges(plan) * plan->panel_k;

    return (struct gb_range){begin, gb_min(begin + plan->panel_k, plan->p.k)};
}

struct gb_rect gb_step_a(const struct gb_plan *plan, int64_t step)
{
    struct gb_rect c = gb_plan_panel(plan, gb_step_panel(plan, step));
    struct gb_range k = gb_step_k(plan, step);

    return gb_rect_stored(
        plan->p.transa,
        (struct gb_rect){.i = c.i, .j = k.begin, .m = c.m, .n = k.end - k.begin});
}

struct gb_rect gb_step_b(const struct gb_plan *plan, int64_t step)
{
    struct gb_rect c = gb_plan_panel(plan, gb_step_panel(plan, step));
    struct gb_range k = gb_step_k(plan, step);

    return gb_rect_stored(
        plan->p.transb,
        (struct gb_rect){.i = k.begin, .j = c.j, .m = k.end - k.begin, .n = c.n});
}

int64_t gb_step_chunk_a(const struct gb_plan *plan, int64_t step)
{
    struct gb_rect c = gb_plan_panel(plan, gb_step_panel(plan, step));

    return gb_panel_step(plan, c.i / plan->panel_m) + step % gb_plan_ranges(plan);
}

int64_t gb_step_chunk_b(const struct gb_plan *plan, int64_t step)
{
    struct gb_rect c = gb_plan_panel(plan, gb_step_panel(plan, step));

    return gb_panel_step(plan, c.j / plan->panel_n) + step % gb_plan_ranges(plan);
}

void gb_step_args(const struct gb_plan *plan, int64_t step, struct gb_gemm_args *args)
{
    const struct gb_problem *p = &plan->p;
    struct gb_rect panel = gb_plan_panel(plan, gb_step_panel(plan, step));
    struct gb_range k = gb_step_k(plan, step);
    int64_t ld_a = gb_plan_ld(gb_step_a(plan, step).m, p->type);
    int64_t ld_b = gb_plan_ld(gb_step_b(plan, step).m, p->type);
    bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);

    *args = (struct gb_gemm_args){
        .m = panel.m,
        .n = panel.n,
        .k = p->k,
        .k_begin = k.begin,
        .k_end = k.end,
        .a_m = ta ? ld_a : 1,
        .a_k = ta ? 1 : ld_a,
        .b_k = tb ? ld_b : 1,
        .b_n = tb ? 1 : ld_b,
        .ldc = gb_plan_ld_c(plan, panel.m),
        .split_len = plan->split_len,
        .row0 = panel.i,
        .col0 = panel.j,
        .alpha = {p->alpha.re, p->alpha.im},
        .beta = {p->beta.re, p->beta.im},
        .splits = plan->splits,
        .split0 = (int32_t)gb_split_first(k.begin, plan->split_len),
        .split_count = (int32_t)gb_split_touched(k.begin, k.end, plan->split_len),
        .batch = 1,
        .group_m = plan->group_m,
        .flags = plan->hints,
    };
    if (gb_is_complex(p->type)) {
        if (p->transa == GB_C || p->transa == GB_CONJ)
            args->flags |= GB_G_CONJ_A;
        if (p->transb == GB_C || p->transb == GB_CONJ)
            args->flags |= GB_G_CONJ_B;
    }
    if (!gb_plan_reads_c(plan))
        args->flags |= GB_G_BETA_ZERO;
    if (p->extra) {
        args->flags |= GB_G_FUSED;
        args->fused = gb_fused_of(p->extra);
    }
    if (gb_step_ends_panel(plan, step) && plan->splits == 1)
        args->flags |= GB_G_EPILOGUE;
}

struct gb_extent gb_upload_piece(int64_t rows, size_t pitch_bytes, size_t size,
                                 size_t limit_bytes)
{
    if (pitch_bytes <= limit_bytes)
        return (struct gb_extent){rows, (int64_t)(limit_bytes / pitch_bytes)};
    return (struct gb_extent){gb_min(rows, (int64_t)(limit_bytes / size)), 1};
}

struct gb_vectors gb_plan_vectors(const struct gb_plan *plan)
{
    const struct gb_extra *x = plan->p.extra;
    size_t wide = gb_type_size(plan->kernel->type_acc);
    size_t real = gb_type_size(gb_type_part(plan->kernel->type_acc));
    size_t bias = x && x->bias_wide ? wide : gb_type_size(plan->p.type_c);
    struct gb_vectors v = {.n = 0};

    if (!x)
        return v;
    v.part[v.n++] = (struct gb_vector_part){
        x->bias, x->bias_cols ? plan->p.n : plan->p.m, bias, x->bias_cols};
    v.part[v.n++] = (struct gb_vector_part){x->row_scale, plan->p.m, real, false};
    v.part[v.n++] = (struct gb_vector_part){x->col_scale, plan->p.n, real, true};
    for (int i = 0; i < v.n; i++) {
        v.offset[i] = v.bytes;
        if (v.part[i].from)
            v.bytes += ((size_t)v.part[i].count * v.part[i].size + 255) / 256 * 256;
    }
    return v;
}
