/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that copy asynchronously, one right and one for each way to be wrong. Each block
 * copies COPIES_WORDS words per thread, of which COPIES_VALID are read, from args.a to args.c
 * by way of its dynamic shared memory; a thread writes what another has copied. args.m is
 * the number of threads. */
#ifndef FIBER_COPIES_H
#define FIBER_COPIES_H

#include "fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    COPIES_WORDS = 4, /* of 4 bytes, by one copy */
    COPIES_VALID = 3, /* of them exist, the rest is zero */
};

void copies_right(const void *args);
void copies_no_wait(const void *args);
void copies_no_barrier(const void *args);
void copies_late_wait(const void *args);    /* by then other threads have read */
void copies_early_refill(const void *args); /* the next copy comes before the barrier */
void copies_source_reused(const void *args); /* the source changes before the wait */

/* The product's own kernel, and the same text with its waits taken out. */
extern const struct gb_emu_kernel copies_gemm, copies_gemm_no_wait;

#ifdef __cplusplus
}
#endif
#endif
