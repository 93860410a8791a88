/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory by its own addresses; on the host, by pointers as numbers.
 *
 *   gb_shared_at, gb_shared_of(pointer)    an address, as a number
 *   gb_copy<BYTES>(to, from[, valid])      4, 8 or 16 bytes from global memory, asynchronous;
 *                                          zeros past `valid`, of which 0 reads nothing
 *   gb_get_shared(x, at)                   a double, or a vector of 16 bytes */
#ifndef GB_SHARED_MEMORY_H
#define GB_SHARED_MEMORY_H

#include "seam.h"

#if GB_SEAM_CUDA

typedef uint32_t gb_shared_at;

GB_INLINE gb_shared_at gb_shared_of(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Of 16 bytes L1 keeps none: no other block wants them from there. */
template <int BYTES>
GB_INLINE void gb_copy(gb_shared_at to, const void *from)
{
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
                     "n"(BYTES)
                     : "memory");
}

template <int BYTES>
GB_INLINE void gb_copy(gb_shared_at to, const void *from, int valid)
{
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                     "l"(from), "r"(valid)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                     "l"(from), "n"(BYTES), "r"(valid)
                     : "memory");
}

GB_INLINE void gb_get_shared(double &x, gb_shared_at at)
{
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(at) : "memory");
}

GB_INLINE void gb_get_shared(gb_c64 &x, gb_shared_at at)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                 : "=d"(x.re), "=d"(x.im)
                 : "r"(at)
                 : "memory");
}

GB_INLINE void gb_get_shared(Vec<float, 4> &x, gb_shared_at at)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.at[0]), "=f"(x.at[1]), "=f"(x.at[2]), "=f"(x.at[3])
                 : "r"(at)
                 : "memory");
}

GB_INLINE void gb_get_shared(Vec<gb_c32, 2> &x, gb_shared_at at)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.at[0].re), "=f"(x.at[0].im), "=f"(x.at[1].re),
                   "=f"(x.at[1].im)
                 : "r"(at)
                 : "memory");
}

#elif GB_SEAM_HOST

typedef uintptr_t gb_shared_at;

GB_INLINE gb_shared_at gb_shared_of(const void *p)
{
    return reinterpret_cast<uintptr_t>(p);
}

template <int BYTES>
GB_INLINE void gb_copy(gb_shared_at to, const void *from, int valid = BYTES)
{
    gb_fiber_copy(reinterpret_cast<void *>(to), from, BYTES, (uint32_t)valid);
}

template <class T>
GB_INLINE void gb_get_shared(T &x, gb_shared_at at)
{
    __builtin_memcpy(&x, reinterpret_cast<const void *>(at), sizeof x);
}

#endif
#endif
