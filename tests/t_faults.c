/* SPDX-License-Identifier: BSD-3-Clause */
/* Every device operation fails once, at its n-th call, for n = 1, 2, ... until a call runs
 * through: C is then exact below `done` and untouched above, and after the CPU has finished
 * it, right everywhere, beta applied once. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "engine.h"
#include "fault.h"
#include "product.h"
#include "tap.h"
#include "util.h"

static const char *const operations[] = {
#define OP(name) #name,
    GB_FAULT_OPS(OP)
#undef OP
};

static gb_emu_entry configure;
static volatile int hits;

static void count_hits(int level, const char *line)
{
    (void)level;
    hits += strncmp(line, "fault: ", 7) == 0;
}

/* The device library's own entry: it takes new faults for devices opened from now on. */
static void find_entry(void)
{
    const struct gb_device_ops *ops = gb_emu_load();
    Dl_info library;
    void *handle = NULL, *entry = NULL;

    if (ops && dladdr((void *)(uintptr_t)ops->open, &library))
        handle = dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (handle)
        entry = dlsym(handle, GB_EMU_ENTRY);
    if (!entry)
        skip_all("the emulated device cannot be loaded");
    memcpy(&configure, &entry, sizeof entry);
}

static const struct gb_device_ops *with_fault(const char *fault, uint64_t seed)
{
    static struct gb_emu_config config;

    config = (struct gb_emu_config){
        .fault = fault, .seed = seed, .mem_total = (size_t)64 << 20, .log = count_hits};
    hits = 0;
    return configure(&config);
}

struct outcome {
    bool opened, lost;
    enum gb_why why;
    int64_t done;
};

/* The budget that dispatch asks for before each call: nothing is left of a device only if it
 * is lost, or (by a fault that the name of which says so) short of memory. */
static bool ask_budget(struct gb_engine *engine, const struct product *x, bool nomem)
{
    size_t budget = gb_engine_budget(engine);

    if (gb_engine_lost(engine))
        return budget == 0;
    return nomem || budget >= gb_plan_bytes(&x->plan);
}

/* Open, run `calls` times (C put back in between), close. */
static bool attempt(struct product *x, const char *fault, int calls,
                    struct outcome *out, char *why, size_t len)
{
    struct gb_device_ref ref = {.ops = with_fault(fault, 3)};
    struct gb_engine *engine;
    struct gb_exec_stats stats;
    int64_t total = product_pieces_total(x);
    bool good = true;

    *out = (struct outcome){.opened = false};
    product_restore(x);
    if (gb_engine_open(ref, &engine) != GB_SUCCESS)
        return true;
    out->opened = true;
    for (int i = 0; i < calls && good; i++) {
        product_restore(x);
        if (!ask_budget(engine, x, strstr(fault, "nomem") != NULL)) {
            snprintf(why, len, "a budget of a lost device, or none of a good one");
            good = false;
        }
        out->why = gb_exec(engine, &x->plan, &stats);
        out->done = stats.done;
        out->lost = gb_engine_lost(engine);
        if ((out->why == GB_WHY_LOST) != out->lost ||
            (out->why == GB_WHY_PART && stats.done == 0))
            good = false;
        if (out->why == GB_OK && stats.done != total)
            good = false;
        if (out->why == GB_WHY_OOM && stats.done != 0)
            good = false;
        if (out->lost && out->why == GB_OK)
            good = false;
        if (!good && !*why)
            snprintf(why, len, "answer %s with %lld of %lld pieces",
                     gb_why_name(out->why), (long long)stats.done, (long long)total);
        good = good && product_check(x, stats.done, why, len);
        if (good && out->why != GB_OK) {
            gb_cpu_finish(&x->plan, stats.done);
            good = product_check(x, total, why, len);
        }
        if (out->lost)
            break;
    }
    gb_engine_close(engine);
    return good;
}

struct tally {
    int runs, opened, lost, oom, partial;
};

/* Fail `op` at call n for every n until one run meets no fault; false with the reason when a
 * run went wrong. */
static bool sweep(struct product *x, const char *op, const char *how, int calls,
                  struct tally *tally)
{
    char fault[64], why[160] = "";
    struct outcome out;

    *tally = (struct tally){.runs = 0};
    for (int n = 1;; n++) {
        snprintf(fault, sizeof fault, "%s@%d%s", op, n, how);
        if (!attempt(x, fault, calls, &out, why, sizeof why)) {
            char text[400];

            product_describe(x, text, sizeof text);
            diag("%s: %s: %s", fault, why, text);
            return false;
        }
        /* A late failure is not announced; one that never came leaves the result. */
        if (*how ? !out.lost : out.opened && !hits)
            return out.why == GB_OK;
        tally->runs++;
        tally->opened += out.opened;
        tally->lost += out.lost;
        tally->oom += out.opened && out.why == GB_WHY_OOM;
        tally->partial += out.why == GB_WHY_LOST && out.done > 0;
        /* The later calls of a kind are many and alike. */
        if (n > 16)
            n += n / 8;
    }
}

static void make(struct product *x, enum gb_type type, int splits)
{
    struct verify_random r = verify_seed(11);
    struct product_spec spec = {.type = type,
                                .type_c = type,
                                .transa = GB_C,
                                .m = 40,
                                .n = 36,
                                .k = 50,
                                .alpha = {2, 0},
                                .beta = {3, 0},
                                .extra = {1, 2, 3},
                                .place = VERIFY_MIDDLE,
                                .fill = VERIFY_INTEGERS};

    product_make(x, &spec, &r);
    product_plan(x, 16, 20, 24, splits);
    product_pieces(x, 9, 7, 700);
}

/* What no product without vectors, in streams of our own, comes by. */
static bool is_elsewhere(const char *operation)
{
    return strcmp(operation, "stream_sync") == 0 ||
           strcmp(operation, "stream_borrow") == 0 ||
           strcmp(operation, "alloc_queued") == 0;
}

static void all_operations(struct product *x, const char *name)
{
    for (size_t i = 0; i < GB_COUNT(operations); i++) {
        struct tally t;
        bool good = sweep(x, operations[i], "", 2, &t);

        ok(good && (t.runs > 0 || is_elsewhere(operations[i])),
           "%s: %s fails (%d runs, %d lost, %d out of memory, %d with part of C done)",
           name, operations[i], t.runs, t.lost, t.oom, t.partial);
    }
}

/* The device fails when the work runs, not when it is queued. */
static void late(struct product *x, const char *op)
{
    struct tally t;
    bool good = sweep(x, op, "=late", 1, &t);

    ok(good && t.partial > 0, "f64: %s fails late (%d runs, %d with part of C done)",
       op, t.runs, t.partial);
}

/* B34: A = 0, beta = 2, C = 1, the second of three panels fails: all 2, never 4, never 1. */
static void b34(void)
{
    struct verify_random r = verify_seed(1);
    struct product_spec spec = {.type = GB_F64,
                                .type_c = GB_F64,
                                .m = 30,
                                .n = 30,
                                .k = 10,
                                .alpha = {1, 0},
                                .beta = {2, 0},
                                .fill = VERIFY_INTEGERS};
    struct outcome out;
    struct product x;
    char why[160] = "";
    int wrong = 0;

    product_make(&x, &spec, &r);
    for (int64_t j = 0; j < 30; j++) {
        for (int64_t i = 0; i < 30; i++)
            verify_set(&x.c, i, j, 1, 0);
    }
    verify_freeze(&x.c, false);
    verify_matrix_drop(&x.a);
    verify_matrix_make(&x.a, GB_F64, false, 30, 10, 30, VERIFY_LOW);
    for (int64_t l = 0; l < 10; l++) {
        for (int64_t i = 0; i < 30; i++)
            verify_set(&x.a, i, l, 0, 0);
    }
    verify_freeze(&x.a, true);
    x.p.a = x.a.at;
    product_plan(&x, 30, 10, 10, 1);
    ok(attempt(&x, "launch@2=late", 1, &out, why, sizeof why), "B34: %s", why);
    is_int(GB_WHY_LOST, out.why, "the device was lost in the second panel");
    for (int64_t j = 0; j < 30; j++) {
        for (int64_t i = 0; i < 30; i++)
            wrong += verify_get(&x.c, i, j).re != 2;
    }
    is_int(0, wrong, "all elements are 2");
    product_drop(&x);
}

/* Memory that is short once is asked for again after the pool has given back its own; memory
 * that stays short ends the call without harm to the device. */
static void short_of_memory(struct product *x)
{
    struct outcome out;
    char why[160] = "";

    ok(attempt(x, "mem_alloc@1", 1, &out, why, sizeof why) && out.why == GB_OK,
       "one refusal of device memory is got over %s", why);
    ok(attempt(x, "mem_alloc@1+", 2, &out, why, sizeof why) && out.why == GB_WHY_OOM &&
           !out.lost,
       "no device memory at all: nothing is touched %s", why);
    ok(attempt(x, "host_alloc@1+", 2, &out, why, sizeof why) && out.why == GB_WHY_OOM &&
           !out.lost,
       "no pinned memory at all: nothing is touched %s", why);
    ok(attempt(x, "host_alloc@2+", 2, &out, why, sizeof why) && out.why == GB_OK,
       "one block of slots is enough for small pieces %s", why);
    ok(attempt(x, "launch@3+=nomem", 1, &out, why, sizeof why) && !out.lost &&
           (out.why == GB_WHY_PART || out.why == GB_WHY_OOM),
       "launches refused for memory: done pieces stay, the device too %s", why);
    ok(attempt(x, "copy_out@30+=nomem", 1, &out, why, sizeof why) && !out.lost &&
           out.why == GB_WHY_PART && out.done > 0,
       "the same for downloads, in the middle (%lld done) %s", (long long)out.done,
       why);
    ok(attempt(x, "copy_in@7=nomem", 1, &out, why, sizeof why) && out.why == GB_OK,
       "one refused copy is tried again %s", why);
    ok(attempt(x, "module_get@1=unsupported", 1, &out, why, sizeof why) &&
           out.why == GB_WHY_UNSUPPORTED && !out.lost,
       "no such kernel %s", why);
    ok(attempt(x, "launch@1=unsupported", 1, &out, why, sizeof why) &&
           out.why == GB_WHY_UNSUPPORTED && !out.lost && out.done == 0,
       "a kernel that refuses its operands: nothing is touched %s", why);
    ok(attempt(x, "launch@3=unsupported", 1, &out, why, sizeof why) && !out.lost &&
           (out.why == GB_WHY_PART || out.why == GB_WHY_UNSUPPORTED),
       "one that refuses those of a later step: done pieces stay %s", why);
    ok(attempt(x, "mem_info@1=nomem", 1, &out, why, sizeof why) && out.why == GB_OK &&
           !out.lost,
       "free memory that is not told costs no device %s", why);
}

/* ---- a context that the program destroyed ---- */

/* What dispatch does: run, and as long as the device is lost and comes back, go on. */
static enum gb_why run_on(struct gb_engine *engine, struct product *x,
                          struct gb_exec_stats *stats)
{
    enum gb_why answer;

    gb_engine_budget(engine);
    answer = gb_exec(engine, &x->plan, stats);
    while (answer == GB_WHY_LOST && gb_engine_reopen(engine) == GB_SUCCESS)
        answer = gb_exec_from(engine, &x->plan, stats);
    return answer;
}

/* One operation finds the device lost, which can be opened again. */
static bool reopened_once(struct product *x, const char *fault, bool *lost,
                          int64_t *done, char *why, size_t len)
{
    struct gb_device_ref ref = {.ops = with_fault(fault, 3)};
    int64_t total = product_pieces_total(x);
    struct gb_engine *engine;
    struct gb_exec_stats stats;
    enum gb_why answer;
    bool good;

    *lost = false;
    *done = 0;
    if (gb_engine_open(ref, &engine) != GB_SUCCESS)
        return true;
    product_restore(x);
    gb_engine_budget(engine);
    answer = gb_exec(engine, &x->plan, &stats);
    *lost = gb_engine_lost(engine);
    *done = stats.done;
    good = product_check(x, stats.done, why, len);
    if (good && *lost) {
        good = gb_engine_reopen(engine) == GB_SUCCESS;
        answer = gb_exec_from(engine, &x->plan, &stats);
    }
    good = good && answer == GB_OK && stats.done == total && !gb_engine_lost(engine);
    if (!good && !*why)
        snprintf(why, len, "answer %s, %lld of %lld pieces", gb_why_name(answer),
                 (long long)stats.done, (long long)total);
    good = good && product_check(x, total, why, len);
    if (good && *lost) { /* the next call is like any other */
        product_restore(x);
        good = ask_budget(engine, x, false) &&
               gb_exec(engine, &x->plan, &stats) == GB_OK &&
               product_check(x, total, why, len);
    }
    gb_engine_close(engine);
    return good;
}

/* Do `done` pieces end with a panel? */
static bool is_whole(const struct gb_plan *plan, int64_t done)
{
    for (int64_t i = 0; done > 0; i++)
        done -=
            gb_rect_pieces(gb_plan_panel(plan, i), plan->piece_rows, plan->piece_cols);
    return done == 0;
}

static void reopen(struct product *x, const char *op, const char *how, bool within)
{
    int runs = 0, came_back = 0, in_panel = 0;
    char fault[64], why[160] = "";
    int64_t done;
    bool lost, good = true;

    for (int n = 1; good; n += n > 16 ? n / 8 : 1) {
        snprintf(fault, sizeof fault, "%s@%d=%s", op, n, how);
        good = reopened_once(x, fault, &lost, &done, why, sizeof why);
        if (good && !lost && hits == 0)
            break;
        runs++;
        came_back += lost;
        in_panel += !is_whole(&x->plan, done);
    }
    if (!ok(good && came_back > 0 && (in_panel > 0 || !within),
            "%s=%s: reopened, the rest is run again (%d of %d, %d within a panel)", op,
            how, came_back, runs, in_panel))
        diag("%s: %s", fault, why);
}

/* The second loss is for good, and so is a device that cannot be opened. */
static void reopen_in_vain(struct product *x, const char *fault)
{
    struct gb_device_ref ref = {.ops = with_fault(fault, 3)};
    struct gb_exec_stats stats;
    struct gb_engine *engine;
    char why[160] = "";

    product_restore(x);
    if (gb_engine_open(ref, &engine) != GB_SUCCESS)
        bail("no device");
    is_int(GB_WHY_LOST, run_on(engine, x, &stats), "%s: lost for good", fault);
    ok(gb_engine_lost(engine), "%s: it says so", fault);
    is_int(GB_E_DEVICE, gb_engine_reopen(engine), "%s: once is all", fault);
    gb_cpu_finish(&x->plan, stats.done);
    ok(product_check(x, product_pieces_total(x), why, sizeof why), "%s: %lld done %s",
       fault, (long long)stats.done, why);
    gb_engine_close(engine);
}

struct caller {
    pthread_t thread;
    struct gb_engine *engine;
    struct product x;
    int wrong;
};

static void *call_often(void *arg)
{
    struct caller *c = arg;

    for (int i = 0; i < 6; i++) {
        struct gb_exec_stats stats;
        char why[160] = "";

        product_restore(&c->x);
        c->wrong += run_on(c->engine, &c->x, &stats) != GB_OK;
        c->wrong += !product_check(&c->x, stats.done, why, sizeof why);
    }
    return NULL;
}

/* All callers lose the device at once, one of them reopens it for all. */
static void reopen_for_many(const char *fault)
{
    static struct caller callers[GB_LANES + 4];
    struct gb_device_ref ref = {.ops = with_fault(fault, 3)};
    struct gb_engine *engine;
    int wrong = 0;

    if (gb_engine_open(ref, &engine) != GB_SUCCESS)
        bail("no device");
    for (size_t i = 0; i < GB_COUNT(callers); i++) {
        callers[i] = (struct caller){.engine = engine};
        make(&callers[i].x, GB_F64, 1);
    }
    for (size_t i = 0; i < GB_COUNT(callers); i++) {
        if (pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) != 0)
            bail("no thread");
    }
    for (size_t i = 0; i < GB_COUNT(callers); i++) {
        pthread_join(callers[i].thread, NULL);
        wrong += callers[i].wrong;
        product_drop(&callers[i].x);
    }
    ok(wrong == 0 && hits == 1 && engine->retired && !gb_engine_lost(engine),
       "%s: %d callers are served by the reopened device (%d wrong)", fault,
       (int)GB_COUNT(callers), wrong);
    is_int(0, engine->in_use, "%s: no lane is in use", fault);
    gb_engine_close(engine);
}

/* ---- no room for the emulated device's threads ---- */

/* The limit leaves `room` bytes beyond what the process has now. */
static void leave_room(int resource, size_t room)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t total = 0, data = 0;
    struct rlimit limit;

    if (!f || fscanf(f, "%zu %*u %*u %*u %*u %zu", &total, &data) != 2)
        bail("no /proc/self/statm");
    fclose(f);
    getrlimit(resource, &limit);
    limit.rlim_cur =
        (resource == RLIMIT_AS ? total : data) * (size_t)sysconf(_SC_PAGESIZE) + room;
    if (setrlimit(resource, &limit) != 0)
        bail("setrlimit");
}

static void lift(int resource)
{
    struct rlimit limit;

    getrlimit(resource, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
}

/* In a child, where nothing has run, so that no stacks are kept from before. The limit is the
 * device's alone: what the real BLAS does when it cannot have its threads is its business. */
static int crowded(int resource, size_t room)
{
    struct gb_device_ref ref = {.ops = NULL};
    struct gb_exec_stats stats;
    struct gb_engine *engine;
    char why[160] = "";
    struct product x;
    enum gb_why answer;

    find_entry();
    ref.ops = with_fault("", 3);
    make(&x, GB_F64, 1);
    product_restore(&x);
    if (gb_engine_open(ref, &engine) != GB_SUCCESS)
        bail("no device");
    leave_room(resource, room);
    answer = gb_exec(engine, &x.plan, &stats);
    lift(resource);
    if (answer != GB_WHY_LOST || !gb_engine_lost(engine) ||
        !product_check(&x, stats.done, why, sizeof why))
        bail("answer %s: %s", gb_why_name(answer), why);
    gb_cpu_finish(&x.plan, stats.done);
    if (!product_check(&x, product_pieces_total(&x), why, sizeof why))
        bail("%s", why);
    return 0;
}

static void no_room(void)
{
    static const char *const modes[] = {"crowded-data", "crowded-as"};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip("a sanitizer does not live under a memory limit (%s, %s)", modes[0], modes[1]);
    return;
#endif
    for (size_t i = 0; i < GB_COUNT(modes); i++) {
        struct child c;

        child_run(&c, modes[i], NULL, 60);
        ok(child_passed(&c),
           "%s: a device without room for a block's threads is lost, "
           "the CPU finishes C",
           modes[i]);
    }
}

int main(int argc, char **argv)
{
    struct product x;

    if (argc > 1)
        return crowded(strcmp(argv[1], "crowded-as") == 0 ? RLIMIT_AS : RLIMIT_DATA,
                       (size_t)4 << 20);
    find_entry();
    plan_lazy();
    no_room();
    make(&x, GB_F64, 1);
    all_operations(&x, "f64");
    short_of_memory(&x);
    late(&x, "copy_in");
    late(&x, "copy_out");
    late(&x, "launch");
    product_plan(&x, 40, 20, 24, 1);
    product_pieces(&x, 4, 3, 700); /* more than slots: lost within a panel */
    reopen(&x, "enter", "device", false);
    reopen(&x, "launch", "device", false);
    reopen(&x, "copy_out", "device", true);
    reopen(&x, "event_query", "device", true);
    reopen_in_vain(&x, "launch@5+");
    reopen_in_vain(&x, "launch@5,open@2");
    reopen_in_vain(&x, "copy_out@3,copy_out@20");
    product_drop(&x);
    make(&x, GB_C32, 3);
    all_operations(&x, "c32, splits");
    product_drop(&x);
    b34();
    reopen_for_many("launch@100");
    reopen_for_many("enter@30");
    reopen_for_many("copy_out@200");
    return 0;
}
