/* SPDX-License-Identifier: BSD-3-Clause */
/* The argument of kernels that move tiles by TMA: beside what every GEMM kernel gets, a
 * description of each matrix that the driver has encoded, and the map of tiles, so that one
 * thread finds its tiles without holding the map in registers. */
#ifndef GB_TENSOR_MAP_H
#define GB_TENSOR_MAP_H

#include <stdint.h>

#include "gemm_args.h"
#include "tile_map.h"

/* CUtensorMap: opaque. */
struct gb_tensor_map {
    uint64_t word[16];
} __attribute__((aligned(64)));

struct gb_tma_args {
    struct gb_tensor_map a, b, c; /* c: not encoded when sums go to partial */
    struct gb_gemm_args g;
    struct gb_tile_map32 map; /* its tiles are those of a cluster */
    int32_t c_direct;         /* C cannot be described: loads and stores by element */
};

#endif
