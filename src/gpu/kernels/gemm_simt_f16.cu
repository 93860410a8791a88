/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: fp16 with C of the same type. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_f16_128x64x16, 2, gb_f16, gb_f16, float, 128, 64, 16, 8, 4)
GB_REDUCE(gb_reduce_f32_f16, gb_f16, float)
