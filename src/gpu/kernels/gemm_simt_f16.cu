/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: fp16 with C of the same type. */
#include "gemm_simt.h"

GB_SIMT(gemm_simt_f16_128x128x16, 2, gb_f16, gb_f16, float, 128, 128, 16, 8, 8)
GB_SIMT(gemm_simt_f16_64x64x16, 2, gb_f16, gb_f16, float, 64, 64, 16, 4, 4)
GB_SIMT_REDUCE(gb_reduce_f32_f16, gb_f16, float)
