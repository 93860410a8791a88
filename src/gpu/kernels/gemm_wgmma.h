/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma: 16-bit GEMM for Hopper (sm_90a), and fp32's by tf32. What a launch computes is
 * defined in gemm_args.h; the operands are described by tensor_map.h.
 *
 * Orientation. C is column-major, so its contiguous side must be the inner side of TMA and of
 * the sums: the kernel computes C^T = op(B)^T op(A)^T. X is op(B)^T (n x k), Y is op(A)
 * (m x k); sums have a row for each column of C. All four layouts of the operands are read in
 * place: wgmma takes both majors of 16-bit elements from shared memory. Those of 32 bits it takes
 * K-major alone, so rows of tf32 are one layout, and gb_repack_32 makes it of the others.
 *
 * Tile: BN of m by BM of n and 64 of k (128 bytes, the widest swizzle; of 32-bit elements, 32
 * of k). Accumulators: fp32, in the registers of WGS warpgroups, each of which has MI times 64 columns of C and the whole
 * BN. One more warpgroup moves data: a single thread of it walks the tiles of a persistent
 * grid and fills a ring of STAGES buffers by TMA, far ahead of the products. Full and empty
 * buffers are told by barriers that are waited for by parity. The warpgroups share a ring but
 * no other barrier, so that they drift apart by as much as the ring allows, and one's epilogue
 * runs under another's products. In rows with clusters of two, which are the
 * same code, two blocks take neighbouring tiles along n; each loads half of Y for both.
 *
 * Masks: TMA fills with zeros what lies past a matrix, on every side, so the main loop has
 * none. Stores are masked by vectors of 16 bytes, and inside the last by elements;
 * where columns of C begin inside a vector, by whole lines of memory, which have elements of two
 * parts.
 *
 * Epilogue: alpha and beta are applied in registers after the loop. A warp has 16 columns of C
 * of each 64 and waits for no other; they pass through BUFFERS of 16 columns x 128 bytes,
 * swizzled against bank conflicts, so that whole lines of C are stored. (TMA could store them
 * too, but would have a warp wait until a buffer has been read.) Where C is read, TMA fetches
 * its first parts while the products run. Sums that stay partial go from registers to their
 * workspace; or, of few tiles, through the shared memory of a cluster that has a split each,
 * and from registers to C. With GB_G_FUSED sums pass through the buffers in fp32, as many rows at
 * once as fit, and what is fused is applied on the way to C, a vector of C at a time.
 *
 * A launch may start while what was queued before it still runs: it prepares its barriers, and
 * waits before it touches memory. Tiles that fill no wave may be a launch of their own, whose
 * clusters share out k: gb_launch_tail().
 *
 * The order of the sum over k: tensor cores add 16 products at a time (of tf32, 8) to the
 * fp32 sum, so an element's bits depend on k's blocks of 16 (8) and on the splits of its tile,
 * and not on the tile or the launch. (Of a product with a tail the last tiles have splits: which these are follows from
 * the tile order and the number of multiprocessors.) */
#ifndef GB_GEMM_WGMMA_H
#define GB_GEMM_WGMMA_H

#include "wgmma_epilogue.h"
#include "wgmma_tile.h"

/* Do two blocks, a cluster, take neighbouring tiles and share what both need of A? */
GB_INLINE bool gb_wgmma_in_pairs(const gb_tma_args &p)
{
    return p.wide && !p.apart;
}

/* ---- loading ---- */

template <class Tile>
GB_INLINE void gb_wgmma_work(const gb_tma_args &p, uint32_t unit, int rank,
                             WgmmaWork &work)
{
    const gb_gemm_args &g = p.g;
    gb_split_range range;
    gb_tile tile;

    work.steps = -1;
    if (unit >= p.map.units)
        return;
    gb_tile_map32_at(&p.map, unit >> p.apart, &tile);
    if (p.together > 1)
        tile.split += rank;
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = (int)tile.i * Tile::BN;
    work.n = (int)((tile.j << p.wide) + (p.apart  ? unit & 1
                                         : p.wide ? rank
                                                  : 0)) *
             Tile::BM;
    work.batch = (int)tile.batch;
    work.split = g.split0 + (int)tile.split;
    work.k = (int)(range.begin - g.k_begin);
    work.steps = (int)((range.end - range.begin + Tile::BK - 1) / Tile::BK);
    work.carry = range.carry;
    if ((g.flags & GB_G_EPILOGUE) && g.alpha[0] == 0)
        work.steps = 0; /* the sum counts for nothing, not even as a NaN */
}

template <class Tile>
GB_INLINE void gb_wgmma_load_x(const gb_tma_args &p, uint32_t to, uint32_t bar, int n,
                               int k, int batch)
{
    if constexpr (Tile::X_MN) {
        GB_UNROLL
        for (int i = 0; i < Tile::BM / 64; i++)
            gb_tma_load(to + i * GB_ATOM_BYTES, &p.b, bar, n + 64 * i, k, batch,
                        p.hint_b);
    } else {
        gb_tma_load(to, &p.b, bar, k, n, batch, p.hint_b);
    }
}

/* Each block of two that share Y loads half of it for both. */
template <class Tile>
GB_INLINE void gb_wgmma_load_y(const gb_tma_args &p, uint32_t to, uint32_t bar, int m,
                               int k, int batch, int rank)
{
    constexpr int ROWS = Tile::BN / 2;
    constexpr uint16_t BOTH = 3;

    if constexpr (!Tile::Y_MN) {
        if (!gb_wgmma_in_pairs(p))
            gb_tma_load(to, &p.a, bar, k, m, batch, p.hint_a);
        else
            gb_tma_multicast(to + rank * ROWS * 128, &p.a, bar, k, m + rank * ROWS,
                             batch, p.hint_a, BOTH);
    } else {
        GB_UNROLL
        for (int i = 0; i < Tile::ATOMS; i++) {
            if (!gb_wgmma_in_pairs(p))
                gb_tma_load(to + i * GB_ATOM_BYTES, &p.a, bar, m + 64 * i, k, batch,
                            p.hint_a);
            else if (i % 2 == rank)
                gb_tma_multicast(to + i * GB_ATOM_BYTES, &p.a, bar, m + 64 * i, k,
                                 batch, p.hint_a, BOTH);
        }
    }
}

/* One thread's life. */
template <class Tile>
GB_INLINE void gb_wgmma_loader(const gb_tma_args &p, WgmmaShared<Tile> &shared,
                               int rank)
{
    const uint32_t cluster = gb_wgmma_in_pairs(p) ? 2 : p.together;
    const uint32_t clusters = (uint32_t)gb_grid() / cluster;
    WgmmaRing<Tile::STAGES> ring(1);

    GB_NO_UNROLL
    for (uint32_t unit = p.first + (uint32_t)gb_block() / cluster;; unit += clusters) {
        WgmmaWork work;

        gb_wgmma_work<Tile>(p, unit, rank, work);
        gb_bar_wait(gb_smem(&shared.empty[ring.at]), ring.parity);
        /* whoever reads the work waits for this buffer to be full first */
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
            gb_wgmma_load_x<Tile>(p, to, bar, work.n, k, p.g.b_batch ? work.batch : 0);
            gb_wgmma_load_y<Tile>(p, to + Tile::X_BYTES, bar, work.m, k,
                                  p.g.a_batch ? work.batch : 0, rank);
            ring.next();
        }
    }
}

/* ---- products ---- */

template <class Tile>
GB_INLINE void gb_wgmma_release(const gb_tma_args &p, WgmmaShared<Tile> &shared,
                                int stage)
{
    const int t = gb_thread() % 128;

    if (!gb_wgmma_in_pairs(p) && t == 0)
        gb_bar_arrive(gb_smem(&shared.empty[stage]));
    if (gb_wgmma_in_pairs(p) && t < 2)
        gb_bar_arrive_at(gb_smem(&shared.empty[stage]), (uint32_t)t);
}

/* The products of one buffer. */
template <class Tile>
GB_INLINE void gb_wgmma_step(uint32_t stage, int wg, bool add,
                             float (&d)[Tile::MI][Tile::BN / 2])
{
    typedef GbWgmma<Tile::BN, typename Tile::In, Tile::X_MN, Tile::Y_MN> Wgmma;
    const uint64_t x = gb_descriptor<Tile::X_MN>(stage + wg * Tile::MI * GB_ATOM_BYTES);
    const uint64_t y = gb_descriptor<Tile::Y_MN>(stage + Tile::X_BYTES);

    gb_wgmma_fence();
    GB_UNROLL
    for (int k = 0; k < Tile::BK / gb_wgmma_k<typename Tile::In>; k++) {
        GB_UNROLL
        for (int mi = 0; mi < Tile::MI; mi++)
            Wgmma::mma(d[mi],
                       x + mi * (GB_ATOM_BYTES / 16) +
                           k * gb_descriptor_step<Tile::X_MN>,
                       y + k * gb_descriptor_step<Tile::Y_MN>, add || k > 0);
    }
    gb_wgmma_commit();
}

/* ---- few tiles ---- */

/* Each block of a cluster has the sums of one split of the same tile, and every thread the same
 * places of it. Through the ring, which is empty by now, a block adds its share of all of
 * them, in the order of the splits, and that share goes to C. */
template <class Tile>
GB_INLINE void gb_wgmma_together(const gb_tma_args &p, const WgmmaWork &work, int wg,
                                 WgmmaShared<Tile> &shared,
                                 WgmmaEpilogue<Tile> &epilogue,
                                 const float (&d)[Tile::MI][Tile::BN / 2])
{
    constexpr int QUADS = Tile::MI * Tile::BN / 8, STEP = 128 * 16;
    unsigned char *const mine =
        shared.stage[0] + wg * QUADS * STEP + gb_thread() % 128 * 16;

    static_assert(Tile::WGS * QUADS * STEP <= Tile::STAGES * Tile::STAGE_BYTES, "ring");
    gb_named_sync<128 * Tile::WGS>(1); /* all have read their last buffer */
    GB_UNROLL
    for (int q = 0; q < QUADS; q++) {
        const float *const s = d[q / (Tile::BN / 8)] + q % (Tile::BN / 8) * 4;
        Vec<float, 4> v;

        GB_UNROLL
        for (int e = 0; e < 4; e++)
            v.at[e] = work.steps > 0 ? s[e] : 0;
        gb_store(reinterpret_cast<float *>(mine + q * STEP), v);
    }
    gb_cluster_sync();
    epilogue.alpha = (float)p.g.alpha[0];
    /* as many loads at once as a cluster may have blocks, whatever it has */
    GB_NO_UNROLL
    for (int q = (int)gb_cluster_rank(); q < QUADS; q += GB_SPLITS_TOGETHER) {
        Vec<float, 4> v[GB_SPLITS_TOGETHER];

        GB_UNROLL
        for (int i = 0; i < GB_SPLITS_TOGETHER; i++) {
            const int at = q + (i & -p.together);

            if (at < QUADS)
                gb_load_of(v[i].at, gb_smem(mine + at * STEP), i & (p.together - 1));
        }
        GB_UNROLL
        for (int i = 0; i < GB_SPLITS_TOGETHER; i++) {
            const int at = q + (i & -p.together);

            /* the sum so far goes up; the last of each has it all */
            if (i & (p.together - 1)) {
                GB_UNROLL
                for (int e = 0; e < 4; e++)
                    v[i].at[e] += v[i - (i > 0)].at[e];
            }
            if (((i + 1) & (p.together - 1)) != 0 || at >= QUADS)
                continue;
            if (p.g.flags & GB_G_FUSED) /* of this share nobody else reads */
                gb_store(reinterpret_cast<float *>(mine + at * STEP), v[i]);
            else
                epilogue.put(work, at, v[i]);
        }
    }
    if (p.g.flags & GB_G_FUSED) {
        GB_NO_UNROLL
        for (int q = (int)gb_cluster_rank(); q < QUADS; q += p.together)
            epilogue.put_fused(work, q, reinterpret_cast<float *>(mine + q * STEP));
    }
    gb_cluster_sync(); /* nobody leaves while others read its sums */
}

/* Which of the warpgroups that multiply: read anew, as gb_thread() is. */
GB_INLINE int gb_wgmma_group()
{
    return gb_thread() / 128;
}

template <class Tile>
GB_INLINE void gb_wgmma_multiplier(const gb_tma_args &p, WgmmaShared<Tile> &shared)
{
    const bool together = p.together > 1;
    const bool last = (p.g.flags & GB_G_EPILOGUE) && !together;
    WgmmaEpilogue<Tile> epilogue(p, shared);
    WgmmaRing<Tile::STAGES> ring(0);

    GB_NO_UNROLL
    for (;;) {
        float d[Tile::MI][Tile::BN / 2];
        WgmmaWork work;
        int step = 0, before;

        gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
        work = shared.work[ring.at];
        if (work.steps < 0)
            break;
        before = ring.at;
        if (work.carry && work.steps > 0) {
            /* A step by itself: only registers that no product is writing may be
             * loaded, and the compiler must see that. */
            gb_wgmma_partial<Tile, true>(p.g, work, gb_wgmma_group(), d);
            if (last)
                epilogue.begin(work);
            gb_wgmma_step<Tile>(gb_smem(shared.stage[ring.at]), gb_wgmma_group(), true,
                                d);
            gb_wgmma_wait<0>();
            step = 1;
            ring.next();
        } else if (last) {
            epilogue.begin(work);
        }
        if (work.steps == 0) {
            /* no product holds back the release until all have read the work */
            gb_named_sync<128>(2 + gb_wgmma_group());
            ring.next(); /* and the sums are never looked at */
        }
        GB_NO_UNROLL
        for (; step < work.steps; step++) {
            gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
            gb_wgmma_step<Tile>(gb_smem(shared.stage[ring.at]), gb_wgmma_group(),
                                step > 0, d);
            gb_wgmma_wait<1>();
            if (step > 0)
                gb_wgmma_release(p, shared, before);
            before = ring.at;
            ring.next();
        }
        gb_wgmma_wait<0>();
        gb_wgmma_release(p, shared, before);
        if (together) {
            gb_wgmma_together<Tile>(p, work, gb_wgmma_group(), shared, epilogue, d);
            break;
        }
        if (last && (p.g.flags & GB_G_FUSED))
            epilogue.finish_fused(work, d);
        else if (last)
            epilogue.finish(work, d);
        else
            gb_wgmma_partial<Tile, false>(p.g, work, gb_wgmma_group(), d);
    }
}

template <class Tile>
GB_INLINE void gb_gemm_wgmma(const gb_tma_args &p)
{
    WgmmaShared<Tile> &shared =
        *reinterpret_cast<WgmmaShared<Tile> *>(gb_wgmma_memory());
    const int wg = gb_thread() / 128;
    const int rank = (int)gb_cluster_rank();

    if (gb_thread() == 0) {
        gb_tma_prefetch(&p.a);
        gb_tma_prefetch(&p.b);
        if (!(p.g.flags & (GB_G_BETA_ZERO | GB_G_FUSED)) && !p.c_direct)
            gb_tma_prefetch(&p.c);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]),
                        gb_wgmma_in_pairs(p) ? 2 * Tile::WGS : Tile::WGS);
        }
        for (int i = 0; i < 4 * Tile::WGS * Tile::BUFFERS; i++)
            gb_bar_init(gb_smem(&shared.arrived[i / Tile::BUFFERS][i % Tile::BUFFERS]),
                        1);
        gb_bar_fence_init();
    }
    if (gb_wgmma_in_pairs(p))
        gb_cluster_sync();
    else
        gb_sync();
    if (p.wait == GB_TMA_AT_START) {
        gb_grid_wait();
    } else {
        if (p.wait == GB_TMA_BEFORE_NEXT)
            gb_await_last();
        gb_allow_next();
    }
    if (wg == Tile::WGS) {
        if (Tile::TRADE)
            gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_wgmma_loader<Tile>(p, shared, rank);
        gb_sync_warp();
        if (p.together > 1) {
            gb_cluster_sync(); /* those of gb_wgmma_together() */
            gb_cluster_sync();
        }
    } else {
        if (Tile::TRADE)
            gb_more_registers<Tile::REGISTERS>();
        gb_wgmma_multiplier<Tile>(p, shared);
    }
    /* no block of a cluster ends while another may still write to it */
    if (gb_wgmma_in_pairs(p))
        gb_cluster_sync();
    if (p.wait == GB_TMA_AT_END)
        gb_await_last();
}

#define GB_WGMMA_LAYOUT(symbol, tile)                                                  \
    static_assert(sizeof(WgmmaShared<tile>) <= GB_WGMMA_SMEM(tile::BN, tile::BM,       \
                                                             tile::STAGES, tile::WGS,  \
                                                             tile::BUFFERS),           \
                  "GB_WGMMA_SMEM");                                                    \
    GB_KERNEL_OF(                                                                      \
        gb_tma_args, symbol, tile::THREADS,                                            \
        GB_WGMMA_BLOCKS(tile::BN, tile::BM, tile::STAGES, tile::WGS, tile::BUFFERS),   \
        args)                                                                          \
    {                                                                                  \
        gb_gemm_wgmma<tile>(args);                                                     \
    }

/* Rows with clusters of two are launched from the code of the row of the same tile. */
#define GB_WGMMA_CODE_1(...) GB_WGMMA_ROW(__VA_ARGS__)
#define GB_WGMMA_CODE_2(...)

/* The four layouts of one row of kernels.def. A's unit stride along its rows is along m, which
 * makes Y MN-major; B's along its columns is along n, which makes X so. */
#define GB_WGMMA_ROW(name, in, out, wgs, mi, bn, stages, buffers)                      \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, false, true> name##_nn;   \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, true, true> name##_nt;    \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, false, false> name##_tn;  \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, true, false> name##_tt;   \
    GB_WGMMA_LAYOUT(gb_##name##_nn, name##_nn)                                         \
    GB_WGMMA_LAYOUT(gb_##name##_nt, name##_nt)                                         \
    GB_WGMMA_LAYOUT(gb_##name##_tn, name##_tn)                                         \
    GB_WGMMA_LAYOUT(gb_##name##_tt, name##_tt)

#endif
