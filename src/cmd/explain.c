/* SPDX-License-Identifier: BSD-3-Clause */
/* `gemmblas explain`: route and kernel of one call, each term of the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "device.h"
#include "kernels.h"
#include "knobs.h"
#include "model.h"
#include "plan.h"
#include "route.h"
#include "tuned_file.h"
#include "util.h"

enum { RUNNERS_UP = 8 };

static void help(void)
{
    puts(
        "usage: gemmblas explain [--all] ROUTINE TRANSA TRANSB M N K [BETA]\n\n"
        "Example: gemmblas explain dgemm N N 4096 4096 4096\n"
        "Prints where such a call would run; the kernel that would serve it, who chose "
        "it and\n"
        "what the model expects of it; the 8 next best kernels by the model (--all: "
        "every one);\n"
        "and what the model expects of both sides. The shape alone counts: C is taken "
        "to overlap\n"
        "nothing, and BETA is 0 unless given. Routines:");
    for (size_t i = 0; i < GB_ROUTINES; i++)
        printf(" %s", gb_routines[i].name);
    putchar('\n');
}

static const char *environment(const char *name)
{
    return getenv(name);
}

static void print_chosen(const struct gb_choice *c)
{
    const struct gb_terms *t = &c->terms;

    printf("kernel %s %.1f us predicted, chosen by %s: split %d, group %d, hints %s\n",
           c->kernel->name, 1e6 * c->seconds, gb_plan_chosen_name(c->chosen), c->splits,
           c->group_m, gb_tuned_hints_text(c->hints));
    printf(
        "terms  %lld tiles, %.2f waves: start %.1f us, %.0f turns of %.1f us, memory "
        "%.1f us, sums of splits %.1f us, copies %.1f us\n",
        (long long)c->tiles, c->waves, 1e6 * t->start, t->turns, 1e6 * t->tile,
        1e6 * t->memory, 1e6 * t->sums, 1e6 * t->copies);
}

/* The other rows, the quickest by the model first. */
static void print_others(const struct gb_problem *p, const struct gb_device_info *info,
                         const struct gb_choice *chosen, int most)
{
    struct gb_choice *all = calloc((size_t)gb_kernel_count, sizeof *all);
    int n = 0;

    for (int i = 0; all && i < gb_kernel_count; i++)
        n += &gb_kernels[i] != chosen->kernel &&
             gb_plan_row(p, info, &gb_kernels[i], GB_PLAN_LINE, GB_PLAN_LINE,
                         GB_PLAN_STAGED, 0, &all[n]);
    if (n > 0)
        qsort(all, (size_t)n, sizeof *all, gb_plan_by_seconds);
    for (int i = 0; i < n && i < most; i++)
        printf("  then %-34s %10.1f us, %lld tiles, split %d, %.2f waves\n",
               all[i].kernel->name, 1e6 * all[i].seconds, (long long)all[i].tiles,
               all[i].splits, all[i].waves);
    free(all);
}

/* The device that the call would meet: the first that opens, else a typical one. */
static struct gb_device_info device_info(bool *present)
{
    struct gb_device_ref ref;
    struct gb_device_info info = gb_model_typical;
    struct gb_device *dev;

    *present = false;
    if (gb_device_list(gb_knobs()->device, &ref, 1) == 1 &&
        ref.ops->open(ref.ordinal, &dev) == GB_SUCCESS) {
        info = dev->info;
        *present = true;
        ref.ops->close(dev);
        gb_tuned_load(&info);
    }
    return info;
}

static void print_costs(const struct gb_cost *c, const struct gb_rates *rates)
{
    printf("cpu    %10.1f us with %d threads\n", 1e6 * c->cpu, rates->cpu_threads);
    printf("gpu    %10.1f us = latency %.1f + link %.1f (%.1f MB up, %.1f MB down at "
           "%.0f GB/s) + kernel %.1f\n",
           1e6 * c->gpu, 1e6 * c->latency, 1e6 * c->link, 1e-6 * c->bytes_up,
           1e-6 * c->bytes_down, 1e-9 * rates->link, 1e6 * c->kernel);
    printf("open   %10.1f us once per process, before the first call on the device\n",
           1e6 * rates->open);
}

int cmd_explain(int argc, char **argv)
{
    const struct gb_routine *r = NULL;
    struct gb_problem p;
    struct gb_rates rates = gb_model_rates(environment);
    struct gb_device_info info;
    struct gb_route_out out;
    struct gb_route_in in;
    enum gb_why why;
    bool present, all;
    int status;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        help();
        return CMD_OK;
    }
    all = argc > 1 && strcmp(argv[1], "--all") == 0;
    argc -= all;
    argv += all;
    if (argc != 7 && argc != 8)
        return cmd_refuse("explain needs ROUTINE TRANSA TRANSB M N K [BETA], as in "
                          "`gemmblas explain dgemm N N 4096 4096 4096`");
    status = cmd_call("explain", argv + 1, &r, &p);
    if (status != CMD_OK)
        return status;
    if (argc == 8) {
        char *end;

        p.beta.re = strtod(argv[7], &end);
        if (*end || end == argv[7])
            return cmd_refuse("\"%s\" is no number for BETA", argv[7]);
    }
    p.math = (enum gb_math)gb_knobs()->math;
    p.lda = gb_max(1, gb_transposed(p.transa) ? p.k : p.m);
    p.ldb = gb_max(1, gb_transposed(p.transb) ? p.n : p.k);
    p.ldc = gb_max(1, p.m);
    /* Addresses far apart: only overlap looks at them. */
    p.a = (const void *)(UINT64_C(1) << 60);
    p.b = (const void *)(UINT64_C(1) << 61);
    p.c = (void *)(UINT64_C(1) << 62);

    info = device_info(&present);
    in = (struct gb_route_in){
        .route = gb_knobs_route(r->name),
        .disabled = gb_knobs_disabled(r->name),
        .info = &info,
        .rates = &rates,
    };
    why = gb_route(&p, &in, &out);
    printf("call   %s %s %s %lld %lld %lld\n", r->name, gb_trans_name(p.transa),
           gb_trans_name(p.transb), (long long)p.m, (long long)p.n, (long long)p.k);
    printf("device %s%s\n", info.name,
           present ? "" : " (none here: the model's typical GPU)");
    if (why == GB_OK && !present)
        why = GB_WHY_NODEVICE;
    printf("route  %s: %s\n", why == GB_OK ? "gpu" : "cpu", gb_why_text(why));
    if (out.choice.kernel) {
        print_chosen(&out.choice);
        print_others(&p, &info, &out.choice, all ? gb_kernel_count : RUNNERS_UP);
        print_costs(&out.cost, &rates);
    }
    return CMD_OK;
}
