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
struct AccReal {
    static constexpr bool COMPLEX = false;
    GB_DEVICE static T scalar(const double *s)
    {
        return (T)s[0];
    }
    GB_DEVICE static T conj_if(bool, T x)
    {
        return x;
    }
};

template <class T>
struct AccComplex {
    static constexpr bool COMPLEX = true;
    GB_DEVICE static T scalar(const double *s)
    {
        return T{(decltype(T::re))s[0], (decltype(T::re))s[1]};
    }
    GB_DEVICE static T conj_if(bool conj, T x)
    {
        return T{x.re, gb_negate_if(conj, x.im)};
    }
};

template <class T>
struct AccMath;

#define GB_ACC_MATH(T, Kind, t)                                                        \
    template <>                                                                        \
    struct AccMath<T> : Kind<T> {                                                      \
        GB_DEVICE static T unread(T alpha)                                             \
        {                                                                              \
            return gb_unread_##t(alpha);                                               \
        }                                                                              \
        GB_DEVICE static T epilogue(T alpha, T sum, T beta, T old)                     \
        {                                                                              \
            return gb_epilogue_##t(alpha, sum, beta, old);                             \
        }                                                                              \
    };

GB_ACC_MATH(float, AccReal, f32)
GB_ACC_MATH(double, AccReal, f64)
GB_ACC_MATH(gb_c32, AccComplex, c32)
GB_ACC_MATH(gb_c64, AccComplex, c64)

#endif
