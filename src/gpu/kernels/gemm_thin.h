/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_thin: 16-bit GEMM where m or n is at most a few columns wide, up to the product of a
 * matrix and a vector; for sm_80 and everything newer. What a launch computes is defined in
 * gemm_args.h; these rows take all of k at once (GB_K_WHOLE).
 *
 * Such a product reads one operand, the long one, once and does next to nothing with it: the
 * time is the memory's. So what counts is that every multiprocessor has loads under way from
 * the first moment to the last; tensor cores are used because their fragments are what loads
 * from memory bring anyway, and shared memory is not in the way.
 *
 * Tile: ROWS rows of the long side by COLS columns of the thin one for a block of WARPS warps.
 * The warps share out k, STEP at a time by turns, so that a block reads long runs of every row.
 * Each loads the fragments of its next step into registers while it multiplies by the last: 16
 * bytes at a time where the unit stride runs along k, else 8, of which pairs along k are made
 * in registers. No stages, no barrier but one: at the end the warps' sums meet in shared memory.
 *
 * Masks: elements past the end of k are zeros; the last of k is read element by element. Rows
 * past the end of m or n are read where the last ones are, and what they add up to is not
 * stored. Nothing before the first element of a matrix or after its last is read; what lies
 * between columns may be.
 *
 * Epilogue: one element per thread, in fp32.
 *
 * The order of the sum over k: a warp adds blocks of 16 k in one chain; the warps' sums are
 * added in their order. A function of k alone. */
#ifndef GB_GEMM_THIN_H
#define GB_GEMM_THIN_H

#include "fused.h"
#include "mma.h"
#define THIN(...)
#include "thin.def" /* GB_THIN_ROWS, GB_THIN_COLS */
#undef THIN

/* One row of thin.def in one layout. LONG_M: the long side is m, else n. *_K: that operand's
 * unit stride runs along k. */
template <class In_, class Out_, bool LONG_M_, int WARPS_, int STEP_, bool LONG_K_,
          bool THIN_K_>
struct ThinTile {
    typedef In_ In;
    typedef Out_ Out;
    static constexpr bool LONG_M = LONG_M_, LONG_K = LONG_K_, THIN_K = THIN_K_;
    static constexpr int WARPS = WARPS_, THREADS = GB_LANES * WARPS;
    static constexpr int ROWS = GB_THIN_ROWS, COLS = GB_THIN_COLS, STEP = STEP_;
    /* Runs of 8 of k that a lane has of a step; sums of a warp. */
    static constexpr int RUNS = STEP / 32, SUMS = ROWS * COLS;
    static constexpr int PITCH = ROWS + 1; /* of columns in shared memory */

    static_assert(SUMS % THREADS == 0, "every thread has elements of C");
};

template <class Tile>
struct ThinShared {
    gb_tile tile;
    bool any;
    float sums[Tile::WARPS][Tile::COLS * Tile::PITCH];
};

/* What a lane reads of an operand, from its own first row and k on: ALONG_K says which stride
 * is 1. Rows that do not exist are read where the last one is: what they add up to is stored
 * by nobody. */
template <bool ALONG_K>
struct ThinOperand {
    const unsigned char *at;
    int64_t stride; /* bytes */
    int rows;       /* of the tile, that exist */
    int last;       /* of them, counted from the lane's first */

    /* base: element (0, 0) of the tile's rows, of which `exist` exist */
    GB_DEVICE ThinOperand(const uint16_t *base, int64_t stride_, int row, int64_t k,
                          int64_t exist)
        : at(reinterpret_cast<const unsigned char *>(base)), stride(stride_ * 2),
          rows((int)gb_tile_min(exist, GB_THIN_ROWS)), last(rows - 1 - row)
    {
        at += ALONG_K ? row * stride + k * 2 : k * stride + row * 2;
    }
    GB_DEVICE void advance(int k)
    {
        at += ALONG_K ? k * 2 : k * stride;
    }
    /* Or, of rows past the end, the last aligned V of those that exist. */
    template <int V = 1>
    GB_DEVICE const unsigned char *element(int row, int k) const
    {
        const int end = last & -V;

        row = row < end ? row : end;
        return at + (ALONG_K ? row * stride + k * 2 : k * stride + row * 2);
    }
    /* Two of k of a row, of which `deep` exist. */
    GB_DEVICE uint32_t pair(int row, int k, int deep) const
    {
        return (k < deep ? gb_get2(element(row, k)) : 0) |
               (k + 1 < deep ? gb_get2(element(row, k + 1)) : 0) << 16;
    }
};

/* A lane's rows of the long operand: along k its four are 8 apart, as the rows of a fragment;
 * across, neighbours, which come in one vector. */
template <class Tile>
GB_INLINE int gb_thin_row(int lane, int i)
{
    return Tile::LONG_K ? lane / 4 + 8 * i : lane / 4 * 4 + i;
}

/* Its part of a step. */
template <class Tile>
struct ThinLong {
    typedef ThinOperand<Tile::LONG_K> Operand;

    /* Along k: [run][row] has 8 of k. Across: [run][pair of k] has two of k, as loaded: of all
     * four rows each. */
    uint32_t w[Tile::RUNS][4][4];

    GB_DEVICE void fetch(const Operand &x)
    {
        const unsigned char *across = x.template element<4>(0, 0);

        GB_UNROLL
        for (int run = 0; run < Tile::RUNS; run++) {
            GB_UNROLL
            for (int i = 0; i < 4; i++) {
                uint32_t(&to)[4] = w[run][i];

                if (Tile::LONG_K) {
                    gb_get16(to, x.element(8 * i, run * 32));
                } else {
                    gb_get8(to, across);
                    gb_get8(to + 2, across + x.stride);
                    across += 2 * x.stride;
                }
            }
            across += 24 * x.stride;
        }
    }

    /* The fragments of 16 rows for half a run's k: rows 8 apart, two pairs of k each. */
    GB_DEVICE void fragment(int run, int half, int group, uint32_t (&x)[4]) const
    {
        GB_UNROLL
        for (int i = 0; i < 4; i++) {
            if (Tile::LONG_K) {
                x[i] = w[run][2 * group + i % 2][2 * half + i / 2];
            } else {
                /* rows 2 * group and the next are the halves of one word at each k */
                const uint32_t *const at = w[run][2 * half + i / 2];

                x[i] = gb_pick_halves(at[group], at[2 + group], i % 2);
            }
        }
    }
};

/* A lane's part of the thin one: of columns lane / 4 and 8 further, 8 of k of each. Across, it
 * is loaded as pairs of columns and transposed by the warp: lane 4g+t loads what lies at
 * columns 2t and 2t+1, and of each eight of k at 8(g/2)+g%2. */
template <class Tile>
struct ThinThin {
    typedef ThinOperand<Tile::THIN_K> Operand;

    uint32_t w[Tile::RUNS][2][4];

    GB_DEVICE static int row(int lane)
    {
        return Tile::THIN_K ? lane / 4 : lane % 4 * 2;
    }
    GB_DEVICE static int k(int lane)
    {
        return Tile::THIN_K ? lane % 4 * 8 : lane / 8 * 8 + lane / 4 % 2;
    }

    GB_DEVICE void fetch(const Operand &x)
    {
        const unsigned char *across = x.template element<2>(0, 0);
        const int64_t other = x.template element<2>(8, 0) - across;

        GB_UNROLL
        for (int run = 0; run < Tile::RUNS; run++) {
            if constexpr (Tile::THIN_K) {
                gb_get16(w[run][0], x.element(0, run * 32));
                gb_get16(w[run][1], x.element(8, run * 32));
            } else {
                GB_UNROLL
                for (int e = 0; e < 4; e++, across += 2 * x.stride) {
                    w[run][0][e] = gb_get4(across);
                    w[run][1][e] = gb_get4(across + (int)other);
                }
                across += 24 * x.stride;
            }
        }
    }

    /* For half a run's k of both. */

    GB_DEVICE void fragment(int run, int half, uint32_t (&y)[4]) const
    {
        GB_UNROLL
        for (int i = 0; i < 4; i++)
            y[i] = Tile::THIN_K ? w[run][i / 2][2 * half + i % 2]
                                : gb_transpose8(w[run][i / 2][2 * half + i % 2]);
    }
};

template <class Tile>
GB_INLINE void gb_thin_multiply(const ThinLong<Tile> &x, const ThinThin<Tile> &y,
                                float (&sums)[2][2][4])
{
    GB_UNROLL
    for (int run = 0; run < Tile::RUNS; run++) {
        GB_UNROLL
        for (int half = 0; half < 2; half++) {
            uint32_t a[2][4], b[1][4];

            x.fragment(run, half, 0, a[0]);
            x.fragment(run, half, 1, a[1]);
            y.fragment(run, half, b[0]);
            gb_mma_warp<typename Tile::In>(sums, a, b);
        }
    }
}

/* The last of k, at most a step, by elements; `deep` exist from the lane's first on. */
template <class Tile>
GB_INLINE void gb_thin_tail(const ThinOperand<Tile::LONG_K> &x,
                            const ThinOperand<Tile::THIN_K> &y, int deep,
                            float (&sums)[2][2][4])
{
    constexpr int APART = Tile::LONG_K ? 8 : 1; /* rows of the long operand */

    GB_NO_UNROLL
    for (int part = 0; part < 2 * Tile::RUNS; part++) {
        const int k = part / 2 * 32 + part % 2 * 4;
        uint32_t a[2][4], b[1][4];

        GB_UNROLL
        for (int i = 0; i < 4; i++) {
            a[0][i] = x.pair(i % 2 * APART, k + i / 2 * 2, deep);
            a[1][i] = x.pair((2 + i % 2) * APART, k + i / 2 * 2, deep);
            b[0][i] = y.pair(i / 2 * 8, k + i % 2 * 2, deep);
        }
        gb_mma_warp<typename Tile::In>(sums, a, b);
    }
}

/* Out of line: one copy for four layouts. */
template <int M, int N>
GB_NOINLINE void gb_thin_unit(const gb_gemm_args &g, uint32_t unit, gb_tile &tile,
                              bool &any)
{
    gb_tile_map32 map;

    any = gb_tile_map32_whole(&map, &g, M, N) && unit < map.units;
    if (any)
        gb_tile_map32_at(&map, unit, &tile);
}

GB_INLINE const uint16_t *gb_thin_matrix(uint64_t base, uint64_t list, int64_t stride,
                                         const gb_tile &tile)
{
    return gb_matrix<const uint16_t>(base, list, stride, tile.batch);
}

/* What a lane reads of the two operands of a tile: its first row and k. */
template <class Tile>
GB_INLINE ThinOperand<Tile::LONG_K>
gb_thin_long(const gb_gemm_args &g, const gb_tile &tile, int row, int64_t k)
{
    const int64_t first = (Tile::LONG_M ? tile.i : tile.j) * Tile::ROWS;

    if (Tile::LONG_M)
        return {gb_thin_matrix(g.a, g.a_list, g.a_batch, tile) + first * g.a_m,
                Tile::LONG_K ? g.a_m : g.a_k, row, k, g.m - first};
    return {gb_thin_matrix(g.b, g.b_list, g.b_batch, tile) + first * g.b_n,
            Tile::LONG_K ? g.b_n : g.b_k, row, k, g.n - first};
}

template <class Tile>
GB_INLINE ThinOperand<Tile::THIN_K>
gb_thin_thin(const gb_gemm_args &g, const gb_tile &tile, int row, int64_t k)
{
    const int64_t first = (Tile::LONG_M ? tile.j : tile.i) * Tile::COLS;

    if (Tile::LONG_M)
        return {gb_thin_matrix(g.b, g.b_list, g.b_batch, tile) + first * g.b_n,
                Tile::THIN_K ? g.b_n : g.b_k, row, k,
                gb_tile_min(g.n - first, Tile::COLS)};
    return {gb_thin_matrix(g.a, g.a_list, g.a_batch, tile) + first * g.a_m,
            Tile::THIN_K ? g.a_m : g.a_k, row, k, gb_tile_min(g.m - first, Tile::COLS)};
}

/* This warp's sums of a tile. */
template <class Tile>
GB_INLINE void gb_thin_sums(const gb_gemm_args &g, const gb_tile &tile,
                            float (&sums)[2][2][4])
{
    constexpr int TURN = Tile::WARPS * Tile::STEP;
    const int lane = gb_thread() % GB_LANES, run = lane % 4 * 8;
    const int skip = gb_thread() / GB_LANES * Tile::STEP;
    ThinOperand<Tile::LONG_K> x =
        gb_thin_long<Tile>(g, tile, gb_thin_row<Tile>(lane, 0), skip + run);
    ThinOperand<Tile::THIN_K> y = gb_thin_thin<Tile>(g, tile, ThinThin<Tile>::row(lane),
                                                     skip + ThinThin<Tile>::k(lane));
    /* Vectors of rows may reach into the padding below a column, of which the last has none. */
    const int least =
        Tile::STEP + ((!Tile::LONG_K && x.rows % 4) || (!Tile::THIN_K && y.rows % 2));
    int left = (int)gb_tile_min(g.k - skip, INT32_MAX); /* launch.h: k is no more */
    ThinLong<Tile> now;

    if (g.alpha[0] == 0)
        return; /* they count for nothing, not even as a NaN */
    if (left >= least)
        now.fetch(x);
    GB_NO_UNROLL
    for (; left >= least; left -= TURN) {
        ThinLong<Tile> next;
        ThinThin<Tile> thin;

        thin.fetch(y);
        y.advance(TURN);
        x.advance(TURN);
        if (left >= TURN + least)
            next.fetch(x);
        else
            next = now; /* unused */
        gb_thin_multiply<Tile>(now, thin, sums);
        now = next;
    }
    if (left > 0)
        gb_thin_tail<Tile>(x, gb_thin_thin<Tile>(g, tile, lane / 4, g.k - left + run),
                           left - run, sums);
}

template <class Tile>
GB_INLINE void gb_thin_finish(const gb_gemm_args &g, const gb_tile &tile,
                              const float (*sums)[Tile::COLS * Tile::PITCH])
{
    typedef typename Tile::Out Out;
    const bool read = !(g.flags & GB_G_BETA_ZERO);
    const float alpha = (float)g.alpha[0];
    const float beta = read ? (float)g.beta[0] : gb_unread_f32(alpha);

    GB_NO_UNROLL
    for (int x = gb_thread(); x < Tile::SUMS; x += Tile::THREADS) {
        /* neighbours along m */
        const int row = Tile::LONG_M ? x % Tile::ROWS : x / Tile::COLS;
        const int col = Tile::LONG_M ? x / Tile::ROWS : x % Tile::COLS;
        const int64_t i = tile.i * (Tile::LONG_M ? Tile::ROWS : Tile::COLS) +
                          (Tile::LONG_M ? row : col);
        const int64_t j = tile.j * (Tile::LONG_M ? Tile::COLS : Tile::ROWS) +
                          (Tile::LONG_M ? col : row);
        Out *const at =
            gb_matrix<Out>(g.c, g.c_list, g.c_batch, tile.batch) + j * g.ldc + i;
        float sum[1] = {0}, old[1] = {0};
        Out c = {};

        if (i >= g.m || j >= g.n)
            continue;
        GB_UNROLL
        for (int w = 0; w < Tile::WARPS; w++)
            sum[0] += sums[w][col * Tile::PITCH + row];
        if (read)
            gb_widen(*at, old[0]);
        if (g.flags & GB_G_FUSED)
            FusedRows<Out, float, 1>(g, tile.batch, i, 1)
                .apply(j, alpha, beta, old, sum);
        else
            sum[0] = gb_epilogue_f32(alpha, sum[0], beta, old[0]);
        gb_narrow(sum[0], c);
        *at = c;
    }
}

template <class Tile>
GB_INLINE void gb_gemm_thin(const gb_gemm_args &g)
{
    GB_SHARED(ThinShared<Tile>, shared);
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    uint32_t unit = (uint32_t)gb_block();

    gb_grid_wait();
    GB_NO_UNROLL
    for (;; unit += (uint32_t)gb_grid()) {
        float sums[2][2][4] = {};

        if (gb_thread() == 0)
            gb_thin_unit<Tile::LONG_M ? Tile::ROWS : Tile::COLS,
                         Tile::LONG_M ? Tile::COLS : Tile::ROWS>(g, unit, shared.tile,
                                                                 shared.any);
        gb_sync(); /* and the last tile's sums are read */
        if (!shared.any)
            break;
        gb_thin_sums<Tile>(g, shared.tile, sums);
        GB_UNROLL
        for (int i = 0; i < 2; i++) {
            GB_UNROLL
            for (int h = 0; h < 2; h++) {
                GB_UNROLL
                for (int e = 0; e < 4; e++)
                    shared.sums[warp][(8 * h + lane % 4 * 2 + e % 2) * Tile::PITCH +
                                      gb_thin_row<Tile>(lane, 2 * i + e / 2)] =
                        sums[i][h][e];
            }
        }
        gb_sync();
        gb_thin_finish<Tile>(g, shared.tile, shared.sums);
        gb_sync();
    }
}

#define GB_THIN_LAYOUT(symbol, tile)                                                   \
    GB_KERNEL(symbol, tile::THREADS, 1, g)                                             \
    {                                                                                  \
        gb_gemm_thin<tile>(g);                                                         \
    }

/* The four layouts of one row of thin.def. A's unit stride runs along m in _n., along k in _t.;
 * B's along k in _.n, along n in _.t. */
#define GB_THIN_ROW(name, in, out, long_m, ...)                                        \
    typedef ThinTile<in, out, long_m, __VA_ARGS__, !(long_m), long_m> name##_nn;       \
    typedef ThinTile<in, out, long_m, __VA_ARGS__, false, false> name##_nt;            \
    typedef ThinTile<in, out, long_m, __VA_ARGS__, true, true> name##_tn;              \
    typedef ThinTile<in, out, long_m, __VA_ARGS__, long_m, !(long_m)> name##_tt;       \
    GB_THIN_LAYOUT(gb_##name##_nn, name##_nn)                                          \
    GB_THIN_LAYOUT(gb_##name##_nt, name##_nt)                                          \
    GB_THIN_LAYOUT(gb_##name##_tn, name##_tn)                                          \
    GB_THIN_LAYOUT(gb_##name##_tt, name##_tt)

#endif
