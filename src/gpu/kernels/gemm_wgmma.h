/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma: 16-bit GEMM for Hopper (sm_90a). What a launch computes is defined in
 * gemm_args.h; the operands are described by tensor_map.h.
 *
 * Orientation. C is column-major, so its contiguous side must be the inner side of TMA and of
 * the sums: the kernel computes C^T = op(B)^T op(A)^T. X is op(B)^T (n x k), Y is op(A)
 * (m x k); sums have a row for each column of C. All four layouts of the operands are read in
 * place: wgmma takes both majors of 16-bit elements from shared memory.
 *
 * Tile: BN of m by BM of n and 64 of k (128 bytes, the widest swizzle). Accumulators: fp32, in
 * the registers of WGS warpgroups, each of which has MI times 64 columns of C and the whole
 * BN. One more warpgroup moves data: a single thread of it walks the tiles of a persistent
 * grid and fills a ring of STAGES buffers by TMA, far ahead of the products. Full and empty
 * buffers are told by barriers that are waited for by parity. The warpgroups share a ring but
 * no other barrier, so that they drift apart by as much as the ring allows, and one's epilogue
 * runs under another's products. With CLUSTER 2 two blocks take neighbouring tiles along n;
 * each loads half of Y for both.
 *
 * Masks: TMA fills with zeros what lies past a matrix, on every side, so the main loop has
 * none. Stores are masked by vectors of 16 bytes, and inside the last by elements.
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
 * waits before it touches memory.
 *
 * The order of the sum over k: tensor cores add 16 products at a time to the fp32 sum, so an
 * element's bits depend on k's blocks of 16 and not on the tile or the launch. */
#ifndef GB_GEMM_WGMMA_H
#define GB_GEMM_WGMMA_H

#include "gemm_simt.h" /* conversions of elements */
#include "seam.h"
#include "tensor_map.h"
#include "wgmma.h"
#define WGMMA(...)
#include "wgmma.def" /* GB_WGMMA_SMEM, GB_WGMMA_BLOCKS */
#undef WGMMA

/* One row of kernels.def in one layout. */
template <class In_, class Out_, int WGS_, int MI_, int BN_, int STAGES_, int BUFFERS_,
          int CLUSTER_, bool X_MN_, bool Y_MN_>
struct WgmmaTile {
    typedef In_ In;
    typedef Out_ Out;
    static constexpr int WGS = WGS_, MI = MI_, BN = BN_, STAGES = STAGES_;
    static constexpr int CLUSTER = CLUSTER_, BM = 64 * MI * WGS, BK = 64;
    static constexpr bool X_MN = X_MN_, Y_MN = Y_MN_;
    static constexpr int THREADS = 128 * (WGS + 1);
    static constexpr int ATOMS = (BN + 63) / 64; /* of an MN-major Y */
    static constexpr int X_BYTES = BM * 128;
    static constexpr int Y_BYTES = Y_MN ? ATOMS * GB_ATOM_BYTES : BN * 128;
    static constexpr int STAGE_BYTES = X_BYTES + Y_BYTES;
    /* C travels in parts of the 16 columns that a warp has by PART rows. */
    static constexpr int PART = 128 / sizeof(Out) < BN ? 128 / sizeof(Out) : BN;
    static constexpr int PARTS = BN / PART * MI, BUFFERS = BUFFERS_;
    static constexpr int PART_BYTES = 16 * 128;
    /* A block starts with 168 registers per thread where there are three warpgroups, with 128
     * where there are two and a second block: the loader gives most of its own to the others.
     * The sum is the 64 Ki of a multiprocessor. */
    static constexpr int BLOCKS = GB_WGMMA_BLOCKS(BN, BM, STAGES, WGS, BUFFERS_);
    static constexpr bool TRADE = WGS > 1 || (BLOCKS > 1 && MI * BN >= 256);
    static constexpr int LOADER_REGISTERS = WGS > 1 ? 56 : 40;
    static constexpr int REGISTERS = WGS > 1 ? 224 : 216;

    static_assert(BN % PART == 0 && BN <= 256 && WGS <= 2, "tile");
    static_assert(CLUSTER == 1 || BN % 128 == 0, "halves of Y are whole atoms");
};

/* What the loading thread tells the others about the tile whose first buffer this is. */
struct WgmmaWork {
    int m, n; /* C(m, n) is its first element */
    int batch, split;
    int k;     /* where its sums begin, from the launch's k_begin */
    int steps; /* buffers of 64 to sum; < 0: no more tiles */
    int carry; /* the sums began in an earlier launch */
};

/* At multiples of 1024 bytes, which the swizzle needs. */
template <class Tile>
struct WgmmaShared {
    unsigned char stage[Tile::STAGES][Tile::STAGE_BYTES];
    unsigned char part[4 * Tile::WGS][Tile::BUFFERS]
                      [Tile::PART_BYTES]; /* of each warp */
    uint64_t full[Tile::STAGES], empty[Tile::STAGES];
    uint64_t arrived[4 * Tile::WGS][Tile::BUFFERS]; /* a part of C */
    WgmmaWork work[Tile::STAGES];
};

/* A position in the ring, and the parity of its present phase. */
template <int N>
struct WgmmaRing {
    int at = 0;
    uint32_t parity;

    GB_DEVICE explicit WgmmaRing(uint32_t first) : parity(first)
    {
    }
    GB_DEVICE void next()
    {
        if (++at == N) {
            at = 0;
            parity ^= 1;
        }
    }
};

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
    gb_tile_map32_at(&p.map, unit, &tile);
    if (Tile::CLUSTER == 1)
        tile.split += rank; /* 0 but where a cluster sums the splits */
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = (int)tile.i * Tile::BN;
    work.n = ((int)tile.j * Tile::CLUSTER + rank % Tile::CLUSTER) * Tile::BM;
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

/* A block of a cluster loads its share of Y for all of them. */
template <class Tile>
GB_INLINE void gb_wgmma_load_y(const gb_tma_args &p, uint32_t to, uint32_t bar, int m,
                               int k, int batch, int rank)
{
    constexpr int ROWS = Tile::BN / Tile::CLUSTER;
    constexpr uint16_t ALL = (1 << Tile::CLUSTER) - 1;

    if constexpr (!Tile::Y_MN && Tile::CLUSTER == 1) {
        gb_tma_load(to, &p.a, bar, k, m, batch, p.hint_a);
    } else if constexpr (!Tile::Y_MN) {
        gb_tma_multicast(to + rank * ROWS * 128, &p.a, bar, k, m + rank * ROWS, batch,
                         p.hint_a, ALL);
    } else {
        GB_UNROLL
        for (int i = 0; i < Tile::ATOMS; i++) {
            if (Tile::CLUSTER == 1)
                gb_tma_load(to + i * GB_ATOM_BYTES, &p.a, bar, m + 64 * i, k, batch,
                            p.hint_a);
            else if (i % Tile::CLUSTER == rank)
                gb_tma_multicast(to + i * GB_ATOM_BYTES, &p.a, bar, m + 64 * i, k,
                                 batch, p.hint_a, ALL);
        }
    }
}

/* One thread's life. */
template <class Tile>
GB_INLINE void gb_wgmma_loader(const gb_tma_args &p, WgmmaShared<Tile> &shared,
                               int rank)
{
    const uint32_t cluster = Tile::CLUSTER > 1 ? Tile::CLUSTER : p.together;
    const uint32_t clusters = (uint32_t)gb_grid() / cluster;
    WgmmaRing<Tile::STAGES> ring(1);

    GB_NO_UNROLL
    for (uint32_t unit = (uint32_t)gb_block() / cluster;; unit += clusters) {
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

/* A warp's part between its buffer and a column-major matrix of which m x n elements are left:
 * for matrices that TMA cannot describe. Words of two 16-bit elements where a column has them:
 * it has one element before its first word when it begins inside one. */
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

    /* All of the part exists. A column that begins inside a word has halves of one at its
     * ends, which the last lane stores. */
    GB_DEVICE void put_words() const
    {
        const int lane = gb_thread() % 32, x = lane * 4, next = (lane + 1) % 32 * 4;
        T *to = matrix;

        static_assert(PART * sizeof(T) == 128, "a lane has a word of every column");
        GB_UNROLL_BY(4)
        for (int j = 0; j < 16; j++, to += ld) {
            const int early = ahead(to);
            const uint32_t mine = word(j, x);

            if constexpr (!PAIRS) {
                reinterpret_cast<uint32_t *>(to)[lane] = mine;
            } else {
                const uint32_t after = word(j, next);

                if (early && lane == 31) {
                    to[0].bits = (uint16_t)after;
                    to[PART - 1].bits = (uint16_t)(mine >> 16);
                } else {
                    reinterpret_cast<uint32_t *>(to + early)[lane] =
                        early ? __byte_perm(mine, after, 0x5432) : mine;
                }
            }
        }
    }
    GB_DEVICE uint32_t word(int column, int x) const
    {
        return *reinterpret_cast<const uint32_t *>(buffer +
                                                   gb_wgmma_swizzled(column, x));
    }

    GB_DEVICE void put() const
    {
        const int lane = gb_thread() % 32;
        T *to = matrix;

        if constexpr (PART * sizeof(T) == 128) {
            if (rows == PART && columns == 16) {
                put_words();
                return;
            }
        }

        GB_UNROLL_BY(2)
        for (int j = 0; j < columns; j++, to += ld) {
            const int early = ahead(to), row = lane * WORD + early;
            const T first = gb_wgmma_element<T>(buffer, j, row % PART);
            Vec<T, WORD> v;

            v.at[0] = first;
            if constexpr (PAIRS)
                v.at[1] = gb_wgmma_element<T>(buffer, j, (row + 1) % PART);
            if (row + WORD <= rows)
                gb_store(to + row, v);
            else if (row < rows)
                to[row] = first;
            if (lane < early && rows > 0)
                to[0] = gb_wgmma_element<T>(buffer, j, 0);
        }
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
template <class T>
struct WgmmaPair;

template <>
struct WgmmaPair<float> {
    GB_INLINE void get(const unsigned char *at, float (&v)[2])
    {
        const Vec<float, 2> both =
            gb_load<float, 2>(reinterpret_cast<const float *>(at));

        v[0] = both.at[0];
        v[1] = both.at[1];
    }
};

template <>
struct WgmmaPair<gb_f16> {
    GB_INLINE void get(const unsigned char *at, float (&v)[2])
    {
        const uint32_t both = *reinterpret_cast<const uint32_t *>(at);

        v[0] = gb_to_f32(gb_f16{(uint16_t)both});
        v[1] = gb_to_f32(gb_f16{(uint16_t)(both >> 16)});
    }
    GB_INLINE uint32_t pack(const float (&v)[2])
    {
        uint32_t both;

        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v[1]), "f"(v[0]));
        return both;
    }
};

template <>
struct WgmmaPair<gb_bf16> {
    GB_INLINE void get(const unsigned char *at, float (&v)[2])
    {
        const uint32_t both = *reinterpret_cast<const uint32_t *>(at);

        v[0] = gb_to_f32(gb_bf16{(uint16_t)both});
        v[1] = gb_to_f32(gb_bf16{(uint16_t)(both >> 16)});
    }
    GB_INLINE uint32_t pack(const float (&v)[2])
    {
        uint32_t both;

        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v[1]), "f"(v[0]));
        return both;
    }
};

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
    int wg, lane, warp; /* of the warpgroup; index of the warp in the block */
    bool leader, reads;
    float alpha, beta; /* alpha is 0 for a tile without sums */
    uint32_t parity;   /* bit i: of buffer i */

    GB_DEVICE WgmmaEpilogue(const gb_tma_args &args, WgmmaShared<Tile> &memory,
                            int index)
        : p(args), shared(memory), wg(index), lane(gb_thread() % 32),
          warp(gb_thread() / 32), leader(lane == 0),
          reads(!(args.g.flags & GB_G_BETA_ZERO)), alpha(0),
          beta((float)args.g.beta[0]), parity(0)
    {
    }

    GB_DEVICE int part_m(const WgmmaWork &work, int part) const
    {
        return work.m + part % ACROSS * PART;
    }
    GB_DEVICE int part_n(const WgmmaWork &work, int part) const
    {
        return work.n + (wg * Tile::MI + part / ACROSS) * 64 + warp % 4 * 16;
    }
    GB_DEVICE WgmmaColumns<Out, PART> columns(const WgmmaWork &work, int part,
                                              unsigned char *buffer) const
    {
        const int64_t m = part_m(work, part), n = part_n(work, part);

        return {reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch + m +
                    n * p.g.ldc,
                p.g.ldc, p.g.m - m, p.g.n - n, buffer};
    }

    /* By the leader, when all lanes have read the buffer. */
    GB_DEVICE void fetch(const WgmmaWork &work, int part) const
    {
        const int b = part % Tile::BUFFERS;
        const uint32_t bar = gb_smem(&shared.arrived[warp][b]);

        gb_bar_expect(bar, 16 * PART * sizeof(Out));
        gb_tma_load(gb_smem(shared.part[warp][b]), &p.c, bar, part_m(work, part),
                    part_n(work, part), work.batch, GB_L2_NORMAL);
    }

    /* Fetch what the buffers hold of C while the sums are made. */
    GB_DEVICE void begin(const WgmmaWork &work)
    {
        alpha = work.steps > 0 ? (float)p.g.alpha[0] : 0.0f;
        if (!reads || p.c_direct || !leader || (p.g.flags & GB_G_FUSED))
            return;
        for (int part = 0; part < Tile::BUFFERS && part < Tile::PARTS; part++)
            fetch(work, part);
    }

    /* The buffer holds C's part, where C is read. */
    GB_DEVICE void take(const WgmmaWork &work, int part, unsigned char *buffer)
    {
        const int b = part % Tile::BUFFERS;

        if (reads && !p.c_direct) {
            gb_bar_wait(gb_smem(&shared.arrived[warp][b]), parity >> b & 1);
            parity ^= 1u << b;
        } else if (reads) {
            columns(work, part, buffer).get();
            __syncwarp();
        }
    }

    /* alpha * sums + beta * C; `old` counts where C is read. */
    template <bool READS>
    GB_DEVICE void mix(float (&v)[2], const float (&old)[2], float factor) const
    {
        GB_UNROLL
        for (int e = 0; e < 2; e++)
            v[e] = READS ? gb_fma_f32(factor, v[e], beta * old[e]) : v[e] * factor;
    }

    /* Four sums of this lane, d[4 * quad] and on, to C. */
    GB_DEVICE void put(const WgmmaWork &work, int quad, const Vec<float, 4> &sum) const
    {
        const int64_t m = work.m + gb_wgmma_pair_m(lane, quad % (Tile::BN / 8) * 4);

        GB_UNROLL
        for (int half = 0; half < 4; half += 2) {
            const int64_t n = work.n + (wg * Tile::MI + quad / (Tile::BN / 8)) * 64 +
                              warp % 4 * 16 + gb_wgmma_pair_n(lane, half);
            Out *const to = reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch +
                            m + n * p.g.ldc;
            const int there = n < p.g.n ? (int)gb_tile_min(p.g.m - m, 2) : 0;
            const bool pair =
                there == 2 &&
                reinterpret_cast<uintptr_t>(to) % sizeof(Vec<Out, 2>) == 0;
            float v[2] = {sum.at[half], sum.at[half + 1]}, old[2] = {};
            Vec<Out, 2> c = {};

            if (reads && pair)
                c = gb_load<Out, 2>(to);
            GB_UNROLL
            for (int e = 0; e < 2; e++) {
                if (reads && !pair && e < there)
                    c.at[e] = to[e];
                gb_widen(c.at[e], old[e]);
            }
            GB_UNROLL
            for (int e = 0; e < 2; e++)
                v[e] = gb_epilogue_f32(alpha, v[e], reads ? beta : gb_unread_f32(alpha),
                                       old[e]);
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

        if (reads) {
            if (whole)
                c = gb_load<Out, V>(to);
            GB_UNROLL
            for (int e = 0; e < V; e++) {
                if (!whole && e < rows)
                    c.at[e] = to[e];
                gb_widen(c.at[e], old[e]);
            }
        }
        fused.apply(n, alpha, reads ? beta : gb_unread_f32(alpha), old, v);
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
        const int64_t m = work.m + gb_wgmma_pair_m(lane, quad % (Tile::BN / 8) * 4);
        const FusedRows<Out, float, 2> fused(p.g, work.batch, m,
                                             (int)gb_tile_clamp(p.g.m - m, 0, 2));

        GB_NO_UNROLL
        for (int half = 0; half < 4; half += 2) {
            const int64_t n = work.n + (wg * Tile::MI + quad / (Tile::BN / 8)) * 64 +
                              warp % 4 * 16 + gb_wgmma_pair_n(lane, half);
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
        return reinterpret_cast<float *>(shared.part[warp][0] + column * TALL * 4 +
                                         (row * 4 ^ column % (TALL / 8) * 32));
    }

    GB_DEVICE void fuse_tall(const WgmmaWork &work, int tall) const
    {
        constexpr int V = 16 / (int)sizeof(Out), ACROSS = TALL / V;
        const int row = lane % ACROSS * V;
        const int64_t m = work.m + tall % TALLS_M * TALL + row;
        const int64_t n =
            work.n + (wg * Tile::MI + tall / TALLS_M) * 64 + warp % 4 * 16;
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
            __syncwarp();
            fuse_tall(work, tall);
            __syncwarp();
        }
    }

    /* The sums of a part into its buffer. The swizzle moves 16 bytes, and of a lane's addresses
     * only bits from there on differ: they follow from the first by one operation. */
    template <bool READS>
    GB_DEVICE void fill(const float *sums, unsigned char *buffer) const
    {
        const int pair = gb_wgmma_swizzled(gb_wgmma_pair_n(lane, 0),
                                           gb_wgmma_pair_m(lane, 0) * (int)sizeof(Out));
        const int matrix = gb_wgmma_swizzled(lane % 16, lane / 16 * 16);
        float factor;

        /* alpha, but unknown to be so: else the products of all parts are made ahead of the
         * loop over them, and spilled */
        asm volatile("mov.b32 %0, %1;" : "=f"(factor) : "f"(alpha));
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
                    WgmmaPair<Out>::get(at, old);
                mix<READS>(v, old, factor);
                if constexpr (sizeof(Out) == 4)
                    gb_store(reinterpret_cast<float *>(at),
                             Vec<float, 2>{{v[0], v[1]}});
                else
                    packed[i] = WgmmaPair<Out>::pack(v);
            }
            if constexpr (sizeof(Out) == 2) {
                if (READS)
                    __syncwarp(); /* a lane writes where others have read C */
                gb_stmatrix(gb_smem(buffer) + (matrix ^ 4 * a), packed);
            }
        }
    }

    /* A part without sums: beta * C, or 0. */
    GB_DEVICE void fill_unsummed(unsigned char *buffer) const
    {
        GB_NO_UNROLL
        for (int e = lane; e < 16 * PART; e += 32) {
            Out &at = gb_wgmma_element<Out>(buffer, e / PART, e % PART);
            float old = 0;

            if (reads)
                gb_widen(at, old);
            gb_narrow(reads ? beta * old : 0.0f, at);
        }
    }

    /* What is usual, in one stretch of code: all of the tile exists, C is aligned and is not
     * read. A part is stored while the next is made. */
    GB_DEVICE void finish_whole(const WgmmaWork &work,
                                const float (&d)[Tile::MI][Tile::BN / 2]) const
    {
        constexpr int V = 16 / (int)sizeof(Out), SIDE = PART / V, AT_ONCE = 32 / SIDE;
        constexpr int TURNS = 16 / AT_ONCE;
        const int column = lane / SIDE, row = lane % SIDE * V;
        const int place = gb_wgmma_swizzled(column, row * (int)sizeof(Out));
        const int64_t step = AT_ONCE * p.g.ldc;
        Out *to = reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch + work.m +
                  row + (part_n(work, 0) + column) * p.g.ldc;
        Vec<Out, V> v[TURNS];

        GB_UNROLL
        for (int part = 0; part <= Tile::PARTS; part++) {
            unsigned char *const buffer = shared.part[warp][part % Tile::BUFFERS];

            if (part < Tile::PARTS) {
                if (Tile::BUFFERS == 1 && part > 0)
                    __syncwarp(); /* the last part is read */
                fill<false>(d[part / ACROSS] + part % ACROSS * PART / 2, buffer);
                __syncwarp();
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
    }

    GB_DEVICE void finish(const WgmmaWork &work,
                          const float (&d)[Tile::MI][Tile::BN / 2])
    {
        if (alpha != 0 && !reads && !p.c_direct && work.m + Tile::BN <= p.g.m &&
            work.n + Tile::BM <= p.g.n) {
            finish_whole(work, d);
            return;
        }
        GB_NO_UNROLL
        for (int part = 0; part < Tile::PARTS; part++) {
            unsigned char *const buffer = shared.part[warp][part % Tile::BUFFERS];
            const WgmmaColumns<Out, PART> c = columns(work, part, buffer);

            take(work, part, buffer);
            if (alpha == 0)
                fill_unsummed(buffer);
            GB_UNROLL
            for (int q = 0; q < Tile::PARTS; q++) { /* registers have no index */
                const float *const sums = d[q / ACROSS] + q % ACROSS * PART / 2;

                if (q != part || alpha == 0)
                    continue;
                if (reads)
                    fill<true>(sums, buffer);
                else
                    fill<false>(sums, buffer);
            }
            __syncwarp();
            if (p.c_direct)
                c.put();
            else
                c.put_vectors();
            if (reads)
                gb_fence_async(); /* read, before TMA fetches the next part into it */
            __syncwarp();
            if (leader && reads && !p.c_direct && part + Tile::BUFFERS < Tile::PARTS)
                fetch(work, part + Tile::BUFFERS);
        }
    }
};

/* ---- products ---- */

template <class Tile>
GB_INLINE void gb_wgmma_release(WgmmaShared<Tile> &shared, int stage)
{
    const int t = gb_thread() % 128;

    if (Tile::CLUSTER == 1 && t == 0)
        gb_bar_arrive(gb_smem(&shared.empty[stage]));
    if (Tile::CLUSTER > 1 && t < Tile::CLUSTER)
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
    for (int k = 0; k < Tile::BK / 16; k++) {
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

template <class Tile>
GB_INLINE void gb_wgmma_multiplier(const gb_tma_args &p, WgmmaShared<Tile> &shared,
                                   int wg)
{
    const bool together = Tile::CLUSTER == 1 && p.together > 1;
    const bool last = (p.g.flags & GB_G_EPILOGUE) && !together;
    WgmmaEpilogue<Tile> epilogue(p, shared, wg);
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
            gb_wgmma_partial<Tile, true>(p.g, work, wg, d);
            if (last)
                epilogue.begin(work);
            gb_wgmma_step<Tile>(gb_smem(shared.stage[ring.at]), wg, true, d);
            gb_wgmma_wait<0>();
            step = 1;
            ring.next();
        } else if (last) {
            epilogue.begin(work);
        }
        if (work.steps == 0) {
            /* no product holds back the release until all have read the work */
            gb_named_sync<128>(2 + wg);
            ring.next(); /* and the sums are never looked at */
        }
        GB_NO_UNROLL
        for (; step < work.steps; step++) {
            gb_bar_wait(gb_smem(&shared.full[ring.at]), ring.parity);
            gb_wgmma_step<Tile>(gb_smem(shared.stage[ring.at]), wg, step > 0, d);
            gb_wgmma_wait<1>();
            if (step > 0)
                gb_wgmma_release(shared, before);
            before = ring.at;
            ring.next();
        }
        gb_wgmma_wait<0>();
        gb_wgmma_release(shared, before);
        if (together) {
            gb_wgmma_together<Tile>(p, work, wg, shared, epilogue, d);
            break;
        }
        if (last && (p.g.flags & GB_G_FUSED))
            epilogue.finish_fused(work, d);
        else if (last)
            epilogue.finish(work, d);
        else
            gb_wgmma_partial<Tile, false>(p.g, work, wg, d);
    }
}

template <class Tile>
GB_INLINE void gb_gemm_wgmma(const gb_tma_args &p)
{
    extern __shared__ __align__(1024) unsigned char gb_wgmma_memory[];
    WgmmaShared<Tile> &shared = *reinterpret_cast<WgmmaShared<Tile> *>(gb_wgmma_memory);
    const int wg = gb_thread() / 128;
    const int rank = (int)gb_cluster_rank();

    if (gb_thread() == 0) {
        gb_tma_prefetch(&p.a);
        gb_tma_prefetch(&p.b);
        if (!(p.g.flags & (GB_G_BETA_ZERO | GB_G_FUSED)) && !p.c_direct)
            gb_tma_prefetch(&p.c);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]), Tile::WGS * Tile::CLUSTER);
        }
        for (int i = 0; i < 4 * Tile::WGS * Tile::BUFFERS; i++)
            gb_bar_init(gb_smem(&shared.arrived[i / Tile::BUFFERS][i % Tile::BUFFERS]),
                        1);
        gb_bar_fence_init();
    }
    if (Tile::CLUSTER > 1)
        gb_cluster_sync();
    else
        gb_sync();
    gb_grid_wait();
    if (wg == Tile::WGS) {
        if (Tile::TRADE)
            gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_wgmma_loader<Tile>(p, shared, rank);
        __syncwarp();
        if (Tile::CLUSTER == 1 && p.together > 1) {
            gb_cluster_sync(); /* those of gb_wgmma_together() */
            gb_cluster_sync();
        }
    } else {
        if (Tile::TRADE)
            gb_more_registers<Tile::REGISTERS>();
        gb_wgmma_multiplier<Tile>(p, shared, wg);
    }
    /* no block of a cluster ends while another may still write to it */
    if (Tile::CLUSTER > 1)
        gb_cluster_sync();
}

/* A cluster of one is whatever the launch says. */
#define GB_WGMMA_CLUSTER_1
#define GB_WGMMA_CLUSTER_2 __cluster_dims__(2, 1, 1)

#define GB_WGMMA_LAYOUT(symbol, tile, cluster)                                         \
    static_assert(sizeof(WgmmaShared<tile>) <= GB_WGMMA_SMEM(tile::BN, tile::BM,       \
                                                             tile::STAGES, tile::WGS,  \
                                                             tile::BUFFERS),           \
                  "GB_WGMMA_SMEM");                                                    \
    extern "C" __global__ void __launch_bounds__(                                      \
        tile::THREADS, GB_WGMMA_BLOCKS(tile::BN, tile::BM, tile::STAGES, tile::WGS,    \
                                       tile::BUFFERS)) GB_WGMMA_CLUSTER_##cluster      \
    symbol(const __grid_constant__ struct gb_tma_args args)                            \
    {                                                                                  \
        gb_gemm_wgmma<tile>(args);                                                     \
    }

/* The four layouts of one row of kernels.def. A's unit stride along its rows is along m, which
 * makes Y MN-major; B's along its columns is along n, which makes X so. */
#define GB_WGMMA_ROW(name, in, out, wgs, mi, bn, stages, buffers, cluster)             \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, cluster, false, true>     \
        name##_nn;                                                                     \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, cluster, true, true>      \
        name##_nt;                                                                     \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, cluster, false, false>    \
        name##_tn;                                                                     \
    typedef WgmmaTile<in, out, wgs, mi, bn, stages, buffers, cluster, true, false>     \
        name##_tt;                                                                     \
    GB_WGMMA_LAYOUT(gb_##name##_nn, name##_nn, cluster)                                \
    GB_WGMMA_LAYOUT(gb_##name##_nt, name##_nt, cluster)                                \
    GB_WGMMA_LAYOUT(gb_##name##_tn, name##_tn, cluster)                                \
    GB_WGMMA_LAYOUT(gb_##name##_tt, name##_tt, cluster)

#endif
