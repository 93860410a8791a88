/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma from its sums on: to C, through shared memory or from registers, or to the workspace
 * of partial sums. gemm_wgmma.h says which when, and why. */
#ifndef GB_WGMMA_EPILOGUE_H
#define GB_WGMMA_EPILOGUE_H

#include "fused.h"
#include "shift.h"
#include "wgmma_tile.h"

/* ---- between registers, shared memory and C ---- */

/* Where in the tile the pair of sums d[a], d[a + 1] of this lane is: column of C (from its
 * warp's first of 16) and row. */
GB_INLINE int gb_wgmma_pair_n(int lane, int a)
{
    return lane / 4 + a % 4 / 2 * 8;
}

GB_INLINE int gb_wgmma_pair_m(int lane, int a)
{
    return a / 4 * 8 + lane % 4 * 2;
}

/* Byte of (column of C, byte x of its 128) in a buffer. */
GB_INLINE int gb_wgmma_swizzled(int column, int x)
{
    return column * 128 + (x ^ column % 8 * 16);
}

template <class T>
GB_INLINE T &gb_wgmma_element(unsigned char *buffer, int column, int row)
{
    return *reinterpret_cast<T *>(buffer +
                                  gb_wgmma_swizzled(column, row * (int)sizeof(T)));
}

/* A warp's part between its buffer and a column-major matrix of which m x n elements are left.
 * get() is for matrices that TMA cannot describe: words of two 16-bit elements where a column
 * has them, which has one element before its first word when it begins inside one. */
template <class T, int PART>
struct WgmmaColumns {
    static constexpr int WORD = 4 / (int)sizeof(T);
    static constexpr bool PAIRS = WORD == 2;

    T *matrix;
    int64_t ld;
    int rows, columns; /* that exist */
    unsigned char *buffer;

    GB_DEVICE WgmmaColumns(T *at, int64_t ld_, int64_t m, int64_t n,
                           unsigned char *part)
        : matrix(at), ld(ld_), rows((int)gb_tile_min(m, PART)),
          columns((int)gb_tile_min(n, 16)), buffer(part)
    {
    }

    GB_DEVICE static int ahead(const T *column)
    {
        return PAIRS ? (int)(reinterpret_cast<uintptr_t>(column) / sizeof(T) % 2) : 0;
    }

    /* Where every column is aligned to vectors: several columns at once. */
    GB_DEVICE void put_vectors() const
    {
        constexpr int V = 16 / (int)sizeof(T), ACROSS = PART / V, AT_ONCE = 32 / ACROSS;
        constexpr int TURNS = 16 / AT_ONCE;
        const int lane = gb_thread() % 32, row = lane % ACROSS * V;
        T *to = matrix + lane / ACROSS * ld + row;
        Vec<T, V> v[TURNS];

        GB_UNROLL
        for (int i = 0; i < TURNS; i++)
            v[i] = gb_load<T, V>(
                &gb_wgmma_element<T>(buffer, lane / ACROSS + i * AT_ONCE, row));
        if (rows >= PART && columns >= 16) {
            GB_UNROLL
            for (int i = 0; i < TURNS; i++)
                gb_store_whole(to + i * AT_ONCE * ld, v[i]);
            return;
        }
        GB_UNROLL
        for (int i = 0; i < TURNS; i++, to += AT_ONCE * ld) {
            const int j = lane / ACROSS + i * AT_ONCE;

            if (j < columns && row + V <= rows)
                gb_store_whole(to, v[i]);
            GB_NO_UNROLL
            for (int e = 0; j < columns && row + V > rows && row + e < rows; e++)
                to[e] = gb_wgmma_element<T>(buffer, j, row + e);
        }
    }

    /* Columns of 32-bit elements that begin anywhere: a lane has one of each. */
    GB_DEVICE void put_words() const
    {
        const int lane = gb_thread() % 32;

        static_assert(PART <= 32, "a lane for each");
        GB_UNROLL_BY(4)
        for (int j = 0; j < columns; j++)
            if (lane < rows)
                matrix[lane + j * ld] = gb_wgmma_element<T>(buffer, j, lane);
    }

    /* What does not exist is not written here either: nobody stores it. */
    GB_DEVICE void get() const
    {
        const int lane = gb_thread() % 32;

        GB_UNROLL_BY(4)
        for (int j = 0; j < columns; j++) {
            const T *const from = matrix + j * ld;
            const int row = lane * WORD + ahead(from);

            if (PAIRS && row + 1 < rows) {
                const Vec<T, 2> v = gb_load<T, 2>(from + row);

                gb_wgmma_element<T>(buffer, j, row) = v.at[0];
                gb_wgmma_element<T>(buffer, j, row + 1) = v.at[1];
            } else if (row < rows) {
                gb_wgmma_element<T>(buffer, j, row) = from[row];
            }
            if (lane < ahead(from) && rows > 0)
                gb_wgmma_element<T>(buffer, j, 0) = from[0];
        }
    }
};

/* Stores of columns of 16-bit elements that begin anywhere, all of a tile's rows of them: whole
 * lines of memory, and what lies before the first and after the last. A line has elements of two
 * parts, which the buffers hold at once. It is stored in vectors, which lie in two of a buffer
 * each. What costs is the number of instructions, one after the other: a warp is alone on its
 * scheduler. */
template <class Tile>
struct WgmmaLines {
    typedef typename Tile::Out T;
    static constexpr int SIZE = (int)sizeof(T), V = 16 / SIZE, LINE = 128 / SIZE;
    static_assert(Tile::BUFFERS > 1, "a line has elements of two parts");

    T *matrix; /* the first column, at the tile's first row */
    int64_t ld;
    int rows, columns; /* that exist */

    /* Bytes of a column before its first line. */
    GB_DEVICE static int before(const T *column)
    {
        return (int)((0u - (uint32_t) reinterpret_cast<uintptr_t>(column)) & 127);
    }

    /* gb_wgmma_swizzled(), of any byte along a column */
    GB_DEVICE static int place(int j, int byte)
    {
        return j * 128 + ((byte & 127) ^ (j & 7) * 16);
    }

    /* Line `at` of each column, -1 being what lies before the first; a part has its first
     * elements, and the next the rest. Columns `first` and on, four to a turn. */
    template <int TURNS>
    GB_DEVICE void put_some(int at, const unsigned char *part,
                            const unsigned char *next, int first) const
    {
        const int lane = gb_thread() % 32;
        Vec<uint32_t, 4> two[TURNS][2];

        GB_UNROLL
        for (int i = 0; i < TURNS; i++) {
            const int j = first + lane / 8 + 4 * i;
            const int x = before(matrix + j * ld) + lane % 8 * 16;
            const int row = at * LINE + x / SIZE;

            if (row < 0 || row + V > rows || j >= columns)
                continue;
            GB_UNROLL
            for (int half = 0; half < 2; half++) {
                /* with nothing to skip the second is not looked at, and may not exist */
                const int from = (x & ~15) + (x & 15 ? half * 16 : 0);

                two[i][half] = gb_load<uint32_t, 4>(reinterpret_cast<const uint32_t *>(
                    (from < 128 ? part : next) + place(j, from)));
            }
        }
        GB_UNROLL
        for (int i = 0; i < TURNS; i++) {
            const int j = first + lane / 8 + 4 * i;
            T *const column = matrix + j * ld;
            const int x = before(column) + lane % 8 * 16, row = at * LINE + x / SIZE;

            if (row >= 0 && row + V <= rows && j < columns)
                gb_store_whole(reinterpret_cast<uint32_t *>(column + row),
                               gb_shift_vectors(two[i], x & 15));
        }
    }
    GB_DEVICE void put(int at, const unsigned char *part,
                       const unsigned char *next) const
    {
        /* as many as registers allow beside the sums */
        constexpr int SUMS = Tile::MI * Tile::BN / 2;
        constexpr int TURNS = SUMS < 96 ? 4 : SUMS < 128 || Tile::WGS > 1 ? 2 : 1;

        GB_NO_UNROLL
        for (int i = 0; i < 4; i += TURNS)
            put_some<TURNS>(at, part, next, 4 * i);
    }

    /* Less than a vector at the beginning of a column, and at its end, a lane for each element:
     * part `index` was just made, and `last` is the one before it. */
    GB_DEVICE void put_ends(int index, const unsigned char *last,
                            const unsigned char *part) const
    {
        const int lane = gb_thread() % 32, e = lane % 8;
        const bool begins = index == 0, ends = index == (rows - 1) / LINE;

        if (!begins && !ends)
            return;
        GB_UNROLL_BY(2)
        for (int j = lane / 8; j < columns; j += 4) {
            T *const column = matrix + j * ld;
            const int head = before(column) / SIZE & (V - 1);
            const int tail = rows > head ? (rows - head) & (V - 1) : 0;
            const int row = rows - tail + e;

            if (begins && e < head && e < rows)
                column[e] = *reinterpret_cast<const T *>(part + place(j, e * SIZE));
            if (ends && e < tail)
                column[row] = *reinterpret_cast<const T *>(
                    (row / LINE == index ? part : last) + place(j, row * SIZE));
        }
    }
};

/* Partial sums, between the registers and the workspace of gemm_args.h: eight columns of four
 * lanes at once, each 32 bytes of one column, which is what memory moves. WHOLE: all of the
 * tile is there, and its pairs are aligned. */
template <class Tile, bool LOAD, bool WHOLE>
GB_INLINE void gb_wgmma_partial_as(const gb_gemm_args &g, const WgmmaWork &work, int wg,
                                   float (&d)[Tile::MI][Tile::BN / 2])
{
    const int lane = gb_thread() % 32, warp = gb_thread() / 32 % 4;
    const int64_t m = work.m + gb_wgmma_pair_m(lane, 0);
    const int rows = (int)gb_tile_min(g.m - m, Tile::BN);

    GB_UNROLL
    for (int mi = 0; mi < Tile::MI; mi++) {
        GB_UNROLL
        for (int half = 0; half < 4; half += 2) {
            const int64_t n = work.n + (wg * Tile::MI + mi) * 64 + warp * 16 +
                              gb_wgmma_pair_n(lane, half);
            float *const column =
                reinterpret_cast<float *>(g.partial) +
                (((int64_t)work.batch * g.splits + work.split) * g.n + n) * g.m + m;
            const int there = n < g.n ? rows : 0;

            GB_UNROLL
            for (int a = half; a < Tile::BN / 2; a += 4) {
                const int row = gb_wgmma_pair_m(0, a);
                float *const sum = d[mi] + a;

                if constexpr (WHOLE && LOAD) {
                    const Vec<float, 2> v = gb_load<float, 2>(column + row);

                    sum[0] = v.at[0];
                    sum[1] = v.at[1];
                } else if constexpr (WHOLE) {
                    gb_store(column + row, Vec<float, 2>{{sum[0], sum[1]}});
                } else {
                    GB_UNROLL
                    for (int e = 0; e < 2; e++) {
                        if (LOAD)
                            sum[e] = row + e < there ? column[row + e] : 0;
                        else if (row + e < there)
                            column[row + e] = sum[e];
                    }
                }
            }
        }
    }
}

template <class Tile, bool LOAD>
GB_INLINE void gb_wgmma_partial(const gb_gemm_args &g, const WgmmaWork &work, int wg,
                                float (&d)[Tile::MI][Tile::BN / 2])
{
    if (g.m % 2 == 0 && work.m + Tile::BN <= g.m && work.n + Tile::BM <= g.n)
        gb_wgmma_partial_as<Tile, LOAD, true>(g, work, wg, d);
    else
        gb_wgmma_partial_as<Tile, LOAD, false>(g, work, wg, d);
}

/* ---- epilogue ---- */

/* Two neighbours of a column of C, as one word or two. */
GB_INLINE void gb_wgmma_get(const float *at, float (&v)[2])
{
    const Vec<float, 2> both = gb_load<float, 2>(at);

    v[0] = both.at[0];
    v[1] = both.at[1];
}

template <class T>
GB_INLINE void gb_wgmma_get(const T *at, float (&v)[2])
{
    const uint32_t both = *reinterpret_cast<const uint32_t *>(at);

    v[0] = gb_to_f32(T{(uint16_t)both});
    v[1] = gb_to_f32(T{(uint16_t)(both >> 16)});
}

/* What becomes of one warp's sums. */
template <class Tile>
struct WgmmaEpilogue {
    typedef typename Tile::Out Out;
    static constexpr int PART = Tile::PART, ACROSS = Tile::BN / PART;

    /* Fused: rows of C that the buffers hold in fp32, and how often that is. */
    static constexpr int TALL = Tile::BN < 64 ? Tile::BN : 64;
    static constexpr int TALLS_M = Tile::BN / TALL, TALLS = TALLS_M * Tile::MI;
    static_assert(16 * TALL * sizeof(float) <= Tile::BUFFERS * Tile::PART_BYTES,
                  "the buffers have room");

    const gb_tma_args &p;
    WgmmaShared<Tile> &shared;
    float alpha;     /* 0 for a tile without sums */
    uint32_t parity; /* bit i: of buffer i */

    GB_DEVICE WgmmaEpilogue(const gb_tma_args &args, WgmmaShared<Tile> &memory)
        : p(args), shared(memory), alpha(0), parity(0)
    {
    }
    /* Read anew each time, as gb_thread() is: what a warp keeps through its products are sums. */
    GB_DEVICE static int lane()
    {
        return gb_thread() % 32;
    }
    GB_DEVICE static int warp()
    {
        return gb_thread() / 32;
    }
    /* The warp's first column, in its share `of` of 64 each. */
    GB_DEVICE static int first_n(int of)
    {
        const int w = warp();

        return (w / 4 * Tile::MI + of) * 64 + w % 4 * 16;
    }
    GB_DEVICE float beta() const
    {
        return (float)p.g.beta[0];
    }
    GB_DEVICE bool reads() const
    {
        return !(p.g.flags & GB_G_BETA_ZERO);
    }

    GB_DEVICE int part_m(const WgmmaWork &work, int part) const
    {
        return work.m + part % ACROSS * PART;
    }
    GB_DEVICE int part_n(const WgmmaWork &work, int part) const
    {
        return work.n + first_n(part / ACROSS);
    }
    GB_DEVICE WgmmaColumns<Out, PART> columns(const WgmmaWork &work, int part,
                                              unsigned char *buffer) const
    {
        const int64_t m = part_m(work, part), n = part_n(work, part);

        return {reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch + m +
                    n * p.g.ldc,
                p.g.ldc, p.g.m - m, p.g.n - n, buffer};
    }

    /* By the first lane, when all have read the buffer. */
    GB_DEVICE void fetch(const WgmmaWork &work, int part) const
    {
        const int b = part % Tile::BUFFERS, w = warp();
        const uint32_t bar = gb_smem(&shared.arrived[w][b]);

        gb_bar_expect(bar, 16 * PART * sizeof(Out));
        gb_tma_load(gb_smem(shared.part[w][b]), &p.c, bar, part_m(work, part),
                    part_n(work, part), work.batch, GB_L2_NORMAL);
    }

    /* Fetch what the buffers hold of C while the sums are made. */
    GB_DEVICE void begin(const WgmmaWork &work)
    {
        alpha = work.steps > 0 ? (float)p.g.alpha[0] : 0.0f;
        if (!reads() || p.c_direct || lane() != 0 || (p.g.flags & GB_G_FUSED))
            return;
        for (int part = 0; part < Tile::BUFFERS && part < Tile::PARTS; part++)
            fetch(work, part);
    }

    /* The buffer holds C's part, where C is read. */
    GB_DEVICE void take(const WgmmaWork &work, int part, unsigned char *buffer)
    {
        const int b = part % Tile::BUFFERS;

        if (reads() && !p.c_direct) {
            gb_bar_wait(gb_smem(&shared.arrived[warp()][b]), parity >> b & 1);
            parity ^= 1u << b;
        } else if (reads()) {
            columns(work, part, buffer).get();
            gb_sync_warp();
        }
    }

    /* alpha * sums + beta * C; `old` counts where C is read. */
    template <bool READS>
    GB_DEVICE void mix(float (&v)[2], const float (&old)[2], float factor) const
    {
        GB_UNROLL
        for (int e = 0; e < 2; e++)
            v[e] = READS ? gb_fma_f32(factor, v[e], beta() * old[e]) : v[e] * factor;
    }

    /* Four sums of this lane, d[4 * quad] and on, to C. */
    GB_DEVICE void put(const WgmmaWork &work, int quad, const Vec<float, 4> &sum) const
    {
        const int lane = this->lane();
        const int64_t m = work.m + gb_wgmma_pair_m(lane, quad % (Tile::BN / 8) * 4);
        const int first = work.n + first_n(quad / (Tile::BN / 8));

        GB_UNROLL
        for (int half = 0; half < 4; half += 2) {
            const int64_t n = first + gb_wgmma_pair_n(lane, half);
            Out *const to = reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch +
                            m + n * p.g.ldc;
            const int there = n < p.g.n ? (int)gb_tile_min(p.g.m - m, 2) : 0;
            const bool pair =
                there == 2 &&
                reinterpret_cast<uintptr_t>(to) % sizeof(Vec<Out, 2>) == 0;
            float v[2] = {sum.at[half], sum.at[half + 1]}, old[2] = {};
            Vec<Out, 2> c = {};

            if (reads() && pair)
                c = gb_load<Out, 2>(to);
            GB_UNROLL
            for (int e = 0; e < 2; e++) {
                if (reads() && !pair && e < there)
                    c.at[e] = to[e];
                gb_widen(c.at[e], old[e]);
            }
            GB_UNROLL
            for (int e = 0; e < 2; e++)
                v[e] = gb_epilogue_f32(alpha, v[e],
                                       reads() ? beta() : gb_unread_f32(alpha), old[e]);
            GB_UNROLL
            for (int e = 0; e < 2; e++) {
                gb_narrow(v[e], c.at[e]);
                if (!pair && e < there)
                    to[e] = c.at[e];
            }
            if (pair)
                gb_store(to, c);
        }
    }

    template <int V>
    GB_DEVICE static void store_vector(Out *to, const Vec<Out, V> &c)
    {
        if constexpr (sizeof c >= 8)
            gb_store_whole(to, c);
        else
            gb_store(to, c);
    }

    /* Rows m and on of column n, of which at least one row exists: sums become C. `vectors`: C
     * is aligned to them. */
    template <int V>
    GB_DEVICE void fuse(const FusedRows<Out, float, V> &fused, const WgmmaWork &work,
                        int64_t m, int64_t n, bool vectors, float (&v)[V]) const
    {
        const int rows = (int)gb_tile_min(p.g.m - m, V);
        const bool whole = vectors && rows == V;
        Out *const to =
            reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch + m + n * p.g.ldc;
        Vec<Out, V> c = {};
        float old[V] = {};

        if (reads()) {
            if (whole)
                c = gb_load<Out, V>(to);
            GB_UNROLL
            for (int e = 0; e < V; e++) {
                if (!whole && e < rows)
                    c.at[e] = to[e];
                gb_widen(c.at[e], old[e]);
            }
        }
        fused.apply(n, alpha, reads() ? beta() : gb_unread_f32(alpha), old, v);
        GB_UNROLL
        for (int e = 0; e < V; e++) {
            gb_narrow(v[e], c.at[e]);
            if (!whole && e < rows)
                to[e] = c.at[e];
        }
        if (whole)
            store_vector(to, c);
    }

    /* put() of a fused launch, of sums in shared memory. */
    GB_DEVICE void put_fused(const WgmmaWork &work, int quad, const float *sums) const
    {
        const int lane = this->lane();
        const int64_t m = work.m + gb_wgmma_pair_m(lane, quad % (Tile::BN / 8) * 4);
        const int first = work.n + first_n(quad / (Tile::BN / 8));
        const FusedRows<Out, float, 2> fused(p.g, work.batch, m,
                                             (int)gb_tile_clamp(p.g.m - m, 0, 2));

        GB_NO_UNROLL
        for (int half = 0; half < 4; half += 2) {
            const int64_t n = first + gb_wgmma_pair_n(lane, half);
            float v[2] = {sums[half], sums[half + 1]};

            if (m < p.g.m && n < p.g.n)
                fuse<2>(
                    fused, work, m, n,
                    (p.g.c / sizeof(Out) | (uint64_t)p.g.ldc | (uint64_t)p.g.c_batch) %
                            2 ==
                        0,
                    v);
        }
    }

    /* Where the buffers hold a sum: a column's chunks of 32 bytes, which four lanes write, are
     * turned from column to column. */
    GB_DEVICE float *tall_place(int column, int row) const
    {
        return reinterpret_cast<float *>(shared.part[warp()][0] + column * TALL * 4 +
                                         (row * 4 ^ column % (TALL / 8) * 32));
    }

    GB_DEVICE void fuse_tall(const WgmmaWork &work, int tall) const
    {
        constexpr int V = 16 / (int)sizeof(Out), ACROSS = TALL / V;
        const int lane = this->lane(), row = lane % ACROSS * V;
        const int64_t m = work.m + tall % TALLS_M * TALL + row;
        const int64_t n = work.n + first_n(tall / TALLS_M);
        const FusedRows<Out, float, V> fused(p.g, work.batch, m,
                                             (int)gb_tile_clamp(p.g.m - m, 0, V));

        GB_NO_UNROLL
        for (int j = lane / ACROSS; j < 16; j += 32 / ACROSS) {
            float v[V];

            if (m >= p.g.m || n + j >= p.g.n)
                continue;
            GB_UNROLL
            for (int e = 0; e < V; e += 4) {
                const Vec<float, 4> s = gb_load<float, 4>(tall_place(j, row + e));

                GB_UNROLL
                for (int i = 0; i < 4; i++)
                    v[e + i] = s.at[i];
            }
            fuse<V>(fused, work, m, n + j, !p.c_direct, v);
        }
    }

    GB_DEVICE void finish_fused(const WgmmaWork &work,
                                const float (&d)[Tile::MI][Tile::BN / 2]) const
    {
        const int lane = this->lane();

        GB_NO_UNROLL
        for (int tall = 0; tall < TALLS; tall++) {
            GB_UNROLL
            for (int q = 0; q < TALLS; q++) { /* registers have no index */
                const float *const sums = d[q / TALLS_M] + q % TALLS_M * TALL / 2;

                if (q != tall)
                    continue;
                GB_UNROLL
                for (int a = 0; a < TALL / 2; a += 2)
                    gb_store(
                        tall_place(gb_wgmma_pair_n(lane, a), gb_wgmma_pair_m(lane, a)),
                        Vec<float, 2>{{sums[a], sums[a + 1]}});
            }
            gb_sync_warp();
            fuse_tall(work, tall);
            gb_sync_warp();
        }
    }

    /* The sums of a part into its buffer. The swizzle moves 16 bytes, and of a lane's addresses
     * only bits from there on differ: they follow from the first by one operation. */
    template <bool READS>
    GB_DEVICE void fill(const float *sums, unsigned char *buffer) const
    {
        const int lane = this->lane();
        const int pair = gb_wgmma_swizzled(gb_wgmma_pair_n(lane, 0),
                                           gb_wgmma_pair_m(lane, 0) * (int)sizeof(Out));
        const int matrix = gb_wgmma_swizzled(lane % 16, lane / 16 * 16);
        float factor;

        /* alpha, but unknown to be so: else the products of all parts are made ahead of the
         * loop over them, and spilled */
        factor = gb_opaque(alpha);
        GB_UNROLL
        for (int a = 0; a < PART / 2; a += 8) {
            uint32_t packed[4];

            GB_UNROLL
            for (int i = 0; i < 4; i++) {
                const int e = a + 2 * i;
                unsigned char *const at = buffer + gb_wgmma_pair_n(0, e) * 128 +
                                          (pair ^ gb_wgmma_pair_m(0, e) * sizeof(Out));
                float v[2] = {sums[e], sums[e + 1]}, old[2] = {};

                if (READS)
                    gb_wgmma_get(reinterpret_cast<const Out *>(at), old);
                mix<READS>(v, old, factor);
                if constexpr (sizeof(Out) == 4)
                    gb_store(reinterpret_cast<float *>(at),
                             Vec<float, 2>{{v[0], v[1]}});
                else
                    packed[i] = gb_pack(v, Out());
            }
            if constexpr (sizeof(Out) == 2) {
                if (READS)
                    gb_sync_warp(); /* a lane writes where others have read C */
                gb_stmatrix(gb_smem(buffer) + (matrix ^ 4 * a), packed);
            }
        }
    }

    /* A part without sums: beta * C, or 0. */
    GB_DEVICE void fill_unsummed(unsigned char *buffer) const
    {
        GB_NO_UNROLL
        for (int e = lane(); e < 16 * PART; e += 32) {
            Out &at = gb_wgmma_element<Out>(buffer, e / PART, e % PART);
            float old = 0;

            if (reads())
                gb_widen(at, old);
            gb_narrow(reads() ? beta() * old : 0.0f, at);
        }
    }

    /* What is usual, in one stretch of code: all of the tile exists, C is aligned and is not
     * read. A part is stored while the next is made. */
    GB_DEVICE void finish_whole(const WgmmaWork &work,
                                const float (&d)[Tile::MI][Tile::BN / 2]) const
    {
        constexpr int V = 16 / (int)sizeof(Out), SIDE = PART / V, AT_ONCE = 32 / SIDE;
        constexpr int TURNS = 16 / AT_ONCE;
        const int lane = this->lane(), column = lane / SIDE, row = lane % SIDE * V;
        const int place = gb_wgmma_swizzled(column, row * (int)sizeof(Out));
        const int64_t step = AT_ONCE * p.g.ldc;
        Out *to = reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch + work.m +
                  row + (part_n(work, 0) + column) * p.g.ldc;
        Vec<Out, V> v[TURNS];

        GB_UNROLL
        for (int part = 0; part <= Tile::PARTS; part++) {
            unsigned char *const buffer = shared.part[warp()][part % Tile::BUFFERS];

            if (part < Tile::PARTS) {
                fill<false>(d[part / ACROSS] + part % ACROSS * PART / 2, buffer);
                gb_sync_warp();
            }
            GB_UNROLL
            for (int i = 0; i < TURNS; i++) {
                if (part > 0)
                    gb_store_whole(to + (part - 1) % ACROSS * PART + i * step, v[i]);
                if (part < Tile::PARTS)
                    v[i] = gb_load<Out, V>(reinterpret_cast<Out *>(
                        buffer + (place ^ i * AT_ONCE % 8 * 16) + i * AT_ONCE * 128));
            }
            if (part > 0 && part % ACROSS == 0)
                to += 64 * p.g.ldc;
        }
        gb_sync_warp(); /* the buffers are read, and the next tile may be stored there */
    }

    /* Of a C that TMA cannot describe, the lines that a part completes. */
    GB_DEVICE void put_lines(const WgmmaWork &work, int part) const
    {
        const int at = part % ACROSS;
        const int64_t n = part_n(work, part);
        const WgmmaLines<Tile> lines = {
            reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch + work.m +
                n * p.g.ldc,
            p.g.ldc, (int)gb_tile_min(p.g.m - work.m, Tile::BN),
            (int)gb_tile_min(p.g.n - n, 16)};
        unsigned char(*const parts)[Tile::PART_BYTES] = shared.part[warp()];
        const unsigned char *const made = parts[part % Tile::BUFFERS];
        const unsigned char *const before =
            parts[(part + Tile::BUFFERS - 1) % Tile::BUFFERS];

        lines.put(at - 1, before, made);
        if (at + 1 == ACROSS)
            lines.put(at, made, made);
        lines.put_ends(at, before, made);
    }

    GB_DEVICE void finish(const WgmmaWork &work,
                          const float (&d)[Tile::MI][Tile::BN / 2])
    {
        if (alpha != 0 && !reads() && !p.c_direct && work.m + Tile::BN <= p.g.m &&
            work.n + Tile::BM <= p.g.n) {
            finish_whole(work, d);
            return;
        }
        GB_NO_UNROLL
        for (int part = 0; part < Tile::PARTS; part++) {
            unsigned char *const buffer = shared.part[warp()][part % Tile::BUFFERS];

            take(work, part, buffer);
            if (alpha == 0)
                fill_unsummed(buffer);
            GB_UNROLL
            for (int q = 0; q < Tile::PARTS; q++) { /* registers have no index */
                const float *const sums = d[q / ACROSS] + q % ACROSS * PART / 2;

                if (q != part || alpha == 0)
                    continue;
                if (reads())
                    fill<true>(sums, buffer);
                else
                    fill<false>(sums, buffer);
            }
            gb_sync_warp();
            if (!p.c_direct)
                columns(work, part, buffer).put_vectors();
            else if constexpr (sizeof(Out) == 4)
                columns(work, part, buffer)
                    .put_words(); /* what lines cost is no gain */
            else
                put_lines(work, part);
            if (reads())
                gb_fence_async(); /* read, before TMA fetches the next part into it */
            gb_sync_warp();
            if (lane() == 0 && reads() && !p.c_direct &&
                part + Tile::BUFFERS < Tile::PARTS)
                fetch(work, part + Tile::BUFFERS);
        }
    }
};

#endif
