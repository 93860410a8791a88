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
 * none. Stores are cut off by TMA as well, but only in steps of 16 bytes: where m ends inside
 * such a step, the last columns of sums are stored element by element, since nothing between
 * the columns of C may change.
 *
 * Epilogue: alpha and beta are applied in registers after the loop; C comes and goes through
 * BUFFERS of 64 columns x 128 bytes per warpgroup, swizzled against bank conflicts and
 * moved by TMA; the first parts of C are fetched while the products run. Sums that stay
 * partial take the same buffers to and from their workspace.
 *
 * The order of the sum over k: tensor cores add 16 products at a time to the fp32 sum, so an
 * element's bits depend on k's blocks of 16 and not on the tile or the launch. */
#ifndef GB_GEMM_WGMMA_H
#define GB_GEMM_WGMMA_H

#include "seam.h"
#include "tensor_map.h"
#include "wgmma.h"

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
    /* C travels in parts of 64 columns by PART rows. */
    static constexpr int PART = 128 / sizeof(Out) < BN ? 128 / sizeof(Out) : BN;
    static constexpr int PARTS = BN / PART * MI, BUFFERS = BUFFERS_;
    static constexpr int PART_BYTES = 64 * 128;
    /* Buffers that the parts of a tile take in turn, and those of the next tile after them. */
    static constexpr int TURNS = BUFFERS < PARTS ? BUFFERS : PARTS;
    /* A block starts with 168 registers per thread where there are three warpgroups: the
     * loader gives most of its own to the others. The sum is the 64 Ki of a
     * multiprocessor. */
    static constexpr bool TRADE = WGS > 1;
    static constexpr int LOADER_REGISTERS = 56, REGISTERS = 224;

    static_assert(BN % PART == 0 && BN <= 256 && WGS <= 2, "tile");
    static_assert(CLUSTER == 1 || BN % 128 == 0, "halves of Y are whole atoms");
    static_assert(PARTS % TURNS == 0, "the next tile begins with the oldest buffer");
    static_assert(BUFFERS >= 2, "partial sums alternate between buffers");
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
    unsigned char part[Tile::WGS][Tile::BUFFERS][Tile::PART_BYTES];
    uint64_t full[Tile::STAGES], empty[Tile::STAGES];
    uint64_t arrived[Tile::WGS][Tile::BUFFERS]; /* a part of C */
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
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = (int)tile.i * Tile::BN;
    work.n = ((int)tile.j * Tile::CLUSTER + rank) * Tile::BM;
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
            gb_tma_load(to + i * GB_ATOM_BYTES, &p.b, bar, n + 64 * i, k, batch);
    } else {
        gb_tma_load(to, &p.b, bar, k, n, batch);
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
        gb_tma_load(to, &p.a, bar, k, m, batch);
    } else if constexpr (!Tile::Y_MN) {
        gb_tma_multicast(to + rank * ROWS * 128, &p.a, bar, k, m + rank * ROWS, batch,
                         ALL);
    } else {
        GB_UNROLL
        for (int i = 0; i < Tile::ATOMS; i++) {
            if (Tile::CLUSTER == 1)
                gb_tma_load(to + i * GB_ATOM_BYTES, &p.a, bar, m + 64 * i, k, batch);
            else if (i % Tile::CLUSTER == rank)
                gb_tma_multicast(to + i * GB_ATOM_BYTES, &p.a, bar, m + 64 * i, k,
                                 batch, ALL);
        }
    }
}

/* One thread's life. */
template <class Tile>
GB_INLINE void gb_wgmma_loader(const gb_tma_args &p, WgmmaShared<Tile> &shared,
                               int rank)
{
    const uint32_t clusters = (uint32_t)gb_grid() / Tile::CLUSTER;
    WgmmaRing<Tile::STAGES> ring(1);

    GB_NO_UNROLL
    for (uint32_t unit = (uint32_t)gb_block() / Tile::CLUSTER;; unit += clusters) {
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

/* Between a buffer of 64 columns x PART elements and a column-major matrix of which m x n
 * elements are left, element by element, by one warpgroup; what is not there reads as 0. */
template <class T, int PART, bool IN>
GB_INLINE void gb_wgmma_copy(T *matrix, int64_t ld, int64_t m, int64_t n,
                             unsigned char *buffer)
{
    GB_NO_UNROLL
    for (int e = gb_thread() % 128; e < 64 * PART; e += 128) {
        const int column = e / PART, row = e % PART;
        T *at = reinterpret_cast<T *>(buffer +
                                      gb_wgmma_swizzled(column, row * (int)sizeof(T)));
        const bool there = row < m && column < n;

        if (IN)
            *at = there ? matrix[row + column * ld] : T{};
        else if (there)
            matrix[row + column * ld] = *at;
    }
}

/* Partial sums, between the registers and the workspace of gemm_args.h. Buffers alternate, so
 * that one barrier is enough before each. */
template <class Tile, bool LOAD>
GB_INLINE void gb_wgmma_partial(const gb_gemm_args &g, const WgmmaWork &work, int wg,
                                WgmmaShared<Tile> &shared,
                                float (&d)[Tile::MI][Tile::BN / 2])
{
    constexpr int PART = Tile::BN < 32 ? Tile::BN : 32, ACROSS = Tile::BN / PART;
    const int lane = gb_thread() % 32, warp = gb_thread() / 32 % 4;
    float *const matrix = reinterpret_cast<float *>(g.partial) +
                          ((int64_t)work.batch * g.splits + work.split) * g.m * g.n;

    if (gb_thread() % 128 == 0)
        gb_tma_wait_read<0>();
    gb_warpgroup_sync(1 + wg);
    GB_UNROLL
    for (int part = 0; part < ACROSS * Tile::MI; part++) {
        const int64_t m = work.m + part % ACROSS * PART;
        const int64_t n = work.n + (wg * Tile::MI + part / ACROSS) * 64;
        unsigned char *buffer = shared.part[wg][part % Tile::BUFFERS];
        float *sums = d[part / ACROSS] + part % ACROSS * PART / 2;

        if (LOAD) {
            gb_wgmma_copy<float, PART, true>(matrix + m + n * g.m, g.m, g.m - m,
                                             g.n - n, buffer);
            gb_warpgroup_sync(1 + wg);
        }
        GB_UNROLL
        for (int a = 0; a < PART / 2; a += 2) {
            float *at = reinterpret_cast<float *>(
                buffer + gb_wgmma_swizzled(warp * 16 + gb_wgmma_pair_n(lane, a),
                                           gb_wgmma_pair_m(lane, a) * 4));

            if (LOAD) {
                const Vec<float, 2> v = gb_load<float, 2>(at);

                sums[a] = v.at[0];
                sums[a + 1] = v.at[1];
            } else {
                gb_store(at, Vec<float, 2>{{sums[a], sums[a + 1]}});
            }
        }
        gb_warpgroup_sync(1 + wg);
        if (!LOAD)
            gb_wgmma_copy<float, PART, false>(matrix + m + n * g.m, g.m, g.m - m,
                                              g.n - n, buffer);
    }
    /* the buffers are free for whatever comes next, TMA included */
    gb_fence_async();
    gb_warpgroup_sync(1 + wg);
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

/* What becomes of one warpgroup's sums. */
template <class Tile>
struct WgmmaEpilogue {
    typedef typename Tile::Out Out;
    static constexpr int PART = Tile::PART, ACROSS = Tile::BN / PART;

    const gb_tma_args &p;
    WgmmaShared<Tile> &shared;
    int wg, lane, warp;
    bool leader, reads;
    float alpha, beta; /* alpha is 0 for a tile without sums */
    uint32_t parity;   /* bit i: of buffer i */

    GB_DEVICE WgmmaEpilogue(const gb_tma_args &args, WgmmaShared<Tile> &memory,
                            int index)
        : p(args), shared(memory), wg(index), lane(gb_thread() % 32),
          warp(gb_thread() / 32 % 4), leader(gb_thread() % 128 == 0),
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
        return work.n + (wg * Tile::MI + part / ACROSS) * 64;
    }
    GB_DEVICE Out *part_of_c(const WgmmaWork &work, int part) const
    {
        return reinterpret_cast<Out *>(p.g.c) + work.batch * p.g.c_batch +
               part_m(work, part) + part_n(work, part) * p.g.ldc;
    }

    /* By the leader, when the buffer's last store has read it. */
    GB_DEVICE void fetch(const WgmmaWork &work, int part) const
    {
        const int b = part % Tile::BUFFERS;
        const uint32_t bar = gb_smem(&shared.arrived[wg][b]);

        gb_bar_expect(bar, 64 * PART * sizeof(Out));
        gb_tma_load(gb_smem(shared.part[wg][b]), &p.c, bar, part_m(work, part),
                    part_n(work, part), work.batch);
    }

    /* Fetch what the buffers hold of C while the sums are made. */
    GB_DEVICE void begin(const WgmmaWork &work)
    {
        alpha = work.steps > 0 ? (float)p.g.alpha[0] : 0.0f;
        if (!reads || p.c_direct || !leader)
            return;
        gb_tma_wait_read<0>();
        for (int part = 0; part < Tile::BUFFERS && part < Tile::PARTS; part++)
            fetch(work, part);
    }

    /* The buffer is this part's, and holds C's where C is read. */
    GB_DEVICE void take(const WgmmaWork &work, int part, unsigned char *buffer)
    {
        const int b = part % Tile::BUFFERS;

        if (reads && !p.c_direct) {
            gb_bar_wait(gb_smem(&shared.arrived[wg][b]), parity >> b & 1);
            parity ^= 1u << b;
            return;
        }
        if (leader)
            gb_tma_wait_read<Tile::TURNS - 1>(); /* a group for each part: finish() */
        gb_warpgroup_sync(1 + wg);
        if (reads) {
            gb_wgmma_copy<Out, PART, true>(part_of_c(work, part), p.g.ldc,
                                           p.g.m - part_m(work, part),
                                           p.g.n - part_n(work, part), buffer);
            gb_warpgroup_sync(1 + wg);
        }
    }

    /* alpha * sums + beta * C, where C is what the buffer holds at `at`. */
    GB_DEVICE void mix(float (&v)[2], const unsigned char *at) const
    {
        float old[2];

        if (alpha == 0)
            v[0] = v[1] = 0;
        if (!reads) {
            v[0] *= alpha;
            v[1] *= alpha;
            return;
        }
        WgmmaPair<Out>::get(at, old);
        v[0] = gb_epilogue_f32(alpha, v[0], beta, old[0]);
        v[1] = gb_epilogue_f32(alpha, v[1], beta, old[1]);
    }

    /* The sums of a part into its buffer. */
    GB_DEVICE void fill(const float *sums, unsigned char *buffer) const
    {
        GB_UNROLL
        for (int a = 0; a < PART / 2; a += 8) {
            uint32_t packed[4];

            GB_UNROLL
            for (int i = 0; i < 4; i++) {
                unsigned char *at =
                    buffer + gb_wgmma_swizzled(
                                 warp * 16 + gb_wgmma_pair_n(lane, a + 2 * i),
                                 gb_wgmma_pair_m(lane, a + 2 * i) * (int)sizeof(Out));
                float v[2] = {sums[a + 2 * i], sums[a + 2 * i + 1]};

                mix(v, at);
                if constexpr (sizeof(Out) == 4)
                    gb_store(reinterpret_cast<float *>(at),
                             Vec<float, 2>{{v[0], v[1]}});
                else
                    packed[i] = WgmmaPair<Out>::pack(v);
            }
            if constexpr (sizeof(Out) == 2) {
                if (reads)
                    __syncwarp(); /* a lane writes where others have read C */
                gb_stmatrix(
                    gb_smem(buffer + gb_wgmma_swizzled(warp * 16 + lane % 16,
                                                       2 * (2 * a + lane / 16 * 8))),
                    packed);
            }
        }
    }

    GB_DEVICE void finish(const WgmmaWork &work,
                          const float (&d)[Tile::MI][Tile::BN / 2])
    {
        const bool cut = p.g.m * sizeof(Out) % 16 != 0;

        GB_UNROLL
        for (int part = 0; part < Tile::PARTS; part++) {
            unsigned char *buffer = shared.part[wg][part % Tile::BUFFERS];
            const int64_t m = part_m(work, part), n = part_n(work, part);
            const bool direct = p.c_direct || (cut && m + PART > p.g.m);

            take(work, part, buffer);
            fill(d[part / ACROSS] + part % ACROSS * PART / 2, buffer);
            gb_fence_async();
            gb_warpgroup_sync(1 + wg);
            if (direct) {
                gb_wgmma_copy<Out, PART, false>(part_of_c(work, part), p.g.ldc,
                                                p.g.m - m, p.g.n - n, buffer);
                gb_fence_async(); /* read, before TMA fetches the next part into it */
                gb_warpgroup_sync(1 + wg);
            } else if (leader) {
                gb_tma_store(&p.c, gb_smem(buffer), (int)m, (int)n, work.batch);
            }
            if (leader)
                gb_tma_commit(); /* empty where direct: take() counts groups */
            if (leader && reads && !p.c_direct && part + Tile::BUFFERS < Tile::PARTS) {
                gb_tma_wait_read<0>();
                fetch(work, part + Tile::BUFFERS);
            }
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

template <class Tile>
GB_INLINE void gb_wgmma_multiplier(const gb_tma_args &p, WgmmaShared<Tile> &shared,
                                   int wg)
{
    const bool last = p.g.flags & GB_G_EPILOGUE;
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
            gb_wgmma_partial<Tile, true>(p.g, work, wg, shared, d);
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
            gb_warpgroup_sync(1 + wg);
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
        if (last)
            epilogue.finish(work, d);
        else
            gb_wgmma_partial<Tile, false>(p.g, work, wg, shared, d);
    }
    if (epilogue.leader)
        gb_tma_wait();
}

template <class Tile>
GB_INLINE void gb_gemm_wgmma(const gb_tma_args &p)
{
    extern __shared__ __align__(1024) unsigned char gb_wgmma_memory[];
    WgmmaShared<Tile> &shared = *reinterpret_cast<WgmmaShared<Tile> *>(gb_wgmma_memory);
    const int wg = gb_thread() / 128;
    const int rank = Tile::CLUSTER > 1 ? (int)gb_cluster_rank() : 0;

    if (gb_thread() == 0) {
        gb_tma_prefetch(&p.a);
        gb_tma_prefetch(&p.b);
        if ((p.g.flags & GB_G_EPILOGUE) && !p.c_direct)
            gb_tma_prefetch(&p.c);
        for (int s = 0; s < Tile::STAGES; s++) {
            gb_bar_init(gb_smem(&shared.full[s]), 1);
            gb_bar_init(gb_smem(&shared.empty[s]), Tile::WGS * Tile::CLUSTER);
        }
        for (int i = 0; i < Tile::WGS * Tile::BUFFERS; i++)
            gb_bar_init(gb_smem(&shared.arrived[i / Tile::BUFFERS][i % Tile::BUFFERS]),
                        1);
        gb_bar_fence_init();
    }
    if (Tile::CLUSTER > 1)
        gb_cluster_sync();
    else
        gb_sync();
    if (wg == Tile::WGS) {
        if (Tile::TRADE)
            gb_fewer_registers<Tile::LOADER_REGISTERS>();
        if (gb_thread() == Tile::WGS * 128)
            gb_wgmma_loader<Tile>(p, shared, rank);
        __syncwarp();
    } else {
        if (Tile::TRADE)
            gb_more_registers<Tile::REGISTERS>();
        gb_wgmma_multiplier<Tile>(p, shared, wg);
    }
    /* no block of a cluster ends while another may still write to it */
    if (Tile::CLUSTER > 1)
        gb_cluster_sync();
}

#define GB_WGMMA_LAYOUT(symbol, tile)                                                  \
    static_assert(sizeof(WgmmaShared<tile>) <= GB_WGMMA_SMEM(tile::BN, tile::BM,       \
                                                             tile::STAGES, tile::WGS,  \
                                                             tile::BUFFERS),           \
                  "GB_WGMMA_SMEM");                                                    \
    extern "C" __global__ void __launch_bounds__(tile::THREADS, 1)                     \
        __cluster_dims__(tile::CLUSTER, 1, 1)                                          \
            symbol(const __grid_constant__ struct gb_tma_args args)                    \
    {                                                                                  \
        gb_gemm_wgmma<tile>(args);                                                     \
    }

/* The four layouts of one row of kernels.def. A's unit stride along its rows is along m, which
 * makes Y MN-major; B's along its columns is along n, which makes X so. */
#define GB_WGMMA_TILE(in, out, wgs, mi, bn, stages, buffers, cluster, ...)             \
    WgmmaTile<in, out, wgs, mi, bn, stages, buffers, cluster, __VA_ARGS__>
#define GB_WGMMA_ROW(name, ...)                                                        \
    typedef GB_WGMMA_TILE(__VA_ARGS__, false, true) name##_nn;                         \
    typedef GB_WGMMA_TILE(__VA_ARGS__, true, true) name##_nt;                          \
    typedef GB_WGMMA_TILE(__VA_ARGS__, false, false) name##_tn;                        \
    typedef GB_WGMMA_TILE(__VA_ARGS__, true, false) name##_tt;                         \
    GB_WGMMA_LAYOUT(gb_##name##_nn, name##_nn)                                         \
    GB_WGMMA_LAYOUT(gb_##name##_nt, name##_nt)                                         \
    GB_WGMMA_LAYOUT(gb_##name##_tn, name##_tn)                                         \
    GB_WGMMA_LAYOUT(gb_##name##_tt, name##_tt)

#endif
