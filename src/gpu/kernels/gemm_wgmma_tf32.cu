/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma: fp32 as tf32, of operands that run along k. */
#include "gemm_wgmma.h"
#include "reduce.h"

#define GB_TF32_CODE_1(name, tile_m, stages, buffers, wgs, mi)                         \
    typedef WgmmaTile<gb_tf32, float, wgs, mi, tile_m, stages, buffers, false, false>  \
        name##_tn;                                                                     \
    GB_WGMMA_LAYOUT(gb_##name##_tn, name##_tn)
#define GB_TF32_CODE_2(...)

#define TF32(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)      \
    GB_TF32_CODE_##cluster(gemm_wgmma_tf32_##name, tile_m, stages, buffers, wgs, mi)
#include "tf32.def"
#undef TF32

GB_REDUCE(gb_reduce_f32_f32, float, float)
