/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMBLAS_COST: what launches take on the emulated device's clock, so that a test can plant a
 * kernel that is cheaper than the model thinks. A list of
 *   kernel[@group_m]=microseconds
 * separated by commas, such as gemm_simt_f32_64x64x16=5,gemm_simt_f32_64x64x16@16=4,*=100.
 * The first item that fits a launch counts; `*` fits every kernel. A launch that none fits
 * takes 10 us; copies take no time. */
#ifndef GB_COST_H
#define GB_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Replaces the costs; false when part of the text was not understood (that part is ignored). */
bool gb_cost_set(const char *text);

/* Of a launch of the kernel `symbol`, gb_<kernel>_<layout> or gb_<kernel>. */
uint64_t gb_cost_ns(const char *symbol, const void *args, size_t args_bytes);

#endif
