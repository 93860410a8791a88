/* SPDX-License-Identifier: BSD-3-Clause */
/* Every row of kernels.def, in every layout, around the edges of its tile, against exact
 * integer arithmetic; and the promise that neither splits of launches, nor panels, nor the
 * grid change a bit. Works through the device table alone, so that the emulated device and
 * hardware pass the same test. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "gemm_args.h"
#include "half.h"
#include "kernels.h"
#include "launch.h"
#include "tap.h"
#include "tile_map.h"
#include "util.h"

static const struct gb_device_ops *ops;
static struct gb_device *dev;
static struct gb_stream *stream;
static bool hardware;
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void must(enum gb_status s, const char *what)
{
    if (s != GB_SUCCESS)
        bail("%s: %s", what, gb_status_text(s));
}

/* ---- elements ---- */

struct value {
    double re, im;
};

static void put(enum gb_type t, void *base, int64_t at, struct value v)
{
    switch (t) {
    case GB_F16:
        ((uint16_t *)base)[at] = gb_f32_to_f16((float)v.re);
        break;
    case GB_BF16:
        ((uint16_t *)base)[at] = gb_f32_to_bf16((float)v.re);
        break;
    case GB_F32:
        ((float *)base)[at] = (float)v.re;
        break;
    case GB_F64:
        ((double *)base)[at] = v.re;
        break;
    case GB_C32:
        ((float *)base)[2 * at] = (float)v.re;
        ((float *)base)[2 * at + 1] = (float)v.im;
        break;
    case GB_C64:
        ((double *)base)[2 * at] = v.re;
        ((double *)base)[2 * at + 1] = v.im;
        break;
    default:
        bail("no such type in a kernel");
    }
}

static struct value get(enum gb_type t, const void *base, int64_t at)
{
    switch (t) {
    case GB_F16:
        return (struct value){gb_f16_to_f32(((const uint16_t *)base)[at]), 0};
    case GB_BF16:
        return (struct value){gb_bf16_to_f32(((const uint16_t *)base)[at]), 0};
    case GB_F32:
        return (struct value){((const float *)base)[at], 0};
    case GB_F64:
        return (struct value){((const double *)base)[at], 0};
    case GB_C32:
        return (struct value){((const float *)base)[2 * at],
                              ((const float *)base)[2 * at + 1]};
    case GB_C64:
        return (struct value){((const double *)base)[2 * at],
                              ((const double *)base)[2 * at + 1]};
    default:
        bail("no such type in a kernel");
    }
}

static struct value times(struct value x, struct value y)
{
    return (struct value){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

/* ---- operands ---- */

/* A column-major matrix, `slices` of them `batch` elements apart, on host and device; `skip`
 * elements lie before the first, and on the device `odd` bytes in front of them. */
struct operand {
    enum gb_type type;
    int64_t rows, cols, ld, batch, slices, skip;
    size_t bytes, odd;
    unsigned char *host;
    gb_devptr at;
};

/* Pinned memory is slow to get: each role keeps what its largest operand needed. */
enum role { ROLE_A, ROLE_B, ROLE_C, ROLE_VECTOR, ROLES };
static struct {
    void *at;
    size_t bytes;
} pinned[ROLES];

static void *pinned_get(enum role role, size_t bytes)
{
    if (bytes > pinned[role].bytes) {
        if (pinned[role].at)
            ops->host_free(dev, pinned[role].at);
        pinned[role].bytes = bytes * 2;
        must(ops->host_alloc(dev, pinned[role].bytes, &pinned[role].at), "host_alloc");
    }
    return pinned[role].at;
}

static void pinned_drop(void)
{
    for (int i = 0; i < ROLES; i++)
        if (pinned[i].at)
            ops->host_free(dev, pinned[i].at);
}

static struct operand operand_new(enum role role, enum gb_type t, int64_t rows,
                                  int64_t cols, int64_t ld, int64_t slices,
                                  int64_t skip, size_t odd, bool broadcast)
{
    struct operand o = {.type = t,
                        .rows = rows,
                        .cols = cols,
                        .ld = ld,
                        .slices = slices,
                        .skip = skip,
                        .odd = odd};
    int64_t whole = gb_max(ld * (cols - 1) + rows, 1);

    o.batch = broadcast ? 0 : gb_round_up(whole, ld) + 3 * ld;
    o.bytes = (size_t)(skip + o.batch * (slices - 1) + whole) * gb_type_size(t);
    must(ops->mem_alloc(dev, o.bytes + odd, &o.at), "mem_alloc");
    o.host = pinned_get(role, o.bytes);
    memset(o.host, 0xff, o.bytes); /* every gap is NaN */
    return o;
}

static void operand_up(const struct operand *o)
{
    must(ops->copy_in(dev, stream, o->at + o->odd, 0, o->host, 0, o->bytes, 1),
         "copy_in");
}

static void operand_down(const struct operand *o)
{
    must(ops->copy_out(dev, stream, o->host, 0, o->at + o->odd, 0, o->bytes, 1),
         "copy_out");
    must(ops->stream_sync(dev, stream), "stream_sync");
}

static int64_t place(const struct operand *o, int64_t z, int64_t i, int64_t j)
{
    return o->skip + z * o->batch + i + j * o->ld;
}

static uint64_t address(const struct operand *o, int64_t index)
{
    return o->at + o->odd + (uint64_t)(o->skip + index) * gb_type_size(o->type);
}

static double small(void)
{
    return (double)(draw() % 7) - 3;
}

static double real(void)
{
    return ldexp((double)(int64_t)draw(), -62);
}

static void operand_fill(struct operand *o, double (*next)(void))
{
    for (int64_t z = 0; z < (o->batch ? o->slices : 1); z++)
        for (int64_t j = 0; j < o->cols; j++)
            for (int64_t i = 0; i < o->rows; i++) {
                struct value v = {next(), 0};

                v.im = next();
                put(o->type, o->host, place(o, z, i, j), v);
            }
}

/* ---- one product ---- */

/* What is fused to it; the vectors hold what entry_...() say. */
struct fusing {
    bool wanted, bias, by_columns, acc, row_scale, col_scale;
    bool broadcast; /* one vector for all of a batch */
    enum gb_activation activation;
};

struct product {
    const struct gb_kernel *k;
    char ta, tb; /* n or t: which way the unit stride runs */
    bool conj_a, conj_b, broadcast;
    int64_t m, n, kk;
    int64_t gap[3];  /* ld beyond the least, of A, B and C */
    int64_t skip[3]; /* elements before the first, of A, B and C */
    size_t odd[3];   /* and bytes */
    bool copied;     /* A and B may lie anywhere: the row gets copies where it must */
    int64_t
        grain; /* elements that leading dimensions and batch strides are multiples of */
    struct value alpha, beta;
    int64_t split_len; /* 0: one split */
    int64_t cut;       /* k per launch, 0: all */
    int batch, group, tail;
    uint32_t uplo, grid; /* grid 0: what suits the row */
    int64_t row0, col0;
    bool lists; /* matrices of a batch by their addresses */
    struct fusing fused;
};

/* What the row asks of A and B. */
static int64_t grain(const struct gb_kernel *k)
{
    return gb_max(1, k->align / (int64_t)gb_type_size(k->type));
}

static struct product plain(const struct gb_kernel *k, char ta, char tb)
{
    return (struct product){.k = k,
                            .ta = ta,
                            .tb = tb,
                            .m = 1,
                            .n = 1,
                            .kk = 1,
                            .grain = grain(k),
                            .alpha = {1, 0},
                            .batch = 1,
                            .group = 8};
}

/* Where launches may cut k: anywhere, between buffers, or past its end. */
static int64_t cut_at(const struct gb_kernel *k, int64_t cut)
{
    if (k->flags & GB_K_WHOLE)
        return INT32_MAX;
    return k->flags & GB_K_TENSOR ? gb_round_up(cut, k->tile_k) : cut;
}

static void describe(const struct product *p, char *buf, size_t len)
{
    snprintf(
        buf, len,
        "%s_%c%c m=%lld n=%lld k=%lld gaps %lld,%lld,%lld skips %lld,%lld,%lld odd "
        "%zu,%zu,%zu conj "
        "%d%d alpha %g,%g beta "
        "%g,%g split %lld cut %lld batch %d%s%s group %d tail %d uplo %u at %lld,%lld "
        "grid %u "
        "fused %d bias %d%d%d scales %d%d broadcast %d activation %d",
        p->k->name, p->ta, p->tb, (long long)p->m, (long long)p->n, (long long)p->kk,
        (long long)p->gap[0], (long long)p->gap[1], (long long)p->gap[2],
        (long long)p->skip[0], (long long)p->skip[1], (long long)p->skip[2], p->odd[0],
        p->odd[1], p->odd[2], p->conj_a, p->conj_b, p->alpha.re, p->alpha.im,
        p->beta.re, p->beta.im, (long long)p->split_len, (long long)p->cut, p->batch,
        p->broadcast ? " broadcast" : "", p->lists ? " lists" : "", p->group, p->tail,
        p->uplo, (long long)p->row0, (long long)p->col0, p->grid, p->fused.wanted,
        p->fused.bias, p->fused.by_columns, p->fused.acc, p->fused.row_scale,
        p->fused.col_scale, p->fused.broadcast, p->fused.activation);
}

/* Modules are loaded once per family. */
static struct gb_module *module_of(const struct gb_kernel *k)
{
    static struct {
        const char *family;
        struct gb_module *module;
    } known[GB_FAMILIES];
    const struct gb_image *image = gb_image_find(k->family, &dev->info);
    size_t i;

    for (i = 0; i < GB_COUNT(known) && known[i].family; i++)
        if (strcmp(known[i].family, k->family) == 0)
            return known[i].module;
    if (i == GB_COUNT(known))
        bail("more families than expected");
    must(ops->module_load(dev, k->family, image ? image->data : NULL,
                          image ? image->bytes : 0, &known[i].module),
         k->family);
    known[i].family = k->family;
    return known[i].module;
}

static struct gb_function *function(const struct gb_kernel *k, const char *symbol)
{
    struct gb_function *f;

    must(ops->module_get(dev, module_of(k), symbol, &f), symbol);
    return f;
}

/* Copies of what the row cannot read; their memory. */
static gb_devptr repair(const struct product *p, struct gb_gemm_args *g)
{
    static struct gb_module *m;
    const struct gb_image *image = gb_image_find(GB_REPAIR_FAMILY, &dev->info);
    const char *symbol = gb_launch_repair_symbol(p->k);
    unsigned which = 1 + (unsigned)(draw() % 3);
    struct gb_function *f;
    gb_devptr work;

    if (!m)
        must(ops->module_load(dev, GB_REPAIR_FAMILY, image ? image->data : NULL,
                              image ? image->bytes : 0, &m),
             GB_REPAIR_FAMILY);
    must(ops->module_get(dev, m, symbol, &f), symbol);
    if (!p->copied) /* its operands are aligned: what it wants, and what it does not */
        which = (which & 2) |
                gb_launch_repaired(p->k, p->ta, p->tb, p->k->align, p->k->align);
    else if (p->k->align > gb_type_size(p->k->type))
        which = GB_REPAIR_A | GB_REPAIR_B; /* else it takes what it is given */
    must(ops->mem_alloc(dev,
                        gb_max(gb_launch_repair_bytes(p->k, which, p->ta, p->tb, g), 1),
                        &work),
         "mem_alloc");
    must(gb_launch_repair(dev, stream, f, p->k, which, p->ta, p->tb, work, g), symbol);
    return work;
}

/* ---- what is fused ---- */

static struct value entry_bias(int64_t z, int64_t x)
{
    return (struct value){(double)((7 * x + 3 * z) % 9 - 4),
                          (double)((5 * x + z) % 7 - 3)};
}

static struct value entry_row_scale(int64_t z, int64_t i)
{
    static const double scale[] = {1, 0.5, -2, 2, 1};

    return (struct value){scale[(i + z) % 5], 0};
}

static struct value entry_col_scale(int64_t z, int64_t j)
{
    static const double scale[] = {1, -1, 0.5};

    return (struct value){scale[(j + 2 * z) % 3], 0};
}

static gb_devptr upload(const void *from, size_t bytes)
{
    void *pin = pinned_get(ROLE_VECTOR, bytes);
    gb_devptr at;

    memcpy(pin, from, bytes);
    must(ops->mem_alloc(dev, bytes, &at), "mem_alloc");
    must(ops->copy_in(dev, stream, at, 0, pin, 0, bytes, 1), "copy_in");
    must(ops->stream_sync(dev, stream), "stream_sync");
    return at;
}

/* `batch` vectors of `count`; *stride is what lies between them. */
static gb_devptr vector(const struct product *p, enum gb_type t, int64_t count,
                        struct value (*entry)(int64_t z, int64_t x), int64_t *stride)
{
    int64_t vectors = p->fused.broadcast ? 1 : p->batch;
    size_t bytes = (size_t)(vectors * count) * gb_type_size(t);
    void *host = malloc(bytes);
    gb_devptr at;

    for (int64_t z = 0; z < vectors; z++)
        for (int64_t x = 0; x < count; x++)
            put(t, host, z * count + x, entry(z, x));
    *stride = p->fused.broadcast ? 0 : count;
    at = upload(host, bytes);
    free(host);
    return at;
}

static void fuse(const struct product *p, struct gb_gemm_args *g)
{
    const struct fusing *f = &p->fused;
    enum gb_type acc = p->k->type_acc;
    enum gb_type part = acc == GB_C32 ? GB_F32 : acc == GB_C64 ? GB_F64 : acc;

    if (!f->wanted)
        return;
    g->flags |= GB_G_FUSED;
    g->fused.activation = f->activation;
    g->fused.flags =
        (f->by_columns ? GB_F_BIAS_COLS : 0) | (f->acc ? GB_F_BIAS_ACC : 0);
    if (f->bias)
        g->fused.bias =
            vector(p, f->acc ? acc : p->k->type_c, f->by_columns ? p->n : p->m,
                   entry_bias, &g->fused.bias_batch);
    if (f->row_scale)
        g->fused.row_scale =
            vector(p, part, p->m, entry_row_scale, &g->fused.row_batch);
    if (f->col_scale)
        g->fused.col_scale =
            vector(p, part, p->n, entry_col_scale, &g->fused.col_batch);
}

static double activated(enum gb_activation a, double x)
{
    double y;

    switch (a) {
    case GB_ACT_RELU:
        return x < 0 ? 0 : x;
    case GB_ACT_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case GB_ACT_GELU_TANH:
        y = sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
        return x / (1 + exp(-2 * y));
    case GB_ACT_SILU:
        return x / (1 + exp(-x));
    case GB_ACT_TANH:
        return tanh(x);
    default:
        return x;
    }
}

/* A list of the addresses of an operand's matrices; *bits has all their bits. */
static gb_devptr list_of(const struct operand *o, int batch, uint64_t *bits)
{
    uint64_t at[8] = {0};

    *bits = 0;
    for (int z = 0; z < batch; z++) {
        at[z] = address(o, z * o->batch);
        *bits |= at[z];
    }
    return upload(at, sizeof *at * (size_t)batch);
}

static void drop_all(const gb_devptr *at, int count)
{
    for (int i = 0; i < count; i++)
        if (at[i])
            ops->mem_free(dev, at[i]);
}

/* C := as gemm_args.h says, in as many launches as the product's cut asks for. */
static void compute(const struct product *p, const struct operand *a,
                    const struct operand *b, const struct operand *c)
{
    const struct gb_kernel *k = p->k;
    size_t partial_bytes;
    int64_t split_len =
        p->split_len ? cut_at(k, p->split_len) : gb_max(cut_at(k, p->kk), 1);
    int64_t splits = gb_max(gb_ceil_div(p->kk, split_len), 1);
    int64_t cut = p->cut ? cut_at(k, p->cut) : gb_max(p->kk, 1);
    bool beta_zero = p->beta.re == 0 && p->beta.im == 0;
    bool partial = splits > 1 || cut < p->kk;
    struct gb_gemm_args g = {
        .c = address(c, 0),
        .m = p->m,
        .n = p->n,
        .k = p->kk,
        .a_m = p->ta == 'n' ? 1 : a->ld,
        .a_k = p->ta == 'n' ? a->ld : 1,
        .b_k = p->tb == 'n' ? 1 : b->ld,
        .b_n = p->tb == 'n' ? b->ld : 1,
        .ldc = c->ld,
        .a_batch = a->batch,
        .b_batch = b->batch,
        .c_batch = c->batch,
        .split_len = split_len,
        .row0 = p->row0,
        .col0 = p->col0,
        .alpha = {p->alpha.re, p->alpha.im},
        .beta = {p->beta.re, p->beta.im},
        .splits = (int32_t)splits,
        .batch = p->batch,
        .group_m = p->group,
        .tail = p->tail,
        .flags = p->uplo | (p->conj_a ? GB_G_CONJ_A : 0) |
                 (p->conj_b ? GB_G_CONJ_B : 0) | (beta_zero ? GB_G_BETA_ZERO : 0),
    };
    const bool copied = p->copied || (k->flags & GB_K_FAST);
    struct gb_gemm_args launched;
    gb_devptr work;
    char symbol[96];

    fuse(p, &g);
    if (p->lists) {
        g.a_list = list_of(a, p->batch, &g.a);
        g.b_list = list_of(b, p->batch, &g.b);
        g.c_list = list_of(c, p->batch, &g.c);
        g.a_batch = g.b_batch = g.c_batch = 0;
    }
    gb_kernel_symbol(k, p->ta, p->tb, symbol, sizeof symbol);
    partial_bytes =
        (size_t)(splits * p->m * p->n * p->batch) * gb_type_size(k->type_acc);
    if (partial)
        must(ops->mem_alloc(dev, partial_bytes, &g.partial), "mem_alloc");
    for (int64_t at = 0; at < p->kk || at == 0; at += cut) {
        g.k_begin = at;
        g.k_end = gb_min(at + cut, p->kk);
        if (!p->lists) {
            g.a = address(a, at * g.a_k);
            g.b = address(b, at * g.b_k);
        }
        g.split0 = (int32_t)gb_split_first(at, split_len);
        g.split_count = (int32_t)gb_split_touched(at, g.k_end, split_len);
        if (splits == 1 ? g.k_end == p->kk : gb_launch_sums_splits(k, &g))
            g.flags |= GB_G_EPILOGUE;
        launched = g;
        work = copied ? repair(p, &launched) : 0;
        must(gb_launch_gemm(dev, stream, function(k, symbol), k, p->ta, p->tb,
                            &launched, p->grid),
             symbol);
        if (copied) {
            must(ops->stream_sync(dev, stream), "stream_sync");
            ops->mem_free(dev, work);
        }
    }
    if (!(g.flags & GB_G_EPILOGUE)) {
        gb_kernel_reduce_symbol(k, symbol, sizeof symbol);
        must(gb_launch_reduce(dev, stream, function(k, symbol), k, &g,
                              1 + (uint32_t)(draw() % 5)),
             symbol);
    }
    must(ops->stream_sync(dev, stream), "stream_sync");
    drop_all((const gb_devptr[]){g.partial, g.a_list, g.b_list, g.c_list, g.fused.bias,
                                 g.fused.row_scale, g.fused.col_scale},
             7);
}

struct operands {
    struct operand a, b, c;
    unsigned char *before; /* C as it was */
};

static struct operands operands_new(const struct product *p, double (*next)(void))
{
    const bool an = p->ta == 'n', bn = p->tb == 'n';
    int64_t am = an ? p->m : p->kk, ak = an ? p->kk : p->m;
    int64_t bk = bn ? p->kk : p->n, bc = bn ? p->n : p->kk;
    struct operands o;

    o.a = operand_new(ROLE_A, p->k->type, am, ak,
                      gb_round_up(gb_max(am, 1) + p->gap[0], p->grain), p->batch,
                      p->skip[0], p->odd[0], p->broadcast);
    o.b = operand_new(ROLE_B, p->k->type, bk, bc,
                      gb_round_up(gb_max(bk, 1) + p->gap[1], p->grain), p->batch,
                      p->skip[1], p->odd[1], false);
    o.c = operand_new(ROLE_C, p->k->type_c, p->m, p->n, p->m + p->gap[2], p->batch,
                      p->skip[2], p->odd[2], false);
    operand_fill(&o.a, next);
    operand_fill(&o.b, next);
    /* with beta 0 all of C is NaN, its gaps always */
    if (p->beta.re != 0 || p->beta.im != 0)
        operand_fill(&o.c, next);
    o.before = malloc(o.c.bytes);
    memcpy(o.before, o.c.host, o.c.bytes);
    operand_up(&o.a);
    operand_up(&o.b);
    operand_up(&o.c);
    return o;
}

static void operands_drop(struct operands *o)
{
    ops->mem_free(dev, o->a.at);
    ops->mem_free(dev, o->b.at);
    ops->mem_free(dev, o->c.at);
    free(o->before);
}

/* op(A)(i, 0 .. k) or op(B)(0 .. k, j) as doubles, conjugated if asked. */
static void unpack(const struct operand *o, bool along, bool conj, int64_t z,
                   int64_t index, int64_t k, struct value *out)
{
    for (int64_t l = 0; l < k; l++) {
        out[l] = get(o->type, o->host,
                     along ? place(o, z, index, l) : place(o, z, l, index));
        out[l].im = conj ? -out[l].im : out[l].im;
    }
}

static struct value expected(const struct product *p, const struct operands *o,
                             int64_t z, int64_t i, int64_t j, const struct value *x,
                             const struct value *y)
{
    struct value sum = {0, 0}, old, bias;
    const struct fusing *f = &p->fused;
    int64_t vector = f->broadcast ? 0 : z;

    if (gb_is_complex(p->k->type)) {
        for (int64_t l = 0; l < p->kk; l++) {
            sum.re += x[l].re * y[l].re - x[l].im * y[l].im;
            sum.im += x[l].re * y[l].im + x[l].im * y[l].re;
        }
    } else {
        for (int64_t l = 0; l < p->kk; l++)
            sum.re += x[l].re * y[l].re;
    }
    sum = times(p->alpha, sum);
    if (f->row_scale)
        sum = times(entry_row_scale(vector, i), sum);
    if (f->col_scale)
        sum = times(entry_col_scale(vector, j), sum);
    if (p->beta.re != 0 || p->beta.im != 0) {
        old = times(p->beta, get(o->c.type, o->before, place(&o->c, z, i, j)));
        sum.re += old.re;
        sum.im += old.im;
    }
    if (f->bias) {
        bias = entry_bias(vector, f->by_columns ? j : i);
        sum.re += bias.re;
        sum.im += bias.im;
    }
    sum.re = activated(f->activation, sum.re);
    return sum;
}

/* Exactly, but for activations of real numbers: 16 bits to the second neighbour, others to
 * what exponents lose that are themselves rounded. */
static bool agrees(const struct product *p, struct value want, struct value seen)
{
    static const int digits[GB_TYPES] = {11, 8, 24, 53, 24, 53, 0, 0};
    int last = 1 - digits[p->k->type_c];
    double bound;

    if (p->fused.activation <= GB_ACT_RELU)
        return want.re == seen.re && want.im == seen.im;
    bound = 2 * ldexp(1, gb_max(ilogb(want.re), p->k->type_c == GB_F16 ? -14 : -126) +
                             last);
    if (p->k->type_c != GB_F16 && p->k->type_c != GB_BF16)
        bound = fabs(want.re) * ldexp(256, last) + 1e-37;
    return fabs(want.re - seen.re) <= bound;
}

static long failures, tried;

static void complain(const struct product *p, const char *what)
{
    char text[400];

    describe(p, text, sizeof text);
    if (failures++ < 20)
        diag("%s: %s", text, what);
}

/* One slice of C against the exact product; what is right is copied to `before`. */
static bool slice_is_exact(const struct product *p, const struct operands *o, int64_t z,
                           struct value *rows, struct value *column)
{
    size_t size = gb_type_size(p->k->type_c);
    char what[160];

    for (int64_t i = 0; i < p->m; i++)
        unpack(&o->a, p->ta == 'n', p->conj_a, z, i, p->kk, rows + i * p->kk);
    for (int64_t j = 0; j < p->n; j++) {
        unpack(&o->b, p->tb == 't', p->conj_b, z, j, p->kk, column);
        for (int64_t i = 0; i < p->m; i++) {
            int64_t at = place(&o->c, z, i, j), above = j + p->col0 - i - p->row0;
            struct value want, seen;
            union {
                double f64[2];
                unsigned char bytes[16];
            } rounded;

            if ((p->uplo == GB_G_UPPER && above < 0) ||
                (p->uplo == GB_G_LOWER && above > 0))
                continue; /* compared with the gaps */
            want = expected(p, o, z, i, j, rows + i * p->kk, column);
            put(p->k->type_c, rounded.bytes, 0, want);
            want = get(p->k->type_c, rounded.bytes, 0);
            seen = get(p->k->type_c, o->c.host, at);
            if (!agrees(p, want, seen)) {
                snprintf(what, sizeof what, "C(%lld,%lld) of %lld is %g,%g not %g,%g",
                         (long long)i, (long long)j, (long long)z, seen.re, seen.im,
                         want.re, want.im);
                complain(p, what);
                return false;
            }
            memcpy(o->before + (size_t)at * size, o->c.host + (size_t)at * size, size);
        }
    }
    return true;
}

/* Small integers: the result is known exactly, and so is each untouched byte. */
static void check_exact(const struct product *p)
{
    struct operands o = operands_new(p, small);
    struct value *rows = calloc((size_t)((p->m + 1) * p->kk + 1), sizeof *rows);
    bool good = true;

    tried++;
    compute(p, &o.a, &o.b, &o.c);
    operand_down(&o.c);
    for (int64_t z = 0; z < p->batch && good; z++)
        good = slice_is_exact(p, &o, z, rows, rows + p->m * p->kk);
    if (good && memcmp(o.before, o.c.host, o.c.bytes) != 0)
        complain(p, "an element outside the product was written");
    free(rows);
    operands_drop(&o);
}

/* Random reals: `other` computes the same product another way and must give the same bits. */
static void check_same(const struct product *p, const struct product *other)
{
    struct operands o = operands_new(p, real);
    unsigned char *first = malloc(o.c.bytes);

    tried++;
    compute(p, &o.a, &o.b, &o.c);
    operand_down(&o.c);
    memcpy(first, o.c.host, o.c.bytes);
    memcpy(o.c.host, o.before, o.c.bytes);
    operand_up(&o.c);
    compute(other, &o.a, &o.b, &o.c);
    operand_down(&o.c);
    if (memcmp(first, o.c.host, o.c.bytes) != 0)
        complain(other, "differs in bits from the plain product");
    free(first);
    operands_drop(&o);
}

/* ---- what is tried ---- */

static const struct value alphas[] = {{1, 0}, {-2, 0}, {1, -1}};
static const struct value betas[] = {{0, 0}, {1, 0}, {-0.5, 0}, {0.5, 1}};

static bool is_complex(const struct gb_kernel *k)
{
    return gb_is_complex(k->type);
}

/* Sizes at and around a tile. */
static int sizes_around(int tile, int64_t *out)
{
    int n = 0;

    out[n++] = 1;
    out[n++] = tile - 1;
    out[n++] = tile;
    out[n++] = tile + 1;
    out[n++] = tile > 16 ? 13 : 5;
    if (hardware) {
        out[n++] = 2 * tile + 3;
        out[n++] = 97;
    }
    return n;
}

static void check_edges(const struct gb_kernel *k, char ta, char tb)
{
    int64_t ms[16], ns[16], ks[16];
    int nm = sizes_around(k->tile_m, ms), nn = sizes_around(k->tile_n, ns);
    int nk = sizes_around(k->tile_k, ks), turn = (int)(draw() % 97);

    ks[nk++] = 4 * k->tile_k;
    ks[nk++] = 0;
    for (int i = 0; i < nm; i++)
        for (int j = 0; j < nn; j++)
            for (int l = 0; l < nk; l++, turn++) {
                struct product p = plain(k, ta, tb);

                /* on the emulated device every pair of sizes is met, not every triple; of
                 * the many tiles of one kernel each pair of m and n, and k by turns */
                if (!hardware && (i + j + l) % 3 != 0)
                    continue;
                if ((k->flags & GB_K_TENSOR) && l != (i * nn + j) % nk)
                    continue;
                p.m = ms[i];
                p.n = ns[j];
                p.kk = ks[l];
                /* aligned and ragged leading dimensions, by turns */
                for (int x = 0; x < 3; x++)
                    p.gap[x] =
                        turn >> x & 1 ? 1 + turn % 5 : (16 - (x == 2 ? p.m : 0) % 16);
                /* and addresses, where the row takes any */
                if (grain(k) == 1) {
                    p.skip[0] = turn % 9;
                    p.skip[1] = turn % 8;
                }
                p.skip[2] = turn % 5 == 4 ? turn % 3 : 0;
                p.conj_a = is_complex(k) && turn % 3 == 1;
                p.conj_b = is_complex(k) && turn / 3 % 2;
                p.alpha = alphas[turn % (is_complex(k) ? 3 : 2)];
                p.beta = betas[turn % (is_complex(k) ? 4 : 3)];
                p.group = 1 + turn % 3;
                check_exact(&p);
            }
}

/* Leading dimensions and origins that allow vectors, sizes that end inside one. */
static void check_vectors(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < 8; x++) {
        struct product p = plain(k, ta, tb);
        int64_t am, bk;

        p.m = k->tile_m + x + 1;
        p.n = k->tile_n + 8 - x;
        p.kk = 2 * k->tile_k + x;
        am = ta == 'n' ? p.m : p.kk;
        bk = tb == 'n' ? p.kk : p.n;
        p.gap[0] = gb_round_up(am, 16) - am;
        p.gap[1] = gb_round_up(bk, 16) - bk;
        p.gap[2] = gb_round_up(p.m, 16) - p.m;
        p.beta = betas[x % 3];
        check_exact(&p);
    }
}

static void check_conj(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < 4 * 12; x++) {
        struct product p = plain(k, ta, tb);

        p.m = k->tile_m / 2 + 1;
        p.n = 9;
        p.kk = k->tile_k + 3;
        p.conj_a = x & 1;
        p.conj_b = x & 2;
        p.alpha = alphas[x / 4 % 3];
        p.beta = betas[x / 12];
        p.cut = x % 5 == 4 ? 7 : 0;
        check_exact(&p);
    }
}

/* Complex elements that are aligned as their parts are, and no more. */
static void check_odd(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < 12; x++) {
        struct product p = plain(k, ta, tb);

        p.m = k->tile_m + x % 3 - 1;
        p.n = k->tile_n + 1 - x % 3;
        p.kk = 2 * k->tile_k + x % 5 - 2;
        for (int i = 0; i < 3; i++)
            p.odd[i] = x % 4 == i ? 0 : k->align;
        p.beta = betas[x / 4];
        p.batch = 1 + x % 2;
        p.lists = x % 4 == 3;
        check_exact(&p);
    }
}

static void check_triangles(const struct gb_kernel *k, char ta, char tb)
{
    static const int shifts[] = {0, 1, -1, 37, -53, 400, -400};

    for (size_t s = 0; s < GB_COUNT(shifts); s++)
        for (int x = 0; x < 2; x++) {
            struct product p = plain(k, ta, tb);

            p.m = k->tile_m * 2 + 5 - 3 * x;
            p.n = k->tile_n * 2 + (x ? 1 : -7);
            p.kk = k->tile_k - 1;
            p.uplo = x ? GB_G_UPPER : GB_G_LOWER;
            p.row0 = 1000 + shifts[s];
            p.col0 = 1000;
            p.beta = betas[s % 3];
            p.group = 1 + (int)s;
            p.split_len = s % 3 == 2 ? 8 : 0;
            p.cut = s % 3 == 1 ? 5 : 0;
            check_exact(&p);
        }
}

/* Every part of the epilogue by itself and together, on the edges of a tile, in C's of every
 * alignment, after all the ways that sums take. */
static void check_fused(const struct gb_kernel *k, char ta, char tb)
{
    const int64_t ms[] = {k->tile_m - 1, k->tile_m, k->tile_m + 1, 13, k->tile_m + 24};
    const int64_t ns[] = {k->tile_n, k->tile_n + 1, 7, k->tile_n - 1};

    for (int x = 0; x < 40; x++) {
        struct product p = plain(k, ta, tb), q;

        p.m = ms[x % 5];
        p.n = ns[x / 5 % 4];
        p.kk = x % 8 == 7 ? 0 : k->tile_k + x % 11;
        p.alpha.re = x % 9 == 8 ? 0 : x % 3 ? 0.0625 : -0.125;
        p.beta = betas[x / 2 % 3];
        p.gap[2] = x % 3 == 1 ? 3 : gb_round_up(p.m, 16) - p.m;
        p.skip[2] = x % 7 == 6;
        p.conj_a = is_complex(k) && x % 2;
        p.batch = x % 5 == 2 ? 3 : 1;
        p.group = 1 + x % 3;
        p.fused = (struct fusing){
            .wanted = true,
            .bias = x % 6 != 3,
            .by_columns = x / 3 % 2,
            .acc = x / 2 % 2,
            .row_scale = x % 4 == 1 || x % 4 == 3,
            .col_scale = x % 4 == 2 || x % 4 == 3,
            .broadcast = x % 2,
            .activation = is_complex(k)
                              ? GB_ACT_NONE
                              : (enum gb_activation)(x * 5 / 2 % GB_ACTIVATIONS),
        };
        if (x % 4 == 3) { /* two and more splits, and some that a cluster sums */
            p.kk = (2 + x / 4 % 4) * k->tile_k - 5;
            p.split_len = k->tile_k;
        }
        if (x % 10 == 9)
            p.cut = k->tile_k;
        if ((k->flags & GB_K_UPLO) && x % 6 == 1)
            p.uplo = x % 4 == 1 ? GB_G_UPPER : GB_G_LOWER;
        check_exact(&p);
        if (x % 20 != 11)
            continue;
        q = p;
        q.cut = k->tile_k;
        q.grid = 1;
        check_same(&p, &q);
    }
}

static void check_batch(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < (k->flags & GB_K_TMA ? 4 : 8); x++) {
        struct product p = plain(k, ta, tb);

        p.m = k->tile_m / 2 + 3;
        p.n = k->tile_n + 1;
        p.kk = 2 * k->tile_k + 1;
        p.batch = 3;
        p.broadcast = x & 1;
        p.lists = x & 4;
        p.split_len = x & 2 ? k->tile_k : 0;
        p.beta = betas[x % 3];
        check_exact(&p);
    }
}

/* The emulated device runs some rows for TMA that a program would not get from it. */
static bool runs(const struct gb_kernel *k)
{
    struct gb_module *m;
    struct gb_function *f;
    char symbol[96];
    enum gb_status status;

    if (hardware || !(k->flags & GB_K_TMA))
        return gb_kernel_runs(k, &dev->info);
    must(ops->module_load(dev, k->family, NULL, 0, &m), k->family);
    gb_kernel_symbol(k, 'n', 'n', symbol, sizeof symbol);
    status = ops->module_get(dev, m, symbol, &f);
    if (status != GB_E_UNSUPPORTED)
        must(status, symbol);
    ops->module_unload(dev, m);
    return status == GB_SUCCESS;
}

/* The first row of the family that runs here. */
static const struct gb_kernel *sibling(const struct gb_kernel *k)
{
    const struct gb_kernel *first = gb_kernels;

    while (strcmp(first->family, k->family) != 0 || !runs(first))
        first++;
    return first;
}

/* The same bits: launches cut k anywhere; any grid; any group; and with splits likewise. Whole
 * sums are those of any tile. */
static void check_bits(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < 2; x++) {
        struct product p = plain(k, ta, tb), q;

        p.m = k->tile_m + 9;
        p.n = k->tile_n * 2 - 5;
        p.kk = 6 * k->tile_k + 5;
        p.alpha = (struct value){0.7, is_complex(k) ? 0.3 : 0};
        p.beta = (struct value){-1.3, 0};
        p.conj_a = is_complex(k);
        p.split_len = x ? 2 * k->tile_k : 0;
        q = p;
        q.cut = 3 * k->tile_k;
        check_same(&p, &q);
        q.cut = 7;
        check_same(&p, &q);
        q.cut = k->tile_k + 1;
        q.grid = 1;
        q.group = 1;
        check_same(&p, &q);
        q.cut = 0;
        q.grid = 3;
        check_same(&p, &q);
        q.k = sibling(k);
        p.grain = q.grain = gb_max(grain(k), grain(q.k));
        if (x == 0 && q.k != k)
            check_same(&p, &q);
    }
}

/* One block, or cluster, has all tiles in turn, and the next begins while C of the last is on
 * its way out: C by TMA, in m that end with a tile, in its first part of C (whose
 * last vector is stored by elements) and after half of its parts. Tiles without
 * sums, more than there are buffers, follow each other closest. */
static void check_turns(const struct gb_kernel *k, char ta, char tb)
{
    const int64_t ends[] = {k->tile_m, 5, k->tile_m / 2 + 5};

    for (int x = 0; x < 12; x++) {
        struct product p = plain(k, ta, tb);

        p.m = 2 * k->tile_m + ends[x % 3];
        p.n = 4 * k->tile_n - 3;
        p.kk = x < 6 ? 20 : 1;
        p.alpha.re = x < 6;
        p.beta = betas[x / 3 % 2 * 2];
        p.gap[2] = gb_round_up(p.m, 16) - p.m;
        p.grid = 1;
        check_exact(&p);
    }
}

/* Clusters of every size add up the splits of a tile, also of one that reaches past C on both
 * sides, and into a C of any alignment. That they give the bits of the reduction: check_bits(). */
static void check_together(const struct gb_kernel *k, char ta, char tb)
{
    for (int splits = 2; splits <= GB_SPLITS_TOGETHER + 1; splits++) {
        struct product p = plain(k, ta, tb);

        p.m = k->tile_m + 3 - splits % 3 * 3;
        p.n = 2 * k->tile_n + 5;
        p.kk = splits * k->tile_k - 7;
        p.split_len = k->tile_k;
        p.batch = 1 + splits % 2;
        p.alpha = alphas[splits % 2];
        p.beta = betas[splits % 3];
        p.gap[2] = splits % 2 ? 1 : gb_round_up(p.m, 16) - p.m;
        check_exact(&p);
    }
}

/* Has p's launch tiles that fill no turn of its grid? */
static bool has_tail(const struct product *p)
{
    const struct gb_kernel *k = p->k;
    const struct gb_gemm_args g = {.k = p->kk,
                                   .k_end = p->kk,
                                   .splits = 1,
                                   .tail = p->tail,
                                   .flags = GB_G_EPILOGUE};
    int64_t cluster = gb_kernel_cluster(k);
    int64_t units = gb_ceil_div(p->m, k->tile_m) *
                    gb_ceil_div(p->n, k->tile_n * cluster) * p->batch;

    return gb_launch_tail(k, &g, units, p->grid / cluster) > 0;
}

/* Tiles that fill no turn of the grid, by clusters of every size, of which the last tile reaches
 * past C on both sides; and splits that rounding leaves empty, which no cluster gets. */
static void check_tail(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < 8; x++) {
        struct product p = plain(k, ta, tb);

        p.tail = x < 6 ? 2 << x % 3 : 8;
        p.m = 2 * k->tile_m + (x % 2 ? 3 : k->tile_m);
        p.n = 2 * k->tile_n + 5;
        p.kk = x < 6 ? p.tail * 2 * k->tile_k - 7 : 9 * k->tile_k;
        p.batch = 1 + x % 2;
        p.grid = gb_kernel_cluster(k) > 1 ? 10 : 4; /* 9 or 18 tiles, 6 or 12 pairs */
        p.alpha = alphas[x % 2];
        p.beta = betas[x % 3];
        p.gap[2] = x % 3 == 1 ? 1 : gb_round_up(p.m, 16) - p.m;
        if (has_tail(&p) != (x < 6))
            complain(&p, "it is not launched as it should be");
        check_exact(&p);
    }
}

/* Operands of such rows that begin anywhere and have any leading dimension; the last
 * two have columns that several parts of a block's threads share. */
static void check_copied(const struct gb_kernel *k, char ta, char tb)
{
    for (int x = 0; x < 12; x++) {
        struct product p = plain(k, ta, tb);

        p.copied = true;
        p.grain = 1;
        p.m = x < 8 ? k->tile_m + 1 + x : 3;
        p.n = x < 8 ? k->tile_n - x : 300;
        p.kk = x < 8 ? 2 * k->tile_k + 3 * x - 5 : x;
        if (x >= 10) {
            p.m = x == 10 ? 2100 : 5;
            p.n = 9;
            p.kk = x == 10 ? 17 : 2100;
        }
        for (int i = 0; i < 3; i++) {
            p.skip[i] = (int64_t)(draw() % 9);
            p.gap[i] = (int64_t)(draw() % 9);
        }
        p.beta = betas[x % 3];
        p.batch = x % 4 == 3 ? 3 : 1;
        p.broadcast = x % 8 == 7;
        p.split_len = x % 5 == 4 ? k->tile_k : 0;
        check_exact(&p);
    }
}

/* Special values: alpha 0 ignores NaN in A and B, by the epilogue and by the reduction; NaN
 * and infinity otherwise arrive. */
static void check_special(const struct gb_kernel *k)
{
    struct product p = plain(k, 'n', 'n');
    struct operands o;
    struct value v;

    p.m = p.n = 3;
    p.kk = 40;
    p.alpha = (struct value){0, 0};
    for (int x = 0; x < 4; x++) {
        p.split_len = x & 1 ? 16 : 0;
        p.beta = betas[x & 2];
        o = operands_new(&p, small);
        memset(o.a.host, 0xff, o.a.bytes);
        operand_up(&o.a);
        compute(&p, &o.a, &o.b, &o.c);
        operand_down(&o.c);
        v = get(k->type_c, o.before, 0);
        v = x & 2 ? times(p.beta, v) : (struct value){0, 0};
        tried++;
        if (get(k->type_c, o.c.host, 0).re != v.re ||
            get(k->type_c, o.c.host, 0).im != v.im ||
            (!(x & 2) && signbit(get(k->type_c, o.c.host, 0).re)))
            complain(&p, "alpha 0 does not leave beta C alone");
        operands_drop(&o);
    }

    p.kk = 3;
    p.split_len = 0;
    p.alpha = (struct value){1, 0};
    p.beta = (struct value){1, 0};
    o = operands_new(&p, small);
    put(k->type, o.a.host, place(&o.a, 0, 1, 2), (struct value){NAN, 0});
    put(k->type_c, o.c.host, place(&o.c, 0, 2, 0), (struct value){INFINITY, 0});
    operand_up(&o.a);
    operand_up(&o.c);
    compute(&p, &o.a, &o.b, &o.c);
    operand_down(&o.c);
    tried++;
    if (!isnan(get(k->type_c, o.c.host, place(&o.c, 0, 1, 1)).re) ||
        isnan(get(k->type_c, o.c.host, 0).re) ||
        !isinf(get(k->type_c, o.c.host, place(&o.c, 0, 2, 0)).re))
        complain(&p, "NaN or infinity did not arrive, or went too far");
    operands_drop(&o);
}

/* The least denormal of the type, or of tf32, times 1 is itself, in and out. */
static void check_denormals(const struct gb_kernel *k)
{
    static const double least[GB_TYPES] = {0x1p-24,  0x1p-133,  0x1p-149, 0x1p-1074,
                                           0x1p-149, 0x1p-1074, 0,        0};
    struct product p = plain(k, 'n', 'n');
    struct operands o = operands_new(&p, small);
    double x = k->flags & GB_K_FAST ? 0x1p-136 : least[k->type];

    put(k->type, o.a.host, 0, (struct value){x, 0});
    put(k->type, o.b.host, 0, (struct value){1, 0});
    operand_up(&o.a);
    operand_up(&o.b);
    compute(&p, &o.a, &o.b, &o.c);
    operand_down(&o.c);
    tried++;
    if (get(k->type_c, o.c.host, 0).re != x)
        complain(&p, "a denormal was lost");
    operands_drop(&o);
}

static void check_row(const struct gb_kernel *k)
{
    /* tiles of the tensor cores are large, and the same text for four pairs of types: on the
     * emulated device each pair has another layout of a tile */
    const bool all = getenv("ALLL") || hardware || !(k->flags & GB_K_TENSOR);
    const long turn =
        (k - sibling(k)) + 2 * (k->type == GB_BF16) + (k->type_c == GB_F32);

    failures = tried = 0;
    for (int layout = 0; layout < 4; layout++) {
        char ta = layout & 2 ? 't' : 'n', tb = layout & 1 ? 't' : 'n';

        if (!all && layout != turn % 4)
            continue;
        check_edges(k, ta, tb);
        check_vectors(k, ta, tb);
        if (is_complex(k))
            check_conj(k, ta, tb);
        if (k->align < gb_type_size(k->type))
            check_odd(k, ta, tb);
        if (k->flags & GB_K_UPLO)
            check_triangles(k, ta, tb);
        check_batch(k, ta, tb);
        if (!(k->flags & GB_K_PLAIN))
            check_fused(k, ta, tb);
        check_bits(k, ta, tb);
        if (k->flags & GB_K_TMA) {
            check_turns(k, ta, tb);
            check_together(k, ta, tb);
            check_tail(k, ta, tb);
        }
        if (gb_launch_can_repair(k, &dev->info))
            check_copied(k, ta, tb);
    }
    check_special(k);
    check_denormals(k);
    is_int(0, failures, "%s: %ld products", k->name, tried);
}

/* A row with clusters runs the code of the one whose name it has but for "_c2", and asks for what
 * that one does. */
static bool has_single(const struct gb_kernel *k)
{
    char name[96], pairs[96], own[96];
    const struct gb_kernel *one;
    size_t n = strlen(k->name) - 3;

    snprintf(name, sizeof name, "%.*s", (int)n, k->name);
    one = gb_kernel_find(name);
    if (!one || strcmp(k->name + n, "_c2") != 0)
        return false;
    gb_kernel_symbol(k, 'n', 't', pairs, sizeof pairs);
    gb_kernel_symbol(one, 'n', 't', own, sizeof own);
    return strcmp(pairs, own) == 0 && k->tile_m == one->tile_m &&
           k->tile_n == one->tile_n && k->tile_k == one->tile_k &&
           k->stages == one->stages && k->threads == one->threads &&
           k->smem == one->smem;
}

/* The table itself. */
static void check_table(void)
{
    char symbol[96];
    int alone = 0;

    for (int i = 0; i < gb_kernel_count; i++)
        alone += gb_kernel_cluster(&gb_kernels[i]) > 1 && !has_single(&gb_kernels[i]);
    is_int(0, alone, "rows with clusters have a row of the same tile");

    for (int i = 0; i < gb_kernel_count; i++)
        if (gb_kernel_find(gb_kernels[i].name) != &gb_kernels[i])
            ok(0, "%s: the name is not unique", gb_kernels[i].name);
    ok(gb_kernel_find("gemm_none") == NULL, "an unknown kernel is not found");
    gb_kernel_symbol(&gb_kernels[0], 't', 'n', symbol, sizeof symbol);
    ok(strncmp(symbol, "gb_gemm_", 8) == 0 &&
           strcmp(symbol + strlen(symbol) - 3, "_tn") == 0,
       "a symbol is the kernel's name and its layout");
}

/* `rows`: how names begin; with a $ after it, the whole name; NULL: any. */
static bool wanted(const char *name, const char *rows)
{
    size_t n = rows ? strlen(rows) : 0;

    if (n > 0 && rows[n - 1] == '$')
        return strlen(name) == n - 1 && strncmp(name, rows, n - 1) == 0;
    return strncmp(name, rows ? rows : "", n) == 0;
}

int main(void)
{
    const char *knob = getenv("GEMMBLAS_DEVICE");
    const char *rows = getenv("GB_TEST_ROWS"); /* see wanted() */
    struct gb_device_ref ref;
    struct gb_guest guest;

    if (gb_device_list(knob ? knob : "emu", &ref, 1) < 1)
        skip_all("no device for GEMMBLAS_DEVICE=%s", knob ? knob : "emu");
    ops = ref.ops;
    must(ops->open(ref.ordinal, &dev), "open");
    must(ops->enter(dev, &guest), "enter");
    must(ops->stream_create(dev, &stream), "stream_create");
    hardware = dev->info.vendor != GB_EMU;
    diag("%s, %s", dev->info.name, dev->info.arch_name);
    plan_lazy();
    check_table();
    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];

        if (!wanted(k->name, rows))
            skip("%s: not among GB_TEST_ROWS", k->name);
        else if (k->flags & GB_K_EMULATED)
            skip("%s: t_emul has it", k->name);
        else if (k->flags & GB_K_INTEGER)
            skip("%s: t_int8 has it", k->name);
        else if (!runs(k))
            skip("%s: not for %s", k->name, dev->info.arch_name);
        else if (hardware && !gb_image_find(k->family, &dev->info))
            skip("%s: built without an image for %s", k->name, dev->info.arch_name);
        else
            check_row(k);
    }
    pinned_drop();
    ops->stream_destroy(dev, stream);
    ops->leave(dev, &guest);
    ops->close(dev);
    return 0;
}
