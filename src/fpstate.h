/* SPDX-License-Identifier: BSD-3-Clause */
/* The floating-point state of the calling thread. The program must not see flags that our
 * arithmetic or a driver's raises (numpy turns them into warnings), nor must its own traps
 * and rounding reach that arithmetic. The register is accessed directly because the functions
 * of <fenv.h> would need libm. */
#ifndef GB_FPSTATE_H
#define GB_FPSTATE_H

#include <stdint.h>

/* Save the state and enter the default one: to nearest, no traps, denormals kept. */
static inline uint64_t gb_fp_enter(void)
{
#if defined(__x86_64__)
    uint64_t fp = __builtin_ia32_stmxcsr(); /* control and flags */

    __builtin_ia32_ldmxcsr(0x1f80);
    return fp;
#elif defined(__aarch64__)
    uint64_t control = __builtin_aarch64_get_fpcr(),
             flags = __builtin_aarch64_get_fpsr();

    __builtin_aarch64_set_fpcr(0);
    return flags << 32 | control;
#else
    return 0;
#endif
}

static inline void gb_fp_leave(uint64_t fp)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((unsigned)fp);
#elif defined(__aarch64__)
    __builtin_aarch64_set_fpcr((unsigned)fp);
    __builtin_aarch64_set_fpsr((unsigned)(fp >> 32));
#else
    (void)fp;
#endif
}

#endif
