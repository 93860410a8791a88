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
 * memory for 11 multiply-adds (complex: 16). K of k at a time lie in one of STAGES buffers; where
 * their elements lie in it (swizzle.h) lets neither copies nor reads meet a bank twice. Buffers
 * are filled STAGES - 1 steps ahead, fragments read one product ahead, over the end of a step as
 * well.
 *
 * Copies are asynchronous, of 16 bytes where addresses and leading dimensions are multiples of
 * them, else of 8, which every matrix allows: no repair, and no cliff.
 *
 * Complex elements are interleaved in shared memory too; a product is four real ones (4M, as
 * many operations as BLAS counts). Conjugation flips the sign of one operand's imaginary parts.
 *
 * Masks: what lies past the end of m, n or k is filled with zeros by the copies' byte counts;
 * the main loop has no other mask. Nothing outside a matrix is read.
 *
 * Epilogue: from registers, each lane two neighbours of a column, 4 lanes 64 bytes; the buffers
 * are free, so that the next tile's first steps are under way meanwhile. There alpha and beta are
 * applied. With bias, scales or activation a lane's sums go through shared memory, column by
 * column, since registers have no index and that text is too long to have it often. */
#ifndef GB_GEMM_DMMA_H
#define GB_GEMM_DMMA_H

#include "accumulate.h"
#include "dmma.h"
#include "fused.h"

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
    static constexpr int SETS =
        KS > 1 && XS * YS * PARTS * 8 + 2 * FRAGS + (COMPLEX ? XS * KI * 2 : 0) <= 216
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
    static_assert(X_BYTES % 128 == 0 && Y_BYTES % 128 == 0, "operands begin with lines");
    static_assert(STAGES >= 3, "buffers are refilled while one is read and one waits");
    static_assert(2 * YS * THREADS * SIZE <= STAGES * STAGE_BYTES,
                  "a column of every lane has room");
};

/* In one layout. ACROSS: an operand's unit stride runs along k. */
template <class Shape_, bool A_ACROSS_, bool B_ACROSS_>
struct DmmaTile : Shape_ {
    static constexpr bool A_ACROSS = A_ACROSS_, B_ACROSS = B_ACROSS_;
};

/* What a block does in one turn. */
struct DmmaWork {
    int64_t m, n; /* C(m, n) is its first element */
    int64_t batch;
    int64_t split; /* of the whole problem */
    int64_t k;     /* where its sums begin, from the launch's k_begin */
    int64_t deep;  /* of k to sum */
    bool carry;    /* the sums began in an earlier launch */
    bool any;      /* false: there is no such turn */
};

/* The last tile, which may still be on its way to C; this one; the next. */
struct DmmaShared {
    DmmaWork work[3];
};

/* Out of line: one copy for four layouts. */
template <int M, int N>
GB_NOINLINE void gb_dmma_work(const gb_gemm_args &g, int64_t unit, DmmaWork &work)
{
    gb_split_range range;
    gb_tile_map32 small;
    gb_tile tile;

    if (gb_tile_map32_whole(&small, &g, M, N)) {
        work.any = unit < small.units;
        if (work.any)
            gb_tile_map32_at(&small, (uint32_t)unit, &tile);
    } else {
        gb_tile_map map;

        gb_tile_map_init(&map, &g, M, N);
        work.any = unit < gb_tile_map_units(&map);
        if (work.any)
            gb_tile_map_at(&map, unit, &tile);
    }
    if (!work.any)
        return;
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = tile.i * M;
    work.n = tile.j * N;
    work.batch = tile.batch;
    work.split = g.split0 + tile.split;
    work.k = range.begin - g.k_begin;
    work.deep = range.end - range.begin;
    work.carry = range.carry;
    if ((g.flags & GB_G_EPILOGUE) && g.alpha[0] == 0 && g.alpha[1] == 0)
        work.deep = 0; /* the sum counts for nothing, not even as a NaN */
}

/* ---- loading ---- */

/* Brings successive steps of one operand, TILE of m or n, into shared memory. */
template <class Shape, int TILE, bool ACROSS>
struct DmmaCopier {
    static constexpr int K = Shape::K, SIZE = Shape::SIZE;
    static constexpr int ROWS = ACROSS ? TILE : K;
    static constexpr int ROW_BYTES = (ACROSS ? K : TILE) * SIZE;
    static constexpr int PITCH = ROW_BYTES + (ACROSS ? 0 : GB_DMMA_PAD);

    /* Which copies of UNIT bytes are a thread's: one column of them, ROW_STEP rows apart. */
    template <int UNIT>
    struct Walk {
        static constexpr int UNITS = ROW_BYTES / UNIT;
        static constexpr int ROW_STEP = Shape::THREADS / UNITS;
        static constexpr int TURNS = ROWS / ROW_STEP;

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
            return row() * PITCH +
                   gb_dmma_byte(row(), byte(), SIZE, ACROSS);
        }
        GB_DEVICE static constexpr int place(int turn)
        {
            return turn * ROW_STEP * PITCH;
        }
    };

    const unsigned char *from; /* this thread's first bytes of the next step */
    int64_t step;              /* bytes from turn to turn */
    int to;
    int rows;  /* of the tile that exist */
    bool wide; /* copies of 16 bytes are legal */

    /* base: element (0, 0) of the first step; left: rows from there to the matrix's end */
    GB_DEVICE void init(const typename Shape::T *base, int64_t stride, int64_t left,
                        bool wide_)
    {
        wide = wide_;
        rows = (int)gb_tile_min(left, TILE);
        from = reinterpret_cast<const unsigned char *>(base);
        if (wide)
            start<16>(stride * SIZE);
        else
            start<8>(stride * SIZE);
    }

    template <int UNIT>
    GB_DEVICE void start(int64_t stride)
    {
        from += Walk<UNIT>::row() * stride + Walk<UNIT>::byte();
        step = Walk<UNIT>::ROW_STEP * stride;
        to = Walk<UNIT>::place();
    }

    template <int UNIT>
    GB_DEVICE static void copy(gb_shared_at at, const void *p)
    {
        if constexpr (UNIT == 16)
            gb_copy16(at, p);
        else
            gb_copy8(at, p);
    }

    template <int UNIT>
    GB_DEVICE static void copy(gb_shared_at at, const void *p, int valid)
    {
        if constexpr (UNIT == 16)
            gb_copy16(at, p, valid);
        else
            gb_copy8(at, p, valid);
    }

    template <int UNIT>
    GB_DEVICE void advance()
    {
        if (ACROSS)
            from += K * SIZE - Walk<UNIT>::TURNS * step;
    }

    template <int UNIT, int KS>
    GB_DEVICE void part(gb_shared_at at, int k)
    {
        constexpr int TURNS = Walk<UNIT>::TURNS;

        GB_UNROLL
        for (int turn = TURNS * k / KS; turn < TURNS * (k + 1) / KS;
             turn++, from += step)
            copy<UNIT>(at + to + Walk<UNIT>::place(turn), from);
        if (k == KS - 1)
            advance<UNIT>();
    }

    template <int UNIT>
    GB_DEVICE void masked(gb_shared_at at, int deep)
    {
        const int across = ACROSS ? rows : deep;
        const int bytes = (ACROSS ? deep : rows) * SIZE - Walk<UNIT>::byte();
        const int most = bytes < 0 ? 0 : bytes < UNIT ? bytes : UNIT;
        int row = Walk<UNIT>::row();

        GB_NO_UNROLL
        for (int turn = 0; turn < Walk<UNIT>::TURNS;
             turn++, from += step, row += Walk<UNIT>::ROW_STEP)
            copy<UNIT>(at + to + Walk<UNIT>::place(turn), from, row < across ? most : 0);
        advance<UNIT>();
    }

    GB_DEVICE bool whole(int64_t deep) const
    {
        return rows == TILE && deep >= K;
    }

    /* Part k of KS of a step that needs no mask. */
    template <int KS>
    GB_DEVICE void fetch(gb_shared_at at, int k)
    {
        if (wide)
            part<16, KS>(at, k);
        else
            part<8, KS>(at, k);
    }

    /* A step that does, `deep` of k being left. */
    GB_DEVICE void fetch_masked(gb_shared_at at, int64_t deep)
    {
        const int some = (int)gb_tile_min(deep, K);

        if (wide)
            masked<16>(at, some);
        else
            masked<8>(at, some);
    }
};

template <class Tile>
struct DmmaLoader {
    typedef typename Tile::T T;

    DmmaCopier<Tile, Tile::N, Tile::B_ACROSS> x;
    DmmaCopier<Tile, Tile::M, Tile::A_ACROSS> y;
    int64_t deep; /* of k that are not yet asked for */
    bool plain;   /* all of the step that is being asked for exists */

    GB_DEVICE void init(const gb_gemm_args &g, const DmmaWork &work)
    {
        const int64_t stride_a = Tile::A_ACROSS ? g.a_m : g.a_k;
        const int64_t stride_b = Tile::B_ACROSS ? g.b_n : g.b_k;

        x.init(gb_matrix<const T>(g.b, g.b_list, g.b_batch, work.batch) +
                   work.k * g.b_k + work.n * g.b_n,
               stride_b, g.n - work.n, gb_whole<T>(g.b, stride_b, g.b_batch));
        y.init(gb_matrix<const T>(g.a, g.a_list, g.a_batch, work.batch) +
                   work.k * g.a_k + work.m * g.a_m,
               stride_a, g.m - work.m, gb_whole<T>(g.a, stride_a, g.a_batch));
        deep = work.deep;
        plain = false;
    }

    /* Ask for the next step, if there is one, in KS parts; all of it with the first where it
     * needs masks. */
    template <int KS>
    GB_DEVICE void fetch(gb_shared_at at, int k)
    {
        if (k == 0) {
            plain = x.whole(deep) && y.whole(deep);
            if (!plain && deep > 0) {
                x.fetch_masked(at, deep);
                y.fetch_masked(at + Tile::X_BYTES, deep);
            }
        }
        if (plain) {
            x.template fetch<KS>(at, k);
            y.template fetch<KS>(at + Tile::X_BYTES, k);
        }
        if (k == KS - 1) {
            gb_copy_commit();
            deep -= Tile::K;
        }
    }

    /* All steps that a tile has before its first product. */
    GB_DEVICE void fill(gb_shared_at at)
    {
        GB_NO_UNROLL
        for (int i = 0; i < Tile::STAGES - 1; i++, at += Tile::STAGE_BYTES)
            fetch<1>(at, 0);
    }
};

/* All but the latest PENDING steps that were asked for are in place, for all threads. */
template <int PENDING>
GB_INLINE void gb_dmma_arrived()
{
    gb_copy_wait_groups<PENDING>();
    gb_sync();
}

/* ---- products ---- */

/* Where a lane finds one operand's elements in a buffer, of TILE, beginning with row `first`. */
template <class Tile, int TILE, bool ACROSS>
struct DmmaReader {
    static constexpr int SIZE = Tile::SIZE;
    static constexpr int PITCH =
        (ACROSS ? Tile::K : TILE) * SIZE + (ACROSS ? 0 : GB_DMMA_PAD);
    static constexpr int FOUR = 4 * SIZE; /* bytes of 4 of k */

    int place;

    GB_DEVICE explicit DmmaReader(int first)
    {
        const int lane = gb_thread() % GB_LANES, row = first + lane / 4, k = lane % 4;

        place = ACROSS ? row * PITCH + gb_dmma_byte(row, k * SIZE, SIZE, true)
                       : k * PITCH + row * SIZE;
    }

    /* The 8 rows `group`, the 4 of k `four`. Across, what gb_dmma_byte flips of the address of
     * the first four it flips of all: the buffer begins with a line. */
    GB_DEVICE void read(typename Tile::T &x, gb_shared_at at, int group, int four) const
    {
        if (ACROSS)
            gb_get_shared(x, ((at + place) ^ (four * FOUR % 128)) + four * FOUR / 128 * 128 +
                                 group * 8 * PITCH);
        else
            gb_get_shared(x, at + place + four * 4 * PITCH + group * 8 * SIZE);
    }
};

template <class Tile>
struct DmmaFrags {
    typename Tile::T x[Tile::XS][Tile::KI / 2], y[Tile::YS][Tile::KI / 4];
};

template <class Tile>
struct DmmaReaders {
    DmmaReader<Tile, Tile::N, Tile::B_ACROSS> x;
    DmmaReader<Tile, Tile::M, Tile::A_ACROSS> y;

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
            for (int i = 0; i < 2 * Tile::XS; i++)
                x.read(frags.x[i / 2][2 * s + i % 2], at, i, k * FOURS + s);
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

    /* flip: conjugate X's elements */
    GB_DEVICE void multiply(const DmmaFrags<Tile> &frags, bool flip)
    {
        if constexpr (Tile::COMPLEX) {
            constexpr int PX = Tile::KI / 2, PY = Tile::KI / 4;
            double xr[Tile::XS][PX], xi[Tile::XS][PX], minus[Tile::XS][PX];
            double yr[Tile::YS][PY], yi[Tile::YS][PY];

            GB_UNROLL
            for (int i = 0; i < Tile::XS; i++) {
                GB_UNROLL
                for (int e = 0; e < PX; e++) {
                    xr[i][e] = frags.x[i][e].re;
                    xi[i][e] = gb_negate_if(flip, frags.x[i][e].im);
                    minus[i][e] = gb_negate_if(!flip, frags.x[i][e].im);
                }
            }
            GB_UNROLL
            for (int j = 0; j < Tile::YS; j++) {
                GB_UNROLL
                for (int e = 0; e < PY; e++) {
                    yr[j][e] = frags.y[j][e].re;
                    yi[j][e] = frags.y[j][e].im;
                }
            }
            gb_dmma_warp<Tile::KI>(part[0], xr, yr);
            gb_dmma_warp<Tile::KI>(part[1], xr, yi);
            gb_dmma_warp<Tile::KI>(part[0], minus, yi);
            gb_dmma_warp<Tile::KI>(part[1], xi, yr);
        } else {
            gb_dmma_warp<Tile::KI>(part[0], frags.x, frags.y);
        }
    }
};

/* The buffers are filled; `deep` of k from the first on. */
template <class Tile>
GB_INLINE void gb_dmma_loop(DmmaLoader<Tile> &loader, int64_t deep, gb_shared_at begin,
                            bool flip, DmmaSums<Tile> &sums)
{
    const gb_shared_at end = begin + Tile::STAGES * Tile::STAGE_BYTES;
    const DmmaReaders<Tile> readers(gb_thread() / GB_LANES);
    gb_shared_at from = begin, to = end - Tile::STAGE_BYTES;
    DmmaFrags<Tile> frags[Tile::SETS];

    gb_dmma_arrived<Tile::STAGES - 2>();
    readers.read(frags[0], from, 0);
    GB_NO_UNROLL
    for (; deep > 0; deep -= Tile::K) {
        GB_UNROLL
        for (int k = 0; k < Tile::KS; k++) {
            if (k == Tile::KS - 1) {
                gb_dmma_arrived<Tile::STAGES - 3>();
                from += Tile::STAGE_BYTES;
                if (from == end)
                    from = begin;
            }
            if (Tile::SETS == 2)
                readers.read(frags[(k + 1) % Tile::SETS], from, (k + 1) % Tile::KS);
            loader.template fetch<Tile::KS>(to, k);
            sums.multiply(frags[k % Tile::SETS], flip);
            if (Tile::SETS == 1)
                readers.read(frags[0], from, (k + 1) % Tile::KS);
        }
        to += Tile::STAGE_BYTES;
        if (to == end)
            to = begin;
    }
}

/* ---- a tile of C ---- */

/* Which elements of its tile a lane owns and may touch, counted from its first one: rows 8j + e,
 * e of 0 and 1, and columns 8c. */
template <class Tile>
struct DmmaOutput {
    typedef typename Tile::T T;
    typedef AccMath<T> Math;
    static constexpr int XS = Tile::XS, YS = Tile::YS, V = Tile::V;

    const gb_gemm_args &g;
    const DmmaWork &work;
    int64_t m, n;   /* C(m, n) is its first element */
    int rows, cols; /* that exist from there on */
    int above;      /* of the first element over the diagonal, clamped to what matters */
    bool flip;      /* the sums are held conjugated */

    GB_DEVICE DmmaOutput(const gb_gemm_args &args, const DmmaWork &work_)
        : g(args), work(work_), flip(args.flags & GB_G_CONJ_A)
    {
        const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
        const int64_t reach = Tile::M + Tile::N;

        m = work.m + warp % Tile::WARPS_M * Tile::WM + lane % 4 * 2;
        n = work.n + warp / Tile::WARPS_M * Tile::WN + lane / 4;
        rows = (int)gb_tile_clamp(g.m - m, 0, Tile::WM);
        cols = (int)gb_tile_clamp(g.n - n, 0, Tile::WN);
        above = (int)gb_tile_clamp(n + g.col0 - m - g.row0, -reach, reach);
    }

    GB_DEVICE bool triangle() const
    {
        return g.flags & (GB_G_UPPER | GB_G_LOWER);
    }

    GB_DEVICE bool has(int r, int c) const
    {
        return r < rows && c < cols && !(g.flags & GB_G_UPPER && above + c < r) &&
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
                    base[8 * c * g.m + row] = Math::conj_if(
                        flip, sums.at(c / 2, r / 2, c % 2 * 2 + r % 2));
            }
        }
    }

    GB_DEVICE T *first() const
    {
        return gb_matrix<T>(g.c, g.c_list, g.c_batch, work.batch) + n * g.ldc + m;
    }

    GB_DEVICE void finish(const DmmaSums<Tile> &sums) const
    {
        const bool read = !(g.flags & GB_G_BETA_ZERO);
        const T alpha = Math::scalar(g.alpha);
        const T beta = read ? Math::scalar(g.beta) : Math::unread(alpha);
        const bool vec = !triangle() && gb_whole<T>(g.c, g.ldc, g.c_batch);
        T *base = first();

        GB_UNROLL
        for (int c = 0; c < 2 * XS; c++) {
            GB_UNROLL
            for (int r = 0; r < 2 * YS; r += V) {
                const int row = r / 2 * 8 + r % 2;
                const bool full = vec && row + V <= rows && 8 * c < cols;
                T *at = base + 8 * c * g.ldc + row;
                Vec<T, V> v = {};

                if (read && full) {
                    v = gb_load<T, V>(at);
                } else if (read) {
                    GB_UNROLL
                    for (int e = 0; e < V; e++)
                        if (has(row + e, 8 * c))
                            v.at[e] = at[e];
                }
                GB_UNROLL
                for (int e = 0; e < V; e++)
                    v.at[e] = Math::epilogue(
                        alpha,
                        Math::conj_if(flip,
                                      sums.at(c / 2, r / 2, c % 2 * 2 + r % 2 + e)),
                        beta, v.at[e]);
                if (full) {
                    gb_store<T, V>(at, v);
                } else {
                    GB_UNROLL
                    for (int e = 0; e < V; e++)
                        if (has(row + e, 8 * c))
                            at[e] = v.at[e];
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

template <class Tile>
GB_INLINE void gb_gemm_dmma(const gb_gemm_args &g)
{
    GB_SHARED(DmmaShared, shared);
    GB_SHARED_DYNAMIC(unsigned char, memory);
    const gb_shared_at begin = gb_shared_of(memory);
    /* conj(a) b is computed as conj(a conj(b)) */
    const bool flip = ((g.flags & GB_G_CONJ_A) != 0) != ((g.flags & GB_G_CONJ_B) != 0);
    const bool last = g.flags & GB_G_EPILOGUE, fused = last && (g.flags & GB_G_FUSED);
    DmmaLoader<Tile> loader;
    int64_t unit = gb_block();
    int now = 0;

    if (gb_thread() == 0)
        gb_dmma_work<Tile::M, Tile::N>(g, unit, shared.work[0]);
    gb_sync();
    if (!shared.work[0].any)
        return;
    loader.init(g, shared.work[0]);
    loader.fill(begin);
    GB_NO_UNROLL
    for (;;) {
        const DmmaWork &work = shared.work[now];
        const int next = now == 2 ? 0 : now + 1;
        DmmaSums<Tile> sums = {};
        bool more;

        unit += gb_grid();
        if (gb_thread() == 0)
            gb_dmma_work<Tile::M, Tile::N>(g, unit, shared.work[next]);
        if (work.deep > 0) {
            if (work.carry)
                DmmaOutput<Tile>(g, work).start(sums);
            gb_dmma_loop<Tile>(loader, work.deep, begin, flip, sums);
        }
        gb_sync();
        more = shared.work[next].any;
        if (fused) {
            DmmaOutput<Tile>(g, work).finish_fused(
                sums, reinterpret_cast<typename Tile::T *>(memory) + gb_thread());
            gb_sync();
        }
        if (more) {
            loader.init(g, shared.work[next]);
            loader.fill(begin);
        }
        if (!last)
            DmmaOutput<Tile>(g, work).keep(sums);
        else if (!fused)
            DmmaOutput<Tile>(g, work).finish(sums);
        if (!more)
            break;
        now = next;
    }
}

#define GB_DMMA_LAYOUT(symbol, shape, blocks, ...)                                     \
    GB_KERNEL(symbol, shape::THREADS, blocks, g)                                       \
    {                                                                                  \
        gb_gemm_dmma<DmmaTile<shape, __VA_ARGS__>>(g);                                 \
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
