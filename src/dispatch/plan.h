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

/* A row and how it would run the whole problem. A function of the problem and the device
 * alone, never of memory: it decides the bits. */
struct gb_choice {
    const struct gb_kernel *kernel;
    int splits;
    int64_t split_len;
    int group_m;
    int64_t tiles;   /* of C, without splits */
    double waves;    /* of thread blocks over the multiprocessors */
    double seconds;  /* predicted, kernel and reduction */
    unsigned repair; /* enum gb_repaired */
};

/* How row k would run p; false when it cannot (types, device). */
bool gb_plan_score(const struct gb_problem *p, const struct gb_device_info *info,
                   const struct gb_kernel *k, struct gb_choice *choice);

/* The cheapest row for operands on the device, whose addresses and strides are multiples of
 * align_a and align_b bytes, powers of two; false when there is none. A row that wants more
 * costs a copy of the operand first (choice->repair says of which). */
bool gb_plan_kernel(const struct gb_problem *p, const struct gb_device_info *info,
                    uint32_t align_a, uint32_t align_b, struct gb_choice *choice);

/* The same for a problem whose panels we stage: by parts of k, too. */
bool gb_plan_staged(const struct gb_problem *p, const struct gb_device_info *info,
                    struct gb_choice *choice);

/* The same as gb_plan_kernel() of one row. */
bool gb_plan_row(const struct gb_problem *p, const struct gb_device_info *info,
                 const struct gb_kernel *k, uint32_t align_a, uint32_t align_b,
                 struct gb_choice *choice);

/* Let k be summed in so many parts instead; false, and nothing done, where rounding to tiles
 * leaves fewer, or the row adds up none. */
bool gb_plan_split(struct gb_choice *choice, int64_t k, int splits);

/* The panels for a budget of device memory. GB_OK, GB_WHY_UNSUPPORTED or GB_WHY_OOM. */
enum gb_why gb_plan_make(const struct gb_problem *p, const struct gb_device_info *info,
                         size_t budget, struct gb_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
