/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan, and what it cuts into what: panels, steps, chunks and pieces are pure functions of
 * the plan and of indices, and no device is asked. Rows, columns, k and leading dimensions
 * count elements; what counts bytes is named so.
 *
 * Panels of C are computed one after the other. A panel takes a step for each range of k, and
 * steps are numbered through the whole plan. A step needs one chunk of op(A) and one of op(B),
 * as they are stored; neighbouring steps may share them. A finished panel is committed piece
 * by piece. */
#ifndef GB_GEOMETRY_H
#define GB_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gb.h"
#include "gemm_args.h"
#include "kernels.h"
#include "util.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who chose a kernel row. */
enum gb_chosen {
    GB_BY_MODEL,
    GB_BY_SHIPPED, /* a tuned row that came with the library */
    GB_BY_TUNED    /* a tuned row of this machine */
};

/* What is fused, as kernels are told, but for the addresses of vectors. */
struct gb_fused gb_fused_of(const struct gb_extra *extra);

const char *gb_plan_chosen_name(enum gb_chosen by); /* "model" "shipped" "tuned" */

struct gb_plan {
    struct gb_problem p;
    const struct gb_kernel *kernel;
    /* Functions of the whole problem: they decide the bits. */
    int splits;
    int64_t split_len;
    uint32_t hints; /* enum gb_gemm_flags, of L2 */
    enum gb_chosen chosen;
    /* Host-side blocking: functions of the memory there is; never change the bits (but the last
     * of emulated fp64, whose moduli are chosen for a panel). */
    int64_t panel_m, panel_n, panel_k;
    bool rows_first; /* panels walk down rows before columns (B stays, A streams) */
    int group_m;
    int64_t piece_rows, piece_cols; /* one commit: at most this much of a panel */
    size_t slot_bytes; /* staging slot that holds one piece; at most 4 MiB */
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

/* Bytes: what every column on the device is aligned to, and a line of memory. */
enum { GB_PLAN_ALIGN = 16, GB_PLAN_LINE = 128 };

/* Leading dimension, in elements, of a staged matrix of `rows` rows: every column starts
 * aligned for vector loads and TMA; long ones fill whole lines. */
static inline int64_t gb_plan_ld(int64_t rows, enum gb_type type)
{
    int64_t size = (int64_t)gb_type_size(type);

    return gb_round_up(
        rows, (rows * size < GB_PLAN_LINE ? GB_PLAN_ALIGN : GB_PLAN_LINE) / size);
}

/* Device buffers of one kind. */
struct gb_need {
    int n;
    int64_t ld, cols; /* of the largest */
    size_t size;      /* bytes of an element */
};

/* What a plan is run with. An operand chunk (panel x panel_k, staged as stored) has two
 * buffers, one being filled while the other is read; one buffer when there is only that one
 * chunk in the whole call. Likewise for panels of C. The accumulators that are carried across
 * launches or splits have one buffer, or none: kernels run in order. */
struct gb_needs {
    struct gb_need a, b, c, partial;
};

struct gb_needs gb_plan_needs(const struct gb_plan *plan);
/* The operands of a step (enum gb_repaired) that the row reads only from a copy, and
 * the bytes of their copies. */
unsigned gb_plan_copied(const struct gb_plan *plan);
size_t gb_plan_copies(const struct gb_plan *plan);

/* All of them together, and the vectors below. */
size_t gb_plan_bytes(const struct gb_plan *plan);

/* Leading dimension of a panel of C of `rows` rows on the device. Short columns lie densely,
 * so that a piece is one run of memory: devices copy short rows slowly. */
int64_t gb_plan_ld_c(const struct gb_plan *plan, int64_t rows);

static inline bool gb_plan_reads_c(const struct gb_plan *plan)
{
    return plan->p.beta.re != 0 || plan->p.beta.im != 0;
}

/* The first panel that is not final when `done` pieces of the whole C are, and how many of its
 * own are; gb_plan_panels() and 0 when all of them are. */
int64_t gb_plan_panel_at(const struct gb_plan *plan, int64_t done, int64_t *skip);

/* op(X)(i:i+m, j:j+n), as stored. */
static inline struct gb_rect gb_rect_stored(enum gb_trans trans, struct gb_rect r)
{
    if (gb_transposed(trans))
        return (struct gb_rect){.i = r.j, .j = r.i, .m = r.n, .n = r.m};
    return r;
}

/* Steps per panel. */
static inline int64_t gb_plan_ranges(const struct gb_plan *plan)
{
    return gb_max(1, gb_ceil_div(plan->p.k, plan->panel_k));
}

static inline int64_t gb_step_panel(const struct gb_plan *plan, int64_t step)
{
    return step / gb_plan_ranges(plan);
}

/* The first step of a panel: as many are in the panels before it. */
static inline int64_t gb_panel_step(const struct gb_plan *plan, int64_t panel)
{
    return panel * gb_plan_ranges(plan);
}

/* After this step the panel's sums are whole. */
static inline bool gb_step_ends_panel(const struct gb_plan *plan, int64_t step)
{
    return step % gb_plan_ranges(plan) == gb_plan_ranges(plan) - 1;
}

struct gb_range {
    int64_t begin, end;
};

struct gb_range gb_step_k(const struct gb_plan *plan, int64_t step);

/* The part of A, of B that a step needs, as stored; and its number: two steps need the same
 * part when the numbers are equal, and only then. */
struct gb_rect gb_step_a(const struct gb_plan *plan, int64_t step);
struct gb_rect gb_step_b(const struct gb_plan *plan, int64_t step);
int64_t gb_step_chunk_a(const struct gb_plan *plan, int64_t step);
int64_t gb_step_chunk_b(const struct gb_plan *plan, int64_t step);

/* What the kernels of a step are told, but for the addresses: operands lie as gb_plan_ld() and
 * gb_plan_ld_c() have it. */
void gb_step_args(const struct gb_plan *plan, int64_t step, struct gb_gemm_args *args);

/* The vectors of what is fused (gb_extra: bias, scales of rows, of columns) one after the other:
 * they are sent once, and a panel has its own entries of them. */
struct gb_vector_part {
    const void *from; /* NULL: there is none */
    int64_t count;
    size_t size;  /* bytes of an entry */
    bool columns; /* an entry for each column of C */
};

enum { GB_VECTORS = 3 };

struct gb_vectors {
    int n;
    struct gb_vector_part part[GB_VECTORS];
    size_t offset[GB_VECTORS], bytes;
};

struct gb_vectors gb_plan_vectors(const struct gb_plan *plan);

/* Rows and columns of one upload piece of a matrix of `rows` rows, whose columns lie
 * `pitch_bytes` apart on the device and whose elements have `size` bytes: whole columns while
 * at least one fits into limit_bytes, else parts of one. */
struct gb_extent {
    int64_t rows, cols;
};

struct gb_extent gb_upload_piece(int64_t rows, size_t pitch_bytes, size_t size,
                                 size_t limit_bytes);

#ifdef __cplusplus
}
#endif
#endif
