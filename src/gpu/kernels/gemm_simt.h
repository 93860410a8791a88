/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_simt, the reference GEMM: every type, every architecture, ordinary multiply-adds.
 * What a launch computes is defined in gemm_args.h.
 *
 * A block computes one tile of C at a time. Tiles of A and B go through two shared-memory
 * buffers: while one is consumed the other is filled (asynchronously where the device can,
 * through registers for 16-bit types, which are widened on the way), one barrier per step of
 * k. Each element of C is one chain of fused multiply-adds in ascending k; the last step runs
 * only over the k that exist, so the bits do not depend on where launches cut k. */
#ifndef GB_GEMM_SIMT_H
#define GB_GEMM_SIMT_H

#include "accumulate.h"
#include "fused.h"
#include "seam.h"

/* ---- shapes ---- */

/* In: type of A and B. Out: of C. Acc: of the sums. PER_*: elements of C of one thread. */
template <class In_, class Out_, class Acc_, int M_, int N_, int K_, int PER_M_,
          int PER_N_>
struct SimtTile {
    typedef In_ In;
    typedef Out_ Out;
    typedef Acc_ Acc;
    static constexpr int M = M_, N = N_, K = K_, PER_M = PER_M_, PER_N = PER_N_;
    /* Without GB_K_PLAIN. Sums in double that take 64 registers leave none to fuse with. */
    static constexpr bool FUSES =
        sizeof(typename FusedMath<Acc>::Real) == 4 || sizeof(Acc) * PER_M * PER_N < 256;
    static constexpr int WARPS_M = M / (GB_LANES_M * PER_M);
    static constexpr int WARPS_N = N / (GB_LANES_N * PER_N);
    static constexpr int THREADS = GB_LANES * WARPS_M * WARPS_N;
    static constexpr int V =
        16 / (int)sizeof(Acc); /* elements of a 128-bit shared load */
    static constexpr int PITCH_M = M + V, PITCH_N = N + V;

    static_assert(WARPS_M * GB_LANES_M * PER_M == M, "warps tile m");
    static_assert(WARPS_N * GB_LANES_N * PER_N == N, "warps tile n");
    static_assert(PER_M % V == 0 && PER_N % V == 0, "threads own whole vectors");
    static_assert(K % 8 == 0 && (sizeof(In) > 2 || K >= 16), "a step of k");
    static_assert(PITCH_M * sizeof(Acc) % 16 == 0 && PITCH_N * sizeof(Acc) % 16 == 0,
                  "rows of shared memory are aligned to 128 bits");
    static_assert(2 * K * (PITCH_M + PITCH_N) * sizeof(Acc) <= 48 * 1024,
                  "static memory");
};

/* What a block does in one turn. */
struct SimtWork {
    int64_t turn;
    gb_tile tile;
    gb_split_range range;
    bool any; /* false: there is no such turn */
};

/* The work lies in shared memory, so that it need not be held in registers from the beginning
 * of the main loop to its end; that of the next turn beside it, so that one barrier will do. */
template <class Tile>
struct alignas(16) SimtShared {
    typename Tile::Acc a[2][Tile::K * Tile::PITCH_M];
    typename Tile::Acc b[2][Tile::K * Tile::PITCH_N];
    SimtWork work[2];
};

/* ---- loading ---- */

/* Where a thread's elements (VECTOR: vectors of elements) of one tile lie: its first place,
 * and constant steps from turn to turn. */
template <int VEC, int TILE, int TILE_K, int THREADS, bool ACROSS, bool VECTOR>
struct SimtWalk {
    static constexpr int UNITS = TILE * TILE_K / (VECTOR ? VEC : 1);
    static constexpr int TURNS = (UNITS + THREADS - 1) / THREADS;
    static constexpr int ROW_STEP = !ACROSS  ? 0
                                    : VECTOR ? THREADS * VEC / TILE_K
                                             : THREADS / 8;
    static constexpr int ROW_TURNS = !ACROSS ? 1 : VECTOR ? TURNS : TILE / ROW_STEP;
    static constexpr int K_STEP = !ACROSS ? THREADS * (VECTOR ? VEC : 1) / TILE : 8;

    static_assert(ACROSS || K_STEP * TILE == THREADS * (VECTOR ? VEC : 1),
                  "whole rows of k");
    static_assert(!ACROSS || VECTOR || ROW_TURNS * ROW_STEP == TILE, "whole columns");

    GB_DEVICE static gb_place first(int thread)
    {
        if (ACROSS)
            return VECTOR ? gb_load_across_vec(thread, TILE_K, VEC)
                          : gb_load_across(thread, TILE);
        return gb_load_along(thread, TILE, VECTOR ? VEC : 1);
    }

    GB_DEVICE static constexpr int row(int turn)
    {
        return turn % ROW_TURNS * ROW_STEP;
    }

    GB_DEVICE static constexpr int k(int turn)
    {
        return turn / ROW_TURNS * K_STEP;
    }
};

/* Brings successive tiles of one operand into shared memory. ACROSS: its unit stride runs
 * along k, so it is transposed on the way. A step is fetch(), then, after the other buffer
 * has been consumed, commit(). */
template <class S, class T, int TILE, int TILE_K, int THREADS, bool ACROSS>
struct SimtLoader {
    static constexpr bool DIRECT =
        sizeof(S) == sizeof(T); /* no conversion: copy async */
    static constexpr int VEC = 16 / (int)sizeof(S);
    static constexpr int PITCH = TILE + 16 / (int)sizeof(T);
    /* a transposing asynchronous copy moves single elements */
    static constexpr bool VECTORS = VEC > 1 && !(DIRECT && ACROSS);
    typedef SimtWalk<VEC, TILE, TILE_K, THREADS, ACROSS, false> Singles;
    typedef SimtWalk<VEC, TILE, TILE_K, THREADS, ACROSS, VECTORS> Vectors;
    static constexpr int HELD_V = Vectors::TURNS * VEC;
    static constexpr int HELD = DIRECT                    ? 1
                                : HELD_V > Singles::TURNS ? HELD_V
                                                          : Singles::TURNS;

    const S *from;  /* this thread's first element of the next tile */
    int64_t stride; /* of the direction that is not the unit one */
    int first_k;    /* in the tile */
    int rows;       /* that exist from this thread's first row on */
    int to;         /* its first place in shared memory */
    bool vec;       /* 128-bit loads are legal */
    bool full;      /* all rows of the tile exist */
    S held[HELD];

    /* base: element (0, 0) of the first tile; whole: all of it is aligned to 16 bytes */
    GB_DEVICE void init(const S *base, int64_t rows_left, int64_t stride_, bool whole)
    {
        gb_place p;

        vec = VECTORS && whole;
        p = vec ? Vectors::first(gb_thread()) : Singles::first(gb_thread());
        stride = stride_;
        from = base + (ACROSS ? p.row * stride + p.k : p.k * stride + p.row);
        first_k = p.k;
        rows = (int)gb_tile_min(rows_left, TILE) - p.row;
        full = rows_left >= TILE;
        to = p.k * PITCH + p.row;
    }

    GB_DEVICE void fetch(T *tile, int64_t left)
    {
        const int k_left = (int)gb_tile_min(left, TILE_K) - first_k;

        if (vec) {
            if (full && left >= TILE_K)
                walk<Vectors, VECTORS, false>(tile + to, k_left);
            else
                walk<Vectors, VECTORS, true>(tile + to, k_left);
        } else {
            if (!VECTORS && full && left >= TILE_K)
                walk<Singles, false, false>(tile + to, k_left);
            else
                walk<Singles, false, true>(tile + to, k_left);
        }
        from += ACROSS ? TILE_K : TILE_K * stride;
    }

    /* MASKED: the tile reaches over an edge. */
    template <class Walk, bool VECTOR, bool MASKED>
    GB_DEVICE void walk(T *at, int k_left)
    {
        const S *column = from;

        GB_UNROLL
        for (int t = 0; t < Walk::TURNS; t += Walk::ROW_TURNS) {
            const S *p = column;

            GB_UNROLL
            for (int u = t; u < t + Walk::ROW_TURNS; u++) {
                constexpr int most = VECTOR ? VEC : 1;
                int exist = most; /* of the vector (or element) here, in elements */

                if constexpr (MASKED) {
                    int across = ACROSS ? rows - Walk::row(u) : k_left - Walk::k(u);
                    int along = ACROSS ? k_left - Walk::k(u) : rows - Walk::row(u);

                    exist = across <= 0 || along <= 0 ? 0 : along < most ? along : most;
                }
                if constexpr (DIRECT)
                    gb_copy_async<most * sizeof(S)>(at + Walk::k(u) * PITCH +
                                                        Walk::row(u),
                                                    p, exist * (int)sizeof(S));
                else
                    hold<VECTOR>(u, p, in_turn<Walk>(u) ? exist : 0);
                p += Walk::ROW_STEP * stride;
            }
            column += ACROSS ? Walk::K_STEP : Walk::K_STEP * stride;
        }
    }

    /* The last turn may have work for some threads only. */
    template <class Walk>
    GB_DEVICE static bool in_turn(int turn)
    {
        return Walk::UNITS % THREADS == 0 || gb_thread() + turn * THREADS < Walk::UNITS;
    }

    template <bool VECTOR>
    GB_DEVICE void hold(int turn, const S *p, int exist)
    {
        if constexpr (!VECTOR) {
            held[turn] = exist ? *p : S{};
        } else {
            Vec<S, VEC> v = {};

            if (exist == VEC) {
                v = gb_load<S, VEC>(p);
            } else {
                GB_UNROLL
                for (int e = 0; e < VEC; e++)
                    if (e < exist)
                        v.at[e] = p[e];
            }
            GB_UNROLL
            for (int e = 0; e < VEC; e++)
                held[turn * VEC + e] = v.at[e];
        }
    }

    GB_DEVICE void commit(T *tile)
    {
        if constexpr (!DIRECT) {
            if (vec) {
                GB_UNROLL
                for (int t = 0; t < Vectors::TURNS; t++) {
                    T *at = tile + to + Vectors::k(t) * PITCH + Vectors::row(t);

                    if (!in_turn<Vectors>(t))
                        break;
                    GB_UNROLL
                    for (int e = 0; e < VEC; e++)
                        gb_widen(held[t * VEC + e], at[ACROSS ? e * PITCH : e]);
                }
            } else {
                GB_UNROLL
                for (int t = 0; t < Singles::TURNS; t++)
                    gb_widen(held[t],
                             tile[to + Singles::k(t) * PITCH + Singles::row(t)]);
            }
        }
    }
};

/* ---- one step of k ---- */

/* The elements of one k that this thread needs: PER of them, V at a time. */
template <class T, int PER, int V, int LANES>
struct SimtFrag {
    T at[PER];

    GB_DEVICE void load(const T *from)
    {
        GB_UNROLL
        for (int g = 0; g < PER / V; g++) {
            Vec<T, V> v = gb_load<T, V>(from + g * LANES * V);

            GB_UNROLL
            for (int e = 0; e < V; e++)
                at[g * V + e] = v.at[e];
        }
    }
};

template <class Tile>
struct SimtSums {
    typedef typename Tile::Acc T;
    typedef SimtFrag<T, Tile::PER_M, Tile::V, GB_LANES_M> FragA;
    typedef SimtFrag<T, Tile::PER_N, Tile::V, GB_LANES_N> FragB;

    T at[Tile::PER_N][Tile::PER_M];

    GB_DEVICE void rank1(const FragA &a, const FragB &b)
    {
        GB_UNROLL
        for (int c = 0; c < Tile::PER_N; c++) {
            GB_UNROLL
            for (int r = 0; r < Tile::PER_M; r++)
                gb_mad(at[c][r], a.at[r], b.at[c]);
        }
    }

    /* flip: conjugate B's elements */
    GB_DEVICE static void load(FragA &a, FragB &b, const T *from_a, const T *from_b,
                               int k, bool flip)
    {
        a.load(from_a + k * Tile::PITCH_M);
        b.load(from_b + k * Tile::PITCH_N);
        if constexpr (AccMath<T>::COMPLEX) {
            GB_UNROLL
            for (int c = 0; c < Tile::PER_N; c++)
                b.at[c] = AccMath<T>::conj_if(flip, b.at[c]);
        }
    }

    GB_DEVICE void step(const T *from_a, const T *from_b, bool flip)
    {
        FragA a[2];
        FragB b[2];

        load(a[0], b[0], from_a, from_b, 0, flip);
        GB_UNROLL
        for (int k = 0; k < Tile::K; k++) {
            if (k + 1 < Tile::K)
                load(a[(k + 1) & 1], b[(k + 1) & 1], from_a, from_b, k + 1, flip);
            rank1(a[k & 1], b[k & 1]);
        }
    }

    GB_DEVICE void step_tail(const T *from_a, const T *from_b, int count, bool flip)
    {
        GB_NO_UNROLL
        for (int k = 0; k < count; k++) {
            FragA a;
            FragB b;

            load(a, b, from_a, from_b, k, flip);
            rank1(a, b);
        }
    }
};

/* ---- a tile of C ---- */

/* Which elements of its tile a thread owns and may touch, in the tile's own coordinates. */
template <class Tile>
struct SimtOutput {
    typedef typename Tile::Acc T;
    typedef typename Tile::Out Out;
    typedef AccMath<T> Math;

    const gb_gemm_args &g;
    const gb_tile &tile;
    int64_t i, j;   /* this thread's first element in C */
    int rows, cols; /* that exist from there on */
    int row0, col0; /* of them the first that are this tile's */
    int above;  /* of the first element over the diagonal, clamped to what matters */
    bool whole; /* no element of the tile lies in the other triangle */

    GB_DEVICE SimtOutput(const gb_gemm_args &args, const gb_tile &tile_)
        : SimtOutput(args, tile_, tile_.i * Tile::M, tile_.j * Tile::N, 0, 0)
    {
    }

    /* A tile that begins with C(i0, j0), and with so many rows and columns of others. */
    GB_DEVICE SimtOutput(const gb_gemm_args &args, const gb_tile &tile_, int64_t i0,
                         int64_t j0, int others_m, int others_n)
        : g(args), tile(tile_)
    {
        const int row =
            gb_frag_row(gb_thread(), 0, Tile::WARPS_M, Tile::PER_M, Tile::V);
        const int col =
            gb_frag_col(gb_thread(), 0, Tile::WARPS_M, Tile::PER_N, Tile::V);
        const int64_t reach = Tile::M + Tile::N;
        const int corner = (int)gb_tile_clamp(j0 + g.col0 - i0 - g.row0, -reach, reach);

        i = i0 + row;
        j = j0 + col;
        rows = (int)gb_tile_min(g.m - i0, Tile::M) - row;
        cols = (int)gb_tile_min(g.n - j0, Tile::N) - col;
        row0 = others_m - row;
        col0 = others_n - col;
        above = corner + col - row;
        whole = !((g.flags & GB_G_UPPER) && corner < Tile::M - 1) &&
                !((g.flags & GB_G_LOWER) && corner > 1 - Tile::N);
    }

    /* Offsets of this thread's element r, c from its first one. */
    GB_DEVICE static constexpr int row(int r)
    {
        return r / Tile::V * Tile::V * GB_LANES_M + r % Tile::V;
    }

    GB_DEVICE static constexpr int col(int c)
    {
        return c / Tile::V * Tile::V * GB_LANES_N + c % Tile::V;
    }

    /* The rows of column c that are wanted, in terms of row(): [low, high). */
    struct Span {
        int low, high;

        GB_DEVICE bool has(int r) const
        {
            return row(r) >= low && row(r) < high;
        }
    };

    GB_DEVICE Span span(int c) const
    {
        const int diagonal = above + col(c);
        Span s = {row0, col(c) >= col0 && col(c) < cols ? rows : 0};

        if (g.flags & GB_G_UPPER && diagonal + 1 < s.high)
            s.high = diagonal + 1;
        if (g.flags & GB_G_LOWER && diagonal > s.low)
            s.low = diagonal;
        return s;
    }

    /* The sums of this split. */
    GB_DEVICE T *partial() const
    {
        return reinterpret_cast<T *>(g.partial) +
               (tile.batch * g.splits + g.split0 + tile.split) * g.m * g.n;
    }

    /* flip: the sums are held conjugated */
    GB_DEVICE void start(SimtSums<Tile> &sums, bool flip) const
    {
        const T *base = partial();

        GB_UNROLL
        for (int c = 0; c < Tile::PER_N; c++) {
            const T *at = base + i + (j + col(c)) * g.m;
            const Span s = span(c);

            GB_UNROLL
            for (int r = 0; r < Tile::PER_M; r++)
                if (s.has(r))
                    sums.at[c][r] = Math::conj_if(flip, at[row(r)]);
        }
    }

    GB_DEVICE void keep(const SimtSums<Tile> &sums, bool flip) const
    {
        T *base = partial();

        GB_UNROLL
        for (int c = 0; c < Tile::PER_N; c++) {
            T *at = base + i + (j + col(c)) * g.m;
            const Span s = span(c);

            GB_UNROLL
            for (int r = 0; r < Tile::PER_M; r++)
                if (s.has(r))
                    at[row(r)] = Math::conj_if(flip, sums.at[c][r]);
        }
    }

    GB_DEVICE bool vectors(const Out *base) const
    {
        return i % Tile::V == 0 &&
               (reinterpret_cast<uintptr_t>(base) | (uintptr_t)g.ldc * sizeof(Out)) %
                       (Tile::V * sizeof(Out)) ==
                   0;
    }

    /* `mine`: PER_M places for this thread alone, THREADS apart. Columns go through them one
     * by one, since registers have no index and what follows is too long to have it often. */
    GB_DEVICE void finish_fused(const SimtSums<Tile> &sums, bool flip, T *mine) const
    {
        constexpr int V = Tile::V;
        Out *base = gb_matrix<Out>(g.c, g.c_list, g.c_batch, tile.batch);
        const bool read = !(g.flags & GB_G_BETA_ZERO);
        const T alpha = Math::scalar(g.alpha);
        const T beta = read ? Math::scalar(g.beta) : Math::unread(alpha);

        GB_NO_UNROLL
        for (int c = 0; c < Tile::PER_N; c++) {
            Out *column = base + i + (j + col(c)) * g.ldc;
            const Span s = span(c);

            GB_UNROLL
            for (int q = 0; q < Tile::PER_N; q++) {
                GB_UNROLL
                for (int r = 0; r < Tile::PER_M; r++)
                    if (q == c)
                        mine[r * Tile::THREADS] = Math::conj_if(flip, sums.at[q][r]);
            }
            GB_NO_UNROLL
            for (int r = 0; r < Tile::PER_M; r += V) {
                const FusedRows<Out, T, V> fused(g, tile.batch, i + row(r),
                                                 s.high - row(r));
                T v[V], old[V] = {};

                if (row(r) >= s.high)
                    break;
                GB_UNROLL
                for (int e = 0; e < V; e++) {
                    v[e] = mine[(r + e) * Tile::THREADS];
                    if (read && s.has(r + e))
                        gb_widen(column[row(r + e)], old[e]);
                }
                fused.apply(j + col(c), alpha, beta, old, v);
                GB_UNROLL
                for (int e = 0; e < V; e++)
                    if (s.has(r + e))
                        gb_narrow(v[e], column[row(r + e)]);
            }
        }
    }

    GB_DEVICE void finish(const SimtSums<Tile> &sums, bool flip) const
    {
        constexpr int V = Tile::V;
        Out *base = gb_matrix<Out>(g.c, g.c_list, g.c_batch, tile.batch);
        const bool read = !(g.flags & GB_G_BETA_ZERO);
        const T alpha = Math::scalar(g.alpha);
        const T beta = read ? Math::scalar(g.beta) : Math::unread(alpha);
        const bool vec = V > 1 && whole && vectors(base);

        GB_UNROLL
        for (int c = 0; c < Tile::PER_N; c++) {
            Out *column = base + i + (j + col(c)) * g.ldc;
            const Span s = span(c);

            GB_UNROLL
            for (int r = 0; r < Tile::PER_M; r += V) {
                const bool full = vec && row(r) >= s.low && row(r) + V <= s.high;
                Out *at = column + row(r);
                Vec<Out, V> v = {};

                if (read && full) {
                    v = gb_load<Out, V>(at);
                } else if (read) {
                    GB_UNROLL
                    for (int e = 0; e < V; e++)
                        if (s.has(r + e))
                            v.at[e] = at[e];
                }
                GB_UNROLL
                for (int e = 0; e < V; e++) {
                    T old;

                    gb_widen(v.at[e], old);
                    gb_narrow(Math::epilogue(alpha,
                                             Math::conj_if(flip, sums.at[c][r + e]),
                                             beta, old),
                              v.at[e]);
                }
                if (full) {
                    gb_store<Out, V>(at, v);
                } else {
                    GB_UNROLL
                    for (int e = 0; e < V; e++)
                        if (s.has(r + e))
                            at[e] = v.at[e];
                }
            }
        }
    }
};

/* ---- the kernel ---- */

/* Out of line: one copy of many divisions. */
GB_NOINLINE void gb_simt_work(const gb_gemm_args &g, int tile_m, int tile_n,
                              int64_t turn, SimtWork &work)
{
    gb_tile_map map;
    int64_t unit = gb_tile_persistent_unit(gb_grid(), gb_block(), turn);

    work.turn = turn;
    gb_tile_map_init(&map, &g, tile_m, tile_n);
    work.any = unit < gb_tile_map_units(&map);
    if (work.any) {
        gb_tile_map_at(&map, unit, &work.tile);
        gb_split_range_init(&work.range, &g, g.split0 + work.tile.split);
    }
}

template <class Tile, bool A_ACROSS, bool B_ACROSS>
GB_INLINE void gb_gemm_simt(const gb_gemm_args &g)
{
    typedef typename Tile::In In;
    typedef typename Tile::Acc T;
    typedef SimtShared<Tile> Shared;
    GB_SHARED(Shared, shared);
    const int64_t stride_a = A_ACROSS ? g.a_m : g.a_k;
    const int64_t stride_b = B_ACROSS ? g.b_n : g.b_k;
    const bool whole_a = gb_whole<In>(g.a, stride_a, g.a_batch);
    const bool whole_b = gb_whole<In>(g.b, stride_b, g.b_batch);
    /* conj(a) b is computed as conj(a conj(b)): only B's elements are ever flipped, and the
     * sums are held conjugated */
    const bool conj_a = g.flags & GB_G_CONJ_A, conj_b = g.flags & GB_G_CONJ_B;
    const bool last = g.flags & GB_G_EPILOGUE;

    if (gb_thread() == 0)
        shared.work[1].turn = -1;
    GB_NO_UNROLL
    for (int slot = 0;; slot ^= 1) {
        const SimtWork &work = shared.work[slot];
        SimtLoader<In, T, Tile::M, Tile::K, Tile::THREADS, A_ACROSS> load_a;
        SimtLoader<In, T, Tile::N, Tile::K, Tile::THREADS, B_ACROSS> load_b;
        SimtSums<Tile> sums = {};
        int64_t left, skip;
        int row, col; /* this thread's corner of the shared tiles */
        int now = 0;

        if (gb_thread() == 0)
            gb_simt_work(g, Tile::M, Tile::N, shared.work[slot ^ 1].turn + 1,
                         shared.work[slot]);
        gb_sync();
        if (!work.any)
            break;
        row = gb_frag_row(gb_thread(), 0, Tile::WARPS_M, Tile::PER_M, Tile::V);
        col = gb_frag_col(gb_thread(), 0, Tile::WARPS_M, Tile::PER_N, Tile::V);
        left = work.range.end - work.range.begin;
        if (last && g.alpha[0] == 0 && g.alpha[1] == 0)
            left = 0;
        else if (work.range.carry)
            SimtOutput<Tile>(g, work.tile).start(sums, conj_a);

        if (left > 0) {
            skip = work.range.begin - g.k_begin;
            load_a.init(gb_matrix<const In>(g.a, g.a_list, g.a_batch, work.tile.batch) +
                            (A_ACROSS ? skip + work.tile.i * Tile::M * stride_a
                                      : skip * stride_a + work.tile.i * Tile::M),
                        g.m - work.tile.i * Tile::M, stride_a,
                        whole_a && (!A_ACROSS || skip * sizeof(In) % 16 == 0));
            load_b.init(gb_matrix<const In>(g.b, g.b_list, g.b_batch, work.tile.batch) +
                            (B_ACROSS ? skip + work.tile.j * Tile::N * stride_b
                                      : skip * stride_b + work.tile.j * Tile::N),
                        g.n - work.tile.j * Tile::N, stride_b,
                        whole_b && (!B_ACROSS || skip * sizeof(In) % 16 == 0));
            load_a.fetch(shared.a[0], left);
            load_b.fetch(shared.b[0], left);
            load_a.commit(shared.a[0]);
            load_b.commit(shared.b[0]);
            gb_copy_wait();
            gb_sync();
        }
        for (; left >= Tile::K; left -= Tile::K, now ^= 1) {
            const bool more = left > Tile::K;

            if (more) {
                load_a.fetch(shared.a[now ^ 1], left - Tile::K);
                load_b.fetch(shared.b[now ^ 1], left - Tile::K);
            }
            sums.step(shared.a[now] + row, shared.b[now] + col, conj_a != conj_b);
            if (more) {
                load_a.commit(shared.a[now ^ 1]);
                load_b.commit(shared.b[now ^ 1]);
                gb_copy_wait();
            }
            gb_sync();
        }
        if (left > 0) {
            sums.step_tail(shared.a[now] + row, shared.b[now] + col, (int)left,
                           conj_a != conj_b);
            gb_sync();
        }
        if (Tile::FUSES && last && (g.flags & GB_G_FUSED)) {
            static_assert(Tile::PER_M * Tile::THREADS <= 2 * Tile::K * Tile::PITCH_M,
                          "the buffers have room");
            SimtOutput<Tile>(g, work.tile)
                .finish_fused(sums, conj_a, shared.a[0] + gb_thread());
        } else if (last)
            SimtOutput<Tile>(g, work.tile).finish(sums, conj_a);
        else
            SimtOutput<Tile>(g, work.tile).keep(sums, conj_a);
    }
}

/* The four layouts of one row of kernels.def; BLOCKS per multiprocessor bound the registers.
 * B's unit stride along its rows is along k. */
#define GB_SIMT(name, blocks, ...)                                                     \
    typedef SimtTile<__VA_ARGS__> name##_tile;                                         \
    GB_KERNEL(gb_##name##_nn, name##_tile::THREADS, blocks, g)                         \
    {                                                                                  \
        gb_gemm_simt<name##_tile, false, true>(g);                                     \
    }                                                                                  \
    GB_KERNEL(gb_##name##_nt, name##_tile::THREADS, blocks, g)                         \
    {                                                                                  \
        gb_gemm_simt<name##_tile, false, false>(g);                                    \
    }                                                                                  \
    GB_KERNEL(gb_##name##_tn, name##_tile::THREADS, blocks, g)                         \
    {                                                                                  \
        gb_gemm_simt<name##_tile, true, true>(g);                                      \
    }                                                                                  \
    GB_KERNEL(gb_##name##_tt, name##_tile::THREADS, blocks, g)                         \
    {                                                                                  \
        gb_gemm_simt<name##_tile, true, false>(g);                                     \
    }

#endif
