/* SPDX-License-Identifier: BSD-3-Clause */
/* The copies, the sums, and the product. */
#include "integer.h"

#include "int8_args.h"
#include "util.h"

enum {
    ALIGN = 256,
    TMA_ALIGN = 16,
    FLIP = 128 /* what is taken off numbers without sign */
};

/* Where everything lies. */
struct places {
    struct gb_bytes x[2]; /* `to`, ld and batch_to: where the product reads it */
    struct gb_sums sums[2];
    size_t bytes;
};

static uint64_t take(struct places *p, uint64_t work, size_t bytes)
{
    uint64_t at = work + p->bytes;

    p->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* Does the product need none of A and B? */
static bool is_idle(const struct gb_gemm_args *g)
{
    return g->k == 0 || g->alpha[0] == 0;
}

/* Can TMA read it where it is? */
static bool is_in_place(const struct gb_bytes *x)
{
    uint64_t bits = x->from;

    if (x->vectors > 1)
        bits |= (uint64_t)x->of_vector;
    if (x->batch > 1)
        bits |= (uint64_t)x->batch_from;
    return x->of_k == 1 && x->flip == 0 && bits % TMA_ALIGN == 0;
}

/* Zero points as they count for what the tensor cores multiply. */
static void zeros_of(const struct gb_offsets *o, int32_t *a, int32_t *b)
{
    *a = o->a;
    *b = o->b + (o->b_unsigned ? FLIP : 0);
}

static struct places places_of(const struct gb_gemm_args *g, const struct gb_offsets *o,
                               uint64_t work)
{
    const int64_t batch = gb_max(g->batch, 1);
    struct places p = {
        .x = {{.from = g->a,
               .vectors = g->m,
               .of_vector = g->a_m,
               .of_k = g->a_k,
               .batch_from = g->a_batch,
               .batch = g->a_batch != 0 ? batch : 1},
              {.from = g->b,
               .vectors = g->n,
               .of_vector = g->b_n,
               .of_k = g->b_k,
               .batch_from = g->b_batch,
               .batch = g->b_batch != 0 ? batch : 1,
               .flip = o->b_unsigned ? 0x80808080 : 0}},
    };
    int32_t zero[2];

    if (is_idle(g))
        return p;
    zeros_of(o, &zero[0], &zero[1]);
    for (int i = 0; i < 2; i++) {
        struct gb_bytes *x = &p.x[i];

        x->deep = g->k;
        x->to = x->from;
        x->ld = x->of_vector;
        x->batch_to = x->batch_from;
        if (is_in_place(x))
            continue;
        x->groups = gb_ceil_div(x->vectors, GB_BYTES_SIDE);
        x->blocks = gb_ceil_div(x->deep, GB_BYTES_SIDE);
        x->ld = x->blocks * GB_BYTES_SIDE;
        x->batch_to = x->ld * x->vectors;
        x->to = take(&p, work, (size_t)(x->batch_to * x->batch));
    }
    for (int i = 0; i < 2; i++) {
        const struct gb_bytes *x = &p.x[i];

        if (zero[1 - i] != 0)
            p.sums[i] = (struct gb_sums){
                .from = x->to,
                .vectors = x->vectors,
                .deep = x->deep,
                .ld = x->ld,
                .batch = x->batch,
                .batch_from = x->batch_to,
                .to =
                    take(&p, work, (size_t)(x->vectors * x->batch) * sizeof(int32_t))};
    }
    return p;
}

size_t gb_integer_bytes(const struct gb_gemm_args *g, const struct gb_offsets *o)
{
    return places_of(g, o, 0).bytes;
}

bool gb_integer_takes(const struct gb_kernel *k, const struct gb_gemm_args *g)
{
    return (k->flags & GB_K_INTEGER) && g->splits == 1 && g->k_begin == 0 &&
           g->k_end == g->k && (g->flags & GB_G_EPILOGUE) &&
           !(g->flags & (GB_G_UPPER | GB_G_LOWER)) && !g->a_list && !g->b_list &&
           !g->c_list && g->m <= GB_TMA_MOST && g->n <= GB_TMA_MOST &&
           g->k <= GB_TMA_MOST;
}

/* Of an operand that is not read any description will do. */
static enum gb_status describe_one(struct gb_device *dev, const struct gb_bytes *x,
                                   uint64_t idle, uint32_t tile,
                                   struct gb_tensor_map *map)
{
    const bool many = x->batch > 1 && x->to;
    const struct gb_tensor t = {
        .type = GB_I8,
        .at = x->to ? x->to : idle / TMA_ALIGN * TMA_ALIGN,
        .dim = {(uint64_t)gb_max(x->deep, 1), x->to ? (uint64_t)x->vectors : 1,
                many ? (uint64_t)x->batch : 1},
        .stride = {x->to && x->vectors > 1 ? (uint64_t)x->ld : TMA_ALIGN,
                   many ? (uint64_t)x->batch_to : TMA_ALIGN},
        .box = {GB_BYTES_SIDE, tile},
    };

    return dev->ops->tensor_map(dev, &t, map);
}

static enum gb_status describe(struct gb_device *dev, const struct gb_kernel *k,
                               const struct places *p, struct gb_int8_args *e)
{
    const struct gb_gemm_args *g = &e->t.g;
    enum gb_status s = describe_one(
        dev, &p->x[0], g->c, (uint32_t)(k->tile_m / gb_kernel_cluster(k)), &e->t.a);

    if (s == GB_SUCCESS)
        s = describe_one(dev, &p->x[1], g->c, k->tile_n, &e->t.b);
    e->t.c_direct =
        (g->c | (uint64_t)(g->ldc | g->c_batch) * sizeof(int32_t)) % TMA_ALIGN != 0;
    return s;
}

static enum gb_status launch(struct gb_device *dev, struct gb_stream *s,
                             struct gb_function *f, int64_t grid, uint32_t threads,
                             const void *args, size_t bytes)
{
    const struct gb_launch_shape shape = {
        .grid = (uint32_t)grid, .block = threads, .early = true};

    return dev->ops->launch_shaped(dev, s, f, &shape, args, bytes);
}

/* What goes ahead of the product, if anything. */
static enum gb_status prepare(struct gb_device *dev, struct gb_stream *s,
                              const struct gb_integer *f, const struct places *p,
                              int64_t most)
{
    const struct gb_bytes_args bytes = {{p->x[0], p->x[1]}};
    const struct gb_sums_args sums = {{p->sums[0], p->sums[1]}};
    const int64_t parts = p->x[0].batch * p->x[0].groups * p->x[0].blocks +
                          p->x[1].batch * p->x[1].groups * p->x[1].blocks;
    const int64_t vectors =
        p->sums[0].batch * p->sums[0].vectors + p->sums[1].batch * p->sums[1].vectors;
    enum gb_status status = GB_SUCCESS;

    if (parts > 0)
        status = launch(dev, s, f->bytes, gb_min(parts, most), GB_BYTES_THREADS, &bytes,
                        sizeof bytes);
    if (status == GB_SUCCESS && vectors > 0)
        status = launch(dev, s, f->sums,
                        gb_min(gb_ceil_div(vectors, GB_SUMS_THREADS / 32), most),
                        GB_SUMS_THREADS, &sums, sizeof sums);
    return status;
}

static uint64_t l2_hint(bool keep, bool stream)
{
    return keep ? GB_L2_LAST : stream ? GB_L2_FIRST : GB_L2_NORMAL;
}

/* A product of three such numbers, modulo 2^32. */
static int32_t product(int64_t k, int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)k * (uint32_t)a * (uint32_t)b);
}

enum gb_status gb_integer_launch(struct gb_device *dev, struct gb_stream *s,
                                 const struct gb_integer *f, const struct gb_kernel *k,
                                 const struct gb_gemm_args *g,
                                 const struct gb_offsets *o, gb_devptr work,
                                 uint32_t most)
{
    const struct places p = places_of(g, o, work);
    const int64_t cores = gb_max(dev->info.multiprocessors, 1);
    const int cluster = gb_kernel_cluster(k);
    const int64_t room =
        gb_max((most ? most : cores * gb_kernel_blocks(k, &dev->info)) / cluster, 1);
    struct gb_int8_args e = {
        .t = {.g = *g,
              .hint_a = l2_hint(g->flags & GB_G_KEEP_A, g->flags & GB_G_STREAM_A),
              .hint_b = l2_hint(g->flags & GB_G_KEEP_B, g->flags & GB_G_STREAM_B),
              .together = 1,
              .wide = cluster > 1},
        .rows = p.sums[0].to,
        .cols = p.sums[1].to,
        .rows_batch = p.sums[0].batch > 1 ? g->m : 0,
        .cols_batch = p.sums[1].batch > 1 ? g->n : 0,
        .add = o->c,
    };
    struct gb_launch_shape shape = {.block = k->threads,
                                    .smem_bytes = k->smem,
                                    .cluster = cluster > 1 ? (uint32_t)cluster : 0,
                                    .early = true};
    struct gb_tile_map map;
    enum gb_status status;

    if (!gb_integer_takes(k, g))
        return GB_E_UNSUPPORTED;
    if (!is_idle(g)) {
        zeros_of(o, &e.of_cols, &e.of_rows);
        e.whole = product(g->k, e.of_cols, e.of_rows);
    }
    e.plain = g->alpha[0] == 1 && (g->flags & GB_G_BETA_ZERO) && e.of_rows == 0 &&
              e.of_cols == 0 && e.add == 0 && !(g->flags & GB_G_FUSED);
    gb_tile_map_init(&map, g, k->tile_m, (int64_t)k->tile_n * cluster);
    if (gb_tile_map_units(&map) == 0)
        return GB_SUCCESS;
    if (!gb_tile_map32_init(&e.t.map, &map))
        return GB_E_UNSUPPORTED;
    status = describe(dev, k, &p, &e);
    if (status == GB_SUCCESS)
        status = prepare(dev, s, f, &p, most ? most : 8 * cores);
    if (status != GB_SUCCESS)
        return status;
    shape.grid = (uint32_t)(gb_min(gb_tile_map_units(&map), room) * cluster);
    return dev->ops->launch_shaped(dev, s, f->gemm, &shape, &e, sizeof e);
}
