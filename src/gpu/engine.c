/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a device, handing out its lanes, finding its functions. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "knobs.h"
#include "launch.h"
#include "log.h"

enum {
    FIRST_BLOCKS =
        4, /* pinned with the first lane: 2 ms each that no call has to wait for */
    BUDGET_MS = 200, /* asking the driver for free memory costs tens of microseconds */
    LANE_WAIT_MS = 50,  /* between looks at pending signals */
    RESERVE = 256 << 20 /* device memory left to others */
};

static int64_t milliseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- open, close ---------------------------------------------------------------------- */

static void init_locks(struct gb_engine *engine)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->module_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->lane_back, &attr);
    pthread_condattr_destroy(&attr);
}

/* The first lane of a device, with enough slots that the first call finds them. */
static enum gb_status first_lane(struct gb_engine *engine)
{
    struct gb_guest guest;
    struct gb_lane *lane;
    enum gb_status s = engine->dev->ops->enter(engine->dev, &guest);

    if (s != GB_SUCCESS)
        return s;
    s = gb_lane_make(engine->dev, &lane);
    if (s == GB_SUCCESS) {
        s = gb_lane_slots(engine->dev, lane, GB_BLOCK_BYTES, FIRST_BLOCKS / 2,
                          FIRST_BLOCKS / 2, 1);
        if (s == GB_E_NOMEM)
            s = GB_SUCCESS; /* the call that needs them decides */
        pthread_mutex_lock(&engine->lock);
        engine->lanes = 1;
        engine->idle = lane;
        pthread_mutex_unlock(&engine->lock);
    }
    engine->dev->ops->leave(engine->dev, &guest);
    return s;
}

enum gb_status gb_engine_open(struct gb_device_ref ref, struct gb_engine **engine)
{
    struct gb_engine *e = calloc(1, sizeof *e);
    struct gb_device *dev;
    struct gb_hold hold;
    enum gb_status s;

    if (!e)
        return GB_E_NOMEM;
    gb_hold_begin(&hold);
    e->pid = getpid();
    e->rows = calloc((size_t)gb_kernel_count, sizeof *e->rows);
    s = e->rows ? ref.ops->open(ref.ordinal, &dev) : GB_E_NOMEM;
    if (s != GB_SUCCESS) {
        free(e->rows);
        free(e);
        goto end_hold;
    }
    e->dev = dev;
    init_locks(e);
    gb_pool_init(&e->pool, dev, (size_t)gb_knobs()->mem_limit);
    gb_stage_init(&e->stage, dev->info.numa_node);
    s = first_lane(e);
    if (s == GB_SUCCESS)
        *engine = e;
    else
        gb_engine_close(e);
end_hold:
    gb_hold_end(&hold);
    return s;
}

/* Everything that hangs on the device but the pool's table; no lane is in use. */
static void drop_parts(struct gb_engine *engine, struct gb_device *dev)
{
    struct gb_lane *lane;

    pthread_mutex_lock(&engine->lock);
    lane = engine->idle;
    engine->idle = NULL;
    engine->lanes = 0;
    pthread_mutex_unlock(&engine->lock);
    while (lane) {
        struct gb_lane *next = lane->link;

        gb_lane_drop(dev, lane);
        lane = next;
    }
    gb_pool_trim(&engine->pool);
    pthread_mutex_lock(&engine->module_lock);
    for (int i = 0; i < engine->n_modules; i++)
        dev->ops->module_unload(dev, engine->modules[i].module);
    engine->n_modules = 0;
    memset(engine->rows, 0, (size_t)gb_kernel_count * sizeof *engine->rows);
    memset(engine->helpers, 0, sizeof engine->helpers);
    memset(engine->emulated, 0, sizeof engine->emulated);
    engine->bytes = engine->sums = NULL;
    pthread_mutex_unlock(&engine->module_lock);
}

void gb_engine_close(struct gb_engine *engine)
{
    struct gb_device *dev = engine->dev;
    struct gb_guest guest;
    struct gb_hold hold;
    bool entered;

    if (gb_engine_foreign(engine))
        return; /* threads and device belong to the parent */
    gb_hold_begin(&hold);
    gb_stage_drop(&engine->stage);
    /* a lost device cannot be entered, but releasing what it had stays legal */
    entered = dev->ops->enter(dev, &guest) == GB_SUCCESS;
    drop_parts(engine, dev);
    gb_pool_drop(&engine->pool);
    if (entered)
        dev->ops->leave(dev, &guest);
    dev->ops->close(dev);
    if (engine->retired)
        engine->retired->ops->close(engine->retired);
    pthread_cond_destroy(&engine->lane_back);
    pthread_mutex_destroy(&engine->module_lock);
    pthread_mutex_destroy(&engine->lock);
    free(engine->rows);
    free(engine);
    gb_hold_end(&hold);
}

struct gb_device *gb_engine_device(struct gb_engine *engine)
{
    return engine->dev;
}

bool gb_engine_lost(struct gb_engine *engine)
{
    return atomic_load(&engine->lost);
}

bool gb_engine_foreign(const struct gb_engine *engine)
{
    return engine->pid != getpid();
}

void gb_engine_fail(struct gb_engine *engine, const struct gb_device *dev)
{
    pthread_mutex_lock(&engine->lock);
    if (engine->dev == dev) /* not one that has been replaced meanwhile */
        atomic_store(&engine->lost, true);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- memory --------------------------------------------------------------------------- */

/* Free device memory as the driver sees it, asked anew when the last answer is old. */
static size_t free_memory(struct gb_engine *engine, size_t held)
{
    struct gb_device *dev = engine->dev;
    int64_t now = milliseconds();
    struct gb_guest guest;
    size_t free_bytes, total;
    enum gb_status s;
    bool stale;

    pthread_mutex_lock(&engine->lock);
    stale = engine->asked_ms == 0 || now - engine->asked_ms > BUDGET_MS;
    free_bytes = engine->free_then + engine->held_then;
    pthread_mutex_unlock(&engine->lock);
    if (!stale)
        return free_bytes > held ? free_bytes - held : 0;
    s = dev->ops->enter(dev, &guest);
    if (s == GB_SUCCESS) {
        s = dev->ops->mem_info(dev, &free_bytes, &total);
        dev->ops->leave(dev, &guest);
    }
    if (s == GB_E_DEVICE)
        gb_engine_fail(engine, dev);
    if (s != GB_SUCCESS)
        return 0;
    pthread_mutex_lock(&engine->lock);
    engine->asked_ms = now;
    engine->free_then = free_bytes;
    engine->held_then = held;
    pthread_mutex_unlock(&engine->lock);
    return free_bytes;
}

size_t gb_engine_budget(struct gb_engine *engine)
{
    struct gb_pool_level level;
    struct gb_device *dev = engine->dev;
    size_t reserve = dev->info.mem_total / 20, budget;
    struct gb_hold hold;

    if (gb_engine_foreign(engine) || gb_engine_lost(engine))
        return 0;
    if (reserve > RESERVE)
        reserve = RESERVE;
    gb_hold_begin(&hold);
    level = gb_pool_level(&engine->pool);
    budget = free_memory(engine, level.used + level.cached) + level.cached;
    budget -= reserve < budget ? reserve : budget;
    if (engine->pool.limit) {
        size_t left = engine->pool.limit;

        left -= level.used < left ? level.used : left;
        budget = left < budget ? left : budget;
    }
    gb_hold_end(&hold);
    return budget - budget / 16; /* what the pool may round up */
}

/* ---- lanes ---------------------------------------------------------------------------- */

static enum gb_status make_lane(struct gb_engine *engine, struct gb_lane **lane)
{
    struct gb_device *dev = engine->dev;
    struct gb_guest guest;
    enum gb_status s = dev->ops->enter(dev, &guest);

    if (s == GB_SUCCESS) {
        s = gb_lane_make(dev, lane);
        dev->ops->leave(dev, &guest);
    }
    if (s == GB_E_DEVICE)
        gb_engine_fail(engine, dev);
    return s;
}

/* The lock is held. */
static void wait_for_lane(struct gb_engine *engine)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LANE_WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&engine->lane_back, &engine->lock, &until);
}

/* The lock is held, and given up while the caller's signals are let through. False in a child
 * that a handler forked then: the lock, which another thread may have held, is not taken. */
static bool let_signals_through(struct gb_engine *engine, struct gb_hold *hold)
{
    if (!gb_hold_wanted(hold))
        return true;
    pthread_mutex_unlock(&engine->lock);
    gb_hold_pause(hold);
    if (gb_engine_foreign(engine))
        return false;
    pthread_mutex_lock(&engine->lock);
    return true;
}

enum gb_status gb_engine_lane(struct gb_engine *engine, struct gb_hold *hold,
                              struct gb_lane **lane)
{
    enum gb_status s;

    pthread_mutex_lock(&engine->lock);
    for (;;) {
        if (gb_engine_lost(engine)) {
            pthread_mutex_unlock(&engine->lock);
            return GB_E_DEVICE;
        }
        if (engine->idle) {
            *lane = engine->idle;
            engine->idle = (*lane)->link;
            engine->in_use++;
            pthread_mutex_unlock(&engine->lock);
            return GB_SUCCESS;
        }
        if (engine->lanes < GB_LANES) {
            engine->lanes++;
            engine->in_use++;
            pthread_mutex_unlock(&engine->lock);
            s = make_lane(engine, lane);
            if (s == GB_SUCCESS)
                return s;
            pthread_mutex_lock(&engine->lock);
            engine->in_use--;
            if (--engine->lanes == 0 || s != GB_E_NOMEM) {
                pthread_mutex_unlock(&engine->lock);
                return s;
            }
        }
        if (!engine->idle)
            wait_for_lane(engine);
        if (!let_signals_through(engine, hold))
            return GB_E_ABSENT;
    }
}

void gb_engine_lane_back(struct gb_engine *engine, struct gb_lane *lane)
{
    pthread_mutex_lock(&engine->lock);
    lane->link = engine->idle;
    engine->idle = lane;
    engine->in_use--;
    /* Of a lost device nobody wants a lane, but all of them want to know. */
    if (gb_engine_lost(engine))
        pthread_cond_broadcast(&engine->lane_back);
    else
        pthread_cond_signal(&engine->lane_back);
    pthread_mutex_unlock(&engine->lock);
}

enum gb_status gb_engine_begin(struct gb_engine *engine)
{
    enum gb_status s = GB_E_DEVICE;

    pthread_mutex_lock(&engine->lock);
    if (!gb_engine_lost(engine)) {
        engine->in_use++;
        s = GB_SUCCESS;
    }
    pthread_mutex_unlock(&engine->lock);
    return s;
}

void gb_engine_done(struct gb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->in_use--;
    if (gb_engine_lost(engine))
        pthread_cond_broadcast(&engine->lane_back);
    pthread_mutex_unlock(&engine->lock);
}

int gb_engine_lanes(struct gb_engine *engine)
{
    int lanes;

    pthread_mutex_lock(&engine->lock);
    lanes = engine->lanes;
    pthread_mutex_unlock(&engine->lock);
    return lanes;
}

/* ---- reopening ------------------------------------------------------------------------ */

/* Wait until the engine is good again, or beyond help, or ours to reopen (*mine). */
static enum gb_status claim_reopening(struct gb_engine *engine, struct gb_hold *hold,
                                      bool *mine)
{
    enum gb_status s = GB_SUCCESS;

    *mine = false;
    pthread_mutex_lock(&engine->lock);
    while (gb_engine_lost(engine)) {
        if (engine->reopened == GB_REOPEN_ONCE) {
            s = GB_E_DEVICE;
            break;
        }
        if (engine->reopened == GB_REOPEN_NEVER && engine->in_use == 0) {
            engine->reopened = GB_REOPEN_NOW;
            *mine = true;
            break;
        }
        wait_for_lane(engine);
        if (!let_signals_through(engine, hold))
            return GB_E_ABSENT;
    }
    pthread_mutex_unlock(&engine->lock);
    return s;
}

/* The engine is lost, no lane is in use and none will be. */
static enum gb_status replace_device(struct gb_engine *engine)
{
    struct gb_device *old = engine->dev, *dev;
    enum gb_status s;

    drop_parts(engine, old);
    s = old->ops->open(old->info.ordinal, &dev);
    if (s != GB_SUCCESS)
        return s;
    pthread_mutex_lock(&engine->pool.lock);
    engine->pool.dev = dev;
    pthread_mutex_unlock(&engine->pool.lock);
    engine->retired = old;
    engine->dev = dev;
    return first_lane(engine);
}

enum gb_status gb_engine_reopen(struct gb_engine *engine)
{
    struct gb_hold hold;
    enum gb_status s;
    bool mine;

    if (gb_engine_foreign(engine))
        return GB_E_ABSENT;
    gb_hold_begin(&hold);
    s = claim_reopening(engine, &hold, &mine);
    if (mine) {
        s = replace_device(engine);
        gb_info("reopening the device: %s", gb_status_text(s));
        pthread_mutex_lock(&engine->lock);
        engine->asked_ms = 0; /* free memory is to be asked anew */
        engine->reopened = GB_REOPEN_ONCE;
        atomic_store(&engine->lost, s != GB_SUCCESS);
        pthread_cond_broadcast(&engine->lane_back);
        pthread_mutex_unlock(&engine->lock);
    }
    gb_hold_end(&hold);
    return s;
}

/* ---- functions ------------------------------------------------------------------------ */

/* The lock is held. */
static enum gb_status find_module(struct gb_engine *engine, const char *family,
                                  struct gb_module **module)
{
    struct gb_device *dev = engine->dev;
    const struct gb_image *image;
    enum gb_status s;
    int n = engine->n_modules;

    for (int i = 0; i < n; i++) {
        if (strcmp(engine->modules[i].family, family) == 0) {
            *module = engine->modules[i].module;
            return GB_SUCCESS;
        }
    }
    image = gb_image_find(family, &dev->info);
    if ((!image && dev->info.vendor != GB_EMU) || n == GB_FAMILIES)
        return GB_E_UNSUPPORTED;
    s = dev->ops->module_load(dev, family, image ? image->data : NULL,
                              image ? image->bytes : 0, module);
    if (s != GB_SUCCESS)
        return s;
    engine->modules[n].family = family;
    engine->modules[n].module = *module;
    engine->n_modules++;
    return GB_SUCCESS;
}

static enum gb_status find_function(struct gb_engine *engine, const char *family,
                                    const char *symbol, struct gb_function **slot,
                                    struct gb_function **f)
{
    struct gb_module *module;
    enum gb_status s = GB_SUCCESS;

    pthread_mutex_lock(&engine->module_lock);
    if (!*slot) {
        s = find_module(engine, family, &module);
        if (s == GB_SUCCESS)
            s = engine->dev->ops->module_get(engine->dev, module, symbol, slot);
    }
    if (s == GB_SUCCESS)
        *f = *slot;
    pthread_mutex_unlock(&engine->module_lock);
    return s;
}

enum gb_status gb_engine_gemm(struct gb_engine *engine, const struct gb_kernel *k,
                              char a, char b, struct gb_function **f)
{
    struct gb_row *row = &engine->rows[k - gb_kernels];
    char symbol[128];

    gb_kernel_symbol(k, a, b, symbol, sizeof symbol);
    return find_function(engine, k->family, symbol,
                         &row->layout[2 * (a == 't') + (b == 't')], f);
}

enum gb_status gb_engine_reduce(struct gb_engine *engine, const struct gb_kernel *k,
                                struct gb_function **f)
{
    struct gb_row *row = &engine->rows[k - gb_kernels];
    char symbol[128];

    gb_kernel_reduce_symbol(k, symbol, sizeof symbol);
    return find_function(engine, k->family, symbol, &row->reduce, f);
}

enum gb_status gb_engine_emulated(struct gb_engine *engine, const struct gb_kernel *k,
                                  char a, char b, struct gb_emulated *f)
{
    struct gb_function **known =
        engine->emulated[k->type == GB_F64][2 * (a == 't') + (b == 't')];
    char symbol[96];
    enum gb_status s = GB_SUCCESS;

    *f = (struct gb_emulated){{NULL}};
    for (int i = 0; i < GB_EMULATED_STEPS && s == GB_SUCCESS; i++) {
        if (i == GB_STEP_GEMM)
            s = gb_engine_gemm(engine, k, 'n', 'n', &f->step[i]);
        else if (gb_emulated_symbol(k, (enum gb_emulated_step)i, a, b, symbol,
                                    sizeof symbol))
            s = find_function(engine, k->family, symbol, &known[i], &f->step[i]);
    }
    return s;
}

enum gb_status gb_engine_integer(struct gb_engine *engine, const struct gb_kernel *k,
                                 struct gb_integer *f)
{
    enum gb_status s = gb_engine_gemm(engine, k, 'n', 'n', &f->gemm);

    if (s == GB_SUCCESS)
        s = find_function(engine, k->family, GB_BYTES_SYMBOL, &engine->bytes,
                          &f->bytes);
    if (s == GB_SUCCESS)
        s = find_function(engine, k->family, GB_SUMS_SYMBOL, &engine->sums, &f->sums);
    return s;
}

enum gb_helper gb_engine_repair_of(const struct gb_kernel *k)
{
    return k->flags & GB_K_FAST ? GB_HELP_REPACK : GB_HELP_REPAIR;
}

enum gb_status gb_engine_helper(struct gb_engine *engine, enum gb_helper which,
                                struct gb_function **f)
{
    static const char *const symbol[GB_HELPERS] = {
        GB_REPAIR_SYMBOL, GB_REPACK_SYMBOL, "gb_pack_1",  "gb_pack_2",
        "gb_pack_4",      "gb_pack_8",      "gb_pack_16", GB_LIST_SYMBOL};

    return find_function(engine, GB_REPAIR_FAMILY, symbol[which],
                         &engine->helpers[which], f);
}
