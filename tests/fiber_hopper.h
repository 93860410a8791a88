/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma with its waits and barriers numbered, any one of which can be left out. */
#ifndef FIBER_HOPPER_H
#define FIBER_HOPPER_H

#include <stdbool.h>

#include "fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tiles 128 along m, with two buffers: 64 wide along n; 128 wide, for two warpgroups; both fp16;
 * and the first again, of bf16 with C of fp32. By layout: nn, nt, tn, tt. */
enum { HOPPER_TILES = 3, HOPPER_LAYOUTS = 4 };
extern const struct gb_emu_kernel hopper_kernels[HOPPER_TILES][HOPPER_LAYOUTS];
uint32_t hopper_smem(int tile);

/* Places that kernels have come to so far. */
struct hopper_site {
    const char *file, *what;
    int line;
};
int hopper_sites(const struct hopper_site **sites);
void hopper_drop(uint64_t which); /* a bit for each; 0: none */

#ifdef __cplusplus
}
#endif
#endif
