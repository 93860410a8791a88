/* SPDX-License-Identifier: BSD-3-Clause */
/* C := alpha * sum + beta * C + add for one element of an integer product: in double precision, by
 * two fused multiply-adds, rounded once to the nearest integer (of two the even one) and kept
 * inside int32_t: what is beyond becomes the nearest end of it, and what is no number the
 * lower. With an alpha of 1, and a beta of 0 or 1, all is exact. */
#ifndef GB_ROUND_H
#define GB_ROUND_H

#include "epilogue.h"

GB_HD int32_t gb_round_s32(double x)
{
    const double high = 2147483647.0, low = -2147483648.0, whole = 0x1.8p52;

    if (!(x > low))
        return INT32_MIN;
    if (x > high)
        return INT32_MAX;
    return (int32_t)((x + whole) - whole);
}

GB_HD int32_t gb_clamp_s32(int64_t x)
{
    return (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}

/* alpha 0 drops the sum and beta 0 what was in C, whatever they hold. */
GB_HD int32_t gb_integer_s32(double alpha, int32_t sum, double beta, int32_t old,
                             int64_t add)
{
    double x = (double)add;

    if (beta != 0)
        x = gb_fma_f64(beta, (double)old, x);
    if (alpha != 0)
        x = gb_fma_f64(alpha, (double)sum, x);
    return gb_round_s32(x);
}

#endif
