/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions over a warp, and floats as the bits that they are. */
#ifndef GB_WARP_H
#define GB_WARP_H

#include "seam.h"

#if GB_SEAM_CUDA

GB_INLINE uint32_t gb_warp_most(uint32_t x)
{
    return __reduce_max_sync(0xffffffff, x);
}

GB_INLINE int gb_warp_total(int x)
{
    return (int)__reduce_add_sync(0xffffffff, (unsigned)x);
}

/* In an order that is always the same. */
GB_INLINE float gb_warp_sum(float x)
{
    GB_UNROLL
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xffffffff, x, mask);
    return x;
}

#else

static void gb_host_most(void *const *lanes)
{
    uint32_t most = 0;

    for (int l = 0; l < GB_LANES; l++)
        if (*static_cast<uint32_t *>(lanes[l]) > most)
            most = *static_cast<uint32_t *>(lanes[l]);
    for (int l = 0; l < GB_LANES; l++)
        *static_cast<uint32_t *>(lanes[l]) = most;
}

GB_INLINE uint32_t gb_warp_most(uint32_t x, int line = __builtin_LINE())
{
    gb_fiber_warp(line, &x, gb_host_most);
    return x;
}

static void gb_host_total(void *const *lanes)
{
    int sum = 0;

    for (int l = 0; l < GB_LANES; l++)
        sum += *static_cast<int *>(lanes[l]);
    for (int l = 0; l < GB_LANES; l++)
        *static_cast<int *>(lanes[l]) = sum;
}

GB_INLINE int gb_warp_total(int x, int line = __builtin_LINE())
{
    gb_fiber_warp(line, &x, gb_host_total);
    return x;
}

static void gb_host_sum(void *const *lanes)
{
    float sum[GB_LANES];

    for (int l = 0; l < GB_LANES; l++)
        sum[l] = *static_cast<float *>(lanes[l]);
    for (int mask = GB_LANES / 2; mask > 0; mask /= 2) {
        float old[GB_LANES];

        __builtin_memcpy(old, sum, sizeof old);
        for (int l = 0; l < GB_LANES; l++)
            sum[l] = old[l] + old[l ^ mask];
    }
    for (int l = 0; l < GB_LANES; l++)
        *static_cast<float *>(lanes[l]) = sum[l];
}

GB_INLINE float gb_warp_sum(float x, int line = __builtin_LINE())
{
    gb_fiber_warp(line, &x, gb_host_sum);
    return x;
}

#endif

GB_INLINE uint32_t gb_warp_least(uint32_t x)
{
    return ~gb_warp_most(~x);
}

GB_INLINE uint32_t gb_bits(float x)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

GB_INLINE float gb_float(uint32_t bits)
{
    float x;

    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

GB_INLINE float gb_power(int exponent)
{
    return gb_float((uint32_t)(exponent + 127) << 23);
}

#endif
