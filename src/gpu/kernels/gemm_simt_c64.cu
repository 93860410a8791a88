/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: complex fp64. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_c64_64x64x8, 2, gb_c64, gb_c64, gb_c64, 64, 64, 8, 4, 4)
GB_SIMT(gemm_simt_c64_32x32x8, 2, gb_c64, gb_c64, gb_c64, 32, 32, 8, 2, 2)
GB_REDUCE(gb_reduce_c64_c64, gb_c64, gb_c64)
