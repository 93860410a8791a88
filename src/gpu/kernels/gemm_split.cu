/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_split: fp32 operands into two parts of fp16, K-major, whatever their layout, address and
 * leading dimension: split_args.h says what they mean. An operand is read once. A warp has a
 * block of k of one vector where the unit stride runs along k; else a block of threads has it of
 * GB_SPLIT_VECTORS neighbours, and turns them in shared memory. */
#include "split.h"

struct SplitShared {
    uint16_t high[GB_SPLIT_VECTORS][GB_SPLIT_K + 2],
        low[GB_SPLIT_VECTORS][GB_SPLIT_K + 2];
    int most[GB_SPLIT_THREADS / GB_LANES][GB_LANES],
        least[GB_SPLIT_THREADS / GB_LANES][GB_LANES];
};

/* What one vector's block tells, by the first lane that has it. */
GB_INLINE void gb_split_note(const gb_split_args &g, int64_t v, int64_t block,
                             gb_span span)
{
    const uint32_t met = gb_span_met(span);

    reinterpret_cast<float *>(g.scales)[block * g.scale_ld + v] = gb_span_unscale(span);
    if (met)
        gb_atomic_or(reinterpret_cast<uint32_t *>(g.met), met);
}

GB_KERNEL_OF(gb_split_args, gb_split_along, GB_SPLIT_THREADS, 1, g)
{
    constexpr int EACH = GB_SPLIT_K / GB_LANES;
    const int64_t blocks = gb_tile_ceil_div(g.deep, GB_SPLIT_K);
    const int lane = gb_thread() % GB_LANES;
    const int64_t step = gb_grid() * (GB_SPLIT_THREADS / GB_LANES);

    for (int64_t unit =
             gb_block() * (GB_SPLIT_THREADS / GB_LANES) + gb_thread() / GB_LANES;
         unit < blocks * g.vectors; unit += step) {
        const int64_t v = unit / blocks, block = unit % blocks;
        const int64_t l = block * GB_SPLIT_K + lane * EACH;
        const float *const from =
            reinterpret_cast<const float *>(g.from) + v * g.of_vector + l;
        const bool vec =
            reinterpret_cast<uintptr_t>(from) % 16 == 0 && l + EACH <= g.deep;
        float x[EACH];
        gb_span span;

        if (vec) {
            const Vec<float, EACH> all = gb_load<float, EACH>(from);

            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[e] = all.at[e];
        } else {
            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[e] = l + e < g.deep ? from[e] : 0;
        }
        gb_span_init(span);
        GB_UNROLL
        for (int e = 0; e < EACH; e++)
            gb_span_add(span, x[e]);
        span.most = gb_warp_most(span.most);
        span.least = -gb_warp_most(-span.least);
        if (l < g.ld) { /* a multiple of what a lane has */
            Vec<uint16_t, EACH> high, low;

            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                gb_split(x[e], span, high.at[e], low.at[e]);
            gb_store(reinterpret_cast<uint16_t *>(g.high) + v * g.ld + l, high);
            gb_store(reinterpret_cast<uint16_t *>(g.low) + v * g.ld + l, low);
        }
        if (lane == 0)
            gb_split_note(g, v, block, span);
    }
}

GB_KERNEL_OF(gb_split_args, gb_split_across, GB_SPLIT_THREADS, 1, g)
{
    constexpr int WARPS = GB_SPLIT_THREADS / GB_LANES, EACH = GB_SPLIT_K / WARPS;
    GB_SHARED(SplitShared, shared);
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    const int64_t groups = gb_tile_ceil_div(g.vectors, GB_SPLIT_VECTORS);
    const int64_t blocks = gb_tile_ceil_div(g.deep, GB_SPLIT_K);

    for (int64_t unit = gb_block(); unit < groups * blocks; unit += gb_grid()) {
        const int64_t first = unit % groups * GB_SPLIT_VECTORS, block = unit / groups;
        const int64_t v = first + lane;
        const float *const from = reinterpret_cast<const float *>(g.from) + v;
        float x[EACH];
        gb_span span;

        gb_span_init(span);
        GB_UNROLL
        for (int e = 0; e < EACH; e++) {
            const int64_t l = block * GB_SPLIT_K + e * WARPS + warp;

            x[e] = v < g.vectors && l < g.deep ? from[l * g.of_k] : 0;
            gb_span_add(span, x[e]);
        }
        shared.most[warp][lane] = span.most;
        shared.least[warp][lane] = span.least;
        gb_sync();
        GB_UNROLL
        for (int w = 0; w < WARPS; w++) {
            span.most =
                shared.most[w][lane] > span.most ? shared.most[w][lane] : span.most;
            span.least =
                shared.least[w][lane] < span.least ? shared.least[w][lane] : span.least;
        }
        GB_UNROLL
        for (int e = 0; e < EACH; e++)
            gb_split(x[e], span, shared.high[lane][e * WARPS + warp],
                     shared.low[lane][e * WARPS + warp]);
        if (warp == 0 && v < g.vectors)
            gb_split_note(g, v, block, span);
        gb_sync();
        for (int i = warp; i < GB_SPLIT_VECTORS && first + i < g.vectors; i += WARPS) {
            GB_UNROLL
            for (int l = lane * 2; l < GB_SPLIT_K; l += 2 * GB_LANES) {
                const int64_t to = (first + i) * g.ld + block * GB_SPLIT_K + l;
                Vec<uint16_t, 2> high = {{shared.high[i][l], shared.high[i][l + 1]}};
                Vec<uint16_t, 2> low = {{shared.low[i][l], shared.low[i][l + 1]}};

                if (block * GB_SPLIT_K + l >= g.ld)
                    continue;
                gb_store(reinterpret_cast<uint16_t *>(g.high) + to, high);
                gb_store(reinterpret_cast<uint16_t *>(g.low) + to, low);
            }
        }
        gb_sync(); /* and the next unit writes there */
    }
}
