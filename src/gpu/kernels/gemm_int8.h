/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_int8: products of signed 8-bit integers on Hopper's tensor cores (sm_90a), summed in int32
 * modulo 2^32. What a launch computes is defined in int8_args.h. Tensor cores take such numbers
 * K-major alone, so that there is one layout: operands that lie so and are aligned are read in
 * place, others are copied first (bytes.h).
 *
 * The kernel is gemm_wgmma in another type, with its orientation, ring, loading thread and clusters
 * (gemm_wgmma.h); a buffer has 128 of k. All of k is one launch. Integers have one sum, whatever
 * the order: tiles, launches and panels do not matter to it.
 *
 * Epilogue: sums pass through the buffers of a warp as they are, so that whole lines of C are
 * stored. Where C is more than they, a lane has a row of a part of C and takes its columns in
 * turn: it adds what sums of vectors contribute (the zero points of the operands), and then
 * alpha, beta and the rest in double precision (round.h). */
#ifndef GB_GEMM_INT8_H
#define GB_GEMM_INT8_H

#include "gemm_wgmma.h"
#include "int8_args.h"
#include "round.h"
#include "wgmma_s8.h"

/* One row of kernels.def. */
template <int WGS_, int MI_, int BN_, int STAGES_, int BUFFERS_>
struct Int8Tile
    : WgmmaTile<int8_t, int32_t, WGS_, MI_, BN_, STAGES_, BUFFERS_, false, false> {
    static constexpr int BK = 128; /* in the bytes of 64 of 16 bits */
};

/* What becomes of one warp's sums. */
template <class Tile>
struct Int8Epilogue {
    static constexpr int PART = Tile::PART, ACROSS = Tile::BN / PART;

    const gb_int8_args &e;
    WgmmaShared<Tile> &shared;

    GB_DEVICE static int lane()
    {
        return gb_thread() % 32;
    }
    GB_DEVICE unsigned char *buffer(int part) const
    {
        return shared.part[gb_thread() / 32][part % Tile::BUFFERS];
    }
    GB_DEVICE static int part_m(const WgmmaWork &work, int part)
    {
        return work.m + part % ACROSS * PART;
    }
    GB_DEVICE static int part_n(const WgmmaWork &work, int part)
    {
        const int w = gb_thread() / 32;

        return work.n + (w / 4 * Tile::MI + part / ACROSS) * 64 + w % 4 * 16;
    }
    GB_DEVICE int32_t *c(const WgmmaWork &work, int64_t m, int64_t n) const
    {
        const gb_gemm_args &g = e.t.g;

        return reinterpret_cast<int32_t *>(g.c) + work.batch * g.c_batch + m +
               n * g.ldc;
    }

    /* The sums of a part into its buffer. */
    GB_DEVICE static void fill(const int32_t *sums, unsigned char *buffer)
    {
        const int pair = gb_wgmma_swizzled(gb_wgmma_pair_n(lane(), 0),
                                           gb_wgmma_pair_m(lane(), 0) * 4);

        GB_UNROLL
        for (int a = 0; a < PART / 2; a += 2) {
            unsigned char *const at = buffer + gb_wgmma_pair_n(0, a) * 128 +
                                      (pair ^ gb_wgmma_pair_m(0, a) * 4);

            gb_store(reinterpret_cast<int32_t *>(at),
                     Vec<int32_t, 2>{{sums[a], sums[a + 1]}});
        }
    }

    /* What is usual, in one stretch of code: all of the tile exists, and is C as it is. A part
     * is stored while the next passes. */
    GB_DEVICE void finish_whole(const WgmmaWork &work,
                                const int32_t (&d)[Tile::MI][Tile::BN / 2]) const
    {
        constexpr int V = 4, SIDE = PART / V, AT_ONCE = 32 / SIDE, TURNS = 16 / AT_ONCE;
        const int column = lane() / SIDE, row = lane() % SIDE * V;
        const int place = gb_wgmma_swizzled(column, row * 4);
        const int64_t step = AT_ONCE * e.t.g.ldc;
        int32_t *to = c(work, work.m + row, part_n(work, 0) + column);
        Vec<int32_t, V> v[TURNS];

        GB_UNROLL
        for (int part = 0; part <= Tile::PARTS; part++) {
            unsigned char *const at = buffer(part);

            if (part < Tile::PARTS) {
                fill(d[part / ACROSS] + part % ACROSS * PART / 2, at);
                gb_sync_warp();
            }
            GB_UNROLL
            for (int i = 0; i < TURNS; i++) {
                if (part > 0)
                    gb_store_whole(to + (part - 1) % ACROSS * PART + i * step, v[i]);
                if (part < Tile::PARTS)
                    v[i] = gb_load<int32_t, V>(reinterpret_cast<int32_t *>(
                        at + (place ^ i * AT_ONCE % 8 * 16) + i * AT_ONCE * 128));
            }
            if (Tile::BUFFERS == 1)
                gb_sync_warp(); /* the next part is for the same buffer */
            if (part > 0 && part % ACROSS == 0)
                to += 64 * e.t.g.ldc;
        }
        gb_sync_warp(); /* the buffers are read, and the next tile may be stored there */
    }

    /* A part of C, by a lane for each of its rows. */
    GB_DEVICE void mix(const WgmmaWork &work, int part) const
    {
        const gb_gemm_args &g = e.t.g;
        const bool reads = !(g.flags & GB_G_BETA_ZERO),
                   bias_cols = g.fused.flags & GB_F_BIAS_COLS;
        const double alpha = work.steps > 0 ? g.alpha[0] : 0;
        const double beta = reads ? g.beta[0] : 0;
        const int64_t m = part_m(work, part) + lane(), n = part_n(work, part);
        const int columns = m < g.m ? (int)gb_tile_min(g.n - n, 16) : 0;
        const int32_t *const cols =
            reinterpret_cast<const int32_t *>(e.cols) + work.batch * e.cols_batch + n;
        const int32_t *bias = g.flags & GB_G_FUSED
                                  ? reinterpret_cast<const int32_t *>(g.fused.bias)
                                  : nullptr;
        uint32_t of_row = (uint32_t)e.whole;
        int64_t add = e.add;

        if (bias)
            bias += work.batch * g.fused.bias_batch;
        if (columns > 0 && e.of_rows != 0)
            of_row +=
                (uint32_t)e.of_rows * (uint32_t) reinterpret_cast<const int32_t *>(
                                          e.rows)[work.batch * e.rows_batch + m];
        if (columns > 0 && bias && !bias_cols)
            add += bias[m];
        GB_UNROLL_BY(4)
        for (int j = 0; j < columns; j++) {
            int32_t *const to = c(work, m, n + j);
            uint32_t sum = of_row;

            /* (of a tile without sums the buffer may hold anything) */
            if (work.steps > 0)
                sum += (uint32_t)gb_wgmma_element<int32_t>(buffer(part), j, lane());
            if (e.of_cols != 0)
                sum += (uint32_t)e.of_cols * (uint32_t)cols[j];
            *to = gb_integer_s32(alpha, (int32_t)sum, beta, reads ? *to : 0,
                                 add + (bias && bias_cols ? bias[n + j] : 0));
        }
    }

    GB_DEVICE void finish(const WgmmaWork &work,
                          const int32_t (&d)[Tile::MI][Tile::BN / 2]) const
    {
        const gb_gemm_args &g = e.t.g;
        const bool plain = e.plain && work.steps > 0;

        if (plain && !e.t.c_direct && work.m + Tile::BN <= g.m &&
            work.n + Tile::BM <= g.n) {
            finish_whole(work, d);
            return;
        }
        GB_NO_UNROLL
        for (int part = 0; part < Tile::PARTS; part++) {
            const int64_t m = part_m(work, part), n = part_n(work, part);

            GB_UNROLL
            for (int q = 0; q < Tile::PARTS; q++) /* registers have no index */
                if (q == part && work.steps > 0)
                    fill(d[q / ACROSS] + q % ACROSS * PART / 2, buffer(part));
            gb_sync_warp();
            if (!plain) {
                mix(work, part);
            } else {
                const WgmmaColumns<int32_t, PART> columns(c(work, m, n), g.ldc, g.m - m,
                                                          g.n - n, buffer(part));

                if (e.t.c_direct)
                    columns.put_words();
                else
                    columns.put_vectors();
            }
            gb_sync_warp();
        }
    }
};

/* The products of one buffer. */
template <class Tile>
GB_INLINE void gb_int8_step(uint32_t stage, int wg, bool add,
                            int32_t (&d)[Tile::MI][Tile::BN / 2])
{
    typedef GbWgmmaS8<Tile::BN> Wgmma;
    const uint64_t x = gb_descriptor<false>(stage + wg * Tile::MI * GB_ATOM_BYTES);
    const uint64_t y = gb_descriptor<false>(stage + Tile::X_BYTES);

    gb_wgmma_fence();
    GB_UNROLL
    for (int k = 0; k < Tile::BK / 32; k++) {
        GB_UNROLL
        for (int mi = 0; mi < Tile::MI; mi++)
            Wgmma::mma(d[mi],
                       x + mi * (GB_ATOM_BYTES / 16) + k * gb_descriptor_step<false>,
                       y + k * gb_descriptor_step<false>, add || k > 0);
    }
    gb_wgmma_commit();
}

template <class Tile>
GB_INLINE void gb_int8_multiplier(const gb_int8_args &e, WgmmaShared<Tile> &shared)
{
    const gb_tma_args &p = e.t;
    const Int8Epilogue<Tile> epilogue = {e, shared};
    WgmmaRing<Tile::STAGES> ring(0);

    GB_NO_UNROLL
    for (;;) {
        int32_t d[Tile::MI][Tile::BN / 2];
        WgmmaWork work;
        int before;

        gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
        work = shared.work[ring.at];
        if (work.steps < 0)
            break;
        before = ring.at;
        if (work.steps == 0) {
            /* no product holds back the release until all have read the work */
            gb_named_sync<128>(2 + gb_wgmma_group());
            ring.next(); /* and the sums are never looked at */
        }
        GB_NO_UNROLL
        for (int step = 0; step < work.steps; step++) {
            gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
            gb_int8_step<Tile>(gb_smem(shared.stage[ring.at]), gb_wgmma_group(),
                               step > 0, d);
            gb_wgmma_wait<1>();
            if (step > 0)
                gb_wgmma_release(p, shared, before);
            before = ring.at;
            ring.next();
        }
        gb_wgmma_wait<0>();
        gb_wgmma_release(p, shared, before);
        epilogue.finish(work, d);
    }
}

template <class Tile>
GB_INLINE void gb_gemm_int8(const gb_int8_args &e)
{
    WgmmaShared<Tile> &shared =
        *reinterpret_cast<WgmmaShared<Tile> *>(gb_wgmma_memory());
    const gb_tma_args &p = e.t;

    if (gb_thread() == 0) {
        gb_tma_prefetch(&p.a);
        gb_tma_prefetch(&p.b);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]),
                        gb_wgmma_in_pairs(p) ? 2 * Tile::WGS : Tile::WGS);
        }
        gb_bar_fence_init();
    }
    if (gb_wgmma_in_pairs(p))
        gb_cluster_sync();
    else
        gb_sync();
    gb_grid_wait();
    if (gb_thread() / 128 == Tile::WGS) {
        if (Tile::TRADE)
            gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_wgmma_loader<Tile>(p, shared, (int)gb_cluster_rank());
        gb_sync_warp();
    } else {
        if (Tile::TRADE)
            gb_more_registers<Tile::REGISTERS>();
        gb_int8_multiplier<Tile>(e, shared);
    }
    /* no block of a cluster ends while another may still write to it */
    if (gb_wgmma_in_pairs(p))
        gb_cluster_sync();
}

/* Rows with clusters of two are launched from the code of the row of the same tile. */
#define GB_INT8_CODE_2(...)
#define GB_INT8_CODE_1(name, wgs, mi, bn, stages, buffers)                             \
    typedef Int8Tile<wgs, mi, bn, stages, buffers> name##_tile;                        \
    static_assert(sizeof(WgmmaShared<name##_tile>) <=                                  \
                      GB_WGMMA_SMEM(bn, name##_tile::BM, stages, wgs, buffers),        \
                  "GB_WGMMA_SMEM");                                                    \
    GB_KERNEL_OF(gb_int8_args, gb_##name, name##_tile::THREADS, name##_tile::BLOCKS,   \
                 args)                                                                 \
    {                                                                                  \
        gb_gemm_int8<name##_tile>(args);                                               \
    }

#endif
