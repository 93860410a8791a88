/* SPDX-License-Identifier: BSD-3-Clause */
/* gb_measure, gb_choose, gb_cut and gb_join: everything of an fp64 product from residues but the
 * products of these. residue_args.h says what they compute, and why that is enough.
 *
 * A block of threads has GB_RESIDUE_K of k of GB_RESIDUE_GROUP vectors: a warp every eighth of the
 * vectors, a lane 4 of k. Where the unit stride does not run along k they are turned in shared
 * memory. */
#ifndef GB_RESIDUE_H
#define GB_RESIDUE_H

#include "accumulate.h"
#include "fused.h"
#include "residue_math.h"
#include "warp.h"

#if GB_SEAM_CUDA

GB_INLINE int64_t gb_nearest(double x)
{
    return __double2ll_rn(x);
}

#else

GB_INLINE int64_t gb_nearest(double x)
{
    return __builtin_llrint(x);
}

#endif

GB_INLINE uint64_t gb_bits(double x)
{
    uint64_t bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The high word of a magnitude, ordered as it is; of a denormal that has none, 1. */
GB_INLINE int gb_high_word(double x)
{
    const uint64_t bits = gb_bits(x);
    const int high = (int)(bits >> 32 & INT32_MAX);

    return high == 0 && (uint32_t)bits != 0 ? 1 : high;
}

/* How many moduli: 0 where every tile is left. */
GB_INLINE int gb_moduli(uint64_t at)
{
    const gb_residue_state &state = *reinterpret_cast<const gb_residue_state *>(at);
    int moduli = 0;

    GB_UNROLL
    for (int i = 0; i < GB_MODULI_CHOICES; i++)
        if (state.wanted[i])
            moduli = GB_MODULI_LEAST + i;
    return moduli;
}

/* ---- operands ---- */

struct ResidueShared {
    double x[GB_RESIDUE_GROUP][GB_RESIDUE_K + 1];
    int exponent[GB_RESIDUE_GROUP], most[GB_RESIDUE_GROUP];
};

struct ResiduePart {
    enum {
        WARPS = GB_RESIDUE_THREADS / GB_LANES,
        VECTORS = GB_RESIDUE_GROUP / WARPS,
        EACH = GB_RESIDUE_K / GB_LANES
    };
    const gb_residue_side &g;
    int64_t z, first; /* vector */

    GB_DEVICE const double *from(int64_t v, int64_t l) const
    {
        return reinterpret_cast<const double *>(g.from) + z * g.batch_from +
               v * g.of_vector + l * g.of_k;
    }

    GB_DEVICE int64_t vector(int q) const
    {
        return first + gb_thread() / GB_LANES + q * WARPS;
    }

    /* By all threads: x[q][e] is element e of the lane's k of vector(q), 0 past the end. */
    GB_DEVICE void fetch(int64_t block, ResidueShared &shared,
                         double (&x)[VECTORS][EACH]) const
    {
        const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
        const int64_t begin = block * GB_RESIDUE_K;

        if (g.of_k == 1) {
            const int64_t l = begin + lane * EACH;

            GB_UNROLL
            for (int q = 0; q < VECTORS; q++) {
                const double *const at = from(vector(q), l);

                if (vector(q) < g.vectors && l + EACH <= g.deep &&
                    reinterpret_cast<uintptr_t>(at) % 16 == 0) {
                    GB_UNROLL
                    for (int e = 0; e < EACH; e += 2) {
                        const Vec<double, 2> two = gb_load<double, 2>(at + e);

                        x[q][e] = two.at[0];
                        x[q][e + 1] = two.at[1];
                    }
                } else {
                    GB_UNROLL
                    for (int e = 0; e < EACH; e++)
                        x[q][e] = vector(q) < g.vectors && l + e < g.deep ? at[e] : 0;
                }
            }
            return;
        }
        gb_sync();
        GB_UNROLL
        for (int e = 0; e < GB_RESIDUE_K / WARPS; e++) {
            const int64_t l = begin + e * WARPS + warp, v = first + lane;

            shared.x[lane][e * WARPS + warp] =
                v < g.vectors && l < g.deep ? *from(v, l) : 0;
        }
        gb_sync();
        GB_UNROLL
        for (int q = 0; q < VECTORS; q++) {
            GB_UNROLL
            for (int e = 0; e < EACH; e++)
                x[q][e] = shared.x[warp + q * WARPS][lane * EACH + e];
        }
    }
};

/* ---- what must be known of them ---- */

/* Of a lane's elements of one vector in a block, by a warp. `most`: the largest high word. */
GB_INLINE gb_residue_block gb_measure_block(const double (&x)[ResiduePart::EACH],
                                            int most)
{
    const int exponent = (most >> 20) - 1023;
    const bool ordinary = exponent >= -GB_RESIDUE_RANGE && exponent <= GB_RESIDUE_RANGE;
    const double scale = gb_residue_power(ordinary ? 20 - exponent : 0);
    gb_residue_block b = {exponent, 0, {0, 0}};
    int fixed[ResiduePart::EACH], least;

    GB_UNROLL
    for (int e = 0; e < ResiduePart::EACH; e++) {
        fixed[e] = ordinary ? (int)(__builtin_fabs(x[e]) * scale) : 0;
        b.mean += fixed[e];
    }
    b.mean = gb_warp_total(b.mean) / GB_RESIDUE_K;
    b.mean = b.mean > 1 ? b.mean : 1;
    least = b.mean / 8 > 1 ? b.mean / 8 : 1;
    GB_UNROLL
    for (int e = 0; e < ResiduePart::EACH; e++) {
        b.least[0] += fixed[e] < b.mean ? fixed[e] : b.mean;
        b.least[1] += fixed[e] < least ? fixed[e] : least;
    }
    b.least[0] = gb_warp_total(b.least[0]);
    b.least[1] = gb_warp_total(b.least[1]);
    return b;
}

/* In units of 2^exponent of the vector's scale. */
GB_INLINE gb_residue_guard gb_measure_guard(const gb_residue_block &b, int exponent)
{
    const int shift = b.exponent - 20 - exponent;
    const float unit = shift < -120 ? 0 : gb_power(shift);
    const int eighth = b.mean / 8 > 1 ? b.mean / 8 : 1;
    /* (rounded: a little down) */
    const float down = 0x1.fffffp-1f;

    return {{(float)b.mean * unit, (float)eighth * unit},
            {(float)b.least[0] / (float)b.mean * down,
             (float)b.least[1] / (float)eighth * down}};
}

/* The exponent of the power of two that a vector's norm is at most, from the sum of its squares: 0 of
 * one without elements. */
GB_INLINE int gb_measure_exponent(double squares, int most)
{
    const int exponent = (most >> 20) - 1023;

    if (most == 0)
        return 0;
    if (exponent < -GB_RESIDUE_RANGE || exponent > GB_RESIDUE_RANGE)
        return GB_RESIDUE_BAD;
    /* what was rounded off is less than is added */
    squares += squares * 0x1p-20;
    return ((int)(gb_bits(squares) >> 52) - 1023 + 2) >> 1;
}

GB_INLINE float gb_warp_least(float x)
{
    return gb_float(gb_warp_least(gb_bits(x)));
}

GB_INLINE void gb_measure_group(const gb_residue_side &g, int64_t z, int64_t group,
                                ResidueShared &shared)
{
    const ResiduePart part = {g, z, group * GB_RESIDUE_GROUP};
    const int lane = gb_thread() % GB_LANES, warp = gb_thread() / GB_LANES;
    gb_residue_block *const parts = reinterpret_cast<gb_residue_block *>(g.parts) +
                                    (z * g.vectors + part.first) * g.blocks;
    const bool has = part.first + lane < g.vectors; /* the lane's, later */
    double squares[ResiduePart::VECTORS] = {},
           x[ResiduePart::VECTORS][ResiduePart::EACH];
    int most[ResiduePart::VECTORS] = {};

    GB_NO_UNROLL
    for (int64_t block = 0; block < g.blocks; block++) {
        part.fetch(block, shared, x);
        GB_UNROLL
        for (int q = 0; q < ResiduePart::VECTORS; q++) {
            gb_residue_block b;
            int here = 0;

            GB_UNROLL
            for (int e = 0; e < ResiduePart::EACH; e++) {
                const int high = gb_high_word(x[q][e]);

                squares[q] = gb_fma_f64(x[q][e], x[q][e], squares[q]);
                here = high > here ? high : here;
            }
            here = (int)gb_warp_most((uint32_t)here);
            most[q] = here > most[q] ? here : most[q];
            b = gb_measure_block(x[q], here);
            if (lane == 0 && part.vector(q) < g.vectors)
                parts[(warp + q * ResiduePart::WARPS) * g.blocks + block] = b;
        }
    }
    gb_sync();
    GB_UNROLL
    for (int q = 0; q < ResiduePart::VECTORS; q++) {
        shared.x[warp + q * ResiduePart::WARPS][lane] = squares[q];
        shared.most[warp + q * ResiduePart::WARPS] = most[q];
    }
    gb_sync();
    if (warp == 0) {
        double sum = 0;

        for (int l = 0; l < GB_LANES; l++)
            sum += shared.x[lane][l];
        shared.exponent[lane] = gb_measure_exponent(sum, shared.most[lane]);
        if (has)
            reinterpret_cast<int32_t *>(
                g.exponents)[z * g.vectors + part.first + lane] = shared.exponent[lane];
    }
    gb_sync();
    for (int64_t block = warp; block < g.blocks; block += ResiduePart::WARPS) {
        const int exponent = shared.exponent[lane];
        /* of a vector that is 0, or that is not there, all is right */
        gb_residue_guard mine = {{1, 1}, {GB_RESIDUE_K, GB_RESIDUE_K}};

        if (exponent == GB_RESIDUE_BAD)
            mine.s[0] = -1;
        else if (has && shared.most[lane] != 0)
            mine = gb_measure_guard(parts[lane * g.blocks + block], exponent);
        GB_UNROLL
        for (int i = 0; i < 2; i++) {
            mine.s[i] = gb_warp_least(mine.s[i]);
            mine.x[i] = gb_warp_least(mine.x[i]);
        }
        if (lane == 0)
            reinterpret_cast<gb_residue_guard *>(
                g.guard)[(z * g.groups + group) * g.blocks + block] = mine;
    }
    gb_sync();
}

GB_KERNEL_OF(gb_measure_args, gb_measure_f64, GB_RESIDUE_THREADS, 2, args)
{
    GB_SHARED(ResidueShared, shared);
    const int64_t units = args.x[0].batch * args.x[0].groups;
    const int64_t all = units + args.x[1].batch * args.x[1].groups;

    gb_grid_wait(); /* what it writes to may still be read */
    if (gb_block() == 0 && gb_thread() == 0)
        *reinterpret_cast<gb_residue_state *>(args.state) = {};
    for (int64_t unit = gb_block(); unit < all; unit += gb_grid()) {
        const gb_residue_side &g = args.x[unit >= units];
        const int64_t at = unit >= units ? unit - units : unit;

        gb_measure_group(g, at / g.groups, at % g.groups, shared);
    }
}

/* ---- how many moduli ---- */

/* The groups of a tile's side together, in one block of k. */
GB_INLINE gb_residue_guard gb_choose_side(const gb_residue_side &x, int64_t z,
                                          int64_t tile, int64_t block)
{
    constexpr int GROUPS = GB_SPLIT_TILE / GB_RESIDUE_GROUP;
    const gb_residue_guard *const of =
        reinterpret_cast<const gb_residue_guard *>(x.guard) + z * x.groups * x.blocks;
    gb_residue_guard all = {{1, 1}, {GB_RESIDUE_K, GB_RESIDUE_K}};

    GB_UNROLL
    for (int i = 0; i < GROUPS; i++) {
        const int64_t group = tile * GROUPS + i;

        if (group < x.groups) {
            const Vec<float, 4> one = gb_load<float, 4>(of[group * x.blocks + block].s);

            GB_UNROLL
            for (int h = 0; h < 2; h++) {
                all.s[h] = one.at[h] < all.s[h] ? one.at[h] : all.s[h];
                all.x[h] = one.at[2 + h] < all.x[h] ? one.at[2 + h] : all.x[h];
            }
        }
    }
    return all;
}

/* By a warp: how many moduli the tile wants, or 0: it is left. */
GB_INLINE int gb_choose_tile(const gb_choose_args &args, int64_t z, int64_t i,
                             int64_t j)
{
    const gb_residue_side &a = args.x[0], &b = args.x[1];
    const float least[] = GB_RESIDUE_LEAST;
    float sum = 0;
    int good = 1, moduli = 0;

    for (int64_t block = gb_thread() % GB_LANES; block < a.blocks; block += GB_LANES) {
        const gb_residue_guard x = gb_choose_side(a, a.batch > 1 ? z : 0, i, block);
        const gb_residue_guard y = gb_choose_side(b, b.batch > 1 ? z : 0, j, block);
        const int64_t count = a.deep - block * GB_RESIDUE_K;
        float best = 0;

        GB_UNROLL
        for (int h = 0; h < 4; h++) {
            const float one =
                x.s[h / 2] * y.s[h % 2] *
                (x.x[h / 2] + y.x[h % 2] -
                 (float)(count < GB_RESIDUE_K ? count : (int64_t)GB_RESIDUE_K));

            best = one > best ? one : best;
        }
        sum += best;
        good &= x.s[0] >= 0 && y.s[0] >= 0;
    }
    good = gb_warp_least((uint32_t)good) != 0;
    sum = gb_warp_sum(sum) * 0x1.fffp-1f; /* (rounded) */
    GB_UNROLL
    for (int c = GB_MODULI_CHOICES - 1; c >= 0; c--)
        if (good && sum >= least[c])
            moduli = GB_MODULI_LEAST + c;
    return moduli;
}

GB_KERNEL_OF(gb_choose_args, gb_choose_f64, GB_RESIDUE_THREADS, 2, args)
{
    const gb_left &left = args.left;
    gb_residue_state &state = *reinterpret_cast<gb_residue_state *>(left.any);
    const int64_t tiles = left.tiles_m * left.tiles_n * args.batch;

    gb_grid_wait();
    for (int64_t tile = gb_block() * ResiduePart::WARPS + gb_thread() / GB_LANES;
         tile < tiles; tile += gb_grid() * ResiduePart::WARPS) {
        const int64_t z = tile / (left.tiles_m * left.tiles_n);
        const int64_t j = tile / left.tiles_m % left.tiles_n, i = tile % left.tiles_m;
        const int moduli = args.no_product ? 0 : gb_choose_tile(args, z, i, j);

        if (gb_thread() % GB_LANES == 0) {
            const bool rest = moduli == 0 && !args.no_product;

            reinterpret_cast<uint8_t *>(left.flags)[tile] = rest;
            if (rest)
                state.any = 1;
            else if (moduli > 0)
                state.wanted[moduli - GB_MODULI_LEAST] = 1;
        }
    }
}

/* ---- residues ---- */

/* The residues of a lane's elements, all moduli one after the other. */
GB_INLINE void gb_cut_part(const gb_cut_args &args, const ResiduePart &part, bool of_b,
                           int64_t block, int moduli, ResidueShared &shared)
{
    const gb_residue_side &g = part.g;
    const int choice = moduli - GB_MODULI_LEAST;
    const gb_digits *const digits = of_b ? args.b : args.a[choice];
    double x[ResiduePart::VECTORS][ResiduePart::EACH];

    part.fetch(block, shared, x);
    GB_UNROLL
    for (int q = 0; q < ResiduePart::VECTORS; q++) {
        const int64_t v = part.vector(q);
        int64_t whole[ResiduePart::EACH];
        int8_t *to;
        int exponent;

        if (v >= g.first + g.count)
            continue;
        exponent =
            reinterpret_cast<const int32_t *>(g.exponents)[part.z * g.vectors + v];
        GB_UNROLL
        for (int e = 0; e < ResiduePart::EACH; e++)
            whole[e] =
                exponent == GB_RESIDUE_BAD
                    ? 0
                    : gb_nearest(x[q][e] *
                                 gb_residue_power(args.bits[of_b][choice] - exponent));
        to = reinterpret_cast<int8_t *>(g.residues) + part.z * g.plane +
             (v - g.first) * g.ld + block * GB_RESIDUE_K +
             gb_thread() % GB_LANES * ResiduePart::EACH;
        GB_UNROLL
        for (int i = 0; i < GB_MODULI_MOST; i++) {
            Vec<int8_t, ResiduePart::EACH> r;

            if (i >= moduli)
                break;
            GB_UNROLL
            for (int e = 0; e < ResiduePart::EACH; e++)
                r.at[e] =
                    (int8_t)gb_residue_of_long(whole[e], &digits[i], &args.modulus[i]);
            gb_store(to + i * g.batch * g.plane, r);
        }
    }
}

GB_KERNEL_OF(gb_cut_args, gb_cut_f64, GB_RESIDUE_THREADS, 2, args)
{
    GB_SHARED(ResidueShared, shared);
    int64_t units[2];
    int moduli;

    gb_grid_wait();
    moduli = gb_moduli(args.state);
    GB_UNROLL
    for (int s = 0; s < 2; s++)
        units[s] = args.x[s].batch * args.x[s].blocks *
                   gb_tile_ceil_div(args.x[s].count, GB_RESIDUE_GROUP);
    if (moduli == 0)
        return;
    for (int64_t unit = gb_block(); unit < units[0] + units[1]; unit += gb_grid()) {
        const bool of_b = unit >= units[0];
        const gb_residue_side &g = args.x[of_b];
        const int64_t at = of_b ? unit - units[0] : unit;
        const int64_t group = at / g.blocks,
                      groups = gb_tile_ceil_div(g.count, GB_RESIDUE_GROUP);

        gb_cut_part(args,
                    {g, group / groups, g.first + group % groups * GB_RESIDUE_GROUP},
                    of_b, at % g.blocks, moduli, shared);
    }
}

/* ---- C from its residues ---- */

/* A'B' from the residues plus 128 that are so many bytes of the words. */
GB_INLINE double gb_join_one(const gb_join_args &args, const gb_joining &by, int moduli,
                             const uint32_t (&word)[GB_MODULI_MOST], int byte)
{
    gb_residue_sum sum = {};

    GB_UNROLL
    for (int i = 0; i < GB_MODULI_MOST; i++) {
        if (i >= moduli)
            break;
        gb_residue_add(&sum, word[i] >> 8 * byte & 255, &by.of[i], args.part[i]);
    }
    return gb_residue_sum_of(&sum, &by);
}

/* 128 rows of one column, by a warp. */
GB_INLINE void gb_join_rows(const gb_join_args &args, int moduli, int64_t z, int64_t m0,
                            int64_t n)
{
    const gb_gemm_args &g = args.g;
    const gb_residue_side &a = args.x[0], &b = args.x[1];
    const int lane = gb_thread() % GB_LANES;
    const int64_t tile = args.c.tile, m = m0 + lane / 4 * 16 + lane % 4 * 2;
    const int8_t *const at = reinterpret_cast<const int8_t *>(args.c.at) +
                             z * args.c.plane + n * args.c.ld + m0 / tile * tile +
                             lane % 4 * (tile / 4) + m0 % tile / 4 + lane / 4 * 4;
    const int32_t *const rows = reinterpret_cast<const int32_t *>(a.exponents) +
                                (a.batch > 1 ? z : 0) * a.vectors;
    const int32_t *const columns = reinterpret_cast<const int32_t *>(b.exponents) +
                                   (b.batch > 1 ? z : 0) * b.vectors;
    const gb_joining &by = args.by[moduli > 0 ? moduli - GB_MODULI_LEAST : 0];
    const bool read = !(g.flags & GB_G_BETA_ZERO);
    const double alpha = g.alpha[0], beta = read ? g.beta[0] : gb_unread_f64(alpha);
    double *const c =
        reinterpret_cast<double *>(g.c) + z * g.c_batch + (args.first + n) * g.ldc;
    uint32_t word[GB_MODULI_MOST];

    GB_UNROLL
    for (int i = 0; i < GB_MODULI_MOST; i++)
        word[i] = i < moduli ? *reinterpret_cast<const uint32_t *>(
                                   at + i * args.c.batch * args.c.plane) ^
                                   0x80808080
                             : 0;
    GB_UNROLL
    for (int byte = 0; byte < 4; byte++) {
        const int64_t row = m + byte / 2 * 8 + byte % 2;
        double sum = 0;

        if (row >= g.m)
            continue;
        if (moduli > 0)
            sum = gb_join_one(args, by, moduli, word, byte) *
                  gb_residue_power(rows[row] + columns[args.first + n] - by.scale);
        c[row] = gb_epilogue_f64(alpha, sum, beta, read ? c[row] : 0);
    }
}

GB_KERNEL_OF(gb_join_args, gb_join_f64, GB_RESIDUE_THREADS, 2, args)
{
    const gb_left &left = args.left;
    int64_t stripes, units;
    int moduli;

    gb_grid_wait();
    moduli = gb_moduli(left.any);
    stripes = gb_tile_ceil_div(args.count, ResiduePart::WARPS);
    units = left.tiles_m * stripes * args.c.batch;
    for (int64_t unit = gb_block(); unit < units; unit += gb_grid()) {
        const int64_t z = unit / (left.tiles_m * stripes), i = unit % left.tiles_m;
        const int64_t n =
            unit / left.tiles_m % stripes * ResiduePart::WARPS + gb_thread() / GB_LANES;

        if (n < args.count &&
            !reinterpret_cast<const uint8_t *>(
                left.flags)[(z * left.tiles_n + (args.first + n) / GB_SPLIT_TILE) *
                                left.tiles_m +
                            i])
            gb_join_rows(args, moduli, z, i * GB_SPLIT_TILE, n);
    }
}

#endif
