/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_emul: fp32 GEMM by three products of fp16 on Hopper's tensor cores (sm_90a). Operands were
 * cut into two parts by gb_split_f32 (split.h), which also made them K-major and aligned, so there
 * is one layout. With high parts h, low parts l and powers of two f of each block of 128 of k:
 *
 *   C(m, n) += f_a(m) f_b(n) sum (h_a l_b + l_a h_b + h_a h_b)
 *
 * What l_a l_b would add is below 2^-22 of the product and is left out (Ootomo and Yokota). The
 * tensor cores align a sum to its largest term and cut it off at 25 bits, always towards 0: that
 * must not add up. So a sum of tensor cores is one of 64 or 128 of k, small products first, and is
 * added to the sum so far by a fused multiply-add in fp32.
 *
 * Orientation, ring of buffers, barriers, registers that change hands and the way to C are those
 * of gemm_wgmma.h. A tile is 64 of n for each of WGS warpgroups by BN of m; a buffer has 64 of k of
 * the four operands. Two warpgroups take turns at the tensor cores, a buffer each: while one adds
 * its sums the other's products run. The warpgroup that does not multiply has a thread that loads
 * and a warp that asks the guard, some tiles ahead.
 *
 * What may be lost, in u = 2^-24 times (|A||B|)(m, n): 12 by parts (three times 2^-22); 76, or 140
 * where a sum is one of 128 of k, by cuts of 25 bits (of each product of 16 of k 17 terms, small ones
 * counted with the high); k / 64 + 1 by promotions. Together with the guard's k / 4 that is less than
 * the k + 2 of fp32 from k = 256 on (GB_EMUL_LEAST_K).
 *
 * The cuts are always towards 0, so that of numbers of one sign some 8 u, with sums of 128 of k 17 u, of
 * the result are lost whatever k is, while the error of a chain of multiply-adds grows with the root of
 * k: those sums are for k >= 2048 (GB_EMUL_LEAST_K_128), where they lose less than it does.
 *
 * The guard. Of an element of the block whose largest is M the parts may miss 2^-39 M more than
 * 2^-22 of itself. A tile of 128 by 128 is computed here where either
 *   - every vector's elements that are not 0 span so little that this is less than 2^-3 k u of each
 *     (u = 2^-24; k u is what fp32 itself may lose), or
 *   - the sum over blocks of 128 (2^-39 M_a M_b + 2^-39 M_b M_a) is at most a quarter of k u times
 *     a bound from below on (|A||B|)(m, n): sums of magnitudes of one operand times the least
 *     magnitude of the other.
 * Else, and where there are infinities, NaNs or magnitudes outside 2^-48 to 2^57, the asker marks
 * the tile and leaves it, C untouched, to gb_rest_f32 (gemm_emul_f32.cu), which is queued behind. Both
 * operands' numbers come from gb_split_f32; the host has no part in it. */
#ifndef GB_GEMM_EMUL_H
#define GB_GEMM_EMUL_H

#include "split.h"
#include "wgmma_epilogue.h"
#include "wgmma_tile.h"

template <int WGS_, int BN_, int STAGES_, int BUFFERS_, int SUM_>
struct EmulTile
    : WgmmaTile<gb_f16, float, WGS_, 1, BN_, STAGES_, BUFFERS_, false, false> {
    typedef WgmmaTile<gb_f16, float, WGS_, 1, BN_, STAGES_, BUFFERS_, false, false>
        Plain;
    static constexpr int X_LOW = Plain::X_BYTES, Y_HIGH = 2 * Plain::X_BYTES;
    static constexpr int Y_LOW = Y_HIGH + Plain::Y_BYTES;
    static constexpr int STAGE_BYTES = 2 * Plain::STAGE_BYTES;
    static constexpr int STEPS =
        SUM_ / Plain::BK; /* buffers of a sum of tensor cores */

    /* Tiles that the guard is asked ahead of those that are computed. */
    static constexpr int AHEAD = 2;

    /* One warp of the warpgroup that does not multiply asks the guard. */
    static constexpr int LOADER_REGISTERS = 72, REGISTERS = 216;

    static_assert(!Plain::TRADE ||
                      LOADER_REGISTERS + Plain::WGS * REGISTERS <=
                          65536 / Plain::THREADS / 8 * 8 * (Plain::WGS + 1),
                  "registers change hands");
    static_assert(SUM_ % Plain::BK == 0 && GB_SPLIT_K % SUM_ == 0,
                  "inside a block of k");
};

template <class Tile>
struct EmulShared : WgmmaShared<Tile> {
    WgmmaWork asked[Tile::AHEAD];
    uint64_t told[Tile::AHEAD], taken[Tile::AHEAD];
    uint64_t turn[Tile::WGS];
};

/* ---- the guard ---- */

/* What is known of the vectors of one side of the tile in one block of k. Loads are of groups that
 * exist, all of them at once: of one twice is as good as of none. */
GB_INLINE gb_guard gb_emul_guard(const gb_guard *of, const gb_split &x, int first,
                                 int64_t block)
{
    constexpr int GROUPS = GB_SPLIT_TILE / GB_SPLIT_GROUP;
    const int64_t group = first / GB_SPLIT_TILE * GROUPS;
    Vec<float, 4> v[GROUPS];
    gb_guard all;

    GB_UNROLL
    for (int i = 0; i < GROUPS; i++)
        v[i] = gb_load<float, 4>(
            &of[gb_tile_min(group + i, x.groups - 1) * x.blocks + block].most);
    gb_guard_init(all);
    GB_UNROLL
    for (int i = 0; i < GROUPS; i++)
        gb_guard_join(all, {v[i].at[0], v[i].at[1], v[i].at[2], v[i].at[3]});
    return all;
}

/* By a warp: may the tile be computed from parts? */
GB_INLINE bool gb_emul_safe(const gb_emul_args &e, int m, int n, int batch)
{
    const gb_split &a = e.x[0], &b = e.x[1];
    const int64_t za = a.batch > 1 ? batch : 0, zb = b.batch > 1 ? batch : 0;
    const gb_guard *const of_a =
        reinterpret_cast<const gb_guard *>(a.guard) + za * a.groups * a.blocks;
    const gb_guard *const of_b =
        reinterpret_cast<const gb_guard *>(b.guard) + zb * b.groups * b.blocks;
    const float deep = (float)e.t.g.k;
    float missed = 0, least = 0;
    uint32_t span = 0;

    GB_NO_UNROLL
    for (int64_t block = gb_thread() % GB_LANES; block < a.blocks; block += GB_LANES) {
        const gb_guard x = gb_emul_guard(of_a, a, m, block);
        const gb_guard y = gb_emul_guard(of_b, b, n, block);
        const float one = x.sum * y.least, other = y.sum * x.least;
        const uint32_t bits = gb_bits(x.span > y.span ? x.span : y.span);

        missed += x.most * y.most;
        least += one > other ? one : other;
        span = bits > span ? bits : span;
    }
    missed = gb_warp_sum(missed);
    least = gb_warp_sum(least);
    span = gb_warp_most(span);
    /* (of infinities the first is infinite or no number) */
    return missed <= 0x1p126f &&
           (gb_float(span) <= deep * 0x1p12f || missed <= deep * 32 * least);
}

/* The next tile that this block computes, from `unit` on, by a warp: work.steps is less than 0 when
 * there is none. */
template <class Tile>
GB_INLINE void gb_emul_work(const gb_emul_args &e, uint32_t &unit, WgmmaWork &work)
{
    const gb_tma_args &p = e.t;

    work.steps = -1;
    GB_NO_UNROLL
    for (; unit < p.map.units; unit += (uint32_t)gb_grid()) {
        gb_tile tile;
        bool safe;

        gb_tile_map32_at(&p.map, unit, &tile);
        work.m = (int)tile.i * Tile::BN;
        work.n = (int)tile.j * Tile::BM;
        work.batch = (int)tile.batch;
        work.split = work.k = work.carry = 0;
        safe = gb_emul_safe(e, work.m, work.n, work.batch) || p.g.alpha[0] == 0;
        if (gb_thread() % GB_LANES == 0) {
            const int64_t i = work.m / GB_SPLIT_TILE, j = work.n / GB_SPLIT_TILE;

            reinterpret_cast<uint8_t *>(
                e.left.flags)[(work.batch * e.left.tiles_n + j) * e.left.tiles_m + i] =
                !safe;
            if (!safe)
                *reinterpret_cast<uint32_t *>(e.left.any) = 1;
        }
        if (!safe)
            continue;
        /* alpha 0: the sum counts for nothing, not even as a NaN */
        work.steps =
            p.g.alpha[0] == 0 ? 0 : (int)gb_tile_ceil_div(p.g.k, (int64_t)Tile::BK);
        break;
    }
    unit += (uint32_t)gb_grid();
}

/* One warp's life: what the guard says takes a while, so it is asked ahead of the loader. */
template <class Tile>
GB_INLINE void gb_emul_asker(const gb_emul_args &e, EmulShared<Tile> &shared)
{
    WgmmaRing<Tile::AHEAD> ring(1);
    uint32_t unit = (uint32_t)gb_block();
    WgmmaWork work;

    GB_NO_UNROLL
    do {
        gb_emul_work<Tile>(e, unit, work);
        if (gb_thread() % GB_LANES == 0) {
            gb_bar_wait(gb_smem(&shared.taken[ring.at]), ring.parity);
            shared.asked[ring.at] = work;
            gb_bar_arrive(gb_smem(&shared.told[ring.at]));
        }
        gb_sync_warp();
        ring.next();
    } while (work.steps >= 0);
}

/* ---- loading ---- */

/* One thread's life. */
template <class Tile>
GB_INLINE void gb_emul_loader(const gb_emul_args &e, EmulShared<Tile> &shared)
{
    const gb_tma_args &p = e.t;
    WgmmaRing<Tile::STAGES> ring(1);
    WgmmaRing<Tile::AHEAD> asked(0);

    GB_NO_UNROLL
    for (;; asked.next()) {
        WgmmaWork work;
        int za, zb;

        gb_bar_wait(gb_smem(&shared.told[asked.at]), asked.parity);
        work = shared.asked[asked.at];
        gb_bar_arrive(gb_smem(&shared.taken[asked.at]));
        za = e.x[0].batch > 1 ? work.batch : 0;
        zb = e.x[1].batch > 1 ? work.batch : 0;
        gb_bar_wait(gb_smem(&shared.empty[ring.at]), ring.parity);
        shared.work[ring.at] = work;
        if (work.steps <= 0) {
            gb_bar_arrive(gb_smem(&shared.full[ring.at]));
            ring.next();
        }
        if (work.steps < 0)
            break;
        GB_NO_UNROLL
        for (int step = 0; step < work.steps; step++) {
            const uint32_t to = gb_smem(shared.stage[ring.at]);
            const uint32_t bar = gb_smem(&shared.full[ring.at]);
            const int k = step * Tile::BK;

            if (step > 0)
                gb_bar_wait(gb_smem(&shared.empty[ring.at]), ring.parity);
            gb_bar_expect(bar, Tile::STAGE_BYTES);
            gb_tma_load(to, &p.b, bar, k, work.n, zb, p.hint_b);
            gb_tma_load(to + Tile::X_LOW, &e.b_low, bar, k, work.n, zb, p.hint_b);
            gb_tma_load(to + Tile::Y_HIGH, &p.a, bar, k, work.m, za, p.hint_a);
            gb_tma_load(to + Tile::Y_LOW, &e.a_low, bar, k, work.m, za, p.hint_a);
            ring.next();
        }
    }
}

/* ---- products ---- */

/* The products of one buffer; `add`: to the sum of the buffer before. */
template <class Tile>
GB_INLINE void gb_emul_step(uint32_t stage, int wg, bool add,
                            float (&sum)[Tile::BN / 2])
{
    typedef GbWgmma<Tile::BN, gb_f16, false, false> Wgmma;
    const uint32_t rows = stage + wg * GB_ATOM_BYTES;
    const uint64_t x_high = gb_descriptor<false>(rows);
    const uint64_t x_low = gb_descriptor<false>(rows + Tile::X_LOW);
    const uint64_t y_high = gb_descriptor<false>(stage + Tile::Y_HIGH);
    const uint64_t y_low = gb_descriptor<false>(stage + Tile::Y_LOW);

    gb_wgmma_fence();
    GB_UNROLL
    for (int k = 0; k < Tile::BK / 16; k++) {
        const uint64_t at = k * gb_descriptor_step<false>;

        Wgmma::mma(sum, x_high + at, y_low + at, add || k > 0);
        Wgmma::mma(sum, x_low + at, y_high + at, true);
    }
    GB_UNROLL
    for (int k = 0; k < Tile::BK / 16; k++) {
        const uint64_t at = k * gb_descriptor_step<false>;

        Wgmma::mma(sum, x_high + at, y_high + at, true);
    }
    gb_wgmma_commit();
}

/* A thread's powers of two in one block of k. */
template <class Tile>
struct EmulScales {
    Vec<float, 2> f_a[Tile::BN / 8];
    float f_b[2];

    /* Asked for while products are under way, of a block that begins or not. */
    GB_DEVICE void read(const gb_emul_args &e, const WgmmaWork &work, int64_t block,
                        int wg)
    {
        const gb_split &a = e.x[0], &b = e.x[1];
        const int64_t za = a.batch > 1 ? work.batch : 0,
                      zb = b.batch > 1 ? work.batch : 0;
        const int lane = gb_thread() % 32, warp = gb_thread() / 32 % 4;
        const float *const of_a = reinterpret_cast<const float *>(a.scales) +
                                  (za * a.blocks + block) * a.scale_ld + work.m +
                                  gb_wgmma_pair_m(lane, 0);
        const float *const of_b = reinterpret_cast<const float *>(b.scales) +
                                  (zb * b.blocks + block) * b.scale_ld + work.n +
                                  wg * 64 + warp * 16 + gb_wgmma_pair_n(lane, 0);

        f_b[0] = of_b[0];
        f_b[1] = of_b[8];
        GB_UNROLL
        for (int q = 0; q < Tile::BN / 8; q++)
            f_a[q] = gb_load<float, 2>(of_a + q * 8);
    }

    /* sums += f_a f_b sum */
    GB_DEVICE void add(const float (&sum)[Tile::BN / 2],
                       float (&sums)[Tile::BN / 2]) const
    {
        GB_UNROLL
        for (int q = 0; q < Tile::BN / 2; q++)
            sums[q] =
                gb_fma_f32(sum[q], f_a[q / 4].at[q % 2] * f_b[q / 2 % 2], sums[q]);
    }
};

template <class Tile>
GB_INLINE void gb_emul_release(EmulShared<Tile> &shared, int stage)
{
    if (gb_thread() % 128 == 0)
        gb_bar_arrive(gb_smem(&shared.empty[stage]));
}

/* It is the other's turn. Every warp says so, or one could sleep through two turns. */
template <class Tile>
GB_INLINE void gb_emul_turn(EmulShared<Tile> &shared, int wg)
{
    if (Tile::WGS == 1)
        return;
    gb_sync_warp();
    if (gb_thread() % GB_LANES == 0)
        gb_bar_arrive(gb_smem(&shared.turn[Tile::WGS - 1 - wg]));
}

template <class Tile>
GB_INLINE void gb_emul_multiplier(const gb_emul_args &e, EmulShared<Tile> &shared)
{
    const gb_tma_args &p = e.t;
    WgmmaEpilogue<Tile> epilogue(p, shared);
    WgmmaRing<Tile::STAGES> ring(0);
    WgmmaRing<1> turn(gb_thread() / 128 == 0);

    GB_NO_UNROLL
    for (;;) {
        float sums[1][Tile::BN / 2] = {}, sum[Tile::BN / 2];
        const int wg = gb_thread() / 128;
        WgmmaWork work;
        int before = ring.at;

        gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
        work = shared.work[ring.at];
        if (work.steps < 0)
            break;
        epilogue.begin(work);
        if (work.steps == 0) {
            /* no product holds back the release until all have read the work */
            gb_named_sync<128>(2 + wg);
            ring.next();
            gb_emul_release<Tile>(shared, before);
        }
        GB_NO_UNROLL
        for (int at = 0; at < work.steps; at += Tile::STEPS) {
            const int steps = (int)gb_tile_min(work.steps - at, Tile::STEPS);
            EmulScales<Tile> scales;

            GB_NO_UNROLL
            for (int step = 0; step < steps; step++) {
                gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
                /* Two warpgroups take turns, so that one's products run while the other adds
                 * its sums: left alone they go in step, and the tensor cores wait for both. */
                if (Tile::WGS > 1)
                    gb_bar_wait(gb_smem(&shared.turn[wg]), turn.parity);
                gb_emul_step<Tile>(gb_smem(shared.stage[ring.at]), wg, step > 0, sum);
                gb_emul_turn<Tile>(shared, wg);
                turn.next();
                gb_wgmma_wait<1>();
                if (step > 0)
                    gb_emul_release<Tile>(shared, before);
                before = ring.at;
                ring.next();
            }
            scales.read(e, work, at / (GB_SPLIT_K / Tile::BK), wg);
            gb_wgmma_wait<0>();
            gb_emul_release<Tile>(shared, before);
            scales.add(sum, sums[0]);
        }
        if (p.g.flags & GB_G_FUSED)
            epilogue.finish_fused(work, sums);
        else
            epilogue.finish(work, sums);
    }
}

template <class Tile>
GB_INLINE void gb_gemm_emul(const gb_emul_args &e)
{
    EmulShared<Tile> &shared = *reinterpret_cast<EmulShared<Tile> *>(gb_wgmma_memory());
    const int wg = gb_thread() / 128;

    if (gb_thread() == 0) {
        gb_tma_prefetch(&e.t.a);
        gb_tma_prefetch(&e.t.b);
        gb_tma_prefetch(&e.a_low);
        gb_tma_prefetch(&e.b_low);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]), Tile::WGS);
        }
        for (int i = 0; i < Tile::AHEAD; i++) {
            gb_bar_init(gb_smem(&shared.told[i]), 1);
            gb_bar_init(gb_smem(&shared.taken[i]), 1);
        }
        for (int i = 0; i < Tile::WGS; i++)
            gb_bar_init(gb_smem(&shared.turn[i]), 128 / GB_LANES);
        for (int i = 0; i < 4 * Tile::WGS * Tile::BUFFERS; i++)
            gb_bar_init(gb_smem(&shared.arrived[i / Tile::BUFFERS][i % Tile::BUFFERS]),
                        1);
        gb_bar_fence_init();
    }
    gb_sync();
    gb_grid_wait();
    if (wg == Tile::WGS) {
        if (Tile::TRADE)
            gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_emul_loader<Tile>(e, shared);
        else if (gb_thread() / GB_LANES == Tile::WGS * 4 + 1)
            gb_emul_asker<Tile>(e, shared);
    } else {
        if (Tile::TRADE)
            gb_more_registers<Tile::REGISTERS>();
        gb_emul_multiplier<Tile>(e, shared);
    }
}

#define GB_EMUL_ROW(name, wgs, bn, stages, buffers, sum)                               \
    typedef EmulTile<wgs, bn, stages, buffers, sum> name##_tile;                       \
    static_assert(sizeof(EmulShared<name##_tile>) <=                                   \
                      GB_EMUL_SMEM(bn, 64 * (wgs), stages, wgs, buffers),              \
                  "GB_EMUL_SMEM");                                                     \
    GB_KERNEL_OF(gb_emul_args, gb_##name, name##_tile::THREADS, 1, args)               \
    {                                                                                  \
        gb_gemm_emul<name##_tile>(args);                                               \
    }

#endif
