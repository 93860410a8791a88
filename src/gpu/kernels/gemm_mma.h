/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_mma: 16-bit GEMM by mma.sync, for sm_80 and everything newer. What a launch computes is
 * defined in gemm_args.h.
 *
 * Orientation. C is column-major, so a lane's two neighbouring sums should be neighbours along
 * m: the kernel computes C^T = op(B)^T op(A)^T. X is op(B)^T, the 16 rows of an mma; Y is
 * op(A), its 8 columns. Either may have its unit stride along k or across it: ldmatrix reads
 * the one as it is and transposes the other, so all four layouts run in place.
 *
 * Tile: M by N of C for one block, shared out to WARPS_M x WARPS_N warps; each keeps its sums
 * in registers in fp32, 64x64 in the large tiles, which then need a byte of shared memory for
 * 64 products. K of k at a time lie in one of STAGES buffers, in rows of 16-byte chunks whose
 * order is turned from row to row (swizzle.h) so that neither copies nor ldmatrix meet a bank
 * twice. Buffers are filled STAGES - 1 steps ahead. Fragments are read from shared memory one
 * k16 ahead of the products (where registers suffice), over the end of a step as well, whose
 * barrier so is passed while the tensor cores are busy.
 *
 * Two loaders feed the same loop. The aligned one copies chunks asynchronously (cp.async) and
 * wants addresses and leading dimensions that are multiples of 16 bytes. The ragged one takes
 * any: a thread's chunks lie at the same distance past a multiple of 16 bytes in every row and
 * every step, since rows and steps that it takes are 8 elements, or 8 leading dimensions,
 * apart. So it reads the two aligned vectors around each chunk into registers a step ahead,
 * shifts them together by that distance, and stores them where the other loader would have.
 *
 * Masks: chunks past the end of m, n or k are filled with zeros, as bytes; the main loop has
 * no other mask. Nothing outside a matrix is read, padding between its columns neither: where
 * a vector of the ragged loader would reach over, its thread reads elements.
 *
 * Epilogue: through shared memory, each warp its own part, so that C comes and goes in vectors
 * of 16 bytes if it is aligned to them, else element by element, neighbours side by side.
 * There alpha and beta are applied, in fp32. Partial sums take the same way.
 *
 * The order of the sum over k: one chain for each element, 16 of k at a time, so an element's
 * bits depend on k's blocks of 16 and not on the tile or the launch. */
#ifndef GB_GEMM_MMA_H
#define GB_GEMM_MMA_H

#include "fused.h"
#include "mma.h"
#include "shift.h"

/* One row of mma.def. */
template <class In_, class Out_, int M_, int N_, int K_, int STAGES_, int WARPS_M_,
          int WARPS_N_, int ALIGN_>
struct MmaShape {
    typedef In_ In;
    typedef Out_ Out;
    static constexpr int M = M_, N = N_, K = K_, STAGES = STAGES_;
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
    static constexpr int WARPS = WARPS_M * WARPS_N, THREADS = GB_LANES * WARPS;
    static constexpr bool RAGGED = ALIGN_ < 16;
    static constexpr int WM = M / WARPS_M, WN = N / WARPS_N; /* of one warp */
    static constexpr int XS = WN / 16, YS = WM / 16, KS = K / 16;
    /* Sets of fragments: with what the ragged loader holds, two would not fit beside the sums
     * of a large tile. */
    static constexpr int SETS = RAGGED && XS * YS >= 16 ? 1 : 2;
    static constexpr int X_BYTES = N * K * 2, Y_BYTES = M * K * 2;
    static constexpr int STAGE_BYTES = X_BYTES + Y_BYTES;
    /* The sums go through the buffers' memory in so many turns. */
    static constexpr int TURNS =
        (4 * M * N + STAGES * STAGE_BYTES - 1) / (STAGES * STAGE_BYTES);
    static constexpr int PATCH_N = WN / TURNS, PATCH = WM * PATCH_N;

    static_assert(sizeof(In) == 2 && ALIGN_ % 2 == 0, "16-bit elements");
    static_assert(WM % 32 == 0 && WN % 16 == 0, "warps have whole products");
    static_assert(K % 32 == 0, "fragments alternate between two sets");
    static_assert(STAGES >= 3, "buffers are refilled while one is read and one waits");
    static_assert(XS % TURNS == 0, "turns have whole products");
    static_assert(4 * PATCH * WARPS <= STAGES * STAGE_BYTES, "a turn fits");
};

/* In one layout. ACROSS: an operand's unit stride runs along k. */
template <class Shape_, bool A_ACROSS_, bool B_ACROSS_>
struct MmaTile : Shape_ {
    typedef Shape_ Shape;
    static constexpr bool A_ACROSS = A_ACROSS_, B_ACROSS = B_ACROSS_;
};

template <bool FIRST, class A, class B>
struct MmaIf {
    typedef A Type;
};

template <class A, class B>
struct MmaIf<false, A, B> {
    typedef B Type;
};

/* What a block does in one turn. */
struct MmaWork {
    int64_t m, n; /* C(m, n) is its first element */
    int64_t batch;
    int64_t split; /* of the whole problem */
    int64_t k;     /* where its sums begin, from the launch's k_begin */
    int64_t deep;  /* of k to sum */
    bool carry;    /* the sums began in an earlier launch */
    bool any;      /* false: there is no such turn */
};

struct MmaShared {
    MmaWork work[2];
};

/* Out of line: one copy for four layouts. */
template <int M, int N>
GB_NOINLINE void gb_mma_work(const gb_gemm_args &g, uint32_t unit, MmaWork &work)
{
    gb_split_range range;
    gb_tile_map32 map;
    gb_tile tile;

    work.any = gb_tile_map32_whole(&map, &g, M, N) && unit < map.units;
    if (!work.any)
        return;
    gb_tile_map32_at(&map, unit, &tile);
    gb_split_range_init(&range, &g, g.split0 + tile.split);
    work.m = tile.i * M;
    work.n = tile.j * N;
    work.batch = tile.batch;
    work.split = g.split0 + tile.split;
    work.k = range.begin - g.k_begin;
    work.deep = range.end - range.begin;
    work.carry = range.carry;
    if ((g.flags & GB_G_EPILOGUE) && g.alpha[0] == 0)
        work.deep = 0; /* the sum counts for nothing, not even as a NaN */
}

/* ---- loading ---- */

/* Which chunks of a buffer are a thread's: one column of them, ROW_STEP rows apart. TILE of m
 * or n by K. */
template <int TILE, int K, int THREADS, bool ACROSS>
struct MmaWalk {
    static constexpr int CHUNKS = (ACROSS ? K : TILE) / 8, PITCH = CHUNKS * 16;
    static constexpr int ROWS = ACROSS ? TILE : K, ROW_STEP = THREADS / CHUNKS;
    static constexpr int TURNS = ROWS / ROW_STEP;

    static_assert(ROW_STEP * CHUNKS == THREADS && TURNS * ROW_STEP == ROWS, "a grid");
    static_assert(ROW_STEP % 8 == 0, "rows alike to gb_mma_chunk, and to the shift");
    static_assert(K % 8 == 0, "steps alike to the shift");

    int row, chunk; /* of the first one */

    GB_DEVICE MmaWalk() : row(gb_thread() / CHUNKS), chunk(gb_thread() % CHUNKS)
    {
    }
    GB_DEVICE int first() const
    {
        return row * PITCH + gb_mma_chunk(row, chunk, CHUNKS) * 16;
    }
    GB_DEVICE static constexpr int place(int turn)
    {
        return turn * ROW_STEP * PITCH;
    }
};

/* Which of a thread's chunks exist. What follows from the thread is found anew each time: at
 * the edges alone, and not held in registers elsewhere. */
template <class Walk, int TILE, int K, bool ACROSS>
struct MmaMask {
    int rows; /* of the tile that exist */

    GB_DEVICE explicit MmaMask(int64_t left) : rows((int)gb_tile_min(left, TILE))
    {
    }
    GB_DEVICE static int clamp(int x)
    {
        return x < 0 ? 0 : x < 8 ? x : 8;
    }
    GB_DEVICE bool whole(int64_t deep) const
    {
        return rows == TILE && deep >= K;
    }
    /* Elements of the chunk of one turn, of a step with `deep` (at most K) of k. */
    GB_DEVICE int exist(const Walk &walk, int turn, int deep) const
    {
        const int row = walk.row + turn * Walk::ROW_STEP;

        return row < (ACROSS ? rows : deep)
                   ? clamp((ACROSS ? deep : rows) - walk.chunk * 8)
                   : 0;
    }
};

/* Brings successive steps of one operand into shared memory, asynchronously. */
template <int TILE, int K, int THREADS, bool ACROSS>
struct MmaCopier {
    typedef MmaWalk<TILE, K, THREADS, ACROSS> Walk;

    const unsigned char *from; /* this thread's first chunk of the next step */
    int64_t step;              /* bytes from turn to turn */
    int to;
    MmaMask<Walk, TILE, K, ACROSS> mask;

    /* base: element (0, 0) of the first step; left: rows from there to the matrix's end */
    GB_DEVICE MmaCopier(const Walk &walk, const void *base, int64_t stride,
                        int64_t left, bool)
        : from(static_cast<const unsigned char *>(base) + walk.row * stride * 2 +
               walk.chunk * 16),
          step(Walk::ROW_STEP * 2 * stride), to(walk.first()), mask(left)
    {
    }

    GB_DEVICE void advance()
    {
        if (ACROSS)
            from += K * 2 - Walk::TURNS * step;
    }

    /* Part k of KS of a step that needs no mask. */
    template <int KS>
    GB_DEVICE void fetch(gb_shared_at at, int k)
    {
        GB_UNROLL
        for (int turn = Walk::TURNS * k / KS; turn < Walk::TURNS * (k + 1) / KS;
             turn++, from += step)
            gb_copy16(at + to + Walk::place(turn), from);
        if (k == KS - 1)
            advance();
    }

    /* A step that does, `deep` of k being left. */
    GB_DEVICE void fetch_masked(gb_shared_at at, int64_t deep)
    {
        const int some = (int)gb_tile_min(deep, K);
        const Walk walk;

        GB_NO_UNROLL
        for (int turn = 0; turn < Walk::TURNS; turn++, from += step)
            gb_copy16(at + to + Walk::place(turn), from,
                      2 * mask.exist(walk, turn, some));
        advance();
    }

    GB_DEVICE void commit(gb_shared_at)
    {
    }
};

/* The same through registers, from any address. */
template <int TILE, int K, int THREADS, bool ACROSS>
struct MmaShifter {
    typedef MmaWalk<TILE, K, THREADS, ACROSS> Walk;

    const unsigned char *from; /* as before, down to a multiple of 16 bytes */
    int64_t step;
    int to;
    MmaMask<Walk, TILE, K, ACROSS> mask;
    int shift;    /* bytes from there to the chunk */
    bool inside;  /* the bytes in front of the chunk are the matrix's */
    int held_off; /* the shift of what is held */
    uint32_t held[Walk::TURNS][8];

    /* first: the tile's rows are the matrix's first ones, across which it is contiguous */
    GB_DEVICE MmaShifter(const Walk &walk, const void *base, int64_t stride,
                         int64_t left, bool first)
        : from(static_cast<const unsigned char *>(base) + walk.row * stride * 2 +
               walk.chunk * 16),
          step(Walk::ROW_STEP * 2 * stride), to(walk.first()), mask(left)
    {
        shift = (int)(reinterpret_cast<uintptr_t>(from) & 15);
        from -= shift;
        inside = shift == 0 || walk.chunk > 0 || !(ACROSS || first);
        if (!ACROSS && gb_tile_min(left, 2 * TILE) < end())
            inside = false;
        held_off = 0;
    }

    /* Where the vectors around the chunk end, in elements along its row of the buffer. */
    GB_DEVICE int end() const
    {
        return Walk().chunk * 8 + (shift ? 16 - shift / 2 : 8);
    }

    GB_DEVICE void vectors(uint32_t (&w)[8], const unsigned char *p) const
    {
        gb_get16(w, p);
        if (shift) {
            gb_get16(w + 4, p + 16);
        } else {
            GB_UNROLL
            for (int i = 4; i < 8; i++)
                w[i] = 0;
        }
    }

    GB_DEVICE static void elements(uint32_t (&w)[8], const unsigned char *p, int exist)
    {
        GB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = 0;
        GB_UNROLL
        for (int e = 0; e < 8; e++)
            if (e < exist)
                w[e / 2] |= gb_get2(p + 2 * e) << e % 2 * 16;
    }

    /* All of a step, `deep` of k being left. */
    GB_DEVICE void fetch_masked(gb_shared_at, int64_t deep)
    {
        const unsigned char *p = from;
        const bool around = inside && (!ACROSS || deep >= K + 8 || deep >= end());

        held_off = around ? shift : 0;
        if (around && mask.whole(deep)) {
            GB_UNROLL
            for (int turn = 0; turn < Walk::TURNS; turn++, p += step)
                vectors(held[turn], p);
        } else {
            const int some = (int)gb_tile_min(deep, K);
            const Walk walk;

            GB_UNROLL
            for (int turn = 0; turn < Walk::TURNS; turn++, p += step) {
                const int exist = mask.exist(walk, turn, some);

                if (around && exist > 0)
                    vectors(held[turn], p);
                else
                    elements(held[turn], p + shift, exist);
            }
        }
        from = ACROSS ? from + K * 2 : p;
        if (ACROSS)
            inside = true;
    }

    /* No step is so plain that there would be parts. */
    template <int KS>
    GB_DEVICE void fetch(gb_shared_at, int)
    {
    }

    GB_DEVICE void commit(gb_shared_at at) const
    {
        GB_UNROLL
        for (int turn = 0; turn < Walk::TURNS; turn++) {
            uint32_t out[4];

            gb_shift_words(out, held[turn], held_off);
            gb_put16(at + to + Walk::place(turn), out);
        }
    }
};

template <class Tile>
struct MmaLoader {
    template <int TILE, bool ACROSS>
    using Operand =
        typename MmaIf<Tile::RAGGED, MmaShifter<TILE, Tile::K, Tile::THREADS, ACROSS>,
                       MmaCopier<TILE, Tile::K, Tile::THREADS, ACROSS>>::Type;
    typedef Operand<Tile::N, Tile::B_ACROSS> X;
    typedef Operand<Tile::M, Tile::A_ACROSS> Y;

    X x;
    Y y;
    int64_t deep; /* of k that are not yet asked for */
    bool plain;   /* all of the step that is being asked for exists */

    GB_DEVICE static const void *element(const uint16_t *matrix, int64_t index)
    {
        return matrix + index;
    }

    GB_DEVICE MmaLoader(const gb_gemm_args &g, const MmaWork &work)
        : x(typename X::Walk(),
            element(gb_matrix<const uint16_t>(g.b, g.b_list, g.b_batch, work.batch),
                    work.k * g.b_k + work.n * g.b_n),
            Tile::B_ACROSS ? g.b_n : g.b_k, g.n - work.n, work.n == 0),
          y(typename Y::Walk(),
            element(gb_matrix<const uint16_t>(g.a, g.a_list, g.a_batch, work.batch),
                    work.k * g.a_k + work.m * g.a_m),
            Tile::A_ACROSS ? g.a_m : g.a_k, g.m - work.m, work.m == 0),
          deep(work.deep), plain(false)
    {
    }

    /* Ask for the next step, if there is one, in KS parts; all of it with the first where it
     * needs masks. */
    template <int KS>
    GB_DEVICE void fetch(gb_shared_at at, int k)
    {
        if (k == 0) {
            plain = !Tile::RAGGED && x.mask.whole(deep) && y.mask.whole(deep);
            if (!plain && deep > 0) {
                x.fetch_masked(at, deep);
                y.fetch_masked(at + Tile::X_BYTES, deep);
            }
        }
        if (plain) {
            x.template fetch<KS>(at, k);
            y.template fetch<KS>(at + Tile::X_BYTES, k);
        }
        if (!Tile::RAGGED && k == KS - 1)
            gb_copy_commit();
    }
    /* All parts were asked for: store what came through registers. */
    GB_DEVICE void commit(gb_shared_at at)
    {
        if (Tile::RAGGED && deep > 0) {
            x.commit(at);
            y.commit(at + Tile::X_BYTES);
        }
        deep -= Tile::K;
    }
};

/* All but the latest PENDING steps that were asked for are in place, for all threads. */
template <class Tile, int PENDING>
GB_INLINE void gb_mma_arrived()
{
    if (!Tile::RAGGED)
        gb_copy_wait_groups<PENDING>();
    gb_sync();
}

/* ---- products ---- */

/* Where a lane finds one operand's fragments in a buffer: COUNT of 16 rows, beginning with
 * row `first` of TILE. DOWN: as gb_mma_lane of a buffer whose rows run along m or n. */
template <int TILE, int K, int COUNT, bool ACROSS, bool DOWN>
struct MmaReader {
    static constexpr int CHUNKS = (ACROSS ? K : TILE) / 8, PITCH = CHUNKS * 16;
    /* Chunks that gb_mma_chunk tells apart, two to a fragment. */
    static constexpr int TURNED = (CHUNKS < 8 ? CHUNKS : 8) / 2;
    static constexpr int PLACES = ACROSS ? K / 16 : COUNT < TURNED ? COUNT : TURNED;

    int place[PLACES];

    GB_DEVICE explicit MmaReader(int first)
    {
        const gb_place p = gb_mma_lane(gb_thread() % GB_LANES, ACROSS == DOWN);
        const int row = ACROSS ? first + p.row : p.row;

        GB_UNROLL
        for (int i = 0; i < PLACES; i++)
            place[i] =
                row * PITCH +
                gb_mma_chunk(row, (ACROSS ? 0 : first / 8) + 2 * i + p.k, CHUNKS) * 16;
    }

    GB_DEVICE void read(uint32_t (&frag)[COUNT][4], gb_shared_at at, int k) const
    {
        GB_UNROLL
        for (int i = 0; i < COUNT; i++)
            gb_ldmatrix<!ACROSS>(frag[i], ACROSS ? at + place[k] + i * 16 * PITCH
                                                 : at + place[i % PLACES] +
                                                       k * 16 * PITCH +
                                                       i / PLACES * PLACES * 32);
    }
};

template <class Tile>
struct MmaFrags {
    uint32_t x[Tile::XS][4], y[Tile::YS][4];
};

template <class Tile>
struct MmaReaders {
    MmaReader<Tile::N, Tile::K, Tile::XS, Tile::B_ACROSS, true> x;
    MmaReader<Tile::M, Tile::K, Tile::YS, Tile::A_ACROSS, false> y;

    GB_DEVICE explicit MmaReaders(int warp)
        : x(warp / Tile::WARPS_M * Tile::WN), y(warp % Tile::WARPS_M * Tile::WM)
    {
    }
    GB_DEVICE void read(MmaFrags<Tile> &frags, gb_shared_at at, int k) const
    {
        x.read(frags.x, at, k);
        y.read(frags.y, at + Tile::X_BYTES, k);
    }
};

template <class Tile>
GB_INLINE void gb_mma_loop(const gb_gemm_args &g, const MmaWork &work,
                           gb_shared_at begin, float (&sums)[Tile::XS][2 * Tile::YS][4])
{
    const gb_shared_at end = begin + Tile::STAGES * Tile::STAGE_BYTES;
    const MmaReaders<Tile> readers(gb_thread() / GB_LANES);
    gb_shared_at from = begin, to = begin;
    MmaLoader<Tile> loader(g, work);
    MmaFrags<Tile> frags[Tile::SETS];
    int filling = Tile::STAGES - 1;

    /* The first steps only fill buffers. Later ones are asked for in parts between the products,
     * which the tensor cores so never wait for. */
    GB_NO_UNROLL
    while (loader.deep + (Tile::STAGES - 1) * Tile::K > 0) {
        if (filling > 0) {
            loader.template fetch<1>(to, 0);
            loader.commit(to);
            to += Tile::STAGE_BYTES;
            if (--filling == 0) {
                gb_mma_arrived<Tile, Tile::STAGES - 2>();
                readers.read(frags[0], from, 0);
            }
            continue;
        }
        GB_UNROLL
        for (int k = 0; k < Tile::KS; k++) {
            if (k == Tile::KS - 1) {
                gb_mma_arrived<Tile, Tile::STAGES - 3>();
                from += Tile::STAGE_BYTES;
                if (from == end)
                    from = begin;
            }
            if (Tile::SETS == 2)
                readers.read(frags[(k + 1) % Tile::SETS], from, (k + 1) % Tile::KS);
            loader.template fetch<Tile::KS>(to, k);
            gb_mma_warp<typename Tile::In>(sums, frags[k % Tile::SETS].x,
                                           frags[k % Tile::SETS].y);
            if (Tile::SETS == 1)
                readers.read(frags[0], from, (k + 1) % Tile::KS);
        }
        loader.commit(to);
        to += Tile::STAGE_BYTES;
        if (to == end)
            to = begin;
    }
}

/* ---- a tile of C ---- */

/* A warp's part of C and of the partial sums. */
template <class Tile>
struct MmaOutput {
    typedef typename Tile::Out Out;
    static constexpr int WM = Tile::WM, ROWS = Tile::PATCH_N;
    /* of C, in a vector of 16 bytes; lanes that share a column of the part */
    static constexpr int V = 16 / sizeof(Out), LANES = WM / V;
    static_assert(GB_LANES % LANES == 0 && ROWS % (GB_LANES / LANES) == 0,
                  "a warp has whole columns");

    const gb_gemm_args &g;
    const MmaWork &work;
    float *patch;   /* this warp's */
    int64_t m, n;   /* C(m, n) is its first element */
    int rows, cols; /* that exist from there on */
    int lane;

    GB_DEVICE MmaOutput(const gb_gemm_args &args, const MmaWork &work_, void *memory)
        : g(args), work(work_), lane(gb_thread() % GB_LANES)
    {
        const int warp = gb_thread() / GB_LANES;

        patch = static_cast<float *>(memory) + warp * Tile::PATCH;
        m = work.m + warp % Tile::WARPS_M * WM;
        n = work.n + warp / Tile::WARPS_M * Tile::WN;
        rows = (int)gb_tile_clamp(g.m - m, 0, WM);
        cols = (int)gb_tile_clamp(g.n - n, 0, Tile::WN);
    }

    /* Between the sums of one turn and the patch. */
    template <bool PUT>
    GB_DEVICE void exchange(float (&sums)[Tile::XS][2 * Tile::YS][4], int turn) const
    {
        GB_UNROLL
        for (int i = 0; i < ROWS / 16; i++) {
            GB_UNROLL
            for (int j = 0; j < 2 * Tile::YS; j++) {
                float *at =
                    patch + gb_mma_patch(16 * i + lane / 4, 8 * j + lane % 4 * 2, WM);
                float(&s)[4] = sums[turn * (ROWS / 16) + i][j];

                if (PUT) {
                    gb_store<float, 2>(at, Vec<float, 2>{{s[0], s[1]}});
                    gb_store<float, 2>(at + 8 * WM, Vec<float, 2>{{s[2], s[3]}});
                } else {
                    const Vec<float, 2> low = gb_load<float, 2>(at);
                    const Vec<float, 2> high = gb_load<float, 2>(at + 8 * WM);

                    s[0] = low.at[0];
                    s[1] = low.at[1];
                    s[2] = high.at[0];
                    s[3] = high.at[1];
                }
            }
        }
    }

    GB_DEVICE float *partial(int turn) const
    {
        return reinterpret_cast<float *>(g.partial) +
               (work.batch * g.splits + work.split) * g.m * g.n +
               (n + turn * ROWS) * g.m + m;
    }

    /* Between the patch and partial sums. */
    template <bool PUT>
    GB_DEVICE void partial_turn(int turn) const
    {
        float *base = partial(turn);

        GB_UNROLL_BY(2)
        for (int t = 0; t < Tile::PATCH / GB_LANES; t++) {
            const int x = lane + t * GB_LANES, r = x % WM, c = x / WM;
            float *at = base + c * g.m + r, *here = patch + gb_mma_patch(c, r, WM);

            if (r < rows && c + turn * ROWS < cols) {
                if (PUT)
                    *at = *here;
                else
                    *here = *at;
            }
        }
    }

    GB_DEVICE void start(float (&sums)[Tile::XS][2 * Tile::YS][4]) const
    {
        GB_UNROLL
        for (int turn = 0; turn < Tile::TURNS; turn++) {
            partial_turn<false>(turn);
            gb_sync_warp();
            exchange<false>(sums, turn);
            gb_sync_warp();
        }
    }

    /* alpha * sum + beta * old, in C's type; `beta` is of gb_unread where C is not read. */
    GB_DEVICE static void mix(float alpha, float sum, float beta, Out &c)
    {
        float old;

        gb_widen(c, old);
        gb_narrow(gb_epilogue_f32(alpha, sum, beta, old), c);
    }

    /* All rows of the part are whole vectors. */
    GB_DEVICE void vectors(Out *base, int turn, bool read, float alpha,
                           float beta) const
    {
        constexpr int COLUMNS = GB_LANES / LANES; /* at a time */
        const int r = lane % LANES * V, first = lane / LANES;

        GB_UNROLL_BY(2)
        for (int t = 0; t < ROWS / COLUMNS; t++) {
            const int c = first + t * COLUMNS;
            Out *at = base + c * g.ldc + r;
            Vec<Out, V> v = {};

            if (c + turn * ROWS < cols && r < rows) {
                if (read)
                    v = gb_load<Out, V>(at);
                GB_UNROLL
                for (int e = 0; e < V; e += 4) {
                    const Vec<float, 4> s =
                        gb_load<float, 4>(patch + gb_mma_patch(c, r + e, WM));

                    GB_UNROLL
                    for (int i = 0; i < 4; i++)
                        mix(alpha, s.at[i], beta, v.at[e + i]);
                }
                gb_store_whole<Out, V>(at, v);
            }
        }
    }

    GB_DEVICE void elements(Out *base, int turn, bool read, float alpha,
                            float beta) const
    {
        GB_NO_UNROLL
        for (int t = 0; t < Tile::PATCH / GB_LANES; t++) {
            const int x = lane + t * GB_LANES, r = x % WM, c = x / WM;
            Out *at = base + c * g.ldc + r, old = {};

            if (r >= rows || c + turn * ROWS >= cols)
                continue;
            if (read)
                old = *at;
            mix(alpha, patch[gb_mma_patch(c, r, WM)], beta, old);
            *at = old;
        }
    }

    /* The same with bias, scales and activation: whole vectors, or (N 1) elements. */
    template <int N>
    GB_DEVICE void fused(Out *base, int turn, bool read, float alpha, float beta) const
    {
        constexpr int ACROSS = WM / N;

        GB_NO_UNROLL
        for (int x = lane; x < Tile::PATCH / N; x += GB_LANES) {
            const int r = x % ACROSS * N, c = x / ACROSS;
            Out *at = base + c * g.ldc + r;
            Vec<Out, N> out = {};
            float v[N], old[N];

            if (r >= rows || c + turn * ROWS >= cols)
                continue;
            if (read)
                out = gb_load<Out, N>(at);
            GB_UNROLL
            for (int e = 0; e < N; e += N < 4 ? N : 4) {
                const Vec<float, N<4 ? N : 4> s = gb_load < float, N < 4 ? N : 4>(
                    patch + gb_mma_patch(c, r + e, WM));

                GB_UNROLL
                for (int i = 0; i < (N < 4 ? N : 4); i++) {
                    v[e + i] = s.at[i];
                    gb_widen(out.at[e + i], old[e + i]);
                }
            }
            FusedRows<Out, float, N>(g, work.batch, m + r, rows - r)
                .apply(n + turn * ROWS + c, alpha, beta, old, v);
            GB_UNROLL
            for (int e = 0; e < N; e++)
                gb_narrow(v[e], out.at[e]);
            if constexpr (N > 1)
                gb_store_whole<Out, N>(at, out);
            else
                gb_store<Out, N>(at, out);
        }
    }

    GB_DEVICE void finish(float (&sums)[Tile::XS][2 * Tile::YS][4]) const
    {
        const bool read = !(g.flags & GB_G_BETA_ZERO);
        const float alpha = (float)g.alpha[0];
        const float beta = read ? (float)g.beta[0] : gb_unread_f32(alpha);
        const bool last = g.flags & GB_G_EPILOGUE, last_fused = g.flags & GB_G_FUSED;
        const bool whole = gb_whole<Out>(g.c, g.ldc, g.c_batch) && rows % V == 0;
        Out *base =
            gb_matrix<Out>(g.c, g.c_list, g.c_batch, work.batch) + n * g.ldc + m;

        GB_UNROLL
        for (int turn = 0; turn < Tile::TURNS; turn++, base += ROWS * g.ldc) {
            exchange<true>(sums, turn);
            gb_sync_warp();
            if (!last)
                partial_turn<true>(turn);
            else if (last_fused && whole)
                fused<V>(base, turn, read, alpha, beta);
            else if (last_fused)
                fused<1>(base, turn, read, alpha, beta);
            else if (whole)
                vectors(base, turn, read, alpha, beta);
            else
                elements(base, turn, read, alpha, beta);
            gb_sync_warp();
        }
    }
};

/* ---- the kernel ---- */

template <class Tile>
GB_INLINE void gb_gemm_mma(const gb_gemm_args &g)
{
    GB_SHARED(MmaShared, shared);
    GB_SHARED_DYNAMIC(unsigned char, memory);
    uint32_t unit = (uint32_t)gb_block();

    GB_NO_UNROLL
    for (int slot = 0;; slot ^= 1, unit += (uint32_t)gb_grid()) {
        const MmaWork &work = shared.work[slot];
        float sums[Tile::XS][2 * Tile::YS][4] = {};

        if (gb_thread() == 0)
            gb_mma_work<Tile::M, Tile::N>(g, unit, shared.work[slot]);
        gb_sync(); /* and the last tile's sums have left the buffers */
        if (!work.any)
            break;
        if (work.carry && work.deep > 0) {
            MmaOutput<typename Tile::Shape>(g, work, memory).start(sums);
            gb_sync();
        }
        if (work.deep > 0) {
            gb_mma_loop<Tile>(g, work, gb_shared_of(memory), sums);
            gb_sync();
        }
        MmaOutput<typename Tile::Shape>(g, work, memory).finish(sums);
    }
}

#define GB_MMA_LAYOUT(symbol, shape, blocks, ...)                                      \
    GB_KERNEL(symbol, shape::THREADS, blocks, g)                                       \
    {                                                                                  \
        gb_gemm_mma<MmaTile<shape, __VA_ARGS__>>(g);                                   \
    }

/* The four layouts of one row of mma.def. A's unit stride runs along m in _n., along k in _t.;
 * B's along k in _.n, along n in _.t. */
#define GB_MMA_ROW(name, blocks, ...)                                                  \
    typedef MmaShape<__VA_ARGS__> name##_shape;                                        \
    GB_MMA_LAYOUT(gb_##name##_nn, name##_shape, blocks, false, true)                   \
    GB_MMA_LAYOUT(gb_##name##_nt, name##_shape, blocks, false, false)                  \
    GB_MMA_LAYOUT(gb_##name##_tn, name##_shape, blocks, true, true)                    \
    GB_MMA_LAYOUT(gb_##name##_tt, name##_shape, blocks, true, false)

#endif
