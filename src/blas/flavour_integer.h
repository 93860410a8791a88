/* SPDX-License-Identifier: BSD-3-Clause */
/* 8-bit integers: in the flavours of oneMKL, the one library that has them. */
#define ROUTINE gemm_s8u8s32
#include "entry_integer.h"

#undef F77
#undef CBLAS
#undef BARE
#undef BITS
#undef PLAIN
