/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_split and gemm_emul on fibers. */
#ifndef FIBER_EMUL_H
#define FIBER_EMUL_H

#include "fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct gb_emu_kernel emul_split_along, emul_split_across;

/* 128 of m by 128 of n (two warpgroups) or 64. */
enum { EMUL_TILES = 2 };
struct emul_tile {
    struct gb_emu_kernel kernel;
    int m, n, threads;
    uint32_t smem;
};
extern const struct emul_tile emul_tiles[EMUL_TILES];

#ifdef __cplusplus
}
#endif
#endif
