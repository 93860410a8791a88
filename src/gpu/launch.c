/* SPDX-License-Identifier: BSD-3-Clause */
/* Grids, and the descriptions of matrices that TMA wants. */
#include "launch.h"

#include "repair_args.h"
#include "tensor_map.h"
#include "tile_map.h"
#include "util.h"

enum {
    REDUCE_BLOCKS = 4096,
    REPAIR_BLOCKS = 4096,
    MAX_GRID = INT32_MAX,
    TMA_ALIGN = 16,
    TMA_ROW = 128, /* bytes of a box, and of a swizzled row */
};

static bool aligned(uint64_t bytes, uint32_t align)
{
    return bytes % align == 0;
}

bool gb_launch_takes(const struct gb_kernel *k, const struct gb_gemm_args *g)
{
    uint64_t size = gb_type_size(k->type);
    /* of the two strides of an operand one is 1 */
    int64_t ld_a = gb_max(g->a_m, g->a_k), ld_b = gb_max(g->b_k, g->b_n);

    if (k->flags & (GB_K_EMULATED | GB_K_INTEGER))
        return false; /* emulated.h, integer.h */
    if ((k->flags & GB_K_PLAIN) && (g->flags & GB_G_FUSED))
        return false;
    if ((k->flags & GB_K_FAST) && (g->a_k != 1 || g->b_k != 1))
        return false;
    if ((k->flags & GB_K_TMA) && (g->a_list || g->b_list || g->c_list))
        return false; /* it would take a description of each matrix */
    if (!aligned(g->a | g->b | (uint64_t)(ld_a | ld_b | g->a_batch | g->b_batch) * size,
                 k->align))
        return false;
    if ((k->flags & GB_K_WHOLE) &&
        (g->splits > 1 || g->k_begin != 0 || g->k_end != g->k || g->k > INT32_MAX ||
         !(g->flags & GB_G_EPILOGUE)))
        return false;
    return !(k->flags & GB_K_TMA) || (g->m <= GB_TMA_MOST && g->n <= GB_TMA_MOST &&
                                      g->k_end - g->k_begin <= GB_TMA_MOST);
}

/* May row k's blocks come in clusters of so many, for splits of a tile? */
static bool clusters_of(const struct gb_kernel *k, int64_t splits)
{
    return (k->flags & GB_K_TMA) && !(k->flags & (GB_K_EMULATED | GB_K_INTEGER)) &&
           splits > 1 && splits <= GB_SPLITS_TOGETHER && (splits & (splits - 1)) == 0;
}

bool gb_launch_together(const struct gb_kernel *k, int64_t splits)
{
    return clusters_of(k, splits) && gb_kernel_cluster(k) == 1;
}

bool gb_launch_sums_splits(const struct gb_kernel *k, const struct gb_gemm_args *g)
{
    return gb_launch_together(k, g->splits) && g->k_begin == 0 && g->k_end == g->k;
}

/* rows x cols elements with leading dimension ld, `batch` times. */
static struct gb_tensor tensor_of(enum gb_type type, uint64_t at, int64_t rows,
                                  int64_t cols, int64_t ld, int64_t stride, int batch)
{
    uint64_t size = gb_type_size(type);
    bool many = stride != 0 && batch > 1; /* stride 0: one matrix serves all */

    return (struct gb_tensor){
        .type = type,
        .at = at,
        .dim = {(uint64_t)gb_max(rows, 1), (uint64_t)gb_max(cols, 1),
                many ? (uint64_t)batch : 1},
        .stride = {cols > 1 ? (uint64_t)ld * size : TMA_ALIGN,
                   many ? (uint64_t)stride * size : TMA_ALIGN},
        .box = {(uint32_t)(TMA_ROW / size), 0},
    };
}

/* Which boxes the kernel moves is its own business, but both sides must agree: see
 * gemm_wgmma.h. Where an operand runs along k, a box is as many rows as one block loads; else
 * it is 64 by 64. */
static enum gb_status describe(struct gb_device *dev, const struct gb_kernel *k, char a,
                               char b, struct gb_tma_args *t)
{
    const struct gb_gemm_args *g = &t->g;
    int64_t deep = g->k_end - g->k_begin;
    uint64_t size_c = gb_type_size(k->type_c);
    struct gb_tensor x, y, c;
    enum gb_status s;

    y = a == 'n' ? tensor_of(k->type, g->a, g->m, deep, g->a_k, g->a_batch, g->batch)
                 : tensor_of(k->type, g->a, deep, g->m, g->a_m, g->a_batch, g->batch);
    y.box[1] = a == 'n' ? k->tile_k : t->apart ? k->tile_m : k->tile_m >> t->wide;
    x = b == 'n' ? tensor_of(k->type, g->b, deep, g->n, g->b_n, g->b_batch, g->batch)
                 : tensor_of(k->type, g->b, g->n, deep, g->b_k, g->b_batch, g->batch);
    x.box[1] = b == 'n' ? k->tile_n : k->tile_k;
    x.tf32 = y.tf32 = k->flags & GB_K_FAST;
    s = dev->ops->tensor_map(dev, &y, &t->a);
    if (s == GB_SUCCESS)
        s = dev->ops->tensor_map(dev, &x, &t->b);
    t->c_direct = !aligned(
        g->c | (uint64_t)g->ldc * size_c | (uint64_t)g->c_batch * size_c, TMA_ALIGN);
    if (s != GB_SUCCESS || t->c_direct || !(g->flags & GB_G_EPILOGUE) ||
        (g->flags & (GB_G_BETA_ZERO | GB_G_FUSED)))
        return s;
    c = tensor_of(k->type_c, g->c, g->m, g->n, g->ldc, g->c_batch, g->batch);
    c.box[0] = (uint32_t)gb_min(c.box[0], k->tile_m);
    c.box[1] = 16;
    return dev->ops->tensor_map(dev, &c, &t->c);
}

static uint64_t l2_hint(bool keep, bool stream)
{
    return keep ? GB_L2_LAST : stream ? GB_L2_FIRST : GB_L2_NORMAL;
}

int64_t gb_launch_split_length(const struct gb_kernel *k, int64_t deep, int splits)
{
    return gb_round_up(gb_ceil_div(deep, splits), k->tile_k);
}

int64_t gb_launch_tail(const struct gb_kernel *k, const struct gb_gemm_args *g,
                       int64_t units, int64_t room)
{
    /* (a kernel counts units, and those of its next turn, in 32 bits) */
    if (!clusters_of(k, g->tail) || g->splits != 1 || units < room ||
        units > INT32_MAX / 4 || !(g->flags & GB_G_EPILOGUE) || g->k_begin != 0 ||
        g->k_end != g->k || g->k < (int64_t)g->tail * k->tile_k)
        return 0;
    /* rounding may leave the last split empty */
    if (gb_ceil_div(g->k, gb_launch_split_length(k, g->k, g->tail)) != g->tail)
        return 0;
    return units % room;
}

/* Units from t->first on, as many as the map has before t->map.units. */
static enum gb_status launch_part(struct gb_device *dev, struct gb_stream *s,
                                  struct gb_function *f, const struct gb_kernel *k,
                                  int64_t grid, const struct gb_tma_args *t)
{
    int cluster = t->wide && !t->apart ? gb_kernel_cluster(k) : t->together;
    const struct gb_launch_shape shape = {
        .grid = (uint32_t)grid,
        .block = k->threads,
        .smem_bytes = k->smem,
        .cluster = cluster > 1 ? (uint32_t)cluster : 0,
        .early = true,
    };

    return dev->ops->launch_shaped(dev, s, f, &shape, t, sizeof *t);
}

/* What the last `rest` units of `whole` are launched with. */
static enum gb_status tail_of(struct gb_device *dev, const struct gb_kernel *k, char a,
                              char b, int64_t units, int64_t rest,
                              const struct gb_tma_args *whole, struct gb_tma_args *t)
{
    int cluster = gb_kernel_cluster(k);

    *t = *whole;
    t->first = (uint32_t)((units - rest) * cluster);
    t->map.units = (uint32_t)(units * cluster);
    t->apart = t->wide;
    t->together = whole->g.tail;
    t->wait = GB_TMA_AT_END;
    t->g.splits = t->g.split_count = whole->g.tail;
    t->g.split_len = gb_launch_split_length(k, whole->g.k, whole->g.tail);
    /* boxes of A by rows are those of one block now */
    return t->apart && a == 't' ? describe(dev, k, a, b, t) : GB_SUCCESS;
}

/* A persistent grid of whole clusters: as many blocks as run at once. Where a cluster sums
 * splits, one for each tile. */
static enum gb_status launch_tma(struct gb_device *dev, struct gb_stream *s,
                                 struct gb_function *f, const struct gb_kernel *k,
                                 char a, char b, const struct gb_gemm_args *g,
                                 uint32_t most)
{
    int cluster = gb_kernel_cluster(k);
    struct gb_tma_args t = {
        .g = *g,
        .hint_a = l2_hint(g->flags & GB_G_KEEP_A, g->flags & GB_G_STREAM_A),
        .hint_b = l2_hint(g->flags & GB_G_KEEP_B, g->flags & GB_G_STREAM_B),
        .together = 1,
        .wide = cluster > 1,
    };
    int64_t room = most ? most
                        : gb_max((int64_t)dev->info.multiprocessors *
                                     gb_kernel_blocks(k, &dev->info),
                                 cluster);
    struct gb_tma_args tail;
    struct gb_tile_map map;
    enum gb_status status;
    int64_t units, rest, grid;

    room = gb_max(room / cluster, 1);
    gb_tile_map_init(&map, g, k->tile_m, (int64_t)k->tile_n * cluster);
    units = gb_tile_map_units(&map);
    if (units == 0)
        return GB_SUCCESS;
    grid = gb_min(units, room) * cluster;
    if (g->splits > 1 && (g->flags & GB_G_EPILOGUE)) {
        t.together = g->splits;
        map.splits = 1;
        units = gb_tile_map_units(&map);
        if (units > MAX_GRID / GB_SPLITS_TOGETHER)
            return GB_E_UNSUPPORTED;
        grid = units * g->splits;
    }
    if (!gb_tile_map32_init(&t.map, &map))
        return GB_E_UNSUPPORTED;
    rest = gb_launch_tail(k, g, units, room);
    if (rest > 0)
        t.wait = GB_TMA_BEFORE_NEXT;
    t.map.units = (uint32_t)(units - rest);
    status = describe(dev, k, a, b, &t);
    if (status == GB_SUCCESS && rest > 0)
        status = tail_of(dev, k, a, b, units, rest, &t, &tail);
    if (status == GB_SUCCESS)
        status = launch_part(dev, s, f, k, grid, &t);
    if (status != GB_SUCCESS || rest == 0)
        return status;
    /* the rest of C is being written: whatever goes wrong now, the call cannot be repeated */
    status = launch_part(dev, s, f, k, rest * cluster * g->tail, &tail);
    return status == GB_SUCCESS ? status : GB_E_DEVICE;
}

/* Is row k, and what is launched beside it, compiled for this very architecture, so that it
 * waits by itself for what was queued before it? Rows for TMA are; with them there is an image
 * of their architecture of everything else. */
static bool waits_by_itself(const struct gb_kernel *k,
                            const struct gb_device_info *info)
{
    return (k->flags & GB_K_TMA) ||
           ((k->flags & GB_K_WHOLE) && info->vendor == GB_NVIDIA && info->arch == 90 &&
            gb_image_find("gemm_wgmma_f16", info));
}

/* Early, if the kernel can. */
static enum gb_status launch(struct gb_device *dev, struct gb_stream *s,
                             struct gb_function *f, const struct gb_kernel *k,
                             struct gb_launch_shape shape, const void *args,
                             size_t bytes)
{
    shape.early = waits_by_itself(k, &dev->info);
    return shape.early ? dev->ops->launch_shaped(dev, s, f, &shape, args, bytes)
                       : dev->ops->launch(dev, s, f, shape.grid, shape.block,
                                          shape.smem_bytes, args, bytes);
}

enum gb_status gb_launch_gemm(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, const struct gb_kernel *k, char a,
                              char b, const struct gb_gemm_args *g, uint32_t most)
{
    struct gb_launch_shape shape;
    struct gb_tile_map32 small;
    struct gb_tile_map map;
    int64_t units;

    if (!gb_launch_takes(k, g))
        return GB_E_UNSUPPORTED;
    if (k->flags & GB_K_FAST) {
        a = 't';
        b = 'n';
    }
    if (k->flags & GB_K_TMA)
        return launch_tma(dev, s, f, k, a, b, g, most);
    gb_tile_map_init(&map, g, k->tile_m, k->tile_n);
    units = gb_tile_map_units(&map);
    if (units == 0)
        return GB_SUCCESS; /* no tile touches the triangle */
    if ((k->flags & GB_K_TENSOR) && !(k->flags & GB_K_UPLO) &&
        !gb_tile_map32_init(&small, &map))
        return GB_E_UNSUPPORTED; /* these rows count their units in 32 bits */
    if (!most && (k->flags & GB_K_AHEAD))
        most = (uint32_t)gb_max(dev->info.multiprocessors, 1);
    shape = (struct gb_launch_shape){
        .grid = (uint32_t)gb_min(units, most ? most : MAX_GRID),
        .block = k->threads,
        .smem_bytes = k->smem,
    };
    return launch(dev, s, f, k, shape, g, sizeof *g);
}

enum gb_status gb_launch_reduce(struct gb_device *dev, struct gb_stream *s,
                                struct gb_function *f, const struct gb_kernel *k,
                                const struct gb_gemm_args *g, uint32_t most)
{
    int64_t blocks = gb_ceil_div(g->m * g->n * g->batch, GB_REDUCE_THREADS);
    const struct gb_launch_shape shape = {
        .grid = (uint32_t)gb_min(blocks, most ? most : REDUCE_BLOCKS),
        .block = GB_REDUCE_THREADS,
    };

    return launch(dev, s, f, k, shape, g, sizeof *g);
}

const char *gb_launch_repair_symbol(const struct gb_kernel *k)
{
    return k->flags & GB_K_FAST ? GB_REPACK_SYMBOL : GB_REPAIR_SYMBOL;
}

unsigned gb_launch_repaired(const struct gb_kernel *k, char a, char b, uint32_t align_a,
                            uint32_t align_b)
{
    const bool all = k->flags & GB_K_EMULATED,
               along = k->flags & (GB_K_FAST | GB_K_INTEGER);

    return (all || (along && a == 'n') || k->align > align_a ? GB_REPAIR_A : 0u) |
           (all || (along && b == 't') || k->align > align_b ? GB_REPAIR_B : 0u);
}

bool gb_launch_can_repair(const struct gb_kernel *k, const struct gb_device_info *info)
{
    return (gb_type_size(k->type) == 2 || (k->flags & GB_K_FAST)) &&
           k->align <= GB_REPAIR_ALIGN &&
           (info->vendor == GB_EMU || gb_image_find(GB_REPAIR_FAMILY, info));
}

/* A copy of what operand `which` is stored as, at `work`. */
static struct gb_repair repair_of(const struct gb_gemm_args *g, unsigned which,
                                  char layout, uint64_t work)
{
    bool a = which == GB_REPAIR_A;
    int64_t deep = g->k_end - g->k_begin, wide = a ? g->m : g->n;
    int64_t stride = a ? g->a_batch : g->b_batch;
    /* does the unit stride run along k? */
    bool along = a ? layout == 't' : layout == 'n';
    struct gb_repair x = {
        .from = a ? g->a : g->b,
        .to = work,
        .rows = along ? deep : wide,
        .cols = along ? wide : deep,
        .ld_from = a ? (along ? g->a_m : g->a_k) : (along ? g->b_n : g->b_k),
        .batch_from = stride,
        .batch = stride != 0 ? g->batch : 1, /* stride 0: one matrix serves all */
    };
    int64_t vectors = gb_ceil_div(x.rows, 8);

    x.ld_to = gb_round_up(x.rows, x.rows < 64 ? 8 : 64); /* whole lines of memory */
    x.batch_to = gb_round_up(x.ld_to * x.cols, 128);
    while (x.lanes_log2 < 5 && 1 << x.lanes_log2 < vectors)
        x.lanes_log2++;
    x.parts = gb_ceil_div(vectors, (int64_t)GB_REPAIR_ROWS << x.lanes_log2);
    x.units =
        x.parts * gb_ceil_div(x.cols * x.batch, GB_REPAIR_THREADS >> x.lanes_log2);
    return x;
}

static size_t repair_bytes(const struct gb_repair *x)
{
    return (size_t)(x->batch_to * x->batch) * sizeof(uint16_t);
}

/* Operand `which` along k, at `work`. */
static struct gb_repack repack_of(const struct gb_gemm_args *g, unsigned which,
                                  uint64_t work)
{
    bool a = which == GB_REPAIR_A;
    int64_t stride = a ? g->a_batch : g->b_batch;
    struct gb_repack x = {
        .from = a ? g->a : g->b,
        .to = work,
        .vectors = a ? g->m : g->n,
        .deep = g->k_end - g->k_begin,
        .from_vector = a ? g->a_m : g->b_n,
        .from_deep = a ? g->a_k : g->b_k,
        .batch_from = stride,
        .batch = stride != 0 ? g->batch : 1, /* stride 0: one matrix serves all */
    };

    x.to_vector = gb_round_up(gb_max(x.deep, 1), x.deep < 32 ? 4 : 32);
    x.batch_to = gb_round_up(x.to_vector * x.vectors, 64);
    x.wide = gb_ceil_div(x.vectors, GB_REPACK_SIDE);
    if (g->alpha[0] != 0) /* else nothing is read */
        x.units = x.wide * gb_ceil_div(x.deep, GB_REPACK_SIDE) * x.batch;
    return x;
}

static size_t repack_bytes(const struct gb_repack *x)
{
    return (size_t)(x->batch_to * x->batch) * sizeof(uint32_t);
}

/* repair() for rows with GB_K_FAST. */
static enum gb_status repack(struct gb_device *dev, struct gb_stream *s,
                             struct gb_function *f, const struct gb_kernel *k,
                             unsigned which, gb_devptr work, struct gb_gemm_args *g)
{
    struct gb_launch_shape shape = {.block = GB_REPAIR_THREADS};
    struct gb_repack_args r = {.x = {{.units = 0}}};
    int64_t blocks;
    int n = 0;

    if (which & GB_REPAIR_A) {
        r.x[n] = repack_of(g, GB_REPAIR_A, work);
        work += repack_bytes(&r.x[n]);
        g->a = r.x[n].to;
        g->a_m = r.x[n].to_vector;
        g->a_k = 1;
        if (g->a_batch != 0)
            g->a_batch = r.x[n].batch_to;
        n++;
    }
    if (which & GB_REPAIR_B) {
        r.x[n] = repack_of(g, GB_REPAIR_B, work);
        g->b = r.x[n].to;
        g->b_n = r.x[n].to_vector;
        g->b_k = 1;
        if (g->b_batch != 0)
            g->b_batch = r.x[n].batch_to;
        n++;
    }
    blocks = r.x[0].units + r.x[1].units;
    if (blocks == 0)
        return GB_SUCCESS;
    shape.grid = (uint32_t)gb_min(blocks, REPAIR_BLOCKS);
    return launch(dev, s, f, k, shape, &r, sizeof r);
}

size_t gb_launch_repair_bytes(const struct gb_kernel *k, unsigned which, char a, char b,
                              const struct gb_gemm_args *g)
{
    if (k->flags & GB_K_FAST) {
        const struct gb_repack x = repack_of(g, GB_REPAIR_A, 0),
                               y = repack_of(g, GB_REPAIR_B, 0);

        return (which & GB_REPAIR_A ? repack_bytes(&x) : 0) +
               (which & GB_REPAIR_B ? repack_bytes(&y) : 0);
    }
    const struct gb_repair x = repair_of(g, GB_REPAIR_A, a, 0),
                           y = repair_of(g, GB_REPAIR_B, b, 0);

    return (which & GB_REPAIR_A ? repair_bytes(&x) : 0) +
           (which & GB_REPAIR_B ? repair_bytes(&y) : 0);
}

enum gb_status gb_launch_repair(struct gb_device *dev, struct gb_stream *s,
                                struct gb_function *f, const struct gb_kernel *k,
                                unsigned which, char a, char b, gb_devptr work,
                                struct gb_gemm_args *g)
{
    struct gb_launch_shape shape = {.block = GB_REPAIR_THREADS};
    struct gb_repair_args r = {.x = {{.units = 0}}};
    int n = 0;
    int64_t blocks;

    if (k->flags & GB_K_FAST)
        return repack(dev, s, f, k, which, work, g);
    if (which & GB_REPAIR_A) {
        r.x[n] = repair_of(g, GB_REPAIR_A, a, work);
        work += repair_bytes(&r.x[n]);
        g->a = r.x[n].to;
        *(a == 't' ? &g->a_m : &g->a_k) = r.x[n].ld_to;
        if (g->a_batch != 0)
            g->a_batch = r.x[n].batch_to;
        n++;
    }
    if (which & GB_REPAIR_B) {
        r.x[n] = repair_of(g, GB_REPAIR_B, b, work);
        g->b = r.x[n].to;
        *(b == 'n' ? &g->b_n : &g->b_k) = r.x[n].ld_to;
        if (g->b_batch != 0)
            g->b_batch = r.x[n].batch_to;
        n++;
    }
    blocks = r.x[0].units + r.x[1].units;
    if (blocks == 0)
        return GB_SUCCESS;
    shape.grid = (uint32_t)gb_min(blocks, REPAIR_BLOCKS);
    return launch(dev, s, f, k, shape, &r, sizeof r);
}

enum gb_status gb_launch_pack(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, const struct gb_pack_args *p)
{
    int64_t blocks = gb_ceil_div(p->rows * p->cols * p->batch, GB_REPAIR_THREADS);

    if (blocks == 0)
        return GB_SUCCESS;
    return dev->ops->launch(dev, s, f, (uint32_t)gb_min(blocks, REPAIR_BLOCKS),
                            GB_REPAIR_THREADS, 0, p, sizeof *p);
}

enum gb_status gb_launch_list(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, gb_devptr to,
                              const void *const *list, int64_t count)
{
    enum gb_status status = GB_SUCCESS;

    for (int64_t i = 0; i < count && status == GB_SUCCESS; i += GB_LIST_MOST) {
        struct gb_list_args l = {.to = to + (gb_devptr)i * sizeof l.at[0],
                                 .count = gb_min(count - i, GB_LIST_MOST)};

        for (int64_t j = 0; j < l.count; j++)
            l.at[j] = (uintptr_t)list[i + j];
        status = dev->ops->launch(dev, s, f, 1, GB_REPAIR_THREADS, 0, &l, sizeof l);
    }
    return status;
}
