/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the elements of a tile live: which thread loads which, where it lies in shared memory
 * and which thread owns which element of C. Pure arithmetic; t_tile_map proves that each map
 * is a bijection and free of bank conflicts.
 *
 * A tile of an operand is `tile` x tile_k elements, stored k-major in shared memory: element
 * (row, k) at k * pitch + row. A warp is 8 lanes along m by 4 along n; a lane owns vectors of
 * v = 16 bytes / element, so that one 128-bit load of a warp covers 128 contiguous bytes. */
#ifndef GB_SWIZZLE_H
#define GB_SWIZZLE_H

#include <stdbool.h>

#include "hostdev.h"

enum { GB_LANES = 32, GB_LANES_M = 8, GB_LANES_N = 4 };

/* 16 bytes of padding: rows stay aligned for 128-bit loads, and a column of 8 successive k
 * falls into different banks. */
GB_HD int gb_smem_pitch(int tile, int element_bytes)
{
    return tile + 16 / element_bytes;
}

struct gb_place {
    int row, k;
};

/* The operand's unit stride runs along its rows: neighbouring threads take neighbouring rows,
 * vec elements each. */
GB_HD struct gb_place gb_load_along(int index, int tile, int vec)
{
    struct gb_place p;

    p.row = index % (tile / vec) * vec;
    p.k = index / (tile / vec);
    return p;
}

/* The unit stride runs along k: 8 threads take 8 successive k of one row, so that reads fill
 * 32-byte sectors and the transposing stores meet 32 different banks. */
GB_HD struct gb_place gb_load_across(int index, int tile)
{
    struct gb_place p;

    p.row = index / 8 % tile;
    p.k = index % 8 + index / 8 / tile * 8;
    return p;
}

/* As before with vectors of vec elements along k. */
GB_HD struct gb_place gb_load_across_vec(int index, int tile_k, int vec)
{
    struct gb_place p;

    p.row = index / (tile_k / vec);
    p.k = index % (tile_k / vec) * vec;
    return p;
}

/* Row of the tile that is element r of the thread's per_thread rows. */
GB_HD int gb_frag_row(int thread, int r, int warps_m, int per_thread, int v)
{
    int warp = thread / GB_LANES % warps_m;
    int lane = thread >> 1 & 7;

    return (warp * per_thread + r / v * v) * GB_LANES_M + lane * v + r % v;
}

/* Column likewise. The lane bits are dealt so that every 8 successive lanes read 4 vectors of
 * A and 2 of B, which the hardware serves in one pass. */
GB_HD int gb_frag_col(int thread, int c, int warps_m, int per_thread, int v)
{
    int warp = thread / GB_LANES / warps_m;
    int lane = (thread & 1) | (thread >> 3 & 2);

    return (warp * per_thread + c / v * v) * GB_LANES_N + lane * v + c % v;
}

/* ---- gemm_ffma ---- */

/* Where row `row` of A lies, of those of one k, if real and imaginary parts lie apart: a lane's
 * vectors of two complex elements, of which every other one is 16 rows on, become vectors of
 * four real ones. */
GB_HD int gb_ffma_part(int row)
{
    return (row & ~31) | (row >> 1 & 7) << 2 | (row >> 4 & 1) << 1 | (row & 1);
}

/* ---- gemm_mma ---- */

/* A buffer of 16-bit elements: rows of 16-byte chunks, along the operand's unit stride. Chunk
 * `chunk` of `row` lies in this place of its row, so that the same chunk of 8 successive rows
 * falls into 8 different groups of banks. Of the row only its place among 8 counts. */
GB_HD int gb_mma_chunk(int row, int chunk, int chunks)
{
    return chunks < 8 ? chunk ^ (row / (8 / chunks) & (chunks - 1)) : chunk ^ (row & 7);
}

/* Which row of 16, and which of two chunks, a lane names to ldmatrix, which returns four
 * matrices of 8x8, one for each 8 lanes. Down: those of the second half of the rows come
 * second; else those of the second chunk. */
GB_HD struct gb_place gb_mma_lane(int lane, bool down)
{
    struct gb_place p;

    p.row = down ? lane & 15 : (lane & 7) | (lane >> 1 & 8);
    p.k = down ? lane >> 4 : lane >> 3 & 1;
    return p;
}

/* Where a warp's sum (n, m) lies on its way to or from C, in floats: rows of `width` of m, in
 * which neither the pairs of mma nor successive m meet a bank twice. */
GB_HD int gb_mma_patch(int n, int m, int width)
{
    return n * width + (m / 4 ^ (n & 3) << 1) * 4 + m % 4;
}

/* ---- gemm_dmma ---- */

/* A buffer of doubles, or complex ones, in rows along the operand's unit stride. Across, rows lie
 * along k and are whole lines of 128 bytes; else along m or n, with so many bytes between them. A
 * warp reads 8 neighbours of m or n and 4 of k at a time, 128 bytes of them in one pass. */
enum { GB_DMMA_PAD = 32 };

/* Where byte `byte` of a row lies in it. Across, the 4 of k that are read at once take turns
 * from row to row in the banks that rows share. Of the row only its place among 4 counts. */
GB_HD int gb_dmma_byte(int row, int byte, int element_bytes, bool across)
{
    return across ? byte ^ (row & (32 / element_bytes - 1)) * 4 * element_bytes : byte;
}

#endif
