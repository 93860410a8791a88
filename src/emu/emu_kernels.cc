/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of the emulated device for any machine of this architecture, and the choice
 * between them, those for fused multiply-add instructions and those for tensor cores. */
#define EMU_TABLE gb_emu_kernels_any
#include "emu_kernels.inc"

#include <string.h>

static const struct gb_emu_kernel *kernel_table(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return gb_emu_kernels_fma;
#endif
    return gb_emu_kernels_any;
}

static const struct gb_emu_kernel *find(const struct gb_emu_kernel *k,
                                        const char *family, const char *symbol)
{
    for (; k->symbol; k++)
        if (strcmp(k->family, family) == 0 && strcmp(k->symbol, symbol) == 0)
            return k;
    return NULL;
}

extern "C" const struct gb_emu_kernel *gb_emu_kernel_find(const char *family,
                                                          const char *symbol)
{
    const struct gb_emu_kernel *k = find(kernel_table(), family, symbol);

    if (!k)
        k = find(gb_emu_kernels_mma, family, symbol);
    if (!k)
        k = find(gb_emu_kernels_int8, family, symbol);
    return k ? k : find(gb_emu_kernels_wgmma, family, symbol);
}
