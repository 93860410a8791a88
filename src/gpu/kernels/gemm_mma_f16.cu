/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_mma: fp16 with C of the same type. */
#include "gemm_mma.h"
#include "reduce.h"

#define MMA(name, tile_m, tile_n, tile_k, stages, warps_m, warps_n, align, blocks,     \
            efficiency)                                                                \
    GB_MMA_ROW(gemm_mma_f16_##name, blocks, gb_f16, gb_f16, tile_m, tile_n, tile_k,    \
               stages, warps_m, warps_n, align)
#include "mma.def"
#undef MMA

GB_REDUCE(gb_reduce_f32_f16, gb_f16, float)
