/* SPDX-License-Identifier: BSD-3-Clause */
/* The split, the product of the parts, and the tiles that are left to fp32. */
#include "emulated.h"

#include <stdio.h>

#include "residues.h"
#include "split_args.h"
#include "util.h"

enum {
    ALIGN = 256,
    TMA_ALIGN = 16,
    FLAGS_AT = ALIGN, /* after the word `any` */
    SCALES = 256      /* of a block: whole tiles of every row read them */
};

/* Where everything lies. */
struct places {
    struct gb_split x[2];
    struct gb_left left;
    size_t bytes;
};

static uint64_t take(struct places *p, uint64_t work, size_t bytes)
{
    uint64_t at = work + p->bytes;

    p->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static struct places places_of(const struct gb_gemm_args *g, uint64_t work)
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
               .batch = g->b_batch != 0 ? batch : 1}},
        .left = {.tiles_m = gb_ceil_div(g->m, GB_SPLIT_TILE),
                 .tiles_n = gb_ceil_div(g->n, GB_SPLIT_TILE)},
    };

    for (int i = 0; i < 2; i++) {
        struct gb_split *x = &p.x[i];
        size_t part;

        x->deep = g->k;
        x->ld = gb_round_up(g->k, 64);
        x->batch_to = gb_round_up(x->ld * x->vectors, ALIGN / 2);
        x->blocks = gb_ceil_div(g->k, GB_SPLIT_K);
        x->groups = gb_ceil_div(x->vectors, GB_SPLIT_GROUP);
        x->scale_ld = gb_round_up(x->vectors, SCALES);
        part = (size_t)(x->batch_to * x->batch) * sizeof(uint16_t);
        x->high = take(&p, work, part);
        x->low = take(&p, work, part);
        x->scales = take(&p, work,
                         (size_t)(x->batch * x->blocks * x->scale_ld) * sizeof(float));
        x->guard =
            take(&p, work,
                 (size_t)(x->batch * x->blocks * x->groups) * sizeof(struct gb_guard));
    }
    p.left.any =
        take(&p, work, FLAGS_AT + (size_t)(batch * p.left.tiles_m * p.left.tiles_n));
    p.left.flags = p.left.any + FLAGS_AT;
    return p;
}

size_t gb_emulated_bytes(const struct gb_kernel *k, const struct gb_gemm_args *g)
{
    return k->type == GB_F64 ? gb_residues_bytes(g) : places_of(g, 0).bytes;
}

gb_devptr gb_emulated_left(const struct gb_kernel *k, const struct gb_gemm_args *g,
                           gb_devptr work)
{
    return k->type == GB_F64 ? gb_residues_left(g, work) : places_of(g, work).left.any;
}

bool gb_emulated_symbol(const struct gb_kernel *k, enum gb_emulated_step step, char a,
                        char b, char *buf, size_t len)
{
    const bool f64 = k->type == GB_F64;

    switch (step) {
    case GB_STEP_SPLIT:
        snprintf(buf, len, "%s", f64 ? "gb_measure_f64" : "gb_split_f32");
        return true;
    case GB_STEP_CHOOSE:
        snprintf(buf, len, "gb_choose_f64");
        return f64;
    case GB_STEP_CUT:
        snprintf(buf, len, "gb_cut_f64");
        return f64;
    case GB_STEP_GEMM:
        gb_kernel_symbol(k, 'n', 'n', buf, len);
        return true;
    case GB_STEP_JOIN:
        snprintf(buf, len, "gb_join_f64");
        return f64;
    case GB_STEP_REST:
        snprintf(buf, len, "gb_rest_%s_%c%c", gb_type_name(k->type), a, b);
        return true;
    case GB_EMULATED_STEPS:
        break;
    }
    return false;
}

int64_t gb_emulated_least_k(const struct gb_kernel *k)
{
    if (k->type == GB_F64)
        return GB_RESIDUE_LEAST_K;
    return k->tile_k > 64 ? GB_EMUL_LEAST_K_128 : GB_EMUL_LEAST_K;
}

int64_t gb_emulated_most_k(const struct gb_kernel *k)
{
    return k->type == GB_F64 ? GB_RESIDUE_MOST_K : GB_EMUL_MOST_K;
}

bool gb_emulated_takes(const struct gb_kernel *k, const struct gb_gemm_args *g)
{
    return (k->flags & GB_K_EMULATED) && g->splits == 1 && g->k_begin == 0 &&
           g->k_end == g->k && g->k >= gb_emulated_least_k(k) &&
           g->k <= gb_emulated_most_k(k) && (g->flags & GB_G_EPILOGUE) &&
           !((k->flags & GB_K_PLAIN) && (g->flags & GB_G_FUSED)) &&
           !(g->flags & (GB_G_UPPER | GB_G_LOWER)) && !g->a_list && !g->b_list &&
           !g->c_list && g->m <= GB_TMA_MOST && g->n <= GB_TMA_MOST;
}

static enum gb_status describe_part(struct gb_device *dev, const struct gb_split *x,
                                    uint64_t at, uint32_t tile,
                                    struct gb_tensor_map *map)
{
    const struct gb_tensor t = {
        .type = GB_F16,
        .at = at,
        .dim = {(uint64_t)x->deep, (uint64_t)x->vectors, (uint64_t)x->batch},
        .stride = {(uint64_t)x->ld * sizeof(uint16_t),
                   x->batch > 1 ? (uint64_t)x->batch_to * sizeof(uint16_t) : TMA_ALIGN},
        .box = {64, tile},
    };

    return dev->ops->tensor_map(dev, &t, map);
}

static enum gb_status describe(struct gb_device *dev, const struct gb_kernel *k,
                               struct gb_emul_args *e)
{
    const struct gb_gemm_args *g = &e->t.g;
    const uint64_t size = sizeof(float);
    const struct gb_tensor c = {
        .type = GB_F32,
        .at = g->c,
        .dim = {(uint64_t)g->m, (uint64_t)g->n, (uint64_t)gb_max(g->batch, 1)},
        .stride = {g->n > 1 ? (uint64_t)g->ldc * size : TMA_ALIGN,
                   g->batch > 1 ? (uint64_t)g->c_batch * size : TMA_ALIGN},
        .box = {32, 16},
    };
    enum gb_status s = describe_part(dev, &e->x[0], e->x[0].high, k->tile_m, &e->t.a);

    if (s == GB_SUCCESS)
        s = describe_part(dev, &e->x[0], e->x[0].low, k->tile_m, &e->a_low);
    if (s == GB_SUCCESS)
        s = describe_part(dev, &e->x[1], e->x[1].high, k->tile_n, &e->t.b);
    if (s == GB_SUCCESS)
        s = describe_part(dev, &e->x[1], e->x[1].low, k->tile_n, &e->b_low);
    e->t.c_direct =
        (g->c | (uint64_t)g->ldc * size | (uint64_t)g->c_batch * size) % TMA_ALIGN != 0;
    if (s != GB_SUCCESS || e->t.c_direct || (g->flags & (GB_G_BETA_ZERO | GB_G_FUSED)))
        return s;
    return dev->ops->tensor_map(dev, &c, &e->t.c);
}

static enum gb_status launch(struct gb_device *dev, struct gb_stream *s,
                             struct gb_function *f, int64_t grid, uint32_t threads,
                             uint32_t smem, const void *args, size_t bytes)
{
    const struct gb_launch_shape shape = {
        .grid = (uint32_t)grid, .block = threads, .smem_bytes = smem, .early = true};

    return dev->ops->launch_shaped(dev, s, f, &shape, args, bytes);
}

enum gb_status gb_emulated_launch(struct gb_device *dev, struct gb_stream *s,
                                  const struct gb_emulated *f,
                                  const struct gb_kernel *k,
                                  const struct gb_gemm_args *g, gb_devptr work,
                                  uint32_t most)
{
    const struct gb_kernel *rest = gb_kernel_find(GB_REST_ROW);
    const struct places p = places_of(g, work);
    const int64_t cores = gb_max(dev->info.multiprocessors, 1);
    const struct gb_split_args split = {.x = {p.x[0], p.x[1]}, .any = p.left.any};
    const struct gb_rest_args left = {.g = *g, .left = p.left};
    struct gb_emul_args e = {
        .t = {.g = *g, .hint_a = GB_L2_NORMAL, .hint_b = GB_L2_NORMAL, .together = 1},
        .x = {p.x[0], p.x[1]},
        .left = p.left,
    };
    struct gb_tile_map map;
    enum gb_status status;
    int64_t units;

    if (!gb_emulated_takes(k, g) || !rest)
        return GB_E_UNSUPPORTED;
    if (k->type == GB_F64)
        return gb_residues_launch(dev, s, f, k, g, work, most);
    gb_tile_map_init(&map, g, k->tile_m, k->tile_n);
    if (!gb_tile_map32_init(&e.t.map, &map))
        return GB_E_UNSUPPORTED;
    status = describe(dev, k, &e);
    if (status != GB_SUCCESS)
        return status;
    units = p.x[0].batch * p.x[0].groups * p.x[0].blocks +
            p.x[1].batch * p.x[1].groups * p.x[1].blocks;
    status =
        launch(dev, s, f->step[GB_STEP_SPLIT], gb_min(units, most ? most : 8 * cores),
               GB_SPLIT_THREADS, 0, &split, sizeof split);
    if (status != GB_SUCCESS)
        return status;
    units = e.t.map.units;
    status =
        launch(dev, s, f->step[GB_STEP_GEMM],
               gb_min(units, most ? most : cores * gb_kernel_blocks(k, &dev->info)),
               k->threads, k->smem, &e, sizeof e);
    if (status != GB_SUCCESS)
        return status;
    /* C is being written: whatever goes wrong now, the call cannot be repeated */
    gb_tile_map_init(&map, g, rest->tile_m, rest->tile_n);
    units = gb_tile_map_units(&map);
    status =
        launch(dev, s, f->step[GB_STEP_REST],
               gb_min(units, most ? most : cores * gb_kernel_blocks(rest, &dev->info)),
               rest->threads, rest->smem, &left, sizeof left);
    return status == GB_SUCCESS ? status : GB_E_DEVICE;
}
