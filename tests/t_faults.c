/* SPDX-License-Identifier: BSD-3-Clause */
/* Every device operation fails once, at its n-th call, for n = 1, 2, ... until a call runs
 * through: C is then exact below `done` and untouched above, and after the CPU has finished
 * it, right everywhere, beta applied once. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        gb_engine_budget(engine); /* dispatch asks before each call */
        out->why = gb_exec(engine, &x->plan, &stats);
        out->done = stats.done;
        out->lost = gb_engine_lost(engine);
        if (out->why == GB_OK && stats.done != total)
            good = false;
        if (out->why == GB_WHY_OOM && stats.done != 0)
            good = false;
        if (out->lost && out->why == GB_OK)
            good = false;
        if (!good)
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

static void all_operations(struct product *x, const char *name)
{
    for (size_t i = 0; i < GB_COUNT(operations); i++) {
        struct tally t;
        bool good = sweep(x, operations[i], "", 2, &t);

        ok(good && (t.runs > 0 || strcmp(operations[i], "stream_sync") == 0),
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
           out.why != GB_OK,
       "launches refused for memory: done pieces stay, the device too %s", why);
    ok(attempt(x, "copy_out@30+=nomem", 1, &out, why, sizeof why) && !out.lost &&
           out.why == GB_WHY_LOST && out.done > 0,
       "the same for downloads, in the middle (%lld done) %s", (long long)out.done,
       why);
    ok(attempt(x, "copy_in@7=nomem", 1, &out, why, sizeof why) && out.why == GB_OK,
       "one refused copy is tried again %s", why);
    ok(attempt(x, "module_get@1=unsupported", 1, &out, why, sizeof why) &&
           out.why == GB_WHY_UNSUPPORTED && !out.lost,
       "no such kernel %s", why);
}

int main(void)
{
    struct product x;

    plan_lazy();
    find_entry();
    make(&x, GB_F64, 1);
    all_operations(&x, "f64");
    short_of_memory(&x);
    late(&x, "copy_in");
    late(&x, "copy_out");
    late(&x, "launch");
    product_drop(&x);
    make(&x, GB_C32, 3);
    all_operations(&x, "c32, splits");
    product_drop(&x);
    b34();
    return 0;
}
