/* SPDX-License-Identifier: BSD-3-Clause */
/* `gemmblas explain`: route and kernel of one call, each term of the model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cmd.h"
#include "device.h"
#include "kernels.h"
#include "knobs.h"
#include "model.h"
#include "plan.h"
#include "route.h"
#include "util.h"

static void help(void)
{
    puts("usage: gemmblas explain ROUTINE TRANSA TRANSB M N K [BETA]\n\n"
         "Example: gemmblas explain dgemm N N 4096 4096 4096\n"
         "Prints where such a call would run, what the model expects of both sides, "
         "and the\n"
         "kernels that could serve it, the chosen one first. The shape alone counts: C "
         "is taken\n"
         "to overlap nothing, and BETA is 0 unless given. Routines:");
    for (size_t i = 0; i < GB_ROUTINES; i++)
        printf(" %s", gb_routines[i].name);
    putchar('\n');
}

static bool parse_trans(const char *text, enum gb_trans *out)
{
    static const char letters[] = "NTCR";
    const char *at = strchr(letters, text[0] >= 'a' ? text[0] - 'a' + 'A' : text[0]);

    if (!text[0] || text[1] || !at)
        return false;
    *out = (enum gb_trans)(at - letters);
    return true;
}

static bool parse_size(const char *text, int64_t *out)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || *end || end == text || value < 0 || value > INT64_C(1) << 40)
        return false;
    *out = value;
    return true;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

static int by_seconds(const void *x, const void *y)
{
    const struct gb_choice *a = x, *b = y;

    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

static void print_kernels(const struct gb_problem *p, const struct gb_device_info *info)
{
    struct gb_choice *all = calloc((size_t)gb_kernel_count, sizeof *all);
    int n = 0;

    for (int i = 0; all && i < gb_kernel_count; i++)
        n += gb_plan_row(p, info, &gb_kernels[i], GB_PLAN_ALIGN, GB_PLAN_ALIGN, 0,
                         &all[n]);
    if (n > 0)
        qsort(all, (size_t)n, sizeof *all, by_seconds);
    for (int i = 0; i < n; i++)
        printf("%s %-34s %10.1f us, %lld tiles, split %d, %.2f waves\n",
               i == 0 ? "kernel" : "  then", all[i].kernel->name, 1e6 * all[i].seconds,
               (long long)all[i].tiles, all[i].splits, all[i].waves);
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
    }
    return info;
}

int cmd_explain(int argc, char **argv)
{
    const struct gb_routine *r = NULL;
    struct gb_problem p = {.op = GB_GEMM, .alpha = {.re = 1}};
    struct gb_rates rates = gb_model_rates(environment);
    struct gb_device_info info;
    struct gb_route_out out;
    struct gb_route_in in;
    enum gb_why why;
    bool present;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        help();
        return CMD_OK;
    }
    if (argc != 7 && argc != 8)
        return cmd_refuse("explain needs ROUTINE TRANSA TRANSB M N K [BETA], as in "
                          "`gemmblas explain dgemm N N 4096 4096 4096`");
    for (size_t i = 0; i < GB_ROUTINES; i++) {
        if (strcmp(argv[1], gb_routines[i].name) == 0)
            r = &gb_routines[i];
    }
    if (!r)
        return cmd_refuse(
            "unknown routine \"%s\"; `gemmblas explain --help` lists them", argv[1]);
    for (int i = 2; i <= 3; i++) {
        if (!parse_trans(argv[i], i == 2 ? &p.transa : &p.transb))
            return cmd_refuse("\"%s\" is no transpose: use N, T, C or R", argv[i]);
    }
    for (int i = 4; i <= 6; i++) {
        if (!parse_size(argv[i], i == 4 ? &p.m : i == 5 ? &p.n : &p.k))
            return cmd_refuse("\"%s\" is no size: use a whole number from 0 to 2^40",
                              argv[i]);
    }
    if (argc == 8) {
        char *end;

        p.beta.re = strtod(argv[7], &end);
        if (*end || end == argv[7])
            return cmd_refuse("\"%s\" is no number for BETA", argv[7]);
    }
    p.type = r->type;
    p.type_c = r->type_c;
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
        const struct gb_cost *c = &out.cost;

        printf("cpu    %10.1f us with %d threads\n", 1e6 * c->cpu, rates.cpu_threads);
        printf(
            "gpu    %10.1f us = latency %.1f + link %.1f (%.1f MB up, %.1f MB down at "
            "%.0f GB/s) + kernel %.1f\n",
            1e6 * c->gpu, 1e6 * c->latency, 1e6 * c->link, 1e-6 * c->bytes_up,
            1e-6 * c->bytes_down, 1e-9 * rates.link, 1e6 * c->kernel);
        printf(
            "open   %10.1f us once per process, before the first call on the device\n",
            1e6 * rates.open);
        print_kernels(&p, &info);
    }
    return CMD_OK;
}
