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

    /* Is C sums of integers? */
    GB_DEVICE bool exact(const WgmmaWork &work) const
    {
        const gb_gemm_args &g = e.t.g;

        return work.steps > 0 && g.alpha[0] == 1 && (!reads() || g.beta[0] == 1);
    }
    GB_DEVICE bool reads() const
    {
        return !(e.t.g.flags & GB_G_BETA_ZERO);
    }
    GB_DEVICE const int32_t *bias(const WgmmaWork &work, bool of_columns) const
    {
        const gb_fused &f = e.t.g.fused;

        if (!(e.t.g.flags & GB_G_FUSED) || !f.bias ||
            !(f.flags & GB_F_BIAS_COLS) == of_columns)
            return nullptr;
        return reinterpret_cast<const int32_t *>(f.bias) + work.batch * f.bias_batch;
    }

    /* What some rows of C, or columns, add to their sums, and to what these become. */
    template <int N>
    struct Added {
        uint32_t sum[N];
        int32_t c[N];
    };
    /* From row m on, or every `step`-th column from n on, of which `there` exist. */
    template <int N>
    GB_DEVICE Added<N> of_rows(const WgmmaWork &work, int64_t m, int there) const
    {
        const int32_t *const b = bias(work, false);
        const int32_t *const rows =
            reinterpret_cast<const int32_t *>(e.rows) + work.batch * e.rows_batch + m;
        Added<N> x = {};

        GB_UNROLL
        for (int i = 0; i < N; i++) {
            if (e.of_rows != 0 && i < there)
                x.sum[i] = (uint32_t)e.of_rows * (uint32_t)rows[i];
            if (b && i < there)
                x.c[i] = b[m + i];
            x.sum[i] += (uint32_t)e.whole;
        }
        return x;
    }
    template <int N>
    GB_DEVICE Added<N> of_columns(const WgmmaWork &work, int64_t n, int step,
                                  int there) const
    {
        const int32_t *const b = bias(work, true);
        const int32_t *const cols =
            reinterpret_cast<const int32_t *>(e.cols) + work.batch * e.cols_batch + n;
        Added<N> x = {};

        GB_UNROLL
        for (int i = 0; i < N; i++) {
            if (e.of_cols != 0 && i < there)
                x.sum[i] = (uint32_t)e.of_cols * (uint32_t)cols[i * step];
            if (b && i < there)
                x.c[i] = b[n + i * step];
        }
        return x;
    }

    /* An element of C; EXACT: exact(). */
    template <bool EXACT>
    GB_DEVICE int32_t value(const WgmmaWork &work, uint32_t sum, int32_t old,
                            int64_t add) const
    {
        const gb_gemm_args &g = e.t.g;

        if constexpr (EXACT)
            return gb_clamp_s32((int64_t)(int32_t)sum + old + add);
        return gb_integer_s32(work.steps > 0 ? g.alpha[0] : 0, (int32_t)sum,
                              reads() ? g.beta[0] : 0, old, add);
    }

    /* Vectors of C that a lane has of a part, a column each, and where they are. */
    static constexpr int V = 4, SIDE = PART / V, AT_ONCE = 32 / SIDE;
    static constexpr int TURNS = 16 / AT_ONCE;

    GB_DEVICE int32_t *vectors(const WgmmaWork &work, int part) const
    {
        return c(work, part_m(work, part) + lane() % SIDE * V,
                 part_n(work, part) + lane() / SIDE);
    }
    GB_DEVICE void ask(const WgmmaWork &work, int part,
                       Vec<int32_t, V> (&old)[TURNS]) const
    {
        const int32_t *const from = vectors(work, part);

        GB_UNROLL
        for (int i = 0; i < TURNS; i++)
            if (reads())
                old[i] = gb_load<int32_t, V>(from + i * AT_ONCE * e.t.g.ldc);
    }

    /* A part of C that exists, by vectors. */
    template <bool EXACT>
    GB_DEVICE void mix_vectors(const WgmmaWork &work, int part,
                               const Vec<int32_t, V> (&old)[TURNS]) const
    {
        const int column = lane() / SIDE, row = lane() % SIDE * V;
        const Added<V> of_row = of_rows<V>(work, part_m(work, part) + row, V);
        const Added<TURNS> of_column =
            of_columns<TURNS>(work, part_n(work, part) + column, AT_ONCE, TURNS);
        int32_t *const to = vectors(work, part);

        GB_UNROLL
        for (int i = 0; i < TURNS; i++) {
            Vec<int32_t, V> v = gb_load<int32_t, V>(
                &gb_wgmma_element<int32_t>(buffer(part), column + i * AT_ONCE, row));

            GB_UNROLL
            for (int r = 0; r < V; r++)
                v.at[r] = value<EXACT>(
                    work, (uint32_t)v.at[r] + of_row.sum[r] + of_column.sum[i],
                    old[i].at[r], (int64_t)e.add + of_row.c[r] + of_column.c[i]);
            gb_store_whole(to + i * AT_ONCE * e.t.g.ldc, v);
        }
    }

    /* Any part, by a lane for each of its rows; what is read of some columns is asked for at
     * once. */
    template <bool EXACT>
    GB_DEVICE void mix_words(const WgmmaWork &work, int part) const
    {
        constexpr int SOME = 8;
        const gb_gemm_args &g = e.t.g;
        const int64_t m = part_m(work, part) + lane(), n = part_n(work, part);
        const int columns = m < g.m ? (int)gb_tile_min(g.n - n, 16) : 0;
        const Added<1> of_row = of_rows<1>(work, m, columns > 0);

        GB_NO_UNROLL
        for (int j = 0; j < columns; j += SOME) {
            int32_t *const to = c(work, m, n + j);
            const Added<SOME> of_column = of_columns<SOME>(work, n + j, 1, columns - j);
            int32_t old[SOME] = {};

            GB_UNROLL
            for (int i = 0; i < SOME; i++)
                if (reads() && j + i < columns)
                    old[i] = to[i * g.ldc];
            GB_UNROLL
            for (int i = 0; i < SOME; i++) {
                const uint32_t sum = (uint32_t)gb_wgmma_element<int32_t>(
                    buffer(part), (j + i) % 16, lane());

                if (j + i < columns)
                    to[i * g.ldc] = value<EXACT>(
                        work, sum + of_row.sum[0] + of_column.sum[i], old[i],
                        (int64_t)e.add + of_row.c[0] + of_column.c[i]);
            }
        }
    }

    /* C that is more than sums. Of all of a tile that exists, what was in C is asked for some parts
     * ahead: as many as registers allow beside the sums. */
    template <bool EXACT>
    GB_DEVICE void finish_mixed(const WgmmaWork &work, bool whole,
                                const int32_t (&d)[Tile::MI][Tile::BN / 2]) const
    {
        constexpr int AHEAD = Tile::MI * Tile::BN / 2 < 128 ? 2 : 1;
        Vec<int32_t, V> ahead[AHEAD][TURNS] = {};

        static_assert(Tile::PARTS >= AHEAD, "there are so many");
        GB_UNROLL
        for (int i = 0; i < AHEAD; i++)
            if (whole)
                ask(work, i, ahead[i]);
        GB_NO_UNROLL
        for (int part = 0; part < Tile::PARTS; part++) {
            Vec<int32_t, V> old[TURNS];

            GB_UNROLL
            for (int i = 0; i < TURNS; i++) {
                old[i] = ahead[0][i];
                ahead[0][i] = ahead[AHEAD - 1][i];
            }
            if (whole && part + AHEAD < Tile::PARTS)
                ask(work, part + AHEAD, ahead[AHEAD - 1]);
            fill_part(work, part, d);
            gb_sync_warp();
            if (whole)
                mix_vectors<EXACT>(work, part, old);
            else
                mix_words<EXACT>(work, part);
            gb_sync_warp();
        }
    }

    /* (Of a tile without sums the buffers hold 0: alpha drops what they hold, but they are
     * looked at.) */
    GB_DEVICE void fill_part(const WgmmaWork &work, int part,
                             const int32_t (&d)[Tile::MI][Tile::BN / 2]) const
    {
        GB_UNROLL
        for (int q = 0; q < Tile::PARTS; q++) /* registers have no index */
            if (q == part && work.steps > 0)
                fill(d[q / ACROSS] + q % ACROSS * PART / 2, buffer(part));
        if (work.steps == 0) {
            const int32_t none[PART / 2] = {};

            fill(none, buffer(part));
        }
    }

    GB_DEVICE void finish(const WgmmaWork &work,
                          const int32_t (&d)[Tile::MI][Tile::BN / 2]) const
    {
        const gb_gemm_args &g = e.t.g;
        const bool whole =
            !e.t.c_direct && work.m + Tile::BN <= g.m && work.n + Tile::BM <= g.n;

        if (!e.plain || work.steps == 0) {
            if (exact(work))
                finish_mixed<true>(work, whole, d);
            else
                finish_mixed<false>(work, whole, d);
            return;
        }
        if (whole) {
            finish_whole(work, d);
            return;
        }
        GB_NO_UNROLL
        for (int part = 0; part < Tile::PARTS; part++) {
            const int64_t m = part_m(work, part), n = part_n(work, part);
            const WgmmaColumns<int32_t, PART> columns(c(work, m, n), g.ldc, g.m - m,
                                                      g.n - n, buffer(part));

            fill_part(work, part, d);
            gb_sync_warp();
            if (e.t.c_direct)
                columns.put_words();
            else
                columns.put_vectors();
            gb_sync_warp();
        }
    }
};

/* The products of one buffer. */
template <class Tile>
GB_INLINE void gb_int8_step(uint32_t stage, int wg, bool add,
                            int32_t (&d)[Tile::MI][Tile::BN / 2])
{
    typedef GbWgmmaBytes<Tile::BN, int8_t, int8_t> Wgmma;
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
