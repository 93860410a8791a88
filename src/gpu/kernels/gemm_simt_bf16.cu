/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: bf16 with C of the same type. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_bf16_128x64x16, 2, gb_bf16, gb_bf16, float, 128, 64, 16, 8, 4)
GB_REDUCE(gb_reduce_f32_bf16, gb_bf16, float)
