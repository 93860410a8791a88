/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_mma with its reads of operands watched. */
#ifndef FIBER_READS_H
#define FIBER_READS_H

#include <stddef.h>

#include "fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* READS_TILE^2 of C by 32 of k; the second kernel takes ragged operands. */
enum { READS_TILE = 64, READS_LAYOUTS = 4 };
extern const struct gb_emu_kernel reads_aligned[READS_LAYOUTS],
    reads_ragged[READS_LAYOUTS];
uint32_t reads_threads(const struct gb_emu_kernel *k);
uint32_t reads_smem(const struct gb_emu_kernel *k);

/* Which bytes may be read, of `bytes` from `base`. */
void reads_watch(const void *base, const unsigned char *legal, size_t bytes);
/* Bytes that have been read without leave since, and all that have been read. */
long reads_wrong(void);
long reads_all(void);

#ifdef __cplusplus
}
#endif
#endif
