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
    int64_t tiles;  /* of C, without splits */
    double waves;   /* of thread blocks over the multiprocessors */
    double seconds; /* predicted, kernel and reduction */
};

/* How row k would run p; false when it cannot (types, device). */
bool gb_plan_score(const struct gb_problem *p, const struct gb_device_info *info,
                   const struct gb_kernel *k, struct gb_choice *choice);

/* The cheapest legal row for operands whose addresses and strides on the device are multiples
 * of `align` bytes, a power of two; false when there is none. */
bool gb_plan_kernel(const struct gb_problem *p, const struct gb_device_info *info,
                    uint32_t align, struct gb_choice *choice);

/* The panels for a budget of device memory. GB_OK, GB_WHY_UNSUPPORTED or GB_WHY_OOM. */
enum gb_why gb_plan_make(const struct gb_problem *p, const struct gb_device_info *info,
                         size_t budget, struct gb_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
