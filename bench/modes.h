/* SPDX-License-Identifier: BSD-3-Clause */
/* Where operands live decides how a measurement goes: one file per mode. Each answers
 * how many results of ours were wrong or missing. */
#ifndef GB_MODES_H
#define GB_MODES_H

#include "bench.h"

/* on_device.c: our kernels through the ops table, cuBLAS on the same operands */
int bench_on_device(const struct bench_options *o, const struct bench_shape *shapes,
                    size_t count);
/* on_host.c: the exported routines against other libraries in this process */
int bench_on_host(const struct bench_options *o, const struct bench_shape *shapes,
                  size_t count);
/* on_preload.c: a client program under our library and under NVBLAS, by turns */
int bench_on_preload(const struct bench_options *o, const struct bench_shape *shapes,
                     size_t count);

#endif
