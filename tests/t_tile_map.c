/* SPDX-License-Identifier: BSD-3-Clause */
/* The index arithmetic of the kernels: every scheduler numbers every tile once, splits cover
 * k, loads and fragments cover their tiles, shared memory is read without bank conflicts. */
#include <stdlib.h>
#include <string.h>

#include "gemm_args.h"
#include "swizzle.h"
#include "tap.h"
#include "tile_map.h"

/* Does a tile hold an element of the wanted triangle? Counted element by element. */
static bool touches(const struct gb_gemm_args *g, int64_t tile_m, int64_t tile_n,
                    int64_t ti, int64_t tj)
{
    for (int64_t i = ti * tile_m; i < (ti + 1) * tile_m; i++)
        for (int64_t j = tj * tile_n; j < (tj + 1) * tile_n; j++)
            if (gb_tile_wanted(g, i, j))
                return true;
    return false;
}

/* Units of one launch against the set of tiles that there must be. */
static bool bijective(const struct gb_gemm_args *g, int64_t tile_m, int64_t tile_n,
                      int64_t workers)
{
    int64_t rows = gb_tile_ceil_div(g->m, tile_m),
            cols = gb_tile_ceil_div(g->n, tile_n);
    int64_t slices = (int64_t)g->split_count * g->batch, wanted = 0, units, seen = 0;
    unsigned char *hit = calloc((size_t)(rows * cols * slices), 1);
    struct gb_tile_map map;
    struct gb_tile_map32 map32, direct;
    bool good = true, narrow;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            wanted += touches(g, tile_m, tile_n, i, j);
    gb_tile_map_init(&map, g, tile_m, tile_n);
    units = gb_tile_map_units(&map);
    narrow = gb_tile_map32_init(&map32, &map);
    good = units == wanted * slices && narrow == (map.uplo == 0) &&
           gb_tile_map32_whole(&direct, g, tile_m, tile_n) == narrow &&
           (!narrow || memcmp(&direct, &map32, sizeof direct) == 0);
    if (map.uplo == 0)
        good &= units == rows * cols * slices;
    for (int64_t w = 0; w < workers && good; w++) {
        int64_t turns = gb_tile_persistent_count(units, workers, w);

        for (int64_t t = 0; t < turns && good; t++) {
            int64_t unit = gb_tile_persistent_unit(workers, w, t);
            struct gb_tile tile = {0};
            unsigned char *at;

            gb_tile_map_at(&map, unit, &tile);
            if (narrow) {
                struct gb_tile same = {0};

                gb_tile_map32_at(&map32, (uint32_t)unit, &same);
                if (same.batch != tile.batch || same.split != tile.split ||
                    same.i != tile.i || same.j != tile.j)
                    good = false;
            }
            good = good && unit < units && tile.i >= 0 && tile.i < rows &&
                   tile.j >= 0 && tile.j < cols && tile.split >= 0 &&
                   tile.split < g->split_count && tile.batch >= 0 &&
                   tile.batch < g->batch && touches(g, tile_m, tile_n, tile.i, tile.j);
            if (!good)
                break;
            at = &hit[((tile.batch * g->split_count + tile.split) * rows + tile.i) *
                          cols +
                      tile.j];
            good = !*at;
            *at = 1;
            seen++;
        }
    }
    free(hit);
    return good && seen == units;
}

static void check_maps(void)
{
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 16, 31, 33, 50};
    static const int tiles[][2] = {{1, 1}, {8, 8}, {8, 4}, {4, 8},
                                   {6, 4}, {5, 7}, {16, 2}};
    static const int groups[] = {1, 2, 3, 8, 1000};
    static const int64_t shifts[] = {0, 1, -1, 5, -7, 20, -20, 60, -60};
    long tried = 0, bad = 0;

    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++)
            for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++)
                for (size_t p = 0; p < sizeof groups / sizeof *groups; p++)
                    for (int slices = 0; slices < 4; slices++) {
                        struct gb_gemm_args g = {.m = sizes[a],
                                                 .n = sizes[b],
                                                 .group_m = groups[p],
                                                 .split_count = slices & 1 ? 3 : 1,
                                                 .batch = slices & 2 ? 2 : 1};

                        tried++;
                        bad += !bijective(&g, tiles[t][0], tiles[t][1], 1 + slices * 5);
                    }
    is_int(0, bad, "full: %ld maps of tiles, splits, batches and workers", tried);
    for (int triangle = 0; triangle < 2; triangle++) {
        tried = bad = 0;
        for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
            for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++)
                for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++)
                    for (size_t p = 0; p < sizeof groups / sizeof *groups; p++)
                        for (size_t s = 0; s < sizeof shifts / sizeof *shifts; s++) {
                            struct gb_gemm_args g = {.m = sizes[a],
                                                     .n = sizes[b],
                                                     .row0 = 100 + shifts[s],
                                                     .col0 = 100,
                                                     .group_m = groups[p],
                                                     .split_count = 1 + (int)(s % 2),
                                                     .batch = 1 + (int)(p % 2),
                                                     .flags = triangle ? GB_G_UPPER
                                                                       : GB_G_LOWER};

                            tried++;
                            bad += !bijective(&g, tiles[t][0], tiles[t][1], 1 + (int)s);
                        }
        is_int(0, bad, "%s triangle: %ld maps", triangle ? "upper" : "lower", tried);
    }
}

/* Sizes that no array can hold: the first, the last and random units, inverted by counting. */
static void check_large(void)
{
    struct gb_gemm_args g = {.m = (int64_t)1 << 40,
                             .n = ((int64_t)1 << 30) + 1,
                             .group_m = 8,
                             .split_count = 3,
                             .batch = 5};
    struct gb_tile_map32 narrow;
    struct gb_tile_map map;
    struct gb_tile tile;
    int64_t units;

    for (int side = 0; side < 4; side++) {
        struct gb_gemm_args h = {.m = side == 0 ? INT64_MAX : 64,
                                 .n = side == 1 ? INT64_MAX : 64,
                                 .group_m = 8,
                                 .split_count = side == 2 ? INT32_MAX : 2,
                                 .batch = side == 3 ? INT32_MAX : 1 + (side == 2)};

        ok(!gb_tile_map32_whole(&narrow, &h, 64, 64),
           "too many units for the narrow map");
        h = (struct gb_gemm_args){
            .m = 64, .n = 64, .split_count = 1, .batch = INT32_MAX};
        ok(gb_tile_map32_whole(&narrow, &h, 64, 64) && narrow.units == INT32_MAX,
           "not too many");
    }
    gb_tile_map_init(&map, &g, 128, 64);
    units = gb_tile_map_units(&map);
    ok(units == (((int64_t)1 << 33) * (((int64_t)1 << 24) + 1)) * 15,
       "more than 2^60 work units are counted right");
    gb_tile_map_at(&map, units - 1, &tile);
    ok(tile.i == ((int64_t)1 << 33) - 1 && tile.j == (int64_t)1 << 24 &&
           tile.split == 2 && tile.batch == 4,
       "the last one is the last tile of the last split of the last batch");
    g = (struct gb_gemm_args){.m = (int64_t)1 << 31,
                              .n = (int64_t)1 << 31,
                              .group_m = 8,
                              .split_count = 1,
                              .batch = 1,
                              .flags = GB_G_LOWER};
    gb_tile_map_init(&map, &g, 128, 128);
    ok(map.tiles == ((int64_t)1 << 24) * (((int64_t)1 << 24) + 1) / 2,
       "half of a square and its diagonal");
    gb_tile_map_at(&map, map.tiles - 1, &tile);
    ok(tile.i == tile.j && tile.i == ((int64_t)1 << 24) - 1,
       "its last tile is the corner");
}

/* Neighbouring work units share rows: GROUP_M at work, and disabled. */
static void check_order(void)
{
    struct gb_gemm_args g = {
        .m = 50, .n = 40, .group_m = 2, .split_count = 1, .batch = 1};
    static const int wanted[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}};
    struct gb_tile_map map;
    struct gb_tile tile;
    bool good = true;

    gb_tile_map_init(&map, &g, 10, 10);
    for (int u = 0; u < 5; u++) {
        gb_tile_map_at(&map, u, &tile);
        good &= tile.i == wanted[u][0] && tile.j == wanted[u][1];
    }
    ok(good, "a group of two tile rows is walked column by column");
    gb_tile_map_at(&map, 17, &tile);
    ok(tile.i == 4 && tile.j == 1, "the last group is narrower");
    g.group_m = 1;
    gb_tile_map_init(&map, &g, 10, 10);
    gb_tile_map_at(&map, 5, &tile);
    ok(tile.i == 1 && tile.j == 1, "GROUP_M 1 walks along the rows");
}

/* Launches over consecutive ranges of k: each element of k is added once, to its split, and
 * a chain is carried exactly when an earlier launch began it. */
static void check_splits(void)
{
    static const int64_t lens[] = {8, 16, 24, 64, 200};
    long bad = 0, tried = 0;

    for (int64_t k = 0; k <= 130; k++)
        for (size_t l = 0; l < sizeof lens / sizeof *lens; l++)
            for (int64_t step = 1; step <= 140; step += step < 20 ? 1 : 17) {
                int64_t len = lens[l], splits = k > 0 ? gb_tile_ceil_div(k, len) : 1;
                int64_t at[20], begun = 0, sum = 0;

                for (int64_t s = 0; s < splits; s++) {
                    at[s] = gb_split_begin(s, len, k);
                    sum += gb_split_end(s, len, k) - at[s];
                    bad += gb_split_end(s, len, k) < at[s];
                }
                bad += sum != k;
                for (int64_t b = 0; b < k || b == 0; b += step) {
                    int64_t e = gb_tile_min(b + step, k);
                    struct gb_gemm_args g = {
                        .k = k, .k_begin = b, .k_end = e, .split_len = len};
                    int64_t first = gb_split_first(b, len);
                    int64_t count = gb_split_touched(b, e, len);

                    for (int64_t s = first; s < first + count; s++) {
                        struct gb_split_range r;

                        gb_split_range_init(&r, &g, s);
                        bad += r.begin != at[s] || r.carry != (s < begun) ||
                               r.end < r.begin || (k > 0 && r.end == r.begin);
                        at[s] = r.end;
                    }
                    begun = first + count;
                }
                for (int64_t s = 0; s < splits; s++)
                    bad += at[s] != gb_split_end(s, len, k);
                bad += begun != splits;
                tried++;
            }
    is_int(0, bad, "%ld ways to cut k into splits and launches", tried);
    is_int(77, gb_split_end(0, INT64_MAX, 77), "one split of unbounded length");
}

/* ---- swizzle.h ---- */

struct shape {
    int m, n, k, bytes, per_m, per_n; /* bytes: of the accumulator's type */
};

static const struct shape shapes[] = {
    {128, 128, 16, 4, 8, 8}, {64, 64, 16, 4, 4, 4}, {128, 64, 16, 4, 8, 4},
    {128, 64, 8, 8, 8, 4},   {64, 64, 8, 8, 4, 4},  {64, 64, 8, 16, 4, 4},
    {32, 32, 8, 16, 2, 2},
};

static void check_fragments(const struct shape *s)
{
    static unsigned char hit[128][128];
    int v = 16 / s->bytes, warps_m = s->m / (GB_LANES_M * s->per_m);
    int threads = s->m * s->n / (s->per_m * s->per_n);
    bool good = true;

    memset(hit, 0, sizeof hit);
    for (int t = 0; t < threads; t++)
        for (int r = 0; r < s->per_m; r++)
            for (int c = 0; c < s->per_n; c++) {
                int row = gb_frag_row(t, r, warps_m, s->per_m, v);
                int col = gb_frag_col(t, c, warps_m, s->per_n, v);

                good &=
                    row >= 0 && row < s->m && col >= 0 && col < s->n && !hit[row][col];
                if (good)
                    hit[row][col] = 1;
            }
    ok(good, "%dx%d of %d bytes: every element of C has one owner", s->m, s->n,
       s->bytes);
}

/* Number of passes that a warp's accesses of `width` bytes at the given byte addresses need:
 * groups of lanes that together move 128 bytes, distinct words of one bank one after the
 * other. */
static int passes(const int *address, int width)
{
    int lanes = 128 / width, worst = 0;

    for (int first = 0; first < GB_LANES; first += lanes) {
        int words[32][GB_LANES], count[32] = {0};

        for (int l = first; l < first + lanes && l < GB_LANES; l++)
            for (int w = 0; w < width / 4; w++) {
                int word = address[l] / 4 + w, bank = word % 32;
                bool known = false;

                for (int x = 0; x < count[bank]; x++)
                    known |= words[bank][x] == word;
                if (!known)
                    words[bank][count[bank]++] = word;
                if (count[bank] > worst)
                    worst = count[bank];
            }
    }
    return worst;
}

static void check_banks(const struct shape *s)
{
    int v = 16 / s->bytes, warps_m = s->m / (GB_LANES_M * s->per_m);
    int pitch_m = gb_smem_pitch(s->m, s->bytes),
        pitch_n = gb_smem_pitch(s->n, s->bytes);
    int threads = s->m * s->n / (s->per_m * s->per_n), at[GB_LANES], reads = 0,
        stores = 0;

    ok(pitch_m * s->bytes % 16 == 0 && pitch_n * s->bytes % 16 == 0,
       "%dx%d of %d bytes: rows of shared memory are aligned", s->m, s->n, s->bytes);
    for (int warp = 0; warp < threads / GB_LANES; warp++)
        for (int k = 0; k < s->k; k++) {
            for (int r = 0; r < s->per_m; r += v) {
                for (int l = 0; l < GB_LANES; l++)
                    at[l] = (k * pitch_m + gb_frag_row(warp * GB_LANES + l, r, warps_m,
                                                       s->per_m, v)) *
                            s->bytes;
                reads = passes(at, 16) > reads ? passes(at, 16) : reads;
            }
            for (int c = 0; c < s->per_n; c += v) {
                for (int l = 0; l < GB_LANES; l++)
                    at[l] = (k * pitch_n + gb_frag_col(warp * GB_LANES + l, c, warps_m,
                                                       s->per_n, v)) *
                            s->bytes;
                reads = passes(at, 16) > reads ? passes(at, 16) : reads;
            }
        }
    is_int(1, reads, "%dx%d of %d bytes: fragments are read without bank conflicts",
           s->m, s->n, s->bytes);
    for (int first = 0; first < s->m * s->k; first += GB_LANES) {
        for (int l = 0; l < GB_LANES; l++) {
            struct gb_place p = gb_load_across(first + l, s->m);

            at[l] = (p.k * pitch_m + p.row) * s->bytes;
        }
        stores = passes(at, s->bytes) > stores ? passes(at, s->bytes) : stores;
    }
    is_int(1, stores, "%dx%d of %d bytes: transposing stores without bank conflicts",
           s->m, s->n, s->bytes);
}

enum loader { ALONG, ACROSS, ACROSS_VEC };

static bool load_covers(enum loader how, int tile, int tile_k, int vec)
{
    static unsigned char hit[128][16];

    memset(hit, 0, sizeof hit);
    for (int x = 0; x < tile * tile_k / vec; x++) {
        struct gb_place p = how == ALONG    ? gb_load_along(x, tile, vec)
                            : how == ACROSS ? gb_load_across(x, tile)
                                            : gb_load_across_vec(x, tile_k, vec);

        for (int e = 0; e < vec; e++) {
            int row = p.row + (how == ALONG ? e : 0), k = p.k + (how == ALONG ? 0 : e);

            if (row >= tile || k >= tile_k || hit[row][k])
                return false;
            hit[row][k] = 1;
        }
    }
    return true;
}

static void check_loads(const struct shape *s)
{
    int v = 16 / s->bytes;

    ok(load_covers(ALONG, s->m, s->k, 1) && load_covers(ALONG, s->m, s->k, v) &&
           load_covers(ALONG, s->n, s->k, 1) && load_covers(ALONG, s->n, s->k, v),
       "%dx%d of %d bytes: loads along the rows cover the tiles", s->m, s->n, s->bytes);
    ok(load_covers(ACROSS, s->m, s->k, 1) && load_covers(ACROSS, s->n, s->k, 1),
       "%dx%d of %d bytes: transposing loads cover the tiles", s->m, s->n, s->bytes);
}

/* ---- gemm_mma ---- */

/* A buffer of `rows` rows of `chunks`: each chunk has a place, and 8 lanes of ldmatrix, or of
 * a copy, meet 8 groups of banks. */
static void check_mma_buffer(int rows, int chunks)
{
    static unsigned char hit[256 * 32];
    int at[GB_LANES], reads = 0, stores = 0;
    bool good = true;

    memset(hit, 0, sizeof hit);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < chunks; c++) {
            int place = gb_mma_chunk(r, c, chunks);

            good = good && place >= 0 && place < chunks && !hit[r * chunks + place];
            if (good)
                hit[r * chunks + place] = 1;
        }
    ok(good, "%d rows of %d chunks: each has a place", rows, chunks);
    for (int down = 0; down < 2; down++)
        for (int r = 0; r < rows; r += 16)
            for (int c = 0; c < chunks; c += 2) {
                for (int l = 0; l < GB_LANES; l++) {
                    struct gb_place p = gb_mma_lane(l, down);

                    at[l] = ((r + p.row) * chunks +
                             gb_mma_chunk(r + p.row, c + p.k, chunks)) *
                            16;
                }
                reads = passes(at, 16) > reads ? passes(at, 16) : reads;
            }
    is_int(1, reads, "ldmatrix meets no bank twice");
    for (int first = 0; first < rows * chunks; first += GB_LANES) {
        for (int l = 0; l < GB_LANES; l++) {
            int r = (first + l) / chunks, c = (first + l) % chunks;

            at[l] = (r * chunks + gb_mma_chunk(r, c, chunks)) * 16;
        }
        stores = passes(at, 16) > stores ? passes(at, 16) : stores;
    }
    is_int(1, stores, "nor do copies");
}

/* ---- gemm_ffma ---- */

/* Real parts of a tile's rows: each row has a place, and what were a lane's two vectors of two rows
 * each become one of four. */
static void check_ffma_parts(int rows)
{
    unsigned char hit[256] = {0};
    bool good = true;

    for (int row = 0; row < rows; row++) {
        int at = gb_ffma_part(row);

        good = good && at >= 0 && at < rows && !hit[at];
        if (good)
            hit[at] = 1;
    }
    for (int lane = 0; lane < rows / 4; lane++) {
        int first = lane / 8 * 32 + lane % 8 * 2, at = gb_ffma_part(first);

        good = good && at % 4 == 0 && gb_ffma_part(first + 1) == at + 1 &&
               gb_ffma_part(first + 16) == at + 2 && gb_ffma_part(first + 17) == at + 3;
    }
    ok(good, "real parts of %d complex rows lie apart, four to a vector", rows);
}

/* ---- gemm_dmma ---- */

/* A buffer of `rows` rows of `length` elements: each element has a place, and what a warp reads
 * or copies at once meets no bank twice. */
static void check_dmma_buffer(int rows, int length, int size, bool across)
{
    static unsigned char hit[256 * 256];
    int pitch = length * size + (across ? 0 : GB_DMMA_PAD), at[GB_LANES];
    int reads = 0, stores = 0;
    bool good = true;

    memset(hit, 0, sizeof hit);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < length; c++) {
            int byte = gb_dmma_byte(r, c * size, size, across);

            good = good && byte >= 0 && byte + size <= length * size &&
                   byte % size == 0 && !hit[r * length + byte / size];
            if (good)
                hit[r * length + byte / size] = 1;
        }
    ok(good, "%d rows of %d elements of %d bytes: each has a place", rows, length,
       size);
    for (int row = 0; row < (across ? rows : length); row += 8)
        for (int k = 0; k < (across ? length : rows); k += 4) {
            for (int l = 0; l < GB_LANES; l++) {
                int of_m = row + l / 4, of_k = k + l % 4;
                int r = across ? of_m : of_k, c = across ? of_k : of_m;

                at[l] = r * pitch + gb_dmma_byte(r, c * size, size, across);
                /* as the kernel has it: what is flipped is the same for every 4 of k */
                good =
                    good &&
                    (!across ||
                     at[l] == ((r * pitch + gb_dmma_byte(r, l % 4 * size, size, true)) ^
                               (k * size % 128)) +
                                  k * size / 128 * 128);
            }
            reads = passes(at, size) > reads ? passes(at, size) : reads;
        }
    ok(good, "and an address that differs from that of the first four by one flip");
    is_int(1, reads, "reads meet no bank twice");
    for (int unit = 8; unit <= 16; unit *= 2)
        for (int first = 0; first < rows * length * size / unit; first += GB_LANES) {
            for (int l = 0; l < GB_LANES; l++) {
                int r = (first + l) / (length * size / unit);
                int b = (first + l) % (length * size / unit) * unit;

                at[l] = r * pitch + gb_dmma_byte(r, b, size, across);
            }
            stores = passes(at, unit) > stores ? passes(at, unit) : stores;
        }
    is_int(1, stores, "nor do copies");
}

static void check_mma_lanes(void)
{
    for (int down = 0; down < 2; down++) {
        unsigned char hit[16][2] = {{0}};
        bool good = true;

        for (int l = 0; l < GB_LANES; l++) {
            struct gb_place p = gb_mma_lane(l, down);

            /* matrix l / 8: its rows, or its chunk, are the second ones */
            good = good && hit[p.row][p.k]++ == 0 && p.row % 8 == l % 8 &&
                   p.row / 8 == (down ? l / 8 % 2 : l / 16) &&
                   p.k == (down ? l / 16 : l / 8 % 2);
        }
        ok(good, "four matrices of ldmatrix");
    }
}

static void check_mma_patch(int width)
{
    static unsigned char hit[64 * 64];
    int at[GB_LANES], pairs = 0, singles = 0;
    bool good = true;

    memset(hit, 0, sizeof hit);
    for (int n = 0; n < 64; n++)
        for (int m = 0; m < width; m++) {
            int place = gb_mma_patch(n, m, width);

            good = good && place >= 0 && place < 64 * width && !hit[place] &&
                   place / 4 == gb_mma_patch(n, m / 4 * 4, width) / 4;
            if (good)
                hit[place] = 1;
        }
    ok(good, "a patch %d wide: each sum has a place, four stay together", width);
    for (int n = 0; n < 64; n += 8)
        for (int m = 0; m < width; m += 8) {
            for (int l = 0; l < GB_LANES; l++)
                at[l] = gb_mma_patch(n + l / 4, m + l % 4 * 2, width) * 4;
            pairs = passes(at, 8) > pairs ? passes(at, 8) : pairs;
        }
    for (int x = 0; x < 64 * width; x += GB_LANES) {
        for (int l = 0; l < GB_LANES; l++)
            at[l] = gb_mma_patch((x + l) / width, (x + l) % width, width) * 4;
        singles = passes(at, 4) > singles ? passes(at, 4) : singles;
    }
    ok(pairs == 1 && singles == 1, "pairs and single sums meet no bank twice");
}

int main(void)
{
    plan_lazy();
    for (int chunks = 4; chunks <= 32; chunks *= 2)
        check_mma_buffer(64, chunks);
    check_mma_lanes();
    check_mma_patch(32);
    check_mma_patch(64);
    for (int size = 8; size <= 16; size *= 2)
        for (int lines = 1; lines <= 2; lines++) {
            check_dmma_buffer(64, lines * 128 / size, size, true);
            check_dmma_buffer(lines * 128 / size, 64, size, false);
            check_dmma_buffer(lines * 128 / size, 128, size, false);
        }
    for (int rows = 32; rows <= 256; rows *= 2)
        check_ffma_parts(rows);
    check_maps();
    check_large();
    check_order();
    check_splits();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_fragments(&shapes[i]);
        check_loads(&shapes[i]);
        check_banks(&shapes[i]);
    }
    ok(load_covers(ALONG, 128, 16, 8) && load_covers(ACROSS_VEC, 128, 16, 8) &&
           load_covers(ACROSS_VEC, 64, 16, 8),
       "vectors of eight 16-bit elements cover the tiles");
    return 0;
}
