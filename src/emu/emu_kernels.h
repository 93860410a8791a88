/* SPDX-License-Identifier: BSD-3-Clause */
/* The host-compiled kernels. gemm_simt: the same sources compiled for every machine of the
 * architecture and again for those with fused multiply-add instructions; both give the same
 * bits. Those for tensor cores: once, since nearly all their work is in products that mma.h and
 * wgmma_host.h compile twice. */
#ifndef GB_EMU_KERNELS_H
#define GB_EMU_KERNELS_H

#include "fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ended by a row whose symbol is NULL. */
extern const struct gb_emu_kernel gb_emu_kernels_any[];
extern const struct gb_emu_kernel gb_emu_kernels_int8[], gb_emu_kernels_mma[],
    gb_emu_kernels_wgmma[];
#if defined(__x86_64__)
extern const struct gb_emu_kernel gb_emu_kernels_fma[];
#endif

#ifdef __cplusplus
}
#endif
#endif
