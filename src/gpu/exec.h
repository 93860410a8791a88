/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan, and its execution on one device: panels of host matrices through pinned slots, C
 * committed piece by piece in the plan's order.
 *
 * The order of commits is a pure function of the plan, so `done` (pieces committed so far) is
 * the whole recovery state: a piece of C is final when its index is below done, and exactly
 * as the caller left it otherwise. */
#ifndef GB_EXEC_H
#define GB_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "gb.h"
#include "kernels.h"
#include "util.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gb_plan {
    struct gb_problem p;
    const struct gb_kernel *kernel;
    /* Functions of the whole problem: they decide the bits. */
    int splits;
    int64_t split_len;
    /* Host-side blocking: functions of the memory there is; never change the bits. */
    int64_t panel_m, panel_n, panel_k;
    bool rows_first; /* panels walk down rows before columns (B stays, A streams) */
    int group_m;
    int64_t piece_rows, piece_cols; /* one commit: at most this much of a panel */
    size_t slot_bytes;   /* staging slot that holds one piece; at most 4 MiB */
    size_t device_bytes; /* what the panels and workspaces need */
};

struct gb_rect {
    int64_t i, j, m, n; /* C(i:i+m, j:j+n) */
};

/* Panels of C in execution order. */
static inline int64_t gb_plan_panels(const struct gb_plan *plan)
{
    return gb_ceil_div(plan->p.m, plan->panel_m) *
           gb_ceil_div(plan->p.n, plan->panel_n);
}

static inline struct gb_rect gb_plan_panel(const struct gb_plan *plan, int64_t index)
{
    int64_t rows = gb_ceil_div(plan->p.m, plan->panel_m);
    int64_t cols = gb_ceil_div(plan->p.n, plan->panel_n);
    int64_t pi = plan->rows_first ? index % rows : index / cols;
    int64_t pj = plan->rows_first ? index / rows : index % cols;
    struct gb_rect r = {.i = pi * plan->panel_m, .j = pj * plan->panel_n};

    r.m = gb_min(plan->panel_m, plan->p.m - r.i);
    r.n = gb_min(plan->panel_n, plan->p.n - r.j);
    return r;
}

/* Pieces of a panel (of any rectangle of an operand alike), column block after column block,
 * top to bottom inside one. */
static inline int64_t gb_rect_pieces(struct gb_rect r, int64_t rows, int64_t cols)
{
    return gb_ceil_div(r.m, rows) * gb_ceil_div(r.n, cols);
}

static inline struct gb_rect gb_rect_piece(struct gb_rect r, int64_t rows, int64_t cols,
                                           int64_t index)
{
    int64_t down = gb_ceil_div(r.m, rows);
    struct gb_rect p = {.i = r.i + index % down * rows, .j = r.j + index / down * cols};

    p.m = gb_min(rows, r.i + r.m - p.i);
    p.n = gb_min(cols, r.j + r.n - p.j);
    return p;
}

/* Leading dimension, in elements, of a staged matrix of `rows` rows: every column starts
 * aligned for vector loads; long ones fill whole 128-byte lines. */
static inline int64_t gb_plan_ld(int64_t rows, enum gb_type type)
{
    int64_t size = (int64_t)gb_type_size(type);

    return gb_round_up(rows, (rows * size < 128 ? 16 : 128) / size);
}

/* Device memory of a plan. An operand chunk (panel x panel_k, staged as stored) has two
 * buffers, one being filled while the other is read; one buffer when there is only that one
 * chunk in the whole call. Likewise for panels of C. The accumulators that are carried across
 * launches or splits have one buffer: kernels run in order. */
static inline size_t gb_plan_bytes(const struct gb_plan *plan)
{
    const struct gb_problem *p = &plan->p;
    bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
    int64_t pm = plan->panel_m, pn = plan->panel_n, pk = plan->panel_k;
    int64_t sa = (int64_t)gb_type_size(p->type), sc = (int64_t)gb_type_size(p->type_c);
    int64_t a = gb_plan_ld(ta ? pk : pm, p->type) * (ta ? pm : pk) * sa;
    int64_t b = gb_plan_ld(tb ? pn : pk, p->type) * (tb ? pk : pn) * sa;
    int64_t c = gb_plan_ld(pm, p->type_c) * pn * sc;
    int64_t partial = 0;

    if (plan->splits > 1 || pk < p->k)
        partial =
            plan->splits * pm * pn * (int64_t)gb_type_size(plan->kernel->type_acc);
    a *= pm >= p->m && pk >= p->k ? 1 : 2;
    b *= pn >= p->n && pk >= p->k ? 1 : 2;
    c *= pm >= p->m && pn >= p->n ? 1 : 2;
    return (size_t)(a + b + c + partial);
}

/* What one execution did, for statistics and traces. */
struct gb_exec_stats {
    uint64_t bytes_up, bytes_down;
    uint64_t launches;
    int64_t done; /* pieces committed */
};

struct gb_engine; /* one open device with its lanes, slots, modules and copy threads */

/* Open a device and what belongs to it. Slow (a GPU context); any thread. */
enum gb_status gb_engine_open(struct gb_device_ref ref, struct gb_engine **engine);
/* Only for tests and commands: a process that exits leaks it (see design, principle 3). */
void gb_engine_close(struct gb_engine *engine);

struct gb_device *gb_engine_device(struct gb_engine *engine);
bool gb_engine_lost(struct gb_engine *engine);

/* Open the device of a lost engine anew: the program may have destroyed the context that we
 * shared with it. Works once per engine, after the calls in flight have left it; meanwhile the
 * caller's signals are let through, so nothing may be held. What hung on the old context is
 * dropped; struct gb_device stays valid until the engine is closed.
 *   GB_SUCCESS   the engine can be used (another thread may have reopened it).
 *   GB_E_ABSENT  this process is a child of the engine's.
 *   others       the engine stays lost. */
enum gb_status gb_engine_reopen(struct gb_engine *engine);

/* Device memory that a plan may use now: what is free (and pooled) less a reserve, capped by
 * GEMMBLAS_MEM_LIMIT. 0 when the device fails meanwhile: then gb_engine_lost() says so. */
size_t gb_engine_budget(struct gb_engine *engine);

/* Run a plan. Blocks until C is final. Asynchronous signals and cancellation are held off
 * while slots are in flight and let through between panels; a handler that never returns
 * leaves nothing of ours pointing at the caller's memory.
 *   GB_OK              C is final.
 *   GB_WHY_OOM         nothing was touched; the caller may plan smaller panels.
 *   GB_WHY_UNSUPPORTED nothing was touched: the device has no such kernel.
 *   GB_WHY_FORKED      nothing was touched: this is a child of the engine's process, made before
 *                      the call or by a signal handler during it.
 *   GB_WHY_LOST        the device failed; stats->done pieces are final, the others untouched.
 *   GB_WHY_PART        stats->done > 0 pieces are final, the others untouched; the device is not
 *                      at fault (memory ran short, or this is a child that a handler made). */
enum gb_why gb_exec(struct gb_engine *engine, const struct gb_plan *plan,
                    struct gb_exec_stats *stats);

/* The same for what an earlier execution of the same plan left: `stats` as that one filled it
 * in, which goes on counting. Pieces below stats->done are not written; the panel that they end
 * in is computed whole, but only its other pieces are committed, so that beta is applied once.
 * GB_WHY_OOM, GB_WHY_UNSUPPORTED and GB_WHY_FORKED come only with stats->done == 0. */
enum gb_why gb_exec_from(struct gb_engine *engine, const struct gb_plan *plan,
                         struct gb_exec_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
