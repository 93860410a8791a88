/* SPDX-License-Identifier: BSD-3-Clause */
/* What kernels have in common that bring both operands of their own type into shared memory by
 * asynchronous copies, several steps of k ahead: which tile a block has, the copies, the main
 * loop and the turns of a persistent grid. gemm_dmma and gemm_ffma are made of it.
 *
 * K of k at a time lie in one of STAGES buffers, X's (op(B)) elements first, then Y's (op(A)).
 * Buffers are filled STAGES - 1 steps ahead, fragments read one product ahead, over the end of a
 * step as well, whose barrier so is passed while the multipliers are busy. C is written from
 * registers; the buffers are free then, and the next tile's first steps are under way meanwhile.
 *
 * Copies are of 16 bytes along an operand's unit stride where addresses and leading dimensions
 * are multiples of them, else of what every matrix allows: no repair, and no cliff. What lies
 * past the end of m, n or k is filled with zeros by the copies' byte counts; the main loop has
 * no other mask. Nothing outside a matrix is read.
 *
 * A family brings a Tile (the numbers; how its operands lie in a buffer, as two Walks; Frags,
 * Readers, Sums and Output) and gets gb_gemm_staged<Tile>(). */
#ifndef GB_STAGED_H
#define GB_STAGED_H

#include "accumulate.h"
#include "fused.h"
#include "shared_memory.h"

/* What a block does in one turn. */
struct StagedWork {
    int64_t m, n;           /* C(m, n) is its first element */
    int others_m, others_n; /* the first rows and columns, which are another tile's */
    int64_t batch;
    int64_t split; /* of the whole problem */
    int64_t k;     /* where its sums begin, from the launch's k_begin */
    int64_t deep;  /* of k to sum */
    bool carry;    /* the sums began in an earlier launch */
    bool any;      /* false: there is no such turn */
    bool wide;     /* copies are Wide (below), where an operand has any */
};

/* The last tile, which may still be on its way to C; this one; the next. */
struct StagedShared {
    StagedWork work[3];
    int64_t unit, units; /* the first thread's; of the launch */
};
static_assert(sizeof(StagedShared) <= 256, "GB_KERNEL_STATIC");

/* All tiles are to be computed. */
struct StagedAll {
    GB_DEVICE static bool wants(int64_t, int64_t, int64_t)
    {
        return true;
    }
};

/* Where a tile begins. The last of a side would reach past the matrix, and copies with masks are
 * slow: it begins early and computes again what is another's, and stores none of that. */
GB_INLINE int64_t gb_staged_begin(int64_t tile, int side, int64_t all, int &others)
{
    const int64_t at = tile * side;
    const int64_t begin = all < side ? at : gb_tile_min(at, all - side);

    others = (int)(at - begin);
    return begin;
}

/* The first tile that `pick` wants, from `unit` on by whole grids. Out of line: one copy for four
 * layouts. `units`: how many there are, from the first call on; a triangle takes long to count. */
template <int M, int N, class Pick>
GB_NOINLINE void gb_staged_work(const gb_gemm_args &g, Pick pick, int64_t &unit,
                                bool first, int64_t &units, StagedWork &work)
{
    gb_split_range range;
    gb_tile_map32 small;
    gb_tile tile;

    work.any = first || unit < units;
    if (!work.any)
        return;
    for (;; unit += gb_grid()) {
        if (gb_tile_map32_whole(&small, &g, M, N)) {
            units = small.units;
            if (unit < units)
                gb_tile_map32_at(&small, (uint32_t)unit, &tile);
        } else {
            gb_tile_map map;

            gb_tile_map_init(&map, &g, M, N);
            units = gb_tile_map_units(&map);
            if (unit < units)
                gb_tile_map_at(&map, unit, &tile);
        }
        work.any = unit < units;
        if (!work.any)
            return;
        if (pick.wants(tile.i * M, tile.j * N, tile.batch))
            break;
    }
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = gb_staged_begin(tile.i, M, g.m, work.others_m);
    work.n = gb_staged_begin(tile.j, N, g.n, work.others_n);
    work.batch = tile.batch;
    work.split = g.split0 + tile.split;
    work.k = range.begin - g.k_begin;
    work.deep = range.end - range.begin;
    work.carry = range.carry;
    if ((g.flags & GB_G_EPILOGUE) && g.alpha[0] == 0 && g.alpha[1] == 0)
        work.deep = 0; /* the sum counts for nothing, not even as a NaN */
}

GB_INLINE uint32_t gb_staged_steps(int64_t deep, int k)
{
    return (uint32_t)((deep + k - 1) / k);
}

/* ---- loading ---- */

/* Which copies are a thread's: TURNS of rows ROW_STEP apart along the stride that is not the unit
 * one, in each of which INNER ones lie INNER_BYTES apart. A family's Walk<UNIT> has these, how
 * many bytes a copy has (UNIT), the thread's first row() and byte() of it, and place(), where that
 * lies in the buffer, and place(turn, inner), how far from there the others do. */

/* Brings successive steps of one operand, TILE of m or n, into shared memory. ACROSS: its unit
 * stride runs along k. LEAST: bytes of the copies that every matrix allows. */
template <class T, int TILE, int K, bool ACROSS, class Wide, class Least>
struct StagedCopier {
    static constexpr int SIZE = sizeof(T);

    static constexpr bool WIDENS = Wide::UNIT > Least::UNIT;

    const unsigned char *from; /* this thread's first bytes of the next step */
    int64_t step;              /* bytes from turn to turn */
    int to;

    /* Copies of Wide are legal. base: element (0, 0) of the first step. */
    GB_DEVICE static bool aligned(const T *base, int64_t stride)
    {
        return !WIDENS ||
               (reinterpret_cast<uintptr_t>(base) | (uint64_t)stride * SIZE) % 16 == 0;
    }

    GB_DEVICE void init(const T *base, int64_t stride, bool wide)
    {
        from = reinterpret_cast<const unsigned char *>(base);
        stride *= SIZE;
        if (WIDENS && wide)
            start<Wide>(stride);
        else
            start<Least>(stride);
    }

    template <class Walk>
    GB_DEVICE void start(int64_t stride)
    {
        from += Walk::row() * stride + Walk::byte();
        step = Walk::ROW_STEP * stride;
        to = Walk::place();
    }

    /* Part k of KS of a step. Addresses move on whether there are copies or not, so that they
     * do not wait for the answer. */
    template <class Walk, int KS>
    GB_DEVICE void part(gb_shared_at at, int k, bool any)
    {
        GB_UNROLL
        for (int turn = Walk::TURNS * k / KS; turn < Walk::TURNS * (k + 1) / KS;
             turn++, from += step) {
            if (any) {
                GB_UNROLL
                for (int i = 0; i < Walk::INNER; i++)
                    gb_copy<Walk::UNIT>(at + to + Walk::place(turn, i),
                                        from + i * Walk::INNER_BYTES);
            }
        }
        if (ACROSS && k == KS - 1)
            from += K * SIZE - Walk::TURNS * step;
    }

    /* A whole step of which only so many rows, and so many of k, exist. */
    template <class Walk>
    GB_DEVICE void masked(gb_shared_at at, int rows, int deep) const
    {
        const int across = ACROSS ? rows : deep;
        const int bytes = (ACROSS ? deep : rows) * SIZE - Walk::byte();
        const unsigned char *source = from;
        int row = Walk::row();

        GB_NO_UNROLL
        for (int turn = 0; turn < Walk::TURNS;
             turn++, source += step, row += Walk::ROW_STEP) {
            GB_UNROLL
            for (int i = 0; i < Walk::INNER; i++) {
                const int left = bytes - i * Walk::INNER_BYTES;
                const int most = left < 0 ? 0 : left < Walk::UNIT ? left : Walk::UNIT;

                gb_copy<Walk::UNIT>(at + to + Walk::place(turn, i),
                                    source + i * Walk::INNER_BYTES,
                                    row < across ? most : 0);
            }
        }
    }

    template <int KS>
    GB_DEVICE void fetch(gb_shared_at at, int k, bool wide, bool any)
    {
        if (WIDENS && wide)
            part<Wide, KS>(at, k, any);
        else
            part<Least, KS>(at, k, any);
    }

    /* left: rows from the tile's first to the matrix's end */
    GB_DEVICE void fetch_masked(gb_shared_at at, int64_t left, int deep,
                                bool wide) const
    {
        const int rows = (int)gb_tile_min(left, TILE);

        if (WIDENS && wide)
            masked<Wide>(at, rows, deep);
        else
            masked<Least>(at, rows, deep);
    }
};

/* Of what is seldom wanted nothing is kept in registers: it follows from the arguments and from
 * StagedWork. */
template <class Tile>
struct StagedLoader {
    typedef typename Tile::T T;
    static constexpr bool WIDENS = Tile::X::WIDENS || Tile::Y::WIDENS;

    typename Tile::X x;
    typename Tile::Y y;
    uint32_t whole; /* steps that are not yet asked for: that need no mask */
    uint32_t rest;  /* and after them those that do */
    bool plain;     /* the step that is being asked for is one of the former */

    GB_DEVICE static const T *a(const gb_gemm_args &g, const StagedWork &work)
    {
        return gb_matrix<const T>(g.a, g.a_list, g.a_batch, work.batch) +
               work.k * g.a_k + work.m * g.a_m;
    }

    GB_DEVICE static const T *b(const gb_gemm_args &g, const StagedWork &work)
    {
        return gb_matrix<const T>(g.b, g.b_list, g.b_batch, work.batch) +
               work.k * g.b_k + work.n * g.b_n;
    }

    GB_DEVICE static int64_t stride_a(const gb_gemm_args &g)
    {
        return Tile::A_ACROSS ? g.a_m : g.a_k;
    }

    GB_DEVICE static int64_t stride_b(const gb_gemm_args &g)
    {
        return Tile::B_ACROSS ? g.b_n : g.b_k;
    }

    GB_DEVICE static bool aligned(const gb_gemm_args &g, const StagedWork &work)
    {
        return WIDENS && Tile::X::aligned(b(g, work), stride_b(g)) &&
               Tile::Y::aligned(a(g, work), stride_a(g));
    }

    GB_DEVICE void init(const gb_gemm_args &g, const StagedWork &work)
    {
        const uint32_t steps = gb_staged_steps(work.deep, Tile::K);

        x.init(b(g, work), stride_b(g), work.wide);
        y.init(a(g, work), stride_a(g), work.wide);
        rest = g.m - work.m < Tile::M || g.n - work.n < Tile::N
                   ? steps
                   : work.deep % Tile::K != 0;
        whole = steps - rest;
    }

    /* Ask for the next step, if there is one, in KS parts; all of it with the first where it
     * needs masks. `wide` is work's, or a constant like it. */
    template <int KS>
    GB_DEVICE void fetch(const gb_gemm_args &g, const StagedWork &work, gb_shared_at at,
                         int k, bool wide)
    {
        if (k == 0) {
            plain = whole > 0;
            if (plain) {
                whole--;
            } else if (rest > 0) {
                const int tail = (int)((work.deep - 1) % Tile::K) + 1;
                const int deep = --rest == 0 ? tail : Tile::K;

                x.fetch_masked(at, g.n - work.n, deep, wide);
                y.fetch_masked(at + Tile::X_BYTES, g.m - work.m, deep, wide);
            }
        }
        x.template fetch<KS>(at, k, wide, plain);
        y.template fetch<KS>(at + Tile::X_BYTES, k, wide, plain);
        if (k == KS - 1)
            gb_copy_commit();
    }

    /* All steps that a tile has before its first product. */
    GB_DEVICE void fill(const gb_gemm_args &g, const StagedWork &work, gb_shared_at at)
    {
        GB_NO_UNROLL
        for (int i = 0; i < Tile::STAGES - 1; i++, at += Tile::STAGE_BYTES)
            fetch<1>(g, work, at, 0, work.wide);
    }
};

/* All but the latest PENDING steps that were asked for are in place, for all threads. */
template <int PENDING>
GB_INLINE void gb_staged_arrived()
{
    gb_copy_wait_groups<PENDING>();
    gb_sync();
}

template <class Tile, class Pick>
GB_INLINE void gb_staged_turn(const gb_gemm_args &g, const Pick &pick, int64_t &unit,
                              bool first, int64_t &units, StagedWork &work)
{
    gb_staged_work<Tile::M, Tile::N>(g, pick, unit, first, units, work);
    if (work.any)
        work.wide = StagedLoader<Tile>::aligned(g, work);
}

/* ---- products ---- */

/* The buffers are filled with the first steps of `work`. */
template <class Tile>
GB_INLINE void gb_staged_loop(const gb_gemm_args &g, const StagedWork &work,
                              StagedLoader<Tile> &loader, gb_shared_at begin, bool wide,
                              bool flip, typename Tile::Sums &sums)
{
    static_assert(Tile::SETS == 1 || Tile::KS % 2 == 0,
                  "a step begins with the first set");
    const gb_shared_at end = begin + Tile::STAGES * Tile::STAGE_BYTES;
    const typename Tile::Readers readers(gb_thread() / GB_LANES);
    gb_shared_at from = begin, to = end - Tile::STAGE_BYTES;
    typename Tile::Frags frags[Tile::SETS];

    gb_staged_arrived<Tile::STAGES - 2>();
    readers.read(frags[0], from, 0);
    GB_NO_UNROLL
    for (uint32_t steps = gb_staged_steps(work.deep, Tile::K); steps > 0; steps--) {
        GB_UNROLL
        for (int k = 0; k < Tile::KS; k++) {
            if (k == Tile::KS - 1) {
                gb_staged_arrived<Tile::STAGES - 3>();
                from += Tile::STAGE_BYTES;
                if (from == end)
                    from = begin;
            }
            if (Tile::SETS == 2)
                readers.read(frags[(k + 1) % Tile::SETS], from, (k + 1) % Tile::KS);
            loader.template fetch<Tile::KS>(g, work, to, k, wide);
            sums.multiply(frags[k % Tile::SETS], k, flip);
            if (Tile::SETS == 1)
                readers.read(frags[0], from, (k + 1) % Tile::KS);
        }
        to += Tile::STAGE_BYTES;
        if (to == end)
            to = begin;
    }
}

/* A loop for each width of copies: a choice in its midst would cut it into pieces, which
 * compilers order one by one. */
template <class Tile>
GB_INLINE void gb_staged_sum(const gb_gemm_args &g, const StagedWork &work,
                             StagedLoader<Tile> &loader, gb_shared_at begin, bool flip,
                             typename Tile::Sums &sums)
{
    if (StagedLoader<Tile>::WIDENS && work.wide)
        gb_staged_loop<Tile>(g, work, loader, begin, true, flip, sums);
    else
        gb_staged_loop<Tile>(g, work, loader, begin, false, flip, sums);
}

/* ---- the kernel ---- */

template <class Tile, class Pick = StagedAll>
GB_INLINE void gb_gemm_staged(const gb_gemm_args &g, const Pick &pick = Pick())
{
    GB_SHARED(StagedShared, shared);
    GB_SHARED_DYNAMIC(unsigned char, memory);
    const gb_shared_at begin = gb_shared_of(memory);
    /* conj(a) b is computed as conj(a conj(b)) */
    const bool flip = ((g.flags & GB_G_CONJ_A) != 0) != ((g.flags & GB_G_CONJ_B) != 0);
    const bool last = g.flags & GB_G_EPILOGUE, fused = last && (g.flags & GB_G_FUSED);
    StagedLoader<Tile> loader;
    int now = 0;

    if (gb_thread() == 0) {
        shared.unit = gb_block();
        gb_staged_turn<Tile>(g, pick, shared.unit, true, shared.units, shared.work[0]);
    }
    gb_sync();
    if (!shared.work[0].any)
        return;
    loader.init(g, shared.work[0]);
    loader.fill(g, shared.work[0], begin);
    GB_NO_UNROLL
    for (;;) {
        const StagedWork &work = shared.work[now];
        const int next = now == 2 ? 0 : now + 1;
        typename Tile::Sums sums = {};
        bool more;

        if (gb_thread() == 0) {
            shared.unit += gb_grid();
            gb_staged_turn<Tile>(g, pick, shared.unit, false, shared.units,
                                 shared.work[next]);
        }
        if (work.deep > 0) {
            if (work.carry)
                typename Tile::Output(g, work).start(sums);
            /* where flipping would cost, there are two loops */
            if (Tile::FLIPS_APART && flip)
                gb_staged_sum<Tile>(g, work, loader, begin, true, sums);
            else
                gb_staged_sum<Tile>(g, work, loader, begin, !Tile::FLIPS_APART && flip,
                                    sums);
        }
        gb_sync();
        more = shared.work[next].any;
        if (fused) {
            typename Tile::Output(g, work).finish_fused(
                sums, reinterpret_cast<typename Tile::T *>(memory) + gb_thread());
            gb_sync();
        }
        if (more) {
            loader.init(g, shared.work[next]);
            loader.fill(g, shared.work[next], begin);
        }
        if (!last)
            typename Tile::Output(g, work).keep(sums);
        else if (!fused)
            typename Tile::Output(g, work).finish(sums);
        if (!more)
            break;
        now = next;
    }
}

#endif
