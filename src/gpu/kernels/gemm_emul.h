/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_emul: fp32 GEMM by three products of fp16 on Hopper's tensor cores (sm_90a). Operands were
 * cut into two parts by gemm_split, which also made them K-major and aligned, so there is one
 * layout. With high parts h, low parts l and powers of two f of each block of 128 of k:
 *
 *   C(m, n) += f_a(m) f_b(n) ( sum h_a h_b  +  2^-11 (sum h_a l_b + sum l_a h_b) )
 *
 * What l_a l_b would add is below 2^-22 of the largest product and is left out (Ootomo and
 * Yokota). The tensor cores align a sum to its largest term and cut it off at 25 bits, always
 * towards 0; over 128 of k that is less than fp32's own rounding. So each block's sums, of the high
 * products and of the others apart, begin at 0, and are added to the sum so far by fused
 * multiply-adds in fp32.
 *
 * Orientation, ring of buffers, barriers, registers that change hands and the way to C are those
 * of gemm_wgmma.h. A tile is 64 of n for each of WGS warpgroups by BN of m; a buffer has 64 of k of
 * the four operands; three sets of sums leave no registers for more than 64x128 per warpgroup.
 *
 * Nothing is computed where gemm_split met what fp16 cannot hold: what does then has been queued
 * behind this kernel. */
#ifndef GB_GEMM_EMUL_H
#define GB_GEMM_EMUL_H

#include "split_args.h"
#include "wgmma_epilogue.h"
#include "wgmma_tile.h"

template <int WGS_, int BN_, int STAGES_, int BUFFERS_>
struct EmulTile
    : WgmmaTile<gb_f16, float, WGS_, 1, BN_, STAGES_, BUFFERS_, false, false> {
    typedef WgmmaTile<gb_f16, float, WGS_, 1, BN_, STAGES_, BUFFERS_, false, false>
        Plain;
    static constexpr int X_LOW = Plain::X_BYTES, Y_HIGH = 2 * Plain::X_BYTES;
    static constexpr int Y_LOW = Y_HIGH + Plain::Y_BYTES;
    static constexpr int STAGE_BYTES = 2 * Plain::STAGE_BYTES;
    static constexpr int STEPS = GB_SPLIT_K / Plain::BK; /* buffers of a block of k */
    static constexpr int LOADER_REGISTERS = 24, REGISTERS = 240;
};

/* Dynamic shared memory. */
#define GB_EMUL_SMEM(m, n, stages, wgs, buffers)                                       \
    ((stages) * ((m) + (n)) * 256 + (wgs) * (buffers)*8192 + 1024)

template <class Tile>
GB_INLINE void gb_emul_work(const gb_tma_args &p, uint32_t unit, WgmmaWork &work)
{
    const gb_gemm_args &g = p.g;
    gb_split_range range;
    gb_tile tile;

    work.steps = -1;
    if (unit >= p.map.units)
        return;
    gb_tile_map32_at(&p.map, unit, &tile);
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = (int)tile.i * Tile::BN;
    work.n = (int)tile.j * Tile::BM;
    work.batch = (int)tile.batch;
    work.split = g.split0 + (int)tile.split;
    work.k = (int)(range.begin - g.k_begin);
    work.steps = (int)((range.end - range.begin + Tile::BK - 1) / Tile::BK);
    work.carry = range.carry;
    if ((g.flags & GB_G_EPILOGUE) && g.alpha[0] == 0)
        work.steps = 0; /* the sum counts for nothing, not even as a NaN */
}

/* One thread's life. */
template <class Tile>
GB_INLINE void gb_emul_loader(const gb_emul_args &e, WgmmaShared<Tile> &shared)
{
    const gb_tma_args &p = e.t;
    WgmmaRing<Tile::STAGES> ring(1);

    GB_NO_UNROLL
    for (uint32_t unit = (uint32_t)gb_block();; unit += (uint32_t)gb_grid()) {
        WgmmaWork work;

        gb_emul_work<Tile>(p, unit, work);
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
            const int k = work.k + step * Tile::BK;

            if (step > 0)
                gb_bar_wait(gb_smem(&shared.empty[ring.at]), ring.parity);
            gb_bar_expect(bar, Tile::STAGE_BYTES);
            gb_tma_load(to, &p.b, bar, k, work.n, work.batch, p.hint_b);
            gb_tma_load(to + Tile::X_LOW, &e.b_low, bar, k, work.n, work.batch,
                        p.hint_b);
            gb_tma_load(to + Tile::Y_HIGH, &p.a, bar, k, work.m, work.batch, p.hint_a);
            gb_tma_load(to + Tile::Y_LOW, &e.a_low, bar, k, work.m, work.batch,
                        p.hint_a);
            ring.next();
        }
    }
}

/* The products of one buffer; the sums of the first of a block of k begin at 0. */
template <class Tile>
GB_INLINE void gb_emul_step(uint32_t stage, int wg, bool add,
                            float (&main)[Tile::BN / 2], float (&cross)[Tile::BN / 2])
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

        Wgmma::mma(main, x_high + at, y_high + at, add || k > 0);
        Wgmma::mma(cross, x_high + at, y_low + at, add || k > 0);
        Wgmma::mma(cross, x_low + at, y_high + at, true);
    }
    gb_wgmma_commit();
}

/* sums += f_a f_b (main + 2^-11 cross), of block `block` of k. Two factors, one after the other:
 * their product need not be in fp32's range where the result is. */
template <class Tile>
GB_INLINE void gb_emul_promote(const gb_emul_args &e, const WgmmaWork &work,
                               int64_t block, int wg, const float (&main)[Tile::BN / 2],
                               const float (&cross)[Tile::BN / 2],
                               float (&sums)[Tile::BN / 2])
{
    const int lane = gb_thread() % 32, warp = gb_thread() / 32 % 4;
    const float *const of_a = reinterpret_cast<const float *>(e.a_scales) +
                              block * e.a_scale_ld + work.m + gb_wgmma_pair_m(lane, 0);
    const float *const of_b = reinterpret_cast<const float *>(e.b_scales) +
                              block * e.b_scale_ld + work.n + wg * 64 + warp * 16 +
                              gb_wgmma_pair_n(lane, 0);
    const float f_b[2] = {of_b[0], of_b[8]};

    GB_UNROLL
    for (int a = 0; a < Tile::BN / 2; a += 4) {
        const Vec<float, 2> f_a = gb_load<float, 2>(of_a + a / 4 * 8);

        GB_UNROLL
        for (int i = 0; i < 4; i++) {
            const float both = gb_fma_f32(cross[a + i], 0x1p-11f, main[a + i]);

            sums[a + i] = gb_fma_f32(both * f_a.at[i % 2], f_b[i / 2], sums[a + i]);
        }
    }
}

template <class Tile>
GB_INLINE void gb_emul_multiplier(const gb_emul_args &e, WgmmaShared<Tile> &shared)
{
    const gb_tma_args &p = e.t;
    const bool last = p.g.flags & GB_G_EPILOGUE;
    WgmmaEpilogue<Tile> epilogue(p, shared);
    WgmmaRing<Tile::STAGES> ring(0);

    GB_NO_UNROLL
    for (;;) {
        float sums[1][Tile::BN / 2] = {}, main[Tile::BN / 2], cross[Tile::BN / 2];
        const int wg = gb_thread() / 128;
        WgmmaWork work;
        int before;

        gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
        work = shared.work[ring.at];
        if (work.steps < 0)
            break;
        if (work.carry && work.steps > 0)
            gb_wgmma_partial<Tile, true>(p.g, work, wg, sums);
        if (last)
            epilogue.begin(work);
        if (work.steps == 0) {
            before = ring.at;
            /* no product holds back the release until all have read the work */
            gb_named_sync<128>(2 + wg);
            ring.next();
            if (gb_thread() % 128 == 0)
                gb_bar_arrive(gb_smem(&shared.empty[before]));
        }
        GB_NO_UNROLL
        for (int step = 0; step < work.steps; step++) {
            const bool begins = step % Tile::STEPS == 0;

            gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
            gb_emul_step<Tile>(gb_smem(shared.stage[ring.at]), wg, !begins, main,
                               cross);
            gb_wgmma_wait<0>();
            if (gb_thread() % 128 == 0)
                gb_bar_arrive(gb_smem(&shared.empty[ring.at]));
            ring.next();
            if (step % Tile::STEPS == Tile::STEPS - 1 || step + 1 == work.steps)
                gb_emul_promote<Tile>(
                    e, work, (p.g.k_begin + work.k) / GB_SPLIT_K + step / Tile::STEPS,
                    wg, main, cross, sums[0]);
        }
        if (last && (p.g.flags & GB_G_FUSED))
            epilogue.finish_fused(work, sums);
        else if (last)
            epilogue.finish(work, sums);
        else
            gb_wgmma_partial<Tile, false>(p.g, work, wg, sums);
    }
}

template <class Tile>
GB_INLINE void gb_gemm_emul(const gb_emul_args &e)
{
    WgmmaShared<Tile> &shared =
        *reinterpret_cast<WgmmaShared<Tile> *>(gb_wgmma_memory());
    const int wg = gb_thread() / 128;

    gb_grid_wait();
    if (*reinterpret_cast<const uint32_t *>(e.met) != 0)
        return;
    if (gb_thread() == 0) {
        gb_tma_prefetch(&e.t.a);
        gb_tma_prefetch(&e.t.b);
        gb_tma_prefetch(&e.a_low);
        gb_tma_prefetch(&e.b_low);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]), Tile::WGS);
        }
        for (int i = 0; i < 4 * Tile::WGS * Tile::BUFFERS; i++)
            gb_bar_init(gb_smem(&shared.arrived[i / Tile::BUFFERS][i % Tile::BUFFERS]),
                        1);
        gb_bar_fence_init();
    }
    gb_sync();
    if (wg == Tile::WGS) {
        if (Tile::TRADE)
            gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_emul_loader<Tile>(e, shared);
    } else {
        if (Tile::TRADE)
            gb_more_registers<Tile::REGISTERS>();
        gb_emul_multiplier<Tile>(e, shared);
    }
}

#define GB_EMUL_ROW(name, wgs, bn, stages, buffers)                                    \
    typedef EmulTile<wgs, bn, stages, buffers> name##_tile;                            \
    static_assert(sizeof(WgmmaShared<name##_tile>) <=                                  \
                      GB_EMUL_SMEM(bn, 64 * (wgs), stages, wgs, buffers),              \
                  "GB_EMUL_SMEM");                                                     \
    GB_KERNEL_OF(gb_emul_args, gb_##name, name##_tile::THREADS, 1, args)               \
    {                                                                                  \
        gb_gemm_emul<name##_tile>(args);                                               \
    }

#endif
