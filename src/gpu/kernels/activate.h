/* SPDX-License-Identifier: BSD-3-Clause */
/* The activations of gemm_args.h, by multiplications and additions of our own, since neither
 * every device nor the library itself has a libm. Three sets of the same text: f32, f64, and
 * f32s for results that are rounded to 16 bits, where a GPU's approximate exp2 and reciprocal
 * are good enough. tests/t_activate.c measures them, t_kernels.c those of a device.
 *
 * A NaN stays one. Of +infinity all but tanh (1) and ReLU make +infinity. */
#ifndef GB_ACTIVATE_H
#define GB_ACTIVATE_H

#include "epilogue.h"
#include "gemm_args.h"
#include "half.h"
#include "hostdev.h"

GB_HD double gb_bits_to_f64(uint64_t bits)
{
    double x;

    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

GB_HD uint64_t gb_f64_to_bits(double x)
{
    uint64_t bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- e^(hi + lo), of a sum that is at most 0 ------------------------------------------ */

/* 2^n e^r with |r| <= log(2) / 2, and e^r by its series. n comes from a sum that is so large
 * that its last bit counts 1. The scale is applied in two parts: the result may be a
 * denormal. */
GB_HD float gb_exp_f32(float hi, float lo)
{
    const float whole = 0x1.8p23f;
    float n = gb_fma_f32(hi + lo, 0x1.715476p0f, whole), r, y = 1.0f / 5040;
    const uint32_t power = gb_f32_to_bits(n) - gb_f32_to_bits(whole);

    if (hi + lo < -104.0f)
        return 0;
    n -= whole;
    r = gb_fma_f32(n, -0x1.62e430p-1f, hi);
    r = gb_fma_f32(n, 0x1.05c610p-29f, r) + lo;
    y = gb_fma_f32(y, r, 1.0f / 720);
    y = gb_fma_f32(y, r, 1.0f / 120);
    y = gb_fma_f32(y, r, 1.0f / 24);
    y = gb_fma_f32(y, r, 1.0f / 6);
    y = gb_fma_f32(y, r, 0.5f);
    y = gb_fma_f32(y, r, 1.0f);
    y = gb_fma_f32(y, r, 1.0f);
    return y * gb_bits_to_f32((power + 127 + 24) << 23) * 0x1p-24f;
}

GB_HD double gb_exp_f64(double hi, double lo)
{
    const double whole = 0x1.8p52;
    const double c[] = {1.0 / 479001600,
                        1.0 / 39916800,
                        1.0 / 3628800,
                        1.0 / 362880,
                        1.0 / 40320,
                        1.0 / 5040,
                        1.0 / 720,
                        1.0 / 120,
                        1.0 / 24,
                        1.0 / 6,
                        0.5,
                        1,
                        1};
    double n = gb_fma_f64(hi + lo, 0x1.71547652b82fep0, whole), r;
    double y = 1.0 / 6227020800;
    const uint64_t power = gb_f64_to_bits(n) - gb_f64_to_bits(whole);

    if (hi + lo < -746.0)
        return 0;
    n -= whole;
    r = gb_fma_f64(n, -0x1.62e42fefa39efp-1, hi);
    r = gb_fma_f64(n, -0x1.abc9e3b39803fp-56, r) + lo;
    for (int i = 0; i < 13; i++)
        y = gb_fma_f64(y, r, c[i]);
    return y * gb_bits_to_f64((power + 1023 + 54) << 52) * 0x1p-54;
}

GB_HD float gb_over_f32(float x, float y)
{
    return x / y;
}

GB_HD double gb_over_f64(double x, double y)
{
    return x / y;
}

#if defined(__CUDA_ARCH__)
GB_HD float gb_exp_f32s(float hi, float lo)
{
    float y;

    /* ex2 by itself would return zero for what is denormal */
    asm("ex2.approx.ftz.f32 %0, %1;"
        : "=f"(y)
        : "f"(gb_fma_f32(hi + lo, 0x1.715476p0f, 24)));
    return y * 0x1p-24f;
}

GB_HD float gb_over_f32s(float x, float y)
{
    float inverse;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
    return x * inverse;
}
#else
#define gb_exp_f32s gb_exp_f32
#define gb_over_f32s gb_over_f32
#endif

/* ---- erfc(x / sqrt 2) / 2, the normal distribution from x on, of x >= 0 ---------------- */

/* W. H. Press et al., Numerical Recipes, erfcc: a fraction of 1.2e-7 at most from erfc. The
 * square is exact in two parts, else e would lose what a large one loses. */
GB_HD float gb_upper_tail_f32(float x)
{
    const float c[] = {0.17087277f,  -0.82215223f, 1.48851587f,
                       -1.13520398f, 0.27886807f,  -0.18628806f,
                       0.09678418f,  0.37409196f,  1.00002368f};
    float z = x > 15 ? 15 : x, square = -0.5f * z * z;
    const float less = gb_fma_f32(-0.5f * z, z, -square);
    const float u = gb_over_f32(1, gb_fma_f32(z, 0.35355339f, 1));
    float y = c[0];

    for (int i = 1; i < 9; i++)
        y = gb_fma_f32(y, u, c[i]);
    y = gb_fma_f32(y, u, -1.26551223f);
    return 0.5f * u * gb_exp_f32(square, y + less);
}

/* For results of 16 bits: a polynomial in 1 / (1 + 0.38 x), fitted by minimax, a fraction of
 * 3.6e-5 at most from it. */
GB_HD float gb_upper_tail_f32s(float x)
{
    const float c[] = {0.18886615f, 0.09198770f, 0.15782690f, 0.15122544f};
    const float z = x > 15 ? 15 : x, u = gb_over_f32s(1, gb_fma_f32(z, 0.38f, 1));
    float y = -0.08992362f;

    for (int i = 0; i < 4; i++)
        y = gb_fma_f32(y, u, c[i]);
    return u * y * gb_exp_f32s(-0.5f * z * z, 0);
}

/* W. J. Cody, Rational Chebyshev approximations for the error function, 1969. */
GB_HD double gb_upper_tail_f64(double x)
{
    const double a[] = {1.85777706184603153e-1, 3.16112374387056560e0,
                        1.13864154151050156e2, 3.77485237685302021e2,
                        3.20937758913846947e3};
    const double b[] = {1, 2.36012909523441209e1, 2.44024637934444173e2,
                        1.28261652607737228e3, 2.84423683343917062e3};
    const double c[] = {
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
        6.61191906371416295e1,  2.98635138197400131e2,  8.81952221241769090e2,
        1.71204761263407058e3,  2.05107837782607147e3,  1.23033935479799725e3};
    const double d[] = {1,
                        1.57449261107098347e1,
                        1.17693950891312499e2,
                        5.37181101862009858e2,
                        1.62138957456669019e3,
                        3.29079923573345963e3,
                        4.36261909014324716e3,
                        3.43936767414372164e3,
                        1.23033935480374942e3};
    const double p[] = {1.63153871373020978e-2, 3.05326634961232344e-1,
                        3.60344899949804439e-1, 1.25781726111229246e-1,
                        1.60837851487422766e-2, 6.58749161529837803e-4};
    const double q[] = {1,
                        2.56852019228982242e0,
                        1.87295284992346725e0,
                        5.27905102951428412e-1,
                        6.05183413124413191e-2,
                        2.33520497626869185e-3};
    const double size = x > 39 ? 39 : x, half_square = 0.5 * size * size;
    const double less = gb_fma_f64(-0.5 * size, size, half_square);
    const double z = size * 0.70710678118654752440;
    double up, down, y;

    if (z <= 0.46875) {
        up = a[0];
        down = b[0];
        for (int i = 1; i < 5; i++) {
            up = gb_fma_f64(up, half_square, a[i]);
            down = gb_fma_f64(down, half_square, b[i]);
        }
        return gb_fma_f64(-0.5 * z, up / down, 0.5);
    }
    if (z <= 4) {
        up = c[0];
        down = d[0];
        for (int i = 1; i < 9; i++) {
            up = gb_fma_f64(up, z, c[i]);
            down = gb_fma_f64(down, z, d[i]);
        }
        y = up / down;
    } else {
        const double inverse = 1 / (z * z);

        up = p[0];
        down = q[0];
        for (int i = 1; i < 6; i++) {
            up = gb_fma_f64(up, inverse, p[i]);
            down = gb_fma_f64(down, inverse, q[i]);
        }
        y = gb_fma_f64(-inverse, up / down, 0.56418958354775628695) / z;
    }
    return 0.5 * y * gb_exp_f64(-half_square, less);
}

/* ---- tanh of a small x ----------------------------------------------------------------- */

/* W. J. Cody and W. Waite, Software manual for the elementary functions, of |x| < 0.549. */
GB_HD float gb_small_tanh_f32(float x)
{
    const float g = x * x;
    const float up = gb_fma_f32(-0.003831010665f, g, -0.8237728127f);

    return gb_fma_f32(x * g, up / (g + 2.471319654f), x);
}

GB_HD double gb_small_tanh_f64(double x)
{
    const double g = x * x;
    double up = gb_fma_f64(-0.96437492777225469787, g, -0.99225929672236083313e2);
    double down = gb_fma_f64(1, g, 0.11274474380534949335e3);

    up = gb_fma_f64(up, g, -0.16134119023996228053e4);
    down = gb_fma_f64(down, g, 0.22337720718962312926e4);
    down = gb_fma_f64(down, g, 0.48402357071988688686e4);
    return gb_fma_f64(x * g, up / down, x);
}

#if defined(__CUDA_ARCH__)
/* What its series' fourth term adds is beyond 16 bits. */
GB_HD float gb_small_tanh_f32s(float x)
{
    const float g = x * x;
    float y = gb_fma_f32(-0.053968254f, g, 0.13333333f);

    y = gb_fma_f32(y, g, -0.33333333f);
    return gb_fma_f32(x * g, y, x);
}
#else
#define gb_small_tanh_f32s gb_small_tanh_f32
#endif

/* ---- the activations ------------------------------------------------------------------- */

/* e is only ever taken of what is not positive, so that nothing overflows. */
#define GB_ACTIVATIONS_OF(t, real)                                                     \
    GB_HD real gb_relu_##t(real x)                                                     \
    {                                                                                  \
        return x < 0 ? 0 : x;                                                          \
    }                                                                                  \
    /* 1 / (1 + e^-x) */                                                               \
    GB_HD real gb_sigmoid_##t(real x)                                                  \
    {                                                                                  \
        const real e = gb_exp_##t(x < 0 ? x : -x, 0);                                  \
                                                                                       \
        return gb_over_##t(x < 0 ? e : 1, 1 + e);                                      \
    }                                                                                  \
    GB_HD real gb_silu_##t(real x)                                                     \
    {                                                                                  \
        return x * gb_sigmoid_##t(x);                                                  \
    }                                                                                  \
    GB_HD real gb_gelu_##t(real x)                                                     \
    {                                                                                  \
        const real tail = gb_upper_tail_##t(x < 0 ? -x : x);                           \
                                                                                       \
        return x * (x < 0 ? tail : 1 - tail);                                          \
    }                                                                                  \
    /* x/2 (1 + tanh y) is x sigmoid(2y), which cancels nothing */                     \
    GB_HD real gb_gelu_tanh_##t(real x)                                                \
    {                                                                                  \
        const real y = (real)0.07135481627260025 * x * x;                              \
                                                                                       \
        return x * gb_sigmoid_##t(x * (y + (real)1.5957691216057308));                 \
    }                                                                                  \
    GB_HD real gb_tanh_##t(real x)                                                     \
    {                                                                                  \
        const real size = x < 0 ? -x : x;                                              \
        real y;                                                                        \
                                                                                       \
        if (size < (real)0.54)                                                         \
            return gb_small_tanh_##t(x);                                               \
        y = gb_exp_##t(-2 * size, 0);                                                  \
        y = 1 - gb_over_##t(2 * y, 1 + y);                                             \
        return x < 0 ? -y : y;                                                         \
    }                                                                                  \
    GB_HD real gb_activate_##t(int activation, real x)                                 \
    {                                                                                  \
        switch (activation) {                                                          \
        case GB_ACT_RELU:                                                              \
            return gb_relu_##t(x);                                                     \
        case GB_ACT_GELU:                                                              \
            return gb_gelu_##t(x);                                                     \
        case GB_ACT_GELU_TANH:                                                         \
            return gb_gelu_tanh_##t(x);                                                \
        case GB_ACT_SILU:                                                              \
            return gb_silu_##t(x);                                                     \
        case GB_ACT_TANH:                                                              \
            return gb_tanh_##t(x);                                                     \
        default:                                                                       \
            return x;                                                                  \
        }                                                                              \
    }

GB_ACTIVATIONS_OF(f32, float)
GB_ACTIVATIONS_OF(f64, double)
GB_ACTIVATIONS_OF(f32s, float)

#endif
