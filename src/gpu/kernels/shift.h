/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors from any address: out of the two aligned ones that they lie in. */
#ifndef GB_SHIFT_H
#define GB_SHIFT_H

#include "seam.h"

/* The 16 bytes that begin `skip` bytes, a number under 16, on in two vectors. */
GB_INLINE void gb_shift_words(uint32_t (&out)[4], const uint32_t (&in)[8], int skip)
{
    const bool two = skip & 8, one = skip & 4;
    const int bits = (skip & 3) * 8;
    uint32_t w[6], v[5];

    GB_UNROLL
    for (int i = 0; i < 6; i++)
        w[i] = two ? in[i + 2] : in[i];
    GB_UNROLL
    for (int i = 0; i < 5; i++)
        v[i] = one ? w[i + 1] : w[i];
    GB_UNROLL
    for (int i = 0; i < 4; i++)
        out[i] = (uint32_t)(((uint64_t)v[i + 1] << 32 | v[i]) >> bits);
}

GB_INLINE Vec<uint32_t, 4> gb_shift_vectors(const Vec<uint32_t, 4> (&in)[2], int skip)
{
    Vec<uint32_t, 4> v;
    uint32_t w[8];

    GB_UNROLL
    for (int i = 0; i < 8; i++)
        w[i] = in[i / 4].at[i % 4];
    gb_shift_words(v.at, w, skip);
    return v;
}

#endif
