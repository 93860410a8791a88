/* SPDX-License-Identifier: BSD-3-Clause */
/* t_gpu = latency + bytes / link + kernel against t_cpu = overhead + flops / rate. The link
 * and the kernel are added although they overlap: the model rather keeps a call on the CPU
 * than sends one that gains nothing. */
#include "model.h"

#include <sched.h>
#include <stdlib.h>

#include "util.h"

const struct gb_device_info gb_model_typical = {
    .vendor = GB_NVIDIA,
    .name = "typical",
    .arch_name = "sm_90",
    .arch = 90,
    .multiprocessors = 132,
    .mem_total = (size_t)140 << 30,
    .smem_per_block = 232448,
    .l2 = (size_t)50 << 20,
    .clock_khz = 1980000,
    .numa_node = -1,
};

static int thread_limit(const char *text, int most)
{
    int value = text ? atoi(text) : 0;

    return value > 0 && value < most ? value : most;
}

struct gb_rates gb_model_rates(const char *(*get)(const char *name))
{
    struct gb_rates r = {
        .open = 0.35,
        .latency = 40e-6,
        .link = 45e9,
        .memory = 4.0e12,
        .cpu_overhead = 1e-6,
        .cpu_core_memory = 10e9,
        .cpu_memory = 100e9,
        .cpu_core = {[GB_F16] = 20e9,
                     [GB_BF16] = 20e9,
                     [GB_F32] = 65e9,
                     [GB_F64] = 33e9,
                     [GB_C32] = 70e9,
                     [GB_C64] = 37e9,
                     [GB_I8] = 20e9,
                     [GB_I32] = 20e9},
        .cpu_threads = 1,
    };
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        r.cpu_threads = CPU_COUNT(&set);
    r.cpu_threads = thread_limit(get("OMP_NUM_THREADS"), r.cpu_threads);
    r.cpu_threads = thread_limit(get("OPENBLAS_NUM_THREADS"), r.cpu_threads);
    return r;
}

/* What mma.sync reaches of Hopper's tensor cores, and nearly all of it of those before: the
 * efficiency of a row with it is told for Hopper. */
static const double mma_share = 0.6;

double gb_model_peak(const struct gb_device_info *info, const struct gb_kernel *k)
{
    bool wide = k->type_acc == GB_F64 || k->type_acc == GB_C64;
    double lanes; /* fused multiply-adds per clock and multiprocessor */
    double clock = info->clock_khz > 0 ? 1e3 * info->clock_khz : 1.5e9;

    if (info->vendor == GB_EMU)
        return gb_model_peak(&gb_model_typical, k);
    if ((k->flags & GB_K_EMULATED) && wide)
        lanes = 4096; /* of bytes */
    else if ((k->flags & GB_K_TENSOR) && wide)
        lanes = info->arch == 80 || info->arch == 100 ? 64 : info->arch == 90 ? 128 : 2;
    else if (k->flags & GB_K_TENSOR)
        /* of 16-bit elements; of tf32, half as many */
        lanes = (info->arch == 80  ? 1024 / mma_share
                 : info->arch < 90 ? 512 / mma_share
                                   : 2048) /
                (k->flags & GB_K_FAST ? 2 : 1);
    else if (info->vendor == GB_AMD)
        lanes = 128;
    else if (wide)
        lanes = info->arch == 80 ? 32 : info->arch == 90 || info->arch == 100 ? 64 : 2;
    else
        lanes = info->arch == 80 ? 64 : 128;
    if (k->type == GB_I8)
        lanes *= 2;
    return 2.0 * lanes * clock * info->multiprocessors;
}

double gb_model_flops(const struct gb_problem *p)
{
    double real = 2.0 * (double)p->m * (double)p->n * (double)p->k;

    return gb_is_complex(p->type) ? 4.0 * real : real;
}

/* A BLAS on the CPU reaches its rate on blocks of some hundred: below, packing and its thread
 * hand-off take a growing share. */
static double cpu_efficiency(const struct gb_problem *p)
{
    double least = (double)gb_min(p->m, gb_min(p->n, p->k));

    return least / (least + 16.0);
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

struct gb_cost gb_model_cost(const struct gb_problem *p, const struct gb_rates *rates,
                             double kernel)
{
    double size = (double)gb_type_size(p->type),
           size_c = (double)gb_type_size(p->type_c);
    double c_bytes = (double)p->m * (double)p->n * size_c;
    bool reads_c = p->beta.re != 0 || p->beta.im != 0;
    double threads = rates->cpu_threads;
    double per_thread = 1e6; /* flops under which a further thread does not pay */
    struct gb_cost cost = {.latency = rates->latency, .kernel = kernel};
    double arithmetic, traffic;

    if (p->type == GB_I8)
        threads = 1; /* of loops of ours: few BLAS libraries have the name */
    if (gb_model_flops(p) < threads * per_thread)
        threads =
            gb_model_flops(p) / per_thread < 1 ? 1 : gb_model_flops(p) / per_thread;
    cost.bytes_up = ((double)p->m * (double)p->k + (double)p->k * (double)p->n) * size +
                    (reads_c ? c_bytes : 0);
    cost.bytes_down = c_bytes;
    arithmetic =
        gb_model_flops(p) / (threads * rates->cpu_core[p->type] * cpu_efficiency(p));
    traffic = (cost.bytes_up + cost.bytes_down) /
              lesser(threads * rates->cpu_core_memory, rates->cpu_memory);
    cost.cpu = rates->cpu_overhead + (arithmetic > traffic ? arithmetic : traffic);
    cost.link = (cost.bytes_up + cost.bytes_down) / rates->link;
    cost.gpu = cost.latency + cost.link + cost.kernel;
    return cost;
}
