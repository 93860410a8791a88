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

/* What the emulated device writes there, for kernels on the host (wgmma_host.h): elements of so
 * many bytes, dimensions and strides (bytes, of the second and third) as a driver is told them, and
 * the box of elements that a copy moves, whose rows the 128-byte swizzle keeps 128 bytes apart. */
struct gb_host_tensor {
    uint64_t at, dim[3], stride[2];
    uint32_t box[2], element_bytes;
    uint32_t
        tf32; /* elements of 4 bytes are rounded to the nearest tf32 on their way */
};

/* What a load asks of L2, as the hardware encodes it: lines are the next to go, the last, or
 * like any others. */
#define GB_L2_NORMAL 0x1000000000000000u
#define GB_L2_FIRST 0x12f0000000000000u
#define GB_L2_LAST 0x14f0000000000000u

/* A launch that may start early waits for the one before at its start. Of two that have the
 * tiles of one product the second does not depend on the first: it takes multiprocessors as they
 * become free, and waits at its end, for those that wait for it. */
enum gb_tma_wait { GB_TMA_AT_START, GB_TMA_BEFORE_NEXT, GB_TMA_AT_END };

struct gb_tma_args {
    struct gb_tensor_map a, b, c; /* c: only where the kernel reads C */
    uint64_t hint_a, hint_b;      /* GB_L2_... */
    struct gb_gemm_args g;
    struct gb_tile_map32 map;
    int32_t
        c_direct; /* C cannot be described: it is read by words and stored by lines */
    /* With GB_G_EPILOGUE, splits that are summed by a cluster of as many blocks, which has one
     * tile: the map is without them. Else 1. */
    int32_t together;
    /* log2 of the tiles along n that a unit of the map has, one for each block of a cluster; or,
     * with `apart` (1), each is a unit by itself: unit >> 1 is the map's, and `first` and
     * map.units count tiles. */
    int32_t wide, apart;
    uint32_t first;        /* unit of the grid; map.units is where they end */
    enum gb_tma_wait wait; /* for what was queued before */
};

#endif
