/* SPDX-License-Identifier: BSD-3-Clause */
/* Queueing a product in a stream of the program's. */
#include "onstream.h"

#include "hold.h"
#include "launch.h"
#include "util.h"

enum { ALIGN = 256 };

/* What a call holds while it queues. */
struct run {
    struct gb_engine *engine;
    struct gb_device *dev;
    const struct gb_onstream *o;
    struct gb_gemm_args g; /* with addresses */
    struct gb_stream *stream;
    struct gb_function *gemm, *reduce, *repair, *list, *pack[GB_ON_OPERANDS];
    struct gb_emulated emulated;
    struct gb_integer integer;
    gb_devptr memory; /* 0: none is needed */
    size_t bytes;     /* of it that have been given out */
    gb_devptr lists[GB_ON_OPERANDS], columns[GB_ON_OPERANDS], repaired;
};

static enum gb_helper pack_of(size_t size)
{
    return size == 1   ? GB_HELP_PACK_1
           : size == 2 ? GB_HELP_PACK_2
           : size == 4 ? GB_HELP_PACK_4
           : size == 8 ? GB_HELP_PACK_8
                       : GB_HELP_PACK_16;
}

static bool emulated(const struct run *r)
{
    return r->o->kernel->flags & GB_K_EMULATED;
}

static bool integer(const struct run *r)
{
    return r->o->kernel->flags & GB_K_INTEGER;
}

/* Does the row bring operands to where it reads them by itself? */
static bool prepares(const struct run *r)
{
    return emulated(r) || integer(r);
}

static bool reduces(const struct run *r)
{
    return !(r->g.flags & GB_G_EPILOGUE);
}

static enum gb_status find_functions(struct run *r)
{
    const struct gb_onstream *o = r->o;
    enum gb_status s =
        emulated(r) ? gb_engine_emulated(r->engine, o->kernel, o->a, o->b, &r->emulated)
        : integer(r) ? gb_engine_integer(r->engine, o->kernel, &r->integer)
                     : gb_engine_gemm(r->engine, o->kernel, o->a, o->b, &r->gemm);

    if (s == GB_SUCCESS && reduces(r))
        s = gb_engine_reduce(r->engine, o->kernel, &r->reduce);
    if (s == GB_SUCCESS && o->repair && !prepares(r))
        s = gb_engine_helper(r->engine, gb_engine_repair_of(o->kernel), &r->repair);
    for (int i = 0; i < GB_ON_OPERANDS && s == GB_SUCCESS; i++) {
        const struct gb_on_operand *x = &o->operand[i];

        if (x->list)
            s = gb_engine_helper(r->engine, GB_HELP_LIST, &r->list);
        if (s == GB_SUCCESS && x->packed)
            s = gb_engine_helper(r->engine, pack_of(x->size), &r->pack[i]);
    }
    return s;
}

/* The next `bytes` of the call's memory, of which only the size counts at first. False when
 * there is no such number. */
static bool take(struct run *r, size_t bytes, gb_devptr *at)
{
    *at = r->memory + r->bytes;
    if (__builtin_add_overflow(r->bytes, bytes, &r->bytes) || r->bytes > SIZE_MAX / 2)
        return false;
    r->bytes = (r->bytes + ALIGN - 1) / ALIGN * ALIGN;
    return true;
}

static bool take_sized(struct run *r, int64_t a, int64_t b, size_t size, gb_devptr *at)
{
    size_t bytes;

    return gb_mul3((size_t)a, (size_t)b, size, &bytes) && take(r, bytes, at);
}

/* Where everything lies: once to learn how much it is, once in earnest. */
static bool lay_out(struct run *r)
{
    const struct gb_onstream *o = r->o;
    struct gb_gemm_args g = r->g;

    r->bytes = 0;
    for (int i = 0; i < GB_ON_OPERANDS; i++) {
        const struct gb_on_operand *x = &o->operand[i];

        if (x->list && !take_sized(r, g.batch, 1, sizeof(uint64_t), &r->lists[i]))
            return false;
        if (x->packed &&
            !take_sized(r, x->copy.to_batch, x->copy.batch, x->size, &r->columns[i]))
            return false;
    }
    if (emulated(r))
        return take(r, gb_emulated_bytes(o->kernel, &g), &r->g.partial);
    if (integer(r))
        return take(r, gb_integer_bytes(&g, &o->offsets), &r->g.partial);
    if (o->repair &&
        !take(r, gb_launch_repair_bytes(o->kernel, o->repair, o->a, o->b, &g),
              &r->repaired))
        return false;
    return !reduces(r) || take_sized(r, g.m * g.splits, g.n * g.batch,
                                     gb_type_size(o->kernel->type_acc), &r->g.partial);
}

static enum gb_status take_memory(struct run *r)
{
    enum gb_status s;

    if (!lay_out(r))
        return GB_E_NOMEM;
    if (r->bytes == 0)
        return GB_SUCCESS;
    s = r->dev->ops->alloc_queued(r->dev, r->stream, r->bytes, &r->memory);
    if (s == GB_SUCCESS)
        lay_out(r);
    return s;
}

/* The kernel gets an operand's columns, its list, or the program's own matrix. */
static void address(struct run *r)
{
    uint64_t *const at[] = {&r->g.a, &r->g.b, &r->g.c};
    uint64_t *const list[] = {&r->g.a_list, &r->g.b_list, &r->g.c_list};

    for (int i = 0; i < GB_ON_OPERANDS; i++) {
        if (r->o->operand[i].packed)
            *at[i] = r->columns[i];
        else if (r->o->operand[i].list)
            *list[i] = r->lists[i];
    }
}

/* Between the program's matrix and its columns: there, or back. */
static enum gb_status move(struct run *r, int i, bool back)
{
    const struct gb_on_operand *x = &r->o->operand[i];
    struct gb_pack_args p = x->copy;

    if (x->list)
        p.from_list = r->lists[i];
    p.to = r->columns[i];
    if (back) {
        const struct gb_pack_args there = p;

        p.from = there.to;
        p.from_list = 0;
        p.from_row = there.to_row;
        p.from_col = there.to_col;
        p.from_batch = there.to_batch;
        p.to = there.from;
        p.to_list = there.from_list;
        p.to_row = there.from_row;
        p.to_col = there.from_col;
        p.to_batch = there.from_batch;
    }
    return gb_launch_pack(r->dev, r->stream, r->pack[i], &p);
}

static enum gb_status prepare(struct run *r)
{
    enum gb_status s = GB_SUCCESS;

    for (int i = 0; i < GB_ON_OPERANDS && s == GB_SUCCESS; i++) {
        const struct gb_on_operand *x = &r->o->operand[i];

        if (x->list)
            s = gb_launch_list(r->dev, r->stream, r->list, r->lists[i], x->list,
                               r->g.batch);
        if (s == GB_SUCCESS && x->packed &&
            (i != GB_ON_C || !(r->g.flags & GB_G_BETA_ZERO)))
            s = move(r, i, false);
    }
    return s;
}

static enum gb_status queue(struct run *r)
{
    const struct gb_onstream *o = r->o;
    enum gb_status s = prepare(r);

    if (s == GB_SUCCESS && o->repair && !prepares(r))
        s = gb_launch_repair(r->dev, r->stream, r->repair, o->kernel, o->repair, o->a,
                             o->b, r->repaired, &r->g);
    if (s == GB_SUCCESS && emulated(r))
        s = gb_emulated_launch(r->dev, r->stream, &r->emulated, o->kernel, &r->g,
                               r->g.partial, 0);
    else if (s == GB_SUCCESS && integer(r))
        s = gb_integer_launch(r->dev, r->stream, &r->integer, o->kernel, &r->g,
                              &o->offsets, r->g.partial, 0);
    else if (s == GB_SUCCESS)
        s = gb_launch_gemm(r->dev, r->stream, r->gemm, o->kernel, o->a, o->b, &r->g, 0);
    if (s == GB_SUCCESS && reduces(r))
        s = gb_launch_reduce(r->dev, r->stream, r->reduce, o->kernel, &r->g, 0);
    if (s == GB_SUCCESS && o->operand[GB_ON_C].packed)
        s = move(r, GB_ON_C, true);
    return s;
}

static enum gb_status run(struct run *r)
{
    const struct gb_device_ops *ops = r->dev->ops;
    enum gb_status s = find_functions(r);

    if (s == GB_SUCCESS)
        s = ops->stream_borrow(r->dev, r->o->stream, &r->stream);
    if (s != GB_SUCCESS)
        return s;
    s = take_memory(r);
    if (s == GB_SUCCESS) {
        address(r);
        s = queue(r);
        ops->free_queued(r->dev, r->stream, r->memory);
    }
    ops->stream_return(r->dev, r->stream);
    return s;
}

enum gb_status gb_onstream_run(struct gb_engine *engine, const struct gb_onstream *o)
{
    struct run r = {.engine = engine, .o = o, .g = o->g};
    struct gb_guest guest;
    struct gb_hold hold;
    enum gb_status s;

    if (gb_engine_foreign(engine))
        return GB_E_ABSENT;
    gb_hold_begin(&hold);
    s = gb_engine_begin(engine);
    if (s == GB_SUCCESS) {
        r.dev = engine->dev;
        s = r.dev->ops->enter(r.dev, &guest);
        if (s == GB_SUCCESS) {
            s = run(&r);
            r.dev->ops->leave(r.dev, &guest);
        }
        if (s == GB_E_DEVICE)
            gb_engine_fail(engine, r.dev);
        gb_engine_done(engine);
    }
    gb_hold_end(&hold);
    return s;
}
