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
    int most, least; /* least: that is not 0; INT32_MAX: there is none */
    int zero;        /* is there a 0? */
    float sum;
};

GB_INLINE void gb_span_init(gb_span &s)
{
    s.most = 0;
    s.least = INT32_MAX;
    s.zero = 0;
    s.sum = 0;
}

GB_INLINE void gb_span_add(gb_span &s, float x)
{
    const int bits = gb_bits(x) & INT32_MAX;

    s.most = bits > s.most ? bits : s.most;
    s.least = bits != 0 && bits < s.least ? bits : s.least;
    s.zero |= bits == 0;
    s.sum += gb_float(bits);
}

GB_INLINE void gb_span_join(gb_span &s, const gb_span &other)
{
    s.most = other.most > s.most ? other.most : s.most;
    s.least = other.least < s.least ? other.least : s.least;
    s.zero |= other.zero;
    s.sum += other.sum;
}

GB_INLINE int gb_span_exponent(const gb_span &s)
{
    return (s.most >> 23) - 127;
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
    mine.least = s.zero ? 0 : gb_float(s.least);
    mine.span = s.most == 0 ? 1 : gb_float(s.most) / gb_float(s.least);
    gb_guard_join(g, mine);
}

struct SplitShared {
    uint16_t high[GB_SPLIT_GROUP][GB_SPLIT_K + 2], low[GB_SPLIT_GROUP][GB_SPLIT_K + 2];
    gb_span span[GB_SPLIT_THREADS / GB_LANES][GB_LANES];
    gb_guard guard[GB_SPLIT_THREADS / GB_LANES];
};

/* Block `block` of k of one group of vectors of batch z. */
struct SplitPart {
    const gb_split &g;
    int64_t z, group, block;

    GB_DEVICE int64_t first() const
    {
        return group * GB_SPLIT_GROUP;
    }
    GB_DEVICE int64_t l() const
    {
        return block * GB_SPLIT_K;
    }
    GB_DEVICE const float *from(int64_t v, int64_t at) const
    {
        return reinterpret_cast<const float *>(g.from) + z * g.batch_from +
               v * g.of_vector + at * g.of_k;
    }
    GB_DEVICE uint16_t *to(uint64_t part, int64_t v, int64_t at) const
    {
        return reinterpret_cast<uint16_t *>(part) + z * g.batch_to + v * g.ld + at;
    }
    GB_DEVICE void scale(int64_t v, const gb_span &span) const
    {
        reinterpret_cast<float *>(g.scales)[(z * g.blocks + block) * g.scale_ld + v] =
            gb_power(-gb_span_shift(span));
    }
    GB_DEVICE void keep(const gb_guard &guard) const
    {
        reinterpret_cast<gb_guard *>(
            g.guard)[(z * g.groups + group) * g.blocks + block] = guard;
    }
};

/* A warp's vectors, every eighth, all of them under way at once. */
GB_INLINE void gb_split_along(const SplitPart &p, gb_guard &guard)
{
    constexpr int EACH = GB_SPLIT_K / GB_LANES, WARPS = GB_SPLIT_THREADS / GB_LANES;
    constexpr int VECTORS = GB_SPLIT_GROUP / WARPS;
    const gb_split &g = p.g;
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    const int64_t l = p.l() + lane * EACH;
    float x[VECTORS][EACH];

    GB_UNROLL
    for (int q = 0; q < VECTORS; q++) {
        const int64_t v = p.first() + warp + q * WARPS;
        const float *const from = p.from(v, l);

        if (v < g.vectors && l + EACH <= g.deep &&
            reinterpret_cast<uintptr_t>(from) % 16 == 0) {
            const Vec<float, EACH> all = gb_load<float, EACH>(from);

            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[q][e] = all.at[e];
        } else {
            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[q][e] = v < g.vectors && l + e < g.deep ? from[e] : 0;
        }
    }
    GB_UNROLL
    for (int q = 0; q < VECTORS; q++) {
        const int64_t v = p.first() + warp + q * WARPS;
        Vec<uint16_t, EACH> high, low;
        gb_span span;

        gb_span_init(span);
        GB_UNROLL
        for (int e = 0; e < EACH; e++)
            if (l + e < g.deep)
                gb_span_add(span, x[q][e]);
        span.most = gb_warp_most(span.most);
        span.least = -gb_warp_most(-span.least);
        span.zero = gb_warp_most(span.zero);
        span.sum = gb_warp_sum(span.sum);
        if (v >= g.vectors)
            continue;
        gb_guard_add(guard, span);
        GB_UNROLL
        for (int e = 0; e < EACH; e++)
            gb_split_parts(x[q][e], gb_power(gb_span_shift(span)), high.at[e],
                           low.at[e]);
        if (l < g.ld) { /* a multiple of what a lane has */
            gb_store(p.to(g.high, v, l), high);
            gb_store(p.to(g.low, v, l), low);
        }
        if (lane == 0)
            p.scale(v, span);
    }
}

/* A lane has a vector, a warp every eighth of k; the guard is whole in the first warp. */
GB_INLINE void gb_split_across(const SplitPart &p, SplitShared &shared, gb_guard &guard)
{
    constexpr int WARPS = GB_SPLIT_THREADS / GB_LANES, EACH = GB_SPLIT_K / WARPS;
    const gb_split &g = p.g;
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    const int64_t v = p.first() + lane;
    float x[EACH];
    gb_span span;

    static_assert((int)GB_SPLIT_GROUP == (int)GB_LANES, "a lane has a vector");
    GB_UNROLL
    for (int e = 0; e < EACH; e++) {
        const int64_t l = p.l() + e * WARPS + warp;

        x[e] = v < g.vectors && l < g.deep ? *p.from(v, l) : 0;
    }
    gb_span_init(span);
    GB_UNROLL
    for (int e = 0; e < EACH; e++)
        if (p.l() + e * WARPS + warp < g.deep)
            gb_span_add(span, x[e]);
    shared.span[warp][lane] = span;
    gb_sync();
    gb_span_init(span);
    GB_UNROLL
    for (int w = 0; w < WARPS; w++)
        gb_span_join(span, shared.span[w][lane]);
    GB_UNROLL
    for (int e = 0; e < EACH; e++)
        gb_split_parts(x[e], gb_power(gb_span_shift(span)),
                       shared.high[lane][e * WARPS + warp],
                       shared.low[lane][e * WARPS + warp]);
    if (v < g.vectors) {
        gb_guard_add(guard, span);
        if (warp == 0)
            p.scale(v, span);
    }
    gb_sync();
    for (int i = warp; i < GB_SPLIT_GROUP && p.first() + i < g.vectors; i += WARPS) {
        GB_UNROLL
        for (int l = lane * 2; l < GB_SPLIT_K; l += 2 * GB_LANES) {
            const Vec<uint16_t, 2> high = {{shared.high[i][l], shared.high[i][l + 1]}};
            const Vec<uint16_t, 2> low = {{shared.low[i][l], shared.low[i][l + 1]}};

            if (p.l() + l >= g.ld)
                continue;
            gb_store(p.to(g.high, p.first() + i, p.l() + l), high);
            gb_store(p.to(g.low, p.first() + i, p.l() + l), low);
        }
    }
    /* each lane has seen a vector, magnitudes again as bits */
    guard.most = gb_float(gb_warp_most(gb_bits(guard.most)));
    guard.sum = gb_float(-gb_warp_most(-gb_bits(guard.sum)));
    guard.least = gb_float(-gb_warp_most(-gb_bits(guard.least)));
    guard.span = gb_float(gb_warp_most(gb_bits(guard.span)));
}

GB_INLINE void gb_split_one(const SplitPart &p, SplitShared &shared)
{
    constexpr int WARPS = GB_SPLIT_THREADS / GB_LANES;
    gb_guard guard;

    gb_guard_init(guard);
    if (p.g.of_k == 1)
        gb_split_along(p, guard);
    else
        gb_split_across(p, shared, guard);
    if (gb_thread() % GB_LANES == 0)
        shared.guard[gb_thread() / GB_LANES] = guard;
    gb_sync();
    if (gb_thread() == 0) {
        for (int w = 1; w < WARPS; w++)
            gb_guard_join(guard, shared.guard[w]);
        p.keep(guard);
    }
    gb_sync();
}

GB_KERNEL_OF(gb_split_args, gb_split_f32, GB_SPLIT_THREADS, 2, args)
{
    GB_SHARED(SplitShared, shared);
    const int64_t units = args.x[0].batch * args.x[0].groups * args.x[0].blocks;
    const int64_t all = units + args.x[1].batch * args.x[1].groups * args.x[1].blocks;

    gb_grid_wait(); /* what it writes to may still be read */
    if (gb_block() == 0 && gb_thread() == 0)
        *reinterpret_cast<uint32_t *>(args.any) = 0;
    for (int64_t unit = gb_block(); unit < all; unit += gb_grid()) {
        const gb_split &g = args.x[unit >= units];
        const int64_t at = unit >= units ? unit - units : unit;

        gb_split_one(
            {g, at / (g.groups * g.blocks), at / g.blocks % g.groups, at % g.blocks},
            shared);
    }
}

#endif
