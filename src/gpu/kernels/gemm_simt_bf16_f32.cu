/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: bf16 with C of fp32. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_bf16_f32_128x64x16, 2, gb_bf16, float, float, 128, 64, 16, 8, 4)
GB_REDUCE(gb_reduce_f32_f32, float, float)
