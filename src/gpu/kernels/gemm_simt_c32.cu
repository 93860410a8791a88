/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: complex fp32. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_c32_128x64x8, 2, gb_c32, gb_c32, gb_c32, 128, 64, 8, 8, 4)
GB_SIMT(gemm_simt_c32_64x64x8, 2, gb_c32, gb_c32, gb_c32, 64, 64, 8, 4, 4)
GB_REDUCE(gb_reduce_c32_c32, gb_c32, gb_c32)
