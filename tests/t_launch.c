/* SPDX-License-Identifier: BSD-3-Clause */
/* What is launched for a kernel row: grids, whole clusters, the descriptions of matrices, and
 * operands that a row must refuse. The device only writes down what it is asked. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "geometry.h"
#include "kernels.h"
#include "launch.h"
#include "repair_args.h"
#include "tap.h"
#include "tensor_map.h"
#include "util.h"

static struct {
    struct gb_tma_args args, earlier; /* of the launch before */
    uint32_t earlier_grid, earlier_cluster;
    struct gb_repair_args repair;
    struct gb_repack_args repack;
    size_t bytes;
    struct gb_tensor tensor[3];
    int launches, maps;
    uint32_t grid, block, smem, cluster;
    bool early;
    enum gb_status answer; /* of tensor_map */
    int refused;           /* which launch is, from 1 on */
} seen;

static enum gb_status note_launch(struct gb_device *dev, struct gb_stream *s,
                                  struct gb_function *f, uint32_t grid, uint32_t block,
                                  uint32_t smem, const void *args, size_t bytes)
{
    (void)dev, (void)s, (void)f;
    seen.launches++;
    seen.grid = grid;
    seen.block = block;
    seen.smem = smem;
    seen.bytes = bytes;
    memcpy(&seen.args, args, bytes < sizeof seen.args ? bytes : sizeof seen.args);
    memcpy(&seen.repair, args, bytes < sizeof seen.repair ? bytes : sizeof seen.repair);
    memcpy(&seen.repack, args, bytes < sizeof seen.repack ? bytes : sizeof seen.repack);
    return GB_SUCCESS;
}

static enum gb_status note_shaped(struct gb_device *dev, struct gb_stream *s,
                                  struct gb_function *f,
                                  const struct gb_launch_shape *shape, const void *args,
                                  size_t bytes)
{
    seen.earlier = seen.args;
    seen.earlier_grid = seen.grid;
    seen.earlier_cluster = seen.cluster;
    seen.cluster = shape->cluster;
    seen.early = shape->early;
    if (seen.launches + 1 == seen.refused)
        return GB_E_NOMEM;
    return note_launch(dev, s, f, shape->grid, shape->block, shape->smem_bytes, args,
                       bytes);
}

static enum gb_status note_map(struct gb_device *dev, const struct gb_tensor *tensor,
                               struct gb_tensor_map *map)
{
    (void)dev;
    memset(map, 0x11 * (seen.maps + 1), sizeof *map);
    seen.tensor[seen.maps++ % 3] = *tensor;
    return seen.answer;
}

static const struct gb_device_ops ops = {
    .launch = note_launch, .launch_shaped = note_shaped, .tensor_map = note_map};
static struct gb_device dev = {.ops = &ops, .info = {.multiprocessors = 132}};

static enum gb_status go(const struct gb_kernel *k, const char *layout,
                         const struct gb_gemm_args *g, uint32_t most)
{
    enum gb_status answer = seen.answer;
    int refused = seen.refused;

    memset(&seen, 0, sizeof seen);
    seen.answer = answer;
    seen.refused = refused;
    return gb_launch_gemm(&dev, NULL, NULL, k, layout[0], layout[1], g, most);
}

/* Aligned operands of an f16 product. */
static struct gb_gemm_args product(const char *layout, int64_t m, int64_t n, int64_t k)
{
    int64_t lda = gb_round_up(layout[0] == 'n' ? m : k, 8);
    int64_t ldb = gb_round_up(layout[1] == 'n' ? k : n, 8);

    return (struct gb_gemm_args){
        .a = 0x10000,
        .b = 0x20000,
        .c = 0x30000,
        .m = m,
        .n = n,
        .k = k,
        .k_end = k,
        .a_m = layout[0] == 'n' ? 1 : lda,
        .a_k = layout[0] == 'n' ? lda : 1,
        .b_k = layout[1] == 'n' ? 1 : ldb,
        .b_n = layout[1] == 'n' ? ldb : 1,
        .ldc = gb_round_up(m, 8),
        .split_len = k,
        .splits = 1,
        .split_count = 1,
        .batch = 1,
        .group_m = 8,
        .flags = GB_G_EPILOGUE | GB_G_BETA_ZERO,
    };
}

static void test_simt(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_simt_f16_128x64x16");
    struct gb_gemm_args g = product("nn", 1000, 1000, 64);

    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "a plain row");
    is_int(8 * 16, seen.grid, "a block for each tile");
    ok(seen.block == k->threads && seen.bytes == sizeof g && seen.maps == 0,
       "with the arguments alone");
    go(k, "nn", &g, 5);
    is_int(5, seen.grid, "or as many blocks as are asked for");
    g.flags |= GB_G_LOWER;
    g.col0 = 5000;
    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "a triangle that no tile touches");
    is_int(0, seen.launches, "launches nothing");
    g = product("nn", 1000, 1000, 64);
    g.a_k = 1001;
    ok(gb_launch_takes(k, &g), "any leading dimension");
}

static void test_mma(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_mma_f16_128x256x64");
    const struct gb_kernel *ragged = gb_kernel_find("gemm_mma_f16_128x256x32_r");
    struct gb_gemm_args g = product("nn", 1000, 1000, 64);

    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "a row of tensor cores without TMA");
    is_int(8 * 4, seen.grid, "a block for each tile");
    ok(seen.bytes == sizeof g && seen.smem == k->smem && seen.maps == 0,
       "with buffers, and no descriptions");
    g.a_k = 1004;
    ok(!gb_launch_takes(k, &g) && gb_launch_takes(ragged, &g),
       "leading dimensions 8 bytes off are for the ragged row");
    g = product("nn", 1000, 1000, 64);
    g.b += 2;
    ok(!gb_launch_takes(k, &g) && gb_launch_takes(ragged, &g), "odd addresses too");
    g = product("nn", 1000, 1000, 64);
    g.b_batch = 4;
    ok(!gb_launch_takes(k, &g) && gb_launch_takes(ragged, &g), "and batch strides");
    g = product("nn", 129, 1, 64);
    g.batch = 1 << 30;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &g, 0), "more units than the row counts");
}

/* Rows whose blocks ask for their next tile early have several in turn, where no two blocks have
 * room. */
static void test_ahead(void)
{
    const struct gb_kernel *large = gb_kernel_find("gemm_dmma_f64_128x128x16");
    const struct gb_kernel *small = gb_kernel_find("gemm_dmma_f64_64x64x16");
    struct gb_gemm_args g = product("nn", 4096, 4096, 64);

    is_int(GB_SUCCESS, go(large, "nn", &g, 0), "a row of fp64");
    is_int(132, seen.grid, "a block for each multiprocessor");
    go(large, "nn", &g, 500);
    is_int(500, seen.grid, "or as many as are asked for");
    go(small, "nn", &g, 0);
    is_int(64 * 64, seen.grid,
           "a block for each tile of a row that has room for several");
    g.a_k = 4097;
    g.a += 8;
    ok(gb_launch_takes(large, &g), "any leading dimension, any address of a double");
    g = product("nn", 129, 129, 64);
    g.batch = 1 << 30;
    is_int(GB_SUCCESS, go(large, "nn", &g, 0), "units beyond 32 bits");
    g = product("nn", 1000, 1000, 64);
    g.flags |= GB_G_LOWER;
    is_int(GB_SUCCESS, go(large, "nn", &g, 0), "and triangles");
    is_int(36, seen.grid, "of which only the tiles that it has");
}

static void test_grid(void)
{
    const struct gb_kernel *one = gb_kernel_find("gemm_wgmma_f16_256x128x64");
    const struct gb_kernel *two = gb_kernel_find("gemm_wgmma_f16_256x128x64_c2");
    struct gb_gemm_args g = product("nn", 1024, 1024, 64);

    go(one, "nn", &g, 0);
    is_int(4 * 8, seen.grid, "fewer tiles than multiprocessors");
    is_int(4 * 8, seen.args.map.units, "and as many units");
    ok(seen.bytes == sizeof(struct gb_tma_args) && seen.smem == one->smem,
       "with descriptions of the matrices");
    g.n = 1025;
    go(two, "nn", &g, 0);
    is_int(4 * 5 * 2, seen.grid, "clusters are whole where the last has one tile");
    is_int(4 * 5, seen.args.map.units, "a unit is a cluster's");
    g = product("nn", 8192, 8192, 64);
    go(one, "nn", &g, 0);
    is_int(132, seen.grid, "a block for each multiprocessor");
    dev.info.multiprocessors = 113;
    go(two, "nn", &g, 0);
    is_int(112, seen.grid, "an odd one stays idle");
    dev.info.multiprocessors = 132;
    go(two, "nn", &g, 1);
    is_int(2, seen.grid, "one cluster at least");
}

static bool is_tensor(const struct gb_tensor *t, uint64_t at, uint64_t d0, uint64_t d1,
                      uint64_t d2, uint64_t s0, uint64_t s1, uint32_t b0, uint32_t b1)
{
    bool same = t->at == at && t->dim[0] == d0 && t->dim[1] == d1 && t->dim[2] == d2 &&
                t->stride[0] == s0 && (d2 == 1 || t->stride[1] == s1) &&
                t->box[0] == b0 && t->box[1] == b1;

    if (!same)
        diag("at %llx: %llu %llu %llu, strides %llu %llu, boxes %u %u",
             (unsigned long long)t->at, (unsigned long long)t->dim[0],
             (unsigned long long)t->dim[1], (unsigned long long)t->dim[2],
             (unsigned long long)t->stride[0], (unsigned long long)t->stride[1],
             t->box[0], t->box[1]);
    return same;
}

static void test_tensors(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_f16_256x128x64_c2");
    const struct gb_kernel *wide = gb_kernel_find("gemm_wgmma_bf16_f32_16x64x64");
    struct gb_gemm_args g = product("nt", 500, 300, 200);

    is_int(GB_SUCCESS, go(k, "nt", &g, 0), "layout nt");
    is_int(2, seen.maps, "a C that is not read needs no description");
    g.flags &= ~(uint32_t)GB_G_BETA_ZERO;
    is_int(GB_SUCCESS, go(k, "nt", &g, 0), "a C that is read");
    ok(is_tensor(&seen.tensor[0], g.a, 500, 200, 1, 1008, 0, 64, 64),
       "A by columns, 64 of m by 64 of k");
    ok(is_tensor(&seen.tensor[1], g.b, 300, 200, 1, 608, 0, 64, 64),
       "B by columns, 64 of n by 64 of k");
    ok(is_tensor(&seen.tensor[2], g.c, 500, 300, 1, 1008, 0, 64, 16), "C");
    g = product("tn", 500, 300, 200);
    g.k_begin = 64;
    g.flags &= ~(uint32_t)GB_G_BETA_ZERO;
    g.batch = 3;
    g.b_batch = 64000;
    g.c_batch = 160000;
    is_int(GB_SUCCESS, go(k, "tn", &g, 0), "layout tn, a batch, a range of k");
    ok(is_tensor(&seen.tensor[0], g.a, 136, 500, 1, 400, 0, 64, 128),
       "A by rows, shared by the batch: half a tile for each block of the cluster");
    ok(is_tensor(&seen.tensor[1], g.b, 136, 300, 3, 400, 128000, 64, 128),
       "B by rows, one for each");
    ok(is_tensor(&seen.tensor[2], g.c, 500, 300, 3, 1008, 320000, 64, 16),
       "C for each");
    is_int(0, seen.args.c_direct, "TMA can read C");

    g = product("nn", 500, 300, 200);
    g.ldc = 501;
    go(k, "nn", &g, 0);
    ok(seen.args.c_direct && seen.maps == 2, "C with a ragged leading dimension");
    g.ldc = 504;
    g.c += 2;
    go(k, "nn", &g, 0);
    ok(seen.args.c_direct && seen.maps == 2, "C at an odd address");
    g.c -= 2;
    g.flags &= ~(uint32_t)GB_G_EPILOGUE;
    go(k, "nn", &g, 0);
    ok(!seen.args.c_direct && seen.maps == 2, "C when sums stay partial");
    g = product("nn", 500, 300, 200);
    g.flags &= ~(uint32_t)GB_G_BETA_ZERO;
    is_int(GB_SUCCESS, go(wide, "nn", &g, 0), "C of wide elements, a narrow tile");
    ok(is_tensor(&seen.tensor[2], g.c, 500, 300, 1, 2016, 0, 16, 16), "its boxes");
    seen.answer = GB_E_UNSUPPORTED;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &g, 0), "a description that is refused");
    is_int(0, seen.launches, "is not launched");
    seen.answer = GB_SUCCESS;
}

static void test_refused(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_f16_256x128x64");
    struct gb_gemm_args g = product("nn", 512, 512, 512), bad;

    ok(gb_launch_takes(k, &g), "aligned operands");
    bad = g;
    bad.a_k = 513;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "a ragged leading dimension of A");
    bad = g;
    bad.b_n = 516;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "8 bytes off in B's");
    bad = g;
    bad.b += 2;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "B at an odd address");
    bad = g;
    bad.batch = 2;
    bad.a_batch = 513 * 513;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "a ragged batch");
    bad = g;
    bad.m = (int64_t)GB_TMA_MOST + 1;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "more rows than TMA counts");
    bad = g;
    bad.n = (int64_t)GB_TMA_MOST + 1;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "more columns");
    bad = g;
    bad.k = bad.k_end = bad.split_len = (int64_t)GB_TMA_MOST + 1;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "more k");
    bad.k_begin = 64;
    ok(gb_launch_takes(k, &bad), "but not of a range of it");
    for (int i = 0; i < 3; i++) {
        bad = g;
        *(i == 0 ? &bad.a_list : i == 1 ? &bad.b_list : &bad.c_list) = 4096;
        ok(!gb_launch_takes(k, &bad) &&
               gb_launch_takes(gb_kernel_find("gemm_mma_f16_128x256x64"), &bad),
           "lists of addresses are for rows without descriptions");
    }
    bad = g;
    bad.flags |= GB_G_LOWER;
    is_int(GB_E_UNSUPPORTED, go(k, "nn", &bad, 0), "a triangle");
    is_int(0, seen.launches, "none of them is launched");
    ok(GB_PLAN_ALIGN % k->align == 0, "what plans stage is aligned enough");
}

/* Every family, and that of the copies, has room in a table of images. */
static void test_families(void)
{
    int n = 1;

    for (int i = 0; i < gb_kernel_count; i++) {
        int first = 0;

        while (strcmp(gb_kernels[first].family, gb_kernels[i].family) != 0)
            first++;
        n += first == i;
    }
    ok(n <= GB_FAMILIES, "%d families of at most %d", n, GB_FAMILIES);
}

static void test_reduce(void)
{
    struct gb_gemm_args g = product("nn", 1000, 1000, 64);

    const struct gb_kernel *simt = gb_kernel_find("gemm_simt_f16_128x64x16");
    const struct gb_kernel *wgmma = gb_kernel_find("gemm_wgmma_f16_64x64x64");

    memset(&seen, 0, sizeof seen);
    gb_launch_reduce(&dev, NULL, NULL, simt, &g, 0);
    ok(seen.grid == 3907 && !seen.early, "a reduction: a thread for each element");
    gb_launch_reduce(&dev, NULL, NULL, simt, &g, 7);
    is_int(7, seen.grid, "or blocks that take turns");
    gb_launch_reduce(&dev, NULL, NULL, wgmma, &g, 0);
    ok(seen.grid == 3907 && seen.early, "one for Hopper starts early");
}

static void test_together(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_f16_64x64x64");
    struct gb_gemm_args g = product("nn", 100, 130, 1024), part;

    g.splits = g.split_count = 4;
    g.split_len = 256;
    g.batch = 2;
    ok(gb_launch_sums_splits(k, &g), "a cluster sums four splits");
    g.flags |= GB_G_EPILOGUE;
    is_int(GB_SUCCESS, go(k, "nn", &g, 1), "they are launched");
    ok(seen.cluster == 4 && seen.grid == 4 * 2 * 3 * 2 && seen.args.together == 4,
       "a cluster for each tile, whatever the grid");
    is_int(2 * 3 * 2, seen.args.map.units, "the map is without splits");
    g.flags &= ~(uint32_t)GB_G_EPILOGUE;
    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "or each split by itself");
    ok(seen.cluster == 0 && seen.args.together == 1 && seen.grid == 48,
       "in blocks that know nothing of each other");
    part = g;
    part.k_end = 512;
    ok(!gb_launch_sums_splits(k, &part), "not of a part of k");
    part = g;
    part.splits = GB_SPLITS_TOGETHER + 1;
    ok(!gb_launch_sums_splits(k, &part), "nor of more than a cluster has");
    part = g;
    part.splits = 1;
    ok(!gb_launch_sums_splits(k, &part), "one split needs none");
    ok(!gb_launch_sums_splits(gb_kernel_find("gemm_wgmma_f16_256x128x64_c2"), &g),
       "nor rows that have clusters for something else");
    ok(!gb_launch_sums_splits(gb_kernel_find("gemm_simt_f16_128x64x16"), &g),
       "nor a row without TMA");
}

/* Tiles that fill no turn of the grid are a launch of their own. */
static void test_tail(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_f16_256x128x64");
    struct gb_gemm_args g = product("nn", 10240, 1024, 8192), part;
    const struct gb_gemm_args *at = &seen.args.g;

    g.splits = g.split_count = 1;
    g.split_len = g.k;
    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "320 tiles");
    ok(seen.launches == 1 && seen.grid == 132 && seen.args.wait == GB_TMA_AT_START,
       "are one launch, unless a tail is asked for");
    g.tail = 2;
    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "with one,");
    ok(seen.launches == 2 && seen.earlier_grid == 132 && seen.earlier_cluster == 0 &&
           seen.earlier.map.units == 264 && seen.earlier.together == 1 &&
           seen.earlier.wait == GB_TMA_BEFORE_NEXT && seen.earlier.g.splits == 1,
       "two full turns, which let the next start when they have waited");
    ok(seen.grid == 56 * 2 && seen.cluster == 2 && seen.args.first == 264 &&
           seen.args.map.units == 320 && seen.args.together == 2 &&
           seen.args.wait == GB_TMA_AT_END && seen.early,
       "and pairs of blocks for the rest, which wait at their end");
    ok(at->splits == 2 && at->split_len == 4096, "each with half of k");
    is_int(56, gb_launch_tail(k, &g, 320, 132), "so many tiles");
    is_int(0, gb_launch_tail(k, &g, 264, 132), "none where the last turn is full");
    is_int(0, gb_launch_tail(k, &g, 100, 132), "nor where it is the only one");
    part = g;
    part.k_end = 4096;
    is_int(0, gb_launch_tail(k, &part, 320, 132), "nor for a part of k");
    part = g;
    part.flags &= ~(uint32_t)GB_G_EPILOGUE;
    is_int(0, gb_launch_tail(k, &part, 320, 132), "nor where sums stay partial");
    part = g;
    part.k = part.k_end = 5 * 64;
    part.tail = 4;
    is_int(0, gb_launch_tail(k, &part, 320, 132), "nor with a split that is empty");
    part.k = part.k_end = 0;
    is_int(0, gb_launch_tail(k, &part, 320, 132), "nor without k");

    k = gb_kernel_find("gemm_wgmma_f16_256x128x64_c2");
    is_int(GB_SUCCESS, go(k, "tn", &g, 0), "where pairs share what they load");
    ok(seen.launches == 2 && seen.earlier_grid == 132 && seen.earlier_cluster == 2 &&
           seen.earlier.map.units == 132 && seen.earlier.wide == 1 &&
           !seen.earlier.apart,
       "two turns of 66 pairs");
    ok(seen.grid == 28 * 2 * 2 && seen.cluster == 2 && seen.args.first == 264 &&
           seen.args.map.units == 320 && seen.args.apart == 1 &&
           seen.args.together == 2,
       "and the tiles of 28 pairs by themselves");
    is_int(256, seen.tensor[2].box[1], "for which A comes whole");
    is_int(GB_SUCCESS, go(k, "nn", &g, 0), "A by columns");
    is_int(2, seen.maps, "needs no other description for them");
    seen.refused = 1;
    is_int(GB_E_NOMEM, go(k, "tn", &g, 0),
           "a first launch that is refused has its reason");
    seen.refused = 2;
    is_int(GB_E_DEVICE, go(k, "tn", &g, 0),
           "a second one comes too late: C is being written");
    seen.refused = 0;
}

static void test_repair(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_f16_64x64x64");
    struct gb_gemm_args g = product("nt", 1001, 77, 333), r;
    size_t bytes;

    g.a += 2;
    g.a_k = 1003;
    g.b_k = 79;
    g.b += 6;
    g.batch = 3;
    g.a_batch = 333 * 1003;
    ok(!gb_launch_takes(k, &g), "ragged operands");
    r = g;
    bytes = gb_launch_repair_bytes(k, GB_REPAIR_A | GB_REPAIR_B, 'n', 't', &g);
    memset(&seen, 0, sizeof seen);
    is_int(GB_SUCCESS,
           gb_launch_repair(&dev, NULL, NULL, k, GB_REPAIR_A | GB_REPAIR_B, 'n', 't',
                            0x100000, &r),
           "are copied");
    ok(r.a == 0x100000 && r.b > r.a && r.b % 256 == 0 && r.b < 0x100000 + bytes,
       "into one workspace");
    ok(gb_launch_takes(k, &r), "to where TMA can read them");
    ok(r.a_m == 1 && r.a_k == 1024 && r.b_k == 128 && r.b_n == 1 && r.b_batch == 0,
       "their columns are aligned");
    ok(seen.repair.x[0].rows == 1001 && seen.repair.x[0].cols == 333 &&
           seen.repair.x[0].batch == 3 && seen.repair.x[0].ld_from == 1003 &&
           seen.repair.x[0].from == g.a && seen.repair.x[0].to == r.a,
       "A as it is stored, each matrix");
    ok(seen.repair.x[1].rows == 77 && seen.repair.x[1].cols == 333 &&
           seen.repair.x[1].batch == 1 && seen.repair.x[1].to == r.b,
       "B once: it is broadcast");
    r = g;
    is_int(GB_SUCCESS,
           gb_launch_repair(&dev, NULL, NULL, k, GB_REPAIR_B, 'n', 't', 0x100000, &r),
           "B alone");
    ok(r.a == g.a && r.a_k == g.a_k && r.b == 0x100000, "leaves A");
    r = g;
    r.m = 2100;
    r.a_k = 2101;
    gb_launch_repair(&dev, NULL, NULL, k, GB_REPAIR_A, 'n', 't', 0x100000, &r);
    ok(seen.repair.x[0].rows == 2100 && seen.repair.x[0].lanes_log2 == 5 &&
           seen.repair.x[0].parts == 3 &&
           seen.repair.x[0].units == 3 * gb_ceil_div(333 * 3, 8) &&
           seen.grid == seen.repair.x[0].units,
       "263 vectors of a column: 32 threads with 4 each, three times");
    g.k_end = 0;
    seen.launches = 0;
    is_int(GB_SUCCESS,
           gb_launch_repair(&dev, NULL, NULL, k, GB_REPAIR_A, 'n', 't', 0x100000, &g),
           "no k");
    is_int(0, seen.launches, "nothing to copy");
}

/* Rows for tf32 read operands along k. */
static void test_repack(void)
{
    const struct gb_kernel *k = gb_kernel_find("gemm_wgmma_tf32_64x64x32");
    struct gb_gemm_args g = product("nt", 1001, 77, 333), r;
    size_t bytes;

    is_int(0, (int)gb_launch_repaired(k, 't', 'n', 16, 16),
           "what runs along k is read");
    is_int(GB_REPAIR_A, (int)gb_launch_repaired(k, 't', 'n', 8, 16), "unless ragged");
    is_int(GB_REPAIR_A | GB_REPAIR_B, (int)gb_launch_repaired(k, 'n', 't', 128, 128),
           "what does not is copied");
    g.alpha[0] = 1;
    g.a += 4;
    g.a_k = 1003;
    g.b_k = 80;
    g.batch = 3;
    g.a_batch = 333 * 1003;
    ok(!gb_launch_takes(k, &g), "nor does the row take it");
    r = g;
    bytes = gb_launch_repair_bytes(k, GB_REPAIR_A | GB_REPAIR_B, 'n', 't', &g);
    memset(&seen, 0, sizeof seen);
    is_int(GB_SUCCESS,
           gb_launch_repair(&dev, NULL, NULL, k, GB_REPAIR_A | GB_REPAIR_B, 'n', 't',
                            0x100000, &r),
           "copies");
    ok(r.a == 0x100000 && r.b > r.a && r.b % 256 == 0 && r.b < 0x100000 + bytes &&
           bytes == (3 * (size_t)r.a_batch + 424 * 64) * 4,
       "in one workspace");
    ok(gb_launch_takes(k, &r) && r.a_m == 352 && r.a_k == 1 && r.b_k == 1 &&
           r.b_n == 352 && r.a_batch >= 352 * 1001 && r.b_batch == 0,
       "run along k, in whole lines of memory");
    ok(seen.repack.x[0].vectors == 1001 && seen.repack.x[0].deep == 333 &&
           seen.repack.x[0].from_vector == 1 && seen.repack.x[0].from_deep == 1003 &&
           seen.repack.x[0].batch == 3 && seen.repack.x[0].from == g.a &&
           seen.repack.x[0].units == 16 * 6 * 3,
       "of A, each matrix");
    ok(seen.repack.x[1].vectors == 77 && seen.repack.x[1].from_deep == 80 &&
           seen.repack.x[1].batch == 1 && seen.repack.x[1].units == 2 * 6,
       "of B once: it is broadcast");
    for (int x = 0; x < 2; x++) {
        r = g;
        r.alpha[0] = x;
        r.k_end = x ? 0 : r.k_end;
        seen.launches = 0;
        is_int(
            GB_SUCCESS,
            gb_launch_repair(&dev, NULL, NULL, k, GB_REPAIR_A, 'n', 't', 0x100000, &r),
            x ? "no k" : "alpha 0");
        is_int(0, seen.launches, "nothing is read");
    }
}

int main(void)
{
    plan_lazy();
    test_simt();
    test_mma();
    test_ahead();
    test_grid();
    test_tensors();
    test_refused();
    test_families();
    test_reduce();
    test_together();
    test_tail();
    test_repair();
    test_repack();
    return 0;
}
