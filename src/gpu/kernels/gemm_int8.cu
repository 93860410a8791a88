/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_int8, and what goes ahead of it. */
#include "bytes.h"
#include "gemm_int8.h"

#define INT8(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)      \
    GB_INT8_CODE_##cluster(gemm_int8_##name, wgs, mi, tile_m, stages, buffers)
#include "int8.def"
#undef INT8
