/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma: fp16 with C of the same type. */
#include "gemm_wgmma.h"
#include "reduce.h"

#define WGMMA(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)     \
    GB_WGMMA_CODE_##cluster(gemm_wgmma_f16_##name, gb_f16, gb_f16, wgs, mi, tile_m,    \
                            stages, buffers)
#include "wgmma.def"

GB_REDUCE(gb_reduce_f32_f16, gb_f16, float)
