/* SPDX-License-Identifier: BSD-3-Clause */
/* Residues of integers, and integers from their residues: arithmetic that kernels do, and that a
 * test does on the host. */
#ifndef GB_RESIDUE_MATH_H
#define GB_RESIDUE_MATH_H

#include <string.h>

#include "hostdev.h"
#include "residue_args.h"

/* 2^exponent, a normal number. */
GB_HD double gb_residue_power(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x modulo p, of the smallest magnitude, whatever x is. */
GB_HD int32_t gb_residue_of(int32_t x, const struct gb_modulus *by)
{
    const int64_t q = ((int64_t)x * by->inverse + ((int64_t)1 << 37)) >> 38;

    return (int32_t)((uint32_t)x - (uint32_t)q * (uint32_t)by->p);
}

/* v modulo p, |v| at most 2^62 and a little, by its digits. */
GB_HD int32_t gb_residue_of_long(int64_t v, const struct gb_digits *digits,
                                 const struct gb_modulus *by)
{
    const int32_t x = (int32_t)(v & 0xffff) * digits->of[0] +
                      (int32_t)(v >> 16 & 0xffff) * digits->of[1] +
                      (int32_t)(v >> 32 & 0xffff) * digits->of[2] +
                      (int32_t)(v >> 48) * digits->of[3];

    return gb_residue_of(x, by);
}

GB_HD int gb_residue_leading_zeros(uint64_t x)
{
#if defined(__CUDA_ARCH__)
    return __clzll((long long)x);
#else
    return __builtin_clzll(x);
#endif
}

/* The number of 128 bits, two's complement, rounded once. */
GB_HD double gb_residue_round(uint64_t low, uint64_t high)
{
    const bool negative = high >> 63;
    double x;

    if (negative) {
        low = 0 - low;
        high = ~high + (low == 0);
    }
    if (high == 0) {
        x = (double)low;
    } else {
        const int n = gb_residue_leading_zeros(high);

        if (n > 0)
            high = high << n | low >> (64 - n);
        x = (double)(high | (low << n != 0)) * gb_residue_power(64 - n);
    }
    return negative ? -x : x;
}

/* What is summed for a number, and what it is: by gb_residue_add() of each residue plus 128. */
struct gb_residue_sum {
    uint64_t word[4];
    float share;
};

GB_HD void gb_residue_add(struct gb_residue_sum *sum, uint32_t r,
                          const struct gb_wide *of, float part)
{
    for (int w = 0; w < 4; w++)
        sum->word[w] += (uint64_t)r * of->word[w];
    sum->share += (float)r * part;
}

GB_HD double gb_residue_sum_of(struct gb_residue_sum *sum, const struct gb_joining *by)
{
    const uint32_t z = (uint32_t)(sum->share - by->share + 16.5f);
    uint64_t low, high;

    for (int w = 0; w < 4; w++)
        sum->word[w] += (uint64_t)z * by->minus_p.word[w];
    low = sum->word[0] + (sum->word[1] << 32);
    high = (sum->word[1] >> 32) + sum->word[2] + (sum->word[3] << 32) +
           (low < sum->word[0]);
    low += by->constant[0];
    high += by->constant[1] + (low < by->constant[0]);
    return gb_residue_round(low, high);
}

#endif
