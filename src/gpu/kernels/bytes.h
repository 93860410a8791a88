/* SPDX-License-Identifier: BSD-3-Clause */
/* 8-bit operands ahead of their product: gb_bytes_s8 copies up to two of them K-major to aligned
 * vectors, whatever their layout, address and leading dimension, and takes 128 off those without
 * sign; gb_sums_s8 adds up vectors. A block of threads moves GB_BYTES_SIDE vectors by as much of
 * k. Nothing before the first element of a matrix or after its last is read; what lies between
 * vectors may be. */
#ifndef GB_BYTES_H
#define GB_BYTES_H

#include "int8_args.h"
#include "seam.h"
#include "shift.h"

#if GB_SEAM_CUDA

GB_INLINE uint32_t gb_bytes_pick(uint32_t low, uint32_t high, uint32_t which)
{
    return __byte_perm(low, high, which);
}

/* sum + the four bytes of x. */
GB_INLINE int32_t gb_bytes_add(uint32_t x, int32_t sum)
{
    return __dp4a((int)x, 0x01010101, sum);
}

GB_INLINE int32_t gb_bytes_over_warp(int32_t x)
{
    return __reduce_add_sync(0xffffffff, x);
}

#else

GB_INLINE uint32_t gb_bytes_pick(uint32_t low, uint32_t high, uint32_t which)
{
    const uint64_t both = (uint64_t)high << 32 | low;
    uint32_t picked = 0;

    for (int i = 0; i < 4; i++)
        picked |= (uint32_t)(both >> 8 * (which >> 4 * i & 7) & 255) << 8 * i;
    return picked;
}

GB_INLINE int32_t gb_bytes_add(uint32_t x, int32_t sum)
{
    uint32_t all = (uint32_t)sum;

    for (int i = 0; i < 4; i++)
        all += (uint32_t)(int8_t)(x >> 8 * i);
    return (int32_t)all;
}

static void gb_bytes_host_sum(void *const *lanes)
{
    uint32_t all = 0;

    for (int l = 0; l < GB_LANES; l++)
        all += *static_cast<uint32_t *>(lanes[l]);
    for (int l = 0; l < GB_LANES; l++)
        *static_cast<uint32_t *>(lanes[l]) = all;
}

GB_INLINE int32_t gb_bytes_over_warp(int32_t x, int line = __builtin_LINE())
{
    gb_fiber_warp(line, &x, gb_bytes_host_sum);
    return x;
}

#endif

/* One part of an operand. */
struct BytesPart {
    const gb_bytes &g;
    int64_t z, v0, l0; /* its batch, first vector and first of k */

    GB_DEVICE const uint8_t *matrix() const
    {
        return reinterpret_cast<const uint8_t *>(g.from) + z * g.batch_from;
    }
    GB_DEVICE uint8_t *to(int64_t v, int64_t l) const
    {
        return reinterpret_cast<uint8_t *>(g.to) + z * g.batch_to + v * g.ld + l;
    }
};

/* Vectors along memory: a thread moves 16 bytes of each of some. */
GB_INLINE void gb_bytes_along(const BytesPart &p)
{
    constexpr int ACROSS = GB_BYTES_SIDE / 16, TURNS = 4;
    constexpr int DOWN = GB_BYTES_THREADS / ACROSS;
    static_assert(TURNS * DOWN == GB_BYTES_SIDE, "all vectors");
    const gb_bytes &g = p.g;
    const int64_t l = p.l0 + gb_thread() % ACROSS * 16;
    const uint8_t *const begin = p.matrix();
    const uint8_t *const end = begin + (g.vectors - 1) * g.of_vector + g.deep;
    Vec<uint32_t, 4> two[TURNS][2];
    unsigned easy = 0; /* bit i: vectors of memory that may be read have it */

    GB_UNROLL
    for (int i = 0; i < TURNS; i++) {
        const int64_t v = p.v0 + gb_thread() / ACROSS + i * DOWN;
        const uint8_t *const from = begin + v * g.of_vector + l;
        const int skip = (int)(reinterpret_cast<uintptr_t>(from) % 16);
        const uint32_t *const at = reinterpret_cast<const uint32_t *>(from - skip);

        if (v >= g.vectors || l >= g.deep)
            continue;
        if (from - skip < begin || from - skip + (skip ? 32 : 16) > end)
            continue;
        easy |= 1u << i;
        two[i][0] = gb_load<uint32_t, 4>(at);
        if (skip)
            two[i][1] = gb_load<uint32_t, 4>(at + 4);
    }
    GB_UNROLL
    for (int i = 0; i < TURNS; i++) {
        const int64_t v = p.v0 + gb_thread() / ACROSS + i * DOWN;
        const uint8_t *const from = begin + v * g.of_vector + l;
        const int skip = (int)(reinterpret_cast<uintptr_t>(from) % 16);
        Vec<uint32_t, 4> out = {};

        if (v >= g.vectors || l >= g.deep)
            continue;
        if (easy >> i & 1) {
            out = skip ? gb_shift_vectors(two[i], skip) : two[i][0];
        } else {
            GB_UNROLL
            for (int e = 0; e < 16; e++)
                if (l + e < g.deep)
                    out.at[e / 4] |= (uint32_t)from[e] << e % 4 * 8;
        }
        GB_UNROLL
        for (int e = 0; e < 4; e++)
            out.at[e] ^= g.flip;
        gb_store(reinterpret_cast<uint32_t *>(p.to(v, l)), out);
    }
}

/* Words of four of k: word q of vector v, turned so that neither those who write, a lane for
 * every four vectors, nor those who read, a warp for each vector, meet in a bank. */
struct BytesShared {
    uint32_t word[GB_BYTES_SIDE][GB_BYTES_SIDE / 4];

    GB_DEVICE uint32_t &at(int v, int q)
    {
        return word[v][q ^ v / 4];
    }
};

/* The bytes of four vectors, of which `there` exist, at one of k; of a matrix from `begin` to
 * `end`. */
GB_INLINE uint32_t gb_bytes_four(const uint8_t *from, int64_t there,
                                 const uint8_t *begin, const uint8_t *end)
{
    const int skip = (int)(reinterpret_cast<uintptr_t>(from) % 4);
    const uint32_t *const at = reinterpret_cast<const uint32_t *>(from - skip);
    uint32_t word = 0;

    if (there >= 4 && skip == 0)
        return *at;
    if (there >= 4 && from - skip >= begin && from - skip + 8 <= end)
        return (uint32_t)(((uint64_t)at[1] << 32 | at[0]) >> 8 * skip);
    GB_UNROLL
    for (int e = 0; e < 4; e++)
        if (e < there)
            word |= (uint32_t)from[e] << 8 * e;
    return word;
}

/* Vectors across memory: squares of four by four are turned in registers, and the words so made
 * in shared memory. */
GB_INLINE void gb_bytes_across(const BytesPart &p, BytesShared &shared)
{
    constexpr int WARPS = GB_BYTES_THREADS / GB_LANES,
                  TURNS = GB_BYTES_SIDE / 4 / WARPS;
    static_assert((int)GB_BYTES_SIDE == 4 * (int)GB_LANES, "a lane has four vectors");
    const gb_bytes &g = p.g;
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    const int64_t v = p.v0 + 4 * lane;
    const uint8_t *const begin = p.matrix();
    const uint8_t *const end = begin + (g.deep - 1) * g.of_k + g.vectors;
    uint32_t in[TURNS][4];

    GB_UNROLL
    for (int i = 0; i < TURNS; i++) {
        GB_UNROLL
        for (int e = 0; e < 4; e++) {
            const int64_t l = p.l0 + 4 * (i * WARPS + warp) + e;

            in[i][e] = l < g.deep ? gb_bytes_four(begin + l * g.of_k + v, g.vectors - v,
                                                  begin, end)
                                  : 0;
        }
    }
    GB_UNROLL
    for (int i = 0; i < TURNS; i++) {
        const int q = i * WARPS + warp;
        /* pairs of k of two vectors each, then all four of one */
        const uint32_t a = gb_bytes_pick(in[i][0], in[i][1], 0x5140),
                       b = gb_bytes_pick(in[i][2], in[i][3], 0x5140),
                       c = gb_bytes_pick(in[i][0], in[i][1], 0x7362),
                       d = gb_bytes_pick(in[i][2], in[i][3], 0x7362);

        shared.at(4 * lane, q) = gb_bytes_pick(a, b, 0x5410);
        shared.at(4 * lane + 1, q) = gb_bytes_pick(a, b, 0x7632);
        shared.at(4 * lane + 2, q) = gb_bytes_pick(c, d, 0x5410);
        shared.at(4 * lane + 3, q) = gb_bytes_pick(c, d, 0x7632);
    }
    gb_sync();
    GB_UNROLL_BY(4)
    for (int i = warp; i < GB_BYTES_SIDE; i += WARPS)
        if (p.v0 + i < g.vectors)
            *reinterpret_cast<uint32_t *>(p.to(p.v0 + i, p.l0 + 4 * lane)) =
                shared.at(i, lane) ^ g.flip;
    gb_sync();
}

GB_KERNEL_OF(gb_bytes_args, gb_bytes_s8, GB_BYTES_THREADS, 3, args)
{
    GB_SHARED(BytesShared, shared);
    const int64_t units = args.x[0].batch * args.x[0].groups * args.x[0].blocks;
    const int64_t all = units + args.x[1].batch * args.x[1].groups * args.x[1].blocks;

    gb_grid_wait(); /* what it writes to may still be read */
    GB_NO_UNROLL
    for (int64_t unit = gb_block(); unit < all; unit += gb_grid()) {
        const gb_bytes &g = args.x[unit >= units];
        const int64_t at = unit >= units ? unit - units : unit;
        const BytesPart p = {g, at / (g.groups * g.blocks),
                             at / g.blocks % g.groups * GB_BYTES_SIDE,
                             at % g.blocks * GB_BYTES_SIDE};

        if (g.of_k == 1)
            gb_bytes_along(p);
        else
            gb_bytes_across(p, shared);
    }
}

/* By a warp. */
GB_INLINE int32_t gb_sums_one(const uint8_t *from, int64_t deep)
{
    const int64_t first = gb_thread() % GB_LANES * 16;
    int32_t sum = 0;

    GB_UNROLL_BY(4)
    for (int64_t l = first; l + 16 <= deep; l += 16 * GB_LANES) {
        const Vec<uint32_t, 4> v =
            gb_load<uint32_t, 4>(reinterpret_cast<const uint32_t *>(from + l));

        GB_UNROLL
        for (int e = 0; e < 4; e++)
            sum = gb_bytes_add(v.at[e], sum);
    }
    /* fewer than 16 are left, a lane for each */
    if (gb_thread() % GB_LANES < deep % 16)
        sum =
            (int32_t)((uint32_t)sum +
                      (uint32_t)(int8_t)from[deep / 16 * 16 + gb_thread() % GB_LANES]);
    return gb_bytes_over_warp(sum);
}

GB_KERNEL_OF(gb_sums_args, gb_sums_s8, GB_SUMS_THREADS, 2, args)
{
    const int64_t units = args.x[0].batch * args.x[0].vectors;
    const int64_t all = units + args.x[1].batch * args.x[1].vectors;
    constexpr int WARPS = GB_SUMS_THREADS / GB_LANES;

    gb_grid_wait();
    GB_NO_UNROLL
    for (int64_t unit = gb_block() * WARPS + gb_thread() / GB_LANES; unit < all;
         unit += gb_grid() * WARPS) {
        const gb_sums &s = args.x[unit >= units];
        const int64_t at = unit >= units ? unit - units : unit;
        const int32_t sum =
            gb_sums_one(reinterpret_cast<const uint8_t *>(s.from) +
                            at / s.vectors * s.batch_from + at % s.vectors * s.ld,
                        s.deep);

        if (gb_thread() % GB_LANES == 0)
            reinterpret_cast<int32_t *>(s.to)[at] = sum;
    }
}

#endif
