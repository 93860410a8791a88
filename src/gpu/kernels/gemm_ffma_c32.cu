/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_ffma: complex fp32. */
#include "gemm_ffma.h"
#include "reduce.h"

#define FFMA_C32(name, tile_m, tile_n, tile_k, stages, per_m, per_n, blocks,           \
                 efficiency)                                                           \
    GB_FFMA_ROW(gemm_ffma_c32_##name, blocks, gb_c32, tile_m, tile_n, tile_k, stages,  \
                per_m, per_n)
#include "ffma.def"
#undef FFMA_C32

GB_REDUCE(gb_reduce_c32_c32, gb_c32, gb_c32)
