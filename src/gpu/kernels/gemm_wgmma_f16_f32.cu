/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma: fp16 with C in fp32. */
#include "gemm_wgmma.h"
#include "reduce.h"

#define WGMMA(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)     \
    GB_WGMMA_CODE_##cluster(gemm_wgmma_f16_f32_##name, gb_f16, float, wgs, mi, tile_m, \
                            stages, buffers)
#include "wgmma.def"

GB_REDUCE(gb_reduce_f32_f32, float, float)
