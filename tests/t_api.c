/* SPDX-License-Identifier: BSD-3-Clause */
/* gemmblas_gemm(): random products of small integers against exact arithmetic, of matrices in
 * device memory here, and of matrices in host memory in children that have a device, one that
 * fails, little of its memory, or none; every kind of stride, arrays of addresses, streams,
 * threads; and what it refuses. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "dispatch.h"
#include "engine.h"
#include "gemmblas/gemmblas.h"
#include "operands.h"
#include "tap.h"
#include "util.h"

/* The device of the library, or NULL: everything is in host memory. */
static struct gb_device *dev;
static const struct gb_device_ops *ops;

static void must(enum gb_status s, const char *what)
{
    if (s != GB_SUCCESS)
        bail("%s: %s", what, gb_status_text(s));
}

/* ---- memory ------------------------------------------------------------------------------ */

/* A buffer on the host, and its copy on the device. */
struct memory {
    size_t bytes;
    char *host;
    gb_devptr device;
};

static struct memory memory_new(size_t bytes)
{
    struct memory x = {.bytes = bytes};

    if (dev) {
        must(ops->host_alloc(dev, bytes, (void **)&x.host), "host_alloc");
        must(ops->mem_alloc(dev, bytes, &x.device), "mem_alloc");
    } else {
        x.host = malloc(bytes);
    }
    return x;
}

static void memory_drop(struct memory *x)
{
    if (dev && x->bytes) {
        ops->host_free(dev, x->host);
        ops->mem_free(dev, x->device);
    } else {
        free(x->host);
    }
    *x = (struct memory){.bytes = 0};
}

/* Where the library is told that it is. */
static char *seen(const struct memory *x)
{
    return dev ? (char *)(uintptr_t)x->device : x->host;
}

/* ---- streams ----------------------------------------------------------------------------- */

/* What a program has: the driver's own name for its stream. */
struct theirs {
    void *name;           /* NULL: the default one */
    struct gb_stream *s;  /* the same for the table of operations */
    struct gb_event *end; /* to wait for */
};

static struct theirs theirs_new(bool own)
{
    struct theirs t = {.name = NULL};
    void *cuda = NULL;
    int (*create)(void **stream, unsigned flags);

    if (!dev)
        return t;
    if (own && strcmp(ops->name, "emu") == 0) {
        must(ops->stream_create(dev, (struct gb_stream **)&t.name), "stream_create");
    } else if (own && strcmp(ops->name, "cuda") == 0) {
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
        *(void **)&create = cuda ? dlsym(cuda, "cuStreamCreate") : NULL;
        if (!create || create(&t.name, 1) != 0)
            bail("cuStreamCreate");
    }
    must(ops->stream_borrow(dev, t.name, &t.s), "stream_borrow");
    must(ops->event_create(dev, &t.end), "event_create");
    return t;
}

static void theirs_wait(const struct theirs *t)
{
    if (!dev)
        return;
    must(ops->event_record(dev, t->end, t->s), "event_record");
    must(ops->event_sync(dev, t->end), "event_sync");
}

static void theirs_drop(struct theirs *t)
{
    if (!dev)
        return;
    ops->event_destroy(dev, t->end);
    ops->stream_return(dev, t->s);
    if (t->name && strcmp(ops->name, "emu") == 0)
        ops->stream_destroy(dev, t->name);
}

static void send(const struct theirs *t, const struct memory *x)
{
    if (dev)
        must(ops->copy_in(dev, t->s, x->device, 0, x->host, 0, x->bytes, 1), "copy_in");
}

static void fetch(const struct theirs *t, const struct memory *x)
{
    if (dev)
        must(ops->copy_out(dev, t->s, x->host, 0, x->device, 0, x->bytes, 1),
             "copy_out");
}

/* ---- matrices ---------------------------------------------------------------------------- */

enum kind {
    COLUMNS,
    ROWS,
    COLUMNS_GAP,
    ROWS_GAP,
    GENERAL,
    NEGATIVE,
    INTERLEAVED, /* the matrices of a batch, element by element */
    KINDS
};

enum listed { PLAIN, LIST, LIST_EVEN, LIST_ON_DEVICE, LISTED };

struct operand {
    enum gb_type type;
    int64_t rows, cols, batch;
    int64_t row, col, step; /* strides */
    int64_t first;          /* element (0, 0) of the first one, in the buffer */
    enum listed listed;
    struct memory at, list;
    char *before;
};

static int64_t slot(const struct operand *x, int64_t z)
{
    /* lists out of order, unless they are to be found regular */
    return x->listed == LIST || x->listed == LIST_ON_DEVICE ? x->batch - 1 - z : z;
}

static int64_t place(const struct operand *x, int64_t z, int64_t i, int64_t j)
{
    return x->first + slot(x, z) * x->step + i * x->row + j * x->col;
}

static size_t size_of(enum gb_type t)
{
    return gb_type_size(t);
}

static void lay_out(struct operand *x, enum kind kind, bool broadcast)
{
    int64_t r = x->rows, c = x->cols, b = x->batch, whole;

    x->first = 3;
    x->row = kind == ROWS ? c : kind == ROWS_GAP ? c + 5 : 1;
    x->col = kind == COLUMNS ? r : kind == COLUMNS_GAP ? r + 5 : 1;
    if (kind == GENERAL) {
        x->row = 3;
        x->col = 3 * r + 2;
    } else if (kind == NEGATIVE) {
        x->row = -1;
        x->col = r + 1;
        x->first += r - 1;
    } else if (kind == INTERLEAVED) {
        x->row = b;
        x->col = b * r;
    }
    whole = gb_max(x->row * (x->row < 0 ? -1 : 1) * r, x->col * c) + 7;
    x->step = broadcast ? 0 : kind == INTERLEAVED ? 1 : whole;
    x->at = memory_new((size_t)(x->first + whole + x->step * (b - 1) + 4) *
                       size_of(x->type));
}

static double small(struct verify_random *r)
{
    return (double)verify_below(r, 7) - 3;
}

static void list_make(struct operand *x, const struct theirs *t)
{
    const void **host;

    x->list = memory_new((size_t)x->batch * sizeof *host);
    host = (const void **)(void *)x->list.host;
    for (int64_t z = 0; z < x->batch; z++)
        host[z] = seen(&x->at) + (size_t)place(x, z, 0, 0) * size_of(x->type);
    send(t, &x->list);
}

static struct operand operand_new(enum gb_type type, int64_t rows, int64_t cols,
                                  int64_t batch, enum kind kind, bool broadcast,
                                  enum listed listed, bool fill,
                                  struct verify_random *r, const struct theirs *t)
{
    struct operand x = {
        .type = type, .rows = rows, .cols = cols, .batch = batch, .listed = listed};

    lay_out(&x, kind, broadcast);
    memset(x.at.host, 0xff, x.at.bytes); /* every gap is NaN */
    for (int64_t z = 0; fill && z < (broadcast ? 1 : batch); z++)
        for (int64_t j = 0; j < cols; j++)
            for (int64_t i = 0; i < rows; i++)
                verify_store(type,
                             x.at.host + (size_t)place(&x, z, i, j) * size_of(type),
                             (struct verify_value){small(r), small(r)});
    x.before = malloc(x.at.bytes);
    memcpy(x.before, x.at.host, x.at.bytes);
    send(t, &x.at);
    if (listed != PLAIN)
        list_make(&x, t);
    return x;
}

static void operand_drop(struct operand *x)
{
    memory_drop(&x->at);
    if (x->listed != PLAIN)
        memory_drop(&x->list);
    free(x->before);
}

static struct verify_value value(const struct operand *x, int64_t z, int64_t i,
                                 int64_t j, bool conj)
{
    struct verify_value v =
        verify_load(x->type, x->before + (size_t)place(x, z, i, j) * size_of(x->type));

    v.im = !gb_is_complex(x->type) ? 0 : conj ? -v.im : v.im;
    return v;
}

static struct gemmblas_matrix matrix(const struct operand *x)
{
    struct gemmblas_matrix m = {.row_stride = x->row, .col_stride = x->col};

    if (x->listed == PLAIN) {
        m.data = seen(&x->at) + (size_t)x->first * size_of(x->type);
        m.batch_stride = x->step;
    } else if (x->listed == LIST_ON_DEVICE) {
        m.array = (const void *const *)(const void *)seen(&x->list);
    } else {
        m.array = (const void *const *)(const void *)x->list.host;
    }
    return m;
}

/* ---- one call ---------------------------------------------------------------------------- */

struct call {
    enum gb_type type, type_c;
    int64_t m, n, k, batch;
    enum kind kind[3];
    enum listed listed;
    bool broadcast, conj_a, conj_b, bias, by_columns, wide, row_scale, col_scale;
    bool vector_broadcast;
    enum gemmblas_activation activation;
    struct gb_scalar alpha, beta;
};

static const enum gb_type pairs[][2] = {
    {GB_F32, GB_F32}, {GB_F16, GB_F16}, {GB_F64, GB_F64}, {GB_BF16, GB_BF16},
    {GB_C32, GB_C32}, {GB_F16, GB_F32}, {GB_C64, GB_C64}, {GB_BF16, GB_F32},
};

static struct call draw(struct verify_random *r, int64_t most, bool lists)
{
    struct call c = {.alpha = {verify_below(r, 5) ? 0.125 : 0, 0},
                     .beta = {(double)verify_below(r, 3) / 2, 0}};
    const enum gb_type *pair = pairs[verify_below(r, GB_COUNT(pairs))];
    bool complex;

    c.type = pair[0];
    c.type_c = pair[1];
    complex = gb_is_complex(c.type);
    c.m = 1 + verify_below(r, verify_below(r, 3) ? most : 3);
    c.n = 1 + verify_below(r, verify_below(r, 3) ? most : 3);
    c.k = verify_below(r, 3) ? verify_below(r, most) : 16 * verify_below(r, 3);
    c.batch = verify_below(r, 3) ? 1 : 1 + verify_below(r, 3);
    for (int i = 0; i < 3; i++)
        c.kind[i] = (enum kind)verify_below(r, KINDS);
    c.broadcast = verify_below(r, 4) == 0;
    c.listed = lists && c.batch > 1 ? (enum listed)verify_below(r, LISTED) : PLAIN;
    c.conj_a = verify_below(r, 2);
    c.conj_b = verify_below(r, 2);
    c.bias = verify_below(r, 2);
    c.by_columns = verify_below(r, 2);
    c.wide = verify_below(r, 2);
    c.row_scale = verify_below(r, 3) == 0;
    c.col_scale = verify_below(r, 3) == 0;
    c.vector_broadcast = verify_below(r, 2);
    if (complex && c.alpha.re != 0)
        c.alpha.im = (double)verify_below(r, 3) - 1;
    else if (!complex && verify_below(r, 2))
        c.activation = (enum gemmblas_activation)verify_below(r, 6);
    return c;
}

static void describe(const struct call *c, char *text, size_t len)
{
    snprintf(
        text, len,
        "%s->%s %lldx%lldx%lld batch %lld kinds %d%d%d listed %d broadcast %d conj "
        "%d%d bias %d%d%d scales %d%d vectors %d act %d alpha %g,%g beta %g",
        gb_type_name(c->type), gb_type_name(c->type_c), (long long)c->m,
        (long long)c->n, (long long)c->k, (long long)c->batch, c->kind[0], c->kind[1],
        c->kind[2], c->listed, c->broadcast, c->conj_a, c->conj_b, c->bias,
        c->by_columns, c->wide, c->row_scale, c->col_scale, c->vector_broadcast,
        c->activation, c->alpha.re, c->alpha.im, c->beta.re);
}

static struct verify_value entry(int which, int64_t z, int64_t x)
{
    static const double scale[] = {1, 0.5, -2, 2, 1};

    if (which == 0)
        return (struct verify_value){(double)((7 * x + 3 * z) % 9 - 4),
                                     (double)((5 * x + z) % 7 - 3)};
    return (struct verify_value){scale[(x + z + which) % 5], 0};
}

static struct memory vector_new(const struct call *c, int which, enum gb_type t,
                                int64_t count, struct gemmblas_vector *v,
                                const struct theirs *s)
{
    int64_t vectors = c->vector_broadcast ? 1 : c->batch;
    struct memory x = memory_new((size_t)(vectors * count) * size_of(t));

    for (int64_t z = 0; z < vectors; z++)
        for (int64_t i = 0; i < count; i++)
            verify_store(t, x.host + (size_t)(z * count + i) * size_of(t),
                         entry(which, z, i));
    send(s, &x);
    v->data = seen(&x);
    v->batch_stride = c->vector_broadcast ? 0 : count;
    return x;
}

static long double activated(enum gemmblas_activation a, long double x)
{
    switch (a) {
    case GEMMBLAS_ACT_RELU:
        return x < 0 ? 0 : x;
    case GEMMBLAS_ACT_GELU:
        return x * 0.5L * erfcl(-x / sqrtl(2));
    case GEMMBLAS_ACT_GELU_TANH:
        return x / (1 + expl(-2 * sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
    case GEMMBLAS_ACT_SILU:
        return x / (1 + expl(-x));
    case GEMMBLAS_ACT_TANH:
        return tanhl(x);
    default:
        return x;
    }
}

static struct verify_value times(struct verify_value x, struct verify_value y)
{
    return (struct verify_value){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static struct verify_value expected(const struct call *c, const struct operand *a,
                                    const struct operand *b, const struct operand *o,
                                    int64_t z, int64_t i, int64_t j)
{
    struct verify_value sum = {0, 0}, t, alpha = {c->alpha.re, c->alpha.im};
    int64_t vz = c->vector_broadcast ? 0 : z;

    for (int64_t l = 0; l < c->k && (alpha.re != 0 || alpha.im != 0); l++) {
        t = times(value(a, z, i, l, c->conj_a), value(b, z, l, j, c->conj_b));
        sum.re += t.re;
        sum.im += t.im;
    }
    sum = times(alpha, sum);
    if (c->row_scale)
        sum = times(sum, entry(1, vz, i));
    if (c->col_scale)
        sum = times(sum, entry(2, vz, j));
    if (c->beta.re != 0) {
        t = value(o, z, i, j, false);
        sum.re += c->beta.re * t.re;
        sum.im += c->beta.re * t.im;
    }
    if (c->bias) {
        t = entry(0, vz, c->by_columns ? j : i);
        sum.re += t.re;
        sum.im += t.im;
    }
    sum.re = activated(c->activation, sum.re);
    return sum;
}

static bool agrees(const struct call *c, struct verify_value want, const void *at)
{
    static const int digits[GB_TYPES] = {11, 8, 24, 53, 24, 53, 0, 0};
    struct verify_value got = verify_load(c->type_c, at);
    bool short_type = size_of(c->type_c) == 2;
    long double unit = ldexpl(1, 1 - digits[c->type_c]);
    char rounded[16];

    if (c->activation <= GEMMBLAS_ACT_RELU) {
        verify_store(c->type_c, rounded, want);
        want = verify_load(c->type_c, rounded);
        return want.re == got.re && (!gb_is_complex(c->type_c) || want.im == got.im);
    }
    /* an f16 below 2^-14 is a multiple of 2^-24 */
    return fabsl(want.re - got.re) <= fabsl(want.re) * unit * (short_type ? 2 : 256) +
                                          (c->type_c == GB_F16 ? 0x1p-23L : 0x1p-120L);
}

/* Every element, and every byte that belongs to none. */
static bool is_right(const struct call *c, const struct operand *a,
                     const struct operand *b, struct operand *o, char *why, size_t len)
{
    size_t size = size_of(o->type);

    for (int64_t z = 0; z < c->batch; z++)
        for (int64_t j = 0; j < c->n; j++)
            for (int64_t i = 0; i < c->m; i++) {
                size_t at = (size_t)place(o, z, i, j) * size;
                struct verify_value want = expected(c, a, b, o, z, i, j);

                if (!agrees(c, want, o->at.host + at)) {
                    snprintf(why, len, "C(%lld,%lld) of %lld is %Lg, not %Lg",
                             (long long)i, (long long)j, (long long)z,
                             verify_load(o->type, o->at.host + at).re, want.re);
                    return false;
                }
            }
    for (int64_t z = 0; z < c->batch; z++)
        for (int64_t j = 0; j < c->n; j++)
            for (int64_t i = 0; i < c->m; i++) {
                size_t at = (size_t)place(o, z, i, j) * size;

                memcpy(o->before + at, o->at.host + at, size);
            }
    snprintf(why, len, "something beside C was written");
    return memcmp(o->before, o->at.host, o->at.bytes) == 0;
}

static bool run_call(const struct call *c, struct verify_random *r,
                     const struct theirs *t, char *why, size_t len)
{
    enum gb_type acc = size_of(c->type) == 2 ? GB_F32 : c->type;
    enum listed l = c->listed;
    struct operand a = operand_new(c->type, c->m, c->k, c->batch, c->kind[0],
                                   c->broadcast, l, true, r, t);
    struct operand b =
        operand_new(c->type, c->k, c->n, c->batch, c->kind[1], false, l, true, r, t);
    struct operand o = operand_new(c->type_c, c->m, c->n, c->batch, c->kind[2], false,
                                   l, c->beta.re != 0, r, t);
    struct memory bias = {0}, rows = {0}, cols = {0};
    struct gemmblas_product p = {
        .size = sizeof p,
        .type = (int32_t)c->type,
        .type_c = (int32_t)c->type_c,
        .activation = c->activation,
        .flags = (c->by_columns ? GEMMBLAS_BIAS_PER_COLUMN : 0u) |
                 (c->wide ? GEMMBLAS_BIAS_WIDE : 0u) |
                 (l == LIST_ON_DEVICE ? GEMMBLAS_ARRAYS_ON_DEVICE : 0u),
        .m = c->m,
        .n = c->n,
        .k = c->k,
        .batch = c->batch,
        .a = matrix(&a),
        .b = matrix(&b),
        .c = matrix(&o),
        .conj_a = c->conj_a,
        .conj_b = c->conj_b,
        .alpha = {c->alpha.re, c->alpha.im},
        .beta = {c->beta.re, c->beta.im},
        .stream = t->name,
    };
    int status;
    bool good;

    if (c->bias)
        bias = vector_new(c, 0, c->wide ? acc : c->type_c, c->by_columns ? c->n : c->m,
                          &p.bias, t);
    if (c->row_scale)
        rows = vector_new(c, 1, verify_part(acc), c->m, &p.row_scale, t);
    if (c->col_scale)
        cols = vector_new(c, 2, verify_part(acc), c->n, &p.col_scale, t);
    status = gemmblas_gemm(&p);
    fetch(t, &o.at);
    theirs_wait(t);
    if (status != GEMMBLAS_OK)
        snprintf(why, len, "%s", gemmblas_status_text(status));
    good = status == GEMMBLAS_OK && is_right(c, &a, &b, &o, why, len);
    memory_drop(&bias);
    memory_drop(&rows);
    memory_drop(&cols);
    operand_drop(&a);
    operand_drop(&b);
    operand_drop(&o);
    return good;
}

/* How many of `count` random calls went wrong. */
static int run_random(uint64_t seed, int count, int64_t most, bool lists,
                      const struct theirs *t)
{
    struct verify_random r = verify_seed(seed);
    char text[400], why[200];
    int wrong = 0;

    for (int i = 0; i < count; i++) {
        struct call c = draw(&r, most, lists);

        if (run_call(&c, &r, t, why, sizeof why))
            continue;
        describe(&c, text, sizeof text);
        if (wrong++ < 5)
            diag("%s: %s", text, why);
    }
    return wrong;
}

/* ---- matrices on the device -------------------------------------------------------------- */

static void test_device(void)
{
    struct theirs main_stream = theirs_new(false), own = theirs_new(true);

    is_int(0, run_random(1, 300, 70, true, &own), "random products on the device");
    is_int(0, run_random(2, 60, 70, true, &main_stream), "in the default stream");
    is_int(0, run_random(3, 12, 300, true, &own), "larger ones");
    theirs_drop(&main_stream);
    theirs_drop(&own);
}

/* Few tiles and a deep k: partial sums go through memory of the stream. */
static void test_splits(void)
{
    struct theirs own = theirs_new(true);
    struct verify_random r = verify_seed(9);
    char why[200] = "";
    int wrong = 0;

    for (int i = 0; i < 4; i++) {
        struct call c = {.type = pairs[i][0],
                         .type_c = pairs[i][1],
                         .m = 17,
                         .n = 9,
                         .k = 2100,
                         .batch = 1,
                         .kind = {ROWS, GENERAL, ROWS_GAP},
                         .bias = true,
                         .activation = GEMMBLAS_ACT_RELU,
                         .alpha = {0x1p-6, 0},
                         .beta = {1, 0}};

        if (!run_call(&c, &r, &own, why, sizeof why)) {
            diag("%s", why);
            wrong++;
        }
    }
    is_int(0, wrong, "split sums");
    theirs_drop(&own);
}

/* What a stream holds is done in order: C of one product is A of the next, and nobody waits. */
static void test_chain(void)
{
    enum { N = 24, LINKS = 6 };
    struct theirs own = theirs_new(true);
    struct memory x[2] = {memory_new(N * N * 4), memory_new(N * N * 4)};
    struct memory swap = memory_new(N * N * 4);
    float *v = (float *)(void *)x[0].host, *s = (float *)(void *)swap.host;
    int wrong = 0;

    for (int i = 0; i < N * N; i++) {
        v[i] = (float)i;
        s[i] = i / N == (i % N + 1) % N; /* a cyclic shift of rows */
    }
    send(&own, &x[0]);
    send(&own, &swap);
    for (int i = 0; i < LINKS; i++) {
        struct gemmblas_product p = {.size = sizeof p,
                                     .type = GEMMBLAS_F32,
                                     .type_c = GEMMBLAS_F32,
                                     .m = N,
                                     .n = N,
                                     .k = N,
                                     .a = {seen(&swap), NULL, 1, N, 0},
                                     .b = {seen(&x[i % 2]), NULL, 1, N, 0},
                                     .c = {seen(&x[(i + 1) % 2]), NULL, 1, N, 0},
                                     .alpha = {1, 0},
                                     .stream = own.name};

        wrong += gemmblas_gemm(&p) != GEMMBLAS_OK;
    }
    fetch(&own, &x[0]);
    theirs_wait(&own);
    for (int i = 0; i < N; i++)
        wrong += v[i] != (float)((i + LINKS) % N);
    is_int(0, wrong, "a chain of products");
    memory_drop(&x[0]);
    memory_drop(&x[1]);
    memory_drop(&swap);
    theirs_drop(&own);
}

struct worker {
    pthread_t thread;
    uint64_t seed;
    int count, wrong;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct gb_guest guest;
    struct theirs own;

    if (dev)
        must(ops->enter(dev, &guest), "enter");
    own = theirs_new(true);
    w->wrong = run_random(w->seed, w->count, 40, dev != NULL, &own);
    theirs_drop(&own);
    if (dev)
        ops->leave(dev, &guest);
    return NULL;
}

static int run_threads(int count)
{
    struct worker w[4];
    int wrong = 0;

    for (size_t i = 0; i < GB_COUNT(w); i++) {
        w[i] = (struct worker){.seed = 100 + i, .count = count};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            bail("pthread_create");
    }
    for (size_t i = 0; i < GB_COUNT(w); i++) {
        pthread_join(w[i].thread, NULL);
        wrong += w[i].wrong;
    }
    return wrong;
}

/* ---- what is refused --------------------------------------------------------------------- */

static float a0[64], b0[64], c0[64];

static struct gemmblas_product legal(void)
{
    return (struct gemmblas_product){.size = sizeof(struct gemmblas_product),
                                     .type = GEMMBLAS_F32,
                                     .type_c = GEMMBLAS_F32,
                                     .m = 4,
                                     .n = 4,
                                     .k = 4,
                                     .a = {a0, NULL, 1, 4, 0},
                                     .b = {b0, NULL, 1, 4, 0},
                                     .c = {c0, NULL, 1, 4, 0},
                                     .alpha = {1, 0}};
}

#define REFUSED(status, change, name)                                                  \
    do {                                                                               \
        struct gemmblas_product p = legal();                                           \
                                                                                       \
        change;                                                                        \
        memset(c0, 0x7e, sizeof c0);                                                   \
        is_int(status, gemmblas_gemm(&p), name);                                       \
        ok(memcmp(c0, c0 + 1, sizeof c0 - sizeof *c0) == 0, "and nothing is touched"); \
    } while (0)

static void test_refused(void)
{
    static const void *const nulls[2] = {NULL, NULL};
    const void *const twice[] = {c0, c0}, *const irregular[] = {c0 + 32, c0, c0 + 40};
    const void *const apart[] = {c0 + 32, c0, c0 + 48}, *const first[] = {a0, c0 + 8};
    const void *const two[] = {c0, c0 + 32};
    const int64_t many = INT64_C(1) << 40;
    struct {
        struct gemmblas_product p;
        uint64_t more;
    } later = {.p = legal()};

    is_int(GEMMBLAS_E_ARGUMENT, gemmblas_gemm(NULL), "no descriptor");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.size = 8, "a size that no version has");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.size = 0, "no size");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.m = -1, "m");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.n = -1, "n");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.k = -1, "k");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.batch = -1, "batch");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.batch = INT64_MAX, "a batch beyond counting");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.flags = 1u << 20, "flags");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.activation = 17, "an activation");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.a.data = NULL, "no A");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.b.data = NULL, "no B");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.c.data = NULL, "no C");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.a.data = (char *)a0 + 1, "half an element");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.a.col_stride = INT64_MAX / 2, "no such address");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.bias.data = (char *)a0 + 2, "half an entry");
    REFUSED(GEMMBLAS_E_ARGUMENT, (p.batch = 2, p.a.array = nulls), "a list of nothing");
    REFUSED(GEMMBLAS_E_TYPE, p.type_c = GEMMBLAS_F64, "types");
    REFUSED(GEMMBLAS_E_TYPE, p.type = 77, "no type");
    REFUSED(GEMMBLAS_E_TYPE,
            (p.type = p.type_c = GEMMBLAS_C32, p.activation = GEMMBLAS_ACT_RELU),
            "the ReLU of a complex number");
    REFUSED(GEMMBLAS_E_OVERLAP, p.c.col_stride = 3, "columns of C that overlap");
    REFUSED(GEMMBLAS_E_OVERLAP, p.c.row_stride = 0, "rows of C that do");
    REFUSED(GEMMBLAS_E_OVERLAP, (p.batch = 3, p.c.batch_stride = 5),
            "a batch that does");
    REFUSED(GEMMBLAS_E_OVERLAP, p.a.data = c0, "A is C");
    REFUSED(GEMMBLAS_E_OVERLAP, p.b.data = c0 + 15, "B begins in C");
    REFUSED(GEMMBLAS_E_OVERLAP, (p.batch = 2, p.c.array = twice), "one C for two");
    REFUSED(GEMMBLAS_E_OVERLAP, (p.batch = 3, p.c.array = irregular),
            "a list that does");
    REFUSED(GEMMBLAS_E_OVERLAP, (p.batch = 2, p.c.array = two, p.a.array = first),
            "the second A is the first C");
    REFUSED(GEMMBLAS_E_OVERLAP, (p.batch = 2, p.c.array = two, p.b.data = c0 + 40),
            "the B of all is the second C");
    REFUSED(GEMMBLAS_E_OVERLAP, p.bias.data = c0 + 3, "a bias in C");
    REFUSED(GEMMBLAS_E_OVERLAP, p.row_scale.data = c0 + 15, "scales of rows in C");
    REFUSED(GEMMBLAS_E_OVERLAP, p.col_scale.data = c0, "scales of columns in C");
    REFUSED(GEMMBLAS_E_OVERLAP,
            (p.batch = 2, p.c.batch_stride = 32, p.bias.data = c0 + 14,
             p.bias.batch_stride = 20),
            "the bias of another product in C");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.c.row_stride = INT64_MIN, "no stride of C");
    REFUSED(GEMMBLAS_E_ARGUMENT, p.a.col_stride = INT64_MIN, "no stride of A");
    REFUSED(GEMMBLAS_E_ARGUMENT, (p.n = 1, p.b.col_stride = INT64_MAX),
            "no stride of B, though it has one column");
    REFUSED(GEMMBLAS_E_ARGUMENT, (p.batch = 2, p.c.batch_stride = INT64_MIN),
            "no stride of a batch");
    REFUSED(GEMMBLAS_E_MEMORY,
            (p.m = p.k = many, p.n = 1, p.a.col_stride = p.a.row_stride = 0,
             p.b.row_stride = 0),
            "a matrix that cannot be counted, of one element");

    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "a legal call");
    later.p.size = sizeof later;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "a longer descriptor");
    later.more = 1;
    is_int(GEMMBLAS_E_ARGUMENT, gemmblas_gemm(&later.p), "that means more");
    later.p = legal();
    later.p.m = later.p.n = 2;
    later.p.k = 0;
    later.p.c.row_stride = 2;
    later.p.c.col_stride = 3; /* 0 2 3 5 */
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "columns that pass each other");
    later.p = legal();
    later.p.a.data = c0 + 4;
    later.p.a.col_stride = later.p.c.col_stride = 8;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "blocks of one array");
    later.p = legal();
    later.p.m = 0;
    later.p.c.data = NULL;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "nothing to do");
    later.p = legal();
    later.p.alpha[0] = 0;
    later.p.a.data = later.p.b.data = NULL;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "alpha 0 needs no A and B");
    later.p.k = INT64_MAX;
    later.p.batch = 2;
    later.p.c.batch_stride = 16;
    later.p.a.array = later.p.b.array = (const void *const *)(uintptr_t)64;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "nor their lists");
    later.p = legal();
    later.p.batch = 3;
    later.p.c.array = apart;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "an array of no one distance");
    later.p = legal();
    later.p.batch = 1;
    later.p.c.batch_stride = later.p.a.batch_stride = INT64_MIN;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "the batch stride of one product");
    /* of 4 tokens three vectors for each of two heads, of 2 elements */
    later.p = legal();
    later.p.n = later.p.k = later.p.batch = 2;
    later.p.a = (struct gemmblas_matrix){c0, NULL, 12, 1, 2};
    later.p.c = (struct gemmblas_matrix){c0 + 8, NULL, 12, 1, 2};
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "batches that interleave");
    later.p.c.data = c0 + 1;
    is_int(GEMMBLAS_E_OVERLAP, gemmblas_gemm(&later.p), "or share an element");
    later.p = legal();
    later.p.c.col_stride = 8;
    later.p.bias.data = c0 + 12;
    is_int(GEMMBLAS_OK, gemmblas_gemm(&later.p), "a bias between columns of C");
    ok(strcmp(gemmblas_status_text(GEMMBLAS_E_PLACE), gemmblas_status_text(99)) != 0 &&
           strcmp(gemmblas_status_text(-1), gemmblas_status_text(99)) == 0,
       "texts");
}

/* ---- overlaps, against counting ---------------------------------------------------------- */

enum { POOL = 4096, MIDDLE = POOL / 2 };

static float pool[POOL];

/* Whose elements are where: false when one is there twice. */
static bool mark(unsigned char *at, const struct gemmblas_matrix *x, int64_t rows,
                 int64_t cols, int64_t batch)
{
    bool once = true;

    for (int64_t z = 0; z < batch; z++)
        for (int64_t j = 0; j < cols; j++)
            for (int64_t i = 0; i < rows; i++) {
                const float *first = x->array ? x->array[z] : x->data;
                int64_t e = first - pool + i * x->row_stride + j * x->col_stride +
                            (x->array ? 0 : z * x->batch_stride);

                once = once && !at[e];
                at[e] = 1;
            }
    return once;
}

static struct gemmblas_matrix random_matrix(struct verify_random *r, const void **list,
                                            int64_t batch)
{
    struct gemmblas_matrix x = {.data = pool + MIDDLE + verify_below(r, 60)};

    x.row_stride = verify_below(r, 2) ? 1 : verify_below(r, 25) - 12;
    x.col_stride = verify_below(r, 2) ? 12 : verify_below(r, 25) - 12;
    x.batch_stride = verify_below(r, 49) - 24;
    if (verify_below(r, 2))
        x.array = list;
    for (int64_t z = 0; z < batch; z++)
        list[z] = pool + MIDDLE + verify_below(r, 100);
    return x;
}

/* Nothing shared is ever taken; and where strides are the same, what is not shared is taken if
 * it is without A. */
static void test_overlap(void)
{
    struct verify_random r = verify_seed(21);
    int missed = 0, refused = 0, taken = 0, shared = 0;

    for (int i = 0; i < 20000; i++) {
        static unsigned char c_at[POOL], a_at[POOL];
        const void *lists[2][4];
        struct gemmblas_product p = legal();
        bool apart, alike = verify_below(&r, 2), meet = false;
        int status, alone;

        p.m = 1 + verify_below(&r, 4);
        p.n = 1 + verify_below(&r, 4);
        p.k = 1 + verify_below(&r, 4);
        p.batch = 1 + verify_below(&r, 3);
        p.b = (struct gemmblas_matrix){b0, NULL, 1, 4, 0};
        p.c = random_matrix(&r, lists[0], p.batch);
        alone = gemmblas_gemm(&p);
        p.a = random_matrix(&r, lists[1], p.batch);
        if (alike) {
            p.a.row_stride = p.c.row_stride;
            p.a.col_stride = p.c.col_stride;
            p.a.batch_stride = p.c.batch_stride;
        }
        memset(c_at, 0, sizeof c_at);
        memset(a_at, 0, sizeof a_at);
        apart = mark(c_at, &p.c, p.m, p.n, p.batch);
        mark(a_at, &p.a, p.m, p.k, p.batch);
        for (int e = 0; e < POOL; e++)
            meet = meet || (c_at[e] && a_at[e]);
        status = gemmblas_gemm(&p);
        missed += (meet || !apart) && status != GEMMBLAS_E_OVERLAP;
        refused += alike && !meet && alone == GEMMBLAS_OK && status != GEMMBLAS_OK;
        taken += status == GEMMBLAS_OK;
        shared += meet && apart;
    }
    ok(missed == 0 && refused == 0 && taken > 1000 && shared > 1000,
       "overlaps: %d missed, %d refused for nothing, %d taken, %d shared", missed,
       refused, taken, shared);
}

static void test_mixed(void)
{
    struct memory x = memory_new(256);
    struct gemmblas_product p = legal();

    p.c.data = seen(&x);
    is_int(GEMMBLAS_E_PLACE, gemmblas_gemm(&p), "C alone on the device");
    p = legal();
    p.a.data = p.b.data = seen(&x);
    is_int(GEMMBLAS_E_PLACE, gemmblas_gemm(&p), "C alone on the host");
    p = legal();
    p.bias.data = seen(&x);
    is_int(GEMMBLAS_E_PLACE, gemmblas_gemm(&p), "a bias on the device");
    memory_drop(&x);
}

/* Of one product, batch strides say nothing, and cost none of the kernels for aligned ones. */
static void test_stride_of_one(void)
{
    enum { SIDE = 64 };
    struct memory x = memory_new((size_t)3 * SIDE * SIDE * sizeof(uint16_t));
    struct theirs stream = theirs_new(false);
    struct gemmblas_product p = {
        .size = sizeof p,
        .type = GEMMBLAS_F16,
        .type_c = GEMMBLAS_F16,
        .m = SIDE,
        .n = SIDE,
        .k = SIDE,
        .batch = 1,
        .alpha = {1, 0},
    };
    struct gemmblas_matrix *const matrix[] = {&p.a, &p.b, &p.c};

    for (size_t i = 0; i < GB_COUNT(matrix); i++)
        *matrix[i] = (struct gemmblas_matrix){
            .data = seen(&x) + i * SIDE * SIDE * sizeof(uint16_t),
            .row_stride = 1,
            .col_stride = SIDE,
            .batch_stride = 2 * (int64_t)i + 3,
        };
    is_int(GEMMBLAS_OK, gemmblas_gemm(&p), "one product with odd batch strides");
    theirs_wait(&stream);
    theirs_drop(&stream);
    memory_drop(&x);
}

/* ---- without a device that could be used -------------------------------------------------- */

static void take_device(struct gb_guest *guest)
{
    struct gb_engine *engine = gb_dispatch_engine(true);

    if (!engine)
        bail("no device");
    dev = gb_engine_device(engine);
    ops = dev->ops;
    must(ops->enter(dev, guest), "enter");
}

static struct gemmblas_product on_device(const struct memory *x)
{
    struct gemmblas_product p = legal();

    p.a.data = p.b.data = seen(x);
    p.c.data = seen(x) + 64;
    return p;
}

/* The device is lost, comes back, and is lost for good: its memory is nobody's then. */
static int child_lost(void)
{
    struct gemmblas_product p = legal(), host = legal();
    struct gb_guest guest;
    struct memory x;

    for (int i = 0; i < 2; i++) {
        take_device(&guest);
        x = memory_new(256);
        p = on_device(&x);
        ops->leave(dev, &guest);
        if (gemmblas_gemm(&p) != GEMMBLAS_E_DEVICE)
            bail("a launch that failed");
    }
    if (gb_dispatch_engine(true))
        bail("the device is still there");
    if (gemmblas_gemm(&host) != GEMMBLAS_OK)
        bail("no product on the host");
    return gemmblas_gemm(&p) == GEMMBLAS_E_DEVICE ? 0 : 1;
}

/* What was the parent's device is none of a forked child's. */
static int child_forked(void)
{
    struct gemmblas_product p, host = legal();
    struct gb_guest guest;
    static struct memory x; /* never given back: the parent ends without its device */
    int status;
    pid_t pid;

    take_device(&guest);
    x = memory_new(256);
    p = on_device(&x);
    ops->leave(dev, &guest);
    pid = fork();
    if (pid == 0)
        _exit(gemmblas_gemm(&p) == GEMMBLAS_E_DEVICE ? gemmblas_gemm(&host) : 99);
    status = child_wait(pid, 20);
    return status == GEMMBLAS_OK ? 0 : 1;
}

/* Small products in host memory, or none that may use a device, open none. */
static int child_cold(void)
{
    struct gemmblas_product p = legal();

    if (gemmblas_gemm(&p) != GEMMBLAS_OK)
        bail("no product");
    return gb_dispatch_engine(false) ? 1 : 0;
}

static void test_without(void)
{
    static const struct {
        const char *name, *mode, *change[4];
    } cases[] = {
        {"memory of a lost device",
         "lost",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_FAULT=launch@1+", NULL}},
        {"memory of the parent's device",
         "forked",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_FAULT", NULL}},
        {"small products open no device",
         "cold",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE", NULL}},
        {"nor do those for the CPU",
         "cold",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=cpu", NULL}},
    };
    struct child c;

    for (size_t i = 0; i < GB_COUNT(cases); i++) {
        child_run(&c, cases[i].mode, cases[i].change, 60);
        ok(child_passed(&c), "%s", cases[i].name);
    }
}

/* ---- matrices on the host, in children --------------------------------------------------- */

/* Large enough to be cut where memory is short: each panel has its own entries of vectors. */
static int run_panels(const struct theirs *none)
{
    struct verify_random r = verify_seed(11);
    char text[400], why[200];
    int wrong = 0;

    for (int i = 0; i < 8; i++) {
        struct call c = {.type = pairs[i][0],
                         .type_c = pairs[i][1],
                         .m = 301,
                         .n = 280,
                         .k = 40,
                         .batch = 1,
                         .kind = {ROWS, COLUMNS, i % 2 ? ROWS : COLUMNS_GAP},
                         .bias = true,
                         .by_columns = i / 2 % 2,
                         .wide = i / 4 % 2,
                         .row_scale = true,
                         .col_scale = true,
                         .alpha = {0.25, 0},
                         .beta = {i % 3, 0}};

        if (run_call(&c, &r, none, why, sizeof why))
            continue;
        describe(&c, text, sizeof text);
        diag("%s: %s", text, why);
        wrong++;
    }
    return wrong;
}

/* Infinities and NaN of C stay what they are, also where fused sums are not the processor's. */
static int run_infinite(void)
{
    static const double special[] = {INFINITY, -INFINITY, NAN, 1.5};
    double a[16], b[16], c[16], bias[4] = {1, 1, 1, 1};
    struct gemmblas_product p = {.size = sizeof p,
                                 .type = GEMMBLAS_F64,
                                 .type_c = GEMMBLAS_F64,
                                 .m = 4,
                                 .n = 4,
                                 .k = 4,
                                 .a = {a, NULL, 1, 4, 0},
                                 .b = {b, NULL, 1, 4, 0},
                                 .c = {c, NULL, 1, 4, 0},
                                 .alpha = {1, 0},
                                 .beta = {1, 0},
                                 .bias = {bias, 0}};
    int wrong = 0;

    for (int i = 0; i < 16; i++) {
        a[i] = b[i] = 1;
        c[i] = special[i % 4];
    }
    wrong += gemmblas_gemm(&p) != GEMMBLAS_OK;
    for (int i = 0; i < 16; i++) {
        double want = special[i % 4] + 5;

        wrong += isnan(want) ? !isnan(c[i]) : !(c[i] == want);
    }
    return wrong;
}

static int child_host(void)
{
    struct theirs none = theirs_new(false);
    int wrong = run_infinite() + run_panels(&none) +
                run_random(5, 250, 60, false, &none) + run_threads(30);

    fprintf(stderr, "%d wrong\n", wrong);
    return wrong != 0;
}

static void test_host(void)
{
    static const struct {
        const char *name, *change[6];
    } cases[] = {
        {"without a device", {"GEMMBLAS_DEVICE=none", NULL}},
        {"where the CPU is asked for", {"GEMMBLAS_ROUTE=cpu", NULL}},
        {"by the device", {"GEMMBLAS_ROUTE=gpu", NULL}},
        {"by panels",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu", "GEMMBLAS_MEM_LIMIT=400K",
          NULL}},
        {"by a device that fails",
         {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu", "GEMMBLAS_MEM_LIMIT=400K",
          "GEMMBLAS_FAULT=copy_out@5+", NULL}},
    };
    struct child c;

    for (size_t i = 0; i < GB_COUNT(cases); i++) {
        child_run(&c, "host", cases[i].change, 240);
        ok(child_passed(&c), "products on the host, %s", cases[i].name);
    }
}

int main(int argc, char **argv)
{
    struct gb_engine *engine;
    struct gb_guest guest;

    if (argc > 1 && strcmp(argv[1], "host") == 0)
        return child_host();
    if (argc > 1 && strcmp(argv[1], "lost") == 0)
        return child_lost();
    if (argc > 1 && strcmp(argv[1], "forked") == 0)
        return child_forked();
    if (argc > 1 && strcmp(argv[1], "cold") == 0)
        return child_cold();
    plan_lazy();
    test_refused();
    test_overlap();
    engine = gb_dispatch_engine(true);
    if (engine) {
        dev = gb_engine_device(engine);
        ops = dev->ops;
        diag("%s", dev->info.name);
        must(ops->enter(dev, &guest), "enter");
        test_mixed();
        test_stride_of_one();
        test_device();
        test_splits();
        test_chain();
        is_int(0, run_threads(25), "threads");
        ops->leave(dev, &guest);
        dev = NULL;
    } else {
        skip("no device for GEMMBLAS_DEVICE");
    }
    test_without();
    test_host();
    return 0;
}
