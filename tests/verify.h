/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of BLAS semantics share: operands, calls, who has served them, and here a
 * reference product in long double and the two yardsticks (netlib's and the design's). */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "operands.h"
#include "served.h"

/* Freeze the operands and name the call for the crash report; call; compare. */
enum verify_how {
    VERIFY_EXACT, /* equal values (all zeros are equal; NaN equals NaN) */
    VERIFY_BOUND, /* within the design's elementwise bound and netlib's gauge */
    VERIFY_GAUGE  /* netlib's gauge alone: another library may have computed it */
};

/* true when C is right and nothing else has changed; otherwise `why` says what is
 * wrong, with the whole call. Large products are compared in samples: edges, corners,
 * random elements. */
bool verify_gemm_run(struct verify_gemm *g, enum verify_how how, char *why, size_t len);

/* A product of small integers: operands for g as verify_gemm_make() has them, C filled as
 * wanted, called, compared bit for bit and dropped. */
bool verify_gemm_integers(struct verify_gemm *g, enum verify_fill c,
                          const int64_t extra[3], enum verify_place place,
                          struct verify_random *r, char *why, size_t len);

#endif
