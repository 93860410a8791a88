/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic of the accumulators' types, by one name for all of them. */
#ifndef GB_ACCUMULATE_H
#define GB_ACCUMULATE_H

#include "seam.h"

GB_INLINE void gb_mad(float &sum, float a, float b)
{
    sum = gb_fma_f32(a, b, sum);
}

GB_INLINE void gb_mad(double &sum, double a, double b)
{
    sum = gb_fma_f64(a, b, sum);
}

GB_INLINE void gb_mad(gb_c32 &sum, gb_c32 a, gb_c32 b)
{
    sum.re = gb_fma_f32(a.re, b.re, sum.re);
    sum.im = gb_fma_f32(a.re, b.im, sum.im);
    sum.re = gb_fma_f32(-a.im, b.im, sum.re);
    sum.im = gb_fma_f32(a.im, b.re, sum.im);
}

GB_INLINE void gb_mad(gb_c64 &sum, gb_c64 a, gb_c64 b)
{
    sum.re = gb_fma_f64(a.re, b.re, sum.re);
    sum.im = gb_fma_f64(a.re, b.im, sum.im);
    sum.re = gb_fma_f64(-a.im, b.im, sum.re);
    sum.im = gb_fma_f64(a.im, b.re, sum.im);
}

/* By the sign bit: exact, and no work for the arithmetic pipe. */
GB_INLINE float gb_negate_if(bool negate, float x)
{
    uint32_t u;

    __builtin_memcpy(&u, &x, sizeof u);
    u ^= (uint32_t)negate << 31;
    __builtin_memcpy(&x, &u, sizeof u);
    return x;
}

GB_INLINE double gb_negate_if(bool negate, double x)
{
    uint64_t u;

    __builtin_memcpy(&u, &x, sizeof u);
    u ^= (uint64_t)negate << 63;
    __builtin_memcpy(&x, &u, sizeof u);
    return x;
}

GB_INLINE float gb_plus(float x, float y)
{
    return x + y;
}

GB_INLINE double gb_plus(double x, double y)
{
    return x + y;
}

template <class T>
GB_INLINE T gb_plus(T x, T y)
{
    return T{x.re + y.re, x.im + y.im};
}

template <class T>
struct AccMath;

template <>
struct AccMath<float> {
    static constexpr bool COMPLEX = false;
    GB_DEVICE static float scalar(const double *s)
    {
        return (float)s[0];
    }
    GB_DEVICE static float unread(float alpha)
    {
        return gb_unread_f32(alpha);
    }
    GB_DEVICE static float epilogue(float alpha, float sum, float beta, float old)
    {
        return gb_epilogue_f32(alpha, sum, beta, old);
    }
    GB_DEVICE static float conj_if(bool, float x)
    {
        return x;
    }
};

template <>
struct AccMath<double> {
    static constexpr bool COMPLEX = false;
    GB_DEVICE static double scalar(const double *s)
    {
        return s[0];
    }
    GB_DEVICE static double unread(double alpha)
    {
        return gb_unread_f64(alpha);
    }
    GB_DEVICE static double epilogue(double alpha, double sum, double beta, double old)
    {
        return gb_epilogue_f64(alpha, sum, beta, old);
    }
    GB_DEVICE static double conj_if(bool, double x)
    {
        return x;
    }
};

template <>
struct AccMath<gb_c32> {
    static constexpr bool COMPLEX = true;
    GB_DEVICE static gb_c32 scalar(const double *s)
    {
        return gb_c32{(float)s[0], (float)s[1]};
    }
    GB_DEVICE static gb_c32 unread(gb_c32 alpha)
    {
        return gb_unread_c32(alpha);
    }
    GB_DEVICE static gb_c32 epilogue(gb_c32 alpha, gb_c32 sum, gb_c32 beta, gb_c32 old)
    {
        return gb_epilogue_c32(alpha, sum, beta, old);
    }
    GB_DEVICE static gb_c32 conj_if(bool conj, gb_c32 x)
    {
        return gb_c32{x.re, gb_negate_if(conj, x.im)};
    }
};

template <>
struct AccMath<gb_c64> {
    static constexpr bool COMPLEX = true;
    GB_DEVICE static gb_c64 scalar(const double *s)
    {
        return gb_c64{s[0], s[1]};
    }
    GB_DEVICE static gb_c64 unread(gb_c64 alpha)
    {
        return gb_unread_c64(alpha);
    }
    GB_DEVICE static gb_c64 epilogue(gb_c64 alpha, gb_c64 sum, gb_c64 beta, gb_c64 old)
    {
        return gb_epilogue_c64(alpha, sum, beta, old);
    }
    GB_DEVICE static gb_c64 conj_if(bool conj, gb_c64 x)
    {
        return gb_c64{x.re, gb_negate_if(conj, x.im)};
    }
};

#endif
