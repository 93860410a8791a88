/* SPDX-License-Identifier: BSD-3-Clause */
/* gb_split: fp32 operands into two parts of fp16, K-major, whatever their layout, address and
 * leading dimension, and what a guard must know of them: split_args.h says what they mean. An
 * operand is read once. A block of threads has GB_SPLIT_K of k of GB_SPLIT_GROUP vectors: a warp
 * has some of them where the unit stride runs along k; else they are turned in shared memory. */
#ifndef GB_SPLIT_H
#define GB_SPLIT_H

#include "seam.h"
#include "split_args.h"
#include "warp.h"

/* Of a block's elements, magnitudes as the bits of floats, which are ordered like these (a NaN
 * comes after the infinity). */
struct gb_span {
    uint32_t most, least;
    uint32_t lower; /* 1 less than the least that is not 0; UINT32_MAX: there is none */
    float sum;
};

GB_INLINE uint32_t gb_span_greater(uint32_t x, uint32_t y)
{
    return x > y ? x : y;
}

GB_INLINE uint32_t gb_span_less(uint32_t x, uint32_t y)
{
    return x < y ? x : y;
}

GB_INLINE void gb_span_init(gb_span &s)
{
    s.most = 0;
    s.least = s.lower = UINT32_MAX;
    s.sum = 0;
}

GB_INLINE void gb_span_add(gb_span &s, float x)
{
    const uint32_t bits = gb_bits(x) & INT32_MAX;

    s.most = gb_span_greater(s.most, bits);
    s.least = gb_span_less(s.least, bits);
    s.lower = gb_span_less(s.lower, bits - 1);
    s.sum += gb_float(bits);
}

GB_INLINE void gb_span_join(gb_span &s, const gb_span &other)
{
    s.most = gb_span_greater(s.most, other.most);
    s.least = gb_span_less(s.least, other.least);
    s.lower = gb_span_less(s.lower, other.lower);
    s.sum += other.sum;
}

GB_INLINE int gb_span_exponent(const gb_span &s)
{
    return (int)(s.most >> 23) - 127;
}

/* Can it have a scale? (A denormal is far below.) */
GB_INLINE bool gb_span_ordinary(const gb_span &s)
{
    return gb_span_exponent(s) >= GB_SPLIT_LEAST &&
           gb_span_exponent(s) <= GB_SPLIT_MOST;
}

/* The exponent of the power of two that brings the largest element to [2^14, 2^15). */
GB_INLINE int gb_span_shift(const gb_span &s)
{
    return gb_span_ordinary(s) ? 14 - gb_span_exponent(s) : 0;
}

/* Exact but for the last rounding. */
GB_INLINE void gb_split_parts(float x, float scale, uint16_t &high, uint16_t &low)
{
    const float scaled = x * scale;
    gb_f16 h, l;

    gb_from_f32(scaled, h);
    gb_from_f32(scaled - gb_to_f32(h), l);
    high = h.bits;
    low = l.bits;
}

GB_INLINE void gb_guard_init(gb_guard &g)
{
    g.most = 0;
    g.sum = g.least = gb_float(0x7f800000);
    g.span = 1;
}

GB_INLINE void gb_guard_join(gb_guard &g, const gb_guard &other)
{
    g.most = other.most > g.most ? other.most : g.most;
    g.sum = other.sum < g.sum ? other.sum : g.sum;
    g.least = other.least < g.least ? other.least : g.least;
    g.span = other.span > g.span ? other.span : g.span;
}

/* One more vector. */
GB_INLINE void gb_guard_add(gb_guard &g, const gb_span &s)
{
    gb_guard mine;

    mine.most =
        s.most == 0 || gb_span_ordinary(s) ? gb_float(s.most) : gb_float(0x7f800000);
    mine.sum = s.sum;
    mine.least = gb_float(s.least);
    mine.span = s.most == 0 ? 1 : gb_float(s.most) / gb_float(s.lower + 1);
    gb_guard_join(g, mine);
}

enum {
    SPLIT_WARPS = GB_SPLIT_THREADS / GB_LANES,
    SPLIT_WORDS = GB_SPLIT_K / 2 /* of two parts */
};

struct SplitShared {
    uint32_t high[GB_SPLIT_GROUP][SPLIT_WORDS + 1],
        low[GB_SPLIT_GROUP][SPLIT_WORDS + 1];
    gb_span span[SPLIT_WARPS][GB_LANES];
    gb_guard guard[SPLIT_WARPS];
};

/* A block of k of one group of vectors, and where what is made of it goes. Inside it an int counts. */
struct SplitPart {
    const float *from; /* its first element */
    int64_t of_vector, of_k;
    uint16_t *high, *low;
    int64_t ld;
    float *scales;
    gb_guard *guard;
    int vectors, deep, room; /* that exist; of k that are written */

    GB_DEVICE SplitPart(const gb_split &g, uint32_t at)
        : of_vector(g.of_vector), of_k(g.of_k), ld(g.ld)
    {
        const uint32_t blocks = (uint32_t)g.blocks, groups = (uint32_t)g.groups;
        const uint32_t block = at % blocks, group = at / blocks % groups;
        const int64_t z = at / blocks / groups;
        const int64_t v = (int64_t)group * GB_SPLIT_GROUP;
        const int64_t l = (int64_t)block * GB_SPLIT_K;
        const int64_t to = z * g.batch_to + v * ld + l;

        from = reinterpret_cast<const float *>(g.from) + z * g.batch_from +
               v * of_vector + l * of_k;
        high = reinterpret_cast<uint16_t *>(g.high) + to;
        low = reinterpret_cast<uint16_t *>(g.low) + to;
        scales = reinterpret_cast<float *>(g.scales) +
                 (z * g.blocks + block) * g.scale_ld + v;
        guard = reinterpret_cast<gb_guard *>(g.guard) + at;
        vectors = (int)gb_tile_min(g.vectors - v, GB_SPLIT_GROUP);
        deep = (int)gb_tile_min(g.deep - l, GB_SPLIT_K);
        room = (int)gb_tile_min(ld - l, GB_SPLIT_K);
    }
};

/* A warp's vectors, every eighth, all of them under way at once. */
GB_INLINE void gb_split_along(const SplitPart &p, gb_guard &guard)
{
    constexpr int EACH = GB_SPLIT_K / GB_LANES, VECTORS = GB_SPLIT_GROUP / SPLIT_WARPS;
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    const int l = lane * EACH, mine = p.deep - l;
    float x[VECTORS][EACH];

    GB_UNROLL
    for (int q = 0; q < VECTORS; q++) {
        const int v = warp + q * SPLIT_WARPS;
        const float *const from = p.from + v * p.of_vector + l;

        if (v < p.vectors && mine >= EACH &&
            reinterpret_cast<uintptr_t>(from) % 16 == 0) {
            const Vec<float, EACH> all = gb_load<float, EACH>(from);

            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[q][e] = all.at[e];
        } else {
            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[q][e] = v < p.vectors && e < mine ? from[e] : 0;
        }
    }
    GB_UNROLL
    for (int q = 0; q < VECTORS; q++) {
        const int v = warp + q * SPLIT_WARPS;
        Vec<uint16_t, EACH> high, low;
        gb_span span;
        float scale;

        gb_span_init(span);
        GB_UNROLL
        for (int e = 0; e < EACH; e++)
            if (e < mine)
                gb_span_add(span, x[q][e]);
        span.most = gb_warp_most(span.most);
        span.least = gb_warp_least(span.least);
        span.lower = gb_warp_least(span.lower);
        span.sum = gb_warp_sum(span.sum);
        if (v >= p.vectors)
            continue;
        gb_guard_add(guard, span);
        scale = gb_power(gb_span_shift(span));
        GB_UNROLL
        for (int e = 0; e < EACH; e++)
            gb_split_parts(x[q][e], scale, high.at[e], low.at[e]);
        if (l < p.room) { /* a multiple of what a lane has */
            gb_store(p.high + v * p.ld + l, high);
            gb_store(p.low + v * p.ld + l, low);
        }
        if (lane == 0)
            p.scales[v] = gb_power(-gb_span_shift(span));
    }
}

/* A lane has a vector, a warp every eighth two of k; the guard is whole in the first warp. */
GB_INLINE void gb_split_across(const SplitPart &p, SplitShared &shared, gb_guard &guard)
{
    constexpr int EACH = SPLIT_WORDS / SPLIT_WARPS;
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    const float *const from = p.from + lane * p.of_vector + 2 * warp * p.of_k;
    const int64_t step = 2 * SPLIT_WARPS * p.of_k;
    const int mine = p.deep - 2 * warp;
    float x[EACH][2], scale;
    gb_span span;

    static_assert((int)GB_SPLIT_GROUP == (int)GB_LANES, "a lane has a vector");
    GB_UNROLL
    for (int e = 0; e < EACH; e++) {
        GB_UNROLL
        for (int i = 0; i < 2; i++)
            x[e][i] = lane < p.vectors && e * 2 * SPLIT_WARPS + i < mine
                          ? from[e * step + i * p.of_k]
                          : 0;
    }
    gb_span_init(span);
    GB_UNROLL
    for (int e = 0; e < EACH; e++) {
        GB_UNROLL
        for (int i = 0; i < 2; i++)
            if (e * 2 * SPLIT_WARPS + i < mine)
                gb_span_add(span, x[e][i]);
    }
    shared.span[warp][lane] = span;
    gb_sync();
    gb_span_init(span);
    GB_UNROLL
    for (int w = 0; w < SPLIT_WARPS; w++)
        gb_span_join(span, shared.span[w][lane]);
    scale = gb_power(gb_span_shift(span));
    GB_UNROLL
    for (int e = 0; e < EACH; e++) {
        uint16_t high[2], low[2];

        GB_UNROLL
        for (int i = 0; i < 2; i++)
            gb_split_parts(x[e][i], scale, high[i], low[i]);
        shared.high[lane][e * SPLIT_WARPS + warp] = high[0] | (uint32_t)high[1] << 16;
        shared.low[lane][e * SPLIT_WARPS + warp] = low[0] | (uint32_t)low[1] << 16;
    }
    gb_sync();
    GB_UNROLL
    for (int q = 0; q < GB_SPLIT_GROUP / SPLIT_WARPS; q++) {
        const int v = warp + q * SPLIT_WARPS;
        uint32_t *const high = reinterpret_cast<uint32_t *>(p.high + v * p.ld);
        uint32_t *const low = reinterpret_cast<uint32_t *>(p.low + v * p.ld);

        GB_UNROLL
        for (int w = lane; w < SPLIT_WORDS; w += GB_LANES)
            if (v < p.vectors && 2 * w < p.room) {
                high[w] = shared.high[v][w];
                low[w] = shared.low[v][w];
            }
    }
    if (warp > 0)
        return;
    if (lane < p.vectors) {
        gb_guard_add(guard, span);
        p.scales[lane] = gb_power(-gb_span_shift(span));
    }
    /* each lane has seen a vector, magnitudes again as bits */
    guard.most = gb_float(gb_warp_most(gb_bits(guard.most)));
    guard.sum = gb_float(gb_warp_least(gb_bits(guard.sum)));
    guard.least = gb_float(gb_warp_least(gb_bits(guard.least)));
    guard.span = gb_float(gb_warp_most(gb_bits(guard.span)));
}

GB_INLINE void gb_split_one(const SplitPart &p, SplitShared &shared)
{
    gb_guard guard;

    gb_guard_init(guard);
    if (p.of_k == 1)
        gb_split_along(p, guard);
    else
        gb_split_across(p, shared, guard);
    if (gb_thread() % GB_LANES == 0)
        shared.guard[gb_thread() / GB_LANES] = guard;
    gb_sync();
    if (gb_thread() == 0) {
        for (int w = 1; w < SPLIT_WARPS; w++)
            gb_guard_join(guard, shared.guard[w]);
        *p.guard = guard;
    }
    gb_sync();
}

GB_KERNEL_OF(gb_split_args, gb_split_f32, GB_SPLIT_THREADS, 4, args)
{
    GB_SHARED(SplitShared, shared);
    const uint32_t units =
        (uint32_t)(args.x[0].batch * args.x[0].groups * args.x[0].blocks);
    const uint32_t all =
        units + (uint32_t)(args.x[1].batch * args.x[1].groups * args.x[1].blocks);

    gb_grid_wait(); /* what it writes to may still be read */
    if (gb_block() == 0 && gb_thread() == 0)
        *reinterpret_cast<uint32_t *>(args.any) = 0;
    for (uint32_t unit = (uint32_t)gb_block(); unit < all; unit += (uint32_t)gb_grid())
        gb_split_one(
            SplitPart(args.x[unit >= units], unit >= units ? unit - units : unit),
            shared);
}

#endif
