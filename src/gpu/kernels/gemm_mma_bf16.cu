/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_mma: bf16 with C of the same type. */
#include "gemm_mma.h"
#include "reduce.h"

#define MMA(name, tile_m, tile_n, tile_k, stages, warps_m, warps_n, align, blocks,     \
            efficiency)                                                                \
    GB_MMA_ROW(gemm_mma_bf16_##name, blocks, gb_bf16, gb_bf16, tile_m, tile_n, tile_k, \
               stages, warps_m, warps_n, align)
#include "mma.def"
#undef MMA

GB_REDUCE(gb_reduce_f32_bf16, gb_bf16, float)
