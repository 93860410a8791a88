/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_emul: fp32 from fp16. */
#include "gemm_emul.h"
#include "reduce.h"

GB_EMUL_ROW(gemm_emul_128x128x64, 2, 128, 3, 2)
GB_EMUL_ROW(gemm_emul_128x64x64, 1, 128, 4, 2)
GB_REDUCE(gb_reduce_f32_f32, float, float)
