/* SPDX-License-Identifier: BSD-3-Clause */
/* Launching a kernel row on operands that are on the device: how many blocks, and what the
 * row's kind needs beside gemm_args.h. */
#ifndef GB_LAUNCH_H
#define GB_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "gemm_args.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Can row k read these operands in place? Addresses and strides of A and B are multiples of
 * its `align`, sizes at most GB_TMA_MOST where TMA counts them. C may lie anywhere. */
bool gb_launch_takes(const struct gb_kernel *k, const struct gb_gemm_args *args);

/* Queue what `args` describes: f is row k's function for the layout (a, b), 'n' or 't' each
 * as for gb_kernel_symbol. `most`: blocks at most, 0: as many as suit the device.
 * GB_E_UNSUPPORTED when the row does not take the operands. */
enum gb_status gb_launch_gemm(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, const struct gb_kernel *k, char a,
                              char b, const struct gb_gemm_args *args, uint32_t most);

/* Queue the reduction of its partial sums; f is the row's reduce function. */
enum gb_status gb_launch_reduce(struct gb_device *dev, struct gb_stream *s,
                                struct gb_function *f, const struct gb_gemm_args *args,
                                uint32_t most);

#ifdef __cplusplus
}
#endif
#endif
