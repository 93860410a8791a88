/* SPDX-License-Identifier: BSD-3-Clause */
/* Moduli and what follows from them, memory, and the launches, panel by panel. */
#include "residues.h"

#include "util.h"

typedef unsigned __int128 wide;

enum {
    ALIGN = 256,
    STATE = 256, /* struct gb_residue_state, and then the flags */
    PANEL = 256, /* panels are whole tiles of every row */
};

int64_t gb_residues_panel_bytes = (int64_t)2 << 30;

static const int moduli[GB_MODULI_MOST] = GB_MODULI;

/* ---- moduli ---- */

static struct gb_modulus modulus_of(int i)
{
    const int64_t p = moduli[i];

    return (struct gb_modulus){(int32_t)p, (int32_t)((((int64_t)1 << 38) + p / 2) / p)};
}

static wide product_of(int count)
{
    wide p = 1;

    for (int i = 0; i < count; i++)
        p *= (unsigned)moduli[i];
    return p;
}

/* x modulo p, of the smallest magnitude. */
static int32_t symmetric(int64_t x, int64_t p)
{
    x %= p;
    return (int32_t)(x > p / 2 ? x - p : x);
}

/* What x^-1 is modulo p. */
static int inverse_of(int x, int p)
{
    for (int y = 1; y < p; y++)
        if (x * y % p == 1)
            return y;
    return 0; /* of one that is not coprime */
}

static struct gb_digits digits_of(int times, int p)
{
    struct gb_digits d;
    int64_t weight = times;

    for (int i = 0; i < 4; i++) {
        d.of[i] = symmetric(weight, p);
        weight = (weight << 16) % p;
    }
    return d;
}

void gb_residues_cutting(struct gb_cut_args *args)
{
    static const int32_t bits[2][GB_MODULI_CHOICES] = {GB_RESIDUE_BITS_A,
                                                       GB_RESIDUE_BITS_B};

    for (int side = 0; side < 2; side++)
        for (int c = 0; c < GB_MODULI_CHOICES; c++)
            args->bits[side][c] = bits[side][c];
    for (int i = 0; i < GB_MODULI_MOST; i++) {
        const int p = moduli[i];

        args->modulus[i] = modulus_of(i);
        args->b[i] = digits_of(1, p);
        for (int c = 0; c < GB_MODULI_CHOICES; c++) {
            if (i < GB_MODULI_LEAST + c) {
                wide others = product_of(GB_MODULI_LEAST + c) / (unsigned)p;

                args->a[c][i] =
                    digits_of(inverse_of((int)(others % (unsigned)p), p), p);
            }
        }
    }
}

static struct gb_wide words(wide x)
{
    struct gb_wide w;

    for (int i = 0; i < 4; i++)
        w.word[i] = (uint32_t)(x >> 32 * i);
    return w;
}

void gb_residues_joining(struct gb_join_args *args)
{
    static const int32_t bits_a[] = GB_RESIDUE_BITS_A, bits_b[] = GB_RESIDUE_BITS_B;

    for (int i = 0; i < GB_MODULI_MOST; i++)
        args->part[i] = 1.0f / (float)moduli[i];
    for (int c = 0; c < GB_MODULI_CHOICES; c++) {
        const int count = GB_MODULI_LEAST + c;
        const wide p = product_of(count);
        struct gb_joining *by = &args->by[c];
        wide constant = 16 * p;
        double share = 0;

        for (int i = 0; i < count; i++) {
            const wide others = p / (unsigned)moduli[i];

            by->of[i] = words(others);
            constant -= 128 * others;
            share += 128.0 / moduli[i];
        }
        by->minus_p = words(-p);
        by->constant[0] = (uint64_t)constant;
        by->constant[1] = (uint64_t)(constant >> 64);
        by->share = (float)share;
        by->scale = bits_a[c] + bits_b[c];
    }
}

/* ---- memory ---- */

/* Where everything lies. */
struct places {
    struct gb_residue_side x[2];
    struct gb_residue_sums c;
    struct gb_left left;
    int64_t panel;  /* columns of C at a time */
    int64_t column; /* bytes of the residues of one, and of B for it */
    size_t bytes;
};

static uint64_t take(struct places *p, uint64_t work, int64_t bytes)
{
    uint64_t at = work + p->bytes;

    p->bytes += (size_t)gb_round_up(bytes, ALIGN);
    return at;
}

/* Rows of a panel's tiles: of the row that has the largest. */
static int64_t rows_of(const struct gb_gemm_args *g)
{
    return gb_round_up(g->m, PANEL);
}

static struct places places_of(const struct gb_gemm_args *g, uint64_t work)
{
    const int64_t batch = gb_max(g->batch, 1), deep = gb_round_up(g->k, GB_RESIDUE_K);
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
        .c = {.ld = rows_of(g), .batch = batch},
        .left = {.tiles_m = gb_ceil_div(g->m, GB_SPLIT_TILE),
                 .tiles_n = gb_ceil_div(g->n, GB_SPLIT_TILE)},
    };

    p.column = GB_MODULI_MOST * (p.x[1].batch * deep + batch * rows_of(g));
    p.panel =
        gb_min(gb_max(gb_residues_panel_bytes / p.column / PANEL, 1) * PANEL, g->n);
    for (int i = 0; i < 2; i++) {
        struct gb_residue_side *x = &p.x[i];

        x->deep = g->k;
        x->groups = gb_ceil_div(x->vectors, GB_RESIDUE_GROUP);
        x->blocks = gb_ceil_div(g->k, GB_RESIDUE_K);
        x->count = i == 0 ? g->m : p.panel;
        x->ld = deep;
        x->plane = deep * x->count;
        x->exponents = take(&p, work, x->batch * x->vectors * (int64_t)sizeof(int32_t));
        x->parts = take(&p, work,
                        x->batch * x->vectors * x->blocks *
                            (int64_t)sizeof(struct gb_residue_block));
        x->guard = take(&p, work,
                        x->batch * x->groups * x->blocks *
                            (int64_t)sizeof(struct gb_residue_guard));
        x->residues = take(&p, work, GB_MODULI_MOST * x->batch * x->plane);
    }
    p.c.plane = p.c.ld * p.panel;
    p.c.at = take(&p, work, GB_MODULI_MOST * batch * p.c.plane);
    p.left.any = take(&p, work, STATE + batch * p.left.tiles_m * p.left.tiles_n);
    p.left.flags = p.left.any + STATE;
    return p;
}

/* Fewer rows may let more columns be under way, whose residues then take more: the same memory serves
 * every part of a product. */
size_t gb_residues_bytes(const struct gb_gemm_args *g)
{
    const struct places p = places_of(g, 0);
    const int64_t most =
        gb_min(gb_max(gb_residues_panel_bytes, PANEL * p.column), g->n * p.column);

    return p.bytes + (size_t)(most - p.panel * p.column) + 2 * ALIGN;
}

gb_devptr gb_residues_left(const struct gb_gemm_args *g, gb_devptr work)
{
    return places_of(g, work).left.any;
}

/* ---- launches ---- */

/* What they all are told. */
struct run {
    struct gb_device *dev;
    struct gb_stream *stream;
    const struct gb_emulated *f;
    const struct gb_kernel *k;
    const struct gb_gemm_args *g;
    struct places at;
    int64_t cores;
    uint32_t most;
};

/* `units` of work, by `blocks` for a multiprocessor at most. */
static enum gb_status launch(const struct run *r, enum gb_emulated_step step,
                             int64_t units, int64_t blocks, uint32_t threads,
                             uint32_t smem, const void *args, size_t bytes)
{
    const struct gb_launch_shape shape = {
        .grid =
            (uint32_t)gb_min(gb_max(units, 1), r->most ? r->most : blocks * r->cores),
        .block = threads,
        .smem_bytes = smem,
        .early = true};

    return r->dev->ops->launch_shaped(r->dev, r->stream, r->f->step[step], &shape, args,
                                      bytes);
}

static enum gb_status measure(const struct run *r)
{
    const struct gb_measure_args args = {.x = {r->at.x[0], r->at.x[1]},
                                         .state = r->at.left.any};

    return launch(r, GB_STEP_SPLIT,
                  args.x[0].batch * args.x[0].groups +
                      args.x[1].batch * args.x[1].groups,
                  2, GB_RESIDUE_THREADS, 0, &args, sizeof args);
}

static enum gb_status choose(const struct run *r)
{
    const struct gb_choose_args args = {.x = {r->at.x[0], r->at.x[1]},
                                        .left = r->at.left,
                                        .batch = r->at.c.batch,
                                        .no_product = r->g->alpha[0] == 0};

    return launch(r, GB_STEP_CHOOSE,
                  gb_ceil_div(args.left.tiles_m * args.left.tiles_n * args.batch,
                              GB_RESIDUE_THREADS / 32),
                  8, GB_RESIDUE_THREADS, 0, &args, sizeof args);
}

/* B's columns from `first` on; with the first of them all of A. */
static enum gb_status cut(const struct run *r, int64_t first, int64_t count)
{
    struct gb_cut_args args = {.x = {r->at.x[0], r->at.x[1]}, .state = r->at.left.any};
    int64_t units = 0;

    args.x[0].count = first == 0 ? args.x[0].vectors : 0;
    args.x[1].first = first;
    args.x[1].count = count;
    for (int i = 0; i < 2; i++)
        units += args.x[i].batch * args.x[i].blocks *
                 gb_ceil_div(args.x[i].count, GB_RESIDUE_GROUP);
    gb_residues_cutting(&args);
    return launch(r, GB_STEP_CUT, units, 8, GB_RESIDUE_THREADS, 0, &args, sizeof args);
}

/* Bytes in pairs, which TMA moves as it does any 16 bits. */
static enum gb_status describe(const struct run *r, const struct gb_residue_side *x,
                               int64_t vectors, uint32_t tile,
                               struct gb_tensor_map *map)
{
    const struct gb_tensor t = {
        .type = GB_F16,
        .at = x->residues,
        .dim = {(uint64_t)x->ld / 2, (uint64_t)vectors,
                (uint64_t)(GB_MODULI_MOST * x->batch)},
        .stride = {(uint64_t)x->ld, (uint64_t)x->plane},
        .box = {64, tile},
    };

    return r->dev->ops->tensor_map(r->dev, &t, map);
}

static enum gb_status multiply(const struct run *r, int64_t first, int64_t count)
{
    const struct gb_kernel *k = r->k;
    struct gb_residue_args args = {
        .t = {.g = *r->g, .hint_a = GB_L2_NORMAL, .hint_b = GB_L2_NORMAL},
        .c = r->at.c,
        .left = r->at.left,
        .first = first,
        .batch_a = (int32_t)r->at.x[0].batch,
        .batch_b = (int32_t)r->at.x[1].batch,
    };
    struct gb_tile_map map;
    enum gb_status s;

    args.t.g.n = count;
    args.t.g.batch = GB_MODULI_MOST * (int32_t)r->at.c.batch;
    gb_tile_map_init(&map, &args.t.g, k->tile_m, k->tile_n);
    if (!gb_tile_map32_init(&args.t.map, &map))
        return GB_E_UNSUPPORTED;
    for (int i = 0; i < GB_MODULI_MOST; i++)
        args.modulus[i] = modulus_of(i);
    s = describe(r, &r->at.x[0], r->g->m, k->tile_m, &args.t.a);
    if (s == GB_SUCCESS)
        s = describe(r, &r->at.x[1], count, k->tile_n, &args.t.b);
    if (s != GB_SUCCESS)
        return s;
    return launch(r, GB_STEP_GEMM, args.t.map.units, 1, k->threads, k->smem, &args,
                  sizeof args);
}

static enum gb_status join(const struct run *r, int64_t first, int64_t count)
{
    struct gb_join_args args = {
        .g = *r->g,
        .x = {r->at.x[0], r->at.x[1]},
        .c = r->at.c,
        .left = r->at.left,
        .first = first,
        .count = count,
    };

    args.c.tile = r->k->tile_m;
    gb_residues_joining(&args);
    return launch(r, GB_STEP_JOIN,
                  args.left.tiles_m * args.c.batch *
                      gb_ceil_div(count, GB_RESIDUE_THREADS / 32),
                  8, GB_RESIDUE_THREADS, 0, &args, sizeof args);
}

static enum gb_status rest(const struct run *r)
{
    const struct gb_kernel *k = gb_kernel_find(GB_REST_F64_ROW);
    const struct gb_rest_args args = {.g = *r->g, .left = r->at.left};
    struct gb_tile_map map;

    if (!k)
        return GB_E_UNSUPPORTED;
    gb_tile_map_init(&map, r->g, k->tile_m, k->tile_n);
    return launch(r, GB_STEP_REST, gb_tile_map_units(&map),
                  gb_kernel_blocks(k, &r->dev->info), k->threads, k->smem, &args,
                  sizeof args);
}

enum gb_status gb_residues_launch(struct gb_device *dev, struct gb_stream *s,
                                  const struct gb_emulated *f,
                                  const struct gb_kernel *k,
                                  const struct gb_gemm_args *g, gb_devptr work,
                                  uint32_t most)
{
    const struct run r = {.dev = dev,
                          .stream = s,
                          .f = f,
                          .k = k,
                          .g = g,
                          .at = places_of(g, work),
                          .cores = gb_max(dev->info.multiprocessors, 1),
                          .most = most};
    enum gb_status status = measure(&r);
    bool written = false;

    if (status == GB_SUCCESS)
        status = choose(&r);
    for (int64_t first = 0; first < g->n && status == GB_SUCCESS; first += r.at.panel) {
        const int64_t count = gb_min(r.at.panel, g->n - first);

        status = cut(&r, first, count);
        if (status == GB_SUCCESS)
            status = multiply(&r, first, count);
        if (status == GB_SUCCESS) {
            status = join(&r, first, count);
            written |= status == GB_SUCCESS;
        }
    }
    if (status == GB_SUCCESS)
        status = rest(&r);
    /* once C is being written the call cannot be repeated */
    return status == GB_SUCCESS || !written ? status : GB_E_DEVICE;
}
