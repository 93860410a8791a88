/* SPDX-License-Identifier: BSD-3-Clause */
/* fp16 and bf16 as bits: exact to f32, and back rounded once, to nearest even, denormals
 * and infinities kept. No NaN turns into a number. By integer arithmetic, on the host and
 * in kernels: no rounding or flush mode of the caller has a say. */
#ifndef GB_HALF_H
#define GB_HALF_H

#include <stdint.h>

#include "hostdev.h"

GB_HD float gb_bits_to_f32(uint32_t bits)
{
    float f;

    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}

GB_HD uint32_t gb_f32_to_bits(float f)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &f, sizeof bits);
    return bits;
}

GB_HD float gb_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t magnitude = h & 0x7fff;
    uint32_t normal = (magnitude << 13) + ((127 - 15) << 23);
    uint32_t small = gb_f32_to_bits((float)(int)magnitude * 0x1p-24f);
    uint32_t special = magnitude << 13 | 0x7f800000;

    return gb_bits_to_f32(sign | (magnitude < 0x0400   ? small
                                  : magnitude < 0x7c00 ? normal
                                                       : special));
}

GB_HD uint16_t gb_f32_to_f16(float f)
{
    uint32_t bits = gb_f32_to_bits(f);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t kept, lost, half;

    if (magnitude > 0x7f800000) /* NaN: the top of its payload, quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x03ff));
    if (magnitude >= 0x477ff000) /* halfway between 65504 and 65536 rounds away */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) { /* 2^-14 and above: normal */
        kept = (magnitude - ((127 - 15) << 23)) >> 13;
        lost = magnitude & 0x1fff;
        half = 0x1000;
    } else if (magnitude >= 0x33000000) { /* at least half of the least denormal */
        uint32_t shift = 126 - (magnitude >> 23);
        uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;

        kept = mantissa >> shift;
        lost = mantissa & ((1u << shift) - 1);
        half = 1u << (shift - 1);
    } else {
        return (uint16_t)sign;
    }
    kept += lost > half || (lost == half && (kept & 1));
    return (uint16_t)(sign | kept);
}

GB_HD float gb_bf16_to_f32(uint16_t h)
{
    return gb_bits_to_f32((uint32_t)h << 16);
}

GB_HD uint16_t gb_f32_to_bf16(float f)
{
    uint32_t bits = gb_f32_to_bits(f);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x0040);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
