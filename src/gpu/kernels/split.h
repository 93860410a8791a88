/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of gemm_split: spans of exponents, and a number as two of fp16. */
#ifndef GB_SPLIT_H
#define GB_SPLIT_H

#include "seam.h"
#include "split_args.h"

#if GB_SEAM_CUDA

GB_INLINE int gb_warp_most(int x)
{
    return __reduce_max_sync(0xffffffff, x);
}

GB_INLINE void gb_atomic_or(uint32_t *at, uint32_t bits)
{
    atomicOr(at, bits);
}

#else

static void gb_host_most(void *const *lanes)
{
    int most = *static_cast<int *>(lanes[0]);

    for (int l = 1; l < GB_LANES; l++)
        most =
            *static_cast<int *>(lanes[l]) > most ? *static_cast<int *>(lanes[l]) : most;
    for (int l = 0; l < GB_LANES; l++)
        *static_cast<int *>(lanes[l]) = most;
}

GB_INLINE int gb_warp_most(int x, int line = __builtin_LINE())
{
    gb_fiber_warp(line, &x, gb_host_most);
    return x;
}

GB_INLINE void gb_atomic_or(uint32_t *at, uint32_t bits)
{
    __atomic_fetch_or(at, bits, __ATOMIC_RELAXED);
}

#endif

/* Biased exponents of a block: of its largest element (0: all are 0 or denormal; 255: an infinity
 * or a NaN), and of its smallest that is not 0. */
struct gb_span {
    int most, least;
};

GB_INLINE void gb_span_init(gb_span &s)
{
    s.most = 0;
    s.least = 255;
}

GB_INLINE void gb_span_add(gb_span &s, float x)
{
    uint32_t bits;
    int exponent;

    __builtin_memcpy(&bits, &x, sizeof bits);
    exponent = (int)(bits >> 23 & 255);
    if (exponent > s.most)
        s.most = exponent;
    if ((bits & 0x7fffffff) != 0 && exponent < s.least)
        s.least = exponent;
}

GB_INLINE uint32_t gb_span_met(gb_span s)
{
    if (s.least == 255 && s.most < 255)
        return 0; /* nothing but zeros */
    if (s.most == 255 || s.most < GB_SPLIT_LEAST)
        return GB_SPLIT_SPECIAL;
    return s.most - s.least > GB_SPLIT_SPAN ? GB_SPLIT_WIDE : 0;
}

GB_INLINE float gb_power(int biased)
{
    const uint32_t bits = (uint32_t)biased << 23;
    float x;

    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^s that brings the largest element to [2^14, 2^15), and 2^-s; 1 where there is none. */
GB_INLINE int gb_span_scaled(gb_span s)
{
    return s.most < GB_SPLIT_LEAST || s.most == 255 ? 127 + 14 : s.most;
}

GB_INLINE float gb_span_scale(gb_span s)
{
    return gb_power(127 + 127 + 14 - gb_span_scaled(s));
}

GB_INLINE float gb_span_unscale(gb_span s)
{
    return gb_power(gb_span_scaled(s) - 14);
}

/* Exact but for the last rounding: what is left of x by its first part has at most 13 bits fewer
 * than x, and powers of two cost nothing. */
GB_INLINE void gb_split(float x, gb_span s, uint16_t &high, uint16_t &low)
{
    const float scaled = x * gb_span_scale(s);
    gb_f16 h, l;

    gb_from_f32(scaled, h);
    gb_from_f32((scaled - gb_to_f32(h)) * 2048, l);
    high = h.bits;
    low = l.bits;
}

#endif
