/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of the emulated device: what is queued, in what order it runs, and running it. */
#include "emu_state.h"

#include <stdlib.h>
#include <string.h>

static pthread_cond_t progress = PTHREAD_COND_INITIALIZER; /* an operation has run */

void gb_emu_lose(struct emu_device *dev)
{
    dev->lost = true;
    for (struct gb_stream *s = dev->streams; s; s = s->next) {
        struct emu_op **link = s->busy ? &s->head->next : &s->head;

        while (*link) {
            struct emu_op *op = *link;

            *link = op->next;
            free(op);
            s->executed++;
        }
        s->tail = link;
    }
    pthread_cond_broadcast(&progress);
}

static bool ready(const struct gb_stream *s)
{
    const struct emu_op *op = s->head;

    return op && !s->busy &&
           (op->kind != EMU_WAIT || op->u.wait.stream->executed >= op->u.wait.position);
}

/* The stream whose head must run before `s` can go on; NULL while another thread runs
 * it. */
static struct gb_stream *needed(struct gb_stream *s)
{
    while (!ready(s)) {
        if (s->busy || !s->head)
            return NULL;
        s = s->head->u.wait.stream;
    }
    return s;
}

/* Any stream that can go on, `last` only if it is the only one. */
static struct gb_stream *any(struct emu_device *dev, const struct gb_stream *last)
{
    struct gb_stream *chosen = NULL;
    uint32_t seen = 0;

    for (struct gb_stream *s = dev->streams; s; s = s->next)
        if (s != last && ready(s) && gb_emu_draw(dev) % ++seen == 0)
            chosen = s;
    return chosen;
}

static void run_copy(const struct emu_op *op)
{
    for (size_t i = 0; i < op->u.copy.height; i++)
        memcpy(op->u.copy.dst + i * op->u.copy.dst_pitch,
               op->u.copy.src + i * op->u.copy.src_pitch, op->u.copy.width);
}

/* False when this process has no room for a block's threads, which is no mistake of the
 * program: the device fails. */
static bool run_launch(const struct emu_op *op)
{
    char error[160] = "";

    switch (gb_fiber_run(op->u.launch.kernel, op->u.launch.grid, op->u.launch.block,
                         op->u.launch.cluster, op->u.launch.smem, op->args,
                         op->u.launch.args_bytes, op->u.launch.seed, error,
                         sizeof error)) {
    case 0:
        return true;
    case GB_FIBER_NOMEM:
        return false;
    default:
        gb_emu_die("launch %s: %s", op->u.launch.kernel->symbol, error);
    }
}

/* Runs the head of a stream that is ready. The lock is released meanwhile. */
static void step(struct gb_stream *s)
{
    struct emu_op *op = s->head;
    bool fails = op->late;

    s->busy = true;
    if (op->kind == EMU_FREE) {
        gb_emu_block_free(s->dev, op->u.freed, "free_queued");
    } else if (op->kind != EMU_WAIT && !fails) {
        pthread_mutex_unlock(&gb_emu_lock);
        if (op->kind == EMU_LAUNCH)
            fails = !run_launch(op);
        else
            run_copy(op);
        pthread_mutex_lock(&gb_emu_lock);
        if (fails)
            gb_emu_say(GB_LOG_WARN, "launch %s: no memory for its threads",
                       op->u.launch.kernel->symbol);
        else if (op->kind == EMU_LAUNCH)
            gb_emu_check_guards("launch", op->u.launch.kernel->symbol);
    }
    s->busy = false;
    s->head = op->next;
    if (!s->head)
        s->tail = &s->head;
    s->executed++;
    if (fails && !s->dev->lost)
        gb_emu_lose(s->dev);
    free(op);
    pthread_cond_broadcast(&progress);
}

enum gb_status gb_emu_run_until(struct emu_device *dev, struct gb_stream *s,
                                uint64_t position)
{
    enum { NEEDED, ANY, OTHERS } mood = (int)(gb_emu_draw(dev) % 3);

    while (!dev->lost && s->executed < position) {
        struct gb_stream *next =
            mood == NEEDED ? needed(s) : any(dev, mood == OTHERS ? s : NULL);

        if (!next && mood == OTHERS)
            next = needed(s);
        if (next)
            step(next);
        else
            pthread_cond_wait(&progress, &gb_emu_lock);
    }
    return dev->lost ? GB_E_DEVICE : GB_SUCCESS;
}

void gb_emu_nudge(struct gb_stream *s)
{
    struct gb_stream *next = needed(s);

    if (next)
        step(next);
}

void gb_emu_enqueue(struct gb_stream *s, struct emu_op *op)
{
    struct emu_device *dev = s->dev;
    uint32_t steps = gb_emu_draw(dev) % 4 == 0 ? gb_emu_draw(dev) % 8 : 0;
    struct gb_stream *next;

    *s->tail = op;
    s->tail = &op->next;
    s->queued++;
    while (steps-- > 0 && !dev->lost && (next = any(dev, NULL)) != NULL)
        step(next);
}

void gb_emu_settle(struct emu_device *dev)
{
    for (struct gb_stream *s = dev->streams; s; s = s->next)
        while (s->busy)
            pthread_cond_wait(&progress, &gb_emu_lock);
}

static bool uses(const struct emu_op *op, const struct emu_block *b)
{
    uintptr_t word;

    switch (op->kind) {
    case EMU_COPY_IN:
    case EMU_COPY_OUT:
        return op->u.copy.device == b || op->u.copy.host == b;
    case EMU_LAUNCH: /* an address in the arguments */
        for (size_t i = 0; i + sizeof word <= op->u.launch.args_bytes;
             i += sizeof word) {
            memcpy(&word, op->args + i, sizeof word);
            if (word - (uintptr_t)b->data < b->bytes)
                return true;
        }
        return false;
    case EMU_WAIT:
    case EMU_FREE:
        return false;
    }
    return false;
}

void gb_emu_check_unused(const struct emu_block *b, const char *operation)
{
    static const char *const name[] = {[EMU_COPY_IN] = "copy_in",
                                       [EMU_COPY_OUT] = "copy_out",
                                       [EMU_LAUNCH] = "launch",
                                       [EMU_WAIT] = "event_wait",
                                       [EMU_FREE] = "free_queued"};

    for (const struct emu_device *d = gb_emu_devices; d; d = d->next)
        for (const struct gb_stream *s = d->streams; s; s = s->next)
            for (const struct emu_op *op = s->head; op; op = op->next)
                if (uses(op, b))
                    gb_emu_die("%s: a queued %s still uses the memory", operation,
                               name[op->kind]);
}
