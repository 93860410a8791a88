/* SPDX-License-Identifier: BSD-3-Clause */
/* C := alpha * sum + beta * C for one element, and what may be fused to it (gemm_args.h), in a
 * fixed order of fused operations, so that host and device agree in every bit. Written in the
 * accumulator's type. */
#ifndef GB_EPILOGUE_H
#define GB_EPILOGUE_H

#include <stdbool.h>

#include "hostdev.h"

/* The accumulators of the complex types. */
struct gb_c32 {
    float re, im;
};
struct gb_c64 {
    double re, im;
};

/* Where the processor has no such instruction it is a call of libm, which the library is not
 * linked with: cpu.c brings its own, which now and then round twice. */
#ifndef GB_OWN_FMA
GB_HD float gb_fma_f32(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}

GB_HD double gb_fma_f64(double x, double y, double z)
{
    return __builtin_fma(x, y, z);
}
#endif

/* alpha == 0 drops the sum whatever it holds. Where C must not be read, gb_unread_<t> is the
 * beta to use with an old value of +0: it leaves alpha * sum as it is, sign of zero included,
 * or +0 when the sum is dropped. */
#define GB_EPILOGUE_REAL(t, real)                                                      \
    GB_HD real gb_unread_##t(real alpha)                                               \
    {                                                                                  \
        return alpha == 0 ? (real)0 : (real)-0.0;                                      \
    }                                                                                  \
    GB_HD real gb_epilogue_##t(real alpha, real sum, real beta, real old)              \
    {                                                                                  \
        real scaled = beta * old;                                                      \
                                                                                       \
        return alpha == 0 ? scaled : gb_fma_##t(alpha, sum, scaled);                   \
    }                                                                                  \
    /* Without a scale it is 1, without a bias -0. */                                  \
    GB_HD real gb_fused_##t(real alpha, real scale, real sum, real beta, real old,     \
                            real bias)                                                 \
    {                                                                                  \
        return gb_epilogue_##t(alpha * scale, sum, beta, old) + bias;                  \
    }

GB_EPILOGUE_REAL(f32, float)
GB_EPILOGUE_REAL(f64, double)

/* A real factor multiplies componentwise, so that an infinity of one component does not
 * become a NaN of the other. */
#define GB_EPILOGUE_COMPLEX(t, r, real)                                                \
    GB_HD struct gb_##t gb_unread_##t(struct gb_##t alpha)                             \
    {                                                                                  \
        struct gb_##t beta = {0, 0};                                                   \
                                                                                       \
        if (alpha.re != 0 || alpha.im != 0)                                            \
            beta.re = (real)-0.0;                                                      \
        return beta;                                                                   \
    }                                                                                  \
    GB_HD struct gb_##t gb_epilogue_##t(struct gb_##t alpha, struct gb_##t sum,        \
                                        struct gb_##t beta, struct gb_##t old)         \
    {                                                                                  \
        struct gb_##t y;                                                               \
                                                                                       \
        y.re = beta.re * old.re;                                                       \
        y.im = beta.re * old.im;                                                       \
        if (beta.im != 0) {                                                            \
            y.re = gb_fma_##r(-beta.im, old.im, y.re);                                 \
            y.im = gb_fma_##r(beta.im, old.re, y.im);                                  \
        }                                                                              \
        if (alpha.re != 0 || alpha.im != 0) {                                          \
            y.re = gb_fma_##r(alpha.re, sum.re, y.re);                                 \
            y.im = gb_fma_##r(alpha.re, sum.im, y.im);                                 \
            if (alpha.im != 0) {                                                       \
                y.re = gb_fma_##r(-alpha.im, sum.im, y.re);                            \
                y.im = gb_fma_##r(alpha.im, sum.re, y.im);                             \
            }                                                                          \
        }                                                                              \
        return y;                                                                      \
    }                                                                                  \
    GB_HD struct gb_##t gb_fused_##t(struct gb_##t alpha, real scale,                  \
                                     struct gb_##t sum, struct gb_##t beta,            \
                                     struct gb_##t old, struct gb_##t bias)            \
    {                                                                                  \
        struct gb_##t y;                                                               \
                                                                                       \
        alpha.re *= scale;                                                             \
        alpha.im *= scale;                                                             \
        y = gb_epilogue_##t(alpha, sum, beta, old);                                    \
        y.re += bias.re;                                                               \
        y.im += bias.im;                                                               \
        return y;                                                                      \
    }

GB_EPILOGUE_COMPLEX(c32, f32, float)
GB_EPILOGUE_COMPLEX(c64, f64, double)

#endif
