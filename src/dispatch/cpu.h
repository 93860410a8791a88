/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that the CPU does on our behalf: the rest of a plan after a device failure, and
 * the portable routine behind every exported name. */
#ifndef GB_CPU_H
#define GB_CPU_H

#include "gb.h"
#include "geometry.h"

/* Compute the pieces done, done+1, ... of the plan through the real BLAS (the portable
 * routine where it lacks the name). C outside them is not touched. */
void gb_cpu_finish(const struct gb_plan *plan, int64_t done);

/* C := alpha op(A) op(B) + beta C for any legal problem, reference semantics (beta
 * == 0 never reads C; alpha == 0 or k == 0 never reads A or B). Half types go by
 * fp32 panels through the real sgemm, one rounding at the end; s, d, c, z by a
 * plain blocked loop. */
void gb_cpu_gemm(const struct gb_problem *p);

/* Of 8-bit integers, with what is added to them and fused: alpha op(A) op(B) is of sums modulo
 * 2^32, and what becomes of them is in round.h. */
void gb_cpu_integer_gemm(const struct gb_problem *p);

/* The same through the real BLAS's routine of that type when there is one. */
void gb_cpu_real_gemm(const struct gb_problem *p);

/* The same with what is fused to it, if anything is: sums through the real BLAS, piece by
 * piece, and the kernels' own epilogue. */
void gb_cpu_extra_gemm(const struct gb_problem *p);

#endif
