/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a plan: panels of C through a lane, with uploads, kernels, downloads and commits of
 * neighbouring panels under way at once.
 *
 * The calling thread alone speaks to the device; copy threads only move bytes. Four cursors
 * chase each other, and each goes as far as the one before it allows:
 *   up       pieces of operands are filled into slots and sent, in order, step by step;
 *   launched steps (a panel of C and a range of k) whose operands have all been sent;
 *   fetch    pieces of finished panels that are being copied into slots;
 *   final    pieces that have been committed to the program's C, in order.
 * What the device must not do too early is ordered by events on its streams, never by the
 * host, so that all of it is queued ahead. */
#include "exec.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "gemm_args.h"
#include "log.h"
#include "tile_map.h"

enum {
    INLINE_BYTES = 256 << 10, /* a call that moves less is copied by its own thread */
    LEAST_PIECE = 512 << 10,  /* of an upload, unless slots are smaller */
    FAULT_BYTES = 1 << 20,    /* a C smaller than this is not faulted in ahead */
    SIGNAL_NS = 20 * 1000000, /* between looks at pending signals */
    POLL_NS = 30 * 1000,      /* nap while both directions are under way */
    BLOCK_NS = 1000 * 1000,   /* nothing moved for so long: wait for one direction */
    REDUCE_BLOCKS = 4096,
    MAX_GRID = INT32_MAX,
};

/* 2-D copies of the drivers take pitches below 2 GiB. */
static const size_t max_pitch = (size_t)1 << 30;

/* A matrix of the program, as stored. */
struct operand {
    char *at;
    int64_t ld;
    size_t size; /* of an element */
    bool direct; /* page-locked: the device reads it itself */
};

struct run {
    struct gb_engine *engine;
    struct gb_lane *lane;
    const struct gb_plan *plan;
    struct gb_exec_stats *stats;
    struct gb_function *gemm, *reduce;
    struct operand a, b, c;
    int64_t steps_k;      /* ranges of k per panel */
    int n_a, n_b, n_c;    /* buffers in use */
    int64_t first, limit; /* panels of this run */
    int64_t skip;         /* pieces of the first that are final already */
    size_t up_bytes;      /* most of one upload piece */
    bool by_hand;         /* too little to wake a thread for */

    /* The upload cursor: pieces of one operand of one step. */
    int64_t up_step;
    int up_stage; /* 0: A, 1: B, 2: C, 3: the step is complete */
    int64_t up_piece, up_pieces, up_rows, up_cols;
    struct gb_rect up_rect;
    struct gb_buffer *up_buffer;
    const struct operand *up_operand;
    uint64_t up_filled, up_sent; /* ring positions */

    int64_t launched; /* steps */

    int64_t fetch_panel, fetch_piece;
    uint64_t fetched, arrived, final; /* ring positions */
    int64_t final_panel;

    int64_t moved_ns, looked_ns;
};

static int64_t nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- device operations ---------------------------------------------------------------- */

static enum gb_status copy_rows(struct run *r, bool in, gb_devptr dev_at,
                                size_t dev_pitch, char *host, size_t host_pitch,
                                size_t width, size_t height)
{
    struct gb_device *dev = r->engine->dev;

    if (in)
        return dev->ops->copy_in(dev, r->lane->up, dev_at, dev_pitch, host, host_pitch,
                                 width, height);
    return dev->ops->copy_out(dev, r->lane->down, host, host_pitch, dev_at, dev_pitch,
                              width, height);
}

/* A copy whose pitches the driver's 2-D copies refuse goes row by row. When the driver is
 * short of memory the pool gives its own back, once. */
static enum gb_status copy_piece(struct run *r, bool in, gb_devptr dev_at,
                                 size_t dev_pitch, char *host, size_t host_pitch,
                                 size_t width, size_t height)
{
    bool singly = height > 1 && (dev_pitch > max_pitch || host_pitch > max_pitch);
    size_t rows = singly ? 1 : height;

    for (size_t y = 0; y < height; y += rows) {
        gb_devptr d = dev_at + y * dev_pitch;
        char *h = host + y * host_pitch;
        enum gb_status s = copy_rows(r, in, d, dev_pitch, h, host_pitch, width, rows);

        if (s == GB_E_NOMEM) {
            gb_pool_trim(&r->engine->pool);
            s = copy_rows(r, in, d, dev_pitch, h, host_pitch, width, rows);
        }
        if (s != GB_SUCCESS)
            return s;
    }
    if (in)
        r->stats->bytes_up += width * height;
    else
        r->stats->bytes_down += width * height;
    return GB_SUCCESS;
}

static enum gb_status launch(struct run *r, struct gb_function *f, int64_t grid,
                             uint32_t threads, uint32_t smem,
                             const struct gb_gemm_args *args)
{
    struct gb_device *dev = r->engine->dev;
    uint32_t blocks = (uint32_t)gb_min(grid, MAX_GRID);
    enum gb_status s = dev->ops->launch(dev, r->lane->compute, f, blocks, threads, smem,
                                        args, sizeof *args);

    if (s == GB_E_NOMEM) {
        gb_pool_trim(&r->engine->pool);
        s = dev->ops->launch(dev, r->lane->compute, f, blocks, threads, smem, args,
                             sizeof *args);
    }
    r->stats->launches += s == GB_SUCCESS;
    return s;
}

static enum gb_status record(struct run *r, struct gb_event *e, struct gb_stream *s)
{
    return r->engine->dev->ops->event_record(r->engine->dev, e, s);
}

static enum gb_status wait_for(struct run *r, struct gb_event *e, struct gb_stream *s)
{
    return r->engine->dev->ops->event_wait(r->engine->dev, e, s);
}

/* ---- geometry ------------------------------------------------------------------------- */

static bool reads_c(const struct run *r)
{
    return r->plan->p.beta.re != 0 || r->plan->p.beta.im != 0;
}

static bool uses_partial(const struct gb_plan *plan)
{
    return plan->splits > 1 || plan->panel_k < plan->p.k;
}

static int64_t panel_of(const struct run *r, int64_t step)
{
    return r->first + step / r->steps_k;
}

/* A step counts from the first panel of the run. */
static int64_t steps(const struct run *r, int64_t panel)
{
    return (panel - r->first) * r->steps_k;
}

static bool ends_panel(const struct run *r, int64_t step)
{
    return step % r->steps_k == r->steps_k - 1;
}

static void k_range(const struct run *r, int64_t step, int64_t *begin, int64_t *end)
{
    *begin = step % r->steps_k * r->plan->panel_k;
    *end = gb_min(*begin + r->plan->panel_k, r->plan->p.k);
}

/* op(X) over rows x cols, as stored. */
static struct gb_rect stored(enum gb_trans trans, int64_t i, int64_t j, int64_t m,
                             int64_t n)
{
    if (gb_transposed(trans))
        return (struct gb_rect){.i = j, .j = i, .m = n, .n = m};
    return (struct gb_rect){.i = i, .j = j, .m = m, .n = n};
}

static struct gb_rect rect_a(const struct run *r, int64_t step)
{
    struct gb_rect c = gb_plan_panel(r->plan, panel_of(r, step));
    int64_t begin, end;

    k_range(r, step, &begin, &end);
    return stored(r->plan->p.transa, c.i, begin, c.m, end - begin);
}

static struct gb_rect rect_b(const struct run *r, int64_t step)
{
    struct gb_rect c = gb_plan_panel(r->plan, panel_of(r, step));
    int64_t begin, end;

    k_range(r, step, &begin, &end);
    return stored(r->plan->p.transb, begin, c.j, end - begin, c.n);
}

/* Which chunk of A, of B a step needs. */
static int64_t chunk_a(const struct run *r, int64_t step)
{
    struct gb_rect c = gb_plan_panel(r->plan, panel_of(r, step));

    return c.i / r->plan->panel_m * r->steps_k + step % r->steps_k;
}

static int64_t chunk_b(const struct run *r, int64_t step)
{
    struct gb_rect c = gb_plan_panel(r->plan, panel_of(r, step));

    return c.j / r->plan->panel_n * r->steps_k + step % r->steps_k;
}

static struct gb_buffer *holder(struct gb_buffer *buffers, int n, int64_t chunk)
{
    for (int i = 0; i < n; i++) {
        if (buffers[i].chunk == chunk)
            return &buffers[i];
    }
    return NULL;
}

static struct gb_buffer *buffer_c(const struct run *r, int64_t panel)
{
    return &r->lane->c[(panel - r->first) % r->n_c];
}

/* Leading dimension of a panel of C on the device. Short columns lie densely, so that a piece
 * is one run of memory: devices copy short rows slowly. */
static int64_t ld_c(const struct gb_plan *plan, int64_t rows)
{
    size_t size = gb_type_size(plan->p.type_c);

    if ((size_t)rows * size < 1024 && plan->kernel->align <= size)
        return rows;
    return gb_plan_ld(rows, plan->p.type_c);
}

/* ---- upload --------------------------------------------------------------------------- */

/* Point the cursor at an operand that has to be sent. */
static void up_start(struct run *r, const struct operand *x, struct gb_buffer *buffer,
                     struct gb_rect rect)
{
    size_t pitch = (size_t)buffer->ld * x->size;

    r->up_operand = x;
    r->up_buffer = buffer;
    r->up_rect = rect;
    if (pitch <= r->up_bytes) {
        r->up_rows = rect.m;
        r->up_cols = (int64_t)(r->up_bytes / pitch);
    } else {
        r->up_rows = gb_min(rect.m, (int64_t)(r->up_bytes / x->size));
        r->up_cols = 1;
    }
    r->up_piece = 0;
    r->up_pieces = gb_rect_pieces(rect, r->up_rows, r->up_cols);
}

/* A chunk is on the device already, or takes the buffer that was needed longest ago; false
 * when all are needed by steps that have not been launched. */
static bool up_chunk(struct run *r, const struct operand *x, struct gb_buffer *buffers,
                     int n, int64_t chunk, struct gb_rect rect)
{
    struct gb_buffer *buffer = holder(buffers, n, chunk);

    if (buffer) {
        buffer->last = r->up_step;
        return true;
    }
    buffer = &buffers[0];
    if (n > 1 && buffers[1].last < buffer->last)
        buffer = &buffers[1];
    if (buffer->last >= r->launched)
        return false;
    buffer->chunk = chunk;
    buffer->last = r->up_step;
    buffer->ld = gb_plan_ld(rect.m, r->plan->p.type);
    up_start(r, x, buffer, rect);
    return true;
}

/* Can panel's buffer of C be written? Its last user's pieces must all be on their way out, so
 * that `idle` has been recorded. */
static bool c_is_free(const struct run *r, int64_t panel)
{
    return r->fetch_panel > panel - r->n_c;
}

/* Move the cursor to the next piece; false when it has to wait or there is none. */
static bool up_seek(struct run *r)
{
    while (r->up_piece == r->up_pieces) {
        int64_t step = r->up_step, panel = panel_of(r, step);

        if (panel >= r->limit)
            return false;
        switch (r->up_stage) {
        case 0:
            if (!up_chunk(r, &r->a, r->lane->a, r->n_a, chunk_a(r, step),
                          rect_a(r, step)))
                return false;
            break;
        case 1:
            if (!up_chunk(r, &r->b, r->lane->b, r->n_b, chunk_b(r, step),
                          rect_b(r, step)))
                return false;
            break;
        case 2:
            if (!reads_c(r) || !ends_panel(r, step))
                break;
            if (!c_is_free(r, panel))
                return false;
            buffer_c(r, panel)->ld = ld_c(r->plan, gb_plan_panel(r->plan, panel).m);
            up_start(r, &r->c, buffer_c(r, panel), gb_plan_panel(r->plan, panel));
            break;
        default:
            r->up_step++;
            r->up_stage = 0;
            continue;
        }
        r->up_stage++;
    }
    return true;
}

/* Describe the cursor's piece in the ring and have it filled. */
static void up_fill(struct run *r)
{
    int i = (int)(r->up_filled % (unsigned)r->lane->n_up);
    struct gb_up *u = &r->lane->ups[i];
    const struct operand *x = r->up_operand;
    const struct gb_buffer *buffer = r->up_buffer;
    struct gb_rect rect = r->up_rect;
    struct gb_rect piece = gb_rect_piece(rect, r->up_rows, r->up_cols, r->up_piece);
    char *from = x->at + (piece.i + piece.j * x->ld) * (int64_t)x->size;
    size_t from_pitch = (size_t)x->ld * x->size;
    size_t width = (size_t)piece.m * x->size, height = (size_t)piece.n;

    u->width = width;
    u->height = height;
    u->dst_pitch = (size_t)buffer->ld * x->size;
    u->dst = buffer->block.ptr + (gb_devptr)((piece.i - rect.i) * (int64_t)x->size) +
             (gb_devptr)(piece.j - rect.j) * u->dst_pitch;
    u->step = r->up_step;
    u->before = r->up_piece == 0 ? buffer->idle : NULL;
    u->after = r->up_piece == r->up_pieces - 1 ? buffer->ready : NULL;
    if (x->direct) {
        u->src = from;
        u->src_pitch = from_pitch;
        atomic_store_explicit(&u->fill.left, 0, memory_order_relaxed);
    } else {
        char *slot = gb_lane_slot_up(r->lane, i);

        u->src = slot;
        u->src_pitch = width;
        if (piece.m == rect.m && u->dst_pitch * height <= r->lane->slot_bytes) {
            /* with the pitch of the device it is one run of memory, padding included */
            u->src_pitch = u->dst_pitch;
            u->width = u->dst_pitch * (height - 1) + width;
            u->height = 1;
        }
        gb_copy_make(&u->fill, slot, u->src_pitch, from, from_pitch, width, height);
        if (r->by_hand)
            gb_copy_now(&u->fill);
        else
            gb_stage_submit(&r->engine->stage, &u->fill, &r->lane->party);
    }
    r->up_piece++;
    r->up_filled++;
}

static struct gb_up *up_at(const struct run *r, uint64_t position)
{
    return &r->lane->ups[position % (unsigned)r->lane->n_up];
}

/* Is the slot that the next piece would take still being read by the device? */
static enum gb_status up_slot_busy(struct run *r, bool *busy)
{
    struct gb_device *dev = r->engine->dev;
    enum gb_status s = GB_SUCCESS;
    bool done = true;

    if (r->up_filled - r->up_sent == (unsigned)r->lane->n_up)
        done = false;
    else if (r->up_filled >= (unsigned)r->lane->n_up)
        s = dev->ops->event_query(dev, up_at(r, r->up_filled)->sent, &done);
    *busy = !done;
    return s;
}

static enum gb_status up_send(struct run *r)
{
    struct gb_up *u = up_at(r, r->up_sent);
    enum gb_status s = GB_SUCCESS;

    if (u->before)
        s = wait_for(r, u->before, r->lane->up);
    if (s == GB_SUCCESS)
        s = copy_piece(r, true, u->dst, u->dst_pitch, (char *)u->src, u->src_pitch,
                       u->width, u->height);
    if (s == GB_SUCCESS)
        s = record(r, u->sent, r->lane->up);
    if (s == GB_SUCCESS && u->after)
        s = record(r, u->after, r->lane->up);
    r->up_sent++;
    return s;
}

static enum gb_status pump_up(struct run *r, bool *moved)
{
    enum gb_status s = GB_SUCCESS;

    while (s == GB_SUCCESS && up_seek(r)) {
        bool busy;

        s = up_slot_busy(r, &busy);
        if (s != GB_SUCCESS || busy)
            break;
        up_fill(r);
        *moved = true;
        if (r->by_hand)
            s = up_send(r);
    }
    while (s == GB_SUCCESS && r->up_sent < r->up_filled &&
           gb_copy_done(&up_at(r, r->up_sent)->fill)) {
        s = up_send(r);
        *moved = true;
    }
    return s;
}

/* ---- kernels -------------------------------------------------------------------------- */

/* Every step below this one has been sent. */
static int64_t sent_steps(const struct run *r)
{
    return r->up_sent < r->up_filled ? up_at(r, r->up_sent)->step : r->up_step;
}

static void fill_args(const struct run *r, int64_t step, const struct gb_buffer *a,
                      const struct gb_buffer *b, struct gb_gemm_args *g)
{
    const struct gb_plan *plan = r->plan;
    const struct gb_problem *p = &plan->p;
    struct gb_rect panel = gb_plan_panel(plan, panel_of(r, step));
    const struct gb_buffer *c = buffer_c(r, panel_of(r, step));
    bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
    int64_t begin, end;

    k_range(r, step, &begin, &end);
    *g = (struct gb_gemm_args){
        .a = a->block.ptr,
        .b = b->block.ptr,
        .c = c->block.ptr,
        .partial = r->lane->partial.block.ptr,
        .m = panel.m,
        .n = panel.n,
        .k = p->k,
        .k_begin = begin,
        .k_end = end,
        .a_m = ta ? a->ld : 1,
        .a_k = ta ? 1 : a->ld,
        .b_k = tb ? b->ld : 1,
        .b_n = tb ? 1 : b->ld,
        .ldc = ld_c(plan, panel.m),
        .split_len = plan->split_len,
        .row0 = panel.i,
        .col0 = panel.j,
        .alpha = {p->alpha.re, p->alpha.im},
        .beta = {p->beta.re, p->beta.im},
        .splits = plan->splits,
        .split0 = (int32_t)gb_split_first(begin, plan->split_len),
        .split_count = (int32_t)gb_split_touched(begin, end, plan->split_len),
        .batch = 1,
        .group_m = plan->group_m,
    };
    if (gb_is_complex(p->type)) {
        if (p->transa == GB_C || p->transa == GB_CONJ)
            g->flags |= GB_G_CONJ_A;
        if (p->transb == GB_C || p->transb == GB_CONJ)
            g->flags |= GB_G_CONJ_B;
    }
    if (!reads_c(r))
        g->flags |= GB_G_BETA_ZERO;
    if (ends_panel(r, step) && plan->splits == 1)
        g->flags |= GB_G_EPILOGUE;
}

static enum gb_status launch_kernels(struct run *r, int64_t step,
                                     const struct gb_gemm_args *g)
{
    const struct gb_kernel *k = r->plan->kernel;
    struct gb_tile_map map;
    enum gb_status s;

    gb_tile_map_init(&map, g, k->tile_m, k->tile_n);
    s = launch(r, r->gemm, gb_tile_map_units(&map), k->threads, k->smem, g);
    if (s == GB_SUCCESS && r->reduce && ends_panel(r, step))
        s = launch(r, r->reduce,
                   gb_min(gb_ceil_div(g->m * g->n, GB_REDUCE_THREADS), REDUCE_BLOCKS),
                   GB_REDUCE_THREADS, 0, g);
    return s;
}

static enum gb_status launch_step(struct run *r)
{
    int64_t step = r->launched, panel = panel_of(r, step);
    struct gb_buffer *a = holder(r->lane->a, r->n_a, chunk_a(r, step));
    struct gb_buffer *b = holder(r->lane->b, r->n_b, chunk_b(r, step));
    struct gb_buffer *c = buffer_c(r, panel);
    struct gb_event *computed = r->lane->computed[c - r->lane->c];
    struct gb_stream *compute = r->lane->compute;
    struct gb_gemm_args g;
    enum gb_status s;

    assert(a && b);
    fill_args(r, step, a, b, &g);
    s = wait_for(r, a->ready, compute);
    if (s == GB_SUCCESS)
        s = wait_for(r, b->ready, compute);
    if (s == GB_SUCCESS && ends_panel(r, step))
        s = wait_for(r, reads_c(r) ? c->ready : c->idle, compute);
    if (s == GB_SUCCESS)
        s = launch_kernels(r, step, &g);
    if (s == GB_SUCCESS)
        s = record(r, a->idle, compute);
    if (s == GB_SUCCESS)
        s = record(r, b->idle, compute);
    if (s == GB_SUCCESS && ends_panel(r, step))
        s = record(r, computed, compute);
    if (s == GB_SUCCESS && ends_panel(r, step))
        s = wait_for(r, computed, r->lane->down);
    r->launched++;
    return s;
}

static enum gb_status pump_kernels(struct run *r, bool *moved)
{
    enum gb_status s = GB_SUCCESS;

    while (s == GB_SUCCESS && r->launched < gb_min(sent_steps(r), steps(r, r->limit)) &&
           (!ends_panel(r, r->launched) || c_is_free(r, panel_of(r, r->launched)))) {
        s = launch_step(r);
        *moved = true;
    }
    return s;
}

/* ---- download and commit -------------------------------------------------------------- */

static struct gb_down *down_at(const struct run *r, uint64_t position)
{
    return &r->lane->downs[position % (unsigned)r->lane->n_down];
}

static enum gb_status fetch_piece(struct run *r)
{
    int i = (int)(r->fetched % (unsigned)r->lane->n_down);
    struct gb_down *d = &r->lane->downs[i];
    const struct gb_plan *plan = r->plan;
    struct gb_rect panel = gb_plan_panel(plan, r->fetch_panel);
    struct gb_rect piece =
        gb_rect_piece(panel, plan->piece_rows, plan->piece_cols, r->fetch_piece);
    struct gb_buffer *c = buffer_c(r, r->fetch_panel);
    size_t width = (size_t)piece.m * r->c.size, height = (size_t)piece.n;
    size_t from_pitch = (size_t)ld_c(plan, panel.m) * r->c.size, pitch = width;
    size_t to_pitch = (size_t)r->c.ld * r->c.size;
    gb_devptr from = c->block.ptr +
                     (gb_devptr)((piece.i - panel.i) * (int64_t)r->c.size) +
                     (gb_devptr)(piece.j - panel.j) * from_pitch;
    char *slot = gb_lane_slot_down(r->lane, i);
    char *to = r->c.at + (piece.i + piece.j * r->c.ld) * (int64_t)r->c.size;
    enum gb_status s;

    if (piece.m == panel.m && from_pitch * height <= r->lane->slot_bytes) {
        pitch = from_pitch;
        s = copy_piece(r, false, from, 0, slot, 0, pitch * (height - 1) + width, 1);
    } else {
        s = copy_piece(r, false, from, from_pitch, slot, pitch, width, height);
    }
    if (s == GB_SUCCESS)
        s = record(r, d->arrived, r->lane->down);
    gb_copy_make(&d->commit, to, to_pitch, slot, pitch, width, height);
    r->fetched++;
    r->fetch_piece++;
    d->last =
        r->fetch_piece == gb_rect_pieces(panel, plan->piece_rows, plan->piece_cols);
    if (d->last) {
        if (s == GB_SUCCESS)
            s = record(r, c->idle, r->lane->down);
        r->fetch_panel++;
        r->fetch_piece = 0;
    }
    return s;
}

static void commit(struct run *r)
{
    struct gb_down *d = down_at(r, r->arrived++);

    if (r->by_hand)
        gb_copy_now(&d->commit);
    else
        gb_stage_submit(&r->engine->stage, &d->commit, &r->lane->party);
}

/* Count the pieces that have reached the program, in order. */
static bool count_final(struct run *r)
{
    bool moved = false;

    while (r->final < r->arrived && gb_copy_done(&down_at(r, r->final)->commit)) {
        r->stats->done++;
        r->final_panel += down_at(r, r->final)->last;
        r->final++;
        moved = true;
    }
    return moved;
}

static enum gb_status pump_down(struct run *r, bool *moved)
{
    struct gb_device *dev = r->engine->dev;
    enum gb_status s = GB_SUCCESS;

    while (s == GB_SUCCESS && r->arrived < r->fetched) {
        bool done;

        s = dev->ops->event_query(dev, down_at(r, r->arrived)->arrived, &done);
        if (s != GB_SUCCESS || !done)
            break;
        commit(r);
        *moved = true;
    }
    if (count_final(r))
        *moved = true;
    while (s == GB_SUCCESS && r->fetched - r->final < (unsigned)r->lane->n_down &&
           steps(r, r->fetch_panel + 1) <= r->launched) {
        s = fetch_piece(r);
        *moved = true;
    }
    return s;
}

/* ---- waiting -------------------------------------------------------------------------- */

/* Nothing can go on at once. Sleep on the one thing that matters, or nap where there are
 * several: a driver can only be asked to wait for one event, and not for a copy thread. */
static enum gb_status doze(struct run *r)
{
    struct gb_device *dev = r->engine->dev;
    struct gb_stage *stage = &r->engine->stage;
    struct gb_copy *copy = NULL;
    struct gb_event *up = NULL, *down = NULL;

    if (r->up_sent < r->up_filled)
        copy = &up_at(r, r->up_sent)->fill;
    else if (r->up_piece < r->up_pieces)
        up = up_at(r, r->up_filled)->sent; /* the next piece waits for this slot */
    if (r->arrived < r->fetched)
        down = down_at(r, r->arrived)->arrived;
    else if (!copy && r->final < r->arrived)
        copy = &down_at(r, r->final)->commit;
    assert(copy || up || down);

    if (copy && gb_stage_help(stage))
        return GB_SUCCESS;
    if (copy) {
        gb_stage_wait(stage, copy, up || down ? POLL_NS : -1);
        return GB_SUCCESS;
    }
    if (up && down && nanoseconds() - r->moved_ns < BLOCK_NS) {
        const struct timespec nap = {.tv_nsec = POLL_NS};

        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        return GB_SUCCESS;
    }
    return dev->ops->event_sync(dev, down ? down : up);
}

/* Ask now and then whether the caller has a signal to take; if so, start no further panel. */
static void look_for_signals(struct run *r, const struct gb_hold *hold, int64_t now)
{
    int64_t reached;

    if (now - r->looked_ns < SIGNAL_NS)
        return;
    r->looked_ns = now;
    if (!gb_hold_wanted(hold))
        return;
    reached = r->first + gb_ceil_div(r->launched, r->steps_k);
    r->limit = gb_min(r->limit, gb_max(reached, r->first + 1));
}

static enum gb_status pump(struct run *r, const struct gb_hold *hold)
{
    enum gb_status s = GB_SUCCESS;

    r->moved_ns = r->looked_ns = nanoseconds();
    while (r->final_panel < r->limit) {
        bool moved = false;

        if (gb_engine_lost(r->engine))
            return GB_E_DEVICE; /* another lane has found out */
        s = pump_up(r, &moved);
        if (s == GB_SUCCESS)
            s = pump_kernels(r, &moved);
        if (s == GB_SUCCESS)
            s = pump_down(r, &moved);
        if (s == GB_SUCCESS && !moved)
            s = doze(r);
        if (s != GB_SUCCESS)
            return s;
        if (moved)
            r->moved_ns = nanoseconds();
        look_for_signals(r, hold, moved ? r->moved_ns : nanoseconds());
    }
    return s;
}

/* Let nothing of ours touch the program's memory, or this lane's, any more. */
static enum gb_status settle(struct run *r, enum gb_status s)
{
    struct gb_device *dev = r->engine->dev;
    struct gb_stage *stage = &r->engine->stage;
    struct gb_stream *const streams[] = {r->lane->up, r->lane->compute, r->lane->down};

    gb_stage_cancel(stage, &r->lane->fault);
    for (uint64_t i = r->up_sent; i < r->up_filled; i++)
        gb_stage_cancel(stage, &up_at(r, i)->fill);
    for (uint64_t i = r->final; i < r->arrived; i++)
        gb_stage_wait(stage, &down_at(r, i)->commit, -1);
    count_final(r);
    for (size_t i = 0; i < GB_COUNT(streams) && s != GB_E_DEVICE; i++) {
        enum gb_status synced = dev->ops->stream_sync(dev, streams[i]);

        if (synced != GB_SUCCESS)
            s = synced;
    }
    return s;
}

/* ---- one run -------------------------------------------------------------------------- */

static enum gb_status take_buffer(struct run *r, struct gb_buffer *buffer, int64_t rows,
                                  int64_t cols, size_t size)
{
    size_t bytes;

    buffer->chunk = -1;
    buffer->last = -1;
    if (!gb_mul3((size_t)rows, (size_t)cols, size, &bytes))
        return GB_E_NOMEM;
    return gb_pool_get(&r->engine->pool, bytes, &buffer->block);
}

static enum gb_status take_chunks(struct run *r, struct gb_buffer *buffers, int n,
                                  struct gb_rect most)
{
    enum gb_status s = GB_SUCCESS;

    for (int i = 0; i < n && s == GB_SUCCESS; i++)
        s = take_buffer(r, &buffers[i], gb_plan_ld(most.m, r->plan->p.type), most.n,
                        gb_type_size(r->plan->p.type));
    return s;
}

static void give_buffers(struct run *r)
{
    struct gb_pool *pool = &r->engine->pool;

    for (int i = 0; i < 2; i++) {
        gb_pool_put(pool, &r->lane->a[i].block);
        gb_pool_put(pool, &r->lane->b[i].block);
        gb_pool_put(pool, &r->lane->c[i].block);
    }
    gb_pool_put(pool, &r->lane->partial.block);
}

static enum gb_status try_buffers(struct run *r)
{
    const struct gb_plan *plan = r->plan;
    const struct gb_problem *p = &plan->p;
    int64_t pm = plan->panel_m, pn = plan->panel_n, pk = plan->panel_k;
    enum gb_status s =
        take_chunks(r, r->lane->a, r->n_a, stored(p->transa, 0, 0, pm, pk));

    if (s == GB_SUCCESS)
        s = take_chunks(r, r->lane->b, r->n_b, stored(p->transb, 0, 0, pk, pn));
    for (int i = 0; i < r->n_c && s == GB_SUCCESS; i++)
        s = take_buffer(r, &r->lane->c[i], gb_plan_ld(pm, p->type_c), pn, r->c.size);
    if (s == GB_SUCCESS && uses_partial(plan))
        s = take_buffer(r, &r->lane->partial, pm, pn,
                        (size_t)plan->splits * gb_type_size(plan->kernel->type_acc));
    return s;
}

static enum gb_status take_buffers(struct run *r)
{
    const struct gb_plan *plan = r->plan;
    const struct gb_problem *p = &plan->p;
    enum gb_status s;

    r->n_a = plan->panel_m >= p->m && r->steps_k == 1 ? 1 : 2;
    r->n_b = plan->panel_n >= p->n && r->steps_k == 1 ? 1 : 2;
    r->n_c = gb_plan_panels(plan) == 1 ? 1 : 2;
    s = try_buffers(r);
    if (s == GB_E_NOMEM) {
        /* cached blocks of other sizes may be what is in the way */
        give_buffers(r);
        gb_pool_trim(&r->engine->pool);
        s = try_buffers(r);
    }
    return s;
}

static enum gb_status take_slots(struct run *r)
{
    const struct gb_plan *plan = r->plan;
    const struct gb_problem *p = &plan->p;
    size_t sent = (size_t)(p->m + p->n) * (size_t)p->k * r->a.size;
    size_t c = (size_t)p->m * (size_t)p->n * r->c.size;
    size_t piece = (size_t)plan->piece_rows * (size_t)plan->piece_cols * r->c.size;
    size_t least = sent / (2 * GB_RING), slot;

    /* Enough pieces to overlap, none so small that the link starves. */
    r->up_bytes = least > LEAST_PIECE ? least : LEAST_PIECE;
    if (r->up_bytes > plan->slot_bytes)
        r->up_bytes = plan->slot_bytes;
    if (reads_c(r))
        sent += c;
    slot = r->up_bytes > piece ? r->up_bytes : piece;
    if (slot > GB_BLOCK_BYTES)
        return GB_E_UNSUPPORTED;
    r->by_hand = sent + c < INLINE_BYTES;
    slot = (slot + 4095) / 4096 * 4096;
    return gb_lane_slots(
        r->engine->dev, r->lane, slot, (int64_t)(sent / r->up_bytes) + 3,
        gb_ceil_div(p->m, plan->piece_rows) * gb_ceil_div(p->n, plan->piece_cols),
        gb_engine_lanes(r->engine));
}

static enum gb_status find_functions(struct run *r)
{
    const struct gb_plan *plan = r->plan;
    enum gb_status s = gb_engine_gemm(
        r->engine, plan->kernel, gb_transposed(plan->p.transa) ? 't' : 'n',
        gb_transposed(plan->p.transb) ? 't' : 'n', &r->gemm);

    if (s == GB_SUCCESS && plan->splits > 1)
        s = gb_engine_reduce(r->engine, plan->kernel, &r->reduce);
    return s;
}

/* Pages of a fresh C are made while operands travel, unless C is read anyway. */
static void fault_in(struct run *r)
{
    const struct gb_problem *p = &r->plan->p;
    size_t row = (size_t)p->m * r->c.size, pitch = (size_t)r->c.ld * r->c.size;
    size_t bytes = pitch * (size_t)(p->n - 1) + row;

    if (reads_c(r) || r->by_hand || r->c.direct || bytes < FAULT_BYTES ||
        pitch > 2 * row)
        return;
    gb_copy_make_fault(&r->lane->fault, r->c.at, bytes);
    gb_stage_submit(&r->engine->stage, &r->lane->fault, &r->lane->party);
}

static enum gb_status look_at_operands(struct run *r)
{
    struct gb_device *dev = r->engine->dev;
    const struct gb_problem *p = &r->plan->p;
    struct gb_rect a = stored(p->transa, 0, 0, p->m, p->k);
    struct gb_rect b = stored(p->transb, 0, 0, p->k, p->n);
    struct operand *const x[] = {&r->a, &r->b, &r->c};
    const struct gb_rect rect[] = {a, b, {.m = p->m, .n = p->n}};

    r->a = (struct operand){(char *)p->a, p->lda, gb_type_size(p->type), false};
    r->b = (struct operand){(char *)p->b, p->ldb, gb_type_size(p->type), false};
    r->c = (struct operand){p->c, p->ldc, gb_type_size(p->type_c), false};
    for (size_t i = 0; i < GB_COUNT(x); i++) {
        int64_t last = rect[i].m - 1 + (rect[i].n - 1) * x[i]->ld;
        enum gb_mem_kind kind = dev->ops->mem_kind(dev, x[i]->at);

        if (kind == GB_MEM_DEVICE || kind == GB_MEM_FOREIGN)
            return GB_E_UNSUPPORTED;
        x[i]->direct = kind == GB_MEM_PINNED &&
                       dev->ops->mem_kind(dev, x[i]->at + last * (int64_t)x[i]->size) ==
                           GB_MEM_PINNED;
    }
    return GB_SUCCESS;
}

/* The first panel that is not final, and how many of its pieces are. */
static int64_t panel_at(const struct gb_plan *plan, int64_t done, int64_t *skip)
{
    int64_t panel = 0, panels = gb_plan_panels(plan);

    for (; panel < panels; panel++) {
        int64_t pieces = gb_rect_pieces(gb_plan_panel(plan, panel), plan->piece_rows,
                                        plan->piece_cols);

        if (done < pieces)
            break;
        done -= pieces;
    }
    *skip = done;
    return panel;
}

/* Panels *panel, *panel + 1, ... until C is final or the caller's signals ask for a pause. */
static enum gb_status run_panels(struct run *r, const struct gb_hold *hold,
                                 int64_t *panel)
{
    enum gb_status s;

    r->steps_k = gb_max(1, gb_ceil_div(r->plan->p.k, r->plan->panel_k));
    r->first = r->fetch_panel = r->final_panel = *panel;
    r->fetch_piece = r->skip;
    r->limit = gb_plan_panels(r->plan);
    s = look_at_operands(r);
    if (s == GB_SUCCESS)
        s = find_functions(r);
    if (s == GB_SUCCESS)
        s = take_slots(r);
    if (s == GB_SUCCESS)
        s = take_buffers(r);
    if (s == GB_SUCCESS) {
        fault_in(r);
        s = pump(r, hold);
        if (s != GB_SUCCESS || r->limit < gb_plan_panels(r->plan))
            s = settle(r, s);
        else
            gb_stage_cancel(&r->engine->stage, &r->lane->fault);
    }
    give_buffers(r);
    *panel = r->final_panel;
    return s;
}

static enum gb_status run_lane(struct gb_engine *engine, const struct gb_plan *plan,
                               struct gb_hold *hold, int64_t skip, int64_t *panel,
                               struct gb_exec_stats *stats)
{
    struct run r = {.engine = engine, .plan = plan, .stats = stats, .skip = skip};
    struct gb_device *dev;
    struct gb_guest guest;
    enum gb_status s = gb_engine_lane(engine, hold, &r.lane);

    if (s != GB_SUCCESS)
        return s;
    dev = engine->dev; /* it stays while we have a lane */
    s = dev->ops->enter(dev, &guest);
    if (s == GB_SUCCESS) {
        s = run_panels(&r, hold, panel);
        dev->ops->leave(dev, &guest);
    }
    if (s == GB_E_DEVICE)
        gb_engine_fail(engine, dev);
    gb_engine_lane_back(engine, r.lane);
    return s;
}

static enum gb_why why_of(enum gb_status s, bool child, int64_t done)
{
    if (s == GB_SUCCESS)
        return GB_OK;
    if (s == GB_E_DEVICE)
        return GB_WHY_LOST;
    if (done > 0)
        return GB_WHY_PART;
    if (child)
        return GB_WHY_FORKED;
    return s == GB_E_NOMEM ? GB_WHY_OOM : GB_WHY_UNSUPPORTED;
}

enum gb_why gb_exec_from(struct gb_engine *engine, const struct gb_plan *plan,
                         struct gb_exec_stats *stats)
{
    int64_t panels = gb_plan_panels(plan), skip, panel;
    struct gb_hold hold;
    enum gb_status s = GB_SUCCESS;

    if (gb_engine_foreign(engine))
        return why_of(GB_E_ABSENT, true, stats->done);
    if (gb_engine_lost(engine))
        return GB_WHY_LOST;
    if (plan->p.uplo != GB_FULL || plan->p.m < 1 || plan->p.n < 1 || plan->p.k < 1)
        return GB_WHY_UNSUPPORTED;
    panel = panel_at(plan, stats->done, &skip);
    gb_hold_begin(&hold);
    while (panel < panels && s == GB_SUCCESS) {
        s = run_lane(engine, plan, &hold, skip, &panel, stats);
        skip = 0;
        if (s == GB_SUCCESS && panel < panels) {
            gb_hold_pause(&hold); /* a handler may leave for good, or fork */
            if (gb_engine_foreign(engine))
                s = GB_E_ABSENT;
        }
    }
    gb_hold_end(&hold);
    return why_of(s, gb_engine_foreign(engine), stats->done);
}

enum gb_why gb_exec(struct gb_engine *engine, const struct gb_plan *plan,
                    struct gb_exec_stats *stats)
{
    *stats = (struct gb_exec_stats){.done = 0};
    return gb_exec_from(engine, plan, stats);
}
