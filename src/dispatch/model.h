/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call costs on the CPU and on a device: a few rates, and pure functions of them. */
#ifndef GB_MODEL_H
#define GB_MODEL_H

#include "device.h"
#include "gb.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds, bytes per second, floating-point operations per second. */
struct gb_rates {
    double open;                        /* opening the device, once per process */
    double latency;                     /* of one call: launches, copies, waits */
    double link;                        /* staged pageable memory, one way */
    double memory;                      /* device memory */
    double cpu_overhead;                /* of one call of the real BLAS */
    double cpu_core_memory, cpu_memory; /* host memory: one core, all of them */
    double cpu_core[GB_TYPES];          /* one core in its gemm, large problems */
    int cpu_threads;
};

/* The shipped defaults for this machine: the baselines measured on an H200 host, with the
 * CPU's share scaled to the threads that its BLAS may use (affinity, OPENBLAS_NUM_THREADS,
 * OMP_NUM_THREADS, read through `get`). */
struct gb_rates gb_model_rates(const char *(*get)(const char *name));

/* Peak of a row's arithmetic on a device, flop/s: multiprocessors x units x clock, of the fused
 * multiply-adds of its accumulator type or of the tensor cores. The emulated device answers as
 * an H200 would, so that `auto` on it shows what a GPU would be given. */
double gb_model_peak(const struct gb_device_info *info, const struct gb_kernel *k);

/* What stands in for a device that is not open yet: an H200. */
extern const struct gb_device_info gb_model_typical;

/* Every term of a choice, in seconds. */
struct gb_cost {
    double cpu;
    double latency, link, kernel; /* gpu is their sum */
    double gpu;
    double bytes_up, bytes_down;
};

double gb_model_flops(const struct gb_problem *p);
/* kernel: seconds that the chosen kernel needs, from gb_plan_staged. */
struct gb_cost gb_model_cost(const struct gb_problem *p, const struct gb_rates *rates,
                             double kernel);

#ifdef __cplusplus
}
#endif
#endif
