/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_dmma: fp64. */
#include "gemm_dmma.h"
#include "reduce.h"

#define DMMA_F64(name, tile_m, tile_n, tile_k, stages, warps_m, warps_n, k_of_mma,     \
                 blocks, efficiency)                                                   \
    GB_DMMA_ROW(gemm_dmma_f64_##name, blocks, double, tile_m, tile_n, tile_k, stages,  \
                warps_m, warps_n, k_of_mma)
#include "dmma.def"
#undef DMMA_F64

GB_REDUCE(gb_reduce_f64_f64, double, double)
