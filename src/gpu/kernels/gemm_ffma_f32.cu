/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_ffma: fp32. */
#include "gemm_ffma.h"
#include "reduce.h"

#define FFMA_F32(name, tile_m, tile_n, tile_k, stages, per_m, per_n, blocks,           \
                 efficiency)                                                           \
    GB_FFMA_ROW(gemm_ffma_f32_##name, blocks, float, tile_m, tile_n, tile_k, stages,   \
                per_m, per_n)
#include "ffma.def"
#undef FFMA_F32

GB_REDUCE(gb_reduce_f32_f32, float, float)
