/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_thin: bf16 with C of fp32. */
#include "gemm_thin.h"

#define THIN(name, long_m, warps, step, efficiency)                                    \
    GB_THIN_ROW(gemm_thin_bf16_f32_##name, gb_bf16, float, long_m, warps, step)
#include "thin.def"
#undef THIN
