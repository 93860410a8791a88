/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_emul_f64: the products of residues (residue_args.h) on Hopper's tensor cores for bytes
 * (sm_90a). Orientation, ring of buffers, barriers and registers that change hands are those of
 * gemm_wgmma.h; a buffer has 128 of k. Both operands are K-major and aligned. The moduli are
 * batches, one after the other, so that the panels of one stay in L2; those that nobody wants are
 * not computed, and of a tile whose parts are all left there is none.
 *
 * int32_t never leave the registers: a thread reduces its sums modulo p, and stores its bytes of a
 * column side by side, which is where gb_join looks for them. */
#ifndef GB_GEMM_RESIDUE_H
#define GB_GEMM_RESIDUE_H

#include "residue.h"
#include "wgmma_tile.h"

template <int BN_, int STAGES_>
struct ResidueTile : WgmmaTile<gb_f16, float, 2, 1, BN_, STAGES_, 1, false, false> {
    enum { DEEP = 128 };
};

template <class Tile>
struct ResidueRing {
    unsigned char stage[Tile::STAGES][Tile::STAGE_BYTES];
    uint64_t full[Tile::STAGES], empty[Tile::STAGES];
    WgmmaWork work[Tile::STAGES];
};

/* Is anything of the tile wanted? */
template <class Tile>
GB_INLINE bool gb_residue_wanted(const gb_residue_args &e, const WgmmaWork &work, int z)
{
    const gb_left &left = e.left;
    const int64_t i = work.m / GB_SPLIT_TILE, j = (e.first + work.n) / GB_SPLIT_TILE;
    const uint8_t *const flags = reinterpret_cast<const uint8_t *>(left.flags) +
                                 (z * left.tiles_n + j) * left.tiles_m;
    bool wanted = false;

    static_assert((int)Tile::BM == (int)GB_SPLIT_TILE,
                  "one column of the guard's tiles");
    GB_UNROLL
    for (int q = 0; q < Tile::BN / GB_SPLIT_TILE; q++)
        wanted |= i + q < left.tiles_m && !flags[i + q];
    return wanted;
}

template <class Tile>
GB_INLINE void gb_residue_loader(const gb_residue_args &e, ResidueRing<Tile> &shared)
{
    const gb_tma_args &p = e.t;
    const uint32_t units =
        p.map.units / GB_MODULI_MOST * (uint32_t)gb_moduli(e.left.any);
    const int batch = (int)e.c.batch;
    WgmmaRing<Tile::STAGES> ring(1);

    GB_NO_UNROLL
    for (uint32_t unit = (uint32_t)gb_block();; unit += (uint32_t)gb_grid()) {
        WgmmaWork work = {};
        gb_tile tile;
        int modulus, z;

        work.steps = -1;
        if (unit >= units) {
            gb_bar_wait(gb_smem(&shared.empty[ring.at]), ring.parity);
            shared.work[ring.at] = work;
            gb_bar_arrive(gb_smem(&shared.full[ring.at]));
            break;
        }
        gb_tile_map32_at(&p.map, unit, &tile);
        modulus = (int)tile.batch / batch;
        z = (int)tile.batch - modulus * batch;
        work.m = (int)tile.i * Tile::BN;
        work.n = (int)tile.j * Tile::BM;
        work.batch = (int)tile.batch;
        work.steps = (int)gb_tile_ceil_div(p.g.k, Tile::DEEP);
        if (!gb_residue_wanted<Tile>(e, work, z))
            continue;
        GB_NO_UNROLL
        for (int step = 0; step < work.steps; step++) {
            const uint32_t to = gb_smem(shared.stage[ring.at]);
            const uint32_t bar = gb_smem(&shared.full[ring.at]);

            gb_bar_wait(gb_smem(&shared.empty[ring.at]), ring.parity);
            if (step == 0)
                shared.work[ring.at] = work;
            gb_bar_expect(bar, Tile::STAGE_BYTES);
            gb_tma_load(to, &p.b, bar, step * (Tile::DEEP / 2), work.n,
                        modulus * e.batch_b + (e.batch_b > 1 ? z : 0), p.hint_b);
            gb_tma_load(to + Tile::X_BYTES, &p.a, bar, step * (Tile::DEEP / 2), work.m,
                        modulus * e.batch_a + (e.batch_a > 1 ? z : 0), p.hint_a);
            ring.next();
        }
    }
}

/* A thread's sums modulo p, and where gb_join looks for them. */
template <class Tile>
GB_INLINE void gb_residue_store(const gb_residue_args &e, const WgmmaWork &work,
                                const int32_t (&sum)[Tile::BN / 2])
{
    constexpr int EACH = Tile::BN / 4; /* of a column */
    const int lane = gb_thread() % 32, warp = gb_thread() / 32 % 4;
    const gb_modulus by = e.modulus[work.batch / (int)e.c.batch];
    const int n = work.n + gb_thread() / 128 * 64 + warp * 16 + lane / 4;
    int8_t *const to = reinterpret_cast<int8_t *>(e.c.at) + work.batch * e.c.plane +
                       n * e.c.ld + work.m + lane % 4 * EACH;

    GB_UNROLL
    for (int half = 0; half < 2; half++) {
        if (n + 8 * half >= e.t.g.n)
            continue;
        GB_UNROLL
        for (int at = 0; at < EACH; at += 16) {
            Vec<int8_t, 16> r;

            GB_UNROLL
            for (int i = 0; i < 16; i++)
                r.at[i] = (int8_t)gb_residue_of(
                    sum[(at + i) / 2 * 4 + 2 * half + i % 2], &by);
            gb_store_whole(to + 8 * half * e.c.ld + at, r);
        }
    }
}

template <class Tile>
GB_INLINE void gb_residue_multiplier(const gb_residue_args &e,
                                     ResidueRing<Tile> &shared)
{
    typedef GbWgmmaBytes<Tile::BN, int8_t, int8_t> Wgmma;
    const int wg = gb_thread() / 128;
    WgmmaRing<Tile::STAGES> ring(0);

    GB_NO_UNROLL
    for (;;) {
        int32_t sum[Tile::BN / 2];
        WgmmaWork work;
        int before = 0;

        gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
        work = shared.work[ring.at];
        if (work.steps < 0)
            break;
        GB_NO_UNROLL
        for (int step = 0; step < work.steps; step++) {
            const uint32_t stage = gb_smem(shared.stage[ring.at]);
            const uint64_t x = gb_descriptor<false>(stage + wg * GB_ATOM_BYTES);
            const uint64_t y = gb_descriptor<false>(stage + Tile::X_BYTES);

            gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
            gb_wgmma_fence();
            GB_UNROLL
            for (int k = 0; k < Tile::DEEP / 32; k++)
                Wgmma::mma(sum, x + k * gb_descriptor_step<false>,
                           y + k * gb_descriptor_step<false>, step > 0 || k > 0);
            gb_wgmma_commit();
            /* the products of the buffer before are done */
            gb_wgmma_wait<1>();
            if (step > 0 && gb_thread() % 128 == 0)
                gb_bar_arrive(gb_smem(&shared.empty[before]));
            before = ring.at;
            ring.next();
        }
        gb_wgmma_wait<0>();
        if (gb_thread() % 128 == 0)
            gb_bar_arrive(gb_smem(&shared.empty[before]));
        gb_residue_store<Tile>(e, work, sum);
    }
}

template <class Tile>
GB_INLINE void gb_gemm_residue(const gb_residue_args &e)
{
    ResidueRing<Tile> &shared =
        *reinterpret_cast<ResidueRing<Tile> *>(gb_wgmma_memory());
    const int wg = gb_thread() / 128;

    if (gb_thread() == 0) {
        gb_tma_prefetch(&e.t.a);
        gb_tma_prefetch(&e.t.b);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]), Tile::WGS);
        }
        gb_bar_fence_init();
    }
    gb_sync();
    gb_grid_wait();
    if (wg == Tile::WGS) {
        gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_residue_loader<Tile>(e, shared);
    } else {
        gb_more_registers<Tile::REGISTERS>();
        gb_residue_multiplier<Tile>(e, shared);
    }
}

#define GB_RESIDUE_ROW(name, bn, stages)                                               \
    typedef ResidueTile<bn, stages> name##_tile;                                       \
    static_assert(sizeof(ResidueRing<name##_tile>) <=                                  \
                      GB_RESIDUE_SMEM(bn, name##_tile::BM, stages),                    \
                  "GB_RESIDUE_SMEM");                                                  \
    GB_KERNEL_OF(gb_residue_args, gb_##name, name##_tile::THREADS, 1, args)            \
    {                                                                                  \
        gb_gemm_residue<name##_tile>(args);                                            \
    }

#endif
