/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: fp32. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_f32_128x128x16, 2, float, float, float, 128, 128, 16, 8, 8)
GB_SIMT(gemm_simt_f32_64x64x16, 2, float, float, float, 64, 64, 16, 4, 4)
GB_REDUCE(gb_reduce_f32_f32, float, float)
