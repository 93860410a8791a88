/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of the emulated device for x86-64 machines with fused multiply-add, where they
 * are some thirty times as fast. Chosen at run time. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define EMU_TABLE gb_emu_kernels_fma
#include "emu_kernels.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
