/* SPDX-License-Identifier: BSD-3-Clause */
/* The cursors of a run: upload, launch, download, commit. */
#include "pipeline.h"

#include <assert.h>
#include <time.h>

#include "gemm_args.h"
#include "launch.h"

enum {
    SIGNAL_NS = 20 * 1000000, /* between looks at pending signals */
    POLL_NS = 30 * 1000,      /* nap while both directions are under way */
    BLOCK_NS = 1000 * 1000,   /* nothing moved for so long: wait for one direction */
};

static int64_t nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- device operations ---------------------------------------------------------------- */

static enum gb_status copy_rows(struct gb_pipeline *r, bool in, gb_devptr dev_at,
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

/* When the driver is short of memory the pool gives its own back, once. */
static enum gb_status copy_piece(struct gb_pipeline *r, bool in, gb_devptr dev_at,
                                 size_t dev_pitch, char *host, size_t host_pitch,
                                 size_t width, size_t height)
{
    enum gb_status s =
        copy_rows(r, in, dev_at, dev_pitch, host, host_pitch, width, height);

    if (s == GB_E_NOMEM) {
        gb_pool_trim(&r->engine->pool);
        s = copy_rows(r, in, dev_at, dev_pitch, host, host_pitch, width, height);
    }
    if (s != GB_SUCCESS)
        return s;
    if (in)
        r->stats->bytes_up += width * height;
    else
        r->stats->bytes_down += width * height;
    return GB_SUCCESS;
}

/* When the driver is short of memory the pool gives its own back, once. */
static enum gb_status launch(struct gb_pipeline *r, bool reduce,
                             const struct gb_gemm_args *args)
{
    const struct gb_problem *p = &r->plan->p;
    const struct gb_kernel *k = r->plan->kernel;
    struct gb_device *dev = r->engine->dev;
    struct gb_stream *stream = r->lane->compute;
    char a = gb_transposed(p->transa) ? 't' : 'n',
         b = gb_transposed(p->transb) ? 't' : 'n';
    enum gb_status s = GB_E_NOMEM;

    for (int i = 0; i < 2 && s == GB_E_NOMEM; i++) {
        if (i > 0)
            gb_pool_trim(&r->engine->pool);
        if (k->flags & GB_K_EMULATED)
            s = gb_emulated_launch(dev, stream, &r->emulated, k, args, args->partial,
                                   0);
        else if (k->flags & GB_K_INTEGER)
            s = gb_integer_launch(dev, stream, &r->integer, k, args, &p->offsets,
                                  args->partial, 0);
        else
            s = reduce ? gb_launch_reduce(dev, stream, r->reduce, k, args, 0)
                       : gb_launch_gemm(dev, stream, r->gemm, k, a, b, args, 0);
    }
    r->stats->launches += s == GB_SUCCESS;
    return s;
}

/* Operands that the row does not read as they were sent: there is one copy of each,
 * since kernels run in order. */
static enum gb_status copy_operands(struct gb_pipeline *r, struct gb_gemm_args *args)
{
    const struct gb_problem *p = &r->plan->p;
    unsigned which = gb_plan_copied(r->plan);
    enum gb_status s;

    if (!which)
        return GB_SUCCESS;
    s = gb_launch_repair(r->engine->dev, r->lane->compute, r->repair, r->plan->kernel,
                         which, gb_transposed(p->transa) ? 't' : 'n',
                         gb_transposed(p->transb) ? 't' : 'n', r->lane->copies.ptr,
                         args);
    r->stats->launches += s == GB_SUCCESS;
    return s;
}

static enum gb_status record(struct gb_pipeline *r, struct gb_event *e,
                             struct gb_stream *s)
{
    return r->engine->dev->ops->event_record(r->engine->dev, e, s);
}

static enum gb_status wait_for(struct gb_pipeline *r, struct gb_event *e,
                               struct gb_stream *s)
{
    return r->engine->dev->ops->event_wait(r->engine->dev, e, s);
}

/* ---- buffers -------------------------------------------------------------------------- */

static struct gb_buffer *holder(struct gb_buffer *buffers, int n, int64_t chunk)
{
    for (int i = 0; i < n; i++) {
        if (buffers[i].chunk == chunk)
            return &buffers[i];
    }
    return NULL;
}

static struct gb_buffer *buffer_c(const struct gb_pipeline *r, int64_t panel)
{
    return &r->lane->c[panel % r->needs.c.n];
}

/* ---- upload --------------------------------------------------------------------------- */

/* Point the cursor at an operand that has to be sent. */
static void up_start(struct gb_pipeline *r, const struct gb_operand *x,
                     struct gb_buffer *buffer, struct gb_rect rect)
{
    size_t pitch = (size_t)buffer->ld * x->size;

    r->up_operand = x;
    r->up_buffer = buffer;
    r->up_rect = rect;
    r->up_extent = gb_upload_piece(rect.m, pitch, x->size, r->up_bytes);
    r->up_piece = 0;
    r->up_pieces = gb_rect_pieces(rect, r->up_extent.rows, r->up_extent.cols);
}

/* A chunk is on the device already, or takes the buffer that was needed longest ago; false
 * when all are needed by steps that have not been launched. */
static bool up_chunk(struct gb_pipeline *r, const struct gb_operand *x,
                     struct gb_buffer *buffers, int n, int64_t chunk,
                     struct gb_rect rect)
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
static bool c_is_free(const struct gb_pipeline *r, int64_t panel)
{
    return r->fetch_panel > panel - r->needs.c.n;
}

/* Move the cursor to the next piece; false when it has to wait or there is none. */
static bool up_seek(struct gb_pipeline *r)
{
    const struct gb_plan *plan = r->plan;

    while (r->up_piece == r->up_pieces) {
        int64_t step = r->up_step, panel = gb_step_panel(plan, step);

        if (panel >= r->limit)
            return false;
        switch (r->up_stage) {
        case 0:
            if (!up_chunk(r, &r->a, r->lane->a, r->needs.a.n,
                          gb_step_chunk_a(plan, step), gb_step_a(plan, step)))
                return false;
            break;
        case 1:
            if (!up_chunk(r, &r->b, r->lane->b, r->needs.b.n,
                          gb_step_chunk_b(plan, step), gb_step_b(plan, step)))
                return false;
            break;
        case 2:
            if (!gb_plan_reads_c(plan) || !gb_step_ends_panel(plan, step))
                break;
            if (!c_is_free(r, panel))
                return false;
            buffer_c(r, panel)->ld = gb_plan_ld_c(plan, gb_plan_panel(plan, panel).m);
            up_start(r, &r->c, buffer_c(r, panel), gb_plan_panel(plan, panel));
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
static void up_fill(struct gb_pipeline *r)
{
    int i = (int)(r->up_filled % (unsigned)r->lane->n_up);
    struct gb_up *u = &r->lane->ups[i];
    const struct gb_operand *x = r->up_operand;
    const struct gb_buffer *buffer = r->up_buffer;
    struct gb_rect rect = r->up_rect;
    struct gb_rect piece =
        gb_rect_piece(rect, r->up_extent.rows, r->up_extent.cols, r->up_piece);
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

static struct gb_up *up_at(const struct gb_pipeline *r, uint64_t position)
{
    return &r->lane->ups[position % (unsigned)r->lane->n_up];
}

/* Is the slot that the next piece would take still being read by the device? */
static enum gb_status up_slot_busy(struct gb_pipeline *r, bool *busy)
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

static enum gb_status up_send(struct gb_pipeline *r)
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

static enum gb_status pump_up(struct gb_pipeline *r, bool *moved)
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
static int64_t sent_steps(const struct gb_pipeline *r)
{
    return r->up_sent < r->up_filled ? up_at(r, r->up_sent)->step : r->up_step;
}

/* `ends`: the panel's sums are whole after this step. */
static enum gb_status launch_kernels(struct gb_pipeline *r, struct gb_gemm_args *g,
                                     bool ends)
{
    enum gb_status s;

    if (gb_launch_sums_splits(r->plan->kernel, g))
        g->flags |= GB_G_EPILOGUE;
    s = copy_operands(r, g);
    if (s == GB_SUCCESS)
        s = launch(r, false, g);
    if (s == GB_SUCCESS && ends && !(g->flags & GB_G_EPILOGUE))
        s = launch(r, true, g);
    return s;
}

/* A vector's entries for a panel; 0: there are none. */
static gb_devptr vector_at(const struct gb_pipeline *r, int i,
                           const struct gb_gemm_args *g)
{
    const struct gb_vector_part *v = &r->vectors.part[i];
    int64_t first = v->columns ? g->col0 : g->row0;

    return v->from ? r->lane->vectors.ptr + r->vectors.offset[i] +
                         (gb_devptr)first * v->size
                   : 0;
}

static enum gb_status launch_step(struct gb_pipeline *r)
{
    const struct gb_plan *plan = r->plan;
    int64_t step = r->launched;
    bool ends = gb_step_ends_panel(plan, step);
    struct gb_buffer *a = holder(r->lane->a, r->needs.a.n, gb_step_chunk_a(plan, step));
    struct gb_buffer *b = holder(r->lane->b, r->needs.b.n, gb_step_chunk_b(plan, step));
    struct gb_buffer *c = buffer_c(r, gb_step_panel(plan, step));
    struct gb_event *computed = r->lane->computed[c - r->lane->c];
    struct gb_stream *compute = r->lane->compute;
    struct gb_gemm_args g;
    enum gb_status s;

    assert(a && b);
    gb_step_args(plan, step, &g);
    g.a = a->block.ptr;
    g.b = b->block.ptr;
    g.c = c->block.ptr;
    g.partial = r->lane->partial.block.ptr;
    if (g.flags & GB_G_FUSED) {
        g.fused.bias = vector_at(r, 0, &g);
        g.fused.row_scale = vector_at(r, 1, &g);
        g.fused.col_scale = vector_at(r, 2, &g);
    }
    s = wait_for(r, a->ready, compute);
    if (s == GB_SUCCESS)
        s = wait_for(r, b->ready, compute);
    if (s == GB_SUCCESS && ends)
        s = wait_for(r, gb_plan_reads_c(plan) ? c->ready : c->idle, compute);
    if (s == GB_SUCCESS)
        s = launch_kernels(r, &g, ends);
    if (s == GB_SUCCESS)
        s = record(r, a->idle, compute);
    if (s == GB_SUCCESS)
        s = record(r, b->idle, compute);
    if (s == GB_SUCCESS && ends)
        s = record(r, computed, compute);
    if (s == GB_SUCCESS && ends)
        s = wait_for(r, computed, r->lane->down);
    r->launched++;
    return s;
}

static enum gb_status pump_kernels(struct gb_pipeline *r, bool *moved)
{
    enum gb_status s = GB_SUCCESS;

    while (s == GB_SUCCESS &&
           r->launched < gb_min(sent_steps(r), gb_panel_step(r->plan, r->limit)) &&
           (!gb_step_ends_panel(r->plan, r->launched) ||
            c_is_free(r, gb_step_panel(r->plan, r->launched)))) {
        s = launch_step(r);
        *moved = true;
    }
    return s;
}

/* ---- download and commit -------------------------------------------------------------- */

static struct gb_down *down_at(const struct gb_pipeline *r, uint64_t position)
{
    return &r->lane->downs[position % (unsigned)r->lane->n_down];
}

static enum gb_status fetch_piece(struct gb_pipeline *r)
{
    int i = (int)(r->fetched % (unsigned)r->lane->n_down);
    struct gb_down *d = &r->lane->downs[i];
    const struct gb_plan *plan = r->plan;
    struct gb_rect panel = gb_plan_panel(plan, r->fetch_panel);
    struct gb_rect piece =
        gb_rect_piece(panel, plan->piece_rows, plan->piece_cols, r->fetch_piece);
    struct gb_buffer *c = buffer_c(r, r->fetch_panel);
    size_t width = (size_t)piece.m * r->c.size, height = (size_t)piece.n;
    size_t from_pitch = (size_t)gb_plan_ld_c(plan, panel.m) * r->c.size, pitch = width;
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

static void commit(struct gb_pipeline *r)
{
    struct gb_down *d = down_at(r, r->arrived++);

    if (r->by_hand)
        gb_copy_now(&d->commit);
    else
        gb_stage_submit(&r->engine->stage, &d->commit, &r->lane->party);
}

/* Count the pieces that have reached the program, in order. */
static bool count_final(struct gb_pipeline *r)
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

static enum gb_status pump_down(struct gb_pipeline *r, bool *moved)
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
           gb_panel_step(r->plan, r->fetch_panel + 1) <= r->launched) {
        s = fetch_piece(r);
        *moved = true;
    }
    return s;
}

/* ---- waiting -------------------------------------------------------------------------- */

/* Nothing can go on at once. Sleep on the one thing that matters, or nap where there are
 * several: a driver can only be asked to wait for one event, and not for a copy thread. */
static enum gb_status doze(struct gb_pipeline *r)
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
static void look_for_signals(struct gb_pipeline *r, const struct gb_hold *hold,
                             int64_t now)
{
    int64_t reached;

    if (now - r->looked_ns < SIGNAL_NS)
        return;
    r->looked_ns = now;
    if (!gb_hold_wanted(hold))
        return;
    reached = gb_ceil_div(r->launched, gb_plan_ranges(r->plan));
    r->limit = gb_min(r->limit, gb_max(reached, r->first + 1));
}

void gb_pipeline_start(struct gb_pipeline *r, int64_t panel, int64_t skip)
{
    r->first = r->fetch_panel = r->final_panel = panel;
    r->up_step = r->launched = gb_panel_step(r->plan, panel);
    r->fetch_piece = skip;
    r->limit = gb_plan_panels(r->plan);
}

enum gb_status gb_pipeline_pump(struct gb_pipeline *r, const struct gb_hold *hold)
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

enum gb_status gb_pipeline_settle(struct gb_pipeline *r, enum gb_status s)
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
