/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_dmma: fp64 GEMM, real and complex, by mma.sync on tensor cores, for sm_80 and everything
 * newer. What a launch computes is defined in gemm_args.h. IEEE arithmetic: every element is a
 * chain of fused multiply-adds, as without tensor cores.
 *
 * Orientation. As in gemm_mma, the kernel computes C^T = op(B)^T op(A)^T, so that a lane's two
 * neighbouring sums are neighbours along m: X is op(B)^T, the 16 rows of an mma; Y is op(A),
 * its 8 columns. Fragments are single elements of a lane, so either operand is read from shared
 * memory as it lies in memory: all four layouts run in place.
 *
 * Tile: M by N of C for one block, shared out to WARPS_M x WARPS_N warps; each keeps 64x32 of
 * them (complex: 32x32) in 128 registers in the large tiles, which then read a byte of shared
 * memory for 11 multiply-adds (complex: 16). Buffers, copies, masks and the main loop: staged.h.
 * Where elements lie in a buffer (swizzle.h) lets neither copies nor reads meet a bank twice.
 *
 * Complex elements are interleaved in shared memory too; a product is four real ones (4M, as
 * many operations as BLAS counts). Conjugation flips the sign of X's imaginary parts, by those
 * of what they are multiplied by.
 *
 * Epilogue: from registers, each lane two neighbours of a column, 4 lanes 64 bytes. There alpha
 * and beta are applied. With bias, scales or activation a lane's sums go through shared memory,
 * column by column, since registers have no index and that text is too long to have it often. */
#ifndef GB_GEMM_DMMA_H
#define GB_GEMM_DMMA_H

#include "dmma.h"
#include "staged.h"

/* One row of dmma.def. */
template <class T_, int M_, int N_, int K_, int STAGES_, int WARPS_M_, int WARPS_N_,
          int KI_>
struct DmmaShape {
    typedef T_ T;
    static constexpr bool COMPLEX = AccMath<T>::COMPLEX;
    static constexpr int M = M_, N = N_, K = K_, STAGES = STAGES_, KI = KI_;
    static constexpr int SIZE = sizeof(T);
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
    static constexpr int WARPS = WARPS_M * WARPS_N, THREADS = GB_LANES * WARPS;
    static constexpr int WM = M / WARPS_M, WN = N / WARPS_N; /* of one warp */
    static constexpr int XS = WN / 16, YS = WM / 8, KS = K / KI;
    static constexpr int PARTS = COMPLEX ? 2 : 1; /* real, imaginary */
    /* Sets of fragments, if two leave registers for the rest. */
    static constexpr int FRAGS = (2 * XS + YS) * KI / 4 * PARTS * 2; /* in registers */
    static constexpr int SETS = KS > 1 && XS *YS *PARTS * 8 + 2 * FRAGS +
                                                  (COMPLEX ? XS * KI * 2 : 0) <=
                                              216
                                    ? 2
                                    : 1;
    /* One size for both layouts. */
    static constexpr int X_BYTES = K * (N * SIZE + GB_DMMA_PAD);
    static constexpr int Y_BYTES = K * (M * SIZE + GB_DMMA_PAD);
    static constexpr int STAGE_BYTES = X_BYTES + Y_BYTES;
    static constexpr int V = 16 / SIZE; /* elements of a vector */

    static_assert(WM % 8 == 0 && WN % 16 == 0, "warps have whole products");
    static_assert(K * SIZE % 128 == 0, "rows along k are whole lines");
    static_assert(K % KI == 0, "a step has whole products");
    static_assert(X_BYTES % 128 == 0 && Y_BYTES % 128 == 0,
                  "operands begin with lines");
    static_assert(STAGES >= 3, "buffers are refilled while one is read and one waits");
    static_assert(2 * YS * THREADS * SIZE <= STAGES * STAGE_BYTES,
                  "a column of every lane has room");
};

/* Which copies are a thread's (staged.h): rows lie in the buffer as they do in memory, each a
 * row of copies. */
template <class Shape, int TILE, bool ACROSS, int UNIT_>
struct DmmaWalk {
    static constexpr int UNIT = UNIT_, INNER = 1, INNER_BYTES = 0;
    static constexpr int ROW_BYTES = (ACROSS ? Shape::K : TILE) * Shape::SIZE;
    static constexpr int PITCH = ROW_BYTES + (ACROSS ? 0 : GB_DMMA_PAD);
    static constexpr int ROWS = ACROSS ? TILE : Shape::K, UNITS = ROW_BYTES / UNIT;
    static constexpr int ROW_STEP = Shape::THREADS / UNITS, TURNS = ROWS / ROW_STEP;

    static_assert(ROW_STEP * UNITS == Shape::THREADS && TURNS * ROW_STEP == ROWS,
                  "a grid");
    static_assert(!ACROSS || ROW_STEP % 4 == 0, "rows alike to gb_dmma_byte");

    GB_DEVICE static int row()
    {
        return gb_thread() / UNITS;
    }
    GB_DEVICE static int byte()
    {
        return gb_thread() % UNITS * UNIT;
    }
    GB_DEVICE static int place()
    {
        return row() * PITCH + gb_dmma_byte(row(), byte(), Shape::SIZE, ACROSS);
    }
    GB_DEVICE static constexpr int place(int turn, int)
    {
        return turn * ROW_STEP * PITCH;
    }
};

/* ---- products ---- */

/* Where a lane finds one operand's elements in a buffer, of TILE, beginning with row `first`. */
template <class Tile, int TILE, bool ACROSS>
struct DmmaReader {
    static constexpr int SIZE = Tile::SIZE;
    static constexpr int PITCH = DmmaWalk<Tile, TILE, ACROSS, 16>::PITCH;
    static constexpr int FOUR = 4 * SIZE; /* bytes of 4 of k */

    int place;

    GB_DEVICE explicit DmmaReader(int first)
    {
        const int lane = gb_thread() % GB_LANES, row = first + lane / 4, k = lane % 4;

        place = ACROSS ? row * PITCH + gb_dmma_byte(row, k * SIZE, SIZE, true)
                       : k * PITCH + row * SIZE;
    }

    /* The 8 rows `group`, the 4 of k `four`; of a complex element all or one part. Across, what
     * gb_dmma_byte flips of the address of the first four it flips of all: the buffer begins
     * with a line. A part's address is flipped too, not added to: compilers would make one read
     * of two, and many moves to part them again. */
    template <class T>
    GB_DEVICE void read(T &x, gb_shared_at at, int group, int four, int part = 0) const
    {
        const gb_shared_at first = at + place;

        if (ACROSS)
            gb_get_shared(x, (first ^ (four * FOUR % 128 | part * 8)) +
                                 four * FOUR / 128 * 128 + group * 8 * PITCH);
        else
            gb_get_shared(x, (first ^ part * 8) + four * 4 * PITCH + group * 8 * SIZE);
    }
};

/* X's real and imaginary parts are read apart: an instruction takes two rows' of one part from
 * successive registers. Of Y it takes one element's. */
template <class Tile>
struct DmmaFrags {
    double x[Tile::PARTS][Tile::XS][Tile::KI / 2];
    typename Tile::T y[Tile::YS][Tile::KI / 4];
};

template <class Tile, bool A_ACROSS, bool B_ACROSS>
struct DmmaReaders {
    DmmaReader<Tile, Tile::N, B_ACROSS> x;
    DmmaReader<Tile, Tile::M, A_ACROSS> y;

    GB_DEVICE explicit DmmaReaders(int warp)
        : x(warp / Tile::WARPS_M * Tile::WN), y(warp % Tile::WARPS_M * Tile::WM)
    {
    }

    GB_DEVICE void read(DmmaFrags<Tile> &frags, gb_shared_at at, int k) const
    {
        constexpr int FOURS = Tile::KI / 4;

        GB_UNROLL
        for (int s = 0; s < FOURS; s++) {
            GB_UNROLL
            for (int i = 0; i < 2 * Tile::XS; i++) {
                GB_UNROLL
                for (int p = 0; p < Tile::PARTS; p++)
                    x.read(frags.x[p][i / 2][2 * s + i % 2], at, i, k * FOURS + s, p);
            }
            GB_UNROLL
            for (int j = 0; j < Tile::YS; j++)
                y.read(frags.y[j][s], at + Tile::X_BYTES, j, k * FOURS + s);
        }
    }
};

/* Of a lane: [part][i][j][e] as dmma.h says, rows along n and columns along m. */
template <class Tile>
struct DmmaSums {
    typedef typename Tile::T T;

    double part[Tile::PARTS][Tile::XS][Tile::YS][4];

    GB_DEVICE T at(int i, int j, int e) const
    {
        if constexpr (Tile::COMPLEX)
            return T{part[0][i][j][e], part[1][i][j][e]};
        else
            return part[0][i][j][e];
    }

    GB_DEVICE void set(int i, int j, int e, T x)
    {
        if constexpr (Tile::COMPLEX) {
            part[0][i][j][e] = x.re;
            part[1][i][j][e] = x.im;
        } else {
            part[0][i][j][e] = x;
        }
    }

    /* flip: conjugate X's elements, by the signs of Y's parts */
    GB_DEVICE void multiply(const DmmaFrags<Tile> &frags, int, bool flip)
    {
        if constexpr (Tile::COMPLEX) {
            double re[Tile::YS][Tile::KI / 4], im[Tile::YS][Tile::KI / 4];
            double flipped[Tile::YS][Tile::KI / 4], minus[Tile::YS][Tile::KI / 4];

            GB_UNROLL
            for (int j = 0; j < Tile::YS; j++) {
                GB_UNROLL
                for (int e = 0; e < Tile::KI / 4; e++) {
                    re[j][e] = frags.y[j][e].re;
                    im[j][e] = frags.y[j][e].im;
                    flipped[j][e] = gb_negate_if(flip, frags.y[j][e].re);
                    minus[j][e] = gb_negate_if(!flip, frags.y[j][e].im);
                }
            }
            gb_dmma_warp<Tile::KI>(part[0], frags.x[0], re);
            gb_dmma_warp<Tile::KI>(part[1], frags.x[0], im);
            gb_dmma_warp<Tile::KI>(part[0], frags.x[1], minus);
            gb_dmma_warp<Tile::KI>(part[1], frags.x[1], flipped);
        } else {
            gb_dmma_warp<Tile::KI>(part[0], frags.x[0], frags.y);
        }
    }
};

/* ---- a tile of C ---- */

/* Which elements of its tile a lane owns and may touch, counted from its first one: rows 8j + e,
 * e of 0 and 1, and columns 8c. */
template <class Tile>
struct DmmaOutput {
    typedef typename Tile::T T;
    typedef AccMath<T> Math;
    static constexpr int XS = Tile::XS, YS = Tile::YS, V = Tile::V;

    const gb_gemm_args &g;
    const StagedWork &work;
    int64_t m, n;   /* C(m, n) is its first element */
    int rows, cols; /* that exist from there on */
    int row0, col0; /* of them the first that are this tile's */
    int above; /* of the first element over the diagonal, clamped to what matters */
    bool flip; /* the sums are held conjugated */

    GB_DEVICE DmmaOutput(const gb_gemm_args &args, const StagedWork &work_)
        : g(args), work(work_), flip(args.flags & GB_G_CONJ_A)
    {
        const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
        const int64_t reach = Tile::M + Tile::N;

        m = work.m + warp % Tile::WARPS_M * Tile::WM + lane % 4 * 2;
        n = work.n + warp / Tile::WARPS_M * Tile::WN + lane / 4;
        rows = (int)gb_tile_clamp(g.m - m, 0, Tile::WM);
        cols = (int)gb_tile_clamp(g.n - n, 0, Tile::WN);
        row0 = work.others_m - (int)(m - work.m);
        col0 = work.others_n - (int)(n - work.n);
        above = (int)gb_tile_clamp(n + g.col0 - m - g.row0, -reach, reach);
    }

    GB_DEVICE bool triangle() const
    {
        return g.flags & (GB_G_UPPER | GB_G_LOWER);
    }

    GB_DEVICE bool has(int r, int c) const
    {
        return r >= row0 && r < rows && c >= col0 && c < cols &&
               !(g.flags & GB_G_UPPER && above + c < r) &&
               !(g.flags & GB_G_LOWER && above + c > r);
    }

    /* The sums of this split. */
    GB_DEVICE T *partial() const
    {
        return reinterpret_cast<T *>(g.partial) +
               (work.batch * g.splits + work.split) * g.m * g.n + n * g.m + m;
    }

    GB_DEVICE void start(DmmaSums<Tile> &sums) const
    {
        const T *base = partial();

        GB_UNROLL
        for (int c = 0; c < 2 * XS; c++) {
            GB_UNROLL
            for (int r = 0; r < 2 * YS; r++) {
                const int row = r / 2 * 8 + r % 2;

                if (has(row, 8 * c))
                    sums.set(c / 2, r / 2, c % 2 * 2 + r % 2,
                             Math::conj_if(flip, base[8 * c * g.m + row]));
            }
        }
    }

    GB_DEVICE void keep(const DmmaSums<Tile> &sums) const
    {
        T *base = partial();

        GB_UNROLL
        for (int c = 0; c < 2 * XS; c++) {
            GB_UNROLL
            for (int r = 0; r < 2 * YS; r++) {
                const int row = r / 2 * 8 + r % 2;

                if (has(row, 8 * c))
                    base[8 * c * g.m + row] =
                        Math::conj_if(flip, sums.at(c / 2, r / 2, c % 2 * 2 + r % 2));
            }
        }
    }

    GB_DEVICE T *first() const
    {
        return gb_matrix<T>(g.c, g.c_list, g.c_batch, work.batch) + n * g.ldc + m;
    }

    /* A column's elements of C are all asked for before the first is stored: a compiler cannot
     * know that they are not the same. */
    GB_DEVICE void finish(const DmmaSums<Tile> &sums) const
    {
        const bool read = !(g.flags & GB_G_BETA_ZERO);
        const T alpha = Math::scalar(g.alpha);
        const T beta = read ? Math::scalar(g.beta) : Math::unread(alpha);
        const bool vec =
            !triangle() && work.m % V == 0 && gb_whole<T>(g.c, g.ldc, g.c_batch);
        T *base = first();

        GB_UNROLL
        for (int c = 0; c < 2 * XS; c++) {
            T *const column = base + 8 * c * g.ldc;
            Vec<T, V> v[2 * YS / V];

            GB_UNROLL
            for (int i = 0; i < 2 * YS / V; i++) {
                const int row = i * V / 2 * 8 + i * V % 2;

                v[i] = {};
                if (read && vec && has(row, 8 * c) && row + V <= rows) {
                    v[i] = gb_load<T, V>(column + row);
                } else if (read) {
                    GB_UNROLL
                    for (int e = 0; e < V; e++)
                        if (has(row + e, 8 * c))
                            v[i].at[e] = column[row + e];
                }
            }
            GB_UNROLL
            for (int i = 0; i < 2 * YS / V; i++) {
                const int row = i * V / 2 * 8 + i * V % 2;

                GB_UNROLL
                for (int e = 0; e < V; e++)
                    v[i].at[e] = Math::epilogue(
                        alpha,
                        Math::conj_if(
                            flip, sums.at(c / 2, i * V / 2, c % 2 * 2 + i * V % 2 + e)),
                        beta, v[i].at[e]);
                if (vec && has(row, 8 * c) && row + V <= rows) {
                    gb_store<T, V>(column + row, v[i]);
                } else {
                    GB_UNROLL
                    for (int e = 0; e < V; e++)
                        if (has(row + e, 8 * c))
                            column[row + e] = v[i].at[e];
                }
            }
        }
    }

    /* `mine`: 2 * YS places for this thread alone, THREADS apart. */
    GB_DEVICE void finish_fused(const DmmaSums<Tile> &sums, T *mine) const
    {
        const bool read = !(g.flags & GB_G_BETA_ZERO);
        const T alpha = Math::scalar(g.alpha);
        const T beta = read ? Math::scalar(g.beta) : Math::unread(alpha);
        T *base = first();

        GB_NO_UNROLL
        for (int c = 0; c < 2 * XS; c++) {
            GB_UNROLL
            for (int q = 0; q < 2 * XS; q++) {
                GB_UNROLL
                for (int r = 0; r < 2 * YS; r++)
                    if (q == c)
                        mine[r * Tile::THREADS] = Math::conj_if(
                            flip, sums.at(q / 2, r / 2, q % 2 * 2 + r % 2));
            }
            GB_NO_UNROLL
            for (int r = 0; r < 2 * YS; r++) {
                const int row = r / 2 * 8 + r % 2;
                T *at = base + 8 * c * g.ldc + row;
                T v[1] = {mine[r * Tile::THREADS]}, old[1] = {};

                if (!has(row, 8 * c))
                    continue;
                if (read)
                    old[0] = *at;
                FusedRows<T, T, 1>(g, work.batch, m + row, 1)
                    .apply(n + 8 * c, alpha, beta, old, v);
                *at = v[0];
            }
        }
    }
};

/* ---- the kernel ---- */

/* In one layout. ACROSS: an operand's unit stride runs along k. */
template <class Shape, bool A_ACROSS_, bool B_ACROSS_>
struct DmmaTile : Shape {
    static constexpr bool A_ACROSS = A_ACROSS_, B_ACROSS = B_ACROSS_;
    static constexpr bool FLIPS_APART =
        false; /* what flips is not what products wait for */
    template <int TILE, bool ACROSS>
    using Operand = StagedCopier<typename Shape::T, TILE, Shape::K, ACROSS,
                                 DmmaWalk<Shape, TILE, ACROSS, 16>,
                                 DmmaWalk<Shape, TILE, ACROSS, 8>>;
    typedef Operand<Shape::N, B_ACROSS> X;
    typedef Operand<Shape::M, A_ACROSS> Y;
    typedef DmmaFrags<Shape> Frags;
    typedef DmmaReaders<Shape, A_ACROSS, B_ACROSS> Readers;
    typedef DmmaSums<Shape> Sums;
    typedef DmmaOutput<Shape> Output;
};

#define GB_DMMA_LAYOUT(symbol, shape, blocks, ...)                                     \
    GB_KERNEL(symbol, shape::THREADS, blocks, g)                                       \
    {                                                                                  \
        gb_gemm_staged<DmmaTile<shape, __VA_ARGS__>>(g);                               \
    }

/* The four layouts of one row of dmma.def. A's unit stride runs along m in _n., along k in _t.;
 * B's along k in _.n, along n in _.t. */
#define GB_DMMA_ROW(name, blocks, ...)                                                 \
    typedef DmmaShape<__VA_ARGS__> name##_shape;                                       \
    GB_DMMA_LAYOUT(gb_##name##_nn, name##_shape, blocks, false, true)                  \
    GB_DMMA_LAYOUT(gb_##name##_nt, name##_shape, blocks, false, false)                 \
    GB_DMMA_LAYOUT(gb_##name##_tn, name##_shape, blocks, true, true)                   \
    GB_DMMA_LAYOUT(gb_##name##_tt, name##_shape, blocks, true, false)

#endif
