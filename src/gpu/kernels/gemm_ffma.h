/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_ffma: fp32 GEMM, real and complex, by fused multiply-adds, for sm_80 and everything
 * newer. What a launch computes is defined in gemm_args.h.
 *
 * Tile: M by N of C for one block; a warp is 8 threads along m by 4 along n, a thread has PER_M x
 * PER_N elements of C as vectors of 16 bytes (swizzle.h), 8x16 in the large tiles. Per element
 * of k it then reads 6 vectors of shared memory for 128 multiply-adds: with 8x8, 4 for 64, reads
 * take as long as the multiply-adds do. Buffers, copies, masks and the main loop: staged.h.
 *
 * Both operands lie k-major in a buffer, whatever their unit stride: across (along k) single
 * elements are copied, 8 threads 32 bytes of a row, each into another row of the buffer; 16
 * bytes of padding let them meet different banks.
 *
 * Complex: four multiply-adds (4M), as those of two real products: A's real parts and its
 * imaginary ones lie apart in a buffer, copied one by one. Conjugation flips the sign of B's
 * imaginary parts, by the multiply-add itself, for which there are two main loops.
 *
 * The order of the sum over k: one chain for each element in ascending k, as in gemm_simt, whose
 * epilogue from registers this is. */
#ifndef GB_GEMM_FFMA_H
#define GB_GEMM_FFMA_H

#include "gemm_simt.h"
#include "staged.h"

/* One row of ffma.def. */
template <class T_, int M_, int N_, int K_, int STAGES_, int PER_M_, int PER_N_,
          int BLOCKS>
struct FfmaShape {
    typedef T_ T;
    typedef T Out; /* as SimtOutput has it */
    typedef T Acc;
    static constexpr int M = M_, N = N_, K = K_, STAGES = STAGES_;
    static constexpr int PER_M = PER_M_, PER_N = PER_N_;
    static constexpr int SIZE = sizeof(T), V = 16 / SIZE;
    static constexpr int WARPS_M = M / (GB_LANES_M * PER_M);
    static constexpr int WARPS_N = N / (GB_LANES_N * PER_N);
    static constexpr int THREADS = GB_LANES * WARPS_M * WARPS_N;
    /* A product is one of k and one part of A's elements, of which complex ones have two. */
    static constexpr int PARTS = SIZE / 4, KS = K * PARTS;
    /* Sets of fragments, if two leave registers for the rest. */
    static constexpr int ROOM = 65536 / (THREADS * BLOCKS);
    static constexpr int SETS =
        PARTS * PER_M * PER_N + 2 * (PER_M + PARTS * PER_N) + 40 <=
                (ROOM < 255 ? ROOM : 255)
            ? 2
            : 1;
    static constexpr int X_PITCH = N * SIZE + 16, Y_PITCH = M * 4 + 16; /* of a part */
    static constexpr int X_BYTES = K * X_PITCH, Y_BYTES = KS * Y_PITCH;
    static constexpr int STAGE_BYTES = X_BYTES + Y_BYTES;

    static_assert(WARPS_M * GB_LANES_M * PER_M == M, "warps tile m");
    static_assert(WARPS_N * GB_LANES_N * PER_N == N, "warps tile n");
    static_assert(PER_M % 4 == 0 && PER_N % V == 0, "threads own whole vectors");
    static_assert(K % 8 == 0, "a step of k");
    static_assert(STAGES >= 3, "buffers are refilled while one is read and one waits");
    static_assert(PER_M * THREADS * SIZE <= STAGES * STAGE_BYTES,
                  "a column of every thread has room");
};

/* Which copies are a thread's (staged.h), UNIT bytes each along an operand's unit stride. */
template <class Shape, int TILE, bool ACROSS, int UNIT_>
struct FfmaWalk {
    static constexpr int UNIT = ACROSS ? Shape::SIZE : UNIT_;
    static constexpr int PITCH = TILE * Shape::SIZE + 16;
    static constexpr int UNITS = ACROSS ? 8 : TILE * Shape::SIZE / UNIT;
    static constexpr int ROWS = ACROSS ? TILE : Shape::K;
    static constexpr int ROW_STEP = Shape::THREADS / UNITS, TURNS = ROWS / ROW_STEP;
    static constexpr int INNER = ACROSS ? Shape::K / 8 : 1,
                         INNER_BYTES = 8 * Shape::SIZE;

    static_assert(ROW_STEP * UNITS == Shape::THREADS && TURNS * ROW_STEP == ROWS,
                  "a grid");

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
        return ACROSS ? gb_thread() % UNITS * PITCH + row() * Shape::SIZE
                      : row() * PITCH + byte();
    }
    GB_DEVICE static constexpr int place(int turn, int inner)
    {
        return ACROSS ? turn * ROW_STEP * Shape::SIZE + inner * 8 * PITCH
                      : turn * ROW_STEP * PITCH;
    }
};

/* Of complex A, in its parts: rows of the buffer are the real or the imaginary parts of one k. */
template <class Shape, bool ACROSS>
struct FfmaPartsWalk {
    static constexpr int UNIT = 4, PITCH = Shape::Y_PITCH;
    static constexpr int ROW_UNITS = 2 * (ACROSS ? 8 : Shape::M);
    static constexpr int UNITS =
        ROW_UNITS < Shape::THREADS ? ROW_UNITS : Shape::THREADS;
    static constexpr int ROWS = ACROSS ? Shape::M : Shape::K;
    static constexpr int ROW_STEP = Shape::THREADS / UNITS, TURNS = ROWS / ROW_STEP;
    static constexpr int INNER = 2 * (ACROSS ? Shape::K : Shape::M) / UNITS,
                         INNER_BYTES = 4 * UNITS;

    static_assert(ROW_STEP * UNITS == Shape::THREADS && TURNS * ROW_STEP == ROWS,
                  "a grid");
    static_assert((ROW_STEP & (ROW_STEP - 1)) == 0 &&
                      (INNER == 1 || ACROSS || UNITS % 64 == 0),
                  "places add up");

    GB_DEVICE static int row()
    {
        return gb_thread() / UNITS;
    }
    GB_DEVICE static int byte()
    {
        return gb_thread() % UNITS * 4;
    }
    GB_DEVICE static int place()
    {
        const int unit = gb_thread() % UNITS;

        return ACROSS ? unit * PITCH + gb_ffma_part(row()) * 4
                      : (2 * row() + unit % 2) * PITCH + gb_ffma_part(unit / 2) * 4;
    }
    GB_DEVICE static int place(int turn, int inner)
    {
        return ACROSS ? inner * UNITS * PITCH + gb_ffma_part(turn * ROW_STEP) * 4
                      : turn * ROW_STEP * 2 * PITCH + inner * UNITS / 2 * 4;
    }
};

template <class Shape, bool ACROSS, int UNIT, int PARTS = Shape::PARTS>
struct FfmaWalkA : FfmaWalk<Shape, Shape::M, ACROSS, UNIT> {
};

template <class Shape, bool ACROSS, int UNIT>
struct FfmaWalkA<Shape, ACROSS, UNIT, 2> : FfmaPartsWalk<Shape, ACROSS> {
};

/* A thread's elements of one of k: a part of A's, and B's. */
template <class Shape>
struct FfmaFrags {
    SimtFrag<float, Shape::PER_M, 4, GB_LANES_M> a;
    SimtFrag<typename Shape::T, Shape::PER_N, Shape::V, GB_LANES_N> b;
};

template <class Shape>
struct FfmaReaders {
    int a, b; /* where its first ones lie */

    GB_DEVICE explicit FfmaReaders(int)
        : a(Shape::X_BYTES +
            4 * gb_frag_row(gb_thread(), 0, Shape::WARPS_M, Shape::PER_M, 4)),
          b(Shape::SIZE *
            gb_frag_col(gb_thread(), 0, Shape::WARPS_M, Shape::PER_N, Shape::V))
    {
    }

    template <class T, int PER, int V, int LANES>
    GB_DEVICE static void vectors(SimtFrag<T, PER, V, LANES> &frag, gb_shared_at at)
    {
        GB_UNROLL
        for (int g = 0; g < PER / V; g++) {
            Vec<T, V> v;

            gb_get_shared(v, at + g * LANES * 16);
            GB_UNROLL
            for (int e = 0; e < V; e++)
                frag.at[g * V + e] = v.at[e];
        }
    }

    /* B's complex elements are read once for each part of A's: the registers are wanted. */
    GB_DEVICE void read(FfmaFrags<Shape> &frags, gb_shared_at at, int k) const
    {
        vectors(frags.a, at + a + k * Shape::Y_PITCH);
        vectors(frags.b, at + b + k / Shape::PARTS * Shape::X_PITCH);
    }
};

/* The register file gives a multiply-add two of its operands a cycle, one of the even registers
 * and one of the odd ones; a third one comes for nothing if the last multiply-add had it too.
 * Hence to and fro along m. Compilers keep to that order if a fragment's elements are done with
 * one after another; so a complex product is two real ones, of A's real parts and of its
 * imaginary ones, with twice as many columns. */
template <class Shape>
struct FfmaSums : SimtSums<Shape> {
    typedef typename Shape::T T;
    using SimtSums<Shape>::at;

    /* A column's sums, the first row's first if `turn` is even. */
    template <class Sum>
    GB_DEVICE static void column(Sum sum, const FfmaFrags<Shape> &frags, int turn,
                                 float b)
    {
        GB_UNROLL
        for (int i = 0; i < Shape::PER_M; i++) {
            const int r = turn % 2 ? Shape::PER_M - 1 - i : i;

            gb_mad(sum(r), frags.a.at[r], b);
        }
    }

    /* flip: conjugate B's elements. The order of a complex product is gb_mad's. */
    GB_DEVICE void multiply(const FfmaFrags<Shape> &frags, int k, bool flip)
    {
        GB_UNROLL
        for (int c = 0; c < Shape::PER_N; c++) {
            const T b = frags.b.at[c];

            if constexpr (AccMath<T>::COMPLEX) {
                const bool imaginary = k % 2;
                const float im = imaginary != flip ? -b.im : b.im;

                column([&](int r) -> float & { return at[c][r].re; }, frags, 0,
                       imaginary ? im : b.re);
                column([&](int r) -> float & { return at[c][r].im; }, frags, 1,
                       imaginary ? b.re : im);
            } else {
                column([&](int r) -> float & { return at[c][r]; }, frags, c, b);
            }
        }
    }
};

template <class Shape>
struct FfmaOutput {
    typedef SimtOutput<Shape> To;

    const gb_gemm_args &g;
    const StagedWork &work;
    gb_tile tile;
    bool flip; /* the sums are held conjugated */

    GB_DEVICE FfmaOutput(const gb_gemm_args &args, const StagedWork &work_)
        : g(args), work(work_), flip(args.flags & GB_G_CONJ_A)
    {
        tile.batch = work.batch;
        tile.split = work.split - g.split0;
        tile.i = tile.j = 0; /* it begins with work's m and n */
    }

    GB_DEVICE To to() const
    {
        return To(g, tile, work.m, work.n, work.others_m, work.others_n);
    }

    GB_DEVICE void start(FfmaSums<Shape> &sums) const
    {
        to().start(sums, flip);
    }
    GB_DEVICE void keep(const FfmaSums<Shape> &sums) const
    {
        to().keep(sums, flip);
    }
    GB_DEVICE void finish(const FfmaSums<Shape> &sums) const
    {
        to().finish(sums, flip);
    }
    GB_DEVICE void finish_fused(const FfmaSums<Shape> &sums,
                                typename Shape::T *mine) const
    {
        to().finish_fused(sums, flip, mine);
    }
};

/* In one layout. ACROSS: an operand's unit stride runs along k. */
template <class Shape, bool A_ACROSS_, bool B_ACROSS_>
struct FfmaTile : Shape {
    static constexpr bool A_ACROSS = A_ACROSS_, B_ACROSS = B_ACROSS_;
    static constexpr bool FLIPS_APART = AccMath<typename Shape::T>::COMPLEX;
    typedef StagedCopier<typename Shape::T, Shape::N, Shape::K, B_ACROSS,
                         FfmaWalk<Shape, Shape::N, B_ACROSS, 16>,
                         FfmaWalk<Shape, Shape::N, B_ACROSS, Shape::SIZE>>
        X;
    typedef StagedCopier<typename Shape::T, Shape::M, Shape::K, A_ACROSS,
                         FfmaWalkA<Shape, A_ACROSS, 16>,
                         FfmaWalkA<Shape, A_ACROSS, Shape::SIZE>>
        Y;
    typedef FfmaFrags<Shape> Frags;
    typedef FfmaReaders<Shape> Readers;
    typedef FfmaSums<Shape> Sums;
    typedef FfmaOutput<Shape> Output;
};

#define GB_FFMA_LAYOUT(symbol, shape, blocks, ...)                                     \
    GB_KERNEL(symbol, shape::THREADS, blocks, g)                                       \
    {                                                                                  \
        gb_gemm_staged<FfmaTile<shape, __VA_ARGS__>>(g);                               \
    }

/* The four layouts of one row of ffma.def. A's unit stride runs along m in _n., along k in _t.;
 * B's along k in _.n, along n in _.t. */
#define GB_FFMA_ROW(name, blocks, ...)                                                 \
    typedef FfmaShape<__VA_ARGS__, blocks> name##_shape;                               \
    GB_FFMA_LAYOUT(gb_##name##_nn, name##_shape, blocks, false, true)                  \
    GB_FFMA_LAYOUT(gb_##name##_nt, name##_shape, blocks, false, false)                 \
    GB_FFMA_LAYOUT(gb_##name##_tn, name##_shape, blocks, true, true)                   \
    GB_FFMA_LAYOUT(gb_##name##_tt, name##_shape, blocks, true, false)

#endif
