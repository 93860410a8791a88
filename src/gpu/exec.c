/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a plan: a lane, its buffers and slots are taken for a run of panels, the pipeline
 * moves them through, and signals are let through between runs. */
#include "exec.h"

#include <string.h>

#include "engine.h"
#include "pipeline.h"

enum {
    INLINE_BYTES = 256 << 10, /* a call that moves less is copied by its own thread */
    LEAST_PIECE = 512 << 10,  /* of an upload, unless slots are smaller */
    FAULT_BYTES = 1 << 20,    /* a C smaller than this is not faulted in ahead */
};

static enum gb_status take_buffers(struct gb_pipeline *r, struct gb_buffer *buffers,
                                   const struct gb_need *need)
{
    enum gb_status s = GB_SUCCESS;
    size_t bytes;

    for (int i = 0; i < need->n && s == GB_SUCCESS; i++) {
        buffers[i].chunk = -1;
        buffers[i].last = -1;
        if (!gb_mul3((size_t)need->ld, (size_t)need->cols, need->size, &bytes))
            return GB_E_NOMEM;
        s = gb_pool_get(&r->engine->pool, bytes, &buffers[i].block);
    }
    return s;
}

static void give_memory(struct gb_pipeline *r)
{
    struct gb_pool *pool = &r->engine->pool;

    for (int i = 0; i < 2; i++) {
        gb_pool_put(pool, &r->lane->a[i].block);
        gb_pool_put(pool, &r->lane->b[i].block);
        gb_pool_put(pool, &r->lane->c[i].block);
    }
    gb_pool_put(pool, &r->lane->partial.block);
    gb_pool_put(pool, &r->lane->vectors);
    gb_pool_put(pool, &r->lane->copies);
}

static enum gb_status try_memory(struct gb_pipeline *r)
{
    enum gb_status s = take_buffers(r, r->lane->a, &r->needs.a);

    if (s == GB_SUCCESS)
        s = take_buffers(r, r->lane->b, &r->needs.b);
    if (s == GB_SUCCESS)
        s = take_buffers(r, r->lane->c, &r->needs.c);
    if (s == GB_SUCCESS)
        s = take_buffers(r, &r->lane->partial, &r->needs.partial);
    if (s == GB_SUCCESS && r->vectors.bytes > 0)
        s = gb_pool_get(&r->engine->pool, r->vectors.bytes, &r->lane->vectors);
    if (s == GB_SUCCESS && r->copies > 0)
        s = gb_pool_get(&r->engine->pool, r->copies, &r->lane->copies);
    return s;
}

static enum gb_status take_memory(struct gb_pipeline *r)
{
    enum gb_status s = try_memory(r);

    if (s == GB_E_NOMEM) {
        /* cached blocks of other sizes may be what is in the way */
        give_memory(r);
        gb_pool_trim(&r->engine->pool);
        s = try_memory(r);
    }
    return s;
}

static enum gb_status take_slots(struct gb_pipeline *r)
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
    if (gb_plan_reads_c(r->plan))
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

static enum gb_status find_functions(struct gb_pipeline *r)
{
    const struct gb_plan *plan = r->plan;
    char a = gb_transposed(plan->p.transa) ? 't' : 'n',
         b = gb_transposed(plan->p.transb) ? 't' : 'n';
    enum gb_status s;

    if (plan->kernel->flags & GB_K_EMULATED)
        return gb_engine_emulated(r->engine, plan->kernel, a, b, &r->emulated);
    if (plan->kernel->flags & GB_K_INTEGER)
        return gb_engine_integer(r->engine, plan->kernel, &r->integer);
    s = gb_engine_gemm(r->engine, plan->kernel, a, b, &r->gemm);
    if (s == GB_SUCCESS && plan->splits > 1)
        s = gb_engine_reduce(r->engine, plan->kernel, &r->reduce);
    if (s == GB_SUCCESS && gb_plan_copied(plan))
        s = gb_engine_helper(r->engine, gb_engine_repair_of(plan->kernel), &r->repair);
    return s;
}

/* Pages of a fresh C are made while operands travel, unless C is read anyway. */
static void fault_in(struct gb_pipeline *r)
{
    const struct gb_problem *p = &r->plan->p;
    size_t row = (size_t)p->m * r->c.size, pitch = (size_t)r->c.ld * r->c.size;
    size_t bytes = pitch * (size_t)(p->n - 1) + row;

    if (gb_plan_reads_c(r->plan) || r->by_hand || r->c.direct || bytes < FAULT_BYTES ||
        pitch > 2 * row)
        return;
    gb_copy_make_fault(&r->lane->fault, r->c.at, bytes);
    gb_stage_submit(&r->engine->stage, &r->lane->fault, &r->lane->party);
}

static enum gb_status look_at_operands(struct gb_pipeline *r)
{
    struct gb_device *dev = r->engine->dev;
    const struct gb_problem *p = &r->plan->p;
    struct gb_rect a =
        gb_rect_stored(p->transa, (struct gb_rect){.m = p->m, .n = p->k});
    struct gb_rect b =
        gb_rect_stored(p->transb, (struct gb_rect){.m = p->k, .n = p->n});
    struct gb_operand *const x[] = {&r->a, &r->b, &r->c};
    const struct gb_rect rect[] = {a, b, {.m = p->m, .n = p->n}};

    r->a = (struct gb_operand){(char *)p->a, p->lda, gb_type_size(p->type), false};
    r->b = (struct gb_operand){(char *)p->b, p->ldb, gb_type_size(p->type), false};
    r->c = (struct gb_operand){p->c, p->ldc, gb_type_size(p->type_c), false};
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

/* The vectors of what is fused, by one slot, ahead of every kernel. They are short. */
static enum gb_status send_vectors(struct gb_pipeline *r)
{
    struct gb_device *dev = r->engine->dev;
    char *slot = gb_lane_slot_up(r->lane, 0);
    size_t room = r->lane->slot_bytes;
    enum gb_status s = GB_SUCCESS;

    for (int i = 0; i < r->vectors.n; i++) {
        const struct gb_vector_part *v = &r->vectors.part[i];
        size_t bytes = v->from ? (size_t)v->count * v->size : 0, part;

        for (size_t at = 0; at < bytes && s == GB_SUCCESS; at += part) {
            part = bytes - at < room ? bytes - at : room;
            memcpy(slot, (const char *)v->from + at, part);
            s = dev->ops->copy_in(dev, r->lane->compute,
                                  r->lane->vectors.ptr + r->vectors.offset[i] + at,
                                  part, slot, part, part, 1);
            if (s == GB_SUCCESS)
                s = dev->ops->stream_sync(dev, r->lane->compute);
        }
        r->stats->bytes_up += bytes;
    }
    return s;
}

/* Panels *panel, *panel + 1, ... until C is final or the caller's signals ask for a pause. */
static enum gb_status run_panels(struct gb_pipeline *r, const struct gb_hold *hold,
                                 int64_t skip, int64_t *panel)
{
    enum gb_status s = look_at_operands(r);

    r->needs = gb_plan_needs(r->plan);
    r->vectors = gb_plan_vectors(r->plan);
    r->copies = gb_plan_copies(r->plan);
    if (s == GB_SUCCESS)
        s = find_functions(r);
    if (s == GB_SUCCESS)
        s = take_slots(r);
    if (s == GB_SUCCESS)
        s = take_memory(r);
    if (s == GB_SUCCESS)
        s = send_vectors(r);
    if (s == GB_SUCCESS) {
        fault_in(r);
        gb_pipeline_start(r, *panel, skip);
        s = gb_pipeline_pump(r, hold);
        if (s != GB_SUCCESS || r->limit < gb_plan_panels(r->plan))
            s = gb_pipeline_settle(r, s);
        else
            gb_stage_cancel(&r->engine->stage, &r->lane->fault);
        *panel = r->final_panel;
    }
    give_memory(r);
    return s;
}

static enum gb_status run_lane(struct gb_engine *engine, const struct gb_plan *plan,
                               struct gb_hold *hold, int64_t skip, int64_t *panel,
                               struct gb_exec_stats *stats)
{
    struct gb_pipeline r = {.engine = engine, .plan = plan, .stats = stats};
    struct gb_device *dev;
    struct gb_guest guest;
    enum gb_status s = gb_engine_lane(engine, hold, &r.lane);

    if (s != GB_SUCCESS)
        return s;
    dev = engine->dev; /* it stays while we have a lane */
    s = dev->ops->enter(dev, &guest);
    if (s == GB_SUCCESS) {
        s = run_panels(&r, hold, skip, panel);
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
    panel = gb_plan_panel_at(plan, stats->done, &skip);
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
