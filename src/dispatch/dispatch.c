/* SPDX-License-Identifier: BSD-3-Clause */
/* From a legal call to a final C: once-init, fork guard, opening the device when it has been
 * earned, route, plan, execution, and the CPU for what a failing device left. */
#include "dispatch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "device.h"
#include "exec.h"
#include "fpstate.h"
#include "hold.h"
#include "knobs.h"
#include "log.h"
#include "model.h"
#include "plan.h"
#include "route.h"
#include "stats.h"
#include "tuned_file.h"

enum { DEVICES = 16 };

/* COLD -> OPENING -> OPEN or ABSENT; OPEN -> ABSENT when the device is lost. */
enum phase { COLD, OPENING, OPEN, ABSENT };

uint64_t gb_fast; /* 0: nothing is known yet, every call takes the slow path */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct gb_rates rates;

static pthread_mutex_t opening_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opening_ended = PTHREAD_COND_INITIALIZER;
static _Atomic int phase = COLD;
static _Atomic pid_t
    owner; /* the process that left COLD; its children stay on the CPU */
static struct gb_engine *engine; /* published by phase == OPEN */
static atomic_bool exiting;
static _Atomic uint64_t gained_ns; /* modelled gains that warming has forgone */

static const char *environment(const char *name)
{
    return secure_getenv(name);
}

static void set_fast(uint64_t value)
{
    if (gb_stats_wanted())
        value = 0;
    __atomic_store_n(&gb_fast, value, __ATOMIC_RELEASE);
}

static void init(void)
{
    const struct gb_knobs *knobs = gb_knobs();

    gb_stats_init();
    rates = gb_model_rates(environment);
    if (strstr(knobs->route, "gpu"))
        set_fast(0);
    else if (strcmp(knobs->route, "cpu") == 0 || gb_device_is_none(knobs->device))
        set_fast(UINT64_MAX);
    else
        set_fast(gb_route_floor(&rates));
}

static void first_call(void)
{
    struct gb_hold hold;

    gb_hold_begin(&hold); /* reading files is a cancellation point, too */
    init();
    gb_hold_end(&hold);
}

/* Handlers and destructors that call BLAS after this runs get the CPU: the driver may already
 * be gone. A helper that is still opening is waited for, since a driver that is torn down
 * while it starts crashes the process. */
static void at_exit(void)
{
    struct timespec until;
    struct gb_hold hold;

    atomic_store(&exiting, true);
    if (getpid() != atomic_load(&owner))
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    gb_hold_begin(&hold);
    pthread_mutex_lock(&opening_lock);
    while (atomic_load(&phase) == OPENING &&
           pthread_cond_timedwait(&opening_ended, &opening_lock, &until) == 0)
        ;
    pthread_mutex_unlock(&opening_lock);
    gb_hold_end(&hold);
}

static void end_opening(enum phase result)
{
    if (result == ABSENT)
        set_fast(UINT64_MAX);
    pthread_mutex_lock(&opening_lock);
    atomic_store(&phase, result);
    pthread_cond_broadcast(&opening_ended);
    pthread_mutex_unlock(&opening_lock);
}

/* Open the first device that opens. Only the thread that moved COLD to OPENING is here. */
static void open_device(void)
{
    struct gb_device_ref refs[DEVICES];
    int n = gb_device_list(gb_knobs()->device, refs, DEVICES);

    for (int i = 0; i < n; i++) {
        struct gb_engine *e;
        enum gb_status s = gb_engine_open(refs[i], &e);

        if (s == GB_SUCCESS) {
            gb_tuned_load(&gb_engine_device(e)->info);
            engine = e;
            gb_info("using %s device %d: %s", refs[i].ops->name, refs[i].ordinal,
                    gb_engine_device(e)->info.name);
            end_opening(OPEN);
            return;
        }
        gb_info("%s device %d: %s", refs[i].ops->name, refs[i].ordinal,
                gb_status_text(s));
    }
    end_opening(ABSENT);
}

static void *opening_thread(void *arg)
{
    (void)arg;
    open_device();
    return NULL;
}

static bool claim_opening(void)
{
    int expected = COLD;

    if (atomic_load(&phase) != COLD)
        return false;
    atomic_store(&owner, getpid()); /* first: others look at it once COLD is left */
    if (!atomic_compare_exchange_strong(&phase, &expected, OPENING))
        return false;
    atexit(at_exit);
    return true;
}

static void open_on_helper(void)
{
    struct gb_hold hold;
    pthread_t helper;
    int failed;

    gb_hold_begin(&hold); /* inherited by the helper and by the driver's own threads */
    if (claim_opening()) {
        failed = pthread_create(&helper, NULL, opening_thread, NULL);
        if (failed) {
            gb_warn("cannot start a thread to open the device: %s", strerror(failed));
            end_opening(ABSENT);
        } else {
            pthread_detach(helper);
        }
    }
    gb_hold_end(&hold);
}

static void open_and_wait(void)
{
    struct gb_hold hold;

    /* Neither a handler that jumps nor a cancellation may leave with the lock held. */
    gb_hold_begin(&hold);
    if (claim_opening()) {
        open_device();
    } else {
        pthread_mutex_lock(&opening_lock);
        while (atomic_load(&phase) == OPENING)
            pthread_cond_wait(&opening_ended, &opening_lock);
        pthread_mutex_unlock(&opening_lock);
    }
    gb_hold_end(&hold);
}

/* The state of the device as far as this call is concerned. `gain` is what the model expects
 * of it, in seconds. */
static enum gb_why warm(enum gb_knob_route route, double gain)
{
    enum phase now = (enum phase)atomic_load(&phase);

    if (now == ABSENT)
        return GB_WHY_NODEVICE;
    if (now != COLD && getpid() != atomic_load(&owner))
        return GB_WHY_FORKED;
    if (atomic_load(&exiting))
        return GB_WHY_EXITING;
    if (now == OPEN)
        return GB_OK;
    if (now == COLD && route != GB_ROUTE_GPU &&
        !gb_device_plausible(gb_knobs()->device)) {
        if (claim_opening())
            end_opening(ABSENT);
        return GB_WHY_NODEVICE;
    }
    if (route == GB_ROUTE_GPU || gain > rates.open) {
        /* This call alone is worth the wait. */
        open_and_wait();
        return atomic_load(&phase) == OPEN ? GB_OK : GB_WHY_NODEVICE;
    }
    if (now == COLD) {
        uint64_t ns = (uint64_t)(1e9 * gain);

        if (atomic_fetch_add(&gained_ns, ns) + ns >= (uint64_t)(1e9 * rates.open))
            open_on_helper();
    }
    return GB_WHY_WARMING;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A device that failed is not asked again. */
static void retire(void)
{
    int open = OPEN;

    if (!gb_engine_lost(engine) ||
        !atomic_compare_exchange_strong(&phase, &open, ABSENT))
        return;
    gb_error("%s failed and is not used again in this process",
             gb_engine_device(engine)->info.name);
    set_fast(UINT64_MAX);
}

/* This thread is in gb_cpu_finish: what the real BLAS hands back to us there goes to it
 * again. */
static __thread bool finishing;

static void finish(const struct gb_plan *plan, int64_t done)
{
    struct gb_hold hold;

    gb_hold_begin(&hold); /* a handler that jumps must not leave `finishing` set */
    finishing = true;
    gb_cpu_finish(plan, done);
    finishing = false;
    gb_hold_end(&hold);
}

/* The program may have destroyed the context that we share with it: once, the device is
 * opened again. */
static bool good(void)
{
    return !gb_engine_lost(engine) || gb_engine_reopen(engine) == GB_SUCCESS;
}

/* Plan and execute on the open device. After GB_WHY_LOST and GB_WHY_PART C is final all the
 * same. */
static enum gb_why run(const struct gb_problem *p, struct gb_record *record)
{
    size_t budget = gb_engine_budget(engine);
    struct gb_exec_stats done = {0};
    struct gb_plan plan;
    enum gb_why why;

    if (!good()) {
        retire();
        return GB_WHY_NODEVICE;
    }
    if (budget == 0)
        budget = gb_engine_budget(engine); /* it was lost when we asked */
    do {
        uint64_t fp = gb_fp_enter(); /* planning computes in doubles */

        why = gb_plan_make(p, &gb_engine_device(engine)->info, budget, &plan);
        gb_fp_leave(fp);
        if (why != GB_OK)
            return why;
        why = gb_exec(engine, &plan, &done);
        if (why == GB_WHY_LOST && good())
            why = gb_exec_from(engine, &plan, &done);
        budget = gb_plan_bytes(&plan) / 2; /* others took the memory meanwhile */
    } while (why == GB_WHY_OOM);
    if (why == GB_WHY_LOST || why == GB_WHY_PART)
        finish(&plan, done.done);
    retire();
    record->kernel = plan.kernel->name;
    record->splits = plan.splits;
    record->chosen = gb_plan_chosen_name(plan.chosen);
    record->panels = gb_plan_panels(&plan);
    record->bytes_up = done.bytes_up;
    record->bytes_down = done.bytes_down;
    return why;
}

static enum gb_why decide(const struct gb_problem *call, const char *routine,
                          struct gb_record *record)
{
    bool open = atomic_load(&phase) == OPEN;
    struct gb_problem p = *call;
    struct gb_route_in in = {
        .route = gb_knobs_route(routine),
        .disabled = gb_knobs_disabled(routine),
        .info = open ? &gb_engine_device(engine)->info : &gb_model_typical,
        .rates = &rates,
    };
    struct gb_route_out out;
    uint64_t fp = gb_fp_enter();
    enum gb_why why;

    p.math = (enum gb_math)gb_knobs()->math;
    gb_route_tighten(&p);
    why = gb_route(&p, &in, &out);
    if (why == GB_OK)
        why = warm(in.route, out.cost.cpu - out.cost.gpu);
    gb_fp_leave(fp);
    return why == GB_OK ? run(&p, record) : why;
}

/* The last call of this thread that was forwarded, to know a product that the real BLAS hands
 * back to us (its cblas_dgemm calls dgemm_): the same C and sizes under another name, deeper
 * in the stack. A handler that jumped away leaves this stale, which at worst labels a later
 * call `nested` in a trace; it decides nothing. */
static __thread struct {
    const char *symbol;
    const void *c;
    int64_t m, n, k;
    uintptr_t frame;
} forwarded;

static bool is_nested(const struct gb_problem *p, const struct gb_call *call,
                      uintptr_t frame)
{
    return forwarded.symbol && forwarded.symbol != call->symbol &&
           forwarded.c == p->c && forwarded.m == p->m && forwarded.n == p->n &&
           forwarded.k == p->k && frame < forwarded.frame;
}

static enum gb_why dispatch(const struct gb_problem *p, const char *routine,
                            const struct gb_call *call, enum gb_why why)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    struct gb_record record = {0};
    uint64_t start;

    pthread_once(&once, first_call);
    if (!gb_stats_wanted())
        return why == GB_OK ? decide(p, routine, &record) : why;
    start = now_ns();
    if (why == GB_OK)
        why = decide(p, routine, &record);
    if (gb_why_final(why)) {
        record.nanoseconds = now_ns() - start;
        gb_stats_record(p, routine, call, why, &record);
    } else {
        gb_stats_record(p, routine, call,
                        is_nested(p, call, frame) ? GB_WHY_NESTED : why, &record);
        forwarded.symbol = call->symbol;
        forwarded.c = p->c;
        forwarded.m = p->m;
        forwarded.n = p->n;
        forwarded.k = p->k;
        forwarded.frame = frame;
    }
    return why;
}

enum gb_why gb_dispatch(const struct gb_problem *p, const char *routine,
                        const struct gb_call *call, enum gb_why why)
{
    int saved = errno;

    why = finishing ? GB_WHY_NESTED : dispatch(p, routine, call, why);
    errno = saved;
    return gb_why_final(why) ? GB_OK : why;
}

struct gb_engine *gb_dispatch_engine(bool wait)
{
    int saved = errno;
    struct gb_engine *e = NULL;

    pthread_once(&once, first_call);
    if (!gb_device_is_none(gb_knobs()->device) &&
        (wait || atomic_load(&phase) == OPEN) && warm(GB_ROUTE_GPU, 0) == GB_OK) {
        if (good())
            e = engine;
        else
            retire();
    }
    errno = saved;
    return e;
}
