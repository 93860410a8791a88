/* SPDX-License-Identifier: BSD-3-Clause */
/* Half and mixed precision: plain names only. Signatures as in oneMKL (cblas_hgemm,
 * cblas_gemm_*) and OpenBLAS (sbgemm, shgemm, bgemm); 16-bit scalars by value are
 * integers. */
#define ROUTINE hgemm
#define SCALAR uint16_t
#include "entry.h"
#define ROUTINE bgemm
#define SCALAR uint16_t
#include "entry.h"
#define ROUTINE shgemm
#define SCALAR float
#include "entry.h"
#define ROUTINE sbgemm
#define SCALAR float
#include "entry.h"

#undef F77
#define ROUTINE gemm_f16f16f32
#define SCALAR float
#include "entry.h"
#define ROUTINE gemm_bf16bf16f32
#define SCALAR float
#include "entry.h"

#undef CBLAS
#undef BITS
#undef PLAIN
