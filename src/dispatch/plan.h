/* SPDX-License-Identifier: BSD-3-Clause */
/* Planning, pure: which kernel row, how k is split, which panels. */
#ifndef GB_PLAN_H
#define GB_PLAN_H

#include "device.h"
#include "gb.h"
#include "geometry.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the model's prediction is made of, in seconds. */
struct gb_terms {
    double start;  /* until the first tile begins */
    double tile;   /* of a tile, or of its share of k, in turn with those beside it */
    double turns;  /* of a multiprocessor, one after the other; a tail is part of one */
    double memory; /* operands and C, once */
    double sums;   /* of the splits */
    double copies; /* of operands that the row cannot read in place */
};

/* A row and how it would run the whole problem. A function of the problem, the device and the
 * tuned rows, never of memory: it decides the bits. (But a product that would be emulated is native
 * where the smallest panel, or a matrix on the device, leaves no room for its parts.) */
struct gb_choice {
    const struct gb_kernel *kernel;
    int splits;
    int64_t split_len;
    int group_m;
    int tail; /* splits of the tiles that fill no wave: gb_launch_tail(); 0: none */
    uint32_t hints; /* enum gb_gemm_flags: what loads ask of L2 */
    enum gb_chosen chosen;
    int64_t tiles;   /* of C, without splits */
    double waves;    /* of thread blocks over the multiprocessors */
    double seconds;  /* predicted: kernel, reduction and copies */
    unsigned repair; /* enum gb_repaired */
    struct gb_terms terms;
};

/* GB_PLAN_WAVES: of blocks, that splits may make; finer ones fill the last no better. */
enum {
    GB_PLAN_WAVES = 4,
    GB_PLAN_SPLITS = 32,
    GB_PLAN_GROUP_M = 8,
    GB_PLAN_GROUP_TALL = 1024
};

/* What a choice may have to do without, beside enum gb_kernel_flags: copies of operands, and tails.
 * And what it has to where we stage the panels, by parts of k, too: bits are the problem's there,
 * not the panel's. */
enum {
    GB_PLAN_COPIES = 1u << 30,
    GB_PLAN_TAILS = 1u << 29,
    GB_PLAN_STAGED = GB_K_WHOLE | GB_PLAN_TAILS
};

/* How row k would run p, for operands on the device whose addresses and strides are multiples
 * of align_a and align_b bytes, powers of two, of which GB_PLAN_LINE is the most that counts;
 * false when it cannot, or has something of `without`. A row that wants more costs a copy of the
 * operand first (choice->repair says of which). `splits`: parts of k, at most GB_PLAN_SPLITS; 0:
 * as many as the model finds best. */
bool gb_plan_row(const struct gb_problem *p, const struct gb_device_info *info,
                 const struct gb_kernel *k, uint32_t align_a, uint32_t align_b,
                 uint32_t without, int splits, struct gb_choice *choice);

/* The cheapest row by the model alone, of those that have nothing of `without`;
 * false when there is none. */
bool gb_plan_model(const struct gb_problem *p, const struct gb_device_info *info,
                   uint32_t align_a, uint32_t align_b, uint32_t without,
                   struct gb_choice *choice);

/* The row to run: a tuned one that is legal, else the model's. */
bool gb_plan_kernel(const struct gb_problem *p, const struct gb_device_info *info,
                    uint32_t align_a, uint32_t align_b, struct gb_choice *choice);

/* gb_plan_kernel() of choices that have nothing of `without`. */
bool gb_plan_without(const struct gb_problem *p, const struct gb_device_info *info,
                     uint32_t align_a, uint32_t align_b, uint32_t without,
                     struct gb_choice *choice);

/* gb_plan_kernel() of matrices that we stage, whatever memory there is. */
bool gb_plan_staged(const struct gb_problem *p, const struct gb_device_info *info,
                    struct gb_choice *choice);

/* For qsort: of two choices the one that is predicted to be the quicker in front. */
int gb_plan_by_seconds(const void *x, const void *y);

/* What the kernels of a choice are told of all of p at once, on the device, but for addresses
 * and the strides of batches. */
struct gb_gemm_args gb_plan_args(const struct gb_problem *p,
                                 const struct gb_choice *choice);

/* The panels for a budget of device memory. GB_OK, GB_WHY_UNSUPPORTED or GB_WHY_OOM. */
enum gb_why gb_plan_make(const struct gb_problem *p, const struct gb_device_info *info,
                         size_t budget, struct gb_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
