/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt: fp64. */
#include "gemm_simt.h"
#include "reduce.h"

GB_SIMT(gemm_simt_f64_128x64x8, 2, double, double, double, 128, 64, 8, 8, 4)
GB_SIMT(gemm_simt_f64_64x64x8, 2, double, double, double, 64, 64, 8, 4, 4)
GB_REDUCE(gb_reduce_f64_f64, double, double)
