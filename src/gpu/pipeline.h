/* SPDX-License-Identifier: BSD-3-Clause */
/* Panels of C through a lane, with uploads, kernels, downloads and commits of neighbouring
 * panels under way at once.
 *
 * The calling thread alone speaks to the device; copy threads only move bytes. Four cursors
 * chase each other, and each goes as far as the one before it allows:
 *   up       pieces of operands are filled into slots and sent, in order, step by step;
 *   launched steps (a panel of C and a range of k) whose operands have all been sent;
 *   fetch    pieces of finished panels that are being copied into slots;
 *   final    pieces that have been committed to the program's C, in order.
 * What the device must not do too early is ordered by events on its streams, never by the
 * host, so that all of it is queued ahead. */
#ifndef GB_PIPELINE_H
#define GB_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "exec.h"
#include "geometry.h"
#include "hold.h"
#include "lane.h"

/* A matrix of the program, as stored. */
struct gb_operand {
    char *at;
    int64_t ld;
    size_t size; /* of an element */
    bool direct; /* page-locked: the device reads it itself */
};

struct gb_pipeline {
    /* What whoever prepares the run fills in. */
    struct gb_engine *engine;
    struct gb_lane *lane; /* with its slots and buffers */
    const struct gb_plan *plan;
    struct gb_exec_stats *stats;
    /* reduce: only with several splits; repair: only where operands are copied */
    struct gb_function *gemm, *reduce, *repair;
    struct gb_emulated emulated; /* instead of them, of such a row */
    struct gb_integer integer;   /* likewise */
    struct gb_operand a, b, c;
    struct gb_needs needs; /* the buffers that the lane has */
    struct gb_vectors vectors;
    size_t copies;   /* bytes of operands' */
    size_t up_bytes; /* most of one upload piece */
    bool by_hand;    /* too little to wake a thread for */

    int64_t first, limit; /* panels of this run */

    /* The upload cursor: pieces of one operand of one step. */
    int64_t up_step;
    int up_stage; /* 0: A, 1: B, 2: C, 3: the step is complete */
    int64_t up_piece, up_pieces;
    struct gb_rect up_rect;
    struct gb_extent up_extent; /* of a piece */
    struct gb_buffer *up_buffer;
    const struct gb_operand *up_operand;
    uint64_t up_filled, up_sent; /* ring positions */

    int64_t launched; /* steps */

    int64_t fetch_panel, fetch_piece;
    uint64_t fetched, arrived, final; /* ring positions */
    int64_t final_panel;              /* every panel before it is final */

    int64_t moved_ns, looked_ns;
};

/* Set the cursors to a panel of which `skip` pieces are final already. */
void gb_pipeline_start(struct gb_pipeline *r, int64_t panel, int64_t skip);

/* Move the cursors until C is final, or until r->limit is reached: it is lowered when the
 * caller has a signal to take. */
enum gb_status gb_pipeline_pump(struct gb_pipeline *r, const struct gb_hold *hold);

/* Let nothing of ours touch the program's memory, or this lane's, any more. Answers s, or what
 * the device says to that. */
enum gb_status gb_pipeline_settle(struct gb_pipeline *r, enum gb_status s);

#endif
