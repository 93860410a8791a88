/* SPDX-License-Identifier: BSD-3-Clause */
/* Running choices on the device and timing them. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "gemm_args.h"
#include "half.h"
#include "kernels.h"
#include "launch.h"
#include "log.h"
#include "util.h"

enum {
    POOL = 8 << 20, /* bytes of random elements */
    GRAIN = 256,    /* where a piece of the pool may begin; a step of the sets */
    MOST_SETS = 1024,
    EMU_SETS = 2, /* enough to rotate */
    MOST_LAUNCHES = 20000,
};

static const uint32_t most_align = 256; /* of device memory, by every back end */

/* ---- random elements ------------------------------------------------------------------ */

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Four uniform parts of one draw: normal enough for the power that a multiplier takes. */
static float normal(uint64_t *state)
{
    uint64_t x = draw(state);
    float sum = (float)(x & 0xffff) + (float)(x >> 16 & 0xffff) +
                (float)(x >> 32 & 0xffff) + (float)(x >> 48);

    return (sum * 0x1p-16F - 2) * 1.7320508F;
}

static void store(enum gb_type type, void *to, size_t i, float value)
{
    switch (type) {
    case GB_F16:
        ((uint16_t *)to)[i] = gb_f32_to_f16(value);
        return;
    case GB_BF16:
        ((uint16_t *)to)[i] = gb_f32_to_bf16(value);
        return;
    case GB_F32:
    case GB_C32:
        ((float *)to)[i] = value;
        return;
    case GB_F64:
    case GB_C64:
        ((double *)to)[i] = value;
        return;
    case GB_I8:
        ((int8_t *)to)[i] = (int8_t)(value * 32);
        return;
    case GB_I32:
        ((int32_t *)to)[i] = (int32_t)(value * 32);
        return;
    case GB_TYPES:
        return;
    }
}

static double load(enum gb_type type, const void *from, size_t i)
{
    switch (type) {
    case GB_F16:
        return (double)gb_f16_to_f32(((const uint16_t *)from)[i]);
    case GB_BF16:
        return (double)gb_bf16_to_f32(((const uint16_t *)from)[i]);
    case GB_F32:
    case GB_C32:
        return (double)((const float *)from)[i];
    case GB_F64:
    case GB_C64:
        return ((const double *)from)[i];
    case GB_I8:
        return ((const int8_t *)from)[i];
    case GB_I32:
        return ((const int32_t *)from)[i];
    case GB_TYPES:
        break;
    }
    return 0;
}

/* ---- the device ----------------------------------------------------------------------- */

enum gb_status trial_open(struct trial_bench *b, const struct gb_device_ref *ref)
{
    enum gb_status s;

    *b = (struct trial_bench){.ops = ref->ops, .random = 1, .filled = GB_TYPES};
    s = b->ops->open(ref->ordinal, &b->dev);
    if (s != GB_SUCCESS)
        return s;
    s = b->ops->enter(b->dev, &b->guest);
    if (s != GB_SUCCESS)
        goto close;
    s = b->ops->stream_create(b->dev, &b->stream);
    if (s == GB_SUCCESS)
        s = b->ops->host_alloc(b->dev, POOL, &b->pinned);
    if (s == GB_SUCCESS)
        s = b->ops->timer_create(b->dev, &b->start);
    if (s == GB_SUCCESS)
        s = b->ops->timer_create(b->dev, &b->stop);
    if (s == GB_SUCCESS)
        return s;
    trial_close(b);
    return s;

close:
    b->ops->close(b->dev);
    return s;
}

void trial_close(struct trial_bench *b)
{
    for (int i = 0; i < GB_FAMILIES && b->module[i]; i++)
        b->ops->module_unload(b->dev, b->module[i]);
    b->ops->event_destroy(b->dev, b->start);
    b->ops->event_destroy(b->dev, b->stop);
    b->ops->host_free(b->dev, b->pinned);
    b->ops->stream_destroy(b->dev, b->stream);
    b->ops->leave(b->dev, &b->guest);
    b->ops->close(b->dev);
}

static enum gb_status function_of(struct trial_bench *b, const char *family,
                                  const char *symbol, struct gb_function **f)
{
    const struct gb_image *image = gb_image_find(family, &b->dev->info);
    enum gb_status s = GB_SUCCESS;
    int i = 0;

    while (i < GB_FAMILIES && b->module[i] && strcmp(b->family[i], family) != 0)
        i++;
    if (i == GB_FAMILIES)
        return GB_E_NOMEM;
    if (!b->module[i]) {
        s = b->ops->module_load(b->dev, family, image ? image->data : NULL,
                                image ? image->bytes : 0, &b->module[i]);
        if (s != GB_SUCCESS)
            return s;
        b->family[i] = family;
    }
    return b->ops->module_get(b->dev, b->module[i], symbol, f);
}

/* ---- operands ------------------------------------------------------------------------- */

static int64_t batch_of(const struct gb_problem *p)
{
    return gb_max(p->batch, 1);
}

static int64_t cols_a(const struct gb_problem *p)
{
    return gb_transposed(p->transa) ? p->m : p->k;
}

static int64_t cols_b(const struct gb_problem *p)
{
    return gb_transposed(p->transb) ? p->k : p->n;
}

/* SIZE_MAX / 4 where it is more than that. */
static size_t matrix_bytes(enum gb_type type, int64_t ld, int64_t cols, int64_t batch)
{
    const size_t most = SIZE_MAX / 4;
    size_t elements, bytes;

    if (!gb_mul3((size_t)ld, (size_t)cols, (size_t)batch, &elements) ||
        !gb_mul3(elements, gb_type_size(type), 1, &bytes) || bytes > most - GRAIN)
        return most;
    return (size_t)gb_round_up((int64_t)bytes, GRAIN);
}

static size_t bytes_of_a(const struct gb_problem *p)
{
    return matrix_bytes(p->type, p->lda, cols_a(p), batch_of(p));
}

static size_t bytes_of_b(const struct gb_problem *p)
{
    return matrix_bytes(p->type, p->ldb, cols_b(p), batch_of(p));
}

static size_t bytes_of_c(const struct gb_problem *p)
{
    return matrix_bytes(p->type_c, p->ldc, p->n, batch_of(p));
}

size_t trial_bytes(const struct gb_problem *p)
{
    const size_t bytes = bytes_of_a(p) + bytes_of_b(p) + bytes_of_c(p);

    return bytes < SIZE_MAX / 4 ? bytes : SIZE_MAX;
}

static uint32_t alignment(const struct gb_problem *p, int64_t ld)
{
    uint64_t bits = most_align | (uint64_t)ld * gb_type_size(p->type);

    return (uint32_t)(bits & -bits);
}

static void fill_pool(struct trial_bench *b, enum gb_type type)
{
    size_t n = POOL / gb_type_size(gb_type_part(type));

    if (b->filled == type)
        return;
    for (size_t i = 0; i < n; i++)
        store(type, b->pinned, i, normal(&b->random));
    b->filled = type;
}

/* Pieces of the pool, each from another place, so that no two operands are alike. */
static enum gb_status fill(struct trial_bench *b, gb_devptr at, size_t bytes)
{
    enum gb_status s = GB_SUCCESS;

    while (bytes > 0 && s == GB_SUCCESS) {
        size_t from = draw(&b->random) % (POOL / 2 / GRAIN) * GRAIN;
        size_t len = bytes < POOL - from ? bytes : POOL - from;

        s = b->ops->copy_in(b->dev, b->stream, at, len, (char *)b->pinned + from, len,
                            len, 1);
        at += len;
        bytes -= len;
    }
    return s;
}

static int rotation(const struct trial_bench *b, size_t bytes, size_t room)
{
    size_t sets = 3 * b->dev->info.l2 / bytes + 1;

    if (b->dev->info.vendor == GB_EMU)
        return EMU_SETS;
    if (sets > room / bytes)
        sets = room / bytes;
    return sets < MOST_SETS ? (int)sets : MOST_SETS;
}

enum gb_status trial_begin(struct trial *x, struct trial_bench *b,
                           const struct gb_problem *p)
{
    const struct gb_device_ops *ops = b->ops;
    size_t room, total;
    enum gb_status s;

    *x = (struct trial){
        .bench = b,
        .p = *p,
        .align_a = alignment(p, p->lda),
        .align_b = alignment(p, p->ldb),
        .bytes_a = bytes_of_a(p),
        .bytes_b = bytes_of_b(p),
        .bytes_c = bytes_of_c(p),
    };
    x->p.alpha = (struct gb_scalar){.re = 1};
    x->p.beta = (struct gb_scalar){.re = 0};
    s = ops->mem_info(b->dev, &room, &total);
    if (s != GB_SUCCESS)
        return s;
    x->sets = rotation(b, trial_bytes(p), room / 2); /* workspaces want some, too */
    if (x->sets < 1)
        return GB_E_NOMEM;
    s = ops->mem_alloc(b->dev, x->bytes_a * (size_t)x->sets, &x->a);
    if (s == GB_SUCCESS)
        s = ops->mem_alloc(b->dev, x->bytes_b * (size_t)x->sets, &x->b);
    if (s == GB_SUCCESS)
        s = ops->mem_alloc(b->dev, x->bytes_c * (size_t)x->sets, &x->c);
    if (s == GB_SUCCESS) {
        fill_pool(b, p->type);
        s = fill(b, x->a, x->bytes_a * (size_t)x->sets);
    }
    if (s == GB_SUCCESS)
        s = fill(b, x->b, x->bytes_b * (size_t)x->sets);
    if (s == GB_SUCCESS)
        s = ops->stream_sync(b->dev, b->stream);
    if (s != GB_SUCCESS)
        trial_end(x);
    return s;
}

void trial_end(struct trial *x)
{
    struct trial_bench *b = x->bench;

    b->ops->stream_sync(b->dev, b->stream);
    b->ops->mem_free(b->dev, x->a);
    b->ops->mem_free(b->dev, x->b);
    b->ops->mem_free(b->dev, x->c);
    b->ops->mem_free(b->dev, x->partial);
    b->ops->mem_free(b->dev, x->copies);
}

/* ---- one product ---------------------------------------------------------------------- */

static char layout(enum gb_trans t)
{
    return gb_transposed(t) ? 't' : 'n';
}

static struct gb_gemm_args arguments(const struct trial *x, const struct gb_choice *c,
                                     int set)
{
    const struct gb_problem *p = &x->p;
    struct gb_gemm_args g = gb_plan_args(p, c);

    g.a = x->a + x->bytes_a * (size_t)set;
    g.b = x->b + x->bytes_b * (size_t)set;
    g.c = x->c + x->bytes_c * (size_t)set;
    g.partial = x->partial;
    g.a_batch = p->lda * cols_a(p);
    g.b_batch = p->ldb * cols_b(p);
    g.c_batch = p->ldc * p->n;
    return g;
}

/* At least so much; what was there before is given back. */
static enum gb_status enlarge(struct trial *x, gb_devptr *at, size_t *have, size_t want)
{
    struct trial_bench *b = x->bench;
    enum gb_status s;

    if (want <= *have)
        return GB_SUCCESS;
    s = b->ops->stream_sync(b->dev, b->stream);
    if (s != GB_SUCCESS)
        return s;
    b->ops->mem_free(b->dev, *at);
    *at = 0;
    *have = 0;
    s = b->ops->mem_alloc(b->dev, want, at);
    if (s == GB_SUCCESS)
        *have = want;
    return s;
}

static enum gb_status workspaces(struct trial *x, const struct gb_choice *c)
{
    const struct gb_problem *p = &x->p;
    const struct gb_gemm_args g = arguments(x, c, 0);
    enum gb_status s = GB_SUCCESS;
    size_t bytes;

    if (c->splits > 1) {
        if (!gb_mul3((size_t)p->m * (size_t)c->splits,
                     (size_t)p->n * (size_t)batch_of(p),
                     gb_type_size(c->kernel->type_acc), &bytes))
            return GB_E_NOMEM;
        s = enlarge(x, &x->partial, &x->partial_bytes, bytes);
    }
    if (c->repair && s == GB_SUCCESS)
        s = enlarge(x, &x->copies, &x->copies_bytes,
                    gb_launch_repair_bytes(c->kernel, c->repair, layout(p->transa),
                                           layout(p->transb), &g));
    return s;
}

struct functions {
    struct gb_function *gemm, *reduce, *repair;
};

static enum gb_status functions_of(struct trial *x, const struct gb_choice *c,
                                   struct functions *f)
{
    struct trial_bench *b = x->bench;
    char symbol[96];
    enum gb_status s;

    gb_kernel_symbol(c->kernel, layout(x->p.transa), layout(x->p.transb), symbol,
                     sizeof symbol);
    s = function_of(b, c->kernel->family, symbol, &f->gemm);
    if (s == GB_SUCCESS && c->splits > 1) {
        gb_kernel_reduce_symbol(c->kernel, symbol, sizeof symbol);
        s = function_of(b, c->kernel->family, symbol, &f->reduce);
    }
    if (s == GB_SUCCESS && c->repair)
        s = function_of(b, GB_REPAIR_FAMILY, gb_launch_repair_symbol(c->kernel),
                        &f->repair);
    return s;
}

static enum gb_status queue(struct trial *x, const struct gb_choice *c,
                            const struct functions *f, int set)
{
    struct trial_bench *b = x->bench;
    char la = layout(x->p.transa), lb = layout(x->p.transb);
    struct gb_gemm_args g = arguments(x, c, set);
    enum gb_status s = GB_SUCCESS;

    if (c->repair)
        s = gb_launch_repair(b->dev, b->stream, f->repair, c->kernel, c->repair, la, lb,
                             x->copies, &g);
    if (s == GB_SUCCESS)
        s = gb_launch_gemm(b->dev, b->stream, f->gemm, c->kernel, la, lb, &g, 0);
    if (s == GB_SUCCESS && !(g.flags & GB_G_EPILOGUE))
        s = gb_launch_reduce(b->dev, b->stream, f->reduce, c->kernel, &g, 0);
    return s;
}

enum gb_status trial_time(struct trial *x, const struct gb_choice *c, int launches,
                          double *us)
{
    struct trial_bench *b = x->bench;
    struct functions f;
    enum gb_status s = workspaces(x, c);

    if (s == GB_SUCCESS)
        s = functions_of(x, c, &f);
    if (s == GB_SUCCESS)
        s = b->ops->event_record(b->dev, b->start, b->stream);
    for (int i = 0; i < launches && s == GB_SUCCESS; i++) {
        s = queue(x, c, &f, x->at);
        x->at = (x->at + 1) % x->sets;
    }
    if (s == GB_SUCCESS)
        s = b->ops->event_record(b->dev, b->stop, b->stream);
    if (s == GB_SUCCESS)
        s = b->ops->event_sync(b->dev, b->stop);
    if (s == GB_SUCCESS)
        s = b->ops->timer_elapsed(b->dev, b->start, b->stop, us);
    if (s == GB_SUCCESS)
        *us /= launches;
    return s;
}

enum gb_status trial_calibrate(struct trial *x, const struct gb_choice *c,
                               double block_us, int *launches)
{
    enum { PROBES = 3 };
    double us, host;
    enum gb_status s = trial_time(x, c, 1, &us); /* loads the kernel */

    if (s == GB_SUCCESS && us > block_us) {
        *launches = 1;
        return s;
    }
    host = cmd_now();
    if (s == GB_SUCCESS)
        s = trial_time(x, c, PROBES, &us);
    host = 1e6 * (cmd_now() - host) / PROBES;
    if (s != GB_SUCCESS)
        return s;
    /* the emulated device's clock is not the host's */
    us = us > host ? us : host;
    *launches =
        (int)gb_max(gb_min((int64_t)(block_us / (us + 0.01)), MOST_LAUNCHES), 1);
    return s;
}

/* ---- results -------------------------------------------------------------------------- */

/* C of the first set, without what is between its columns. */
static enum gb_status result(struct trial *x, const struct gb_choice *c, char *to)
{
    struct trial_bench *b = x->bench;
    const struct gb_problem *p = &x->p;
    size_t size = gb_type_size(p->type_c), pitch = size * (size_t)p->ldc,
           width = size * (size_t)p->m;
    int64_t cols = p->n * batch_of(p);
    int64_t rows_most = POOL / (int64_t)size;
    struct functions f;
    enum gb_status s = workspaces(x, c);

    if (s == GB_SUCCESS)
        s = functions_of(x, c, &f);
    if (s == GB_SUCCESS)
        s = queue(x, c, &f, 0);
    b->filled = GB_TYPES; /* the pool is the way to the host */
    for (int64_t j = 0; j < cols && s == GB_SUCCESS;) {
        int64_t many = gb_max(gb_min(POOL / (int64_t)width, cols - j), 1);

        for (int64_t i = 0; i < p->m && s == GB_SUCCESS; i += rows_most) {
            size_t part = size * (size_t)gb_min(rows_most, p->m - i);

            s = b->ops->copy_out(b->dev, b->stream, b->pinned, part,
                                 x->c + pitch * (size_t)j + size * (size_t)i, pitch,
                                 part, (size_t)many);
            if (s == GB_SUCCESS)
                s = b->ops->stream_sync(b->dev, b->stream);
            if (s == GB_SUCCESS)
                memcpy(to + width * (size_t)j + size * (size_t)i, b->pinned,
                       part * (size_t)many);
        }
        j += many;
    }
    return s;
}

/* The unit of rounding. */
static double unit_of(enum gb_type type)
{
    switch (type) {
    case GB_F16:
        return 0x1p-11;
    case GB_BF16:
        return 0x1p-8;
    case GB_F32:
    case GB_C32:
        return 0x1p-24;
    case GB_F64:
    case GB_C64:
        return 0x1p-53;
    case GB_I8:
    case GB_I32:
    case GB_TYPES:
        break;
    }
    return 0;
}

/* Operands are normal, so that an entry is about sqrt(k) and so are its partial sums. Errors of
 * k roundings add up like random steps or, where the adder truncates, all one way. */
static double tolerance(const struct gb_problem *p, const struct gb_kernel *k)
{
    double deep = (double)p->k;

    return unit_of(k->type_acc) * deep * (16 + sqrt(deep) / 4);
}

static bool close_enough(const struct gb_problem *p, const struct gb_choice *c,
                         const char *one, const char *two)
{
    size_t n = (size_t)p->m * (size_t)p->n * (size_t)batch_of(p) *
               (gb_is_complex(p->type_c) ? 2 : 1);
    double allowed = tolerance(p, c->kernel), unit = unit_of(p->type_c);

    for (size_t i = 0; i < n; i++) {
        double u = load(p->type_c, one, i), v = load(p->type_c, two, i);

        if (!(fabs(u - v) <= allowed + 2 * unit * (fabs(u) + fabs(v))))
            return false;
    }
    return true;
}

enum gb_status trial_same(struct trial *x, const struct gb_choice *c,
                          const struct gb_choice *d, bool *same)
{
    const struct gb_problem *p = &x->p;
    size_t bytes =
        gb_type_size(p->type_c) * (size_t)p->m * (size_t)p->n * (size_t)batch_of(p);
    char *one = calloc(1, bytes), *two = calloc(1, bytes);
    enum gb_status s = one && two ? result(x, c, one) : GB_E_NOMEM;

    if (s == GB_SUCCESS)
        s = result(x, d, two);
    if (s == GB_SUCCESS)
        *same = strcmp(c->kernel->family, d->kernel->family) == 0 &&
                        c->splits == d->splits && c->split_len == d->split_len &&
                        c->tail == 0 && d->tail == 0
                    ? memcmp(one, two, bytes) == 0
                    : close_enough(p, c, one, two);
    free(one);
    free(two);
    return s;
}
