/* SPDX-License-Identifier: BSD-3-Clause */
/* The host-compiled kernels: the same sources compiled for every machine of the architecture
 * and again for those with fused multiply-add instructions. Both give the same bits. */
#ifndef GB_EMU_KERNELS_H
#define GB_EMU_KERNELS_H

#include "fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ended by a row whose symbol is NULL. */
extern const struct gb_emu_kernel gb_emu_kernels_any[];
#if defined(__x86_64__)
extern const struct gb_emu_kernel gb_emu_kernels_fma[];
#endif

#ifdef __cplusplus
}
#endif
#endif
