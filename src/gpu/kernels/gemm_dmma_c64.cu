/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_dmma: complex fp64. */
#include "gemm_dmma.h"
#include "reduce.h"

#define DMMA_C64(name, tile_m, tile_n, tile_k, stages, warps_m, warps_n, k_of_mma,     \
                 blocks, efficiency)                                                   \
    GB_DMMA_ROW(gemm_dmma_c64_##name, blocks, gb_c64, tile_m, tile_n, tile_k, stages,  \
                warps_m, warps_n, k_of_mma)
#include "dmma.def"
#undef DMMA_C64

GB_REDUCE(gb_reduce_c64_c64, gb_c64, gb_c64)
