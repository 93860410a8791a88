/* SPDX-License-Identifier: BSD-3-Clause */
/* Small pure helpers: overflow-checked sizes, rounding, narrowing. */
#ifndef GB_UTIL_H
#define GB_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define GB_STR_(x) #x
#define GB_STR(x) GB_STR_(x)

static inline int64_t gb_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gb_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t gb_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* b > 0 */
static inline int64_t gb_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t gb_round_up(int64_t a, int64_t to)
{
    return gb_ceil_div(a, to) * to;
}

/* FNV-1a of 64 bits; begins with GB_HASH_START, and goes on with what it answered. */
#define GB_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t gb_hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)data;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* The same of a number, whatever order its bytes have here. */
static inline uint64_t gb_hash_number(uint64_t h, uint64_t x)
{
    for (int i = 0; i < 64; i += 8)
        h = (h ^ (x >> i & 0xff)) * UINT64_C(0x100000001b3);
    return h;
}

/* *out = a * b * c unless that overflows size_t; out is written only on success. */
static inline bool gb_mul3(size_t a, size_t b, size_t c, size_t *out)
{
    size_t x;

    if (__builtin_mul_overflow(a, b, &x) || __builtin_mul_overflow(x, c, &x))
        return false;
    *out = x;
    return true;
}

#endif
