/* SPDX-License-Identifier: BSD-3-Clause */
/* fp16 and bf16 as bits: exact to f32, and back rounded once, to nearest even,
 * denormals and infinities kept. No NaN turns into a number. */
#ifndef GB_HALF_H
#define GB_HALF_H

#include <stdint.h>
#include <string.h>

static inline float gb_bits_to_f32(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t gb_f32_to_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float gb_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    float f;

    if (rest >= 0x7c00) /* Inf, NaN */
        return gb_bits_to_f32(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400)
        return gb_bits_to_f32(sign | ((rest << 13) + ((127 - 15) << 23)));
    f = (float)rest * 0x1p-24f; /* zero and denormals: exact */
    return sign ? -f : f;
}

static inline uint16_t gb_f32_to_f16(float f)
{
    uint32_t bits = gb_f32_to_bits(f), sign = bits >> 16 & 0x8000,
             rest = bits & 0x7fffffff;

    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (rest <
        0x38800000) { /* below 2^-14: let the addition round to multiples of 2^-24 */
        uint32_t half = gb_f32_to_bits(gb_bits_to_f32(rest) + 0.5f) - 0x3f000000;

        return (uint16_t)(sign | half);
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest >> 13) - ((127 - 15) << 10)));
}

static inline float gb_bf16_to_f32(uint16_t h)
{
    return gb_bits_to_f32((uint32_t)h << 16);
}

static inline uint16_t gb_f32_to_bf16(float f)
{
    uint32_t bits = gb_f32_to_bits(f);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
