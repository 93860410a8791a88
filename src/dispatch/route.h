/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a call worth the GPU? Pure: everything it weighs is an argument. */
#ifndef GB_ROUTE_H
#define GB_ROUTE_H

#include "device.h"
#include "gb.h"
#include "knobs.h"
#include "model.h"
#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gb_route_in {
    enum gb_knob_route route; /* what the user asked for, for this routine */
    bool disabled;
    const struct gb_device_info *info; /* of the open device, or of a typical one */
    const struct gb_rates *rates;
};

struct gb_route_out {
    struct gb_choice choice; /* kernel NULL when routing ended before it was needed */
    struct gb_cost cost;
};

/* GB_OK: worth a device (whether one is open is dispatch's business). */
enum gb_why gb_route(const struct gb_problem *p, const struct gb_route_in *in,
                     struct gb_route_out *out);

/* A matrix of one column may have any leading dimension, near 2^63 too; with its rows' count
 * in its place no product of sizes overflows further on. */
void gb_route_tighten(struct gb_problem *p);

/* Does C share an element with A or B? Elements, not address ranges: the blocks of one array
 * that an LU factorisation updates interleave without sharing any. */
bool gb_route_overlap(const struct gb_problem *p);

/* rows x cols elements in columns. */
struct gb_stored {
    const void *at;
    int64_t rows, cols, ld;
    enum gb_type type;
};

/* Does one share an element with the other? */
bool gb_route_shares(const struct gb_stored *x, const struct gb_stored *y);

/* Least m*n*k at which any type could gain, for the frameless test of the entries. */
uint64_t gb_route_floor(const struct gb_rates *rates);

#ifdef __cplusplus
}
#endif
#endif
