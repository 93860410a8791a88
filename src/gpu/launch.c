/* SPDX-License-Identifier: BSD-3-Clause */
/* Grids, and the descriptions of matrices that TMA wants. */
#include "launch.h"

#include "tensor_map.h"
#include "tile_map.h"
#include "util.h"

enum {
    REDUCE_BLOCKS = 4096,
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

    if (!aligned(g->a | g->b | (uint64_t)(ld_a | ld_b | g->a_batch | g->b_batch) * size,
                 k->align))
        return false;
    return !(k->flags & GB_K_TMA) || (g->m <= GB_TMA_MOST && g->n <= GB_TMA_MOST &&
                                      g->k_end - g->k_begin <= GB_TMA_MOST);
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
                               char b, const struct gb_gemm_args *g,
                               struct gb_tma_args *t)
{
    int64_t deep = g->k_end - g->k_begin;
    uint64_t size_c = gb_type_size(k->type_c);
    struct gb_tensor x, y, c;
    enum gb_status s;

    y = a == 'n' ? tensor_of(k->type, g->a, g->m, deep, g->a_k, g->a_batch, g->batch)
                 : tensor_of(k->type, g->a, deep, g->m, g->a_m, g->a_batch, g->batch);
    y.box[1] = a == 'n' ? k->tile_k : k->tile_m / (uint32_t)gb_kernel_cluster(k);
    x = b == 'n' ? tensor_of(k->type, g->b, deep, g->n, g->b_n, g->b_batch, g->batch)
                 : tensor_of(k->type, g->b, g->n, deep, g->b_k, g->b_batch, g->batch);
    x.box[1] = b == 'n' ? k->tile_n : k->tile_k;
    s = dev->ops->tensor_map(dev, &y, &t->a);
    if (s == GB_SUCCESS)
        s = dev->ops->tensor_map(dev, &x, &t->b);
    t->c_direct = !aligned(
        g->c | (uint64_t)g->ldc * size_c | (uint64_t)g->c_batch * size_c, TMA_ALIGN);
    if (s != GB_SUCCESS || t->c_direct || !(g->flags & GB_G_EPILOGUE))
        return s;
    c = tensor_of(k->type_c, g->c, g->m, g->n, g->ldc, g->c_batch, g->batch);
    c.box[0] = (uint32_t)gb_min(c.box[0], k->tile_m);
    c.box[1] = 64;
    return dev->ops->tensor_map(dev, &c, &t->c);
}

/* A persistent grid of whole clusters: a block per multiprocessor. */
static enum gb_status launch_tma(struct gb_device *dev, struct gb_stream *s,
                                 struct gb_function *f, const struct gb_kernel *k,
                                 char a, char b, const struct gb_gemm_args *g,
                                 uint32_t most)
{
    struct gb_tma_args t = {.g = *g};
    int cluster = gb_kernel_cluster(k);
    int64_t room = most ? most : gb_max(dev->info.multiprocessors, cluster);
    struct gb_tile_map map;
    enum gb_status status;
    int64_t units;

    gb_tile_map_init(&map, g, k->tile_m, (int64_t)k->tile_n * cluster);
    units = gb_min(gb_tile_map_units(&map), gb_max(room / cluster, 1));
    if (units == 0)
        return GB_SUCCESS;
    if (!gb_tile_map32_init(&t.map, &map))
        return GB_E_UNSUPPORTED;
    status = describe(dev, k, a, b, g, &t);
    if (status != GB_SUCCESS)
        return status;
    return dev->ops->launch(dev, s, f, (uint32_t)(units * cluster), k->threads, k->smem,
                            &t, sizeof t);
}

enum gb_status gb_launch_gemm(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, const struct gb_kernel *k, char a,
                              char b, const struct gb_gemm_args *g, uint32_t most)
{
    struct gb_tile_map32 small;
    struct gb_tile_map map;
    int64_t units;

    if (!gb_launch_takes(k, g))
        return GB_E_UNSUPPORTED;
    if (k->flags & GB_K_TMA)
        return launch_tma(dev, s, f, k, a, b, g, most);
    gb_tile_map_init(&map, g, k->tile_m, k->tile_n);
    units = gb_tile_map_units(&map);
    if (units == 0)
        return GB_SUCCESS; /* no tile touches the triangle */
    if ((k->flags & GB_K_TENSOR) && !gb_tile_map32_init(&small, &map))
        return GB_E_UNSUPPORTED; /* these rows count their units in 32 bits */
    return dev->ops->launch(dev, s, f, (uint32_t)gb_min(units, most ? most : MAX_GRID),
                            k->threads, k->smem, g, sizeof *g);
}

enum gb_status gb_launch_reduce(struct gb_device *dev, struct gb_stream *s,
                                struct gb_function *f, const struct gb_gemm_args *g,
                                uint32_t most)
{
    int64_t blocks = gb_ceil_div(g->m * g->n * g->batch, GB_REDUCE_THREADS);

    return dev->ops->launch(dev, s, f,
                            (uint32_t)gb_min(blocks, most ? most : REDUCE_BLOCKS),
                            GB_REDUCE_THREADS, 0, g, sizeof *g);
}
