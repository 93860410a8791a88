/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_thin: bf16 with C of the same type. */
#include "gemm_thin.h"

#define THIN(name, long_m, warps, step, efficiency)                                    \
    GB_THIN_ROW(gemm_thin_bf16_##name, gb_bf16, gb_bf16, long_m, warps, step)
#include "thin.def"
#undef THIN
