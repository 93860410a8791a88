/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tile of C a work unit computes, and which part of k: pure arithmetic shared by the
 * kernels and the host, proved a bijection by t_tile_map.
 *
 * Work units are numbered 0 .. gb_tile_map_units(): all tiles of the first split of the first
 * batch, then its next split, then the next batch. Inside one split the tiles come in groups
 * of `group` tile rows; a group is walked column by column, so that the blocks in flight
 * share a few rows of A and columns of B in L2. The last group is narrower. Of a triangle
 * only the tiles that touch it are numbered. */
#ifndef GB_TILE_MAP_H
#define GB_TILE_MAP_H

#include <stdbool.h>

#include "gemm_args.h"
#include "hostdev.h"

struct gb_tile_map {
    int64_t m, n;
    int64_t tile_m, tile_n;
    int64_t tiles_m, tiles_n;
    int64_t group; /* tile rows per group, 1 .. tiles_m */
    int64_t
        shift; /* row0 - col0: element (i, j) lies on the diagonal when i + shift == j */
    int64_t tiles; /* of one split of one batch */
    int64_t splits, batch;
    uint32_t uplo; /* 0, GB_G_UPPER or GB_G_LOWER */
};

struct gb_tile {
    int64_t batch, split; /* split counts from the launch's first */
    int64_t i, j;         /* in tiles */
};

GB_HD int64_t gb_tile_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

GB_HD int64_t gb_tile_clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* b > 0 */
GB_HD int64_t gb_tile_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

GB_HD int64_t gb_tile_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Sum of floor((a * r + b) / c) over 0 <= r < count, for a, b >= 0 and c > 0. Euclid's
 * algorithm on (a, c): a handful of steps, one when c divides a. */
GB_HD int64_t gb_tile_floor_sum(int64_t count, int64_t c, int64_t a, int64_t b)
{
    int64_t sum = 0;

    while (count > 0) {
        int64_t top, old = c;

        sum += count * (count - 1) / 2 * (a / c) + count * (b / c);
        a %= c;
        b %= c;
        top = a * count + b;
        if (top < c)
            break;
        count = top / c;
        b = top % c;
        c = a;
        a = old;
    }
    return sum;
}

/* Tile columns of tile row r that touch the lower triangle are [0, end). */
GB_HD int64_t gb_tile_lower_end(const struct gb_tile_map *t, int64_t r)
{
    int64_t last = gb_tile_min((r + 1) * t->tile_m, t->m) - 1;

    return gb_tile_clamp(gb_tile_floor_div(last + t->shift, t->tile_n) + 1, 0,
                         t->tiles_n);
}

/* Those that touch the upper triangle are [begin, tiles_n). */
GB_HD int64_t gb_tile_upper_begin(const struct gb_tile_map *t, int64_t r)
{
    int64_t first = r * t->tile_m + t->shift;

    if (first >= t->n)
        return t->tiles_n;
    return gb_tile_clamp(gb_tile_floor_div(first, t->tile_n), 0, t->tiles_n);
}

GB_HD int64_t gb_tile_row_begin(const struct gb_tile_map *t, int64_t r)
{
    return t->uplo == GB_G_UPPER ? gb_tile_upper_begin(t, r) : 0;
}

GB_HD int64_t gb_tile_row_end(const struct gb_tile_map *t, int64_t r)
{
    return t->uplo == GB_G_LOWER ? gb_tile_lower_end(t, r) : t->tiles_n;
}

GB_HD int64_t gb_tile_row_count(const struct gb_tile_map *t, int64_t r)
{
    return gb_tile_row_end(t, r) - gb_tile_row_begin(t, r);
}

/* Sum over rows q < r of clamp(floor((tile_m * q + b) / tile_n), 0, tiles_n): the rows below
 * the clamp add nothing, those above it tiles_n each. */
GB_HD int64_t gb_tile_clamped_sum(const struct gb_tile_map *t, int64_t r, int64_t b)
{
    int64_t full = t->tiles_n * t->tile_n - b;
    int64_t low = gb_tile_clamp(gb_tile_ceil_div(-b, t->tile_m), 0, r);
    int64_t high = gb_tile_clamp(gb_tile_ceil_div(full, t->tile_m), low, r);

    return gb_tile_floor_sum(high - low, t->tile_n, t->tile_m, t->tile_m * low + b) +
           (r - high) * t->tiles_n;
}

/* Tiles in the tile rows before r. */
GB_HD int64_t gb_tile_before(const struct gb_tile_map *t, int64_t r)
{
    if (t->uplo == GB_G_LOWER) {
        /* the last row may be short: it is counted by itself */
        int64_t even = gb_tile_min(r, t->tiles_m - 1);
        int64_t sum =
            gb_tile_clamped_sum(t, even, t->tile_m - 1 + t->shift + t->tile_n);

        return r == even ? sum : sum + gb_tile_row_count(t, even);
    }
    if (t->uplo == GB_G_UPPER) {
        /* rows that start at or below the last column have none, although the last tile
         * column may be short and the even formula would leave them one */
        int64_t some =
            gb_tile_clamp(gb_tile_ceil_div(t->n - t->shift, t->tile_m), 0, r);

        return some * t->tiles_n - gb_tile_clamped_sum(t, some, t->shift);
    }
    return r * t->tiles_n;
}

GB_HD void gb_tile_map_init(struct gb_tile_map *t, const struct gb_gemm_args *g,
                            int64_t tile_m, int64_t tile_n)
{
    t->m = g->m;
    t->n = g->n;
    t->tile_m = tile_m;
    t->tile_n = tile_n;
    t->tiles_m = gb_tile_ceil_div(g->m, tile_m);
    t->tiles_n = gb_tile_ceil_div(g->n, tile_n);
    t->group = gb_tile_clamp(g->group_m, 1, t->tiles_m > 0 ? t->tiles_m : 1);
    t->shift = g->row0 - g->col0;
    t->uplo = g->flags & (GB_G_UPPER | GB_G_LOWER);
    t->splits = g->split_count;
    t->batch = g->batch;
    t->tiles = t->tiles_m > 0 ? gb_tile_before(t, t->tiles_m) : 0;
}

GB_HD int64_t gb_tile_map_units(const struct gb_tile_map *t)
{
    return t->tiles * t->splits * t->batch;
}

/* Inside the group of `rows` tile rows from `first`, tile number x of a triangle: first the
 * columns that every row has, column by column; then row by row what is left over. */
GB_HD void gb_tile_map_ragged(const struct gb_tile_map *t, int64_t first, int64_t rows,
                              int64_t x, struct gb_tile *tile)
{
    bool lower = t->uplo == GB_G_LOWER;
    int64_t common = gb_tile_row_count(t, lower ? first : first + rows - 1);
    int64_t base, low = 0, high = rows;

    if (x < common * rows) {
        tile->i = first + x % rows;
        tile->j = x / rows + (lower ? 0 : t->tiles_n - common);
        return;
    }
    x -= common * rows;
    base = gb_tile_before(t, first);
    /* the last row with at most x left-over tiles before it */
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;

        if (gb_tile_before(t, first + mid) - base - mid * common <= x)
            low = mid;
        else
            high = mid;
    }
    x -= gb_tile_before(t, first + low) - base - low * common;
    tile->i = first + low;
    tile->j = x + (lower ? common : gb_tile_row_begin(t, first + low));
}

GB_HD void gb_tile_map_at(const struct gb_tile_map *t, int64_t unit,
                          struct gb_tile *tile)
{
    int64_t slice = unit / t->tiles;
    int64_t x = unit % t->tiles;
    int64_t first, rows;

    tile->batch = slice / t->splits;
    tile->split = slice % t->splits;
    if (t->uplo == 0) {
        first = x / (t->group * t->tiles_n) * t->group;
        rows = gb_tile_min(t->group, t->tiles_m - first);
        x -= first * t->tiles_n;
        tile->i = first + x % rows;
        tile->j = x / rows;
    } else {
        int64_t low = 0, high = gb_tile_ceil_div(t->tiles_m, t->group);

        /* the last group with at most x tiles before it */
        while (high - low > 1) {
            int64_t mid = low + (high - low) / 2;

            if (gb_tile_before(t, mid * t->group) <= x)
                low = mid;
            else
                high = mid;
        }
        first = low * t->group;
        rows = gb_tile_min(t->group, t->tiles_m - first);
        gb_tile_map_ragged(t, first, rows, x - gb_tile_before(t, first), tile);
    }
}

/* The same map for a whole C with fewer than 2^31 work units, in 32-bit arithmetic: a division
 * of 64 bits takes a device half a microsecond, and a kernel's first load waits for several. */
struct gb_tile_map32 {
    uint32_t units, tiles, tiles_m, splits;
    uint32_t group, group_tiles; /* tile rows of a group, tiles of a full one */
};

/* False when the map is not of that kind. */
GB_HD bool gb_tile_map32_init(struct gb_tile_map32 *s, const struct gb_tile_map *t)
{
    if (t->uplo != 0 || gb_tile_map_units(t) > INT32_MAX ||
        t->group * t->tiles_n > INT32_MAX)
        return false;
    s->units = (uint32_t)gb_tile_map_units(t);
    s->tiles = (uint32_t)t->tiles;
    s->tiles_m = (uint32_t)t->tiles_m;
    s->splits = (uint32_t)t->splits;
    s->group = (uint32_t)t->group;
    s->group_tiles = (uint32_t)(t->group * t->tiles_n);
    return true;
}

/* Straight from the arguments: with sides of a tile that a kernel knows there is no division. */
GB_HD bool gb_tile_map32_whole(struct gb_tile_map32 *s, const struct gb_gemm_args *g,
                               int64_t tile_m, int64_t tile_n)
{
    int64_t tiles_m = gb_tile_ceil_div(g->m, tile_m);
    int64_t tiles_n = gb_tile_ceil_div(g->n, tile_n);
    int64_t units;

    if ((g->flags & (GB_G_UPPER | GB_G_LOWER)) || tiles_m > INT32_MAX ||
        tiles_n > INT32_MAX || tiles_m * tiles_n > INT32_MAX)
        return false;
    units = tiles_m * tiles_n * g->split_count;
    if (units > INT32_MAX || units * g->batch > INT32_MAX)
        return false;
    s->units = (uint32_t)(units * g->batch);
    s->tiles = (uint32_t)(tiles_m * tiles_n);
    s->tiles_m = (uint32_t)tiles_m;
    s->splits = (uint32_t)g->split_count;
    s->group = (uint32_t)gb_tile_clamp(g->group_m, 1, tiles_m > 0 ? tiles_m : 1);
    s->group_tiles = s->group * (uint32_t)tiles_n;
    return true;
}

GB_HD void gb_tile_map32_at(const struct gb_tile_map32 *s, uint32_t unit,
                            struct gb_tile *tile)
{
    uint32_t slice = unit < s->tiles ? 0 : unit / s->tiles;
    uint32_t x = unit - slice * s->tiles;
    uint32_t batch = s->splits == 1 ? slice : slice / s->splits;
    uint32_t group = x / s->group_tiles, first = group * s->group;
    uint32_t rows = s->tiles_m - first < s->group ? s->tiles_m - first : s->group;
    uint32_t j;

    x -= group * s->group_tiles;
    j = x / rows;
    tile->batch = batch;
    tile->split = slice - batch * s->splits;
    tile->i = first + (x - j * rows);
    tile->j = j;
}

/* The persistent schedule: of `workers` blocks, block w takes units w, w + workers, ... A
 * grid of one block per unit is its special case, so kernels know no other. */
GB_HD int64_t gb_tile_persistent_count(int64_t units, int64_t workers, int64_t worker)
{
    return worker < units ? (units - worker - 1) / workers + 1 : 0;
}

GB_HD int64_t gb_tile_persistent_unit(int64_t workers, int64_t worker, int64_t turn)
{
    return worker + turn * workers;
}

/* Split s of the whole problem covers [begin, end) of k. */
GB_HD int64_t gb_split_begin(int64_t s, int64_t split_len, int64_t k)
{
    return s == 0 ? 0 : gb_tile_min(s * split_len, k);
}

GB_HD int64_t gb_split_end(int64_t s, int64_t split_len, int64_t k)
{
    return k - gb_split_begin(s, split_len, k) <= split_len
               ? k
               : gb_split_begin(s, split_len, k) + split_len;
}

/* The splits that [k_begin, k_end) touches: an empty range counts as one, so that a launch
 * over k == 0 still applies beta. */
GB_HD int64_t gb_split_first(int64_t k_begin, int64_t split_len)
{
    return k_begin / split_len;
}

GB_HD int64_t gb_split_touched(int64_t k_begin, int64_t k_end, int64_t split_len)
{
    return k_end > k_begin ? (k_end - 1) / split_len - k_begin / split_len + 1 : 1;
}

/* What one launch does for split s. `carry`: the chain began in an earlier launch. */
struct gb_split_range {
    int64_t begin, end;
    bool carry;
};

GB_HD void gb_split_range_init(struct gb_split_range *r, const struct gb_gemm_args *g,
                               int64_t s)
{
    int64_t begin = gb_split_begin(s, g->split_len, g->k);
    int64_t end = gb_split_end(s, g->split_len, g->k);

    r->carry = begin < g->k_begin;
    r->begin = r->carry ? g->k_begin : begin;
    r->end = gb_tile_min(end, g->k_end);
}

/* Is C(i, j) of this launch computed and written? */
GB_HD bool gb_tile_wanted(const struct gb_gemm_args *g, int64_t i, int64_t j)
{
    int64_t above = j + g->col0 - i - g->row0;

    if (i >= g->m || j >= g->n)
        return false;
    return !((g->flags & GB_G_UPPER) && above < 0) &&
           !((g->flags & GB_G_LOWER) && above > 0);
}

#endif
