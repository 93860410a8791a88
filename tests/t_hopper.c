/* SPDX-License-Identifier: BSD-3-Clause */
/* The waits and barriers of gemm_wgmma on fibers, where TMA, mbarriers, wgmma and clusters are
 * those of wgmma_host.h: with all of them its products are right, and without any one of them some
 * product is wrong or never ends. No tool follows such kernels on hardware. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "emu.h"
#include "fiber_hopper.h"
#include "kernels.h"
#include "launch.h"
#include "operands.h"
#include "tap.h"
#include "tensor_map.h"
#include "util.h"

enum { SEEDS = 6 };

static char error[200];
static uint32_t seed;

/* A function is a kernel of fiber_hopper.h. */
static enum gb_status run_shaped(struct gb_device *dev, struct gb_stream *s,
                                 struct gb_function *f,
                                 const struct gb_launch_shape *shape, const void *args,
                                 size_t bytes)
{
    (void)dev, (void)s;
    switch (gb_fiber_run((const struct gb_emu_kernel *)(const void *)f, shape->grid,
                         shape->block, shape->cluster ? shape->cluster : 1,
                         shape->smem_bytes, args, bytes, seed, error, sizeof error)) {
    case 0:
        return GB_SUCCESS;
    case GB_FIBER_NOMEM:
        bail("%s", error);
    default:
        return GB_E_DEVICE;
    }
}

static struct gb_device_ops ops = {.launch_shaped = run_shaped};
static struct gb_device dev = {.ops = &ops, .info = {.multiprocessors = 4}};

struct product {
    const char *name;
    int tile, pairs; /* of fiber_hopper.h; 1: of its row of pairs */
    const char *layout;
    int m, n, k, gap_c; /* ldc = m + gap_c */
    double alpha, beta;
    int split_len, cut, tail; /* 0: none */
    bool fused;               /* a bias for each row */
    uint32_t blocks;
};

static const struct product products[] = {
    {"turns", 0, 0, "nt", 392, 264, 192, 0, 1, 0, 0, 0, 0, false, 1},
    {"turns, K-major", 0, 0, "tn", 264, 200, 320, 0, 1, 0, 0, 0, 0, false, 1},
    {"C is read", 0, 0, "nn", 392, 136, 192, 0, -1, 1, 0, 0, 0, false, 1},
    {"C begins anywhere", 0, 0, "nn", 261, 136, 72, 2, 1, 1, 0, 0, 0, false, 1},
    {"no sums", 0, 0, "nn", 1032, 200, 8, 0, 0, -1, 0, 0, 0, false, 1},
    {"carried sums", 0, 0, "nn", 264, 136, 200, 0, 1, -1, 0, 64, 0, false, 2},
    {"fused", 0, 0, "nn", 264, 136, 72, 0, 1, 1, 0, 0, 0, true, 1},
    {"pairs", 0, 1, "nt", 264, 392, 320, 0, 1, 0, 0, 0, 0, false, 2},
    {"pairs, K-major", 0, 1, "tn", 264, 264, 320, 0, 1, 0, 0, 0, 0, false, 2},
    {"clusters of 2", 0, 0, "nn", 136, 136, 256, 0, 1, 1, 128, 0, 0, false, 0},
    {"clusters of 4, fused", 0, 0, "tn", 136, 72, 512, 0, 1, 1, 128, 0, 0, true, 0},
    {"a tail", 0, 0, "nn", 392, 200, 512, 0, 1, 0, 0, 0, 2, false, 5},
    {"two warpgroups", 1, 0, "nt", 392, 264, 192, 0, 1, 0, 0, 0, 0, false, 1},
    {"C is read by two", 1, 0, "nn", 264, 264, 128, 0, 1, 1, 0, 0, 0, false, 1},
    {"two of a cluster of 4", 1, 0, "nn", 136, 136, 512, 0, 1, 0, 128, 0, 0, false, 0},
    {"fp32", 2, 0, "tt", 392, 200, 192, 0, 1, 0, 0, 0, 0, false, 1},
    {"fp32 is read", 2, 0, "nn", 264, 136, 72, 0, -1, 1, 0, 0, 0, false, 1},
    {"fp32 begins anywhere", 2, 0, "nn", 261, 136, 72, 2, 1, 1, 0, 0, 0, false, 1},
    {"no sums of two", 1, 0, "nn", 1032, 264, 8, 0, 0, 1, 0, 0, 0, false, 1},
};

static int element(int matrix, int i, int j)
{
    return (matrix * 5 + i * 7 + j * 3 + i * j) % 7 - 3;
}

/* op(X), rows x cols: as it is stored. */
static uint16_t *operand(int tile, int matrix, bool turned, int rows, int cols,
                         int64_t *ld)
{
    uint16_t *x;

    *ld = gb_round_up(turned ? cols : rows, 8);
    x = aligned_alloc(128, (size_t)gb_round_up(*ld * (turned ? rows : cols) * 2, 128));
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++)
            x[turned ? j + i * *ld : i + j * *ld] =
                tile == 2 ? verify_bf16(element(matrix, i, j))
                          : verify_f16(element(matrix, i, j));
    return x;
}

/* What C(i, j) becomes, of which sums is op(A)op(B). */
static double expected(const struct product *p, const double *sums, int i, int j)
{
    double x = p->beta != 0 ? p->beta * element(2, i, j) : 0; /* -0 stays -0 */

    if (p->alpha != 0)
        x += p->alpha * sums[i + (int64_t)j * p->m];
    if (p->fused)
        x += i % 5;
    return x;
}

static double *sums_of(const struct product *p)
{
    double *sums = calloc((size_t)p->m * (size_t)p->n, sizeof *sums);

    for (int j = 0; j < p->n; j++)
        for (int l = 0; l < p->k; l++)
            for (int i = 0; i < p->m; i++)
                sums[i + (int64_t)j * p->m] += element(0, i, l) * element(1, l, j);
    return sums;
}

/* Element x of C, in 16 bits or in 32; what nobody may write is NaN. */
static void put(const struct product *p, void *c, int64_t x, double value)
{
    if (p->tile == 2)
        ((float *)c)[x] = (float)value;
    else
        ((uint16_t *)c)[x] = verify_f16(value);
}

static bool is(const struct product *p, const void *c, int64_t x, double value)
{
    float wide = (float)value;
    uint16_t narrow = verify_f16(value);

    return p->tile == 2 ? memcmp((const float *)c + x, &wide, sizeof wide) == 0
                        : memcmp((const uint16_t *)c + x, &narrow, sizeof narrow) == 0;
}

/* Is the product what it should be? */
static bool right(const struct product *p, const double *sums)
{
    static const char *const rows[HOPPER_TILES][2] = {
        {"gemm_wgmma_f16_128x64x64", "gemm_wgmma_f16_128x64x64_c2"},
        {"gemm_wgmma_f16_128x128x64", "gemm_wgmma_f16_128x128x64_c2"},
        {"gemm_wgmma_bf16_f32_128x64x64", "gemm_wgmma_bf16_f32_128x64x64_c2"}};
    struct gb_kernel k = *gb_kernel_find(rows[p->tile][p->pairs]);
    const bool ta = p->layout[0] == 't', tb = p->layout[1] == 't';
    int64_t lda, ldb, ldc = p->m + p->gap_c;
    int splits = p->split_len ? (int)gb_ceil_div(p->k, p->split_len) : 1;
    uint16_t *a = operand(p->tile, 0, ta, p->m, p->k, &lda);
    uint16_t *b = operand(p->tile, 1, tb, p->k, p->n, &ldb);
    void *c = aligned_alloc(128, (size_t)gb_round_up(ldc * p->n * 4, 128));
    float *partial = calloc((size_t)p->m * (size_t)p->n, sizeof *partial);
    uint16_t *bias = calloc((size_t)p->m, sizeof *bias);
    bool good = true;
    struct gb_gemm_args g = {
        .c = (uintptr_t)c,
        .partial = (uintptr_t)partial,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a_m = ta ? lda : 1,
        .a_k = ta ? 1 : lda,
        .b_k = tb ? ldb : 1,
        .b_n = tb ? 1 : ldb,
        .ldc = ldc,
        .split_len = p->split_len ? p->split_len : p->k,
        .alpha = {p->alpha},
        .beta = {p->beta},
        .splits = splits,
        .split_count = splits,
        .batch = 1,
        .group_m = 2,
        .tail = p->tail,
        .flags = p->beta == 0 ? GB_G_BETA_ZERO : 0,
        .fused.bias = p->fused ? (uintptr_t)bias : 0,
    };

    k.stages = 2;
    k.smem = hopper_smem(p->tile);
    if (p->fused)
        g.flags |= GB_G_FUSED;
    for (int i = 0; i < p->m; i++)
        bias[i] = verify_f16(i % 5);
    for (int j = 0; j < p->n; j++)
        for (int i = 0; i < ldc; i++)
            put(p, c, i + j * ldc,
                p->beta != 0 && i < p->m ? element(2, i, j) : (double)NAN);
    for (int at = 0; good && at < p->k; at = (int)g.k_end) {
        g.k_begin = at;
        g.k_end = p->cut && at + p->cut < p->k ? at + p->cut : p->k;
        g.a = (uintptr_t)(a + at * g.a_k);
        g.b = (uintptr_t)(b + at * g.b_k);
        if (g.k_end == p->k)
            g.flags |= GB_G_EPILOGUE;
        good =
            gb_launch_gemm(
                &dev, NULL,
                (struct gb_function *)(uintptr_t)&hopper_kernels[p->tile][2 * ta + tb],
                &k, p->layout[0], p->layout[1], &g, p->blocks) == GB_SUCCESS;
    }
    for (int j = 0; good && j < p->n; j++)
        for (int i = 0; good && i < ldc; i++)
            good =
                is(p, c, i + j * ldc, i < p->m ? expected(p, sums, i, j) : (double)NAN);
    free(a);
    free(b);
    free(c);
    free(partial);
    free(bias);
    return good;
}

/* Places that fibers do not need: the nth of their function in a file. */
static const struct {
    const char *what, *file;
    int nth;
    const char *why;
} needless[] = {
    {"gb_sync_warp", "gemm_wgmma.h", 1,
     "the cluster's barrier wants whole warps on hardware"},
    {"gb_sync_warp", "wgmma_epilogue.h", 4,
     "stmatrix, which follows, is a meeting of fibers"},
    {"gb_sync_warp", "wgmma_epilogue.h", 6,
     "the next tile's first stmatrix is a meeting of fibers"},
    {"gb_sync_warp", "wgmma_epilogue.h", 8,
     "the next part's is, and copies into the buffer come later than it is read"},
    {"gb_wgmma_wait", "gemm_wgmma.h", 1,
     "so that the compiler sees whose the sums are"},
};

static const char *file_of(const struct hopper_site *s)
{
    return strrchr(s->file, '/') ? strrchr(s->file, '/') + 1 : s->file;
}

/* Which of its function's places in its file, from 1 on. */
static int nth(const struct hopper_site *sites, int count, int x)
{
    int n = 0;

    for (int i = 0; i < count; i++)
        n += strcmp(sites[i].what, sites[x].what) == 0 &&
             strcmp(sites[i].file, sites[x].file) == 0 &&
             sites[i].line <= sites[x].line;
    return n;
}

static const char *why_needless(const struct hopper_site *sites, int count, int x)
{
    for (size_t i = 0; i < GB_COUNT(needless); i++)
        if (strcmp(needless[i].what, sites[x].what) == 0 &&
            strcmp(needless[i].file, file_of(&sites[x])) == 0 &&
            needless[i].nth == nth(sites, count, x))
            return needless[i].why;
    return NULL;
}

/* A place, and where the other threads of a cluster come to the same barrier: the multipliers'
 * first and second are the loader's fourth and fifth. Without one side alone nothing would end,
 * whatever the barrier is for. */
static uint64_t with_partner(const struct hopper_site *sites, int count, int x)
{
    const int mine = nth(sites, count, x);
    uint64_t both = (uint64_t)1 << x;

    for (int i = 0; strcmp(sites[x].what, "gb_cluster_sync") == 0 && i < count; i++) {
        const int other = nth(sites, count, i);

        if (strcmp(sites[i].what, sites[x].what) == 0 &&
            ((mine <= 2 && other == mine + 3) || (other <= 2 && mine == other + 3)))
            both |= (uint64_t)1 << i;
    }
    return both;
}

int main(void)
{
    double *sums[GB_COUNT(products)];
    const struct hopper_site *sites;
    int count;

    plan_lazy();
    ops.tensor_map = gb_emu_ops(&(struct gb_emu_config){.seed = 1})->tensor_map;
    for (size_t i = 0; i < GB_COUNT(products); i++) {
        bool good = true;

        sums[i] = sums_of(&products[i]);
        for (seed = 1; good && seed <= SEEDS; seed++)
            good = right(&products[i], sums[i]);
        ok(good, "%s", products[i].name);
        if (!good)
            diag("%s", error);
        error[0] = '\0';
    }
    count = hopper_sites(&sites);
    for (int x = 0; x < count; x++) {
        const char *seen_by = NULL, *why = why_needless(sites, count, x);

        hopper_drop(with_partner(sites, count, x));
        for (seed = 1; !seen_by && seed <= SEEDS; seed++)
            for (size_t i = 0; !seen_by && i < GB_COUNT(products); i++)
                if (!right(&products[i], sums[i]))
                    seen_by = products[i].name;
        if (why) {
            ok(seen_by == NULL, "without %s of %s:%d: not needed here: %s",
               sites[x].what, file_of(&sites[x]), sites[x].line, why);
            continue;
        }
        ok(seen_by != NULL, "without %s of %s:%d: %s", sites[x].what,
           file_of(&sites[x]), sites[x].line, seen_by ? seen_by : "nothing is wrong");
    }
    hopper_drop(0);
    is_int(29, count, "every wait and barrier is come to");
    for (size_t i = 0; i < GB_COUNT(products); i++)
        free(sums[i]);
    return 0;
}
