/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel by waves of tiles, the panels by memory. */
#include "plan.h"

#include "model.h"
#include "util.h"

enum {
    GROUP_M = 8, /* tile rows that share a column of B tiles in L2 */
    MOST_SPLITS = 32,
    LEAST_SPLIT = 256, /* k per split: below, the reduction costs more than it gives */
    PANEL_GRAIN = 128, /* panels are whole tiles of every row, whatever its size */
    PANELS = 8,        /* enough that upload, kernels and download overlap */
    SLOT_BYTES = 4 << 20,
};

/* A panel under this is all latency. */
static const double least_panel_bytes = 4e6;
/* No panel computes longer than about this, so that a signal is answered. */
static const double most_panel_seconds = 0.5;
/* Reading and writing partial sums. */
static const double memory_rate = 3.5e12;
static const double reduce_latency = 5e-6;
/* Rows that move tiles by TMA, one block per multiprocessor: until the first product; a tile's
 * epilogue, and its stores at a multiprocessor's share of the memory's rate. Estimates from
 * one run on an H200 with k = 64 and 512. */
static const double tma_start = 2e-6, tma_tile = 0.45e-6, tma_store = 29e9;
/* Other rows on tensor cores: a block fills its buffers before the first product and empties
 * them after the last, which only other blocks hide. Estimates. */
static const double mma_start = 2.5e-6, mma_tile = 1e-6;

static int64_t round_to(int64_t x, int64_t grain)
{
    return gb_max(grain, x / grain * grain);
}

bool gb_plan_score(const struct gb_problem *p, const struct gb_device_info *info,
                   const struct gb_kernel *k, struct gb_choice *choice)
{
    double cores = info->multiprocessors > 0 ? info->multiprocessors : 1;
    double rate = gb_model_peak(info, k) * 1e-3 * k->efficiency / cores;
    double madd = gb_is_complex(k->type) ? 8 : 2;
    struct gb_choice best = {.kernel = k, .group_m = GROUP_M};
    size_t acc = gb_type_size(k->type_acc);
    double store_bytes =
        (double)k->tile_m * k->tile_n * (double)gb_type_size(k->type_c);

    if (k->type != p->type || k->type_c != p->type_c || !gb_kernel_runs(k, info))
        return false;
    if (p->uplo != GB_FULL && !(k->flags & GB_K_UPLO))
        return false;
    if ((k->flags & GB_K_TMA) && gb_max(gb_max(p->m, p->n), p->k) > GB_TMA_MOST)
        return false; /* whatever the panels: they need not cut the long side */
    best.tiles = gb_ceil_div(p->m, k->tile_m) *
                 gb_round_up(gb_ceil_div(p->n, k->tile_n), gb_kernel_cluster(k));
    for (int splits = 1; splits <= MOST_SPLITS; splits++) {
        int64_t len = gb_round_up(gb_ceil_div(p->k, splits), k->tile_k);
        double unit, seconds, per_core;

        if (splits > 1 && (len < LEAST_SPLIT || !(k->flags & GB_K_SPLITK) ||
                           (double)best.tiles * (splits - 1) >= cores))
            break;
        if (gb_ceil_div(p->k, len) != splits)
            continue; /* rounding left the last splits empty */
        unit = madd * k->tile_m * k->tile_n * (double)len / rate;
        per_core = (double)gb_ceil_div(best.tiles * splits, (int64_t)cores);
        if (k->flags & GB_K_TMA)
            seconds =
                tma_start + per_core * (unit + tma_tile + store_bytes / tma_store);
        else if (k->flags & GB_K_TENSOR)
            seconds =
                mma_start + per_core * (unit + mma_tile + store_bytes / tma_store);
        else
            /* one block hides little */
            seconds = per_core * unit * (per_core < 2 ? 1.3 : 1.0);
        if (splits > 1)
            seconds += reduce_latency + 2.0 * splits * (double)p->m * (double)p->n *
                                            (double)acc / memory_rate;
        if (splits == 1 || seconds < best.seconds) {
            best.splits = splits;
            best.split_len = splits == 1 ? gb_max(p->k, 1) : len;
            best.waves = (double)(best.tiles * splits) / cores;
            best.seconds = seconds;
        }
    }
    *choice = best;
    return true;
}

bool gb_plan_kernel(const struct gb_problem *p, const struct gb_device_info *info,
                    uint32_t align, struct gb_choice *choice)
{
    bool found = false;

    for (int i = 0; i < gb_kernel_count; i++) {
        struct gb_choice c;

        if (gb_kernels[i].align <= align &&
            gb_plan_score(p, info, &gb_kernels[i], &c) &&
            (!found || c.seconds < choice->seconds)) {
            *choice = c;
            found = true;
        }
    }
    return found;
}

/* Panels for a problem that fits: one operand stays, the other streams past it, so the short
 * side of C is never cut. */
static void panels_that_stream(struct gb_plan *plan, double seconds)
{
    const struct gb_problem *p = &plan->p;
    bool cut_n = p->n >= p->m;
    int64_t whole = cut_n ? p->n : p->m;
    double bytes = ((double)p->k * (double)gb_type_size(p->type) +
                    (double)(cut_n ? p->m : p->n) * (double)gb_type_size(p->type_c)) *
                   (double)whole;
    double count = PANELS;
    int64_t width;

    if (bytes / least_panel_bytes < count)
        count = bytes / least_panel_bytes;
    if (seconds / most_panel_seconds > count)
        count = seconds / most_panel_seconds;
    if (count > (double)gb_ceil_div(whole, PANEL_GRAIN))
        count = (double)gb_ceil_div(whole, PANEL_GRAIN);
    if (count < 1)
        count = 1;
    width = gb_min(gb_round_up((int64_t)((double)whole / count), PANEL_GRAIN), whole);
    plan->panel_m = cut_n ? p->m : width;
    plan->panel_n = cut_n ? width : p->n;
    plan->panel_k = p->k;
    plan->rows_first = !cut_n;
}

/* Panels for a problem that does not fit: the largest square of C whose operand chunks fit,
 * since what a square re-reads falls with its side. */
static bool panels_that_fit(struct gb_plan *plan, size_t budget)
{
    const struct gb_problem *p = &plan->p;
    int64_t most = gb_max(p->m, p->n);

    for (int64_t side = gb_round_up(most, PANEL_GRAIN); side >= PANEL_GRAIN;
         side = round_to(side * 3 / 4, PANEL_GRAIN)) {
        for (int64_t deep = 4096; deep >= 256; deep /= 2) {
            plan->panel_m = gb_min(side, p->m);
            plan->panel_n = gb_min(side, p->n);
            plan->panel_k = gb_min(deep, p->k);
            plan->rows_first = p->m > p->n;
            if (gb_plan_bytes(plan) <= budget)
                return true;
        }
        if (side == PANEL_GRAIN)
            break;
    }
    return false;
}

enum gb_why gb_plan_make(const struct gb_problem *p, const struct gb_device_info *info,
                         size_t budget, struct gb_plan *plan)
{
    struct gb_choice choice;
    size_t size_c = gb_type_size(p->type_c);

    if (!gb_plan_kernel(p, info, GB_PLAN_ALIGN, &choice))
        return GB_WHY_UNSUPPORTED;
    *plan = (struct gb_plan){
        .p = *p,
        .kernel = choice.kernel,
        .splits = choice.splits,
        .split_len = choice.split_len,
        .group_m = choice.group_m,
        .slot_bytes = SLOT_BYTES,
    };
    panels_that_stream(plan, choice.seconds);
    if (gb_plan_bytes(plan) > budget && !panels_that_fit(plan, budget))
        return GB_WHY_OOM;
    plan->device_bytes = gb_plan_bytes(plan);
    plan->piece_rows = gb_min(plan->panel_m, (int64_t)(SLOT_BYTES / size_c));
    plan->piece_cols = gb_min(
        plan->panel_n, gb_max(1, (int64_t)(SLOT_BYTES / size_c) / plan->piece_rows));
    return GB_OK;
}
