/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of gemm_wgmma share: a tile's shape, its work, and the memory of a block. */
#ifndef GB_WGMMA_TILE_H
#define GB_WGMMA_TILE_H

#include "tensor_map.h"
#include "wgmma.h"
#define WGMMA(...)
#include "wgmma.def" /* GB_WGMMA_SMEM, GB_WGMMA_BLOCKS */
#undef WGMMA

/* One row of kernels.def in one layout. */
template <class In_, class Out_, int WGS_, int MI_, int BN_, int STAGES_, int BUFFERS_,
          bool X_MN_, bool Y_MN_>
struct WgmmaTile {
    typedef In_ In;
    typedef Out_ Out;
    static constexpr int WGS = WGS_, MI = MI_, BN = BN_, STAGES = STAGES_;
    static constexpr int BM = 64 * MI * WGS, BK = 128 / sizeof(In_);
    static constexpr bool X_MN = X_MN_, Y_MN = Y_MN_;
    static constexpr int THREADS = 128 * (WGS + 1);
    static constexpr int ATOMS = (BN + 63) / 64; /* of an MN-major Y */
    static constexpr int X_BYTES = BM * 128;
    static constexpr int Y_BYTES = Y_MN ? ATOMS * GB_ATOM_BYTES : BN * 128;
    static constexpr int STAGE_BYTES = X_BYTES + Y_BYTES;
    /* C travels in parts of the 16 columns that a warp has by PART rows. */
    static constexpr int PART = 128 / sizeof(Out) < BN ? 128 / sizeof(Out) : BN;
    static constexpr int PARTS = BN / PART * MI, BUFFERS = BUFFERS_;
    static constexpr int PART_BYTES = 16 * 128;
    /* A block starts with 168 registers per thread where there are three warpgroups, with 128
     * where there are two and a second block: the loader gives most of its own to the others.
     * There are no more than the block was started with: who asks for one more waits for ever. */
    static constexpr int BLOCKS = GB_WGMMA_BLOCKS(BN, BM, STAGES, WGS, BUFFERS_);
    static constexpr bool TRADE = WGS > 1 || (BLOCKS > 1 && MI * BN >= 256);
    static constexpr int LOADER_REGISTERS = WGS > 1 ? 56 : 40;
    static constexpr int REGISTERS = WGS > 1 ? 224 : 216;

    static_assert(BN % PART == 0 && BN <= 256 && WGS <= 2, "tile");
    static_assert(!TRADE || BLOCKS > 1 ||
                      LOADER_REGISTERS + WGS * REGISTERS <=
                          65536 / THREADS / 8 * 8 * (WGS + 1),
                  "registers change hands");
    static_assert(BN % 16 == 0, "halves of Y are whole rows of the swizzle");
};

/* What the loading thread tells the others about the tile whose first buffer this is. */
struct WgmmaWork {
    int m, n; /* C(m, n) is its first element */
    int batch, split;
    int k;     /* where its sums begin, from the launch's k_begin */
    int steps; /* buffers of BK to sum; < 0: no more tiles */
    int carry; /* the sums began in an earlier launch */
};

/* At multiples of 1024 bytes, which the swizzle needs. */
template <class Tile>
struct WgmmaShared {
    unsigned char stage[Tile::STAGES][Tile::STAGE_BYTES];
    unsigned char part[4 * Tile::WGS][Tile::BUFFERS]
                      [Tile::PART_BYTES]; /* of each warp */
    uint64_t full[Tile::STAGES], empty[Tile::STAGES];
    uint64_t arrived[4 * Tile::WGS][Tile::BUFFERS]; /* a part of C */
    WgmmaWork work[Tile::STAGES];
};

/* A position in the ring, and the parity of its present phase. */
template <int N>
struct WgmmaRing {
    int at = 0;
    uint32_t parity;

    GB_DEVICE explicit WgmmaRing(uint32_t first) : parity(first)
    {
    }
    GB_DEVICE void next()
    {
        if (++at == N) {
            at = 0;
            parity ^= 1;
        }
    }
};

#endif
